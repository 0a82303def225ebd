"""The script `course`, run for real in small projects of its own, which install from files and need no network."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from small_projects import (
    HANG_LIMIT_S,
    brick,
    command,
    load_script,
    slow_brick,
    start,
)
from waiting import all_ended, wait_until

from course_lib.environment import SetupError
from course_lib.environment.set_up import Target, _clear
from course_lib.environment.step import run_step

ROOT = Path(__file__).resolve().parent.parent

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tests speak to processes as POSIX does"),
    pytest.mark.xdist_group("course_script"),  # each makes environments, which keeps a core busy
]


def under_version(project: Path, version: tuple[int, int, int], *argv: str, path: str):
    """Run the script as if by another Python version."""
    driver = f"import sys, runpy; sys.version_info = {version}; sys.argv = {['course', *argv]!r}; "
    driver += f"runpy.run_path({str(project / 'course')!r}, run_name='__main__')"
    env = {**os.environ, "PATH": path}
    return subprocess.run([sys.executable, "-c", driver], env=env, capture_output=True, text=True, timeout=HANG_LIMIT_S)


def fake_python(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


# --- A life: after a failed start, two at once, the next one, a changed list -------------------------------


@pytest.mark.long
def test_life_of_an_environment(project: Path) -> None:
    # What an earlier set-up left half-made, on top of which nothing may be built.
    left = project / ".venv" / "lib" / "left"
    left.parent.mkdir(parents=True)
    left.touch()
    (project / ".venv" / "course-made").touch()

    # Two starts at once: one sets up, the other waits, and both then do what they were asked.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command(project, "doctor", "--json"), **pipes) for _ in range(2)]
    texts = [child.communicate(timeout=HANG_LIMIT_S) for child in both]
    assert [child.returncode for child in both] == [0, 0], texts
    assert sorted("Making the environment: done" in err for _, err in texts) == [False, True], texts
    assert any("waiting until it is done" in err for _, err in texts)
    assert any("unfinished" in err for _, err in texts)
    assert not left.exists()
    for out, _ in texts:
        told = json.loads(out)
        assert told["prefix"] == str(project / ".venv") == told["virtual_env"]
        assert told["path"] == str(project / ".venv" / "bin")
        assert told["bricks"] == ["brick_a"]
        assert told["argv"] == ["--json"]

    # The next start does nothing but hand over, from any folder, whatever lies in that folder.
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    for name in ("random.py", "dataclasses.py"):
        (elsewhere / name).write_text("raise RuntimeError('a file of the learner was imported')")
    again = start(project, "doctor", "--fail", cwd=elsewhere)
    assert (again.returncode, again.stderr) == (7, "")

    # A changed list brings .venv up to date, and keeps it.
    planted = project / ".venv" / "planted"
    planted.touch()
    with open(project / "requirements.txt", "a") as file:
        file.write(brick(project, "brick_b"))
    changed = start(project, "doctor")
    assert json.loads(changed.stdout)["bricks"] == ["brick_a", "brick_b"]
    assert "bringing .venv up to date" in changed.stderr
    assert planted.exists()

    assert start(project, "doctor").stderr == ""

    (gone,) = (project / ".venv").rglob("brick_a.py")
    gone.unlink()
    mended = start(project, "doctor")
    assert json.loads(mended.stdout)["bricks"] == ["brick_a", "brick_b"]
    assert "unfinished or damaged" in mended.stderr


def test_what_makes_an_environment_unfit(project: Path) -> None:
    script = load_script(project)
    venv = project / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / "pyvenv.cfg").write_text("version = 3.11.7\n")
    assert not script.ready()  # half-made: an interpreter, and no note of an end
    (venv / "course-ready").write_text(script.place() + script.wanted())
    assert script.ready()

    moved = project.rename(project.with_name("moved"))
    assert not load_script(moved).ready()
    moved.rename(project)
    assert script.ready()

    (venv / "pyvenv.cfg").write_text("version = 3.12.0\n")
    assert not script.ready()
    (venv / "pyvenv.cfg").write_text("version = 3.11.7\n")
    for name in ("requirements.txt", "pyproject.toml"):
        text = (project / name).read_text()
        (project / name).write_text(text + "# changed\n")
        assert not script.ready()
        (project / name).write_text(text)
    assert script.ready()

    (venv / "site").mkdir()
    (venv / "course-packages").write_text("site\nbrick_a\nbrick_b.py")
    assert not script.ready()  # a package has gone
    for name in ("brick_a", "brick_b.py", "a_package_of_the_learner_s"):
        (venv / "site" / name).touch()
    assert script.ready()

    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to("/nowhere/python3.11")
    assert not script.ready()


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes in /proc")
def test_stopped_while_pip_works(made_project: Path) -> None:
    pid_file = slow_brick(made_project)
    child = subprocess.Popen(command(made_project, "doctor"), stderr=subprocess.PIPE, text=True)
    wait_until(pid_file.exists, "pip starts the build")
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=HANG_LIMIT_S)
    assert child.returncode == 130
    assert "stopped during the set-up" in err
    assert "Traceback" not in err
    assert not load_script(made_project).ready()
    # The limit is shorter than the build would take if it were left to itself.
    assert all_ended([int(pid_file.read_text())]), "the build ends with the set-up"


def test_told_to_end_while_the_environment_is_made(project: Path) -> None:
    child = subprocess.Popen(command(project, "doctor"), stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("Making the environment"):
            break
    child.terminate()
    _, err = child.communicate(timeout=HANG_LIMIT_S)
    assert child.returncode == 130
    assert "stopped during the set-up" in err
    assert "Traceback" not in err
    assert not load_script(project).ready()


# --- What can go wrong ----------------------------------------------------------------------------


@pytest.mark.long
def test_pip_fails_and_nothing_half_made_is_used(project: Path) -> None:
    (project / ".venv").mkdir()
    (project / ".venv" / "mine.txt").write_text("a file of the learner")
    (project / "requirements.txt").write_text("--no-index\nno-such-brick==9.9\n")
    first = start(project, "doctor")
    assert first.returncode == 1
    assert "No matching distribution found for no-such-brick==9.9" in first.stderr
    assert "No index that was asked has no-such-brick==9.9" in first.stderr
    assert "network" not in first.stderr
    assert "will not be used" in first.stderr
    (aside,) = project.glob(".venv.before-course-*")
    assert (aside / "mine.txt").read_text() == "a file of the learner"
    assert str(aside) in first.stderr

    assert (project / ".venv" / "bin" / "python").exists()
    assert not load_script(project).ready()


def test_what_a_link_leads_to_is_nobodys_to_clear(tmp_path: Path) -> None:
    """A .venv that leads to that of another checkout, which ./course has made, and which its owner works with."""
    other, here = tmp_path / "other" / ".venv", tmp_path / "here" / ".venv"
    for folder in (other, here.parent):
        folder.mkdir(parents=True)
    for name in ("course-made", "course-ready", "a package"):
        (other / name).write_text("of the other checkout")
    here.symlink_to(other)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        _clear(Target(str(here.parent), str(here), sys.executable, str, str, str, bool, bool))
    assert sorted(path.name for path in other.iterdir()) == ["a package", "course-made", "course-ready"]
    assert [path.name for path in here.iterdir()] == ["course-made"]
    assert not here.is_symlink()
    (aside,) = here.parent.glob(".venv.before-course-*")
    assert aside.resolve() == other
    assert f"is a link to {other}, which is left alone; the link is kept as {aside}" in said.getvalue()


def test_last_lines_of_a_step_that_fails(tmp_path: Path) -> None:
    talk = "import sys; [print('line', i) for i in range(50)]; sys.exit(3)"
    with pytest.raises(SetupError) as caught:
        run_step([sys.executable, "-c", talk], "Trying", cwd=str(tmp_path))
    assert "line 49" in str(caught.value)
    assert "line 20" not in str(caught.value)


@pytest.mark.parametrize("words", ["[Errno 28] No space left on device: 'x'", "[Errno 122] Disk quota exceeded"])
def test_pip_meets_a_full_disk(tmp_path: Path, words: str) -> None:
    talk = f"import sys; print({words!r}); sys.exit(1)"
    with pytest.raises(SetupError, match=r"(?s)disk is full.*GB in .*TMPDIR"):
        run_step([sys.executable, "-c", talk], "Installing", cwd=str(tmp_path))


def test_a_step_that_is_killed(tmp_path: Path) -> None:
    talk = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(SetupError, match=r"signal 9; .*out of memory"):
        run_step([sys.executable, "-c", talk], "Installing", cwd=str(tmp_path))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, the file on a disk that is full")
def test_disk_full_before_pip_starts(project: Path) -> None:
    (project / ".venv").mkdir()
    (project / ".venv" / "course-made").symlink_to("/dev/full")
    done = start(project, "doctor")
    assert done.returncode == 1
    assert "The disk is full" in done.stderr
    assert "Traceback" not in done.stderr


def forget_to_be_root() -> None:
    """In the child of a root user, drop the right to write where the permissions forbid it."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def test_folder_that_cannot_be_written(project: Path) -> None:
    options = {"preexec_fn": forget_to_be_root} if os.geteuid() == 0 else {}
    project.chmod(0o555)
    touch = [sys.executable, "-c", f"open({str(project / 'probe')!r}, 'w')"]
    probe = subprocess.run(touch, capture_output=True, check=False, **options)
    if probe.returncode == 0:
        project.chmod(0o755)
        pytest.skip("this user may write anywhere")
    done = start(project, "doctor", **options)
    project.chmod(0o755)
    assert done.returncode == 1
    assert "cannot be written (Permission denied)" in done.stderr
    assert "folder of your own" in done.stderr
    assert "Traceback" not in done.stderr


