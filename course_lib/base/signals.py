"""What ends a program from outside (a closed terminal, a batch system's SIGTERM) ends it as Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["ended_as_by_ctrl_c"]


@contextlib.contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP do what Ctrl-C does, so that nothing which was started is left behind.

    A signal that is ignored, as SIGHUP is under ``nohup``, stays so. Python lets the main thread alone say what signals
    do; in another thread this changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> None:
    """What Ctrl-C does now, in asyncio too; a plain interrupt where that is ignored, as in a script's background."""
    if not callable(signal.getsignal(signal.SIGINT)):
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)
