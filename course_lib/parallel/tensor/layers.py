"""Linear layers cut by columns and by rows, and a norm that sees some of the positions.

Each is made from the unsplit layer and keeps its rank's slice: the split model begins as the unsplit one does, by
construction. Build that layer with the same seed on all ranks: they compare it, once, when a layer is made, so making
one is a collective of 8 bytes a rank (``data/replica_check.py``). In the textbook's Y = X A the matrix A is the
transpose of PyTorch's ``weight`` (out, in): columns of A are rows of ``weight``.

The cut dim need not divide by the number of ranks: the first ranks then hold one row more, and nothing is padded,
because no collective ever passes along that dim. (``gather_output`` and ``splits_input`` do pass along it, and ask for
a size that divides.)

Source: Shoeybi et al., "Megatron-LM" (2019), section 3. The names are Megatron-LM's; PyTorch says ``ColwiseParallel``,
``RowwiseParallel`` and ``SequenceParallel``.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.base.checked import checked
from course_lib.base.checks import nearest_multiple
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members, split_sizes
from course_lib.parallel.collectives.parts import HoldsParts, held_in_parts
from course_lib.parallel.data.replica_check import check_replicas, tensors_of
from course_lib.parallel.tensor.autograd_collectives import (
    all_gather_split,
    identity_all_reduce,
    split_all_gather,
)
from course_lib.parallel.tensor.overlapped_column_parallel import enter_and_multiply
from course_lib.parallel.tensor.placements import Placement, Replicate, Shard
from course_lib.parallel.tensor.region import Region

__all__ = ["ColumnParallelLinear", "RowParallelLinear", "SequenceParallelNorm", "own_slice"]


@checked
class ColumnParallelLinear(HoldsParts):
    """This rank computes some of the outputs: (..., T, in) -> (..., T, out/n).

    Forward: nothing is sent (``sequence_parallel``: the input (..., T/n, in) is all-gathered). Backward: the input's
    gradient is all-reduced (reduce-scattered) while the weight's is computed. With ``gather_output`` every rank gets
    all outputs by an all-gather, whose backward is a split.
    """

    placements: ClassVar[dict[str, Placement]] = {"weight": Shard(0), "bias": Shard(0)}

    def __init__(
        self,
        me: Rank,
        linear: nn.Linear,
        *,
        group: dist.ProcessGroup | None = None,
        sequence_parallel: bool = False,
        regather: bool = False,
        gather_output: bool = False,
    ) -> None:
        super().__init__()
        self.region = Region(me, group, sequence_parallel, regather)
        check_replicas(me, self.region.members, type(self).__name__, tensors_of(linear))
        self.in_features, self.out_features = linear.in_features, linear.out_features  # of the unsplit layer
        self.gather_output = gather_output
        if gather_output:
            _check_divides("out_features", linear.out_features, self.region, "gather_output=True")
        self.weight = own_slice(self.region, linear.weight, Shard(0))  # (out/n, in)
        self.bias = None if linear.bias is None else own_slice(self.region, linear.bias, Shard(0))

    def forward(self, x: Tensor) -> Tensor:
        """(..., T, in) -> (..., T, out/n)."""
        (y,) = enter_and_multiply(self.region, x, [self.weight], [self.bias])
        if self.gather_output:
            return all_gather_split(self.region.me, y, dim=-1, group=self.region.group)
        return y

    @property
    def parts_among(self) -> Members:
        """The ranks that hold the other parts: for them this module's parameters are no copies."""
        return self.region.members

    def extra_repr(self) -> str:
        return f"{self.in_features} -> {self.weight.size(0)} of {self.out_features}"


