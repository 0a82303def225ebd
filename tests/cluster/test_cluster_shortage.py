"""Where the system has no more to give: what is short, where, and what to do; the next call works."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch

from course_lib.cluster import Cluster, RankFailed
from course_lib.cluster.base import os_errors
from course_lib.cluster.base.os_errors import explained
from course_lib.cluster.process import serialization

pytestmark = pytest.mark.limit_s(120.0)


def can_unshare() -> bool:
    """Whether this process may mount something that it alone sees."""
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
    return subprocess.run(command, capture_output=True).returncode == 0


def fail_with(number: int):
    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return fail


def test_a_full_disk_names_the_folder_and_the_remedy(cluster2, monkeypatch):
    cluster2.run(lambda me: None)
    with monkeypatch.context() as patch:
        patch.setattr(serialization, "open", fail_with(errno.ENOSPC), raising=False)
        with pytest.raises(OSError, match="No space left on device") as caught:
            cluster2.run(lambda me, x: None, torch.zeros(100_000))
    folder = cluster2._team.folder
    assert f"{folder} is full. Free some space there, or set TMPDIR to a folder with room" in str(caught.value)
    assert caught.value.errno == errno.ENOSPC
    assert list(cluster2.run(lambda me: me.rank)) == [0, 1]


def test_a_full_disk_at_a_rank_is_told_in_the_same_words():
    class FillsTheDisk:
        """As it is packed: what a function itself puts in place of others is put back before that."""

        def __reduce__(self):
            from course_lib.cluster.process import serialization

            def fail(*args, **kwargs):
                raise OSError(28, "No space left on device")

            serialization.open = fail
            return int, ()

    def large(me):
        return torch.zeros(100_000), FillsTheDisk()

    with Cluster(2, timeout_s=20) as cluster:
        with pytest.raises(RankFailed, match=r"ranks-\w+ is full. Free some space there, or set TMPDIR"):
            cluster.run(large)
        assert list(cluster.run(lambda me: me.rank)) == [0, 1]


def test_too_many_open_files_says_how_many_there_may_be():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    with (
        pytest.raises(OSError, match=f"this process may have {limit} at a time. Close clusters") as caught,
        explained(),
    ):
        fail_with(errno.EMFILE)()
    assert "ulimit -n" in str(caught.value)


@pytest.mark.long
def test_a_cluster_that_finds_no_descriptor_says_so_and_works_when_there_are_some():
    body = """
        import os, resource
        from course_lib import Cluster
        cluster = Cluster(2)
        cluster.run(lambda me: None)
        cluster.close()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            os.close(held.pop())
        cluster = Cluster(2)
        try:
            cluster.run(lambda me: None)
        except OSError as error:
            print(error)
        for descriptor in held:
            os.close(descriptor)
        print(list(cluster.run(lambda me: me.rank)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(body)], capture_output=True, text=True, timeout=100)
    first, second = done.stdout.splitlines()
    assert "Too many open files: this process may have 64 at a time." in first, done.stderr
    assert second == "[0, 1]"


def test_a_temporary_folder_that_has_gone_is_named(tmp_path):
    body = """
        import os, tempfile
        from course_lib import Cluster
        gone = tempfile.gettempdir()
        cluster = Cluster(2)
        os.rename(gone, gone + "-away")
        try:
            cluster.run(lambda me: None)
        except OSError as error:
            print(error)
        os.rename(gone + "-away", gone)
        print(list(cluster.run(lambda me: me.rank)))
    """
    folder = tmp_path / "temporary"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    first, second = done.stdout.splitlines()
    assert f"the temporary folder {folder} has gone. Make it again, or set TMPDIR" in first, done.stderr
    assert second == "[0, 1]"


def test_other_errors_of_the_system_are_left_as_they_are():
    with pytest.raises(PermissionError, match="not for you"), explained():
        raise PermissionError(errno.EACCES, "not for you")


def test_too_few_processes_are_told_before_anything_starts(monkeypatch):
    cluster = Cluster(2, timeout_s=20)
    with monkeypatch.context() as patch:
        patch.setattr(os_errors, "_most_processes", lambda: 12)
        patch.setattr(os_errors, "_processes_left", lambda *, enough: 3 if enough > 3 else None)
        with pytest.raises(OSError, match=r"2 ranks and what starts them take \d+ processes and threads, and 3 more"):
            cluster.run(lambda me: None)
    assert list(cluster.run(lambda me: me.rank)) == [0, 1]
    cluster.close()


def test_a_process_that_the_system_refuses_is_told_with_the_limit(monkeypatch):
    monkeypatch.setattr(os_errors, "_most_processes", lambda: 12)
    with pytest.raises(OSError, match="this user may have 12 processes"), explained():
        fail_with(errno.EAGAIN)()


def test_processes_and_threads_of_this_user_are_counted(monkeypatch):
    monkeypatch.setattr(os_errors, "_most_processes", lambda: None)
    assert os_errors._processes_left(enough=10**9) is None
    assert os_errors.processes_in_words() == ""
    monkeypatch.setattr(os_errors, "_most_processes", lambda: 1)
    assert os_errors._processes_left(enough=1) < 1  # this one is there
    assert os_errors._processes_left(enough=-(10**9)) is None


# Within a mount namespace of its own, so that nobody else's /dev/shm is full.
FULL = """
mount -t tmpfs -o size=64k tmpfs /dev/shm || exit 77
head -c 100000 /dev/zero > /dev/shm/full 2> /dev/null
exec "$0" -c "$1"
"""
CALLS = """
import torch
import torch.distributed as dist
from course_lib.cluster import Cluster, RankFailed

def summed(me):
    x = torch.ones(1000)
    dist.all_reduce(x)
    return x.sum().item(), torch.ones(2_000_000)

def by_a_worker(me):
    return len(list(torch.utils.data.DataLoader(range(4), num_workers=1)))

if __name__ == "__main__":
    with Cluster(2) as cluster:
        print([(total, len(large)) for total, large in cluster.call(summed, show=False)])
        try:
            cluster.call(by_a_worker, show=False)
        except RankFailed as error:
            print(str(error).splitlines()[0])
        print([total for total, _ in cluster.call(summed, show=False)])
"""


@pytest.mark.long
def test_a_full_dev_shm_stops_no_cluster(tmp_path):
    if not can_unshare():
        pytest.skip("needs a mount namespace, which root can make")
    script = tmp_path / "calls.py"
    script.write_text(CALLS)
    run = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    done = subprocess.run(["unshare", "-m", "bash", "-c", FULL, sys.executable, run], capture_output=True, text=True)
    first, failed, again = done.stdout.splitlines()
    assert (first, again) == ("[(2000.0, 2000000), (2000.0, 2000000)]", "[2000.0, 2000.0]"), done.stderr
    assert failed.endswith("OSError: [Errno 28] No space left on device")
