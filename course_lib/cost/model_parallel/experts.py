"""What a mixture of experts costs on n ranks: parameters, bytes, and the time that all wait for the busiest.

``counts[i][e]`` says how many tokens of rank i go to expert e. The experts are dealt to the ranks in their order, the
first ranks with one more where they do not divide.

Sources: Lepikhin et al., "GShard" (2020), section 3; Fedus et al., "Switch Transformers" (2021), sections 2.2 and 5.4.
(What is kept for the backward pass: ``experts_memory.py``.)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, above_zero, at_least, at_most
from course_lib.cost.collectives.collective_cost import bus_factor
from course_lib.cost.collectives.network import Network
from course_lib.layouts.link import Link

__all__ = [
    "ExpertLayerTime",
    "ExpertParameters",
    "expert_gradients_sent_bytes",
    "expert_layer_time",
    "expert_parameters",
    "expert_sent_bytes",
    "experts_of_ranks",
    "rows_between_ranks",
]

_COUNT_BYTES = 8  # counts are int64


@dataclass(frozen=True)
class ExpertParameters:
    """Parameters of one layer: of all its experts and the router, of what one token uses, and of each rank."""

    total: int
    active: int
    by_rank: tuple[int, ...]


@checked
def experts_of_ranks(num_experts: int, num_ranks: int) -> tuple[int, ...]:
    """How many experts each rank holds. ``ValueError`` for fewer experts than ranks."""
    at_least(1, num_experts=num_experts, num_ranks=num_ranks)
    at_most(MOST_RANKS, num_ranks=num_ranks)
    if num_experts < num_ranks:
        raise ValueError(
            f"num_experts={num_experts} cannot be shared out among num_ranks={num_ranks}: each rank holds at least "
            f"one. The nearest that works is {num_ranks} experts."
        )
    base, extra = divmod(num_experts, num_ranks)
    return tuple(base + (rank < extra) for rank in range(num_ranks))


@checked
def expert_parameters(*, width: int, hidden: int, num_experts: int, top_k: int, num_ranks: int = 1) -> ExpertParameters:
    """Experts of 2 D H numbers each, without biases, and a router of E D, which every rank holds.

    >>> expert_parameters(width=4, hidden=8, num_experts=6, top_k=2, num_ranks=4)
    ExpertParameters(total=408, active=152, by_rank=(152, 152, 88, 88))
    """
    at_least(1, width=width, hidden=hidden, num_experts=num_experts, top_k=top_k)
    if top_k > num_experts:
        raise ValueError(
            f"top_k={top_k} experts cannot be chosen from num_experts={num_experts}; the nearest that works is "
            f"{num_experts}"
        )
    router, expert = num_experts * width, 2 * width * hidden
    held = experts_of_ranks(num_experts, num_ranks)
    return ExpertParameters(
        total=router + num_experts * expert,
        active=router + top_k * expert,
        by_rank=tuple(router + count * expert for count in held),
    )


@checked
def rows_between_ranks(counts: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """``rows[i][j]``: rows that rank i has for the experts of rank j, those for its own among them."""
    at_least(1, num_ranks=len(counts))
    if len({len(row) for row in counts}) != 1:
        raise ValueError(
            f"counts has rows of {sorted({len(row) for row in counts})} experts; every rank counts for all experts, "
            "so all rows have the same length"
        )
    for rank, row in enumerate(counts):
        at_least(0, **{f"counts[{rank}][{expert}]": count for expert, count in enumerate(row)})
    ends = np.cumsum((0, *experts_of_ranks(len(counts[0]), len(counts)))).tolist()
    return tuple(tuple(sum(row[start:end]) for start, end in itertools.pairwise(ends)) for row in counts)


@checked
def expert_sent_bytes(
    counts: Sequence[Sequence[int]],
    *,
    width: int,
    itemsize: int = 4,
    is_training: bool = True,
    input_grad: bool = True,
) -> tuple[int, ...]:
    """Bytes that each rank sends for one layer.

    Forward: the counts (8 bytes for each expert of others), its rows to their experts, its experts' outputs back.
    ``is_training``: the outputs' gradients to the experts, and, where the layer's input wants one (``input_grad``),
    the rows' gradients back. With balanced experts that is 4 (n-1)/n N k D numbers, N tokens on each rank.
    """
    at_least(1, width=width, itemsize=itemsize)
    rows = np.array(rows_between_ranks(counts), dtype=object)  # Python's numbers, which have no largest
    held = experts_of_ranks(len(counts[0]), len(counts))
    num_out = 1 + is_training  # times that rows, or gradients in their place, go to the experts
    num_back = 1 + (is_training and input_grad)
    sent = []
    for rank in range(len(rows)):
        out, back = (int(sum(part) - rows[rank, rank]) for part in (rows[rank], rows[:, rank]))
        numbers = (num_out * out + num_back * back) * width
        sent.append(itemsize * numbers + _COUNT_BYTES * (sum(held) - held[rank]))
    return tuple(sent)


@checked
def expert_gradients_sent_bytes(
    *, shared_numel: int, own_numel: int, num_replicas: int, ranks_of_replica: int, itemsize: int = 4
) -> float:
    """Bytes that a rank sends to average its gradients, by rings: experts among their replicas alone.

    ``shared_numel`` numbers that all ranks hold, ``own_numel`` of this rank's experts; ``num_replicas`` groups of
    ``ranks_of_replica`` ranks that share one set of experts. With one such group the experts' gradients are not sent
    at all: the tokens went to them.
    """
    at_least(0, shared_numel=shared_numel, own_numel=own_numel)
    at_least(1, num_replicas=num_replicas, ranks_of_replica=ranks_of_replica, itemsize=itemsize)
    at_most(MOST_RANKS, num_ranks=num_replicas * ranks_of_replica)
    everybody = bus_factor("all_reduce", num_replicas * ranks_of_replica)
    return itemsize * (everybody * shared_numel + bus_factor("all_reduce", num_replicas) * own_numel)


@dataclass(frozen=True)
class ExpertLayerTime:
    """The forward of one layer: seconds of its parts, which follow each other, and the rows of each rank."""

    count_s: float
    dispatch_s: float
    compute_s: float  # of the busiest rank
    combine_s: float
    rows: tuple[int, ...]

    @property
    def time_s(self) -> float:
        return self.count_s + self.dispatch_s + self.compute_s + self.combine_s

    @property
    def imbalance(self) -> float:
        """The busiest rank's rows over the mean: so many times longer do the experts take than balanced ones would."""
        return max(self.rows) * len(self.rows) / sum(self.rows) if sum(self.rows) else 1.0

    @property
    def idle_s(self) -> tuple[float, ...]:
        """How long each rank waits for the busiest one's experts."""
        row_s = self.compute_s / max(self.rows) if max(self.rows) else 0.0
        return tuple(self.compute_s - rows * row_s for rows in self.rows)


