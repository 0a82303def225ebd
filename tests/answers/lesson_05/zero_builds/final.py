"""05.zero: the whole build, of which wrong ones are made by what they change, and right ones in other styles."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Final:
    """One flat part for each dtype."""

    def __init__(self, parameters, optimizer_class, me, **defaults):
        self.me, self.parts = me, []
        learning = self.learning(parameters)
        for dtype in dict.fromkeys(p.dtype for p in learning):
            group = [p for p in learning if p.dtype == dtype]
            self.parts.append((group, nn.Parameter(self.begin(group))))
        self.inner = self.make(optimizer_class, [own for _, own in self.parts], defaults)
        self.param_groups = self.inner.param_groups

    def learning(self, parameters):
        return [p for p in parameters if p.requires_grad]

    def make(self, optimizer_class, own, defaults):
        return optimizer_class(own, **defaults)

    def packed(self, tensors):
        flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
        return F.pad(flat, (0, -len(flat) % self.me.world_size))

    def begin(self, group):
        return self.packed(group).chunk(self.me.world_size)[self.me.rank].clone()

    def gradient_of(self, parameter):
        return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad

    def zero_grad(self):
        for group, _ in self.parts:
            for parameter in group:
                parameter.grad = None

    def mean(self, group, own):
        gradients = self.packed([self.gradient_of(p) for p in group])
        mean = torch.empty_like(own)
        dist.reduce_scatter(mean, list(gradients.chunk(self.me.world_size)))
        return mean / self.me.world_size

    def gather(self, group, own):
        weights = own.new_empty(own.numel() * self.me.world_size)
        dist.all_gather(list(weights.chunk(self.me.world_size)), own.detach())
        return weights

    def write(self, parameter, part):
        parameter.copy_(part.view_as(parameter))

    @torch.no_grad()
    def step(self):
        for group, own in self.parts:
            own.grad = self.mean(group, own)
        self.inner.step()
        for group, own in self.parts:
            weights, begin = self.gather(group, own), 0
            for parameter in group:
                self.write(parameter, weights[begin : begin + parameter.numel()])
                begin += parameter.numel()
            own.grad = None


class ByTensors(Final):
    """By the collectives that take one tensor."""

    def mean(self, group, own):
        mean = torch.empty_like(own)
        dist.reduce_scatter_tensor(mean, self.packed([self.gradient_of(p) for p in group]))
        return mean / self.me.world_size

    def gather(self, group, own):
        weights = own.new_empty(own.numel() * self.me.world_size)
        dist.all_gather_into_tensor(weights, own.detach())
        return weights


class DividesFirst(Final):
    """The mean as the sum of quotients."""

    def mean(self, group, own):
        parts = self.packed([self.gradient_of(p) / self.me.world_size for p in group]).chunk(self.me.world_size)
        mean = torch.empty_like(own)
        dist.reduce_scatter(mean, list(parts))
        return mean


class Waits(Final):
    """Begun, and waited for."""

    def gather(self, group, own):
        parts = [torch.empty_like(own) for _ in range(self.me.world_size)]
        dist.all_gather(parts, own.detach(), async_op=True).wait()
        return torch.cat(parts)


class ZerosInPlace(Final):
    """The gradient of the part stays, and so do those of the model."""

    def zero_grad(self):
        for group, _ in self.parts:
            for parameter in group:
                if parameter.grad is not None:
                    parameter.grad.zero_()

    @torch.no_grad()
    def step(self):
        for group, own in self.parts:
            own.grad = self.mean(group, own)
        self.inner.step()
        for group, own in self.parts:
            parts = self.gather(group, own)[: sum(p.numel() for p in group)].split([p.numel() for p in group])
            for parameter, part in zip(group, parts, strict=True):
                parameter.data.copy_(part.reshape(parameter.shape))


class AnOptimizer(torch.optim.Optimizer):
    """A subclass of torch's, as a schedule of PyTorch asks for."""

    def __init__(self, parameters, optimizer_class, me, **defaults):
        super().__init__(list(parameters), defaults)
        self.work = Final(self.param_groups[0]["params"], optimizer_class, me, **defaults)

    def step(self, closure=None):
        settings = {name: value for name, value in self.param_groups[0].items() if name != "params"}
        self.work.param_groups[0].update(settings)
        self.work.step()
