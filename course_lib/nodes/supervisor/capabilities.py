"""What this machine allows: networks of their own for nodes, or loopback alone, and then why. Asked once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache

from course_lib.base.paths import python_path
from course_lib.layouts.link import Link

__all__ = ["Capabilities", "environment_of_ours", "find_capabilities"]

_FORCED = "COURSE_NODES"
_LIMIT_S = 30.0


@dataclass(frozen=True)
class Capabilities:
    """``has_namespaces``: nodes have networks of their own. ``reason``: why not, where they have none."""

    has_namespaces: bool
    has_netem: bool = False  # the kernel can delay packets
    has_tbf: bool = False  # the kernel can hold them to a rate
    reason: str = ""
    has_second_loopback: bool = True  # 127.0.0.2 is this machine too; not on macOS

    def address(self, node: int) -> str:
        """Under which the other nodes reach this one; -1: the place between the nodes."""
        if self.has_namespaces:
            from course_lib.nodes.supervisor.namespaces import address

            return address(node)
        return f"127.0.0.{1 + max(node, 0)}" if self.has_second_loopback else "127.0.0.1"

    def in_words(self, num_nodes: int, link: Link) -> str:
        """What the nodes are here, and what lies between them."""
        if self.has_namespaces:
            return f"each in a network namespace of its own, {self._link_in_words(link)}"
        addresses = list(dict.fromkeys(self.address(node) for node in range(num_nodes)))
        where = " and ".join([", ".join(addresses[:-1]), addresses[-1]] if len(addresses) > 1 else addresses)
        slowed = "nothing slows the link" if link == Link() else "the course slows messages between nodes"
        return f"on {where} (no namespaces here: {self.reason}); {slowed}"

    def _link_in_words(self, link: Link) -> str:
        rate = link.bandwidth_bytes_per_s
        has_rate = rate != float("inf") and self.has_tbf
        parts = [f"{_rate(rate)} between them (tc tbf)"] if has_rate else []
        if rate != float("inf") and not self.has_tbf:
            parts.append("no rate (this kernel has no tbf)")
        if link.latency_s:
            late = f"{link.latency_s * 1e3:g} ms late each way (tc netem)"
            parts.append(late if self.has_netem else "no delay (this kernel has no netem)")
        return ", ".join(parts) or "nothing slows the link between them"


def find_capabilities(network: str = "auto") -> Capabilities:
    """What is possible here; ``network`` "loopback" (or COURSE_NODES=loopback) asks for no more than that."""
    if network == "auto":
        network = os.environ.get(_FORCED, "auto")
    if network == "loopback":
        return Capabilities(False, reason="loopback was asked for", has_second_loopback=_has_second_loopback())
    return _probe()


def environment_of_ours() -> dict[str, str]:
    """The environment, in which processes that we start find this library, and no file of the working folder."""
    return {**os.environ, "PYTHONPATH": python_path(), "PYTHONSAFEPATH": "1"}


@lru_cache(maxsize=1)
def _probe() -> Capabilities:
    second = _has_second_loopback()
    if sys.platform != "linux":
        return Capabilities(False, reason="only Linux has them", has_second_loopback=second)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "course_lib.nodes.supervisor.supervisor", "probe"],
            env=environment_of_ours(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Capabilities(False, reason=f"the trial failed, {type(error).__name__}", has_second_loopback=second)
    return Capabilities(found["namespaces"], found["netem"], found["tbf"], found["reason"], second)


def _has_second_loopback() -> bool:
    import socket

    with socket.socket() as one:
        try:
            one.bind(("127.0.0.2", 0))
        except OSError:
            return False
    return True


def _rate(bytes_per_s: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:g} {unit}/s"
    return f"{bytes_per_s:g} B/s"
