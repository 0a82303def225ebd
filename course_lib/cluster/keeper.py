"""Which team of ranks a cluster has at the moment: made when one is needed, replaced when it is not as it should be."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

from course_lib.cluster.backends import Seat
from course_lib.cluster.hold import held_back
from course_lib.cluster.shortage import told
from course_lib.cluster.team import Team

__all__ = ["Keeper"]

_LOST = (
    "The ranks have ended since your last cell, and the variables of your %%ranks cells with them: run those cells "
    "again."
)


class Keeper:
    """Holds the team of one cluster. When this object goes, and when Python ends, the ranks end."""

    def __init__(self, seats: Sequence[Seat], settings: dict[str, Any]) -> None:
        self.team: Team | None = None
        self._seats, self._settings = seats, settings
        self._end_team: weakref.finalize | None = None
        self._owner_pid = os.getpid()

    def ready(self) -> Team:
        """A team that is up and in order. Says so where variables of cells went with an earlier one."""
        self._refuse_in_a_fork()
        lost = False
        if self.team is not None and not (self.team.is_whole and self.team.in_order):
            lost = (
                self.team.keeps_variables
            )  # a rank died between two calls, or a call was cut off at its end
            self.drop()
        if self.team is None:
            self._start()
        assert self.team is not None
        if lost:
            print(_LOST)
        return self.team

    def drop(self, *, gently: bool = False) -> None:
        """End the team, if there is one. Safe to repeat, and to interrupt."""
        with held_back():
            team, end_team = self.team, self._end_team
            self.team = self._end_team = None
            if team is not None:
                team.end(gently=gently)
            if end_team is not None:
                end_team.detach()  # last: until then, the end of this process would finish what was cut off

    def _start(self) -> None:
        with told(), held_back():
            self.team = team = Team(self._seats, self._settings)
            self._end_team = weakref.finalize(self, team.end)
        try:
            with told():
                team.start()
        except BaseException:
            self.drop()
            raise

    def _refuse_in_a_fork(self) -> None:
        if os.getpid() != self._owner_pid:
            raise RuntimeError(
                "this process is a fork of the one that made this Cluster, and its ranks answer to that one alone: "
                "call the cluster there, or make a Cluster in a process started with "
                "multiprocessing.get_context('spawn')"
            )
