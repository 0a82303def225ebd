"""What happened in a job, in order: from the supervisor, from us, and from the ranks that began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.nodes.failures import ProgramFault
from course_lib.nodes.records import RestartRound

__all__ = ["Event", "in_order", "of_faults", "of_rounds", "rank_words"]


@dataclass(frozen=True)
class Event:
    """``what``: started, met, failed, killed, joined, left, restarted, finished or ended; ``time_s`` since the start.

    ``restart_count``: how often the agents had begun their ranks anew after a failure, the most of any node. A node
    that joins makes the others begin anew as well, and that is not counted.
    """

    time_s: float
    what: str
    text: str
    node: int | None = None
    ranks: tuple[int, ...] = ()
    restart_count: int | None = None

    def __str__(self) -> str:
        return f"{self.time_s:6.1f} s  {self.text}"


def of_rounds(rounds: Sequence[RestartRound], began_at: float) -> list[Event]:
    """Meetings that were complete, and how each differs from the one before."""
    events: list[Event] = []
    before: RestartRound | None = None
    for one in rounds:
        if not one.is_complete:
            continue
        at_s = one.time - began_at
        ranks = tuple(rank.rank for rank in one.ranks)
        count = max(one.restart_counts)
        where = f"on node{'s' * (len(one.nodes) > 1)} {_and(one.nodes)}"
        if before is None:
            events.append(Event(at_s, "met", f"ranks {rank_words(ranks)} began {where}", None, ranks, count))
        else:
            for node in sorted(set(one.nodes) - set(before.nodes)):
                events.append(Event(at_s, "joined", f"node {node} joined", node))
            for node in sorted(set(before.nodes) - set(one.nodes)):
                events.append(Event(at_s, "left", f"the ranks of node {node} are no longer among them", node))
            text = f"ranks {rank_words(ranks)} began anew {where}, restart count {_counts(one)}"
            events.append(Event(at_s, "restarted", text, None, ranks, count))
        before = one
    return events


def of_faults(faults: Sequence[ProgramFault], began_at: float) -> list[Event]:
    """Ends of ranks that were failures, and not ours."""
    return [Event(fault.time - began_at, "failed", str(fault), fault.node, (fault.rank,)) for fault in faults]


def in_order(*parts: Sequence[Event]) -> list[Event]:
    """All of them by time."""
    return sorted((event for part in parts for event in part), key=lambda event: event.time_s)


def rank_words(ranks: Sequence[int]) -> str:
    """ "0 to 3", "2", "0 and 2"."""
    ranks = sorted(ranks)
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]} to {ranks[-1]}"
    return _and(ranks)


def _counts(one: RestartRound) -> str:
    counts = one.restart_counts
    if len(set(counts)) == 1:
        return str(counts[0])
    return _and([f"{count} (node {node})" for node, count in zip(one.nodes, counts, strict=True)])


def _and(words: Sequence[object]) -> str:
    texts = [str(word) for word in words]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
