"""A step played again from what was seen of it: what its ranks computed, sent and waited for, and nothing else.

A clock tells of a step how it was, and of the machine how busy it was. So each rank's doings are kept in their order:
so many sequences through a block, a collective begun, a wait for it. Played again, computing takes the job's pace,
messages take the job's links (by the arithmetic of ``course_lib.cluster.links.link_times``, which shapes them in a run,
too), and everything else takes no time. Another moment, or another machine, gives the same number.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from course_lib.cluster.links.link_times import TREES, Ports, edge, joint_times, settle_tree
from course_lib.cluster.links.links import Links
from course_lib.meter.communication.call import Call

__all__ = ["BegunOp", "Did", "in_order", "replayed_s"]

_MESSAGES = ("send", "recv")
_START_S = 1.0  # any moment but 0, which means "not yet"


class BegunOp(NamedTuple):
    """A collective, or one end of a message, as a rank began it. ``parts_bytes``: what it has for every place."""

    operation: str
    ranks: tuple[int, ...]  # of a message, from and to
    group_rank: int
    series: tuple[object, ...]  # calls of one series are matched in their order
    root: int
    parts_bytes: tuple[float, ...]


class Did(NamedTuple):
    """One thing that a rank did: "compute" for ``time_s``, or "start" or "wait" for its call of this ``number``."""

    do: str
    time_s: float = 0.0
    number: int = 0
    call: BegunOp | None = None  # None for a message that anybody might have sent


def in_order(calls: Sequence[Call], blocks: Iterable[tuple[float, str, float]], row_s: float) -> tuple[Did, ...]:
    """What a rank did in a step, by its meter and its tally.

    ``blocks``: when sequences had gone through a block, which way, and how many. A collective for which nobody was seen
    to wait, as in C++, is waited for at the end; such a message is not waited for.
    """
    ordered = [
        (moment_s, Did("compute", rows * row_s * (1 if way == "forward" else 2))) for moment_s, way, rows in blocks
    ]
    for call in calls:
        if len(call.group) == 1:
            continue
        ordered.append((call.start_s, Did("start", number=call.number, call=_began(call))))
        if call.waited_s is not None:
            ordered.append((call.waited_s, Did("wait", number=call.number)))
        elif not call.is_message:
            ordered.append((float("inf"), Did("wait", number=call.number)))
    return tuple(did for _, did in sorted(ordered, key=lambda one: one[0]))


def _began(call: Call) -> BegunOp | None:
    group, size_bytes = call.group, float(call.size_bytes)
    if call.operation in _MESSAGES:
        if call.peer is None:
            return None
        ends = (call.rank, call.peer) if call.operation == "send" else (call.peer, call.rank)
        series = (call.group_name, *ends, call.tag)
        return BegunOp("send", ends, int(call.operation == "recv"), series, 0, (size_bytes, size_bytes))
    root = group.index(call.root) if call.root is not None else 0
    parts = (size_bytes,) * len(group)
    if call.operation == "all_to_all":
        parts = tuple(float(call.sent_bytes.get(rank, 0)) for rank in group)
    elif call.operation == "scatter":  # the root alone has something, and that is all parts
        parts = (size_bytes / len(group),) * len(group)
    return BegunOp(call.operation, group, group.index(call.rank), (call.group_name, group), root, parts)


def replayed_s(links: Links, ranks: Sequence[Sequence[Did]]) -> float | None:
    """Seconds until the last rank is done; None where that cannot be told: a message from anybody, or a call that
    other ranks began in another step.
    """
    if any(did.do == "start" and did.call is None for one in ranks for did in one):
        return None
    return _Play(links, ranks).go()


@dataclass
class _Underway:
    """A call that some of its ranks have begun."""

    call: BegunOp
    entered_s: dict[int, float] = field(default_factory=dict)  # by place
    parts_bytes: dict[int, tuple[float, ...]] = field(default_factory=dict)
    done_s: list[float] = field(default_factory=list)  # by place, as soon as it is known


class _Play:
    def __init__(self, links: Links, ranks: Sequence[Sequence[Did]]) -> None:
        self.links, self.ranks = links, ranks
        self.next = [0] * len(ranks)  # of each rank, how many things are done
        self.now_s = [_START_S] * len(ranks)
        self.out = [0.0] * Ports.count(links, len(ranks))
        self.into = list(self.out)
        self.numbers: list[Counter[object]] = [Counter() for _ in ranks]
        self.underway: dict[object, _Underway] = {}
        self.mine: list[dict[int, tuple[_Underway, int]]] = [{} for _ in ranks]
        self.ready: list[tuple[float, int, _Underway]] = []
        self.count = itertools.count()

    def go(self) -> float | None:
        for rank in range(len(self.ranks)):
            self._advance(rank)
        while self.ready:
            _, _, one = heapq.heappop(self.ready)
            self._settle(one)
            for rank in one.call.ranks:
                self._advance(rank)
        is_over = all(at == len(did) for at, did in zip(self.next, self.ranks, strict=True))
        return max(self.now_s) - _START_S if is_over else None

    def _advance(self, rank: int) -> None:
        """Until it has to wait for a call of which nobody knows yet when it is done."""
        todo = self.ranks[rank]
        while self.next[rank] < len(todo):
            did = todo[self.next[rank]]
            if did.do == "compute":
                self.now_s[rank] += did.time_s
            elif did.do == "start":
                assert did.call is not None
                self._start(rank, did.number, did.call)
            else:
                one, place = self.mine[rank][did.number]
                if not one.done_s:
                    return
                self.now_s[rank] = max(self.now_s[rank], one.done_s[place])
            self.next[rank] += 1

    def _start(self, rank: int, number: int, call: BegunOp) -> None:
        side = (*call.series, call.group_rank) if call.operation == "send" else call.series
        self.numbers[rank][side] += 1
        key = (call.operation == "send", *call.series, self.numbers[rank][side])
        one = self.underway.setdefault(key, _Underway(call))
        one.entered_s[call.group_rank], one.parts_bytes[call.group_rank] = self.now_s[rank], call.parts_bytes
        self.mine[rank][number] = (one, call.group_rank)
        if len(one.entered_s) == len(call.ranks):
            heapq.heappush(self.ready, (max(one.entered_s.values()), next(self.count), one))

    def _settle(self, one: _Underway) -> None:
        """Book the ports for every message of a call that all have begun."""
        call, places = one.call, range(len(one.call.ranks))
        ports = Ports(self.links, len(self.ranks), call.ranks, self.out, self.into)
        entered_s = [one.entered_s[place] for place in places]
        parts = [one.parts_bytes[place] for place in places]
        if call.operation not in TREES:
            one.done_s = joint_times(call.operation, entered_s, parts, root=call.root, ports=ports)
            return
        arrived_s, others = [0.0] * len(places), [place for place in places if place != call.root]
        size_bytes = max(parts[place][place] for place in places)
        settle_tree(call.operation, entered_s, arrived_s, size_bytes, root=call.root, ports=ports)
        edges = {other: edge(call.operation, other, call.root, len(places)) for other in others}
        one.done_s = [
            max(entered_s[place], *(arrived_s[other] for other in others if place in edges[other])) for place in places
        ]
