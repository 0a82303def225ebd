"""Usual wrong answers to 11.exposed, each of which runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

__all__ = [
    "all_messages",
    "all_or_nothing",
    "any_overlap_hides",
    "computing_one_by_one",
    "data_hides",
    "first_part_only",
    "forgets_the_longer",
    "hidden_instead",
    "idle_is_exposed",
    "messages_less_computing",
    "messages_one_by_one",
    "needs_order",
    "not_without_spans",
    "pairs_of_spans",
    "rounded",
    "sampled",
    "the_longest_hides",
    "until_the_end",
    "what_is_not_computing",
]


def _of(spans: Any, *kinds: str) -> list[tuple[float, float]]:
    return [(begin_s, end_s) for begin_s, end_s, kind in spans if kind in kinds]


def _union(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merged by a sweep over begins and ends; the library's own way is forbidden to answers."""
    apart, num_open, since_s = [], 0, 0.0
    for moment_s, change in sorted([(a, -1) for a, _ in intervals] + [(b, 1) for _, b in intervals]):
        if num_open == 0:
            since_s = moment_s
        num_open -= change
        if num_open == 0 and moment_s > since_s:
            apart.append((since_s, moment_s))
    return apart


def _length(intervals: list[tuple[float, float]]) -> float:
    return sum(end_s - begin_s for begin_s, end_s in intervals)


def _shared(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def _exposed(talking: list[tuple[float, float]], computing: list[tuple[float, float]]) -> float:
    """Of intervals that are apart, one sort without the other."""
    return _length(talking) - sum(_shared(one, other) for one in talking for other in computing)


def all_messages(spans: Any) -> float:
    """Every second of communication, hidden or not."""
    return _length(_union(_of(spans, "communication")))


def hidden_instead(spans: Any) -> float:
    """What is hidden."""
    return all_messages(spans) - _exposed(_union(_of(spans, "communication")), _union(_of(spans, "compute")))


def pairs_of_spans(spans: Any) -> float:
    """Each message less what it shares with each span of computing: twice over where spans overlap."""
    talking, computing = _of(spans, "communication"), _of(spans, "compute")
    return _length(talking) - sum(_shared(one, other) for one in talking for other in computing)


def messages_one_by_one(spans: Any) -> float:
    """Computing is merged, messages are not."""
    return _exposed(_of(spans, "communication"), _union(_of(spans, "compute")))


def computing_one_by_one(spans: Any) -> float:
    """Messages are merged, computing is not."""
    return _exposed(_union(_of(spans, "communication")), _of(spans, "compute"))


def messages_less_computing(spans: Any) -> float:
    """Totals, as if all computing could hide something, whenever it was."""
    return max(0.0, all_messages(spans) - _length(_union(_of(spans, "compute"))))


def idle_is_exposed(spans: Any) -> float:
    """From the first begin to the last end, less computing."""
    if not spans:
        return 0.0
    wall_s = max(end_s for _, end_s, _ in spans) - min(begin_s for begin_s, _, _ in spans)
    return wall_s - _length(_union(_of(spans, "compute")))


def any_overlap_hides(spans: Any) -> float:
    """A message that computing touches anywhere counts as hidden."""
    computing = _union(_of(spans, "compute"))
    return _length([one for one in _union(_of(spans, "communication")) if not any(_shared(one, o) for o in computing)])


def all_or_nothing(spans: Any) -> float:
    """A message counts as hidden where one span of computing covers all of it, and else as exposed."""
    computing = _union(_of(spans, "compute"))
    bare = [
        one
        for one in _union(_of(spans, "communication"))
        if not any(other[0] <= one[0] and one[1] <= other[1] for other in computing)
    ]
    return _length(bare)


def the_longest_hides(spans: Any) -> float:
    """Of the computing beside a message only the longest piece counts."""
    computing = _union(_of(spans, "compute"))
    talking = _union(_of(spans, "communication"))
    return _length(talking) - sum(max((_shared(one, o) for o in computing), default=0.0) for one in talking)


def _merged_as_they_come(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    apart: list[tuple[float, float]] = []
    for begin_s, end_s in intervals:
        if apart and begin_s <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end_s))
        else:
            apart.append((begin_s, end_s))
    return apart


def needs_order(spans: Any) -> float:
    """Merged without sorting."""
    return _exposed(_merged_as_they_come(_of(spans, "communication")), _merged_as_they_come(_of(spans, "compute")))


def _merged_to_the_last(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    apart: list[tuple[float, float]] = []
    for begin_s, end_s in sorted(intervals):
        if apart and begin_s <= apart[-1][1]:
            apart[-1] = (apart[-1][0], end_s)
        else:
            apart.append((begin_s, end_s))
    return apart


def forgets_the_longer(spans: Any) -> float:
    """Where spans overlap, the end of the later one is taken, though the earlier lasts longer."""
    return _exposed(_merged_to_the_last(_of(spans, "communication")), _merged_to_the_last(_of(spans, "compute")))


def data_hides(spans: Any) -> float:
    """Reading counts as computing."""
    return _exposed(_union(_of(spans, "communication")), _union(_of(spans, "compute", "data")))


def what_is_not_computing(spans: Any) -> float:
    """Every span that is no computing counts as communication."""
    return _exposed(_union(_of(spans, "communication", "data")), _union(_of(spans, "compute")))


def first_part_only(spans: Any) -> float:
    """What comes before the computing begins and is beside it counts; what comes after it ends does not."""
    computing = _union(_of(spans, "compute"))
    total_s = 0.0
    for begin_s, end_s in _union(_of(spans, "communication")):
        first = next((other for other in computing if _shared((begin_s, end_s), other)), None)
        total_s += end_s - begin_s if first is None else max(0.0, first[0] - begin_s)
    return total_s


def until_the_end(spans: Any) -> float:
    """What comes after the last computing; exposed messages before it are not seen."""
    last_s = max((end_s for _, end_s in _of(spans, "compute")), default=float("-inf"))
    return sum(max(0.0, end_s - max(begin_s, last_s)) for begin_s, end_s in _union(_of(spans, "communication")))


def not_without_spans(spans: Any) -> float:
    """Right, but for a list without spans."""
    edges = sorted({edge for begin_s, end_s, _ in spans for edge in (begin_s, end_s)})
    edges[0]
    return _exposed(_union(_of(spans, "communication")), _union(_of(spans, "compute")))


def rounded(spans: Any) -> float:
    """Right, to the millisecond."""
    return round(_exposed(_union(_of(spans, "communication")), _union(_of(spans, "compute"))), 3)


def sampled(spans: Any) -> float:
    """Looks every hundredth of the whole time."""
    if not spans:
        return 0.0
    first_s, last_s = min(begin_s for begin_s, _, _ in spans), max(end_s for _, end_s, _ in spans)
    step_s = (last_s - first_s) / 100
    edges = [first_s + place * step_s for place in range(101)]
    total_s = 0.0
    for left, right in pairwise(edges):
        kinds = {kind for begin_s, end_s, kind in spans if begin_s <= (left + right) / 2 < end_s}
        total_s += (right - left) * ("communication" in kinds and "compute" not in kinds)
    return total_s
