"""A unit: some parameters that are made whole together, used, and let go. All-gather before use, reduce-scatter
after.

Forward: one all-gather makes the weights of a unit whole, its modules compute, and the memory is given back. Autograd
has saved the weights for backward, so it is the *storage* that is emptied, and the tensors stay. Backward: the same
storages are filled by a second all-gather before the unit's backward begins. When the gradients of all its weights
are there, one reduce-scatter adds them over the ranks, and each rank keeps its own rows of the sum.

To autograd, ``unsharded = _Gather(shards)`` is one operation, and its backward is called when every gradient of the
unit is complete, however often and wherever its weights were used. That is why tied and unused weights need no care.

Source: Rajbhandari et al., "ZeRO" (2020), stage 3; Zhao et al., "PyTorch FSDP" (2023).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.parallel.collectives.lean_reduce_scatter import start_lean_reduce_scatter
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.sharded.at_rest import AtRest, ShardedParameter, StandIn
from course_lib.parallel.sharded.misuse import ADDED, ASKED_FOR_SHARDS, REPLACED
from course_lib.parallel.sharded.partial_reshard import ReshardedPiece
from course_lib.parallel.sharded.row_sharding import Packing, all_gather_rows

__all__ = ["Unit", "Use"]

OnGradients = Callable[["Use", tuple[Tensor | None, ...]], None]


class Use:
    """One forward of a unit: its unsharded weights, whose storages are empty between forward and backward.

    ``on_gradients`` is called in backward, with this use and the gradients of all its weights, ``None`` for unused
    ones.
    """

    def __init__(self, unit: Unit, on_gradients: OnGradients) -> None:
        self.unit, self.on_gradients = unit, on_gradients
        self.is_unsharded = self.is_in_backward = False  # is_in_backward: unsharded because its backward runs
        self.gather: weakref.ref[Any] | None = None  # autograd's node, whose backward has all gradients of the unit
        # Tensors that count their changes, whatever mode the model runs in.
        with torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext():
            self.unsharded = [
                torch.empty(p.rows.shape, dtype=unit.dtype, device=p.shard.device) for p in unit.parameters
            ]
        for tensor, parameter in zip(self.unsharded, unit.parameters, strict=True):
            _resize(tensor, 0)
            tensor.requires_grad_(parameter.shard.requires_grad)
        unit.uses = weakref.ref(self)

    def unshard(self) -> None:
        """Make the weights whole: wait for their all-gather, which is started now where nobody has started it
        before."""
        if self.is_unsharded:
            return
        packing, flat = self.unit.arrived()
        for tensor in self.unsharded:
            _resize(tensor, tensor.numel() * tensor.element_size())
        # To autograd nothing has changed: what it saved is there again.
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(tuple(self.unsharded)):
            packing.unpack_full(flat, self.unsharded)
        self.is_unsharded = True

    def free(self) -> None:
        """Free the memory of the unsharded weights."""
        if self.is_unsharded:
            for tensor in self.unsharded:
                _resize(tensor, 0)
            self.is_unsharded = False

    def is_asked_for_gradients(self) -> bool:
        """Asked in a backward: whether it is going to compute gradients of the weights, and not of inputs alone."""
        node = self.gather() if self.gather else None
        return node is None or torch._C._will_engine_execute_node(node)

    def names_of_strays(self) -> list[str]:
        """Weights whose gradients went past the unit: a backward within a backward took them for leaves."""
        pairs = zip(self.unsharded, self.unit.parameters, strict=True)
        return [parameter.name for tensor, parameter in pairs if tensor.grad is not None]

    def check_unchanged(self) -> None:
        """``RuntimeError`` where a weight was written to while it was whole: the shards would not know."""
        for tensor, parameter in zip(self.unsharded, self.unit.parameters, strict=True):
            if tensor._version:
                raise RuntimeError(
                    f"{parameter.name} was changed while it was whole, in the forward of {self.unit.name}. Each rank "
                    "keeps only its rows, so the change would be lost. Change it between steps, with unsharded(model, "
                    "writable=True)."
                )


class Unit:
    """Parameters that are gathered in one message and reduced in one message.

    ``dtype``: in which the weights are whole, and travel; ``reduce_dtype``: in which gradients travel. Both are those
    of the parameters where nothing else is asked for. ``ValueError`` where the parameters have several dtypes.
    """

    def __init__(
        self,
        members: Members,
        name: str,
        modules: Sequence[nn.Module],
        parameters: Sequence[ShardedParameter],
        *,
        dtype: torch.dtype | None = None,
        reduce_dtype: torch.dtype | None = None,
    ) -> None:
        self.members, self.name, self.modules, self.parameters = members, name, modules, parameters
        dtypes = {p.shard.dtype for p in parameters}
        if len(dtypes) > 1:
            raise ValueError(
                f"the parameters of unit {name!r} are {', '.join(sorted(map(str, dtypes)))}: one message has one "
                f"dtype. The nearest that works is model.to({max(dtypes, key=lambda d: d.itemsize)})."
            )
        self.dtype = dtype or dtypes.pop()
        self.reduce_dtype = reduce_dtype or self.dtype
        self.packing = Packing([p.rows for p in parameters])
        self.deferred: list[Tensor | None] = []  # whole gradients that wait for a backward that is reduced
        self.use: Use | None = None  # of the forward that is under way
        self.num_started = 0  # of its modules' forwards in this use
        self.uses: weakref.ref[Use] | None = None  # the last one, as long as autograd knows it
        self.piece: ReshardedPiece | None = None  # from forward to backward, where neighbours hold the weights
        self._gather_result: Callable[[], Tensor] | None = None  # an all-gather under way
        self._gather_input: ReshardedPiece | None = None  # what it sends, which may not go before it is done
        self.settle()

    def settle(self) -> None:
        """Have the modules keep the shards that there are now, to be found there whenever the unit is at rest."""
        self._index_of: dict[nn.Module, dict[str, int]] = {}  # of a module's parameters, by their names in it
        for i, parameter in enumerate(self.parameters):
            for module, attribute in parameter.holders:
                self._index_of.setdefault(module, {})[attribute] = i
        stand_ins = [StandIn.of(parameter, self.name) for parameter in self.parameters]
        self._at_rest = {
            module: AtRest(module._parameters, {name: stand_ins[i] for name, i in index_of.items()})
            for module, index_of in self._index_of.items()
        }
        self.to_sharded()

    @property
    def is_frozen(self) -> bool:
        return not any(p.shard.requires_grad for p in self.parameters)

    @property
    def is_unsharded(self) -> bool:
        use = self.uses() if self.uses else None
        return use is not None and use.is_unsharded

    def last_use(self) -> Use | None:
        """That of the last forward with gradients, as long as its graph lives."""
        return self.uses() if self.uses else None

    def check_shards(self) -> None:
        """``RuntimeError`` where the shards are not any more what they were when the model was wrapped."""
        for module, index_of in self._index_of.items():
            kept = module._parameters
            for name, i in index_of.items():
                if kept.get(name) is not self.parameters[i].shard:
                    raise RuntimeError(REPLACED.format(name=self.parameters[i].name))
            if added := [name for name, p in kept.items() if p is not None and name not in index_of]:
                raise RuntimeError(ADDED.format(name=added[0], unit=self.name))
        for parameter in self.parameters:
            shard = parameter.shard
            if (shard.dtype, shard.device) != parameter.born_as:
                dtype, device = parameter.born_as
                raise RuntimeError(
                    f"{parameter.name} was {dtype} on {device} when the model was sharded, and is {shard.dtype} on "
                    f"{shard.device} now. Move and convert a model before you shard it."
                )

    # -- whole weights ------------------------------------------------------------------------------------------

    def start(self, *, again: bool = False) -> None:
        """Start the all-gather of the weights, unless it is in flight. ``again``: in backward, of the piece."""
        if self._gather_result is None:
            self._gather_input = self.piece if again and self.piece is not None else self._own_piece()
            self._gather_result = self._gather_input.start_all_gather()

    def _own_piece(self) -> ReshardedPiece:
        part = self.packing.pack_part([p.shard.detach() for p in self.parameters], self.dtype)  # (K,)
        return ReshardedPiece(self.members, self.packing, part)

    def arrived(self) -> tuple[Packing, Tensor]:
        """What all ranks keep, or all neighbours hold, (n, K), and how it is packed. A piece is not needed then."""
        self.start()
        assert self._gather_result is not None
        assert self._gather_input is not None
        flat, packing = self._gather_result(), self._gather_input.packing
        if self._gather_input is self.piece:
            self.piece = None
        self._gather_result = self._gather_input = None
        return packing, flat

    def copies(self) -> list[Tensor]:
        """Full weights in the parameters' own dtype, in memory of their own: to look at, or to save."""
        return all_gather_rows(self.members, self.packing, [p.shard.detach() for p in self.parameters])

    def drop(self) -> None:
        """Forget an all-gather that turned out not to be needed; it is waited for, since other ranks take part."""
        if self._gather_result is not None:
            self._gather_result()
            self._gather_result = self._gather_input = None

    def forget(self) -> None:
        """The same, and the piece of a forward whose backward is over, or will not come."""
        self.drop()
        self.piece = None

    def gathered(self, use: Use) -> Sequence[Tensor]:
        """The unsharded weights as autograd knows them: computed from the shards."""
        use.unshard()
        return _Gather.apply(use, *(p.shard for p in self.parameters))

    def to_unsharded(self, tensors: Sequence[Tensor]) -> None:
        """Let the modules see unsharded weights, one for each parameter of the unit."""
        for module, at_rest in self._at_rest.items():
            index_of = self._index_of[module]
            module.__dict__["_parameters"] = {
                name: tensors[index_of[name]] if name in index_of else None for name in at_rest
            }

    def to_sharded(self) -> None:
        """Let the modules see what they keep at rest."""
        for module, at_rest in self._at_rest.items():
            module.__dict__["_parameters"] = at_rest

    # -- gradients ----------------------------------------------------------------------------------------------

    def defer(self, gradients: Sequence[Tensor | None]) -> None:
        """Keep unsharded gradients on this rank, to be added to those of a later backward."""
        kept = self.deferred or [None] * len(self.parameters)
        self.deferred = [_sum(a, b) for a, b in zip(kept, gradients, strict=True)]

    def start_reduction(self, gradients: Sequence[Tensor | None]) -> Callable[[], Tensor]:
        """Start the reduce-scatter; calling what it returns waits for this rank's part of the sums, (K,)."""
        if self.deferred:
            self.defer(gradients)
            gradients, self.deferred = self.deferred, []
        flat = self.packing.pack_full(gradients, self.parameters[0].shard, self.reduce_dtype)  # (n, K)
        return start_lean_reduce_scatter(self.members, flat)

    def accumulate(self, flat: Tensor) -> None:
        """Add this rank's rows of the mean gradients, (K,), to the shards' gradients."""
        rows = self.packing.unpack_part(flat.to(self.parameters[0].shard.dtype), self.members.group_rank)
        for parameter, gradient in zip(self.parameters, rows, strict=True):
            shard = parameter.shard
            if shard.requires_grad:
                shard.grad = gradient if shard.grad is None else shard.grad + gradient


