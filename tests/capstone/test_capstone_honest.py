"""Runs that break no rule are told nothing, in whatever style they are written, and however busy the machine is."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest
from honest import HONEST
from test_capstone_cheats import JOB, run_of

from course_lib.capstone.attempts.attempting import attempt
from course_lib.capstone.jobs.job import job_for
from course_lib.capstone.running.on_mesh import assemble_on
from course_lib.layouts.mesh import Mesh

ROOM = replace(JOB, memory_bytes=3_000_000)


def by(name):
    def assemble(me, task):
        return HONEST[name](me, task)

    return assemble


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("name", HONEST)
def test_a_style_is_no_cheat(clusters, name):
    result = attempt(ROOM, by(name), clusters(2), num_timed=1, show=False)
    assert (result.faults, result.ended) == ((), "")
    assert result.values.are_equal
    assert result.values.wrong_loss == ""
    assert result.passed


@pytest.mark.long
@pytest.mark.parametrize(
    ("level", "text"),
    [(1, "pp=4"), (2, "pp=2 dp_shard=2"), (2, "pp=2 dp_replicate=2"), (3, "pp=2 dp_shard=4")],
)
def test_a_mesh_of_the_course_is_no_cheat_at_its_real_size(clusters, level, text):
    job = job_for(level, 7)
    room = replace(job, memory_bytes=2 * job.memory_bytes)  # one of them is within a hundredth of the limit
    result = attempt(room, assemble_on(Mesh.parse(text)), clusters(job.ranks), show=False)
    assert (result.faults, result.ended) == ((), "")


@pytest.mark.long
@pytest.mark.parametrize("name", ["KeepsItsGraph", "WithPyTorchsDdp", "WithALibrary"])
def test_beside_busy_processes_an_honest_run_is_told_nothing(clusters, name):
    busy = "import numpy as np\nwhile True: np.random.rand(400, 400) @ np.random.rand(400, 400)"
    with ExitStack() as stack:
        for _ in range(3 * (os.cpu_count() or 1)):
            one = stack.enter_context(subprocess.Popen([sys.executable, "-c", busy]))
            stack.callback(one.kill)
        result = attempt(ROOM, by(name), clusters(2), num_timed=1, show=False)
    assert (result.faults, result.ended) == ((), "")
    assert result.values.are_equal


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to a core")
def test_on_one_core_an_honest_run_is_told_nothing():
    from course_lib.cluster import Cluster

    def bound(me, task):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        return run_of("Honest")(me, task)

    with Cluster(2, backend="gloo") as cluster:
        result = attempt(ROOM, bound, cluster, num_timed=1, show=False)
    assert (result.faults, result.ended) == ((), "")
