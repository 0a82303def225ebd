"""Two nodes on this machine for a notebook of the course: whether they can be, and what it needs on the first one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from two_nodes import TwoNodes

from course_lib.base.paths import library_folder, project_root

RATE_MBIT = 1000.0  # of a cable on which no test waits for its bytes
SUPPORT = project_root() / "tests" / "support"
SHARE = [path for path in (*{library_folder(), project_root()}, sys.prefix) if str(path).startswith("/tmp/")]
_PROGRAMS = ("ip", "ss", "tc", "unshare", "nsenter", "ssh", "ssh-keygen", "sshd")
_TRIED = (
    "ip link add try0 type veth peer name try1 && tc qdisc add dev try0 root tbf rate 1mbit burst 10kb latency 50ms"
    " && ip link set try0 up && ip rule add prio 1 iif try0 blackhole"
)


def why_no_nodes() -> str:
    """Why there can be no two nodes with a cable here; empty where there can."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in _PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"no {missing[0]} here; on Debian: apt-get install iproute2 openssh-client openssh-server util-linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    tried = subprocess.run(["unshare", "--net", "--mount", "--uts", "sh", "-c", _TRIED], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"the system gives no network namespaces with a shaped cable: {' '.join(tried.stderr.split())}"
    return ""


def environment(nodes: TwoNodes) -> dict[str, str]:
    """Of a notebook on the first node, with what it keeps in the nodes' folder."""
    nodes.folder.chmod(0o777)
    env = {**os.environ, "PYTHONPATH": f"{library_folder()}:{SUPPORT}", "TMPDIR": "/tmp", "COURSE_SEATS": "off"}
    return env | {"COURSE_HOME": str(nodes.folder), "COURSE_NODES": str(nodes.folder / "up.json")}


def of_the_course(nodes: TwoNodes, node: int) -> list[str]:
    """Its processes there; sshd waits longer for whom it has lost."""
    return [words for words in nodes.left(node)["processes"] if "python" in words]


def folders_of_ranks(nodes: TwoNodes, node: int) -> list[str]:
    """Temporary ones of the course there, which go with the ranks."""
    return [
        path for path in nodes.left(node)["files"] if path.startswith(("/tmp/pymp-", "/tmp/ranks-", "/tmp/.ranks-"))
    ]


if __name__ == "__main__":  # says why there can be none, and with which code
    sys.exit(why_no_nodes() or 0)
