"""05.clip: shards whose gradients are clipped, what is looked at afterwards, and what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.judging.compare import close_to, short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, RankReport, fact, first_unwaited

__all__ = [
    "ALL_SMALL",
    "FEW",
    "KINDS",
    "LONG",
    "NO_NUMBER",
    "ONE_LARGE",
    "SHORT",
    "THERE_IS_NONE",
    "ZEROS",
    "ClipReport",
    "gradients_of",
    "max_norm_of",
    "norms",
    "right",
    "trial",
]

LONG = "a gradient that is too long on every rank"
ALL_SMALL = "ranks whose own norms are all below max_norm, and together above it"
ONE_LARGE = "one rank whose own norm is above max_norm, and others below it"
SHORT = "a gradient that is short enough"
ZEROS = "gradients of zeros"
FEW = "no gradient at all on rank 1"
KINDS = (LONG, ALL_SMALL, ONE_LARGE, SHORT, ZEROS, FEW)

THERE_IS_NONE = "there is none"
_SAME_TENSORS, _OTHER_TENSORS = "in the tensors that were there", "in new tensors"
# To each other rank; a number that is pickled takes some hundred.
_FEW_NUMBERS, _FEW_BYTES = "a few numbers", 1000
NO_NUMBER = "no number: "

# Of whole parameters, which are cut by rows: some ranks have fewer rows of one, or none.
_SHAPES = {"up.weight": (48, 64), "norm.weight": (3,), "down.weight": (64, 48), "scale": (1, 5)}
_FROZEN = "positions.weight"  # has no gradient in any case
_PLACE_OF_FROZEN = {LONG: 0, ALL_SMALL: 2, ONE_LARGE: 0}  # among the shards; in other cases the last one
_TURNED = "down.weight"  # its gradient is not contiguous, as a transposed product leaves it
# In units of max_norm.
_OWN_NORM = {LONG: 3.0, ALL_SMALL: 0.8, ONE_LARGE: 0.5, SHORT: 0.1, ZEROS: 0.0, FEW: 1.5}
_MAX_NORM = {LONG: 2.0, ALL_SMALL: 5.0, ONE_LARGE: 4.0, SHORT: 40.0, ZEROS: 1.0, FEW: 0.5}
_NUMBER = close_to(1e-5, 1e-9)  # with the 1e-6 of torch.nn.utils below the line, or without


def _differing_gradients(want: dict[str, Any], have: dict[str, Any]) -> str:
    """The first gradient that differs; what is None is told in words."""
    for name, one in want.items():
        if isinstance(one, Tensor) and isinstance(have[name], str):
            return f"{name}: its gradient is None now"
        if isinstance(one, str) and isinstance(have[name], Tensor):
            return f"{name}: its gradient was None, and is {short(have[name])} now"
        if found := _NUMBER(one, have[name]):
            return f"{name}: {found}"
    return ""


def _about_the_norm(want: float, have: Any, found: str) -> str:
    if not isinstance(have, str):
        return f"the norm: {found}"
    if have == f"{NO_NUMBER}None":
        return "nothing came back (`None`); the norm is to be returned"
    return f"expected a norm, {short(want)}, got {have.removeprefix(NO_NUMBER)}"


@dataclass(frozen=True, kw_only=True)
class ClipReport(RankReport):
    """What an answer returned on a rank, and what it left of the gradients there."""

    asked_for = "a norm"
    norm: Any = fact(_about_the_norm, by=_NUMBER)  # a number, or words
    gradients: dict[str, Any] = fact(
        "the norm is right; of the gradients afterwards, {difference}", by=_differing_gradients
    )
    kept: str = fact("norm and gradients are right, and your code changed what was to stay: {got}", right=NOTHING)
    in_place: str = fact(
        "the numbers are right, and they are in new tensors: the gradients were to be scaled in place",
        right=_SAME_TENSORS,
    )
    sent: str = fact("the numbers are right, and this rank sent {got}; a norm takes a few numbers", right=_FEW_NUMBERS)


def max_norm_of(kind: str) -> float:
    return _MAX_NORM[kind]


def _num_rows(num_rows: int, rank: int, world_size: int) -> int:
    each = -(-num_rows // world_size)
    return max(0, min(each, num_rows - rank * each))


@lru_cache(maxsize=128)
def gradients_of(kind: str, rank: int, world_size: int) -> dict[str, Tensor | None]:
    """What backward has left in this rank's shards, by the names of the parameters."""
    draw = torch.Generator().manual_seed(50 + rank)
    dtype = torch.float64 if kind in (LONG, ALL_SMALL) else torch.float32
    found = {
        name: torch.randn(_num_rows(rows, rank, world_size), *rest, generator=draw, dtype=torch.float64)
        for name, (rows, *rest) in _SHAPES.items()
    }
    found["up.weight"][0, 0] = _norm(found.values())  # one number is as long as all others together
    wanted = _MAX_NORM[kind] * _OWN_NORM[kind] * (1 + 0.05 * rank)
    if kind == ONE_LARGE and rank == 1:
        wanted *= 6
    scale = wanted / _norm(found.values())
    made: dict[str, Tensor | None] = {name: (scale * gradient).to(dtype) for name, gradient in found.items()}
    if kind == FEW and rank == 1:
        made = dict.fromkeys(found)
    elif kind != LONG:
        made[_TURNED] = (scale * found[_TURNED]).to(dtype).mT.contiguous().mT
    in_order = list(made.items())
    in_order.insert(_PLACE_OF_FROZEN.get(kind, len(in_order)), (_FROZEN, None))
    return dict(in_order)


