"""A unit: some parameters that are made whole together, used, and let go. All-gather before use, reduce-scatter
after.

Forward: one all-gather makes the weights of a unit whole, its modules compute, and the memory is given back. Autograd
has saved the weights for backward, so it is the *storage* that is emptied, and the tensors stay. Backward: the same
storages are filled by a second all-gather before the unit's backward begins. When the gradients of all its weights
are there, one reduce-scatter adds them over the ranks, and each rank keeps its own rows of the sum.

To autograd, ``whole = _Gather(shards)`` is one operation, and its backward is called when every gradient of the unit
is complete, however often and wherever its weights were used. That is why tied and unused weights need no care.

Source: Rajbhandari et al., "ZeRO" (2020), stage 3; Zhao et al., "PyTorch FSDP" (2023).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.parallel.collectives.lean_reduce_scatter import start_lean_reduce_scatter
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.sharded.neighbours import Piece
from course_lib.parallel.sharded.rows import Packing, Rows, all_gather_rows

__all__ = ["ShardedParameter", "Unit", "Use"]

OnGradients = Callable[["Use", tuple[Tensor | None, ...]], None]


class ShardedParameter:
    """A parameter of which this rank keeps its rows. ``places`` are the modules that hold it, and under which name."""

    def __init__(
        self, members: Members, name: str, parameter: nn.Parameter, places: list[tuple[nn.Module, str]]
    ):
        self.name, self.places = name, places  # of several names, where it is tied, the first
        self.rows = Rows(tuple(parameter.shape), members.count)
        self.is_trained = parameter.requires_grad
        self.become(self.rows.cut(parameter.detach(), members.place).clone())

    def become(self, rows: Tensor) -> None:
        """Keep these rows from now on."""
        self.shard = nn.Parameter(rows, requires_grad=self.is_trained)
        self.born_as = (rows.dtype, rows.device)
        self.put(self.shard)

    def names_in(self, model: nn.Module) -> list[str]:
        """All names of this parameter in the model's ``state_dict()``; several where it is tied."""
        name_of = {part: name for name, part in model.named_modules()}
        return [f"{name_of[module]}.{attribute}".lstrip(".") for module, attribute in self.places]

    def put(self, tensor: Tensor) -> None:
        """Let the modules see this tensor as their parameter."""
        for module, attribute in self.places:
            module._parameters[attribute] = tensor  # type: ignore[assignment]


