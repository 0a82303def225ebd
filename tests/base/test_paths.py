"""Where the course's files stand: in a clone, and in the package that pip has installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from small_projects import ROOT


def paths_in(folder: Path) -> ModuleType:
    """The module as it is imported out of a library in ``folder``."""
    file = folder / "course_lib" / "base" / "paths.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "course_lib" / "base" / "paths.py", file)
    spec = importlib.util.spec_from_file_location("paths_elsewhere", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def clone(tmp_path: Path) -> ModuleType:
    return paths_in(tmp_path / "clone")


@pytest.fixture
def package(tmp_path: Path) -> ModuleType:
    (tmp_path / "packages" / "course_lib" / "_course").mkdir(parents=True)
    return paths_in(tmp_path / "packages")


def test_in_a_clone_all_stands_at_its_top_level(clone: ModuleType, tmp_path: Path) -> None:
    top = tmp_path / "clone"
    assert clone.project_root() == clone.library_folder() == top
    assert not clone.is_installed()
    assert clone.course_file("assets/x.png") == top / "assets" / "x.png"
    assert clone.course_file("course_lib/examples") == top / "course_lib" / "examples"
    assert clone.course_command() == str(top / "course")


def test_in_a_package_it_stands_within_the_library(package: ModuleType, tmp_path: Path) -> None:
    top = tmp_path / "packages"
    assert package.library_folder() == top
    assert package.project_root() == top / "course_lib" / "_course"
    assert package.is_installed()
    assert package.course_file("assets/x.png") == top / "course_lib" / "_course" / "assets" / "x.png"
    assert package.course_file("course_lib/examples") == top / "course_lib" / "examples"
    assert package.course_command() == str(Path(sys.executable).parent / "course")
    assert str(top) in package.needs_clone("A test")


def test_another_course_than_the_librarys_own_is_a_clone(package: ModuleType, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert not package.is_installed(other)
    assert package.course_file("course_lib/examples", other) == other / "course_lib" / "examples"
    assert package.course_command(other) == str(other / "course")


def test_a_process_finds_the_library_by_its_path_unless_it_finds_it_anyway(
    package: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = str(tmp_path / "packages")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert package.python_path() == top
    monkeypatch.setenv("PYTHONPATH", "mine")
    assert package.python_path("more") == os.pathsep.join([top, "more", "mine"])
    monkeypatch.setattr(package.sysconfig, "get_path", lambda name: top)
    assert package.python_path("more") == os.pathsep.join(["more", "mine"])