def test_file_where_the_folder_should_be(project: Path) -> None:
    (project / ".venv").write_text("")
    done = start(project, "doctor")
    assert done.returncode == 1
    assert ".venv is not a folder" in done.stderr


def test_copy_that_is_not_whole(project: Path) -> None:
    (project / "requirements.txt").unlink()
    done = start(project, "doctor")
    assert done.returncode == 1
    assert "requirements.txt is missing" in done.stderr


@pytest.mark.parametrize(("name", "sign"), [("a {course}", "{ and }"), ("of $me", "$"), ("a:course", ":")])
def test_a_folder_that_no_tool_can_install_in(project: Path, name: str, sign: str) -> None:
    there = project.with_name(name)
    project.rename(there)
    done = start(there, "doctor")
    assert done.returncode == 1
    assert f"{there} has {sign} in its path" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (there / ".venv").exists()


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_python_without_its_venv_module(project: Path, tmp_path: Path, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.machinery as m\n"
        "find = m.PathFinder.find_spec\n"
        "m.PathFinder.find_spec = classmethod(\n"
        f"    lambda cls, name, *rest: None if name == {module!r} else find(name, *rest))\n"
    )
    done = start(project, "doctor", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert f"comes without its module {module}" in done.stderr
    assert f"apt install python{sys.version_info.major}.{sys.version_info.minor}-venv" in done.stderr
    assert not (project / ".venv").exists()


# --- Python too old -------------------------------------------------------------------------------


def test_script_can_be_read_by_python_3_6() -> None:
    ast.parse((ROOT / "course").read_text(), feature_version=(3, 6))


def test_too_old_and_no_newer_one(project: Path) -> None:
    done = under_version(project, (3, 8, 10), "doctor", path="")
    assert done.returncode == 1
    for words in (
        "Python 3.8.10",
        "Python 3.11 or newer",
        "python3.12",
        "python.org",
        "apt install",
        "conda",
    ):
        assert words in done.stderr
    assert not (project / ".venv").exists()


def test_too_old_and_a_newer_one_takes_over(project: Path, tmp_path: Path) -> None:
    # python3.12 is a version manager's shim with nothing behind it; python3.11 answers the probe.
    fake_python(tmp_path / "bin", "python3.12", "echo 'not installed' >&2; exit 127")
    fake_python(tmp_path / "bin", "python3.11", 'if [ "$1" = -c ]; then exit 0; fi; echo "took over: $1 $2 $3"')
    done = under_version(project, (3, 8, 10), "doctor", "--json", path=str(tmp_path / "bin"))
    assert done.returncode == 0
    assert done.stdout == f"took over: {project / 'course'} doctor --json\n"
    assert "too old" in done.stderr


def test_too_new_and_a_tried_one_takes_over(project: Path, tmp_path: Path) -> None:
    fake_python(tmp_path / "bin", "python3.14", 'if [ "$1" = -c ]; then exit 0; fi; echo "took over: $1 $2 $3"')
    done = under_version(project, (3, 15, 0), "doctor", "--json", path=str(tmp_path / "bin"))
    assert done.stdout == f"took over: {project / 'course'} doctor --json\n"
    assert "Python 3.15.0" in done.stderr
    assert "too new" in done.stderr


def test_too_new_and_no_other_is_said_and_tried(project: Path) -> None:
    (project / "requirements.txt").unlink()
    done = under_version(project, (3, 15, 0), "doctor", path="")
    assert "newer than the course's packages, which are built for Python 3.11 to 3.14" in done.stderr
    assert "requirements.txt is missing" in done.stderr


@pytest.mark.parametrize(
    ("version", "fits"),
    [((3, 10, 9), False), ((3, 11, 0), True), ((3, 14, 7), True), ((3, 15, 0), False)],
)
def test_what_the_probe_of_a_python_asks(project: Path, tmp_path: Path, version, fits: bool) -> None:
    """A real Python that takes itself for another version answers the script's question about it."""
    driver = f"import sys; sys.version_info = {version}; sys.argv = ['-c']; exec(PROBE)"
    fake_python(
        tmp_path / "bin",
        "python3.13",
        f"""PROBE="$2" exec {sys.executable} -c "import os; PROBE = os.environ['PROBE']; {driver}" """,
    )
    script = load_script(project)
    before = os.environ["PATH"]
    os.environ["PATH"] = str(tmp_path / "bin")
    try:
        assert (script.fitting_python() is not None) is fits
    finally:
        os.environ["PATH"] = before


def old_pythons() -> list[str]:
    names = [f"python3.{minor}" for minor in range(6, 11)]
    found = [path for name in names if (path := shutil.which(name)) is not None]
    found += [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.[6-9].*/bin/python"))]
    return [path for path in found if subprocess.run([path, "-V"], capture_output=True).returncode == 0]


def test_real_old_pythons(project: Path) -> None:
    pythons = old_pythons()
    if not pythons:
        pytest.skip("no Python older than 3.11 is installed here")
    for python in pythons:
        done = subprocess.run(
            [python, str(project / "course"), "doctor"],
            env={**os.environ, "PATH": ""},
            capture_output=True,
            text=True,
            timeout=HANG_LIMIT_S,
        )
        assert done.returncode == 1, python
        assert "too old" in done.stderr
        assert "Traceback" not in done.stderr
        assert "SyntaxError" not in done.stderr


# --- What needs no set-up -------------------------------------------------------------------------


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(("argv", "code"), [(["--help"], 0), ([], 0), (["--version"], 0), (["docter"], 2)])
def test_help_and_a_mistyped_verb_install_nothing(project: Path, argv: list[str], code: int) -> None:
    done = start(project, *argv)
    assert done.returncode == code
    assert not (project / ".venv").exists()
    if code == 2:
        assert "Did you mean `course doctor`?" in done.stderr


def test_script_is_executable() -> None:
    assert (ROOT / "course").stat().st_mode & stat.S_IXUSR
    assert (ROOT / "course").read_text().startswith("#!/usr/bin/env python3\n")
