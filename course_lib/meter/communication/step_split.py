"""Where the time of a step went, rank by rank: computing, messages, waiting for others. From the calls of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from course_lib.meter.communication.call import Call
from course_lib.meter.communication.communication import Communication

__all__ = ["StepSplit", "mean_split", "split_step"]

_Key = tuple[Any, ...]


@dataclass(frozen=True)
class StepSplit:
    """Seconds of one rank, or the means of several; the parts add up to ``step_s``.

    ``waiting_s``: the rank had asked for a message or a collective, and somebody who takes part had not.
    ``messages_s``: all had, and the rank went on only when the result was there. ``computing_s`` is the rest. Where
    ranks share cores, what a rank waits for a core counts to what it did then. ``undivided_s`` is the whole step
    where no clock of the host saw a call end, as with NCCL, and the others are 0 then.
    """

    computing_s: float = 0.0
    messages_s: float = 0.0
    waiting_s: float = 0.0
    undivided_s: float = 0.0

    @property
    def step_s(self) -> float:
        return self.computing_s + self.messages_s + self.waiting_s + self.undivided_s


def split_step(communication: Communication, step: int) -> tuple[StepSplit, ...]:
    """How each rank spent the time between two barriers: those that it called as number ``step`` and ``step + 1``,
    from 0. The second one counts, for in it a rank waits for the slowest.

    Raises ``ValueError`` where a rank has called fewer barriers.
    """
    ranks = range(communication.world_size)
    calls = {rank: communication.of(rank).calls for rank in ranks}
    all_there_s = _all_there(calls)
    return tuple(_split(calls[rank], step, all_there_s) for rank in ranks)


def mean_split(splits: Iterable[StepSplit]) -> StepSplit:
    """The mean of several ranks, part by part. Raises ``ValueError`` for none."""
    found = list(splits)
    if not found:
        raise ValueError("there is no step to take the mean of; give the splits of at least one rank")
    parts = ("computing_s", "messages_s", "waiting_s", "undivided_s")
    return StepSplit(**{part: sum(getattr(one, part) for one in found) / len(found) for part in parts})


def _split(calls: tuple[Call, ...], step: int, all_there_s: Mapping[_Key, float]) -> StepSplit:
    keyed = list(zip(_keys(calls), calls, strict=True))
    barriers = [place for place, call in enumerate(calls) if call.operation == "barrier"]
    if not 0 <= step < len(barriers) - 1:
        raise ValueError(f"step {step} lies between two barriers, and the rank called {len(barriers)}; call one more")
    first, last = barriers[step], barriers[step + 1]
    within = keyed[first + 1 : last + 1]
    if any(call.end_s is None for call in (calls[first], *(call for _, call in within))):
        return StepSplit(undivided_s=calls[last].start_s - calls[first].start_s)
    now_s, end_s = calls[first].end_s or 0.0, calls[last].end_s or 0.0
    begin_s, messages_s, waiting_s = now_s, 0.0, 0.0
    for key, call in sorted(within, key=lambda pair: _blocked_from(pair[1])):
        there_s = max(now_s, min(call.end_s or 0.0, end_s))
        from_s = min(max(now_s, _blocked_from(call)), there_s)
        others_s = min(max(from_s, all_there_s.get(key, from_s)), there_s)
        waiting_s += others_s - from_s
        messages_s += there_s - others_s
        now_s = there_s
    return StepSplit(end_s - begin_s - messages_s - waiting_s, messages_s, waiting_s)


def _blocked_from(call: Call) -> float:
    """From when on the rank did nothing else: since it waited for the call, or since it began one without a wait."""
    return call.start_s if call.waited_s is None else call.waited_s


def _all_there(calls: Mapping[int, tuple[Call, ...]]) -> dict[_Key, float]:
    """When the last of those who take part began: of a collective the last rank, of a message the sender."""
    found: dict[_Key, float] = {}
    for mine in calls.values():
        for key, call in zip(_keys(mine), mine, strict=True):
            if call.operation != "recv":
                found[key] = max(found.get(key, 0.0), call.start_s)
    return found


def _keys(calls: Iterable[Call]) -> list[_Key]:
    """What names the same message or collective on every rank: who takes part, and the how manyth it is of those."""
    counts: Counter[_Key] = Counter()
    keys = []
    for call in calls:
        ends = (call.rank, call.peer) if call.operation == "send" else (call.peer, call.rank)
        key: _Key = (*ends, call.tag, call.group_name) if call.is_message else (call.group, call.group_name)
        keys.append((*key, counts[key]))
        counts[key] += 1
    return keys
