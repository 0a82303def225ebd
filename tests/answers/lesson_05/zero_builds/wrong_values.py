"""05.zero: builds whose steps are not those of one process, each in one way."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from answers.lesson_05.zero_builds.final import Final
from torch import nn


class Sums(Final):
    def mean(self, group, own):
        return super().mean(group, own) * self.me.world_size


class DividesTwice(Final):
    def mean(self, group, own):
        return super().mean(group, own) / self.me.world_size


class OwnGradients(Final):
    """No rank hears of the others."""

    def __init__(self, parameters, optimizer_class, me, **defaults):
        self.parameters = list(parameters)
        self.inner = optimizer_class(self.parameters, **defaults)

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        self.inner.step()


class OwnPartByOwnGradients(Final):
    def mean(self, group, own):
        gradients = self.packed([self.gradient_of(p) for p in group])
        return gradients.chunk(self.me.world_size)[self.me.rank].clone()


class GradientsOfRank0(Final):
    def mean(self, group, own):
        gradients = self.packed([self.gradient_of(p) for p in group])
        dist.broadcast(gradients, src=0)
        return gradients.chunk(self.me.world_size)[self.me.rank].clone()


class NeverGathers(Final):
    def gather(self, group, own):
        weights = self.packed(group)
        weights.chunk(self.me.world_size)[self.me.rank].copy_(own.detach())
        return weights


class OnePartRepeated(Final):
    """Every place of the list is the same tensor."""

    def gather(self, group, own):
        parts = [torch.empty_like(own)] * self.me.world_size
        dist.all_gather(parts, own.detach())
        return torch.cat(parts)


class Afresh(Final):
    """An optimizer for each step."""

    def make(self, optimizer_class, own, defaults):
        self.again = lambda: optimizer_class(own, **defaults)
        return self.again()

    def step(self):
        self.inner = self.again()
        super().step()


class PilesUp(Final):
    """Adds to the gradient of the part, which nobody sets back."""

    def mean(self, group, own):
        mean = super().mean(group, own)
        self.sums = getattr(self, "sums", 0) + mean
        return self.sums.clone()


class LosesDefaults(Final):
    def make(self, optimizer_class, own, defaults):
        return optimizer_class(own)


class TakesTheRateAlone(Final):
    def make(self, optimizer_class, own, defaults):
        return optimizer_class(own, lr=defaults["lr"])


class AlwaysAdamW(Final):
    def make(self, optimizer_class, own, defaults):
        return torch.optim.AdamW(own, **defaults)


class NeverWaits(Final):
    def gather(self, group, own):
        weights = own.new_zeros(own.numel() * self.me.world_size)
        dist.all_gather(list(weights.chunk(self.me.world_size)), own.detach(), async_op=True)
        return weights


class SleepsForAWait(Final):
    def gather(self, group, own):
        weights = own.new_zeros(own.numel() * self.me.world_size)
        dist.all_gather(list(weights.chunk(self.me.world_size)), own.detach(), async_op=True)
        time.sleep(0.02)
        return weights


class GathersFirst(Final):
    """The parts as they were before the step."""

    def step(self):
        with torch.no_grad():
            for group, own in self.parts:
                own.grad = self.mean(group, own)
            found = [self.gather(group, own) for group, own in self.parts]
            self.inner.step()
            for (group, _), weights in zip(self.parts, found, strict=True):
                begin = 0
                for parameter in group:
                    self.write(parameter, weights[begin : begin + parameter.numel()])
                    begin += parameter.numel()


class PadsInFront(Final):
    """The part and its gradient do not lie alike."""

    def begin(self, group):
        flat = torch.cat([p.detach().flatten() for p in group])
        flat = nn.functional.pad(flat, (-len(flat) % self.me.world_size, 0))
        return flat.chunk(self.me.world_size)[self.me.rank].clone()


class SetsASeed(Final):
    def step(self):
        torch.manual_seed(0)
        super().step()


class NoObject:
    """A constructor's work, done by a function: what it gives is no optimizer."""

    def __new__(cls, parameters, optimizer_class, me, **defaults):
        return [1.0]


class NewWeights(Final):
    """Binds other storages instead of writing."""

    def write(self, parameter, part):
        pass
