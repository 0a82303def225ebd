"""04.ddp: answers that are wrong in memory, or in when they send; the docstring says how."""

from __future__ import annotations

import time

import torch
from answers.lesson_04.ddp_builds.earlier import LastHookWaits
from answers.lesson_04.ddp_builds.final import Bucket, Final


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
