"""The schedule of ports of emulated links: a small file that the ranks of one cluster map, under one lock.

Every operation has a record here, found by a key that all of its ranks compute alike. A rank writes down when it
entered; the first one that has truly finished settles when everybody will have arrived, and books the ports; the
others read it. The clock is ``time.monotonic``, which the processes of one machine share.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from course_lib.cluster.links.link_times import TREES, Ports, edge, joint_times, settle_tree
from course_lib.cluster.links.links import Links

__all__ = ["Booking", "Timetable"]

_NUM_RECORDS = 1024  # operations that can be under way at once


@dataclass(frozen=True)
class Booking:
    """An operation as all of its ranks know it, and the place of this rank in it."""

    key: tuple[object, ...]  # the same on every rank that takes part, and on no other operation
    operation: str
    ranks: tuple[int, ...]  # of the group, by place
    group_rank: int
    root: int = 0  # a place

    @property
    def series(self) -> tuple[object, ...]:
        """The line that it stands in: the calls of a series are served in the order in which they were made."""
        return self.key[:-1]

    @property
    def number(self) -> int:
        """The key as a whole number that is not 0."""
        return int.from_bytes(hashlib.blake2b(repr(self.key).encode(), digest_size=7).digest(), "big") + 1


class Timetable:
    """When ports are free, and who entered which operation when."""

    def __init__(self, path: Path, links: Links, world_size: int) -> None:
        self._links, self._world_size = links, world_size
        n, slots, num_ports = world_size, _NUM_RECORDS, Ports.count(links, world_size)
        shapes = [(num_ports,), (num_ports,), (slots,), (slots,), (slots, n), (slots, n), (slots, n, n)]
        size_bytes = 8 * sum(int(np.prod(shape)) for shape in shapes)
        self._file = open(path, "a+b")  # noqa: SIM115 - open as long as the timetable is
        self._file.truncate(size_bytes)  # zeros, whoever comes first; a later one changes nothing
        self._memory = mmap.mmap(self._file.fileno(), size_bytes)
        arrays, offset = [], 0
        for i, shape in enumerate(shapes):
            dtype = np.int64 if i in (2, 3) else np.float64
            arrays.append(np.ndarray(shape, dtype, self._memory, offset))
            offset += arrays[-1].nbytes
        self._out, self._into, self._keys, self._num_left, self._entered, self._arrived, self._parts = arrays
        self._unsettled: dict[tuple[object, ...], list[Booking]] = {}  # of this rank, by series
        self._mutex = threading.Lock()  # among threads; the lock of the file is among processes

    def enter(self, booking: Booking, time_s: float, parts_bytes: Sequence[float]) -> None:
        """Write down that this rank entered, and what it has for every place (at its own place: the whole)."""
        with self._locked():
            slot = self._slot(booking)
            self._entered[slot, booking.group_rank] = time_s
            self._parts[slot, booking.group_rank, : len(parts_bytes)] = parts_bytes
            self._unsettled.setdefault(booking.series, []).append(booking)

    def settle(self, booking: Booking) -> float:
        """This rank has finished in truth; when will it have finished by the timetable?"""
        with self._locked():
            line = self._unsettled[booking.series]
            for earlier in line[: line.index(booking)]:  # the back end may finish a later call first
                self._fill(earlier)
            time_s = self._fill(booking)
            line.remove(booking)
            if not line:
                del self._unsettled[booking.series]
            self._leave(self._slot(booking), len(booking.ranks))
        return time_s

    def _fill(self, booking: Booking) -> float:
        """Book the ports for all that can be known of an operation; when is this rank done, as far as that goes?"""
        n, group_rank, root = len(booking.ranks), booking.group_rank, booking.root
        slot = self._slot(booking)
        entered_s, arrived_s = self._entered[slot, :n].tolist(), self._arrived[slot, :n].tolist()
        parts = self._parts[slot, :n, :n].tolist()
        out, into = self._out.tolist(), self._into.tolist()
        ports = Ports(self._links, self._world_size, booking.ranks, out, into)
        if booking.operation in TREES:
            size_bytes = max(parts[i][i] for i in range(n))
            settle_tree(booking.operation, entered_s, arrived_s, size_bytes, root=root, ports=ports)
            others = [other for other in range(n) if other != root]
            mine = [arrived_s[other] for other in others if group_rank in edge(booking.operation, other, root, n)]
        else:
            if not arrived_s[group_rank] and all(entered_s):
                arrived_s = joint_times(booking.operation, entered_s, parts, root=root, ports=ports)
            mine = [arrived_s[group_rank]]
        self._out[:], self._into[:], self._arrived[slot, :n] = out, into, arrived_s
        return max([entered_s[group_rank], *mine])

    def _leave(self, slot: int, num_ranks: int) -> None:
        self._num_left[slot] += 1
        if self._num_left[slot] == num_ranks:
            self._keys[slot] = 0

    def _slot(self, booking: Booking) -> int:
        """The record of an operation, made if it is not there yet."""
        number = booking.number
        found = np.flatnonzero(self._keys == number)
        if len(found):
            return int(found[0])
        free = np.flatnonzero(self._keys == 0)
        # All taken: messages were started that nobody ever received. The one that began first gives way.
        slot = int(free[0]) if len(free) else int(self._entered.max(axis=1).argmin())
        self._keys[slot], self._num_left[slot] = number, 0
        self._entered[slot], self._arrived[slot], self._parts[slot] = 0.0, 0.0, 0.0
        return slot

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._mutex:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
