"""ZeRO stage 2: gradients are sent while backward goes on, and only a rank's own rows of them are kept.

A bucket on its way holds its whole gradients, and on gloo what comes for it. So one is under way while the next one
fills; more would bring the whole gradients back, at the peak.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from course_lib.parallel.sharded.optimizer_buckets import OptimizerBucket

__all__ = ["GradientSharding"]

_MOST_UNDER_WAY = 1  # buckets


class GradientSharding:
    """Hooks on parameters: a full bucket's reduce-scatter starts at once, and its whole gradients are let go.

    Reduce-scatters are matched by their order, so every rank starts buckets in the order of ``buckets``, whichever is
    full first. When backward is over, all have arrived, and the shards have their gradients.
    """

    def __init__(self, buckets: Sequence[OptimizerBucket]) -> None:
        self.buckets = buckets
        self._ready: list[set[int]] = [set() for _ in buckets]  # the parameters whose gradient is there
        self._num_sent = 0  # of the buckets, in their order
        self._under_way: list[Callable[[], Tensor]] = []  # of the latest
        self._landed: list[Tensor] = []  # this rank's part of the mean, (K,), of each that has arrived
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
        while self._num_sent < len(self.buckets) and self._is_full(self._num_sent):
            self._send(self.buckets[self._num_sent])

    def _is_full(self, number: int) -> bool:
        return len(self._ready[number]) == len(self.buckets[number].parameters)

    def _send(self, bucket: OptimizerBucket) -> None:
        while len(self._under_way) >= _MOST_UNDER_WAY:
            self._land()
        self._num_sent += 1
        self._under_way.append(bucket.start_reduction([p.grad for p in bucket.parameters]))
        for parameter in bucket.parameters:
            parameter.grad = None  # here: the rows that this rank keeps come back later

    def _land(self) -> None:
        """Wait for the oldest. Its rows become gradients when backward is over: one that raises leaves none."""
        self._landed.append(self._under_way.pop(0)())

    def _finish(self) -> None:
        """Called at the end of backward. ``RuntimeError`` where a parameter has got no gradient: its bucket waits for
        it."""
        missing = [
            tuple(parameter.shape)
            for number, bucket in enumerate(self.buckets)
            for index, parameter in enumerate(bucket.parameters)
            if index not in self._ready[number]
        ]
        for bucket in self.buckets[self._num_sent :]:
            self._send(bucket)  # with zeros, so that no other rank waits for ever
        while self._under_way:
            self._land()
        for bucket, rows in zip(self.buckets, self._landed, strict=True):
            bucket.accumulate(rows)
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
        self._num_sent, self._under_way, self._landed, self._backward = 0, [], [], None
        for ready in self._ready:
            ready.clear()
