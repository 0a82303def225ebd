"""The folders of ranks: private, removed with their ranks, and by the next notebook where theirs was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest

from course_lib.cluster import folders

pytestmark = pytest.mark.limit_s(120.0)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    folders._sweep.cache_clear()
    yield tmp_path
    folders._sweep.cache_clear()


def make_old(folder) -> None:
    os.utime(folder, (time.time() - 3600,) * 2)


def test_what_a_killed_notebook_has_left_is_removed_by_the_next(tmp_path, temporary):
    body = """
        import time
        from course_lib import Cluster
        cluster = Cluster(2)
        cluster.run(lambda me: None)
        print(cluster._team.folder, flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(body)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as notebook:
        left = tmp_path / notebook.stdout.readline().strip()
        make_old(left)
        folders.remove(folders.make())
        assert left.exists(), "its owner lives"
        notebook.kill()
        notebook.wait(10)
    folders._sweep.cache_clear()
    assert left.exists()
    make_old(left)
    folders.remove(folders.make())
    assert not left.exists()


def test_nothing_else_is_removed(temporary):
    young, foreign, elsewhere = (temporary / f"ranks-{name}" for name in ("young", "foreign", "link"))
    young.mkdir()
    (young / "owner").touch()
    foreign.mkdir()  # somebody else's folder that is called so: it has no lock
    (foreign / "data").touch()
    make_old(foreign)
    target = temporary / "target"
    target.mkdir()
    (target / "owner").touch()
    make_old(target)
    elsewhere.symlink_to(target)
    folders.remove(folders.make())
    assert all(path.exists() for path in (young, foreign / "data", elsewhere, target / "owner"))


def test_a_folder_is_private_and_goes_with_its_lock(temporary):
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    folder = folders.make()
    assert folder.stat().st_mode & 0o077 == 0
    folders.remove(folder)
    folders.remove(folder)
    assert not folder.exists()
    if before:
        assert len(os.listdir("/proc/self/fd")) == before
