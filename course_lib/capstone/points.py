"""Points of an attempt, part by part: 100 in all, and none for a run that ended early, broke a rule or went wrong."""

from __future__ import annotations

from course_lib.capstone.job import CapstoneJob
from course_lib.capstone.result import Known, PartPoints, Sent, Values
from course_lib.meter.units import bytes_text, time_text

__all__ = ["MOST", "no_points", "points_of"]

MOST = {"values": 40, "peak memory": 20, "bytes": 10, "step time": 30}
_AS_GOOD = 1.1  # times the best step: chance, on a busy machine
_FAR = 2.0  # times the best step: no points
_WITHIN_BUDGET = 10  # points of the step's time that the budget alone gives


def no_points(why: str) -> tuple[PartPoints, ...]:
    """For a run of which nothing counts."""
    return tuple(PartPoints(part, 0, most, why) for part, most in MOST.items())


def points_of(
    job: CapstoneJob,
    values: Values,
    peak_bytes: int,
    sent: Sent,
    step_s: float,
    planned: Known,
    real: Known | None,
) -> tuple[PartPoints, ...]:
    """Of a run that came to its end by the rules."""
    largest = (
        f"largest difference {values.share:.1e} of the way that weights went (at most {values.tolerance:g})"
    )
    if not values.are_equal:
        wrong = no_points("the weights are not those of one device")
        return (PartPoints("values", 0, MOST["values"], f"{largest}, in {values.where}"), *wrong[1:])
    room = f"{bytes_text(peak_bytes)} on the fullest rank; the limit is {bytes_text(job.memory_bytes)}"
    return (
        PartPoints("values", MOST["values"], MOST["values"], largest),
        PartPoints("peak memory", MOST["peak memory"], MOST["peak memory"], room),
        _of_bytes(sent.between_bytes, planned),
        _of_time(job, step_s, real or planned, "best real run" if real else "planner's best"),
    )


def _of_bytes(between_bytes: int, planned: Known) -> PartPoints:
    most = MOST["bytes"]
    share = min(1.0, planned.between_bytes / between_bytes) if between_bytes else 1.0
    why = f"{bytes_text(between_bytes)} between nodes; the planner's best sends {bytes_text(planned.between_bytes)}"
    return PartPoints("bytes", round(most * share), most, why)


def _of_time(job: CapstoneJob, step_s: float, best: Known, what: str) -> PartPoints:
    most, ratio = MOST["step time"], step_s / best.step_s
    points = round(most * min(1.0, max(0.0, (_FAR - ratio) / (_FAR - _AS_GOOD))))
    if step_s <= job.budget_s:
        points = max(points, _WITHIN_BUDGET)
    why = f"{time_text(step_s)} a step; the {what} {time_text(best.step_s)}, the budget {time_text(job.budget_s)}"
    return PartPoints("step time", points, most, why)
