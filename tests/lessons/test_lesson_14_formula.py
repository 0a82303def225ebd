"""The formula of 14b, as its solution has it: what fits by it fits in a run, and the page prints no table of meshes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.base.paths import project_root
from course_lib.capstone import assemble_on, attempt, job_for, meshes, plans
from course_lib.capstone.jobs.peak import peak_bytes
from course_lib.capstone.jobs.planning import best_expected
from course_lib.lessons.regions import learner_text

SOURCE = (project_root() / "notebooks" / "src" / "14b_defend_it.py").read_text(encoding="utf-8")


def room_of(job, mesh):
    cell = SOURCE[SOURCE.index("def room_of(") :].partition("\n# %%")[0]
    space = {}
    exec("\n".join(line for line in cell.splitlines() if "### " not in line), space)
    return space["room_of"](job, mesh)


def quick(job):
    """The same sizes and limits, with no waiting."""
    fast = replace(job.job, forward_s=0.01, nodes=replace(job.job.nodes, within=job.job.nodes.within))
    return replace(job, job=fast, budget_s=10.0)


def fitting(job):
    return [mesh for mesh in meshes(job) if room_of(job, mesh) <= job.memory_bytes]


@pytest.mark.parametrize("level", [2, 3, 4])
def test_what_fits_by_the_formula_is_expected_to_fit(level):
    job = job_for(level, 7)
    found = fitting(job)
    assert best_expected(job) in found
    assert len(found) >= 4
    for mesh in found:
        assert peak_bytes(job.job, mesh) <= job.memory_bytes, mesh


def fullest(job):
    return max(fitting(job), key=lambda mesh: room_of(job, mesh))


@pytest.mark.parametrize(
    ("level", "which"),
    [(2, "fullest"), *((level, "all") for level in (2, 3, 4))],
)
@pytest.mark.long  # the pages of 14, which run each time, train on a mesh that fits by the formula
def test_what_fits_by_the_formula_fits_in_a_run(clusters, level, which):
    job = job_for(level, 7)
    for mesh in [fullest(job)] if which == "fullest" else fitting(job):
        result = attempt(quick(job), assemble_on(mesh), clusters(job.ranks), num_timed=1, show=False)
        assert "may hold" not in result.ended, (mesh, result.ended)


@pytest.mark.parametrize("level", [pytest.param(level, marks=pytest.mark.long) for level in (1, 2, 3)])
def test_what_fits_in_the_planners_table_fits_in_a_run(clusters, level):
    job = job_for(level, 7)
    for plan in plans(job):
        if plan.fits:
            result = attempt(quick(job), assemble_on(plan.mesh), clusters(job.ranks), num_timed=1, show=False)
            assert "may hold" not in result.ended, (plan.mesh, result.ended)


def test_the_learners_page_names_no_mesh_that_passes_level_two_or_three():
    page = learner_text(SOURCE, str)
    for level in (2, 3):
        best = best_expected(job_for(level, 7))
        call = "Mesh.of(" + ", ".join(f"{axis}={best.size(axis)}" for axis in best.axes) + ")"
        assert call not in page
        assert str(best) not in page
        assert call in SOURCE, "the solution has it"
    assert "plans(" not in page
