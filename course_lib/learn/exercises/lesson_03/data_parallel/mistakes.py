"""How wrong answers to the build of lesson 03 are told from each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_03.data_parallel.report import DataParallelReport
from course_lib.learn.exercises.lesson_03.data_parallel.run import inputs_of, loss_of
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.report import Recogniser, differing, only_wrong, reports

__all__ = [
    "buffers_as_before",
    "copied_as_many",
    "every",
    "fails_in",
    "first_has_copies",
    "first_says",
    "gradients_of_the_first_part",
    "gradients_times",
    "has_new_parameters",
    "idle_devices_alone",
    "is_dealt_out",
    "is_first_part",
    "is_permuted",
    "later_steps_are_wrong",
    "loses_failures",
    "output_is",
    "rows_are",
    "says",
    "scalars_became_one",
    "shows",
    "unused_got_zeros",
    "wrong",
]

_close = close_to(1e-9, 1e-11)


def wrong(evidence: Evidence, fact: str) -> Iterator[tuple[AnswerOutcome, DataParallelReport]]:
    """The outcomes in which this fact is demanded and is not as expected."""
    for outcome, got in reports(evidence, DataParallelReport):
        if fact in differing(outcome):
            yield outcome, got


def says(fact: str, *words: str) -> Recogniser:
    """Whether this fact is wrong somewhere, in these words."""
    return lambda evidence: any(
        all(word in str(getattr(got, fact)) for word in words) for _, got in wrong(evidence, fact)
    )


def every(fact: str, words: str) -> Recogniser:
    """Whether this fact is these words wherever it is wrong."""

    def recognise(evidence: Evidence) -> bool:
        found = [str(getattr(got, fact)) for _, got in wrong(evidence, fact)]
        return bool(found) and all(one == words for one in found)

    return recognise


def first_says(fact: str, *words: str) -> Recogniser:
    """Whether this fact, where it is wrong first, reads so: later cases need not wait as long."""

    def recognise(evidence: Evidence) -> bool:
        first = next((str(getattr(got, fact)) for _, got in wrong(evidence, fact)), "")
        return bool(first) and all(word in first for word in words)

    return recognise


def shows(fact: str) -> Callable[[AnswerOutcome], bool]:
    """The outcome to be shown: one in which this fact is wrong."""
    return lambda outcome: fact in differing(outcome) and outcome.error is None


# -- rows and outputs ---------------------------------------------------------------------------------------------


def rows_are(cut: Callable[[int, int], list[int]]) -> Recogniser:
    """Whether the devices computed ``cut(rows, num_devices)`` wherever their rows are wrong."""

    def recognise(evidence: Evidence) -> bool:
        found = [got for _, got in wrong(evidence, "rows")]
        return bool(found) and all(
            list(got.rows) == sorted(cut(got.run.rows, got.run.num_devices), reverse=True) for got in found
        )

    return recognise


def output_is(holds: Callable[[Any], bool]) -> Recogniser:
    """Whether an output of this kind came wherever it is wrong."""

    def recognise(evidence: Evidence) -> bool:
        found = [got.output for _, got in wrong(evidence, "output")]
        return evidence.error is None and bool(found) and all(map(holds, found))

    return recognise


def fails_in(*cases: str, also: tuple[str, ...] = ()) -> Recogniser:
    """Whether something is wrong in one of these cases, and nothing in any other; but in those of ``also`` it may."""

    def recognise(evidence: Evidence) -> bool:
        found = {outcome.case for outcome in evidence.wrong if differing(outcome)}
        return bool(found & {*cases}) and found <= {*cases, *also}

    return recognise


def is_permuted(evidence: Evidence) -> bool:
    """Whether the right rows came, in another order."""
    found = [(outcome.expected.output, got.output) for outcome, got in wrong(evidence, "output")]
    found = [(want, got) for want, got in found if isinstance(want, Tensor)]
    return bool(found) and all(
        isinstance(got, Tensor) and got.shape == want.shape and torch.allclose(_sorted(want), _sorted(got))
        for want, got in found
    )


def is_dealt_out(evidence: Evidence) -> bool:
    """Whether the rows came as they are dealt out to devices: 0, n, 2n, ..., then 1, n + 1, ..."""
    found = [(outcome.expected.output, got) for outcome, got in wrong(evidence, "output")]
    found = [(want, got) for want, got in found if isinstance(want, Tensor)]

    def dealt(want: Tensor, got: DataParallelReport) -> Tensor:
        return torch.cat([want[r :: got.run.num_devices] for r in range(got.run.num_devices)])

    return bool(found) and all(
        isinstance(got.output, Tensor) and not _close(dealt(want, got), got.output) for want, got in found
    )


def scalars_became_one(evidence: Evidence) -> bool:
    """Whether nothing is wrong but that a scalar came where a vector is asked for."""
    found = [(outcome.expected.output, got.output) for outcome, got in wrong(evidence, "output")]
    return bool(found) and all(
        isinstance(want, dict)
        and isinstance(got, dict)
        and want.keys() == got.keys()
        and isinstance(got["loss"], Tensor)
        and not got["loss"].dim()
        and not _close({**want, "loss": 0}, {**got, "loss": 0})
        for want, got in found
    )


def is_first_part(evidence: Evidence) -> bool:
    """Whether the rows of the first device came, and no others."""
    found = [(outcome.expected.output, got) for outcome, got in wrong(evidence, "output")]
    found = [(want, got) for want, got in found if isinstance(want, Tensor)]
    return bool(found) and all(
        isinstance(got.output, Tensor) and not _close(want[: got.run.rows_each], got.output) for want, got in found
    )


def _sorted(rows: Tensor) -> Tensor:
    return rows[rows[:, 0].argsort()] if rows.dim() == 2 else rows.flatten().sort().values


# -- gradients ----------------------------------------------------------------------------------------------------


def gradients_of_the_first_part(evidence: Evidence) -> bool:
    """Whether gradients are missing, or those of the first part, of outputs that are right."""
    if any(True for fact in ("output", "modes") for _ in wrong(evidence, fact)) or unused_got_zeros(evidence):
        return False
    found = [got for _, got in wrong(evidence, "grads")]
    return bool(found) and all(got.leaf == "nothing" and _has_first_part_alone(got) for got in found)


def _has_first_part_alone(got: DataParallelReport) -> bool:
    if all(isinstance(grad, str) for grad in got.grads.values()):
        return True
    if got.run.kind == "nested" or not isinstance(got.output, Tensor):
        return False
    model, (args, kwargs) = got.run.model(), inputs_of(got.run, got.run.rows)
    loss_of(model(*(x[: got.run.rows_each] for x in args), **kwargs)).backward()
    first = {name: "none" if p.grad is None else p.grad for name, p in model.named_parameters()}
    return not _close(first, got.grads)


def has_new_parameters(evidence: Evidence) -> bool:
    return any(got.leaf != "nothing" for _, got in wrong(evidence, "grads"))


def later_steps_are_wrong(evidence: Evidence) -> bool:
    """Whether the weights are wrong after more steps, and nothing before it but what is held."""
    return any(True for _ in wrong(evidence, "weights")) and only_wrong("weights", "held", "earlier")(evidence)


def gradients_times(factor: Callable[[int], float]) -> Recogniser:
    """Whether the gradients are right but for this factor, a function of how many parts there are."""

    def recognise(evidence: Evidence) -> bool:
        found = list(wrong(evidence, "grads"))
        return bool(found) and all(
            not _close(
                {name: _times(grad, factor(got.run.num_parts)) for name, grad in outcome.expected.grads.items()},
                got.grads,
            )
            for outcome, got in found
        )

    return recognise


def _times(grad: Any, factor: float) -> Any:
    return grad * factor if isinstance(grad, Tensor) else grad


def unused_got_zeros(evidence: Evidence) -> bool:
    """Whether parameters that nobody used have a gradient of zeros, and nothing else is wrong with gradients."""
    found = list(wrong(evidence, "grads"))

    def is_so(want: Any, have: Any) -> bool:
        if isinstance(want, str):
            return isinstance(have, str) or not have.any()
        return not _close(want, have)

    return bool(found) and all(
        is_so(want, got.grads.get(name)) for outcome, got in found for name, want in outcome.expected.grads.items()
    )


# -- memory, buffers ----------------------------------------------------------------------------------------------


def copied_as_many(models: Callable[[int], float], fact: str = "copied") -> Recogniser:
    """Whether at least so many models were copied, a function of how many parts there are, wherever it is wrong."""

    def recognise(evidence: Evidence) -> bool:
        found = [got for _, got in wrong(evidence, fact)]
        return bool(found) and all(got.made_bytes >= models(got.run.num_parts) * got.model_bytes for got in found)

    return recognise


def first_has_copies(evidence: Evidence) -> bool:
    """Whether replica 0 had weights in memory of its own, wherever too much is copied."""
    found = [got for _, got in wrong(evidence, "copied")]
    return bool(found) and all(got.first_is_copied for got in found) and only_wrong("copied", "held")(evidence)


def idle_devices_alone(evidence: Evidence) -> bool:
    """Whether too much is copied where a device is idle, and nowhere else."""
    found = [got for _, got in wrong(evidence, "copied")]
    return bool(found) and all(got.run.num_parts < got.run.num_devices for got in found)


def buffers_as_before(evidence: Evidence) -> bool:
    """Whether the module's buffers did not move wherever they are wrong, and its mode was the right one."""
    if any(True for _ in wrong(evidence, "training")):
        return False
    found = [got for _, got in wrong(evidence, "buffers")]
    return bool(found) and not any(_close(got.initial, got.buffers) for got in found)


# -- threads ------------------------------------------------------------------------------------------------------


def loses_failures(evidence: Evidence) -> bool:
    """Whether a replica failed, and the caller was told nothing, or of a later error that came of it."""
    lost = [one for one in evidence.wrong if one.error is None and getattr(one.got, "told", "") == "nothing"]
    ended = [one for one in evidence.wrong if one.error is not None and "fail" in one.case]
    return any("told" in differing(one) for one in lost) or (bool(ended) and len(ended) == len(evidence.wrong))
