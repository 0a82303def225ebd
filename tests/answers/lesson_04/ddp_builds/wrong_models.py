"""04.ddp: answers that are wrong with models that are not plain; the docstring says how."""

from __future__ import annotations

import contextlib

import torch
import torch.distributed as dist
from answers.lesson_04.ddp_builds.final import Bucket, Final
from torch import nn


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
