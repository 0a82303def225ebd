"""Part a of lesson 05: what a rank needs between two steps, and what ZeRO-1 and ZeRO-2 send."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["STATES"]

STATES: tuple[Asked, ...] = ()
