"""Right answers to 04.gradients in other styles."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank

__all__ = ["ANSWERS"]


def one_flat_message(me: Rank, model: nn.Module) -> None:
    """All gradients in one flat buffer, averaged by the back end, cut into views."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat, op=dist.ReduceOp.AVG)
    for parameter, part in zip(learning, flat.split([p.numel() for p in learning]), strict=True):
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parameter.grad.copy_(part.view_as(parameter))


def all_under_way_at_once(me: Rank, model: nn.Module) -> None:
    """Divides first, starts every all-reduce, then waits for the futures."""
    futures = []
    for parameter in filter(lambda p: p.requires_grad, model.parameters()):
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parameter.grad.div_(me.world_size)
        futures.append(dist.all_reduce(parameter.grad, async_op=True).get_future())
    for future in futures:
        future.wait()


def round_a_ring(me: Rank, model: nn.Module) -> None:
    """A ring of messages by hand: every part of the padded vector goes round once as a sum, once as the mean."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
    vector = parameters_to_vector(grads)
    room = vector.new_zeros(-(-len(vector) // me.world_size) * me.world_size)
    room[: len(vector)] = vector
    parts = room.chunk(me.world_size)
    right, left = (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
    for turn in range(2 * (me.world_size - 1)):
        going, coming = ((me.rank - turn - each) % me.world_size for each in (0, 1))
        arrived = torch.empty_like(parts[coming])
        exchange([send(parts[going].clone(), right), recv(arrived, left)])
        if turn < me.world_size - 1:
            arrived += parts[coming]
        parts[coming].copy_(arrived)
    vector_to_parameters(room[: len(vector)] / me.world_size, grads)
    for parameter, grad in zip(learning, grads, strict=True):
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parameter.grad.copy_(grad)


def by_the_modules(me: Rank, model: nn.Module) -> None:
    """Recursion over the modules; what is shared by two of them is averaged once."""
    _average(me, model, set())


def _average(me: Rank, module: nn.Module, done: set[nn.Parameter]) -> None:
    for parameter in module.parameters(recurse=False):
        if parameter.requires_grad and parameter not in done:
            done.add(parameter)
            grad = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
            dist.all_reduce(grad)
            parameter.grad = grad.mul_(1 / me.world_size)
    for child in module.children():
        _average(me, child, done)


ANSWERS = (one_flat_message, all_under_way_at_once, round_a_ring, by_the_modules)
