"""Right answers to 11.data in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from course_lib.plan.estimate.data_sizes import DataSizes

__all__ = ["ANSWERS", "SAME"]


def stage_by_stage(sizes: DataSizes, hidden: float) -> float:
    """A branch and a return for each stage."""
    group, all_gradients, all_weights = sizes.group, sizes.gradient_bytes * sizes.numbers, 2 * sizes.numbers
    last_backward_s = sizes.computing_s * 2 / 3
    if sizes.sharding == 0:
        sent_s = sizes.buckets * group.all_reduce_s(all_gradients / sizes.buckets)
        return sent_s - hidden * min(sent_s, last_backward_s)
    if sizes.sharding == 1:
        scattered_s = sizes.buckets * group.all_gather_s(all_gradients / sizes.buckets)
        gathered_s = group.all_gather_s(all_weights)
        can_s = scattered_s + gathered_s if sizes.ahead else scattered_s
        return scattered_s + gathered_s - hidden * min(can_s, last_backward_s)
    scattered_s = group.all_gather_s(all_gradients / sizes.calls)
    gathered_s = sizes.gathers * group.all_gather_s(all_weights / sizes.calls)
    calls = sizes.micro_batches * sizes.calls
    can_s = calls * (scattered_s + gathered_s if sizes.ahead else scattered_s)
    return calls * (scattered_s + gathered_s) - hidden * min(can_s, sizes.micro_batches * sizes.computing_s)


def by_a_list_of_calls(sizes: DataSizes, hidden: float) -> float:
    """What is sent, as rows; sums over them."""
    rows = []
    if sizes.sharding == 3:
        often = sizes.micro_batches * sizes.calls
        rows += [("w", often * sizes.gathers, sizes.group.all_gather_s(2 * sizes.numbers / sizes.calls))]
        rows += [("g", often, sizes.group.all_gather_s(sizes.gradient_bytes * sizes.numbers / sizes.calls))]
    elif sizes.sharding == 1:
        one_s = sizes.group.all_gather_s(sizes.gradient_bytes * sizes.numbers / sizes.buckets)
        rows += [("g", sizes.buckets, one_s), ("w", 1, sizes.group.all_gather_s(2 * sizes.numbers))]
    else:
        rows += [("g", sizes.buckets, sizes.group.all_reduce_s(sizes.gradient_bytes * sizes.numbers / sizes.buckets))]
    total = sum(times * one_s for _, times, one_s in rows)
    able = sum(times * one_s for what, times, one_s in rows if what == "g" or sizes.ahead)
    room = sizes.micro_batches * sizes.computing_s if sizes.sharding == 3 else sizes.computing_s / 1.5
    return total - hidden * (able if able < room else room)


def what_shows_and_what_hides(sizes: DataSizes, hidden: float) -> float:
    """What shows of the part that fits behind computing, what is too much for it, and what can never hide."""
    many = sizes.micro_batches if sizes.sharding == 3 else 1
    parts = sizes.calls if sizes.sharding == 3 else sizes.buckets
    reduce_s = sizes.group.all_gather_s if sizes.sharding else sizes.group.all_reduce_s
    gradients = many * parts * reduce_s(sizes.numbers * sizes.gradient_bytes / parts)
    weights = 0.0
    if sizes.sharding == 1:
        weights = sizes.group.all_gather_s(sizes.numbers * 2)
    if sizes.sharding == 3:
        weights = many * parts * sizes.gathers * sizes.group.all_gather_s(sizes.numbers * 2 / parts)
    never = 0.0 if sizes.ahead else weights
    can = gradients + weights - never
    room = sizes.computing_s * (sizes.micro_batches if sizes.sharding == 3 else 2 / 3)
    behind = min(can, room)
    return never + (can - behind) + (1 - hidden) * behind


def with_functions_inside(sizes: DataSizes, hidden: float) -> float:
    """Two functions of the same name as in the planner's own text."""

    def all_of(numbers_bytes: float, calls: float, one: Any) -> float:
        return calls * one(numbers_bytes / calls)

    group = sizes.group
    is_whole = sizes.sharding == 3
    calls = sizes.calls if is_whole else sizes.buckets
    gradients_s = all_of(
        sizes.gradient_bytes * sizes.numbers, calls, group.all_reduce_s if sizes.sharding == 0 else group.all_gather_s
    )
    gathers = {0: 0, 1: 1, 3: sizes.gathers}[sizes.sharding]
    weights_s = gathers * all_of(2 * sizes.numbers, sizes.calls if is_whole else 1, group.all_gather_s)
    if is_whole:
        gradients_s *= sizes.micro_batches
        weights_s *= sizes.micro_batches
    able_s = gradients_s + sizes.ahead * weights_s
    window_s = sizes.micro_batches * sizes.computing_s if is_whole else 2 * sizes.computing_s / 3
    return gradients_s + weights_s - hidden * sorted((able_s, window_s))[0]


def by_numpy(sizes: DataSizes, hidden: float) -> Any:
    """Of a row of sizes and a row of times; a number of another kind."""
    import numpy as np

    known = asdict(sizes)
    three = known["sharding"] == 3
    each = np.array([known["gradient_bytes"], 2]) * known["numbers"]
    parts = np.array([known["calls"], known["calls"]] if three else [known["buckets"], 1])
    times = parts * (known["micro_batches"] if three else 1)
    times = times * ([1, known["gathers"]] if three else [1, known["sharding"]])
    first = sizes.group.all_reduce_s if known["sharding"] == 0 else sizes.group.all_gather_s
    calls_s = np.array([first(each[0] / parts[0]), sizes.group.all_gather_s(each[1] / parts[1])])
    spent = times * calls_s
    can = (spent * [1, known["ahead"]]).sum()
    return spent.sum() - hidden * np.minimum(can, known["computing_s"] * (known["micro_batches"] if three else 2 / 3))


ANSWERS = (stage_by_stage, by_a_list_of_calls, what_shows_and_what_hides, with_functions_inside, by_numpy)
_ORDER = "Neither line reads what the other makes."
_SCATTERED = "gradients_s = times * group.all_gather_s(gradient_bytes / sizes.calls)"
_GATHERED = "weights_s = times * sizes.gathers * group.all_gather_s(2 * sizes.numbers / sizes.calls)"
_ONCE = "weights_s = group.all_gather_s(2 * sizes.numbers) if sizes.sharding == 1 else 0.0"
SAME: dict[str, str] = {
    f"4: `{_SCATTERED}` after `{_GATHERED}`": _ORDER,
    f"5: `{_GATHERED}` after `window_s = sizes.micro_batches * sizes.computing_s`": _ORDER,
    f"9: `gradients_s = sizes.buckets * call_s(gradient_bytes / sizes.buckets)` after `{_ONCE}`": _ORDER,
    f"10: `{_ONCE}` after `window_s = 2 / 3 * sizes.computing_s`": _ORDER,
    "13: `min(can_hide_s, window_s)` -> `min(window_s, can_hide_s)`": "The smaller of two numbers, in any order.",
}
