"""`course test quick`: what a change touches is found and run, and what is left out is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from course_lib.authoring import testing
from course_lib.authoring.testing import quick
from course_lib.authoring.testing.changed import GitError, changes
from course_lib.authoring.testing.reach import EXERCISES, lessons_of, touched_tests
from course_lib.base import paths

ROOT = paths.project_root()


def git(project: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *words], cwd=project, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout on main, of a library of three files and their tests, with one commit."""
    files = {
        "pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['tests']\nmarkers = ['slow: slow']\n"
        "[tool.pyrefly]\nproject-includes = ['course_lib']\n",
        ".gitignore": "__pycache__/\n",
        "course_lib/__init__.py": "",
        "course_lib/room/__init__.py": '_HOME_OF = {"late": "later"}\nfrom course_lib.room.now import at_once\n',
        "course_lib/room/later.py": "from course_lib.deep import deep\n\nlate = deep\n",
        "course_lib/room/now.py": "at_once = 1\n",
        "course_lib/deep.py": "deep = 2\n",
        "tests/conftest.py": "",
        "tests/beside.py": "",
        "tests/test_late.py": "def test_late():\n    from course_lib.room import late\n\n    assert late == 2\n",
        "tests/test_now.py": "from course_lib.room import at_once\n\n\ndef test_now():\n    assert at_once\n",
        "tests/test_deep.py": 'import pytest\n\nNAME = "course_lib.deep"\n\n\n'
        "@pytest.mark.slow\ndef test_deep():\n    assert NAME\n",
        "tests/test_text.py": 'import beside\n\n\ndef test_text():\n    assert beside, "pyproject.toml"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "all")
    return tmp_path


def names(project: Path, *changed: str) -> list[str]:
    return [Path(path).stem for path, _ in touched_tests(project, changed)]


# --- What has changed ------------------------------------------------------------------------------------


def test_changed_new_gone_and_committed_on_a_branch(project: Path) -> None:
    assert changes(project).files == ()
    git(project, "checkout", "-b", "work")
    (project / "course_lib" / "deep.py").write_text("deep = 3\n")
    git(project, "commit", "-am", "deeper")
    (project / "course_lib" / "a new one.py").write_text("")
    (project / "tests" / "test_now.py").unlink()
    (project / "course_lib" / "__pycache__").mkdir(exist_ok=True)
    (project / "course_lib" / "__pycache__" / "ignored.pyc").write_text("")
    assert changes(project).files == ("course_lib/a new one.py", "course_lib/deep.py", "tests/test_now.py")
    assert changes(project, "HEAD").files == ("course_lib/a new one.py", "tests/test_now.py")


def test_no_such_commit_and_no_checkout_are_sentences(
    project: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quick.main(["--since", "nowhere"], root=project) == 2
    assert "--since nowhere: there is no such commit" in capsys.readouterr().err
    with pytest.raises(GitError, match="not a git repository"):
        changes(tmp_path_factory.mktemp("plain"))


def test_without_git_it_is_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    with pytest.raises(GitError, match="git is not installed"):
        changes(project)


# --- What it touches -------------------------------------------------------------------------------------


def test_a_name_leads_to_the_file_it_lives_in_and_to_no_other(project: Path) -> None:
    assert names(project, "course_lib/room/later.py") == ["test_late"]
    assert names(project, "course_lib/room/now.py") == ["test_now"]
    assert names(project, "course_lib/room/__init__.py") == ["test_late", "test_now"]


def test_what_is_nearer_comes_first(project: Path) -> None:
    assert touched_tests(project, ["course_lib/deep.py"]) == [
        ("tests/test_deep.py", 1),
        ("tests/test_late.py", 2),
    ]


def test_tests_and_what_lies_beside_them_and_files_named_in_them(project: Path) -> None:
    assert touched_tests(project, ["tests/test_now.py"]) == [("tests/test_now.py", 0)]
    assert names(project, "tests/beside.py") == ["test_text"]
    assert names(project, "pyproject.toml") == ["test_text"]
    assert len(names(project, "tests/conftest.py")) == 4
    assert names(project, "tests/test_gone.py") == []


def test_a_file_that_does_not_parse_hides_no_other(project: Path) -> None:
    (project / "tests" / "test_now.py").write_text("def")
    assert names(project, "tests/test_now.py", "course_lib/room/later.py") == ["test_now", "test_late"]


@pytest.mark.long  # it reads every file of the course; small projects show the same each time
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("course_lib/cluster/failures/deadlock.py", "tests/cluster/test_cluster_hope.py"),
        ("course_lib/parallel/data/buckets.py", "tests/parallel/data/test_parallel_ddp.py"),
        ("course_lib/authoring/bench/judging/judges.py", "tests/bench/test_bench_judges.py"),
        ("course_lib/authoring/pictures/lesson_07.py", "tests/authoring/test_pictures.py"),
        ("course_lib/learn/exercises/lesson_03/load/__init__.py", "tests/lessons/test_lesson_03_verdicts.py"),
        ("course_lib/learn/exercises/lesson_03/load/__init__.py", EXERCISES),
        ("notebooks/src/03a_data_parallel.py", "tests/lessons/test_predictions_03.py"),
        ("course", "tests/test_course_script.py"),
    ],
)
def test_the_tests_of_the_course_are_found(changed: str, expected: str) -> None:
    assert expected in [path for path, _ in touched_tests(ROOT, [changed])][: quick.MOST_FILES]


