"""Right answers to 11.step in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

from typing import Any

from course_lib.cost.mesh.layout_step import Cut, NodeShape, StepCompute
from course_lib.layouts.link import Link

__all__ = ["ALL", "SAME"]


def line_by_line(work: StepCompute, cut: Cut, nodes: NodeShape) -> float:
    """Each part with a name of its own, and a case for every axis of size 1."""
    step_s = 0.0
    slots = cut.micro_batches + (cut.pp - 1)
    part = 1 / (cut.dp * cut.micro_batches)
    compute_s = 3 * work.forward_s * part * work.layers / (cut.tp * cut.pp)
    step_s += slots * compute_s
    if cut.tp > 1:
        link = nodes.link(cut.tp, 1)
        sum_s = 2 * (cut.tp - 1) * link.time_s(work.activation_bytes * part / cut.tp)
        step_s += slots * 4 * sum_s * work.layers / cut.pp
    else:
        sum_s = 0.0
    if cut.pp > 1:
        step_s += slots * 2 * nodes.link(cut.pp, cut.dp * cut.tp).time_s(work.activation_bytes * part)
    if cut.dp > 1:
        backward_s = compute_s * 2 / 3 + 2 * sum_s * work.layers / cut.pp
        link = nodes.link(cut.dp, cut.tp)
        own_bytes = work.gradient_bytes / (cut.pp * cut.tp)
        bucket_s = 2 * (cut.dp - 1) * link.time_s(own_bytes / cut.buckets / cut.dp)
        behind_s = cut.buckets * bucket_s - backward_s * (cut.buckets - 1) / cut.buckets
        step_s += behind_s if behind_s > bucket_s else bucket_s
    return step_s


def by_a_queue(work: StepCompute, cut: Cut, nodes: NodeShape) -> float:
    """The link takes one bucket after the other, from the begin of the last backward on."""

    def ring(ranks: int, link: Link, size_bytes: float) -> float:
        return 0.0 if ranks == 1 else 2 * (ranks - 1) * link.time_s(size_bytes / ranks)

    share = cut.dp * cut.micro_batches
    activation = work.activation_bytes / share
    layer_s = work.forward_s / share / cut.tp
    total = ring(cut.tp, nodes.link(cut.tp, 1), activation)
    back_s = work.layers / cut.pp * (2 * layer_s + 2 * total)
    slot_s = work.layers / cut.pp * (layer_s + 2 * total) + back_s
    if cut.pp > 1:
        slot_s += 2 * nodes.link(cut.pp, cut.tp * cut.dp).time_s(activation)
    end_s = (cut.micro_batches + cut.pp - 1) * slot_s
    free_s = begin_s = end_s - back_s
    one_s = ring(cut.dp, nodes.link(cut.dp, cut.tp), work.gradient_bytes / cut.pp / cut.tp / cut.buckets)
    for number in range(cut.buckets):
        full_s = begin_s + back_s * (number + 1) / cut.buckets
        free_s = max(free_s, full_s) + one_s
    return max(end_s, free_s)


def by_bandwidth_and_latency(work: StepCompute, cut: Cut, nodes: NodeShape) -> float:
    """Rounds and bytes counted apart, as in the formula with alpha and beta."""

    def all_reduce(size: int, stride: int, size_bytes: float) -> float:
        link = nodes.link(size, stride)
        rounds = 2 * (size - 1)
        return rounds * link.latency_s + rounds / size * size_bytes / link.bandwidth_bytes_per_s

    parts = cut.dp * cut.micro_batches
    layers = work.layers / cut.pp
    tp_s = all_reduce(cut.tp, 1, work.activation_bytes / parts)
    forward_s = layers * (work.forward_s / parts / cut.tp + 2 * tp_s)
    backward_s = 2 * forward_s - layers * 2 * tp_s
    link = nodes.link(cut.pp, cut.tp * cut.dp)
    messages_s = 2 * (cut.pp > 1) * link.time_s(work.activation_bytes / parts)
    dp_s = all_reduce(cut.dp, cut.tp, work.gradient_bytes / (cut.pp * cut.tp * cut.buckets))
    late_s = max(dp_s, cut.buckets * dp_s - (cut.buckets - 1) * backward_s / cut.buckets)
    return (cut.micro_batches + cut.pp - 1) * (forward_s + backward_s + messages_s) + late_s


def by_parts(work: StepCompute, cut: Cut, nodes: NodeShape) -> Any:
    """A dictionary of parts, added up at the end; a number of another kind."""
    import numpy as np

    pp, dp, tp, m, k = cut.pp, cut.dp, cut.tp, cut.micro_batches, cut.buckets
    slots, rows = m + pp - 1, 1 / dp / m
    parts = {
        "compute": slots * 3 * work.forward_s * rows / tp * work.layers / pp,
        "tp": 0.0,
        "pp": 0.0,
        "dp": 0.0,
    }
    back_s = parts["compute"] / slots * 2 / 3
    if tp > 1:
        one = (2 * tp - 2) * nodes.link(tp, 1).time_s(work.activation_bytes * rows / tp)
        parts["tp"] = slots * work.layers / pp * 4 * one
        back_s += parts["tp"] / slots / 2
    if pp > 1:
        parts["pp"] = 2 * slots * nodes.link(pp, tp * dp).time_s(rows * work.activation_bytes)
    if dp > 1:
        one = (2 * dp - 2) * nodes.link(dp, tp).time_s(work.gradient_bytes / pp / tp / dp / k)
        parts["dp"] = one + max(0.0, (k - 1) * (one - back_s / k))
    return np.sum(list(parts.values()))


ALL = (line_by_line, by_a_queue, by_bandwidth_and_latency, by_parts)
_ORDER = "Neither line reads what the other makes."
_PRODUCT = "Which link it is depends on the product of the two alone."
_HOP = "hop_s = nodes.link(cut.pp, cut.tp * cut.dp).time_s(part_bytes) if cut.pp > 1 else 0.0"
_LATE = "cut.buckets * bucket_s - (1 - 1 / cut.buckets) * backward_s"
SAME: dict[str, str] = {
    "2: `part_bytes = work.activation_bytes / parts` after `computing_s = work.forward_s / parts / cut.tp`": _ORDER,
    "3: `computing_s = work.forward_s / parts / cut.tp` after "
    "`sums_s = 4 * (cut.tp - 1) * nodes.link(cut.tp, 1).time_s(part_bytes / cut.tp)`": _ORDER,
    "5: `forward_s = work.layers / cut.pp * (computing_s + sums_s)` after "
    "`backward_s = work.layers / cut.pp * (2 * computing_s + sums_s)`": _ORDER,
    f"6: `backward_s = work.layers / cut.pp * (2 * computing_s + sums_s)` after `{_HOP}`": _ORDER,
    f"7: `{_HOP}` after `slots = cut.micro_batches + cut.pp - 1`": _ORDER,
    "8: `slots = cut.micro_batches + cut.pp - 1` after "
    "`bucket_bytes = work.gradient_bytes / cut.pp / cut.tp / cut.buckets`": _ORDER,
    f"11: `max(bucket_s, {_LATE})` -> `max({_LATE}, bucket_s)`": "The larger of two numbers, in any order.",
    "4: `nodes.link(cut.tp, 1)` -> `nodes.link(1, cut.tp)`": _PRODUCT,
    "7: `nodes.link(cut.pp, cut.tp * cut.dp)` -> `nodes.link(cut.tp * cut.dp, cut.pp)`": _PRODUCT,
    "10: `nodes.link(cut.dp, cut.tp)` -> `nodes.link(cut.tp, cut.dp)`": _PRODUCT,
}
