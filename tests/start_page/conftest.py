"""What tests of the start page share: a progress file of their own, and a day that stands still."""

from __future__ import annotations

import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from course_lib.learn.records import store as store_module
from course_lib.learn.records.store import Store
from course_lib.start_page import page

MONDAY = date(2026, 11, 2)


class Planted:
    """A learner whose events are written with the day on which they were."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept = Store(path)

    def did(self, event: str, name: str, day: date = MONDAY, **fields: Any) -> None:
        noon = datetime(day.year, day.month, day.day, 12).astimezone()
        self.kept.append({"time": noon.isoformat(timespec="seconds"), "event": event, "name": name, **fields})

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.kept.read()


@pytest.fixture
def learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """The learner of this process, on a Monday, with an empty library of their own."""
    planted = Planted(tmp_path / "home" / "progress.jsonl")
    monkeypatch.setattr(sys.modules["course_lib.learn.records.store"], "_is_off", lambda: False)
    monkeypatch.setattr(store_module, "data_dir", lambda: planted.path.parent)
    monkeypatch.setattr(page, "today", lambda: MONDAY)
    monkeypatch.setattr(page, "mine_folder", lambda: tmp_path / "mine")
    return planted
