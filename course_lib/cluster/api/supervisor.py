"""The supervisor of a call: collects answers, notices the first failure, asks the other ranks for their status.

Rules:

* A failure ends the call after a short grace, in which peers report what they heard of it.
* A rank that has returned calls nothing more, and one that waits calls nothing before it is answered. Where two looks
  agree that some rank can never be answered, the call ends there and not at the deadline.
* Nothing is guessed: each rank is asked over a line of its own, and by ``faulthandler`` where it cannot answer.
* The deadline is not on the clock: what the machine withholds from the ranks is not counted (``cpu_deadline.py``).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, TypeAlias

from course_lib.base.clock import now_s
from course_lib.cluster.base.failure import Failure
from course_lib.cluster.failures import report
from course_lib.cluster.failures.cpu_deadline import CpuDeadline, Reading, UncountedTime, read_threads
from course_lib.cluster.failures.deadlock import Wait, deadlocked_ranks
from course_lib.cluster.failures.rank_status import Accounts, RankStatus, parse_stacks
from course_lib.cluster.leaks.collect import RankLeaks
from course_lib.cluster.process.defer_interrupt import deferred_interrupts
from course_lib.cluster.process.processes import RankProcess
from course_lib.cluster.process.serialization import Payload

if TYPE_CHECKING:
    from course_lib.cluster.nodes.remote_rank import RemoteRank

__all__ = ["CallOutcome", "RankHandle", "Supervisor"]

RankHandle: TypeAlias = "RankProcess | RemoteRank"

GRACE_S = 0.5  # for peers to report, once one rank has failed
_ANSWER_S = 0.4  # for a rank to say where it stands
_MARK_AFTER_S = 0.02  # without an answer, until it is worth reading how the ranks' threads are held up
_LONGEST_WAIT_S = 3600.0  # the system refuses to wait for weeks at a time
_FIRST_PROBE_S = 0.4  # without an answer, until the ranks are asked whether there is any hope
_NEXT_PROBE_S = 0.2  # until they are asked again, where there seems to be none
_PROBE_EVERY_S = 1.0  # until they are asked again, where there is


@dataclass
class CallOutcome:
    """What has come in from a call so far."""

    payloads: dict[int, Payload] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)
    text: dict[int, str] = field(default_factory=dict)
    statuses: dict[int, RankStatus] = field(default_factory=dict)  # of ranks that never answered
    leaks: dict[int, RankLeaks] = field(default_factory=dict)  # what the call has left on each rank
    is_deadlock: bool = False  # ended before the deadline, since nobody could have finished
    uncounted: UncountedTime = field(default_factory=UncountedTime)  # what of the time was not counted

    @property
    def answered(self) -> set[int]:
        return self.payloads.keys() | self.failures.keys()

    def ended(self) -> dict[str, Any]:
        """How it ended, as a ``RankError`` is told."""
        return {"statuses": self.statuses, "is_deadlock": self.is_deadlock, "uncounted": self.uncounted}


class Supervisor:
    """Collects one answer from each rank. ``processes`` by rank."""

    def __init__(self, processes: Sequence[RankHandle]) -> None:
        self._processes = processes
        self._question = 0
        self.outcome = CallOutcome()  # of the present or the last collection

    def deadline(self, limit_s: float | None, ranks: Iterable[int]) -> CpuDeadline:
        """A limit for these ranks, from now on; None: without end."""
        asked = tuple(ranks)
        return CpuDeadline(math.inf if limit_s is None else limit_s, lambda: asked, read=self._threads)

    def collect(self, ranks: Sequence[int], *, timeout_s: float | None) -> CallOutcome:
        """Wait for every rank, or until a failure and its grace, the deadline, or a deadlock."""
        outcome = self.outcome = CallOutcome()
        pending, deadline = set(ranks), self.deadline(timeout_s, ranks)
        in_grace, last_probe = False, dict[int, tuple[Wait, float]]()
        probe_after_s = _FIRST_PROBE_S
        while pending:
            if outcome.failures and not in_grace:
                deadline, in_grace = self.deadline(GRACE_S, pending), True
                deadline.mark()
            probe_after_s_now = probe_after_s if deadline.is_marked else _MARK_AFTER_S
            wait_s = min(deadline.left_s, math.inf if in_grace else probe_after_s_now)
            if self._take(outcome, pending, wait_s):
                continue
            if not deadline.is_marked:
                deadline.mark()
                continue
            statuses = {} if in_grace else self.probe_all(ranks, disturb=False)
            deadline.tick(importing=any(status.is_importing for status in statuses.values()))
            if deadline.left_s <= 0:
                break
            last_probe = _waiting_since(deadlocked_ranks(statuses), last_probe, deadline.counted_s)
            if any(_is_certain(wait, deadline.counted_s - since_s) for wait, since_s in last_probe.values()):
                outcome.is_deadlock = True
                break
            probe_after_s = _NEXT_PROBE_S if last_probe else _PROBE_EVERY_S
        outcome.uncounted = deadline.uncounted
        if pending:
            self._take(outcome, pending, 0)
            everyone = self.probe_all(ranks)
            outcome.statuses = {r: s for r, s in everyone.items() if r not in outcome.failures}
            outcome.text |= {rank: self._processes[rank].printed() for rank in pending}
        return outcome

    def _threads(self, ranks: Iterable[int]) -> Reading:
        """How long the threads of these ranks ran and stood in line, as far as they live; other nodes are asked."""
        found = dict(read_threads([pid for rank in ranks for pid in self._processes[rank].pids]))
        elsewhere: dict[tuple[Any, str], list[int]] = {}
        for rank in ranks:
            if (home := self._processes[rank].home) is not None:
                elsewhere.setdefault(home, []).append(rank)
        for (node, team), there in elsewhere.items():
            found |= node.threads(team, there)
        return found

    def next_answers(self, ranks: Iterable[int], *, timeout_s: float) -> set[int]:
        """The ranks that answer, or die, first; none when the time is over."""
        outcome = CallOutcome()
        self._take(outcome, set(ranks), max(0.0, timeout_s))
        return outcome.answered

    def probe_all(self, asked: Sequence[int], *, disturb: bool = True) -> dict[int, RankStatus]:
        """Where the ranks stand that take part in this call, and the others, which do nothing."""
        statuses = self.probe(asked, returned=self.outcome.payloads, disturb=disturb)
        absent = set(range(len(self._processes))) - set(asked)
        return statuses | {r: RankStatus(r, None, (), 0, state="absent", accounts=Accounts()) for r in absent}

    def probe(
        self, ranks: Iterable[int], *, returned: Container[int] = (), disturb: bool = True
    ) -> dict[int, RankStatus]:
        """Where each of these ranks stands now; dead ones are left out.

        ``disturb``: read the stack of a silent one too, by a signal, which may wake what it is in.
        """
        self._question += 1
        asked: dict[Any, int] = {}
        for rank in ranks:
            with contextlib.suppress(OSError), deferred_interrupts():
                self._processes[rank].watch.send(self._question)
                asked[self._processes[rank].watch] = rank
        statuses: dict[int, RankStatus] = {}
        deadline = self.deadline(_ANSWER_S, asked.values())
        if disturb:  # the last look, worth waiting for; the others come again
            deadline.mark()
        while asked:
            ready: list[Any] = wait(list(asked), deadline.left_s)
            if not ready:
                if disturb and not deadline.is_over():
                    continue
                break
            for line in ready:
                rank = asked[line]
                try:
                    with deferred_interrupts():  # half an answer read would spoil the line
                        question, status = line.recv()
                except (EOFError, OSError):
                    del asked[line]
                    continue
                if question == self._question:  # else a late answer to an earlier question
                    statuses[rank] = status
                    del asked[line]
        for rank in asked.values():
            statuses[rank] = self._unanswered(rank) if disturb else RankStatus(rank, None, (), state="silent")
        return {r: replace(s, state="returned") if r in returned else s for r, s in statuses.items()}

    def _take(self, outcome: CallOutcome, pending: set[int], wait_s: float) -> bool:
        """Take in what has arrived within ``wait_s``; False when nothing has."""
        lines: dict[Any, int] = {self._processes[rank].work: rank for rank in pending}
        lines |= {self._processes[rank].sentinel: rank for rank in pending}
        ready = wait(list(lines), min(wait_s, _LONGEST_WAIT_S))
        for rank in {lines[line] for line in ready}:
            pending.discard(rank)
            try:
                self._take_answer(outcome, rank)
            except (EOFError, OSError):
                outcome.text[rank] = self._processes[rank].printed()
                outcome.failures[rank] = self._exit_report(rank, outcome.text[rank])
        return bool(ready)

    def _take_answer(self, outcome: CallOutcome, rank: int) -> None:
        work = self._processes[rank].work
        if not work.poll():
            raise EOFError  # the process has ended and left nothing
        with deferred_interrupts():  # an answer is read whole, and taken for what it is
            kind, answer, outcome.text[rank], leaks = work.recv()
            outcome.leaks[rank] = leaks or RankLeaks()
            if kind == "done":
                outcome.payloads[rank] = answer
            else:
                outcome.failures[rank] = answer

    def _exit_report(self, rank: int, text: str) -> Failure:
        exit_code = self._processes[rank].exit_code()
        self._processes[rank].end_children()
        lost_with = self._processes[rank].lost_with
        return report.died(rank, exit_code, now_s(), text, lost_with=lost_with)

    def _unanswered(self, rank: int) -> RankStatus:
        """What can be known of a rank whose own thread is silent: stopped, or held inside C code."""
        process = self._processes[rank]
        if process.is_stopped:
            return RankStatus(rank, None, (), state="stopped")
        return parse_stacks(process.stacks(), rank, "silent")


def _waiting_since(
    now: dict[int, Wait], before: dict[int, tuple[Wait, float]], time_s: float
) -> dict[int, tuple[Wait, float]]:
    """By rank, what it is deadlocked on, and when it was first seen so."""
    return {
        rank: before[rank] if rank in before and before[rank][0] == wait else (wait, time_s)
        for rank, wait in now.items()
    }


def _is_certain(wait: Wait, waiting_s: float) -> bool:
    """Whether two looks, so far apart as it takes, agree."""
    return waiting_s >= max(wait.certain_after_s, _NEXT_PROBE_S / 2)
