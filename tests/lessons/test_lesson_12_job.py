"""What the check of 12.job sees of a save: the folder as a kill may leave it, at each moment."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest
import torch

from course_lib.learn.exercises.lesson_12.job import JOB_STEPS
from course_lib.learn.exercises.lesson_12.job.cases import SITUATIONS, oracle
from course_lib.learn.exercises.lesson_12.job.disk import different_states, watched_folder
from course_lib.learn.exercises.lesson_12.job.told import share_of_step

NEW, OLD = b"new" * 100, b"old" * 100


def seen(folder, save, **settings):
    (folder / "old").write_bytes(OLD)
    with watched_folder(folder, **settings) as watched:
        save(folder)
    watched.end()
    return watched


def sizes(watched, *, after=False):
    """By state: bytes of each file."""
    return [
        {name: len(content or b"") for name, content in state.files.items()}
        for state in watched.states
        if state.is_after == after
    ]


def in_place(folder):
    (folder / "new").write_bytes(NEW)


def beside(folder):
    with (folder / "draft").open("wb") as file:
        file.write(NEW)
        file.flush()
        os.fsync(file.fileno())
    os.replace(folder / "draft", folder / "new")
    (folder / "old").unlink()


def old_first(folder):
    (folder / "old").unlink()
    beside_without_old(folder)


def beside_without_old(folder):
    (folder / "draft").write_bytes(NEW)
    (folder / "draft").rename(folder / "new")


def by_torch(folder):
    torch.save({"numbers": torch.ones(500)}, folder / "new")


def test_a_file_that_is_written_in_place_may_be_half(tmp_path):
    found = sizes(seen(tmp_path, in_place))
    assert {"old": 300, "new": 150} in found
    assert {"old": 300} in found


def test_a_file_that_is_renamed_is_whole_or_not_there(tmp_path):
    watched = seen(tmp_path, beside)
    assert all(state.get("new", 300) == 300 for state in sizes(watched))
    assert {"old": 300, "draft": 150} in sizes(watched)
    assert {"old": 300, "new": 300} in sizes(watched)
    assert sizes(watched, after=True) == [{"new": 300}]
    assert watched.written == {"new": 300}


def test_there_is_a_moment_without_either_where_the_old_one_goes_first(tmp_path):
    assert {} in sizes(seen(tmp_path, old_first))


def test_what_was_not_synced_is_empty_after_a_power_failure(tmp_path):
    assert sizes(seen(tmp_path, beside_without_old), after=True) == [{"old": 300, "new": 300}, {"old": 300, "new": 0}]


def test_a_file_that_c_opens_is_seen_as_well(tmp_path):
    found = [state.get("new", 0) for state in sizes(seen(tmp_path, by_torch))]
    whole = (tmp_path / "new").stat().st_size
    assert {0, whole // 2, whole} <= {*found}


def test_a_full_disk_lets_no_file_be_opened(tmp_path):
    with pytest.raises(OSError, match="No space left"):
        seen(tmp_path, in_place, is_full=True)
    assert not (tmp_path / "new").exists()


def test_nobody_is_watched_afterwards(tmp_path):
    fsync, save = os.fsync, torch.save
    watched = seen(tmp_path, beside)
    count = len(watched.states)
    in_place(tmp_path)
    assert (os.fsync, torch.save, len(watched.states)) == (fsync, save, count)


def test_what_two_ranks_have_seen_is_looked_at_once(tmp_path):
    states = seen(tmp_path, beside).states
    assert len(different_states([states, states])) == len(different_states([states])) <= len(states)


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ([[1, 2], [3]], ""),
        ([[1, 2], [2, 3]], "two ranks have sample 2"),
        ([[1], [3]], "no rank has sample 2"),
        ([[1, 2], [3, 4]], "sample 4, which is not in the global batch"),
        ([[1, 2, 3], []], "one rank has 3 samples, and another 0"),
    ],
)
def test_shares_are_told_by_what_is_wrong_with_them(shares, says):
    found = share_of_step(7, [1, 2, 3], shares)
    assert says in found
    assert bool(found) == bool(says)


@pytest.mark.parametrize("part", ["weights", "buffers", "optimizer", "schedule", "random", "place"])
def test_a_process_that_loses_a_part_of_its_state_goes_on_otherwise(part):
    label = "jobs that were stopped"
    until, others = SITUATIONS[label].until, 0
    for stop in (4, 6):  # the checkpoints that a job finds
        kept, lost = oracle(label, stop, until), oracle(label, stop, until, frozenset({part}))
        assert kept.begin == lost.begin == stop
        assert kept.losses == oracle(label, 0, until).losses[stop:]
        others += kept.losses != lost.losses
    assert others


def test_each_step_tries_what_the_steps_before_it_try():
    tried = [[case.label for case in step.judge.cases] for step in JOB_STEPS]
    for earlier, later in pairwise(tried):
        assert later[: len(earlier)] == earlier
    assert {*tried[-1]} == {*SITUATIONS}
