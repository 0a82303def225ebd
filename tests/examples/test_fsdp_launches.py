"""The sharded program under torchrun, for real: to the end, with a rank killed, stopped, and resumed by one process.

Each launch takes seconds of computing, so there are few. One uninterrupted run is what the others are compared with.
"""

from __future__ import annotations

import functools
import re
import shutil
import signal
import sys
from pathlib import Path

import launches
import pytest
import torch
from fsdp_runs import differing, names_in
from launches import TWO_RANKS
from torch import Tensor
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

pytestmark = [pytest.mark.xdist_group("example_fsdp_launches"), pytest.mark.slow]

SCRIPT = [
    "-m",
    "train_fsdp",
    "--device",
    "cpu",
    "--layers",
    "2",
    "--width",
    "32",
    "--heads",
    "2",
    "--context",
    "32",
]
SCRIPT += ["--batch-size", "16", "--steps", "72", "--warmup", "6", "--lr", "0.003", "--log-every", "12"]
SCRIPT += ["--save-every", "12", "--out", "run"]
launched = functools.partial(launches.launched, "train_fsdp")


def weights_of(checkpoint: Path) -> dict[str, Tensor]:
    """What a checkpoint says of the model, and of one of the optimizer's moments."""
    file = checkpoint.parent.parent / f"{checkpoint.name}.pt"
    dcp_to_torch_save(checkpoint, file)
    state = torch.load(file, weights_only=False)  # our own
    moments = {f"{name} moment": moment["exp_avg"] for name, moment in state["optimizer"]["state"].items()}
    return state["model"] | moments


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> tuple[str, Path]:
    """What a run of two ranks prints, and its folder."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    with launched([*TWO_RANKS, *SCRIPT], folder) as launch:
        assert launch.finish() == 0, launch.text
    return launch.text, folder / "run"


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_two_ranks_learn_and_one_of_them_tells(uninterrupted):
    text, folder = uninterrupted
    losses = re.findall(r"^step (\d+)/72  loss (\S+)  norm \S+  lr \S+  \S+ tokens/s$", text, re.MULTILINE)
    assert [int(step) for step, _ in losses] == list(range(12, 73, 12))
    assert float(losses[-1][1]) < 0.7 * float(losses[0][1])
    saved = re.findall(r"^Saved run/step-(\d{8})$", text, re.MULTILINE)
    assert [int(step) for step in saved] == list(range(12, 73, 12))
    assert text.count("world size 2, cpu") == 1
    assert names_in(folder) == ["lock", "log.jsonl", "step-00000060", "step-00000072"]


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_a_killed_rank_costs_the_steps_since_the_checkpoint_and_changes_no_bit(uninterrupted, tmp_path):
    with launched([*TWO_RANKS, "--max-restarts", "3", *SCRIPT], tmp_path) as launch:
        launch.read_until("Saved run/step-00000012")
        launch.rank(0).kill()  # the one that gives checkpoints their names, and whose address the others know
        launch.read_until("Resumed from run/step-")
        resumed = re.search(r"step-(\d+): (\d+) of 72 steps are done", launch.text.splitlines()[-1])
        assert launch.finish() == 0, launch.text
    assert resumed
    assert int(resumed[1]) == int(resumed[2]) >= 12
    assert int(resumed[1]) < 72, "the kill came too late to prove anything"
    assert launch.text.count("Resumed") == 1
    assert "forcefully exiting" not in launch.text  # the survivor left when it was told to
    assert names_in(tmp_path / "run") == ["lock", "log.jsonl", "step-00000060", "step-00000072"]
    expected = weights_of(uninterrupted[1] / "step-00000072")
    assert not differing(weights_of(tmp_path / "run" / "step-00000072"), expected)


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_one_process_without_torchrun_goes_on_where_two_ranks_were(uninterrupted, tmp_path):
    shutil.copytree(uninterrupted[1], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "step-00000072")
    command = [sys.executable, *SCRIPT, "--accumulate", "2", "--recompute"]
    with launched(command, tmp_path) as launch:
        assert launch.finish() == 0, launch.text
    assert "Resumed from run/step-00000060: 60 of 72 steps are done" in launch.text
    assert "world size 1" in launch.text
    expected = weights_of(uninterrupted[1] / "step-00000072")
    assert not differing(weights_of(tmp_path / "run" / "step-00000072"), expected, atol=1e-5)
    assert differing(weights_of(tmp_path / "run" / "step-00000060"), expected, atol=1e-5)


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_sigterm_lets_all_ranks_finish_the_step_and_save(uninterrupted, tmp_path):
    with launched([*TWO_RANKS, *SCRIPT], tmp_path) as launch:
        launch.read_until("step 12/72")
        launch.process.send_signal(signal.SIGTERM)  # torchrun hands it to its ranks
        assert launch.finish() != 0
    assert launch.text.count("Stopped by SIGTERM.") == 1
    assert "Connection closed" not in launch.text
    last = names_in(tmp_path / "run")[-1]
    step = int(last.removeprefix("step-"))
    assert 12 <= step < 72
    assert f"step {step}/72" in launch.text.split("Stopped")[0]
    command = [*TWO_RANKS, *SCRIPT]
    with launched(command, tmp_path) as launch:
        launch.read_until(f"Resumed from run/{last}")
        assert launch.finish() == 0, launch.text
    expected = weights_of(uninterrupted[1] / "step-00000072")
    assert not differing(weights_of(tmp_path / "run" / "step-00000072"), expected)


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_ctrl_c_ends_one_process_with_its_code_and_a_setting_that_cannot_work_with_a_sentence(tmp_path):
    with launched([sys.executable, *SCRIPT], tmp_path) as launch:
        launch.read_until("step 12/72")
        launch.process.send_signal(signal.SIGINT)
        assert launch.finish() == 128 + signal.SIGINT, launch.text
    assert "Stopped by SIGINT." in launch.text
    with launched([sys.executable, *SCRIPT, "--seed", "1"], tmp_path) as launch:
        assert launch.finish() == 1
    assert "train_fsdp: run/step-" in launch.text
    assert "has --seed 0, this run 1. Give another --out." in launch.text
    assert "Traceback" not in launch.text