class Use:
    """One forward of a unit: its whole weights, whose storages are empty between forward and backward.

    ``on_gradients`` is called in backward, with this use and the gradients of all its weights, ``None`` for unused
    ones.
    """

    def __init__(self, unit: Unit, on_gradients: OnGradients) -> None:
        self.unit, self.on_gradients = unit, on_gradients
        self.is_whole = self.is_borrowed = False  # borrowed: whole because its backward is under way
        self.wholes = [
            torch.empty(p.rows.shape, dtype=unit.dtype, device=p.shard.device) for p in unit.parameters
        ]
        for whole, parameter in zip(self.wholes, unit.parameters, strict=True):
            _resize(whole, 0)
            whole.requires_grad_(parameter.shard.requires_grad)
        unit.uses = weakref.ref(self)

    def fill(self) -> None:
        """Make the weights whole: wait for their all-gather, which is started now where nobody has started it
        before."""
        if self.is_whole:
            return
        packing, flat = self.unit.arrived()
        for whole in self.wholes:
            _resize(whole, whole.numel() * whole.element_size())
        # To autograd nothing has changed: what it saved is there again.
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(tuple(self.wholes)):
            packing.unpack_whole(flat, self.wholes)
        self.is_whole = True

    def empty(self) -> None:
        """Give the memory of the whole weights back."""
        if self.is_whole:
            for whole in self.wholes:
                _resize(whole, 0)
            self.is_whole = False

    def check_unchanged(self) -> None:
        """``RuntimeError`` where a weight was written to while it was whole: the shards would not know."""
        for whole, parameter in zip(self.wholes, self.unit.parameters, strict=True):
            if whole._version:
                raise RuntimeError(
                    f"{parameter.name} was changed while it was whole, in the forward of {self.unit.name}; each rank "
                    "keeps its own rows, so the change would be lost. Change it between steps: "
                    "with whole(model, writable=True)."
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
                f"the parameters of unit {name!r} are {', '.join(sorted(map(str, dtypes)))}: what travels in "
                "one message "
                f"has one dtype. The nearest that works is model.to({max(dtypes, key=lambda d: d.itemsize)})."
            )
        self.dtype = dtype or dtypes.pop()
        self.reduce_dtype = reduce_dtype or self.dtype
        self.packing = Packing([p.rows for p in parameters])
        self.is_frozen = not any(p.shard.requires_grad for p in parameters)
        self.held_back: list[Tensor | None] = []  # whole gradients that wait for a backward that is reduced
        self.use: Use | None = None  # of the forward that is under way
        self.num_begun = 0  # of its modules' forwards in this use
        self.uses: weakref.ref[Use] | None = None  # the last one, as long as autograd knows it
        self.piece: Piece | None = None  # from forward to backward, where neighbours hold the weights
        self._coming: Callable[[], Tensor] | None = None  # an all-gather under way
        self._going: Piece | None = None  # what it sends, which may not go before it is done

    @property
    def is_whole(self) -> bool:
        use = self.uses() if self.uses else None
        return use is not None and use.is_whole

    def last_use(self) -> Use:
        use = self.uses() if self.uses else None
        assert use is not None  # its forward is being recomputed, so its graph lives
        return use

    def check_shards(self) -> None:
        """``RuntimeError`` where the shards are not any more what they were when the model was wrapped."""
        for parameter in self.parameters:
            shard, (module, attribute) = parameter.shard, parameter.places[0]
            if module._parameters[attribute] is not shard:
                raise RuntimeError(
                    f"{parameter.name} is not the shard any more that this rank kept: something has replaced it, as "
                    "model.to() does between some devices. Move and convert a model first, and shard it then."
                )
            if (shard.dtype, shard.device) != parameter.born_as:
                dtype, device = parameter.born_as
                raise RuntimeError(
                    f"{parameter.name} was {dtype} on {device} when the model was sharded, and is {shard.dtype} on "
                    f"{shard.device} now. Move and convert a model first, and shard it then."
                )

    # -- whole weights ------------------------------------------------------------------------------------------

    def start(self, *, again: bool = False) -> None:
        """Start the all-gather of the whole weights, unless it is under way. ``again``: in backward, of the piece."""
        if self._coming is None:
            self._going = self.piece if again and self.piece is not None else self._own_piece()
            self._coming = self._going.start_all_gather()

    def _own_piece(self) -> Piece:
        part = self.packing.pack_part([p.shard.detach() for p in self.parameters], self.dtype)  # (K,)
        return Piece(self.members, self.packing, part)

    def arrived(self) -> tuple[Packing, Tensor]:
        """What all ranks keep, or all neighbours hold, (n, K), and how it is packed. A piece is not needed then."""
        self.start()
        assert self._coming is not None
        assert self._going is not None
        flat, packing = self._coming(), self._going.packing
        if self._going is self.piece:
            self.piece = None
        self._coming = self._going = None
        return packing, flat

    def copies(self) -> list[Tensor]:
        """Whole weights in the parameters' own dtype, in memory of their own: to look at, or to save."""
        return all_gather_rows(self.members, self.packing, [p.shard.detach() for p in self.parameters])

    def drop(self) -> None:
        """Forget an all-gather that turned out not to be needed; it is waited for, since other ranks take part."""
        if self._coming is not None:
            self._coming()
            self._coming = self._going = None

    def forget(self) -> None:
        """The same, and the piece of a forward whose backward is over, or will not come."""
        self.drop()
        self.piece = None

    def gathered(self, use: Use) -> Sequence[Tensor]:
        """The whole weights as autograd knows them: computed from the shards."""
        use.fill()
        return _Gather.apply(use, *(p.shard for p in self.parameters))

    def put(self, tensors: Sequence[Tensor] | None = None) -> None:
        """Let the modules see whole weights, or (``None``) their shards."""
        for i, parameter in enumerate(self.parameters):
            parameter.put(parameter.shard if tensors is None else tensors[i])

    # -- gradients ----------------------------------------------------------------------------------------------

    def hold_back(self, gradients: Sequence[Tensor | None]) -> None:
        """Keep whole gradients on this rank, to be added to those of a later backward."""
        kept = self.held_back or [None] * len(self.parameters)
        self.held_back = [_sum(a, b) for a, b in zip(kept, gradients, strict=True)]

    def start_reduction(self, gradients: Sequence[Tensor | None]) -> Callable[[], Tensor]:
        """Start the reduce-scatter; calling what it returns waits for this rank's part of the sums, (K,)."""
        if self.held_back:
            self.hold_back(gradients)
            gradients, self.held_back = self.held_back, []
        flat = self.packing.pack_whole(gradients, self.parameters[0].shard, self.reduce_dtype)  # (n, K)
        return start_lean_reduce_scatter(self.members, flat)

    def accumulate(self, flat: Tensor) -> None:
        """Add this rank's rows of the mean gradients, (K,), to the shards' gradients."""
        rows = self.packing.unpack_part(flat.to(self.parameters[0].shard.dtype), self.members.place)
        for parameter, gradient in zip(self.parameters, rows, strict=True):
            shard = parameter.shard
            if shard.requires_grad:
                shard.grad = gradient if shard.grad is None else shard.grad + gradient


class _Gather(torch.autograd.Function):
    """Shards -> whole weights; its backward hands the whole gradients on, to be summed and cut into shards."""

    @staticmethod
    def forward(ctx: Any, use: Use, *shards: Tensor) -> tuple[Tensor, ...]:
        ctx.use = use
        ctx.set_materialize_grads(False)  # a weight that was not used has None, and not zeros
        wholes = tuple(
            whole.detach() for whole in use.wholes
        )  # the same storages, known to autograd by this operation
        ctx.mark_non_differentiable(*(w for w, s in zip(wholes, shards, strict=True) if not s.requires_grad))
        return wholes

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[None, ...]:
        ctx.use.on_gradients(ctx.use, gradients)
        return (None,) * (
            len(gradients) + 1
        )  # the shards' gradients come later, when the messages have arrived


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def _resize(tensor: Tensor, size_bytes: int) -> None:
    """Give a tensor's memory back, or take it anew, while views of it and autograd still know the tensor."""
    if type(tensor) is Tensor:  # a subclass may have no storage of its own
        tensor.untyped_storage().resize_(size_bytes)
