"""The same model on all ranks? Asked once, while a strategy is built.

A wrapper of data parallelism gives all ranks the values of one. Other strategies are handed a whole model on every
rank, and keep their part of it and *copies* of the rest: the bias of a row-parallel layer, norms, a router, weights
that two stages share. Nobody averages these. They stay equal because they begin equal and get equal gradients, so with
a forgotten seed they differ from the first step to the last, and no loss tells. So the ranks compare what they were
given: names, shapes, dtypes, what is trained, and every bit of every value.

Cost: one pass over the weights on the host, and an all-gather of 8 bytes a rank; a table only where something differs.
A step costs nothing. It is a collective: all ranks of the group build the same things, in the same order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakIdKeyDictionary

from course_lib.cluster.base.call_marks import ScopedFlag, under_construction
from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members, bytes_of

__all__ = ["check_once", "check_replicas", "checked_as_one", "tensors_of"]

_is_part = ScopedFlag("part_of_what_was_compared")


def check_replicas(
    me: Rank, members: Members, strategy: str, tensors: Mapping[str, Tensor], *, values: bool = True
) -> None:
    """Raise ``ValueError`` on every rank of ``members`` where their tensors differ. All of these ranks call it.

    ``strategy`` is the name of what is built. Without ``values`` names, shapes, dtypes and what is trained are
    compared, for those who give all ranks the values of one afterwards. Tensors on ``meta`` have no values, and those
    of a lazy module no shapes: what there is of them is compared. The memory layout and the device may differ.
    """
    if members.count == 1 or _is_part.is_on or not dist.is_initialized():  # then there is nobody to ask
        return
    mine = {name: _digest_of(tensor) if values else 0 for name, tensor in tensors.items()}
    kinds = [(None if is_lazy(t) else list(t.shape), str(t.dtype), t.requires_grad) for t in tensors.values()]
    digest = _as_int64(hashlib.blake2b(json.dumps([mine, kinds]).encode(), digest_size=8).digest())
    with under_construction():
        told = _of_all(me, members, torch.tensor([digest]))
        if len({int(one) for one in told.values()}) == 1:
            return
        _raise_together(me, members, strategy, tensors, mine)


def _raise_together(
    me: Rank, members: Members, strategy: str, tensors: Mapping[str, Tensor], digests: Mapping[str, int]
) -> None:
    """All ranks tell what they have, tensor by tensor, and say where it differs."""
    from course_lib.parallel.data.ddp_errors import described, refuse_other_models
    from course_lib.parallel.data.replica_divergence import Divergence, disagreements

    descriptions = [described(name, tensor) for name, tensor in tensors.items()]
    of_ranks = _objects_of_all(me, members, [descriptions, digests])
    refuse_other_models({rank: told for rank, (told, _) in of_ranks.items()}, "build the same model on all ranks")
    drift = Divergence(disagreements({rank: table for rank, (_, table) in of_ranks.items()}))
    group = "" if members.group is None else ", group=group"
    raise ValueError(
        f"{drift}: {strategy} needs the same model on every rank, and never averages the copies. Build the model from "
        "one seed on all ranks, by torch.manual_seed(0) just before it. Or give all ranks the values of one: "
        f"broadcast_parameters(me, model{group})"
    )


@contextmanager
def checked_as_one(me: Rank, members: Members, strategy: str, module: nn.Module) -> Iterator[None]:
    """``check_replicas`` for a module that is taken apart in this block: its parts are not compared again."""
    check_replicas(me, members, strategy, tensors_of(module))
    with _is_part():
        yield


def check_once(me: Rank, members: Members, strategy: str, parameters: Iterable[tuple[str, nn.Parameter]]) -> None:
    """``check_replicas`` for those who know their group only in a step: at the first call, and at no later one."""
    new = {name: p for name, p in parameters if members.ranks not in _CHECKED.get(p, ())}
    if new and members.count > 1:
        check_replicas(me, members, strategy, new)
        for parameter in new.values():
            _CHECKED[parameter] = (*_CHECKED.get(parameter, ()), members.ranks)


_CHECKED = WeakIdKeyDictionary()  # by parameter: the ranks among which it was compared


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """What copies of a module have in common: parameters, trained or not, and buffers."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


# -- digests -----------------------------------------------------------------------------------------------------------


def _digest_of(tensor: Tensor) -> int:
    """64 bits of all bits of a tensor, the same on every device; no tensor is made that would count as held memory."""
    if is_lazy(tensor) or tensor.is_meta:
        return 0
    found = hashlib.blake2b(digest_size=8)
    for chunk in bytes_of(tensor):
        found.update(chunk)
    return _as_int64(found.digest())


def _as_int64(digest: bytes) -> int:
    return int.from_bytes(digest, "big", signed=True)


# -- messages ----------------------------------------------------------------------------------------------------------


def _of_all(me: Rank, members: Members, mine: Tensor) -> dict[int, Tensor]:
    """By rank, what each of ``members`` has handed in: tensors of one shape.

    A pipeline has ranks and no group: these send each other messages, of the same bytes.
    """
    mine = mine.to(me.device)
    told = {rank: torch.empty_like(mine) for rank in members.ranks}
    if members.group is not None:
        dist.all_gather([told[rank] for rank in members.ranks], mine, group=members.group)
    elif members.count == me.world_size:
        dist.all_gather([told[rank] for rank in range(me.world_size)], mine)
    else:
        told[me.rank] = mine
        others = [rank for rank in members.ranks if rank != me.rank]
        exchange([send(mine, rank) for rank in others] + [recv(told[rank], rank) for rank in others])
    return told


def _objects_of_all(me: Rank, members: Members, mine: Any) -> dict[int, Any]:
    """By rank, what each has handed in of what JSON can hold."""
    text = json.dumps(mine).encode()
    sizes = _of_all(me, members, torch.tensor([len(text)]))
    room = torch.zeros(max(int(size) for size in sizes.values()), dtype=torch.uint8)
    room[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    told = _of_all(me, members, room)
    return {rank: json.loads(bytes(told[rank][: int(sizes[rank])].tolist())) for rank in members.ranks}
