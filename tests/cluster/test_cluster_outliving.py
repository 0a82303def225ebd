"""What a function starts or makes, and what would outlive its ranks: it ends with them, or before, and is told."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import psutil
import pytest
from waiting import wait_until

from course_lib.cluster import Cluster, RankFailed
from course_lib.cluster.process import descendants

pytestmark = [
    pytest.mark.limit_s(120.0),
    pytest.mark.skipif(sys.platform != "linux", reason="orphans come back to their rank on Linux alone"),
]

SLEEP = ["sleep", "1000"]


@pytest.fixture
def ranks():
    with Cluster(2, timeout_s=20) as cluster:
        yield cluster


def in_a_session(me):
    return subprocess.Popen(SLEEP, start_new_session=True, stdout=subprocess.DEVNULL).pid


def by_two_forks(me):
    """As a daemon begins: its parent has gone, and its session is its own."""
    tell, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(told, str(os.getpid()).encode())
            os.execvp(SLEEP[0], SLEEP)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(told)
    with os.fdopen(tell) as pipe:
        return int(pipe.read())  # to its end, which is where sleep has taken the process over


def have_ended(pids) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)


WAYS = pytest.mark.parametrize("start", [in_a_session, by_two_forks])


@WAYS
def test_a_process_in_a_session_of_its_own_is_ended_after_the_call_and_told(ranks, start):
    run = ranks.call(start, show=False)
    line = "left a process in a session of its own (sleep 1000), which was ended"
    assert run.leaks == (f"ranks 0, 1 {line}",)
    wait_until(lambda: have_ended(run), "it has ended")
    assert list(ranks.run(lambda me: me.rank)) == [0, 1]


def test_a_command_whose_arguments_are_not_there_yet_is_looked_at_again():
    class Beginning:
        looks = 0

        def cmdline(self):
            self.looks += 1
            return SLEEP if self.looks > 2 else []

        def name(self):
            return SLEEP[0]

    assert descendants._words_of(Beginning()) == "sleep 1000"
    nobody = Beginning()
    nobody.cmdline = list
    assert descendants._words_of(nobody) == "sleep", "a thread of the kernel has none"


@WAYS
@pytest.mark.parametrize("ends", ["close", "drop"])
def test_of_a_cell_it_ends_with_the_ranks(start, ends):
    cluster = Cluster(2, timeout_s=20)
    cluster.push(start=start)
    started = [int(text) for text in cluster.cell("start(me)", show=False)]
    assert not have_ended(started[:1])
    cluster.close() if ends == "close" else cluster._lifecycle.drop()
    wait_until(lambda: have_ended(started), "they have ended")
    cluster.close()


@WAYS
def test_of_a_rank_that_died_it_ends_too_and_other_ranks_stay(ranks, start, tmp_path):
    def die(me):
        (tmp_path / str(me.rank)).write_text(str(start(me)))
        os._exit(3)

    with Cluster(1) as other:
        before = list(other.run(lambda me: os.getpid()))
        with pytest.raises(RankFailed, match="exit code 3"):
            ranks.run(die)
        started = [int(path.read_text()) for path in tmp_path.iterdir() if path.read_text()]
        assert started
        wait_until(lambda: have_ended(started), "they have ended")
        assert list(other.run(lambda me: os.getpid())) == before


@pytest.mark.first_cases(1)
@WAYS
def test_it_ends_where_the_notebook_is_killed(start):
    body = f"""
import sys, time; sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]}
from course_lib import Cluster
from test_cluster_outliving import {start.__name__} as start
cluster = Cluster(2)
cluster.push(start=start)
print(*cluster.cell("start(me)", show=False), flush=True)
time.sleep(100)
"""
    with subprocess.Popen([sys.executable, "-c", body], stdout=subprocess.PIPE, text=True) as notebook:
        started = [int(word) for word in notebook.stdout.readline().split()]
        notebook.kill()
    assert len(started) == 2
    wait_until(lambda: have_ended(started), "they have ended")


def makes_memory(me):
    memory = SharedMemory(create=True, size=1000)
    memory.close()
    return memory.name


def test_shared_memory_is_removed_after_the_call_and_told(ranks):
    run = ranks.call(makes_memory, show=False)
    said = "left shared memory in /dev/shm ({}, 1,000 bytes), which was removed"
    assert set(run.leaks) == {f"rank {rank} {said.format(name)}" for rank, name in enumerate(run)}
    assert not any(Path("/dev/shm", name).exists() for name in run)


def test_shared_memory_that_a_function_removes_is_not_told(ranks):
    def makes_and_removes(me):
        memory = SharedMemory(create=True, size=1000)
        memory.close()
        memory.unlink()

    assert ranks.run(makes_and_removes).leaks == ()


def test_shared_memory_of_cells_and_of_ranks_that_died_is_removed_with_them(ranks):
    ranks.push(makes_memory=makes_memory)
    names = [text.strip("'") for text in ranks.cell("makes_memory(me)", show=False)]
    assert all(Path("/dev/shm", name).exists() for name in names)
    with pytest.raises(RankFailed):
        ranks.cell("import os; os._exit(3)")
    assert not any(Path("/dev/shm", name).exists() for name in names)
