"""Data parallelism by processes: every rank holds the whole model and its own part of the batch.

If all ranks begin with the same weights and take every step with the same gradients, they hold the same weights for
ever. So the weights are sent once, and from then on only gradients travel: their mean over ranks is the gradient of
the mean loss over the whole batch. The steps, each of which works without the next:

(a) ``naive_ddp.py``: ``broadcast_parameters`` once, ``all_reduce_gradients`` after each backward, a message a gradient;
(b) ``buckets.py``: gradients travel together in a few flat buffers, in reverse order of use;
(c) ``DistributedDataParallel``: a bucket sets out while backward still computes the others;
(d) the hard cases: ``no_sync``, parameters without gradient; ``buffers.py``; ``uneven_batches.py``: unequal parts.

Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training" (2020). In production use
``torch.nn.parallel.DistributedDataParallel``, which this follows and with which its tests compare it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.data.buckets import (
    BUCKET_SIZE_BYTES,
    FIRST_BUCKET_SIZE_BYTES,
    Bucket,
    assign_buckets,
)
from course_lib.parallel.data.buffers import broadcast_buffers
from course_lib.parallel.data.ddp_errors import (
    NESTED,
    REPLACED,
    UNEXPECTED,
    UNUSED,
    WRAPPERS,
    AveragesGradients,
    check_gradient,
    check_model,
    is_within_backward,
    refuse_changed,
)
from course_lib.parallel.data.hooks import keep_alive, while_alive
from course_lib.parallel.data.naive_ddp import broadcast_parameters

__all__ = ["DistributedDataParallel"]

# -- (c) all-reduce while backward goes on --------------------------------------------------------------------


class DistributedDataParallel(AveragesGradients, nn.Module):
    """Wraps a model so that after ``loss.backward()`` its gradients are their mean over ranks.

    Autograd calls a hook when the gradient of a parameter is complete. The hook puts it into its bucket, and a full
    bucket's all-reduce starts at once; when backward is over, what is still on its way is waited for. All-reduces are
    matched by their order, so every rank starts buckets in the order of ``buckets``, whichever is full first.

    ``overlap=False`` starts them all at the end of backward, to see what overlap is worth. ``find_unused_parameters``
    allows backwards that miss parameters. ``average_in_float32`` sends gradients of 16 bits in 32.
    ``broadcast_buffers`` gives all ranks the buffers of rank 0 (BatchNorm's statistics) before each forward; in an
    evaluation without gradients, before the first one alone. ``group``: the ranks that average (default: all), which
    then are alone in having the same model. ``state_dict()`` is that of the bare model. A copy of the wrapper averages
    the gradients of its own model.

    Call the wrapper, then backward once: a backward without such a forward is a ``RuntimeError``. So is one with
    ``create_graph=True``. A model that differs between ranks, has a wrapper within, or has nothing to train, is a
    ``ValueError``; one whose trained parameters are others than when it was wrapped, a ``RuntimeError`` in the
    next forward. Later backwards overwrite a gradient, as with PyTorch's ``gradient_as_bucket_view=True``: clone what
    you keep. ``torch.autograd.grad`` gives this rank's own. Checkpointing needs ``use_reentrant=False``.
    """

    def __init__(
        self,
        me: Rank,
        module: nn.Module,
        *,
        bucket_size_bytes: int = BUCKET_SIZE_BYTES,
        first_bucket_size_bytes: int = FIRST_BUCKET_SIZE_BYTES,
        overlap: bool = True,
        find_unused_parameters: bool = False,
        average_in_float32: bool = False,
        broadcast_buffers: bool = True,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(module, nn.Module):
            kind = type(module).__name__
            raise ValueError(f"DistributedDataParallel(me, module): a rank, then a model; module is a {kind}")
        self.me, self.module, self.members = me, module, Members.of(me, group)
        self.overlap, self.broadcast_buffers = overlap, broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self._bucket_options: dict[str, Any] = {
            "bucket_size_bytes": bucket_size_bytes,
            "first_bucket_size_bytes": first_bucket_size_bytes,
            "average_in_float32": average_in_float32,
        }
        check_model(me, module, WRAPPERS, [group])
        broadcast_parameters(me, module, group=group)
        self._buffers_differ = True  # between ranks, or may do so: whoever has the model can change them
        self._connect()

    def _connect(self) -> None:
        """Fill ``buckets``, and have every parameter call when its gradient is complete."""
        self.buckets = assign_buckets(self.module.parameters(), **self._bucket_options)
        self._name_of = {p: name for name, p in self.module.named_parameters() if p.requires_grad}
        self._synchronise = True  # False within no_sync
        self._expects: str | None = None  # from the next backward: "average", "local", or None at all
        self._backward: int | None = None  # autograd's number of the backward that fills the buckets
        self._in_flight: list[dist.Work] = []  # of the first buckets, in their order
        for bucket in self.buckets:
            for index, parameter in enumerate(bucket.parameters):
                parameter.register_post_accumulate_grad_hook(while_alive(self._on_gradient, bucket, index))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self._start_anew()
        if torch.is_grad_enabled():
            self._expects = "average" if self._synchronise else "local"
            refuse_changed(self.me, self.module, self._name_of)
        changes_buffers = self.module.training or torch.is_grad_enabled()  # or may do so
        if self.broadcast_buffers and self._synchronise and (changes_buffers or self._buffers_differ):
            broadcast_buffers(self.members, self.module)
            self._buffers_differ = False
        self._buffers_differ |= changes_buffers
        output = self.module(*args, **kwargs)
        keep_alive(self, output)
        return output

    def _start_anew(self) -> None:
        """Clear away what a backward that raised has left: all-reduces in flight, buckets filled in part."""
        unfinished, self._in_flight = self._in_flight, []
        self._backward = None
        for bucket in self.buckets:
            bucket.ready.clear()
        for bucket, work in zip(self.buckets, unfinished, strict=False):
            work.wait()
            for parameter in bucket.parameters:
                parameter.grad = None  # a mean of a backward that never was

    def _on_gradient(self, bucket: Bucket, index: int) -> None:
        """Called in backward, when the gradient of a parameter has been added to its ``grad``."""
        if self._expects == "local" or (self._expects is None and not self._synchronise):
            return
        parameter, backward = bucket.parameters[index], torch._C._current_graph_task_id()
        if self._backward != backward and is_within_backward():
            raise RuntimeError(NESTED.format(names=self._names([parameter])))
        if self._expects is None or self._backward not in (None, backward):
            raise RuntimeError(UNEXPECTED.format(names=self._names([parameter])))
        check_gradient(self._name_of[parameter], parameter)
        if self._backward is None:  # the first gradient
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
            self._backward = backward
        bucket.fill(index)
        if self.overlap:
            self._start_full_buckets()

    def _start_full_buckets(self) -> None:
        for bucket in self.buckets[len(self._in_flight) :]:
            if not bucket.is_full:
                break  # the buckets behind it wait their turn, full or not
            self._in_flight.append(bucket.start_average(self.members.group))

    def _finish(self) -> None:
        """Called at the end of backward: send what is left, wait, and make the averages the gradients."""
        missing = self._fill_missing()
        self._start_full_buckets()
        unused = self._unused_on_all_ranks()
        for bucket, work in zip(self.buckets, self._in_flight, strict=True):
            work.wait()
            for index, parameter in enumerate(bucket.parameters):
                if parameter not in unused:
                    bucket.set_gradient(index)
        self._in_flight, self._expects = [], None
        self._start_anew()
        # What is wrong is said only now, so that no other rank hangs.
        if replaced := set(missing) - set(self.module.parameters()):
            raise RuntimeError(REPLACED.format(names=self._names(replaced), rank=self.me.rank))
        if missing and not self.find_unused_parameters:
            raise RuntimeError(UNUSED.format(names=self._names(missing), rank=self.me.rank))

    # -- (d) the hard cases -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of forwards within add up on this rank alone, and are sent with the next backward outside.

        For accumulation: all but the last part of a batch go within. As in PyTorch the *forward* decides: a
        forward outside whose backward is within is averaged all the same.
        """
        before, self._synchronise = self._synchronise, False
        try:
            yield
        finally:
            self._synchronise = before

    def _fill_missing(self) -> list[nn.Parameter]:
        """Put the parameters that this backward did not reach; returns them."""
        missing = []
        for bucket in self.buckets:
            for index in set(range(len(bucket.parameters))) - bucket.ready:
                bucket.fill(index)
                missing.append(bucket.parameters[index])
        return missing

    def _unused_on_all_ranks(self) -> set[nn.Parameter]:
        """Parameters of which no rank has a gradient, and which keep None; asking takes one more all-reduce."""
        if not self.find_unused_parameters:
            return set()
        parameters = [parameter for bucket in self.buckets for parameter in bucket.parameters]
        is_used = [parameter.grad is not None for parameter in parameters]
        num_users = torch.tensor(is_used, dtype=torch.int32, device=self.me.device)
        dist.all_reduce(num_users, group=self.members.group)
        return {p for p, users in zip(parameters, num_users.tolist(), strict=True) if users == 0}

    def _names(self, parameters: Collection[nn.Parameter]) -> str:
        return ", ".join(name for parameter, name in self._name_of.items() if parameter in set(parameters))

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.load_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Where a parent loads its parts: the names lead to ``module``, as PyTorch looks for them."""
        for name in [name for name in state_dict if name.startswith(prefix)]:
            state_dict[f"{prefix}module.{name.removeprefix(prefix)}"] = state_dict.pop(name)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __getstate__(self) -> dict[str, Any]:
        """What is copied, or pickled: not the buckets, which belong to the parameters of this wrapper."""
        return {name: value for name, value in self.__dict__.items() if name not in _OF_CONNECT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._connect()  # copies of parameters come without hooks


_OF_CONNECT = ("buckets", "_name_of", "_synchronise", "_expects", "_backward", "_in_flight")
