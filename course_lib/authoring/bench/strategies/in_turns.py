"""Two ways of one thing on the same ranks, in turns; a round's time is that of the slowest rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from course_lib.meter.clocks.stopwatch import Comparison, compare

if TYPE_CHECKING:
    import torch

__all__ = ["compare_on_ranks"]


def compare_on_ranks(
    theirs: Callable[[], object],
    ours: Callable[[], object],
    *,
    names: Sequence[str],
    rounds: int,
    warmup: int = 2,
    steps: int = 1,
    device: torch.device | None = None,
) -> Comparison:
    """On each rank: ``theirs`` and ``ours`` in pairs, begun together; the time of each of a call's ``steps``."""
    import torch
    import torch.distributed as dist

    def slowest(time_s: float) -> float:
        longest = torch.tensor(time_s, dtype=torch.float64, device=device)
        dist.all_reduce(longest, dist.ReduceOp.MAX)
        return longest.item() / steps

    return compare(
        theirs,
        ours,
        names=names,
        rounds=rounds,
        warmup=warmup,
        device=device,
        setup=dist.barrier,
        slowest=slowest,
    )
