"""Random bodies for ranks: collectives, messages, groups, switches and exceptions, waited for or not."""

from __future__ import annotations

import os
import random
from typing import Any

import torch
import torch.distributed as dist

Step = tuple[Any, ...]

_COLLECTIVES = ("all_reduce", "broadcast", "reduce", "all_gather", "gather", "reduce_scatter", "barrier")
SETTINGS = ("no_grad", "dtype", "environment", "patch", "seed", "hook")
_DEEDS = {
    "collective": 6,
    "async_collective": 5,
    "by_some_async": 3,
    "message": 5,
    "half_message": 4,
    "by_anyone": 1,
    "group": 3,
    "group_by_some": 1,
    "in_group": 3,
    "end_group": 1,
    "raise": 1,
    "caught": 2,
    "differs": 1,
    "by_some": 1,
    **dict.fromkeys(SETTINGS, 1),
}
_STOPPING = ("by_some", "differs")  # these stand still; each costs most of a second until it is found out


def random_body(draw: random.Random, num_ranks: int) -> list[Step]:
    names, weights = list(_DEEDS), list(_DEEDS.values())
    return [_random_step(draw, name, num_ranks) for name in draw.choices(names, weights, k=draw.randint(1, 5))]


def _random_step(draw: random.Random, name: str, num_ranks: int) -> Step:
    some = tuple(sorted(draw.sample(range(num_ranks), draw.randint(1, num_ranks - 1))))
    sender, receiver = draw.sample(range(num_ranks), 2)
    how = draw.choice(("wait", "wait", "keep", "drop"))
    operation = draw.choice(_COLLECTIVES)
    return {
        "collective": (name, operation, draw.choice((0, 1, 5))),
        "async_collective": (name, operation, how),
        "by_some_async": (name, operation, some, draw.choice(("keep", "drop"))),
        "message": (name, sender, receiver, draw.choice((0, 0, 7)), how, draw.choice(("wait", "wait", "keep", "drop"))),
        "half_message": (name, sender, receiver, draw.choice(("isend", "irecv")), draw.choice(("keep", "drop"))),
        "by_anyone": (name, sender, receiver),
        "group": (name, some),
        "group_by_some": (name, some),
        "in_group": (name, operation, how),
        "end_group": (name, sender),
        "raise": (name, sender),
        "caught": (name, some),
        "differs": (name, sender),
        "by_some": (name, operation, some),
    }.get(name, (name, some))


def perform(me: Any, body: list[Step]) -> None:
    """Do what the steps say for this rank."""
    kept: list[Any] = []
    groups: list[Any] = []
    for name, *details in body:
        _DO[name](me, kept, groups, *details)


def _call(me: Any, operation: str, num_values: int = 2, **how: Any) -> Any:
    group = how.get("group")
    size = dist.get_world_size(group)
    first = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)[0]
    ones = torch.ones(num_values)
    if operation == "barrier":
        return dist.barrier(**how)
    if operation == "all_reduce":
        return dist.all_reduce(ones, **how)
    if operation in ("broadcast", "reduce"):
        return getattr(dist, operation)(ones, first, **how)
    if operation == "all_gather":
        return dist.all_gather([torch.empty(num_values) for _ in range(size)], ones, **how)
    if operation == "gather":
        out = [torch.empty(num_values) for _ in range(size)] if me.rank == first else None
        return dist.gather(ones, out, dst=first, **how)
    return dist.reduce_scatter(torch.empty(num_values), [ones for _ in range(size)], **how)


def _end(work: Any, how: str, kept: list[Any]) -> None:
    if how == "wait" and work is not None:
        work.wait()
    elif how == "keep":
        kept.append(work)
        globals()["_kept_for_ever"] = kept


def _collective(me, kept, groups, operation, num_values):
    _call(me, operation, num_values)


def _async_collective(me, kept, groups, operation, how):
    _end(_call(me, operation, async_op=True), how, kept)


def _by_some_async(me, kept, groups, operation, some, how):
    if me.rank in some:
        _end(_call(me, operation, async_op=True), how, kept)


