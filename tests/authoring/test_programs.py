"""Programs to take home: what several share is written from one source, and each folder stands alone."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from small_projects import ROOT

from course_lib.authoring.notebooks.cli import main
from course_lib.authoring.programs import stamp
from course_lib.authoring.programs.stamp import PROGRAMS, stale_programs, stamped, write_programs

EXAMPLES = ROOT / "course_lib" / "examples"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A course of programs alone."""
    shutil.copytree(EXAMPLES, tmp_path / "course_lib" / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_every_program_is_what_its_sources_say() -> None:
    assert stale_programs(ROOT) == [], "run ./course build --programs"


def test_a_file_that_was_edited_in_its_folder_is_named_and_written_anew(
    clone: Path, capsys: pytest.CaptureFixture
) -> None:
    start, train = (clone / "course_lib" / "examples" / name for name in ("train_ddp/start.py", "train_mesh/train.py"))
    was = start.read_text()
    start.write_text(was + "\n# mine\n")
    train.unlink()
    names = ["course_lib/examples/train_ddp/start.py", "course_lib/examples/train_mesh/train.py"]
    assert stale_programs(clone) == names
    assert main(["--programs"], root=clone) == 0
    assert capsys.readouterr().out.splitlines() == [f"{name} was renewed" for name in names]
    assert start.read_text() == was
    assert main(["--programs"], root=clone) == 0
    assert "are up to date" in capsys.readouterr().out


def test_a_change_of_a_source_reaches_every_program_that_has_it(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = shutil.copytree(stamp._SOURCES, tmp_path / "sources")
    monkeypatch.setattr(stamp, "_SOURCES", sources)
    words = sources / "words.py.jinja"
    words.write_text(words.read_text().replace("is no whole number", "is not whole"))
    assert write_programs(clone) == [f"course_lib/examples/{program}/settings.py" for program in PROGRAMS]


def test_a_condition_that_no_program_knows_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jinja2 import UndefinedError

    sources = shutil.copytree(stamp._SOURCES, tmp_path / "sources")
    monkeypatch.setattr(stamp, "_SOURCES", sources)
    with (sources / "start.py.jinja").open("a") as source:
        source.write("#: if mehs :#\n#: endif :#\n")
    with pytest.raises(UndefinedError, match="mehs"):
        stamped("train_mesh")


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_written_is_python_that_names_its_source_and_no_other_program(program: str) -> None:
    for name, text in stamped(program).items():
        head, advice, body = text.split("\n", 2)
        source = head.partition(" from ")[2].removesuffix(",")
        assert "In a copy of this folder" in advice, "who took the program home has no source to edit"
        assert (ROOT / source).is_file()
        ast.parse(text)
        assert "#:" not in body
        assert not [other for other in PROGRAMS if other != program and other in body], name


def test_a_file_without_a_source_says_so_by_its_first_line() -> None:
    for program, names in PROGRAMS.items():
        files = (EXAMPLES / program).glob("*.py")
        assert {path.stem for path in files if path.read_text().startswith("# In the course: written by")} == set(names)
