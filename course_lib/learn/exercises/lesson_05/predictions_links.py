"""Part c of lesson 05: bytes and time of stage 3, prefetch, hybrid sharding, dtypes."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["LINKS"]

LINKS: tuple[Asked, ...] = ()
