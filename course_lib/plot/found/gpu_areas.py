"""Steps as areas: as wide as their time, as high as their number of GPUs; the area is what is paid for."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.patches import Rectangle

from course_lib.base.checks import above_zero
from course_lib.plot.style import OKABE_ITO, Look, Picture, canvas, key, outlined

__all__ = ["gpu_areas"]

_LOOKS = {
    "computing, if nothing is lost": Look(OKABE_ITO["sky blue"], "", ""),
    "the rest of the step": Look(OKABE_ITO["vermillion"], "//", ""),
}


def gpu_areas(step_s: Mapping[int, float], *, title: str = "") -> Picture:
    """``step_s[n]``: seconds of a step on n GPUs, one of them on 1; the same work in each.

    A rectangle for each, side by side on one scale: first what 1/n of the step on one GPU takes, then the rest. Above
    it stand its area in GPU milliseconds, and how many times that of one GPU it is. ``ValueError`` without a step on
    one GPU, and for a time that is not above 0.
    """
    if 1 not in step_s:
        raise ValueError(
            f"there is no step on one GPU to compare with, only on {', '.join(map(str, step_s)) or 'none'}"
        )
    above_zero(**{f"seconds on {gpus}": seconds for gpus, seconds in step_s.items()})
    bill = 1e3 * step_s[1]
    gap = 0.22 * bill
    most = max(step_s)
    ideal_look, rest_look = _LOOKS.values()
    with canvas(width=8.0, height=3.7, title=title) as (figure, axes):
        left, places = 0.0, []
        for gpus, seconds in step_s.items():
            wide, ideal = 1e3 * seconds, min(1e3 * seconds, bill / gpus)
            axes.add_patch(Rectangle((left, 0), ideal, gpus, **outlined(ideal_look)))
            if wide > ideal:
                axes.add_patch(Rectangle((left + ideal, 0), wide - ideal, gpus, **outlined(rest_look)))
            text = f"{wide:.0f} ms × {gpus}\n= {wide * gpus:.0f} GPU ms\n{wide * gpus / bill:.2f} times"
            room = max(wide, 0.34 * bill)
            axes.text(left + room / 2, gpus + 0.12, text, ha="center", va="bottom", fontsize=9)
            places.append((left + wide / 2, _named(gpus)))
            left += room + gap
        axes.set_xticks([place for place, _ in places], labels=[name for _, name in places])
        axes.set_yticks(range(most + 1))
        axes.set(xlim=(-0.04 * bill, left), ylim=(0, 1.42 * most))
        axes.set_xlabel("time of a step, on one scale (ms)")
        axes.set_ylabel("GPUs")
        axes.grid(visible=False, axis="x")
        key(figure, _LOOKS)
    said = (
        f"{_named(gpus)} for {1e3 * seconds:.0f} ms, {gpus * seconds / step_s[1]:.2f} times the area of one"
        for gpus, seconds in step_s.items()
    )
    return Picture(figure, f"{title or 'Steps as areas of GPUs by time'}. {'; '.join(said)}.")


def _named(gpus: int) -> str:
    return f"{gpus} GPU{'s' * (gpus > 1)}"
