"""Lessons as text: one py:percent source gives the notebook for doing and the executed one for reading.

In the order to read:

- ``info.py``: what a lesson says about itself in its first cell
- ``kernel_sockets.py``: A kernel that listens at files in a folder of ours, and not at TCP ports
- ``execute.py``: run every cell of a notebook in a fresh kernel of this very interpreter, and keep what it printed
- ``regions.py``: solution regions: the lines from ``### BEGIN SOLUTION`` to ``### END SOLUTION`` are the learner's
- ``source.py``: read a lesson's source: a list of cells, each of which knows the line where it begins
- ``glossary.py``: the glossary: every word where a lesson first explains it, and what others call it
- ``prerequisites.py``: on which earlier parts each part builds
- ``ways.py``: ways through the course for the time that somebody has, and how long each takes by the minutes of its
  lessons
- ``convert.py``: A source becomes two notebooks without a run
- ``code_names.py``: which names a piece of code reads from around it, and which it binds
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
