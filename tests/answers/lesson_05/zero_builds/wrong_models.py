"""05.zero: builds that are right of plain models, and wrong of one kind of awkward ones."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answers.lesson_05.zero_builds.final import Final
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer


class TakesFrozen(Final):
    """Zeros for their gradients, and weight decay for their weights."""

    def learning(self, parameters):
        return list(parameters)


class AsksFrozen(Final):
    """The gradient of a frozen parameter is None."""

    def learning(self, parameters):
        self.all = list(parameters)
        return [p for p in self.all if p.requires_grad]

    def step(self):
        for parameter in self.all:
            if not parameter.requires_grad:
                parameter.grad.norm()
        super().step()


class AsksUnused(Final):
    def gradient_of(self, parameter):
        return parameter.grad if not parameter.requires_grad else parameter.grad.detach()


class LeavesOutUnused(Final):
    """Whoever has no gradient makes no call, and the others wait for it."""

    def step(self):
        if all(p.grad is not None for group, _ in self.parts for p in group):
            super().step()


class OneDtype(Final):
    """Everything in the first parameter's dtype."""

    def __init__(self, parameters, optimizer_class, me, **defaults):
        self.me = me
        group = self.learning(parameters)
        self.dtype = group[0].dtype
        self.parts = [(group, nn.Parameter(self.begin(group)))]
        self.inner = self.make(optimizer_class, [self.parts[0][1]], defaults)
        self.param_groups = self.inner.param_groups

    def packed(self, tensors):
        return super().packed([tensor.to(self.dtype) for tensor in tensors])


class Promotes(OneDtype):
    """Everything in float64, which is near enough, and twice the bytes of float32."""

    def __init__(self, parameters, optimizer_class, me, **defaults):
        learning = sorted(parameters, key=lambda p: p.dtype.itemsize, reverse=True)
        super().__init__(learning, optimizer_class, me, **defaults)


class SendsFloat64(Final):
    """Whatever dtype the gradients have."""

    def mean(self, group, own):
        gradients = self.packed([self.gradient_of(p).double() for p in group])
        mean = torch.empty_like(own, dtype=torch.float64)
        dist.reduce_scatter(mean, list(gradients.chunk(self.me.world_size)))
        return (mean / self.me.world_size).to(own.dtype)


class AnOptimizerADtype(Final):
    """Two that do the work, and the groups of the first."""

    def make(self, optimizer_class, own, defaults):
        self.each = [optimizer_class([one], **defaults) for one in own]
        return self

    @property
    def param_groups(self):
        return self.each[0].param_groups

    @param_groups.setter
    def param_groups(self, groups):
        pass

    @torch.no_grad()
    def step(self):
        for group, own in self.parts:
            own.grad = self.mean(group, own)
        for one in self.each:
            one.step()
        for group, own in self.parts:
            weights, begin = self.gather(group, own), 0
            for parameter in group:
                self.write(parameter, weights[begin : begin + parameter.numel()])
                begin += parameter.numel()


class WritesToACopy(Final):
    def write(self, parameter, part):
        parameter.detach().reshape(-1).copy_(part)


class ViewsAll(Final):
    def write(self, parameter, part):
        parameter.detach().view(-1).copy_(part)


class FixedRate(Final):
    """Groups of its own, that nobody reads."""

    def __init__(self, parameters, optimizer_class, me, **defaults):
        super().__init__(parameters, optimizer_class, me, **defaults)
        self.param_groups = [dict(group) for group in self.inner.param_groups]


class SharedParts(Final):
    """The parts stand in the class."""

    shared = None

    def __init__(self, parameters, optimizer_class, me, **defaults):
        super().__init__(parameters, optimizer_class, me, **defaults)
        type(self).shared = self.parts, self.inner

    def step(self):
        self.parts, self.inner = type(self).shared
        super().step()


class TwoAtLeast(Final):
    """A rank that is alone has nobody to send to."""

    def gather(self, group, own):
        if self.me.world_size == 1:
            dist.send(own.detach(), dst=1)
        return super().gather(group, own)


class ByTheLast(Final):
    """The optimizer of the class is that of the object made last."""

    def make(self, optimizer_class, own, defaults):
        type(self).last = super().make(optimizer_class, own, defaults)
        return type(self).last

    def step(self):
        self.inner = type(self).last
        super().step()


class WithTorchs:
    """By what is forbidden."""

    def __init__(self, parameters, optimizer_class, me, **defaults):
        self.parameters, self.me = list(parameters), me
        self.work = ZeroRedundancyOptimizer(self.parameters, optimizer_class=optimizer_class, **defaults)

    def zero_grad(self):
        self.work.zero_grad()

    def step(self):
        for parameter in self.parameters:
            dist.all_reduce(parameter.grad)
            parameter.grad /= self.me.world_size
        self.work.step()
