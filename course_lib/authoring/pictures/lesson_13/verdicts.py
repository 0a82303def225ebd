"""Picture of part a: four verdicts, which of them let one rely on a sentence, and the answer that is none."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, INK, PALE, box, drawing, word
from course_lib.plot import OKABE_ITO

_TOLD = (
    ("holds", "it was so\nwherever we looked", COLOURS[2]),
    ("holds with\nconditions", "it was so here,\nand not there", COLOURS[3]),
    ("misleading", "true by its words,\nnot by what one takes\nfrom them", COLOURS[1]),
    ("false", "it did not happen", OKABE_ITO["vermillion"]),
)


def verdicts() -> Figure:
    """Four boxes; brackets below say what the two on either side have in common."""
    figure, axes = drawing(8, 3.3)
    for place, (name, told, colour) in enumerate(_TOLD):
        x = 2 + 19.4 * place
        box(axes, x, 21, 17.6, 8, name, colour=colour, size=12)
        word(axes, x + 8.8, 16.6, told, size=9.5)
    _bracket(axes, 2, 39, "one may rely on it")
    _bracket(axes, 40.8, 77.8, "one may not")
    box(
        axes,
        20,
        1.2,
        40,
        4,
        "cannot tell here: no verdict, the bet stays open",
        colour=PALE,
        dash="--",
        size=10,
    )
    return figure


def _bracket(axes: Axes, left: float, right: float, text: str) -> None:
    axes.plot((left, left, right, right), (12.9, 11.9, 11.9, 12.9), color=INK, linewidth=1.3)
    word(axes, (left + right) / 2, 9.8, text, size=11, weight="bold")