class _Gather(torch.autograd.Function):
    """Shards -> unsharded weights; its backward hands their gradients on, to be summed and cut into shards."""

    @staticmethod
    def forward(ctx: Any, use: Use, *shards: Tensor) -> tuple[Tensor, ...]:
        ctx.use, use.gather = use, weakref.ref(ctx)
        ctx.set_materialize_grads(False)  # a weight that was not used has None, and not zeros
        # The same storages, known to autograd by this operation.
        unsharded = tuple(tensor.detach() for tensor in use.unsharded)
        ctx.mark_non_differentiable(*(w for w, s in zip(unsharded, shards, strict=True) if not s.requires_grad))
        return unsharded

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[None, ...]:
        if not all(_is_accumulated(node) for node, _ in ctx.next_functions if node is not None):
            raise RuntimeError(ASKED_FOR_SHARDS.format(unit=ctx.use.unit.name))
        ctx.use.on_gradients(ctx.use, gradients)
        return (None,) * (len(gradients) + 1)  # the shards' gradients come later, when the messages have arrived


def _is_accumulated(leaf: Any) -> bool:
    """Asked in a backward: whether it adds to the ``grad`` of this leaf."""
    try:
        return torch._C._will_engine_execute_node(leaf)
    except RuntimeError:  # so PyTorch answers in autograd.grad(..., leaf)
        return False


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def _resize(tensor: Tensor, size_bytes: int) -> None:
    """Give a tensor's memory back, or take it anew, while views of it and autograd still know the tensor."""
    if type(tensor) is Tensor:  # a subclass may have no storage of its own
        tensor.untyped_storage().resize_(size_bytes)
