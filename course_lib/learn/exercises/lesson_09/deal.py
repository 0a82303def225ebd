"""09.deal: which of a batch's windows a rank works on, on any mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import DATA_AXES, Mesh
from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.judge import by_cases
from course_lib.learn.judging.kept_references import Traces

__all__ = ["DEAL"]

_MESHES = (
    Mesh.of(dp_replicate=2, tp=2),
    Mesh.of(tp=2, dp_replicate=2),
    Mesh.of(pp=2, dp_shard=2, tp=2),
    Mesh.of(dp_shard=2, pp=2, dp_replicate=2),
    Mesh.of(pp=2, tp=2),
    Mesh.of(dp_shard=4),
)
_WINDOWS, _LENGTH = 8, 3
Answer = Callable[[Rank, Mesh, Tensor], Any]


def _batch() -> Tensor:
    return 10 * torch.arange(_WINDOWS).unsqueeze(1) + torch.arange(_LENGTH)


def _dealt(answer: Answer, mesh: Mesh) -> Any:
    """For each rank the numbers of its windows, in order; a text where what came is something else."""
    found: list[Any] = []
    for rank in range(mesh.num_ranks):
        batch = _batch()
        traces = Traces((batch,))
        got = answer(Rank(rank, mesh.num_ranks, torch.device("cpu"), "gloo"), mesh, batch)
        if got is ...:
            return ...
        if not torch.equal(batch, _batch()):
            return f"rank {rank} has changed the batch"
        if left := traces.found(got):
            return f"your code {left}"
        if not isinstance(got, Tensor) or got.dim() != 2 or got.size(1) != _LENGTH:
            return f"some windows of (8, {_LENGTH}) are to come, and rank {rank} gives {short(got)}"
        numbers = tuple((got[:, 0] // 10).tolist())
        if not all(0 <= number < _WINDOWS for number in numbers) or not torch.equal(got, batch[list(numbers)]):
            return f"rank {rank} gives rows that are no windows of the batch"
        found.append(numbers)
    return found


def _place(mesh: Mesh, rank: int) -> tuple[int, ...]:
    here = mesh.coordinates(rank)
    return tuple(here.get(axis, 0) for axis in DATA_AXES)


def _compare(mesh: Any, got: Any) -> str:
    """Ranks at one data place have the same windows, those at different ones share the batch out.

    In the place of the mesh may stand what a usual wrong answer deals.
    """
    if not isinstance(mesh, Mesh):
        return "" if mesh == got else "dealt otherwise"
    if not isinstance(got, list):
        return got if isinstance(got, str) else f"some windows are to come, and what came is {short(got)}"
    by_place: dict[tuple[int, ...], tuple[int, tuple[int, ...]]] = {}
    for rank, numbers in enumerate(got):
        first, same = by_place.setdefault(_place(mesh, rank), (rank, numbers))
        if numbers != same:
            return (
                f"ranks {first} and {rank} hold parts of one copy of the model, or hand activations on, and have the "
                f"windows {list(same)} and {list(numbers)}"
            )
    dealt = sorted(number for _, numbers in by_place.values() for number in numbers)
    if dealt == list(range(_WINDOWS)):
        return ""
    if lost := sorted(set(range(_WINDOWS)) - set(dealt)):
        return f"no rank has the windows {lost}; rank 0 has {list(got[0])}"
    several = sorted({number for number in dealt if dealt.count(number) > 1})
    return f"the windows {several} go to several ranks with samples of their own; rank 0 has {list(got[0])}"


# -- usual wrong answers ----------------------------------------------------------------------------------------------


def _as_it_was(me: Rank, mesh: Mesh, batch: Tensor) -> Tensor:
    return batch.chunk(me.world_size)[me.rank]


def _all(me: Rank, mesh: Mesh, batch: Tensor) -> Tensor:
    return batch


def _along(*axes: str) -> Answer:
    return lambda me, mesh, batch: batch.chunk(mesh.size(*axes))[mesh.group_rank(me.rank, *axes)]


def _neighbours_alike(me: Rank, mesh: Mesh, batch: Tensor) -> Tensor:
    count = mesh.size(*DATA_AXES)
    return batch.chunk(count)[me.rank // (me.world_size // count)]


def _number_modulo(me: Rank, mesh: Mesh, batch: Tensor) -> Tensor:
    count = mesh.size(*DATA_AXES)
    return batch.chunk(count)[me.rank % count]


def _same(evidence: Evidence, example: Answer) -> bool:
    """Whether an example deals as was seen, on every mesh."""
    return all(o.got == _dealt(example, o.expected) for o in evidence.outcomes)


DEAL = Exercise(
    name="09.deal",
    title="Samples by the data-parallel rank",
    judge=by_cases([Case(str(mesh), (mesh,), mesh) for mesh in _MESHES], call=_dealt, compare=_compare),
    mistakes=(
        Mistake(
            "as-it-was",
            "Every rank has windows of its own, as under DDP. Ranks that differ along tp then add up partial products "
            "of *different* samples. A stage is handed activations of samples whose targets it does not have.",
            _as_it_was,
        ),
        Mistake(
            "no-share",
            "Every rank has the whole batch. That is right where no axis deals samples out. Along dp_replicate and "
            "dp_shard each rank needs a share of its own.",
            _all,
        ),
        Mistake(
            "replicas-alone",
            "Along dp_replicate you deal out. Along dp_shard ranks share out the weights, and each has samples of its "
            "own there too.",
            _along("dp_replicate"),
        ),
        Mistake(
            "shards-alone",
            "Along dp_shard you deal out. Along dp_replicate, where ranks have copies, each has samples of its own "
            "too.",
            _along("dp_shard"),
        ),
        Mistake(
            "order-taken-for-granted",
            "Your answer is right for one order of the axes, and wrong for another. A rank's number alone does not "
            "say where it stands along an axis. The mesh knows.",
            recognise=lambda evidence: (
                evidence.error is None
                and not all(o.right for o in evidence.outcomes)
                and any(_same(evidence, example) for example in (_neighbours_alike, _number_modulo))
            ),
        ),
    ),
    hints=(
        "Which ranks work on one activation together, or hand it on? They need the same windows. Along which axes do "
        "the others differ from them?",
        "Two numbers make a share: how many shares there are, and which is this rank's. You have seen both, for "
        "each of eight ranks, in the cells above this clinic.",
        "`share = DataShare.of(mesh, me.rank)`, and then `batch.chunk(share.count)[share.dp_rank]`.",
    ),
    passed="Ranks that work together have the same windows. The others share out the batch, and no window is left "
    "out, on every mesh that was tried.",
)
