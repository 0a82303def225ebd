"""nbgrader itself, on planted work: what it hands out, the points that it gives, the pages that it writes."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import uuid
from pathlib import Path

import nbformat
import psutil
import pytest
from planted_work import ANSWERS, MISTAKES, plant, points, students_of
from waiting import wait_until

from course_lib.authoring.notebooks.cli import main
from course_lib.learn import exercises
from course_lib.lessons.convert import learner_notebook
from course_lib.lessons.source import read_source

pytest.importorskip("nbgrader", reason="nbgrader is not installed: pip install -e .[grade]")
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.limit_s(1800)]

ROOT = Path(__file__).resolve().parents[2]
MARK = f"COURSE_TEST_{uuid.uuid4().hex}"


def nbgrader(folder: Path, *words: str) -> str:
    """Run ``nbgrader`` in the folder, as in an activated environment, and give what it says."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    unset = ("COURSE_PROGRESS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER")
    env = {key: value for key, value in os.environ.items() if key not in unset}
    env |= {"PATH": paths, "PYTHONPATH": str(ROOT), "COURSE_HOME": str(folder / "home"), MARK: "1"}
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *words], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, f"nbgrader {' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def assigned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    assert main(["--nbgrader", str(folder), *ANSWERS], root=ROOT) == 0
    for lesson in ANSWERS:
        nbgrader(folder, "generate_assignment", lesson)
    return folder


@pytest.fixture(scope="module", params=ANSWERS)
def graded(request: pytest.FixtureRequest, assigned: Path) -> tuple[Path, str]:
    for student in students_of(request.param):
        plant(assigned, request.param, student)
    nbgrader(assigned, "autograde", request.param)
    return assigned, request.param


def grades(folder: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """By lesson and student, the points and the most that there are, by ``nbgrader export``."""
    nbgrader(folder, "export")
    with (folder / "grades.csv").open(newline="") as file:
        return {
            (row["assignment"], row["student_id"]): (float(row["score"] or 0), float(row["max_score"]))
            for row in csv.DictReader(file)
        }


def output_of(folder: Path, lesson: str, student: str) -> dict[str, str]:
    """By check, what its cell shows in the marked notebook: text and errors."""
    path = folder / "autograded" / student / lesson / f"{lesson}.ipynb"
    shown = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            said = [str(one.get("data", {}).get("text/plain", "")) + one.get("evalue", "") for one in cell.outputs]
            shown[cell.metadata.nbgrader.grade_id] = "\n".join(said)
    return shown


def test_what_is_handed_out_is_the_learners_copy(assigned):
    for lesson in ANSWERS:
        handed = nbformat.read(assigned / "release" / lesson / f"{lesson}.ipynb", as_version=4)
        ours = learner_notebook(read_source(ROOT / "notebooks" / "src" / f"{lesson}.py"))
        code = [[cell.source for cell in one.cells if cell.cell_type == "code"] for one in (handed, ours)]
        assert code[0] == code[1]
        assert (assigned / "release" / lesson / "assets").is_dir()


def test_points(graded):
    folder, lesson = graded
    found = grades(folder)
    most = len(ANSWERS[lesson])
    wanted = {student: (points(lesson, student), most) for student in students_of(lesson)}
    assert {student: found[lesson, student] for student in wanted} == wanted


def test_the_marked_notebook_says_why(graded):
    folder, lesson = graded
    said = output_of(folder, lesson, "wrong")
    for name, mistake in MISTAKES.items():
        if (check := f"check_{name.replace('.', '_')}") in said:
            message = next(one.message for one in exercises.exercise(name).mistakes if one.name == mistake)
            assert message[:60] in said[check]
    assert all("not attempted yet" in text for text in output_of(folder, lesson, "stub").values())
    assert any("exit code 3" in text for text in output_of(folder, lesson, "crashes").values())


def test_feedback(graded):
    folder, lesson = graded
    nbgrader(folder, "generate_feedback", lesson)
    page = folder / "feedback" / "wrong" / lesson / f"{lesson}.html"
    assert "not yet" in page.read_text(encoding="utf-8")


def test_nothing_is_left_of_whom_it_ran(graded):
    folder, _ = graded
    wait_until(lambda: not marked_processes(), "all have ended")
    assert not list(folder.glob("home/data/progress*"))


def marked_processes() -> list[str]:
    """Processes that ``nbgrader`` has started, by what stands in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if MARK in process.environ():
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return found
