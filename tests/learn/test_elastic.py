"""Diaries of a job that is started again and again: what was done twice, and whether an epoch is whole."""

from __future__ import annotations

import itertools
import threading

import pytest

from course_lib.cluster import Cluster
from course_lib.learn.sick import elastic
from course_lib.learn.sick.elastic import (
    Note,
    dealt,
    kept,
    next_share,
    read_diaries,
    starts_of,
    wait_for,
    wait_for_files,
)

pytestmark = pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning")


def some_steps(me, folder, first, last, num=12, batch=4):
    diary = elastic.Diary(me, folder)
    for step in range(first, last + 1):
        drawn = (step - 1) * batch
        mine = next_share(me, range(num), drawn, batch)
        diary.note({"epoch": 0, "step": step}, mine)
    return diary.start


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two ranks did two steps; one rank began again at step 2 and did the rest."""
    folder = tmp_path_factory.mktemp("diaries")
    with Cluster(2, backend="gloo") as two:
        assert list(two.run(some_steps, folder, 1, 2)) == [0, 0]
    with Cluster(1, backend="gloo") as one:
        assert list(one.run(some_steps, folder, 2, 3)) == [1]
    return folder


def test_starts_are_told_apart(folder):
    first, second = starts_of(read_diaries(folder))
    assert (first.number, first.world_size, first.first, first.last) == (0, 2, 1, 2)
    assert (second.number, second.world_size, second.first, second.last) == (1, 1, 2, 3)
    assert not set(first.processes) & set(second.processes)
    assert first.first_s <= first.last_s <= second.first_s


def test_what_was_done_twice_counts_once(folder):
    notes = read_diaries(folder)
    assert dealt(notes, 12) == {0: (0, 4)}
    assert dealt(kept(notes), 12) == {0: (0, 0)}


def test_a_line_that_a_kill_has_cut_off_is_left_out(folder, tmp_path):
    for path in folder.glob("diary_0_*"):
        (tmp_path / path.name).write_text(path.read_text())
    cut = tmp_path / "diary_0_1.jsonl"
    cut.write_text(cut.read_text()[:-5])
    notes = read_diaries(tmp_path)
    assert len(notes) == 3
    (start,) = starts_of(notes)
    assert (start.first, start.last) == (1, 1)  # step 2 was not noted by all


def note(start, rank, step, samples=(), world_size=1, epoch=0):
    return Note(start, rank, world_size, 100 * start + rank, epoch, step, tuple(samples), float(step))


def test_lost_and_seen_twice_are_counted_by_epoch():
    notes = [note(0, 0, 1, (0, 1)), note(0, 0, 2, (1, 2, 2)), note(0, 0, 3, range(5), epoch=1)]
    assert dealt(notes, 5) == {0: (2, 2), 1: (0, 0)}


def test_a_start_without_all_of_its_ranks_is_left_out():
    assert starts_of([note(0, 0, 1, world_size=2)]) == []
    assert starts_of([note(0, 0, 1, world_size=2), note(0, 1, 2, world_size=2)]) == []


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_a_global_batch_is_dealt_out_whole(world_size, rank_of):
    shares = [next_share(rank_of(rank, world_size), "abcdefgh", 2, 5) for rank in range(world_size)]
    assert sorted(itertools.chain(*shares)) == list("cdefg")
    assert not any(next_share(rank_of(rank, world_size), "abcd", 4, 5) for rank in range(world_size))


@pytest.fixture
def rank_of():
    from course_lib.cluster.base.rank import Rank

    def make(rank, world_size):
        import torch

        return Rank(rank=rank, world_size=world_size, device=torch.device("cpu"), backend="gloo")

    return make


def test_waiting_for_a_start(folder):
    assert wait_for(folder, world_size=2, steps=2, timeout_s=0.1) == 0
    assert wait_for(folder, world_size=1, after=0, timeout_s=0.1) == 1
    with pytest.raises(TimeoutError, match="no start after number 0 has done 1 steps on 2 ranks") as caught:
        wait_for(folder, world_size=2, after=0, timeout_s=0.05)
    assert "start 1: 1 ranks, steps 2 to 3" in str(caught.value)


class Job:
    """One that has ended, and how."""

    is_running = False

    def __init__(self, error=None):
        self.error = error

    def wait(self):
        if self.error:
            raise self.error


def test_nobody_waits_for_a_job_that_is_over(folder):
    assert wait_for(folder, world_size=2, steps=2, job=Job()) == 0
    with pytest.raises(TimeoutError, match="before the job was over; there is start 0: 2 ranks"):
        wait_for(folder, world_size=2, steps=9, job=Job())
    with pytest.raises(OSError, match="rank 1 has failed"):
        wait_for(folder, world_size=2, steps=9, job=Job(OSError("rank 1 has failed")))


@pytest.mark.parametrize("wrong", [{"world_size": 0}, {"world_size": 2, "steps": 0}])
def test_a_wait_for_nothing_is_refused(folder, wrong):
    with pytest.raises(ValueError, match="at least 1"):
        wait_for(folder, **wrong)


def test_waiting_for_files(tmp_path):
    (tmp_path / "rank_0").touch()
    (tmp_path / "stack_1.txt").touch()
    assert not wait_for_files(tmp_path, "rank_*", 2, timeout_s=0.1)
    later = threading.Timer(0.2, (tmp_path / "rank_1").touch)
    later.start()
    assert wait_for_files(tmp_path, "rank_*", 2, timeout_s=60)
    assert (tmp_path / "rank_1").exists()
    later.join()


def test_files_of_a_folder_that_is_not_there_are_not_waited_for(tmp_path):
    with pytest.raises(ValueError, match="no such folder"):
        wait_for_files(tmp_path / "none", "*", 1)
    with pytest.raises(ValueError, match="at least 1"):
        wait_for_files(tmp_path, "*", 0)
