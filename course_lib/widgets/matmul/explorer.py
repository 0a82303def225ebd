"""The matmul explorer: cut X, A and Y as you like; which collectives it takes is derived, and the ranks check it.

Nothing is looked up: ``matmul_plan`` works the steps out from the placements, and the button runs those steps and no
others on real ranks, with the meter on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import ipywidgets as widgets

from course_lib.cluster.base.rank import Rank
from course_lib.cluster.failures.errors import RankError
from course_lib.forms import Form, busy, picture_box
from course_lib.meter import metered
from course_lib.parallel.tensor import Partial, Placement, Replicate, Shard, matmul_plan
from course_lib.plot import Picture
from course_lib.plot.boards.matmul_board import MatmulBoard
from course_lib.widgets.controls import dropdown, status
from course_lib.widgets.matmul.ways import Planned, Products, Tiled, checked

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["MatmulExplorer"]

_PLACEMENTS: dict[str, Placement] = {
    "whole": Replicate(),
    "cut by rows": Shard(0),
    "cut by columns": Shard(1),
    "partial sums": Partial(),
}
_TILES = "in tiles (both)"
_WITH_TILES = {
    "x": "cut by columns",
    "y": "cut by columns",
    "num_ranks": "4",
}  # what the other menus then are
Ranks = Callable[[int], "Cluster"]


class MatmulExplorer(Form):
    """Controls above a picture of all ranks' parts, lines that say the same in words, and a button that runs it.

    ``ranks(n)`` lends a cluster of n ranks, as ``shared_cluster`` does; without it there are plans only.
    """

    def __init__(self, ranks: Ranks | None = None) -> None:
        self._ranks = ranks
        self._board = MatmulBoard()
        operand = list(_PLACEMENTS)[:3]
        self.x = dropdown("X is", operand, "whole")
        self.a = dropdown("A is", [*operand, _TILES], "cut by columns")
        self.y = dropdown("Y wanted", list(_PLACEMENTS), "cut by columns")
        self.num_ranks = dropdown("ranks", ["1", "2", "4"], "2", width="9em")
        self.run = widgets.Button(description="run", tooltip="Run these steps on ranks", disabled=ranks is None)
        self.image = picture_box(width="768px")
        self.words = widgets.HTML()
        for control in (self.x, self.a, self.y, self.num_ranks):
            control.observe(self._draw, names="value")
        self.run.on_click(self._run)
        self._draw()
        wrap = widgets.Layout(flex_flow="row wrap")
        controls = [self.x, self.a, self.y, self.num_ranks, self.run]
        super().__init__([widgets.HBox(controls, layout=wrap), self.image, self.words])

    @property
    def way(self) -> Planned | Tiled:
        """How the product is computed, as chosen now."""
        if self.a.value == _TILES:
            return Tiled()
        x, a, y = (_PLACEMENTS[control.value] for control in (self.x, self.a, self.y))
        return Planned(matmul_plan(x, a, y), int(self.num_ranks.value))

    def picture(self) -> Picture:
        """What is shown now, as a picture; the next redraw of the widget draws over it."""
        way = self.way
        return self._board.draw(*way.columns(), " ".join(way.lines()))

    def __repr__(self) -> str:
        ranks = "1 rank" if self.num_ranks.value == 1 else f"{self.num_ranks.value} ranks"
        return f"Matmul explorer (X {self.x.value}, A {self.a.value}, Y {self.y.value}, {ranks})"

    def _draw(self, _: object = None) -> None:
        in_tiles = self.a.value == _TILES
        for name, value in _WITH_TILES.items():
            control = getattr(self, name)
            control.disabled = in_tiles
            if in_tiles and control.value != value:
                control.value = value  # which draws
        self.image.value = self.picture().png()
        self._say(*self.way.lines())

    def _say(self, *lines: str) -> None:
        self.words.value = status(*lines)

    def _run(self, _: object) -> None:
        assert self._ranks is not None  # the button is disabled without
        with busy(self.run):
            way, lines = self.way, self.way.lines()
            self._say(*lines, "The ranks multiply ...")
            try:
                run = metered(self._ranks(way.num_ranks), _multiply, way)
                self._say(*lines, checked(way, list(run), run.communication))
            except (RankError, RuntimeError) as error:
                self._say(*lines, f"The ranks could not run it: {str(error).splitlines()[0]}")


def _multiply(me: Rank, way: Planned | Tiled) -> Products:
    return way.multiply(me)
