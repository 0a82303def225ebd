"""Right answers to 07.run, of other styles."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.point_to_point import exchange, recv, send

__all__ = ["ALL"]


def by_torch_in_batches(me: Any, row: list[str], stage: Any) -> None:
    """PyTorch's own batches: what goes out is started with what is waited for next."""
    going: list[dist.P2POp] = []
    for kind, i in [(action[0], int(action[1:])) for action in row]:
        step = 1 if kind == "F" else -1
        arrived = None
        if me.rank - step in range(me.world_size):
            arrived = stage.room()
            going.append(dist.P2POp(dist.irecv, arrived, me.rank - step))
        for work in dist.batch_isend_irecv(going) if going else []:
            work.wait()
        made = stage.forward(i, arrived) if kind == "F" else stage.backward(i, arrived)
        going = []
        if me.rank + step in range(me.world_size):
            going.append(dist.P2POp(dist.isend, made.contiguous(), me.rank + step))
    for work in dist.batch_isend_irecv(going) if going else []:
        work.wait()


def sends_and_waits_at_the_end(me: Any, row: list[str], stage: Any) -> None:
    """A send that returns at once; all are waited for at the end. Right on gloo; on NCCL the order would matter."""
    works: list[tuple[Any, Tensor]] = []
    for action in row:
        i, made = int(action[1:]), None
        if action.startswith("F"):
            came = stage.room() if me.rank else None
            if came is not None:
                dist.recv(came, me.rank - 1)
            made, to = stage.forward(i, came), me.rank + 1
        else:
            came = stage.room() if me.rank < me.world_size - 1 else None
            if came is not None:
                dist.recv(came, me.rank + 1)
            made, to = stage.backward(i, came), me.rank - 1
        if 0 <= to < me.world_size:
            made = made.contiguous()
            works.append((dist.isend(made, to), made))
    for work, _ in works:
        work.wait()


def crossing_by_rank(me: Any, row: list[str], stage: Any) -> None:
    """A class of its own for the way up and the way down; each action says what is to be exchanged before the next."""
    down, up = _Way(me, stage.forward, 1), _Way(me, stage.backward, -1)
    last: _Way | None = None
    for action in row:
        way = down if action[0] == "F" else up
        exchange([*(last.out() if last else ()), *way.into(stage)])
        way.run(int(action[1:]))
        last = way
    exchange(last.out() if last else [])


class _Way:
    def __init__(self, me: Any, action: Any, step: int) -> None:
        self.me, self.action, self.step = me, action, step
        self.arrived: Tensor | None = None
        self.made: Tensor | None = None

    def _peer(self, step: int) -> int | None:
        rank = self.me.rank + step
        return rank if rank in range(self.me.world_size) else None

    def into(self, stage: Any) -> list[Any]:
        peer = self._peer(-self.step)
        self.arrived = None if peer is None else stage.room()
        return [] if peer is None else [recv(self.arrived, peer)]  # type: ignore[arg-type]

    def run(self, i: int) -> None:
        self.made = self.action(i, self.arrived)

    def out(self) -> list[Any]:
        peer = self._peer(self.step)
        return [] if peer is None or self.made is None else [send(self.made.contiguous(), peer)]


ALL = (by_torch_in_batches, sends_and_waits_at_the_end, crossing_by_rank)
