"""07.search: the answer that is forbidden; the others stand in ``lesson_07/search.py``."""

from __future__ import annotations

from course_lib.schedules import list_schedule

EXERCISE = "07.search"
FORBIDDEN = list_schedule
