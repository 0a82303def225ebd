"""Part d of lesson 05: clipping, checkpoints and tied weights of a model that is sharded."""

from __future__ import annotations

from course_lib.learn.asked import Asked

__all__ = ["ONE_MODEL"]

ONE_MODEL: tuple[Asked, ...] = ()
