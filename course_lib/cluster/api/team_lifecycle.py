"""Lifecycle of the ranks: started when a call needs them, replaced when a call has left them unclean."""

from __future__ import annotations

import os
import weakref
from multiprocessing.util import Finalize
from typing import Any

from course_lib.cluster.api.placement import say_of_links
from course_lib.cluster.api.rank_layout import RankLayout, here
from course_lib.cluster.api.team import Team
from course_lib.cluster.base.os_errors import check_processes, explained
from course_lib.cluster.failures.errors import RankInterrupted
from course_lib.cluster.process.defer_interrupt import deferred_interrupts

__all__ = ["TeamLifecycle"]

_LOST = (
    "The ranks have ended since your last cell, and the variables of your %%ranks cells with them: run those cells "
    "again."
)
_BEFORE_A_CALL = "Interrupted while the ranks were starting. They have ended; run the cell again to start others."


class TeamLifecycle:
    """Holds the team of one cluster. When this object goes, and when Python ends, the ranks end."""

    def __init__(self, layout: RankLayout, settings: dict[str, Any]) -> None:
        self.team: Team | None = None
        self.layout, self._settings = layout, settings
        self._on_cpu: TeamLifecycle | None = None
        self._end_team: weakref.finalize | None = None
        self._at_exit: Finalize | None = None
        self._owner_pid = os.getpid()

    def ready(self) -> Team:
        """A team that is up and in order. Says so where variables of cells went with an earlier one."""
        self._refuse_in_a_fork()
        lost = False
        if self.team is not None:
            self.team.look()
        if self.team is not None and not (self.team.is_complete and self.team.in_order):
            lost = self.team.keeps_variables  # a rank died between two calls, or a call was cut off at its end
            self.drop()
        if self.team is None:
            self._start()
        assert self.team is not None
        if lost:
            print(_LOST)
        return self.team

    def drop(self, *, gently: bool = False) -> None:
        """End the team, if there is one. Safe to repeat, and to interrupt."""
        with deferred_interrupts():
            team, end_team = self.team, self._end_team
            self.team = self._end_team = None
            if team is not None:
                team.end(gently=gently)
            if self._at_exit is not None:
                self._at_exit.cancel()
            if end_team is not None:
                end_team.detach()  # last: until then, the end of this process would finish what was cut off

    def on_cpu(self) -> TeamLifecycle:
        """Itself where its ranks sit on the CPU, else that of as many ranks there; they are up when first needed."""
        if self.layout.nodes is None and self.layout.devices[0].device == "cpu":
            return self
        if self.layout.nodes is not None:
            say_of_links(len(self.layout.devices))
        self._on_cpu = self._on_cpu or TeamLifecycle(here(len(self.layout.devices), num_gpus=0), self._settings)
        return self._on_cpu

    def close(self) -> None:
        """End the team, and that of the stand-ins."""
        self.drop(gently=True)
        if self._on_cpu is not None:
            self._on_cpu.drop(gently=True)

    def _start(self) -> None:
        check_processes(len(self.layout.devices) if self.layout.nodes is None else 0)
        with explained(), deferred_interrupts():
            self.team = team = Team(self.layout, self._settings)
            self._end_team = weakref.finalize(self, team.end)
            # As Python ends, multiprocessing waits for its children, and may do so before weakref's finalizers run:
            # which is first depends on which was used first. Its own finalizers always run before that wait.
            self._at_exit = Finalize(None, self._end_team, exitpriority=10)
        try:
            with explained():
                team.start()
        except KeyboardInterrupt:
            self.drop()
            raise RankInterrupted(_BEFORE_A_CALL) from None
        except BaseException:
            self.drop()
            raise

    def _refuse_in_a_fork(self) -> None:
        if os.getpid() != self._owner_pid:
            raise RuntimeError(
                "this process is a fork of the one that made this Cluster, and only that one can call its ranks. Call "
                "the cluster there, or make a Cluster in a process started with multiprocessing.get_context('spawn')"
            )
