"""Points of an attempt, part by part: 100 in all, and none for a run that ended early, broke a rule or went wrong."""

from __future__ import annotations

from typing import NamedTuple

from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.jobs.result import Known, PartPoints, Sent, Values
from course_lib.meter.units import bytes_text, time_text

__all__ = ["MOST", "PointsStep", "no_points", "points_of"]


class PointsStep(NamedTuple):
    """A step's seconds: by the clock, and without the machine's own time where that could be told."""

    clock_s: float
    paced_s: float | None

    @property
    def is_paced(self) -> bool:
        """Whether the machine's own time is left out."""
        return self.paced_s is not None

    @property
    def counted_s(self) -> float:
        """The one that counts."""
        return self.clock_s if self.paced_s is None else self.paced_s


MOST = {"values": 40, "peak memory": 20, "bytes": 10, "step time": 30}
_AS_GOOD = 1.05  # times the best step: as good
_FAR = 2.0  # times the best step: no points
_LATE = 0.5  # of the points of its time, for a step that is longer than its budget


def no_points(why: str) -> tuple[PartPoints, ...]:
    """For a run of which nothing counts."""
    return tuple(PartPoints(part, 0, most, why) for part, most in MOST.items())


def points_of(
    job: CapstoneJob, values: Values, peak_bytes: int, sent: Sent, step: PointsStep, best: Known
) -> tuple[PartPoints, ...]:
    """Of a run that came to its end by the rules. ``best``: what bytes and time are held against, played as well."""
    largest = (
        f"largest difference {values.share:.1e} of the weights' change in training (at most "
        f"{values.tolerance:g} is allowed)"
    )
    if not values.are_equal:
        wrong = no_points("the weights are not those of one device")
        return (PartPoints("values", 0, MOST["values"], f"{largest}, in {values.where}"), *wrong[1:])
    if values.wrong_loss:
        wrong = no_points("the losses are not those of one device")
        return (PartPoints("values", 0, MOST["values"], f"{largest}; but {values.wrong_loss}"), *wrong[1:])
    room = f"{bytes_text(peak_bytes)} on the fullest rank; the limit is {bytes_text(job.memory_bytes)}"
    return (
        PartPoints("values", MOST["values"], MOST["values"], largest),
        PartPoints("peak memory", MOST["peak memory"], MOST["peak memory"], room),
        _of_bytes(sent.between_bytes, best),
        _of_time(job, step, best),
    )


def _of_bytes(between_bytes: int, best: Known) -> PartPoints:
    most = MOST["bytes"]
    share = min(1.0, best.between_bytes / between_bytes) if between_bytes else 1.0
    theirs = f"the {best.source}, {best.mesh}, sends {bytes_text(best.between_bytes)}"
    why = f"{bytes_text(between_bytes)} between nodes; {theirs}"
    return PartPoints("bytes", round(most * share), most, why)


def _of_time(job: CapstoneJob, step: PointsStep, best: Known) -> PartPoints:
    most, ratio = MOST["step time"], step.counted_s / best.step_s
    share = min(1.0, max(0.0, (_FAR - ratio) / (_FAR - _AS_GOOD)))
    is_late = step.counted_s > job.budget_s
    said = f"{time_text(step.counted_s)} a step"
    if step.is_paced:
        said += f" of computing and messages ({time_text(step.clock_s)} by the clock of this machine)"
    theirs = f"the {best.source}, {best.mesh}, takes {time_text(best.step_s)}"
    why = f"{said}; {theirs}; the budget is {time_text(job.budget_s)}"
    why += ", so you get half of the points" if is_late else ""
    return PartPoints("step time", round(most * share * (_LATE if is_late else 1.0)), most, why)
