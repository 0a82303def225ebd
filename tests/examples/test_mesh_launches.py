"""The program for any mesh under torchrun, for real: stopped, resumed by one process, with a rank killed, refused."""

from __future__ import annotations

import functools
import json
import re
import signal
import sys

import launches
import pytest
from launches import TORCHRUN, TWO_RANKS

pytestmark = [pytest.mark.xdist_group("example_mesh_launches"), pytest.mark.slow]

SCRIPT = [
    "-m",
    "train_mesh",
    "--device",
    "cpu",
    "--layers",
    "2",
    "--width",
    "16",
    "--heads",
    "2",
    "--context",
    "16",
]
SCRIPT += ["--batch-size", "8", "--accumulate", "2", "--warmup", "2", "--log-every", "2", "--out", "run"]
FOUR_RANKS = [*TORCHRUN, "--standalone", "--nproc-per-node", "4"]
launched = functools.partial(launches.launched, "train_mesh")


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_four_ranks_are_stopped_by_sigterm_and_one_process_without_torchrun_goes_on(tmp_path):
    steps = ["--steps", "60"]
    with launched([*FOUR_RANKS, *SCRIPT, *steps, "--pp", "2", "--tp", "2"], tmp_path) as launch:
        launch.read_until("step 2/60")
        launch.process.send_signal(signal.SIGTERM)  # torchrun hands it to its ranks
        assert launch.finish() != 0
    assert launch.text.count("Stopped by SIGTERM.") == 1
    assert launch.text.count("mesh --dp 1 --shard 1 --pp 2 --tp 2, cpu; rank 0 holds") == 1
    assert "by a measured product of matrices" in launch.text
    assert "Warning" not in launch.text
    saved = re.findall(r"^Saved run/step-(\d{8})$", launch.text, re.MULTILINE)
    assert len(saved) == 1
    assert 2 <= int(saved[0]) < 60

    with launched([sys.executable, *SCRIPT, *steps], tmp_path) as launch:
        assert launch.finish() == 0, launch.text
    assert f"Resumed from run/step-{saved[0]}: {int(saved[0])} of 60 steps are done" in launch.text
    notes = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert notes[-1]["step"] == 60
    assert notes[-1]["loss"] < 0.95 * notes[0]["loss"]
    assert all(note["share_of_peak"] > 0.0 for note in notes)


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_a_killed_rank_costs_the_steps_since_the_checkpoint(tmp_path):
    words = ["--steps", "60", "--save-every", "6", "--dp", "2", "--tp", "2"]
    with launched([*FOUR_RANKS, "--max-restarts", "3", *SCRIPT, *words], tmp_path) as launch:
        launch.read_until("Saved run/step-00000006")
        launch.rank(3).kill()
        launch.read_until("Resumed from run/step-")
        resumed = re.search(r"step-(\d+): ", launch.text.splitlines()[-1])
        assert launch.finish() == 0, launch.text
    assert resumed
    assert 6 <= int(resumed[1]) < 60, "the kill came too late to prove anything"
    assert "step 60/60" in launch.text


@pytest.mark.long
@pytest.mark.limit_s(500)
def test_a_mesh_that_cannot_be_ends_with_a_sentence(tmp_path):
    with launched([*TWO_RANKS, *SCRIPT, "--pp", "2", "--tp", "2"], tmp_path) as launch:
        assert launch.finish() != 0
    assert (
        "train_mesh: The mesh --dp 1 --shard 1 --pp 2 --tp 2 has 4 places, and there are 2 processes. The nearest mesh"
        in launch.text
    )
    assert "train_mesh/train.py" not in launch.text  # no stack; torchrun's own is below
