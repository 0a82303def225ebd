"""Lesson 12, a run of training that outlives its ranks.

``resumable.py`` trains by global batches, saves whole checkpoints beside the old ones, and goes on from the newest that
is whole, on any number of ranks. Production code has the same parts in a trainer around
``torch.distributed.checkpoint``; torchtitan shows them.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {"ResumableJob": "resumable"}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
