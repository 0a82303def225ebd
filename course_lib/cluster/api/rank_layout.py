"""Where the ranks of a cluster are: on this machine, forked by its fork server, or over the nodes of a node set."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.cluster.base.backends import RankDevice, rank_devices
from course_lib.cluster.ports.port_guard import StrangerConnected

if TYPE_CHECKING:
    from course_lib.cluster.base.failure import Failure
    from course_lib.cluster.nodes.node_set import NodeSet, NodeTeam, RankPlace

__all__ = ["RankLayout", "here", "over_nodes"]


# What PyTorch says where no connection comes about.
_NOT_REACHED = re.compile(r"timed? ?out|refused|no route|unreachable|connect", re.IGNORECASE)


@dataclass(frozen=True)
class RankLayout:
    """The device of each rank, and the place of each where ``nodes`` have them."""

    devices: tuple[RankDevice, ...]
    nodes: NodeSet | None = None
    places: tuple[RankPlace, ...] = ()

    @property
    def address(self) -> str:
        """This machine, as its ranks reach it."""
        return self.nodes.address if self.nodes else "127.0.0.1"

    @property
    def names(self) -> dict[int, str]:
        """The node of each rank, in words; empty where all are here."""
        if self.nodes is None:
            return {}
        return {rank: str(self.nodes.nodes[place.node]) for rank, place in enumerate(self.places)}

    @property
    def is_lost(self) -> bool:
        """Whether a node has gone, and its ranks can be started there no more."""
        return self.nodes is not None and any(node.is_lost for node in self.nodes.nodes)

    def advice(self, failure: Failure | None) -> str:
        """What may help where ranks of several nodes did not meet; empty elsewhere. None: they still try to."""
        if self.nodes is None or (failure is not None and not _NOT_REACHED.search(failure.message)):
            return ""
        if failure is not None and failure.type_name == StrangerConnected.__name__:
            return ""  # they met well, and somebody else did, too
        return (
            "\n\nThe ranks connect to one another, on any port, each by its network towards this machine's address "
            f"{self.address}. Is this the address by which the nodes reach it (`course nodes up --address ADDRESS`), "
            "and does a firewall let them through?"
        )

    def new_team(self) -> NodeTeam | None:
        """Room on the nodes for a new team; None where all ranks are here."""
        return self.nodes.open() if self.nodes is not None else None


def here(world_size: int, *, backend: str = "auto", num_gpus: int) -> RankLayout:
    """All ranks on this machine. Raises ``ValueError`` as ``rank_devices`` does."""
    return RankLayout(rank_devices(world_size, backend=backend, num_gpus=num_gpus))


def over_nodes(world_size: int, nodes: NodeSet, *, backend: str = "auto") -> RankLayout:
    """Ranks over all these nodes, in order; one back end for all, since they form one process group.

    Raises ``ValueError`` for fewer ranks than nodes, and for a back end that a node cannot give.
    """
    from course_lib.cluster.nodes.node_set import places_of

    places = places_of(world_size, len(nodes.nodes))
    num_gpus = min(node.facts.num_gpus if node.facts else 0 for node in nodes.nodes)
    largest = max(place.local_size for place in places)
    of_node = rank_devices(largest, backend=backend, num_gpus=num_gpus)
    return RankLayout(tuple(of_node[place.local_rank] for place in places), nodes, places)
