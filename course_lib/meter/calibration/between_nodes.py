"""The link between the two first nodes of a cluster, measured now, where a lesson else has one that is shaped."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.cluster.base.rank import Rank
from course_lib.meter.calibration.link_fit import LinkFit, fit_link
from course_lib.meter.calibration.probes import measure_message_times
from course_lib.meter.units import time_text

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["LinkBetweenNodes", "link_between_nodes"]


@dataclass(frozen=True)
class LinkBetweenNodes:
    """What messages take from a rank of node 0 to a rank of node 1; ``hosts`` are the names of the two."""

    hosts: tuple[str, str]
    fit: LinkFit

    def __str__(self) -> str:
        latency, rate = time_text(self.fit.latency_s), self.fit.bandwidth_bytes_per_s / 1e6
        of_both = " and ".join(f"node {number} ({host})" for number, host in enumerate(self.hosts))
        return f"measured between {of_both}: latency {latency}, {rate:.3g} MB/s"


def link_between_nodes(cluster: Cluster) -> LinkBetweenNodes | None:
    """Latency and bandwidth between rank 0 of ``cluster`` and the first rank of the next node, by messages to and fro.

    None where all its ranks are on one machine. It takes a second or two. Raises ``RankError`` as ``cluster.run`` does.
    """
    places = cluster.call(_place, show=False)
    other = next((rank for rank in places.ranks if places[rank][0] == 1), None)
    if other is None:
        return None
    samples = cluster.call(measure_message_times, kwargs={"other": other}, show=False)[0]
    return LinkBetweenNodes((places[0][1], places[other][1]), fit_link(samples))


def _place(me: Rank) -> tuple[int, str]:
    """On the rank: its node, and the name of its machine."""
    return me.node, platform.node()
