"""How a seed becomes a job: sizes are drawn until they make the lesson that a level is for.

    1    four ranks; a mesh of one axis is the best, and replicas, the first idea, do not fit
    2    four ranks and a slow link; two axes are the best, and in the other order they are slow
    3    eight ranks; layers that stages cannot share evenly, so the planner's best is not the best
    4    four ranks; no mesh of one axis is in time, so a learner's own parts have to stand on one mesh together

Memory is drawn, too: room for the mesh that is the best among those that fit, and not for replicas alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from course_lib.capstone.jobs.expected import Expected, expected, room_needed
from course_lib.capstone.jobs.precomputed_levels import DRAWN, PrecomputedLevel
from course_lib.cost.mesh.layout_step import NodeShape
from course_lib.cost.mesh.scaled_job import ScaledJob
from course_lib.cost.single_device.architectures import transformer_parameters
from course_lib.cost.single_device.model_state import model_state
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import COMBINED_AXES, Mesh
from course_lib.models import TransformerConfig

__all__ = ["ALL_YOURS", "LEVELS", "Drawn", "Level", "anew", "draw"]

_SPARE = 1.12  # times the expected peak of the best: it fits for sure
_BEYOND = 1.15  # times the limit: what does surely not fit
_SLACK = (1.1, 1.2)  # the budget: times the best expected; what a level refuses (below) takes more than that
ALL_YOURS = 4  # the level at which no strategy of the course's or of PyTorch's may run
_LEAST = 4  # meshes that fit: there is something to choose
_TRIES = 200


@dataclass(frozen=True)
class Drawn:
    """A job, its limits, at which try it came, and two meshes: the planner's best and the one expected to be best."""

    job: ScaledJob
    memory_bytes: int
    budget_s: float
    tries: int
    planned: str
    best: str


@dataclass(frozen=True)
class LevelKind:
    """A kind of job of a level: what is drawn from. ``share``: of all meshes, those for which there is room."""

    share: tuple[float, float]
    between: Sequence[Link]
    within: Sequence[Link] = (Link(0.0, 40e6), Link(0.1e-3, 100e6))
    layers: Sequence[int] = (4, 6, 8)
    widths: Sequence[int] = (64,)
    vocabularies: Sequence[int] = (64, 128, 256)
    lengths: Sequence[int] = (8, 16)
    batches: Sequence[int] = (16,)
    forward_s: Sequence[float] = (0.2, 0.25, 0.3)
    num_heads: int = 8  # 3: nothing for ``tp`` to divide


@dataclass(frozen=True)
class Level:
    """Ranks, kinds of jobs, and what must come of one: ``is_lesson(job, best, fitting)``."""

    ranks: int
    nodes: int
    kinds: Sequence[LevelKind]
    is_lesson: Callable[[ScaledJob, Expected, Sequence[Expected]], bool]


def _one_axis(job: ScaledJob, best: Expected, fitting: Sequence[Expected]) -> bool:
    return len(best.mesh.axes) == 1


def _two_axes(job: ScaledJob, best: Expected, fitting: Sequence[Expected]) -> bool:
    if len(best.mesh.axes) != 2:
        return False
    turned = Mesh(best.mesh.axes[::-1], best.mesh.shape[::-1])
    return expected(job, turned).real_s > 1.3 * best.real_s


def _not_as_planned(job: ScaledJob, best: Expected, fitting: Sequence[Expected]) -> bool:
    planned = min(fitting, key=lambda one: one.played_s)
    return len(best.mesh.axes) > 1 and planned.real_s > 1.2 * best.real_s


def _several_of_two_axes(job: ScaledJob, best: Expected, fitting: Sequence[Expected]) -> bool:
    """Whether meshes of two axes are in time, in more than one way, and every mesh of one axis is late, fit or not."""
    quick = [one for one in fitting if one.real_s < 1.1 * best.real_s]
    alone = (Mesh((axis,), (best.mesh.num_ranks,)) for axis in COMBINED_AXES)
    has_pipes = any(set(one.mesh.axes) == {"pp", "dp_replicate"} for one in quick)
    late = all(expected(job, mesh).real_s > 1.02 * _SLACK[1] * best.real_s for mesh in alone)
    return has_pipes and len({frozenset(one.mesh.axes) for one in quick}) >= 2 and late