def test_the_lesson_of_a_file() -> None:
    files = [
        "course_lib/learn/exercises/lesson_03/load/__init__.py",
        "notebooks/src/07a_pipeline_parallel.py",
        "tests/test_a_05.py",
    ]
    assert lessons_of(files) == {"03", "07"}


# --- The run ---------------------------------------------------------------------------------------------


@pytest.fixture
def quickly(project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run the verb in a checkout of tests alone: a library there would hide the course's own from pytest."""
    git(project, "rm", "-r", "course_lib", "tests/test_late.py", "tests/test_now.py")
    git(project, "commit", "-m", "tests alone")
    monkeypatch.setattr(paths, "project_root", lambda: project)

    def run(*argv: str) -> tuple[int, str]:
        code = testing.main(["quick", *argv])
        return code, capsys.readouterr().out

    return run


def test_nothing_changed(quickly) -> None:
    code, out = quickly()
    assert code == 0
    assert "Nothing has changed since" in out


def test_a_change_runs_its_tests_and_no_others(project: Path, quickly) -> None:
    (project / "tests" / "beside.py").write_text("raise ArithmeticError(1)\n")
    (project / "tests" / "test_other.py").write_text("def test_other():\n    assert True\n")
    git(project, "add", "tests/test_other.py")
    git(project, "commit", "-m", "not touched")
    code, out = quickly("--most-s", "600")
    assert code == 1
    assert "1 file changed" in out
    assert "ArithmeticError" in out
    assert "test_other" not in out
    assert out.splitlines()[-1].startswith("1 passed, 1 failed, 0 not finished")
    assert out.splitlines()[-1].endswith(": unit")
    assert "left out   running the notebooks: `course test notebooks`" in out


@pytest.mark.long
def test_slow_tests_alone_are_no_failure(project: Path, quickly) -> None:
    with (project / "tests" / "test_deep.py").open("a") as file:
        file.write("\n\nx = 1\n")
    code, out = quickly("--most-s", "600")
    assert code == 0, out
    assert "no tests ran" in out
    assert "left out   tests marked slow" in out


@pytest.mark.long
def test_what_the_time_is_too_short_for_is_named(project: Path, quickly, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "tests" / "beside.py").write_text("raised = 1\n")
    monkeypatch.setattr(quick, "_START_SHARE", 0.0)  # the time is up before the first test
    code, out = quickly("--most-s", "600")
    assert code == 1, "no test ran, which must not pass for success"
    assert out.splitlines()[-1].endswith(": unit")
    assert "left out   1 test, for the time was up: tests/test_text.py" in out


@pytest.mark.long
def test_a_part_that_does_not_end_in_time_is_stopped_and_named(project: Path, quickly) -> None:
    (project / "tests" / "beside.py").write_text("import time\n\ntime.sleep(10_000)\n")
    code, out = quickly("--most-s", "10")
    assert "left out   unit: it had not finished when the time was up" in out
    assert code == 1
    assert "unit" in out.splitlines()[-1].partition(": ")[2]


@pytest.mark.long
def test_exercises_of_other_lessons_are_left_out(project: Path, quickly) -> None:
    """The plugin alone: which tests it takes, in a file where that of the exercises would be."""
    body = "import pytest\n\n\n@pytest.mark.parametrize('name', ['03.load', '07.sync', 'other'])\n"
    body += "def test_one(name):\n    assert name\n"
    (project / "tests" / "learn").mkdir()
    (project / EXERCISES).write_text(body)
    command = quick.TestSelection(("unit",), (EXERCISES,), lessons=("03",)).commands(
        "unit", root=project, start_until_s=1e12
    )
    done = subprocess.run(command[0], cwd=project, capture_output=True, text=True)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("files", "parts", "lessons"),
    [
        (["README.md"], ("unit", "fresh"), ()),
        (["course_lib/learn/exercises/lesson_03/load/__init__.py"], ("lint", "types", "unit"), ("03",)),
        (
            ["course_lib/learn/exercises/lesson_03/load/__init__.py", "course_lib/learn/judging/judge.py"],
            ("lint", "types", "unit"),
            (),
        ),
        (["notebooks/src/03a_data_parallel.py"], ("lint", "unit", "fresh"), ("03",)),
        (["tests/models/test_models.py"], ("lint", "unit"), ()),
        (["of_nobody" + ".yml"], (), ()),  # in one word it would be named in a test: here
    ],
)
def test_the_plan_for_a_change(files: list[str], parts: tuple[str, ...], lessons: tuple[str, ...]) -> None:
    plan = quick.plan_for(ROOT, files)
    assert (plan.parts, plan.lessons) == (parts, lessons)


def test_quick_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert testing.main(["unit", "quick"]) == 2
    assert "`quick` stands alone" in capsys.readouterr().err
