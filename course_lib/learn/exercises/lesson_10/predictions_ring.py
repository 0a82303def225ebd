"""Part a of lesson 10: attention over a sequence that is cut among ranks."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["RING"]

RING: tuple[Asked, ...] = ()
