"""No git on the PATH, and a clone whose path has blanks, quotes, percent signs, a hash and letters of other scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_projects import HANG_LIMIT_S, start

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(os.name == "nt", reason="file names and PATH as POSIX has them")


def without_git(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A verb of the command line, where the PATH leads to no program at all."""
    env = {**os.environ, "PATH": str(tmp_path), "COURSE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "course_lib.cli", *words]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=HANG_LIMIT_S)


@pytest.mark.parametrize("words", ["lab --help", "test --help", "export --help", "plan --help", "--help"])
def test_verbs_need_no_git(tmp_path: Path, words: str) -> None:
    done = without_git(tmp_path, *words.split())
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_what_needs_git_says_so(tmp_path: Path) -> None:
    done = without_git(tmp_path, "test", "quick")
    assert done.returncode == 2
    assert "git is not installed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_page_is_made_without_git_in_an_odd_folder(tmp_path: Path) -> None:
    folder = tmp_path / 'o d\'d "q" %20s #é λ'
    folder.mkdir()
    (folder / "04a_mine.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    done = without_git(tmp_path, "export", "--all", "--folder", str(folder), "--out", str(folder / "page.html"))
    assert done.returncode == 0, done.stderr
    assert (folder / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.long
def test_an_environment_is_made_in_an_odd_folder(project: Path) -> None:
    there = project.with_name('o d\'d "q" %20s #é λ')
    project.rename(there)
    done = start(there, "doctor")
    assert done.returncode == 0, done.stderr
    assert (there / ".venv" / "course-ready").exists()
