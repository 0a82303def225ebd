"""`course lab --share` under any umask: what others cannot read is told, and what they could change; locks are ours."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_lessons import small_course

from course_lib.environment.lock import alone
from course_lib.lab import share

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="rights of POSIX")


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "venv").mkdir()
    monkeypatch.setattr(share.sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(share, "_mode", lambda path: _below(path, tmp_path))
    return tmp_path / "course"


def _below(path: Path, base: Path) -> int:
    """The rights of a path; those of the folders above the test's own are as in /opt."""
    return path.stat().st_mode if path.is_relative_to(base) and path != base else 0o755


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize(
    ("mask", "told"),
    [(0o077, "Not everybody can read"), (0o000, "Everybody can change"), (0o022, ""), (0o002, "")],
)
def test_what_a_umask_left_open_or_closed_is_told(course: Path, capsys, mask: int, told: str) -> None:
    os.umask(mask)
    small_course(course)
    (course / "course_lib").mkdir()
    (Path(share.sys.prefix) / "site.py").write_text("")
    uv_s = Path(share.sys.prefix) / ".lock"
    uv_s.touch()
    uv_s.chmod(0o666)
    assert share.share(course) == (1 if told else 0)
    said = capsys.readouterr().out
    assert told in said
    if told:
        subprocess.run(["chmod", "-R", "a+rX,o-w", str(course), share.sys.prefix], check=True)
        assert share.share(course) == 0


def test_a_folder_above_that_everybody_can_change_is_told(course: Path, monkeypatch) -> None:
    small_course(course)
    for mode, count in ((0o777, 2), (0o1777, 0)):
        monkeypatch.setattr(share, "_mode", lambda path, mode=mode: mode if path == course.parent else 0o755)
        assert len(share.open_to_others(course)) == count


def test_a_link_is_open_to_nobody(course: Path) -> None:
    small_course(course)
    (course / "link").symlink_to("/dev/null")
    assert share.open_to_others(course) == []


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_nobody_else_can_open_the_lock_of_the_set_up(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "lock"
    path.write_text("")
    path.chmod(0o666)  # as an older course may have left it
    os.umask(mask)
    for place in (path, tmp_path / "new"):
        with alone(place):
            assert stat.S_IMODE(place.stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="becomes another user")
def test_another_user_cannot_hold_it() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folder is closed to others
        os.chmod(name, 0o755)
        with alone(Path(name, "lock")):
            pass
        code = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)"
        command = ["/usr/bin/env", "python3", "-c", code, f"{name}/lock"]
        plain = {"PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, user=65534, env=plain, cwd="/", capture_output=True, text=True)
    if done.returncode == 127:
        pytest.skip("no Python that another user can start")
    assert "PermissionError" in done.stderr
