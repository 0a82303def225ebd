"""``course class share``: what goes into the instructor's folder, and what stays at home."""

from __future__ import annotations

import json
import os
import stat

import pytest

from course_lib import classroom
from course_lib.classroom.share import command, shared
from course_lib.learn.records.store import Store

GUESS = {"time": "2026-11-23T10:00:00", "event": "guess", "name": "04.bytes", "value": 12, "unit": "KiB"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A learner with some progress, in a folder of their own."""
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "anna"))
    kept = Store(tmp_path / "anna" / "data" / "progress.jsonl")
    kept.append({**GUESS, "code": "secret = 1", "path": "/home/anna"})
    kept.append({"event": "bet", "name": "13.Y1", "verdict": "holds", "text": "my own claim"})
    for own, name in (("path", "You teach"), ("placement", "placement"), ("review", "00.sum")):  # of the start page
        kept.append({"event": own, "name": name})
    return kept


@pytest.fixture
def drop(tmp_path):
    folder = tmp_path / "drop"
    folder.mkdir()
    return folder


def only_file(folder):
    (path,) = folder.iterdir()
    return path


def test_a_learner_shares_what_is_counted_and_nothing_else(home, drop, capsys):
    assert classroom.main(["share", str(drop)]) == 0
    path = only_file(drop)
    text = path.read_text()
    assert "secret" not in text
    assert "anna" not in text + path.name
    assert "my own claim" not in text
    head, event = map(json.loads, text.splitlines())
    assert (head["format"], head["name"], event) == (shared.FORMAT, "", GUESS)
    assert f"number {shared.number_of(head['id'])}" in capsys.readouterr().out
    assert stat.S_IMODE(path.stat().st_mode) == 0o644  # the instructor is another user
    assert home.path.read_text().count("\n") == 5


def test_sharing_again_brings_the_same_file_up_to_date_and_the_alias_stays(home, drop, capsys):
    assert classroom.main(["share", str(drop), "--name", "  Ada\n L. "]) == 0
    home.append(GUESS)
    assert classroom.main(["share", str(drop)]) == 0
    lines = only_file(drop).read_text().splitlines()
    assert json.loads(lines[0])["name"] == "Ada L."
    assert len(lines) == 3
    assert "“Ada L.”" in capsys.readouterr().out
    assert classroom.main(["share", str(drop), "--name", ""]) == 0
    assert json.loads(only_file(drop).read_text().splitlines()[0])["name"] == ""


def test_stop_takes_the_file_back(home, drop, capsys):
    classroom.main(["share", str(drop)])
    assert classroom.main(["share", str(drop), "--stop"]) == 0
    assert not list(drop.iterdir())
    assert home.path.exists()
    assert classroom.main(["share", str(drop), "--stop"]) == 0
    assert "No file of yours" in capsys.readouterr().out


def test_a_link_under_the_name_is_replaced_and_not_followed(home, drop, tmp_path):
    classroom.main(["share", str(drop)])
    path = only_file(drop)
    path.unlink()
    (tmp_path / "precious").write_text("mine")
    path.symlink_to(tmp_path / "precious")
    assert classroom.main(["share", str(drop)]) == 0
    assert not path.is_symlink()
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_folder_that_may_be_written_and_not_listed_is_enough(home, drop):
    drop.chmod(0o1333)
    assert classroom.main(["share", str(drop)]) == 0
    assert classroom.main(["share", str(drop)]) == 0
    drop.chmod(0o755)
    only_file(drop)


@pytest.mark.parametrize(
    ("argv", "words"),
    [(["nowhere"], "is no folder"), (["drop", "--name", "x" * 30], "24 at most, such as 'xxx")],
)
def test_what_cannot_be_asked_gets_a_sentence(home, drop, tmp_path, monkeypatch, capsys, argv, words):
    monkeypatch.chdir(tmp_path)
    assert classroom.main(["share", *argv]) == 2
    assert words in capsys.readouterr().err
    assert not list(drop.iterdir())


def test_without_progress_there_is_nothing_to_share(drop, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "new"))
    assert classroom.main(["share", str(drop)]) == 2
    assert "there is no progress yet" in capsys.readouterr().err


def test_who_watches_before_the_first_lesson_shares_from_the_first_answer(drop, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "new"))
    slept = []

    def sleep(_):
        slept.append(list(drop.iterdir()))
        if len(slept) == 2:
            Store(tmp_path / "new" / "data" / "progress.jsonl").append(GUESS)
        elif len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        classroom.main(["share", str(drop), "--watch", "--name", "ada"])
    assert [len(files) for files in slept] == [0, 0, 1]
    assert json.loads(only_file(drop).read_text().splitlines()[0])["name"] == "ada"
    told = capsys.readouterr().out
    assert told.count("no progress yet") == 1
    assert "Copied into" in told


def test_who_watches_a_folder_that_is_not_there_is_told_at_once(home, tmp_path, capsys):
    assert classroom.main(["share", str(tmp_path / "nowhere"), "--watch"]) == 2
    assert "is no folder" in capsys.readouterr().err


def test_a_folder_that_refuses_is_told(home, drop, monkeypatch, capsys):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", str(drop))

    monkeypatch.setattr(shared.tempfile, "mkstemp", refuse)
    assert classroom.main(["share", str(drop), "--name", "ada"]) == 1
    err = capsys.readouterr().err
    assert "nothing was shared" in err
    assert "Permission denied" in err


def test_a_write_that_fails_half_way_leaves_the_old_file_whole(home, drop, monkeypatch):
    classroom.main(["share", str(drop)])
    path = only_file(drop)
    old = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert classroom.main(["share", str(drop)]) == 1
    assert only_file(drop).read_bytes() == old


def test_watching_goes_on_after_a_failure_until_it_is_stopped(home, drop, monkeypatch, capsys):
    slept = []

    def sleep(_):
        slept.append(1)
        if len(slept) == 1:
            drop.rename(drop.with_name("away"))
        elif len(slept) == 2:
            drop.with_name("away").rename(drop)
            home.append(GUESS)
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):  # course_lib.cli says that it was stopped
        classroom.main(["share", str(drop), "--watch"])
    assert "Not copied this time" in capsys.readouterr().err
    assert len(only_file(drop).read_text().splitlines()) == 3


def test_an_identity_that_was_damaged_is_drawn_anew(tmp_path):
    (tmp_path / "sharing.json").write_text('{"id": "../../etc"')
    first = shared.identity(tmp_path)
    assert first.id.isalnum()
    assert shared.identity(tmp_path) == first
    (tmp_path / "sharing.json").write_text('{"id": "../../etc", "alias": null}')
    assert ".." not in shared.file_name(shared.identity(tmp_path))


def test_a_word_that_there_is_not(capsys):
    assert classroom.main(["bord"]) == 2
    assert "Did you mean `course class board`?" in capsys.readouterr().err
    assert classroom.main([]) == 0
    assert "course class share" in capsys.readouterr().out
