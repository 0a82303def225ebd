"""What modules hold while their unit is at rest, between two uses: rows of weights, and nothing to compute with.

A layer that is called by itself, or ``F.linear(x, model.head.weight)``, would compute with the rows of this rank as if
they were the weight, and nobody would know. So a module at rest keeps its parameters in a dict of a kind of its own.
Whoever walks over them (``parameters()``, ``state_dict()``, ``to()``) finds the shards, plain parameters, as an
optimizer needs them. Whoever takes one by its name, as a forward does, finds a *stand-in*: it tells the shape, the
dtype, the gradient, and refuses to compute. While the unit computes, the dict is a plain one, with whole weights.

DeepSpeed's ZeRO-3 has a dict in the same place, whose reads start an all-gather. PyTorch's ``fully_shard`` keeps
``DTensor`` there, which every operator asks what it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.parallel.collectives.members import Members
from course_lib.parallel.collectives.parts import held_in_parts
from course_lib.parallel.sharded.misuse import AVERAGED_BY, COPIED, INSTEAD
from course_lib.parallel.sharded.row_sharding import Rows
from course_lib.parallel.sharded.shard import WeightShard

__all__ = ["AtRest", "ShardedParameter", "StandIn"]


class ShardedParameter:
    """A parameter of which this rank keeps its rows. ``holders`` are the modules that hold it, and under which name."""

    def __init__(self, members: Members, name: str, parameter: nn.Parameter, holders: list[tuple[nn.Module, str]]):
        self.name, self.holders = name, holders  # of several names, where it is tied, the first
        self.rows = Rows(tuple(parameter.shape), members.count)
        self.is_trained, self._members = parameter.requires_grad, members
        self.become(self.rows.cut(parameter.detach(), members.group_rank).clone())

    def become(self, rows: Tensor) -> None:
        """Keep these rows from now on."""
        self.shard = WeightShard(rows, requires_grad=self.is_trained)
        self.shard.is_part = self.rows.num_parts > 1
        held_in_parts([self.shard], "FullySharded", self._members, AVERAGED_BY)
        self.born_as = (rows.dtype, rows.device)
        for module, attribute in self.holders:
            module._parameters[attribute] = self.shard

    def names_in(self, model: nn.Module) -> list[str]:
        """All names of this parameter in the model's ``state_dict()``; several where it is tied."""
        name_of = {part: name for name, part in model.named_modules()}
        return [f"{name_of[module]}.{attribute}".lstrip(".") for module, attribute in self.holders]


# What a stand-in tells: all of it is true of the shard as well.
_FACTS = (
    "shape",
    "dtype",
    "device",
    "layout",
    "ndim",
    "is_cuda",
    "is_meta",
    "requires_grad",
    "grad",
    "grad_fn",
)
_ANSWERED: frozenset[Callable[..., Any]] = frozenset(
    [inspect.getattr_static(Tensor, name).__get__ for name in _FACTS]
    + [inspect.getattr_static(Tensor, name).__set__ for name in ("requires_grad", "grad")]
    + [Tensor.requires_grad_, Tensor.size, Tensor.stride, Tensor.dim, Tensor.numel, torch.numel, Tensor.__len__]
    + [Tensor.is_floating_point, torch.is_floating_point, Tensor.is_complex, torch.is_complex]
    + [Tensor.is_contiguous, Tensor.element_size, inspect.getattr_static(Tensor, "nbytes").__get__]
)


class StandIn(WeightShard):
    """What a module shows of a shard: what it is, and not its numbers. ``RuntimeError`` for whoever would compute."""

    shard: nn.Parameter
    what: str  # it is, for the sentence

    @classmethod
    def of(cls, parameter: ShardedParameter, unit_name: str) -> StandIn:
        shard = parameter.shard
        # Without memory of its own; and of a tensor of any kind, which the shard may be.
        facts = {"dtype": shard.dtype, "device": shard.device, "requires_grad": shard.requires_grad}
        stand_in = Tensor._make_wrapper_subclass(cls, shard.shape, **facts)
        stand_in.shard, stand_in.is_part = shard, shard.is_part
        stand_in.what = (
            f"{parameter.name} is at rest: this rank keeps {tuple(shard.shape)} of its shape {parameter.rows.shape}. "
            f"It is whole only while its unit, {unit_name}, computes"
        )
        return stand_in

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _ANSWERED:
            return func(*(a.shard if isinstance(a, StandIn) else a for a in args), **(kwargs or {}))
        found = [a for a in (*args, *(kwargs or {}).values()) if isinstance(a, StandIn)]
        what = found[0].what if found else "one of the parameters is at rest: this rank keeps some of its rows"
        raise RuntimeError(f"{what}. {_name_of(func)} would compute with these rows alone. {INSTEAD}")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """PyTorch's own code may ask past the functions above."""
        return cls.__torch_function__(func, types, args, kwargs)

    def __repr__(self, **_options: Any) -> str:
        return f"{self.what}: {self.shard.detach()}"

    def __deepcopy__(self, _memo: Any) -> StandIn:
        raise RuntimeError(f"{self.what}. A copy would be of these rows alone. {INSTEAD}")


def _name_of(func: Callable[..., Any]) -> str:
    name = getattr(func, "__name__", str(func))
    return getattr(getattr(func, "__self__", None), "__name__", name) if name == "__get__" else name


class AtRest(dict[str, nn.Parameter | None]):
    """The ``_parameters`` of a module at rest: its items are shards, and taken by its name each is a stand-in."""

    def __init__(self, parameters: Mapping[str, nn.Parameter | None], stand_ins: Mapping[str, StandIn]) -> None:
        super().__init__(parameters)
        self._stand_ins = stand_ins

    def __getitem__(self, name: str) -> nn.Parameter | None:
        kept, stand_in = super().__getitem__(name), self._stand_ins.get(name)
        return stand_in if stand_in is not None and stand_in.shard is kept else kept

    def __setitem__(self, name: str, value: nn.Parameter | None) -> None:
        super().__setitem__(name, value.shard if isinstance(value, StandIn) else value)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise RuntimeError(COPIED)
