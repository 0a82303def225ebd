"""What a learner takes of a machine, lesson by lesson: read from the record of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from course_lib.base.foreign_text import cleaned
from course_lib.base.named_file import json_of
from course_lib.base.paths import project_root
from course_lib.lab.edition import editions_bytes

__all__ = ["RECORD", "Server", "Taken", "TakenByLesson", "Trialled", "read_record", "taken_from"]

RECORD = "assets/measured/class_trial_2_cores.json"  # below the course's folder


@dataclass(frozen=True)
class TakenByLesson:
    """One learner's kernel and its ranks, in one lesson: the most that any learner of the trial took.

    ``peak_bytes`` and ``rest_bytes`` are proportional shares (PSS): pages that several processes share are counted
    once in all. At rest is after the last cell, while the kernel is open. ``cpu_s`` are seconds of computing.
    """

    peak_bytes: int
    rest_bytes: int
    processes: int
    threads: int
    descriptors: int
    process_descriptors: int  # the most of any one process
    cpu_s: float
    longest_cell_cpu_s: float


@dataclass(frozen=True)
class Server:
    """One learner's JupyterLab."""

    peak_bytes: int = 0
    threads: int = 0
    descriptors: int = 0


@dataclass(frozen=True)
class Trialled:
    """A trial that was recorded: so many learners, on so many cores, at once."""

    learners: int
    cores: int
    has_fitted: bool
    lessons: tuple[str, ...]
    command: str
    date: str


@dataclass(frozen=True)
class Taken:
    """What a learner takes. ``unmeasured`` lessons are taken to be as large as the largest that was measured."""

    lessons: dict[str, TakenByLesson]
    server: Server
    disk_bytes: int
    shared_bytes: int
    gpu_bytes: int | None
    trial: Trialled
    source: str
    unmeasured: tuple[str, ...] = field(default=())

    def most(self, what: str) -> float:
        """The most of one quantity over the lessons."""
        return max(getattr(lesson, what) for lesson in self.lessons.values())

    def lesson_with_most(self, what: str) -> str:
        return max(self.lessons, key=lambda label: getattr(self.lessons[label], what))


def read_record(path: Path | None = None) -> tuple[dict[str, Any], str]:
    """The record of a trial, and where it came from.

    Raises:
        ValueError: There is no such file, or it is not the record of a trial.
    """
    place = project_root() / RECORD if path is None else path
    try:
        record = cleaned(json_of(place))
    except OSError as error:
        raise ValueError(
            f"{place} cannot be read ({error.strerror}): it holds what a learner takes. "
            "`course class check --trial 2 --keep FILE` makes such a file, and --measured FILE reads it."
        ) from None
    except ValueError:
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("lessons"), dict) or not record["lessons"]:
        raise ValueError(f"{place} is not the record of a trial. `course class check --trial 2 --keep FILE` makes one.")
    return record, str(place if path is not None else RECORD)


def taken_from(record: dict[str, Any], labels: Sequence[str], source: str) -> Taken:
    """What a learner takes of the lessons ``labels``, by a record.

    Raises:
        ValueError: The record lacks a number that the formula needs.
    """
    try:
        measured = {label: _only(TakenByLesson, row) for label, row in record["lessons"].items()}
        chosen = {label: measured[label] for label in labels if label in measured}
        trial = Trialled(
            int(record["learners"]),
            int(record["machine"]["cores"]),
            bool(record["has_fitted"]),
            tuple(record["lessons"]),
            str(record["command"]),
            str(record["date"]),
        )
        unmeasured = tuple(label for label in labels if label not in measured)
        return Taken(
            lessons=measured if unmeasured else chosen,
            server=_only(Server, record.get("server") or {}),
            # A trial copies no lessons; `course lab` gives everybody all of them.
            disk_bytes=int(record["disk_bytes_each"]) + editions_bytes(project_root()),
            shared_bytes=int(record.get("shared_bytes_each") or 0),
            gpu_bytes=record.get("gpu_bytes_each"),
            trial=trial,
            source=source,
            unmeasured=unmeasured,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{source} lacks {error} of a trial. Record one again: --trial 2 --keep FILE.") from None


def _only(kind: Any, row: dict[str, Any]) -> Any:
    """The dataclass from a row that may hold more than it asks for."""
    return kind(**{one.name: row[one.name] for one in fields(kind) if one.name in row})
