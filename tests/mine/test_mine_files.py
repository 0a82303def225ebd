"""An answer in the learner's folder: added, replaced with the earlier one beside, and never over a learner's edit."""

from __future__ import annotations

import os

import pytest
from own_library import Notebook

from course_lib.mine import files
from course_lib.mine.files import put
from course_lib.mine.source.gather import gathered
from course_lib.mine.source.piece import NotKeptError
from course_lib.mine.table import entry_of

RING = "def ring_all_reduce(me, tensor):\n    return step({})\n"
STEP = "def step(x):\n    return x + {}\n\n\n"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "lessons" / "mine"


def kept(folder, text, name="ring_all_reduce", answer=None):
    notebook = Notebook()
    notebook.cell(text)
    return put(folder, entry_of(name), gathered(notebook[answer or name]))


def test_a_folder_is_made_with_the_answer_a_face_and_a_test(folder):
    assert kept(folder, STEP.format(1) + RING.format(1)) == ""
    assert sorted(path.name for path in folder.iterdir()) == ["__init__.py", "collectives.py", "test_mine.py"]
    space = {}
    exec((folder / "collectives.py").read_text(), space)
    assert space["ring_all_reduce"](None, None) == 2


def test_what_is_replaced_stays_beside_under_its_date_and_number(folder):
    versions = [STEP.format(number) + RING.format(number) for number in range(4)]
    kept(folder, versions[0])
    texts, copies = [], []
    for version in versions[1:]:
        texts.append((folder / "collectives.py").read_text())
        copies.append(kept(folder, version))
    assert len(set(copies)) == 3
    assert all(copy.startswith("earlier/collectives-2") for copy in copies)
    assert [(folder / copy).read_text() for copy in copies] == texts
    assert "x + 3" in (folder / "collectives.py").read_text()


def test_another_function_and_the_learners_own_lines_stay(folder):
    kept(folder, STEP.format(1) + RING.format(1))
    path = folder / "collectives.py"
    path.write_text(path.read_text() + "\n\n# a note of mine\nNUMBER = 7\n")
    kept(folder, "def tree_broadcast(me, tensor):\n    return tensor\n", "tree_broadcast")
    copy = kept(folder, STEP.format(1) + RING.format(2))
    text = path.read_text()
    assert all(words in text for words in ("# a note of mine\nNUMBER = 7", "def tree_broadcast", "step(2)"))
    assert "step(1)" in (folder / copy).read_text()


def test_the_same_answer_again_writes_nothing(folder):
    kept(folder, STEP.format(1) + RING.format(1))
    before = (folder / "collectives.py").stat().st_mtime_ns
    assert kept(folder, STEP.format(1) + RING.format(1)) == ""
    assert (folder / "collectives.py").stat().st_mtime_ns == before


def test_an_answer_of_another_name_is_found_under_the_names_of_the_table(folder):
    kept(folder, "def my_ring(me, t):\n    return 5\n", answer="my_ring")
    space = {}
    exec((folder / "collectives.py").read_text(), space)
    assert space["ring_all_reduce"](None, None) == 5


def test_a_helper_that_another_function_uses_is_not_replaced(folder):
    kept(folder, STEP.format(1) + RING.format(1))
    kept(folder, STEP.format(1) + "def tree_broadcast(me, tensor):\n    return step(0)\n", "tree_broadcast")
    before = (folder / "collectives.py").read_text()
    with pytest.raises(NotKeptError, match=r"another `step`, .*Call yours by another name"):
        kept(folder, STEP.format(2) + RING.format(1))
    assert (folder / "collectives.py").read_text() == before


def test_a_file_with_a_syntax_error_is_left_as_it_is(folder):
    kept(folder, RING.format(1).replace("step", "str"))
    (folder / "collectives.py").write_text("def half(:\n")
    with pytest.raises(NotKeptError, match="syntax error on line 1, and nothing is written over"):
        kept(folder, RING.format(2).replace("step", "str"))
    assert (folder / "collectives.py").read_text() == "def half(:\n"


def test_a_folder_that_is_not_the_courses_is_left_alone(folder):
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("a year's work")
    with pytest.raises(NotKeptError, match=r"not a folder that the course has made\. Move it away"):
        kept(folder, RING.format(1).replace("step", "str"))
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "lessons").write_text("a file")
    with pytest.raises(NotKeptError, match=r"cannot be written .*COURSE_FOLDER may name a folder"):
        kept(tmp_path / "lessons" / "mine", RING.format(1).replace("step", "str"))


def test_a_link_is_not_followed(folder, tmp_path):
    kept(folder, RING.format(1).replace("step", "str"))
    (folder / "collectives.py").rename(tmp_path / "elsewhere.py")
    (folder / "collectives.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(NotKeptError, match="links are not followed"):
        kept(folder, RING.format(2).replace("step", "str"))
    assert "str(1)" in (tmp_path / "elsewhere.py").read_text()


def test_an_edit_that_comes_while_it_writes_is_not_lost(folder, monkeypatch):
    kept(folder, RING.format(1).replace("step", "str"))
    path, was, edits = folder / "collectives.py", files.merged, []

    def slow(*args, **kwargs):
        if not edits:
            edits.append(path.write_text(path.read_text() + "\n\nEDIT = 1\n"))
        return was(*args, **kwargs)

    monkeypatch.setattr(files, "merged", slow)
    kept(folder, RING.format(2).replace("step", "str"))
    assert "EDIT = 1" in path.read_text()
    assert "str(2)" in path.read_text()


def test_no_half_file_stays_where_the_disk_is_full(folder, monkeypatch):
    kept(folder, RING.format(1).replace("step", "str"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(NotKeptError, match="No space left"):
        kept(folder, RING.format(2).replace("step", "str"))
    assert "str(1)" in (folder / "collectives.py").read_text()
    assert not list(folder.glob(".*"))
