"""Jobs by level and seed: what they are made for, that seeds differ, that what is kept is what is drawn; bad input."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.capstone.jobs.expected import between_bytes, expected, meshes_of, room_needed
from course_lib.capstone.jobs.job import job_for
from course_lib.capstone.jobs.levels import LEVELS, anew, draw
from course_lib.capstone.jobs.planning import best_expected, best_plan, plans
from course_lib.capstone.jobs.precomputed_levels import DRAWN, PrecomputedLevel
from course_lib.layouts.mesh import Mesh

SEEDS = range(10)


@pytest.mark.parametrize(("level", "least"), [(1, 2), (2, 3), (3, 3)])
def test_over_ten_seeds_several_meshes_win(level, least):
    winners = {str(best_expected(job_for(level, seed))) for seed in SEEDS}
    assert len(winners) >= least, winners


@pytest.mark.parametrize("level", LEVELS)
def test_every_seed_has_a_job_of_its_own(level):
    jobs = [job_for(level, seed) for seed in SEEDS]
    assert len({job.job for job in jobs}) == len(SEEDS)
    for job in jobs:
        assert job.memory_bytes < 0.9 * job.state_bytes
        assert 0.1 < job.budget_s < 1.0
        assert (job.ranks, job.nodes) == (LEVELS[level].ranks, LEVELS[level].nodes)
    assert job_for(level, 7) == jobs[7]


def test_what_is_kept_names_meshes_of_the_levels():
    assert set(DRAWN) >= {(level, seed) for level in LEVELS for seed in SEEDS}
    for (level, _), kept in DRAWN.items():
        for text in (kept.planned, kept.best):
            assert Mesh.parse(text).num_ranks == LEVELS[level].ranks
        if level == 3:
            assert kept.planned != kept.best


@pytest.mark.parametrize(
    ("level", "seed"),
    [
        (1, 1),
        (2, 4),
        *(pytest.param(*key, marks=pytest.mark.long) for key in DRAWN if key not in ((1, 1), (2, 4))),
    ],
)
def test_what_is_kept_is_what_is_drawn(level, seed):
    fresh = anew(level, seed)
    assert fresh == draw(level, seed)
    kept = PrecomputedLevel(fresh.tries, fresh.memory_bytes, fresh.budget_s, fresh.planned, fresh.best)
    assert DRAWN[level, seed] == kept


def test_replicas_do_not_fit_at_level_one_and_one_axis_does():
    job = job_for(1, 1)
    by_mesh = {str(plan.mesh): plan for plan in plans(job)}
    assert not by_mesh["dp_replicate=4"].fits
    assert best_plan(job) == next(plan for plan in plans(job) if plan.fits)
    assert len(best_plan(job).mesh.axes) == 1


def test_at_level_two_the_other_order_is_slow():
    job = job_for(2, 4)
    best = best_expected(job)
    turned = Mesh(best.axes[::-1], best.shape[::-1])
    assert expected(job.job, turned).real_s > 1.3 * expected(job.job, best).real_s


def test_at_level_three_the_planner_does_not_see_which_rank_has_which_layers():
    job = job_for(3, 3)
    planned, best = expected(job.job, best_plan(job).mesh), expected(job.job, best_expected(job))
    assert planned.played_s < best.played_s
    assert planned.real_s > 1.2 * best.real_s


def test_at_level_four_one_axis_is_late_and_two_are_in_time_in_more_than_one_way():
    for seed in (1, 7):
        job = job_for(4, seed)
        found = [expected(job.job, mesh) for mesh in room_needed(job.job, job.ranks)]
        in_time = {frozenset(one.mesh.axes) for one in found if one.real_s < job.budget_s}
        assert len(in_time) >= 2
        assert all(len(axes) == 2 for axes in in_time)


def test_what_fits_keeps_an_eighth_of_its_estimate_free():
    job = job_for(1, 7)
    for plan in plans(job):
        assert plan.fits == (1.12 * plan.peak_bytes <= job.memory_bytes)


def test_a_job_that_somebody_has_changed_is_planned_anew():
    job = job_for(1, 1)
    wide = replace(job, memory_bytes=10**9)
    assert best_plan(wide).played_s == min(plan.played_s for plan in plans(wide))
    assert all(plan.fits for plan in plans(wide))


def test_all_meshes_in_all_orders():
    assert sum(1 for _ in meshes_of(4)) == 16
    assert len({str(mesh) for mesh in meshes_of(8)}) == 52
    assert set(room_needed(job_for(2, 4).job, 4)) <= set(meshes_of(4))


def test_bytes_between_nodes_depend_on_the_order():
    job = job_for(2, 4).job
    assert between_bytes(job, Mesh.of(pp=2, tp=2)) < between_bytes(job, Mesh.of(tp=2, pp=2))


def test_a_job_says_all_with_units():
    said = str(job_for(1, 1))
    for word in ("level 1, seed 1", "MB/s", "ms a step", "bytes)", "2 nodes of 2", "paced"):
        assert word in said


@pytest.mark.parametrize(
    ("level", "seed", "said"),
    [(0, 1, "the nearest is 1"), (9, 1, "the nearest is 4"), (1, -1, "seed=-1"), ("two", 1, "level")],
)
def test_a_level_that_is_not_there_is_refused(level, seed, said):
    with pytest.raises(ValueError, match=said):
        job_for(level, seed)
