"""A judge that runs an answer on ranks under the communication meter: the values must be right, and the cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from course_lib.learn.exercise import Evidence, Outcome
from course_lib.learn.judge import RankJudge
from course_lib.meter import Call, Communication

__all__ = ["CostJudge", "cost_label", "forest_rounds", "sent", "values_are_right"]

Weigh = Callable[[Communication], tuple[Mapping[str, Any], Mapping[str, Any], str]]


@dataclass(frozen=True)
class CostJudge:
    """``ranks`` tries the values. After each of its cases that ``weigh`` names by label, the cost is an outcome too.

    ``weigh[label](communication)`` gives what was expected, what came, and the difference in words (empty: none).
    """

    ranks: RankJudge
    weigh: Mapping[str, Weigh]

    @property
    def world_sizes(self) -> tuple[int, ...]:
        return self.ranks.world_sizes

    def compare(self, expected: Any, got: Any) -> str:
        return self.ranks.compare(expected, got)

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        metered = partial(_metered, self.ranks.call)
        inner = replace(self.ranks, compare=lambda expected, got: "", call=metered)
        seen = inner(answer, forbidden)
        outcomes: list[Outcome] = []
        calls: list[Call] = []
        for outcome in seen.outcomes:
            if outcome.error is not None:
                outcomes.append(outcome)
                continue
            value, mine = outcome.got
            calls += mine
            wrong = self.compare(outcome.expected, value)
            outcomes.append(Outcome(outcome.case, outcome.expected, value, difference=wrong))
            label, rank, world_size = _parts(outcome.case)
            if rank == world_size - 1:
                if label in self.weigh and world_size > 1:
                    outcomes.append(self._cost(label, Communication(world_size, tuple(calls))))
                calls = []
        return Evidence(tuple(outcomes), answer=answer, called=seen.called)

    def _cost(self, label: str, communication: Communication) -> Outcome:
        expected, got, wrong = self.weigh[label](communication)
        return Outcome(cost_label(communication.world_size), expected, got, difference=wrong)


def _metered(call: Callable[..., Any] | None, answer: Callable[..., Any], me: Any, *args: Any) -> Any:
    """The answer's value and the calls that it made."""
    from course_lib.meter.recorder import Recorder

    with Recorder(me.rank) as recorder:
        value = answer(me, *args) if call is None else call(answer, me, *args)
    return value, recorder.calls


def cost_label(world_size: int) -> str:
    """The case in which the cost on so many ranks is looked at."""
    return f"the cost on {world_size} ranks"


def values_are_right(evidence: Evidence) -> bool:
    """Whether every value came out right, whatever it cost."""
    values = [outcome for outcome in evidence.outcomes if not outcome.case.startswith("the cost")]
    return bool(values) and all(outcome.right for outcome in values)


def sent(evidence: Evidence, what: str, world_size: int = 4) -> Any:
    """A part of the cost that came on so many ranks: ``sent(evidence, "bytes by rank")``."""
    return evidence.got(cost_label(world_size))[what]


def forest_rounds(communication: Communication) -> int | None:
    """Rounds until a tensor of rank 0 is everywhere, when a rank sends one message at a time, in its own order.

    None where a rank does not get it, gets it twice, or where rank 0 does.
    """
    receivers: dict[int, list[int]] = {rank: [] for rank in range(communication.world_size)}
    for call in sorted(communication.calls, key=lambda call: (call.rank, call.number)):
        receivers[call.rank] += list(call.sent_bytes)
    has_it = {0: 0}
    going = [0]
    for rank in going:
        for number, receiver in enumerate(receivers[rank], start=1):
            if receiver in has_it:
                return None
            has_it[receiver] = has_it[rank] + number
            going.append(receiver)
    return max(has_it.values()) if len(has_it) == communication.world_size else None


def _parts(case: str) -> tuple[str, int, int]:
    """Label, rank and world size of "label, rank 1 of 4"."""
    label, _, place = case.rpartition(", rank ")
    rank, _, world_size = place.partition(" of ")
    return label, int(rank), int(world_size)
