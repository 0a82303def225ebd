"""Networks of the nodes: each a network namespace, joined by a bridge in one more. By the standard library alone.

::

    node 0  eth0 10.77.0.101 --- port0 |        |
                                       | bridge |  in the supervisor's own namespace
    node 1  eth0 10.77.0.102 --- port1 |        |

A namespace lives as long as a process does that is in it: nothing here has a name in the file system, and all of it
vanishes with the supervisor. Root makes them at once; others within a user namespace of their own, where the kernel
allows that.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence

from course_lib.nodes.supervisor import process_tree
from course_lib.nodes.supervisor.counters import INTERFACE

__all__ = [
    "Refused",
    "address",
    "enter",
    "enter_own",
    "make_bridge",
    "make_node",
    "shape_words",
    "tool",
    "try_out",
]

_CLONE_NEWNET, _CLONE_NEWUSER = 0x40000000, 0x10000000
_BRIDGE = "bridge"
_LIMIT_BYTES = 64 << 20  # of what waits at a port: more than a window of TCP, so that nothing is dropped
_LEAST_BURST_BYTES, _MOST_BURST_BYTES = 4_000, 64_000


class Refused(RuntimeError):
    """The system does not let us; the words say what it refused."""


def address(node: int) -> str:
    """Of a node, or (-1) of the bridge. Sorted as texts they come in the order of the nodes, as torchrun sorts."""
    return f"10.77.0.{101 + node}"


def enter_own() -> None:
    """Put this process into a new network namespace; if need be into a user namespace first, where it is root."""
    if _unshare(_CLONE_NEWNET) is None:
        return
    uid, gid = os.getuid(), os.getgid()
    reason = _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
    if reason is not None:
        raise Refused(f"the system allows neither network namespaces nor user namespaces ({reason})")
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError as error:
        raise Refused(f"the system allows no root of one's own in a user namespace ({error.strerror})") from None


def enter(pid: int) -> None:
    """Put this process into the network of another, one that ``make_node`` has made."""
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)


def make_bridge() -> None:
    """In this namespace: loopback, and the bridge, with an address of its own."""
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", _BRIDGE, "type", "bridge")
    _run("ip", "addr", "add", f"{address(-1)}/24", "dev", _BRIDGE)
    _run("ip", "link", "set", _BRIDGE, "up")


def make_node(node: int, shapes: Sequence[Sequence[str]], *, both_ways: bool) -> int:
    """A namespace with a link to the bridge, shaped by ``tc``; the process that keeps it is returned.

    ``both_ways``: what the node receives passes a port of the same speed, which matters where several send to one.
    """
    holder, ready = _hold_namespace()
    if not ready:
        raise Refused("the system makes no network namespace for a node")
    port = f"port{node}"
    _run("ip", "link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", str(holder))
    _run("ip", "link", "set", port, "master", _BRIDGE, "up")
    _run("ip", "link", "set", "lo", "up", within=holder)
    _run("ip", "addr", "add", f"{address(node)}/24", "dev", INTERFACE, within=holder)
    _run("ip", "link", "set", INTERFACE, "up", within=holder)
    for words in shapes:
        _run("tc", "qdisc", "add", "dev", INTERFACE, *words, within=holder)
        if both_ways and "netem" not in words:
            _run("tc", "qdisc", "add", "dev", port, *words)
    return holder


def shape_words(latency_s: float, bytes_per_s: float | None, *, has_netem: bool) -> list[list[str]]:
    """What ``tc qdisc add dev LINK`` is told: a rate by a token bucket (tbf), a delay by netem where there is one."""
    words: list[list[str]] = []
    delay = latency_s > 0 and has_netem
    if bytes_per_s is not None:
        burst = int(min(max(bytes_per_s * 1e-3, _LEAST_BURST_BYTES), _MOST_BURST_BYTES))
        rate = f"{max(1, round(8 * bytes_per_s))}bit"
        words.append(["root", "handle", "1:", "tbf", "rate", rate, "burst", str(burst), "limit", str(_LIMIT_BYTES)])
    if delay:
        handle = ["parent", "1:1", "handle", "10:"] if words else ["root"]
        words.append([*handle, "netem", "delay", f"{latency_s * 1e6:.0f}us", "limit", "100000"])
    return words


def try_out() -> dict[str, object]:
    """In a process that has nothing else to do: make two nodes, and say what could be done, and why not."""
    found: dict[str, object] = {"namespaces": False, "netem": False, "tbf": False, "reason": ""}
    try:
        for name in ("ip", "tc"):
            tool(name)
        enter_own()
        make_bridge()
        holder = make_node(0, [], both_ways=False)
        found["namespaces"] = True
        trials = {
            "tbf": shape_words(0, 1e6, has_netem=False),
            "netem": shape_words(1e-3, None, has_netem=True),
        }
        for kind, words in trials.items():
            found[kind] = _can("tc", "qdisc", "replace", "dev", INTERFACE, *words[0], within=holder)
    except Refused as error:
        found["reason"] = str(error)
    except (OSError, subprocess.SubprocessError) as error:
        found["reason"] = f"the system refused a network namespace ({getattr(error, 'strerror', None) or error})"
    finally:
        process_tree.end_all_below(os.getpid())
    return found


def tool(name: str) -> str:
    """Where a program of iproute2 stands."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise Refused(f"the program {name} (of iproute2) is not installed")
    return found


def _hold_namespace() -> tuple[int, bool]:
    """A child in a network namespace of its own that does nothing but be there."""
    reads, writes = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reads)
            process_tree.die_with_parent(parent)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if _unshare(_CLONE_NEWNET) is None:
                os.write(writes, b"1")
            os.close(writes)
            while True:
                signal.pause()
        finally:
            os._exit(1)
    os.close(writes)
    ready = os.read(reads, 1) == b"1"
    os.close(reads)
    return pid, ready


def _unshare(flags: int) -> str | None:
    """None where it was done, else the system's reason."""
    libc = ctypes.CDLL(None, use_errno=True)
    return None if libc.unshare(flags) == 0 else os.strerror(ctypes.get_errno())


def _can(*words: str, within: int) -> bool:
    try:
        _run(*words, within=within)
    except Refused:
        return False
    return True


def _run(name: str, *words: str, within: int | None = None) -> None:
    """A program of iproute2, in this namespace or in that of ``within``."""
    done = subprocess.run(
        [tool(name), *words],
        capture_output=True,
        text=True,
        timeout=20,
        preexec_fn=None if within is None else lambda: enter(within),
    )
    if done.returncode:
        raise Refused(f"'{name} {' '.join(words)}' was refused ({done.stderr.strip().splitlines()[-1:] or 'no word'})")
