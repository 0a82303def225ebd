"""The mistakes that the exercises of lesson 14 know by name, told from the result of an attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib.learn.catalogue.exercise import Evidence, Mistake
from course_lib.learn.exercises.lesson_14.slips import losses_of
from course_lib.learn.exercises.lesson_14.wrong_runs import slipped

if TYPE_CHECKING:
    from course_lib.capstone import Result

__all__ = ["mistakes_of"]

Recognise = Callable[[Evidence], bool]
_NEAR = 1e-3  # of a loss


def _seen(by: Callable[[Result], bool]) -> Recognise:
    return lambda evidence: by(evidence.facts["result"])


def _ended_by(*words: str) -> Recognise:
    """Whether the run was ended by an error with such words."""
    return _seen(lambda result: any(word in f"{result.ended} {result.story}" for word in words))


def _losses_as(slip: str) -> Recognise:
    """Whether the losses are those of a slip on one device, and the weights are wrong."""

    def by(result: Result) -> bool:
        values = result.values
        if result.ended or values is None or values.are_equal:
            return False
        job = result.job
        forms = losses_of(job.level, job.seed, slip, len(values.losses))
        return any(_alike(values.losses, form) for form in forms)

    return _seen(by)


def _alike(got: tuple[float, ...], expected: tuple[float, ...]) -> bool:
    return all(abs(one - other) <= _NEAR * abs(other) for one, other in zip(got, expected, strict=True))


def _over_memory(result: Result) -> bool:
    return bool(result.memory and "may hold" in result.ended)


def _other_loss(result: Result) -> bool:
    """All weights right, and another loss told, by rank 0 or by another one."""
    values = result.values
    if values is None or not result.is_right:
        return False
    return not all(_alike(told, values.expected_losses) for told in (values.losses, *values.told_by_ranks))


def _of_another_shape(result: Result) -> bool:
    """And not of a block that nobody has computed: then weights are there to be compared."""
    return result.values is None and any(fault.name == "smaller model" for fault in result.faults)


def _late(result: Result) -> bool:
    """Nothing else is wrong: whoever asks has seen that something is."""
    return result.is_right


def _left_out(evidence: Evidence) -> bool:
    return any(fault.name == "smaller batch" for fault in evidence.facts["result"].faults)


_FORMS = (
    Mistake(
        "returns-nothing",
        "Your function gave nothing back. Build the object, and `return` it.",
        slipped("nothing"),
        _ended_by("'NoneType' object has no attribute 'step'"),
    ),
    Mistake(
        "no-loss",
        "`step()` gave no number back. Return the mean loss of the whole batch, as `OnMesh.step` gives it.",
        slipped("no loss"),
        _ended_by("argument must be a string or a real number, not 'NoneType'"),
    ),
    Mistake(
        "no-state",
        "`whole_state()` gave no dict on rank 0. It is called on every rank, and rank 0 returns all weights by "
        "the plain model's names; `whole_state_of` brings them together.",
        slipped("no state"),
        _ended_by("whole_state() gave a"),
    ),
    Mistake(
        "own-part-of-the-state",
        "`whole_state()` gave weights that are missing, or of another shape than the plain model's. A rank holds a "
        "part of them; on rank 0 all parts come together, whole again.",
        slipped("own part"),
        _seen(_of_another_shape),
    ),
)
_OTHER_STEPS = (
    Mistake(
        "no-update",
        "The losses stay as they are: nothing is updated. There are three usual reasons. (1) `optimizer.step()` is "
        "missing. (2) The optimizer was made of the model's parameters before the model was cut, so it holds others "
        "than those that are trained. (3) Gradients are cleared between backward and update.",
        slipped("no update"),
        _losses_as("no update"),
    ),
    Mistake(
        "gradients-kept",
        "The first step is right, and later ones use gradients of all steps before. Clear them at the beginning of "
        "each step.",
        slipped("kept"),
        _losses_as("kept"),
    ),
    Mistake(
        "another-optimizer",
        "The losses are those of an optimizer with other settings. `task.optimizer(parameters)` is the job's, and "
        "one device is trained with it, too.",
        slipped("usual AdamW"),
        lambda evidence: _losses_as("usual AdamW")(evidence) or _losses_as("SGD")(evidence),
    ),
    Mistake(
        "part-of-the-batch",
        "The losses are those of a part of the batch. Either rows were left out before they were dealt, or each data "
        "rank uses its own gradients and no mean is taken.",
        slipped("part"),
        lambda evidence: _losses_as("part")(evidence) or _left_out(evidence),
    ),
    Mistake(
        "gradients-summed",
        "The first loss is right, but then each update uses a multiple of the gradient. The gradient of the batch's "
        "mean is the mean over data ranks, each weighted by its rows.",
        slipped("summed"),
        _losses_as("summed"),
    ),
)
_OTHERWISE = (
    Mistake(
        "another-loss",
        "The weights are right, but `step()` returns another loss than that of the whole batch. Return the mean over "
        "all rows, each counted once, and the same number on every rank.",
        slipped("loss of all"),
        _seen(_other_loss),
    ),
    Mistake(
        "breaks-a-rule",
        "The result does not count, since a rule was broken; the evidence names the rule. Such numbers would look "
        "good in a report, but could not be repeated on a real cluster.",
        slipped("hidden"),
        _seen(lambda result: bool(result.faults)),
    ),
    Mistake(
        "late",
        "All is right except the time: a step takes longer than its budget. Look where ranks wait in the timeline. Is "
        "the axis that sends most within a node? Is the bubble small? Do stages have equally many blocks? Is each row "
        "computed once?",
        slipped("twice"),
        _seen(_late),
    ),
)


def mistakes_of(too_large: str) -> tuple[Mistake, ...]:
    """Of an exercise; ``too_large`` is a mesh that does not fit."""
    return (
        Mistake(
            "does-not-fit",
            "A rank held more than it may, and the run was ended there. Which part is too much? States are cut by pp, "
            "tp and dp_shard, and not by dp_replicate. Activations are those of the rows that a rank has: is the batch "
            "dealt? A stage keeps those of several micro-batches.",
            slipped("", too_large),
            _seen(_over_memory),
        ),
        *_FORMS,
        *_OTHER_STEPS,
        *_OTHERWISE,
    )
