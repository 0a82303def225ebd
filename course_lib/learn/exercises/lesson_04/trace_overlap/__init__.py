"""04.trace_overlap: the time in which a device communicates and computes at once, from two lists of spans."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.trace_overlap import wrong_answers
from course_lib.learn.exercises.lesson_04.trace_overlap.cases import CASES, right
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["TRACE_OVERLAP"]

TRACE_OVERLAP = Exercise(
    name="04.trace_overlap",
    title="Communication under computing",
    judge=by_cases_apart([Case(label, args, right) for label, args in CASES.items()], compare=close_to(1e-9, 1e-6)),
    mistakes=(
        Mistake(
            "end-for-duration",
            "You read a span's second number as its end. It is the duration; the end is start and duration together.",
            wrong_answers.end_for_duration,
        ),
        Mistake(
            "exposed-instead",
            "That is communication with no kernel beside it, which is exposed. The task asks for the rest: what has a "
            "kernel beside it.",
            wrong_answers.exposed_instead,
        ),
        Mistake(
            "all-or-nothing",
            "As soon as a kernel overlaps an all-reduce somewhere, you count the whole of it. Count the part that "
            "both share.",
            wrong_answers.all_or_nothing,
        ),
        Mistake(
            "the-shorter-total",
            "You add up both lists and take the smaller sum. The sums do not say whether they went on *at the same "
            "time*.",
            wrong_answers.the_shorter_total,
        ),
        Mistake(
            "below-nought",
            "Spans that lie apart share less than nothing in your count, and take something from the others.",
            wrong_answers.below_nought,
        ),
        Mistake(
            "starts-inside",
            "You count only kernels that start during an all-reduce. A kernel may have begun before it, and go on.",
            wrong_answers.starts_inside,
        ),
        Mistake(
            "whole-kernels",
            "A kernel counts in whole as soon as it overlaps an all-reduce. What of it lies before or after does not "
            "lie beside the all-reduce.",
            wrong_answers.whole_kernels,
        ),
        Mistake(
            "only-the-first",
            "You count one of the kernels beside an all-reduce. There can be many, with gaps between them.",
            wrong_answers.only_the_first,
        ),
        Mistake(
            "computing-twice",
            "Where two kernels run at once, on two streams, you count the same moment twice. Merge the kernels first.",
            wrong_answers.computing_twice,
        ),
        Mistake(
            "communication-twice",
            "Kernels that overlap count once, and all-reduces do not: while two are on their way, the same moment is "
            "counted twice.",
            wrong_answers.communication_twice,
        ),
        Mistake(
            "each-pair",
            "You add up what each all-reduce shares with each kernel. Where two spans of one list overlap, the same "
            "moment is counted twice.",
            wrong_answers.each_pair,
        ),
        Mistake(
            "needs-order",
            "Right where the spans come by their start. They may come in any order.",
            wrong_answers.needs_order,
        ),
        Mistake(
            "forgets-the-longer",
            "Where one span lies inside another, your merged one ends with the inner. It ends with the later of the "
            "two ends.",
            wrong_answers.forgets_the_longer,
        ),
        Mistake(
            "whole-microseconds",
            "Right to the microsecond. A profiler counts tenths, and many kernels last a few microseconds: take times "
            "as they are.",
            wrong_answers.whole_microseconds,
        ),
        Mistake(
            "not-without-spans",
            "Right, but for a list without spans: then nothing is shared, and 0 is to come.",
            wrong_answers.not_without_spans,
        ),
    ),
    hints=(
        "Draw one list above the other, on one time axis. Where does a stretch begin that both share, and where does "
        "it end?",
        "Two steps. First each list by itself: sort it, and merge spans that overlap into one, so that no moment is in "
        "two of them. Then for each pair, one of either list: from the later start to the earlier end, if there is "
        "anything between.",
        "To merge: for each span in sorted order, `end = start + duration`. Where the last merged one ends at "
        "`start` or later, it now ends at `max(last_end, end)`, else the span is a new one. To share: "
        "`max(0.0, min(end, other_end) - max(start, other_start))`, added up over all pairs.",
    ),
    forbidden=(
        "course_lib.traces.intervals.common",
        "course_lib.traces.intervals.union",
        "course_lib.learn.sick.sick_runs.intervals.exposed_s",
        "course_lib.learn.sick.sick_runs.intervals.union",
    ),
    passed="Every moment counts once, however the spans lie.",
)
