"""The process of a node's agent: requests come in by its stdin, answers and events go out by its stdout, as over ssh.

It ends, and its ranks with it, when that line closes, and when it has heard nothing for long: a network that is cut
closes no line.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["EVENT", "UNHEARD_S", "AgentProcess", "main"]

EVENT = 0  # the number of what answers no request
UNHEARD_S = 120.0  # a notebook that lives says something several times in this time
_LOOK_S = 1.0


class AgentProcess:
    """Answers the requests of ``incoming`` one after the other; events go out whenever there are any."""

    def __init__(self, incoming: Connection, outgoing: Connection) -> None:
        from course_lib.cluster.nodes.agent import NodeAgent

        self.agent = NodeAgent()
        self._incoming, self._outgoing = incoming, outgoing
        self._lock = threading.Lock()
        self._is_over = False

    def serve(self) -> None:
        """Until the line closes, or says nothing for long."""
        threading.Thread(target=self._pass_on_events, daemon=True).start()
        try:
            while self._incoming.poll(UNHEARD_S):
                number, method, args = pickle.loads(self._incoming.recv_bytes())
                self._tell(number, *self._reply(method, args))
        except (EOFError, OSError):
            pass
        finally:
            self._is_over = True
            self.agent.close()

    def _reply(self, method: str, args: tuple[Any, ...]) -> tuple[str, Any]:
        try:
            return "done", getattr(self.agent, method)(*args)
        except Exception:
            return "failed", traceback.format_exc(limit=-3)

    def _pass_on_events(self) -> None:
        while not self._is_over:
            for event in self.agent.events(_LOOK_S):
                self._tell(EVENT, "done", event)

    def _tell(self, number: int, kind: str, value: Any) -> None:
        with self._lock:
            self._outgoing.send_bytes(pickle.dumps((number, kind, value)))


def main() -> None:
    """Run the agent on this process's stdin and stdout; what anything prints here goes to stderr."""
    outgoing = Connection(os.dup(1), readable=False)
    incoming = Connection(os.dup(0), writable=False)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = AgentProcess(incoming, outgoing)

    def leave(*_: object) -> None:
        server.agent.close()
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
    server.serve()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
