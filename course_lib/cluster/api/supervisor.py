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
import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import psutil

from course_lib.cluster.base.failure import Failure
from course_lib.cluster.failures import report
from course_lib.cluster.failures.cpu_deadline import HeldUp, Patience
from course_lib.cluster.failures.deadlock import Wait, hopeless
from course_lib.cluster.failures.rank_status import Accounts, RankStatus, parse_stacks
from course_lib.cluster.leaks.collect import Remains
from course_lib.cluster.process.defer_interrupt import held_back
from course_lib.cluster.process.output_capture import read_text
from course_lib.cluster.process.processes import RankProcess
from course_lib.cluster.process.serialization import Parcel

__all__ = ["CallOutcome", "Supervisor"]

GRACE_S = 0.5  # for peers to report, once one rank has failed
_ANSWER_S = 0.4  # for a rank to say where it stands
_MARK_AFTER_S = 0.02  # without an answer, until it is worth reading how the ranks' threads are held up
_LONGEST_WAIT_S = 3600.0  # the system refuses to wait for weeks at a time
_FIRST_LOOK_S = 0.4  # without an answer, until the ranks are asked whether there is any hope
_NEXT_LOOK_S = 0.2  # until they are asked again, where there seems to be none
_LOOK_EVERY_S = 1.0  # until they are asked again, where there is


@dataclass
class CallOutcome:
    """What has come in from a call so far."""

    parcels: dict[int, Parcel] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)
    text: dict[int, str] = field(default_factory=dict)
    standings: dict[int, RankStatus] = field(default_factory=dict)  # of ranks that never answered
    remains: dict[int, Remains] = field(default_factory=dict)  # what the call has left on each rank
    hopeless: bool = False  # ended before the deadline, since nobody could have finished
    held_up: HeldUp = field(default_factory=HeldUp)  # what of the time was not counted

    @property
    def answered(self) -> set[int]:
        return self.parcels.keys() | self.failures.keys()

    def ended(self) -> dict[str, Any]:
        """How it ended, as a ``RankError`` is told."""
        return {"standings": self.standings, "is_hopeless": self.hopeless, "held_up": self.held_up}


