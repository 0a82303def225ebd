"""Whole builds: one cell at the end of a strategy, judged in steps, how far one is, and what it costs beside others.

In the order to read:

- ``build.py``: what a build is, as data
- ``catalogue.py``: the builds of the course
- ``comparison.py``: several implementations through the same metered run, as a table
- ``replicas.py``: the same for replicas in the threads of one process, of the build of lesson 03
- ``planners.py``: planners beside each other and beside published runs, of the build of lesson 11
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
    "planners_side_by_side": "planners",
    "replicas_side_by_side": "replicas",
    "side_by_side": "comparison",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
