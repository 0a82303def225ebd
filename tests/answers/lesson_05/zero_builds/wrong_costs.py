"""05.zero: builds whose steps are right and cost too much, each in one way."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answers.lesson_05.zero_builds.final import Final
from torch import nn


class AllReduces(Final):
    def mean(self, group, own):
        gradients = self.packed([self.gradient_of(p) for p in group])
        dist.all_reduce(gradients)
        return gradients.chunk(self.me.world_size)[self.me.rank] / self.me.world_size


class GathersGradients(Final):
    """Everybody gets everybody's whole gradients."""

    def mean(self, group, own):
        gradients = self.packed([self.gradient_of(p) for p in group])
        each = [torch.empty_like(gradients) for _ in range(self.me.world_size)]
        dist.all_gather(each, gradients)
        return torch.stack(each).mean(dim=0).chunk(self.me.world_size)[self.me.rank].clone()


class WithABarrier(Final):
    def step(self):
        super().step()
        dist.barrier()


class AsksWhoHasNone(Final):
    """A flag a step: whether anybody has no gradient."""

    def step(self):
        flag = torch.tensor(float(any(p.grad is None for group, _ in self.parts for p in group)))
        dist.all_reduce(flag)
        super().step()


class SendsSizes(Final):
    """They are the same in every step."""

    def step(self):
        sizes = [None] * self.me.world_size
        dist.all_gather_object(sizes, [p.numel() for group, _ in self.parts for p in group])
        super().step()


class AddsParts(Final):
    """Zeros for what others have, and a sum."""

    def gather(self, group, own):
        weights = own.new_zeros(own.numel() * self.me.world_size)
        weights.chunk(self.me.world_size)[self.me.rank].copy_(own.detach())
        dist.all_reduce(weights)
        return weights


class BroadcastsParts(Final):
    """One broadcast for each rank's part."""

    def gather(self, group, own):
        weights = own.new_empty(own.numel() * self.me.world_size)
        weights.chunk(self.me.world_size)[self.me.rank].copy_(own.detach())
        for rank, part in enumerate(weights.chunk(self.me.world_size)):
            dist.broadcast(part, src=rank)
        return weights


class EachParameter(Final):
    """A part of each parameter, and two calls for each."""

    def __init__(self, parameters, optimizer_class, me, **defaults):
        self.me = me
        self.parts = [([p], nn.Parameter(self.begin([p]))) for p in parameters if p.requires_grad]
        self.inner = optimizer_class([own for _, own in self.parts], **defaults)
        self.param_groups = self.inner.param_groups


class TwiceAsWide(Final):
    """Sends float64 for float32, and complex numbers for float64."""

    def mean(self, group, own):
        gradients = self.packed([self.gradient_of(p) for p in group]).to(torch.complex128)
        mean = torch.empty_like(own, dtype=torch.complex128)
        dist.reduce_scatter(mean, list(gradients.chunk(self.me.world_size)))
        return mean.real.to(own.dtype) / self.me.world_size


class GathersTwice(Final):
    def step(self):
        super().step()
        for group, own in self.parts:
            self.gather(group, own)


class AllStates(Final):
    """Every rank steps on everything."""

    def begin(self, group):
        return self.packed(group)

    def mean(self, group, own):
        n = self.me.world_size
        mean = torch.empty_like(own.chunk(n)[self.me.rank])
        gradients = self.packed([self.gradient_of(p) for p in group])
        dist.reduce_scatter(mean, list(gradients.chunk(n)))
        whole = torch.empty_like(own)
        dist.all_gather(list(whole.chunk(n)), mean)
        return whole / n

    def gather(self, group, own):
        return own.detach()


class KeepsAView(Final):
    """A view of all weights, which holds them all."""

    def begin(self, group):
        return self.packed(group).chunk(self.me.world_size)[self.me.rank]


class KeepsGradients(Final):
    """All gradients in a row, kept for the next step."""

    def packed(self, tensors):
        self.flat = super().packed(tensors)
        return self.flat


class KeepsWeights(Final):
    def gather(self, group, own):
        self.weights = super().gather(group, own)
        return self.weights


class KeepsAList(Final):
    """The same in a list of numbers."""

    def gather(self, group, own):
        weights = super().gather(group, own)
        self.weights = weights.tolist()
        return weights


class KeepsAll(Final):
    """For no reason, a record of all steps."""

    def gather(self, group, own):
        self.record = [*getattr(self, "record", []), own.detach().clone()]
        return super().gather(group, own)
