"""05.optimizer: what a rank keeps is counted in numbers, wherever they lie, and each object keeps its own."""

from __future__ import annotations

import io

import torch
import torch.distributed as dist
from answer_table import Row
from torch import nn


def packed(tensors, num_parts):
    row = torch.cat([tensor.detach().flatten() for tensor in tensors])
    return torch.nn.functional.pad(row, (0, -len(row) % num_parts))


def unpack(row, tensors):
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, part in zip(tensors, row[: sum(sizes)].split(sizes), strict=True):
        tensor.data.copy_(part.view_as(tensor))


class Right:
    def __init__(self, me, parameters, lr):
        self.me, self.parameters, self.lr = me, list(parameters), lr
        self.own = nn.Parameter(packed(self.parameters, me.world_size).chunk(me.world_size)[me.rank].clone())
        self.adamw = torch.optim.AdamW([self.own], lr=self.rate())

    def rate(self):
        return self.lr

    def keep(self, weights):
        """Nothing."""

    @torch.no_grad()
    def step(self):
        n = self.me.world_size
        gradients = packed([parameter.grad for parameter in self.parameters], n)
        self.own.grad = torch.empty_like(self.own)
        dist.reduce_scatter(self.own.grad, list(gradients.chunk(n)))
        self.own.grad /= n
        self.adamw.step()
        weights = torch.empty_like(gradients)
        dist.all_gather(list(weights.chunk(n)), self.own.detach())
        unpack(weights, self.parameters)
        self.keep(weights)


class KeepsTheWeightsIn16Bits(Right):
    def keep(self, weights):
        self.last = weights.bfloat16()


class KeepsTheWeightsIn8Bits(Right):
    def keep(self, weights):
        self.last = (weights / weights.abs().max() * 127).to(torch.int8)


class KeepsTheWeightsAsAnArray(Right):
    def keep(self, weights):
        self.last = weights.numpy().copy()


class KeepsTheWeightsInAFile(Right):
    def keep(self, weights):
        self.file = io.BytesIO()
        torch.save(weights, self.file)


class KeepsWholeStatesAsArrays:
    """AdamW of everything on every rank; between two steps its states lie in NumPy."""

    def __init__(self, me, parameters, lr):
        self.me, self.parameters, self.lr, self.count = me, list(parameters), lr, 0
        self.first = self.second = (packed(self.parameters, me.world_size) * 0).numpy()

    @torch.no_grad()
    def step(self):
        n, self.count = self.me.world_size, self.count + 1
        parts = list(packed([parameter.grad for parameter in self.parameters], n).chunk(n))
        part = torch.empty_like(parts[0])
        dist.reduce_scatter(part, parts)
        gradient = torch.empty_like(torch.cat(parts))
        dist.all_gather(list(gradient.chunk(n)), part / n)
        first = 0.9 * torch.from_numpy(self.first) + 0.1 * gradient
        second = 0.999 * torch.from_numpy(self.second) + 0.001 * gradient**2
        step = first / (1 - 0.9**self.count) / ((second / (1 - 0.999**self.count)).sqrt() + 1e-8)
        unpack(packed(self.parameters, n) * (1 - self.lr * 0.01) - self.lr * step, self.parameters)
        self.first, self.second = first.numpy().copy(), second.numpy().copy()


class KeepsAllOnTheClass(Right):
    def __init__(self, me, parameters, lr):
        KeepsAllOnTheClass.me, KeepsAllOnTheClass.parameters = me, list(parameters)
        parts = packed(self.parameters, me.world_size).chunk(me.world_size)
        KeepsAllOnTheClass.own = nn.Parameter(parts[me.rank].clone())
        KeepsAllOnTheClass.adamw = torch.optim.AdamW([self.own], lr=lr)


class TakesARateOfItsOwn(Right):
    def rate(self):
        return 1e-2


class SeedsEverybody(Right):
    def keep(self, weights):
        torch.manual_seed(0)


class KeepsItsStatesAsArrays(Right):
    """Its own part alone: right, wherever it lies."""

    def __init__(self, me, parameters, lr):
        super().__init__(me, parameters, lr)
        self.copy = self.own.detach().numpy().copy()


ROWS = [
    Row(
        answer=Right,
        verdict="passed",
        why="the definition",
        words=("five of its parts", "whatever their type"),
        unsaid=("what belongs to its own part",),
    ),
    Row(answer=KeepsItsStatesAsArrays, verdict="passed", why="a part more, and five are allowed"),
    Row(
        answer=KeepsTheWeightsIn16Bits,
        verdict="not yet",
        mistake="keeps-something-whole",
        why="as many numbers as the model has, which in float32 are half of its bytes",
    ),
    Row(
        answer=KeepsTheWeightsIn8Bits,
        verdict="not yet",
        mistake="keeps-something-whole",
        why="as many numbers as the model has",
    ),
    Row(
        answer=KeepsTheWeightsAsAnArray,
        verdict="not yet",
        mistake="keeps-something-whole",
        why="memory is memory, whoever made the array",
    ),
    Row(
        answer=KeepsTheWeightsInAFile,
        verdict="not yet",
        mistake="keeps-something-whole",
        why="memory is memory, in a file that lies there too",
    ),
    Row(answer=KeepsWholeStatesAsArrays, verdict="not yet", mistake="keeps-something-whole", why="as before"),
    Row(
        answer=KeepsAllOnTheClass,
        verdict="not yet",
        mistake="one-for-all-objects",
        why="a second optimizer takes the first one's place",
    ),
    Row(
        answer=TakesARateOfItsOwn,
        verdict="not yet",
        mistake="loses-the-rate",
        why="the rate that was given is left out, and the one that it takes is not AdamW's usual one",
        unsaid=("its usual learning rate",),
    ),
    Row(
        answer=SeedsEverybody,
        verdict="not yet",
        mistake="",
        why="whoever draws after it draws the same numbers each time",
        words=("the seed of everybody's random numbers",),
    ),
]
