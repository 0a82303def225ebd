"""uv installs where it can, and pip where it cannot: the real script, with programs that stand in for uv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_projects import brick, command, load_script, slow_brick, start
from waiting import is_running, wait_until

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="programs that stand in are scripts"),
    pytest.mark.xdist_group("course_script"),
]

# Stands in for uv: notes how it was called, then has pip do it, or fails as it is told.
UV = """#!{python}
import json, os, subprocess, sys
if sys.argv[1:] == ["--version"]:
    print("uv 9.9.9")
    sys.exit({version_code})
with open({log!r}, "a") as log:
    log.write(json.dumps([sys.argv[1:], dict(os.environ)]) + "\\n")
if {failure!r}:
    print({failure!r})
    sys.exit(2)
words = sys.argv[1:]
python = words[words.index("--python") + 1]
rest = words[words.index("--python") + 2:]
sys.exit(subprocess.call([python, "-m", "pip", "install", *rest]))
"""


def stand_in(project: Path, monkeypatch: pytest.MonkeyPatch, *, failure: str = "", version_code: int = 0) -> Path:
    """Put a program named uv on the PATH; the file in which it notes its calls."""
    folder = project.parent / "programs"
    folder.mkdir()
    log = project.parent / "calls"
    text = UV.format(python=sys.executable, log=str(log), failure=failure, version_code=version_code)
    (folder / "uv").write_text(text)
    (folder / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return log


def calls(log: Path) -> list[tuple[list[str], dict[str, str]]]:
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.long
def test_uv_on_the_path_does_the_work_with_pip_s_settings(made_project: Path, monkeypatch) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://extra.invalid/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    monkeypatch.setenv("UV_SYSTEM_PYTHON", "1")  # would install elsewhere
    log = stand_in(made_project, monkeypatch)
    done = start(made_project, "doctor")
    assert json.loads(done.stdout)["bricks"] == ["brick_a"], done.stderr
    assert "with pip" not in done.stderr
    assert "Fetching uv" not in done.stderr
    (packages, env), (course, _) = calls(log)
    assert packages[:4] == ["pip", "install", "--python", str(made_project / ".venv" / "bin" / "python")]
    assert packages[4:] == ["--no-index", "-r", "requirements.txt"]
    assert course[5:] == ["--no-deps", "--no-build-isolation", "-e", str(made_project)]
    assert env["UV_INDEX"] == "https://extra.invalid/simple"
    assert env["UV_FIND_LINKS"] == "/wheels"
    assert "UV_SYSTEM_PYTHON" not in env
    assert load_script(made_project).ready()


@pytest.mark.long
def test_pip_does_it_where_uv_fails(made_project: Path, monkeypatch) -> None:
    log = stand_in(made_project, monkeypatch, failure="error: uv does not like this index")
    done = start(made_project, "doctor")
    assert json.loads(done.stdout)["bricks"] == ["brick_a"], done.stderr
    assert "uv does not like this index" in done.stderr
    assert "once more with pip" in done.stderr
    assert "Installing the packages with pip: done" in done.stderr
    assert len(calls(log)) == 1


@pytest.mark.long
def test_pip_does_not_try_what_it_cannot_do_either(made_project: Path, monkeypatch) -> None:
    reason = "Because the current Python version (3.11.2) does not satisfy Python>=3.99 and brick-a==1.0 depends on"
    stand_in(made_project, monkeypatch, failure=reason)
    done = start(made_project, "doctor")
    assert done.returncode == 1
    assert "brick-a 1.0 needs Python >=3.99" in done.stderr
    assert "with pip" not in done.stderr
    assert not load_script(made_project).ready()


@pytest.mark.long
def test_a_uv_that_does_not_answer_is_none(made_project: Path, monkeypatch) -> None:
    # A version manager's shim with nothing behind it.
    log = stand_in(made_project, monkeypatch, version_code=127)
    done = start(made_project, "doctor")
    assert json.loads(done.stdout)["bricks"] == ["brick_a"], done.stderr
    assert "uv cannot be had here: No index that was asked has uv" in done.stderr
    assert calls(log) == []


@pytest.mark.long
def test_pip_does_what_uv_cannot_be_told(made_project: Path, monkeypatch) -> None:
    monkeypatch.setenv("PIP_NO_DEPS", "1")
    log = stand_in(made_project, monkeypatch)
    done = start(made_project, "doctor")
    assert json.loads(done.stdout)["bricks"] == ["brick_a"], done.stderr
    assert "cannot be told pip's setting no-deps" in done.stderr
    assert calls(log) == []


def real_uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv", path=os.defpath)


@pytest.mark.long
def test_real_uv_from_files(made_project: Path, monkeypatch, tmp_path: Path) -> None:
    uv = real_uv()
    if uv is None:
        pytest.skip("uv is not installed here")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "uv").symlink_to(uv)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    done = start(made_project, "doctor")
    assert json.loads(done.stdout)["bricks"] == ["brick_a"], done.stderr
    assert "with pip" not in done.stderr
    with open(made_project / "requirements.txt", "a") as file:
        file.write(brick(made_project, "brick_b"))
    assert json.loads(start(made_project, "doctor").stdout)["bricks"] == ["brick_a", "brick_b"]
    with open(made_project / "requirements.txt", "a") as file:
        file.write("no-such-brick==9.9\n")
    failed = start(made_project, "doctor")
    assert failed.returncode == 1
    assert "No index that was asked has no-such-brick" in failed.stderr


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes in /proc")
def test_killed_outright_while_pip_works(project: Path) -> None:
    """Nothing can be cleaned up then; the next start keeps off .venv until the orphan has ended."""
    pid_file = slow_brick(project)
    killed = subprocess.Popen(command(project, "doctor"), stderr=subprocess.DEVNULL)
    wait_until(pid_file.exists, "pip starts the build")
    killed.kill()
    killed.wait()
    build = int(pid_file.read_text())
    step = int((project / ".venv.lock").read_text())
    assert is_running(step)
    second = subprocess.Popen(command(project, "doctor"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert second.stderr is not None
    first_line = second.stderr.readline()
    try:
        assert f"its process {step} is at work" in first_line
        assert is_running(step)
    finally:
        os.kill(build, 9)
    out, err = second.communicate(timeout=200)
    assert second.returncode == 0, err
    assert "making it again" in err
    assert json.loads(out)["prefix"] == str(project / ".venv")
