"""Hierarchical collectives: inside every node at once, and between nodes among ranks with the same local rank.

An all-reduce of a buffer, on nodes of L ranks each::

    reduce-scatter inside     each rank has one part of L, added up over its node
    all-reduce between        ranks of the same place add up that part over all nodes: 1/L of the buffer
    all-gather inside         each rank gets the parts of the others of its node

A flat ring of n ranks waits for 2 (n - 1) messages, one after the other, and in every round some of them pass between
nodes. This one waits for 2 (n/L - 1) of those; with recursive halving and doubling between nodes, for 2 log2(n/L).

Sources: Mikami et al., "Massively Distributed SGD: ImageNet/ResNet-50 Training in a Flash", 2018 (the same three
steps, on a torus); Cho et al., "BlueConnect", 2019 (any number of storeys).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from course_lib.cost.collectives.collective_rounds import Round, rounds_of
from course_lib.cost.collectives.network import Network

__all__ = ["HIERARCHICAL", "hierarchical_rounds"]

HIERARCHICAL = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")


def hierarchical_rounds(
    collective: str, network: Network, size_bytes: float, *, between: str = "ring"
) -> tuple[Round, ...]:
    """Rings inside every node at once, and between nodes rings of the ranks with the same local rank.

    ``between`` is another algorithm for the all-reduce between nodes. A broadcast is a tree between the first ranks
    of the nodes, then a tree inside every node. Nothing is checked here: ``collective_cost`` and
    ``all_reduce_point`` do.
    """
    nodes, per_node = network.num_nodes, network.num_ranks // network.num_nodes

    def inside(name: str, algorithm: str, size: float) -> list[Round]:
        starts = np.arange(nodes) * per_node
        return [_copies(each, starts) for each in rounds_of(name, algorithm, per_node, size)]

    def across(name: str, algorithm: str, size: float, places: int = per_node) -> list[Round]:
        rounds = rounds_of(name, algorithm, nodes, size)
        return [_copies(_stretched(each, per_node), np.arange(places)) for each in rounds]

    share_bytes = size_bytes / per_node
    if collective == "all_reduce":
        first = inside("reduce_scatter", "ring", size_bytes)
        last = inside("all_gather", "ring", size_bytes)
        return (*first, *across("all_reduce", between, share_bytes), *last)
    if collective == "broadcast":
        return (*across("broadcast", "tree", size_bytes, 1), *inside("broadcast", "tree", size_bytes))
    if collective == "all_gather":
        return (*across("all_gather", "ring", share_bytes), *inside("all_gather", "ring", size_bytes))
    return (*inside("reduce_scatter", "ring", size_bytes), *across("reduce_scatter", "ring", share_bytes))


def _stretched(each: Round, factor: int) -> Round:
    """Node numbers become the numbers of the nodes' first ranks."""
    return replace(each, senders=each.senders * factor, receivers=each.receivers * factor)


def _copies(each: Round, offsets: np.ndarray) -> Round:
    """The same messages once for each offset, all at the same time."""
    return replace(
        each,
        senders=(each.senders[None] + offsets[:, None]).ravel(),
        receivers=(each.receivers[None] + offsets[:, None]).ravel(),
        sizes_bytes=np.tile(each.sizes_bytes, len(offsets)),
    )
