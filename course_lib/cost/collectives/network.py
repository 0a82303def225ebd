"""A network: which links join which ranks, and how long messages take that start together.

A rank has one port each way: it can send and receive at the same time, but what it sends, it sends one after the
other, and likewise for what it receives. Links between nodes have ports of their own, so what a rank sends inside its
node and what it sends to others do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most
from course_lib.layouts.link import Link

__all__ = ["Network"]


@checked
@dataclass(frozen=True)
class Network:
    """Ranks and the links between them. Make one with ``uniform``, ``nodes`` or ``from_matrix``.

    Ranks 0 .. ``ranks_per_node`` - 1 sit on the first node, and so on. Between nodes, ``inter`` is the link of
    one port, and a node has ``ports_per_node`` of them that its ranks share. ``matrix[a][b]`` overrides the
    link from rank a to rank b.
    """

    num_ranks: int
    intra: Link
    inter: Link | None = None
    ranks_per_node: int = 0  # 0: all ranks on one node
    ports_per_node: int = 1
    matrix: tuple[tuple[Link | None, ...], ...] = ()

    def __post_init__(self) -> None:
        at_least(1, num_ranks=self.num_ranks, ports_per_node=self.ports_per_node)
        at_least(0, ranks_per_node=self.ranks_per_node)
        at_most(MOST_RANKS, num_ranks=self.num_ranks)

    @classmethod
    def uniform(cls, num_ranks: int, link: Link) -> Network:
        """Every rank joined to every other by the same kind of link."""
        at_least(1, num_ranks=num_ranks)
        return cls(num_ranks, link)

    @classmethod
    def nodes(
        cls, num_nodes: int, ranks_per_node: int, *, intra: Link, inter: Link, ports_per_node: int = 1
    ) -> Network:
        """Nodes of several ranks: ``intra`` joins ranks of a node, ``inter`` the ports of two nodes."""
        at_least(1, num_nodes=num_nodes, ranks_per_node=ranks_per_node, ports_per_node=ports_per_node)
        return cls(num_nodes * ranks_per_node, intra, inter, ranks_per_node, ports_per_node)

    @classmethod
    def from_matrix(cls, bandwidths_bytes_per_s: Sequence[Sequence[float]], *, latency_s: float = 0.0) -> Network:
        """A link for each pair: row a, column b is the bandwidth from rank a to b. The diagonal is not read."""
        num_ranks = len(bandwidths_bytes_per_s)
        at_least(1, num_ranks=num_ranks)
        for rank, row in enumerate(bandwidths_bytes_per_s):
            if len(row) != num_ranks:
                raise ValueError(
                    f"Row {rank} has {len(row)} bandwidths for {num_ranks} ranks; a matrix of links is square: "
                    f"give {num_ranks} in each row."
                )
        links = tuple(
            tuple(None if a == b else Link(latency_s, bandwidth) for b, bandwidth in enumerate(row))
            for a, row in enumerate(bandwidths_bytes_per_s)
        )
        slowest = min((link for row in links for link in row if link), default=None, key=_bandwidth)
        return cls(num_ranks, slowest or Link(latency_s, float("inf")), matrix=links)

    @property
    def num_nodes(self) -> int:
        """1 unless ranks were put on nodes."""
        return self.num_ranks // self.ranks_per_node if self.ranks_per_node else 1

    def link(self, sender: int, receiver: int) -> Link:
        """The link from one rank to another. Raises ValueError for a rank that is not here."""
        for name, rank in (("sender", sender), ("receiver", receiver)):
            if not 0 <= rank < self.num_ranks:
                nearest = min(max(rank, 0), self.num_ranks - 1)
                raise ValueError(
                    f"{name} is rank {rank}; ranks here are 0 to {self.num_ranks - 1}. The nearest is {nearest}."
                )
        found = self.matrix[sender][receiver] if self.matrix else None
        crosses = self.inter is not None and self._node_of[sender] != self._node_of[receiver]
        return found or (self.inter if crosses and self.inter else self.intra)

    def round_time_s(self, senders: np.ndarray, receivers: np.ndarray, sizes_bytes: np.ndarray) -> float:
        """How long messages that start together take, in seconds: until the busiest port has done its own.

        ``senders``, ``receivers`` and ``sizes_bytes`` have an entry for each message.
        """
        if not len(senders):
            return 0.0
        latencies_s, seconds_per_byte = self._costs(senders, receivers)
        times_s = latencies_s + sizes_bytes * seconds_per_byte
        crosses = self._node_of[senders] != self._node_of[receivers]
        busiest_s = max(
            np.bincount(ranks[kind], times_s[kind]).max(initial=0.0)
            for ranks in (senders, receivers)
            for kind in (crosses, ~crosses)
        )
        return float(max(busiest_s, self._between_nodes_s(senders, receivers, sizes_bytes)))

    def _between_nodes_s(self, senders: np.ndarray, receivers: np.ndarray, sizes_bytes: np.ndarray) -> float:
        """The time of the busiest node's ports, which its ranks share."""
        if self.inter is None or self.num_nodes == 1:
            return 0.0
        out, into = self._node_of[senders], self._node_of[receivers]
        crossing = out != into
        if not crossing.any():
            return 0.0
        sizes_bytes = sizes_bytes[crossing]
        busiest_bytes = max(np.bincount(nodes[crossing], sizes_bytes).max() for nodes in (out, into))
        return self.inter.time_s(float(busiest_bytes) / self.ports_per_node)

    @cached_property
    def _node_of(self) -> np.ndarray:
        return np.arange(self.num_ranks) // (self.ranks_per_node or self.num_ranks)

    def _costs(self, senders: np.ndarray, receivers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Latency and seconds per byte of each message; a table of all pairs is made for a ``matrix`` alone."""
        if self.matrix:
            latencies_s, seconds_per_byte = self._tables
            return latencies_s[senders, receivers], seconds_per_byte[senders, receivers]
        crosses = self._node_of[senders] != self._node_of[receivers]
        intra, inter = self.intra, self.inter or self.intra
        return (
            np.where(crosses, inter.latency_s, intra.latency_s),
            np.where(crosses, 1 / inter.bandwidth_bytes_per_s, 1 / intra.bandwidth_bytes_per_s),
        )

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Latency and seconds per byte from each rank to each, both of shape (num_ranks, num_ranks)."""
        links = [[link or self.intra for link in row] for row in self.matrix]
        latencies_s = np.array([[link.latency_s for link in row] for row in links])
        return latencies_s, np.array([[1 / link.bandwidth_bytes_per_s for link in row] for row in links])


def _bandwidth(link: Link) -> float:
    return link.bandwidth_bytes_per_s
