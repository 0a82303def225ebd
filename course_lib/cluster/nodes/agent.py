"""The agent of a node: starts the ranks of that node, carries requests to them, and brings back what they answer.

A notebook has one on each node. Its ranks begin as forks of its own fork server, as those of a notebook do, and end
with it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from course_lib.cluster.base import temp_dirs
from course_lib.cluster.base.process_group import RankConfig
from course_lib.cluster.failures.cpu_deadline import Reading, read_threads
from course_lib.cluster.leaks import shared_memory
from course_lib.cluster.nodes.addresses import interface_towards
from course_lib.cluster.nodes.facts import NodeFacts, facts_here
from course_lib.cluster.nodes.localized import context_here_from, request_from_afar, to_carry
from course_lib.cluster.nodes.meeting.relay import MeetingRelay
from course_lib.cluster.nodes.node_clock import ClockReading, clocks_here
from course_lib.cluster.process import processes
from course_lib.cluster.process.caller_context import Context
from course_lib.cluster.process.serialization import Payload

__all__ = ["NodeAgent", "RankEvent"]

_GOODBYE_S = 1.0  # for ended ranks to be gone


@dataclass(frozen=True)
class RankEvent:
    """What came from a rank: an answer on its line for ``"work"`` or ``"watch"``, or that it ``"died"``.

    Of a whole team (rank -1): a question by which ranks ``"meet"``.
    """

    team: str
    rank: int
    kind: str
    value: Any


@dataclass
class _Team:
    """The ranks of one cluster that are on this node, and what they share."""

    folder: Path
    relay: MeetingRelay
    ranks: dict[int, processes.RankProcess] = field(default_factory=dict)
    laid_down: dict[int, list[Payload]] = field(default_factory=dict)  # of the call that a rank is in
    behind_s: dict[int, float] = field(default_factory=dict)  # of this node's clock, as each rank was told last


class NodeAgent:
    """The ranks that one notebook has on this node, in a team for each of its clusters. Any thread may call."""

    def __init__(self) -> None:
        self._teams: dict[str, _Team] = {}
        self._lines: dict[Any, tuple[str, int, str]] = {}
        self._lock = threading.RLock()
        self._woken, self._wake = Pipe(duplex=False)

    def hello(self, folder: str) -> NodeFacts:
        """What this node is, for a notebook that works in ``folder``."""
        return facts_here(folder)

    def clocks(self) -> ClockReading:
        """This machine's clocks; those of its ranks are set by them."""
        return clocks_here()

    def look(self, team: str) -> tuple[ClockReading, dict[int, int | None]]:
        """The clocks, and which ranks of a team have died, each with its exit code."""
        with self._lock:
            of_team = self._teams.get(team)
            ranks = of_team.ranks.items() if of_team is not None else ()
            died = {number: rank.exit_code() for number, rank in ranks if not rank.is_alive}
        return clocks_here(), died

    def threads(self, team: str, ranks: Sequence[int]) -> Reading:
        """How long the threads of these ranks ran, and stood in line for a core."""
        of_team = self._teams.get(team)
        there = dict(of_team.ranks) if of_team is not None else {}
        pids = [there[rank].process.pid for rank in ranks if rank in there]
        return read_threads([pid for pid in pids if pid is not None])

    def open(self, team: str) -> None:
        """Make room for a new team."""
        with self._lock:
            folder = temp_dirs.make()
            self._teams[team] = _Team(folder, MeetingRelay(folder))
            self._lines[self._teams[team].relay.questions] = (team, -1, "meet")
        self._wake.send_bytes(b".")
        processes.warm()

    def answer(self, team: str, number: int, value: Any) -> None:
        """What a rank of this node wanted to know of another one."""
        of_team = self._teams.get(team)
        if of_team is not None:
            of_team.relay.answer(number, value)

    def start(self, team: str, config: RankConfig, context: Context) -> None:
        """Start a rank; its first answer comes as an event."""
        with self._lock:
            interface = interface_towards(config.notebook_address)
            names = {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface} if interface else {}
            config = replace(config, folder=self._teams[team].folder, env={**names, **config.env})
            rank = processes.start(config, context_here_from(context))
            self._teams[team].ranks[config.rank] = rank
            self._teams[team].behind_s[config.rank] = config.clock_behind_s
            for line, kind in ((rank.work, "work"), (rank.watch, "watch"), (rank.sentinel, "died")):
                self._lines[line] = (team, config.rank, kind)
        self._wake.send_bytes(b".")

    def send(self, team: str, rank: int, line: str, request: Any, behind_s: float) -> None:
        """Pass a request on, and first how far this node's clock is behind, where that is new.

        Where the rank has died, its end is an event, and this says nothing.
        """
        with self._lock:
            of_team = self._teams.get(team)
            if of_team is None or rank not in of_team.ranks:
                return
            if line == "work":
                request = request_from_afar(request, of_team.folder)
                of_team.laid_down[rank] = [detail for detail in request if isinstance(detail, Payload)]
            with contextlib.suppress(OSError):
                if line == "work" and of_team.behind_s[rank] != behind_s:
                    of_team.behind_s[rank] = behind_s
                    of_team.ranks[rank].work.send(("keep_time", behind_s))
                getattr(of_team.ranks[rank], line).send(request)

    def events(self, wait_s: float) -> list[RankEvent]:
        """What has come from the ranks; empty where nothing has for ``wait_s`` seconds."""
        with self._lock:
            lines = [self._woken, *self._lines]
        try:
            ready = wait(lines, wait_s)
        except (OSError, ValueError):  # a line was closed meanwhile
            return []
        if self._woken in ready:
            self._woken.recv_bytes()
        with self._lock:
            found = [self._event(line) for line in ready if line in self._lines]
        return [event for event in found if event is not None]

    def do(self, team: str, rank: int, what: str) -> None:
        """``"interrupt"``, ``"kill"`` or ``"end_children"``."""
        with self._lock:
            if team in self._teams and rank in self._teams[team].ranks:
                getattr(self._teams[team].ranks[rank], what)()

    def ask(self, team: str, rank: int, what: str) -> Any:
        """``"printed"`` or ``"stacks"`` of a rank, or whether it ``"is_stopped"``."""
        with self._lock:
            found = getattr(self._teams[team].ranks[rank], what)
            return found() if callable(found) else found

    def end(self, team: str) -> None:
        """End the ranks of a team, and remove their folder. Safe to repeat."""
        with self._lock:
            of_team = self._teams.pop(team, None)
            if of_team is None:
                return
            self._lines = {line: of_whom for line, of_whom in self._lines.items() if of_whom[0] != team}
            of_team.relay.close()
            for rank in of_team.ranks.values():
                rank.kill()
            for rank in of_team.ranks.values():
                rank.wait(_GOODBYE_S)
            shared_memory.remove_noted(of_team.folder)
            temp_dirs.remove(of_team.folder)

    def close(self) -> None:
        """End all teams."""
        for team in list(self._teams):
            self.end(team)

    def _event(self, line: Any) -> RankEvent | None:
        team, rank, kind = self._lines[line]
        if kind == "meet":
            return RankEvent(team, rank, kind, line.recv())
        process = self._teams[team].ranks[rank]
        try:
            if kind == "died":
                if process.work in self._lines and process.work.poll():
                    return None  # its last answer comes first
                del self._lines[line]
                return RankEvent(team, rank, kind, process.exit_code())
            value = line.recv()
        except (EOFError, OSError):
            self._lines.pop(line, None)
            return None
        if kind == "work":
            for payload in self._teams[team].laid_down.pop(rank, ()):
                payload.discard()
            value = to_carry(value, discard=True)
        return RankEvent(team, rank, kind, value)
