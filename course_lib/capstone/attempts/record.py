"""What ``course bench capstone`` has recorded: every mesh of a job, run for real on a quiet machine."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from course_lib.base.checked import checked
from course_lib.base.paths import project_root
from course_lib.capstone.jobs.expected import between_bytes, expected
from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.jobs.result import Known
from course_lib.layouts.mesh import Mesh

__all__ = ["RECORD", "MeshRun", "mark_of", "recorded", "recorded_run", "row_name"]

RECORD = project_root() / "assets" / "measured" / "capstone_2_cores.json"
_PACED = "without the machine's own time, "
_ROW = re.compile(r"level (\d), seed (\d+) \((\w+)\): (.+)")


@dataclass(frozen=True)
class MeshRun:
    """One mesh, run for real. ``ended``: why it did not come to its end; empty where it did."""

    mesh: str
    steps_s: tuple[float, ...]
    peak_bytes: int
    between_bytes: int
    ended: str = ""
    paced_s: float | None = None  # the step without the machine's own time; None where nobody has told it

    @property
    def step_s(self) -> float:
        """The shortest by the clock; infinite where there is none."""
        return min(self.steps_s, default=float("inf"))

    @property
    def counted_s(self) -> float:
        """The step that counts, as of a result: without the machine's own time, where that is known."""
        return self.step_s if self.paced_s is None or self.ended else self.paced_s

    def known(self, source: str) -> Known:
        return Known(self.mesh, self.step_s, self.between_bytes, source)


@checked
def recorded(job: CapstoneJob) -> Known | None:
    """The best mesh of this very job when all were run for ``course bench capstone``; None where they were not.

    The best is the one whose step was the shortest in computing and messages. Its ``step_s`` is by the clock of then.
    """
    runs = [run for run in _recorded_runs(job) if not run.ended]
    return min(runs, key=lambda run: run.counted_s).known(_source()) if runs else None


@checked
def recorded_run(job: CapstoneJob, mesh: Mesh) -> Known | None:
    """That mesh, as it ran then."""
    runs = [run for run in _recorded_runs(job) if run.mesh == str(mesh) and not run.ended]
    return runs[0].known(_source()) if runs else None


def row_name(job: CapstoneJob, mesh: str, *, paced: bool = False) -> str:
    """What a row of the record is called. ``paced``: that of the step without the machine's own time."""
    return f"{_PACED if paced else ''}level {job.level}, seed {job.seed} ({mark_of(job)}): {mesh}"


def mark_of(job: CapstoneJob) -> str:
    """Eight letters that change when any number of the job does: a record is of one job.

    Of values alone: a class or a field that gets another name leaves the job as it was.
    """
    said = repr((astuple(job.job), job.ranks, job.nodes, job.memory_bytes))
    return hashlib.blake2b(said.encode(), digest_size=4).hexdigest()


def _recorded_runs(job: CapstoneJob) -> list[MeshRun]:
    """Where a record has no paced step of a mesh, it is played, with whole blocks: the same to a few per cent."""
    samples = {row["what"]: row["samples"] for row in _record(RECORD).get("rows", ()) if row["unit"] == "s"}
    found = []
    for what, steps_s in samples.items():
        read = _ROW.fullmatch(what)
        if not read or (int(read[1]), int(read[2]), read[3]) != (job.level, job.seed, mark_of(job)):
            continue
        mesh = Mesh.parse(read[4])
        paced = samples.get(f"{_PACED}{what}")
        paced_s = min(paced) if paced else expected(job.job, mesh).real_s
        found.append(MeshRun(read[4], tuple(steps_s), 0, between_bytes(job.job, mesh), paced_s=paced_s))
    return found


def _source() -> str:
    return f"recorded on {_record(RECORD)['date']}"


@lru_cache(maxsize=4)
def _record(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}
