"""Limits that grow with how slow the machine is: what counts, what does not, and what is said of it."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from course_lib.cluster import Cluster, RankTimeout
from course_lib.cluster.base.failure import Frame
from course_lib.cluster.failures.cpu_deadline import CpuDeadline, UncountedTime, read_threads
from course_lib.cluster.failures.rank_status import RankStatus
from course_lib.cluster.failures.report import stuck_story

A, B = (1, 1), (2, 2)  # a thread of one rank, and one of another


class Machine:
    """A clock and threads that do as a test says."""

    def __init__(self, *threads: tuple[int, int]) -> None:
        self.now_s, self.threads = 100.0, dict.fromkeys(threads, (5.0, 7.0))

    def pass_time(self, seconds: float, **took: tuple[float, float]) -> None:
        """``a=(ran_s, queued_s)`` for the first thread, ``b=`` for the second."""
        self.now_s += seconds
        for thread, (ran, in_line) in ((A if name == "a" else B, took[name]) for name in took):
            before = self.threads.get(thread, (0.0, 0.0))
            self.threads[thread] = before[0] + ran, before[1] + in_line

    def deadline(self, limit_s: float) -> CpuDeadline:
        deadline = CpuDeadline(limit_s, lambda: [1, 2], read=lambda pids: dict(self.threads), clock=lambda: self.now_s)
        deadline.mark()
        return deadline


def test_threads_that_run_sleep_or_wait_for_a_peer_use_up_their_time():
    machine = Machine(A, B)
    deadline = machine.deadline(2.0)
    machine.pass_time(1.0, a=(1.0, 0.0), b=(0.0, 0.0))
    deadline.tick()
    assert deadline.counted_s == pytest.approx(1.0)
    assert deadline.left_s == pytest.approx(1.0)
    assert not deadline.is_over()
    machine.pass_time(1.0)
    assert deadline.is_over()
    assert deadline.uncounted.in_words() == ""


def test_a_thread_that_stands_in_line_has_its_time_all_the_same():
    machine = Machine(A, B)
    deadline = machine.deadline(1.0)
    machine.pass_time(1.0, a=(0.25, 0.75), b=(0.0, 0.0))
    assert not deadline.is_over(), "asked before the end is said"
    assert deadline.left_s == pytest.approx(0.75)
    machine.pass_time(1.0, a=(0.75, 0.25))
    assert deadline.is_over()
    assert deadline.uncounted == UncountedTime(2.0, 1.0, 0.0)
    assert deadline.uncounted.in_words() == "2.0 s on the clock: the ranks stood in line for a core for 1.0 s"


def test_loops_side_by_side_are_given_what_one_of_them_waited_and_not_the_sum():
    machine = Machine(A, B)
    deadline = machine.deadline(9.0)
    machine.pass_time(1.0, a=(0.6, 0.4), b=(0.5, 0.5))
    deadline.tick()
    assert deadline.counted_s == pytest.approx(0.5)


def test_ranks_that_wait_in_turn_are_given_what_all_of_them_waited():
    machine = Machine(A, B)
    deadline = machine.deadline(9.0)
    machine.pass_time(1.0, a=(0.1, 0.4), b=(0.1, 0.3))  # while one stands in line, the other waits for it
    deadline.tick()
    assert deadline.counted_s == pytest.approx(0.3)


def test_two_loops_on_a_machine_full_of_others_still_meet_their_limit():
    machine = Machine(A, B)
    deadline = machine.deadline(1.0)
    for _ in range(8):
        machine.pass_time(1.0, a=(0.25, 0.75), b=(0.25, 0.75))
        if deadline.is_over():
            break
    assert deadline.uncounted.clock_s == pytest.approx(4.0), "a quarter of each second is theirs"


def test_nobody_gets_more_than_ten_times_the_limit():
    machine = Machine(A)
    deadline = machine.deadline(1.0)
    machine.pass_time(9.5, a=(0.0, 9.5))
    assert not deadline.is_over()
    assert deadline.left_s == pytest.approx(0.5)
    machine.pass_time(0.5, a=(0.0, 0.5))
    assert deadline.is_over()


def test_a_thread_begun_in_between_counts_from_its_beginning():
    machine = Machine(A)
    deadline = machine.deadline(9.0)
    machine.pass_time(1.0, b=(0.2, 0.8))
    deadline.tick()
    assert deadline.counted_s == pytest.approx(0.2)


def test_an_import_that_is_under_way_does_not_count():
    machine = Machine(A)
    deadline = machine.deadline(1.0)
    machine.pass_time(3.0, a=(2.0, 0.5))
    deadline.tick(importing=True)
    assert deadline.counted_s == pytest.approx(0.0)
    assert deadline.uncounted.in_words() == "3.0 s on the clock: they were importing for 3.0 s"


def test_a_system_that_says_nothing_leaves_the_clock():
    now_s = itertools.count(0.0, 0.6)
    deadline = CpuDeadline(1.0, lambda: [1], read=lambda pids: {}, clock=lambda: next(now_s))
    deadline.mark()
    assert deadline.is_over()
    assert read_threads([2**22 + 1]) == {}, "no process has this number"


def test_a_story_says_what_was_not_counted():
    statuses = {0: RankStatus(0, None, (), 0)}
    story = stuck_story(statuses, 1, timeout_s=1.0, uncounted=UncountedTime(2.6, 1.6, 0.0))
    head = "Rank 0 of 1 had not finished after timeout_s = 1 s "
    assert story.splitlines()[0] == head + "(2.6 s on the clock: the ranks stood in line for a core for 1.6 s)."
    story = stuck_story(statuses, 1, timeout_s=1.0, uncounted=UncountedTime(1.01, 0.01, 0.0))
    assert "on the clock" not in story, "nothing to speak of"


def test_an_import_is_seen_on_the_stack():
    frames = (Frame("cell", 1, "<module>"), Frame("<frozen importlib._bootstrap>", 9, "_load"))
    assert RankStatus(0, None, frames).is_importing
    assert not RankStatus(0, None, frames[:1]).is_importing


needs_schedstat = pytest.mark.skipif(
    not os.path.exists("/proc/self/schedstat"), reason="this system does not say how long a thread waited"
)


@pytest.fixture
def crowd() -> Iterator[int]:
    """A core with four busy processes of strangers on it."""
    core = min(os.sched_getaffinity(0))
    loop = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    strangers = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(4)]
    yield core
    for stranger in strangers:
        stranger.kill()
        stranger.wait()


@pytest.mark.long
@needs_schedstat
def test_on_a_crowded_core_work_within_the_limit_is_let_finish_and_a_loop_is_not(crowd):
    def works(me, own_s):
        os.sched_setaffinity(0, [crowd])
        began_s = time.thread_time()
        while time.thread_time() < began_s + own_s:
            pass
        return "done"

    with Cluster(1, backend="gloo", timeout_s=1.0) as cluster:
        assert cluster.run(works, 0.25)[0] == "done", "over a second on the clock"
        with pytest.raises(RankTimeout) as caught:
            cluster.run(works, 1e9)
        assert re.search(
            r"had not finished after timeout_s = 1 s \(\d+\.\d s on the clock: the ranks stood in line for a core "
            r"for \d+\.\d s\)\.",
            str(caught.value),
        )


def test_a_long_import_on_a_rank_is_not_the_learners_time(tmp_path):
    (tmp_path / "slow_to_load.py").write_text("import time\ntime.sleep(1.5)\nvalue = 7\n")

    def imports(me, folder):
        sys.path.insert(0, folder)
        import slow_to_load  # type: ignore[import-not-found]

        return slow_to_load.value

    with Cluster(1, backend="gloo", timeout_s=0.6) as cluster:
        assert cluster.run(imports, str(tmp_path))[0] == 7
