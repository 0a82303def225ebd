"""A rank that is asked where it stands while its main thread holds every object that the collector knows."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from course_lib.cluster.base import stack_of_thread
from course_lib.cluster.base.failure import Frame
from course_lib.cluster.failures import rank_status
from course_lib.cluster.hooks.op_tracker import OpTracker


@pytest.fixture
def all_objects():
    """Takes hold of them, as `raw_bytes` of the capstone does, and gives back what it is given."""
    held: list[Any] = []

    def hold(given: Any = None) -> Any:
        held.append(gc.get_objects())
        return given

    yield hold
    held.clear()


def test_it_says_in_which_lines_it_is(all_objects, monkeypatch):
    monkeypatch.setattr(stack_of_thread, "Frame", lambda *place: all_objects(Frame(*place)))
    stack = rank_status._stack_of(threading.get_ident())
    assert any(frame.function == "test_it_says_in_which_lines_it_is" for frame in stack)


def test_it_says_what_was_forgotten(all_objects, monkeypatch):
    entry = SimpleNamespace(is_message=True, work=lambda: None, snapshot=lambda: all_objects("a message"))
    tracker = OpTracker.__new__(OpTracker)
    monkeypatch.setattr(tracker, "_entries", lambda: iter([entry, entry]), raising=False)
    assert tracker.dropped() == ("a message", "a message")
