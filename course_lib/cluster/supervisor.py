"""Watching ranks at work: collect their answers, notice the first that fails, ask the rest where they stand.

Rules:

* A failure ends the call after a short grace, in which peers report what they heard of it.
* A rank that has returned calls nothing more. Ranks that wait for it in a collective can never finish, so the call
  ends there and not at the deadline.
* Nothing is guessed: each rank is asked over a line of its own, and by ``faulthandler`` where it cannot answer.
"""

from __future__ import annotations

import contextlib
import linecache
import math
import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import psutil

from course_lib.cluster import report
from course_lib.cluster.evidence import Standing, parse_stacks
from course_lib.cluster.failure import Failure
from course_lib.cluster.processes import RankProcess
from course_lib.cluster.text import read_text
from course_lib.cluster.wire import Parcel

__all__ = ["Outcome", "Supervisor"]

GRACE_S = 0.5  # for peers to report, once one rank has failed
_ANSWER_S = 0.4  # for a rank to say where it stands
_LONGEST_WAIT_S = 3600.0  # the system refuses to wait for weeks at a time
_LOOK_EVERY_S = 1.0  # how often a call in which some ranks have returned is looked at for lack of hope


@dataclass
class Outcome:
    """What has come in from a call so far."""

    parcels: dict[int, Parcel] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)
    text: dict[int, str] = field(default_factory=dict)
    standings: dict[int, Standing] = field(default_factory=dict)  # of ranks that never answered
    have_left: set[int] = field(default_factory=set)  # ranks whose function has left the process group
    hopeless: bool = False  # ended before the deadline, since nobody could have finished

    @property
    def answered(self) -> set[int]:
        return self.parcels.keys() | self.failures.keys()


class Supervisor:
    """Collects one answer from each rank. ``processes`` by rank; ``folder`` is where their private files lie."""

    def __init__(self, processes: Sequence[RankProcess], folder: Path) -> None:
        self._processes, self._folder = processes, folder
        self._question = 0
        self.outcome = Outcome()  # of the present or the last collection

    def collect(self, ranks: Sequence[int], *, timeout_s: float | None) -> Outcome:
        """Wait for every rank, or until a failure and its grace, the deadline, or the end of hope."""
        outcome = self.outcome = Outcome()
        pending = set(ranks)
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        in_grace, last_look = False, dict[int, Standing]()
        while pending:
            if outcome.failures and not in_grace:
                deadline, in_grace = min(deadline, time.monotonic() + GRACE_S), True
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                break
            watchful = bool(outcome.parcels) and not in_grace
            if self._take(outcome, pending, min(remaining_s, _LOOK_EVERY_S if watchful else math.inf)):
                continue
            if watchful:
                look = self.look(ranks, returned=outcome.parcels)
                if _no_hope(look, last_look):
                    outcome.hopeless = True
                    break
                last_look = look
        if pending:
            self._take(outcome, pending, 0)
            outcome.standings = self.look(set(ranks) - set(outcome.failures), returned=outcome.parcels)
            outcome.text |= {rank: read_text(self._folder / f"text-{rank}") for rank in pending}
        return outcome

    def next_answers(self, ranks: Iterable[int], *, timeout_s: float) -> set[int]:
        """The ranks that answer, or die, first; none when the time is over."""
        outcome = Outcome()
        self._take(outcome, set(ranks), max(0.0, timeout_s))
        return outcome.answered

    def look(self, ranks: Iterable[int], *, returned: Container[int] = ()) -> dict[int, Standing]:
        """Where each of these ranks stands now; dead ones are left out."""
        self._question += 1
        asked: dict[Any, int] = {}
        for rank in ranks:
            with contextlib.suppress(OSError):
                self._processes[rank].watch.send(self._question)
                asked[self._processes[rank].watch] = rank
        standings: dict[int, Standing] = {}
        deadline = time.monotonic() + _ANSWER_S
        while asked:
            ready: list[Any] = wait(list(asked), max(0.0, deadline - time.monotonic()))
            if not ready:
                break
            for line in ready:
                rank = asked[line]
                try:
                    question, standing = line.recv()
                except (EOFError, OSError):
                    del asked[line]
                    continue
                if question == self._question:  # else a late answer to an earlier question
                    standings[rank] = standing
                    del asked[line]
        for rank in asked.values():
            standings[rank] = self._unanswered(rank)
        return {r: replace(s, state="returned") if r in returned else s for r, s in standings.items()}

    def _take(self, outcome: Outcome, pending: set[int], patience_s: float) -> bool:
        """Take in what has arrived within ``patience_s``; False when nothing has."""
        lines: dict[Any, int] = {self._processes[rank].work: rank for rank in pending}
        lines |= {self._processes[rank].sentinel: rank for rank in pending}
        ready = wait(list(lines), min(patience_s, _LONGEST_WAIT_S))
        for rank in {lines[line] for line in ready}:
            pending.discard(rank)
            try:
                self._take_answer(outcome, rank)
            except (EOFError, OSError):
                outcome.failures[rank] = self._obituary(rank)
                outcome.text[rank] = read_text(self._folder / f"text-{rank}")
        return bool(ready)

    def _take_answer(self, outcome: Outcome, rank: int) -> None:
        work = self._processes[rank].work
        if not work.poll():
            raise EOFError  # the process has ended and left nothing
        kind, answer, outcome.text[rank], is_member = work.recv()
        if not is_member:
            outcome.have_left.add(rank)
        if kind == "done":
            outcome.parcels[rank] = answer
        else:
            outcome.failures[rank] = answer

    def _obituary(self, rank: int) -> Failure:
        process = self._processes[rank].process
        process.join(1.0)
        self._processes[rank].end_children()
        return report.died(rank, process.exitcode, time.monotonic())

    def _unanswered(self, rank: int) -> Standing:
        """What can be known of a rank whose own thread is silent: stopped, or held inside C code."""
        process = self._processes[rank]
        stacks = self._folder / f"stacks-{rank}"
        with contextlib.suppress(psutil.Error):
            if psutil.Process(process.process.pid).status() in (
                psutil.STATUS_STOPPED,
                psutil.STATUS_TRACING_STOP,
            ):
                return Standing(rank, None, (), state="stopped")
        process.dump_stacks()
        time.sleep(0.05)
        return parse_stacks(stacks.read_text(errors="replace") if stacks.exists() else "", rank, "silent")


def _no_hope(look: dict[int, Standing], last_look: dict[int, Standing]) -> bool:
    """Whether some rank waits, at both looks, in a collective that a rank which has returned did not call."""
    reached = [
        s.num_collectives for s in look.values() if s.state == "returned" and s.num_collectives is not None
    ]
    return any(
        report.waits_for_all(now)
        and _is_waiting(now)
        and rank in last_look
        and now.pending == last_look[rank].pending
        and any(number < now.pending.number for number in reached)  # type: ignore[union-attr]
        for rank, now in look.items()
        if now.state == "running"
    )


def _is_waiting(standing: Standing) -> bool:
    inner = standing.frames[-1] if standing.frames else None
    return standing.is_blocked or (
        inner is not None and ".wait(" in linecache.getline(inner.filename, inner.line_number)
    )
