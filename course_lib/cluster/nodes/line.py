"""The line between a notebook and an agent: messages in pieces, so that both see that a large one still moves.

Whoever has something to say puts it down and goes on; one thread sends. A line that is full, or cut, keeps nobody.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["Line"]

_PIECE = 1 << 20  # bytes
_MORE, _LAST = b"+", b"."


class Line:
    """Two pipes. ``heard_s`` and ``moved_s``: when a piece has come last, and when one has come or gone.

    Both are times of ``time.monotonic``.
    """

    def __init__(self, incoming: Connection, outgoing: Connection) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.heard_s = self.moved_s = time.monotonic()

    def put(self, message: Any) -> None:
        """Have it sent. Raises what ``pickle`` raises."""
        self._outbox.put(pickle.dumps(message))

    def end(self) -> None:
        """What is put down from here on is not sent; the other side hears that the line has closed."""
        self._outbox.put(None)

    def speak(self) -> None:
        """The life of the thread that sends, until the line ends or closes."""
        with contextlib.suppress(OSError):  # whoever listens finds out that the line has closed
            while (message := self._outbox.get()) is not None:
                for piece in _pieces(message):
                    self._outgoing.send_bytes(piece)
                    self.moved_s = time.monotonic()
        self._outgoing.close()

    def take(self) -> Any:
        """The next message. Raises ``EOFError`` or ``OSError`` where the line has closed."""
        pieces = []
        while True:
            piece = self._incoming.recv_bytes()
            self.heard_s = self.moved_s = time.monotonic()
            pieces.append(memoryview(piece)[1:])
            if piece[:1] == _LAST:
                return pickle.loads(b"".join(pieces))


def _pieces(message: bytes) -> Iterator[bytes]:
    for start in range(0, len(message), _PIECE):
        is_last = start + _PIECE >= len(message)
        yield (_LAST if is_last else _MORE) + message[start : start + _PIECE]
