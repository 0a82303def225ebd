"""Planners beside each other, and beside runs that others published: a column each, a row for each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from course_lib.learn.builds.comparison import SideBySide, compared
from course_lib.meter.units import time_text
from course_lib.plan.by_hand.inputs import TimedRun

__all__ = ["planners_side_by_side"]

_PUBLISHED = "published"
_GB = 1e9


def planners_side_by_side(
    implementations: Mapping[str, Callable[..., Any]], runs: Sequence[TimedRun], *, build: str = ""
) -> SideBySide:
    """What each planner says of these runs, and what was published: bytes of the fullest rank, seconds of a step.

    Args:
        implementations: Classes like ``MyPlanner``, by the name of their columns.
        runs: Runs whose times, and perhaps memory, were published.
        build: The name of a build: ``build_progress`` shows this table again.

    A row that a planner cannot say yet is a dash. One that says none has a line below the table.
    """
    columns: dict[str, Any] = {name: partial(_column, planner, runs) for name, planner in implementations.items()}
    columns[_PUBLISHED] = partial(_published, runs)
    return compared(
        f"{len(runs)} published runs: memory of the fullest GPU, and a step",
        columns,
        lambda column: column(),
        failing=Exception,
        tell=lambda error: f"{type(error).__name__}: {error}",
        build=build,
    )


def _rows(runs: Sequence[TimedRun], bytes_of: Callable[[TimedRun], float], step_s: Callable[[TimedRun], float]) -> Any:
    found: dict[str, str] = {}
    first: Exception | None = None
    for run in runs:
        name = f"{run.layout}, {run.job.layers} x {run.job.hidden}"
        kinds = {"GB": lambda run=run: f"{bytes_of(run) / _GB:.1f} GB"} if run.needed_bytes else {}
        for kind, cell in {**kinds, "step": lambda run=run: time_text(step_s(run))}.items():
            try:
                found[f"{name}, {kind}"] = cell()
            except Exception as error:
                first = first or error
    if not found and first is not None:
        raise first
    return found


def _column(planner: Callable[..., Any], runs: Sequence[TimedRun]) -> dict[str, str]:
    def bytes_of(run: TimedRun) -> float:
        made = planner(run.job, run.machines)
        most = max(sum(made.memory(run.layout, stage).values()) for stage in range(run.layout.pp))
        return most + run.machines.reserve_bytes

    def step_s(run: TimedRun) -> float:
        parts = planner(run.job, run.machines).time(run.layout)
        if not parts:
            raise ValueError("`time` has no parts yet")
        return sum(parts.values())

    return _rows(runs, bytes_of, step_s)


def _published(runs: Sequence[TimedRun]) -> dict[str, str]:
    return _rows(runs, lambda run: run.needed_bytes, lambda run: run.step_s)