@checked
def expert_layer_time(
    counts: Sequence[Sequence[int]], *, width: int, row_s: float, network: Network | Link, itemsize: int = 4
) -> ExpertLayerTime:
    """How long the forward of one layer takes, with an expert that computes a row in ``row_s`` seconds.

    Each all-to-all is one round: all its messages start together, and each rank sends and receives one after the
    other. The slowest rank sets the time of each part, since the next all-to-all needs all of them. ``network`` is a
    ``Link``, or a ``Network`` of as many ranks as ``counts`` has rows.
    """
    at_least(1, width=width, itemsize=itemsize)
    above_zero(row_s=row_s)
    rows = rows_between_ranks(counts)
    num_ranks = len(rows)
    if isinstance(network, Link):
        network = Network.uniform(num_ranks, network)
    if network.num_ranks != num_ranks:
        raise ValueError(
            f"counts are of {num_ranks} ranks, and the network has {network.num_ranks}: give one row of counts for "
            "each rank of the network"
        )
    held = experts_of_ranks(len(counts[0]), num_ranks)
    row_bytes = width * itemsize
    return ExpertLayerTime(
        count_s=_round_s(network, [[_COUNT_BYTES * count for count in held]] * num_ranks),
        dispatch_s=_round_s(network, [[row_bytes * count for count in row] for row in rows]),
        compute_s=max(sum(of_rank) for of_rank in zip(*rows, strict=True)) * row_s,
        combine_s=_round_s(network, [[row_bytes * count for count in col] for col in zip(*rows, strict=True)]),
        rows=tuple(sum(of_rank) for of_rank in zip(*rows, strict=True)),
    )


def _round_s(network: Network, sizes_bytes: Sequence[Sequence[int]]) -> float:
    """Messages of these sizes, from each rank to each other, that start together; nothing is sent for 0 bytes."""
    messages = [
        (sender, receiver, float(size))
        for sender, row in enumerate(sizes_bytes)
        for receiver, size in enumerate(row)
        if size and sender != receiver
    ]
    if not messages:
        return 0.0
    senders, receivers, sizes = (np.array(column) for column in zip(*messages, strict=True))
    return network.round_time_s(senders, receivers, sizes)
