"""The folders of ranks: private, removed with their ranks, and by the next notebook where theirs was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from course_lib.cluster.base import temp_dirs

pytestmark = pytest.mark.limit_s(120.0)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(temp_dirs.tempfile, "tempdir", str(tmp_path))
    temp_dirs._sweep.cache_clear()
    yield tmp_path
    temp_dirs._sweep.cache_clear()


def make_old(folder) -> None:
    os.utime(folder, (time.time() - 3600,) * 2)


@pytest.mark.long
def test_what_a_killed_notebook_has_left_is_removed_by_the_next(tmp_path, temporary):
    body = """
        import time
        from multiprocessing import forkserver
        from course_lib import Cluster
        cluster = Cluster(2)
        cluster.run(lambda me: None)
        print(cluster._team.folder, forkserver._forkserver._forkserver_address, flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(body)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as notebook:
        left, socket = (Path(word) for word in notebook.stdout.readline().split())
        assert {left.parent, socket.parent.parent} == {tmp_path}
        temp_dirs.remove(temp_dirs.make())
        assert left.exists(), "its owner lives"
        assert socket.exists(), "its owner lives"
        notebook.kill()
        notebook.wait(10)
    temp_dirs._sweep.cache_clear()
    assert left.exists()
    assert socket.exists()
    temp_dirs.remove(temp_dirs.make())
    assert not left.exists()
    assert not socket.parent.exists()


@pytest.mark.parametrize("is_it", [True, False])
def test_a_fork_server_that_still_listens_is_ended_and_no_other_process_by_its_number(temporary, is_it):
    folder = temporary / "pymp-left"
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server:
        began_s = psutil.Process(server.pid).create_time() - (0 if is_it else 1000)
        (folder / "owner").write_text(json.dumps([server.pid, began_s]))
        temp_dirs.remove(temp_dirs.make())
        assert not folder.exists()
        if not is_it:
            assert server.poll() is None
            server.kill()
        assert server.wait(60) == -signal.SIGKILL


def test_nothing_else_is_removed(temporary):
    young, foreign, elsewhere = (temporary / name for name in (".ranks-young", "ranks-foreign", "pymp-link"))
    young.mkdir()  # about to be locked
    (young / "owner").touch()
    foreign.mkdir()  # somebody else's folder that is called so: it has no lock
    (foreign / "data").touch()
    target = temporary / "target"
    target.mkdir()
    (target / "owner").touch()
    elsewhere.symlink_to(target)
    temp_dirs.remove(temp_dirs.make())
    assert all(path.exists() for path in (young, foreign / "data", elsewhere, target / "owner"))
    make_old(young)  # whoever made it was killed before it had its lock
    temp_dirs._sweep.cache_clear()
    temp_dirs.remove(temp_dirs.make())
    assert not young.exists()


def test_a_folder_is_private_and_goes_with_its_lock(temporary):
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    folder = temp_dirs.make()
    assert folder.stat().st_mode & 0o077 == 0
    temp_dirs.remove(folder)
    temp_dirs.remove(folder)
    assert not folder.exists()
    if before:
        assert len(os.listdir("/proc/self/fd")) == before
