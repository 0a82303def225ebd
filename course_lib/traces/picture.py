"""Where each device's time went, as a bar that is divided up."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plot.style import OKABE_ITO, Look, Picture, canvas, key, outlined, text_colour
from course_lib.traces.device_report import DeviceReport

__all__ = ["picture_of"]

_MOST_BARS = 32
_LOOKS = {
    "computing alone": Look(OKABE_ITO["blue"], "", "C"),
    "computing over communication": Look(OKABE_ITO["green"], "..", "H"),
    "communication exposed": Look(OKABE_ITO["vermillion"], "xx", "E"),
    "copies alone": Look(OKABE_ITO["purple"], "||", "M"),
    "idle, for the host": Look("#BBBBBB", "", "w"),
    "idle, other": Look("#FFFFFF", "", "i"),
}
_LABELLED = 0.035  # of the bar: less has no room for a letter


def parts_of(one: DeviceReport) -> dict[str, float]:
    """Shares of the window, in the order of the bar; they add up to 1."""
    time, host_us = one.time, one.idle.host_us if one.is_gpu else 0.0
    parts_us = (time.computing_us - time.hidden_us, time.hidden_us, time.exposed_us, time.copy_us, host_us,
                time.idle_us - host_us)  # fmt: skip
    whole = time.window_us or 1.0
    return {word: max(0.0, part) / whole for word, part in zip(_LOOKS, parts_us, strict=True)}


def picture_of(devices: Sequence[DeviceReport]) -> Picture:
    """A bar of each device, at most 32, from 0 to 100 % of its window."""
    shown = devices[:_MOST_BARS]
    used: dict[str, Look] = {}
    with canvas(height=1.5 + 0.45 * len(shown), title="Where the time went") as (figure, axes):
        for row, one in enumerate(shown):
            left = 0.0
            for word, share in parts_of(one).items():
                if share <= 0:
                    continue
                look = used[word] = _LOOKS[word]
                axes.add_patch(Rectangle((100 * left, row - 0.35), 100 * share, 0.7, **outlined(look)))
                if share > _LABELLED:
                    _letter(axes, 100 * (left + share / 2), row, look)
                left += share
        axes.set_yticks(range(len(shown)), labels=[one.name for one in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlim(0, 100)
        axes.set_xlabel("share of the time that was recorded (%)")
        axes.grid(visible=False, axis="y")
        key(figure, {word: look for word, look in _LOOKS.items() if word in used})
    return Picture(figure, _words(shown, len(devices)))


def _letter(axes: Axes, x: float, row: int, look: Look) -> None:
    box = {"boxstyle": "round,pad=0.12", "facecolor": look.colour, "edgecolor": "none"}
    axes.text(x, row, look.letter, ha="center", va="center", color=text_colour(look.colour), weight="bold", bbox=box)


def _words(shown: Sequence[DeviceReport], count: int) -> str:
    bars = [
        f"{one.name}: " + ", ".join(f"{word} {share:.0%}" for word, share in parts_of(one).items() if share >= 0.005)
        for one in shown
    ]
    rest = f" {count - len(shown)} more are not drawn." if count > len(shown) else ""
    return f"Where the time went, a bar for each device. {'; '.join(bars)}.{rest}"
