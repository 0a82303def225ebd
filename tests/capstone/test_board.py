"""The board of a class: results in a tree, most points first; broken and foreign files are told and left out."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from course_lib.capstone.reports.leaderboard import board
from course_lib.capstone.reports.result_file import FILE_NAME, ForeignResult, ResultRecord, ResultRow, read_record

GOOD = ResultRecord(
    level=2,
    seed=7,
    points=80,
    rows=(
        ResultRow("values", "off by 1e-7", "1e-4", points=40, of=40, why="As one device."),
        ResultRow("step time", "120 ms", "200 ms", "100 ms (pp=4)", "100 ms (pp=4)", 40, 60, "A fifth longer."),
    ),
    name="Ada",
    mesh="pp=2 dp_shard=2",
    defence="Because of the link.",
    job="a job",
    parts={"parameter": 1000, "gradient": 1000},
    step_s=0.12,
    planner_s=0.1,
    best_s=0.1,
    budget_s=0.2,
    peak_bytes=2000,
    memory_bytes=3000,
)


def write(folder, record=GOOD, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    record = replace(record, **changes)
    (folder / FILE_NAME).write_text(record.text(), encoding="utf-8")
    return record


def with_points(points):
    return {"points": points, "rows": (ResultRow("all", "", points=points, of=100),)}


def test_a_record_comes_back_from_its_file(tmp_path):
    write(tmp_path)
    assert read_record(tmp_path / FILE_NAME) == GOOD
    bare = write(
        tmp_path,
        step_s=None,
        best_s=None,
        peak_bytes=None,
        parts={},
        why="Rank 1 is full.",
        rows=(),
        **{"points": 0},
    )
    assert read_record(tmp_path / FILE_NAME) == bare
    assert bare.regret is None


def test_levels_stand_apart_then_most_points_then_the_regret(tmp_path):
    """Eighty points of level 3 are not less than a hundred of level 1, and nobody says so."""
    write(tmp_path / "b", name="Bob", **with_points(60))
    write(tmp_path / "a" / "deep", name="Ada")
    write(tmp_path / "c", name="Cyd", level=3, **with_points(70))
    write(tmp_path / "d", name="Dan", step_s=0.11)
    found = board(tmp_path)
    assert [line.record.name for line in found.lines] == ["Dan", "Ada", "Bob", "Cyd"]
    assert [line.folder for line in found.lines] == ["d", "a/deep", "b", "c"]
    head, *lines = str(found).splitlines()
    assert head.startswith("name")
    assert lines[:2] == ["", "level 2"]
    assert re.fullmatch(r"Ada +2 +7 +80 +120 ms +\+20% +pp=2 dp_shard=2 +a/deep", lines[3])
    assert lines[5:7] == ["", "level 3"]
    assert len(lines) == 8
    assert {level: len(one) for level, one in found.by_level().items()} == {2: 3, 3: 1}
    assert found.html().count("<table") == found._html().count("<table") == 2
    assert found.skipped == ()


def test_a_step_as_good_as_the_best_is_no_regret(tmp_path):
    write(tmp_path, step_s=0.0999)
    assert " +0% " in str(board(tmp_path))


def test_no_name_is_needed_and_no_time(tmp_path):
    write(tmp_path, name="", mesh="", step_s=None)
    assert re.search(r"^\(no name\) +2 +7 +80 +– +– +–", str(board(tmp_path)), re.MULTILINE)


def changed(**changes):
    return json.dumps({**json.loads(GOOD.text()), **changes})


FOREIGN = {
    "": "no JSON",
    "{": "no JSON",
    "[1, 2]": "not a result of a capstone",
    '"text"': "not a result of a capstone",
    '{"points": 100}': "not a result of a capstone",
    changed(kind="another course"): "not a result of a capstone",
    changed(format=2): "format 2",
    changed(format="1"): "format '1'",
    changed(points=101): "from 0 to 100",
    changed(points=-1): "its points is -1",
    changed(points="100"): "its points is '100'",
    changed(points=True): "its points is True",
    changed(points=None): "from 0 to 100",
    changed(points=100): "do not add up",
    changed(level="two"): "its level is 'two'",
    changed(level=1.5): "its level is 1.5",
    changed(seed=-1): "its seed is -1",
    changed(name=["Ada"]): "not a text",
    changed(rows="many"): "its rows are not a list",
    changed(rows=[1]): "its rows are not a list",
    changed(parts=[]): "not a table",
    changed(cheats="none"): "cheats are not a list",
    changed(step_s=-0.1): "its step_s is -0.1",
    changed(step_s=0.1).replace("0.1", "NaN"): "NaN, which is not a number",
    changed(step_s=0.1).replace("0.1", "Infinity"): "Infinity, which is not a number",
    "[" * 100_000: "nested too deep",
    " " * 1_000_001: "1,000,001 bytes",
}


@pytest.mark.parametrize("place", range(len(FOREIGN)))
def test_a_foreign_file_is_told_and_skipped(tmp_path, place):
    text, said = list(FOREIGN.items())[place]
    write(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / FILE_NAME).write_text(text)
    found = board(tmp_path)
    assert len(found.lines) == 1
    ((file, why),) = found.skipped
    assert file == f"b/{FILE_NAME}"
    assert said in why
    assert f"Skipped b/{FILE_NAME}: {why}." in str(found)


def test_letters_that_are_none_and_a_folder_of_that_name(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / FILE_NAME).write_bytes(b"\xff\xfe\x00")
    (tmp_path / "b" / FILE_NAME).mkdir(parents=True)
    found = board(tmp_path)
    assert [file for file, _ in found.skipped] == [f"a/{FILE_NAME}"]
    assert str(found).startswith(f"No result in {tmp_path}.")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    write(tmp_path)

    def refuse(*_, **__):
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "read_text", refuse)
    assert "cannot be read: Permission denied" in board(tmp_path).skipped[0][1]


def test_a_link_in_a_circle_is_not_walked(tmp_path):
    write(tmp_path / "a")
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    assert len(board(tmp_path).lines) == 1


def test_a_link_to_nothing_is_told(tmp_path):
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "nowhere")
    assert "cannot be read" in board(tmp_path).skipped[0][1]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        board(tmp_path / "class")


class Texts(HTMLParser):
    """Tags and texts of a page, and what it would load."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.asked = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.asked += [value for name, value in attrs if name in ("src", "href", "action", "poster")]

    def handle_data(self, data):
        self.texts.append(data)


