"""04.ddp: wrong answers, each wrong in one way; the docstring says in which."""

from __future__ import annotations

import contextlib
import time

import torch
import torch.distributed as dist
from answers.lesson_04.ddp_builds.earlier import InBuckets, LastHookWaits, Naive
from answers.lesson_04.ddp_builds.final import Bucket, Final
from torch import nn

# -- values -----------------------------------------------------------------------------------------------------------


class BeginsUnlike(Naive):
    """Nothing is broadcast."""

    def __init__(self, module, me, bucket_bytes=2**20, all_reduce=dist.all_reduce):
        nn.Module.__init__(self)
        self.module, self.me, self.all_reduce = module, me, all_reduce
        for parameter in module.parameters():
            parameter.register_post_accumulate_grad_hook(self.average)


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


class NeverSends(Naive):
    """The hook does nothing."""

    def average(self, parameter):
        return None


class LosesTheMean(Naive):
    """The mean is in a new tensor."""

    def average(self, parameter):
        gradient = parameter.grad.clone()
        self.all_reduce(gradient)
        gradient /= self.me.world_size


class Sums(Naive):
    """No division."""

    def average(self, parameter):
        self.all_reduce(parameter.grad)


class DividesByTwo(Naive):
    """Right on two ranks."""

    def average(self, parameter):
        self.all_reduce(parameter.grad)
        parameter.grad /= 2


class DropsKeywords(Naive):
    """``forward`` takes one tensor."""

    def forward(self, x):
        return self.module(x)


class Prefixed(Naive):
    """The names have ``module.`` before them, as PyTorch's."""

    def state_dict(self, *args, **kwargs):
        return nn.Module.state_dict(self, *args, **kwargs)


