"""A planner of one page: what lesson 11 lets learners build. ``estimate`` and ``search`` know much more.

In the order to read:

- ``inputs.py``: What it is given: a job and machines as plain numbers, and runs that were timed
- ``planner.py``: Memory and time of a layout by formulas, the layouts that fit, and a share found by runs
- ``timed_runs.py``: Published runs in its words: those that pages show, and those of ``kept_back.csv`` that judge
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "Machines": "inputs",
    "PlannedJob": "inputs",
    "Planner": "planner",
    "TimedRun": "inputs",
    "kept_back_runs": "timed_runs",
    "machines_of": "inputs",
    "planned_job": "inputs",
    "shown_runs": "timed_runs",
    "timed_run": "timed_runs",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