NASTY = "<script>alert(1)</script> \"'><img src=x onerror=alert(1)>"


@pytest.mark.parametrize("form", ["_html", "html"])
def test_what_a_learner_wrote_stays_text(tmp_path, form):
    write(tmp_path / "a", name=NASTY[:60], mesh=NASTY)
    (tmp_path / "b<b>").mkdir()
    (tmp_path / "b<b>" / FILE_NAME).write_text("{")
    seen = Texts(getattr(board(tmp_path), form)())
    assert not {"script", "img", "b"} & set(seen.tags)
    assert any("<script>" in text for text in seen.texts)
    assert seen.asked == []


def test_a_name_moves_no_cursor_and_hides_no_line(tmp_path):
    write(tmp_path, name="A\x1b[2J\u202eda\nB" + 200 * "x")
    text = str(board(tmp_path))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == 4, "a head, an empty line, the level and this one"
    assert "…" in text


def test_the_page_is_saved_once(tmp_path):
    write(tmp_path / "a")
    found = board(tmp_path)
    path = found.save(tmp_path / "board.html")
    assert "Ada" in path.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="the board overwrites no file"):
        found.save(path)
    with pytest.raises(ValueError, match="there is no folder"):
        found.save(tmp_path / "nowhere" / "board.html")


def test_a_cheat_is_shown_as_one(tmp_path):
    write(tmp_path, why="Trained on one rank.", cheats=("one rank",), points=0)
    assert "0 (cheat)" in str(board(tmp_path))


def test_foreign_is_a_value_error():
    assert issubclass(ForeignResult, ValueError)
