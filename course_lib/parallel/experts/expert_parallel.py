"""Expert parallelism: each rank has tokens of its own, all of the router, and some of the experts.

To its tokens a rank is data parallel, to its experts it is not: they see the tokens of all ranks of the group. So E
experts cost a rank the memory of E/n, and the price is two all-to-alls forward and two backward, and that all ranks
wait for the one with the busiest experts.

Source: Lepikhin et al., "GShard" (2020), section 3; Fedus et al., "Switch Transformers" (2021), section 5.4.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checked import checked
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.collectives.parts import HoldsParts, held_in_parts
from course_lib.parallel.data.replica_check import check_replicas, tensors_of
from course_lib.parallel.experts.dispatch import Dispatch, experts_per_rank, with_way_back
from course_lib.parallel.experts.feed_forward import Experts
from course_lib.parallel.experts.layer import MixtureOfExperts
from course_lib.parallel.experts.router import Routing
from course_lib.parallel.tensor.placements import Placement, Shard

__all__ = ["ExpertParallel", "OwnExperts"]


@checked
class ExpertParallel(nn.Module):
    """A ``MixtureOfExperts`` whose experts are shared out: this rank's tokens (..., D) -> (..., D).

    Made from the unsplit layer, built with the same seed on all ranks, which they compare once; of it this rank keeps
    the router and its own experts: the first ranks have one more where they do not divide. ``group``: the ranks that
    share the experts. Ranks may have different numbers of tokens, 0 among them, and every rank calls forward, and
    backward, as often as the others. Names in ``state_dict`` are those of the unsplit layer (``tensor.gather_state``,
    ``load_unsplit``). ``average_gradients`` makes the gradients those of the whole batch; the course's wrappers for
    data parallelism refuse the layer (``parts_among``). A ``ValueError`` for fewer experts than ranks, and for layers
    that differ between ranks.

    Forward: an all-to-all of counts, one of rows to their experts, one of outputs back. Backward: the last two again,
    the other way round, on each rank, also where its own experts are frozen and its tokens need no gradient.
    """

    routing: Routing | None

    def __init__(self, me: Rank, moe: MixtureOfExperts, *, group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        self.members = Members.of(me, group)
        check_replicas(me, self.members, type(self).__name__, tensors_of(moe))
        self.router = copy.deepcopy(moe.router).to(me.device)
        self.experts = OwnExperts(me, moe.experts, self.members)
        self.routing = None

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        tokens = with_way_back(x.reshape(-1, x.size(-1)))  # (N, D)
        routing = self.routing = self.router(tokens)
        journey = Dispatch.plan(self.members, routing)
        rows = self.experts(journey.dispatch(tokens), journey.counts)  # (R, D)
        return journey.combine(rows).view_as(x)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "routing": None}


class OwnExperts(HoldsParts, Experts):
    """This rank's experts out of all."""

    placements: ClassVar[dict[str, Placement]] = {"w_up": Shard(0), "w_down": Shard(0)}
    averaged_by: ClassVar[str] = (
        "average_gradients(model, MeshGroups(me, mesh, together=[('dp_replicate', 'ep')])) of parallel.experts after "
        "each backward, without a wrapper"
    )

    def __init__(self, me: Rank, experts: Experts, members: Members) -> None:
        nn.Module.__init__(self)
        self.parts_among = members
        sizes = experts_per_rank(len(experts.w_up), members.count)
        for name in ("w_up", "w_down"):
            weight = getattr(experts, name)
            part = weight.detach().split(sizes)[members.group_rank].to(me.device, copy=True)
            setattr(self, name, nn.Parameter(part, requires_grad=weight.requires_grad))
        held_in_parts(self.parameters(), type(self).__name__, members, self.averaged_by)
