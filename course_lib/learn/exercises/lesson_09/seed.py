"""09.seed: which ranks draw the same random numbers, on any mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.judge import by_cases
from course_lib.learn.judging.kept_references import Traces

__all__ = ["SEED"]

_MESHES = (
    Mesh.of(dp_replicate=2, tp=2),
    Mesh.of(pp=2, dp_shard=2, tp=2),
    Mesh.of(tp=2, dp_shard=2, pp=2),
    Mesh.of(dp_shard=3, tp=2, pp=3),
    Mesh.of(dp_replicate=2, dp_shard=2),
    Mesh.of(tp=4),
)
_SEEDS = (1234, 77)
_FEWEST, _MOST = -(2**63), 2**64 - 1  # that `torch.manual_seed` takes
Answer = Callable[[Mesh, int, int], Any]


def _seeds(answer: Answer, mesh: Mesh) -> Any:
    """For each of two seeds of the job those of all ranks; a text where one is none."""
    found: list[list[int]] = []
    traces = Traces()
    for seed in _SEEDS:
        found.append([])
        for rank in range(mesh.num_ranks):
            got = answer(mesh, rank, seed)
            if got is ...:
                return ...
            if isinstance(got, bool) or not isinstance(got, int | np.integer) or not _FEWEST <= got <= _MOST:
                return f"a seed is a whole number that `torch.manual_seed` takes, and rank {rank} has {short(got)}"
            if answer(mesh, rank, seed) != got:
                return f"rank {rank} has another seed when it is asked again, with the same mesh and the same seed"
            found[-1].append(int(got))
    if seeded := traces.found(None):
        return f"your function has to give a seed and not use it, and it {seeded}"
    return found


def _compare(mesh: Any, got: Any) -> str:
    """In the place of the mesh may stand what a usual wrong answer gives."""
    if not isinstance(mesh, Mesh):
        return "" if mesh == got else "other seeds"
    if not isinstance(got, list):
        return got if isinstance(got, str) else f"a whole number is to come, and what came is {short(got)}"
    for seeds in got:
        group_of: dict[int, tuple[int, ...]] = {}
        for group in mesh.groups("tp"):
            for rank in group:
                if seeds[rank] != seeds[group[0]]:
                    said = f"{seeds[group[0]]} and {seeds[rank]}"
                    return f"ranks {group[0]} and {rank} differ along tp alone, and their seeds are {said}"
            other = group_of.setdefault(seeds[group[0]], group)
            if other != group:
                here, there = (mesh.coordinates(one[0]) for one in (other, group))
                return f"ranks {other[0]} and {group[0]}, at {here} and {there}, have one seed, {seeds[group[0]]}"
    if got[0] == got[1]:
        return f"with the seeds {_SEEDS[0]} and {_SEEDS[1]} all ranks get the same: the job's seed changes nothing"
    return ""


# -- usual wrong answers ----------------------------------------------------------------------------------------------


def _place_along_tp(mesh: Mesh, rank: int, seed: int) -> int:
    return seed + mesh.coordinates(rank).get("tp", 0)


def _data_alone(mesh: Mesh, rank: int, seed: int) -> int:
    return seed + mesh.group_rank(rank, "dp_replicate", "dp_shard")


def _sum_of_places(mesh: Mesh, rank: int, seed: int) -> int:
    return seed + sum(place for axis, place in mesh.coordinates(rank).items() if axis != "tp")


def _neighbours_alike(mesh: Mesh, rank: int, seed: int) -> int:
    return seed + rank // mesh.size("tp")


def _without_a_seed(mesh: Mesh, rank: int, seed: int) -> int:
    return mesh.group(rank, "tp")[0]


def _all_meshes(check: Callable[[list[int]], bool]) -> Callable[[Evidence], bool]:
    """Whether it is so of the seeds of all ranks, on every mesh."""
    return lambda evidence: all(isinstance(o.got, list) and all(map(check, o.got)) for o in evidence.outcomes)


SEED = Exercise(
    name="09.seed",
    title="One seed for ranks that hold the same",
    judge=by_cases([Case(str(mesh), (mesh,), mesh) for mesh in _MESHES], call=_seeds, compare=_compare),
    mistakes=(
        Mistake(
            "as-it-was",
            "Every rank has a seed of its own. Ranks of one tensor group hold the same norms and positions, and then "
            "drop different numbers.",
            recognise=_all_meshes(lambda seeds: len(set(seeds)) == len(seeds)),
        ),
        Mistake(
            "one-for-all",
            "All ranks have the same seed. No two copies drift apart, but ranks with other samples, or other layers, "
            "drop numbers in the same places.",
            recognise=_all_meshes(lambda seeds: len(set(seeds)) == 1),
        ),
        Mistake(
            "place-along-tp",
            "It is the other way round: ranks that differ along tp have different seeds, and those at one place along "
            "tp the same.",
            _place_along_tp,
        ),
        Mistake(
            "data-alone",
            "Ranks that differ along a data axis get different seeds, but ranks of different stages do not. Two "
            "stages with the same samples draw the same numbers, for other layers.",
            _data_alone,
        ),
        Mistake(
            "sum-of-places",
            "The places along the axes are added up, so 0 and 1 give the same as 1 and 0. Two groups then have one "
            "seed.",
            _sum_of_places,
        ),
        Mistake(
            "tp-taken-for-the-last",
            "Your answer is right where tp is the axis that varies fastest. Where it stands further in front, "
            "neighbours differ along another axis.",
            _neighbours_alike,
        ),
        Mistake(
            "seed-ignored",
            "The right ranks have one seed, but it does not depend on the job's seed: two jobs draw the same numbers.",
            _without_a_seed,
        ),
    ),
    hints=(
        "Which ranks hold the same norms and the same activations? These ranks must draw the same numbers. Along "
        "which one axis do they differ?",
        "You need a number that all ranks of one tensor group have in common, and no other group has. A mesh lists the "
        "ranks of such a group.",
        '`seed + mesh.group(rank, "tp")[0]`: the first rank of the group.',
    ),
    passed="Ranks of one tensor group get the same seed, and different groups get different seeds, on every mesh "
    "that was tried.",
)
