"""Whole builds: one cell at the end of a strategy, judged in steps, how far one is, and what it costs beside others.

In the order to read:

- ``build.py``: what a build is, as data
- ``catalogue.py``: the builds of the course
- ``comparison.py``: several implementations through the same metered run, as a table
- ``progress.py``: ``build_progress``: which steps have passed, which is next, and what the learner's cost
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "BUILDS": "catalogue",
    "Build": "build",
    "BuildProgress": "progress",
    "SideBySide": "comparison",
    "build_named": "catalogue",
    "build_of_step": "catalogue",
    "build_progress": "progress",
    "side_by_side": "comparison",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
