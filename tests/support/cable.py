"""The cable between two network namespaces: how much it lets pass, how long that takes, and cuts."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

INTERFACE = "eth0"
_BURST_S = 0.0002  # of what passes at once after a pause: a small message is not held up by the rate
_LEAST_BURST_BYTES = 4096  # more than a packet
_LONGEST_WAIT_MS = 100  # in front of the rate; what would wait longer is dropped, and TCP sends it again
# Rules are asked in order, and the table of a node's own addresses first; a known connection would not ask at all.
_DROP = f"""set -e
echo 0 > /proc/sys/net/ipv4/ip_early_demux
ip rule list | grep -q '^10:' || ip rule add prio 10 lookup local
ip rule del prio 0 2>/dev/null || true
ip rule add prio 1 iif {INTERFACE} blackhole
"""


class Cable:
    """Between two nodes whose namespaces these processes hold; cut, each node stays whole, as by a switch that died.

    What comes in by the interface is dropped where it arrives, so that who sends learns nothing of it.
    """

    def __init__(self, holders: tuple[int, ...]) -> None:
        self.holders = holders

    def shape(self, rate_mbit: float, delay_ms: float = 0.0) -> float:
        """From each end at most ``rate_mbit`` in a second, by the kernel's tbf, ``delay_ms`` later by its netem.

        Returns the delay that there is: 0 where the kernel has no netem. ``burst_bytes`` may pass at once beside the
        rate.
        """
        has_delay = delay_ms > 0 and self._has_netem()
        rate = f"rate {rate_mbit}mbit burst {burst_bytes(rate_mbit)} latency {_LONGEST_WAIT_MS}ms"
        for holder in self.holders:
            add = [*_within_net(holder), "tc", "qdisc", "add", "dev", INTERFACE]
            if has_delay:
                later = f"root handle 1: netem delay {delay_ms}ms limit 100000"
                subprocess.run([*add, *later.split()], check=True, capture_output=True)
            at = "parent 1:1" if has_delay else "root"
            subprocess.run([*add, *at.split(), "tbf", *rate.split()], check=True, capture_output=True)
        return delay_ms if has_delay else 0.0

    def _has_netem(self) -> bool:
        words = f"tc qdisc add dev {INTERFACE} root netem delay 1ms && tc qdisc del dev {INTERFACE} root"
        return subprocess.run([*_within_net(self.holders[0]), "sh", "-c", words], capture_output=True).returncode == 0

    def cut(self) -> None:
        for holder in self.holders:
            subprocess.run([*_within_net(holder), "bash", "-c", _DROP], check=True, capture_output=True)

    def cut_for(self, time_s: float) -> None:
        self.cut()
        time.sleep(time_s)
        self.mend()

    def mend(self) -> None:
        for holder in self.holders:
            subprocess.run([*_within_net(holder), "ip", "rule", "del", "prio", "1"], capture_output=True)


def burst_bytes(rate_mbit: float) -> int:
    """How much passes a shaped cable at once after a pause, beside its rate."""
    return max(int(rate_mbit * 1e6 / 8 * _BURST_S), _LEAST_BURST_BYTES)


def sent_bytes() -> int:
    """What this process's node has sent by the cable, as its kernel counts; 0 where there is no cable."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == INTERFACE:
            return int(counts.split()[8])
    return 0


def _within_net(holder: int) -> list[str]:
    return ["nsenter", "--net", "--target", str(holder), "--"]
