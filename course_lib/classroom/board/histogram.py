"""A chart as HTML: a drawn histogram for numbers, bars in a table for choices; a text and a table say the same."""

from __future__ import annotations

from html import escape as escaped

from course_lib.classroom.board.charts import Chart, ChartRow, Mark

__all__ = ["bar_table", "chart_html"]

_WIDTH, _HEIGHT, _TOP, _BOTTOM, _SIDE = 1000.0, 430.0, 110.0, 52.0, 64.0
_MOST_EDGES = 7  # words below the axis that stand side by side
_WORDS = {"measured": "◀ the run", "model": "◀ the cost model"}


def chart_html(chart: Chart, words: str) -> str:
    """One question: its text, its picture, sentences, and for a drawn picture the same as a table. ``words`` is the
    name of what the bars count."""
    head = f"<h2>{escaped(chart.question or chart.name)} <span class='soft'>{escaped(chart.name)}</span></h2>"
    told = f"<div>{''.join(f'<p>{escaped(sentence)}</p>' for sentence in chart.sentences)}</div>"
    if not any(row.count for row in chart.rows) and not chart.marks:
        return f"<section class='chart'>{head}{told}</section>"
    rows = bar_table(chart.rows, ("prediction", words), chart.question or chart.name)
    if chart.bins is None:
        return f"<section class='chart'>{head}{rows}{told}</section>"
    table = f"<details><summary>The same as a table</summary>{rows}</details>"
    return f"<section class='chart'>{head}{_picture(chart)}{told}{table}</section>"


def bar_table(rows: tuple[ChartRow, ...], head: tuple[str, str], caption: str) -> str:
    """A table whose second column is a bar with its number behind it."""
    most = max((row.count for row in rows), default=0) or 1
    body = ""
    for row in rows:
        marks = " ".join(f"<strong class='{mark}'>{_WORDS[mark]}</strong>" for mark in row.marks)
        bar = f"<span class='bar' style='width:{60 * row.count / most:.1f}%'></span>"
        body += f"<tr><th scope='row'>{escaped(row.label)}</th><td>{bar} {row.count} {marks}</td></tr>"
    top = "".join(f"<th scope='col'>{escaped(text)}</th>" for text in head)
    name = escaped(caption)
    return f"<table class='bars' aria-label='{name}'><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _text_of(chart: Chart) -> str:
    bars = "; ".join(f"{row.label}: {row.count}" for row in chart.rows if row.count)
    marks = "".join(f" {mark.text}." for mark in chart.marks)
    return f"Histogram of predictions. {bars}.{marks}"


def _picture(chart: Chart) -> str:
    """The histogram as SVG, in a box that is moved sideways where the screen is narrow."""
    most = max((row.count for row in chart.rows), default=0) or 1
    step = (_WIDTH - 2 * _SIDE) / len(chart.rows)
    floor = _HEIGHT - _BOTTOM
    parts, counts = [], []
    for place, row in enumerate(chart.rows):
        height = (floor - _TOP - 30) * row.count / most
        left = _SIDE + place * step
        if row.count:
            parts.append(_rect("bar", left + 2, floor - height, step - 4, height))
            counts.append(_label("count", left + step / 2, floor - height - 8, str(row.count), "middle"))
    parts.append(f"<line class='axis' x1='{_SIDE}' x2='{_WIDTH - _SIDE}' y1='{floor}' y2='{floor}'/>")
    parts += _axis(chart, step, floor)
    for row_of_text, mark in enumerate(chart.marks):
        parts += _mark(mark, step, floor, 34.0 + 40.0 * row_of_text)
    parts += counts
    box = f"viewBox='0 0 {_WIDTH:.0f} {_HEIGHT:.0f}'"
    name = escaped(_text_of(chart))
    return (
        f"<div class='picture' tabindex='0' role='group' aria-label='picture'>"
        f"<svg role='img' aria-label='{name}' {box}>{''.join(parts)}</svg></div>"
    )


def _axis(chart: Chart, step: float, floor: float) -> list[str]:
    """The edges of the bins in words, as many as have room; the zeros of a scale of factors by themselves."""
    assert chart.bins is not None
    zeros = 1 if chart.bins.has_zeros else 0
    parts = [_label("edge", _SIDE + step / 2, floor + 36, chart.rows[0].label, "middle")] if zeros else []
    every = -(-len(chart.edges) // _MOST_EDGES)
    single = len(chart.rows) <= _MOST_EDGES and all(" to " not in row.label for row in chart.rows)
    if single:  # whole numbers, a bar each: the word stands below its bar
        places = [_SIDE + (place + 0.5) * step for place in range(len(chart.rows))]
        return [_label("edge", x, floor + 36, row.label, "middle") for x, row in zip(places, chart.rows, strict=True)]
    for place in range(0, len(chart.edges), every):
        x = _SIDE + (place + zeros) * step
        parts.append(_label("edge", x, floor + 36, chart.edges[place], "middle"))
    return parts


def _mark(mark: Mark, step: float, floor: float, y: float) -> list[str]:
    x, low, high = (_SIDE + place * step for place in (mark.place, mark.low, mark.high))
    x = min(max(x, _SIDE), _WIDTH - _SIDE)
    parts = [_rect(f"{mark.kind} band", low, y, high - low, floor - y)] if high > low else []
    parts.append(f"<line class='{mark.kind}' x1='{x:.1f}' x2='{x:.1f}' y1='{y + 4:.1f}' y2='{floor}'/>")
    end = x > _WIDTH * 0.55
    anchor, text_x = ("end", x - 10) if end else ("start", x + 10)
    return [*parts, _label(mark.kind, text_x, y + 8, mark.text, anchor)]


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f"<rect class='{kind}' x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}'/>"


def _label(kind: str, x: float, y: float, text: str, anchor: str) -> str:
    return f"<text class='{kind}' x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escaped(text)}</text>"
