"""Lessons in a folder of the learner's: newer editions, work that stays, resets, work carried over from a clone."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from small_lessons import small_course, write_lesson

from course_lib.lab import command, edition
from course_lib.lab.edition import editions, lesson_named, worked_on
from course_lib.lab.folder import LessonFolder
from course_lib.lab.hand_out import RECORD, Handed, hand_out, link_or_copy
from course_lib.lab.reset import reset
from course_lib.lab.welcome import about_folder
from course_lib.lessons.source import read_source as read

FIRST = "notebooks/00_start_here.ipynb"
A = "notebooks/04a_one.ipynb"
PICTURE = "assets/00_loop.png"


def files(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != RECORD]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return small_course(tmp_path / "course")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mine"


def test_what_is_handed_out_is_the_lesson_and_not_what_its_keeper_typed_in_it(course: Path) -> None:
    fresh = editions(course)
    (course / FIRST).write_text("the keeper's answers")
    assert editions(course) == fresh
    assert list(fresh) == [FIRST, A, "notebooks/04b_two.ipynb", "notebooks/glossary.md", PICTURE]
    assert json.loads(fresh[FIRST])["cells"][1]["source"] == ["print(1)"]


def test_a_course_without_sources_hands_out_what_lies_there(course: Path) -> None:
    fresh = editions(course)
    for path in (course / "notebooks" / "src").iterdir():
        path.unlink()
    assert editions(course) == fresh


def test_what_was_found_fresh_is_not_made_again_until_it_changes(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edition, "_prints_file", lambda: tmp_path / "prints.json")
    fresh = editions(course)
    (course / A).write_text("the keeper's answers")
    assert edition.keep_prints(course) == 2
    made = []
    monkeypatch.setattr("course_lib.lessons.source.read_source", lambda path: made.append(path.stem) or read(path))
    assert editions(course) == fresh
    assert made == ["04a_one"]
    (course / FIRST).write_text("more answers of the keeper's")
    assert editions(course) == fresh
    (tmp_path / "prints.json").write_text("{spoilt")
    assert editions(course) == fresh


def test_the_same_again_changes_nothing(course: Path, folder: Path) -> None:
    content = editions(course)
    assert hand_out(folder, content).new == list(content)
    before = files(folder)
    assert before == content
    assert hand_out(folder, content) == Handed()
    assert files(folder) == before


def test_a_newer_edition_replaces_what_nobody_has_touched(course: Path, folder: Path) -> None:
    hand_out(folder, editions(course))
    write_lesson(course, "04a_one", "2")
    newer = editions(course)
    assert hand_out(folder, newer) == Handed(renewed=[A])
    assert files(folder) == newer


def test_a_newer_edition_comes_beside_work_and_once(course: Path, folder: Path) -> None:
    hand_out(folder, editions(course))
    (folder / A).write_bytes(b"work")
    write_lesson(course, "04a_one", "2")
    newer = editions(course)
    beside = "notebooks/04a_one (new edition 2026-11-23).ipynb"
    assert hand_out(folder, newer, today="2026-11-23") == Handed(beside=[(A, beside)])
    assert files(folder) == {**newer, A: b"work", beside: newer[A]}
    (folder / beside).unlink()  # read, and thrown away
    assert hand_out(folder, newer, today="2026-11-24") == Handed()
    assert (folder / A).read_bytes() == b"work"


def test_a_third_edition_takes_the_place_of_the_second_where_that_was_not_touched(course: Path, folder: Path) -> None:
    hand_out(folder, editions(course))
    (folder / A).write_bytes(b"work")
    write_lesson(course, "04a_one", "2")
    hand_out(folder, editions(course), today="2026-11-23")
    write_lesson(course, "04a_one", "3")
    third = editions(course)
    hand_out(folder, third, today="2026-11-24")
    newest = "notebooks/04a_one (new edition 2026-11-24).ipynb"
    assert files(folder) == {**third, A: b"work", newest: third[A]}
    (folder / newest).write_bytes(b"work on the third")
    write_lesson(course, "04a_one", "4")
    fourth = editions(course)
    hand_out(folder, fourth, today="2026-11-24")  # the same day, and the name is taken by work
    assert files(folder)[newest] == b"work on the third"
    assert files(folder)["notebooks/04a_one (new edition 2026-11-24) 2.ipynb"] == fourth[A]


def test_a_file_that_was_there_before_the_first_time_is_work(course: Path, folder: Path) -> None:
    (folder / "notebooks").mkdir(parents=True)
    (folder / FIRST).write_bytes(b"work")
    handed = hand_out(folder, editions(course), today="2026-11-23")
    assert [name for name, _ in handed.beside] == [FIRST]
    assert (folder / FIRST).read_bytes() == b"work"


@pytest.mark.parametrize("spoilt", ["", "[]", "{}", '{"handed out": 3}', "{half"])
def test_without_a_record_that_can_be_read_every_older_file_is_work(course: Path, folder: Path, spoilt: str) -> None:
    hand_out(folder, editions(course))
    older = (folder / A).read_bytes()
    (folder / RECORD).write_text(spoilt)
    write_lesson(course, "04a_one", "2")
    assert [name for name, _ in hand_out(folder, editions(course)).beside] == [A]
    assert (folder / A).read_bytes() == older


def test_a_full_disk_leaves_what_was_there_and_the_next_start_goes_on(
    course: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_out(folder, editions(course))
    (folder / FIRST).write_bytes(b"work")
    before = files(folder)
    write_lesson(course, "00_start_here", "2")
    write_lesson(course, "04a_one", "2")
    newer = editions(course)
    replace, calls = os.replace, []

    def full(old: Path, new: Path) -> None:
        calls.append(new)
        if len(calls) == 2:
            raise OSError(28, "No space left on device", str(new))
        replace(old, new)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        hand_out(folder, newer, today="2026-11-23")
    monkeypatch.undo()
    beside = "notebooks/00_start_here (new edition 2026-11-23).ipynb"
    assert files(folder) == {**before, beside: newer[FIRST]}
    assert hand_out(folder, newer, today="2026-11-23") == Handed(renewed=[A])
    assert files(folder) == {**newer, FIRST: b"work", beside: newer[FIRST]}


# --- From a clone ---------------------------------------------------------------------------------------------------


def test_work_in_a_clone_comes_along_and_counts_as_work(course: Path, folder: Path) -> None:
    (course / A).write_bytes(b"worked in the clone")
    content = editions(course)
    work = worked_on(course, content)
    assert work == {A: b"worked in the clone"}
    handed = hand_out(folder, content, work=work)
    assert handed.carried == [A]
    assert A not in handed.new
    (course / A).write_bytes(content[A])  # git restore, git pull
    write_lesson(course, "04a_one", "2")
    assert [name for name, _ in hand_out(folder, editions(course)).beside] == [A]
    assert (folder / A).read_bytes() == b"worked in the clone"


def test_work_in_the_clone_comes_beside_work_in_the_folder_and_once(course: Path, folder: Path) -> None:
    content = editions(course)
    hand_out(folder, content)
    (folder / A).write_bytes(b"mine")
    beside = "notebooks/04a_one (from the clone 2026-11-23).ipynb"
    assert hand_out(folder, content, work={A: b"in the clone"}, today="2026-11-23") == Handed(carried=[beside])
    assert files(folder) == {**content, A: b"mine", beside: b"in the clone"}
    (folder / beside).unlink()
    assert hand_out(folder, content, work={A: b"in the clone"}) == Handed()
    later = hand_out(folder, content, work={A: b"more in the clone"}, today="2026-11-24")
    assert later.carried == ["notebooks/04a_one (from the clone 2026-11-24).ipynb"]
    assert hand_out(folder, content, work={A: b"mine"}) == Handed()


# --- Pictures and solutions -----------------------------------------------------------------------------------------


def test_solutions_are_linked_and_follow_a_course_that_moves(course: Path, folder: Path) -> None:
    name = edition.SOLUTIONS
    link_or_copy(course, folder, name)
    assert (folder / name).is_symlink()
    moved = course.rename(course.with_name("moved"))
    link_or_copy(moved, folder, name)
    assert (folder / name).resolve() == moved / name
    assert (folder / FIRST.replace("notebooks", name)).is_file()


def test_where_no_links_can_be_made_solutions_are_copied(
    course: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    name = edition.SOLUTIONS
    link_or_copy(course, folder, name)
    assert not (folder / name).is_symlink()
    (folder / name / "00_start_here.ipynb").write_text("written over")
    (course / name / "01_new.ipynb").write_text("new")
    link_or_copy(course, folder, name)
    assert (folder / name / "00_start_here.ipynb").read_text() == "written over"
    assert (folder / name / "01_new.ipynb").read_text() == "new"


def test_pictures_are_copied_and_renewed_and_one_that_was_drawn_over_stays(course: Path, folder: Path) -> None:
    hand_out(folder, editions(course))
    assert not (folder / "assets").is_symlink()
    (course / PICTURE).write_text("newer")
    assert hand_out(folder, editions(course)).renewed == [PICTURE]
    (folder / PICTURE).write_text("drawn over")
    (course / PICTURE).write_text("newest")
    hand_out(folder, editions(course))
    assert (folder / PICTURE).read_text() == "drawn over"


def test_pictures_take_the_place_of_the_link_that_an_older_course_made(course: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "assets").symlink_to(course / "assets", target_is_directory=True)
    before = files(course)
    command._prepare(LessonFolder(course, folder))
    assert not (folder / "assets").is_symlink()
    assert (folder / PICTURE).read_bytes() == before[PICTURE]
    assert files(course) == before


# --- Reset ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_a_clone", [True, False])
def test_a_reset_keeps_what_was_there(course: Path, folder: Path, in_a_clone: bool) -> None:
    place = LessonFolder(course, course if in_a_clone else folder)
    fresh = editions(course)
    if not in_a_clone:
        hand_out(folder, fresh)
    (place.folder / A).write_bytes(b"work")
    (said,) = reset(place, ["04a"], now="2026-11-23 10.15")
    kept = place.folder / "notebooks" / "04a_one (kept 2026-11-23 10.15).ipynb"
    assert kept.name in said
    assert kept.read_bytes() == b"work"
    assert (place.folder / A).read_bytes() == fresh[A]
    (place.folder / A).write_bytes(b"work again, a moment later")
    reset(place, ["04a"], now="2026-11-23 10.15")
    assert kept.read_bytes() == b"work"
    assert (place.folder / "notebooks" / "04a_one (kept 2026-11-23 10.15) 2.ipynb").is_file()
    assert "nothing to reset" in reset(place, ["04a"])[0]
    (place.folder / A).unlink()
    assert "was not there" in reset(place, ["04a_one.ipynb"])[0]
    write_lesson(course, "04a_one", "2")  # what was reset counts as untouched
    if not in_a_clone:
        assert hand_out(folder, editions(course)).renewed == [A]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("04a", A),
        ("4a", A),
        ("04A", A),
        ("04a_one", A),
        ("notebooks/04a_one.ipynb", A),
        ("0", FIRST),
        ("00", FIRST),
    ],
)
def test_words_for_a_lesson(course: Path, word: str, name: str) -> None:
    assert lesson_named(course, word) == name


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("04", "lesson 04 comes in parts: 04a, 04b. Say which one."),
        ("4", "comes in parts: 04a, 04b"),
        ("04c", "there is no lesson '04c'; they are 00, 04a, 04b. The nearest is 04"),
        ("", "there is no lesson ''"),
        ("../../etc/passwd", "there is no lesson"),
    ],
)
def test_a_word_that_names_no_lesson_resets_none(course: Path, word: str, says: str) -> None:
    (course / A).write_bytes(b"work")
    with pytest.raises(ValueError, match=re.escape(says)):
        reset(LessonFolder(course, course), ["04a", word])
    assert (course / A).read_bytes() == b"work"


# --- What is said ---------------------------------------------------------------------------------------------------


def test_what_the_terminal_says(course: Path, folder: Path) -> None:
    place = LessonFolder(course, folder)
    handed = Handed([FIRST, "notebooks/glossary.md"], [A], ["b.ipynb"], [("x.ipynb", "notebooks/x (new).ipynb")])
    text = "\n".join(about_folder(place, handed))
    assert f"Your lessons lie in {folder}" in text
    assert "1 lesson part came into it" in text
    assert "1 lesson part that you have worked on" in text
    assert "1 lesson part that you had not touched" in text
    assert "x.ipynb has a newer edition. Yours stays as it is; the newer is 'x (new).ipynb'." in text
    assert len(about_folder(place, Handed())) == 1
