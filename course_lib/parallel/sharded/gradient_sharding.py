"""ZeRO stage 2: gradients are sent while backward goes on, and only a rank's own rows of them are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from course_lib.parallel.sharded.optimizer_buckets import OptimizerBucket

__all__ = ["GradientSharding"]


class GradientSharding:
    """Hooks on parameters: a full bucket's reduce-scatter starts at once, and its whole gradients are let go.

    Reduce-scatters are matched by their order, so every rank starts buckets in the order of ``buckets``, whichever is
    full first. One is under way at a time, since each holds buffers twice as large as its bucket: the one before is
    waited for, and only this rank's rows are kept. When backward is over, the shards have their gradients.
    """

    def __init__(self, buckets: Sequence[OptimizerBucket]) -> None:
        self.buckets = buckets
        self._ready: list[set[int]] = [set() for _ in buckets]  # the parameters whose gradient is there
        self._under_way: list[Callable[[], Tensor]] = []  # of the first buckets; the last is not there yet
        self._backward: int | None = None
        for number, bucket in enumerate(buckets):
            for index, parameter in enumerate(bucket.parameters):
                parameter.register_post_accumulate_grad_hook(self._hook(number, index))

    def _hook(self, number: int, index: int) -> Callable[[Tensor], None]:
        return lambda _parameter: self._on_gradient(number, index)

    def _on_gradient(self, number: int, index: int) -> None:
        backward = torch._C._current_graph_task_id()
        if (
            self._backward != backward
        ):  # the first gradient; an earlier backward may have raised in its middle
            self._start_anew()
            self._backward = backward
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        self._ready[number].add(index)
        while len(self._under_way) < len(self.buckets) and self._is_full(len(self._under_way)):
            self._send(self.buckets[len(self._under_way)])

    def _is_full(self, number: int) -> bool:
        return len(self._ready[number]) == len(self.buckets[number].parameters)

    def _send(self, bucket: OptimizerBucket) -> None:
        if self._under_way:
            self._under_way[-1] = _arrived(self._under_way[-1])
        self._under_way.append(bucket.start_reduction([p.grad for p in bucket.parameters]))
        for parameter in bucket.parameters:
            parameter.grad = None  # here: the rows that this rank keeps come back later

    def _finish(self) -> None:
        """Called at the end of backward. ``RuntimeError`` where a parameter has got no gradient: its bucket waits for
        it."""
        missing = [
            tuple(parameter.shape)
            for number, bucket in enumerate(self.buckets)
            for index, parameter in enumerate(bucket.parameters)
            if index not in self._ready[number]
        ]
        for bucket in self.buckets[len(self._under_way) :]:
            self._send(bucket)  # with zeros, so that no other rank waits for ever
        for bucket, finish in zip(self.buckets, self._under_way, strict=True):
            bucket.accumulate(finish())
        self._under_way = []
        self._start_anew()
        if missing:
            raise RuntimeError(
                f"{len(missing)} parameters (of shapes {', '.join(map(str, missing[:3]))}) got no gradient in "
                "this backward, on "
                "this rank. If another rank has one, ranks would not agree about it: use every parameter, or freeze it."
            )

    def _start_anew(self) -> None:
        for finish in self._under_way:
            finish()
        self._under_way, self._backward = [], None
        for ready in self._ready:
            ready.clear()


def _arrived(finish: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Wait for a reduce-scatter and let its buffers go; calling what is returned gives what has come."""
    flat = finish()
    return lambda: flat
