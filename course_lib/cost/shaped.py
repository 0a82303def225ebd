"""The cost model's view of shaped links: so that a prediction and a run are about the same network."""

from __future__ import annotations

from course_lib.checks import at_least
from course_lib.cluster import links as shaped
from course_lib.cost.links import Link, Network

__all__ = ["network_of"]


def network_of(links: shaped.Links, num_ranks: int) -> Network:
    """The ``Network`` of ``num_ranks`` ranks that run as ``Cluster(num_ranks, links=links)``.

    What it predicts is a lower bound: the machine's own time comes on top where it is not small beside it.
    """
    at_least(1, num_ranks=num_ranks)
    default = _link(links.default)
    if links.across is not None:
        return Network.nodes(
            num_ranks // links.ranks_per_node,
            links.ranks_per_node,
            intra=default,
            inter=_link(links.across),
            ports_per_node=links.ports_per_node,
        )
    ranks = range(num_ranks)
    rows = tuple(tuple(None if i == j else _link(links.link(i, j)) for j in ranks) for i in ranks)
    return Network(num_ranks, default, matrix=rows)


def _link(link: shaped.Link) -> Link:
    return Link(link.latency_s, link.bandwidth_bytes_per_s)
