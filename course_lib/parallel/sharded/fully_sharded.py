"""Sharded data parallelism, ZeRO stage 3: every rank keeps 1/n of everything, and gathers the rest while it is
needed.

The model is divided into *units*: usually a block of layers each, and one for what remains. A unit's weights are
whole only while it computes (``unit.py``). Hooks tell when that is: before and after a module's forward; before its
backward, when the gradient of its output is there. What the ranks keep between steps are rows of every parameter, of
its gradient and, since the optimizer sees nothing else, of its optimizer state.

``prefetch`` starts the all-gather of the units that come next while one computes; so at most ``1 + prefetch`` units
are whole at a time, besides those around them.

In production use ``torch.distributed.fsdp.fully_shard``, which this follows and with which its tests compare it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_leaves

from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.data.ddp_errors import NESTED, WRAPPERS, check_model
from course_lib.parallel.data.naive_ddp import broadcast_parameters
from course_lib.parallel.sharded.agreement import check_memory
from course_lib.parallel.sharded.full_state import check_own_rows, full_state_dict, load_full_state_dict
from course_lib.parallel.sharded.hooks import call_around_forward
from course_lib.parallel.sharded.misuse import AVERAGED_BY, COPIED, CREATE_GRAPH, MISSING
from course_lib.parallel.sharded.partial_reshard import ReshardedPiece, reshard_members
from course_lib.parallel.sharded.prefetch_order import Order, Passed
from course_lib.parallel.sharded.reduction import Reduction
from course_lib.parallel.sharded.unit import Unit, Use
from course_lib.parallel.sharded.unit_partition import Units, divide

__all__ = ["FullySharded"]


class FullySharded(nn.Module):
    """Wraps a model so that each rank keeps its rows of every parameter; forward and backward are those of the model.

    ``units``: modules, or lists of modules, whose parameters are whole together; the wrapper adds one for the rest.
    Without it every member of the model's outermost ``nn.ModuleList`` or ``nn.Sequential`` is a unit. Make the
    optimizer *after* wrapping: ``parameters()`` are the shards, and so are their ``grad``, which hold means over
    ranks.

    ``compute_dtype``: weights travel and compute in it (inputs are cast too), while shards stay what they are;
    ``reduce_dtype``: gradients travel in it. ``reshard_after_forward=False`` keeps weights whole from forward to
    backward: one all-gather less, and the memory of all of them; a whole number m has m neighbours hold them together
    meanwhile (``partial_reshard.py``). ``group``: the ranks that share; ``replicas``: those that keep the same rows as
    this one, over which gradients are averaged too (hybrid sharding). ``find_unused_parameters`` allows backwards that
    miss parameters, at the price of a small all-reduce in each, and in each forward without gradients: there ranks
    agree that all have used the same units, in the same order. Without it nothing compares that, and ranks have to see
    to it. At rest, between two uses, ``parameters()`` are the shards, and ``model.module.head.weight`` tells what it is
    and refuses to compute (``at_rest.py``). ``autograd.grad`` and ``backward(inputs=...)`` give gradients of inputs.

    ``ValueError``: nothing to train, a parameter in two units or two that share memory, dtypes that differ within a
    unit. ``RuntimeError``: a backward that misses a parameter, is asked for single ones, or for ``create_graph``; ranks
    that used different units; a weight changed while it is whole, or used while it is not; a model moved or added to
    after wrapping; copies and pickles; ``nn.utils.clip_grad_norm_``. Checkpointing needs ``use_reentrant=False``.
    """

    averaged_by: ClassVar[str] = AVERAGED_BY

    def __init__(
        self,
        me: Rank,
        module: nn.Module,
        units: Units | None = None,
        *,
        compute_dtype: torch.dtype | None = None,
        reduce_dtype: torch.dtype | None = None,
        reshard_after_forward: bool | int = True,
        prefetch: int = 1,
        group: dist.ProcessGroup | None = None,
        replicas: dist.ProcessGroup | None = None,
        find_unused_parameters: bool = False,
    ) -> None:
        super().__init__()
        at_least(0, prefetch=prefetch)
        self.me, self.members, self.compute_dtype = me, Members.of(me, group), compute_dtype
        self.reshard_after_forward, self.prefetch = reshard_after_forward, prefetch
        between = reshard_members(me, self.members, reshard_after_forward)
        self._reshards = between is not None
        self._reshard_members = between if between is not self.members else None
        groups = [group, *([replicas] if replicas else [])]
        check_model(me, module, (FullySharded, *WRAPPERS), groups)
        check_memory(list(module.parameters()))
        if not any(p.is_meta for p in module.parameters()):
            for one in reversed(groups):  # from the first replica to all, and then within each
                broadcast_parameters(me, module, group=one)
        self.units = divide(self.members, module, units, dtype=compute_dtype, reduce_dtype=reduce_dtype)
        self.module = module
        self.parts_among = self.members  # which hold other rows of each parameter
        over = Members.of(me, replicas) if replicas else None
        self._reduction = Reduction(self.members, over, self.units, find_unused_parameters)
        self._forward_order, self._backward_order = Order(), Order()
        self._passed = Passed(self._forward_order, self._backward_order)
        self._backward: int | None = None  # autograd's number of the backward that is under way
        self._wants_all = True  # gradients of all parameters, and not those of inputs alone
        self._unsharded: list[Use] = []  # what this backward has made whole
        self._synchronise = True  # False within no_sync
        for unit in self.units:
            call_around_forward(unit, self._before_forward, self._after_forward, compute_dtype)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_recomputing():
            return self.module(*args, **kwargs)
        self._end_failed_backward()
        self._forward_order.begin()
        try:
            output = self.module(*args, **kwargs)
        finally:
            self._release()
        if self._reduction.find_unused_parameters and not torch.is_grad_enabled():
            self._reduction.compare(self._passed)  # else at the end of backward
        return output

    def _is_recomputing(self) -> bool:
        """A forward within a backward, as checkpointing runs it."""
        return torch._C._current_graph_task_id() != -1

    def _end_failed_backward(self) -> None:
        """A backward that raised has not called ``_finish``."""
        if self._backward is not None:
            self._backward = None
            while self._unsharded:
                self._reshard(self._unsharded.pop())
            for unit in self.units:
                unit.forget()
            self._reduction.begin()
            self._passed.begin()

    def _release(self) -> None:
        """After forward, also after one that raised: units that are in flight or unsharded, and not needed."""
        for unit in self.units:
            unit.drop()
            if unit.use is not None:
                unit.use.free()
                unit.to_sharded()
                unit.use, unit.num_started = None, 0

    # -- forward ------------------------------------------------------------------------------------------------

    def _before_forward(self, unit: Unit) -> None:
        if self._is_recomputing():  # the whole weights of the forward that is repeated
            if (use := unit.last_use()) is None:
                raise RuntimeError(NESTED.format(names=", ".join(p.name for p in unit.parameters)))
            self._unshard(use)
            return
        unit.num_started += 1
        if unit.use is not None:
            return  # another module of the unit has come before
        unit.check_shards()
        self._passed.add(unit)
        unit.start()
        for following in self._forward_order.after(unit, self.prefetch):
            following.start()
        unit.use = Use(unit, self._on_gradients)
        unit.to_unsharded(unit.gathered(unit.use))

    def _after_forward(self, unit: Unit, inputs: Any, output: Any) -> None:
        use = unit.use
        if self._is_recomputing() or use is None:
            return
        if torch.is_grad_enabled():
            self._register_hooks(use, inputs, output)
        if unit.num_started < len(unit.modules):
            return  # other modules of the unit are still to come
        use.check_unchanged()
        unit.to_sharded()
        if torch.is_grad_enabled() and self._reshard_members is not None:
            unit.piece = ReshardedPiece.cut(self._reshard_members, use.unsharded)
        if self._reshards or not torch.is_grad_enabled():
            use.free()
        unit.use, unit.num_started = None, 0

    def _register_hooks(self, use: Use, inputs: Any, output: Any) -> None:
        """Be called when the unit's backward begins, and, where it has no gradients of its own, when it is over."""
        for tensor in tree_leaves(output):
            if isinstance(tensor, Tensor) and tensor.requires_grad:
                tensor.register_hook(lambda _gradient: self._on_output_gradient(use))
        if use.unit.is_frozen:
            sources = [t for t in tree_leaves(inputs) if isinstance(t, Tensor) and t.requires_grad]
            if sources:
                register_multi_grad_hook(sources, lambda _gradients: self._reshard(use))

    # -- backward -----------------------------------------------------------------------------------------------

    def _on_output_gradient(self, use: Use) -> None:
        if torch.is_grad_enabled():
            raise RuntimeError(CREATE_GRAPH)
        self._unshard(use)

    def _unshard(self, use: Use) -> None:
        """Unshard a unit's weights again, for its backward, or for a forward that backward repeats."""
        if self._backward is None:
            self._backward, self._wants_all = torch._C._current_graph_task_id(), True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
            self._backward_order.begin()
            self._reduction.begin()
        if use.is_in_backward:
            return
        use.is_in_backward = True
        self._unsharded.append(use)
        self._passed.add(use.unit)
        if not use.is_asked_for_gradients():
            self._wants_all = False
        if not use.is_unsharded:
            use.unit.start(again=True)
        for following in self._backward_order.after(use.unit, self.prefetch):
            if not following.is_unsharded:
                following.start(again=True)
        use.unshard()
        use.unit.to_unsharded(use.unsharded)  # for a forward that is recomputed within the unit

    def _reshard(self, use: Use) -> None:
        use.free()
        use.is_in_backward = False
        use.unit.to_sharded()

    def _on_gradients(self, use: Use, gradients: tuple[Tensor | None, ...]) -> None:
        """Called in backward, when the gradients of all of a unit's unsharded weights are complete."""
        self._reshard(use)
        if self._synchronise:
            self._reduction.start(use.unit, gradients)
        else:
            use.unit.defer(gradients)

    def _finish(self) -> None:
        """Called at the end of backward: wait for the gradients, and let go of what is still whole."""
        self._backward = None
        strays = [name for use in self._unsharded for name in use.names_of_strays()]
        for use in self._unsharded:
            if use.is_in_backward:
                self._reshard(use)
        self._unsharded.clear()
        for unit in self.units:
            unit.forget()
        missing: list[str] = []
        if self._synchronise:
            self._reduce_rest()  # of an earlier backward, and this one did not use the unit
            missing = self._reduction.finish(self._passed)
        if strays:  # it is said only now, so that no other rank hangs
            raise RuntimeError(NESTED.format(names=", ".join(strays)))
        if missing and self._wants_all:
            raise RuntimeError(MISSING.format(names=", ".join(missing)))

    def finish_gradient_synchronization(self) -> None:
        """Nothing is left to wait for when ``backward()`` returns; here for those who are used to call it."""

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Take this rank's own shards back. ``ValueError`` for those of a run on another number of ranks."""
        check_own_rows(self.units, state_dict, prefix="module.")
        return super().load_state_dict(state_dict, *args, **kwargs)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        """Asked by copy, deepcopy and pickle."""
        raise RuntimeError(COPIED)

    def full_state_dict(self, device: torch.device | str | None = None) -> dict[str, Any]:
        """What ``state_dict()`` of the plain model would be, on every rank; all ranks call it."""
        return full_state_dict(self.module, self.units, device)

    def load_full_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take this rank's rows of a plain model's ``state_dict()``. ``ValueError`` for one that does not fit."""
        load_full_state_dict(self.module, self.units, state)

    def reduce_deferred(self) -> None:
        """Reduce now what backwards within ``no_sync`` have left, for those who know only afterwards which was last."""
        self._reduction.begin()
        self._reduce_rest()
        if missing := self._reduction.finish(self._passed):
            raise RuntimeError(MISSING.format(names=", ".join(missing)))

    def _reduce_rest(self) -> None:
        for unit in self.units:
            if unit.deferred:
                self._reduction.start(unit, [None] * len(unit.parameters))

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of backwards within stay on this rank, *whole*, and are sent with the next backward outside, or by
        ``reduce_deferred``.

        No reduce-scatters, and the memory of all gradients: what accumulation costs here. All-gathers stay as they are.
        """
        before, self._synchronise = self._synchronise, False
        try:
            yield
        finally:
            self._synchronise = before