def _message(me, kept, groups, sender, receiver, tag, sending, receiving):
    if me.rank == sender:
        _end(dist.isend(torch.ones(3), receiver, tag=tag), sending, kept)
    if me.rank == receiver:
        _end(dist.irecv(torch.zeros(3), sender, tag=tag), receiving, kept)


def _half_message(me, kept, groups, sender, receiver, half, how):
    if me.rank == (sender if half == "isend" else receiver):
        peer = receiver if half == "isend" else sender
        _end(getattr(dist, half)(torch.ones(3), peer), how, kept)


def _by_anyone(me, kept, groups, sender, receiver):
    if me.rank == sender:
        dist.send(torch.ones(2), receiver, tag=3)
    if me.rank == receiver:
        dist.recv(torch.zeros(2), tag=3)


def _group(me, kept, groups, some):
    groups.append(dist.new_group(some))


def _group_by_some(me, kept, groups, some):
    if me.rank in some:
        groups.append(dist.new_group(some))


def _in_group(me, kept, groups, operation, how):
    mine = [group for group in groups if isinstance(group, dist.ProcessGroup) and group in _known()]
    if mine:
        _end(_call(me, operation, async_op=True, group=mine[-1]), how, kept)


def _known() -> Any:
    return dist.distributed_c10d._world.pg_map


def _end_group(me, kept, groups, who):
    if me.rank == who and groups and isinstance(groups[-1], dist.ProcessGroup) and groups[-1] in _known():
        dist.destroy_process_group(groups.pop())


def _raise(me, kept, groups, who):
    if me.rank == who:
        raise ValueError("planted")


def _caught(me, kept, groups, some):
    if me.rank in some:
        try:
            dist.broadcast(torch.ones(1), src=77)
        except Exception:
            kept.append("went on")


def _differs(me, kept, groups, who):
    _call(me, "broadcast" if me.rank == who else "all_reduce")


def _by_some(me, kept, groups, operation, some):
    if me.rank in some:
        _call(me, operation)


def _no_grad(me, kept, groups, some):
    if me.rank in some:
        torch.set_grad_enabled(False)


def _dtype(me, kept, groups, some):
    if me.rank in some:
        torch.set_default_dtype(torch.float64)


def _environment(me, kept, groups, some):
    if me.rank in some:
        os.environ["PLANTED"] = "1"


def _patch(me, kept, groups, some):
    if me.rank in some:
        dist.all_reduce = dist.distributed_c10d.all_reduce = lambda tensor, *_, **__: tensor.zero_()


def _seed(me, kept, groups, some):
    torch.manual_seed(me.rank)
    torch.randn(3 + me.rank)


def _hook(me, kept, groups, some):
    if me.rank in some:
        torch.nn.modules.module.register_module_forward_hook(lambda module, given, out: out * 0)


_DO = {name: globals()[f"_{name}"] for name in _DEEDS}


def right(me: Any) -> Any:
    """Every kind of communication once, and every switch that a body may leave."""
    total, ring = torch.full((2,), float(me.rank)), torch.zeros(2)
    dist.all_reduce(total)
    after, before = (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
    pair = [
        dist.P2POp(dist.isend, torch.full((2,), float(me.rank)), after),
        dist.P2POp(dist.irecv, ring, before),
    ]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    ends = dist.new_group([0, me.world_size - 1])
    if me.rank in (0, me.world_size - 1):
        dist.broadcast(total, 0, group=ends)
    parts = [torch.empty(1) for _ in range(me.world_size)]
    dist.all_gather(parts, torch.tensor([float(me.rank)]))
    layer = torch.nn.Linear(1, 1)
    torch.nn.init.ones_(layer.weight)
    torch.nn.init.ones_(layer.bias)
    out = layer(torch.ones(1))
    drawn = [float(part) for part in parts]
    return (
        total.tolist(),
        ring.tolist(),
        drawn,
        str(out.dtype),
        out.item(),
        out.requires_grad,
        "PLANTED" in os.environ,
    )


def expected(num_ranks: int) -> list[Any]:
    total = num_ranks * (num_ranks - 1) / 2
    everyone = [float(rank) for rank in range(num_ranks)]
    return [
        ([total] * 2, [float((rank - 1) % num_ranks)] * 2, everyone, "torch.float32", 2.0, True, False)
        for rank in range(num_ranks)
    ]
