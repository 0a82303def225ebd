"""`mine/test_mine.py`: the checks of the course by pytest, in the learner's folder."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from own_library import zigzag_kept

from course_lib import mine
from course_lib.mine.again import check_again, kept_names, verdict_of


def by_pytest(learner):
    """What `pytest mine` says in the folder that holds the package."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "mine"],
        cwd=learner.folder.parent,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.mark.long
def test_pytest_runs_the_check_of_each_function_and_writes_nothing_down(anna, capsys):
    zigzag_kept(capsys)
    before = anna.progress.read_text()
    done = by_pytest(anna)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert anna.progress.read_text() == before


def test_its_verdict_is_that_of_the_check(anna, capsys):
    zigzag_kept(capsys)
    anna.context.write_text(anna.context.read_text().replace("PARTS = 2", "PARTS = 1"))
    assert kept_names(anna.folder / "test_mine.py") == ["positions_of"]
    assert "10.zigzag: not yet" in str(verdict_of("positions_of", anna.folder / "test_mine.py"))


def test_it_runs_nothing_of_a_package_that_is_somebody_elses(anna, capsys, tmp_path):
    zigzag_kept(capsys)
    text = anna.context.read_text().replace("PARTS = 2", f"PARTS = open({str(tmp_path / 'ran')!r}, 'w') and 2")
    anna.context.write_text(text)
    anna.progress.unlink()
    assert "may be somebody else's" in str(verdict_of("positions_of", anna.folder / "test_mine.py"))
    assert not (tmp_path / "ran").exists()


def test_a_package_that_cannot_be_read_fails_its_tests_in_a_sentence(anna, capsys):
    zigzag_kept(capsys)
    anna.context.write_text("def half(:")
    assert "positions_of" in kept_names(anna.folder / "test_mine.py")
    assert "syntax error on line 1" in str(verdict_of("positions_of", anna.folder / "test_mine.py"))


def test_it_can_be_imported_without_the_course(anna, capsys):
    zigzag_kept(capsys)
    command = [sys.executable, "-c", "from mine.context import positions_of as f; print(f(1, 2, 8))"]
    done = subprocess.run(command, cwd=anna.folder.parent, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[2, 3, 4, 5]", done.stderr


@pytest.mark.parametrize("spoilt", ["def half(:", None])
def test_check_again_says_in_a_sentence_what_keeps_it_from_running(anna, capsys, spoilt):
    zigzag_kept(capsys)
    if spoilt is None:
        anna.context.unlink()
    else:
        anna.context.write_text(spoilt)
    verdict = check_again("positions_of")
    assert verdict.status == "blocked"
    assert ("is gone" if spoilt is None else "syntax error on line 1") in verdict.message


def test_check_again_is_off_where_the_library_is(anna, capsys, monkeypatch):
    zigzag_kept(capsys)
    monkeypatch.setenv("COURSE_MINE", "0")
    assert mine.check_again("positions_of").status == "blocked"
