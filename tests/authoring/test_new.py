"""``course new``: what it writes works, nothing is written over, and what cannot be gets a sentence."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_projects import ROOT

from course_lib.authoring.new import exercise, main, part
from course_lib.authoring.new.files import write
from course_lib.learn.checks.checking import judged

ROOM = "course_lib/learn/exercises/lesson_07"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As much of a clone as is read."""
    (tmp_path / ROOM).mkdir(parents=True)
    (tmp_path / "course_lib" / "__init__.py").touch()
    shutil.copy(ROOT / ROOM / "__init__.py", tmp_path / ROOM)
    (tmp_path / "notebooks" / "src").mkdir(parents=True)
    for name in "abc":
        (tmp_path / "notebooks" / "src" / f"07{name}_x.py").touch()
    monkeypatch.setattr("course_lib.base.paths.project_root", lambda: tmp_path)
    return tmp_path


def test_the_exercise_that_is_written_judges(clone: Path) -> None:
    assert main(["exercise", "07.twice"]) == 0
    made: dict[str, object] = {"__name__": "course_lib.learn.exercises.lesson_07.twice"}
    exec((clone / ROOM / "twice.py").read_text(), made)
    assert judged(made["TWICE"], lambda number: number + number).status == "passed"
    assert "the number times itself" in judged(made["TWICE"], lambda number: number**2).message.lower()


def test_it_is_listed_last_and_its_import_stands_in_order(clone: Path) -> None:
    texts, _ = exercise.files(clone, "07.middle")
    face = texts[f"{ROOM}/__init__.py"]
    assert ", MIDDLE)" in face
    assert face.index("lesson_07.loss") < face.index("lesson_07.middle") < face.index("lesson_07.one_f_one_b")


def test_the_part_that_is_written_asks_and_tells(clone: Path) -> None:
    assert main(["part", "07d", "idle_time"]) == 0
    made: dict[str, object] = {"__name__": "made"}
    exec((clone / ROOM / "predictions/idle_time.py").read_text(), made)
    (asked,) = made["PREDICTIONS"]  # type: ignore[misc]
    assert asked.name == "07d.hello"
    assert asked.tell(["a", "b"]).measured == 2
    assert 'ask("07d.hello")' in (clone / "notebooks/src/07d_idle_time.py").read_text()


@pytest.mark.parametrize(("what", "words"), [(exercise, ["07.twice"]), (part, ["07d", "idle_time"])])
def test_what_is_written_is_as_the_house_writes(clone: Path, what: object, words: list[str]) -> None:
    texts, remains = what.files(clone, *words)  # type: ignore[attr-defined]
    assert len(remains) >= 4
    write(clone, texts)
    shutil.copy(ROOT / "pyproject.toml", clone)
    shutil.copy(ROOT / "notebooks" / "src" / "ruff.toml", clone / "notebooks" / "src")
    ours = ["--config", 'lint.isort.known-first-party=["course_lib"]']  # most of whose files are not in this clone
    for verb in (["check", *ours], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *verb, "--no-cache", "."], cwd=clone, capture_output=True, text=True
        )
        if "No module named ruff" in done.stderr:
            pytest.skip("this environment has no ruff")
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exercise", "7.twice"], "an exercise is called by lesson and name, as 07.name"),
        (["exercise", "07.class"], "'07.class' is not"),
        (["exercise", "15.twice"], "there is no lesson 15; there are 00 to 14. The nearest is"),
        (["exercise", "07.loss"], "there is an exercise 07.loss already"),
        (["exercise"], "takes one word, such as 07.name; it was given none"),
        (["part", "07f", "x"], "07f is not the next part of lesson 07, which has a, b, c. The nearest is 07d."),
        (["part", "07", "x"], "as 07d; '07' is not"),
        (["part", "07d", "Idle time"], "'Idle time' is not"),
        (["part", "07d"], "takes two words, such as 07d name; it was given 07d"),
        (["schedule", "x"], "nothing new called 'schedule'; it is one of exercise, part"),
    ],
)
def test_what_cannot_be_gets_a_sentence_and_nothing_is_written(
    clone: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    before = sorted(clone.rglob("*"))
    assert main(words) == 2
    assert said in capsys.readouterr().err
    assert sorted(clone.rglob("*")) == before


def test_nothing_that_exists_is_written_over(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = clone / ROOM / "twice.py"
    mine.write_text("mine")
    face = (clone / ROOM / "__init__.py").read_text()
    assert main(["exercise", "07.twice"]) == 2
    assert "is there already. Nothing was written" in capsys.readouterr().err
    assert mine.read_text() == "mine"
    assert (clone / ROOM / "__init__.py").read_text() == face


def test_an_installed_course_says_that_a_clone_is_needed(
    clone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("course_lib.base.paths.is_installed", lambda *_: True)
    assert main(["exercise", "07.twice"]) == 2
    assert "clone" in capsys.readouterr().err
