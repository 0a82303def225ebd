"""An allocation of Slurm: asked for, found by who is in it, and given back. Slurm's own commands do all of it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO

__all__ = ["allocate", "hosts_of_own_allocation", "release"]

_TAKEN_BACK_S = 10.0  # salloc, interrupted, has to tell the controller
_GRANTED = re.compile(r"Granted job allocation (\d+)")


def allocate(nodes: int, *, gpus_per_node: int = 0, options: Sequence[str] = ()) -> tuple[int, tuple[str, ...]]:
    """Ask Slurm for nodes, and wait until it gives them: the number of the job, and its hosts.

    Raises:
        ValueError: Slurm is not here, or gave none; in its own words.
    """
    if shutil.which("salloc") is None:
        raise ValueError(
            "salloc is not on this machine: use --slurm on a machine of the cluster, such as its login node"
        )
    gpus = [f"--gpus-per-node={gpus_per_node}"] if gpus_per_node else []
    job = _granted(["salloc", "--no-shell", f"--nodes={nodes}", *gpus, *options])
    told = subprocess.run(["squeue", "--noheader", f"--jobs={job}", "--format=%N"], capture_output=True, text=True)
    hosts = _host_names(told.stdout.strip())
    if not hosts:
        release(job)
        raise ValueError(f"Slurm did not name the nodes of job {job}: {_last_line(told.stderr) or 'squeue was silent'}")
    return job, hosts


def _granted(command: Sequence[str]) -> int:
    """The number of the job; where this is interrupted, salloc takes the question back, or we give the nodes back."""
    with tempfile.TemporaryFile() as said:
        asked = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
        try:
            asked.wait()
        except KeyboardInterrupt:
            asked.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                asked.wait(_TAKEN_BACK_S)
            if granted := _GRANTED.search(_text(said)):
                release(int(granted[1]))
            raise
        text = _text(said)
    granted = _GRANTED.search(text)
    if asked.returncode != 0 or granted is None:
        if granted is not None:
            release(int(granted[1]))
        raise ValueError(f"Slurm gave no nodes: {_last_line(text) or 'it did not say why'}")
    return int(granted[1])


def _text(said: IO[bytes]) -> str:
    return os.pread(said.fileno(), 1 << 16, 0).decode(errors="replace")


def release(job: int) -> None:
    """Give the nodes of a job back. One that is over by now is no error."""
    subprocess.run(["scancel", str(job)], capture_output=True)


def hosts_of_own_allocation() -> tuple[str, ...]:
    """The hosts of the allocation that this process is in; none where it is in none, or srun is not here."""
    nodes = os.environ.get("SLURM_JOB_NODELIST", "")
    if not nodes or os.environ.get("SLURM_JOB_NUM_NODES", "1") == "1" or shutil.which("srun") is None:
        return ()
    return _host_names(nodes)


def _host_names(nodes: str) -> tuple[str, ...]:
    """``n[1-2]`` in single names."""
    if not nodes:
        return ()
    told = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True)
    return tuple(told.stdout.split())


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
