"""Expert parallelism in which a token's row goes once to each rank, or once to each node and is copied there.

Where nodes are given there are two hops. A row goes over the slow link to the rank of the same local number on each of
its nodes; that rank passes it on within the node, adds up what comes back, and returns one row.

Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 3.2.2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.base.checked import checked
from course_lib.base.checks import divides
from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.experts.expert_parallel import ExpertParallel
from course_lib.parallel.experts.layer import MixtureOfExperts
from course_lib.parallel.experts.once.deduplicated import Plan, hop, serve_own
from course_lib.parallel.mesh.groups import MeshGroups

__all__ = ["DeduplicatedExperts", "NodeGroups"]


class NodeGroups:
    """Two groups of this rank: those of its node, and those with its local number on all nodes.

    Every rank of the job makes one, and closes it. ``ValueError`` where ``ranks_per_node`` does not divide the ranks.
    """

    def __init__(self, me: Rank, ranks_per_node: int) -> None:
        divides(me.world_size, "ranks", ranks_per_node=ranks_per_node)
        self.num_nodes, self.ranks_per_node = me.world_size // ranks_per_node, ranks_per_node
        self._groups = MeshGroups(me, Mesh.of(dp_replicate=self.num_nodes, ep=ranks_per_node))

    @property
    def across(self) -> Members:
        """A rank of each node."""
        return self._groups.members("dp_replicate")

    @property
    def within(self) -> Members:
        """The ranks of this node."""
        return self._groups.members("ep")

    def close(self) -> None:
        """End both groups; all ranks do."""
        self._groups.close()


@checked
class DeduplicatedExperts(ExpertParallel):
    """``ExpertParallel`` over all ranks with de-duplicated dispatch: a row once to each rank, or to each of ``nodes``.

    Made and used as ``ExpertParallel``. ``plan``: which rows go to which node, or without nodes to which rank, in place
    of ``once_for_each``. Outputs are added up in another order, so they differ by rounding. ``ValueError`` where the
    experts do not divide by the ranks, and for a layer with a capacity: what is dropped is no matter of this class.
    """

    def __init__(
        self, me: Rank, moe: MixtureOfExperts, *, nodes: NodeGroups | None = None, plan: Plan | None = None
    ) -> None:
        divides(len(moe.experts.w_up), "experts", num_ranks=me.world_size)
        if moe.router.capacity_factor is not None:
            raise ValueError(
                f"capacity_factor={moe.router.capacity_factor:g} does not work with this layer, which drops no token; "
                "leave capacity_factor out, or give None"
            )
        super().__init__(me, moe)
        self.nodes, self.plan = nodes, plan

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        tokens = x.reshape(-1, x.size(-1))  # (N, D)
        routing = self.routing = self.router(tokens)
        per_rank = len(self.experts.w_up)
        serve = serve_own(self.experts, per_rank * self.members.group_rank)
        rank_of = torch.arange(routing.num_experts, device=x.device) // per_rank  # (E,)
        if self.nodes is None:
            out = hop(self.members, rank_of, tokens, routing.experts, routing.weights, serve, plan=self.plan)
            return out.view_as(x)
        within, across, size = self.nodes.within, self.nodes.across, self.nodes.ranks_per_node

        def pass_on(rows: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
            return hop(within, rank_of % size, rows, experts, weights, serve)

        out = hop(across, rank_of // size, tokens, routing.experts, routing.weights, pass_on, plan=self.plan)
        return out.view_as(x)
