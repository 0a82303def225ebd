"""One set of started ranks: started together, asked together, ended together."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from course_lib.cluster.api.supervisor import CallOutcome, Supervisor
from course_lib.cluster.base import temp_dirs as folders
from course_lib.cluster.base.backends import RankSeat
from course_lib.cluster.base.os_errors import processes_in_words
from course_lib.cluster.base.process_group import GroupPlace
from course_lib.cluster.failures.errors import RankFailed, first_failure
from course_lib.cluster.failures.rank_status import RankStatus
from course_lib.cluster.failures.report import failed_story, stuck_story
from course_lib.cluster.leaks import shared_memory
from course_lib.cluster.leaks.collect import Remains
from course_lib.cluster.leaks.compare import LeftOver, compare
from course_lib.cluster.links.links import Shape
from course_lib.cluster.process import processes
from course_lib.cluster.process.caller_context import Context, context_here
from course_lib.cluster.process.defer_interrupt import held_back

__all__ = ["Team"]

_START_TIMEOUT_S = 120.0  # the first start imports torch, from a slow disk perhaps; GPUs need seconds of their own
_RELEASE_S = 1.0  # for ranks that were stuck to come back, once a peer has left the group
_SETTLE_TIMEOUT_S = 5.0  # for ranks to look again at what they have left
_GOODBYE_S = 1.0  # for ranks to close by themselves before they are ended


class Team:
    """Ranks of one cluster that live at the same time. A failure mostly ends a team; the cluster makes a new one."""

    def __init__(self, seats: Sequence[RankSeat], settings: dict[str, Any]) -> None:
        self.folder = folders.make()
        self.shape: Shape | None = None  # of links and ranks, from the next call on
        self.keeps_variables = False  # whether cells have left variables worth saving
        self.in_order = True  # whether the last call was seen through to its end
        self._seats, self._settings = seats, settings
        self._is_up = False
        self._owner_pid = os.getpid()
        self._generation = 0
        self._asked: Sequence[int] = ()
        self._context = context_here()
        self._processes: list[processes.RankProcess] = []
        self._supervisor = Supervisor(self._processes, self.folder)

    def start(self) -> None:
        """Start the ranks, and wait until they have met. Whoever calls this ends the team where it fails."""
        everyone = range(len(self._seats))
        for rank, seat in enumerate(self._seats):
            place = GroupPlace(rank, len(everyone), seat, self.folder, **self._settings)
            with held_back():
                self._processes.append(processes.start(place, self._context))
        self._expect_start(self._supervisor.collect(everyone, timeout_s=_START_TIMEOUT_S))
        self._is_up = True

    @property
    def is_whole(self) -> bool:
        """Whether every rank has started and its process is there, and their folder; either may have gone since."""
        alive = self._is_up and bool(self._processes) and all(rank.is_alive for rank in self._processes)
        return alive and self.folder.exists()

    def ask(self, ranks: Sequence[int], kind: str, *details: Any, timeout_s: float | None) -> CallOutcome:
        """Send a request to ``ranks`` and collect the answers."""
        with held_back():  # half a request would spoil the line
            self._asked, self._supervisor.outcome = ranks, CallOutcome()  # of this call nobody has answered
            for rank in ranks:
                with contextlib.suppress(OSError):  # it has died; the supervisor finds that out and says so
                    self._processes[rank].work.send((kind, *details))
        return self._supervisor.collect(ranks, timeout_s=timeout_s)

    def new_context(self) -> Context | None:
        """The caller's folder, path, environment and shape, where they differ from what the ranks were told last."""
        context = dataclasses.replace(context_here(), shape=self.shape)
        if context == self._context:
            return None
        self._context = context
        return context

    def look(self, returned: Iterable[int] | None = None) -> dict[int, RankStatus]:
        """Where ranks stand: those that have ``returned``, or all that were asked."""
        done = set(self._supervisor.outcome.parcels)
        return self._supervisor.look(self._asked if returned is None else returned, returned=done)

    def left_over(self, outcome: CallOutcome) -> LeftOver:
        """What a call that went well has left on its ranks, when what ends by itself has had a moment to do so."""
        left = compare(outcome.remains)
        if left.may_settle:
            left = self._settled(outcome, left)
        if left.is_clean and not self._agree_on_names(outcome.remains):
            return dataclasses.replace(left, is_clean=False, needs_new_ranks=True)
        return left

    def _settled(self, outcome: CallOutcome, left: LeftOver) -> LeftOver:
        later = self.ask(sorted(outcome.remains), "settle", timeout_s=_SETTLE_TIMEOUT_S)
        outcome.text |= {rank: outcome.text.get(rank, "") + text for rank, text in later.text.items()}
        if later.failures or later.standings:
            return left
        again = compare(later.remains)
        return dataclasses.replace(again, lines=again.lines + left.put_back)

    def _agree_on_names(self, remains: Mapping[int, Remains]) -> bool:
        """Where members alone have made groups, have all ranks number their next one alike; False where they cannot."""
        numbers = {left.next_number for left in remains.values()}
        everyone = range(len(self._processes))
        if not any(numbers) or (len(numbers) == 1 and len(remains) == len(everyone)):
            return True
        told = self.ask(everyone, "name_groups_from", max(numbers), timeout_s=_SETTLE_TIMEOUT_S)
        return len(told.parcels) == len(everyone)

    def story(self, outcome: CallOutcome, *, timeout_s: float | None) -> str:
        """What happened in a call that did not go well."""
        first, num_ranks = first_failure(outcome.failures), len(self._processes)
        if first is None:
            limit_s = None if outcome.hopeless else timeout_s
            return stuck_story(outcome.standings, num_ranks, timeout_s=limit_s, held_up=outcome.held_up)
        outcome.standings = self.look(outcome.parcels) | outcome.standings
        others: dict[int, Any] = {**outcome.standings, **outcome.failures}
        del others[first.rank]
        return failed_story(first, others, num_ranks)

    def recover(self) -> bool:
        """Bring ranks and the variables of their cells through a failure; False when only an end is left.

        It is so, too, where a function has left in a rank what cannot be put back.

        Busy ranks are interrupted. Those that have answered leave the process group, which frees the ones that
        wait for them in a collective; then all meet in a new group.
        """
        everyone = range(len(self._processes))
        stuck = {rank for rank in self._asked if rank not in self._supervisor.outcome.answered}
        for rank in stuck:
            self._processes[rank].interrupt()
        self._generation += 1
        self._send_reset(set(everyone) - stuck)
        patience = self._supervisor.patience(_RELEASE_S, everyone)
        patience.mark()
        while stuck and not patience.is_over():  # each that leaves may free the next one of the ring
            back = self._supervisor.next_answers(stuck, timeout_s=patience.left_s)
            self._send_reset(back)
            stuck -= back
        if stuck or not self.is_whole:
            return False
        met = self._supervisor.collect(everyone, timeout_s=5 * _RELEASE_S)
        return len(met.parcels) == len(everyone) and all(left.is_whole for left in met.remains.values())

    def end(self, *, gently: bool = False) -> None:
        """End every rank of this team, and remove its folder. Nothing else on the machine is touched.

        Safe to repeat, and to interrupt: what is not done then is done the next time.
        """
        if os.getpid() != self._owner_pid:
            return  # a fork of the notebook is leaving, and these ranks are not its own
        if gently:
            for rank in self._processes:
                with contextlib.suppress(OSError):
                    rank.work.send(("close",))
            for rank in self._processes:
                rank.wait(_GOODBYE_S)
        for rank in self._processes:
            rank.kill()
        for rank in self._processes:
            rank.wait(_GOODBYE_S)
        self._processes.clear()
        shared_memory.remove_noted(self.folder)
        folders.remove(self.folder)

    def _send_reset(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            with contextlib.suppress(OSError), held_back():
                self._processes[rank].work.send(("reset", self._generation))

    def _expect_start(self, outcome: CallOutcome) -> None:
        first = first_failure(outcome.failures)
        num_ranks = len(self._processes)
        if first is not None:
            story = failed_story(first, {}, num_ranks)
            if first.kind == "died" or "temporarily unavailable" in first.message:
                limit = processes_in_words()
                story += f"\n\nIt may be for want of processes: {limit}." if limit else ""
            raise RankFailed("The ranks could not start: " + story, failures=outcome.failures)
        if outcome.standings:
            held_up = outcome.held_up
            story = stuck_story(outcome.standings, num_ranks, timeout_s=_START_TIMEOUT_S, held_up=held_up)
            raise RankFailed("The ranks could not start: " + story)
