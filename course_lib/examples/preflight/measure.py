"""Times: of messages between two ranks, of all-reduce, of a product on every rank, and the difference of clocks.

All ranks call each function together, and each returns the same on all of them. A time is the best of several, which a
busy machine disturbs least; a link that is slow is slow in its best time, too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

__all__ = [
    "Place",
    "clock_offsets",
    "links",
    "offset_of",
    "pairs_to_measure",
    "product_rates",
    "reduce_rates",
]


@dataclass(frozen=True)
class Place:
    """Who this process is, and which rank sits on which node."""

    rank: int
    node_of: tuple[int, ...]
    device: torch.device

    @property
    def world_size(self) -> int:
        return len(self.node_of)

    @property
    def nodes(self) -> list[list[int]]:
        """The ranks of each node."""
        numbers = sorted(set(self.node_of))
        return [[rank for rank, node in enumerate(self.node_of) if node == number] for number in numbers]

    def now_s(self) -> float:
        """The time when all that was begun on the device is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def from_all(self, value: Any) -> list[Any]:
        """Every rank's value, in the order of ranks."""
        found: list[Any] = [None] * self.world_size
        dist.all_gather_object(found, value)
        return found


def pairs_to_measure(node_of: Sequence[int], most: int = 8) -> list[tuple[int, int]]:
    """All pairs of ranks, up to ``most`` ranks; else each with the next, and the first ones of all nodes in a ring."""
    size = len(node_of)
    if size <= most:
        return [(one, other) for one in range(size) for other in range(one + 1, size)]
    pairs = {(rank, rank + 1) for rank in range(size - 1)}
    firsts = [list(node_of).index(node) for node in sorted(set(node_of))]
    pairs |= {(min(pair), max(pair)) for pair in zip(firsts, firsts[1:] + firsts[:1], strict=True)}
    return sorted(pair for pair in pairs if pair[0] != pair[1])


def links(
    place: Place, pairs: Sequence[tuple[int, int]], size_bytes: int, rounds: int = 7
) -> dict[tuple[int, int], tuple[float, float]]:
    """Latency in seconds and bandwidth in bytes/s of each pair; one pair after the other, so that none is disturbed."""
    found = {}
    for pair in pairs:
        if place.rank in pair:
            latency_s = _one_way_s(place, pair, 8, 3 * rounds)
            whole_s = _one_way_s(place, pair, size_bytes, rounds)
            # On a busy machine a small message may take as long as a large one: half of that time is its own at least.
            found[pair] = (latency_s, size_bytes / max(whole_s - latency_s, whole_s / 2))
        dist.barrier()
    together: dict[tuple[int, int], tuple[float, float]] = {}
    for one in place.from_all(found):
        together = {**one, **together}  # the lower rank's word counts
    return together


def _one_way_s(place: Place, pair: tuple[int, int], size_bytes: int, rounds: int) -> float:
    """Half of the best round-trip time."""
    first, second = pair
    message = torch.zeros(size_bytes, dtype=torch.uint8, device=place.device)
    best_s = float("inf")
    for _ in range(rounds):
        start_s = place.now_s()
        if place.rank == first:
            dist.send(message, second)
            dist.recv(message, second)
        else:
            dist.recv(message, first)
            dist.send(message, first)
        best_s = min(best_s, (place.now_s() - start_s) / 2)
    return best_s


def reduce_rates(place: Place, size_bytes: int, rounds: int = 5) -> dict[str, list[float]]:
    """Bus bandwidth of all-reduce in bytes/s: within each node, between nodes, over all; a number for each group.

    Groups of a kind run at the same time. Between nodes: ranks with the same place on their nodes, all such groups at
    once, as in a hierarchical all-reduce. A kind without a group of two is left out, and so are nodes of unequal size.
    """
    nodes = place.nodes
    columns = [list(ranks) for ranks in zip(*nodes, strict=False)] if len({len(n) for n in nodes}) == 1 else []
    kinds = {"within": nodes, "between": columns, "all": [list(range(place.world_size))]}
    found: dict[str, list[float]] = {}
    for kind, ranks_of_groups in kinds.items():
        if any(len(ranks) < 2 for ranks in ranks_of_groups) or not ranks_of_groups:
            continue
        groups = [dist.new_group(ranks) for ranks in ranks_of_groups]
        mine = next(number for number, ranks in enumerate(ranks_of_groups) if place.rank in ranks)
        size = len(ranks_of_groups[mine])
        message = torch.zeros(size_bytes // 4, dtype=torch.float32, device=place.device)
        times_s = []
        for _ in range(rounds):
            dist.barrier()
            start_s = place.now_s()
            dist.all_reduce(message, group=groups[mine])
            times_s.append(place.now_s() - start_s)
        rate = 2 * (size - 1) / size * size_bytes / min(times_s)
        rates = place.from_all((mine, rate))
        found[kind] = [min(r for n, r in rates if n == number) for number in range(len(groups))]
        for number, group in enumerate(groups):
            if number == mine:
                dist.destroy_process_group(group)
    return found


def product_rates(
    place: Place, size: int, rounds: int, multiply: Callable[..., torch.Tensor] = torch.mm
) -> list[float]:
    """Operations a second of every rank's product of two matrices, all at the same time.

    On GPUs the median, since a GPU that is hot gets slow after a while; on the CPU the best, since ranks share cores.
    """
    dtype = torch.bfloat16 if place.device.type == "cuda" else torch.float32
    a, b = (torch.ones(size, size, dtype=dtype, device=place.device) for _ in range(2))
    multiply(a, b)
    dist.barrier()
    times_s = []
    for _ in range(rounds):
        start_s = place.now_s()
        multiply(a, b)
        times_s.append(place.now_s() - start_s)
    time_s = statistics.median(times_s) if place.device.type == "cuda" else min(times_s)
    return place.from_all(2 * size**3 / time_s)


def offset_of(asked_s: float, answered_s: float, heard_s: float) -> tuple[float, float]:
    """How far the clock of who answered is ahead of the clock of who asked, and how far off that may be, in seconds."""
    return answered_s - (asked_s + heard_s) / 2, (heard_s - asked_s) / 2


def clock_offsets(
    place: Place, rounds: int = 20, now: Callable[[], float] = time.time
) -> dict[int, tuple[float, float]]:
    """How far each node's clock is ahead of the first node's, in seconds, and how far off that may be, by node.

    As the Network Time Protocol does it: ask the other for its time, and suppose that the answer was half way of the
    question and the answer's arrival. The quickest exchange counts. Messages lie on the CPU.
    """
    firsts = [ranks[0] for ranks in place.nodes]
    found = {}
    for node, other in enumerate(firsts[1:], start=1):
        answer = torch.zeros(1, dtype=torch.float64)
        best = (0.0, float("inf"))
        for _ in range(rounds if place.rank in (firsts[0], other) else 0):
            if place.rank == other:
                dist.recv(answer, firsts[0])
                answer[0] = now()
                dist.send(answer, firsts[0])
            else:
                asked_s = now()
                dist.send(answer, other)
                dist.recv(answer, other)
                heard_s = now()
                exchange = offset_of(asked_s, float(answer), heard_s)
                best = min(best, exchange, key=lambda one: one[1])
        found[node] = best
        dist.barrier()
    return place.from_all(found)[firsts[0]]