@checked
class RowParallelLinear(HoldsParts):
    """This rank has some of the inputs: (..., T, in/n) -> (..., T, out), the same on all ranks.

    Forward: the products are partial sums, so an all-reduce (``sequence_parallel``: a reduce-scatter along positions,
    which leaves (..., T/n, out)). The bias is added once, after the sum. Backward: nothing is sent (an all-gather).
    With ``splits_input`` the input is whole on every rank, and each takes its part; the backward is an all-gather.
    """

    placements: ClassVar[dict[str, Placement]] = {"weight": Shard(1), "bias": Replicate()}

    def __init__(
        self,
        me: Rank,
        linear: nn.Linear,
        *,
        group: dist.ProcessGroup | None = None,
        sequence_parallel: bool = False,
        splits_input: bool = False,
    ) -> None:
        super().__init__()
        self.region = Region(me, group, sequence_parallel)
        check_replicas(me, self.region.members, type(self).__name__, tensors_of(linear))
        self.in_features, self.out_features = linear.in_features, linear.out_features  # of the unsplit layer
        self.splits_input = splits_input
        if splits_input:
            _check_divides("in_features", linear.in_features, self.region, "splits_input=True")
        self.weight = own_slice(self.region, linear.weight, Shard(1))  # (out, in/n)
        self.bias = None if linear.bias is None else own_slice(self.region, linear.bias, Replicate())

    def forward(self, x: Tensor) -> Tensor:
        """(..., T, in/n) -> (..., T, out), or (..., T/n, out) with sequence parallelism."""
        if self.splits_input:
            x = split_all_gather(self.region.me, x, dim=-1, group=self.region.group)
        y = self.region.leave(F.linear(x, self.weight))
        if self.bias is None:
            return y
        return y + used_by_parts(self.region, self.bias).to(y.dtype)  # which is another one under autocast

    @property
    def parts_among(self) -> Members:
        """The ranks that hold the other parts: for them this module's parameters are no copies."""
        return self.region.members

    def extra_repr(self) -> str:
        return f"{self.weight.size(1)} of {self.in_features} -> {self.out_features}"


@checked
class SequenceParallelNorm(nn.Module):
    """A LayerNorm over this rank's positions: (..., T/n, D) -> same. The parameters are the same on all ranks.

    Forward: nothing is sent, a norm looks at one position at a time. Backward: each rank's gradients of weight and bias
    tell of its own positions alone, so they are all-reduced, both in one call. A norm without parameters
    (``elementwise_affine=False``) sends nothing.
    """

    placements: ClassVar[dict[str, Placement]] = {"weight": Replicate(), "bias": Replicate()}

    def __init__(self, me: Rank, norm: nn.LayerNorm, *, group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        self.region = Region(me, group, sequence_parallel=True)
        check_replicas(me, self.region.members, type(self).__name__, tensors_of(norm))
        self.normalized_shape, self.eps = norm.normalized_shape, norm.eps
        has_weight, has_bias = norm.weight is not None, norm.bias is not None
        self.weight = own_slice(self.region, norm.weight, Replicate()) if has_weight else None
        self.bias = own_slice(self.region, norm.bias, Replicate()) if has_bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(..., T/n, D) -> (..., T/n, D)."""
        weight: Tensor | None = self.weight
        bias: Tensor | None = self.bias
        if weight is not None and bias is not None:
            weight, bias = used_by_parts(self.region, torch.stack([weight, bias]))
        elif weight is not None:
            weight = used_by_parts(self.region, weight)
        return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


def own_slice(region: Region, full: Tensor, placement: Placement) -> nn.Parameter:
    """This rank's part of an unsplit parameter, on the rank's device, in memory of its own; frozen stays frozen."""
    part = full.detach()
    if isinstance(placement, Shard):
        size, n = part.size(placement.dim), region.members.count
        if size < n:
            raise ValueError(
                f"A parameter of shape {tuple(part.shape)} is cut along dim {placement.dim} among {n} ranks, and this "
                f"dim has size {size}. Every rank needs at least one row or column. Make it at least {n}, or take "
                f"{size} ranks."
            )
        sizes = split_sizes(size, n)
        part = part.split(sizes, placement.dim)[region.members.group_rank]
    part = part.to(region.me.device, copy=True, memory_format=torch.contiguous_format)
    own = nn.Parameter(part, requires_grad=full.requires_grad)
    if isinstance(placement, Shard):
        held_in_parts([own], "layer that is cut", region.members)
    return own


def used_by_parts(region: Region, parameter: Tensor) -> Tensor:
    """A parameter that all ranks hold, for use on each rank's own positions: its gradient is summed over ranks.

    Where every rank has all positions, its gradient is complete everywhere, and nothing is sent.
    """
    if region.sequence_parallel:
        return identity_all_reduce(region.me, parameter, group=region.group)
    return parameter


def _check_divides(name: str, size: int, region: Region, because: str) -> None:
    n = region.members.count
    if size % n:
        raise ValueError(
            f"{name}={size} does not divide among {n} ranks, and {because} needs equal parts. The nearest size that "
            f"works is {nearest_multiple(size, n)}."
        )
