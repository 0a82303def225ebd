"""Live memory in a training step: up through the forward pass, down through the backward pass."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.meter.memory.balance import LABELS, History
from course_lib.meter.units import bytes_text
from course_lib.plot.bars import byte_axis
from course_lib.plot.style import LABEL_LOOKS, OKABE_ITO, Picture, canvas, key, outlined

__all__ = ["memory_curve"]


def memory_curve(history: History, *, title: str = "", alt: str | None = None) -> Picture:
    """Live bytes by label, stacked, after every birth and death of a storage; marks are lines, the peak a
    dot.

    ``history`` is ``MemoryLedger.history()``. The alt text is made from the numbers unless given.
    """
    if not history.points:
        raise ValueError("the history holds no point; draw the history of a ledger after it has recorded a step")
    totals = history.totals
    peak_bytes = max(totals)
    peak = totals.index(peak_bytes)
    end = max(peak_bytes, 1) * 1.16
    used = [label for label in LABELS if any(history.of(label))]
    with canvas(height=4.0, title=title) as (figure, axes):
        _stack(axes, history, used)
        for _, index in history.marks:
            axes.axvline(index, color="black", linestyle=":", linewidth=1.1)
        if history.marks:
            names, places = zip(*history.marks, strict=True)
            top = axes.secondary_xaxis("top")
            top.set_xticks(places, labels=names, rotation=20, ha="left", fontsize=9)
            top.spines["top"].set_visible(False)
        axes.plot([peak], [peak_bytes], marker="o", color=OKABE_ITO["black"], markersize=5)
        axes.annotate(
            f"peak {bytes_text(peak_bytes)}",
            (peak, peak_bytes),
            xytext=(6 if peak < 0.8 * len(totals) else -6, 5),
            textcoords="offset points",
            ha="left" if peak < 0.8 * len(totals) else "right",
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
        )
        axes.set_xlim(0, max(len(totals) - 1, 1))
        axes.set_xlabel("storages allocated and freed, in order")
        byte_axis(axes, "y", end)
        key(figure, {label: LABEL_LOOKS[label] for label in used})
    return Picture(figure, alt if alt is not None else _words(history, peak, title))


def _stack(axes: Axes, history: History, labels: list[str]) -> None:
    """One layer for each label, on top of the ones before it."""
    floor = [0] * len(history.totals)
    for label in labels:
        look = LABEL_LOOKS[label]
        roof = [low + size for low, size in zip(floor, history.of(label), strict=True)]
        axes.fill_between(
            range(len(floor)),
            floor,
            roof,
            step="post",
            **outlined(look),
        )
        floor = roof


def _words(history: History, peak: int, title: str) -> str:
    totals = history.totals
    at_peak = [(label, history.of(label)[peak]) for label in LABELS]
    most = ", ".join(f"{label} {bytes_text(size)}" for label, size in sorted(at_peak, key=lambda p: -p[1])[:3] if size)
    marks = "; ".join(f"{name} {bytes_text(totals[index])}" for name, index in history.marks)
    text = f"{title or 'Live memory'} over {len(totals)} allocations and frees of storages, stacked by label. "
    text += f"It starts at {bytes_text(totals[0])}, peaks at {bytes_text(totals[peak])} (most of it: {most}) "
    return text + f"and ends at {bytes_text(totals[-1])}." + (f" Marks: {marks}." if marks else "")
