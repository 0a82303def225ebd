"""A judge that runs an answer on ranks under the communication meter: the values must be right, and the cost.

What happens on a rank is in ``on_rank.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import torch

from course_lib.cluster.api.shared import shared_cluster
from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_02.on_rank import metered_trial, third_call
from course_lib.learn.judging.compare import Difference
from course_lib.learn.judging.judge import RankJudge
from course_lib.meter import Call, Communication

__all__ = [
    "THIRD_CALL",
    "TYPES",
    "CostJudge",
    "beside_messages",
    "by_messages_alone",
    "calls_of",
    "cost_label",
    "forest_rounds",
    "is_for_all",
    "sent",
    "values_are_right",
]

_COUNTED = ", where what is sent is counted"
THIRD_CALL = ", in a third call of the same shape"
TYPES = "other types sent"  # in what came of a cost
_BYTES = ("uint8", "int8")  # who sends a tensor's bytes as they are loses nothing
SPOILT = "value-and-input"  # a kind of difference: both are wrong
_ITS_OWN = "the tensor that was handed in is what came back"

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
            if any(outcome.error or outcome.unwaited for outcome in seen.outcomes):
                break  # each such case is a long one: a limit runs out, or ranks are replaced
        if all(outcome.right for outcome in outcomes):
            outcomes += self._weighed([*inner.again(answer, forbidden), *self._third_call(inner, answer, forbidden)])
        if self.also and all(outcome.right for outcome in outcomes):
            seen = replace(inner, world_sizes=(self.also,))(answer, forbidden)
            called.update(seen.called)
            outcomes += self._weighed(seen.outcomes)
            shared_cluster(self.also).close()
        return Evidence(tuple(outcomes), answer=answer, called=tuple(sorted(called)))

    def _third_call(self, inner: RankJudge, answer: Any, forbidden: tuple[str, ...]) -> Sequence[AnswerOutcome]:
        """The last case once more, in the third of three calls with tensors of one shape.

        Each case travels with an answer of its own, so what one keeps from call to call is met here alone.
        """
        last = inner.cases[-1]
        case = replace(last, label=f"{last.label}{THIRD_CALL}")
        third = partial(third_call, self.ranks.call, self.handed)
        return replace(inner, world_sizes=self.world_sizes[:1], cases=(case,), call=third)(answer, forbidden).outcomes

    def _weighed(self, seen: Sequence[AnswerOutcome]) -> list[AnswerOutcome]:
        """What was seen on the ranks, and after each case its cost."""
        outcomes: list[AnswerOutcome] = []
        for is_error, group in groupby(seen, key=lambda outcome: outcome.error is not None):
            if is_error:
                outcomes += group
                continue
            for (label, world_size), ranks in groupby(group, key=_case_of):
                outcomes += self._of_a_case(label, world_size, list(ranks))
        return outcomes

    def _of_a_case(self, label: str, world_size: int, ranks: list[AnswerOutcome]) -> list[AnswerOutcome]:
        """What all ranks gave, and then what they sent for it."""
        unfilled = [rank for rank, one in enumerate(ranks) if self.compare(one.expected, one.got.handed)]
        outcomes = [
            AnswerOutcome(one.case, one.expected, one.got.value, difference=self._wrong(one, unfilled)) for one in ranks
        ]
        if label in self.weigh and world_size > 1:
            calls = tuple(call for one in ranks for call in one.got.calls)
            outcomes.append(self._cost(label, Communication(world_size, calls), ranks[0].got.handed))
        return outcomes

    def _wrong(self, outcome: AnswerOutcome, unfilled: Sequence[int]) -> str:
        """What is wrong on one rank. ``outcome.difference`` is what the judge of ranks saw beside the values.

        ``unfilled``: the ranks on which the tensor that was handed in does not hold the result.
        """
        tried = outcome.got
        if outcome.unwaited:  # before the values: nobody knows them until then
            return outcome.difference
        value = self.compare(outcome.expected, tried.value)
        if value and self.handed == "kept" and (tried.changed or tried.is_handed):
            return Difference(f"{value}; and {tried.changed or _ITS_OWN}", SPOILT)
        return value or self._of_the_tensor(outcome.expected, tried, unfilled) or outcome.difference or tried.stayed

    def _of_the_tensor(self, expected: Any, tried: Any, unfilled: Sequence[int]) -> str:
        """What is wrong with the tensor that was handed in, where what came back is right."""
        if tried.is_moved:
            return (
                "the tensor that was handed in has other memory now: `.data =` and `.set_()` exchange it. Code that "
                "has a view of the tensor keeps the old numbers. Write into it"
            )
        if self.handed == "filled":
            if found := self.compare(expected, tried.handed):
                return f"what came back is right, and the tensor that was handed in is to hold the same: {found}"
            if not tried.is_handed:
                came = _what_came(tried.value)
                elsewhere = f", and on rank {unfilled[0]} that tensor does not hold the result" if unfilled else ""
                advice = "write into that tensor, and give it back" if unfilled else "give back that tensor"
                return f"the tensor that was handed in is right, and what came back is {came}{elsewhere}; {advice}"
        if self.handed == "kept":
            if tried.changed:
                return f"what came back is right, and {tried.changed}"
            if tried.is_handed:
                return "what came back shares its memory with the tensor that was handed in"
        return ""

    def _cost(self, label: str, communication: Communication, handed: Any) -> AnswerOutcome:
        expected, got, wrong = self.weigh[label](communication)
        own = str(getattr(handed, "dtype", "")).removeprefix("torch.")
        messages = [call for call in communication.calls if call.sent_bytes and not is_for_all(call)]
        carried = messages or communication.calls  # a collective beside messages carries no part of the tensor
        sent_types = {call.dtype: call.rank for call in carried if call.sent_bytes and call.dtype}
        if {*_BYTES} & {*sent_types} - {own}:
            sent_types = {}  # sizes may travel with the bytes
        others = {dtype: rank for dtype, rank in sent_types.items() if own and dtype != own}
        got = {**got, TYPES: sorted(others)}
        for dtype, rank in others.items():
            said = f"rank {rank} sent {dtype}, and the numbers of its tensor are {own}"
            wrong = f"{wrong}; {said}" if wrong else said
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


def beside_messages(communication: Communication, size_bytes: int) -> str:
    """Which collective was called beside messages that carry the whole tensor on each rank; empty: none."""
    for rank in range(communication.world_size):
        alone = [call for call in calls_of(communication, rank) if not is_for_all(call)]
        if sum(sum(call.sent_bytes.values()) for call in alone) != size_bytes:
            return ""
    for call in filter(is_for_all, communication.calls):
        where = f" (line {call.line.line_number})" if call.line else ""
        return f"rank {call.rank} called, besides its message, {call.operation}{where}; a message needs none"
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


def _case_of(outcome: AnswerOutcome) -> tuple[str, int]:
    """Label and world size."""
    label, _, world_size = _parts(outcome.case)
    return label, world_size


def _parts(case: str) -> tuple[str, int, int]:
    """Label, rank and world size of "label, rank 1 of 4"."""
    label, _, place = case.rpartition(", rank ")
    rank, _, world_size = place.partition(" of ")
    return label, int(rank), int(world_size)
