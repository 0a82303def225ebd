"""A solution for each level, to be held against one's own."""

from __future__ import annotations

from course_lib.base.checked import checked
from course_lib.capstone.attempts.record import recorded
from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.jobs.planning import best_expected
from course_lib.capstone.running.on_mesh import assemble_on
from course_lib.capstone.running.task import Assemble
from course_lib.layouts.mesh import Mesh

__all__ = ["reference", "reference_mesh"]


@checked
def reference(job: CapstoneJob) -> Assemble:
    """The course's parts on a mesh that should be quickest: for ``attempt(job, reference(job), cluster)``."""
    return assemble_on(reference_mesh(job))


@checked
def reference_mesh(job: CapstoneJob) -> Mesh:
    """The best that a search has found, where there was one; else the best of those that fit by a play that knows
    which rank has which layers.
    """
    found = recorded(job)
    if found is not None:
        return Mesh.parse(found.mesh)
    return best_expected(job)
