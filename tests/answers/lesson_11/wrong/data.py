"""11.data: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from course_lib.plan.estimate.data_sizes import DataSizes, waits_s


def by_the_library(sizes: DataSizes, hidden: float) -> float:
    """Right, by the course's own term."""
    return waits_s(sizes, hidden)


EXERCISE = "11.data"
FORBIDDEN = by_the_library
