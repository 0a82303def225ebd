"""Right answers to 09.seed in other styles than the lesson's: no learner sees them."""

from __future__ import annotations

import zlib

import numpy as np

from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh.seeds import seed_of

__all__ = ["ANSWERS", "SAME"]


def by_the_library(mesh: Mesh, rank: int, seed: int) -> int:
    return seed_of(mesh, rank, seed)


def at_place_zero(mesh: Mesh, rank: int, seed: int) -> int:
    """The rank at the same place but for tp."""
    return seed + mesh.rank_at(**{**mesh.coordinates(rank), "tp": 0})


def digit_by_digit(mesh: Mesh, rank: int, seed: int) -> int:
    number = 0
    for axis, place in mesh.coordinates(rank).items():
        if axis != "tp":
            number = 1000 * number + place
    return seed + number


def number_of_the_group(mesh: Mesh, rank: int, seed: int) -> int:
    groups = mesh.groups("tp")
    return seed * len(groups) + next(number for number, group in enumerate(groups) if rank in group)


def by_a_hash(mesh: Mesh, rank: int, seed: int) -> int:
    """What has nothing to do with the job's other seeds."""
    place = [seed, *sorted((axis, at) for axis, at in mesh.coordinates(rank).items() if axis != "tp")]
    return zlib.crc32(repr(place).encode())


def by_a_sequence(mesh: Mesh, rank: int, seed: int) -> np.uint32:
    """NumPy's way to seeds that have nothing in common."""
    return np.random.SeedSequence([seed, min(mesh.group(rank, "tp"))]).generate_state(1)[0]


ANSWERS = (by_the_library, at_place_zero, digit_by_digit, number_of_the_group, by_a_hash, by_a_sequence)
SAME = {
    "3: `seed + mesh.group(rank, 'tp')[0]` -> `seed - mesh.group(rank, 'tp')[0]`": "Other numbers, as far apart.",
    "3: `0` -> `-1`": "The last rank of a group belongs to it alone, as the first does.",
}
