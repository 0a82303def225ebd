"""Scaling of data-parallel training: the same step on more and more ranks, up to the break-even, where it stops to pay.

*Strong* scaling keeps the batch and shares it out: each rank computes less, the gradients stay as large. *Weak*
scaling keeps each rank's share, so the batch grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, above_zero, at_least, at_most, known, not_negative
from course_lib.cost.data_parallel.step import StepTime, ddp_step

__all__ = ["ScalingPoint", "break_even_bandwidth_bytes_per_s", "scaling_curve"]


@dataclass(frozen=True)
class ScalingPoint:
    """One number of ranks: its step, and how many times the samples per second of one rank it reaches."""

    num_ranks: int
    step: StepTime
    speedup: float


@checked
def scaling_curve(
    ranks: Sequence[int],
    bucket_bytes: Sequence[float],
    *,
    forward_s: float,
    backward_s: float,
    all_reduce_time_s: Callable[[int, float], float],
    optimizer_s: float = 0.0,
    overlap: float = 1.0,
    kind: str = "strong",
) -> tuple[ScalingPoint, ...]:
    """The step on each number of ``ranks``; the times given are those of the whole batch on one rank.

    ``all_reduce_time_s(num_ranks, size_bytes)`` is the time of an all-reduce; one rank needs none.
    ``kind`` is "strong" or "weak". Arithmetic is taken to shrink in proportion to the batch, which small
    batches on a GPU do not.
    """
    known("kind", kind, ("strong", "weak"))
    not_negative(forward_s=forward_s, backward_s=backward_s, optimizer_s=optimizer_s)
    one_s = forward_s + backward_s + optimizer_s
    above_zero(time_of_the_step_on_one_rank_s=one_s)
    points = []
    for num_ranks in ranks:
        at_least(1, num_ranks=num_ranks)
        at_most(MOST_RANKS, num_ranks=num_ranks)
        share = 1 / num_ranks if kind == "strong" else 1.0
        step = ddp_step(
            bucket_bytes,
            forward_s=forward_s * share,
            backward_s=backward_s * share,
            optimizer_s=optimizer_s,
            overlap=overlap,
            all_reduce_time_s=lambda size, n=num_ranks: all_reduce_time_s(n, size) if n > 1 else 0.0,
        )
        batches = 1 if kind == "strong" else num_ranks
        points.append(ScalingPoint(num_ranks, step, batches * one_s / step.time_s))
    return tuple(points)


@checked
def break_even_bandwidth_bytes_per_s(
    bucket_bytes: Sequence[float], *, num_ranks: int, backward_s: float, latency_s: float = 0.0
) -> float:
    """The bandwidth of a link at which ring all-reduces of all buckets take just as long as the backward pass.

    With less, communication is what a step waits for. Infinite where latency alone takes longer: no
    bandwidth helps then, but fewer and larger buckets do. 0 for one rank.
    """
    at_least(1, num_ranks=num_ranks)
    at_most(MOST_RANKS, num_ranks=num_ranks)
    above_zero(backward_s=backward_s)
    not_negative(latency_s=latency_s)
    steps = 2 * (num_ranks - 1)
    left_s = backward_s - steps * latency_s * len(bucket_bytes)
    if num_ranks == 1 or not sum(bucket_bytes):
        return 0.0
    return steps / num_ranks * sum(bucket_bytes) / left_s if left_s > 0 else math.inf
