"""09.norm: what ranks of several meshes hold of a gradient, what is looked at afterwards, and what is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.learn.judging.compare import close_to, short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, RankReport, fact, first_unwaited
from course_lib.parallel.collectives.members import split_sizes

__all__ = [
    "KINDS",
    "MANY",
    "NAN",
    "ONE_AXIS",
    "ORDER",
    "REPLICAS",
    "SHARDS",
    "SHORT",
    "SILENT",
    "STAGES",
    "NormReport",
    "Piece",
    "mesh_of",
    "norm_of",
    "pieces_of",
    "right",
    "trial",
]

Piece = tuple[Tensor | None, tuple[str, ...]]  # a gradient, and the axes that cut it

SHARDS = "shards of slices"
REPLICAS = "replicas of slices, and a frozen weight"
STAGES = "stages of slices, and a weight at both ends"
ORDER = "three axes, tp the outermost, and gradients stored by column"
ONE_AXIS = "one axis, and fewer rows than ranks"
SILENT = "no gradient at all on the first stage"
SHORT = "gradients in bfloat16"
NAN = "a NaN in a gradient"
MANY = "three hundred gradients, and an axis cp"
KINDS = (SHARDS, REPLICAS, STAGES, ORDER, ONE_AXIS, SILENT, SHORT, NAN, MANY)

_A_TENSOR = "a tensor of float64 and shape ()"
_FEW, _FEW_NUMBERS, _FEW_BYTES = "a few numbers", 2, 1000  # one there and one back; pickled, one takes some hundred
_NUMBER, _NUMBER_OF_FLOAT32 = close_to(1e-9, 1e-12), close_to(1e-6, 1e-12)


@dataclass(frozen=True)
class _Weight:
    shape: tuple[int, ...]
    cuts: tuple[tuple[str, int], ...] = ()  # axis and dim, the first cut first
    stage: int | None = None  # whose own it is; None: on all stages
    has_gradient: bool = True


# By kind: the sizes of the axes on 1, 4 and 6 ranks, and the weights.
_AXES: dict[str, dict[str, tuple[int, int, int]]] = {
    SHARDS: {"dp_shard": (1, 2, 3), "tp": (1, 2, 2)},
    REPLICAS: {"dp_replicate": (1, 2, 2), "tp": (1, 2, 3)},
    STAGES: {"pp": (1, 2, 3), "tp": (1, 2, 2)},
    ORDER: {"tp": (1, 2, 3), "dp_replicate": (1, 2, 1), "dp_shard": (1, 1, 2)},
    ONE_AXIS: {"dp_shard": (1, 4, 6)},
    SILENT: {"pp": (1, 2, 2), "dp_replicate": (1, 2, 3)},
    SHORT: {"dp_shard": (1, 2, 2), "tp": (1, 2, 3)},
    NAN: {"dp_shard": (1, 2, 3), "tp": (1, 2, 2)},
    MANY: {"cp": (1, 2, 2), "dp_shard": (1, 2, 3)},
}
_SHARDED = (
    _Weight((49, 40), (("tp", 0), ("dp_shard", 0))),
    _Weight((40, 49), (("tp", 1), ("dp_shard", 0))),
    _Weight((31,), (("dp_shard", 0),)),
    _Weight((17,), (("tp", 0),)),
    _Weight((9, 2)),
)
_WEIGHTS: dict[str, tuple[_Weight, ...]] = {
    SHARDS: _SHARDED,
    REPLICAS: (
        _Weight((49, 40), (("tp", 0),)),
        _Weight((23,)),
        _Weight((7, 7), (("tp", 1),), has_gradient=False),
        _Weight((40, 49), (("tp", 1),)),
    ),
    STAGES: (
        _Weight((53, 30), (("tp", 0),)),  # tied: a copy on every stage
        _Weight((29,), stage=0),
        _Weight((49, 40), (("tp", 0),), stage=0),
        _Weight((40, 51), (("tp", 1),), stage=1),
        _Weight((33,), stage=1),
        _Weight((6, 6), (("tp", 0),), stage=1),  # one more than stage 0 has
        _Weight((11, 40), (("tp", 0),), stage=2),
    ),
    ORDER: _SHARDED,
    ONE_AXIS: (_Weight((3, 500), (("dp_shard", 0),)), _Weight((50, 30), (("dp_shard", 0),)), _Weight((21,))),
    SILENT: (
        _Weight((30, 30), stage=0, has_gradient=False),
        _Weight((5,), stage=0, has_gradient=False),
        _Weight((40, 30), stage=1),
        _Weight((30,), stage=1),
    ),
    SHORT: _SHARDED,
    NAN: _SHARDED,
    MANY: tuple(_Weight((4,), (("dp_shard", 0),) if place % 3 else ()) for place in range(300)),
}


def mesh_of(kind: str, num_ranks: int) -> Mesh:
    """The mesh of a case on 1, 4 or 6 ranks."""
    place = (1, 4, 6).index(num_ranks)
    return Mesh.of(**{axis: sizes[place] for axis, sizes in _AXES[kind].items()})


@lru_cache(maxsize=64)
def _whole(kind: str) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(90 + KINDS.index(kind))
    dtype = torch.bfloat16 if kind == SHORT else torch.float64
    drawn = [torch.randn(weight.shape, generator=draw, dtype=torch.float64) for weight in _WEIGHTS[kind]]
    # A vector is as long as a matrix, about 30: no mistake hides behind a small share.
    found = tuple((one * (900 / one.numel()) ** 0.5).to(dtype) for one in drawn)
    if kind == NAN:
        found[0][0, 0] = float("nan")  # on one rank alone: both axes cut this weight
    return found


@lru_cache(maxsize=64)
def norm_of(kind: str, num_ranks: int) -> float:
    """Of the whole gradient, each number once."""
    stages = mesh_of(kind, num_ranks).size("pp")
    there = zip(_WEIGHTS[kind], _whole(kind), strict=True)
    squares = [float(g.double().square().sum()) for w, g in there if w.has_gradient and _is_on(w, stages)]
    return sum(squares) ** 0.5


@lru_cache(maxsize=256)
def pieces_of(kind: str, rank: int, num_ranks: int) -> tuple[Piece, ...]:
    """What a rank has of it: of its own stage alone."""
    mesh = mesh_of(kind, num_ranks)
    here, stages, found = mesh.coordinates(rank), mesh.size("pp"), []
    for weight, gradient in zip(_WEIGHTS[kind], _whole(kind), strict=True):
        if not _is_on(weight, stages) or weight.stage not in (None, here.get("pp", 0)):
            continue
        for axis, dim in weight.cuts:
            sizes = split_sizes(gradient.size(dim), mesh.size(axis))
            gradient = gradient.split(sizes, dim)[here.get(axis, 0)]
        cut_by = [axis for axis, _ in weight.cuts] + ["pp"] * (weight.stage is not None)
        found.append((gradient.clone() if weight.has_gradient else None, tuple(cut_by)))
    return tuple(found)


def _is_on(weight: _Weight, stages: int) -> bool:
    """Whether a mesh of so many stages has it; one stage alone holds what is everybody's, and stage 0's."""
    return weight.stage is None or weight.stage < stages


# -- a trial ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Came:
    """What came as the norm: a number, or in words what is none; and the form in which it came."""

    value: float | str
    form: str


def _off(want: float, came: Came) -> str:
    """A norm that comes in float32 cannot be closer than that."""
    if isinstance(came.value, str):
        return came.value
    return (_NUMBER_OF_FLOAT32 if "float32" in came.form else _NUMBER)(want, came.value)


def _of_the_norm(want: float, came: Came, how: str) -> str:
    return f"expected a norm, {short(want)}, got {how}" if isinstance(came.value, str) else f"the norm: {how}"


@dataclass(frozen=True, kw_only=True)
class NormReport(RankReport):
    """What an answer gave on a rank, and what it sent."""

    asked_for = "a norm"
    norm: Any = fact(_of_the_norm, by=_off)
    form: str = fact("the norm is right, but it comes as {got}, and not as {expected}", right=_A_TENSOR)
    kept: str = fact("the norm is right, and your code changed what was to stay: {got}", right=NOTHING)
    sent: str = fact("the norm is right, but this rank sent {got}; one number from each rank is enough", right=_FEW)


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> Any:
    from course_lib.meter.communication.recorder import Recorder

    own = pieces_of(kind, me.rank, me.world_size)
    given = [(None if g is None else _stored(kind, g.to(me.device, copy=True)), cut_by) for g, cut_by in own]
    if kind == SHARDS:  # called before: the same pairs in another order, and other numbers of equal shapes
        doubled = [(None if g is None else 2 * g, cut_by) for g, cut_by in given]
        for earlier in (given[::-1], doubled):
            answer(me, mesh_of(kind, me.world_size), earlier)
    kept = Kept(gradients=given)
    with Recorder(me.rank) as recorder:
        norm = answer(me, mesh_of(kind, me.world_size), given)
    if norm is ...:
        return ...
    begun, form = first_unwaited(), _form(norm)
    return NormReport(
        unwaited=begun,
        norm=Came(_as_number(norm), form),
        form=form,
        kept=kept.changes() or NOTHING,
        sent=_sent(recorder.calls, me.world_size - 1),
    )


def _stored(kind: str, gradient: Tensor) -> Tensor:
    """As that of a transposed weight, where gradients are stored by column."""
    return gradient.mT.contiguous().mT if kind == ORDER and gradient.dim() > 1 else gradient


def _sent(calls: Sequence[Any], num_others: int) -> str:
    """What a rank sent: numbers in a tensor, a message's for each other rank alone, and bytes of anything else."""
    if not num_others:
        return _FEW
    numbers = [call for call in calls if "float" in call.dtype]
    in_messages = sum(call.size_bytes for call in numbers if call.operation == "send") / num_others
    together = sum(call.size_bytes for call in numbers if call.operation not in ("send", "recv"))
    num_numbers = (in_messages + together) / torch.float64.itemsize
    if num_numbers > _FEW_NUMBERS:
        return f"{num_numbers:.0f} numbers"
    others = sum(sum(call.sent_bytes.values()) for call in calls if "float" not in call.dtype) / num_others
    if num_barriers := sum(call.operation == "barrier" for call in calls):
        return f"a number, and in {num_barriers} barrier{'s' * (num_barriers > 1)} nothing"
    if numbers and others:
        return f"a number, and {round(others)} bytes of something else to each other rank"
    return _FEW if others <= _FEW_BYTES else f"{round(others)} bytes to each other rank"


def _as_number(norm: Any) -> float | str:
    """A number, or a tensor that holds one; else what it is in words."""
    if isinstance(norm, Tensor) and norm.numel() == 1 and not norm.is_complex():
        return float(norm.detach())
    if isinstance(norm, int | float) and not isinstance(norm, bool):
        return float(norm)
    return short(norm)


def _form(norm: Any) -> str:
    if isinstance(norm, Tensor):
        return f"a tensor of {str(norm.dtype).removeprefix('torch.')} and shape {tuple(norm.shape)}"
    return f"a {type(norm).__name__}"


# -- what is right ------------------------------------------------------------------------------------------------


def right(kind: str) -> Callable[[int, int], NormReport]:
    return lambda _, num_ranks: NormReport(norm=norm_of(kind, num_ranks))
