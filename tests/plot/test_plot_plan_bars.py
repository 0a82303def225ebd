"""The board of the plan explorer: bars as long as what they show, the limit, and what is cut off."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import pytest

from course_lib.plan import MemoryParts, StepParts
from course_lib.plot.boards.plan_bars import (
    MEMORY_LOOKS,
    TIME_LOOKS,
    PlanBars,
    PlanRow,
    memory_by_word,
    time_by_word,
)
from course_lib.plot.raster import Raster

BLANK, BLACK = "#FFFFFF", "#000000"
STEP = StepParts(*(0.0 for _ in fields(StepParts)))
MEMORY = MemoryParts(*(0.0 for _ in fields(MemoryParts)))
BAR_Y = 46 + 10 + 4  # of the first row, above the letters in its middle
LONG, HIGH = 380, 244  # of the longest bar: time, memory


def row(**sizes: float) -> PlanRow:
    step = replace(STEP, **{name: size for name, size in sizes.items() if name.endswith("_s")})
    memory = replace(MEMORY, **{name: size for name, size in sizes.items() if name.endswith("_bytes")})
    return PlanRow("tp2", "the best", step, memory)


def colours_near(picture: Raster, x: float, y: float) -> set[str]:
    """Some pixels side by side: a line of a hatch may run through one of them."""
    return {
        "#{:02X}{:02X}{:02X}".format(*picture.image.getpixel((round(x * 1.5) + dx, round(y * 1.5))))
        for dx in range(-3, 4)
    }


def test_every_part_of_a_step_and_of_the_memory_has_a_word_and_all_of_them_add_up():
    step = StepParts(*(float(2**at) for at, _ in enumerate(fields(StepParts))))
    memory = MemoryParts(*(float(2**at) for at, _ in enumerate(fields(MemoryParts))))
    assert sum(time_by_word(step).values()) == step.total_s
    assert sum(memory_by_word(memory).values()) == memory.total_bytes
    assert "other" not in time_by_word(step)
    assert "other" not in memory_by_word(memory)
    assert time_by_word(step)["pipeline"] == step.pipeline_s + step.bubble_s
    assert memory_by_word(memory)["logits"] == memory.logits_bytes
    assert time_by_word(STEP) == {}


@pytest.mark.parametrize("looks", [TIME_LOOKS, MEMORY_LOOKS])
def test_looks_differ_by_more_than_their_colour_or_are_far_apart(looks):
    assert len({(look.colour, look.hatch) for look in looks.values()}) == len(looks)
    assert len({look.colour for look in looks.values()}) == len(looks)


def test_bars_are_as_long_as_what_they_show():
    rows = [
        row(compute_s=3.0, data_s=1.0, weights_bytes=2e9, logits_bytes=6e9),
        row(compute_s=5.0, weights_bytes=4e9),
    ]
    picture = PlanBars().draw(rows, None, 10e9, alt="said")
    assert picture.alt == "said"
    of_a_second, of_a_gb = LONG / 5, HIGH / 10
    assert TIME_LOOKS["computing"].colour in colours_near(picture, 16 + 2.9 * of_a_second, BAR_Y)
    assert TIME_LOOKS["data axis"].colour in colours_near(picture, 16 + 3.2 * of_a_second, BAR_Y)
    assert colours_near(picture, 16 + 4 * of_a_second + 3, BAR_Y) == {BLANK}
    assert TIME_LOOKS["computing"].colour in colours_near(picture, 16 + 4.9 * of_a_second, BAR_Y + 42)
    assert MEMORY_LOOKS["weights"].colour in colours_near(picture, 468 + 1.8 * of_a_gb, BAR_Y)
    assert MEMORY_LOOKS["logits"].colour in colours_near(picture, 468 + 7.5 * of_a_gb, BAR_Y)
    assert colours_near(picture, 468 + 9 * of_a_gb, BAR_Y) == {BLANK}
    dashes = {colour for y in range(46, 110) for colour in colours_near(picture, 468 + HIGH, y)}
    assert BLACK in dashes


def test_one_s_own_stands_below_and_a_long_bar_is_cut_off():
    best = row(compute_s=1.0, weights_bytes=1e9)
    own = row(compute_s=50.0, weights_bytes=90e9)
    picture = PlanBars().draw([best], own, 10e9, alt="")
    y = BAR_Y + 42 + 12
    assert TIME_LOOKS["computing"].colour in colours_near(picture, 16 + LONG - 20, y)
    assert TIME_LOOKS["computing"].colour in colours_near(picture, 16 + LONG / 2.5 - 4, BAR_Y)
    assert colours_near(picture, 16 + LONG / 2.5 + 60, BAR_Y) == {BLANK}
    whole = PlanBars().draw([best], row(compute_s=2.0), 10e9, alt="")
    ends = [{colour for x in range(385, 391) for colour in colours_near(one, x, y)} for one in (picture, whole)]
    assert BLANK in ends[0]  # strokes through it
    assert BLANK not in ends[1]
    assert MEMORY_LOOKS["weights"].colour in colours_near(picture, 468 + HIGH - 20, y)
    assert MEMORY_LOOKS["weights"].colour not in colours_near(picture, 468 + HIGH / 1.6 + 20, BAR_Y)
    assert picture.size[1] == PlanBars().draw([best], None, 10e9, alt="").size[1] + 54


def test_what_does_not_run_has_memory_or_nothing():
    own = replace(row(weights_bytes=20e9), step=None)
    picture = PlanBars().draw([], own, 10e9, alt="")
    assert MEMORY_LOOKS["weights"].colour in colours_near(picture, 500, BAR_Y + 12)
    nothing = PlanBars().draw([], replace(own, memory=None), 10e9, alt="")
    assert colours_near(nothing, 500, BAR_Y + 12) == {BLANK}


def test_any_plan_is_drawn_within_the_sheet_and_a_sentence_where_there_is_none():
    parts = dict.fromkeys(asdict(STEP), 1.0) | dict.fromkeys(asdict(MEMORY), 30e9)
    long = replace(row(**parts), name="tp16 cp16 pp16 dp16 ep8 mb16 zero3 sp selective", note="loses 12.3%")
    picture = PlanBars().draw([long] * 4, long, 80e9, alt="")
    assert picture.size[0] == 768
    for y in range(2, picture.size[1] - 2, 7):
        assert colours_near(picture, 764, y) == {BLANK}
    said = "Nothing runs on these GPUs. " * 12
    assert PlanBars().blank(said).alt == said
