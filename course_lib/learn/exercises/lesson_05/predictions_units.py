"""Part b of lesson 05: units that are whole while they compute, and memory over a step."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["UNITS"]

UNITS: tuple[Asked, ...] = ()
