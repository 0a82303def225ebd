"""A benchmark's result: rows of samples, told as medians, kept as JSON with the machine that made them."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.devices import machine
from course_lib.meter.clocks.stopwatch import Comparison
from course_lib.meter.origin import origin

__all__ = ["BenchRow", "Table"]


@dataclass(frozen=True)
class BenchRow:
    """Samples of one quantity. ``target`` is the most that the project promises, in the same unit; the least with
    ``at_least``.
    """

    what: str
    samples: tuple[float, ...]
    unit: str  # "s", "ms", "MB"
    target: float | None = None
    at_least: bool = False

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def meets_target(self) -> bool | None:
        if self.target is None:
            return None
        return self.median >= self.target if self.at_least else self.median <= self.target

    @property
    def missed_by(self) -> str:
        """What was found and what was promised, of a row that misses its target."""
        most = "least" if self.at_least else "most"
        off = f", {abs(self.median / self.target - 1):.0%} off" if self.target else ""
        return f"{self.what}: {self.median:.3g} {self.unit}, promised is {self.target:g} at the {most}{off}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """The row as it is kept."""
        kept = {"what": self.what, "unit": self.unit, "median": self.median, "samples": self.samples}
        return {**kept, "target": self.target} | ({"at_least": True} if self.at_least else {})


@dataclass
class Table:
    """``command`` is what a reader types to see these numbers on their own machine."""

    command: str
    rows: list[BenchRow] = field(default_factory=list)

    def add(
        self,
        what: str,
        samples: Sequence[float],
        unit: str,
        *,
        target: float | None = None,
        at_least: bool = False,
    ) -> None:
        self.rows.append(BenchRow(what, tuple(samples), unit, target, at_least))
        print(self._line(self.rows[-1]), flush=True)

    def add_pair(
        self, what: str, both: Comparison, *, ratio: str = "course / torch", target: float | None = None
    ) -> None:
        """Three lines: the time of each of the two, and the ratio of the paired times, second over first."""
        for one in (both.first, both.second):
            self.add(f"{what}: {one.name}", [1e3 * time_s for time_s in one.times_s], "ms")
        self.add(f"{what}: {ratio}", both.ratios, "x", target=target)

    def add_beside(
        self,
        what: str,
        ours: Sequence[float],
        beside: str,
        theirs: Sequence[float],
        unit: str,
        *,
        target: float | None = None,
    ) -> None:
        """Three lines: what the course takes, what stands beside it, and the ratio, which alone has a target.

        Samples that were taken in turns, as many of the one as of the other, give a ratio each; others give the ratio
        of the medians.
        """
        self.add(what, ours, unit)
        self.add(f"{what}: {beside}", theirs, unit)
        in_turns = len(ours) == len(theirs)
        pairs = zip(ours, theirs, strict=True) if in_turns else [(statistics.median(ours), statistics.median(theirs))]
        self.add(f"{what}: course / {beside}", [one / other for one, other in pairs], "x", target=target)

    def print_head(self) -> None:
        here = machine()
        print(f"{self.command}   ({here.cores} cores, {here.cpu_name}, torch {here.torch_version})\n")
        print(f"{'':62}{'median':>10} {'min':>10} {'max':>10}  target")

    def print_foot(self) -> None:
        judged = [row for row in self.rows if row.target is not None]
        short = [row for row in judged if not row.meets_target]
        print(f"\n{len(judged) - len(short)} of {len(judged)} targets met" + ("; missed:" if short else ""))
        for row in short:
            print(f"  {row.missed_by}")

    def finish(self, path: Path | None) -> None:
        """The last line, and the file, if one was asked for."""
        self.print_foot()
        if path is not None:
            self.save(path)

    def save(self, path: Path) -> None:
        """Write the table as JSON: machine, versions, command, date, and every sample."""
        record = {**origin(self.command), "rows": [row.as_dict() for row in self.rows]}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"kept in {path}", file=sys.stderr)

    @staticmethod
    def _line(row: BenchRow) -> str:
        signs = (">=", "< ") if row.at_least else ("<=", "> ")
        verdict = "" if row.target is None else f"{signs[not row.meets_target]} {row.target:g} {row.unit}"
        numbers = "".join(f"{value:>10.3g} " for value in (row.median, min(row.samples), max(row.samples)))
        return f"{f'{row.what} [{row.unit}]':62}{numbers} {verdict}".rstrip()
