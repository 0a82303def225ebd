"""Part b of lesson 09: who holds which piece, who sees which samples, and whose random numbers are equal."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["PIECES"]

PIECES: tuple[Asked, ...] = ()
