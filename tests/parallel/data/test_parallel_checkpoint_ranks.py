"""Checkpoints of several ranks: one writes, all read, one that dies loses nothing, and a run goes on from one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from course_lib.cluster import Cluster, Rank, RankFailed
from course_lib.meter import metered
from course_lib.parallel.data import (
    CheckpointError,
    GlobalBatches,
    load_checkpoint,
    load_on_all,
    save_by_one,
    save_checkpoint,
)

pytestmark = pytest.mark.xdist_group("parallel_checkpoint_ranks")

STATE = {"epoch": 3, "losses": [0.5, float("inf")], "name": "run"}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def mortal():
    """Two ranks, to be killed."""
    with Cluster(2, backend="gloo") as cluster:
        yield cluster


def die_while_saving(me: Rank, path: Path, at: str) -> None:
    """Rank 0 writes and is killed at some point; rank 1 waits for it."""

    def die(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGKILL)

    def half_a_save(state, file):
        file.write(b"PK\x03\x04 half of a checkp")
        file.flush()
        die()

    if me.rank == 0:
        if at == "torch.save":
            torch.save = half_a_save
        elif at == "fsync of the folder":
            import course_lib.parallel.data.checkpoint as module

            module._fsync_folder = die
        else:
            setattr(os, at.removeprefix("os."), die)
    save_by_one(me, path, {"epoch": 4})


@pytest.mark.parametrize("at", ["torch.save", "os.fsync", "os.replace", "fsync of the folder"])
@pytest.mark.limit_s(60)
def test_a_writer_killed_at_any_point_loses_nothing(tmp_path, mortal, at):
    path = tmp_path / "last.pt"
    save_checkpoint(path, STATE)
    with pytest.raises(RankFailed) as failed:
        mortal.call(die_while_saving, (path, at))
    assert failed.value.rank == 0, "and rank 1 does not wait for ever"
    if at == "fsync of the folder":
        assert load_checkpoint(path) == {"epoch": 4}
    else:
        assert load_checkpoint(path) == STATE
        assert len(names(tmp_path)) == 2, "the draft"
    save_checkpoint(path, {"epoch": 5})
    assert load_checkpoint(path) == {"epoch": 5}
    assert names(tmp_path) == ["last.pt"], "the draft is gone"


def save_slowly(me: Rank, path: Path) -> dict:
    """Each rank has a state of its own, and rank 0 takes its time; what the rank finds in the file afterwards."""
    save = torch.save

    def slow_save(state, file):
        time.sleep(0.3)
        save(state, file)

    torch.save = slow_save
    try:
        save_by_one(me, path, {"from": me.rank})
    finally:
        torch.save = save
    return load_checkpoint(path)


def test_rank_0_writes_and_all_return_when_the_file_is_there(tmp_path, cluster4):
    assert list(cluster4.call(save_slowly, (tmp_path / "last.pt",))) == [{"from": 0}] * 4
    assert names(tmp_path) == ["last.pt"]


def told(me: Rank, call, *args) -> tuple[str, bool]:
    """The error that this rank saw, and whether the group still works after it."""
    try:
        call(me, *args)
    except CheckpointError as error:
        story = str(error)
    one = torch.ones(1)
    dist.all_reduce(one)
    return story, one.item() == me.world_size


@pytest.mark.parametrize(
    ("call", "args", "message"),
    [
        (save_by_one, ("nowhere/last.pt", STATE), "there is no folder"),
        (save_by_one, ("last.pt", {"loss": np.float64(1)}), "it holds numpy"),
        (load_on_all, ("last.pt",), "there is no checkpoint"),
        (load_on_all, ("half.pt",), "is no checkpoint, or was cut off"),
    ],
)
@pytest.mark.limit_s(60)
def test_a_failure_of_rank_0_is_told_to_all_alike(tmp_path, cluster2, call, args, message):
    (tmp_path / "half.pt").write_bytes(b"PK half")
    (story, works), *others = cluster2.call(told, (call, tmp_path / args[0], *args[1:]))
    assert message in story
    assert works
    assert others == [(story, True)]


def test_any_failure_of_rank_0_is_told_to_all(tmp_path, cluster2):
    def exhausted(me: Rank, path: Path):
        class Huge:
            def __reduce__(self):
                raise MemoryError("no room")

        return told(me, save_by_one, path, {"huge": Huge()})

    assert (
        list(cluster2.call(exhausted, (tmp_path / "last.pt",))) == [("rank 0 failed: MemoryError: no room", True)] * 2
    )
    assert names(tmp_path) == []


def load_what_only_rank_0_sees(me: Rank, path: Path):
    return load_on_all(me, path if me.rank == 0 else path.with_name("not here.pt"))


def test_only_rank_0_reads_and_the_others_get_its_bytes(tmp_path, cluster4):
    save_checkpoint(tmp_path / "last.pt", {**STATE, "large": torch.ones(20_000)})
    size_bytes = (tmp_path / "last.pt").stat().st_size
    run = metered(cluster4, load_what_only_rank_0_sees, tmp_path / "last.pt")
    assert all(torch.equal(state.pop("large"), torch.ones(20_000)) and state == STATE for state in run)
    assert set(run.communication.by_operation()) == {"broadcast"}
    assert run.communication.sent_bytes(0) == pytest.approx(2 * size_bytes, rel=0.01), "down a tree"


def train_on(me: Rank, path: Path, num_steps: int) -> dict:
    """Resume if there is something to resume from, train so many steps, save; returns the weights."""
    torch.manual_seed(0)
    x, target = torch.randn(50, 6, dtype=torch.float64), torch.randn(50, dtype=torch.float64)
    model = nn.Linear(6, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    position = {"epoch": 0, "start": 0}
    if path.exists():
        state = load_on_all(me, path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        position = state["position"]
    batches = GlobalBatches(x, rank=me.rank, world_size=me.world_size, global_batch_size=8, seed=1, **position)
    while num_steps:
        for share in batches:
            error = model(x[share]).flatten() - target[share]
            num_items = torch.tensor(float(len(share)))
            dist.all_reduce(num_items)
            optimizer.zero_grad()
            (error.square().sum() / num_items).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()
            position["start"] += 1
            num_steps -= 1
            if not num_steps:
                break
        else:
            position = {"epoch": position["epoch"] + 1, "start": 0}
            batches.set_epoch(position["epoch"])
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "position": position}
    save_by_one(me, path, state)
    return state


def test_a_run_that_resumes_on_other_numbers_of_ranks_ends_where_one_process_does(tmp_path, cluster2, cluster4):
    with Cluster(1, backend="gloo") as cluster1, Cluster(3, backend="gloo") as cluster3:
        straight = cluster1.call(train_on, (tmp_path / "straight.pt", 18))[0]
        for cluster, num_steps in ((cluster3, 4), (cluster2, 3), (cluster4, 6), (cluster1, 5)):
            resumed = cluster.call(train_on, (tmp_path / "last.pt", num_steps))[0]
    assert resumed["position"] == straight["position"] == {"epoch": 2, "start": 4}
    for name, weight in straight["model"].items():
        assert torch.allclose(weight, resumed["model"][name], rtol=0, atol=1e-12)
