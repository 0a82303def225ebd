"""Python's own hash of text and bytes, salted by rank: as under torchrun, where each process has its own salt.

The course's ranks have one parent and share its salt, so an answer that sends such a hash would pass here.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["salted_hash"]


@contextmanager
def salted_hash(rank: int) -> Iterator[list[None]]:
    """While it is open, ``hash(bytes)`` differs between ranks. The list has an entry for each time it was taken."""
    plain_hash, seen = builtins.hash, list[None]()

    def salted(value: object) -> int:
        if isinstance(value, bytes | str):
            seen.append(None)
            return plain_hash((rank, value))
        return plain_hash(value)

    builtins.hash = salted
    try:
        yield seen
    finally:
        builtins.hash = plain_hash