def _norm(gradients: Any) -> float:
    squares = [float(gradient.double().square().sum()) for gradient in gradients if gradient is not None]
    return sum(squares) ** 0.5


@lru_cache(maxsize=64)
def norms(kind: str, world_size: int) -> tuple[float, ...]:
    """The norm of each rank's own gradients."""
    return tuple(_norm(gradients_of(kind, rank, world_size).values()) for rank in range(world_size))


def _shards(kind: str, me: Rank) -> dict[str, nn.Parameter]:
    found = {}
    for name, gradient in gradients_of(kind, me.rank, me.world_size).items():
        rows, *rest = _SHAPES.get(name, (7, 4))
        dtype = torch.float64 if kind in (LONG, ALL_SMALL) else torch.float32
        weight = torch.ones(_num_rows(rows, me.rank, me.world_size), *rest, dtype=dtype, device=me.device)
        found[name] = nn.Parameter(weight, requires_grad=name != _FROZEN)
        if gradient is not None:
            found[name].grad = gradient.to(me.device, copy=True)
    return found


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> Any:
    from course_lib.meter.communication.recorder import Recorder

    shards = _shards(kind, me)
    given = list(shards.values())
    before = [shard.grad for shard in given]
    kept = Kept(shards=given, ignore=("gradients",))
    with Recorder(me.rank) as recorder:
        norm = answer(me, list(given), _MAX_NORM[kind])
    if norm is ...:
        return ...
    begun = first_unwaited()
    moved = any(shard.grad is not was for shard, was in zip(given, before, strict=True) if was is not None)
    sent = sum(sum(call.sent_bytes.values()) for call in recorder.calls) / (me.world_size - 1)
    return ClipReport(
        unwaited=begun,
        norm=_as_number(norm),
        gradients={name: _found(shard) for name, shard in shards.items()},
        kept=kept.changes() or NOTHING,
        in_place=_OTHER_TENSORS if moved else _SAME_TENSORS,
        sent=_FEW_NUMBERS if sent <= _FEW_BYTES else f"{round(sent)} bytes to each other rank",
    )


def _as_number(norm: Any) -> float | str:
    """A number, or a tensor that holds one; else what it is in words."""
    if isinstance(norm, Tensor) and norm.numel() == 1 and not norm.is_complex():
        return float(norm.detach())
    if isinstance(norm, Real) and not isinstance(norm, bool):
        return float(norm)
    return f"{NO_NUMBER}{short(norm)}"


def _found(shard: nn.Parameter) -> Tensor | str:
    return THERE_IS_NONE if shard.grad is None else shard.grad.detach().cpu().clone()


def right(kind: str) -> Callable[[int, int], ClipReport]:
    def expected(rank: int, world_size: int) -> ClipReport:
        norm = sum(one**2 for one in norms(kind, world_size)) ** 0.5
        factor = min(1.0, _MAX_NORM[kind] / norm) if norm else 1.0
        own = gradients_of(kind, rank, world_size)
        scaled = {name: THERE_IS_NONE if gradient is None else gradient * factor for name, gradient in own.items()}
        return ClipReport(norm=norm, gradients=scaled)

    return expected
