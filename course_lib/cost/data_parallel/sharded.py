"""Sharded data parallelism in formulas: what each rank keeps, what it sends in a step, and how long that takes.

Shapes: n ranks; P parameters; K numbers that a rank keeps of P, padding included (``rows``: ceil(R / n) rows of
each).

Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (2020), sections 5
and 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most, divides, not_negative
from course_lib.cost.single_device.model_state import DTYPE_BYTES, StateBytes, precision_state
from course_lib.layouts.link import Link

__all__ = [
    "check_stage",
    "ranks_in_between",
    "sharded_sent_bytes",
    "sharded_state",
    "sharded_step_s",
    "shared_numel",
]


@checked
def sharded_state(
    num_parameters: int,
    *,
    stage: int,
    num_ranks: int,
    precision: str = "bfloat16 + float32 master",
    optimizer: str = "adamw",
) -> StateBytes:
    """Bytes that each rank holds between two steps, where every size divides.

    Stage 0: data parallelism, everything whole. Stage 1 shares the optimizer's state (and the master copy), stage 2
    the gradients too, stage 3 the parameters too. ``ValueError`` for another stage.

    >>> [round(sharded_state(7_500_000_000, stage=s, num_ranks=64).total / 1e9, 1) for s in (0, 1, 2, 3)] [120.0,
    31.4, 16.6, 1.9]
    """
    check_stage(stage, from_stage=0)
    at_least(1, num_ranks=num_ranks)
    at_most(MOST_RANKS, num_ranks=num_ranks)
    whole = precision_state(num_parameters, precision=precision, optimizer=optimizer)
    first_shared = [whole.optimizer + whole.master, whole.gradients, whole.parameters]
    parts = [-(-size // num_ranks) if stage > at else size for at, size in enumerate(first_shared)]
    return StateBytes(
        parameters=parts[2],
        gradients=parts[1],
        optimizer=parts[0] - (parts[0] * whole.master // (first_shared[0] or 1)),
        master=parts[0] * whole.master // (first_shared[0] or 1),
    )


@checked
def shared_numel(shapes: Sequence[tuple[int, ...]], num_ranks: int) -> int:
    """K: how many numbers each of ``num_ranks`` ranks keeps of tensors of these shapes, padding included."""
    at_least(1, num_ranks=num_ranks)
    at_most(MOST_RANKS, num_ranks=num_ranks)
    for shape in shapes:
        if not shape:
            raise ValueError("shapes has (), which has no rows to share; the nearest that works is (1,)")
        at_least(0, **{f"dim {dim} of {tuple(shape)}": size for dim, size in enumerate(shape)})
    return sum(-(-shape[0] // num_ranks) * prod(shape[1:]) for shape in shapes)


@checked
def sharded_sent_bytes(
    shapes: Sequence[tuple[int, ...]],
    *,
    stage: int,
    num_ranks: int,
    dtype: str = "float32",
    reduce_dtype: str | None = None,
    reshard_after_forward: bool | int = True,
) -> int:
    """Bytes that each rank sends in a step: (n-1) K numbers for each all-gather of the weights and for a
    reduce-scatter.

    Stages 1 and 2: one of each, together as many as an all-reduce of the gradients. Stage 3 gathers once more, in
    backward: among all, or, with ``reshard_after_forward=m``, among m neighbours, or not at all, where weights stay
    whole after forward. Without padding that is 2 (n-1)/n P, and 3 (n-1)/n P, or (2 (n-1)/n + (m-1)/m) P.
    """
    check_stage(stage, from_stage=1)
    among = ranks_in_between(reshard_after_forward, num_ranks)
    numbers = (num_ranks - 1) * shared_numel(shapes, num_ranks)
    again = (among - 1) * shared_numel(shapes, among) if stage == 3 else 0
    return (numbers + again) * _bytes_of(dtype) + numbers * _bytes_of(reduce_dtype or dtype)


@checked
def sharded_step_s(
    unit_sizes_bytes: Sequence[int],
    *,
    num_ranks: int,
    link: Link,
    forward_s: float,
    backward_s: float,
    prefetch: int = 1,
) -> float:
    """Seconds of a stage-3 step: each unit computes an equal share of ``forward_s`` and ``backward_s``.

    A ring takes (n-1) (latency + bytes / (n bandwidth)) for an all-gather of a unit, and as long for its
    reduce-scatter; the link carries one message after the other. With ``prefetch`` 0 a unit's all-gather begins when
    the unit is due; with more, it begins when the unit ``prefetch`` places before it is due. Reduce-scatters run
    beside what comes after.
    """
    at_least(1, num_units=len(unit_sizes_bytes), num_ranks=num_ranks)
    at_least(0, prefetch=prefetch)
    not_negative(forward_s=forward_s, backward_s=backward_s)
    n, num_units = num_ranks, len(unit_sizes_bytes)
    ring_s = [(n - 1) * (link.latency_s + size / n / link.bandwidth_bytes_per_s) for size in unit_sizes_bytes]
    now_s = free_s = 0.0  # of the rank, and of the link
    passes = [(ring_s, forward_s / num_units, False), (ring_s[::-1], backward_s / num_units, True)]
    for gathers_s, compute_s, reduces in passes:
        arrived_s: list[float] = []
        for unit in range(num_units):
            for following in range(len(arrived_s), min(unit + 1 + prefetch, num_units)):
                free_s = max(free_s, now_s) + gathers_s[following]
                arrived_s.append(free_s)
            now_s = max(now_s, arrived_s[unit]) + compute_s
            if reduces:
                free_s = max(free_s, now_s) + gathers_s[unit]
    return max(now_s, free_s)


def ranks_in_between(reshard_after_forward: bool | int, num_ranks: int) -> int:
    """Among how many ranks a unit's weights are cut from forward to backward. ``ValueError`` for what divides not."""
    at_least(1, num_ranks=num_ranks)
    at_most(MOST_RANKS, num_ranks=num_ranks)
    if isinstance(reshard_after_forward, bool):
        return num_ranks if reshard_after_forward else 1
    divides(num_ranks, "ranks", reshard_after_forward=reshard_after_forward)
    return reshard_after_forward


def check_stage(stage: int, *, from_stage: int) -> None:
    """``ValueError`` for a stage that is none, or below ``from_stage``."""
    if stage not in range(from_stage, 4):
        names = {
            0: "0 (nothing is shared)",
            1: "1 (optimizer states)",
            2: "2 (gradients too)",
            3: "3 (parameters too)",
        }
        known = ", ".join(names[one] for one in range(from_stage, 4))
        raise ValueError(f"stage={stage} is not known: {known}. The nearest is {min(max(stage, from_stage), 3)}.")


def _bytes_of(dtype: str) -> int:
    if dtype not in DTYPE_BYTES:
        raise ValueError(f"dtype is {dtype!r}; this cost model knows {', '.join(DTYPE_BYTES)}.")
    return DTYPE_BYTES[dtype]
