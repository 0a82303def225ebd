"""07.search: a program that makes a schedule under a limit of memory, for stages of any times.

Any table passes that is valid, keeps to the limit and is short enough. So a judge of answers without ranks
(``cases.py``), and mistakes that are recognised by what tables have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_07.search.cases import BOUND, CASES, FULL, LONG, SIZE, WHOLE, Wanted, compare
from course_lib.learn.exercises.lesson_07.search.passed_over import passed_over
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.schedules import Action, Schedule, peak_in_flight

__all__ = ["SEARCH"]

_LIMIT_S = 30.0  # of all cases together, for answers that try many tables


def _any_is(kind: str) -> Callable[[Evidence], bool]:
    return lambda evidence: any(outcome.kind_of_difference == kind for outcome in evidence.outcomes)


def _shown(*kinds: str) -> Callable[[AnswerOutcome], bool]:
    return lambda outcome: outcome.kind_of_difference in kinds


def _all_are(kind: str, evidence: Evidence) -> bool:
    """Whether whatever is wrong is wrong in this way, and what is wrong is a table."""
    return bool(evidence.wrong) and all(outcome.kind_of_difference.startswith(kind) for outcome in evidence.wrong)


def _tables(evidence: Evidence) -> Iterator[tuple[Wanted, Schedule]]:
    """All tables, with what they were asked for."""
    for outcome in evidence.outcomes:
        if isinstance(outcome.expected, Wanted) and isinstance(outcome.got, Schedule):
            yield outcome.expected, outcome.got


def _alike(evidence: Evidence, is_pair: Callable[[Wanted, Wanted], bool]) -> bool:
    """Whether in each such pair of cases the two tables are the same, and there is a pair."""
    pairs = [
        one.rows == other.rows
        for (wanted, one), (others, other) in combinations(list(_tables(evidence)), 2)
        if is_pair(wanted, others) or is_pair(others, wanted)
    ]
    return bool(pairs) and all(pairs)


def _same_but(name: str, wanted: Wanted, other: Wanted) -> bool:
    """Whether two cases have the same number of ranks and micro-batches, and differ in this alone."""
    if len(wanted.times) != len(other.times) or wanted.num_micro_batches != other.num_micro_batches:
        return False
    differs = {"max_in_flight": wanted.max_in_flight != other.max_in_flight, "times": wanted.times != other.times}
    return differs.pop(name) and not any(differs.values())


def _same_table_at_each_limit(evidence: Evidence) -> bool:
    return _all_are(FULL, evidence) and _alike(evidence, lambda one, two: _same_but("max_in_flight", one, two))


def _one_too_many(evidence: Evidence) -> bool:
    over = [max(peak_in_flight(got)) - wanted.max_in_flight for wanted, got in _tables(evidence)]
    return _all_are(FULL, evidence) and max(over) == 1 and over.count(1) > 1


def _counts_until_i(evidence: Evidence) -> bool:
    """Whether every table keeps to its limit, when a micro-batch is let go by I."""
    return _all_are(FULL, evidence) and all(
        _between_f_and_i(got) <= wanted.max_in_flight for wanted, got in _tables(evidence)
    )


def _between_f_and_i(schedule: Schedule) -> int:
    most = 0
    for row in schedule.rows:
        held = 0
        for action in row:
            held += (action.kind == "F") - (action.kind == "I")
            most = max(most, held)
    return most


def _same_table_for_all_times(evidence: Evidence) -> bool:
    return _all_are(LONG, evidence) and _alike(evidence, lambda one, two: _same_but("times", one, two))


def _as_the_first_stage(evidence: Evidence) -> bool:
    """Whether a table of uneven stages is the one for stages that are all as the first."""
    return _all_are(LONG, evidence) and _alike(
        evidence,
        lambda uneven, even: (
            _same_but("times", uneven, even) and set(even.times) == {uneven.times[0]} and len(set(uneven.times)) > 1
        ),
    )


def _w_at_once(evidence: Evidence) -> bool:
    return _all_are(LONG, evidence) and all(_follows_at_once(row) for _, got in _tables(evidence) for row in got.rows)


def _follows_at_once(row: Sequence[Action]) -> bool:
    kinds = "".join(action.kind for action in row)
    return kinds.count("IW") == kinds.count("I")


def _passes_over(ran: str) -> Callable[[Evidence], bool]:
    """Whether, in the tables that take too long, it is this kind that most often runs before its turn."""

    def recognise(evidence: Evidence) -> bool:
        if not _all_are(LONG, evidence):
            return False
        count: dict[str, int] = {"F": 0, "W": 0}
        for outcome in evidence.wrong:
            found = passed_over(simulate(outcome.got, outcome.expected.times), outcome.expected.max_in_flight)
            for (early, _), places in found.items():
                count[early] += len(places)
        return count[ran] > 0 and count[ran] == max(count.values())

    return recognise


SEARCH = Exercise(
    name="07.search",
    title="A schedule under a limit of memory",
    judge=by_cases_apart(CASES, compare=compare, limit_s=_LIMIT_S),
    mistakes=(
        Mistake(
            "another-size",
            "A table has another size than it should: a rank for each item of `times`, with the stage of its number, "
            "and `num_micro_batches` micro-batches.",
            recognise=_any_is(SIZE),
            shows=_shown(SIZE),
        ),
        Mistake(
            "whole-backwards",
            "A table runs whole backwards (B). This search places I and W by themselves, so that each comes when it "
            "suits.",
            recognise=_any_is(WHOLE),
            shows=_shown(WHOLE),
        ),
        Mistake(
            "counts-until-i",
            "Between F and I no rank has more micro-batches than the limit. But a micro-batch is in flight until its "
            "W: W still needs the inputs of every layer. Count F's less W's.",
            recognise=_counts_until_i,
        ),
        Mistake(
            "one-too-many",
            "Where a rank is over its limit, it is by one. A forward that begins takes room itself: before it, fewer "
            "than `max_in_flight` may be in flight.",
            recognise=_one_too_many,
        ),
        Mistake(
            "same-at-each-limit",
            "Where two cases differ in nothing but the limit, your two tables are the same. And some rank is over its "
            "limit.",
            recognise=_same_table_at_each_limit,
        ),
        Mistake(
            "over-the-limit",
            "Every table can run, and in some a rank begins a forward while it is full. It has to wait until a W has "
            "let a micro-batch go.",
            recognise=lambda evidence: _all_are(FULL, evidence),
        ),
        Mistake(
            "same-for-all-times",
            "Cases that differ in nothing but the times got the same table. It keeps to the limit, and for some times "
            "it takes too long. Do the times come into what goes next, and is nothing kept from the call before?",
            recognise=_same_table_for_all_times,
        ),
        Mistake(
            "as-the-first-stage",
            "For uneven stages you made the table that you make where all stages are as the first. `times[s]` are "
            "those of stage s.",
            recognise=_as_the_first_stage,
        ),
        Mistake(
            "w-at-once",
            "In your tables each W follows its I at once, and some take too long. Nobody waits for a W but a rank that "
            "is full: what could run there before it?",
            recognise=_w_at_once,
        ),
        Mistake(
            "f-before-i",
            "Some tables take too long. In these a forward begins where an I could begin at the same moment. For whom "
            "does each of them make work?",
            recognise=_passes_over("F"),
            shows=_shown(f"{LONG}FI"),
        ),
        Mistake(
            "w-before-others",
            "Some tables take too long. In these a W begins where an I or a forward could begin at the same moment. "
            "Which of them does another rank wait for?",
            recognise=_passes_over("W"),
            shows=_shown(f"{LONG}WI", f"{LONG}WF"),
        ),
    ),
    hints=(
        "Place one action at a time. For each rank, which three may come next: an F, an I and a W? When could each of "
        "them start at the earliest?",
        "Keep three things: how many F, I and W each stage has placed, when each rank is free, and when each placed "
        "action ends. Place what can start first on any rank, of all that may come next. Where several can start at "
        "the same moment, ask which of them another rank waits for.",
        "Until 3 p m actions are placed, look at each stage s and each kind of I, F, W with its next number i. Skip it "
        "where what it needs has no end yet. Skip an F where F's less W's are at the limit. Its start is `max(free[s], "
        "ready)`. Take the smallest `(start, 'IFW'.index(kind), s)`, and note its end.",
    ),
    forbidden=(
        "course_lib.schedules.list_schedule",
        "course_lib.schedules.zero_bubble_auto",
        "course_lib.schedules.get_schedule",
    ),
    passed="Every table can run and keeps to its limit. No step takes more than "
    f"{BOUND - 1:.0%} longer than the better of two programs of the course.",
)
