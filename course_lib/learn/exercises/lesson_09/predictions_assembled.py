"""Part d of lesson 09: three cuts at once."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["ASSEMBLED"]

ASSEMBLED: tuple[Asked, ...] = ()
