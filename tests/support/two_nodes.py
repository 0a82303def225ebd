"""Two nodes on one machine: network namespaces joined by a veth pair, each with an sshd, /tmp and /dev/shm of its own.

Needs root, iproute2, util-linux and openssh-server. Everything lies in one temporary folder and in processes that
``close`` ends. What the nodes share of the disk: the system, and the folders named in ``share``.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil
from cable import INTERFACE, Cable
from waiting import wait_until

ADDRESS = ("10.78.0.1", "10.78.0.2")
NAMES = ("node0", "node1")
_OWN_FOLDERS = """set -e
mount --make-rprivate /
mount --bind "$1/hosts" /etc/hosts
hostname "$2"
mkdir -p /mnt && mount -t tmpfs own /mnt && chmod 1777 /mnt
for path in "$1" $3; do case "$path" in /tmp/*)
  mkdir -p "/mnt/${path#/tmp/}" && mount --bind "$path" "/mnt/${path#/tmp/}";;
esac; done
mount --move /mnt /tmp
mount -t tmpfs own /dev/shm && chmod 1777 /dev/shm
exec sleep 100000
"""


class TwoNodes:
    """``share``: folders below /tmp that both nodes see (a clone, virtual environments).

    ``rate_mbit``: no more passes the cable in a second, each way; None is as much as this machine can. ``delay_ms``: a
    wish, which not every kernel fulfils; afterwards what there is.
    """

    def __init__(
        self, share: Sequence[str | Path] = (), *, rate_mbit: float | None = None, delay_ms: float = 0.0
    ) -> None:
        self.share = share
        self.folder = Path(tempfile.mkdtemp(prefix="two-nodes-"))
        self.folder.chmod(0o755)
        hosts = "127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for a, n in zip(ADDRESS, NAMES, strict=True))
        (self.folder / "hosts").write_text(hosts)
        (self.folder / "own.sh").write_text(_OWN_FOLDERS)
        self.holders, self.sshds = [], []
        try:
            self._make(rate_mbit, delay_ms)
        except BaseException:
            self.close()
            raise

    def _make(self, rate_mbit: float | None, delay_ms: float) -> None:
        for name in NAMES:
            words = [
                "unshare",
                "--net",
                "--mount",
                "--uts",
                "bash",
                str(self.folder / "own.sh"),
                str(self.folder),
                name,
            ]
            self.holders.append(subprocess.Popen([*words, " ".join(map(str, self.share))]))
        wait_until(lambda: all(_program(holder.pid) == "sleep" for holder in self.holders), "nodes with own folders")
        first, second = (str(holder.pid) for holder in self.holders)
        _run("ip", "link", "add", f"two0-{first}", "type", "veth", "peer", "name", f"two1-{first}")
        for number, (pid, address) in enumerate(zip((first, second), ADDRESS, strict=True)):
            _run("ip", "link", "set", f"two{number}-{first}", "netns", pid, "name", INTERFACE)
            for words in (
                f"addr add {address}/24 dev {INTERFACE}",
                f"link set {INTERFACE} up",
                "link set lo up",
            ):
                self.check(number, "ip", *words.split())
        self.delay_ms = 0.0 if rate_mbit is None else self.cable.shape(rate_mbit, delay_ms)
        self._start_sshds()

    def _start_sshds(self) -> None:
        key = self.folder / "key"
        for path in (key, self.folder / "host_key"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
        shutil.copy(f"{key}.pub", self.folder / "authorized_keys")
        settings = {
            "HostKey": self.folder / "host_key", "AuthorizedKeysFile": self.folder / "authorized_keys",
            "PasswordAuthentication": "no", "UsePAM": "no", "StrictModes": "no", "PermitRootLogin": "yes",
            "PidFile": "none", "Subsystem": "sftp internal-sftp",
        }  # fmt: skip
        os.makedirs("/run/sshd", exist_ok=True)
        for number, address in enumerate(ADDRESS):
            path = self.folder / f"sshd{number}"
            path.write_text("".join(f"{k} {v}\n" for k, v in settings.items()) + f"ListenAddress {address}\n")
            self.sshds.append(self.popen(number, shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-f", str(path)))
        known = (self.folder / "host_key.pub").read_text()
        (self.folder / "known").write_text("".join(f"{n},{a} {known}" for n, a in zip(NAMES, ADDRESS, strict=True)))
        (self.folder / "ssh_config").write_text(
            f"Host *\n IdentityFile {key}\n UserKnownHostsFile {self.folder / 'known'}\n BatchMode yes\n"
            " LogLevel ERROR\n HashKnownHosts no\n"
        )

    @property
    def ssh(self) -> list[str]:
        """``ssh`` with the keys of these nodes; a node's name comes behind it."""
        return ["ssh", "-F", str(self.folder / "ssh_config")]

    def within(self, node: int, *command: str) -> list[str]:
        """The command, as it is run on a node."""
        return ["nsenter", "--net", "--mount", "--uts", "--target", str(self.holders[node].pid), "--", *command]

    def popen(self, node: int, *command: str, **options: object) -> subprocess.Popen[str]:
        return subprocess.Popen(self.within(node, *command), text=True, **options)  # type: ignore[call-overload]

    def check(self, node: int, *command: str) -> str:
        return subprocess.run(self.within(node, *command), check=True, capture_output=True, text=True).stdout

    def cut(self, *, back: bool = False) -> None:
        """Take the second node's interface down, or (``back``) up again."""
        self.check(1, "ip", "link", "set", INTERFACE, "up" if back else "down")

    @property
    def cable(self) -> Cable:
        """What is between the nodes, for a program on one of them."""
        return Cable(tuple(holder.pid for holder in self.holders))

    def processes(self, node: int) -> list[psutil.Process]:
        """All processes in a node's network, but for its sshd and what holds its namespaces."""
        network = _network(self.holders[node].pid)
        if network in ("", _network(os.getpid())):  # it has none of its own, and this machine's are not its processes
            return []
        ours = {p.pid for p in (self.holders[node], *self.sshds[node : node + 1])}
        found = []
        for process in psutil.process_iter():
            if process.pid not in ours and _network(process.pid) == network:
                found.append(process)
        return found

    def left(self, node: int) -> dict[str, list[str]]:
        """What is on a node now: processes, files of /tmp and /dev/shm, sockets that listen."""
        known = shlex.quote(str(self.folder))
        shared = " ".join(f"-path {shlex.quote(str(path))} -prune -o" for path in (self.folder, *self.share))
        find = f"find /tmp /dev/shm -mindepth 1 -maxdepth 3 {shared} -newer {known}/key -print"
        listens = self.check(node, "ss", "-Hltnp").splitlines()
        return {
            "processes": sorted(_words(process) for process in self.processes(node)),
            "files": self.check(node, "bash", "-c", f"{find} | grep -v '^/tmp/[a-z]*$' | head -40").splitlines(),
            "listens": [" ".join(line.split()[3:4] + line.split()[5:]) for line in listens if "sshd" not in line],
        }

    def end_processes(self, node: int) -> None:
        """A node that loses its power: SIGKILL to all its processes at once."""
        for process in self.processes(node):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)

    def close(self) -> None:
        for node, _ in enumerate(self.holders):
            self.end_processes(node)
        for process in (*self.sshds, *self.holders):
            process.kill()
            process.wait()
        for holder in self.holders[:1]:  # a cable that has not come to a node yet; any other went with its node
            subprocess.run(["ip", "link", "del", f"two0-{holder.pid}"], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> TwoNodes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _network(pid: int) -> str:
    """The network namespace of a process; empty where it has gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _program(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:120] or process.name()
    except psutil.Error:
        return "(gone)"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
