"""The nodes of a notebook: found by their engines, met, compared with this machine; and which rank is where."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from course_lib.base.text import counted
from course_lib.cluster.base.process_group import RankConfig
from course_lib.cluster.nodes.errors import NodesUnlike
from course_lib.cluster.nodes.facts import facts_here
from course_lib.cluster.nodes.meeting.table import MeetingTable
from course_lib.cluster.nodes.node import RemoteNode
from course_lib.cluster.nodes.remote_rank import RemoteRank
from course_lib.cluster.process.caller_context import Context

__all__ = ["NodeSet", "NodeTeam", "RankPlace", "places_of"]


# Forks of one server begin with the random numbers of that server, and each node has a server of its own.
_SEED = secrets.randbits(32)


@dataclass(frozen=True)
class RankPlace:
    """Where a rank is: its node, its number there, and how many are there."""

    node: int
    local_rank: int
    local_size: int


def places_of(world_size: int, num_nodes: int) -> tuple[RankPlace, ...]:
    """Ranks in their order over the nodes, as torchrun counts them; the first nodes have one more where it is uneven.

    Raises ``ValueError`` where there are more nodes than ranks.
    """
    if num_nodes > world_size:
        raise ValueError(f"nodes={num_nodes} is more than there are ranks, {world_size}; use nodes={world_size}")
    each, more = divmod(world_size, num_nodes)
    sizes = [each + (node < more) for node in range(num_nodes)]
    return tuple(RankPlace(node, local, size) for node, size in enumerate(sizes) for local in range(size))


class NodeSet:
    """Nodes in their order, each met once. ``address``: this machine, as the nodes reach it; ``missing``: hosts that
    do not answer."""

    def __init__(self, nodes: Sequence[RemoteNode], address: str, *, missing: Sequence[str] = ()) -> None:
        self.nodes, self.address, self.missing = tuple(nodes), address, tuple(missing)

    def meet(self) -> None:
        """Ask each node what it is.

        Raises:
            NodesUnlike: One has another Python, PyTorch or course than this notebook.
            NodeLost: One does not answer.
        """
        own = facts_here(os.getcwd()).versions
        for node in self.nodes:
            has = node.meet(os.getcwd()).versions
            unlike = [f"{what} {has[what]} (here: {own[what]})" for what in own if has[what] != own[what]]
            if unlike:
                raise NodesUnlike(
                    f"{node} has {' and '.join(unlike)}. Ranks that exchange tensors and functions need the same: "
                    "install the same there, or name its Python by `course nodes up --python PATH`."
                )

    def first(self, number: int) -> NodeSet:
        """So many of them; all where there are fewer."""
        return NodeSet(self.nodes[:number], self.address, missing=self.missing)

    def in_words(self, world_size: int) -> str:
        """Which ranks go where, and what is missing: "8 ranks on 2 nodes: 4 on a, 4 on b. c does not answer."""
        places = places_of(world_size, len(self.nodes))
        counts = [sum(place.node == node.number for place in places) for node in self.nodes]
        hosts = [node.facts.host if node.facts else f"node {node.number}" for node in self.nodes]
        each = ", ".join(f"{count} on {host}" for count, host in zip(counts, hosts, strict=True))
        silent = f" {', '.join(self.missing)} {'does' if len(self.missing) == 1 else 'do'} not answer."
        ranks = f"{counted(world_size, 'rank')} on {counted(len(self.nodes), 'node')}: {each}."
        return ranks + (silent if self.missing else "")

    def open(self) -> NodeTeam:
        """Make room for a new team on all nodes, and a table by which its ranks find each other."""
        name, table = secrets.token_hex(8), MeetingTable()
        for node in self.nodes:
            node.open(name, table)
        return NodeTeam(self, name)


class NodeTeam:
    """The ranks of one team on all nodes: started, and ended."""

    def __init__(self, nodes: NodeSet, name: str) -> None:
        self._nodes, self._name = nodes, name

    def start(self, config: RankConfig, place: RankPlace, context: Context) -> RemoteRank:
        """Start one rank on its node; it reports on its work line when it has met the others."""
        node = self._nodes.nodes[place.node]
        where = {"node": place.node, "local_rank": place.local_rank, "local_size": place.local_size}
        behind_s = node.clock.behind_s
        address = self._nodes.address
        placed = replace(config, notebook_address=address, clock_behind_s=behind_s, seed=_SEED, **where)
        rank = node.new_rank(self._name, config.rank)
        node.post("start", self._name, placed, context)
        return rank

    def look(self) -> None:
        """Learn which ranks have died since the last call, and how the clocks stand now: each node is asked at once."""
        looks = [node.begin_look(self._name) for node in self._nodes.nodes]
        for look in looks:
            look()

    def end(self) -> None:
        """End what is left of it on the nodes. Safe to repeat."""
        for node in self._nodes.nodes:
            node.end(self._name)
