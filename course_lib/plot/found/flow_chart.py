"""How much goes from each of some places to each of others: lines from above to below, as thick as what goes there."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.base.checks import at_most
from course_lib.plot.style import OKABE_ITO, Look, Picture, canvas, line_colour, outlined, text_colour

__all__ = ["flow_chart"]

MOST_PLACES = 8
_LOOKS = [
    Look(OKABE_ITO[colour], "", dashes)
    for colour, dashes in (("sky blue", "-"), ("orange", "--"), ("green", "-."), ("purple", ":"))
]
_WIDE, _BOX, _HIGH = 8.0, 0.56, 3.0  # of the sheet, of a box, of all, in inches
_RIM = 0.04  # inches above and below the boxes
_THICKEST = 5.0  # points


def flow_chart(flows: Mapping[str, Mapping[str, int]], *, unit: str = "", title: str = "") -> Picture:
    """``flows[source][target]`` of ``unit``, such as "rows": a line each, the thickest for the most.

    Sources stand above with what they give in all, targets below with what they get;
    without a unit their names alone. The lines of a source have its
    colour and its dashes. ``ValueError`` where nothing flows, for a number below 0, and for more than eight places.
    """
    targets = list(dict.fromkeys(target for row in flows.values() for target in row))
    most = max((size for row in flows.values() for size in row.values()), default=0)
    if most <= 0 or any(size < 0 for row in flows.values() for size in row.values()):
        raise ValueError(f"flows are {dict(flows)}; each is a number of {unit} of at least 0, and one must be above 0")
    at_most(MOST_PLACES, sources=len(flows), targets=len(targets))
    got = {target: sum(row.get(target, 0) for row in flows.values()) for target in targets}
    with canvas(width=_WIDE, height=_HIGH + 0.35 * bool(title), title=title) as (figure, axes):
        axes.set(xlim=(0, _WIDE), ylim=(_HIGH + _RIM, -_RIM))
        axes.axis("off")
        above, below = _middles(len(flows)), _middles(len(targets))
        for number, (source, row) in enumerate(flows.items()):
            look = _LOOKS[number % len(_LOOKS)]
            spread = (number - (len(flows) - 1) / 2) * 0.1  # lines to one target end side by side
            for target, size in ((one, size) for one, size in row.items() if size):
                places = [above[number], below[targets.index(target)] + spread]
                width = max(_THICKEST * size / most, 0.6)
                shade = line_colour(look.colour)
                axes.plot(places, [_BOX, _HIGH - _BOX], look.letter, color=shade, linewidth=width, zorder=1)
            _box(axes, above[number], 0, _said(source, sum(row.values()), unit), look)
        for target, x in zip(targets, below, strict=True):
            _box(axes, x, _HIGH - _BOX, _said(target, got[target], unit), Look("#FFFFFF", "", ""))
    return Picture(figure, _words(flows, unit, title))


def _said(name: str, size: int, unit: str) -> str:
    return f"{name}\n{size:,} {unit}" if unit else name


def _middles(count: int) -> list[float]:
    return [_WIDE * (place + 0.5) / count for place in range(count)]


def _box(axes: Axes, middle: float, top: float, text: str, look: Look) -> None:
    wide = _WIDE / MOST_PLACES - 0.06
    axes.add_patch(Rectangle((middle - wide / 2, top), wide, _BOX, **outlined(look), zorder=2))
    ink = text_colour(look.colour)
    axes.text(middle, top + _BOX / 2, text, ha="center", va="center", fontsize=8, color=ink, zorder=3)


def _words(flows: Mapping[str, Mapping[str, int]], unit: str, title: str) -> str:
    said = [f"{title}, in {unit}." if unit else f"{title}."] if title else []
    for source, row in flows.items():
        sizes = [f"{size:,} to {target}" if unit else f"to {target}" for target, size in row.items() if size]
        said += [f"From {source}: {'; '.join(sizes)}."] if sizes else []
    return " ".join(said).replace("\n", ", ")
