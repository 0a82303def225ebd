"""Failures that teach: the culprit is named, with its line, and where the others stood; then all is well again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
import torch
from waiting import all_ended, wait_until

from course_lib.cluster import Cluster, RankError, RankFailed, RankTimeout

pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.limit_s(200.0),
]


@pytest.fixture
def cluster():
    with Cluster(3, timeout_s=20) as cluster:
        cluster.run(meet)  # so that no limit below counts the start
        yield cluster


def meet(me):
    import torch.distributed as dist

    tensor = torch.ones(2, 3)
    dist.all_reduce(tensor)
    return tensor.sum().item()


def works_again(cluster) -> bool:
    return list(cluster.run(meet)) == [6.0 * cluster.world_size] * cluster.world_size


def failing(cluster, function, *args, kind: type[RankError] = RankFailed) -> RankError:
    """The error of a run that must fail."""
    with pytest.raises(RankError) as caught:
        cluster.run(function, *args)
    assert type(caught.value) is kind, str(caught.value)
    return caught.value


def test_a_rank_that_raises_is_named_with_its_line_and_its_peers_places(cluster):
    def step(me):
        meet(me)
        if me.rank == 1:
            raise ValueError("negative loss")
        meet(me)

    error = failing(cluster, step)
    story = str(error)
    line = step.__code__.co_firstlineno + 3
    assert story.startswith("rank 1 of 3 failed: ValueError: negative loss\n")
    assert f"test_cluster_failures.py, line {line}, in step" in story
    assert 'raise ValueError("negative loss")' in story
    assert "rank 0  waits in all_reduce #2 (float32, 2 x 3), at test_cluster_failures.py" in story
    assert "rank 2  waits in all_reduce #2" in story
    assert error.rank == 1
    assert isinstance(error.__cause__, ValueError)
    assert works_again(cluster)


def test_what_finished_ranks_returned_and_printed_is_kept(cluster):
    def partly(me):
        print(f"before {me.rank}")
        return 10 // (me.rank - 2)

    error = failing(cluster, partly)
    assert error.run.results == {0: -5, 1: -10}
    assert error.run.text[2] == "before 2\n"
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert "rank 0  had returned without a collective" in str(error)


def test_an_error_that_cannot_be_pickled_is_still_told(cluster):
    class Awkward(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} and {two}")

    def awkward(me):
        raise Awkward("this", "that") from KeyError("inner")

    error = failing(cluster, awkward)
    assert "Awkward: this and that" in str(error)
    assert "first KeyError: 'inner'" in str(error)
    assert error.__cause__ is None


def test_sys_exit_ends_the_function_and_not_in_silence(cluster):
    assert "rank 0 of 3 called sys.exit(4)" in str(failing(cluster, lambda me: me.rank or sys.exit(4)))
    assert works_again(cluster)


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_rank_that_dies_is_the_cause_and_its_peers_hear_echoes(cluster, how):
    def die(me):
        print("last words", flush=True)
        if me.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL) if how == "kill" else os._exit(7)
        meet(me)

    error = failing(cluster, die)
    expected = "killed by SIGKILL" if how == "kill" else "exit code 7, without a word"
    assert str(error).startswith("rank 2 of 3 is gone: its process")
    assert expected in str(error)
    # A peer says what it heard; one that had no turn yet on a busy machine, where it stands.
    for rank in (0, 1):
        of_rank = next(re.finditer(rf"^  ranks? [^a-z]*\b{rank}\b[^a-z]*  (.+)$", str(error), re.MULTILINE))[1]
        assert re.match(r"heard (its|their) connection close .*\(an echo of rank 2\)|waits in |runs on", of_rank)
    assert "(an echo of rank 2)" in str(error)
    assert set(error.run.text.values()) == {"last words\n"}, "what ranks printed before the end is not lost"
    assert works_again(cluster)


def test_a_rank_that_dies_between_two_calls_is_replaced(cluster):
    pids = list(cluster.run(lambda me: os.getpid()))
    os.kill(pids[1], signal.SIGKILL)
    wait_until(lambda: not cluster._team.is_complete, "the death is seen")
    assert works_again(cluster)
    assert not any(psutil.pid_exists(pid) for pid in pids), "its peers were replaced with it"


def test_a_stopped_rank_is_seen_as_stopped():
    def stop(me):
        if me.rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        meet(me)

    with Cluster(2, timeout_s=1.0) as cluster:
        story = str(failing(cluster, stop, kind=RankTimeout))
        assert "Ranks 0, 1 of 2 had not finished after timeout_s = 1 s" in story
        assert "rank 1  is stopped by a signal (SIGSTOP)" in story
        assert "rank 0  waits in all_reduce #1" in story
        assert works_again(cluster)


def test_a_rank_that_never_calls_the_collective_is_found_while_it_is_busy():
    def late(me):
        if me.rank == 1:
            time.sleep(60)
        meet(me)

    with Cluster(3, timeout_s=1.0) as cluster:
        story = str(failing(cluster, late, kind=RankTimeout))
        assert re.search(r"Ranks 0, 1, 2 of 3 had not finished after timeout_s = 1 s( \(.*\))?\.", story)
        assert "rank 0  waits in all_reduce #1 (float32, 2 x 3)" in story
        line = late.__code__.co_firstlineno + 2
        assert f"rank 1  runs on, at test_cluster_failures.py, line {line}, in late" in story
        assert "Rank 1 never called all_reduce #1." in story
        assert works_again(cluster)


def test_a_rank_that_returned_without_the_collective_ends_the_call_early(cluster):
    def skip(me):
        meet(me)
        if me.rank:
            meet(me)

    story = str(failing(cluster, skip, kind=RankTimeout))
    assert "can never finish" in story, "it did not wait for the deadline"
    assert "rank 0  had returned, after all_reduce #1" in story
    assert "Rank 0 never called all_reduce #2." in story
    assert works_again(cluster)


@pytest.mark.long
def test_a_slow_rank_whose_peers_have_returned_is_left_to_finish(cluster):
    def slow(me):
        meet(me)
        if me.rank == 0:
            time.sleep(3.5)  # longer than the supervisor's looks
        return me.rank

    assert list(cluster.run(slow)) == [0, 1, 2]


def test_a_silent_rank_is_read_by_faulthandler():
    def hold_the_lock(me):
        if me.rank == 1:
            import ctypes

            ctypes.PyDLL(None).sleep(30)  # PyDLL keeps Python's lock: no thread of this rank can run
        meet(me)

    with Cluster(2, timeout_s=1.0) as cluster:
        story = str(failing(cluster, hold_the_lock, kind=RankTimeout))
        line = hold_the_lock.__code__.co_firstlineno + 4
        assert "rank 1  does not answer" in story
        assert f"test_cluster_failures.py, line {line}, in hold_the_lock" in story
        assert works_again(cluster)


def different_shape(me):
    import torch.distributed as dist

    dist.all_reduce(torch.ones(3 + me.rank))


def different_dtype(me):
    import torch.distributed as dist

    dist.all_reduce(torch.ones(3, dtype=torch.float64 if me.rank else torch.float32))


def different_operation(me):
    import torch.distributed as dist

    dist.broadcast(torch.ones(3), 0) if me.rank else dist.all_reduce(torch.ones(3))


@pytest.mark.parametrize("mistake", [different_shape, different_dtype, different_operation])
def test_debug_names_a_mismatch_at_once(mistake):
    with Cluster(2, debug=True, timeout_s=20) as cluster:
        story = str(failing(cluster, mistake))
        assert "Detected mismatch between collectives on ranks" in story
        assert f"in {mistake.__name__}" in story
        assert works_again(cluster)


def test_without_debug_a_wrong_operation_is_told_at_the_deadline():
    with Cluster(2, timeout_s=1.0) as cluster:
        story = str(failing(cluster, different_operation, kind=RankTimeout))
        assert "Call #1 does not have the same operation on every rank: all_reduce, broadcast." in story


def test_collectives_are_numbered_from_one_in_each_call_whatever_came_before(cluster):
    def groups(me):
        import torch.distributed as dist

        for _ in range(5):
            group = dist.new_group(list(range(me.world_size)))
            dist.all_reduce(torch.ones(1), group=group)

    def many(me, count):
        import torch.distributed as dist

        for _ in range(count):
            dist.all_reduce(torch.ones(1))
        if me.rank:
            dist.all_reduce(torch.ones(2))

    cluster.cell("kept = 1", show=False)  # so that the ranks stay as they are
    cluster.run(groups)
    for count in (2, 300):  # 300 are more than the recorder keeps
        story = str(failing(cluster, many, count, kind=RankTimeout))
        assert f"Rank 0 never called all_reduce #{count + 1}." in story
        cluster.run(groups)


def test_an_argument_that_the_rank_cannot_rebuild_is_that_ranks_failure(cluster, tmp_path, monkeypatch):
    (tmp_path / "only_here_now.py").write_text("class Thing:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here_now  # type: ignore[import-not-found]

    thing = only_here_now.Thing()
    monkeypatch.undo()
    (tmp_path / "only_here_now.py").unlink()
    assert "ModuleNotFoundError: No module named 'only_here_now'" in str(failing(cluster, lambda me, t: t, thing))
    assert works_again(cluster)


def test_children_of_a_rank_end_with_it(cluster):
    def spawn(me):
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid

    pids = list(cluster.run(spawn))
    assert all(psutil.pid_exists(pid) for pid in pids)
    failing(cluster, lambda me: 1 / 0)
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=30)
    assert not alive


def test_a_full_disk_is_an_error_of_the_call_and_loses_nothing(cluster, monkeypatch):
    from course_lib.cluster.process import serialization

    def no_room(*args, **kwargs):
        raise OSError(28, "No space left on device")

    assert works_again(cluster)
    with monkeypatch.context() as patch:
        patch.setattr(serialization, "open", no_room, raising=False)
        with pytest.raises(OSError, match="No space left on device"):
            cluster.run(lambda me, x: None, torch.zeros(100_000))
    assert works_again(cluster)


# -- the variables of %%ranks cells -----------------------------------------------------------------------------


def test_variables_of_cells_survive_an_error_and_freed_peers(cluster):
    cluster.cell("kept = rank * 10", show=False)
    with pytest.raises(RankFailed, match="NameError: name 'typo' is not defined"):
        cluster.cell("typo", show=False)
    with pytest.raises(RankFailed, match="rank 1 of 3 failed: ValueError: slip") as caught:
        cluster.cell("if rank == 1: raise ValueError('slip')\ndist.all_reduce(torch.ones(1))", show=False)
    assert "rank 0  waits in all_reduce #1 (float32, 1), at cell, line 2" in str(caught.value)
    assert "gone" not in str(caught.value)
    assert list(cluster.pull("kept")) == [0, 10, 20]
    assert works_again(cluster), "the ranks have met in a new group"


def test_variables_survive_when_ranks_are_freed_one_after_another():
    def fail(me):
        import torch.distributed as dist

        if me.rank == 2:
            raise ValueError("slip")
        dist.all_reduce(torch.ones(1))

    with Cluster(5, timeout_s=20) as cluster:  # in a ring, a peer two seats away hears nothing of rank 2 itself
        cluster.cell("kept = rank", show=False)
        for _ in range(3):
            assert "variables" not in str(failing(cluster, fail))
        assert list(cluster.pull("kept")) == [0, 1, 2, 3, 4]
        assert works_again(cluster)


def test_variables_of_cells_survive_a_hang(cluster):
    cluster.cell("kept = rank", show=False)
    with pytest.raises(RankTimeout, match="Rank 0 never called all_reduce #1"):
        cluster.cell("while rank == 0: pass\ndist.all_reduce(torch.ones(1))", timeout_s=1.0, show=False)
    assert list(cluster.pull("kept")) == [0, 1, 2]
    assert works_again(cluster)


def test_lost_variables_are_said_to_be_lost(cluster):
    cluster.cell("kept = rank", show=False)
    with pytest.raises(RankFailed, match=r"variables of your %%ranks cells with them: run those cells again"):
        cluster.cell("import os\nif rank == 1: os._exit(1)", show=False)
    with pytest.raises(RankFailed, match="no cell has made 'kept' on this rank"):
        cluster.pull("kept")


# -- interrupts and the death of the parent ---------------------------------------------------------------------


def script(body: str, tmp_path: Path) -> subprocess.Popen:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(body))
    return subprocess.Popen(
        [sys.executable, "-u", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


BUSY = """
    import os, time
    from course_lib import Cluster
    import torch, torch.distributed as dist

    def pids(me):
        return os.getpid()

    def touch(me):
        open(os.path.join(os.path.dirname(__file__), f"rank {me.rank}"), "w").close()

    def busy(me):
        if me.rank == 0:
            touch(me); time.sleep(600)
        work = dist.all_reduce(torch.ones(1), async_op=True); touch(me); work.wait()

    cluster = Cluster(2)
    print(*cluster.run(pids), flush=True)
