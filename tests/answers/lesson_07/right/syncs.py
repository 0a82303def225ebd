"""Right answers to 07.sync, of other styles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = ["ALL"]

Step = Callable[[], Any]


def sums_and_divides(model: Any, group: Any, step: Step) -> None:
    """A sum over the group, divided by as many ranks as it has."""
    step()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= dist.get_world_size(group)


def in_a_flat_buffer(model: Any, group: Any, step: Step) -> None:
    """All gradients in one flat tensor and one call."""
    step()
    gradients = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=group)
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def by_futures(model: Any, group: Any, step: Step) -> None:
    """All calls in flight at once, and futures that are waited for instead of works."""
    step()
    gradients = [parameter.grad for parameter in model.parameters()]
    futures = [dist.all_reduce(g, group=group, async_op=True).get_future() for g in gradients]
    torch.futures.wait_all(futures)
    torch._foreach_div_(gradients, float(group.size()))


def gathers_and_means(model: Any, group: Any, step: Step) -> None:
    """Everybody's gradients are gathered, and each rank takes the mean for itself."""
    step()
    for parameter in model.parameters():
        parts = [torch.empty_like(parameter.grad) for _ in range(group.size())]
        dist.all_gather(parts, parameter.grad, group=group)
        parameter.grad = torch.stack(parts).mean(dim=0)


def by_messages(model: Any, group: Any, step: Step) -> None:
    """Messages in a batch, to and from each of the others."""
    step()
    ranks, me = dist.get_process_group_ranks(group), dist.get_rank()
    for parameter in model.parameters():
        held: dict[int, Tensor] = {rank: torch.empty_like(parameter.grad) for rank in ranks}
        held[me] = parameter.grad
        messages = []
        for rank in ranks:
            if rank != me:
                messages.append(dist.P2POp(dist.isend, held[me], rank, group))
                messages.append(dist.P2POp(dist.irecv, held[rank], rank, group))
        for work in dist.batch_isend_irecv(messages):
            work.wait()
        parameter.grad = sum(held[rank] for rank in ranks) / len(ranks)


def by_halves_of_an_all_reduce(model: Any, group: Any, step: Step) -> None:
    """A reduce-scatter of a padded buffer, then an all-gather: what an all-reduce is made of."""
    step()
    vector = nn.utils.parameters_to_vector([parameter.grad for parameter in model.parameters()])
    size = -(-len(vector) // group.size())
    padded = nn.functional.pad(vector, (0, size * group.size() - len(vector)))
    mine = padded.new_empty(size)
    dist.reduce_scatter_tensor(mine, padded, group=group)
    dist.all_gather_into_tensor(padded, mine / group.size(), group=group)
    taken = 0
    for parameter in model.parameters():
        parameter.grad.copy_(padded[taken : taken + parameter.numel()].view_as(parameter))
        taken += parameter.numel()


class LastMicroBatch:
    """A hook that counts, and starts the call of a gradient when its last micro-batch has come."""

    def __init__(self, group: Any, num_micro_batches: int) -> None:
        self.group, self.count = group, num_micro_batches
        self.came: dict[nn.Parameter, int] = {}
        self.works: list[Any] = []

    def __call__(self, parameter: nn.Parameter) -> None:
        self.came[parameter] = self.came.get(parameter, 0) + 1
        if self.came[parameter] == self.count:
            asked = {"op": dist.ReduceOp.AVG, "group": self.group, "async_op": True}
            self.works.append(dist.all_reduce(parameter.grad, **asked))


def in_the_last_backward(model: Any, group: Any, step: Step) -> None:
    """Hooks, as that team has them, which average at the last micro-batch alone and are taken off again."""
    hook = LastMicroBatch(group, model.schedule.num_micro_batches)
    handles = [parameter.register_post_accumulate_grad_hook(hook) for parameter in model.parameters()]
    step()
    for handle in handles:
        handle.remove()
    for work in hook.works:
        work.wait()


def by_one_rank(model: Any, group: Any, step: Step) -> None:
    """The first rank of the group adds up and hands out."""
    step()
    for parameter in model.parameters():
        dist.reduce(parameter.grad, group_dst=0, group=group)
        parameter.grad.div_(group.size())
        dist.broadcast(parameter.grad, group_src=0, group=group)


ALL = (
    sums_and_divides,
    in_a_flat_buffer,
    by_futures,
    gathers_and_means,
    by_messages,
    by_halves_of_an_all_reduce,
    in_the_last_backward,
    by_one_rank,
)
