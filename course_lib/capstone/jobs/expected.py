"""All meshes of so many ranks, and what is expected of a job on each: memory, and time three times.

``paper_s`` is the formula of lesson 11, which knows one order of the axes; ``played_s`` is the planner's: messages
played through, and computing shared evenly; ``real_s`` is played, too, and knows which blocks each rank has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations
from types import MappingProxyType

from course_lib.capstone.jobs.peak import peak_bytes
from course_lib.cost.mesh.mesh_parts import pieces_of_stages
from course_lib.cost.mesh.mesh_time import mesh_step_time
from course_lib.cost.mesh.scaled_job import ScaledJob
from course_lib.layouts.mesh import COMBINED_AXES, Mesh

__all__ = ["Expected", "between_bytes", "expected", "meshes_of", "room_needed"]


@dataclass(frozen=True)
class Expected:
    """Of a job on a mesh."""

    mesh: Mesh
    peak_bytes: int  # of the fullest rank in a step: states, activations, what travels
    paper_s: float | None  # None where the formula does not know the order of the axes
    played_s: float
    real_s: float


def meshes_of(num_ranks: int) -> Iterator[Mesh]:
    """Every mesh of so many ranks, in every order of its axes."""
    for sizes in _factors(num_ranks):
        for axes in permutations(COMBINED_AXES, len(sizes)):
            yield Mesh(axes, sizes)


def _factors(number: int) -> Iterator[tuple[int, ...]]:
    """Ordered ways to write it as a product of numbers above 1."""
    for first in range(2, number + 1):
        if number % first == 0:
            rest = [()] if first == number else _factors(number // first)
            yield from ((first, *others) for others in rest)


@lru_cache(maxsize=64)
def room_needed(job: ScaledJob, num_ranks: int) -> Mapping[Mesh, int]:
    """The peak of the fullest rank in bytes, for every mesh on which the model can be put: where heads, pieces and the
    batch divide.
    """
    found = {}
    for mesh in meshes_of(num_ranks):
        with suppress(ValueError):
            job.step(mesh)
            found[mesh] = peak_bytes(job, mesh)
    return MappingProxyType(found)


@lru_cache(maxsize=4096)
def expected(job: ScaledJob, mesh: Mesh) -> Expected:
    """``ValueError`` for a mesh on which the model cannot be put."""
    played_s = job.played(mesh).step_s
    return Expected(mesh, peak_bytes(job, mesh), _paper_s(job, mesh), played_s, _real_s(job, mesh, played_s))


@lru_cache(maxsize=4096)
def between_bytes(job: ScaledJob, mesh: Mesh) -> int:
    """What all ranks send to the other nodes in a step."""
    step = job.step(replace(mesh, ranks_per_node=job.nodes.ranks_per_node))
    return step.by_link().between_bytes


def _paper_s(job: ScaledJob, mesh: Mesh) -> float | None:
    try:
        return job.formula_s(mesh)
    except ValueError:
        return None


def _real_s(job: ScaledJob, mesh: Mesh, played_s: float) -> float:
    """Played with each rank's own share of the blocks."""
    stages, num_layers = pieces_of_stages(job.config, mesh.size("pp")), job.config.num_layers
    blocks = [sum(1 for piece in stage if 0 < piece <= num_layers) for stage in stages]
    if len(set(blocks)) == 1:
        return played_s
    work = [blocks[mesh.coordinates(rank).get("pp", 0)] * len(stages) / num_layers for rank in range(mesh.num_ranks)]
    forward_s = job.forward_s / mesh.num_ranks
    network = job.network(mesh.num_ranks)
    step = job.step(mesh)
    return mesh_step_time(step, network, forward_s=forward_s, backward_s=2 * forward_s, work=work).step_s
