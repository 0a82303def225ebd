"""Experts that each rank brings, modules of any kind: what ``mine.MyExperts`` is until a learner's has passed.

``ExpertParallel`` takes an unsplit layer, and keeps its own experts of it. Here a rank brings the modules of its
experts, of any kind, and the router that all ranks have.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.experts.balance import load_balancing_loss
from course_lib.parallel.experts.capacity import expert_capacity, within_capacity
from course_lib.parallel.experts.dispatch import Dispatch, with_way_back
from course_lib.parallel.experts.router import Routing

__all__ = ["GivenExperts"]


class GivenExperts(nn.Module):
    """This rank's tokens (..., D) to the ``top_k`` best of the experts of all ranks of ``group``, and back.

    ``router``: (D) -> (E) without a bias, the same on all ranks. ``experts``: this rank's E/n, each (R, D) -> (R, D),
    where R may be 0. Gradients stand at these modules: an expert's is the sum over all ranks, the router's of this
    rank's tokens. ``capacity_factor``: as in ``TopKRouter``. ``ValueError`` for experts that are not E/n.
    """

    def __init__(
        self,
        me: Rank,
        router: nn.Linear,
        experts: Sequence[nn.Module],
        top_k: int = 2,
        capacity_factor: float | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        self.me, self.group, self.members = me, group, Members.of(me, group)
        self.router, self.experts = router, nn.ModuleList(experts)
        self.top_k, self.capacity_factor = top_k, capacity_factor
        num_experts = len(router.weight)
        if len(experts) * self.members.count != num_experts:
            raise ValueError(
                f"the router has {num_experts} rows, and {self.members.count} ranks with {len(experts)} experts each "
                f"have {len(experts) * self.members.count} experts; give a row for each"
            )

    def forward(self, x: Tensor, balance: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """(..., D) -> (..., D); with ``balance`` a pair, and the load-balancing loss, ()."""
        tokens = with_way_back(x.reshape(-1, x.size(-1)))  # (N, D)
        routing = self._routing(tokens)
        journey = Dispatch.plan(self.members, routing)
        parts = journey.dispatch(tokens).split(journey.counts)
        made = torch.cat([expert(rows) for expert, rows in zip(self.experts, parts, strict=True)])
        out = journey.combine(made).view_as(x)
        return (out, load_balancing_loss(self.me, routing, group=self.group)) if balance else out

    def _routing(self, tokens: Tensor) -> Routing:
        dtype = torch.promote_types(tokens.dtype, torch.float32)
        probabilities = F.linear(tokens.to(dtype), self.router.weight.to(dtype)).softmax(-1)  # (N, E)
        weights, chosen = probabilities.topk(self.top_k, -1)
        return Routing(chosen, weights, probabilities, self._with_room(chosen))

    def _with_room(self, chosen: Tensor) -> Tensor:
        if self.capacity_factor is None:
            return torch.ones_like(chosen, dtype=torch.bool)
        num_experts = len(self.router.weight)
        capacity = expert_capacity(
            len(chosen), num_experts=num_experts, top_k=self.top_k, capacity_factor=self.capacity_factor
        )
        return within_capacity(chosen, num_experts=num_experts, capacity=capacity)
