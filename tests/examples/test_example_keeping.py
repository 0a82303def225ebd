"""What a run of the program keeps: whole files or none, one run to a folder, and words for what goes wrong."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_lib.examples.train_ddp.keeping import RunFolder
from course_lib.examples.train_ddp.settings import SettingsError

pytestmark = pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning")

STATE = {"model": {"weight": torch.arange(1000.0)}, "epoch": 3}


def in_folder(me, path, action):
    """The words of the error that ``action`` on the run's folder raised, or what it returned."""
    try:
        return action(RunFolder(me, path))
    except (SettingsError, RuntimeError) as error:
        return str(error)


def test_what_one_rank_saved_every_rank_loads(cluster2, tmp_path):
    def both(folder):
        assert folder.load("last.pt") is None
        folder.save("last.pt", STATE if folder.me.rank == 0 else {})
        folder.note(step=3, loss=0.5)
        return folder.load("last.pt")

    for state in cluster2.run(in_folder, tmp_path / "deep" / "run", both):
        assert torch.equal(state["model"]["weight"], STATE["model"]["weight"])
    assert (tmp_path / "deep/run/log.jsonl").read_text() == '{"step": 3, "loss": 0.5}\n'
    assert sorted(file.name for file in (tmp_path / "deep/run").iterdir()) == ["last.pt", "lock", "log.jsonl"]


def test_nothing_is_kept_without_a_folder(cluster2):
    def both(folder):
        folder.save("last.pt", STATE)
        folder.note(step=3)
        return folder.load("last.pt")

    assert list(cluster2.run(in_folder, None, both)) == [None, None]


def test_a_full_disk_is_called_so_and_the_old_file_stays(cluster2, tmp_path):
    def both(folder):
        folder.save("last.pt", STATE)

        def full(descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        whole, os.fsync = os.fsync, full
        try:
            folder.save("last.pt", {"model": {}})
        finally:
            os.fsync = whole

    for answer in cluster2.run(in_folder, tmp_path, both):
        assert "last.pt could not be written: No space left on device; the one that was there is untouched." in answer
    assert torch.load(tmp_path / "last.pt")["epoch"] == 3
    assert not list(tmp_path.glob("*.draft"))


def test_a_spoilt_byte_is_found(cluster2, tmp_path):
    def save(folder):
        folder.save("last.pt", STATE)

    cluster2.run(in_folder, tmp_path, save)
    content = bytearray((tmp_path / "last.pt").read_bytes())
    content[len(content) // 2] ^= 1  # within the tensor: torch.load would not notice
    (tmp_path / "last.pt").write_bytes(content)
    assert torch.load(tmp_path / "last.pt")["epoch"] == 3
    for answer in cluster2.run(in_folder, tmp_path, lambda folder: folder.load("last.pt")):
        assert "last.pt is no checkpoint, or was cut off, or damaged" in answer


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a+")
fcntl.lockf(file, fcntl.LOCK_EX)
file.write("process 7 on elsewhere")
file.flush()
print("held", flush=True)
sys.stdin.read()
"""


def test_two_runs_do_not_share_a_folder_and_a_dead_one_does_not_hold_it(cluster2, tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        for answer in cluster2.run(in_folder, tmp_path, lambda folder: "opened"):
            assert (
                answer == f"--out {tmp_path} is in use by process 7 on elsewhere. End that run, or give another folder."
            )
        holder.kill()
    assert list(cluster2.run(in_folder, tmp_path, lambda folder: "opened")) == ["opened", "opened"]


def test_a_file_in_the_place_of_the_folder(cluster2, tmp_path):
    path: Path = tmp_path / "run"
    path.write_text("")
    for answer in cluster2.run(in_folder, path, lambda folder: "opened"):
        assert answer == f"--out {path} cannot be written to: File exists."
