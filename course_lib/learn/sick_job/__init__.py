"""A simulated job that fails, for the clinic of lesson 12: its log, and what a change of one setting gains.

In the order to read: ``settings.py`` (how it is set up, and what can be changed), ``log.py`` (what one run shows). What
is assumed stands in ``cost/goodput.py``: failures of equal rate, independent of each other. A spare node is always at
hand, so the job never waits for a repair.
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "Failure": "log",
    "JobLog": "log",
    "SETTINGS": "settings",
    "Setup": "settings",
    "changed": "settings",
    "gained": "settings",
    "log_of": "log",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
