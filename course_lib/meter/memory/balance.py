"""What a memory ledger hands out: a balance of one moment, and the history of a block.

Plain frozen data with no torch in it, so that a rank can send its balance home and a plot can be drawn
anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.meter.units import bytes_text

__all__ = ["LABELS", "Balance", "Entry", "History", "check_label"]

LABELS = ("parameter", "buffer", "gradient", "optimizer state", "input", "activation", "other")
"""Every byte bears one of these. Where two would fit, the earlier one is used."""


def check_label(label: str) -> str:
    """Return ``label``, or raise ``ValueError`` with the labels there are."""
    if label not in LABELS:
        raise ValueError(f"{label!r} is no label of the ledger; its labels are {', '.join(LABELS)}")
    return label


@dataclass(frozen=True)
class Entry:
    """One storage: what it is for, which tensor or operation it came from, its size and where it lies."""

    label: str
    name: str
    size_bytes: int
    device: str


@dataclass(frozen=True, repr=False)
class Balance:
    """All storages that were live at one moment, each counted once.

    ``allocator_bytes`` is what the device's own allocator said at that moment (``None`` on a CPU, which keeps
    no such count), and ``allocator_device`` which device it spoke of.
    """

    when: str
    rank: int
    entries: tuple[Entry, ...]
    allocator_bytes: int | None = None
    allocator_device: str = ""

    def __getitem__(self, label: str) -> int:
        """The bytes under one label; 0 where there are none."""
        return self.by_label[check_label(label)]

    @property
    def by_label(self) -> dict[str, int]:
        """Bytes for every label, in the order of ``LABELS``."""
        sums = dict.fromkeys(LABELS, 0)
        for entry in self.entries:
            sums[entry.label] += entry.size_bytes
        return sums

    @property
    def total_bytes(self) -> int:
        """The bytes of all storages together."""
        return sum(entry.size_bytes for entry in self.entries)

    @property
    def unseen_bytes(self) -> int | None:
        """What the allocator holds beyond the storages seen here: rounding, workspaces, others' tensors."""
        if self.allocator_bytes is None:
            return None
        seen = sum(entry.size_bytes for entry in self.entries if entry.device == self.allocator_device)
        return self.allocator_bytes - seen

    def largest(self, n: int = 5, *, label: str | None = None) -> tuple[Entry, ...]:
        """The ``n`` largest storages, of one label or of all; the larger first, then by name."""
        chosen = [entry for entry in self.entries if label is None or entry.label == check_label(label)]
        return tuple(sorted(chosen, key=lambda entry: (-entry.size_bytes, entry.name))[:n])

    def table(self) -> str:
        """A table of the labels that hold anything, with storages, bytes and share, and the sum below."""
        total = self.total_bytes
        counts = dict.fromkeys(LABELS, 0)
        for entry in self.entries:
            counts[entry.label] += 1
        lines = [f"memory of rank {self.rank}, {self.when}", _row("", "storages", "bytes", "", "share")]
        for label, size in self.by_label.items():
            if counts[label]:
                share = f"{size / total:.1%}" if total else "-"
                lines.append(_row(label, f"{counts[label]}", f"{size:,}", bytes_text(size), share))
        lines.append(_row("total", f"{len(self.entries)}", f"{total:,}", bytes_text(total), ""))
        if self.allocator_bytes is not None and self.unseen_bytes is not None:
            where = f"allocator of {self.allocator_device}"
            lines.append(_row(where, "", f"{self.allocator_bytes:,}", bytes_text(self.allocator_bytes), ""))
            lines.append(_row("not seen here", "", f"{self.unseen_bytes:,}", bytes_text(self.unseen_bytes), ""))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.table()


def _row(label: str, count: str, size: str, short: str, share: str) -> str:
    return f"{label:<18}{count:>9}{size:>16}{short:>12}{share:>9}".rstrip()


@dataclass(frozen=True)
class History:
    """Live bytes by label after every birth or death of a storage, in order.

    ``points[i][k]`` is the number of bytes under ``LABELS[k]`` after event ``i``; ``marks`` names moments by
    the index of the event that they follow.
    """

    rank: int
    points: tuple[tuple[int, ...], ...]
    marks: tuple[tuple[str, int], ...] = ()

    @property
    def totals(self) -> tuple[int, ...]:
        """Live bytes after every event."""
        return tuple(sum(point) for point in self.points)

    def of(self, label: str) -> tuple[int, ...]:
        """Live bytes under one label after every event."""
        index = LABELS.index(check_label(label))
        return tuple(point[index] for point in self.points)


def sort_entries(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries by label, the largest first, then by name, so that equal runs give equal balances."""
    order = {label: index for index, label in enumerate(LABELS)}
    return tuple(sorted(entries, key=lambda entry: (order[entry.label], -entry.size_bytes, entry.name)))
