"""Usual wrong answers to 04.trace_overlap, each of which runs."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.learn.exercises.lesson_04.trace_overlap.cases import right

__all__ = [
    "all_or_nothing",
    "below_nought",
    "communication_twice",
    "computing_twice",
    "each_pair",
    "end_for_duration",
    "exposed_instead",
    "forgets_the_longer",
    "needs_order",
    "not_without_spans",
    "only_the_first",
    "starts_inside",
    "the_shorter_total",
    "whole_kernels",
    "whole_microseconds",
]

Spans = Sequence[tuple[float, float]]
Ends = list[tuple[float, float]]


def _ends(spans: Spans) -> Ends:
    return [(start, start + duration) for start, duration in spans]


def _merged(ends: Ends, *, longer: bool = True) -> Ends:
    """In the order in which they come; ``longer`` keeps the later of two ends."""
    apart: Ends = []
    for start, end in ends:
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end) if longer else end)
        else:
            apart.append((start, end))
    return apart


def _union(spans: Spans) -> Ends:
    return _merged(sorted(_ends(spans)))


def _shared(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def _sum(ones: Ends, others: Ends) -> float:
    return sum(_shared(one, other) for one in ones for other in others)


def _length(ends: Ends) -> float:
    return sum(end - start for start, end in ends)


def end_for_duration(communication: Spans, computing: Spans) -> float:
    """Pairs of start and duration, read as start and end."""
    return _sum(_merged(sorted(communication)), _merged(sorted(computing)))


def exposed_instead(communication: Spans, computing: Spans) -> float:
    """Communication without computing."""
    return _length(_union(communication)) - right(communication, computing)


def all_or_nothing(communication: Spans, computing: Spans) -> float:
    """All of what computing touches anywhere."""
    kernels = _union(computing)
    return _length([one for one in _union(communication) if any(_shared(one, other) for other in kernels)])


def the_shorter_total(communication: Spans, computing: Spans) -> float:
    """As if the shorter of both lay wholly under the other."""
    return min(_length(_union(communication)), _length(_union(computing)))


def below_nought(communication: Spans, computing: Spans) -> float:
    """What is apart counts as less than nothing."""
    return sum(
        min(one[1], other[1]) - max(one[0], other[0]) for one in _union(communication) for other in _union(computing)
    )


def starts_inside(communication: Spans, computing: Spans) -> float:
    """Kernels that began earlier are not seen."""
    kernels = _union(computing)
    return sum(_shared(one, other) for one in _union(communication) for other in kernels if one[0] <= other[0] < one[1])


def whole_kernels(communication: Spans, computing: Spans) -> float:
    """All of each kernel that overlaps an all-reduce."""
    calls = _union(communication)
    return _length([one for one in _union(computing) if any(_shared(one, other) for other in calls)])


def only_the_first(communication: Spans, computing: Spans) -> float:
    """Of the kernels beside an all-reduce the first."""
    kernels = _union(computing)
    return sum(
        next((_shared(one, other) for other in kernels if _shared(one, other)), 0.0) for one in _union(communication)
    )


def computing_twice(communication: Spans, computing: Spans) -> float:
    """All-reduces are merged, kernels are not."""
    return _sum(_union(communication), _ends(computing))


def communication_twice(communication: Spans, computing: Spans) -> float:
    """Kernels are merged, all-reduces are not."""
    return _sum(_ends(communication), _union(computing))


def each_pair(communication: Spans, computing: Spans) -> float:
    """Nothing is merged."""
    return _sum(_ends(communication), _ends(computing))


def needs_order(communication: Spans, computing: Spans) -> float:
    """Merged without sorting."""
    return _sum(_merged(_ends(communication)), _merged(_ends(computing)))


def forgets_the_longer(communication: Spans, computing: Spans) -> float:
    """A merged span ends where the later one does, though the earlier lasts longer."""
    ends = (_merged(sorted(_ends(spans)), longer=False) for spans in (communication, computing))
    return _sum(*ends)


def whole_microseconds(communication: Spans, computing: Spans) -> float:
    """Sets of whole microseconds."""
    sets = (
        {moment for start, end in _ends(spans) for moment in range(round(start), round(end))}
        for spans in (communication, computing)
    )
    return float(len(set.intersection(*sets)))


def not_without_spans(communication: Spans, computing: Spans) -> float:
    """Right, but for a list without spans."""
    communication[0], computing[0]
    return right(communication, computing)
