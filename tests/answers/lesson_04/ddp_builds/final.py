"""04.ddp: the whole build as a template; what stands beside it changes a method of it."""

from __future__ import annotations

import contextlib

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    """Some parameters, and the flat tensor in which their gradients lie."""

    def __init__(self, parameters):
        self.parameters, self.come, self.work = parameters, set(), None
        count = sum(p.numel() for p in parameters)
        self.flat = torch.zeros(count, dtype=parameters[0].dtype, device=parameters[0].device)
        parts = self.flat.split([p.numel() for p in parameters])
        self.views = [part.view_as(p) for part, p in zip(parts, parameters, strict=True)]

    def put(self, index):
        parameter, view = self.parameters[index], self.views[index]
        if parameter.grad is None:
            view.zero_()
        elif parameter.grad is not view:
            view.copy_(parameter.grad)
        parameter.grad = view
        self.come.add(index)

    @property
    def is_full(self):
        return len(self.come) == len(self.parameters)


class Final(nn.Module):
    """Overlapped, in views, for any model."""

    bucket = Bucket

    def __init__(self, module, me, bucket_bytes=2**20, all_reduce=dist.all_reduce):
        super().__init__()
        self.module, self.me, self.all_reduce, self.syncs = module, me, all_reduce, True
        self.begin_alike()
        self.buckets = self.assign(bucket_bytes)
        self.started = 0
        for bucket in self.buckets:
            for index, parameter in enumerate(bucket.parameters):
                parameter.register_post_accumulate_grad_hook(self.hook(bucket, index))

    def begin_alike(self):
        for tensor in (*self.module.parameters(), *self.module.buffers()):
            dist.broadcast(tensor.detach(), src=0)

    def learning(self):
        return [p for p in self.module.parameters() if p.requires_grad]

    def assign(self, bucket_bytes):
        closed, still_open = [], {}
        for parameter in reversed(self.learning()):
            filling = still_open.setdefault(parameter.dtype, [])
            filling.append(parameter)
            if self.is_enough(filling, bucket_bytes):
                closed.append(still_open.pop(parameter.dtype))
        return [self.bucket(parameters) for parameters in (*closed, *still_open.values())]

    def is_enough(self, filling, bucket_bytes):
        return sum(p.nbytes for p in filling) >= bucket_bytes

    def hook(self, bucket, index):
        def on_gradient(parameter):
            if not self.syncs:
                return
            if not any(each.come for each in self.buckets):
                torch.autograd.Variable._execution_engine.queue_callback(self.finish)
            bucket.put(index)
            self.start_full()

        return on_gradient

    def start_full(self):
        while self.started < len(self.buckets) and self.buckets[self.started].is_full:
            self.start(self.buckets[self.started])
            self.started += 1

    def start(self, bucket):
        bucket.work = self.all_reduce(bucket.flat, async_op=True)

    def fill_gaps(self):
        for bucket in self.buckets:
            for index in range(len(bucket.parameters)):
                if index not in bucket.come:
                    bucket.put(index)

    def finish(self):
        self.fill_gaps()
        self.start_full()
        for bucket in self.buckets:
            self.end(bucket)
            bucket.come.clear()
        self.started = 0

    def end(self, bucket):
        bucket.work.wait()
        bucket.flat /= self.me.world_size
        bucket.work = None

    def forward(self, *args, **kwargs):
        if self.syncs:
            self.share_buffers()
        return self.module(*args, **kwargs)

    def share_buffers(self):
        for buffer in self.module.buffers():
            dist.broadcast(buffer, src=0)

    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncs = self.syncs, False
        try:
            yield
        finally:
            self.syncs = before

    def state_dict(self, *args, **kwargs):
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        return self.module.load_state_dict(*args, **kwargs)
