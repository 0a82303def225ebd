"""The store by which ranks of several nodes find each other: each asks its agent, and the notebook keeps what is said.

PyTorch's own store for that, ``TCPStore``, is a port without a key: whoever reaches it reads and writes all of it, the
addresses by which ranks connect too. This one is a socket in a folder that its user alone can open. What goes through
it takes the line between agent and notebook, as all calls do.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

import torch.distributed as dist

__all__ = ["LineStore", "line_store"]

_TIMEOUT = timedelta(seconds=60)


class LineStore(dist.Store):
    """PyTorch calls these methods, from any thread; each thread has a connection of its own."""

    def __init__(self, socket: Path) -> None:
        super().__init__()
        self._socket, self._own = str(socket), threading.local()

    def set(self, key: str, value: str | bytes) -> None:
        self._ask("set", key, value.encode() if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        """The value, once there is one."""
        return self._ask("get", key)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """All their values, once there are all; one question."""
        return self._ask("multi_get", *keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Until all keys have values. ``DistStoreError`` where they do not get them in time."""
        self._ask("wait", *keys, timeout=timeout)

    def check(self, keys: Sequence[str]) -> bool:
        return self._ask("check", *keys)

    def add(self, key: str, value: int) -> int:
        return self._ask("add", key, value)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        parts = (part.encode() if isinstance(part, str) else bytes(part) for part in (expected, desired))
        return self._ask("compare_set", key, *parts)

    def delete_key(self, key: str) -> bool:
        return self._ask("delete_key", key)

    def num_keys(self) -> int:
        return self._ask("num_keys")

    deleteKey, getNumKeys = delete_key, num_keys  # noqa: N815 - by these names PyTorch's C++ calls them

    def _ask(self, what: str, *details: Any, timeout: timedelta | None = None) -> Any:
        line: Connection | None = getattr(self._own, "line", None)
        self._own.line = None  # an interrupt leaves none from which another question's answer would come
        line = line or Client(self._socket, family="AF_UNIX")
        try:
            line.send((what, *details))
            limit_s = (timeout or _TIMEOUT).total_seconds()
            if not line.poll(limit_s):
                raise dist.DistStoreError(f"no {what} of {', '.join(map(str, details[:1]))} within {limit_s:.0f} s")
            answer = line.recv()
        except BaseException:
            line.close()
            raise
        self._own.line = line
        if isinstance(answer, RuntimeError):
            raise answer
        return answer


@cache
def line_store(socket: Path) -> LineStore:
    """One for all of a process's groups. It is kept, for PyTorch's C++ does not keep a store written in Python."""
    return LineStore(socket)
