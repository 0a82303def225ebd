"""12.job: what is looked at, and the runs after a restart, which recognisers look at again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from course_lib.learn.exercises.lesson_12.job.cases import JobRun
from course_lib.learn.judging.compare import difference
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, RankReport, fact

__all__ = ["A_JOB", "FINE", "JobReport", "ResumedRun", "blank", "losses_differ", "weights_differ"]

A_JOB, FINE = "an object with `samples`, `run`, `save` and `resume`", "fine"


def losses_differ(want: Sequence[float], have: Any, begin: int = 0) -> str:
    """How the mean losses of the steps from ``begin`` differ; "" where they do not."""
    if not isinstance(have, list | tuple) or not all(isinstance(one, float) for one in have):
        return f"`run` is to return a list of numbers, the mean loss of each step, and gave {have!r:.60}"
    if len(have) != len(want):
        return f"{len(want)} steps were to be run, and `run` returned {len(have)} losses"
    for step, (due, came) in enumerate(zip(want, have, strict=True), start=begin):
        if found := difference(due, came, relative=1e-9, absolute=1e-10):
            return f"in step {step}: {found}"
    return ""


def weights_differ(want: Mapping[str, Tensor], have: Mapping[str, Tensor]) -> str:
    """The first weight or buffer that differs."""
    for name, tensor in want.items():
        if found := difference(tensor, have[name], relative=1e-9, absolute=1e-10):
            return f"`{name}`: {found}"
    return ""


@dataclass(frozen=True)
class ResumedRun:
    """A job of new objects in a folder. ``after``: the checkpoint that it is to find; others may do, too."""

    of: str
    stop: int
    step: Any
    losses: Any
    weights: Mapping[str, Tensor]
    error: str = ""
    may_be: tuple[int, ...] = ()

    def wrong(self, want: JobRun | None) -> str:
        """What differs from the run that nobody stopped, in words. ``want``: from the step that was returned."""
        if self.error:
            return f"{self.of}: an error came, {self.error}"
        if not isinstance(self.step, int) or self.step not in self.may_be:
            due = " or ".join(map(str, self.may_be))
            return f"{self.of}: `resume` is to return step {due}, and returned {self.step!r:.40}"
        assert want is not None
        found = losses_differ(want.losses, self.losses, want.begin) or weights_differ(want.weights, self.weights)
        return f"{self.of}, and resumed at step {self.step}: {found}" if found else ""


def _no_more(want: Any, have: Any) -> str:
    return "more" if have > want else ""


def _bytes(told: str) -> Any:
    return lambda want, have, _: told.format(f"{have:,}", f"{want:,}")


@dataclass(frozen=True, kw_only=True)
class JobReport(RankReport):
    """What a job has shown on a rank. What a situation does not look at is not demanded there."""

    asked_for = "a job that has run"
    made: str = fact(f"{A_JOB} is expected, and yours is {{got}}", right=A_JOB)
    shares: Any = fact("{got}")
    losses: Any = fact("the losses: {difference}", by=lambda want, have: losses_differ(want, have))
    weights: Any = fact("the weights: {difference}", by=weights_differ)
    kept: str = fact("the values are right, and your code changed what was to stay: {got}", right=NOTHING)
    again: Any = fact("{got}")
    stored: Any = fact("values are right, but {got}")
    written: Any = fact(_bytes("a save wrote {} bytes on all ranks together, and {} are enough"), by=_no_more)
    sent: Any = fact(_bytes("values are right. In a save this rank sent {} bytes, and {} are enough"), by=_no_more)
    step_sent: Any = fact(_bytes("values are right. In a step this rank sent {} bytes, and {} are enough"), by=_no_more)
    others: Any = fact("values are right, but steps without a save made calls that they do not need: {got}")
    told: Any = fact("the disk was full for one rank. {got}")
    said: Any = fact("the checkpoint before was used. But {got}")
    strangers: Any = fact("files that are no checkpoints of this job: {got}")
    runs: tuple[ResumedRun, ...] = ()  # for recognisers


def blank(**facts: Any) -> JobReport:
    """A report that demands, or says, these facts alone."""
    open_facts = ("shares", "losses", "weights", "again", "stored", "written", "sent", "step_sent", "others", "told",
                  "said", "strangers")  # fmt: skip
    start: dict[str, Any] = dict.fromkeys(open_facts, NOT_DEMANDED)
    return JobReport(**(start | {"made": A_JOB, "kept": NOTHING, "unwaited": NOTHING} | facts))
