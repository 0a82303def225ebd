"""What ``course bench capstone`` has recorded: every mesh of a job, run for real on a quiet machine."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from course_lib.capstone.expected import between_bytes
from course_lib.capstone.job import CapstoneJob
from course_lib.capstone.result import Known
from course_lib.checked import checked
from course_lib.mesh import Mesh
from course_lib.paths import project_root

__all__ = ["RECORD", "MeshRun", "mark_of", "recorded", "recorded_run", "row_name"]

RECORD = project_root() / "assets" / "measured" / "capstone_2_cores.json"
_ROW = re.compile(r"level (\d), seed (\d+) \((\w+)\): (.+)")


@dataclass(frozen=True)
class MeshRun:
    """One mesh, run for real. ``ended``: why it did not come to its end; empty where it did."""

    mesh: str
    steps_s: tuple[float, ...]
    peak_bytes: int
    between_bytes: int
    ended: str = ""

    @property
    def step_s(self) -> float:
        """The shortest; infinite where there is none."""
        return min(self.steps_s, default=float("inf"))

    def known(self, source: str) -> Known:
        return Known(self.mesh, self.step_s, self.between_bytes, source)


@checked
def recorded(job: CapstoneJob) -> Known | None:
    """The best mesh of this very job when all were run for ``course bench capstone``; None where they were not."""
    runs = [run for run in _recorded_runs(job) if not run.ended]
    return min(runs, key=lambda run: run.step_s).known(_source()) if runs else None


@checked
def recorded_run(job: CapstoneJob, mesh: Mesh) -> Known | None:
    """That mesh, as it ran then."""
    runs = [run for run in _recorded_runs(job) if run.mesh == str(mesh) and not run.ended]
    return runs[0].known(_source()) if runs else None


def row_name(job: CapstoneJob, mesh: str) -> str:
    """What a row of the record is called."""
    return f"level {job.level}, seed {job.seed} ({mark_of(job)}): {mesh}"


def mark_of(job: CapstoneJob) -> str:
    """Eight letters that change when anything of the job does: a record is of one job."""
    said = repr((job.job, job.ranks, job.nodes, job.memory_bytes))
    return hashlib.blake2b(said.encode(), digest_size=4).hexdigest()


def _recorded_runs(job: CapstoneJob) -> list[MeshRun]:
    found = []
    for row in _record(RECORD).get("rows", ()):
        read = _ROW.fullmatch(row["what"])
        if (
            read
            and (int(read[1]), int(read[2]), read[3]) == (job.level, job.seed, mark_of(job))
            and row["unit"] == "s"
        ):
            between = between_bytes(job.job, Mesh.parse(read[4]))
            found.append(MeshRun(read[4], tuple(row["samples"]), 0, between))
    return found


def _source() -> str:
    return f"recorded on {_record(RECORD)['date']}"


@lru_cache(maxsize=4)
def _record(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}
