"""``course class board FOLDER --after FILE``: real minutes, where people were stuck, and nobody's name."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from course_lib import classroom
from course_lib.classroom.board.class_minutes import last_day, minutes_by_part, minutes_until_passed, on_day
from course_lib.classroom.board.read_shared import SharedReader
from course_lib.classroom.share.shared import Identity, file_name, text_of
from course_lib.learn.checks.lesson_index import places
from course_lib.lessons.info import lessons

MORNING = datetime(2026, 11, 23, 9, 0, tzinfo=timezone(timedelta(hours=1)))


def at(minute: float, event: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"time": (MORNING + timedelta(minutes=minute)).isoformat(), "event": event, "name": name, **fields}


def tried(minute: float, name: str, mistake: str | None = None) -> dict[str, Any]:
    return at(minute, "check", name, status="not yet", mistake=mistake)


def passed(minute: float, name: str) -> dict[str, Any]:
    return at(minute, "check", name, status="passed")


# Ada works on 00 for 25 minutes and on 04a for 19; Bob pauses for an hour, and is stuck in 04a; the third came before.
ADA = [at(0, "guess", "00.sum"), at(5, "predict", "00.sum", right=False), tried(15, "00.mean"), passed(25, "00.mean"),
       tried(32, "04.gradients", "averages-the-weights"), passed(44, "04.gradients")]  # fmt: skip
BOB = [at(0, "guess", "00.sum"), at(10, "predict", "00.sum", right=False), passed(70, "00.mean"),
       at(80, "hint", "04.gradients", step=1), tried(90, "04.gradients", "averages-the-weights"),
       tried(99, "04.gradients", "averages-the-weights")]  # fmt: skip
BEFORE = [at(-2 * 24 * 60, "guess", "00.sum"), at(-2 * 24 * 60 + 3, "predict", "00.sum", right=True)]


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    folder = tmp_path / "drop"
    folder.mkdir()
    for word, alias, events in (("adaword", "Ada L.", ADA), ("bobword", "Bob", BOB), ("oldword", "Old", BEFORE)):
        who = Identity(word, alias)
        (folder / file_name(who)).write_text(text_of(who, events))
    return folder


def write(drop: Path, *options: str, name: str = "after.md") -> str:
    out = drop.parent / name
    assert classroom.main(["board", str(drop), "--after", str(out), *options]) == 0
    return out.read_text()


def learners_of(drop: Path, day: date) -> list[Any]:
    return on_day(SharedReader([drop]).gather().learners, day)


def test_minutes_are_those_between_answers_without_pauses(drop: Path) -> None:
    present = learners_of(drop, MORNING.date())
    assert len(present) == 2
    minutes = {one.place: one.minutes for one in minutes_by_part(present, places())}
    assert minutes == {"00": (10.0, 25.0), "04a": (19.0, 29.0)}
    assert minutes_until_passed(present) == {"00.mean": 5.0, "04.gradients": 12.0}  # the median of 10 and of 0


def test_the_page_has_the_minutes_and_where_people_were_stuck(drop: Path) -> None:
    text = write(drop)
    assert text.startswith("# After the class of 23 November 2026\n\n2 learners shared.")
    said = {info.label: info.minutes_text for info in lessons()}
    assert f"| 00 Start here | {said['00']} | 18 | 10 to 25 | 2 | 0 |  |" in text
    assert f"| 04a one rule, sent in buckets | {said['04a']} | 24 | 19 to 29 | 2 | 0 |  |" in text
    stuck = text.partition("## Where people were stuck")[2].partition("\n## ")[0]
    rows = [line for line in stuck.splitlines() if line.startswith("| 0")]
    assert rows == [
        "| 04.gradients | 1 of 2 | 2 | 1 / 0 | 12 | averages the weights (2) |  |",
        "| 00.mean | 0 of 2 | 1.5 | 0 / 0 | 5 | – |  |",
    ]
    assert "| 00.sum | 2 of 2 |  |" in text
    assert "- What the room asked that no page answers:" in text


def test_the_page_names_nobody(drop: Path) -> None:
    text = write(drop)
    for secret in ("Ada", "Bob", "adaword", "bobword"):
        assert secret not in text


def test_a_day_and_a_lesson_can_be_chosen(drop: Path) -> None:
    text = write(drop, "--day", "2026-11-21")
    assert text.startswith("# After the class of 21 November 2026\n\n1 learner shared.")
    assert "None was missed." in text
    assert "No check was tried." in text
    of_04 = write(drop, "--lesson", "04", name="of_04.md")
    assert "04.gradients" in of_04
    assert "00.mean" not in of_04


def test_times_that_cannot_be_read_are_no_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    who = Identity("someword")
    events = [
        {"event": "guess", "name": "00.sum", "time": time} for time in ("", "yesterday", "2026-11-23T10:00:00", 7)
    ]
    (tmp_path / file_name(who)).write_text(text_of(who, events))
    assert last_day(SharedReader([tmp_path]).gather().learners) is None
    assert classroom.main(["board", str(tmp_path), "--after", str(tmp_path / "x.md")]) == 2
    assert "no shared answer has a time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--after", "{there}"], "exists, and the command overwrites no file"),
        (["--after", "{no}/x.md"], "there is no folder"),
        (["--after", "{new}", "--day", "2026-01-01"], "nobody who shares here answered on 2026-01-01; the last day"),
        (["--after", "{new}", "--watch"], "--after writes a page to fill in, and draws no board"),
        (["--after", "{new}", "--lesson", "99"], "there is no lesson '99'"),
        (["--day", "2026-01-01"], "--day belongs to --after"),
    ],
)
def test_what_cannot_be_written_gets_a_sentence(
    drop: Path, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there = drop.parent / "there.md"
    there.write_text("mine")
    names = {"there": there, "new": drop.parent / "new.md", "no": drop.parent / "no"}
    assert classroom.main(["board", str(drop), *(option.format(**names) for option in options)]) == 2
    assert says in capsys.readouterr().err
    assert there.read_text() == "mine"
    assert not names["new"].exists()
