"""Part a of lesson 09: places on a mesh, groups, and which axis gets the fast link."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["PLACES"]

PLACES: tuple[Asked, ...] = ()
