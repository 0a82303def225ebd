"""When messages arrive over emulated links: arithmetic on a schedule of ports, without torch and without a clock.

The messages of each operation are those that gloo sends (``course_lib.meter.communication.wire_bytes`` holds the
totals, read off its sockets). Two kinds of operation differ in what a rank waits for. In the *joint* ones (rings,
all-to-all, barrier) every rank needs every other, so all times follow once all have entered. In the *tree* ones
(broadcast, scatter, gather, a single message) a rank needs those above or below it alone, and nobody waits for a late
cousin. A single message begins when both ends are there, as gloo's and NCCL's do. *Places* are rank numbers within the
group.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence
from dataclasses import dataclass, field

from course_lib.cluster.links.links import Links

__all__ = ["TREES", "Ports", "edge", "joint_times", "link_time", "settle_tree"]

TREES = ("broadcast", "scatter", "gather", "send")

Message = tuple[int, int, float]  # from place, to place, size in bytes


@dataclass
class Ports:
    """When each port is free again: those of ranks first, then those of nodes."""

    links: Links
    world_size: int
    ranks: Sequence[int]  # of the group, by place
    out: MutableSequence[float] = field(default_factory=list)
    into: MutableSequence[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.out:
            self.out = [0.0] * self.count(self.links, self.world_size)
            self.into = list(self.out)

    @staticmethod
    def count(links: Links, world_size: int) -> int:
        """How many ports there are in one direction."""
        nodes = links.node_of(world_size - 1) + 1
        return world_size + nodes * links.ports_per_node

    def carry(self, message: Message, ready_s: float) -> float:
        """Send it when both ends are ready and their ports are free; when has it arrived?"""
        sender, receiver = self.ranks[message[0]], self.ranks[message[1]]
        outs, ins = self._ports_of(sender, receiver), self._ports_of(receiver, sender)
        start_s = max(ready_s, *(self.out[port] for port in outs), *(self.into[port] for port in ins))
        link = self.links.link(sender, receiver)
        end_s = start_s + link.time_s(message[2])
        passed_s = end_s - link.latency_s  # a node's port is free: what it has passed is on its way
        for ports, free_s in ((outs, self.out), (ins, self.into)):
            for port in ports:
                free_s[port] = end_s if port < self.world_size else passed_s
        return end_s

    def _ports_of(self, rank: int, other: int) -> tuple[int, ...]:
        links = self.links
        node = links.node_of(rank)
        if node == links.node_of(other):
            return (rank,)
        return (rank, self.world_size + node * links.ports_per_node + rank % links.ports_per_node)


def joint_times(
    operation: str,
    entered_s: Sequence[float],
    parts_bytes: Sequence[Sequence[float]],
    *,
    root: int,
    ports: Ports,
) -> list[float]:
    """When each place is done with a joint operation, given when each entered it.

    ``parts_bytes[i][j]`` is what place i has for place j in an all-to-all; elsewhere ``parts_bytes[i][i]`` is the
    size of its whole input.
    """
    ready_s, end_s = list(entered_s), list(entered_s)
    is_chain = operation != "all_to_all"  # each round sends on what the one before brought
    for messages in _rounds(operation, len(entered_s), parts_bytes, root):
        arrived_s = [ports.carry(message, ready_s[message[0]]) for message in messages]
        for (sender, receiver, _), time_s in zip(messages, arrived_s, strict=True):
            end_s[sender] = max(end_s[sender], time_s)
            end_s[receiver] = max(end_s[receiver], time_s)
            if is_chain:
                ready_s[receiver] = max(ready_s[receiver], time_s)
    return end_s


def _rounds(operation: str, n: int, parts_bytes: Sequence[Sequence[float]], root: int) -> Iterable[list[Message]]:
    size_bytes = parts_bytes[root][root]
    if operation in ("all_reduce", "reduce_scatter"):  # gloo's reduce-scatter is an all-reduce
        return [_shift(n, size_bytes / n) for _ in range(2 * (n - 1))]
    if operation == "all_gather":
        return [_shift(n, size_bytes) for _ in range(n - 1)]
    if operation == "reduce":
        to_root = [(group_rank, root, size_bytes / n) for group_rank in range(n) if group_rank != root]
        return [*(_shift(n, size_bytes / n) for _ in range(n - 1)), to_root]
    if operation == "all_to_all":
        distances = range(1, n)
        return [[(i, (i + d) % n, parts_bytes[i][(i + d) % n]) for i in range(n)] for d in distances]
    assert operation == "barrier", operation
    return [_shift(n, 0.0, distance=2**i) for i in range((n - 1).bit_length())]


def _shift(n: int, size_bytes: float, *, distance: int = 1) -> list[Message]:
    return [(group_rank, (group_rank + distance) % n, size_bytes) for group_rank in range(n)]


def edge(operation: str, group_rank: int, root: int, n: int) -> tuple[int, int]:
    """The one message of a tree operation that belongs to ``group_rank``, which is not the root: (sender, receiver)."""
    if operation == "gather":
        return group_rank, root
    if operation == "scatter" or operation == "send":
        return root, group_rank
    distance = (group_rank - root) % n  # a binomial tree: the parent is without the highest bit
    return (root + distance - (1 << (distance.bit_length() - 1))) % n, group_rank


def settle_tree(
    operation: str,
    entered_s: Sequence[float],
    arrived_s: MutableSequence[float],
    size_bytes: float,
    *,
    root: int,
    ports: Ports,
) -> None:
    """Fill in ``arrived_s`` (by the place that an edge belongs to) wherever that can be known by now; 0 is unknown."""
    n = len(entered_s)
    for group_rank in ((root + distance) % n for distance in range(1, n)):
        sender, receiver = edge(operation, group_rank, root, n)
        passes_on = operation == "broadcast" and sender != root
        is_known = entered_s[sender] and (arrived_s[sender] or not passes_on)
        if operation == "send":  # begins when both ends are there; a tree sends to a child that is yet to come
            is_known = is_known and entered_s[receiver]
        if arrived_s[group_rank] or not is_known:
            continue
        has_it_s = max(entered_s[sender], arrived_s[sender] if passes_on else 0.0)
        ready_s = max(has_it_s, entered_s[receiver] if operation == "send" else 0.0)
        arrived_s[group_rank] = ports.carry((sender, receiver, size_bytes), ready_s)


def link_time(operation: str, size_bytes: float, *, num_ranks: int, links: Links) -> float:
    """How long one operation takes on ``links`` alone, when all ranks begin together and the ports are free.

    ``size_bytes`` is this rank's input; for a scatter one part of it. The root is rank 0, a "send" goes to rank 1.
    """
    ports = Ports(links, num_ranks, range(num_ranks))
    n = min(num_ranks, 2) if operation == "send" else num_ranks
    if n == 1:
        return 0.0
    began_s = [1.0] * n  # any moment but 0, which means "not yet"
    if operation in TREES:
        arrived_s = [0.0] * n
        settle_tree(operation, began_s, arrived_s, size_bytes, root=0, ports=ports)
        return max(arrived_s) - 1.0
    part_bytes = size_bytes / n if operation == "all_to_all" else size_bytes
    return max(joint_times(operation, began_s, [[part_bytes] * n] * n, root=0, ports=ports)) - 1.0
