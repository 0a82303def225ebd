"""A simulated job that fails, for the clinic of lesson 12: its log, and what a change of one setting gains.

In the order to read:

- ``settings.py``: how the clinic's job is set up, what can be changed, and what a change of one setting gains
- ``log.py``: what the log of the clinic's job says
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "JobFailure": "log",
    "JobLog": "log",
    "SETTINGS": "settings",
    "Setup": "settings",
    "changed": "settings",
    "gained": "settings",
    "log_of": "log",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
