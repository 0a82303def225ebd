"""The report of ``course class check``: what is here, how many fit and by what formula, the lessons, what to change."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any

from course_lib.classroom.trial.capacity import KEPT_BACK, PATIENCE_S, Limit, first_met, wait_s
from course_lib.classroom.trial.lessons_here import LessonHere
from course_lib.classroom.trial.node import Node
from course_lib.classroom.trial.resource_use import Taken
from course_lib.doctor import Finding, table

__all__ = ["ClassReport"]

_WIDTH = 100
_BEYOND = 1.5  # times the learners a core that a trial has shown to work


@dataclass(frozen=True)
class ClassReport:
    """All that was found. ``as_text`` is for people, ``as_dict`` for programs; ``is_blocked`` gives the exit code."""

    learners: int
    open_lessons: int
    node: Node
    taken: Taken
    limits: list[Limit]
    lessons: list[LessonHere]
    doctor: list[Finding]
    advice: list[str]
    trial: list[Finding] = field(default_factory=list)
    record: dict[str, Any] | None = None

    @property
    def fits(self) -> int | None:
        """How many learners fit; None where nothing that was looked at limits them."""
        first = first_met(self.limits)
        return None if first is None else first.learners

    @property
    def is_blocked(self) -> bool:
        short = self.fits is not None and self.fits < self.learners
        bad = [finding for finding in (*self.doctor, *self.trial) if finding.status == "blocked"]
        return short or bool(bad) or any(lesson.status == "blocked" for lesson in self.lessons)

    @property
    def is_extrapolated(self) -> bool:
        """Whether more learners are asked about than have just worked here at once."""
        return self.record is None or not self.record["has_fitted"] or self.record["learners"] < self.learners

    def as_dict(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "ok": not self.is_blocked,
            "learners": self.learners,
            "open_lessons": self.open_lessons,
            "fits": self.fits,
            "is_extrapolated": self.is_extrapolated,
            "node": asdict(self.node),
            "limits": [asdict(limit) for limit in self.limits],
            "wait_for_the_longest_cell_s": wait_s(self.node, self.taken, self.learners),
            "lessons": [asdict(lesson) for lesson in self.lessons],
            "taken": asdict(self.taken),
            "findings": [asdict(finding) for finding in (*self.doctor, *self.trial)],
            "advice": self.advice,
            "trial": self.record,
        }

    def as_text(self) -> str:
        """The report for people."""
        one = "one lesson" if self.open_lessons == 1 else f"{self.open_lessons} lessons"
        parts = [[f"A class of {self.learners} on this machine, {one} open each", ""]]
        parts += [["This machine", *table([*self._machine(), *map(self._room_line, self.limits)]), ""]]
        parts += [["How many fit", *self._formulas(), ""]]
        parts += [["Lessons", *table(self._lesson_lines()), ""]]
        if self.doctor:
            parts += [["What course doctor says besides", *table(self.doctor), ""]]
        if self.trial:
            parts += [["The trial", *table(self.trial), ""]]
        if self.advice:
            parts += [["What to change", *(line for text in self.advice for line in _item(text)), ""]]
        return "\n".join(line for part in parts for line in part) + f"\n{self._conclusion()}"

    def _machine(self) -> list[Finding]:
        here, driver = self.node.here, self.node.here.driver
        waits_s = wait_s(self.node, self.taken, self.learners)
        load = f", load {self.node.load[0]:.1f} now" if self.node.load else ""
        long = waits_s > PATIENCE_S or self._is_beyond_the_trial()
        found = [
            Finding(
                "cores",
                "warning" if long else "ok",
                f"{here.cores}, {here.cpu_name}{load}; if all {self.learners} run the longest cell at once "
                f"({self.taken.lesson_with_most('longest_cell_cpu_s')}), it takes {waits_s:.0f} s",
            )
        ]
        torch = f"{here.torch_version}, for " + (f"CUDA {here.torch_cuda}" if here.torch_cuda else "the CPU")
        found.append(Finding("PyTorch", "ok", f"{torch}; NCCL {self.node.nccl or 'none'}; driver {driver or 'none'}"))
        if not here.devices:
            found.append(Finding("GPUs", "ok", here.gpu_note or "none: the ranks are processes on the CPU"))
        return found

    def _is_beyond_the_trial(self) -> bool:
        shown = self.taken.trial.learners / self.taken.trial.cores if self.taken.trial.has_fitted else 0.0
        return self.learners / self.node.here.cores > _BEYOND * shown

    def _room_line(self, limit: Limit) -> Finding:
        if limit.learners is None:
            return Finding(limit.name, "ok", limit.detail)
        room = f"room for {limit.learners:,}" if limit.learners else "room for nobody"
        return Finding(limit.name, "blocked" if limit.learners < self.learners else "ok", f"{limit.detail}: {room}")

    def _formulas(self) -> list[str]:
        lines = [
            line
            for limit in self.limits
            if limit.each and limit.formula
            for line in _item(f"{limit.name}: {limit.formula}")
        ]
        first, trial = first_met(self.limits), self.taken.trial
        if first is not None:
            lines += _wrapped(f"{first.name.capitalize()} runs out first: {first.learners:,} fit.")
        worked = f"{trial.learners} have just worked here at once."
        lines += _wrapped(
            f"{'This extrapolates.' if self.is_extrapolated else worked} A learner counts with the most that any of "
            f"{trial.learners} took in a trial of {', '.join(trial.lessons)} ({trial.date}, {trial.cores} cores, "
            f"`{trial.command}`, {self.taken.source}). {KEPT_BACK:.0%} stays free for the system and for what the "
            "trial did not show."
        )
        if self.taken.unmeasured:
            lines += _wrapped(
                f"These were not in that trial, and count like its largest lesson: {', '.join(self.taken.unmeasured)}."
            )
        if self._is_beyond_the_trial():
            lines += _wrapped(
                f"No trial has shown {self.learners / self.node.here.cores:.3g} learners a core. "
                "`--trial N` runs N at once, here."
            )
        return lines

    def _lesson_lines(self) -> list[Finding]:
        found = [
            Finding(one.label, "blocked" if one.status == "blocked" else "ok", _why(one), one.remedy)
            for one in self.lessons
            if one.status != "runs"
        ]
        whole = [one.label for one in self.lessons if one.status == "runs"]
        if whole:
            found.insert(0, Finding("all of it", "ok", ", ".join(whole)))
        return found

    def _conclusion(self) -> str:
        blocked = [one.label for one in self.lessons if one.status == "blocked"]
        said = []
        if self.fits is not None and self.fits < self.learners:
            said.append(f"{self.fits} of {self.learners} learners fit.")
        if blocked:
            said.append(f"Blocked lessons: {', '.join(blocked)}.")
        if any(finding.status == "blocked" for finding in self.trial):
            said.append("The trial failed.")
        return " ".join(said) or f"A class of {self.learners} fits here."


def _why(lesson: LessonHere) -> str:
    told = "; ".join(dict.fromkeys(lesson.reasons))
    return told if lesson.status == "blocked" else f"in part: {told}"


def _item(text: str) -> list[str]:
    return _wrapped(text, first="- ")


def _wrapped(text: str, first: str = "") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent="  " if first else "", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
