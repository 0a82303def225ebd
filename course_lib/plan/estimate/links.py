"""How long a group's collectives take, from its place in the cluster and the constants of a profile.

A ring sends (n-1)/n of the buffer through each rank for an all-gather or a reduce-scatter, and twice that for an
all-reduce. Between two nodes NCCL takes a tree in place of the ring for an all-reduce: each node sends the buffer once
and gets it once, about half of what a ring would send (NCCL's tests on two nodes print twice the bus bandwidth for an
all-reduce that they print for an all-gather). Ranks of several groups that share a node share its ports: a group with k
ranks on each node of G has k/G of them. A call starts in a time that grows with its size, as NCCL changes its protocol
(``course_lib.cost.collectives.latency_by_log_n``). On several nodes the first byte's way is added: n-1 hops around a
ring, and for an all-reduce, where that is shorter, up a tree of the nodes and down. So what falls with the number of
nodes is the bandwidth of small calls: gigabytes in one call hardly feel the way, buckets of 25 MB do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
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
    latency_s: float  # for each doubling of a call's size
    hop_s: float = 0.0  # from rank to rank on the way of a first byte; 0 inside a domain
    levels: float = 0.0  # of a tree of the group's nodes
    inside_bytes_per_s: float = 0.0  # within a node, of a group of several nodes; 0: a ring is all there is

    @classmethod
    @lru_cache(maxsize=1 << 14)
    def of(cls, cluster: ClusterSpec, constants: Constants, size: int, stride: int) -> Group:
        """The group of ``size`` ranks, each ``stride`` after the one before."""
        place: Placement = placement(cluster, size, stride)
        bandwidth = cluster.domain_bandwidth_bytes_per_s * constants.inside_share
        if place.inside:
            return cls(size, bandwidth, bandwidth, constants.latency_s * cluster.domain_latencies)
        nodes = max(2.0, size / place.per_node)
        ports = cluster.node_bandwidth_bytes_per_s * place.per_node / cluster.node_size
        hop = min(bandwidth, ports * constants.outside_share)
        all_of_them = min(bandwidth, ports * constants.outside_share * (2 / nodes) ** cluster.network_falloff)
        latency_s = constants.latency_s * max(cluster.domain_latencies, cluster.network_latencies)
        return cls(size, all_of_them, hop, latency_s, latency_s / 2, log2(nodes), bandwidth)

    def all_reduce_s(self, size_bytes: float) -> float:
        """Time of an all-reduce of a buffer of ``size_bytes``."""
        if self.size <= 1 or not size_bytes:
            return 0.0
        return 2 * self.start_s(size_bytes) + self._reduced_bytes_s(size_bytes) + self.tree_way_s

    def _reduced_bytes_s(self, size_bytes: float) -> float:
        """The bytes of an all-reduce: twice around the ring; between two nodes once across, and twice around inside."""
        around_bytes = 2 * (self.size - 1) / self.size * size_bytes
        if self.levels != 1 or self.size == 2 or not self.inside_bytes_per_s:  # one level: two nodes
            return around_bytes / self.bandwidth_bytes_per_s
        return max(size_bytes / self.bandwidth_bytes_per_s, around_bytes / self.inside_bytes_per_s)

    @property
    def tree_way_s(self) -> float:
        """Latency of the hops of an all-reduce: twice up a tree of nodes and down, or twice around the ring."""
        return 2 * self.hop_s * min(2 * self.levels, self.size - 1)

    def all_gather_s(self, size_bytes: float) -> float:
        """Time of an all-gather into, or a reduce-scatter of, a buffer of ``size_bytes``."""
        return self._call_s(size_bytes) + self.hop_s * (self.size - 1) if self.size > 1 and size_bytes else 0.0

    def _call_s(self, size_bytes: float) -> float:
        """The start of a call and its bytes, once around."""
        sent_bytes = (self.size - 1) / self.size * size_bytes
        return self.start_s(size_bytes) + sent_bytes / self.bandwidth_bytes_per_s

    def start_s(self, size_bytes: float) -> float:
        """In which a call of ``size_bytes`` begins."""
        return 0.5 * self.latency_s * max(1.0, log2(max(size_bytes, 2.0) / _FROM_BYTES))

    def all_to_all_s(self, size_bytes: float) -> float:
        """Time in which each rank sends (n-1)/n of its ``size_bytes`` to the others."""
        return self.all_gather_s(size_bytes)

    def send_s(self, size_bytes: float) -> float:
        """Time of a message to the next rank."""
        if self.size <= 1:
            return 0.0
        return self.start_s(size_bytes) + self.hop_s + size_bytes / self.hop_bandwidth_bytes_per_s
