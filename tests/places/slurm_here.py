"""A cluster with Slurm on this machine: munge, a controller, and two nodes, all on loopback and in one folder.

Or each in a network of its own: given :class:`two_nodes.TwoNodes`, the controller and n1 are on the first, n2 is on the
second. Everything listens on ports and sockets of its own, so a Slurm that the machine has already is not met. The
nodes are called n1 and n2. Daemons and jobs see an /etc/hosts in which these names mean their addresses; nobody else
does.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from ends_with_us import end, ends_with_us, processes_with
from two_nodes import ADDRESS, NAMES, TwoNodes
from waiting import holds_in_time, wait_until

from course_lib.authoring.bench.class_of_users.users import User
from course_lib.nodes.ports import free_port

NODES = ("n1", "n2")
LIMIT_S = 300
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "unshare", "setpriv")
_DEVICES = ("/dev/null", "/dev/zero")  # Slurm asks that a GPU is a device, and not which
# That a node says it has, whatever this machine has: enough for course-lab.sbatch.
_CPUS, _MEMORY_MB = 4, 8192


def why_no_slurm() -> str:
    """Why there can be no such cluster here; empty where there can."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        return f"no {missing[0]} here; on Debian: apt-get install slurmctld slurmd slurm-client munge"
    if os.geteuid() != 0:
        return "daemons that start jobs of other users need root"
    own_names = ["unshare", "--mount", "mount", "--bind", "/etc/hosts", "/etc/hosts"]
    if subprocess.run(own_names, capture_output=True).returncode != 0:
        return "the system lets nobody have an /etc/hosts of its own (unshare --mount), and nodes need names"
    return ""


