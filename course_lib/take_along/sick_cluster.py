"""A small cluster with something wrong in it, for a clinic of lesson 12d. Do not look: find it by measuring."""

from __future__ import annotations

from course_lib.cluster.links.links import Links
from course_lib.layouts.link import Link

__all__ = ["sick_links"]

_SOUND = Link(latency_s=1e-4, bandwidth_bytes_per_s=250e6)
_SICK = Link(latency_s=1e-4, bandwidth_bytes_per_s=20e6)


def sick_links() -> Links:
    """Links of four ranks, each of which stands for a node of its own; some are as they were sold."""
    sick = sum(map(ord, "four nodes")) % 4
    return Links(_SOUND, between={(rank, sick): _SICK for rank in range(4) if rank != sick})