class Supervisor:
    """Collects one answer from each rank. ``processes`` by rank; ``folder`` is where their private files lie."""

    def __init__(self, processes: Sequence[RankProcess], folder: Path) -> None:
        self._processes, self._folder = processes, folder
        self._question = 0
        self.outcome = CallOutcome()  # of the present or the last collection

    def patience(self, limit_s: float | None, ranks: Iterable[int]) -> Patience:
        """A limit for these ranks, from now on; None: without end."""
        asked = tuple(ranks)
        return Patience(math.inf if limit_s is None else limit_s, lambda: self._pids(asked))

    def collect(self, ranks: Sequence[int], *, timeout_s: float | None) -> CallOutcome:
        """Wait for every rank, or until a failure and its grace, the deadline, or the end of hope."""
        outcome = self.outcome = CallOutcome()
        pending, patience = set(ranks), self.patience(timeout_s, ranks)
        in_grace, last_look = False, dict[int, tuple[Wait, float]]()
        look_after_s = _FIRST_LOOK_S
        while pending:
            if outcome.failures and not in_grace:
                patience, in_grace = self.patience(GRACE_S, pending), True
                patience.mark()
            look_after_s_now = look_after_s if patience.is_marked else _MARK_AFTER_S
            wait_s = min(patience.left_s, math.inf if in_grace else look_after_s_now)
            if self._take(outcome, pending, wait_s):
                continue
            if not patience.is_marked:
                patience.mark()
                continue
            look = {} if in_grace else self.look_at_all(ranks, disturb=False)
            patience.tick(importing=any(standing.is_importing for standing in look.values()))
            if patience.left_s <= 0:
                break
            last_look = _seen_since(hopeless(look), last_look, patience.counted_s)
            if any(_is_certain(wait, patience.counted_s - since_s) for wait, since_s in last_look.values()):
                outcome.hopeless = True
                break
            look_after_s = _NEXT_LOOK_S if last_look else _LOOK_EVERY_S
        outcome.held_up = patience.held_up
        if pending:
            self._take(outcome, pending, 0)
            everyone = self.look_at_all(ranks)
            outcome.standings = {r: s for r, s in everyone.items() if r not in outcome.failures}
            outcome.text |= {rank: read_text(self._folder / f"text-{rank}") for rank in pending}
        return outcome

    def _pids(self, ranks: Iterable[int]) -> list[int]:
        """The processes of these ranks, as far as they live."""
        alive = [self._processes[rank] for rank in ranks if self._processes[rank].is_alive]
        return [rank.process.pid for rank in alive if rank.process.pid is not None]

    def next_answers(self, ranks: Iterable[int], *, timeout_s: float) -> set[int]:
        """The ranks that answer, or die, first; none when the time is over."""
        outcome = CallOutcome()
        self._take(outcome, set(ranks), max(0.0, timeout_s))
        return outcome.answered

    def look_at_all(self, asked: Sequence[int], *, disturb: bool = True) -> dict[int, RankStatus]:
        """Where the ranks stand that take part in this call, and the others, which do nothing."""
        look = self.look(asked, returned=self.outcome.parcels, disturb=disturb)
        absent = set(range(len(self._processes))) - set(asked)
        return look | {r: RankStatus(r, None, (), 0, state="absent", accounts=Accounts()) for r in absent}

    def look(
        self, ranks: Iterable[int], *, returned: Container[int] = (), disturb: bool = True
    ) -> dict[int, RankStatus]:
        """Where each of these ranks stands now; dead ones are left out.

        ``disturb``: read the stack of a silent one too, by a signal, which may wake what it is in.
        """
        self._question += 1
        asked: dict[Any, int] = {}
        for rank in ranks:
            with contextlib.suppress(OSError), held_back():
                self._processes[rank].watch.send(self._question)
                asked[self._processes[rank].watch] = rank
        standings: dict[int, RankStatus] = {}
        patience = self.patience(_ANSWER_S, asked.values())
        if disturb:  # the last look, worth waiting for; the others come again
            patience.mark()
        while asked:
            ready: list[Any] = wait(list(asked), patience.left_s)
            if not ready:
                if disturb and not patience.is_over():
                    continue
                break
            for line in ready:
                rank = asked[line]
                try:
                    with held_back():  # half an answer read would spoil the line
                        question, standing = line.recv()
                except (EOFError, OSError):
                    del asked[line]
                    continue
                if question == self._question:  # else a late answer to an earlier question
                    standings[rank] = standing
                    del asked[line]
        for rank in asked.values():
            standings[rank] = self._unanswered(rank) if disturb else RankStatus(rank, None, (), state="silent")
        return {r: replace(s, state="returned") if r in returned else s for r, s in standings.items()}

    def _take(self, outcome: CallOutcome, pending: set[int], patience_s: float) -> bool:
        """Take in what has arrived within ``patience_s``; False when nothing has."""
        lines: dict[Any, int] = {self._processes[rank].work: rank for rank in pending}
        lines |= {self._processes[rank].sentinel: rank for rank in pending}
        ready = wait(list(lines), min(patience_s, _LONGEST_WAIT_S))
        for rank in {lines[line] for line in ready}:
            pending.discard(rank)
            try:
                self._take_answer(outcome, rank)
            except (EOFError, OSError):
                outcome.text[rank] = read_text(self._folder / f"text-{rank}")
                outcome.failures[rank] = self._obituary(rank, outcome.text[rank])
        return bool(ready)

    def _take_answer(self, outcome: CallOutcome, rank: int) -> None:
        work = self._processes[rank].work
        if not work.poll():
            raise EOFError  # the process has ended and left nothing
        with held_back():  # an answer is read whole, and taken for what it is
            kind, answer, outcome.text[rank], remains = work.recv()
            outcome.remains[rank] = remains or Remains()
            if kind == "done":
                outcome.parcels[rank] = answer
            else:
                outcome.failures[rank] = answer

    def _obituary(self, rank: int, text: str) -> Failure:
        process = self._processes[rank].process
        process.join(1.0)
        self._processes[rank].end_children()
        return report.died(rank, process.exitcode, time.monotonic(), text)

    def _unanswered(self, rank: int) -> RankStatus:
        """What can be known of a rank whose own thread is silent: stopped, or held inside C code."""
        process = self._processes[rank]
        stacks = self._folder / f"stacks-{rank}"
        with contextlib.suppress(psutil.Error):
            if psutil.Process(process.process.pid).status() in (
                psutil.STATUS_STOPPED,
                psutil.STATUS_TRACING_STOP,
            ):
                return RankStatus(rank, None, (), state="stopped")
        process.dump_stacks()
        time.sleep(0.05)
        return parse_stacks(stacks.read_text(errors="replace") if stacks.exists() else "", rank, "silent")


def _seen_since(
    now: dict[int, Wait], before: dict[int, tuple[Wait, float]], moment_s: float
) -> dict[int, tuple[Wait, float]]:
    """By rank, what it waits for without hope, and when it was first seen so."""
    return {
        rank: before[rank] if rank in before and before[rank][0] == wait else (wait, moment_s)
        for rank, wait in now.items()
    }


def _is_certain(wait: Wait, seen_s: float) -> bool:
    """Whether two looks, so far apart as it takes, agree."""
    return seen_s >= max(wait.certain_after_s, _NEXT_LOOK_S / 2)
