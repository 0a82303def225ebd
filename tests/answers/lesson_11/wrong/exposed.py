"""11.exposed: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from course_lib.learn.sick.sick_runs import intervals


def by_the_library(spans):
    return intervals.exposed_s(spans)


EXERCISE = "11.exposed"


FORBIDDEN = by_the_library
