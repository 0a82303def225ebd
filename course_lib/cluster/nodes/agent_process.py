"""The process of a node's agent: requests come in by its stdin, answers and events go out by its stdout, as over ssh.

It ends, and its ranks with it, when that line closes, and when it has heard nothing for long: a network that is cut
closes no line. Whatever it is busy with, and where nobody takes in what it has to say: a thread of its own reads.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from course_lib.cluster.nodes.line import Line

__all__ = ["EVENT", "UNHEARD_S", "AgentProcess", "main"]

EVENT = 0  # the number of what answers no request
UNHEARD_S = 120.0  # a notebook that lives says something several times in this time
_LOOK_S = 1.0
_CLOSE_S = 5.0  # for the end of all ranks, where none is about to start
_AT_ONCE = ("clocks", "threads", "answer")  # asked while others are waiting for a rank to start, and quickly answered


class AgentProcess:
    """Answers the requests of ``incoming``, one after the other but for some at once; events go out as they come."""

    def __init__(self, incoming: Connection, outgoing: Connection) -> None:
        from course_lib.cluster.nodes.agent import NodeAgent

        self.agent = NodeAgent()
        self._line = Line(incoming, outgoing)
        self._requests: queue.SimpleQueue[tuple[int, str, tuple[Any, ...]]] = queue.SimpleQueue()
        self._is_over = threading.Event()

    def serve(self) -> None:
        """Until the line closes, or says nothing for long; then all ranks end."""
        self.wait()
        self.agent.close()

    def wait(self) -> None:
        """Answer until the line closes, or says nothing for long."""
        for life in (self._read, self._work, self._line.speak, self._pass_on_events):
            threading.Thread(target=life, daemon=True).start()
        while not self._is_over.wait(max(0.0, self._line.heard_s + UNHEARD_S - time.monotonic())):
            if time.monotonic() > self._line.heard_s + UNHEARD_S:
                self._is_over.set()

    def leave(self, *_: object) -> None:
        """A signal: have ``wait`` come to its end. By a thread, for it may have come while this one holds the lock."""
        threading.Thread(target=self._is_over.set, daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                number, method, args = self._line.take()
                if method in _AT_ONCE:
                    self._line.put((number, *self._reply(method, args)))
                else:
                    self._requests.put((number, method, args))
        except (EOFError, OSError):
            self._is_over.set()

    def _work(self) -> None:
        while True:
            number, method, args = self._requests.get()
            self._line.put((number, *self._reply(method, args)))

    def _reply(self, method: str, args: tuple[Any, ...]) -> tuple[str, Any]:
        try:
            return "done", getattr(self.agent, method)(*args)
        except Exception:
            return "failed", traceback.format_exc(limit=-3)

    def _pass_on_events(self) -> None:
        while not self._is_over.is_set():
            for event in self.agent.events(_LOOK_S):
                self._line.put((EVENT, "done", event))


def main() -> None:
    """Run the agent on this process's stdin and stdout; what anything prints here goes to stderr."""
    from course_lib.cluster.process import processes

    outgoing = Connection(os.dup(1), readable=False)
    incoming = Connection(os.dup(0), writable=False)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = AgentProcess(incoming, outgoing)

    signal.signal(signal.SIGTERM, server.leave)
    signal.signal(signal.SIGHUP, server.leave)
    server.wait()
    stuck = threading.Timer(_CLOSE_S, processes.end_server)  # a start that waits for it ends then, and lets us go on
    stuck.start()
    server.agent.close()
    stuck.cancel()
    processes.end_server()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
