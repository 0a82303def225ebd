"""A plugin of pytest for the quick run: no test starts after ``--start-until``, and of the exercises only some lessons.

A test under way goes on to its end; it is never cut off, so nothing of it is left behind.
"""

from __future__ import annotations

import re
import time

import pytest

from course_lib.authoring.testing.reach import EXERCISES

__all__ = ["LEFT_OUT"]

LEFT_OUT = "left out, for the time was up, of"  # and the file


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--start-until", type=float, default=None, help="seconds since 1970; later tests are skipped")
    parser.addoption("--lessons", default="", help="of the exercises, those of these lessons: 03,04; all by default")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lessons = set(filter(None, config.getoption("--lessons").split(",")))
    if lessons:
        others = [item for item in items if _is_of_another(item.nodeid, lessons)]
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=others)


def _is_of_another(nodeid: str, lessons: set[str]) -> bool:
    found = re.search(r"\[(\d\d)\.", nodeid)
    return nodeid.startswith(EXERCISES) and found is not None and found[1] not in lessons


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    until_s = item.config.getoption("--start-until")
    if until_s is not None and time.time() >= until_s:
        pytest.skip(f"{LEFT_OUT} {item.nodeid.partition('::')[0]}")
