"""Lessons as text: one py:percent source gives the notebook for doing and the executed one for reading."""

from __future__ import annotations

from course_lib.notebooks.info import LessonError, LessonInfo, lesson_info, lessons

__all__ = ["LessonError", "LessonInfo", "lesson_info", "lessons"]
