"""What a collective costs by algorithm: time, messages and bytes of every rank, and the bus bandwidth.

The algorithm is a list of rounds (``collective_rounds.py``), the network says how long a round takes (``network.py``);
this file adds up. Where links inside a node are faster than links between nodes, the hierarchical form works inside
each node first and sends between nodes what is left. Where the switch of a node can add up, an all-reduce sends the
buffer about once and not twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, known, not_negative
from course_lib.cost.collectives.collective_rounds import ALGORITHMS, Round, rounds_of
from course_lib.cost.collectives.hierarchical import HIERARCHICAL, hierarchical_rounds
from course_lib.cost.collectives.network import Network
from course_lib.layouts.link import Link

__all__ = ["COLLECTIVES", "CollectiveCost", "algorithms_of", "bus_factor", "collective_cost"]

COLLECTIVES = tuple(ALGORITHMS)
# Rings without a root: each rank may be the first.
IN_CHANNELS = ("all_reduce", "all_gather", "reduce_scatter")
IN_SWITCH = ("all_reduce",)  # what a switch that adds makes cheaper


@dataclass(frozen=True)
class CollectiveCost:
    """The cost of one collective; tuples have an entry for each rank."""

    collective: str
    algorithm: str
    num_ranks: int
    size_bytes: float
    time_s: float
    messages_sent: tuple[int, ...]
    bytes_sent: tuple[float, ...]
    bytes_received: tuple[float, ...]
    num_channels: int = 1  # rings at the same time, each of which leaves a node by another rank and port

    @property
    def busiest_port_bytes(self) -> float:
        """The most that one rank sends, or receives: what bounds the time from below. The field speaks of the
        load on the bottleneck link.
        """
        return max(*self.bytes_sent, *self.bytes_received)

    @property
    def total_bytes(self) -> float:
        """All bytes sent."""
        return sum(self.bytes_sent)

    @property
    def algorithm_bandwidth_bytes_per_s(self) -> float:
        """Size over time: what the caller gets. 0 where nothing was sent."""
        return self.size_bytes / self.time_s if self.time_s else 0.0

    @property
    def bus_bandwidth_bytes_per_s(self) -> float:
        """Algorithm bandwidth times ``bus_factor``: comparable with the link's, for any number of ranks."""
        return self.algorithm_bandwidth_bytes_per_s * bus_factor(self.collective, self.num_ranks)


@checked
def algorithms_of(collective: str) -> tuple[str, ...]:
    """Names that ``collective_cost`` takes for this collective, its usual one first."""
    names = tuple(ALGORITHMS[known("collective", collective, COLLECTIVES)])
    if collective in HIERARCHICAL:
        names = (*names, "hierarchical")
    return (*names, "in-switch") if collective in IN_SWITCH else names


@checked
def bus_factor(collective: str, num_ranks: int) -> float:
    """By how much the bottleneck link's load differs from the buffer, at best: bus bandwidth over algorithm
    bandwidth.

    Source: nccl-tests, doc/PERFORMANCE.md. 0 for one rank, except where the factor does not depend on it.
    """
    at_least(1, num_ranks=num_ranks)
    n = num_ranks
    if known("collective", collective, COLLECTIVES) == "all_reduce":
        return 2 * (n - 1) / n
    return 1.0 if collective in ("broadcast", "reduce", "send") else (n - 1) / n


@checked
def collective_cost(
    collective: str,
    size_bytes: float,
    network: Network | Link,
    *,
    num_ranks: int | None = None,
    algorithm: str | None = None,
) -> CollectiveCost:
    """The cost of ``collective`` over ``size_bytes`` (the whole buffer, see ``collective_rounds.py``).

    ``network`` is a ``Network``, or a ``Link`` and ``num_ranks``. The default ``algorithm`` is the first of
    ``algorithms_of(collective)``; the result says which it was. Between nodes a ring is split into as many channels as
    a node has ports (``num_channels``), as NCCL's are; other algorithms use the ports of the ranks that send. Rooted
    collectives have rank 0 as root; "send" goes from rank 0 to 1.
    Raises ValueError for an unknown collective or algorithm, a negative size, fewer than one rank.

    >>> cost = collective_cost("all_reduce", 8000, Link(latency_s=1e-6, bandwidth_bytes_per_s=1e9), num_ranks=4)
    >>> cost.bytes_sent[0], cost.messages_sent[0]
    (12000.0, 6)
    """
    names = algorithms_of(collective)
    algorithm = names[0] if algorithm is None else known(f"algorithm of {collective}", algorithm, names)
    not_negative(size_bytes=size_bytes)
    network = _network(network, num_ranks)
    n = network.num_ranks
    rounds, num_channels = rounds_on(collective, algorithm, network, size_bytes)
    time_s = sum(each.repeat * network.round_time_s(each.senders, each.receivers, each.sizes_bytes) for each in rounds)
    messages, sent, received = (np.zeros(n) for _ in range(3))
    for each in rounds:
        messages += each.repeat * np.bincount(each.senders, minlength=n)
        sent += each.repeat * np.bincount(each.senders, each.sizes_bytes, minlength=n)
        received += each.repeat * np.bincount(each.receivers, each.sizes_bytes, minlength=n)
    return CollectiveCost(
        collective,
        algorithm,
        n,
        size_bytes,
        time_s,
        tuple(int(count) for count in messages),
        tuple(sent.tolist()),
        tuple(received.tolist()),
        num_channels,
    )


