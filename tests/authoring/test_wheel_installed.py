"""The wheel for real: built, installed by pip into an environment of its own, and used from an empty folder."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest
from installed_course import LIMIT_S, Installed, copy_of_the_clone, install, made, tracked, why_not
from small_projects import ROOT

from course_lib.authoring.site.command import missing as missing_for_the_site

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "never"),
    pytest.mark.xdist_group("wheel"),
    pytest.mark.limit_s(3 * LIMIT_S),
]
MOST_BYTES = 16 << 20
PARTS = ("00_start_here", "05b_whole_for_a_moment", "11a_does_it_fit", "14a_the_job")
# Runs notebooks as `course build` does: a cell that raises is an error, unless it is tagged to do so.
RUN = """
import asyncio, sys, nbformat
from pathlib import Path
from course_lib.lessons.execute import execute
path = Path(sys.argv[1])
asyncio.run(execute(nbformat.read(path, as_version=4), folder=path.parent, cell_timeout_s=600))
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_the_clone(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def source(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(made("build_sdist", clone, folder)) as packed:
        packed.extractall(folder, filter="data")
    (found,) = [path for path in folder.iterdir() if path.is_dir()]
    return found


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made of the source distribution, as pip makes it where a package index has no wheel."""
    return made("build_wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def here(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def lessons(here: Installed) -> Path:
    """The learner's folder, as `course lab` makes it."""
    done = here.course("lab", "--prepare")
    assert done.returncode == 0, done.stderr
    assert f"Your lessons lie in {here.lessons}" in done.stdout
    return here.lessons


# --- What is in it --------------------------------------------------------------------------------------------------


def test_the_source_distribution_is_the_clone(source: Path) -> None:
    found = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    added = {name for name in found if "egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert found - added == set(tracked())


def test_the_wheel_holds_the_library_and_the_courses_files_and_is_small(wheel: Path) -> None:
    from course_lib.authoring.wheel import files_of

    with zipfile.ZipFile(wheel) as packed:
        found = {name for name in packed.namelist() if ".dist-info/" not in name}
    library = {name for name in tracked() if name.startswith("course_lib/")}
    assert found == library | {f"course_lib/_course/{name}" for name in files_of(ROOT)}
    assert wheel.stat().st_size < MOST_BYTES


def test_an_editable_installation_copies_nothing(clone: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(made("build_editable", clone, tmp_path / "out")) as packed:
        found = [name for name in packed.namelist() if ".dist-info/" not in name]
        assert all(name.startswith("__editable__") for name in found), found
        assert any(str(clone) in packed.read(name).decode() for name in found)
    assert not (clone / "course_lib" / "_course").exists()


# --- The lessons ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["", "solutions"])
@pytest.mark.parametrize("stem", PARTS)
def test_a_lesson_runs_to_its_end(here: Installed, lessons: Path, stem: str, kind: str) -> None:
    done = here.run("python", "-c", RUN, str(lessons / "notebooks" / kind / f"{stem}.ipynb"))
    assert done.returncode == 0, done.stderr[-3000:]


def test_what_lessons_read_is_there(here: Installed) -> None:
    """What F4 of a review has met: a solution, the record of lesson 00, published runs, the capstone's record."""
    code = """
from course_lib import solution
from course_lib.capstone.attempts.record import RECORD
from course_lib.base.paths import project_root
from course_lib.plan.runs.published import read_runs
from course_lib.take_along import launch_file
import course_lib
solution("00.share")
print(RECORD.is_file(), len(read_runs(project_root() / "assets" / "published" / "memory.csv")[0]) > 0)
print((project_root() / "assets" / "measured" / "torchrun_log.json").is_file())
print(launch_file("slurm.sbatch").is_file(), course_lib.__file__)
"""
    done = here.run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert "True True\nTrue\nTrue " in done.stdout
    assert str(here.packages) in done.stdout.splitlines()[-1]


# --- The verbs, from an empty folder --------------------------------------------------------------------------------

NUM_PARTS = len(list((ROOT / "notebooks" / "src").glob("*.py")))  # with the tour
NUM_LESSONS = len(list((ROOT / "notebooks" / "src").glob("[0-9]*.py")))
PLAN = "plan --model llama-3-8b --machine 8xh100 --gpus 8 --batch 64 --seq 8192"
VERBS = [
    ("--version", 0, "0."),
    ("--help", 0, "course lab"),
    ("lab --reset 04a", 0, "04a_distributed_data_parallel.ipynb"),
    ("lab --reset 04", 2, "comes in parts"),
    ("find reduce-scatter", 0, "word: reduce-scatter"),
    ("mine", 2, "nothing is kept of you here"),  # below pytest
    ("start", 0, "What comes next"),
    ("lab --open 99", 2, "there is no lesson '99'"),
    ("build --check", 0, f"{NUM_PARTS} lessons: up to date"),
    ("build --nbgrader assignments 00 04a", 0, "04a_distributed_data_parallel"),
    ("build 00", 1, "course build: Making notebooks needs a clone of the course"),
    ("pictures --list", 0, "00_loop"),
    ("pictures 07", 1, "course pictures: Drawing them again needs a clone of the course"),
    ("test", 2, "course test: A test needs a clone of the course"),
    ("test quick", 2, "course test: A test needs a clone of the course"),
    ("test portable", 2, "course test: A test needs a clone of the course"),
    (PLAN, 0, "tp"),
    ("trace ddp_resnet_2xa100", 0, "3 steps of 222 ms"),
    ("class check --learners 3", None, "A class of 3 on this machine"),
    ("class slides half a day", 0, "10 slides"),
    ("class handout half a day", 0, "3 questions"),
    ("class board --help", 0, "course class board"),
    ("bench", 0, "launch"),
    ("bench gpu --list", 0, "lessons"),
    ("bench gpu --cpu --steps tests --minutes 2", 0, "A test needs a clone of the course"),
    ("bench class", 2, "This bench needs a clone of the course"),
]


@pytest.mark.parametrize(("words", "code", "says"), VERBS, ids=[words for words, _, _ in VERBS])
def test_a_verb_works_or_says_what_needs_a_clone(
    here: Installed, lessons: Path, words: str, code: int | None, says: str
) -> None:
    done = here.course(*words.split())
    assert says in done.stdout + done.stderr
    assert code in (None, done.returncode), done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_your_own_library_is_listed(here: Installed) -> None:
    code = """
import sys
from course_lib.cli import main
from course_lib.learn.records import store
store._is_off = lambda: False  # else nothing is kept below pytest
sys.exit(main(["mine"]))
"""
    done = here.run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert "Your own library" in done.stdout
    assert str(here.packages) not in done.stdout  # it lies with the learner, and not in the package


def test_a_bench_measures_the_published_runs_of_the_package(here: Installed) -> None:
    file = here.packages / "course_lib" / "_course" / "assets" / "published" / "memory.csv"
    done = here.course("bench", "published", str(file))
    assert done.returncode == 0, done.stderr
    assert "16 rows, 0 of them cannot be predicted" in done.stdout


def test_the_doctor_finds_all_of_the_course(here: Installed) -> None:
    done = here.course("doctor", "--json")
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    for name in ("course files", "course folder", "your lessons", "package files", "all-reduce, gloo"):
        assert found[name]["status"] == "ok", found[name]
    assert found["course files"]["detail"] == f"{NUM_LESSONS} lessons, each with its solution"


def test_work_is_exported(here: Installed, lessons: Path, tmp_path: Path) -> None:
    path = lessons / "notebooks" / "00_start_here.ipynb"
    handed_out = path.read_bytes()
    notebook = json.loads(handed_out)
    notebook["cells"][-1] = {
        "cell_type": "markdown",
        "id": "mine",
        "metadata": {},
        "source": "What I have found.",
    }
    path.write_text(json.dumps(notebook))
    try:
        done = here.course("export", "--out", str(tmp_path / "page.html"))
    finally:
        path.write_bytes(handed_out)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "What I have found." in page
    assert "data:image/png;base64," in page
    assert "A picture that is not in this page" not in page


def test_a_class_shares_and_has_a_board(here: Installed, tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    code = """
from course_lib import check
from course_lib.learn.records import store
from course_lib.learn.checks.reference import reference_answer
store._is_off = lambda: False  # else nothing is kept below pytest
check("00.share", reference_answer("00.share"))
"""
    asked = here.run("python", "-c", code)
    assert asked.returncode == 0, asked.stderr
    shared = here.course("class", "share", str(tmp_path / "class"))
    assert shared.returncode == 0, shared.stderr
    board = here.course("class", "board", str(tmp_path / "class"), "--out", str(tmp_path / "board.html"))
    assert board.returncode == 0, board.stderr
    assert (tmp_path / "board.html").is_file()


def test_lab_opens_lessons_pictures_and_solutions(here: Installed, lessons: Path) -> None:
    child = subprocess.Popen(
        [str(here.bin / "course"), "lab", "--no-browser"],
        cwd=here.empty, env=here.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        text = ""
        for line in child.stdout:
            text += line
            if line.startswith("The address holds a token"):
                break
        found = re.search(r"(http://127\.0\.0\.1:\d+)(/\S*)\?token=(\w+)", text)
        assert found, text
        assert found[2] == "/lab/tree/notebooks/00_start_here.ipynb"
        for name in (
            "notebooks/00_start_here.ipynb",
            "notebooks/solutions/00_start_here.ipynb",
            "assets/00_loop.png",
        ):
            with urllib.request.urlopen(f"{found[1]}/files/{name}?token={found[3]}", timeout=LIMIT_S) as answer:
                assert answer.read() == (lessons / name).read_bytes()
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(LIMIT_S)
        finally:
            child.kill()
            child.communicate()


def test_the_site_is_made_of_the_package(here: Installed) -> None:
    done = here.course("site", "--out", "site")
    if missing_for_the_site():
        assert done.returncode == 1
        assert "-m pip install 'one-model-many-gpus[site]'" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert here.course("site", "--out", "site", "--check").returncode == 0
    assert (here.empty / "site" / "examples" / "train_ddp.html").is_file()


def test_nothing_was_written_into_the_package(here: Installed, wheel: Path) -> None:
    """The last of this file: the package's files are as the wheel holds them."""
    with zipfile.ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if name.startswith("course_lib/")]
        assert [name for name in names if (here.packages / name).read_bytes() != packed.read(name)] == []
    files = {path.relative_to(here.packages).as_posix() for path in (here.packages / "course_lib").rglob("*")}
    assert [name for name in files - set(names) if (here.packages / name).is_file() and "__pycache__" not in name] == []
