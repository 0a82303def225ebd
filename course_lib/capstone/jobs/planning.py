"""The planner's table of a job: every mesh, whether it should fit, and how long a step should take."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from course_lib.base.checked import checked
from course_lib.capstone.jobs.expected import Expected, between_bytes, expected, room_needed
from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.jobs.levels import LEVELS, Drawn, draw
from course_lib.capstone.jobs.result import Known
from course_lib.layouts.mesh import Mesh

__all__ = ["MeshPlan", "best_expected", "best_plan", "meshes", "plans", "yardstick"]


_SPARE = 1.12  # times an estimate: what fits so keeps its place in a run
_RAN = "best of the meshes that were run"


@dataclass(frozen=True)
class MeshPlan:
    """What the planner says of a mesh: ``played_s`` with computing shared evenly, every message played through.

    ``fits``: with an eighth of its estimate to spare, so that a run of the course's parts keeps within the memory.
    ``paper_s`` is the closed formula's, where it knows the order of the axes. Stages of unequal layers it does not see.
    """

    mesh: Mesh
    peak_bytes: int
    fits: bool
    played_s: float
    paper_s: float | None
    between_bytes: int


@checked
def plans(job: CapstoneJob) -> tuple[MeshPlan, ...]:
    """All meshes on which the model can be put: those that fit by their time, then the others."""
    listed = [_plan(job, expected(job.job, mesh)) for mesh in room_needed(job.job, job.ranks)]
    return tuple(sorted(listed, key=lambda plan: (not plan.fits, plan.played_s)))


@checked
def meshes(job: CapstoneJob) -> tuple[Mesh, ...]:
    """The meshes on which the model can be put, where heads, layers and the batch divide; nothing else is said of them.

    Their order is that of their names.
    """
    return tuple(sorted(room_needed(job.job, job.ranks), key=str))


@checked
def best_plan(job: CapstoneJob) -> MeshPlan:
    """The quickest that fits, as the planner sees it."""
    drawn = _drawn(job)
    if drawn is not None:
        return _plan(job, expected(job.job, Mesh.parse(drawn.planned)))
    return _plan(job, min(_fitting(job), key=lambda one: one.played_s))


def best_expected(job: CapstoneJob) -> Mesh:
    """The quickest that fits, by a play that knows which rank has which layers."""
    drawn = _drawn(job)
    return Mesh.parse(drawn.best) if drawn else min(_fitting(job), key=lambda one: one.real_s).mesh


def yardstick(job: CapstoneJob, real: Known | None) -> Known:
    """What points are given by: the mesh that was the best when all were run (``real``), else the one that is expected
    to be; its step is played, as that of an attempt is, so that no machine's own time is in either.
    """
    found = _known_mesh(job, real.mesh) if real else None
    if real is not None and found is None:  # somebody's own words for a mesh
        return replace(real, source=_RAN)
    one = expected(job.job, found or best_expected(job))
    source = _RAN if found else "mesh expected to be best"
    return Known(str(one.mesh), one.real_s, between_bytes(job.job, one.mesh), source)


def _known_mesh(job: CapstoneJob, text: str) -> Mesh | None:
    with suppress(ValueError):
        mesh = Mesh.parse(text)
        if mesh in room_needed(job.job, job.ranks):
            return mesh
    return None


def _drawn(job: CapstoneJob) -> Drawn | None:
    """What was found when the job was drawn; None for one that somebody has changed or made."""
    if job.level not in LEVELS or job.seed < 0:
        return None
    drawn = draw(job.level, job.seed)
    return drawn if (drawn.job, drawn.memory_bytes) == (job.job, job.memory_bytes) else None


def _fitting(job: CapstoneJob) -> list[Expected]:
    needed = room_needed(job.job, job.ranks)
    return [expected(job.job, mesh) for mesh, size in needed.items() if size <= job.memory_bytes]


def _plan(job: CapstoneJob, one: Expected) -> MeshPlan:
    fits = _SPARE * one.peak_bytes <= job.memory_bytes
    between = between_bytes(job.job, one.mesh)
    return MeshPlan(one.mesh, one.peak_bytes, fits, one.played_s, one.paper_s, between)
