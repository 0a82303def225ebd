"""Nodes of Slurm, by programs that stand in for it: asked for, found, and given back."""

from __future__ import annotations

import os

import pytest

from course_lib.cluster.nodes.command import main
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.limit_s(400.0)]


def test_an_allocation_of_slurm_is_found(tmp_path, monkeypatch):
    for name, says in (("srun", ""), ("scontrol", "echo localhost; echo localhost")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert NodesRecord.of_allocation() is None
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    assert NodesRecord.of_allocation() is None
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    record = NodesRecord.of_allocation()
    assert (record.hosts, record.address, record.starter) == (("localhost", "localhost"), "127.0.0.1", "srun")
    words, env = record.command("n2")
    assert words[0] == "srun"
    assert "--nodelist=n2" in words
    assert env["PYTHONPATH"] == record.clone
    (tmp_path / "srun").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert NodesRecord.of_allocation() is None, "an allocation that nothing here can reach"


def stand_ins(folder, monkeypatch, **programs):
    """Programs of these names, first on the PATH; each writes its words into ``folder``/words."""
    for name, says in programs.items():
        (folder / name).write_text(f'#!/bin/sh\necho "$(basename "$0") $@" >> {folder}/words\n{says}\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv(VARIABLE, str(folder / "up.json"))


GRANTED = "echo 'salloc: Granted job allocation 42' >&2"


NAMED = {"salloc": GRANTED, "squeue": "echo n1", "scontrol": "echo localhost"}


AS_HERE = 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"'  # srun's own words, then what it starts


def test_nodes_are_asked_of_slurm_and_given_back(tmp_path, monkeypatch, capfd):
    names = "echo localhost; echo localhost"
    stand_ins(tmp_path, monkeypatch, salloc=GRANTED, squeue="echo n[1-2]", scontrol=names, scancel="", srun=AS_HERE)
    assert main(["up", "--slurm", "--gpus-per-node", "4", "--slurm-option=--partition=short"]) == 0
    said = capfd.readouterr().out
    assert "Slurm is asked for 2 nodes" in said
    assert "job 42: localhost, localhost" in said
    record = NodesRecord.read(tmp_path / "up.json")
    assert (record.starter, record.job) == ("srun", 42)
    assert "--jobid=42" in record.command("localhost")[0]
    words = (tmp_path / "words").read_text().splitlines()
    assert words[0] == "salloc --no-shell --nodes=2 --gpus-per-node=4 --partition=short"
    assert not [line for line in words if line.startswith("scancel")]
    assert main(["down"]) == 0
    assert (tmp_path / "words").read_text().splitlines()[-1] == "scancel 42"
    assert not (tmp_path / "up.json").exists()


@pytest.mark.parametrize(
    ("programs", "words", "told", "is_given_back"),
    [
        ({"salloc": "echo 'salloc: error: why' >&2; exit 1"}, [], "Slurm gave no nodes: salloc: error: why", 0),
        ({"salloc": "exit 1"}, [], "Slurm gave no nodes: it did not say why", 0),
        ({"salloc": f"{GRANTED}; echo 'salloc: no more' >&2; exit 1"}, [], "gave no nodes: salloc: no more", 1),
        ({"salloc": GRANTED, "squeue": ""}, [], "did not name the nodes of job 42", 1),
        (NAMED | {"scontrol": "echo no.such.host.here"}, [], "cannot be reached from here", 1),
        (NAMED | {"srun": "echo 'srun: error: no' >&2; exit 1"}, [], "srun: error: no", 1),
        ({"salloc": GRANTED}, ["--nodes", "0"], "--nodes 0 must be at least 1; use 2", 0),
        ({"salloc": GRANTED}, ["--gpus-per-node=-1"], "--gpus-per-node -1 must be at least 0", 0),
    ],
)  # fmt: skip
def test_slurm_that_gives_none_is_told_and_what_it_gave_goes_back(
    tmp_path, monkeypatch, capfd, programs, words, told, is_given_back
):
    stand_ins(tmp_path, monkeypatch, scancel="", **programs)
    assert main(["up", "--slurm", *words]) == 1
    assert told in capfd.readouterr().err
    asked = (tmp_path / "words").read_text() if (tmp_path / "words").exists() else ""
    assert asked.count("scancel 42") == is_given_back
    assert not (tmp_path / "up.json").exists()


def test_what_is_for_slurm_alone_is_told(tmp_path, monkeypatch, capsys):
    stand_ins(tmp_path, monkeypatch)
    assert main(["up", "--local", "2", "--nodes", "3"]) == 1
    assert "--nodes 3 is for --slurm" in capsys.readouterr().err
    for words, told in (
        (["--hosts", "a,b", "--slurm-option=--time=5"], "--slurm-option=--time=5 is for --slurm"),
        (["--local", "2", "--slurm-option=--time=5"], "--slurm-option=--time=5 is for --slurm"),
        (["--slurm", "--ssh-option=-p22"], "--ssh-option=-p22 is for --hosts"),
    ):
        assert main(["up", *words]) == 1
        assert told in capsys.readouterr().err
    assert not (tmp_path / "words").exists(), "Slurm was asked for nothing"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["up", "--slurm"]) == 1
    assert "salloc is not on this machine" in capsys.readouterr().err


def test_an_interrupt_takes_the_question_to_slurm_back(tmp_path, monkeypatch):
    from course_lib.cluster.nodes import allocation

    takes_back = f"trap 'echo taken back >> {tmp_path}/words; exit 1' INT"
    asks = f"{takes_back}; {GRANTED}; kill -INT $PPID; while :; do sleep 0.1; done"
    stand_ins(tmp_path, monkeypatch, salloc=asks, scancel="")
    with pytest.raises(KeyboardInterrupt):
        allocation.allocate(2)
    assert "taken back" in (tmp_path / "words").read_text()
    assert (tmp_path / "words").read_text().splitlines()[-1] == "scancel 42"
