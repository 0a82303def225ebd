"""Part b of lesson 10: equal work for all ranks, and all-to-all attention."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["BALANCE"]

BALANCE: tuple[Asked, ...] = ()
