"""Strangers' jobs under ``torchrun``, on two nodes, with the instruments: bytes by the formula, a hang told."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).parent / "jobs"
QUIET = ("OMP_NUM_THREADS", "****")


def torchrun(job: str, *args: str, nodes: int = 2, ranks_per_node: int = 2) -> tuple[list[int], str]:
    """Exit codes of the nodes' agents, and all that was printed."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks_per_node}", f"--nnodes={nodes}"]
    command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=own"]
    agents = [
        subprocess.Popen(
            [*command, str(JOBS / f"{job}.py"), *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(nodes)
    ]
    try:
        texts = [agent.communicate(timeout=300)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    return [agent.returncode for agent in agents], "\n".join(texts)


def line_of(name: str, text: str) -> list[int]:
    (found,) = re.findall(rf"^{name} (.*)$", text, re.M)
    return [int(word) for word in found.split()]


@pytest.mark.parametrize(
    ("job", "ranks_per_node"),
    [("ddp", 1), *((job, 2) for job in ("ddp", "fsdp", "pipeline", "mesh"))],
)
@pytest.mark.long
@pytest.mark.limit_s(400)
def test_what_a_job_sends_is_what_the_formula_says(job, ranks_per_node):
    codes, text = torchrun(job, ranks_per_node=ranks_per_node)
    assert codes == [0, 0], text
    counted, formula = line_of("counted", text), line_of("formula", text)
    assert counted == formula * (len(counted) // len(formula)), text
    assert len(counted) == 2 * ranks_per_node
    assert re.search(r"in all [\d.]+ ", text), text
    for rank in range(1, len(counted)):
        assert job != "ddp" or f"alone {rank}: {formula[0]}" in text  # each other rank has its own


@pytest.mark.parametrize(
    ("nodes", "ranks_per_node"), [(1, 2), *(pytest.param(2, ranks, marks=pytest.mark.long) for ranks in (1, 2))]
)
@pytest.mark.limit_s(400)
def test_a_hang_is_told_with_the_rank_that_never_came(tmp_path, nodes, ranks_per_node):
    codes, text = torchrun("hang", str(tmp_path), nodes=nodes, ranks_per_node=ranks_per_node)
    assert codes != [0] * nodes  # rank 1 ends the job once the story is there
    story = (tmp_path / "hang.txt").read_text()
    assert story.startswith("watchdog: for 2 s no communication has begun or ended"), story
    assert re.search(r"^  rank 1  runs on, at hang.py, line \d+, in train$", story, re.M), story
    assert re.search(r"^  rank 0  (waits in|has not finished) \w+ #\d+.*in train$", story, re.M), story
    assert re.search(r"^Ranks? .*\b1\b.* never called", story, re.M), story
    assert story in text
    assert (tmp_path / "stack_0.txt").exists()
