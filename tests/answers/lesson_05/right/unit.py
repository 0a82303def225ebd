"""Right answers to 05.unit in other styles than the reference: no learner sees them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as with_gradients
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from course_lib.cluster.process.rank_process import current_rank
from course_lib.parallel.collectives.dim_collectives import start_all_gather
from course_lib.parallel.collectives.lean_reduce_scatter import start_lean_reduce_scatter
from course_lib.parallel.collectives.members import Members

__all__ = ["UNITS", "UnitEmptied", "UnitOfLists", "UnitPackedAway"]


class UnitOfLists(Function):
    """Lists of tensors, works that are waited for, and a dictionary in place of ``save_for_backward``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shard: Tensor) -> Tensor:
        ctx.kept = {"x": x.detach(), "rows": shard.detach().clone()}
        return F.linear(x, UnitOfLists.whole(shard))

    @staticmethod
    def whole(shard: Tensor) -> Tensor:
        parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
        work = dist.all_gather(parts, shard, async_op=True)
        assert work is not None
        work.wait()
        return torch.vstack(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        (grad,), n = grads, dist.get_world_size()
        parts = [part.contiguous() for part in torch.einsum("bo,bi->oi", grad, ctx.kept["x"] / n).chunk(n)]
        rows = torch.empty_like(parts[0])
        work = dist.reduce_scatter(rows, parts, async_op=True)
        grad_x = torch.mm(grad, UnitOfLists.whole(ctx.kept["rows"]))
        work.wait()
        return grad_x, rows


class UnitSetUpApart(Function):
    """The newer form with ``setup_context``; an all-to-all and a mean; nothing is computed that nobody asks for."""

    @staticmethod
    def forward(x: Tensor, shard: Tensor) -> Tensor:
        weight = torch.empty(dist.get_world_size(), *shard.shape, dtype=shard.dtype, device=shard.device)
        dist.all_gather(list(weight), shard)
        return x @ weight.flatten(0, 1).mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, shard = ctx.saved_tensors
        grad_x = rows = None
        if ctx.needs_input_grad[0]:
            weight = shard.new_empty(dist.get_world_size() * len(shard), *shard.shape[1:])
            dist.all_gather_into_tensor(weight, shard)
            grad_x = grads[0] @ weight
        if ctx.needs_input_grad[1]:
            mine = (grads[0].T @ x).contiguous()
            came = torch.empty_like(mine)
            dist.all_to_all_single(came, mine)
            rows = came.unflatten(0, (dist.get_world_size(), -1)).mean(dim=0)
        return grad_x, rows


class UnitByMessages(Function):
    """Both ways around a ring, message by message."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shard: Tensor) -> Tensor:
        ctx.save_for_backward(x, shard)
        return torch.cat([x @ part.T for part in _around(shard)], dim=1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, shard = ctx.saved_tensors
        n, rank = dist.get_world_size(), dist.get_rank()
        columns = grads[0].chunk(n, dim=1)
        grad_x = torch.stack([own @ part for own, part in zip(columns, _around(shard), strict=True)]).sum(dim=0)
        total = columns[(rank - 1) % n].T @ x
        for step in range(2, n + 1):  # the sum for the next rank's neighbour goes on, and each adds its own
            total = _exchanged(total) + columns[(rank - step) % n].T @ x
        return grad_x, total / n


def _around(shard: Tensor) -> list[Tensor]:
    n, rank = dist.get_world_size(), dist.get_rank()
    parts = [shard.detach()] * n
    for step in range(n - 1):
        parts[(rank - step - 1) % n] = _exchanged(parts[(rank - step) % n])
    return parts


def _exchanged(tensor: Tensor) -> Tensor:
    """What comes from the rank before, for what goes to the rank behind."""
    n, rank = dist.get_world_size(), dist.get_rank()
    came = torch.empty_like(tensor)
    sending = dist.P2POp(dist.isend, tensor.contiguous(), (rank + 1) % n)
    taking = dist.P2POp(dist.irecv, came, (rank - 1) % n)
    for work in dist.batch_isend_irecv([sending, taking]):
        work.wait()
    return came


class UnitComputedAgain:
    """No function of one's own: a gather that PyTorch can go back through, in a part that is computed again."""

    @staticmethod
    def apply(x: Tensor, shard: Tensor) -> Any:
        def layer(x: Tensor, shard: Tensor) -> Tensor:
            weight = torch.cat(with_gradients.all_gather(shard))
            weight.register_hook(lambda grad: grad / dist.get_world_size())
            return x @ weight.T

        return checkpoint(layer, x, shard, use_reentrant=False)


class UnitEmptied(Function):
    """As FSDP does it: autograd keeps the whole weight, whose memory is given back and taken anew."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shard: Tensor) -> Tensor:
        weight = torch.empty(dist.get_world_size() * shard.shape[0], shard.shape[1]).to(shard)
        dist.all_gather_into_tensor(weight, shard)
        ctx.x, ctx.shard, ctx.weight, ctx.size = x, shard, weight, weight.nbytes
        y = x.mm(weight.t())
        weight.untyped_storage().resize_(0)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        ctx.weight.untyped_storage().resize_(ctx.size)
        dist.all_gather_into_tensor(ctx.weight, ctx.shard)
        grad_x = grads[0].mm(ctx.weight)
        ctx.weight.untyped_storage().resize_(0)
        rows = torch.zeros_like(ctx.shard)
        dist.reduce_scatter_tensor(rows, grads[0].t().mm(ctx.x).div_(dist.get_world_size()))
        return grad_x, rows


class UnitOfFunctionalCollectives(Function):
    """Collectives that return what they make."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shard: Tensor) -> Tensor:
        ctx.save_for_backward(x.clone(), shard.clone())
        return torch.matmul(x, functional.wait_tensor(_gathered(shard)).T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, shard = ctx.saved_tensors
        rows = functional.reduce_scatter_tensor(grads[0].T @ x, "sum", 0, _everybody())
        grad_x = grads[0] @ _gathered(shard)
        return grad_x + 0, functional.wait_tensor(rows) / dist.get_world_size()


def _everybody() -> dist.ProcessGroup:
    group = dist.group.WORLD
    assert group is not None  # layers are tried on ranks
    return group


def _gathered(shard: Tensor) -> Tensor:
    return functional.wait_tensor(functional.all_gather_tensor(shard.detach(), 0, _everybody()))


class UnitOfTheCourse(Function):
    """By collectives of the course, the reduce-scatter begun before the gather."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shard: Tensor) -> Tensor:
        ctx.save_for_backward(x, shard)
        return x @ start_all_gather(_members(), shard, 0)().T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, shard = ctx.saved_tensors
        members = _members()
        whole = (grads[0].T @ x).view(members.count, -1)
        rows = start_lean_reduce_scatter(members, whole)
        return grads[0] @ start_all_gather(members, shard, 0)(), rows().view_as(shard) / members.count


def _members() -> Members:
    me = current_rank()
    assert me is not None  # layers are tried on ranks
    return Members.of(me, None)


class UnitPackedAway:
    """Autograd saves the rows in place of the whole weight, and gathers when it asks for that."""

    @staticmethod
    def apply(x: Tensor, shard: Tensor) -> Tensor:
        whole = _AsOne.apply(shard)
        place = whole.data_ptr()

        def pack(tensor: Tensor) -> Any:
            return tensor if tensor.data_ptr() != place else (shard.detach(), tensor.shape, tensor.stride())

        def unpack(kept: Any) -> Tensor:
            return kept if isinstance(kept, Tensor) else UnitOfLists.whole(kept[0]).as_strided(*kept[1:])

        with saved_tensors_hooks(pack, unpack):
            return F.linear(x, whole)


class _AsOne(Function):
    """Rows -> the whole weight; gradients by a reduce for each rank."""

    @staticmethod
    def forward(ctx: Any, shard: Tensor) -> Tensor:
        parts = [shard.clone() for _ in range(dist.get_world_size())]
        for rank, part in enumerate(parts):
            dist.broadcast(part, src=rank)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        parts = [part.clone() for part in grads[0].chunk(dist.get_world_size())]
        for rank, part in enumerate(parts):
            dist.reduce(part, dst=rank)
        return parts[dist.get_rank()] / dist.get_world_size()


UNITS = (
    UnitOfLists,
    UnitByMessages,
    UnitEmptied,
    UnitSetUpApart,
    UnitComputedAgain,
    UnitOfFunctionalCollectives,
    UnitOfTheCourse,
    UnitPackedAway,
)
