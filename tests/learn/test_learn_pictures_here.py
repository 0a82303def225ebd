"""A lesson that lies alone shows the pictures that its page cannot find; one in its place shows none twice."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from course_lib.authoring.notebooks.hosted.first_cell import first_cell
from course_lib.base import front_end
from course_lib.learn.display import pictures_here
from course_lib.learn.display.pictures_here import pictures_of, show_what_is_not_beside
from course_lib.lessons.info import source_files

ROOT = Path(__file__).resolve().parents[2]
FIRST = "00_start_here"


def cells(stem: str, kind: str) -> list[str]:
    notebook = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", 4)
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, str]]:
    """What the first cell of lesson 00 shows, run in a folder where the lesson lies alone."""
    found: list[dict[str, str]] = []
    (tmp_path / "lessons").mkdir()
    monkeypatch.chdir(tmp_path / "lessons")
    monkeypatch.delenv("COURSE_PICTURES", raising=False)
    monkeypatch.setattr(pictures_here, "running_cell", lambda: cells(FIRST, "code")[0])
    monkeypatch.setattr(pictures_here, "server_root", lambda: None)
    monkeypatch.setattr("IPython.display.display", lambda content, raw: found.append(content))
    return found


@pytest.mark.parametrize("stem", [path.stem for path in source_files(ROOT)])
def test_each_lesson_is_known_by_its_first_cell_and_all_its_pictures_are_found(stem: str):
    source = (ROOT / "notebooks" / "src" / f"{stem}.py").read_text(encoding="utf-8")
    assert pictures_here._lesson_of("import os\n" + cells(stem, "code")[0]) == source
    text = "\n".join(cells(stem, "markdown"))
    assert list(pictures_of(source)) == list(dict.fromkeys(re.findall(r"\.\./(assets/[^)\s]+)\)", text)))


def test_a_lesson_alone_shows_its_pictures(shown: list[dict[str, str]]):
    show_what_is_not_beside()
    page = shown[0]["text/html"]
    assert page.count("<img alt=") == len(pictures_of((ROOT / "notebooks/src/00_start_here.py").read_text()))
    assert "data-name='assets/00_loop.png'" in page
    assert "Six steps in a row" in page
    assert "00_loop.png" in shown[0]["text/plain"]
    bare = re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)  # as a page shows it that runs no script
    assert not re.search(r"<script|<[^>]*\son\w+=", bare)
    assert "<summary>" in bare


@pytest.mark.parametrize("depth", ["lessons", "lessons/solutions"])
def test_beside_its_pictures_it_shows_none(shown: list[dict[str, str]], tmp_path: Path, depth: str, monkeypatch):
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    (tmp_path / depth).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / depth)
    show_what_is_not_beside()
    assert not shown


def test_a_server_that_was_started_beside_the_notebooks_cannot_show_what_lies_above(
    shown: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    monkeypatch.setattr(pictures_here, "server_root", lambda: tmp_path / "lessons")
    show_what_is_not_beside()
    assert len(shown) == 1


def test_a_hosted_lesson_has_its_pictures_by_address(shown: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch):
    names: dict[str, object] = {}
    monkeypatch.setattr(front_end, "_shell", lambda: SimpleNamespace(user_ns=names))
    exec(first_cell("x", "1").replace("\ninstall_course()", ""), names)
    show_what_is_not_beside()
    assert not shown


def test_other_cells_and_whoever_wants_none_get_none(shown: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COURSE_PICTURES", "off")
    show_what_is_not_beside()
    monkeypatch.delenv("COURSE_PICTURES")
    for cell in ("", "from course_lib import ask", "import torch"):
        monkeypatch.setattr(pictures_here, "running_cell", lambda cell=cell: cell)
        show_what_is_not_beside()
    assert not shown
