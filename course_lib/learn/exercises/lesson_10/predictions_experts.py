"""Part c of lesson 10: experts that are shared out."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["EXPERTS"]

EXPERTS: tuple[Asked, ...] = ()
