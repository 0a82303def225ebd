"""Interrupting a function that is busy in Python on a rank: a signal that raises inside it alone."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

__all__ = ["InterruptSignal", "Interrupted"]


class Interrupted(BaseException):
    """Raised in a rank's function when the learner interrupts the notebook."""


class InterruptSignal:
    """The parent's way to end a function that is busy in Python: a signal that raises, but only inside the function."""

    def __init__(self) -> None:
        self._inside = False
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent decides alone
        if hasattr(signal, "SIGUSR2"):
            signal.signal(signal.SIGUSR2, self._raise)

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        self._inside = True
        try:
            yield
        finally:
            self._inside = False

    def _raise(self, *_: Any) -> None:
        if self._inside:
            self._inside = False
            raise Interrupted("interrupted from the notebook")
