"""A lesson that was opened and saved by JupyterLab, and not worked on, is nobody's work."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import nbformat
import pytest
from small_lessons import small_course, write_lesson

from course_lib.lab import command
from course_lib.lab.edition import editions, pristine, put_back, worked_on
from course_lib.lab.folder import LessonFolder
from course_lib.lab.hand_out import RECORD, hand_out
from course_lib.lab.reset import reset
from course_lib.lab.work import is_same_work, print_of

pytestmark = pytest.mark.usefixtures("no_kernels_are_prepared")
FIRST = "notebooks/00_start_here.ipynb"
A = "notebooks/04a_one.ipynb"
INFO = {
    "codemirror_mode": {"name": "ipython", "version": 3}, "file_extension": ".py", "mimetype": "text/x-python",
    "name": "python", "nbconvert_exporter": "python", "pygments_lexer": "ipython3", "version": "3.11.7",
}  # fmt: skip


def only_opened(path: Path) -> None:
    """What a save does to a notebook in which nothing was done: another order and layout, and what the kernel tells."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["language_info"] = INFO
    notebook.metadata["widgets"] = {}
    notebook.cells[-1].metadata["editable"] = True
    path.write_text(json.dumps(notebook, indent=1) + "\n")


def run(path: Path, **changes: object) -> None:
    notebook = json.loads(path.read_text())
    notebook["cells"][-1] |= changes
    path.write_text(json.dumps(notebook))


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return small_course(tmp_path / "course")


def test_a_lesson_that_was_only_opened_is_renewed(course: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    hand_out(folder, editions(course))
    only_opened(folder / A)
    write_lesson(course, "04a_one", "2")
    handed = hand_out(folder, editions(course))
    assert (handed.renewed, handed.beside) == ([A], [])
    assert (folder / A).read_bytes() == pristine(course, A)
    assert hand_out(folder, editions(course)).renewed == []


WORK = [
    {"source": "print(1) # mine"}, {"execution_count": 1}, {"cell_type": "markdown"}, {"attachments": {"a.png": {}}},
    {"outputs": [{"output_type": "stream", "name": "stdout", "text": "1"}]},
]  # fmt: skip


@pytest.mark.parametrize("changes", WORK)
def test_a_lesson_that_was_worked_on_stays(course: Path, tmp_path: Path, changes: dict[str, object]) -> None:
    folder = tmp_path / "mine"
    hand_out(folder, editions(course))
    run(folder / A, **changes)
    mine = (folder / A).read_bytes()
    write_lesson(course, "04a_one", "2")
    handed = hand_out(folder, editions(course))
    assert handed.renewed == []
    assert [name for name, _ in handed.beside] == [A]
    assert (folder / A).read_bytes() == mine


def test_a_cell_more_or_less_or_in_another_place_is_work(course: Path) -> None:
    content = pristine(course, A)
    cells = json.loads(content)["cells"]
    for changed in (cells[:-1], [*cells, cells[-1]], cells[::-1]):
        assert not is_same_work(A, content, json.dumps(json.loads(content) | {"cells": changed}).encode())


def test_the_record_of_an_older_course_still_counts(course: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    fresh = editions(course)
    hand_out(folder, fresh)
    bytes_hashed = {name: hashlib.sha256(content).hexdigest() for name, content in fresh.items()}
    (folder / RECORD).write_text(json.dumps({"handed out": bytes_hashed}))
    run(folder / FIRST, source="mine")
    assert hand_out(folder, fresh).beside == []
    write_lesson(course, "04a_one", "2")
    write_lesson(course, "00_start_here", "2")
    handed = hand_out(folder, editions(course))
    assert handed.renewed == [A]
    assert [name for name, _ in handed.beside] == [FIRST]


def test_nothing_is_carried_or_kept_of_a_lesson_that_was_only_opened(course: Path, tmp_path: Path) -> None:
    only_opened(course / A)
    assert worked_on(course, editions(course)) == {}
    assert "nothing to reset" in reset(LessonFolder(course, course), ["04a"])[0]
    run(course / A, source="mine")
    assert list(worked_on(course, editions(course))) == [A]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"cells": 1}', b'{"cells": [1]}', b"[" * 300_000, b"\xff"])
def test_what_is_no_notebook_is_compared_byte_by_byte(content: bytes) -> None:
    assert print_of("a.ipynb", content) == hashlib.sha256(content).hexdigest()
    assert is_same_work("a.ipynb", content, content)
    assert not is_same_work("a.ipynb", content, content + b" ")


def test_in_a_clone_it_is_put_back_so_that_git_pulls(course: Path, tmp_path: Path, monkeypatch) -> None:
    git = lambda *words: subprocess.run(  # noqa: E731
        ["git", "-C", str(course), "-c", "user.name=a", "-c", "user.email=a@b", *words],
        check=True,
        capture_output=True,
        text=True,
    )
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "lessons")
    place = LessonFolder(course, course)

    def open_two(*_: object, **__: object) -> int:
        only_opened(course / A)
        run(course / FIRST, source="mine")
        return 0

    monkeypatch.setattr(command, "_serve", open_two)
    monkeypatch.setattr(command, "browser_missing", lambda given: "")
    assert command._open(place, []) == 0
    assert git("status", "--porcelain").stdout.split() == ["M", FIRST]


def test_what_was_saved_before_is_not_looked_at(course: Path) -> None:
    only_opened(course / A)
    after = (course / A).stat().st_mtime + 1
    assert put_back(course, after) == []
    assert put_back(course, 0) == [A]
