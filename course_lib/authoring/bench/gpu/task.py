"""What a step is given, and how it tells what it found: rows of samples, and parts with an outcome.

Everything told is on the disk at once, so what a step found before it hung or crashed is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.authoring.bench.table import Table

__all__ = ["FAILED", "NOT_RUN", "PASSED", "BenchTask", "written"]

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
_MOST_OF_A_REASON = 4000  # characters


class _SavedTable(Table):
    """A table that is kept after every row."""

    task: BenchTask

    def add(self, what: str, samples: Sequence[float], unit: str, **judged: Any) -> None:
        super().add(what, samples, unit, **judged)
        self.task.keep()


@dataclass
class BenchTask:
    """One step's work. ``on_gpu`` says whether GPUs are to be used; ``rounds`` how often a thing is measured."""

    result: Path
    on_gpu: bool
    num_gpus: int
    rounds: int
    end_s: float  # on ``clock``
    clock: Callable[[], float] = time.monotonic
    parts: list[dict[str, str]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    ended: bool = False

    def __post_init__(self) -> None:
        self.table = _SavedTable("course bench gpu")
        self.table.task = self
        self.keep()

    @property
    def left_s(self) -> float:
        """Seconds that this step may still take."""
        return max(1.0, self.end_s - self.clock())

    def limit_s(self, most_s: float) -> float:
        """Seconds for one thing of several: half of what is left at most, so one that hangs leaves time to the next."""
        return min(most_s, self.left_s / 2)

    @property
    def device_name(self) -> str:
        """ "cuda" or "cpu"."""
        return "cuda" if self.on_gpu else "cpu"

    def target(self, value: float) -> float | None:
        """A promise, which is judged on GPUs alone: a trial on the CPU shows that the command works."""
        return value if self.on_gpu else None

    def tell(self, name: str, outcome: str, why: str = "") -> None:
        """A part has ended so. ``why`` is needed unless it passed."""
        self.parts.append({"name": name, "outcome": outcome, "why": why[-_MOST_OF_A_REASON:]})
        told = why.strip().splitlines()
        print(f"{name}: {outcome}" + (f" ({told[-1][:160]})" if told else ""), flush=True)
        self.keep()

    def judge(self, name: str, holds: bool, sentence: str) -> None:
        """A part that passed where ``holds``; the sentence says what was found either way."""
        self.tell(name, PASSED if holds else FAILED, sentence)

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part that passes when the block ends; what it raises is told, and the step goes on."""
        try:
            yield
        except Exception:
            self.tell(name, FAILED, traceback.format_exc())
        else:
            self.tell(name, PASSED)

    def has_gpus(self, name: str, num: int) -> bool:
        """Whether there are so many GPUs; where not, the part is told as not run."""
        here = self.num_gpus if self.on_gpu else 0
        if here >= num:
            return True
        why = f"needs {num} GPU{'s' if num > 1 else ''}, {here or 'none'} {'is' if here < 2 else 'are'} here"
        self.tell(name, NOT_RUN, why)
        return False

    def keep(self) -> None:
        """Write all that was told so far."""
        told = {
            "rows": [row.as_dict() for row in self.table.rows],
            "parts": self.parts,
            "notes": self.notes,
            "ended": self.ended,
        }
        written(self.result, told)


def written(path: Path, record: Any) -> None:
    """Write JSON so that a reader, and a power cut, find the old file or the new one, never half of it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)
