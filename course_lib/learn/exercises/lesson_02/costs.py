"""A judge that runs an answer on ranks under the communication meter: the values must be right, and the cost.

What happens on a rank is in ``on_rank.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from course_lib.cluster.api.shared import shared_cluster
from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_02.on_rank import metered_trial
from course_lib.learn.judging.judge import RankJudge
from course_lib.meter import Call, Communication

__all__ = [
    "CostJudge",
    "by_messages_alone",
    "calls_of",
    "cost_label",
    "forest_rounds",
    "is_for_all",
    "sent",
    "values_are_right",
]

_COUNTED = ", where what is sent is counted"
_NEVER_WAITED = "never waited for it"  # of the judge of ranks

Weigh = Callable[[Communication], tuple[Mapping[str, Any], Mapping[str, Any], str]]


@dataclass(frozen=True)
class CostJudge:
    """``ranks`` tries the values. After each of its cases that ``weigh`` names by label, the cost is an outcome too.

    ``weigh[label](communication)`` gives what was expected, what came, and the difference in words (empty: none).
    ``also`` is a larger world size, tried where all else is right; its ranks end with the trial, as no page uses them.
    ``handed`` says what becomes of the one tensor that the answer is handed: "filled" (it holds the result afterwards,
    and is what comes back), "kept" (it stays as it was, and another one comes back); empty: it is not looked at.
    """

    ranks: RankJudge
    weigh: Mapping[str, Weigh]
    handed: str = ""
    also: int = 0

    @property
    def world_sizes(self) -> tuple[int, ...]:
        return self.ranks.world_sizes

    def compare(self, expected: Any, got: Any) -> str:
        return self.ranks.compare(expected, got)

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        metered = partial(metered_trial, self.ranks.call, self.handed)
        inner = replace(self.ranks, compare=lambda expected, got: "", call=metered, changes=True, calls_again=False)
        outcomes: list[AnswerOutcome] = []
        called: set[str] = set()
        for world_size in self.world_sizes:
            seen = replace(inner, world_sizes=(world_size,))(answer, forbidden)
            called.update(seen.called)
            outcomes += self._weighed(seen.outcomes)
            if any(outcome.error or _NEVER_WAITED in outcome.difference for outcome in seen.outcomes):
                break  # each such case is a long one: a limit runs out, or ranks are replaced
        if all(outcome.right for outcome in outcomes):
            outcomes += self._weighed(inner.again(answer, forbidden))
        if self.also and all(outcome.right for outcome in outcomes):
            seen = replace(inner, world_sizes=(self.also,))(answer, forbidden)
            called.update(seen.called)
            outcomes += self._weighed(seen.outcomes)
            shared_cluster(self.also).close()
        return Evidence(tuple(outcomes), answer=answer, called=tuple(sorted(called)))

    def _weighed(self, seen: Sequence[AnswerOutcome]) -> list[AnswerOutcome]:
        """What was seen on the ranks, and after each case its cost."""
        outcomes: list[AnswerOutcome] = []
        calls: list[Call] = []
        for outcome in seen:
            if outcome.error is not None:
                outcomes.append(outcome)
                continue
            tried = outcome.got
            calls += tried.calls
            wrong = self._wrong(outcome)
            outcomes.append(AnswerOutcome(outcome.case, outcome.expected, tried.value, difference=wrong))
            label, rank, world_size = _parts(outcome.case)
            if rank == world_size - 1:
                if label in self.weigh and world_size > 1:
                    outcomes.append(self._cost(label, Communication(world_size, tuple(calls))))
                calls = []
        return outcomes

    def _wrong(self, outcome: AnswerOutcome) -> str:
        """What is wrong on one rank. ``outcome.difference`` is what the judge of ranks saw beside the values."""
        tried = outcome.got
        if _NEVER_WAITED in outcome.difference:  # before the values: nobody knows them until then
            return outcome.difference
        value = self.compare(outcome.expected, tried.value)
        return value or self._of_the_tensor(outcome.expected, tried) or outcome.difference

    def _of_the_tensor(self, expected: Any, tried: Any) -> str:
        """What is wrong with the tensor that was handed in, where what came back is right."""
        if tried.is_moved:
            return (
                "the tensor that was handed in has other memory now: `.data =` and `.set_()` exchange it, and whoever "
                "has a view of the tensor keeps the old numbers; write into it"
            )
        if self.handed == "filled":
            if found := self.compare(expected, tried.handed):
                return f"what came back is right, and the tensor that was handed in is to hold the same: {found}"
            if not tried.is_handed:
                came = _what_came(tried.value)
                return f"the tensor that was handed in is right, and what came back is {came}; give back that tensor"
        if self.handed == "kept":
            if tried.changed:
                return f"what came back is right, and {tried.changed}"
            if tried.is_handed:
                return "what came back shares its memory with the tensor that was handed in"
        return ""

    def _cost(self, label: str, communication: Communication) -> AnswerOutcome:
        expected, got, wrong = self.weigh[label](communication)
        return AnswerOutcome(cost_label(communication.world_size, label), expected, got, difference=wrong.rstrip("."))


def _what_came(value: Any) -> str:
    """What came back in place of the tensor that was handed in, and is equal to it."""
    if isinstance(value, torch.Tensor):
        return "a copy"
    kind = type(value).__name__
    return f"a Python {kind}" if isinstance(value, list | tuple) else f"of the type `{kind}`"


def by_messages_alone(communication: Communication) -> str:
    """Which collective was called, where single messages were asked for; empty: none."""
    for call in filter(is_for_all, communication.calls):
        where = f" (line {call.line.line_number})" if call.line else ""
        if call.operation == "barrier":
            count = sum(one.operation == "barrier" for one in calls_of(communication, call.rank))
            barriers = f"{count} barrier{'s' * (count > 1)}"
            return f"rank {call.rank} called, besides the messages, {barriers}{where}; a message needs none"
        return f"rank {call.rank} called {call.operation}{where}, in which all ranks take part; use single messages"
    return ""


def is_for_all(call: Call) -> bool:
    """Whether a call is no single message."""
    return call.operation not in ("send", "recv")


def calls_of(communication: Communication, rank: int) -> list[Call]:
    """The calls of one rank."""
    return [call for call in communication.calls if call.rank == rank]


def cost_label(world_size: int, label: str) -> str:
    """The case in which it is counted what ``world_size`` ranks send, with the input of this label."""
    return f"{label} on {world_size} ranks{_COUNTED}"


def values_are_right(evidence: Evidence) -> bool:
    """Whether every value came out right, whatever it cost."""
    values = [outcome for outcome in evidence.outcomes if not outcome.case.endswith(_COUNTED)]
    return bool(values) and all(outcome.right for outcome in values)


def sent(evidence: Evidence, what: str, world_size: int = 4) -> Any:
    """A part of the cost of the first input on so many ranks: ``sent(evidence, "bytes by rank")``."""
    return next(one.got[what] for one in evidence.outcomes if one.case.endswith(cost_label(world_size, "")))


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
