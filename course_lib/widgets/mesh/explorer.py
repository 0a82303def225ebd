"""The mesh explorer: who holds what on a mesh, and what a step sends, by the cost model, and on real ranks.

Sizes of four axes, their order, ranks of a node, and the parameter that is looked at. The button runs a step of this
very mesh under the meter and the memory ledger, and lays what was measured over the prediction.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from course_lib.base.checks import at_most, known
from course_lib.base.text import kib
from course_lib.cost.mesh.link_bytes import LinkBytes
from course_lib.cost.mesh.mesh_state import pieces_of_rank
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh.watching import WatchedRank, watched_mesh_step
from course_lib.plot.boards.mesh_board import MeshBoard
from course_lib.plot.boards.mesh_tiles import holders_in_words, ranks_text
from course_lib.plot.raster import Raster
from course_lib.widgets.controls import dropdown, number
from course_lib.widgets.mesh.choice import AXES, CONFIG, MOST_RANKS, NUM_ROWS, PARAMETERS, MeshChoice
from course_lib.widgets.mesh.missions import MISSIONS, MeshMission
from course_lib.widgets.rank_explorer import RankExplorer, ranks_of

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["MeshExplorer"]

_NODES = {"all ranks": 0, "1": 1, "2": 2, "3": 3, "4": 4, "8": 8}
_ORDERS = {", ".join(order): order for order in itertools.permutations(AXES)}
_ONE_DEVICE = MeshChoice.of(dict.fromkeys(AXES, 1), AXES)
_KINDS = {"parameters": "weights", "gradients": "gradients", "optimizer": "AdamW's states"}


class MeshExplorer(RankExplorer[MeshChoice, list[WatchedRank]]):
    """Controls above a picture, lines that say the same in words, missions, and a button that runs it.

    ``cluster`` runs meshes of as many ranks as it has; without one, and for other numbers, there is the model only.
    A mission that has been reached stays so, and what was measured comes back with its mesh.
    """

    _NAME = "Mesh explorer"
    _NO_CHOICE, _REFUSED = "no mesh", "These sizes make no mesh."
    _RUN_IT, _TO_DO = "Run a step", "take two steps"
    _MODEL_ONLY = "a run is for meshes of the {} ranks of this explorer's cluster."

    def __init__(self, cluster: Cluster | None = None, *, missions: Sequence[MeshMission] = MISSIONS) -> None:
        start = dict.fromkeys(AXES, 1) | {"dp_replicate": min(ranks_of(cluster, 4), MOST_RANKS)}
        self._board = MeshBoard(_ONE_DEVICE.most_held_bytes)
        self.sizes = {
            axis: number(axis, start[axis], (1, MOST_RANKS), width=f"{6 + len(axis) // 2}em") for axis in AXES
        }
        self.order = dropdown("order, slowest first", _ORDERS, ", ".join(AXES), width="29em")
        self.ranks_per_node = dropdown("ranks of a node", _NODES, "all ranks", width="13em")
        self.parameter = dropdown("parameter", PARAMETERS, "blocks.2.mlp.w_down.weight", width="22em")
        rows = [[*self.sizes.values(), self.ranks_per_node], [self.order], [self.parameter]]
        super().__init__(rows, cluster, missions)

    @property
    def choice(self) -> MeshChoice:
        """What is chosen now. ``ValueError`` where that is no mesh for this model."""
        sizes = {axis: control.value for axis, control in self.sizes.items()}
        return MeshChoice.of(sizes, _ORDERS[self.order.value], _NODES[self.ranks_per_node.value])

    def choose(self, mesh: Mesh | str) -> None:
        """Set the controls to a mesh, or to its text, ``"pp=2 tp=2, 2 ranks a node"``.

        ``ValueError`` for what the controls cannot be set to; they are left as they are.
        """
        mesh = Mesh.parse(mesh) if isinstance(mesh, str) else mesh
        for axis in mesh.axes:
            known("axis", axis, AXES)
        sizes = {axis: mesh.size(axis) for axis in AXES}
        at_most(MOST_RANKS, **sizes)
        at_a_node = known("ranks a node", str(mesh.ranks_per_node or "all ranks"), _NODES)
        MeshChoice.of(sizes, mesh.axes, mesh.ranks_per_node)
        values = [(control, sizes[axis]) for axis, control in self.sizes.items()]
        self._set([*values, (self.order, _order_with(mesh.axes)), (self.ranks_per_node, at_a_node)])

    def _shown(self, choice: MeshChoice) -> tuple[Raster, list[str]]:
        name, states, found = self.parameter.value, choice.states(), self._measured.get(choice, [])
        most = max(states, key=lambda state: state.total)
        least = min(state.total for state in states)
        held = ", ".join(f"{words} {kib(getattr(most, kind))}" for kind, words in _KINDS.items())
        other = f" The rank that keeps least keeps {kib(least)}." if least < most.total else ""
        lines = [
            f"{name} on {choice}. {holders_in_words(choice.mesh, choice.holders(name))}",
            f"Model: a rank keeps {kib(most.total)} after a step ({held}), "
            f"{most.total / _ONE_DEVICE.most_held_bytes:.0%} of the bytes that one device alone would keep. "
            "Activations are not "
            f"counted.{other}",
            *(_axis_in_words(choice, axis, links) for axis, links in choice.sent().items()),
            *self._run_in_words(choice),
        ]
        picture = self._board.draw(
            choice.mesh,
            name,
            choice.holders(name),
            states,
            choice.sent(),
            alt=" ".join(lines),
            measured_held=[sum(rank.held_bytes.values()) for rank in found],
            measured_sent=_sent_by_link(choice, found) if found else None,
        )
        return picture, lines

    def _in_short(self, choice: MeshChoice) -> str:
        return f"{kib(choice.most_held_bytes)} on the rank that keeps most"

    @property
    def _found(self) -> dict[MeshChoice, int]:
        """What passed between nodes on every mesh that has been run."""
        return {
            choice: sum(links.between_bytes for links in _sent_by_link(choice, found).values())
            for choice, found in self._measured.items()
        }

    def _found_in_words(self, choice: MeshChoice, found: list[WatchedRank]) -> str:
        held = [sum(rank.held_bytes.values()) for rank in found]
        sent, model = _sent_by_link(choice, found), choice.sent()
        elsewhere = sum(
            pieces_of_rank(CONFIG, choice.mesh, rank) != watched.pieces for rank, watched in enumerate(found)
        )
        off = {
            "memory": _off(held, [state.total for state in choice.states()]),
            "bytes": _off([size for a in model for size in sent[a]], [size for a in model for size in model[a]]),
        }
        apart = "; ".join(f"{what} up to {share:.1%} apart" for what, share in off.items() if share)
        pieces = "every rank holds the pieces that the model says"
        if elsewhere:
            pieces = f"{elsewhere} of the ranks hold other pieces"
        return (
            f"Measured on ranks 0 to {choice.num_ranks - 1}: they keep {', '.join(map(kib, held))}; "
            f"{_all_in_words(sent)}. From the model: {apart or 'no difference in memory and bytes'}; {pieces}."
        )

    def _measure(self, cluster: Cluster, choice: MeshChoice) -> list[WatchedRank]:
        return watched_mesh_step(cluster, choice.mesh, CONFIG, num_rows=NUM_ROWS)


def _order_with(axes: tuple[str, ...]) -> str:
    """The first order of all axes in which these follow each other so."""
    return next(name for name, order in _ORDERS.items() if tuple(axis for axis in order if axis in axes) == axes)


def _axis_in_words(choice: MeshChoice, axis: str, links: LinkBytes) -> str:
    groups = ", ".join(ranks_text(choice.mesh, group) for group in choice.mesh.groups(axis))
    between = f"{kib(links.between_bytes)} of them" if links.between_bytes else "none of them"
    return f"{axis}: groups {groups}; all ranks together send {kib(sum(links))} a step, {between} between nodes."


def _sent_by_link(choice: MeshChoice, found: Sequence[WatchedRank]) -> dict[str, LinkBytes]:
    """What all ranks sent in a run, axis by axis."""
    sent = {axis: [0, 0] for axis in choice.axes}
    for rank, watched in enumerate(found):
        for axis, receivers in watched.sent_bytes.items():
            for receiver, size_bytes in receivers.items():
                sent[axis][choice.mesh.node_of(rank) != choice.mesh.node_of(receiver)] += size_bytes
    return {axis: LinkBytes(*links) for axis, links in sent.items()}


def _all_in_words(sent: Mapping[str, LinkBytes]) -> str:
    return ", ".join(
        f"{kib(sum(links))} along {axis} ({kib(links.between_bytes)} between nodes)" for axis, links in sent.items()
    )


def _off(found: Sequence[int], model: Sequence[int]) -> float:
    """The largest difference, as a share of what the model says."""
    return max((abs(a - b) / max(b, 1) for a, b in zip(found, model, strict=True)), default=0.0)
