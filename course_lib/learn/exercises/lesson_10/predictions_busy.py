"""Part d of lesson 10: experts that are equally busy."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["BUSY"]

BUSY: tuple[Asked, ...] = ()
