"""Every mesh of a job, run for real on this machine, on demand; ``record.py`` has those of seeds 0 to 9."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from course_lib.capstone.attempts.attempting import attempt
from course_lib.capstone.attempts.record import MeshRun
from course_lib.capstone.jobs.expected import Expected, expected, room_needed
from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.running.on_mesh import assemble_on
from course_lib.meter.units import time_text

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["candidates", "search", "search_s", "searching"]

_ROOM = 1.15  # times the limit: expected peaks are that far off, and only a run can tell
_TIMED = 2  # steps of each run; two more are weighed
_SETTING_UP_S = 1.5  # of each run: groups, weights that travel, the state that is told at the end


def search(job: CapstoneJob, cluster: Cluster, *, say: Callable[[str], Any] = print) -> tuple[MeshRun, ...]:
    """Run every mesh that may fit, the shortest step first in what is returned; ``say`` hears how long it will take."""
    number = sum(1 for _ in candidates(job))
    say(f"{number} meshes may fit; running them all takes about {search_s(job):.0f} s")
    runs = sorted(searching(job, cluster), key=lambda run: run.counted_s)
    for run in runs:
        said = f"{time_text(run.counted_s)} a step, {time_text(run.step_s)} by the clock"
        say(f"  {run.mesh:<38} " + (f"ended: {run.ended}" if run.ended else said))
    return tuple(runs)


def searching(job: CapstoneJob, cluster: Cluster, *, num_timed: int = _TIMED) -> Iterator[MeshRun]:
    """The same one by one, as they come."""
    for one in candidates(job):
        result = attempt(job, assemble_on(one.mesh), cluster, num_timed=num_timed, show=False)
        wrong = result.ended or (result.faults[0].sentence if result.faults else "")
        if not wrong and (result.values is None or not result.values.are_equal):
            wrong = "the weights are not those of one device"
        between_bytes = result.sent.between_bytes if result.sent else 0
        peak_bytes, paced_s = result.peak_bytes or 0, result.paced_s
        yield MeshRun(str(one.mesh), result.steps_s, peak_bytes, between_bytes, wrong, paced_s)


def candidates(job: CapstoneJob) -> Iterator[Expected]:
    """Meshes that fit, or may fit: what is expected of a peak is an estimate."""
    for mesh, size_bytes in room_needed(job.job, job.ranks).items():
        if size_bytes <= _ROOM * job.memory_bytes:
            yield expected(job.job, mesh)


def search_s(job: CapstoneJob, num_timed: int = _TIMED) -> float:
    """About how many seconds a search takes."""
    return sum((num_timed + 3) * one.real_s + _SETTING_UP_S for one in candidates(job))
