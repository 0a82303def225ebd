"""04.trace_overlap: right by a call that is forbidden there. The mistakes' examples stand in the course."""

from __future__ import annotations

from course_lib.learn.exercises.lesson_04.trace_overlap.cases import Spans


def _by_the_library(communication: Spans, computing: Spans) -> float:
    from course_lib.traces.intervals import common, length, union

    one, other = (union([(start, start + time) for start, time in spans]) for spans in (communication, computing))
    return length(common(one, other))


EXERCISE = "04.trace_overlap"
FORBIDDEN = _by_the_library
