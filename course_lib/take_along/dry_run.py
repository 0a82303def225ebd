"""Dry runs: what a launch script would start on which node, found by running it with stand-ins for the cluster.

The script itself runs, line by line, in bash. What it says to ``torchrun`` is then read by torchrun's own parser.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.base.checked import checked
from course_lib.base.paths import course_file
from course_lib.take_along.sbatch import read_sbatch
from course_lib.take_along.stand_ins import write_long_job, write_stand_ins

__all__ = ["Agent", "DryRun", "dry_run_limit", "dry_run_sbatch", "dry_run_ssh", "launch_file"]

_LIMIT_S = 60
_GONE = "srun ended without a signal to the ranks, so they did not save"


@dataclass(frozen=True)
class Agent:
    """One torchrun that the script would start: on which host, with which words and which environment."""

    host: str
    words: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def read(self) -> argparse.Namespace:
        """The words, read by torchrun's own parser; ``ValueError`` with its sentence for words that it refuses."""
        from torch.distributed.run import get_args_parser

        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                return get_args_parser().parse_args(list(self.words))
        except SystemExit as error:
            last = said.getvalue().strip().splitlines()[-1:] or ["no reason given"]
            why = last[0].rpartition("error: ")[2]
            raise ValueError(f"torchrun refuses {shlex.join(self.words)}: {why}") from error

    @property
    def num_ranks(self) -> int:
        """Ranks that it would start on its host."""
        return int(self.read.nproc_per_node)

    def __str__(self) -> str:
        return f"{self.host}: torchrun {shlex.join(self.words)}"


@dataclass(frozen=True)
class DryRun:
    """All agents that a script would start, in the order of its nodes; what it printed, and how it ended."""

    agents: tuple[Agent, ...]
    text: str
    exit_code: int

    @property
    def num_ranks(self) -> int:
        return sum(agent.num_ranks for agent in self.agents)

    def __str__(self) -> str:
        return "\n".join(map(str, self.agents)) or "no torchrun would start"


@checked
def launch_file(name: str) -> Path:
    """A file of ``course_lib/examples/launch``; ``ValueError`` with the names that there are for another name."""
    folder = course_file("course_lib/examples/launch")
    known = sorted(path.name for path in folder.iterdir() if path.suffix in (".sbatch", ".sh", ".yaml"))
    if name not in known:
        raise ValueError(f"{name!r} is none of the launch files: {', '.join(known)}")
    return folder / name


@checked
def dry_run_sbatch(script: str, program: Sequence[str], *, job_id: int = 4711) -> DryRun:
    """What ``sbatch SCRIPT PROGRAM...`` would start, as the ``#SBATCH`` lines of the text ``script`` ask for nodes.

    Nodes are called node1, node2 ... The variables that Slurm sets are those of a job with all it has asked for.
    """
    slurm = _slurm_variables(script, job_id)
    return _run(script, program, slurm, lambda environment: environment["SLURMD_NODENAME"])


@checked
def dry_run_limit(script: str) -> tuple[str, ...]:
    """What happens to a job of this script when its time is nearly up, line by line.

    As soon as the step runs, the script gets SIGUSR1, as ``#SBATCH --signal=B:USR1@300`` asks for.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_long_job(folder)
        done, notes = _bash(script, ["train.py"], _slurm_variables(script, 4711), folder)
        said = [line.replace(f"{folder}{os.sep}", "") for line in done.stdout.splitlines() if line.strip()]
        if notes.with_name("notes.step").exists():
            said += notes.read_text().splitlines() if notes.exists() else [_GONE]
        else:
            said.append("srun was not called: nothing runs")
        said.append(f"the script ends with exit code {done.returncode}")
        asked = notes.with_name("notes.scontrol")
        requeued = asked.exists() and "requeue 4711" in asked.read_text()
    said.append("the job waits in line again" if requeued else "the job is over")
    return tuple(said)


def _slurm_variables(script: str, job_id: int) -> dict[str, str]:
    """What Slurm puts into the environment of a job that got all it has asked for."""
    options = read_sbatch(script)
    num_nodes = int(options.get("nodes", "1").partition("-")[0])
    tasks = int(options.get("ntasks-per-node", "1"))
    return {
        "SLURM_JOB_ID": str(job_id),
        # Slurm would write node[1-2]; scontrol makes names of it
        "SLURM_JOB_NODELIST": ",".join(f"node{number + 1}" for number in range(num_nodes)),
        "SLURM_NNODES": str(num_nodes),
        "SLURM_NTASKS_PER_NODE": str(tasks),
        "SLURM_NTASKS": str(num_nodes * tasks),
        "SLURM_GPUS_ON_NODE": options.get("gpus-per-node", "0").rpartition(":")[2],
        "SLURM_CPUS_PER_TASK": options.get("cpus-per-task", "1"),
        "SLURM_RESTART_COUNT": "0",
    }


@checked
def dry_run_ssh(script: str, hosts: Sequence[str], ranks: int, program: Sequence[str]) -> DryRun:
    """What ``./ssh.sh "HOST ..." RANKS PROGRAM...`` would start on each of ``hosts``."""
    if not hosts or not all(hosts):
        raise ValueError(f"hosts={hosts!r} must name at least one host, such as ['ant', 'bee']")
    if ranks < 1:
        raise ValueError(f"ranks={ranks} must be at least 1 on each host; the nearest is 1")
    words = [" ".join(hosts), str(ranks), *program]
    found = _run(script, words, {}, lambda environment: environment["STAND_IN_HOST"])
    in_order = sorted(found.agents, key=lambda agent: list(hosts).index(agent.host))  # they begin at once
    return DryRun(tuple(in_order), found.text, found.exit_code)


def _run(
    script: str,
    words: Sequence[str],
    variables: Mapping[str, str],
    host_of: Callable[[Mapping[str, str]], str],
) -> DryRun:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_stand_ins(folder)
        done, notes = _bash(script, words, variables, folder)
        lines = notes.read_text().splitlines() if notes.exists() else []
    found = [json.loads(line) for line in lines]
    agents = [Agent(host_of(one["environment"]), tuple(one["words"]), one["environment"]) for one in found]
    return DryRun(tuple(agents), done.stdout, done.returncode)


def _bash(
    script: str, words: Sequence[str], variables: Mapping[str, str], folder: Path
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run the script with the programs in ``folder``; how it ended, and where they have noted what they were told."""
    if shutil.which("bash") is None:
        raise RuntimeError("a dry run needs bash, which is not on the PATH; on Windows work within WSL")
    notes = folder / "notes"
    (folder / "script").write_text(script)
    command = ["bash", str(folder / "script"), *words]
    with subprocess.Popen(
        command,
        env={"PATH": f"{folder}{os.pathsep}{os.defpath}", "STAND_IN_NOTES": str(notes), **variables},
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # "kill 0" in a script means its own processes, not the notebook
    ) as bash:
        try:
            text, _ = bash.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise RuntimeError(
                f"the script has not ended within {_LIMIT_S} s, and was ended; does it wait for something that never "
                "comes?"
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(bash.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, bash.returncode, text), notes
