"""The stages, limits and micro-batches on which 07.search is tried, and how a table is judged on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.base.text import counted
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.learn.catalogue.exercise import Case
from course_lib.learn.exercises.lesson_07.search.passed_over import PASSED_OVER, passed_over
from course_lib.learn.judging.compare import Difference, short
from course_lib.schedules import (
    Schedule,
    StageTimes,
    list_schedule,
    peak_in_flight,
    validate,
    zero_bubble_auto,
)

__all__ = ["BOUND", "CASES", "FULL", "LONG", "SIZE", "WHOLE", "Wanted", "compare"]

BOUND = 1.15  # times the step of the best table that the course's two programs make
SIZE, WHOLE, FULL, LONG = (
    "another-size",
    "whole",
    "too-full",
    "too-long",
)  # kinds of differences; LONG is followed by what was seen most
_EPSILON = 1e-9

_ONE, _LONG_I, _LONG_W = StageTimes(1, 1, 1), StageTimes(1, 1.5, 0.5), StageTimes(0.8, 1, 1.3)
_LIGHT, _SLOW = StageTimes(0.25, 0.25, 0.25), StageTimes(2, 2, 2)


@dataclass(frozen=True)
class Wanted:
    """What a table is held against: what the answer was given, and the longest step that passes, in seconds."""

    times: tuple[StageTimes, ...]
    num_micro_batches: int
    max_in_flight: int
    longest_s: float


def _wanted(times: Sequence[StageTimes], num_micro_batches: int, max_in_flight: int) -> Wanted:
    tables = [list_schedule(times, num_micro_batches, max_in_flight)]
    if len(set(times)) == 1:
        tables.append(zero_bubble_auto(len(times), num_micro_batches, max_in_flight, times=times[0]))
    best_s = min(simulate(table, times).makespan_s for table in tables)
    return Wanted(tuple(times), num_micro_batches, max_in_flight, BOUND * best_s)


def compare(expected: Any, got: Any) -> str:
    """What is wrong with a table, in words."""
    if not isinstance(expected, Wanted):
        return "" if expected == got else "the tables differ"  # two answers, side by side
    if not isinstance(got, Schedule):
        return f"expected a Schedule, got {short(got)}"
    return _of_another_size(expected, got) or _cannot_run(got) or _too_full(expected, got) or _too_long(expected, got)


def _of_another_size(wanted: Wanted, got: Schedule) -> str:
    p, m = len(wanted.times), wanted.num_micro_batches
    if (got.num_ranks, got.num_stages, got.num_micro_batches) != (p, p, m):
        words = (
            f"the table has {counted(got.num_ranks, 'rank')}, {counted(got.num_stages, 'stage')} and "
            f"{counted(got.num_micro_batches, 'micro-batch')}; the task has {counted(p, 'rank')} with a stage each, "
            f"and {counted(m, 'micro-batch')}"
        )
        return Difference(words, SIZE)
    if tuple(got.rank_of_stage) != tuple(range(p)):
        return Difference(
            f"the ranks of the stages are {list(got.rank_of_stage)}; stage 0 is on rank 0, and so on", SIZE
        )
    for rank, row in enumerate(got.rows):
        if any(action.kind == "B" for action in row):
            return Difference(
                f"rank {rank} runs a whole backward (B); the task asks for I and W, its two halves", WHOLE
            )
    return ""


def _cannot_run(got: Schedule) -> str:
    problems = validate(got)
    return str(problems[0]) if problems else ""


def _too_full(wanted: Wanted, got: Schedule) -> str:
    peaks = peak_in_flight(got)
    fullest = peaks.index(max(peaks))
    if peaks[fullest] <= wanted.max_in_flight:
        return ""
    words = f"rank {fullest} has {peaks[fullest]} micro-batches in flight; at most {wanted.max_in_flight} may be"
    return Difference(words, FULL)


def _too_long(wanted: Wanted, got: Schedule) -> str:
    run = simulate(got, wanted.times)
    if run.makespan_s <= wanted.longest_s + _EPSILON:
        return ""
    words = f"the step takes {run.makespan_s:.4g} s; at most {wanted.longest_s:.4g} s are allowed"
    seen = passed_over(run, wanted.max_in_flight)
    often = max(PASSED_OVER, key=lambda pair: len(seen[pair]))
    return Difference(f"{words}; {seen[often][0]}", LONG + "".join(often)) if seen[often] else Difference(words, LONG)


def _case(name: str, times: Sequence[StageTimes], num_micro_batches: int, max_in_flight: int) -> Case:
    size = f"{counted(len(times), 'rank')}, {counted(num_micro_batches, 'micro-batch')}, limit {max_in_flight}"
    return Case(f"{size}, {name}", (list(times), num_micro_batches, max_in_flight), _wanted)


_EQUAL, _I, _W = "all times equal", "long I's", "long W's"
_FIRST, _MID, _LAST, _SLOW_LAST = "a light first stage", "a slow stage", "a light last stage", "a slow last stage"
CASES = (
    _case(_EQUAL, [_ONE] * 4, 8, 4),
    _case(_EQUAL, [_ONE] * 4, 8, 1),
    _case(_EQUAL, [_ONE] * 3, 12, 2),
    _case(_LAST, [_ONE, _ONE, _LIGHT], 12, 2),
    _case(_EQUAL, [_ONE] * 4, 8, 3),
    _case(_MID, [_ONE, _ONE, StageTimes(1.5, 1.5, 1.5), _ONE], 8, 3),
    _case(_EQUAL, [_ONE] * 4, 12, 4),
    _case(_I, [_LONG_I] * 4, 12, 4),
    _case(_W, [_LONG_W] * 4, 12, 4),
    _case(_EQUAL, [_ONE] * 3, 4, 3),
    _case(_I, [_LONG_I] * 3, 12, 3),
    _case(_I, [_LONG_I] * 6, 8, 6),
    _case(_I, [_LONG_I] * 6, 12, 2),
    _case(_EQUAL, [_ONE] * 6, 8, 6),
    _case(_FIRST, [_LIGHT, *[_ONE] * 5], 8, 2),
    _case(_MID, [_ONE, _ONE, _ONE, _SLOW, _ONE, _ONE], 4, 8),
    _case(_SLOW_LAST, [_ONE, _ONE, _ONE, _SLOW], 12, 2),
    _case(_MID, [_ONE, _SLOW, _ONE], 4, 1),
    _case(_EQUAL, [_ONE] * 4, 4, 8),
    _case(_W, [_LONG_W] * 5, 3, 4),
    _case(_EQUAL, [_ONE] * 4, 1, 4),
    _case(_W, [_LONG_W] * 2, 6, 4),
    _case(_I, [_LONG_I], 5, 2),
    _case(_EQUAL, [_ONE], 3, 1),
)
