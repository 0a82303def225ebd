"""What imbalance costs, on real ranks: experts whose computing is a wait, and tokens that go where they are told.

Messages, ranks and order are real; an expert takes ``row_s`` seconds for each row, whatever the machine has to do
besides. So the result can be laid over ``cost.expert_layer_time`` with the same counts: where they differ, the
difference is what ranks and messages cost on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checks import above_zero, at_least
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.emulated_compute import pace
from course_lib.cluster.links.links import Links
from course_lib.layouts.link import Link
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.experts.dispatch import Dispatch, experts_per_rank
from course_lib.parallel.experts.router import Routing

__all__ = ["PacedExperts", "run_experts"]


class PacedExperts(nn.Module):
    """Experts that give their rows back, after ``row_s`` seconds for each: (R, D) -> (R, D)."""

    def __init__(self, me: Rank, row_s: float) -> None:
        super().__init__()
        above_zero(row_s=row_s)
        self.me, self.row_s = me, row_s

    def forward(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        pace(self.me, self.row_s * sum(counts))
        return rows


def run_experts(
    cluster: Cluster,
    counts: Sequence[Sequence[int]],
    *,
    row_s: float,
    width: int = 8,
    link: Link | None = None,
    steps: int = 3,
) -> tuple[float, ...]:
    """Seconds of one layer's forward on each rank: of ``steps``, the median.

    ``counts[i][e]``: how many tokens of rank i go to expert e. ``width``: float32 numbers of a token. ``link`` shapes
    what joins the ranks (default: the machine's own). ``ValueError`` for counts that are not one row for each rank.
    """
    at_least(1, steps=steps, width=width)
    above_zero(row_s=row_s)
    if len(counts) != cluster.world_size or len({len(row) for row in counts}) != 1:
        raise ValueError(
            f"counts has {len(counts)} rows, of {sorted({len(row) for row in counts})} experts, for "
            f"{cluster.world_size} ranks: it wants one row for each rank, all of the same number of experts"
        )
    experts_per_rank(len(counts[0]), cluster.world_size)
    for row in counts:
        at_least(0, **{f"tokens for expert {expert}": count for expert, count in enumerate(row)})
    # On the CPU: on GPUs no host would wait for tokens before it paces what it does with them.
    links = Links() if link is None or link.time_s(1) == 0 else Links(link)
    with cluster.shaped(links=links):
        taken_s = cluster.call(_steps, ([list(row) for row in counts], row_s, width, steps), show=False)
    return tuple(median(of_rank) for of_rank in taken_s)


def _steps(me: Rank, counts: list[list[int]], row_s: float, width: int, num_steps: int) -> list[float]:
    experts, routing = PacedExperts(me, row_s), _routing(me, counts[me.rank])
    tokens = torch.zeros(len(routing.experts), width, device=me.device)
    taken_s = []
    for step in range(num_steps + 1):  # the first pays for what a first step pays
        dist.barrier()
        began_s = time.perf_counter()
        journey = Dispatch.plan(Members.of(me, None), routing)
        journey.combine(experts(journey.dispatch(tokens), journey.counts))
        if step:
            taken_s.append(time.perf_counter() - began_s)
    return taken_s


def _routing(me: Rank, counts: list[int]) -> Routing:
    """One choice for each token: the first tokens go to expert 0, and so on."""
    numbers = torch.arange(len(counts), device=me.device)
    experts = numbers.repeat_interleave(torch.tensor(counts, device=me.device)).unsqueeze(1)  # (N, 1)
    weights = torch.ones(len(experts), 1, device=me.device)
    probabilities = torch.full((len(experts), len(counts)), 1 / len(counts), device=me.device)
    return Routing(experts, weights, probabilities, torch.ones_like(experts, dtype=torch.bool))
