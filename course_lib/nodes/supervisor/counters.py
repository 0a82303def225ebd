"""The kernel's count of what went over a node's link. By the standard library alone: the supervisor reads it too."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["INTERFACE", "link_bytes", "read_counts"]

INTERFACE = "eth0"  # of a node that has a network of its own


def link_bytes() -> tuple[int, int] | None:
    """On a rank: bytes that its node has sent and received over its link so far, all of its ranks together.

    The count is the kernel's, with the headers of packets. None where the nodes share one network (loopback): there
    is no link to count at.
    """
    if os.environ.get("COURSE_LINK") != INTERFACE:
        return None
    return read_counts("self")


def read_counts(pid: int | str) -> tuple[int, int] | None:
    """(sent, received) of the interface in the network of a process; None where it has none."""
    try:
        text = Path(f"/proc/{pid}/net/dev").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        name, colon, numbers = line.partition(":")
        if colon and name.strip() == INTERFACE:
            fields = numbers.split()
            return int(fields[8]), int(fields[0])
    return None
