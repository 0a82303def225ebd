"""Lessons as text: one py:percent source gives the notebook for doing and the executed one for reading.

In the order to read:

- ``info.py``: what a lesson says about itself in its first cell
- ``kernel_sockets.py``: A kernel that listens at files in a folder of ours, and not at TCP ports
- ``execute.py``: run every cell of a notebook in a fresh kernel of this very interpreter, and keep what it printed
- ``regions.py``: solution regions
- ``source.py``: read a lesson's source
- ``glossary.py``: the glossary
- ``convert.py``: A source becomes two notebooks without a run
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "LessonError": "info",
    "LessonInfo": "info",
    "lesson_info": "info",
    "lessons": "info",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
