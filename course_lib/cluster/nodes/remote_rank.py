"""A rank on another machine, as a notebook holds it: asked and answered like one that was forked here."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing import Pipe
from typing import Any, Protocol

from course_lib.cluster.failures.cpu_deadline import Reading
from course_lib.cluster.nodes.errors import NodeLost
from course_lib.cluster.nodes.localized import to_carry
from course_lib.cluster.nodes.node_clock import NodeClock

__all__ = ["Carrier", "RemoteRank"]


class Carrier(Protocol):
    """The node of a rank, as far as the rank's handle needs it."""

    @property
    def is_lost(self) -> bool: ...

    @property
    def clock(self) -> NodeClock: ...

    def ask(self, method: str, *args: Any) -> Any: ...

    def post(self, method: str, *args: Any) -> None: ...

    def forget(self, team: str, rank: int) -> None: ...

    def threads(self, team: str, ranks: Sequence[int]) -> Reading: ...


class _Line:
    """Sends to the rank by its node. For each answer that has come in there is a byte in a pipe, to wait for."""

    def __init__(self, node: Carrier, team: str, rank: int, name: str) -> None:
        self._node, self._team, self._rank, self._name = node, team, rank, name
        self._values: deque[Any] = deque()
        self._bell, self._ringer = Pipe(duplex=False)

    def send(self, request: Any) -> None:
        own = to_carry(request) if self._name == "work" else request
        try:
            self._node.post("send", self._team, self._rank, self._name, own, self._node.clock.behind_s)
        except NodeLost as error:
            raise OSError(str(error)) from None  # as of a pipe whose other end has gone

    def take_in(self, answer: Any) -> None:
        """Called by the node's thread, when an answer has come."""
        self._values.append(answer)
        with contextlib.suppress(OSError, ValueError):
            self._ringer.send_bytes(b".")

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._ringer.close()

    def recv(self) -> Any:
        self._bell.recv_bytes()
        return self._values.popleft()

    def poll(self) -> bool:
        return self._bell.poll()

    def fileno(self) -> int:
        return self._bell.fileno()

    def close(self) -> None:
        self.end()
        self._bell.close()


class RemoteRank:
    """The handle on one rank of a node: what a ``RankProcess`` is for a rank of this machine."""

    def __init__(self, node: Carrier, team: str, rank: int) -> None:
        self._node, self._team, self._rank = node, team, rank
        self.work, self.watch = _Line(node, team, rank, "work"), _Line(node, team, rank, "watch")
        self._end, self._ends = Pipe(duplex=False)
        self._exit_code: int | None = None
        self.has_died = False

    @property
    def sentinel(self) -> int:
        return self._end.fileno()

    @property
    def pids(self) -> Sequence[int]:
        """None: its process is not on this machine."""
        return ()

    @property
    def home(self) -> tuple[Carrier, str]:
        """The node that knows of its threads, and the team by whose name it does."""
        return self._node, self._team

    @property
    def is_alive(self) -> bool:
        return not (self.has_died or self._node.is_lost)

    @property
    def lost_with(self) -> str:
        """The node that has gone, and this rank with it; empty where the rank has died by itself."""
        return str(self._node) if self._node.is_lost else ""

    @property
    def is_stopped(self) -> bool:
        return bool(self._asked("is_stopped"))

    def exit_code(self) -> int | None:
        return self._exit_code

    def printed(self) -> str:
        return self._asked("printed") or ""

    def stacks(self) -> str:
        return self._asked("stacks") or ""

    def interrupt(self) -> None:
        self._do("interrupt")

    def kill(self) -> None:
        if self.is_alive:
            self._do("kill")

    def end_children(self) -> None:
        self._do("end_children")

    def wait(self, timeout_s: float) -> bool:
        """True when the process has ended; then its lines are closed. Safe to repeat."""
        deadline = time.monotonic() + timeout_s
        while self.is_alive and time.monotonic() < deadline:
            time.sleep(0.005)
        if self.is_alive:
            return False
        self.work.close()
        self.watch.close()
        with contextlib.suppress(OSError):
            self._end.close()
            self._ends.close()
        self._node.forget(self._team, self._rank)
        return True

    def take_in(self, kind: str, value: Any) -> None:
        """Called by the node's thread, for each event of this rank."""
        if kind == "died":
            self.die(value)
        else:
            (self.work if kind == "work" else self.watch).take_in(value)

    def die(self, exit_code: int | None) -> None:
        """The process has ended, or its node has gone (None)."""
        if not self.has_died:
            self.has_died, self._exit_code = True, exit_code
            self.work.end()
            with contextlib.suppress(OSError):
                self._ends.close()  # the sentinel is ready from here on

    def _do(self, what: str) -> None:
        with contextlib.suppress(NodeLost):
            self._node.post("do", self._team, self._rank, what)

    def _asked(self, what: str) -> Any:
        with contextlib.suppress(NodeLost, RuntimeError):
            return self._node.ask("ask", self._team, self._rank, what)
        return None
