"""The matmul explorer: cut X, A and Y as you like; which collectives it takes is derived, and the ranks check it.

Nothing is looked up: ``matmul_plan`` works the steps out from the placements, and the button runs those steps and no
others on real ranks, with the meter on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import ipywidgets as widgets

from course_lib.cluster.base.rank import Rank
from course_lib.meter import metered
from course_lib.parallel.tensor import Partial, Placement, Replicate, Shard, matmul_plan
from course_lib.plot import Picture
from course_lib.plot.boards.matmul_board import MatmulBoard
from course_lib.widgets.controls import dropdown
from course_lib.widgets.explorer import Explorer
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
# What the other menus then are.
_WITH_TILES = {"x": "cut by columns", "y": "cut by columns", "num_ranks": "4"}
Ranks = Callable[[int], "Cluster"]


class MatmulExplorer(Explorer[Planned | Tiled]):
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
        self.run.on_click(self._run)
        super().__init__([[self.x, self.a, self.y, self.num_ranks, self.run]])

    @property
    def choice(self) -> Planned | Tiled:
        """How the product is computed, as chosen now."""
        if self.a.value == _TILES:
            return Tiled()
        x, a, y = (_PLACEMENTS[control.value] for control in (self.x, self.a, self.y))
        return Planned(matmul_plan(x, a, y), int(self.num_ranks.value))

    way = choice

    def _shown(self, choice: Planned | Tiled) -> tuple[Picture, list[str]]:
        """The next redraw draws over this picture."""
        lines = choice.lines()
        return self._board.draw(*choice.columns(), " ".join(lines)), lines

    def __repr__(self) -> str:
        ranks = "1 rank" if self.num_ranks.value == 1 else f"{self.num_ranks.value} ranks"
        return f"Matmul explorer (X {self.x.value}, A {self.a.value}, Y {self.y.value}, {ranks})"

    def _follow(self, choice: Planned | Tiled | None) -> None:
        in_tiles = isinstance(choice, Tiled)
        with self._undrawn():
            for name, value in _WITH_TILES.items():
                control = getattr(self, name)
                control.disabled = in_tiles
                control.value = value if in_tiles else control.value

    def _run(self, _: object) -> None:
        ranks = self._ranks
        assert ranks is not None  # the button is disabled without
        way, lines = self.way, self._lines

        def multiply() -> None:
            run = metered(ranks(way.num_ranks), _multiply, way)
            self._say(*lines, checked(way, list(run), run.communication))

        self._on_ranks(self.run, "The ranks multiply ...", multiply)


def _multiply(me: Rank, way: Planned | Tiled) -> Products:
    return way.multiply(me)
