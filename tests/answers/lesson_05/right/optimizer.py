"""Right answers to 05.optimizer in other styles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank

__all__ = ["ANSWERS"]

Parameters = Iterable[nn.Parameter]


class ByHand:
    """AdamW in its formulas, and collectives that take lists."""

    def __init__(self, me: Rank, parameters: Parameters, lr: float) -> None:
        self.me, self.parameters, self.lr, self.count = me, list(parameters), lr, 0
        own = self.cut(parameters_to_vector(self.parameters).detach())[me.rank]
        self.first, self.second = torch.zeros_like(own), torch.zeros_like(own)

    def cut(self, row: Tensor) -> list[Tensor]:
        n = self.me.world_size
        room = row.new_zeros(-(-len(row) // n) * n)
        room[: len(row)] = row
        return list(room.split(len(room) // n))

    @torch.no_grad()
    def step(self) -> None:
        gradients = self.cut(torch.cat([p.grad.flatten() for p in self.parameters if p.grad is not None]))
        gradient = torch.empty_like(gradients[0])
        dist.reduce_scatter(gradient, gradients)
        gradient /= self.me.world_size
        self.count += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        first = self.first / (1 - 0.9**self.count)
        second = self.second / (1 - 0.999**self.count)
        parts = self.cut(parameters_to_vector(self.parameters))
        own = parts[self.me.rank] * (1 - self.lr * 0.01)
        own -= self.lr * first / (second.sqrt() + 1e-8)
        dist.all_gather(parts, own)
        row = torch.cat(parts)[: sum(p.numel() for p in self.parameters)]
        vector_to_parameters(row, self.parameters)


class OneBuffer:
    """The parameters become windows on one row, and this rank's part is a window as well."""

    def __init__(self, me: Rank, parameters: Parameters, lr: float) -> None:
        self.me, self.parameters = me, list(parameters)
        self.sizes = [p.numel() for p in self.parameters]
        first = self.parameters[0]
        self.row = first.new_zeros(-(-sum(self.sizes) // me.world_size) * me.world_size)
        for p, window in zip(self.parameters, self.windows(), strict=True):
            window.copy_(p.detach().flatten())
            p.data = window.view_as(p)
        self.own = self.row.chunk(me.world_size)[me.rank].requires_grad_()
        self.adamw = torch.optim.AdamW([self.own], lr=lr, foreach=True)

    def windows(self) -> list[Tensor]:
        return list(self.row[: sum(self.sizes)].split(self.sizes))

    def step(self) -> None:
        gradients = torch.zeros_like(self.row)
        torch.cat(
            [p.grad.flatten() for p in self.parameters if p.grad is not None],
            out=gradients[: sum(self.sizes)],
        )
        gradients /= self.me.world_size
        self.own.grad = torch.empty_like(self.own)
        dist.reduce_scatter_tensor(self.own.grad, gradients)
        self.adamw.step()
        self.adamw.zero_grad()
        dist.all_gather_into_tensor(self.row, self.own.detach().clone())


class ByMessages:
    """Each part's gradients are sent straight to the rank that keeps it; weights go round a ring."""

    def __init__(self, me: Rank, parameters: Parameters, lr: float) -> None:
        self.me, self.parameters = me, list(parameters)
        self.own: Tensor = self.table([p.detach() for p in self.parameters])[me.rank].clone()
        self.adamw = torch.optim.AdamW([self.own], lr=lr)

    def table(self, tensors: list[Tensor]) -> Tensor:
        row = torch.cat([tensor.flatten() for tensor in tensors])
        return nn.functional.pad(row, (0, -len(row) % self.me.world_size)).view(self.me.world_size, -1)

    @torch.no_grad()
    def step(self) -> None:
        n, rank = self.me.world_size, self.me.rank
        gradients = self.table([p.grad for p in self.parameters if p.grad is not None])
        arrived = torch.empty_like(gradients)
        dist.all_to_all_single(arrived, gradients)
        self.own.grad = arrived.mean(dim=0)
        self.adamw.step()
        table = torch.empty_like(gradients)
        table[rank] = self.own
        for turn in range(n - 1):
            going, coming = (rank - turn) % n, (rank - turn - 1) % n
            exchange([send(table[going], (rank + 1) % n), recv(table[coming], (rank - 1) % n)])
        row = table.flatten()
        for p in self.parameters:
            p.copy_(row[: p.numel()].view_as(p))
            row = row[p.numel() :]


class TensorByTensor:
    """Each tensor has parts of its own, and all collectives are in flight at once."""

    def __init__(self, me: Rank, parameters: Parameters, lr: float) -> None:
        self.me, self.parameters = me, list(parameters)
        self.own = [nn.Parameter(self.parts(p.detach())[me.rank].clone()) for p in self.parameters]
        self.adamw = torch.optim.AdamW([{"params": [own]} for own in self.own], lr=lr)

    def parts(self, tensor: Tensor) -> Tensor:
        row = torch.zeros(-(-tensor.numel() // self.me.world_size) * self.me.world_size).to(tensor)
        row[: tensor.numel()] = tensor.reshape(-1)
        return row.view(self.me.world_size, -1)

    @torch.no_grad()
    def step(self) -> None:
        works = []
        for p, own in zip(self.parameters, self.own, strict=True):
            assert p.grad is not None
            own.grad = torch.empty_like(own)
            works.append(dist.reduce_scatter_tensor(own.grad, self.parts(p.grad).flatten(), async_op=True))
        for work, own in zip(works, self.own, strict=True):
            work.wait()
            own.grad /= self.me.world_size  # type: ignore[operator,assignment]
        self.adamw.step()
        rows = [own.new_empty(own.numel() * self.me.world_size) for own in self.own]
        gathers = [
            dist.all_gather_into_tensor(row, own.data, async_op=True).get_future()
            for row, own in zip(rows, self.own, strict=True)
        ]
        for p, row, gather in zip(self.parameters, rows, gathers, strict=True):
            gather.wait()
            p.data = row[: p.numel()].view(p.shape)


class AsGradientsCome(TensorByTensor):
    """Gradients leave in backward, and the whole ones go at once."""

    def __init__(self, me: Rank, parameters: Parameters, lr: float) -> None:
        super().__init__(me, parameters, lr)
        self.works: list[tuple[Any, Tensor, Tensor]] = []
        for number, p in enumerate(self.parameters):
            p.register_post_accumulate_grad_hook(lambda p, number=number: self.leave(p, number))

    def leave(self, p: Tensor, number: int) -> None:
        assert p.grad is not None
        part, row = torch.empty_like(self.own[number]), self.parts(p.grad).flatten() / self.me.world_size
        self.works.append((dist.reduce_scatter_tensor(part.data, row, async_op=True), part.data, row))
        self.own[number].grad, p.grad = part.data, None

    @torch.no_grad()
    def step(self) -> None:
        while self.works:
            self.works.pop()[0].wait()
        self.adamw.step()
        self.adamw.zero_grad()
        for p, own in zip(self.parameters, self.own, strict=True):
            parts = [torch.empty_like(own) for _ in range(self.me.world_size)]
            dist.all_gather(parts, own.detach())
            p.copy_(torch.cat(parts)[: p.numel()].view_as(p))


class AdamWOfAPart(torch.optim.AdamW):
    """An AdamW itself; each part is reduced to its owner, and broadcast from there."""

    def __init__(self, me: Rank, parameters: Parameters, lr: float) -> None:
        self.me, self.whole = me, list(parameters)
        super().__init__([nn.Parameter(self.parts([p.data for p in self.whole])[me.rank].clone())], lr=lr)

    def parts(self, tensors: list[Tensor]) -> list[Tensor]:
        row = torch.cat([tensor.flatten() for tensor in tensors])
        rest = -len(row) % self.me.world_size
        return list(torch.cat([row, row.new_zeros(rest)]).chunk(self.me.world_size))

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        (own,) = self.param_groups[0]["params"]
        gradients = self.parts([p.grad for p in self.whole if p.grad is not None])
        for owner, part in enumerate(gradients):
            dist.reduce(part, dst=owner)
        own.grad = gradients[self.me.rank] / self.me.world_size
        super().step()
        weights = [torch.empty_like(own) for _ in gradients]
        weights[self.me.rank].copy_(own)
        for owner, part in enumerate(weights):
            dist.broadcast(part, src=owner)
        row = torch.cat(weights)
        vector_to_parameters(row[: sum(p.numel() for p in self.whole)].clone(), self.whole)


ANSWERS = (OneBuffer, ByHand, ByMessages, TensorByTensor, AsGradientsCome, AdamWOfAPart)
