"""Files of a class: good, broken, half written, foreign and newer ones; who is who."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from course_lib.classroom.board import read_shared
from course_lib.classroom.board.read_shared import SharedReader
from course_lib.classroom.share.shared import Identity, file_name, number_of, text_of

sys.path.insert(0, str(Path(__file__).parent))
import forty

PASSED = {"time": "2026-11-23T10:00:00", "event": "check", "name": "04.drift", "status": "passed"}


def share(folder, word, alias="", events=(PASSED,)):
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / file_name(Identity(word, alias))
    path.write_text(text_of(Identity(word, alias), events))
    return path


def test_a_spoilt_folder_counts_whoever_can_be_counted_and_tells_the_rest(tmp_path):
    drop = forty.make(tmp_path / "drop", learners=8)
    forty.spoil(drop)
    found = SharedReader([drop]).gather()
    assert len(found.learners) == 9  # the half written one is not lost
    told = dict(found.skipped)
    assert set(told) == {
        "shared-newer.jsonl", "shared-empty.jsonl", "binary.jsonl", "foreign.jsonl", "progress.jsonl.txt", "link.jsonl",
    }  # fmt: skip
    assert "newer course (format 2, and this course reads 1)" in told["shared-newer.jsonl"]
    assert [place for place, _ in found.half] == ["shared-halfhalf.jsonl"]


def test_nothing_in_the_folder_is_changed(tmp_path):
    drop = forty.make(tmp_path / "drop", learners=3)
    forty.spoil(drop)
    before = {path.name: path.lstat() for path in drop.iterdir()}
    SharedReader([drop]).gather()
    after = {path.name: path.lstat() for path in drop.iterdir()}
    assert {name: (one.st_mtime_ns, one.st_size) for name, one in before.items()} == {
        name: (one.st_mtime_ns, one.st_size) for name, one in after.items()
    }


def test_homes_of_learners_are_read_where_they_are_and_stay_without_a_name(tmp_path):
    for name in ("anna", "ben"):
        data = tmp_path / "homes" / name / "data"
        data.mkdir(parents=True)
        (data / "progress.jsonl").write_text(json.dumps(PASSED) + "\n")
        (data / "progress-damaged-20260101.jsonl").write_text("x\n")
    for folder, count in ((tmp_path / "homes", 2), (tmp_path / "homes" / "anna", 1)):
        found = SharedReader([folder]).gather()
        assert len(found.learners) == count
        assert all(one.label.isdigit() for one in found.learners)
        assert found.skipped == ()


def test_names_are_told_apart_and_a_learner_who_shares_twice_is_one(tmp_path):
    share(tmp_path / "a", "wordone", "Ada")
    share(tmp_path / "a", "wordtwo", "ada")
    share(tmp_path / "a", "wordthree")
    share(tmp_path / "b", "wordone", "Ada B.", [{**PASSED, "time": "2026-11-24T10:00:00"}])
    found = SharedReader([tmp_path / "a", tmp_path / "b"]).gather()
    assert [one.label for one in found.learners] == ["ada", "Ada B.", str(number_of("wordthree"))]
    share(tmp_path / "a", "wordfour", "ada")
    labels = [one.label for one in SharedReader([tmp_path / "a"]).gather().learners]
    assert [label.casefold() for label in labels[:3]] == ["ada", "ada (2)", "ada (3)"]


def test_an_alias_cannot_be_long_or_steer_anything(tmp_path):
    head = {"event": "shared", "name": "\x1b[2J\u202e" + "x" * 300, "id": 5, "format": 1}
    (tmp_path / "one.jsonl").write_text(json.dumps(head) + "\n" + json.dumps(PASSED) + "\n")
    (only,) = SharedReader([tmp_path]).gather().learners
    assert only.label.isprintable()
    assert len(only.label) <= 24


@pytest.mark.parametrize("kind", ["one", True, 1.5, None])
def test_a_format_that_is_no_number_is_foreign(tmp_path, kind):
    head = {"event": "shared", "name": "", "id": "worda", "format": kind}
    (tmp_path / "one.jsonl").write_text(json.dumps(head) + "\n")
    assert "which is no number" in SharedReader([tmp_path]).gather().skipped[0][1]


def test_a_pipe_is_not_waited_for_and_a_giant_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(read_shared, "_MOST_BYTES", 1 << 20)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.jsonl")
    with (tmp_path / "giant.jsonl").open("wb") as file:
        file.truncate(1 << 21)
    told = dict(SharedReader([tmp_path]).gather().skipped)
    assert "1 MiB are the most that is read" in told["giant.jsonl"]
    assert "only plain files are read" in told.get("pipe.jsonl", "only plain files are read")


def test_whoever_cannot_be_read_for_a_moment_counts_as_before_and_whoever_left_does_not(tmp_path, monkeypatch):
    for word in ("wordone", "wordtwo"):
        share(tmp_path, word)
    reader = SharedReader([tmp_path])
    assert len(reader.gather().learners) == 2
    real = read_shared._bytes_of

    def refuse(path):
        if "wordone" in path.name:
            raise OSError(116, "Stale file handle")
        return real(path)

    monkeypatch.setattr(read_shared, "_bytes_of", refuse)
    again = reader.gather()
    assert len(again.learners) == 2
    assert again.half == (("shared-wordone.jsonl", "Stale file handle; it counts as it was before"),)
    assert SharedReader([tmp_path]).gather().skipped == (("shared-wordone.jsonl", "Stale file handle"),)
    monkeypatch.undo()
    (tmp_path / "shared-wordone.jsonl").unlink()
    assert len(reader.gather().learners) == 1


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="is no folder"):
        SharedReader([tmp_path / "nowhere"]).gather()


def test_names_that_are_no_lessons_do_not_count(tmp_path):
    share(tmp_path, "wordone", events=[PASSED, {**PASSED, "name": "<script>"}, {**PASSED, "name": "04.a b"}])
    (only,) = SharedReader([tmp_path]).gather().learners
    assert [event["name"] for event in only.events] == ["04.drift"]
