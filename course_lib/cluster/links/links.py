"""Links to shape: how long messages between ranks take, when the learner says so rather than the machine.

A message takes as long as its ``Link`` says. A rank has one port each way: it sends and
receives at the same time, but what it sends, it sends one after the other, and likewise for what it receives. Ranks
of one node share the node's ports to other nodes, which pass one message after the other and do not wait for them to
arrive. The cost model (``course_lib.cost.collectives.network``) counts in the same way.

::

    slow = Links(Link(latency_s=1e-3, bandwidth_bytes_per_s=100e6))
    with Cluster(4, links=slow, slow={3: 2.0}) as cluster:
        ...
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib.base.checks import is_number
from course_lib.layouts.link import Link

__all__ = ["Links", "Shape", "shape_of"]


@dataclass(frozen=True)
class Links:
    """Which link joins which ranks: ``default``, or what ``between`` has for a pair of ranks.

    ``between={(0, 1): link}`` counts in both directions, unless (1, 0) is given a link of its own.
    """

    default: Link = field(default_factory=Link)
    between: Mapping[tuple[int, int], Link] = field(default_factory=dict)
    across: Link | None = None  # between nodes; see ``Links.nodes``
    ranks_per_node: int = 0  # 0: all ranks on one node
    ports_per_node: int = 1

    def __post_init__(self) -> None:
        for name, link in [
            ("default", self.default),
            *((f"between[{p}]", v) for p, v in self.between.items()),
        ]:
            if not isinstance(link, Link):
                raise ValueError(f"{name}={link!r} must be a Link, such as Link(1e-3, 100e6)")
        for pair in self.between:
            if not (isinstance(pair, tuple) and len(pair) == 2 and all(_is_rank(r) for r in pair)):
                raise ValueError(f"between has the key {pair!r}; a key is a pair of ranks, such as (0, 1)")
            if pair[0] == pair[1]:
                raise ValueError(f"between has the key {pair!r}, but a link joins two different ranks")

    @classmethod
    def nodes(cls, ranks_per_node: int, *, inside: Link, across: Link, ports_per_node: int = 1) -> Links:
        """Ranks 0 .. ``ranks_per_node`` - 1 on the first node, and so on; nodes are joined by ``across``.

        The ranks of a node share its ``ports_per_node`` ports to the other nodes.
        """
        for name, value in (("ranks_per_node", ranks_per_node), ("ports_per_node", ports_per_node)):
            if not _is_rank(value) or value < 1:
                raise ValueError(f"{name}={value!r} must be a whole number of at least 1; use 1")
        if not isinstance(across, Link):
            raise ValueError(f"across={across!r} must be a Link, such as Link(1e-3, 100e6)")
        return cls(inside, across=across, ranks_per_node=ranks_per_node, ports_per_node=ports_per_node)

    def node_of(self, rank: int) -> int:
        """The number of the node that ``rank`` sits on."""
        return rank // self.ranks_per_node if self.ranks_per_node else 0

    def link(self, sender: int, receiver: int) -> Link:
        """The link from one rank to another."""
        found = self.between.get((sender, receiver)) or self.between.get((receiver, sender))
        if found is not None:
            return found
        crosses = self.across is not None and self.node_of(sender) != self.node_of(receiver)
        return self.across if crosses and self.across is not None else self.default

    def matrix(self, num_ranks: int) -> tuple[tuple[Link | None, ...], ...]:
        """``matrix(n)[i][j]``: the link from rank i to rank j, None from a rank to itself."""
        ranks = range(num_ranks)
        return tuple(tuple(None if i == j else self.link(i, j) for j in ranks) for i in ranks)


@dataclass(frozen=True)
class Shape:
    """How the ranks of a cluster are shaped at the moment. Every new one has a ``token`` of its own."""

    links: Links | None = None
    slow: tuple[tuple[int, float], ...] = ()  # (rank, factor)
    token: str = ""

    def slow_factor(self, rank: int) -> float:
        return dict(self.slow).get(rank, 1.0)


def shape_of(links: Links | None, slow: Mapping[int, float] | None, *, world_size: int, device: str) -> Shape | None:
    """What was asked for, checked against the cluster; None when nothing was: ``Links()`` slow nothing.

    Raises ``ValueError`` for ranks that are not there, factors below 1, and links between ranks on GPUs.
    """
    if links is None and not slow:
        return None
    if links is not None:
        _check_links(links, world_size, device)
        links = None if links == Links() else links  # to shape what takes no time would take some
    if slow is not None and not isinstance(slow, Mapping):
        raise ValueError(f"slow={slow!r} must say which rank is slowed by how much, such as slow={{1: 2.0}}")
    for rank, factor in (slow or {}).items():
        _check_rank(rank, world_size, f"slow={dict(slow or {})!r}")
        if not is_number(factor) or not 1 <= factor < math.inf:
            raise ValueError(
                f"slow={{{rank}: {factor!r}}} must be a factor of at least 1; with 2.0 computing takes twice as long. "
                "To make one rank faster than the others, slow the others"
            )
    return Shape(links, tuple(sorted((slow or {}).items())), uuid.uuid4().hex) if links or slow else None


def _check_links(links: Any, world_size: int, device: str) -> None:
    if not isinstance(links, Links):
        raise ValueError(f"links={links!r} must be Links, such as Links(Link(1e-3, 100e6))")
    if device != "cpu":
        raise ValueError(
            f"links can be shaped between ranks on the CPU, and these ranks are on {device}: "
            f"make Cluster({world_size}, links=...), which puts its ranks on the CPU"
        )
    for pair in links.between:
        for rank in pair:
            _check_rank(rank, world_size, f"the link {pair}")
    if links.ranks_per_node and world_size % links.ranks_per_node:
        near = max(d for d in range(1, links.ranks_per_node + 1) if world_size % d == 0)
        raise ValueError(
            f"{world_size} ranks do not fill nodes of ranks_per_node={links.ranks_per_node}; the nearest that does "
            f"is {near}"
        )


def _check_rank(rank: Any, world_size: int, what: str) -> None:
    if not _is_rank(rank) or rank not in range(world_size):
        near = min(max(rank, 0), world_size - 1) if _is_rank(rank) else 0
        raise ValueError(f"{what} names rank {rank!r}; ranks here are 0 to {world_size - 1}, the nearest is {near}")


def _is_rank(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
