"""The program to take home under torchrun, for real: with a rank killed, with two agents, stopped, resumed.

It runs from a copy beside which there is no course. Each launch takes seconds, so there are few; what they compute is
compared with a run of warm ranks.
"""

from __future__ import annotations

import functools
import re
import signal
import socket
import sys
from pathlib import Path

import launches
import pytest
import torch
from launches import TORCHRUN, TWO_RANKS

from course_lib.cluster import Cluster
from course_lib.examples.train_ddp.settings import parse_arguments
from course_lib.examples.train_ddp.train import train

pytestmark = [pytest.mark.xdist_group("example_elastic"), pytest.mark.slow]

SCRIPT = ["-m", "train_ddp", "--device", "cpu", "--width", "2", "--batch-size", "64", "--epochs", "3"]
SCRIPT += ["--log-every", "5", "--save-every", "5", "--augment", "mirror"]
STEP_LINE = r"^epoch (\d)/3  step (\d+)/22  loss (\S+)  lr .* images/s(  saved)?$"
launched = functools.partial(launches.launched, "train_ddp")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> tuple[str, dict]:
    """What two ranks print that nothing disturbs, and their last checkpoint: on warm ranks, which costs least."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    with Cluster(2, backend="gloo") as cluster:
        run = cluster.run(train, parse_arguments([*SCRIPT[2:], "--out", str(folder)]))
    assert not run.text[1]
    return run.text[0], torch.load(folder / "last.pt")


def assert_same_weights(state: dict, other: dict) -> None:
    assert state["model"].keys() == other["model"].keys()
    for name, tensor in state["model"].items():
        assert torch.equal(tensor, other["model"][name]), name
    momenta = [s["optimizer"]["state"] for s in (state, other)]
    for number, entry in momenta[0].items():
        assert torch.equal(entry["momentum_buffer"], momenta[1][number]["momentum_buffer"])


@pytest.mark.limit_s(500)
def test_two_ranks_learn_and_one_of_them_tells(uninterrupted):
    text, state = uninterrupted
    assert (state["epoch"], state["step"]) == (3, 0)
    lines = re.findall(STEP_LINE, text, re.MULTILINE)
    assert [(int(epoch), int(step), bool(saved)) for epoch, step, _, saved in lines] == [
        (epoch, step, step < 22) for epoch in (1, 2, 3) for step in (5, 10, 15, 20, 22)
    ]
    losses = [float(loss) for *_, loss, _ in lines]
    assert losses[-1] < 0.9 * losses[0]
    accuracies = re.findall(r"^epoch (\d)/3  accuracy (\S+)  best (\S+)$", text, re.MULTILINE)
    assert [epoch for epoch, *_ in accuracies] == ["1", "2", "3"]
    assert float(accuracies[-1][2]) == max(float(accuracy) for _, accuracy, _ in accuracies)
    assert text.count("world size 2, cpu") == 1


@pytest.mark.long  # two agents that start anew; stopped and resumed are programs each time in test_mesh_launches.py
@pytest.mark.limit_s(500)
@pytest.mark.parametrize("killed_rank", [0])  # the one that writes checkpoints, and whose address the others know
def test_a_rank_killed_in_mid_epoch_costs_the_steps_since_the_checkpoint(uninterrupted, tmp_path, killed_rank):
    command = [*TWO_RANKS, "--max-restarts", "3", *SCRIPT, "--workers", "1", "--out", "run"]
    with launched(command, tmp_path) as launch:
        launch.read_until("epoch 2/3  step 10/22")
        launch.rank(killed_rank).kill()
        launch.read_until("Resumed from run/last.pt")
        resumed = re.search(r"epoch (\d), step (\d+)/22", launch.text.splitlines()[-1])
        assert launch.finish() == 0, launch.text
    saved = re.findall(r"^epoch (\d)/3  step (\d+)/22 .* saved$", launch.text.split("Resumed")[0], re.MULTILINE)
    assert resumed
    epoch, step = map(int, resumed.groups())
    assert epoch == 2
    # The next may have been written, and not yet told.
    assert step in (int(saved[-1][1]), int(saved[-1][1]) + 5)
    assert step < 20, "the kill came too late to prove anything"
    assert launch.text.count("Resumed") == 1
    assert "forcefully exiting" not in launch.text  # the survivor left when it was told to
    for pattern, count in ((STEP_LINE, 6), (r"accuracy \S+  best \S+$", 2)):
        told, expected = (re.findall(pattern, text, re.M)[-count:] for text in (launch.text, uninterrupted[0]))
        assert told == expected, "the same to the end"
    assert_same_weights(torch.load(tmp_path / "run" / "last.pt"), uninterrupted[1])


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_two_agents_of_one_rank_each_compute_the_same(uninterrupted, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    agent = [*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "1", "--local-addr", "127.0.0.1"]
    agent += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "two-agents"]
    with (
        launched([*agent, "--node-rank", "0", *SCRIPT, "--out", "run"], tmp_path) as first,
        launched([*agent, "--node-rank", "1", *SCRIPT, "--out", "run"], tmp_path) as second,
    ):
        assert [first.finish(), second.finish()] == [0, 0], first.text + second.text
    assert (first.text + second.text).count("accuracy") == 3
    assert_same_weights(torch.load(tmp_path / "run" / "last.pt"), uninterrupted[1])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> tuple[str, Path]:
    """What a run of two ranks printed that got SIGTERM in its second epoch, and its checkpoint."""
    folder = tmp_path_factory.mktemp("stopped")
    with launched([*TWO_RANKS, *SCRIPT, "--workers", "1", "--out", "run"], folder) as launch:
        launch.read_until("epoch 2/3  step 5/22")
        launch.process.send_signal(signal.SIGTERM)  # torchrun hands it to its ranks, and to their workers
        assert launch.finish() != 0
    return launch.text, folder


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_sigterm_lets_all_ranks_finish_the_step_and_save(stopped):
    text, folder = stopped
    assert text.count("Stopped by SIGTERM.") == 1
    state = torch.load(folder / "run" / "last.pt")
    assert state["epoch"] == 1
    assert 5 <= state["step"] < 22
    assert f"epoch 2/3  step {state['step']}/22" in text.split("Stopped")[0].splitlines()[-1]
    assert "killed by signal" not in text  # of a loader's worker
    assert "Connection closed" not in text


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_one_process_without_torchrun_goes_on_where_two_ranks_stopped_and_hears_ctrl_c(stopped):
    _, folder = stopped
    best = torch.load(folder / "run" / "last.pt")["best_accuracy"]
    step = torch.load(folder / "run" / "last.pt")["step"]
    command = [sys.executable, *SCRIPT, "--out", "run", "--bf16", "--accumulate", "2"]
    with launched(command, folder) as launch:
        launch.read_until(f"Resumed from run/last.pt: epoch 2, step {step}/22")
        launch.read_until("epoch 2/3  accuracy")
        launch.process.send_signal(signal.SIGINT)
        assert launch.finish() == 128 + signal.SIGINT, launch.text
    assert "world size 1" in launch.text
    assert "Stopped by SIGINT." in launch.text
    state = torch.load(folder / "run" / "last.pt")
    assert state["epoch"] == 2
    assert 1 <= state["step"] < 22
    assert state["best_accuracy"] >= best > 0.0  # the first epoch's is not forgotten
