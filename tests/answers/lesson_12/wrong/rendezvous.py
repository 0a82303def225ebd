"""12.rendezvous: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from course_lib.learn.sick.meetings import fates


def by_the_library(agents):
    return fates(agents)


EXERCISE = "12.rendezvous"


FORBIDDEN = by_the_library
