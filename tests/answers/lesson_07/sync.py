"""07.sync: gradients travel in their own type, by the group of this call."""

from __future__ import annotations

import torch.distributed as dist
from answer_table import Row


def right(model, group, step):
    step()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)


def in_float64(model, group, step):
    step()
    for parameter in model.parameters():
        wide = parameter.grad.double()
        dist.all_reduce(wide, op=dist.ReduceOp.AVG, group=group)
        parameter.grad.copy_(wide)


first_group = []


def by_the_group_of_the_first_call(model, group, step):
    step()
    if not first_group:
        first_group.append(group)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=first_group[0])


def by_an_all_gather(model, group, step):
    import torch

    step()
    for parameter in model.parameters():
        all_of_them = [torch.empty_like(parameter.grad) for _ in range(dist.get_world_size(group))]
        dist.all_gather(all_of_them, parameter.grad, group=group)
        parameter.grad.copy_(torch.stack(all_of_them).mean(dim=0))


ROWS = [
    Row(
        answer=right,
        verdict="passed",
        why="the definition",
        words=("in float32",),
        unsaid=("travelled once",),
    ),
    Row(
        answer=by_an_all_gather,
        verdict="passed",
        why="each hands its own to every other once, which is all that is limited",
        unsaid=("travelled once",),
    ),
    Row(
        answer=in_float64,
        verdict="not yet",
        mistake="in-longer-numbers",
        why="twice the bytes, where gradients are float32",
    ),
    Row(
        answer=by_the_group_of_the_first_call,
        verdict="raised",
        why="the group is an argument, and the next call may bring another",
        words=("group",),
    ),
]
