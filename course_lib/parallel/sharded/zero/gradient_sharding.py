"""ZeRO stage 2: gradients are sent while backward goes on, and only a rank's own rows of them are kept."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from course_lib.parallel.data.ddp_errors import check_gradient
from course_lib.parallel.sharded.zero.gradient_marks import is_averaged, set_stand_ins
from course_lib.parallel.sharded.zero.optimizer_buckets import OptimizerBucket

__all__ = ["GradientSharding"]


class GradientSharding:
    """Hooks on parameters: a full bucket's reduce-scatter starts at once, and its full gradients are freed.

    Reduce-scatters are matched by their order, so every rank starts buckets in the order of ``buckets``, whichever is
    full first. One is under way at a time, since each holds buffers twice as large as its bucket: the one before is
    waited for, and only this rank's rows are kept. When backward is over, the shards have their gradients, and
    ``parameter.grad`` is a stand-in. It is taken away before the next backward adds to it; where it has gone by then,
    by ``model.zero_grad()``, so do the shard's rows. The hooks end with this object.
    """

    def __init__(self) -> None:
        self.buckets: list[OptimizerBucket] = []
        self._ready: list[set[int]] = []  # of each bucket the parameters whose gradient is there
        self._in_flight: list[Callable[[], Tensor]] = []  # of the first buckets; the last is not there yet
        self._backward: int | None = None
        self._nodes: list[Any] = []  # autograd keeps the hooks of a node as long as somebody holds it

    def watch(self, bucket: OptimizerBucket) -> None:
        """Send this bucket too, after those that are here."""
        number = len(self.buckets)
        self.buckets.append(bucket)
        self._ready.append(set())
        this: weakref.ref[GradientSharding] = weakref.ref(self)
        for index, (parameter, shard) in enumerate(zip(bucket.parameters, bucket.shards, strict=True)):
            before, after = _hooks(this, number, index, parameter, shard)
            self._nodes.append(get_gradient_edge(parameter).node)
            self._nodes[-1].register_prehook(before)
            parameter.register_post_accumulate_grad_hook(after)

    def _on_gradient(self, number: int, index: int) -> None:
        backward = torch._C._current_graph_task_id()
        if self._backward != backward:  # the first gradient; an earlier backward may have raised in its middle
            self._start_anew()
            self._backward = backward
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        parameter = self.buckets[number].parameters[index]
        if parameter.grad is None:
            raise RuntimeError(
                f"the gradient of a parameter of shape {tuple(parameter.shape)} is gone: two ShardedOptimizers with "
                "stage=2 work on this model. Delete the old one: del optimizer."
            )
        check_gradient(f"a parameter of shape {tuple(parameter.shape)}", parameter)
        self._ready[number].add(index)
        while len(self._in_flight) < len(self.buckets) and self._is_full(len(self._in_flight)):
            self._send(len(self._in_flight))

    def _is_full(self, number: int) -> bool:
        return len(self._ready[number]) == len(self.buckets[number].parameters)

    def _send(self, number: int) -> None:
        if self._in_flight:
            self._in_flight[-1] = _arrived(self._in_flight[-1])
        bucket, ready = self.buckets[number], self._ready[number]
        gradients = [p.grad if index in ready else None for index, p in enumerate(bucket.parameters)]
        self._in_flight.append(bucket.start_reduction(gradients))
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
        while len(self._in_flight) < len(self.buckets):
            self._send(len(self._in_flight))  # with zeros, so that no other rank waits for ever
        for bucket, finish in zip(self.buckets, self._in_flight, strict=True):
            bucket.accumulate(finish())
            set_stand_ins(bucket.parameters)
        self._in_flight = []
        self._start_anew()
        if missing:
            raise RuntimeError(
                f"{len(missing)} parameters (of shapes {', '.join(map(str, missing[:3]))}) got no gradient in this "
                "backward, on this rank. If another rank has one, the ranks would disagree about it. Use every "
                "parameter, or freeze it."
            )

    def _start_anew(self) -> None:
        for finish in self._in_flight:
            finish()
        self._in_flight, self._backward = [], None
        for ready in self._ready:
            ready.clear()


def _hooks(
    this: weakref.ref[GradientSharding], number: int, index: int, parameter: Tensor, shard: Tensor
) -> tuple[Callable[[Any], None], Callable[[Tensor], None]]:
    """What autograd calls before it adds to a parameter's gradient, and after that."""

    def before(_gradients: Any) -> None:
        if parameter.grad is None:
            shard.grad = None  # let go by model.zero_grad(), or never there
        elif is_averaged(parameter.grad):
            parameter.grad = None
        elif shard.grad is not None:
            raise RuntimeError(
                f"a parameter of shape {tuple(parameter.shape)} has a gradient that this optimizer has not sent, and "
                "one that it has, as after a backward that raised. Call optimizer.zero_grad() to start again."
            )

    def after(_parameter: Tensor) -> None:
        sharding = this()
        if sharding is not None:
            sharding._on_gradient(number, index)

    return before, after


def _arrived(finish: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Wait for a reduce-scatter and let its buffers go; calling what is returned gives what has come."""
    flat = finish()
    return lambda: flat
