"""The record of a user's nodes: which machines, and how they are reached; every notebook of this user reads it."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from course_lib.base.paths import data_dir, library_folder
from course_lib.cluster.nodes.addresses import address_towards
from course_lib.cluster.nodes.allocation import hosts_of_own_allocation

__all__ = ["VARIABLE", "NodesRecord", "record_path"]

VARIABLE = "COURSE_NODES"
_AGENT = ("-m", "course_lib.cluster.nodes.agent_process")
# ssh asks nothing, and notices within seconds that a machine does not answer any more.
_SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=5",
        "-o", "ConnectTimeout=10")  # fmt: skip
# A task beside those that the job has: it shares their cores, and what it says is passed on as it comes.
_SRUN = ("srun", "--overlap", "--nodes=1", "--ntasks=1", "--unbuffered", "--export=ALL")


@dataclass(frozen=True)
class NodesRecord:
    """``hosts`` in the order of their nodes. ``address``: this machine, as the hosts reach it.

    ``python`` and ``clone``: the Python there, and the folder of the course. ``starter``: what starts an agent there,
    "ssh", "srun" within an allocation of Slurm, or "here", where all are this machine. ``job``: the allocation that
    `course nodes up` asked for; 0: that of the notebook.
    """

    hosts: tuple[str, ...]
    address: str
    python: str = sys.executable
    clone: str = field(default_factory=lambda: str(library_folder()))
    ssh_options: tuple[str, ...] = ()
    starter: str = "ssh"
    job: int = 0

    def command(self, host: str) -> tuple[list[str], Mapping[str, str] | None]:
        """The words that start an agent there, and their environment."""
        words = [self.python, *_AGENT]
        if self.starter == "here":
            return words, {**os.environ, "PYTHONPATH": self.clone}
        if self.starter == "srun":
            of_job = [f"--jobid={self.job}"] if self.job else []
            return [*_SRUN, *of_job, f"--nodelist={host}", *words], {**os.environ, "PYTHONPATH": self.clone}
        return [*_SSH, *self.ssh_options, host, shlex.join(["env", f"PYTHONPATH={self.clone}", *words])], None

    @classmethod
    def of_allocation(cls) -> NodesRecord | None:
        """The nodes of the Slurm allocation that this process is in, where it has several and srun is here."""
        hosts = hosts_of_own_allocation()
        return cls(hosts, address_towards(hosts[-1]), starter="srun") if len(hosts) > 1 else None

    def write(self, path: Path) -> None:
        named = bool(os.environ.get(VARIABLE))  # then others may have to read it
        path.parent.mkdir(mode=0o755 if named else 0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        draft.chmod(0o644)  # an instructor writes it for a learner; nobody else changes what is run there
        os.replace(draft, path)

    @classmethod
    def current(cls) -> NodesRecord | None:
        """What counts for a notebook that begins here: none where ``COURSE_NODES`` is off, a record, an allocation.

        Raises:
            ValueError: The file is not what `course nodes up` writes.
        """
        if os.environ.get(VARIABLE) == "off":
            return None
        return cls.read(record_path()) or cls.of_allocation()

    @classmethod
    def read(cls, path: Path) -> NodesRecord | None:
        """The record, or None where there is none.

        Raises:
            ValueError: The file is not what `course nodes up` writes, or every user of this machine may change it.
        """
        try:
            if os.name == "posix" and path.stat().st_mode & stat.S_IWOTH:
                raise ValueError(f"every user may change it, and it says what is run as you: `chmod o-w {path}`")
            found = json.loads(path.read_text(encoding="utf-8"))
            address, python, clone, starter = (str(found[name]) for name in ("address", "python", "clone", "starter"))
            hosts, ssh_options = (tuple(map(str, found[name])) for name in ("hosts", "ssh_options"))
            return cls(hosts, address, python, clone, ssh_options, starter, int(found.get("job", 0)))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{path} is no record of nodes ({type(error).__name__}: {error}). "
                "`course nodes down` removes it, `course nodes up` writes a new one."
            ) from None


def record_path() -> Path:
    """Where the record lies: where ``COURSE_NODES`` says, else among this user's own files."""
    named = os.environ.get(VARIABLE, "")
    return Path(named) if named not in ("", "off") else data_dir() / "nodes" / "up.json"