_SLOW = (Link(0.0, 2e6), Link(1e-3, 4e6), Link(0.0, 4e6))
_MIDDLING = (Link(0.0, 4e6), Link(1e-3, 8e6), Link(0.0, 8e6))
_QUICK = (Link(0.0, 16e6), Link(1e-3, 32e6), Link(0.0, 32e6))
LEVELS = {
    1: Level(
        ranks=4,
        nodes=2,
        kinds=(
            LevelKind(share=(0.15, 0.4), between=_MIDDLING, forward_s=(0.2, 0.25)),
            LevelKind(share=(0.5, 0.65), between=_QUICK, forward_s=(0.2, 0.25)),
        ),
        is_lesson=_one_axis,
    ),
    2: Level(
        ranks=4,
        nodes=2,
        kinds=(
            LevelKind(share=(0.45, 0.65), between=_SLOW, vocabularies=(64, 256, 512)),
            LevelKind(
                share=(0.2, 0.45),
                between=(Link(0.0, 4e6), Link(0.0, 8e6)),
                layers=(5,),
                widths=(96,),
                vocabularies=(512,),
                lengths=(8,),
                num_heads=3,
            ),
            LevelKind(share=(0.6, 0.75), between=(Link(0.0, 8e6), Link(1e-3, 16e6)), layers=(6, 8), lengths=(8,)),
        ),
        is_lesson=_two_axes,
    ),
    3: Level(
        ranks=8,
        nodes=2,
        kinds=(
            LevelKind(  # three axes; long steps, since tensor parallelism sends many messages
                share=(0.4, 0.55),
                within=(Link(0.0, 15e6), Link(0.0, 20e6)),
                between=(Link(0.0, 2e6), Link(1e-3, 3e6)),
                layers=(2,),
                widths=(96,),
                vocabularies=(256,),
                lengths=(16,),
                forward_s=(0.6, 0.7),
            ),
            LevelKind(
                share=(0.64, 0.72),
                within=(Link(0.0, 20e6), Link(0.0, 40e6)),
                between=(Link(0.0, 4e6), Link(0.0, 6e6)),
                layers=(2,),
                widths=(96,),
                vocabularies=(512,),
                lengths=(16,),
                batches=(32,),
                forward_s=(0.3, 0.4),
            ),
            LevelKind(
                share=(0.2, 0.3),
                between=(Link(0.0, 4e6), Link(0.0, 8e6), Link(0.0, 16e6)),
                layers=(2,),
                widths=(72, 96),
                vocabularies=(512,),
                lengths=(16,),
                batches=(16, 32),
                forward_s=(0.3, 0.4),
                num_heads=3,
            ),
        ),
        is_lesson=_not_as_planned,
    ),
    ALL_YOURS: Level(
        ranks=4,
        nodes=2,
        kinds=(
            LevelKind(  # six blocks: two stages share them evenly, and four do not
                share=(0.5, 0.7),
                within=(Link(0.0, 40e6), Link(0.0, 60e6)),
                between=(Link(0.0, 3e6), Link(0.0, 4e6), Link(0.5e-3, 4e6)),
                layers=(6,),
                vocabularies=(128, 256, 512),
                forward_s=(0.25, 0.3),
            ),
        ),
        is_lesson=_several_of_two_axes,
    ),
}


@lru_cache(maxsize=64)
def draw(level: int, seed: int) -> Drawn:
    """The job of a level and a seed; for the first seeds it is kept in ``precomputed_levels.py``, and takes no time."""
    kept = DRAWN.get((level, seed))
    return anew(level, seed) if kept is None else _again(level, seed, kept)