"""


def wait_until_busy(folder: Path) -> None:
    """Rank 0 is at the line of its sleep, and rank 1 at that of its all-reduce."""
    wait_until(lambda: all((folder / f"rank {rank}").exists() for rank in (0, 1)), "both ranks are busy")


def test_an_interrupt_stops_the_ranks_and_the_next_call_works(tmp_path):
    body = (
        BUSY
        + """
    try:
        cluster.run(busy)
    except KeyboardInterrupt as error:
        print(error)
    print("again", list(cluster.run(lambda me: me.rank)))
    """
    )
    with script(body, tmp_path) as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        wait_until_busy(tmp_path)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert "interrupted; the 2 ranks have been stopped" in out
    assert "rank 0  runs on, at script.py, line 14, in busy" in out
    assert "rank 1  waits in all_reduce #1" in out
    assert "again [0, 1]" in out, err
    assert all_ended(pids)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ranks_do_not_outlive_a_parent_that_dies_while_they_are_busy(tmp_path, number):
    with script(BUSY + "\n    cluster.run(busy)\n", tmp_path) as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        wait_until_busy(tmp_path)
        assert all(psutil.pid_exists(pid) for pid in pids)
        process.send_signal(number)
        process.wait(60)
        assert all_ended(pids)


def test_ranks_do_not_outlive_a_parent_that_dies_while_they_wait(tmp_path):
    with script(BUSY + "\n    time.sleep(60)\n", tmp_path) as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        process.kill()
        process.wait(60)
        assert all_ended(pids)


def test_a_fork_of_the_parent_that_leaves_does_not_end_its_ranks(cluster):
    assert works_again(cluster)
    child = os.fork()
    if child == 0:
        cluster._team.end()
        os._exit(0)
    os.waitpid(child, 0)
    assert works_again(cluster)
    assert cluster._team.folder.exists()