@dataclass
class SlurmHere:
    """A running cluster: its folder, and what a user's commands need to find it; they are told on the first node."""

    folder: Path
    two_nodes: TwoNodes | None = None  # all is on loopback without them
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": _path()}

    def told(self, *command: str, user: User | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """One of Slurm's commands, as a user or as root."""
        who = {"env": dict(os.environ)} if user is None else user.as_them()
        who["env"] = {**who["env"], **self.variables, **variables}
        return subprocess.run(self.on_node(0, command), capture_output=True, text=True, timeout=LIMIT_S, **who)

    def submit(self, user: User, *words: str, **variables: str) -> int:
        """``sbatch`` as the user, in the home; the job's number."""
        done = self.told("sbatch", "--parsable", *words, user=user, **variables)
        assert done.returncode == 0, done.stderr
        return int(done.stdout.split(";")[0])

    def state(self, job: int) -> str:
        """RUNNING, PENDING ... of a job, and what became of it when it is over."""
        said = self.told("scontrol", "show", "job", str(job)).stdout.split()
        return next((word.removeprefix("JobState=") for word in said if word.startswith("JobState=")), "GONE")

    def exit_code(self, job: int, limit_s: float = LIMIT_S) -> str:
        """The exit code and signal ("0:0") of a job, once it is over."""
        wait_until(lambda: self.state(job) not in ("PENDING", "RUNNING", "COMPLETING"), f"end of job {job}", limit_s)
        said = self.told("scontrol", "show", "job", str(job)).stdout.split()
        return next(word.removeprefix("ExitCode=") for word in said if word.startswith("ExitCode="))

    def processes(self) -> list[psutil.Process]:
        """All that daemons and jobs of this cluster have started, by its name in their environment."""
        return processes_with("SLURM_CONF", self.variables["SLURM_CONF"])

    def on_node(self, node: int, command: Sequence[str]) -> list[str]:
        return self.two_nodes.within(node, *command) if self.two_nodes else list(command)

    def start(self, *command: str, node: int = 0) -> None:
        """A daemon in the foreground, which ends with this process however that ends."""
        hosts = 'mount --bind "$HOSTS" /etc/hosts && exec "$@"'
        own_names = ["unshare", "--mount", "--propagation", "private", "sh", "-c", hosts, "sh"]
        with (self.folder / "daemons.txt").open("ab") as said:
            self.daemons.append(
                subprocess.Popen(
                    self.on_node(node, [*own_names, *ends_with_us(command)]),
                    env={**self.variables, "HOSTS": str(self.folder / "hosts"), "LANG": "C.UTF-8"},
                    cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                )
            )  # fmt: skip

    def end(self) -> None:
        """End jobs, then daemons, then whatever is left of them."""
        try:
            for job in self.told("squeue", "--noheader", "--format=%A").stdout.split():
                self.told("scancel", job)
            holds_in_time(lambda: not self.told("squeue", "--noheader").stdout.strip(), 60)
        finally:
            end(self.daemons, self.processes())


@contextlib.contextmanager
def slurm_here(folder: Path, *, gpus: int = 0, two_nodes: TwoNodes | None = None) -> Iterator[SlurmHere]:
    """A cluster in the folder, which everybody can enter; it says that each node has so many GPUs, 2 at most.

    ``two_nodes`` share the folder.
    """
    slurm = SlurmHere(folder, two_nodes)
    _write_settings(folder, gpus, two_nodes)
    try:
        munge = folder / "munge"
        files = [f"--{name}-file={munge / name}" for name in ("key", "pid", "log", "seed")]
        slurm.start("munged", "--foreground", "--force", f"--socket={munge / 'socket'}", *files)
        wait_until((munge / "socket").exists, "munge's socket")
        slurm.start("slurmctld", "-D", "-i")
        for number, node in enumerate(NODES):
            slurm.start("slurmd", "-D", "-N", node, node=number)
        idle = ("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N")
        wait_until(lambda: slurm.told(*idle).stdout.split() == list(NODES), f"two idle nodes; see {folder}")
        yield slurm
    finally:
        slurm.end()


def _write_settings(folder: Path, gpus: int, two_nodes: TwoNodes | None) -> None:
    controller, *of_nodes = [free_port() for _ in range(1 + len(NODES))]
    if two_nodes:
        machines, addresses, hosts = NAMES, ADDRESS, two_nodes.folder / "hosts"
    else:
        machines, addresses, hosts = (socket.gethostname().split(".")[0],) * 2, ("127.0.0.1",) * 2, Path("/etc/hosts")
    of_names = "".join(f"{address} {node}\n" for address, node in zip(addresses, NODES, strict=True))
    (folder / "hosts").write_text(f"{hosts.read_text()}\n{of_names}")
    for name in ("munge", "state", *NODES):
        (folder / name).mkdir()
    (folder / "munge" / "key").write_bytes(os.urandom(128))
    (folder / "munge" / "key").chmod(0o400)
    lines: Mapping[str, object] = {
        "ClusterName": "here",
        "SlurmctldHost": f"{machines[0]}({addresses[0]})",
        "SlurmctldPort": controller,
        "SlurmUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder / 'munge' / 'socket'}",
        "CredType": "cred/munge",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": f"{folder}/%n",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": f"{folder}/%n.pid",
        "SlurmctldLogFile": folder / "slurmctld.log",
        "SlurmdLogFile": f"{folder}/%n.log",
        "ProctrackType": "proctrack/linuxproc",  # without control groups: a container has none to give
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory",
        "SlurmdParameters": "config_overrides",  # the cores that are told, not those that are found
        "SlurmdTimeout": LIMIT_S,  # a node that says nothing for a while is busy, not gone
        "ReturnToService": 2,
        "MpiDefault": "none",
        "SwitchType": "switch/none",
        "KillWait": 10,
        **({"GresTypes": "gpu"} if gpus else {}),
    }
    written = [f"{name}={value}" for name, value in lines.items()]
    has = f"CPUs={_CPUS} RealMemory={_MEMORY_MB}" + (f" Gres=gpu:{gpus}" if gpus else "")
    for node, machine, address, port in zip(NODES, machines, addresses, of_nodes, strict=True):
        written.append(f"NodeName={node} NodeHostname={machine} NodeAddr={address} Port={port} {has}")
    written.append(f"PartitionName=all Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO")
    (folder / "slurm.conf").write_text("\n".join(written) + "\n")
    if gpus:
        (folder / "gres.conf").write_text(f"Name=gpu File={','.join(_DEVICES[:gpus])}\n")
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


if __name__ == "__main__":  # says why there can be none, and with which code
    sys.exit(why_no_slurm() or 0)