def anew(level: int, seed: int) -> Drawn:
    """The same, without what is kept."""
    about, chance = LEVELS[level], _chance(level, seed)
    kind = chance.choice(about.kinds)
    for number in range(_TRIES):
        job, share = _job(about, kind, chance), chance.uniform(*kind.share)
        needed = room_needed(job, about.ranks)
        limit = float(sorted(needed.values())[int(share * len(needed))])
        if not _is_tight(job, needed, limit):
            continue
        fitting, memory_bytes = _fitting(job, needed, limit)
        best = min(fitting, key=lambda one: one.real_s)
        if len(fitting) >= _LEAST and _is_tight(job, needed, memory_bytes) and about.is_lesson(job, best, fitting):
            planned = min(fitting, key=lambda one: one.played_s)
            budget_s = _budget_s(job, needed, memory_bytes, best)
            return Drawn(job, memory_bytes, budget_s, number, str(planned.mesh), str(best.mesh))
    raise AssertionError(f"no job of level {level} came of seed {seed} in {_TRIES} tries")


def _again(level: int, seed: int, kept: PrecomputedLevel) -> Drawn:
    """The job that came of a known try."""
    about, chance = LEVELS[level], _chance(level, seed)
    kind = chance.choice(about.kinds)
    for _ in range(kept.tries + 1):
        job, _share = _job(about, kind, chance), chance.uniform(*kind.share)
    return Drawn(job, kept.memory_bytes, kept.budget_s, kept.tries, kept.planned, kept.best)


def _chance(level: int, seed: int) -> random.Random:
    return random.Random(f"capstone, level {level}, seed {seed}")


def _is_tight(job: ScaledJob, needed: Mapping[Mesh, int], memory_bytes: float) -> bool:
    """Whether neither one rank has room for the states, nor replicas fit."""
    whole_bytes = model_state(sum(transformer_parameters(job.config))).total
    replicas = next(size for mesh, size in needed.items() if mesh.axes == ("dp_replicate",))
    return min(whole_bytes, replicas) > _BEYOND * memory_bytes


def _budget_s(job: ScaledJob, needed: Mapping[Mesh, int], memory_bytes: int, best: Expected) -> float:
    """In the middle of the widest gap between the steps of two meshes: none is near it, and on which side it is,
    nobody needs to argue. Meshes that only a run can refuse count, too.
    """
    least_s, most_s = (times * best.real_s for times in _SLACK)
    may_fit = [expected(job, mesh).real_s for mesh, size in needed.items() if size <= _BEYOND * memory_bytes]
    ends = [least_s, *sorted(time_s for time_s in may_fit if least_s < time_s < most_s), most_s]
    wide, start_s = max((after_s - before_s, before_s) for before_s, after_s in pairwise(ends))
    return round(start_s + wide / 2, 3)


def _job(about: Level, kind: LevelKind, chance: random.Random) -> ScaledJob:
    config = TransformerConfig(
        vocab_size=chance.choice(kind.vocabularies),
        context_length=chance.choice(kind.lengths),
        num_layers=chance.choice(kind.layers),
        width=chance.choice(kind.widths),
        num_heads=kind.num_heads,
    )
    return ScaledJob(
        config=config,
        batch_size=chance.choice(kind.batches),
        forward_s=round(chance.choice(kind.forward_s) * chance.uniform(0.9, 1.1), 4),  # no two seeds alike
        nodes=NodeShape(about.ranks // about.nodes, chance.choice(kind.within), chance.choice(kind.between)),
    )


def _fitting(job: ScaledJob, needed: Mapping[Mesh, int], limit: float) -> tuple[list[Expected], int]:
    """The meshes that fit, and bytes: the limit, or more, for the best of those that fit to fit for sure."""
    while True:
        fitting = [expected(job, mesh) for mesh, size in needed.items() if size <= limit]
        best = min(fitting, key=lambda one: one.real_s)
        if _SPARE * best.peak_bytes <= limit:
            return fitting, int(limit)
        limit = 1.0001 * _SPARE * best.peak_bytes
