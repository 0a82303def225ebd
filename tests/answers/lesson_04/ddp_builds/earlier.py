"""04.ddp: right answers to the earlier steps, and in other styles."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from answers.lesson_04.ddp_builds.final import Final
from torch import nn


class Naive(nn.Module):
    """A message a gradient, in its hook."""

    def __init__(self, module, me, bucket_bytes=2**20, all_reduce=dist.all_reduce):
        super().__init__()
        self.module, self.me, self.all_reduce = module, me, all_reduce
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.detach(), src=0)
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.average)

    def average(self, parameter):
        self.all_reduce(parameter.grad)
        parameter.grad /= self.me.world_size

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def state_dict(self, *args, **kwargs):
        return self.module.state_dict(*args, **kwargs)


class InBuckets(Naive):
    """``torch.cat`` and a blocking all-reduce, in the hook of a bucket's last gradient."""

    def __init__(self, module, me, bucket_bytes=2**20, all_reduce=dist.all_reduce):
        nn.Module.__init__(self)
        self.module, self.me, self.all_reduce = module, me, all_reduce
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.detach(), src=0)
        still_open, buckets = {}, []
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
            filling = still_open.setdefault(parameter.dtype, [])
            filling.append(parameter)
            if sum(p.nbytes for p in filling) >= bucket_bytes:
                buckets.append(still_open.pop(parameter.dtype))
        self.buckets = [*buckets, *still_open.values()]
        self.come = [0] * len(self.buckets)
        for number, bucket in enumerate(self.buckets):
            for parameter in bucket:
                parameter.register_post_accumulate_grad_hook(partial(self.on_gradient, number))

    def on_gradient(self, number, parameter):
        self.come[number] += 1
        if self.come[number] == len(self.buckets[number]):
            self.come[number] = 0
            self.send(self.buckets[number])

    def send(self, bucket):
        flat = torch.cat([p.grad.flatten() for p in bucket])
        self.all_reduce(flat)
        flat /= self.me.world_size
        for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            p.grad.copy_(part.view_as(p))


class LastHookWaits(InBuckets):
    """Overlapped with ``torch.cat``; the hook of the last gradient of all waits. Gradients become views at once."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.under_way, self.left = [], sum(map(len, self.buckets))

    def on_gradient(self, number, parameter):
        self.left -= 1
        super().on_gradient(number, parameter)
        if not self.left:
            self.left = sum(map(len, self.buckets))
            for work, flat in self.under_way:
                work.wait()
                flat /= self.me.world_size
            self.under_way.clear()

    def send(self, bucket):
        flat = torch.cat([p.grad.flatten() for p in bucket])
        for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            p.grad = part.view_as(p)
        self.under_way.append((self.all_reduce(flat, async_op=True), flat))


class BlockingInViews(Final):
    """In flat tensors that stay; each all-reduce waits on the spot."""

    def start(self, bucket):
        self.all_reduce(bucket.flat)

    def end(self, bucket):
        bucket.flat /= self.me.world_size


class DividesFirst(Final):
    """Each rank divides its own before the sum."""

    def start(self, bucket):
        bucket.flat /= self.me.world_size
        super().start(bucket)

    def end(self, bucket):
        bucket.work.wait()


class LaidOutAsParameters(Final):
    """Views with the strides of the parameters."""

    class bucket(Final.bucket):  # noqa: N801
        def __init__(self, parameters):
            super().__init__(parameters)
            parts = self.flat.split([p.numel() for p in parameters])
            self.views = [
                part.as_strided(p.shape, torch.empty_like(p).stride(), part.storage_offset())
                for part, p in zip(parts, parameters, strict=True)
            ]


class RefusesNothingToTrain(Final):
    """As PyTorch's does."""

    def __init__(self, module, me, *args, **kwargs):
        if not any(p.requires_grad for p in module.parameters()):
            raise ValueError("this module has no parameter that requires a gradient: nothing is to be averaged")
        super().__init__(module, me, *args, **kwargs)


class BroadcastsOneFlatTensor(Final):
    """All parameters of a dtype in one message at the beginning."""

    def begin_alike(self):
        tensors = [t.detach() for t in (*self.module.parameters(), *self.module.buffers())]
        for dtype in {t.dtype: None for t in tensors}:
            alike = [t for t in tensors if t.dtype == dtype]
            flat = torch.cat([t.flatten() for t in alike])
            dist.broadcast(flat, src=0)
            for t, part in zip(alike, flat.split([t.numel() for t in alike]), strict=True):
                t.copy_(part.view_as(t))


class BuffersInOneMessage(Final):
    """Gathers what differs, and takes rank 0's."""

    def share_buffers(self):
        buffers = list(self.module.buffers())
        if buffers:
            flat = torch.cat([buffer.double().flatten() for buffer in buffers])
            dist.broadcast(flat, src=0)
            for buffer, part in zip(buffers, flat.split([b.numel() for b in buffers]), strict=True):
                buffer.copy_(part.view_as(buffer))


class WithFuture(Final):
    """Waits by the future of the work."""

    def end(self, bucket):
        bucket.work.get_future().wait()
        bucket.flat /= self.me.world_size
