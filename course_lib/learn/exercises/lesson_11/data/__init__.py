"""11.data: what a step waits for on its data axis, with states that are copied, or shared out.

The term is defined in the lesson, so the judge compares numbers. The oracle below makes a list of calls, as the planner
does, and lets those hide that can.
"""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_11.data import wrong_answers
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.plan.estimate.data_sizes import DataSizes
from course_lib.plan.estimate.links import Group

__all__ = ["DATA", "JOBS", "by_the_calls"]

_NODE = Group(8, 300e9, 300e9, 1e-5)
_NODES = Group(64, 20e9, 25e9, 2e-5, 1e-5, 3.0)
_SLOW = Group(4, 2e9, 2e9, 1e-4, 5e-5, 1.0)


def _sizes(sharding: int, group: Group = _NODES, **others: Any) -> DataSizes:
    usual: dict[str, Any] = {
        "numbers": 1.1e9,
        "gradient_bytes": 4,
        "buckets": 1.0,
        "calls": 24,
        "gathers": 2,
        "micro_batches": 1.0,
        "ahead": sharding == 3,
        "computing_s": 0.7,
        "hiding_share": 0.5,
        "rest_s": 1.0,
    }
    return DataSizes(sharding=sharding, group=group, **usual | others)


JOBS: tuple[tuple[str, DataSizes, float], ...] = (
    ("copies within a node, and nothing that hides", _sizes(0, _NODE), 0.0),
    ("copies, and seven micro-batches", _sizes(0, micro_batches=7.0), 0.0),
    ("copies, their gradients in 176 buckets", _sizes(0, buckets=176.0, gradient_bytes=2), 0.0),
    ("copies, a third of what can hide hides", _sizes(0, micro_batches=3.0, computing_s=2.0), 1 / 3),
    ("copies on a slow link, of which backward hides a part", _sizes(0, _SLOW, micro_batches=4.0), 0.75),
    ("sharding 1, and nothing that hides", _sizes(1), 0.0),
    ("sharding 1, eight micro-batches, in 3.5 buckets", _sizes(1, micro_batches=8.0, buckets=3.5), 0.0),
    ("sharding 1, gradients that hide, weights that do not", _sizes(1, computing_s=5.0), 1.0),
    ("sharding 1 on a slow link", _sizes(1, _SLOW, micro_batches=2.0, buckets=2.0), 0.5),
    ("sharding 1, weights that are gathered ahead", _sizes(1, ahead=True, computing_s=9.0, micro_batches=2.0), 0.6),
    ("sharding 3, one micro-batch, and nothing that hides", _sizes(3), 0.0),
    ("sharding 3, five micro-batches", _sizes(3, micro_batches=5.0, gradient_bytes=2), 0.0),
    ("sharding 3, a call for each of 288 tensors", _sizes(3, calls=288, gradient_bytes=2, gathers=3), 0.0),
    ("sharding 3, all hides that can", _sizes(3, micro_batches=3.0, computing_s=4.0), 1.0),
    ("sharding 3, gathered ahead, on a slow link", _sizes(3, _SLOW, micro_batches=6.0), 0.8),
    (
        "sharding 3, where a layer waits for its weights",
        _sizes(3, ahead=False, micro_batches=2.0, computing_s=3.0, gathers=3),
        0.9,
    ),
    ("sharding 3, a layer waits for its weights on a slow link", _sizes(3, _SLOW, ahead=False, gradient_bytes=2), 0.4),
    ("sharding 3 within a node", _sizes(3, _NODE, micro_batches=4.0, computing_s=0.02), 0.5),
)


def by_the_calls(sizes: DataSizes, hidden: float) -> float:
    """Seconds that the step waits: each kind of call with how often it is made, what of it can hide, and where."""
    group, whole = sizes.group, sizes.numbers
    made: list[tuple[str, float, float]] = []  # what, how often in a step, seconds of one
    if sizes.sharding == 3:
        often = sizes.micro_batches * sizes.calls
        made.append(("weights", often * sizes.gathers, group.all_gather_s(2 * whole / sizes.calls)))
        made.append(("gradients", often, group.all_gather_s(sizes.gradient_bytes * whole / sizes.calls)))
        behind_s = sizes.micro_batches * sizes.computing_s
    else:
        bucket_bytes = sizes.gradient_bytes * whole / sizes.buckets
        reduce_s = group.all_reduce_s if sizes.sharding == 0 else group.all_gather_s
        made.append(("gradients", sizes.buckets, reduce_s(bucket_bytes)))
        if sizes.sharding == 1:
            made.append(("weights", 1.0, group.all_gather_s(2 * whole)))
        behind_s = sizes.computing_s * 2 / 3
    can_hide_s = sum(times * one_s for what, times, one_s in made if what == "gradients" or sizes.ahead)
    return sum(times * one_s for _, times, one_s in made) - hidden * min(can_hide_s, behind_s)


def _compare(expected: Any, got: Any) -> str:
    """Seconds to seven digits, where both are seconds."""
    said = close_to(1e-6, 1e-12)(expected, got)
    if said and isinstance(got, numbers.Real) and not isinstance(got, bool):
        return f"expected {expected:.7g} s, got {float(got):.7g} s"
    return said


DATA = Exercise(
    name="11.data",
    title="Seconds that a step waits for its data axis",
    judge=by_cases_apart(
        [Case(label, (replace(sizes), hidden), by_the_calls) for label, sizes, hidden in JOBS],
        compare=_compare,
    ),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "Write down what is sent, for each stage of sharding: which operation, how many times in a step, how many "
        "bytes in a call. Begin without what hides, as if `hidden` were 0.",
        "Sharding 0 and 1 send once a step, sharding 3 for each micro-batch. A call of sharding 3 has `sizes.numbers "
        "/ sizes.calls` numbers. Keep two sums: of gradients, and of weights. Then ask which of them can hide, and "
        "how long the computing is that can hide them.",
        "`sent_s = gradients_s + weights_s`, `can_s = sent_s if sizes.ahead else gradients_s`, and the step waits for "
        "`sent_s - hidden * min(can_s, window_s)`. With sharding 3 `window_s` is all computing of the step, else two "
        "thirds of a micro-batch's.",
    ),
    forbidden=(
        "course_lib.plan.estimate.dp_comm_time.data_axis",
        "course_lib.plan.estimate.step_time.step_parts",
        "course_lib.plan.estimate.data_sizes.data_sizes",
        "course_lib.plan.estimate.data_sizes.waits_s",
    ),
    passed="Your term has the calls, bytes and times of gradients and of weights. No more of them hides than there is "
    "computing to hide behind.",
)
