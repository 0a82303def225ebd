"""What is kept of a trial, and told of it: errors by lesson and cell, times, and what a learner took at most."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from course_lib.base.whole_file import write_named
from course_lib.classroom.trial.trial import ClassTrial
from course_lib.classroom.trial.watch import ProcessSample
from course_lib.doctor import Finding
from course_lib.meter.origin import origin
from course_lib.meter.units import bytes_text

__all__ = ["findings_of", "keep", "record_of"]

_MOST_FAILURES = 12
_QUIET_LOAD = 0.5
_COARSE_S = 5.0


def record_of(trial: ClassTrial, command: str, copies: str) -> dict[str, Any]:
    """The trial as it is kept: where it ran, what was asked, and the most that a learner took in each lesson."""
    shared = trial.shared_peak_bytes if trial.shared_peak_bytes > (1 << 20) else 0  # less is the ranks' own locks
    return {
        **origin(command),
        "what": "a class at once: learners with a home and kernels of their own run the same lessons, from cold",
        "memory_by": "PSS of all processes of a learner, looked at once a second, or less often on a busy machine",
        "longest_gap_s": round(trial.longest_gap_s, 1),
        "load_before": [round(load, 2) for load in trial.load_before],
        "remark": _remark(trial),
        "learners": trial.learners,
        "open_lessons": trial.open_lessons,
        "copies": copies,
        "has_fitted": trial.has_fitted,
        "stopped": trial.stopped,
        "wall_s": round(trial.wall_s, 1),
        "lessons": {label: row for label in trial.lessons if (row := _row(trial, label)) is not None},
        "together": asdict(trial.together)
        | {"available_fell_bytes": trial.free_at_first_bytes - trial.free_least_bytes},
        "server": _server(trial.server),
        "disk_bytes_each": trial.disk_bytes_each,
        "shared_bytes_each": shared // trial.learners,
        "gpu_bytes_each": trial.gpu_peak_bytes // trial.learners or None,
        "failures": [asdict(failure) for failure in trial.failures],
        "left_over": trial.left_over,
    }


def keep(record: dict[str, Any], path: Path) -> None:
    """Write the record in one step.

    Raises:
        ValueError: The file cannot be written.
    """
    write_named("--keep", path, (json.dumps(record, indent=1) + "\n").encode())


def findings_of(trial: ClassTrial) -> list[Finding]:
    """The trial as lines of the report."""
    lessons = ", ".join(trial.lessons)
    what = f"{trial.learners} at once, {lessons}, {trial.wall_s:.0f} s in all"
    found = [_verdict(trial, what)]
    found += _failures(trial)
    for label in trial.lessons:
        row = _row(trial, label)
        if row is not None:
            found.append(Finding(f"trial, {label}", "ok", _in_words(row)))
    fell = bytes_text(max(0, trial.free_at_first_bytes - trial.free_least_bytes))
    together = f"{bytes_text(trial.together.memory_bytes)} in their processes; what was free fell by {fell}"
    counts = f"{trial.together.processes} processes, {trial.together.threads} threads"
    found.append(Finding("trial, together", "ok", f"at most {together}; {counts}"))
    found += _coarse(trial)
    for line in sorted({line for lap in trial.laps for line in lap.blocked}):
        found.append(Finding("trial, blocked", "warning", line.removeprefix("blocked: ")))
    for process in trial.left_over:
        found.append(Finding("trial, left over", "warning", f"had to be ended: {process}"))
    return found


def _coarse(trial: ClassTrial) -> list[Finding]:
    """That a short peak may have been missed, where there were long times between two looks."""
    if trial.longest_gap_s <= _COARSE_S:
        return []
    told = f"{trial.longest_gap_s:.0f} s passed between two looks at them: a learner may take more than is said here"
    return [Finding("trial, memory", "warning", told, "On a quieter machine a trial looks every second.")]


def _verdict(trial: ClassTrial, what: str) -> Finding:
    if trial.stopped:
        remedy = "Fewer learners, or fewer lessons open each (--open)."
        return Finding("trial", "blocked", f"{what}: stopped, as {trial.stopped}", remedy)
    if trial.failures:
        hit = len({failure.learner for failure in trial.failures})
        return Finding("trial", "blocked", f"{what}: {hit} of {trial.learners} met an error")
    return Finding("trial", "ok", f"{what}: no error, {trial.learners} fit")


def _failures(trial: ClassTrial) -> list[Finding]:
    """One line for each error, with how many met it."""
    met = Counter((one.lesson, one.cell, one.reason.splitlines()[0]) for one in trial.failures)
    found = []
    for (lesson, cell, reason), learners in met.most_common(_MOST_FAILURES):
        where = f"cell {cell}" if cell else "its kernel did not start"
        found.append(Finding(f"trial, {lesson}", "blocked", f"{where}, {learners} of {trial.learners}: {reason}"))
    if len(met) > _MOST_FAILURES:
        found.append(Finding("trial", "blocked", f"{len(met) - _MOST_FAILURES} more errors; --json has all"))
    return found


def _row(trial: ClassTrial, label: str) -> dict[str, Any] | None:
    """The most that a learner took in one lesson; None where nobody came to its end."""
    laps = [lap for lap in trial.laps if lap.lesson == label]
    if not laps:
        return None
    peak = ProcessSample()
    for (_, lesson), look in trial.peaks.items():
        peak = peak.most(look) if lesson == label else peak
    longest = max(laps, key=lambda lap: lap.longest_cell_cpu_s)
    return {
        "learners": len(laps),
        "wall_s": {
            "median": round(statistics.median(lap.wall_s for lap in laps), 1),
            "max": round(max(lap.wall_s for lap in laps), 1),
        },
        "peak_bytes": peak.memory_bytes,
        "rest_bytes": max(lap.rest.memory_bytes for lap in laps),
        "processes": peak.processes,
        "threads": peak.threads,
        "descriptors": peak.descriptors,
        "process_descriptors": peak.process_descriptors,
        "cpu_s": round(statistics.median(lap.cpu_s for lap in laps), 1),
        "longest_cell": longest.longest_cell,
        "longest_cell_cpu_s": round(longest.longest_cell_cpu_s, 1),
        "longest_cell_wall_s": round(max(lap.longest_cell_wall_s for lap in laps), 1),
    }


def _in_words(row: dict[str, Any]) -> str:
    peak, rest = bytes_text(row["peak_bytes"]), bytes_text(row["rest_bytes"])
    return (
        f"{row['learners']} done in {row['wall_s']['median']:.0f} s (the last after {row['wall_s']['max']:.0f} s). At "
        f"most {peak} each ({rest} at rest), {row['processes']} processes, {row['threads']} threads, "
        f"{row['descriptors']} descriptors. Longest cell {row['longest_cell_wall_s']:.0f} s"
    )


def _remark(trial: ClassTrial) -> str:
    if trial.load_before and trial.load_before[0] > _QUIET_LOAD:
        return "other work ran on this machine, so times are longer and free memory fell further than on a quiet one"
    return ""


def _server(look: ProcessSample | None) -> dict[str, int] | None:
    if look is None:
        return None
    return {"peak_bytes": look.memory_bytes, "threads": look.threads, "descriptors": look.descriptors}
