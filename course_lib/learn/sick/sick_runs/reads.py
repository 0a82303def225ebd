"""Batches of a rank, read ahead by threads. A read is paced: it waits."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

__all__ = ["Reads"]

_AHEAD = 1  # batches asked for, a reader


class Reads:
    """``next()`` gives a batch as soon as it has been read; ``num_readers`` 0: it is read then and there."""

    def __init__(self, num_readers: int, read_s: float) -> None:
        self._read_s = read_s
        self._pool = ThreadPoolExecutor(num_readers) if num_readers else None
        self._asked: deque[Future[None]] = deque()
        for _ in range(_AHEAD * num_readers):
            self._ask()

    def _ask(self) -> None:
        if self._pool is not None:
            self._asked.append(self._pool.submit(time.sleep, self._read_s))

    def next(self) -> None:
        """Wait for the next batch, and have another one asked for."""
        if self._pool is None:
            time.sleep(self._read_s)
            return
        first = self._asked.popleft()
        self._ask()
        first.result()

    def __enter__(self) -> Reads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