class SendsByDist(Naive):
    """Whatever it is given, it sends by ``dist``."""

    def average(self, parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad /= self.me.world_size


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


# -- bytes ------------------------------------------------------------------------------------------------------------


class OneBucket(Final):
    """Everything in one."""

    def is_enough(self, filling, bucket_bytes):
        return False


class FromTheFront(Final):
    """Filled from the first parameter on."""

    def learning(self):
        return super().learning()[::-1]


class CountsNumbers(Final):
    """Numbers instead of bytes."""

    def is_enough(self, filling, bucket_bytes):
        return sum(p.numel() for p in filling) >= bucket_bytes


class MixesDtypes(InBuckets):
    """``torch.cat`` of two dtypes."""

    def __init__(self, module, me, bucket_bytes=2**20, all_reduce=dist.all_reduce):
        super().__init__(module, me, bucket_bytes, all_reduce)
        if len(self.buckets) == 2 and bucket_bytes == 2**20:
            order = {id(p): place for place, p in enumerate(module.parameters())}
            together = sorted((p for bucket in self.buckets for p in bucket), key=lambda p: -order[id(p)])
            self.buckets, self.left = [together, []], len(together)

    def on_gradient(self, number, parameter):
        if self.buckets[-1]:
            return super().on_gradient(number, parameter)
        self.left -= 1
        if not self.left:
            self.left = len(self.buckets[0])
            self.send(self.buckets[0])


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


class PrefixedInBuckets(InBuckets):
    """The names have ``module.`` before them."""

    def state_dict(self, *args, **kwargs):
        return nn.Module.state_dict(self, *args, **kwargs)


class BucketsByDist(InBuckets):
    """Whatever it is given, it sends by ``dist``."""

    def __init__(self, *args, all_reduce=None, **kwargs):
        super().__init__(*args, **kwargs)


# -- memory -----------------------------------------------------------------------------------------------------------


class CopiesBack(Final):
    """The flat tensors stay, and the gradients as well."""

    class bucket(Bucket):  # noqa: N801
        def put(self, index):
            parameter = self.parameters[index]
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            self.views[index].copy_(parameter.grad)
            self.come.add(index)

    def end(self, bucket):
        super().end(bucket)
        for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
            parameter.grad.copy_(view)


class KeepsTwo(Final):
    """Views, and a copy of each flat tensor beside them."""

    def end(self, bucket):
        super().end(bucket)
        bucket.last = bucket.flat.clone()


class KeepsAll(Final):
    """What each step has sent is kept."""

    def end(self, bucket):
        super().end(bucket)
        self.sent = [*getattr(self, "sent", []), bucket.flat.clone()]


class MakesThemAnew(Final):
    """Views in the first step; afterwards copies."""

    def end(self, bucket):
        super().end(bucket)
        for parameter in bucket.parameters:
            parameter.grad = parameter.grad.clone()


# -- overlap ----------------------------------------------------------------------------------------------------------


class WaitsInTheHook(Final):
    """Each all-reduce waits at once."""

    def start(self, bucket):
        super().start(bucket)
        bucket.work.wait()


class AllAtTheEnd(Final):
    """Nothing starts before the end of backward."""

    def hook(self, bucket, index):
        def on_gradient(parameter):
            if not self.syncs:
                return
            if not any(each.come for each in self.buckets):
                torch.autograd.Variable._execution_engine.queue_callback(self.finish)
            bucket.put(index)

        return on_gradient


class OneLate(Final):
    """A bucket leaves with the first gradient of the next."""

    def start_full(self):
        while self.started < len(self.buckets) - 1 and self.buckets[self.started + 1].come:
            if not self.buckets[self.started].is_full:
                return
            self.start(self.buckets[self.started])
            self.started += 1

    def finish(self):
        self.fill_gaps()
        while self.started < len(self.buckets):
            self.start(self.buckets[self.started])
            self.started += 1
        super().finish()


class TooSoon(Final):
    """Leaves with the first gradient of a bucket, and again with the last one's numbers missing."""

    def start_full(self):
        while self.started < len(self.buckets) and self.buckets[self.started].come:
            self.start(self.buckets[self.started])
            self.started += 1


class SleepsForAWait(Final):
    """Nobody waits; some time passes."""

    def end(self, bucket):
        time.sleep(0.02)
        bucket.flat /= self.me.world_size
        bucket.work = None


class NeverWaits(LastHookWaits):
    """``async_op`` without a wait, in the simplest style."""

    def send(self, bucket):
        flat = torch.cat([p.grad.flatten() for p in bucket])
        for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            p.grad = part.view_as(p)
        self.all_reduce(flat, async_op=True)
        flat /= self.me.world_size


# -- awkward ----------------------------------------------------------------------------------------------------------


class SkipsUnused(Final):
    """At the end only full buckets are sent, and the others are waited for all the same."""

    def finish(self):
        self.start_full()
        for bucket in self.buckets[: self.started]:
            self.end(bucket)
        for bucket in self.buckets:
            bucket.come.clear()
        self.started = 0


class AsTheyCome(Final):
    """A bucket leaves when it is full, whatever its place in the list."""

    def start_full(self):
        for bucket in self.buckets:
            if bucket.is_full and bucket.work is None:
                self.start(bucket)


class SendsInNoSync(Final):
    """``no_sync`` does nothing."""

    @contextlib.contextmanager
    def no_sync(self):
        yield


class StaysQuiet(Final):
    """An error inside ``no_sync`` leaves the flag down."""

    @contextlib.contextmanager
    def no_sync(self):
        self.syncs = False
        yield
        self.syncs = True


class ZerosForTheQuiet(Final):
    """What the last pass did not use becomes zeros, whatever the quiet ones have added up."""

    def fill_gaps(self):
        for bucket in self.buckets:
            for index, parameter in enumerate(bucket.parameters):
                if index not in bucket.come:
                    parameter.grad = None
                    bucket.put(index)


class OwnBuffers(Final):
    """Each rank keeps its own statistics."""

    def share_buffers(self):
        return None


class MeanOfBuffers(Final):
    """The mean of all ranks' statistics instead of rank 0's."""

    def share_buffers(self):
        for buffer in self.module.buffers():
            if buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer /= self.me.world_size
            else:
                dist.broadcast(buffer, src=0)


class TakesFrozen(Final):
    """Frozen parameters get hooks as well."""

    def learning(self):
        return list(self.module.parameters())


class AsksForTheFirst(Final):
    """The dtype of the first parameter that learns."""

    def assign(self, bucket_bytes):
        self.dtype = self.learning()[0].dtype
        return super().assign(bucket_bytes)


class SharedCount(Final):
    """How many buckets have left stands in the class."""

    counts: dict[str, int] = {}  # noqa: RUF012

    @property
    def started(self):
        return SharedCount.counts.get("started", 0)

    @started.setter
    def started(self, value):
        SharedCount.counts["started"] = value


class NotAlone(Final):
    """Divides by the other ranks on its way."""

    def end(self, bucket):
        super().end(bucket)
        self.share = 1 / (self.me.world_size - 1)


class FlattensByView(Final):
    """A row of a gradient by ``view``, which convolutions in channels_last refuse."""

    class bucket(Bucket):  # noqa: N801
        def __init__(self, parameters):
            super().__init__(parameters)
            self.rows = [parameter.detach().view(-1) for parameter in parameters]


class MeanOverUsers(Final):
    """A layer is divided by the ranks that used it."""

    def finish(self):
        parameters = [p for bucket in self.buckets for p in bucket.parameters]
        users = torch.tensor([float(p.grad is not None) for p in parameters])
        dist.all_reduce(users)
        super().finish()
        for parameter, count in zip(parameters, users.tolist(), strict=True):
            if 0 < count < self.me.world_size:
                parameter.grad *= self.me.world_size / count


class CountsForwards(Final):
    """Expects as many gradients as forward passes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.forwards = 0

    def forward(self, *args, **kwargs):
        self.forwards += 1
        return super().forward(*args, **kwargs)

    def end(self, bucket):
        super().end(bucket)
        bucket.flat /= max(1, self.forwards)
        if bucket is self.buckets[-1]:
            self.forwards = 0


class WithTorchs(nn.Module):
    """PyTorch's own, inside."""

    def __init__(self, module, me, bucket_bytes=2**20, all_reduce=dist.all_reduce):
        super().__init__()
        self.ddp = nn.parallel.DistributedDataParallel(module, bucket_cap_mb=bucket_bytes / 2**20)

    def forward(self, *args, **kwargs):
        return self.ddp(*args, **kwargs)

    def no_sync(self):
        return self.ddp.no_sync()

    def state_dict(self, *args, **kwargs):
        return self.ddp.module.state_dict(*args, **kwargs)


ALL = [name for name, one in list(globals().items()) if isinstance(one, type) and one.__module__ == __name__]
