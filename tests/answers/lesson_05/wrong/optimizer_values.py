"""05.optimizer: wrong answers that give wrong values, or end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank


def packed(tensors: Sequence[Tensor], num_parts: int) -> Tensor:
    """All numbers in a row, and zeros at the end: (num_parts * K,)."""
    row = torch.cat([tensor.detach().flatten() for tensor in tensors])
    return torch.nn.functional.pad(row, (0, -len(row) % num_parts))


def unpack(row: Tensor, tensors: Sequence[Tensor]) -> None:
    """Write numbers into tensors."""
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, part in zip(tensors, row[: sum(sizes)].split(sizes), strict=True):
        tensor.data.copy_(part.view_as(tensor))


class Sharded:
    """Right, in small steps."""

    adamw: Any
    own: nn.Parameter

    def __init__(self, me: Rank, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self.me, self.parameters, self.lr = me, list(parameters), lr
        self.start()

    def start(self) -> None:
        self.own = nn.Parameter(self.part_of(packed(self.parameters, self.me.world_size)).clone())
        self.adamw = torch.optim.AdamW([self.own], lr=self.lr)

    @torch.no_grad()
    def step(self) -> None:
        self.own.grad = self.reduced(self.gradients())
        self.adamw.step()
        unpack(self.gathered(self.own.detach()), self.parameters)

    def part_of(self, row: Tensor) -> Tensor:
        return row.chunk(self.me.world_size)[self.me.rank]

    def gradients(self) -> Tensor:
        return packed([p.grad for p in self.parameters if p.grad is not None], self.me.world_size)

    def reduced(self, gradients: Tensor) -> Tensor:
        part = torch.empty_like(self.part_of(gradients))
        dist.reduce_scatter_tensor(part, gradients)
        return part / self.me.world_size

    def gathered(self, own: Tensor) -> Tensor:
        row = own.new_empty(self.me.world_size * len(own))
        dist.all_gather_into_tensor(row, own)
        return row


class Sums(Sharded):
    def reduced(self, gradients: Tensor) -> Tensor:
        return super().reduced(gradients) * self.me.world_size


class DividesTwice(Sharded):
    def reduced(self, gradients: Tensor) -> Tensor:
        return super().reduced(gradients) / self.me.world_size


class DividesByFour(Sharded):
    def reduced(self, gradients: Tensor) -> Tensor:
        return super().reduced(gradients) * (self.me.world_size / 4)


class OwnGradients(Sharded):
    """Nothing is reduced: each part is updated by what one rank has seen."""

    def reduced(self, gradients: Tensor) -> Tensor:
        return self.part_of(gradients).clone()


class GradientsOfRank0(Sharded):
    def reduced(self, gradients: Tensor) -> Tensor:
        dist.broadcast(gradients, src=0)
        return self.part_of(gradients).clone()


class PilesUp(Sharded):
    def step(self) -> None:
        with torch.no_grad():
            part = self.reduced(self.gradients())
            self.own.grad = part if self.own.grad is None else self.own.grad + part
            self.adamw.step()
            unpack(self.gathered(self.own.detach()), self.parameters)


class Adam(Sharded):
    def start(self) -> None:
        super().start()
        self.adamw = torch.optim.Adam([self.own], lr=self.lr)


class LosesTheRate(Sharded):
    def start(self) -> None:
        super().start()
        self.adamw = torch.optim.AdamW([self.own])


class AfreshEachStep(Sharded):
    def step(self) -> None:
        self.start()
        super().step()


class Whole(Sharded):
    """Each rank steps by all of its own gradients; nothing is sent."""

    def start(self) -> None:
        self.adamw = torch.optim.AdamW(self.parameters, lr=self.lr)

    def step(self) -> None:
        self.adamw.step()


class AveragesWeights(Whole):
    def step(self) -> None:
        super().step()
        for parameter in self.parameters:
            dist.all_reduce(parameter.data)
            parameter.data /= self.me.world_size


class NeverMoves(Sharded):
    """Gathered, and never written to the parameters."""

    @torch.no_grad()
    def step(self) -> None:
        self.own.grad = self.reduced(self.gradients())
        self.adamw.step()
        unpack(self.gathered(self.own.detach()), [p.clone() for p in self.parameters])


class NeverGathers(Sharded):
    def gathered(self, own: Tensor) -> Tensor:
        row = packed(self.parameters, self.me.world_size)
        self.part_of(row).copy_(own)
        return row


class OwnPartStays(Sharded):
    """The others get this rank's part, and it keeps the old one."""

    def gathered(self, own: Tensor) -> Tensor:
        row = super().gathered(own)
        self.part_of(row).copy_(self.part_of(packed(self.parameters, self.me.world_size)))
        return row


class GathersFirst(Sharded):
    @torch.no_grad()
    def step(self) -> None:
        self.own.grad = self.reduced(self.gradients())
        weights = self.gathered(self.own.detach())
        self.adamw.step()
        unpack(weights, self.parameters)


class PartsTurned(Sharded):
    """The last part first."""

    def gathered(self, own: Tensor) -> Tensor:
        return super().gathered(own).view(self.me.world_size, -1).flip(0).flatten()


class OneTensorInAllPlaces(Sharded):
    """A list that names one tensor n times: what came last stands in all of its places."""

    def gathered(self, own: Tensor) -> Tensor:
        parts = [torch.empty_like(own)] * self.me.world_size
        dist.all_gather(parts, own)
        return torch.cat(parts)


class DropsTheRest(Sharded):
    """What the division leaves belongs to nobody."""

    def start(self) -> None:
        row = self.row([parameter.detach() for parameter in self.parameters])
        self.own = nn.Parameter(row.chunk(self.me.world_size)[self.me.rank].clone())
        self.adamw = torch.optim.AdamW([self.own], lr=self.lr)

    def row(self, tensors: Sequence[Tensor]) -> Tensor:
        numbers = torch.cat([tensor.flatten() for tensor in tensors])
        return numbers[: len(numbers) // self.me.world_size * self.me.world_size]

    def gradients(self) -> Tensor:
        row = self.row([p.grad for p in self.parameters if p.grad is not None])
        return row

    @torch.no_grad()
    def step(self) -> None:
        if not self.own.numel():
            return
        self.own.grad = self.reduced(self.gradients())
        self.adamw.step()
        row = torch.cat([parameter.detach().flatten() for parameter in self.parameters])
        new = self.gathered(self.own.detach())
        row[: len(new)] = new
        unpack(row, self.parameters)


class NotInARow(Sharded):
    def reduced(self, gradients: Tensor) -> Tensor:
        part = torch.empty_like(self.part_of(gradients))
        dist.reduce_scatter_tensor(part, gradients.view(self.me.world_size, -1))
        return part / self.me.world_size


class NeedsToDivide(Sharded):
    def gradients(self) -> Tensor:
        row = torch.cat([p.grad.flatten() for p in self.parameters if p.grad is not None])
        return row.view(self.me.world_size, -1).flatten()


class NotWaitedFor(Sharded):
    def gathered(self, own: Tensor) -> Tensor:
        row = own.new_zeros(self.me.world_size * len(own))
        dist.all_gather_into_tensor(row, own.clone(), async_op=True)
        return row
