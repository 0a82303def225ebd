"""Curves: a loss over steps, a time over sizes, a prediction beside a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogFormatter, MaxNLocator

from course_lib.plot.style import OKABE_ITO, Picture, canvas, line_colour

__all__ = ["lines"]

Points = Mapping[float, float] | tuple[Sequence[float], Sequence[float]]

_COLOURS = ("blue", "vermillion", "green", "black", "purple", "orange", "sky blue")
_DASHES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "x", "*")
_MOST_MARKERS = 12
_LONG_NUMBER = 100_000  # from here on, an axis of powers of 2 is labelled with powers
_SHORT_NUMBER = 10_000  # below it, an axis of powers of 10 is labelled with 400 and not with 4 x 10^2


def lines(
    series: Mapping[str, Points],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    alt: str | None = None,
    log_x: bool = False,
    log_y: bool = False,
) -> Picture:
    """One curve for each entry of ``series``, told apart by colour, dash and marker; labels name units.

    Each entry maps x to y, or is a pair of equally long sequences. Logarithmic axes have base 2 for x, 10 for
    y. The alt text is made from first and last points unless given. No curves, and pairs of unequal length,
    are a ``ValueError``.
    """
    curves = {name: _points(name, points) for name, points in series.items()}
    if not curves:
        raise ValueError("there are no curves to draw; give at least one")
    with canvas(height=3.4, title=title) as (figure, axes):
        looks = zip(cycle(_COLOURS), cycle(_DASHES), cycle(_MARKERS), strict=False)
        for (name, (xs, ys)), (colour, dash, marker) in zip(curves.items(), looks, strict=False):
            every = max(1, len(xs) // _MOST_MARKERS)
            axes.plot(
                xs,
                ys,
                dash,
                color=line_colour(OKABE_ITO[colour]),
                marker=marker,
                markevery=every,
                markersize=5,
                linewidth=1.8,
                label=name,
            )
        if log_x:
            axes.set_xscale("log", base=2)
            if max(max(xs) for xs, _ in curves.values()) < _LONG_NUMBER:
                axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        elif all(x == round(x) for xs, _ in curves.values() for x in xs):  # there is no rank 1.5
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if log_y:
            axes.set_yscale("log")
            _label_short_numbers(axes, [y for _, ys in curves.values() for y in ys])
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        if len(curves) > 1:
            figure.legend(loc="outside lower center", ncols=min(len(curves), 4), handlelength=3.2)
    return Picture(figure, alt if alt is not None else _words(curves, x_label, y_label, title))


def _points(name: str, points: Points) -> tuple[list[float], list[float]]:
    xs, ys = (points.keys(), points.values()) if isinstance(points, Mapping) else points
    if len(xs) != len(ys) or not len(xs):
        raise ValueError(
            f"the curve {name!r} has {len(xs)} x and {len(ys)} y; give at least one x, and one y for each x"
        )
    return list(xs), list(ys)


def _words(curves: Mapping[str, tuple[list[float], list[float]]], x_label: str, y_label: str, title: str) -> str:
    parts = [
        f"{name} goes from {ys[0]:.3g} at {xs[0]:g} to {ys[-1]:.3g} at {xs[-1]:g}" for name, (xs, ys) in curves.items()
    ]
    return f"{title or 'Curves'}: {y_label} over {x_label}. {'; '.join(parts)}."


def _label_short_numbers(axes: Axes, heights: Sequence[float]) -> None:
    """Where all of a logarithmic axis lies between 0.1 and 10,000: numbers in place of powers."""
    if min(heights) >= 0.1 and max(heights) < _SHORT_NUMBER:
        axes.yaxis.set_major_formatter(_ShortNumbers())
        axes.yaxis.set_minor_formatter(_ShortNumbers())


class _ShortNumbers(LogFormatter):
    """Labels where LogFormatter has them: 0.6, and not 6e-01."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""
