"""The verb `test`, run over small projects: what passes, what fails, and that a failure is never quiet."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from waiting import is_running, wait_until

from course_lib.authoring import testing
from course_lib.authoring.testing import parts, run
from course_lib.authoring.testing.run import own_environment
from course_lib.base import paths

HANG_LIMIT_S = 300
NAMES = [part.name for part in testing.PARTS]
ALONE = ["-n", "0"]  # pytest in one process: the small projects have nothing to share out


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project with a folder of tests."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\ntestpaths = ['tests']\n")
    return tmp_path


def write_test(project: Path, body: str, name: str = "test_it") -> None:
    (project / "tests" / f"{name}.py").write_text(f"import os, pathlib, time\ndef {name}():\n    {body}\n")


def write_notebook(folder: Path, name: str, *, code: str, output: str) -> None:
    """A notebook of one cell with a stored output, which may be a lie."""
    stored = {"output_type": "stream", "name": "stdout", "text": output}
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": code}
    cell |= {"execution_count": 1, "outputs": [stored] if output else []}
    folder.mkdir(parents=True, exist_ok=True)
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / name).write_text(json.dumps(notebook))


# --- Which parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "parts", "rest"),
    [
        ([], NAMES, []),
        (["unit"], ["unit"], []),
        (["learner", "lint"], ["lint", "learner"], []),
        (["notebooks"], ["fresh", "solutions", "learner"], []),
        (["-k", "lint"], ["unit"], ["-k", "lint"]),
        (["unit", "-x", "-k", "cli"], ["unit"], ["-x", "-k", "cli"]),
        ([__file__ + "::test_help"], ["unit"], [__file__ + "::test_help"]),
    ],
)
def test_choose(argv: list[str], parts: list[str], rest: list[str]) -> None:
    assert testing.choose(argv) == (parts, rest)


def test_unknown_part_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert testing.main(["notebok"]) == 2
    assert "Did you mean 'notebooks'?" in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert testing.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(part.title in out for part in testing.PARTS)


def test_place_without_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "project_root", lambda: tmp_path)
    assert testing.main([]) == 2
    assert "not a clone of the course" in capsys.readouterr().err


def test_commands_of_every_part_are_known() -> None:
    for name in NAMES:
        if name not in ("solutions", "learner"):
            assert testing.commands_of(name, root=paths.project_root())


# --- What passes and what fails --------------------------------------------------------------------


def test_unit_tests_that_pass(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_test(project, "assert True")
    assert testing.run_parts(["unit"], root=project, pytest_options=ALONE) == 0
    out = capsys.readouterr().out
    assert "1 passed in " in out.splitlines()[0]
    assert out.splitlines()[-1].startswith("1 passed, 0 failed in ")


def test_a_failure_shows_all_and_the_other_parts_still_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_test(project, "print('a word of its own'); assert 1 == 2")
    assert testing.run_parts(["lint", "unit", "solutions"], root=project, pytest_options=ALONE) == 1
    out = capsys.readouterr().out
    assert "a word of its own" in out
    assert "assert 1 == 2" in out
    assert "I001" in out, "ruff's complaint about the imports on one line"
    assert "holds no notebook" in out
    assert out.splitlines()[-1].startswith("0 passed, 3 failed")
    assert out.splitlines()[-1].endswith(": lint, unit, solutions")


def test_no_test_collected_is_a_failure(project: Path) -> None:
    write_test(project, "assert True")
    assert testing.run_parts(["unit"], root=project, pytest_options=[*ALONE, "-k", "no_such_test"]) == 1


def test_code_that_is_not_laid_out_fails(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests" / "layout.py").write_text("x = [1,\n  2]\n")
    assert testing.run_parts(["lint"], root=project) == 1
    assert "layout.py" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["solutions", "learner"])
def test_no_notebook_is_a_failure(project: Path, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "notebooks" / "solutions").mkdir(parents=True)
    assert testing.run_parts([part], root=project) == 1
    assert "holds no notebook" in capsys.readouterr().out


@pytest.mark.long
def test_outputs_are_compared_in_solutions_and_not_in_learners_copies(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (project / "notebooks", project / "notebooks" / "solutions"):
        write_notebook(folder, "00_a.ipynb", code="print(1 + 1)", output="3\n")
    write_notebook(project / "notebooks", "01_b.ipynb", code="1 / 0", output="")
    assert testing.run_parts(["learner"], root=project, pytest_options=[*ALONE, "-k", "01_b"]) == 1
    (project / "notebooks" / "01_b.ipynb").unlink()
    capsys.readouterr()
    assert testing.run_parts(["learner", "solutions"], root=project, pytest_options=ALONE) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("1 passed, 1 failed")
    assert out.splitlines()[-1].endswith(": solutions")


# --- Apart from the learner, and stopped whole ------------------------------------------------------


def test_tests_do_not_touch_what_is_the_learners(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_HOME", "/home/learner/course")
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", "/home/learner/jupyter")
    names = ["COURSE_HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"]
    told = project / "told.json"
    write_test(
        project,
        f"import json; pathlib.Path({str(told)!r}).write_text(json.dumps([os.environ[n] for n in {names}]))",
    )
    assert testing.run_parts(["unit"], root=project, pytest_options=ALONE) == 0
    folders = json.loads(told.read_text())
    assert all("course-test-" in folder for folder in folders)
    assert not any(Path(folder).exists() for folder in folders)
    assert os.environ["COURSE_HOME"] == "/home/learner/course"


def test_python_keeps_what_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with own_environment() as env:
        assert "PYTHONDONTWRITEBYTECODE" not in env


def test_threads_that_wait_for_each_other_sleep_unless_the_caller_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with own_environment() as env:
        assert env["OMP_WAIT_POLICY"] == "passive"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    with own_environment() as env:
        assert env["OMP_WAIT_POLICY"] == "active"


@pytest.mark.first_cases(1)
@pytest.mark.skipif(os.name == "nt", reason="sends a signal as POSIX does")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_with_all_that_it_started(project: Path, number: signal.Signals) -> None:
    told = project / "pid"
    write_test(project, f"pathlib.Path({str(told)!r}).write_text(str(os.getpid())); time.sleep({HANG_LIMIT_S})")
    (project / "tests" / "test_first.py").write_text("def test_first():\n    assert 'found' == 'before'\n")
    heard = project / "heard"  # of the failure, by the process that prints
    (project / "tests" / "conftest.py").write_text(
        "import pathlib, pytest\ndef pytest_configure(config):\n"
        "    global is_worker\n    is_worker = hasattr(config, 'workerinput')\n"
        "@pytest.hookimpl(trylast=True)\ndef pytest_runtest_logreport(report):\n"
        f"    if report.failed and not is_worker:\n        pathlib.Path({str(heard)!r}).touch()\n"
    )
    code = (
        "from pathlib import Path\nfrom course_lib.authoring import testing\nfrom course_lib.base import paths\n"
        f"paths.project_root = lambda: Path({str(project)!r})\nraise SystemExit(testing.main(['unit']))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    wait_until(lambda: told.exists() and told.read_text() and heard.exists(), "the tests have begun", HANG_LIMIT_S)
    worker = psutil.Process(int(told.read_text()))
    os.killpg(child.pid, number)  # as a terminal does: to all of its group
    out, err = child.communicate(timeout=HANG_LIMIT_S)
    assert child.returncode == 130
    assert re.search(r"^unit .* STOPPED ", out.decode(), re.MULTILINE)
    assert "assert 'found' == 'before'" in out.decode(), "what it had found before is told"
    assert "course test: stopped" in err.decode()
    worker.wait(timeout=HANG_LIMIT_S)  # raises while the worker is alive at the limit


# --- How many at a time, and what runs beside what ---------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "memory_bytes", "waiting", "expected"),
    [
        (1, 64e9, True, 1),
        (2, 64e9, True, 2),
        (3, 64e9, True, 4),
        (2, 64e9, False, 2),
        (64, 640e9, True, 5),
        (4, 9e9, True, 4),
        (4, 5e9, True, 2),
        (4, 3e9, True, 1),
        (4, 1e8, True, 1),
    ],
)
def test_workers_by_cores_and_memory(cores: int, memory_bytes: float, waiting: bool, expected: int) -> None:
    assert parts.workers(waiting=waiting, cores=cores, memory_bytes=int(memory_bytes)) == expected


def waiting_for(mine: Path, other: Path) -> list[str]:
    """A command that succeeds once the other of two has begun as well."""
    code = (
        "import pathlib, sys, time; mine, other = map(pathlib.Path, sys.argv[1:]); mine.touch()\n"
        f"for _ in range({50 * HANG_LIMIT_S}):\n    if other.exists(): raise SystemExit(0)\n    time.sleep(0.02)\n"
        "raise SystemExit('the other never began')"
    )
    return [sys.executable, "-c", code, str(mine), str(other)]


def test_a_single_process_runs_beside_the_tests(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = project / "a", project / "b"
    commands = {"types": [waiting_for(a, b)], "unit": [waiting_for(b, a)]}
    runs = run.run_lanes(["types", "unit"], commands.__getitem__, root=project, env=os.environ)
    assert [(one.name, one.passed) for one in runs] == [("types", True), ("unit", True)], [r.output for r in runs]
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.long
def test_what_is_not_over_at_the_end_is_stopped_and_not_told_as_passed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told, text = project / "pid", ""
    code = f"import os, pathlib, time; pathlib.Path({str(told)!r}).write_text(str(os.getpid())); time.sleep(999)"
    commands = {"lint": [[sys.executable, "-c", ""]], "unit": [[sys.executable, "-c", code]]}

    def clock() -> float:
        """The time is up once one part is over and the other has begun."""
        nonlocal text
        text += capsys.readouterr().out
        return 100.0 if text and told.exists() and told.read_text() else 0.0

    runs = run.run_lanes(["lint", "unit"], commands.__getitem__, root=project, env=os.environ, end_s=50.0, clock=clock)
    assert [one.name for one in runs] == ["lint"]
    assert not is_running(int(told.read_text()))
    assert "STOPPED" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="sessions are POSIX's")
def test_a_terminals_ctrl_c_does_not_reach_the_parts(project: Path) -> None:
    code = "import os; assert os.getsid(0) == os.getpid()"  # a group of its own, which no terminal signals
    (only,) = run.run_lanes(["types"], lambda name: [[sys.executable, "-c", code]], root=project, env=os.environ)
    assert only.passed, only.output


def test_the_commands_of_a_part_end_with_the_first_that_fails(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = [[sys.executable, "-c", code] for code in ("print('one')", "raise SystemExit('two')", "print('three')")]
    (only,) = run.run_lanes(["types"], lambda name: script, root=project, env=os.environ)
    assert (only.code, "one" in only.output, "three" in only.output) == (1, True, False)
    assert "FAILED" in capsys.readouterr().out
