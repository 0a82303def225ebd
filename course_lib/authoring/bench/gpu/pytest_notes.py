"""A plugin for pytest: a line of JSON for each phase of each test, on the disk at once, so that a test which hangs is
known by its name. ``-p course_lib.authoring.bench.gpu.pytest_notes``, with the file's name in the variable ``NOTES``.
"""

from __future__ import annotations

import json
import os
from typing import Any

__all__ = ["NOTES"]

NOTES = "COURSE_GPU_NOTES"


def _note(**what: Any) -> None:
    with open(os.environ[NOTES], "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    """A test begins."""
    _note(test=nodeid, when="start", outcome="begun", why="")


def pytest_runtest_logreport(report: Any) -> None:
    """A phase of a test is over: its set-up, the test, its tear-down."""
    skipped = report.outcome == "skipped" and isinstance(report.longrepr, tuple)
    why = report.longrepr[2] if skipped else (report.longreprtext if report.outcome != "passed" else "")
    _note(test=report.nodeid, when=report.when, outcome=report.outcome, why=why)
