"""What a job that hangs leaves in files, and that PyTorch's own reader finds the rank in it."""

from __future__ import annotations

import importlib
import pickle
import queue
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from waiting import wait_until

from course_lib.cluster import Cluster, RankTimeout, black_box

pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.limit_s(120.0),
]
GUILTY = 1
box = importlib.import_module("course_lib.cluster.failures.hang_dump")  # the room has a function of the same name


def wait_for_a_batch(me, step):
    if me.rank == GUILTY and step == 2:
        queue.Queue().get()


def train(me, folder, num_steps, quiet_s=2.0):
    with black_box(me, folder, quiet_s=quiet_s):
        for step in range(num_steps):
            wait_for_a_batch(me, step)
            dist.all_reduce(torch.ones(7), async_op=True).wait()


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The folder that a hang of three ranks has left."""
    folder = tmp_path_factory.mktemp("boxes")
    with Cluster(3, backend="gloo") as ranks, pytest.raises(RankTimeout):
        ranks.call(train, (str(folder), 5), timeout_s=10)
    return folder


@pytest.mark.long
def test_every_rank_leaves_its_record_and_its_stack(left):
    assert sorted(path.name for path in left.iterdir()) == sorted(
        [*(f"rank_{rank}" for rank in range(3)), *(f"stack_{rank}.txt" for rank in range(3))]
    )


def test_the_record_says_what_each_rank_has_begun(left):
    dumps = [pickle.loads((left / f"rank_{rank}").read_bytes()) for rank in range(3)]
    status = [dump["pg_status"]["0"] for dump in dumps]
    assert [one["last_enqueued_collective"] for one in status] == [3, 2, 3]
    assert [sum(entry["retired"] for entry in dump["entries"]) for dump in dumps] == [2, 2, 2]
    assert all(dump["pg_config"]["0"]["ranks"] == "[0, 1, 2]" for dump in dumps)
    newest = dumps[0]["entries"][-1]
    assert (newest["profiling_name"], newest["input_sizes"], newest["retired"]) == (
        "gloo:all_reduce",
        [[7]],
        False,
    )
    assert all("/" not in frame["filename"] for frame in newest["frames"])


def test_the_stack_goes_from_the_innermost_call_to_the_function_that_was_run(left):
    lines = (left / f"stack_{GUILTY}.txt").read_text().splitlines()
    assert lines[0] == "Thread (idle): MainThread"
    assert [line.split()[0] for line in lines[1:]] == ["wait", "get", "wait_for_a_batch", "train"]
    assert "(test_cluster_black_box.py:" in lines[-1]
    waiting = (left / "stack_0.txt").read_text().splitlines()
    assert [line.split()[0] for line in waiting[1:]] == ["train"]


@pytest.mark.long
def test_the_reader_of_pytorch_names_the_rank_that_did_not_join(left):
    reader = [
        sys.executable,
        "-m",
        "torch.distributed.flight_recorder.fr_trace",
        str(left),
        "--prefix",
        "rank_",
    ]
    done = subprocess.run(reader, capture_output=True, text=True, timeout=100)
    assert f"missing ranks: {{{GUILTY}}}" in done.stdout + done.stderr, done.stderr


def test_a_block_that_is_over_in_time_leaves_nothing(tmp_path):
    with Cluster(2, backend="gloo") as ranks:
        ranks.call(train, (str(tmp_path), 1, 3600.0), timeout_s=60)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("quiet_s", "folder", "words"), [(0, ".", "quiet_s is 0"), (1.0, "no/such", "no such folder")])
def test_bad_input_gets_a_sentence(quiet_s, folder, words):
    with pytest.raises(ValueError, match=words), black_box(None, folder, quiet_s=quiet_s):
        pass


class Looks:
    """An event that is set after so many looks."""

    def __init__(self, number):
        self.left = number

    def wait(self, time_s):
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize(("progress", "writes"), [(lambda look: 0, True), (lambda look: look // 4, False)])
def test_only_a_rank_that_was_quiet_for_so_long_is_written_down(tmp_path, monkeypatch, progress, writes):
    looks = iter(range(100))
    monkeypatch.setattr(box, "_progress", lambda: progress(next(looks)))
    monkeypatch.setattr(box, "_dump", dict)
    monkeypatch.setattr(box, "_stack", str)
    for number, folder in ((4, "early"), (40, "late")):
        (tmp_path / folder).mkdir()
        box._watch_group(0, tmp_path / folder, 0.5, Looks(number))
    assert not list((tmp_path / "early").iterdir())
    assert len(list((tmp_path / "late").iterdir())) == (2 if writes else 0)


def test_without_frames_the_record_is_the_same_but_for_the_lines(left, tmp_path):
    def job(me, folder):
        dist.all_reduce(torch.ones(7))  # before: on a busy machine it takes longer than a box waits
        with black_box(me, folder, quiet_s=0.3, frames=False):
            wait_until(Path(folder, f"rank_{me.rank}").exists, "the box has written")

    with Cluster(2, backend="gloo") as ranks:
        ranks.run(job, str(tmp_path))
    short, whole = (pickle.loads((folder / "rank_0").read_bytes()) for folder in (tmp_path, left))
    assert short["entries"][-1]["frames"] == []
    assert whole["entries"][-1]["frames"]
    assert short.keys() == whole.keys()
    assert short["entries"][0].keys() == whole["entries"][0].keys()
    assert short["pg_config"]["0"]["ranks"] == "[0, 1]"
