"""On a node: takes the questions by which its ranks find those of other nodes, and brings back the answers.

The ranks connect to a socket in the folder of their team, which their user alone can open.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from course_lib.cluster.base.process_group import MEETING_SOCKET

__all__ = ["MeetingRelay"]


class MeetingRelay:
    """``questions``: where each comes out, with its number. ``answer`` takes the answer of that number."""

    def __init__(self, folder: Path) -> None:
        self.questions, self._outgoing = Pipe(duplex=False)
        self._listener = Listener(str(folder / MEETING_SOCKET), family="AF_UNIX")
        self._numbers = itertools.count(1)
        self._waiting: dict[int, SimpleQueue[Any]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._welcome, daemon=True).start()

    def answer(self, number: int, value: Any) -> None:
        """Give the answer to who asked; one who has gone meanwhile is no error."""
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting.put(value)

    def close(self) -> None:
        """Take no more questions; nobody waits for an answer any more."""
        with contextlib.suppress(OSError):
            self._listener.close()
        self.questions.close()  # first: who sends while nobody reads any more ends by that, and lets go of the lock
        with self._lock, contextlib.suppress(OSError):
            self._outgoing.close()
        for number in list(self._waiting):
            self.answer(number, RuntimeError("the team of this rank has ended"))

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept(),), daemon=True).start()

    def _serve(self, rank: Connection) -> None:
        """One question after the other, from one thread of a rank, until it goes."""
        with contextlib.suppress(EOFError, OSError), rank:
            while True:
                what, *details = rank.recv()
                number, answer = next(self._numbers), SimpleQueue[Any]()
                self._waiting[number] = answer
                with self._lock:
                    self._outgoing.send((number, what, tuple(details)))
                rank.send(answer.get())
