"""The same all-reduce on more and more ranks, 8 to 16,384: which part of its time grows, and which does not.

The time has two parts. *Transfer* is bytes over bandwidth: what the busiest port passes tends to twice the buffer and
stays there, however many ranks there are. *Latency* is what messages one after the other take to start: with a ring,
two for every rank more. So the time of a flat ring grows with the machine, for a buffer that does not; and even without
any latency no way is faster than the transfer, while each rank of a larger machine has less to compute (strong
scaling). With ``scaling_curve`` that is the end of the speed-up.

What is assumed: all messages of a round start together, and the next round waits for the slowest (the course's own
collectives do; NCCL's ranks may run ahead of each other, and a ring of them then pays less for its latency); no switch
between nodes is shared or congested, and none adds up (SHARP); a message takes what ``Network`` says; nothing is
computed. The "tree" sends the whole buffer in every message. NCCL's own between nodes is cut into pieces that follow
each other; its time is nearer to that of "hierarchical, doubling".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most, known, not_negative
from course_lib.cost.collectives.collective_cost import rounds_on
from course_lib.cost.collectives.collective_rounds import Round
from course_lib.cost.collectives.hierarchical import hierarchical_rounds
from course_lib.cost.collectives.machines import MachineSpec
from course_lib.cost.collectives.network import Network
from course_lib.cost.mesh.link_bytes import LinkBytes
from course_lib.layouts.row_partition import split_sizes

__all__ = [
    "ALL_REDUCE_WAYS",
    "AllReducePoint",
    "all_reduce_at_scale",
    "all_reduce_point",
    "hierarchical_sent_bytes",
]

ALL_REDUCE_WAYS = ("ring", "tree", "halving-doubling", "hierarchical", "hierarchical, doubling")
_LARGEST = 16_384  # GPUs of the largest run that its makers described in full, Llama 3's


@dataclass(frozen=True)
class AllReducePoint:
    """One all-reduce: ``num_rounds`` messages one after the other, and what they take, in seconds."""

    way: str
    num_ranks: int
    num_nodes: int
    num_rounds: int
    latency_s: float
    transfer_s: float
    within_bytes: float  # the most that one rank sends to ranks of its own node
    between_bytes: float  # the most that one rank sends to ranks of other nodes
    node_bytes: float  # the most that the ranks of one node together send to others

    @property
    def time_s(self) -> float:
        """The whole all-reduce."""
        return self.latency_s + self.transfer_s

    @property
    def latency_share(self) -> float:
        """The part of the time that more bandwidth would not save, 0 to 1."""
        return self.latency_s / self.time_s if self.time_s else 0.0


@checked
def all_reduce_point(way: str, size_bytes: float, network: Network) -> AllReducePoint:
    """An all-reduce of ``size_bytes`` (what each rank holds) on ``network``, in one of ``ALL_REDUCE_WAYS``.

    "hierarchical" has a ring between nodes, "hierarchical, doubling" recursive halving and doubling there. The time
    is that of ``collective_cost``. ``ValueError`` for another way, and for a size below zero.
    """
    known("way", way, ALL_REDUCE_WAYS)
    not_negative(size_bytes=size_bytes)
    rounds, empty = _rounds(way, network, size_bytes), _rounds(way, network, 0.0)
    latency_s, time_s = _time_s(network, empty), _time_s(network, rounds)
    within_bytes, between_bytes = _sent_bytes(network, rounds)
    return AllReducePoint(
        way,
        network.num_ranks,
        network.num_nodes,
        sum(each.repeat for each in rounds),
        latency_s,
        max(time_s - latency_s, 0.0),
        float(within_bytes.max()),
        float(between_bytes.max()),
        float(between_bytes.reshape(network.num_nodes, -1).sum(1).max()),
    )


@checked
def all_reduce_at_scale(
    size_bytes: float,
    machine: MachineSpec,
    *,
    ranks: Sequence[int] | None = None,
    ways: Sequence[str] = ALL_REDUCE_WAYS,
) -> tuple[AllReducePoint, ...]:
    """``all_reduce_point`` for each of ``ways`` on each number of ``ranks``, one machine or whole ones.

    By default one machine, two, four and so on, up to 16,384 ranks. ``ValueError`` where ranks do not fill whole
    machines, and for an unknown way.
    """
    if ranks is None:
        doublings = range((_LARGEST // machine.num_devices).bit_length())
        ranks = [machine.num_devices << number for number in doublings]
    for num_ranks in ranks:
        at_least(1, ranks=num_ranks)
        at_most(MOST_RANKS, ranks=num_ranks)
    networks = [machine.network(num_ranks) for num_ranks in ranks]
    return tuple(all_reduce_point(way, size_bytes, network) for network in networks for way in ways)


@checked
def hierarchical_sent_bytes(num_elements: int, itemsize: int, num_nodes: int, ranks_per_node: int) -> list[LinkBytes]:
    """What each rank sends in ``parallel.collectives.hierarchical_all_reduce``, to the byte, for any sizes.

    ``itemsize``: bytes of an element. Parts are cut as evenly as can be (``split_sizes``), so ranks may differ. In a
    ring's reduce-scatter a rank sends all parts but its own, in its all-gather all but that of the rank after it.
    """
    at_least(0, num_elements=num_elements)
    at_least(1, itemsize=itemsize, num_nodes=num_nodes, ranks_per_node=ranks_per_node)
    at_most(MOST_RANKS, num_nodes=num_nodes, ranks_per_node=ranks_per_node)
    at_most(MOST_RANKS, num_ranks=num_nodes * ranks_per_node)
    parts = split_sizes(num_elements, ranks_per_node)
    within = _ring_sends(parts)
    between = {part: _ring_sends(split_sizes(part, num_nodes)) for part in set(parts)}
    return [
        LinkBytes(itemsize * within[place], itemsize * between[parts[place]][node])
        for node in range(num_nodes)
        for place in range(ranks_per_node)
    ]


def _ring_sends(parts: list[int]) -> list[int]:
    """Elements that each rank of a ring sends in an all-reduce of these parts, by place."""
    total, following = sum(parts), [*parts[1:], parts[0]]
    return [2 * total - own - after for own, after in zip(parts, following, strict=True)]


def _rounds(way: str, network: Network, size_bytes: float) -> tuple[Round, ...]:
    if way == "hierarchical, doubling":
        return hierarchical_rounds("all_reduce", network, size_bytes, between="halving-doubling")
    return rounds_on("all_reduce", way, network, size_bytes)[0]


def _time_s(network: Network, rounds: Sequence[Round]) -> float:
    return sum(each.repeat * network.round_time_s(each.senders, each.receivers, each.sizes_bytes) for each in rounds)


def _sent_bytes(network: Network, rounds: Sequence[Round]) -> tuple[np.ndarray, np.ndarray]:
    """What each rank sends within its node, and to other nodes."""
    within_bytes, between_bytes = np.zeros(network.num_ranks), np.zeros(network.num_ranks)
    per_node = network.num_ranks // network.num_nodes
    for each in rounds:
        crosses = each.senders // per_node != each.receivers // per_node
        for sent, kind in ((within_bytes, ~crosses), (between_bytes, crosses)):
            sent += each.repeat * np.bincount(each.senders[kind], each.sizes_bytes[kind], minlength=network.num_ranks)
    return within_bytes, between_bytes
