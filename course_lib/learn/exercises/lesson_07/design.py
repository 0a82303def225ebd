"""07.design: a schedule of one's own, with less memory than 1F1B and less idle time than GPipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from course_lib.base.text import counted
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Exercise, Mistake
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.failure import NotAnAnswer
from course_lib.schedules import (
    Schedule,
    from_text,
    gpipe,
    in_flight_counts,
    peak_in_flight,
    validate,
)
from course_lib.schedules.stage_times import StageTimes

__all__ = ["DESIGN"]

_P, _M, _MAX_IN_FLIGHT = 4, 6, 3
_TIMES = StageTimes.of(0.010)  # a backward takes twice the forward, each half as long as it
_CASE = f"{_P} stages, {_M} micro-batches, at most {_MAX_IN_FLIGHT} in flight"


@dataclass(frozen=True)
class _Seen:
    """What was found out about a table; an answer behaves like another when these agree."""

    problem: str
    peak_in_flight: tuple[int, ...] = ()
    idle_share: float = 0.0
    kinds: frozenset[str] = frozenset()
    holds_for_w: bool = False  # some rank is over the limit while an I has run there whose W has not

    @property
    def too_full(self) -> bool:
        return max(self.peak_in_flight, default=0) > _MAX_IN_FLIGHT

    @property
    def can_run(self) -> bool:
        return bool(self.peak_in_flight)


@cache
def _limit() -> float:
    """The idle share of GPipe, which is to be beaten."""
    return simulate(gpipe(_P, _M), _TIMES).idle_share


def _judge(answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
    if isinstance(answer, Schedule):
        answer = str(answer)
    if isinstance(getattr(answer, "schedule", None), Schedule):
        raise NotAnAnswer("What came is the studio; the table in it is its `schedule`.")
    if not isinstance(answer, str):
        raise NotAnAnswer(
            f"Give the table as a text, a line for each rank, or a schedule; what came is {short(answer)}."
        )
    seen = _look(answer)
    return Evidence((AnswerOutcome(_CASE, None, seen, difference=seen.problem),), answer=answer)


def _look(text: str) -> _Seen:
    if "," in text.partition("micro-batch")[2] or ("," in text and "micro-batch" not in text):
        return _Seen("cells are separated by blanks, and there are commas in your table")
    try:
        schedule = from_text(text)
    except ValueError as error:
        return _Seen(str(error))
    ranks, stages, m = schedule.num_ranks, schedule.num_stages, schedule.num_micro_batches
    if (ranks, stages, m) != (_P, _P, _M):
        return _Seen(
            f"the table has {counted(ranks, 'rank')}, {counted(stages, 'stage')} and {counted(m, 'micro-batch')}; "
            f"the mission has {_P} ranks with a stage each and {_M} micro-batches"
        )
    problems = validate(schedule)
    if problems:
        return _Seen(str(problems[0]))
    run, peaks = simulate(schedule, _TIMES), peak_in_flight(schedule)
    problem = ""
    if max(peaks) > _MAX_IN_FLIGHT:
        fullest = peaks.index(max(peaks))
        problem = f"rank {fullest} has {max(peaks)} micro-batches in flight; {_MAX_IN_FLIGHT} are allowed"
    elif run.idle_share >= _limit() - 1e-9:
        problem = f"{run.idle_share:.1%} of the time is idle, and under GPipe {_limit():.1%}: less is asked for"
    kinds = frozenset(action.kind for _, _, action in schedule.cells)
    return _Seen(problem, peaks, run.idle_share, kinds, _holds_for_w(schedule))


def _holds_for_w(schedule: Schedule) -> bool:
    """Whether a forward takes a rank over the limit while a W is due there."""
    for row, counts in zip(schedule.rows, in_flight_counts(schedule), strict=True):
        due = 0
        for action, count in zip(row, counts, strict=True):
            due += (action.kind == "I") - (action.kind == "W")
            if action.kind == "F" and count > _MAX_IN_FLIGHT and due:
                return True
    return False


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _seen(check: Callable[[_Seen], bool]) -> Callable[[Evidence], bool]:
    return lambda evidence: check(evidence.outcomes[0].got)


DESIGN = Exercise(
    name="07.design",
    title="A schedule of your own",
    judge=_judge,
    mistakes=(
        Mistake(
            "another-size",
            f"Keep to the mission's size: {_P} ranks with a stage each, and {_M} micro-batches, F0 to F{_M - 1}.",
            recognise=_seen(lambda seen: "the mission has" in seen.problem),
        ),
        Mistake(
            "cannot-run",
            "The table cannot run as it stands; the line below says where. The studio marks this while you type.",
            recognise=_seen(lambda seen: not seen.can_run),
        ),
        Mistake(
            "holds-everything",
            "GPipe, or close to it: on some rank all micro-batches are in flight at once. A forward beyond the third "
            "has to wait until a backward has made room.",
            recognise=_seen(lambda seen: seen.kinds == {"F", "B"} and max(seen.peak_in_flight) >= _M),
        ),
        Mistake(
            "as-1f1b",
            "Rank 0 has four micro-batches in flight, as under 1F1B, and the others have three at most. One of these "
            "forwards has to go behind the first backward; what else could the rank do while it waits?",
            recognise=_seen(
                lambda seen: (
                    seen.kinds == {"F", "B"}
                    and seen.peak_in_flight[0] == _MAX_IN_FLIGHT + 1
                    and max(seen.peak_in_flight[1:]) <= _MAX_IN_FLIGHT
                )
            ),
        ),
        Mistake(
            "w-comes-too-late",
            "The backwards are in two halves, as they should be. But an activation stays until W has used it: a rank "
            "that puts its W's off holds too many. Run a W before the forward that would be the fourth.",
            recognise=_seen(lambda seen: seen.too_full and seen.holds_for_w and "B" not in seen.kinds),
        ),
        Mistake(
            "too-many-forwards",
            f"Some rank begins a forward while {_MAX_IN_FLIGHT} micro-batches are in flight there already. It has to "
            "wait until a B, or a W, has let one go.",
            recognise=_seen(lambda seen: seen.too_full),
        ),
        Mistake(
            "whole-backwards",
            "The memory is right. With whole backwards, though, a gradient takes so long on its way up that three "
            "micro-batches cannot fill the time. No order of F and B beats GPipe here. Cut the backwards: send on I, "
            "and let W wait.",
            recognise=_seen(lambda seen: seen.kinds == {"F", "B"} and not seen.too_full),
        ),
        Mistake(
            "w-comes-at-once",
            "The memory is right and the backwards are in halves, and still too much time is idle. Look at the picture "
            "for the longest empty piece: which action ends it, and what stands in front of that action without need? "
            "Often it is a W before an I for which the stage before is waiting.",
            recognise=_seen(lambda seen: seen.kinds == {"F", "I", "W"} and not seen.too_full),
        ),
    ),
    hints=(
        "How long is a micro-batch on its way from F on rank 0 to its backward there? With whole backwards of two "
        "units, four stages take 4 + 8. Three micro-batches are nine units of work. What if only I is on the way?",
        "Cut every backward: 4 + 4 + 1 units, and three micro-batches fill nine. Begin with F0 F1 F2 on the first "
        "three ranks. Run each I as soon as it can run, and put W's where a rank would otherwise wait.",
        "Think of two groups of three. Rank 0: F0 F1 F2 I0 W0 I1 F3 I2 W1 F4 W2 F5, then the second group's I and W. "
        "Rank 3: F0 I0 F1 I1 F2 I2 W0 W1 W2, then the same for 3, 4 and 5. Ranks 1 and 2 lie between these.",
    ),
    is_value=True,
    passed="No rank has more than three micro-batches in flight, one fewer than under 1F1B, and less time is idle than "
    "under GPipe.",
)
