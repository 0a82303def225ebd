"""The mesh explorer: who holds what on a mesh, and what a step sends, by the cost model, and on real ranks.

Sizes of four axes, their order, ranks of a node, and the parameter that is looked at. The button runs a step of this
very mesh under the meter and the memory ledger, and lays what was measured over the prediction.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import ipywidgets as widgets

from course_lib.base.checks import at_most, is_number, known
from course_lib.base.text import kib
from course_lib.cost.mesh.link_bytes import LinkBytes
from course_lib.cost.mesh.mesh_state import pieces_of_rank
from course_lib.forms import Form, busy, picture_box
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh.watching import WatchedRank, watched_mesh_step
from course_lib.plot.boards.mesh_board import MeshBoard
from course_lib.plot.boards.mesh_tiles import holders_in_words, ranks_text
from course_lib.plot.raster import Raster
from course_lib.widgets.controls import dropdown, number, status
from course_lib.widgets.mesh.choice import AXES, CONFIG, MOST_RANKS, NUM_ROWS, PARAMETERS, MeshChoice
from course_lib.widgets.mesh.missions import MISSIONS, MeshMission
from course_lib.widgets.mission_progress import MissionProgress

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["MeshExplorer"]

_NODES = {"all ranks": 0, "1": 1, "2": 2, "3": 3, "4": 4, "8": 8}
_ORDERS = {", ".join(order): order for order in itertools.permutations(AXES)}
_KINDS = {"parameters": "weights", "gradients": "gradients", "optimizer": "AdamW's states"}
_NO_MESH = "These sizes make no mesh."


class MeshExplorer(Form):
    """Controls above a picture, lines that say the same in words, missions, and a button that runs it.

    ``cluster`` runs meshes of as many ranks as it has; without one, and for other numbers, there is the model only.
    A mission that has been reached stays so, and what was measured comes back with its mesh.
    """

    def __init__(self, cluster: Cluster | None = None, *, missions: Sequence[MeshMission] = MISSIONS) -> None:
        if cluster is not None and not is_number(getattr(cluster, "world_size", None)):
            raise ValueError(
                f"cluster={cluster!r} is no cluster. Give shared_cluster(4), or nothing for predictions alone."
            )
        self._cluster, self._standing = cluster, MissionProgress(missions)
        self._measured: dict[MeshChoice, list[WatchedRank]] = {}
        self._is_setting = False  # several controls are moved at once
        num_ranks = 4 if cluster is None else min(cluster.world_size, MOST_RANKS)
        start = dict.fromkeys(AXES, 1) | {"dp_replicate": num_ranks}
        self._board = MeshBoard(MeshChoice.of(dict.fromkeys(AXES, 1), AXES).most_held_bytes)
        self.sizes = {
            axis: number(axis, start[axis], (1, MOST_RANKS), width=f"{6 + len(axis) // 2}em") for axis in AXES
        }
        self.order = dropdown("order, slowest first", _ORDERS, ", ".join(AXES), width="29em")
        self.ranks_per_node = dropdown("ranks of a node", _NODES, "all ranks", width="13em")
        self.parameter = dropdown("parameter", PARAMETERS, "blocks.2.mlp.w_down.weight", width="22em")
        self.run = widgets.Button(description="run it on real ranks", layout={"width": "13em"})
        self.image = picture_box(width="768px")
        self.words = widgets.HTML()
        self._draw()
        for control in (*self.sizes.values(), self.order, self.ranks_per_node, self.parameter):
            control.observe(self._draw, names="value")
        self.run.on_click(self._run)
        wrap = widgets.Layout(flex_flow="row wrap")
        rows = ([*self.sizes.values(), self.ranks_per_node], [self.order], [self.parameter, self.run])
        super().__init__([*(widgets.HBox(row, layout=wrap) for row in rows), self.image, self.words])

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
        self._is_setting = True
        try:
            for axis, control in self.sizes.items():
                control.value = sizes[axis]
            self.order.value, self.ranks_per_node.value = _order_with(mesh.axes), at_a_node
        finally:
            self._is_setting = False
        self._draw()

    @property
    def missions(self) -> str:
        """How each mission stands: a line each."""
        return "\n".join(self._standing.lines(self._missed))

    def _missed(self, mission: MeshMission) -> str:
        """What a mission lacks as things are set now."""
        try:
            choice = self.choice
        except ValueError:
            return _NO_MESH
        return mission.missed(choice, self._between)

    def picture(self) -> Raster:
        """What is shown now, as a picture."""
        try:
            choice = self.choice
        except ValueError as error:
            return self._board.blank(str(error))
        found = self._measured.get(choice, [])
        name = self.parameter.value
        return self._board.draw(
            choice.mesh,
            name,
            choice.holders(name),
            choice.states(),
            choice.sent(),
            alt=" ".join(self._lines(choice)),
            measured_held=[sum(rank.held_bytes.values()) for rank in found],
            measured_sent=_sent_by_link(choice, found) if found else None,
        )

    def __repr__(self) -> str:
        try:
            said = f"{self.choice}): {kib(self.choice.most_held_bytes)} on the rank that keeps most"
        except ValueError as error:
            said = f"no mesh): {error}"
        return f"Mesh explorer ({said}; {self._standing}"

    @property
    def _between(self) -> dict[MeshChoice, int]:
        """What passed between nodes on every mesh that has been run."""
        return {
            choice: sum(links.between_bytes for links in _sent_by_link(choice, found).values())
            for choice, found in self._measured.items()
        }

    # -- words ----------------------------------------------------------------------------------------------------

    def _lines(self, choice: MeshChoice) -> list[str]:
        name, states = self.parameter.value, choice.states()
        most = max(states, key=lambda state: state.total)
        least = min(state.total for state in states)
        held = ", ".join(f"{words} {kib(getattr(most, kind))}" for kind, words in _KINDS.items())
        other = f" The rank that keeps least keeps {kib(least)}." if least < most.total else ""
        alone = MeshChoice.of(dict.fromkeys(AXES, 1), AXES).most_held_bytes
        lines = [
            f"{name} on {choice}. {holders_in_words(choice.mesh, choice.holders(name))}",
            f"Model: a rank keeps {kib(most.total)} after a step ({held}), {most.total / alone:.0%} of what one device "
            f"alone would. Activations are not counted.{other}",
            *(_axis_in_words(choice, axis, links) for axis, links in choice.sent().items()),
            self._run_in_words(choice),
        ]
        return [line for line in lines if line]

    def _run_in_words(self, choice: MeshChoice) -> str:
        """What a run found, or why there can be none."""
        found = self._measured.get(choice)
        if found:
            return _found_in_words(choice, found)
        if self._cluster is None:
            return "Model only: no ranks were given to this explorer."
        if self._cluster.world_size != choice.num_ranks:
            ranks = f"the {self._cluster.world_size} ranks of this explorer's cluster"
            return f"Model only: a run is for meshes of {ranks}."
        return ""

    # -- what happens ---------------------------------------------------------------------------------------------

    def _draw(self, _: object = None) -> None:
        if self._is_setting:
            return
        self.image.value = self.picture().png()
        try:
            choice = self.choice
        except ValueError as error:
            self.run.disabled, self.run.tooltip = True, _NO_MESH
            self._say(str(error), *self.missions.splitlines())
            return
        can_run = self._cluster is not None and self._cluster.world_size == choice.num_ranks
        self.run.disabled = not can_run
        self.run.tooltip = f"Run a step on {choice.num_ranks} ranks" if can_run else self._run_in_words(choice)
        self._standing.look(str(choice), self._missed)
        self._say(*self._lines(choice), *self.missions.splitlines())

    def _say(self, *lines: str) -> None:
        self.words.value = status(*lines)

    def _run(self, _: object) -> None:
        assert self._cluster is not None  # the button is disabled without one
        choice = self.choice
        with busy(self.run):
            self._say(*self._lines(choice), f"{choice.num_ranks} ranks take two steps ...")
            try:
                self._measured[choice] = watched_mesh_step(self._cluster, choice.mesh, CONFIG, num_rows=NUM_ROWS)
                self._draw()
            except (RuntimeError, ValueError, OSError) as error:
                failed = f"The ranks could not run it: {str(error).splitlines()[0]}"
                self._say(*self._lines(choice), failed, *self.missions.splitlines())


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


def _found_in_words(choice: MeshChoice, found: Sequence[WatchedRank]) -> str:
    held = [sum(rank.held_bytes.values()) for rank in found]
    sent, model = _sent_by_link(choice, found), choice.sent()
    elsewhere = sum(pieces_of_rank(CONFIG, choice.mesh, rank) != watched.pieces for rank, watched in enumerate(found))
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


def _all_in_words(sent: Mapping[str, LinkBytes]) -> str:
    return ", ".join(
        f"{kib(sum(links))} along {axis} ({kib(links.between_bytes)} between nodes)" for axis, links in sent.items()
    )


def _off(found: Sequence[int], model: Sequence[int]) -> float:
    """The largest difference, as a share of what the model says."""
    return max((abs(a - b) / max(b, 1) for a, b in zip(found, model, strict=True)), default=0.0)
