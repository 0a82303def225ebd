"""A chart as shapes: what ``templates/chart.html`` draws of a histogram of numbers, and says of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from course_lib.classroom.board.charts import Chart, Mark

__all__ = ["ChartView", "view_of"]

_WIDTH, _HEIGHT, _TOP, _BOTTOM, _SIDE = 1000.0, 430.0, 110.0, 52.0, 64.0
_MOST_EDGES = 7  # words below the axis that stand side by side


@dataclass(frozen=True)
class SvgShape:
    """An element of SVG: its name, its class, its attributes, and the words of a text."""

    element: str  # "rect", "line" or "text"
    kind: str
    attributes: dict[str, str]
    words: str = ""


@dataclass(frozen=True)
class ChartView:
    """A chart and its drawing; ``shapes`` is empty for choices, whose bars stand in a table, and for no predictions."""

    chart: Chart
    shapes: list[SvgShape] = field(default_factory=list)
    width: int = int(_WIDTH)
    height: int = int(_HEIGHT)

    @property
    def has_bars(self) -> bool:
        return _has_bars(self.chart)

    @property
    def text(self) -> str:
        """The picture in words."""
        bars = "; ".join(f"{row.label}: {row.count}" for row in self.chart.rows if row.count)
        marks = "".join(f" {mark.text}." for mark in self.chart.marks)
        return f"Histogram of predictions. {bars}.{marks}"


def view_of(chart: Chart) -> ChartView:
    """The chart with its drawing, where it has a scale."""
    return ChartView(chart, _shapes(chart) if _has_bars(chart) and chart.bins is not None else [])


def _has_bars(chart: Chart) -> bool:
    return any(row.count for row in chart.rows) or bool(chart.marks)


def _shapes(chart: Chart) -> list[SvgShape]:
    most = max((row.count for row in chart.rows), default=0) or 1
    step = (_WIDTH - 2 * _SIDE) / len(chart.rows)
    floor = _HEIGHT - _BOTTOM
    shapes, counts = [], []
    for place, row in enumerate(chart.rows):
        height = (floor - _TOP - 30) * row.count / most
        left = _SIDE + place * step
        if row.count:
            shapes.append(_rect("bar", left + 2, floor - height, step - 4, height))
            counts.append(_label("count", left + step / 2, floor - height - 8, str(row.count), "middle"))
    shapes.append(_line("axis", (_SIDE, _WIDTH - _SIDE), (floor, floor)))
    shapes += _axis(chart, step, floor)
    for row_of_text, mark in enumerate(chart.marks):
        shapes += _mark(mark, step, floor, 34.0 + 40.0 * row_of_text)
    return shapes + counts


def _axis(chart: Chart, step: float, floor: float) -> list[SvgShape]:
    """The edges of the bins in words, as many as have room; the zeros of a scale of factors by themselves."""
    assert chart.bins is not None
    zeros = 1 if chart.bins.has_zeros else 0
    shapes = [_label("edge", _SIDE + step / 2, floor + 36, chart.rows[0].label, "middle")] if zeros else []
    every = -(-len(chart.edges) // _MOST_EDGES)
    single = len(chart.rows) <= _MOST_EDGES and all(" to " not in row.label for row in chart.rows)
    if single:  # whole numbers, a bar each: the word stands below its bar
        places = [_SIDE + (place + 0.5) * step for place in range(len(chart.rows))]
        return [_label("edge", x, floor + 36, row.label, "middle") for x, row in zip(places, chart.rows, strict=True)]
    for place in range(0, len(chart.edges), every):
        x = _SIDE + (place + zeros) * step
        shapes.append(_label("edge", x, floor + 36, chart.edges[place], "middle"))
    return shapes


def _mark(mark: Mark, step: float, floor: float, y: float) -> list[SvgShape]:
    x, low, high = (_SIDE + place * step for place in (mark.place, mark.low, mark.high))
    x = min(max(x, _SIDE), _WIDTH - _SIDE)
    shapes = [_rect(f"{mark.kind} band", low, y, high - low, floor - y)] if high > low else []
    shapes.append(_line(mark.kind, (x, x), (y + 4, floor)))
    end = x > _WIDTH * 0.55
    anchor, text_x = ("end", x - 10) if end else ("start", x + 10)
    return [*shapes, _label(mark.kind, text_x, y + 8, mark.text, anchor)]


def _rect(kind: str, x: float, y: float, width: float, height: float) -> SvgShape:
    return SvgShape("rect", kind, _numbers(x=x, y=y, width=width, height=height))


def _line(kind: str, x: tuple[float, float], y: tuple[float, float]) -> SvgShape:
    return SvgShape("line", kind, _numbers(x1=x[0], x2=x[1], y1=y[0], y2=y[1]))


def _label(kind: str, x: float, y: float, words: str, anchor: str) -> SvgShape:
    return SvgShape("text", kind, _numbers(x=x, y=y) | {"text-anchor": anchor}, words)


def _numbers(**places: float) -> dict[str, str]:
    return {name: f"{value:.1f}" for name, value in places.items()}