def _network(network: Network | Link, num_ranks: int | None) -> Network:
    if isinstance(network, Link):
        if num_ranks is None:
            raise ValueError("A single Link needs num_ranks beside it, such as num_ranks=4.")
        return Network.uniform(num_ranks, network)
    if num_ranks not in (None, network.num_ranks):
        raise ValueError(
            f"num_ranks is {num_ranks}, and this network has {network.num_ranks} ranks; leave num_ranks out."
        )
    return network


def rounds_on(collective: str, algorithm: str, network: Network, size_bytes: float) -> tuple[tuple[Round, ...], int]:
    """The rounds of a collective on a network, and in how many channels; nothing is checked here."""
    if algorithm == "hierarchical":
        return hierarchical_rounds(collective, network, size_bytes), 1
    if algorithm == "in-switch":
        return _in_switch(network, size_bytes), 1
    rounds = rounds_of(collective, algorithm, network.num_ranks, size_bytes)
    num_channels = _num_channels(collective, algorithm, network)
    if num_channels == 1:
        return rounds, 1
    per_node = network.num_ranks // network.num_nodes
    return tuple(_in_channels(each, num_channels, per_node) for each in rounds), num_channels


def _num_channels(collective: str, algorithm: str, network: Network) -> int:
    if algorithm != "ring" or collective not in IN_CHANNELS or network.num_nodes == 1:
        return 1
    return min(network.ports_per_node, network.num_ranks // network.num_nodes)


def _in_channels(each: Round, num_channels: int, per_node: int) -> Round:
    """The messages of a ring shared out among several, which pass through the ranks of a node in other orders.

    Channel c enters each node at its rank c. What two ranks send each other for several channels is one message.
    """

    def shifted(ranks: np.ndarray) -> np.ndarray:
        channels = np.arange(num_channels)[:, None]
        return (ranks // per_node * per_node + (ranks + channels) % per_node).ravel()

    n = int(max(each.senders.max(), each.receivers.max())) + 1
    pairs, which = np.unique(shifted(each.senders) * n + shifted(each.receivers), return_inverse=True)
    sizes_bytes = np.bincount(which, np.tile(each.sizes_bytes / num_channels, num_channels))
    return replace(each, senders=pairs // n, receivers=pairs % n, sizes_bytes=sizes_bytes)


def _in_switch(network: Network, size_bytes: float) -> tuple[Round, ...]:
    """An all-reduce that a node's switch adds up (NVLink SHARP; NCCL's algorithm NVLS): each rank has one part of n.

    Each rank reads its part from all at once, and the switch hands it their sum; then it writes the sum, and the
    switch copies it to all. So a rank sends its whole buffer for the others' parts, and one part more for its own;
    and it receives as much. The two passes overlap, piece by piece: here, two rounds of half of everything.
    Source: Klenk et al., "An In-Network Architecture for Accelerating Shared-Memory Multiprocessor Collectives" (2020).
    """
    n = network.num_ranks
    if network.num_nodes > 1:
        raise ValueError(
            f"in-switch is for the ranks of one node, whose switch adds; this network has {network.num_nodes} nodes. "
            "Use 'hierarchical' or 'ring'."
        )
    if n == 1:
        return ()
    ranks = np.arange(n)  # to whom does not matter: the switch is behind every port
    return (Round("through the switch", ranks, (ranks + 1) % n, np.full(n, size_bytes * (n + 1) / (2 * n)), 2),)
