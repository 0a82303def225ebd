"""What all runs together have found: a table, and a record as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.authoring.testing.portable.trial import Combination, TrialOutcome
from course_lib.devices import machine
from course_lib.devices.container_limits import usable_cores

__all__ = ["HEAD", "Found", "record", "row", "table", "write"]

HEAD = f"{'processor':<10} {'threads':>7}  {'Python':<8} {'torch':<14} {'cells':>5}  differ"


@dataclass(frozen=True)
class Found:
    """What a combination has shown: an outcome, or why there is none."""

    combination: Combination
    outcome: TrialOutcome | None
    unfinished: str = ""

    @property
    def is_well(self) -> bool:
        return self.outcome is not None and not self.outcome.differ


def row(found: Found) -> str:
    """A combination as a line under ``HEAD``."""
    one = found.combination
    first = f"{one.kind.name:<10} {one.num_threads:>7}  {one.environment.python:<8} {one.environment.torch:<14} "
    if found.outcome is None:
        return f"{first}{'-':>5}  it did not run to its end: {found.unfinished}"
    return f"{first}{found.outcome.compared:>5}  {', '.join(found.outcome.differ) or 'none'}"


def table(all_found: Sequence[Found], left_out: Sequence[tuple[str, str]]) -> str:
    """Every combination, then what was left out and why, then the sum."""
    lines = [HEAD, *map(row, all_found), ""]
    lines += [f"left out: {what}: {why}" for what, why in left_out]
    cells = sum(found.outcome.compared for found in all_found if found.outcome)
    differ = sum(len(found.outcome.differ) for found in all_found if found.outcome)
    unfinished = sum(found.outcome is None for found in all_found)
    said = f"{len(all_found)} combinations, {cells:,} cells compared, {differ} differ"
    return "\n".join([*lines, said + (f"; {unfinished} did not run to their end" if unfinished else "")])


def record(
    all_found: Sequence[Found], left_out: Sequence[tuple[str, str]], *, command: str, date: str
) -> dict[str, Any]:
    """The same, to be kept."""
    return {
        "command": command,
        "date": date,
        "machine": {"cores": usable_cores(), "cpu": machine().cpu_name},
        "combinations": [
            {
                "processor": found.combination.kind.name,
                "threads": found.combination.num_threads,
                "python": found.combination.environment.python,
                "torch": found.combination.environment.torch,
                "compared": found.outcome.compared if found.outcome else 0,
                "differ": list(found.outcome.differ) if found.outcome else [],
                "unfinished": found.unfinished,
            }
            for found in all_found
        ],
        "left_out": [{"what": what, "why": why} for what, why in left_out],
    }


def write(path: Path, kept: dict[str, Any]) -> None:
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
