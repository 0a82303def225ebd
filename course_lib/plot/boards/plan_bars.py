"""Layouts of a plan at a glance: how long a step takes by part, and what the fullest GPU holds by part.

A row for each layout, the fastest first, and the learner's own below a line. Both halves have one scale for all rows;
the dashed line is the memory of the GPU. A bar that is much longer than the others is cut off, and its number tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from course_lib.plan import MemoryParts, StepParts
from course_lib.plot.boards import plan_looks
from course_lib.plot.raster import Raster, Sheet, sentence
from course_lib.plot.style import Look

__all__ = ["MEMORY_LOOKS", "TIME_LOOKS", "PlanBars", "PlanRow", "memory_by_word", "time_by_word"]

_WORD_OF_TIME = {
    "compute_s": "computing",
    "output_s": "computing",
    "host_s": "host",
    "tensor_s": "tensor axis",
    "context_s": "context axis",
    "expert_s": "experts",
    "pipeline_s": "pipeline",
    "bubble_s": "pipeline",
    "data_s": "data axis",
    "optimizer_s": "optimizer",
}
_WORD_OF_MEMORY = {
    "weights_bytes": "weights",
    "gradients_bytes": "gradients",
    "optimizer_bytes": "optimizer states",
    "activations_bytes": "activations",
    "logits_bytes": "logits",
    "reserve_bytes": "reserve",
}


def _looks_of_words(word_of: Mapping[str, str], looks: Mapping[str, Look]) -> dict[str, Look]:
    """The look of each word: of the first part that it stands for."""
    found: dict[str, Look] = {}
    for name, word in word_of.items():
        found.setdefault(word, looks[name])
    return found | {"other": Look("#333333", "", "")}


TIME_LOOKS = _looks_of_words(_WORD_OF_TIME, plan_looks.TIME_LOOKS)
MEMORY_LOOKS = _looks_of_words(_WORD_OF_MEMORY, plan_looks.MEMORY_LOOKS)
_WIDTH, _GB = 768, 1e9
_TIME, _MEMORY = (16, 396), (468, 712)  # left and right of the bars
_TOP, _ROW, _BAR = 46, 42, 18  # of the first row; from row to row; how high a bar is
_SEEN = 0.002  # of a bar: a part below it is no pixel wide
_LONGEST = (2.5, 1.6)  # times the fastest step, times the limit: what is longer is cut off


@dataclass(frozen=True)
class PlanRow:
    """A layout: its name, what it loses, and its parts; ``step`` is None where it does not run."""

    name: str
    note: str
    step: StepParts | None
    memory: MemoryParts | None


def time_by_word(step: StepParts) -> dict[str, float]:
    """Seconds by the words of the picture, in its order; parts that are nothing are left out."""
    return _by_word(vars(step), _WORD_OF_TIME, TIME_LOOKS)


def memory_by_word(memory: MemoryParts) -> dict[str, float]:
    """Bytes by the words of the picture, in its order; parts that are nothing are left out."""
    return _by_word(vars(memory), _WORD_OF_MEMORY, MEMORY_LOOKS)


def _by_word(parts: Mapping[str, float], word_of: Mapping[str, str], order: Mapping[str, Look]) -> dict[str, float]:
    found = dict.fromkeys(order, 0.0)
    for name, part in parts.items():
        found[word_of.get(name, "other")] += part
    return {word: size for word, size in found.items() if size > 0}


class PlanBars:
    """Draws one plan after another."""

    def draw(self, rows: Sequence[PlanRow], own: PlanRow | None, limit_bytes: float, *, alt: str) -> Raster:
        """``rows``: the planner's, the fastest first. ``own`` is the learner's; None where there is none."""
        every = [*rows, *([own] if own else [])]
        bottom = _TOP + _ROW * len(every) + (12 if own else 0)
        sheet = Sheet(_WIDTH, bottom + 66)
        sheet.text(_TIME[0], 14, "Seconds of a step, by part", bold=True)
        sheet.text(_MEMORY[0], 14, "GB on the fullest GPU, by part", bold=True)
        steps_s = [row.step.total_s for row in every if row.step]
        most_s = min(max(steps_s), _LONGEST[0] * min(steps_s)) if steps_s else 1.0
        held = [row.memory.total_bytes for row in every if row.memory]
        most_bytes = min(max([limit_bytes, *held]), _LONGEST[1] * limit_bytes)
        for at, row in enumerate(every):
            top = _TOP + _ROW * at + (12 if row is own else 0)
            if row is own and rows:
                sheet.line(_TIME[0], top - 15, _WIDTH - 8, top - 15, colour="#999999")
            _draw_row(sheet, row, top, most_s, most_bytes)
        _draw_limit(sheet, limit_bytes, most_bytes, bottom)
        times = [time_by_word(row.step) for row in every if row.step]
        _key(sheet, _TIME[0], bottom + 12, 3, _told(times, TIME_LOOKS))
        sizes = [memory_by_word(row.memory) for row in every if row.memory]
        _key(sheet, _MEMORY[0], bottom + 12, 2, _told(sizes, MEMORY_LOOKS))
        return Raster(sheet.image, alt)

    def blank(self, said: str) -> Raster:
        """A sheet with a sentence, where there is nothing to draw."""
        return sentence(said, _WIDTH, 160)


def _told(rows: Sequence[Mapping[str, float]], looks: Mapping[str, Look]) -> dict[str, Look]:
    """The looks of what can be seen in some row."""
    seen = {word for parts in rows for word, size in parts.items() if size >= _SEEN * sum(parts.values())}
    return {word: look for word, look in looks.items() if word in seen}


def _draw_row(sheet: Sheet, row: PlanRow, top: float, most_s: float, most_bytes: float) -> None:
    """A name and what it loses, above two bars."""
    used = sheet.text(_TIME[0], top, row.name, size=9, bold=True)
    sheet.text(_TIME[0] + used + 10, top, row.note, size=9)
    if row.step:
        parts = {word: (size, TIME_LOOKS[word]) for word, size in time_by_word(row.step).items()}
        end = _draw_bar(sheet, _TIME, top + 10, parts, most_s)
        time_s = row.step.total_s
        said = f"{time_s:,.0f} s" if time_s >= 100 else f"{time_s:.3g} s"
        sheet.text(end + 6, top + 10 + _BAR / 2, said, size=9)
    else:
        sheet.text(_TIME[0], top + 19, "does not run", size=9)
    if row.memory:
        parts = {word: (size, MEMORY_LOOKS[word]) for word, size in memory_by_word(row.memory).items()}
        _draw_bar(sheet, _MEMORY, top + 10, parts, most_bytes)
        said = f"{row.memory.total_bytes / _GB:,.1f}"
        sheet.text(_WIDTH - 8, top + 10 + _BAR / 2, said, size=9, anchor="rm")


def _draw_bar(
    sheet: Sheet,
    place: tuple[float, float],
    top: float,
    parts: Mapping[str, tuple[float, Look]],
    most: float,
) -> float:
    """Parts one after the other with their shares, up to the right end; returns where the bar ends."""
    left, end = place
    total, x, floor = sum(size for size, _ in parts.values()), left, 0.0
    for size, look in parts.values():
        right = left + (end - left) * min(floor + size, most) / most
        if right - x >= 0.5:
            sheet.box(x, top, right, top + _BAR, look, f"{size / total:.0%}")
        x, floor = right, floor + size
    if floor > most * 1.001:  # cut off: two white strokes through its end
        for at in (end - 12, end - 7):
            sheet.line(at, top + _BAR, at + 5, top, colour="white", width=4)
    return x


def _draw_limit(sheet: Sheet, limit_bytes: float, most_bytes: float, bottom: float) -> None:
    """A dashed line through all bars of memory, with its number above."""
    x = _MEMORY[0] + (_MEMORY[1] - _MEMORY[0]) * limit_bytes / most_bytes
    for y in range(_TOP - 4, round(bottom) - 6, 9):
        sheet.line(x, y, x, y + 5, colour="black", width=2)
    sheet.text(x, _TOP - 14, f"room for {limit_bytes / _GB:,.1f}", size=9, anchor="rm")


def _key(sheet: Sheet, left: float, top: float, columns: int, looks: Mapping[str, Look]) -> None:
    wide = 146 if columns == 3 else 136
    for at, (word, look) in enumerate(looks.items()):
        x, y = left + at % columns * wide, top + at // columns * 19
        sheet.box(x, y - 6, x + 20, y + 6, look)
        sheet.text(x + 26, y, word, size=9)
