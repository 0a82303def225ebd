"""07.sync: pipelines side by side, whose gradients are averaged once for a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.base.text import counted
from course_lib.learn.catalogue.exercise import AnswerOutcome, Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_07.sync.trial import LAYOUTS, RightSync, SyncSeen, right_step, try_step
from course_lib.learn.exercises.lesson_07.told import ExplainedEvidence
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.judge import by_trial

__all__ = ["SYNC"]

_ROOM = 1.6  # an all-reduce in two halves, a reduce and a broadcast, a loss that travels along: all of these pass
_exact, _rounded = close_to(1e-9, 1e-12), close_to(1e-4, 1e-6)


def _close(want: Any, have: Any) -> str:
    return (_rounded if want.dtype == torch.float32 else _exact)(want, have)


def _compare(right: Any, got: Any) -> str:
    """Steps, then what was changed, the gradients, calls in flight, and last what was sent."""
    if not isinstance(right, RightSync) or not isinstance(got, SyncSeen):
        return "" if right == got else "the answers differ"
    for number, steps in enumerate(got.steps):
        if steps != 1:
            return f"batch {number} took `step()` {counted(steps, 'time')}, where one is asked for"
    for note in got.notes:
        return note
    for number, (want, have) in enumerate(zip(right.gradients, got.gradients, strict=False)):
        for name in want:
            found = _close(want[name], have[name]) if name in have else "there is none"
            if found:
                return f"the gradient of `{name}`, batch {number}: {found}"
    if got.unfinished:
        calls = counted(got.unfinished, "call")
        return f"{calls} that you started had no result yet when your function returned: nobody waited"
    return _too_much(right, got)


def _all_reduce(right: RightSync) -> float:
    """What a rank sends in one all-reduce of its gradients, in sizes of them."""
    n = right.layout.num_pipelines
    return 2 * (n - 1) / n


def _too_much(right: RightSync, got: SyncSeen) -> str:
    """The limit: each rank hands its gradients to every other of its group once, which for two is an all-reduce."""
    sent = max(got.sent)
    if sent <= _ROOM * (right.layout.num_pipelines - 1):
        return ""
    return (
        f"the gradients are right, and this rank sent {sent:.1f} times their size in a step; one all-reduce of them "
        f"sends {_all_reduce(right):.1f}, one all-gather {right.layout.num_pipelines - 1}"
        + ("; as objects they are pickled, which adds bytes of its own: send the tensors" if got.pickled else "")
    )


def _judge(answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
    """The layouts one after the other; those after a failure are left out."""
    outcomes: list[AnswerOutcome] = []
    called: set[str] = set()
    for label, layout in LAYOUTS.items():
        on_ranks = by_trial(
            (layout.world_size,),
            (Case(label, (layout,), right_step(layout)),),
            try_step,
            compare=_compare,
            makes_groups=True,
        )
        evidence = on_ranks(answer, forbidden)
        outcomes += evidence.outcomes
        called.update(evidence.called)
        if evidence.error is not None:
            break
    return Evidence(tuple(outcomes), answer=answer, called=tuple(sorted(called)))


_judge.world_sizes = tuple(layout.world_size for layout in LAYOUTS.values())  # type: ignore[attr-defined]


# -- what wrong answers show --------------------------------------------------------------------------------------


Pair = Callable[[RightSync, SyncSeen], bool]


def _everywhere(*checks: Pair) -> Callable[[Evidence], bool]:
    """All of this holds on every rank of every layout, and nothing was raised."""

    def recognise(evidence: Evidence) -> bool:
        pairs = [(o.expected, o.got) for o in evidence.outcomes]
        return evidence.error is None and all(check(*pair) for pair in pairs for check in checks)

    return recognise


def _somewhere(check: Pair) -> Callable[[Evidence], bool]:
    return lambda evidence: any(check(o.expected, o.got) for o in evidence.outcomes if o.error is None)


def _one_step(right: RightSync, got: SyncSeen) -> bool:
    return not got.notes and all(steps == 1 for steps in got.steps)


def _are(which: str, factor: Callable[[RightSync], float] = lambda right: 1.0) -> Pair:
    """The gradients are these (``gradients``, ``own`` or ``everybody``), so many times."""

    def check(right: RightSync, got: SyncSeen) -> bool:
        return all(
            want.keys() == have.keys() and not any(_close(factor(right) * want[n], have[n]) for n in want)
            for want, have in zip(getattr(right, which), got.gradients, strict=True)
        )

    return check


def _sent(times: Callable[[RightSync], float]) -> Pair:
    """In every step this rank sent so many times what one all-reduce of its gradients sends."""
    return lambda right, got: all(abs(s - times(right) * _all_reduce(right)) < 0.05 for s in got.sent)


def _all_early(right: RightSync, got: SyncSeen) -> bool:
    return got.sent_early > 0 and abs(got.sent_early - sum(got.sent)) < 1e-6


def _over_a_number(evidence: Evidence) -> bool:
    """The sum over the group, divided by the same number whatever the size of the group."""
    first = evidence.outcomes[0]
    if not isinstance(first.got, SyncSeen):
        return False
    mean, got = first.expected.gradients[0], first.got.gradients[0]
    name = max(mean, key=lambda each: float(mean[each].abs().max()))
    place = int(mean[name].abs().argmax())
    number = first.expected.layout.num_pipelines * float(mean[name].flatten()[place] / got[name].flatten()[place])
    whole = abs(number - round(number)) < 1e-6 and round(number) > 1
    share = _are("gradients", lambda right: right.layout.num_pipelines / round(number))
    return whole and _everywhere(_one_step, share)(evidence)


SYNC = Exercise(
    name="07.sync",
    title="Averaged once",
    judge=ExplainedEvidence(_judge, _compare),
    mistakes=(
        Mistake(
            "no-step",
            "Nobody took the step. Call `step()` once, with its brackets, before you ask for gradients: it runs all "
            "micro-batches there and back.",
            recognise=_somewhere(lambda right, got: 0 in got.steps),
        ),
        Mistake(
            "several-steps",
            "`step()` was called more than once, so the batch was learned more than once. One call runs all of its "
            "micro-batches.",
            recognise=_somewhere(lambda right, got: max(got.steps) > 1),
        ),
        Mistake(
            "nobody-waited",
            "The averaging was begun, and nobody waited for it. When your function returned, its result was not there "
            "yet, and the optimizer would read whatever stands in the gradients by then. What `async_op=True` gives "
            "back has a `wait()`.",
            recognise=_somewhere(lambda right, got: got.unfinished > 0),
        ),
        Mistake(
            "for-each-micro-batch",
            "The gradients are right, and they travel once for every micro-batch: four micro-batches, four times the "
            "bytes. Let them add up on their own rank, and average when `step()` has returned.",
            recognise=_everywhere(_one_step, _are("gradients"), _sent(lambda right: right.layout.num_micro_batches)),
        ),
        Mistake(
            "both",
            "The gradients are right, and they travel once for every micro-batch and once more after the step. The "
            "last of these is enough.",
            recognise=_everywhere(
                _one_step, _are("gradients"), _sent(lambda right: right.layout.num_micro_batches + 1)
            ),
        ),
        Mistake(
            "in-longer-numbers",
            "The gradients are right. In a model of float64 as many bytes travel as its gradients have, and in one of "
            "float32 twice as many. There they travel in a longer type than their own.",
            recognise=_everywhere(
                _one_step, _are("gradients"), _sent(lambda right: 2.0 if right.layout.dtype == torch.float32 else 1.0)
            ),
        ),
        Mistake(
            "too-early",
            "You average before `step()`. There is nothing in the gradients yet; each pipeline then keeps those of its "
            "own part of the batch.",
            recognise=_everywhere(_one_step, _are("own"), _all_early),
        ),
        Mistake(
            "sums",
            "You have the *sum* over the pipelines: with two of them, twice what it should be. Each pipeline's loss is "
            "the mean over *its* part of the batch; the mean over the batch is the mean of these: `dist.ReduceOp.AVG`.",
            recognise=_everywhere(_one_step, _are("gradients", lambda right: right.layout.num_pipelines)),
        ),
        Mistake(
            "divided-by-all-ranks",
            "Where a pipeline has two stages the gradients are half of what they should be: a sum over *two* ranks, "
            "divided by four. Only the ranks of `group` hold this stage; `dist.ReduceOp.AVG` counts them for you.",
            recognise=_everywhere(_one_step, _are("gradients", lambda right: 1 / right.layout.num_stages)),
        ),
        Mistake(
            "divided-by-a-number",
            "A sum over the group, divided by the same number everywhere. The number of pipelines may be another one "
            "on another day: ask the group, or let `dist.ReduceOp.AVG` count its ranks.",
            recognise=_over_a_number,
        ),
        Mistake(
            "with-everybody",
            "You average over all four ranks, and ranks 0 and 1 hold *different* stages. A rank averages with the one "
            "that holds the same stage: `group=group`.",
            recognise=_everywhere(_one_step, _are("everybody")),
        ),
        Mistake(
            "something-else",
            "As many bytes travel as should, and every gradient is still that of its own pipeline's part of the batch. "
            "So something else was averaged: the weights, which are equal already, or a copy of the gradients that "
            "nobody wrote back.",
            recognise=_everywhere(_one_step, _are("own"), _sent(lambda right: 1.0)),
        ),
        Mistake(
            "not-at-all",
            "Cheap, and wrong: nothing travels between the pipelines, so each learns from its part of the batch and "
            "they drift apart.",
            recognise=_everywhere(_one_step, _are("own"), _sent(lambda right: 0.0)),
        ),
    ),
    hints=(
        "What do the gradients on a rank hold after `step()`, and what would they hold after each of its "
        "micro-batches?",
        "No hooks. Take the step first; then go through `model.parameters()` and average each gradient over the group.",
        "step(); then for each parameter: dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)",
    ),
    forbidden=(
        "course_lib.parallel.pipeline.average_gradients",
        "course_lib.parallel.pipeline.joint_step",
        "course_lib.parallel.data.all_reduce_gradients",
        "course_lib.parallel.data.all_reduce_buckets",
        "course_lib.parallel.data.DistributedDataParallel",
        "torch.nn.parallel.DistributedDataParallel",
    ),
    passed="Every rank has the gradients of the whole batch, in float64 and in float32. No rank sent much more than "
    "its own gradients, once to every other rank of its group. It was so for one micro-batch and for four.",
)
