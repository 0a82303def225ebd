"""11.exposed: the seconds in which a rank communicates and does not compute, from spans that may overlap."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_11.exposed import mistakes
from course_lib.learn.exercises.lesson_11.exposed.cases import CASES
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.learn.sick.sick_runs import intervals

__all__ = ["EXPOSED"]

EXPOSED = Exercise(
    name="11.exposed",
    title="Communication that nothing hides",
    judge=by_cases_apart(
        [Case(label, (spans,), intervals.exposed_s) for label, spans in CASES.items()],
        compare=close_to(1e-6, 1e-9),
    ),
    mistakes=mistakes.MISTAKES,
    hints=(
        "Draw computing above and communication below, on one time axis. At which moments can exposed communication "
        "begin or end? Only where some span begins or ends.",
        "All begins and ends, sorted and each once, cut the time into pieces within which nothing changes. For each "
        "piece: which kinds of spans cover it?",
        "for left, right in pairwise(edges): kinds = {kind for begin_s, end_s, kind in spans if begin_s <= left and "
        'right <= end_s}. Add right - left where "communication" is in kinds and "compute" is not.',
    ),
    forbidden=(
        "course_lib.learn.sick.sick_runs.intervals.exposed_s",
        "course_lib.learn.sick.sick_runs.intervals.union",
    ),
    passed="Every instant counts once, whatever spans lie over it.",
)
