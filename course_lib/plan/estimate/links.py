"""How long a group's collectives take, from its place in the cluster and the constants of a profile.

A ring sends (n-1)/n of the buffer through each rank for an all-gather or a reduce-scatter, and twice that for an
all-reduce. Ranks of several groups that share a node share its ports: a group with k ranks on each node of G has k/G
of them. The latency grows with the size, as NCCL changes its protocol
(``course_lib.cost.collectives.latency_by_log_n``), and outside with the nodes that a tree passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.layout import Placement, placement

__all__ = ["Group"]

_FROM_BYTES = 1024.0


@dataclass(frozen=True)
class Group:
    """The ranks of one axis: how many, how much of a link each has, how long a call takes to start."""

    size: int
    bandwidth_bytes_per_s: float
    hop_bandwidth_bytes_per_s: float  # between two of them
    latency_s: float  # for each doubling of the size
    ring_s: float  # the way of a first byte around the ring

    @classmethod
    def of(cls, cluster: ClusterSpec, constants: Constants, size: int, stride: int) -> Group:
        """The group of ``size`` ranks, each ``stride`` after the one before."""
        place: Placement = placement(cluster, size, stride)
        bandwidth = cluster.domain_bandwidth_bytes_per_s * constants.inside_share
        if place.inside:
            return cls(size, bandwidth, bandwidth, constants.latency_s * cluster.domain_latencies, 0.0)
        nodes = max(2.0, size / place.per_node)
        ports = cluster.node_bandwidth_bytes_per_s * place.per_node / cluster.node_size
        hop = min(bandwidth, ports * constants.outside_share)
        all_of_them = min(bandwidth, ports * constants.outside_share * (2 / nodes) ** cluster.network_falloff)
        a_hop_s = constants.latency_s * max(cluster.domain_latencies, cluster.network_latencies)
        return cls(size, all_of_them, hop, a_hop_s * (1 + log2(nodes)), a_hop_s * (size - 1) / 2)

    def all_reduce_s(self, size_bytes: float) -> float:
        """Time of an all-reduce of a buffer of ``size_bytes``."""
        return self._call_s(2, size_bytes)

    def all_gather_s(self, size_bytes: float) -> float:
        """Time of an all-gather into, or a reduce-scatter of, a buffer of ``size_bytes``."""
        return self._call_s(1, size_bytes) + self.ring_s if self.size > 1 else 0.0

    def _call_s(self, times: int, size_bytes: float) -> float:
        if self.size <= 1 or not size_bytes:
            return 0.0
        doublings = max(1.0, log2(max(size_bytes, 2.0) / _FROM_BYTES))
        sent_bytes = (self.size - 1) / self.size * size_bytes
        return times * (0.5 * self.latency_s * doublings + sent_bytes / self.bandwidth_bytes_per_s)

    def all_to_all_s(self, size_bytes: float) -> float:
        """Time in which each rank sends (n-1)/n of its ``size_bytes`` to the others."""
        return self.all_gather_s(size_bytes)

    def send_s(self, size_bytes: float) -> float:
        """Time of a message to the next rank."""
        if self.size <= 1:
            return 0.0
        doublings = max(1.0, log2(max(size_bytes, 2.0) / _FROM_BYTES))
        return 0.5 * self.latency_s * doublings + size_bytes / self.hop_bandwidth_bytes_per_s
