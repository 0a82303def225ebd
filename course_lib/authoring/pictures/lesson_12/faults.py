"""Pictures of faults: steps done twice, what a checkpoint of a job holds, and agents that ask for a store."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

_BLUE, _ORANGE, _GREEN, _PURPLE = (OKABE_ITO[name] for name in ("sky blue", "orange", "green", "purple"))
_LEFT, _STEP = 12.0, 6.0


def _steps(axes: Axes, row: float, first: int, last: int, colour: str, place: float, hatch: str = "") -> None:
    for number in range(first, last + 1):
        x = place + _STEP * (number - first)
        box(axes, x, row, _STEP - 0.7, 3.4, str(number), colour=colour, hatch=hatch, size=9.5)


def redone() -> Figure:
    """Two lines of steps with checkpoints; the second begins where the last checkpoint of the first stands."""
    figure, axes = drawing(8, 2.7)
    word(axes, _LEFT - 1.4, 18.7, "start 0", ha="right")
    word(axes, _LEFT - 1.4, 7.7, "start 1", ha="right")
    _steps(axes, 17, 1, 8, _BLUE, _LEFT)
    mark = _LEFT + 5 * _STEP - 0.35
    axes.plot([mark, mark], [4.6, 22.6], color=INK, linewidth=1.6, linestyle=(0, (4, 2)))
    word(axes, mark, 24.2, "checkpoint", size=9.5)
    death = _LEFT + 8 * _STEP + 1.6
    word(axes, death, 18.7, "×", size=22, color=OKABE_ITO["vermillion"], weight="bold")
    word(axes, death + 2.4, 18.7, "a rank dies", ha="left", size=9.5)
    arrow(axes, (death, 16.2), (mark + 1.0, 11.4), color=GREY, connectionstyle="arc3,rad=-0.22")
    _steps(axes, 6, 6, 8, _ORANGE, _LEFT + 5 * _STEP, hatch="//")
    _steps(axes, 6, 9, 10, _BLUE, _LEFT + 8 * _STEP)
    word(axes, _LEFT + 6.5 * _STEP, 3.6, "done twice", size=9.5)
    word(axes, _LEFT + 9 * _STEP, 3.6, "new", size=9.5)
    return figure


_HELD = (
    ("weights", _BLUE, "begin at\nstep 0"),
    ("optimizer's\nstate", _ORANGE, "a bump in\nthe loss"),
    ("random\nnumbers", _GREEN, "another run than\nthe undisturbed"),
    ("place in\nthe epoch", _PURPLE, "samples lost,\nor seen twice"),
)


def state() -> Figure:
    """Four boxes of a checkpoint, and below each what goes wrong without it."""
    figure, axes = drawing(8, 2.6)
    word(axes, 40, 23.6, "a checkpoint of a job", size=10.5, weight="bold")
    box(axes, 3.0, 10.6, 74.0, 11.0, colour=PALE)
    for place, (text, colour, without) in enumerate(_HELD):
        x = 5.0 + 18.0 * place
        box(axes, x, 12.2, 16.0, 7.6, text, colour=colour, size=10)
        arrow(axes, (x + 8, 10.2), (x + 8, 6.6), color=GREY)
        word(axes, x + 8, 4.0, without, size=9.5)
    word(axes, 2.0, 8.4, "without:", size=9.5, color=GREY, ha="left")
    return figure


def meeting() -> Figure:
    """Three nodes; the endpoints of two lead to the store on the first, that of the third to a store of its own."""
    figure, axes = drawing(8, 3.6)
    nodes = (
        (3.0, "node 0", "10.0.0.1", "10.0.0.1:29400"),
        (29.0, "node 1", "10.0.0.2", "10.0.0.1:29400"),
        (55.0, "node 2", "10.0.0.3", "localhost:29400"),
    )
    for x, name, address, endpoint in nodes:
        box(axes, x, 3.0, 22.0, 29.0, colour=PALE)
        word(axes, x + 11, 30.0, f"{name}, {address}", size=10, weight="bold")
        box(axes, x + 2.5, 17.6, 17.0, 8.6, f"agent\nendpoint\n{endpoint}", colour=_BLUE, size=9.5)
    for x, text in ((5.5, "store\nrdzv_id a: node 0, node 1"), (57.5, "store\nrdzv_id a: node 2")):
        box(axes, x, 5.0, 17.0, 6.4, text, colour=_PURPLE, size=8.5)
    arrow(axes, (14.0, 17.2), (14.0, 11.8), head=14)
    arrow(axes, (36.0, 17.2), (23.0, 9.6), head=14, connectionstyle="arc3,rad=-0.18")
    arrow(axes, (66.0, 17.2), (66.0, 11.8), head=14)
    return figure
