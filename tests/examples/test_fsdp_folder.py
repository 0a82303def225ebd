"""What the sharded program's folder may hold: whole checkpoints of this run, and of one run at a time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fsdp_runs import differing, everything, prepared, sentence_of_resume

from course_lib.examples.train_fsdp import train
from course_lib.examples.train_fsdp.settings import SettingsError

pytest_plugins = ("fsdp_fixtures",)
pytestmark = [
    pytest.mark.xdist_group("example_train_fsdp"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]


@pytest.mark.long
def test_damage_is_found_and_the_way_on_is_told(clusters, stopped_fsdp_run, tmp_path):
    path = tmp_path / "run" / "step-00000003"

    def spoil_byte():
        content = bytearray((path / "__1_0.distcp").read_bytes())
        content[content.index(b"data/0") + 200] ^= 1
        (path / "__1_0.distcp").write_bytes(content)

    damages = {
        "__1_0.distcp": spoil_byte,
        "__0_0.distcp": lambda: (path / "__0_0.distcp").write_bytes((path / "__0_0.distcp").read_bytes()[:-500]),
        "__1_0.distcp is missing": (path / "__1_0.distcp").unlink,
        ".metadata is missing": (path / ".metadata").unlink,
        ".metadata": lambda: (path / ".metadata").write_bytes(b"nothing"),
    }
    for words, damage in damages.items():
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(stopped_fsdp_run[0], tmp_path / "run")
        damage()
        for answer in clusters(2).run(sentence_of_resume, f"--out {tmp_path / 'run'}"):
            assert answer.startswith(f"SettingsError: {path} is damaged ({words}"), answer
            assert "Remove it, and the run goes on from the checkpoint before" in answer
    shutil.rmtree(path)
    assert list(clusters(2).run(sentence_of_resume, f"--out {tmp_path / 'run'}")) == ["resumed"] * 2


@pytest.mark.long
def test_checkpoints_of_other_runs(clusters, stopped_fsdp_run, tmp_path):
    for words, sentence in {
        "--log-every 3 --accumulate 2 --bf16": "resumed",
        "--weight-decay 0.5": "step-00000003 has --weight-decay 0.1, this run 0.5. Give another --out.",
        "--layers 2": "step-00000003 has --layers 1, this run 2. Give another --out.",
        "--width 8": "has --width 6, this run 8",
        "--heads 3": "has --heads 2, this run 3",
        "--batch-size 4": "has --batch-size 8, this run 4",
        "--seed 1": "has --seed 0, this run 1",
        "--steps 90": "has --steps 6, this run 90",
        f"--data {__file__}": f"this run {Path(__file__).stat().st_size}. Give another",
    }.items():
        for answer in clusters(2).run(sentence_of_resume, f"{words} --out {stopped_fsdp_run[0]}"):
            assert sentence in answer
    shutil.copytree(stopped_fsdp_run[0], tmp_path / "run")
    for content in (None, "{}", '{"step": "x", "must_match": {}}', "[1]", "not json"):
        about = tmp_path / "run" / "step-00000003" / "about.json"
        about.unlink() if content is None else about.write_text(content)
        (answer, _) = clusters(2).run(sentence_of_resume, f"--out {tmp_path / 'run'}")
        assert "step-00000003 is a checkpoint of something else, or was changed." in answer
        about.write_text("")


def test_what_dcp_cannot_load_is_a_sentence_too(clusters, stopped_fsdp_run):
    def load(me, path):
        training = prepared(me, "--layers 2")
        before = everything(training)
        try:
            training.state.load(path)
        except RuntimeError as error:
            return str(error), differing(before, everything(training))

    for answer, changed in clusters(2).run(load, stopped_fsdp_run[0] / "step-00000003"):
        assert "step-00000003 could not be loaded: rank 0: Missing key in checkpoint" in answer
        assert "Traceback" not in answer
        assert changed == []


# -- the folder -----------------------------------------------------------------------------------------------------


def test_a_folder_that_another_rank_does_not_see(clusters, tmp_path):
    def start(me):
        return sentence_of_resume(me, f"--out {tmp_path / ('other' if me.rank else 'run')}")

    for answer in clusters(2).run(start):
        assert answer.startswith(f"SettingsError: --out {tmp_path}")
        assert "is not the same folder for rank 1 as for rank 0" in answer
        assert "give a folder on a disk that all machines share" in answer


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a+")
fcntl.lockf(file, fcntl.LOCK_EX)
file.write("process 7 on elsewhere")
file.flush()
print("held", flush=True)
sys.stdin.read()
"""


def test_two_runs_do_not_share_a_folder_and_a_dead_one_does_not_hold_it(clusters, tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        for answer in clusters(2).run(sentence_of_resume, f"--out {tmp_path}"):
            assert f"--out {tmp_path} is in use by process 7 on elsewhere. End that run, or give another" in answer
        holder.kill()
    assert list(clusters(2).run(sentence_of_resume, f"--out {tmp_path}")) == ["resumed"] * 2


def test_a_file_in_the_place_of_the_folder(clusters, tmp_path):
    (tmp_path / "run").write_text("")
    for answer in clusters(2).run(sentence_of_resume, f"--out {tmp_path / 'run'}"):
        assert answer == f"SettingsError: --out {tmp_path / 'run'} cannot be written to: File exists."


# -- what ranks must have in common -----------------------------------------------------------------------------------


def test_a_machine_with_another_text(clusters, tmp_path):
    for rank, num_bytes in enumerate((300, 301)):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "text.txt").write_bytes(b"a" * num_bytes)

    def start(me):
        os.chdir(tmp_path / str(me.rank))
        return sentence_of_resume(me, "--data text.txt")

    for answer in clusters(2).run(start):
        assert answer == (
            "SettingsError: --data text.txt has 300 bytes for rank 0 and 301 for rank 1. Every machine needs the same "
            "text."
        )


@pytest.mark.parametrize(("rank", "said"), [("0", "train_fsdp: no"), ("3", "train_fsdp, rank 3: no")])
def test_a_rank_that_alone_finds_a_setting_wrong_says_so_too(monkeypatch, rank, said):
    def refuse(device):
        raise SettingsError("no")

    slept = []
    monkeypatch.setattr(train, "set_up", refuse)
    monkeypatch.setattr(sys, "argv", ["train_fsdp"])
    monkeypatch.setattr(train.time, "sleep", slept.append)
    monkeypatch.setenv("RANK", rank)
    with pytest.raises(SystemExit) as ended:
        train.main()
    assert ended.value.code == said
    assert bool(slept) == (rank != "0")  # torchrun ends it meanwhile, if rank 0 said the same
