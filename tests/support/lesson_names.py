"""Which lesson a test is about, so that its tests stay in one process."""

from __future__ import annotations

import re


def lesson_of(nodeid: str) -> str:
    """The number of the lesson that a test is about, by its file or by the exercise in brackets; "" for none."""
    found = re.search(r"test_lesson_(\d\d)|test_predictions_(\d\d)|\[(\d\d)\.", nodeid)
    return next(filter(None, found.groups())) if found else ""
