"""One set of started ranks: started together, asked together, ended together."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from course_lib.cluster.api.rank_layout import RankLayout
from course_lib.cluster.api.supervisor import CallOutcome, RankHandle, Supervisor
from course_lib.cluster.base import temp_dirs
from course_lib.cluster.base.os_errors import processes_in_words
from course_lib.cluster.base.process_group import RankConfig
from course_lib.cluster.failures.errors import RankFailed, first_failure
from course_lib.cluster.failures.rank_status import RankStatus
from course_lib.cluster.failures.report import failed_story, stuck_story
from course_lib.cluster.leaks import shared_memory
from course_lib.cluster.leaks.collect import RankLeaks
from course_lib.cluster.leaks.compare import LeakReport, compare
from course_lib.cluster.links.links import Shape
from course_lib.cluster.process import processes
from course_lib.cluster.process.caller_context import Context, context_here
from course_lib.cluster.process.defer_interrupt import deferred_interrupts

if TYPE_CHECKING:
    from course_lib.cluster.nodes.node_set import NodeTeam

__all__ = ["Team"]

_START_TIMEOUT_S = 120.0  # the first start imports torch, from a slow disk perhaps; GPUs need seconds of their own
_RELEASE_S = 1.0  # for ranks that were stuck to come back, once a peer has left the group
_SETTLE_TIMEOUT_S = 5.0  # for ranks to look again at what they have left
_GOODBYE_S = 1.0  # for ranks to close by themselves before they are ended


class Team:
    """Ranks of one cluster that live at the same time. A failure mostly ends a team; the cluster makes a new one."""

    def __init__(self, layout: RankLayout, settings: dict[str, Any]) -> None:
        self.folder = temp_dirs.make()
        self.shape: Shape | None = None  # of links and ranks, from the next call on
        self.keeps_variables = False  # whether cells have left variables worth saving
        self.in_order = True  # whether the last call was seen through to its end
        self._layout, self._settings = layout, settings
        self._is_up = False
        self._owner_pid = os.getpid()
        self._on_nodes: NodeTeam | None = None
        self._generation = 0
        self._asked: Sequence[int] = ()
        self._context = context_here()
        self._processes: list[RankHandle] = []
        self._supervisor = Supervisor(self._processes)

    def start(self) -> None:
        """Start the ranks, and wait until they have met. Whoever calls this ends the team where it fails."""
        everyone = range(len(self._layout.devices))
        self._on_nodes = self._layout.new_team()
        for rank, rank_device in enumerate(self._layout.devices):
            config = RankConfig(rank, len(everyone), rank_device, self.folder, **self._settings)
            with deferred_interrupts():
                self._processes.append(self._start(config))
        self._expect_start(self._supervisor.collect(everyone, timeout_s=_START_TIMEOUT_S))
        self._is_up = True

    def _start(self, config: RankConfig) -> RankHandle:
        if self._on_nodes is None:
            return processes.start(config, self._context)
        return self._on_nodes.start(config, self._layout.places[config.rank], self._context)

    @property
    def nodes(self) -> dict[int, str]:
        """The node of each rank, in words; empty where all are on this machine."""
        return self._layout.names

    def look(self) -> None:
        """Have nodes say which ranks have died; of those on this machine the system knows."""
        if self._on_nodes is not None and self._is_up:
            self._on_nodes.look()

    @property
    def is_complete(self) -> bool:
        """Whether every rank has started and its process is there, and their folder; either may have gone since."""
        alive = self._is_up and bool(self._processes) and all(rank.is_alive for rank in self._processes)
        return alive and self.folder.exists()

    def ask(self, ranks: Sequence[int], kind: str, *details: Any, timeout_s: float | None) -> CallOutcome:
        """Send a request to ``ranks`` and collect the answers."""
        with deferred_interrupts():  # half a request would spoil the line
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

    def probe(self, returned: Iterable[int] | None = None) -> dict[int, RankStatus]:
        """Where ranks stand: those that have ``returned``, or all that were asked."""
        done = set(self._supervisor.outcome.payloads)
        return self._supervisor.probe(self._asked if returned is None else returned, returned=done)

    def leak_report(self, outcome: CallOutcome) -> LeakReport:
        """What a call that went well has left on its ranks, when what ends by itself has had a moment to do so."""
        report = compare(outcome.leaks)
        if report.may_settle:
            report = self._settled(outcome, report)
        if report.is_clean and not self._agree_on_names(outcome.leaks):
            return dataclasses.replace(report, is_clean=False, needs_new_ranks=True)
        return report

    def _settled(self, outcome: CallOutcome, report: LeakReport) -> LeakReport:
        later = self.ask(sorted(outcome.leaks), "settle", timeout_s=_SETTLE_TIMEOUT_S)
        outcome.text |= {rank: outcome.text.get(rank, "") + text for rank, text in later.text.items()}
        if later.failures or later.statuses:
            return report
        again = compare(later.leaks)
        return dataclasses.replace(again, lines=again.lines + report.restored)

    def _agree_on_names(self, leaks: Mapping[int, RankLeaks]) -> bool:
        """Where members alone have made groups, have all ranks number their next one alike; False where they cannot."""
        numbers = {of_rank.next_number for of_rank in leaks.values()}
        everyone = range(len(self._processes))
        if not any(numbers) or (len(numbers) == 1 and len(leaks) == len(everyone)):
            return True
        answer = self.ask(everyone, "name_groups_from", max(numbers), timeout_s=_SETTLE_TIMEOUT_S)
        return len(answer.payloads) == len(everyone)

    def story(self, outcome: CallOutcome, *, timeout_s: float | None) -> str:
        """What happened in a call that did not go well."""
        first, num_ranks = first_failure(outcome.failures), len(self._processes)
        if first is None:
            limit_s = None if outcome.is_deadlock else timeout_s
            return stuck_story(
                outcome.statuses, num_ranks, timeout_s=limit_s, uncounted=outcome.uncounted, nodes=self.nodes
            )
        outcome.statuses = self.probe(outcome.payloads) | outcome.statuses
        others: dict[int, Any] = {**outcome.statuses, **outcome.failures}
        del others[first.rank]
        return failed_story(first, others, num_ranks, nodes=self.nodes)

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
        deadline = self._supervisor.deadline(_RELEASE_S, everyone)
        deadline.mark()
        while stuck and not deadline.is_over():  # each that leaves may free the next one of the ring
            back = self._supervisor.next_answers(stuck, timeout_s=deadline.left_s)
            self._send_reset(back)
            stuck -= back
        if stuck or not self.is_complete:
            return False
        met = self._supervisor.collect(everyone, timeout_s=5 * _RELEASE_S)
        return len(met.payloads) == len(everyone) and all(of_rank.is_restored for of_rank in met.leaks.values())

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
        if self._on_nodes is not None:
            self._on_nodes.end()
        shared_memory.remove_noted(self.folder)
        temp_dirs.remove(self.folder)

    def _send_reset(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            with contextlib.suppress(OSError), deferred_interrupts():
                self._processes[rank].work.send(("reset", self._generation))

    def _expect_start(self, outcome: CallOutcome) -> None:
        first = first_failure(outcome.failures)
        num_ranks = len(self._processes)
        if first is not None:
            story = failed_story(first, {}, num_ranks, nodes=self.nodes)
            if first.kind == "died" or "temporarily unavailable" in first.message:
                limit = processes_in_words()
                story += f"\n\nIt may be for want of processes: {limit}." if limit else ""
            story += self._layout.advice(first)
            raise RankFailed("The ranks could not start: " + story, failures=outcome.failures)
        if outcome.statuses:
            uncounted = outcome.uncounted
            story = stuck_story(
                outcome.statuses, num_ranks, timeout_s=_START_TIMEOUT_S, uncounted=uncounted, nodes=self.nodes
            )
            if any(status.rendezvous for status in outcome.statuses.values()):
                story += self._layout.advice(None)
            raise RankFailed("The ranks could not start: " + story)
