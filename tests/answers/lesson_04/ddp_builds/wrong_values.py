"""04.ddp: answers that are wrong in values, or in what they send; the docstring says how."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from answers.lesson_04.ddp_builds.earlier import Naive
from answers.lesson_04.ddp_builds.final import Bucket, Final
from torch import nn


class BeginsUnlike(Final):
    """Nothing is broadcast."""

    def begin_alike(self):
        return None


class BeginsFromTheLast(Final):
    """The last rank's weights go to all."""

    def begin_alike(self):
        for tensor in (*self.module.parameters(), *self.module.buffers()):
            dist.broadcast(tensor.detach(), src=self.me.world_size - 1)


class SeedsAll(Final):
    """A seed for everybody, and no broadcast."""

    def begin_alike(self):
        torch.manual_seed(0)
        for module in self.module.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()


class SeedsBeside(Final):
    """Right, and the process's random numbers are seeded."""

    def begin_alike(self):
        torch.manual_seed(0)
        super().begin_alike()


class NeverSends(Final):
    """The hook does nothing."""

    def hook(self, bucket, index):
        return lambda parameter: None


class LosesTheMean(Final):
    """The mean is in a new tensor."""

    def start(self, bucket):
        self.lost = bucket.flat.clone()
        bucket.work = self.all_reduce(self.lost, async_op=True)

    def end(self, bucket):
        bucket.work.wait()
        bucket.work = None


class Sums(Final):
    """No division."""

    def end(self, bucket):
        bucket.work.wait()
        bucket.work = None


class DividesByTwo(Final):
    """Right on two ranks."""

    def end(self, bucket):
        bucket.work.wait()
        bucket.flat /= 2
        bucket.work = None


class DropsKeywords(Final):
    """``forward`` takes what comes by place alone."""

    def forward(self, *args):
        return super().forward(*args)


class Prefixed(Final):
    """The names have ``module.`` before them, as PyTorch's."""

    def state_dict(self, *args, **kwargs):
        return nn.Module.state_dict(self, *args, **kwargs)


class SendsByDist(Final):
    """Whatever it is given, it sends by ``dist``."""

    def start(self, bucket):
        bucket.work = dist.all_reduce(bucket.flat, async_op=True)


class AveragesWeights(Naive):
    """Weights are averaged in each forward, gradients never."""

    def average(self, parameter):
        return None

    def forward(self, *args, **kwargs):
        for parameter in self.module.parameters():
            self.all_reduce(parameter.data)
            parameter.data /= self.me.world_size
        return super().forward(*args, **kwargs)


class SendsShort(Naive):
    """Gradients travel in float32."""

    def average(self, parameter):
        short = parameter.grad.float()
        self.all_reduce(short)
        parameter.grad.copy_(short / self.me.world_size)


class Seals(Naive):
    """Leaves the module in eval mode."""

    def __init__(self, module, me, **kwargs):
        super().__init__(module, me, **kwargs)
        module.eval()


class OneBucket(Final):
    """Everything in one."""

    def is_enough(self, filling, bucket_bytes):
        return False


class OneCallEach(Final):
    """A bucket for each gradient."""

    def is_enough(self, filling, bucket_bytes):
        return True


class FromTheFront(Final):
    """Filled from the first parameter on."""

    def learning(self):
        return super().learning()[::-1]


class CountsNumbers(Final):
    """Numbers instead of bytes."""

    def is_enough(self, filling, bucket_bytes):
        return sum(p.numel() for p in filling) >= bucket_bytes


class MixesDtypes(Final):
    """Two dtypes in one bucket, sent as the wider."""

    class bucket(Bucket):  # noqa: N801
        def __init__(self, parameters):
            super().__init__(parameters)
            self.flat = torch.cat([torch.zeros_like(p).flatten() for p in parameters])
            parts = self.flat.split([p.numel() for p in parameters])
            self.views = [part.view_as(p) for part, p in zip(parts, parameters, strict=True)]

        def put(self, index):
            parameter, view = self.parameters[index], self.views[index]
            if parameter.dtype == view.dtype:
                return super().put(index)
            view.copy_(parameter.grad)
            self.come.add(index)

    def assign(self, bucket_bytes):
        kinds = {p.dtype for p in self.learning()}
        return [self.bucket(self.learning()[::-1])] if len(kinds) > 1 else super().assign(bucket_bytes)

    def end(self, bucket):
        super().end(bucket)
        for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
            if parameter.dtype != view.dtype:
                parameter.grad.copy_(view)


class WithABarrier(Final):
    """All ranks meet at the end of each backward."""

    def finish(self):
        super().finish()
        dist.barrier()


class BroadcastsEachTime(Final):
    """Weights are sent in every forward."""

    def forward(self, *args, **kwargs):
        self.begin_alike()
        return super().forward(*args, **kwargs)


class TellsSizes(Final):
    """The sizes are agreed upon in each step."""

    def finish(self):
        count = torch.tensor([len(self.buckets)])
        dist.all_reduce(count)
        super().finish()


class HidesTheModule(Final):
    """The module is no submodule, so the wrapper has no parameters."""

    def begin_alike(self):
        self.__dict__["module"] = self._modules.pop("module")
        super().begin_alike()


class WrapsACopy(Final):
    """What was handed in is never trained."""

    def begin_alike(self):
        self.module = copy.deepcopy(self.module)
        super().begin_alike()
