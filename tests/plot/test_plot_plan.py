"""The planner's picture: bars as long as the parts, the limit where it is, and words for those who cannot see it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from course_lib.plan import MODELS, Constants, Job, Software, cluster_of, list_layouts
from course_lib.plan.search.listing import Listing, usable_bytes
from course_lib.plot.boards.plan_board import plan_picture
from course_lib.plot.boards.plan_looks import MEMORY_LOOKS, TIME_LOOKS
from course_lib.plot.style import Picture

GB = 1e9


def listing(gpus: int = 16) -> Listing:
    job = Job(MODELS["llama-3-8b"], seq=8192, batch=32)
    return list_layouts(job, cluster_of("8xh100", gpus=gpus), Constants(), Software())


def bars(picture: Picture, side: int) -> list[list[Rectangle]]:
    """The parts of each row, from the left."""
    found = [patch for patch in picture.figure.axes[side].patches if isinstance(patch, Rectangle)]
    rows = sorted({patch.get_y() for patch in found})
    return [sorted((p for p in found if p.get_y() == row), key=lambda p: p.get_x()) for row in rows]


def test_bars_are_as_long_as_the_parts_and_end_where_the_layout_does() -> None:
    found = listing()
    picture = plan_picture(found, most=4)
    for side, total in (
        (0, lambda option: option.step_s),
        (1, lambda option: option.memory.total_bytes / GB),
    ):
        rows = bars(picture, side)
        assert len(rows) == 4
        for parts, option in zip(rows, found.options, strict=False):
            assert parts[0].get_x() == 0
            for left, right in pairwise(parts):
                assert right.get_x() == pytest.approx(left.get_x() + left.get_width())
            assert parts[-1].get_x() + parts[-1].get_width() == pytest.approx(total(option))
    compute = found.options[0].step.compute_s
    assert any(part.get_width() == pytest.approx(compute) for part in bars(picture, 0)[0])


def test_the_limit_is_drawn_where_it_is() -> None:
    found = listing()
    for limit, wanted in (
        (None, usable_bytes(found.cluster) / GB),
        (60e9, 60.0),
        (1e15, usable_bytes(found.cluster) / GB),
    ):
        picture = plan_picture(found, limit_bytes=limit)
        (line,) = picture.figure.axes[1].lines
        assert line.get_xdata()[0] == pytest.approx(wanted)
        assert f"A GPU may be filled to {wanted:.3g} GB" in picture.alt


def test_parts_look_different_without_colour() -> None:
    for looks in (TIME_LOOKS, MEMORY_LOOKS):
        assert len({look.letter for look in looks.values()}) == len(looks)
        assert len({(look.colour, look.hatch) for look in looks.values()}) == len(looks)


def test_each_part_that_is_drawn_stands_in_the_key() -> None:
    picture = plan_picture(listing())
    for side in (0, 1):
        drawn = {(to_hex(part.get_facecolor()), part.get_hatch() or "") for row in bars(picture, side) for part in row}
        key = {
            (to_hex(p.get_facecolor()), p.get_hatch() or "")
            for p in picture.figure.axes[side + 2].get_legend().get_patches()
        }
        assert drawn == key


def test_the_words_name_the_layouts_and_their_largest_parts() -> None:
    found = listing()
    picture = plan_picture(found, most=2)
    for option in found.options[:2]:
        assert f"{option.layout}: {option.step_s:.3g} s (most of it layers: arithmetic" in picture.alt
    assert str(found.options[2].layout) + ":" not in picture.alt


@pytest.mark.long
def test_equal_listings_give_equal_files() -> None:
    assert plan_picture(listing()).png() == plan_picture(listing()).png()
    svg = plan_picture(listing()).svg()
    assert svg == plan_picture(listing()).svg()
    assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_where_nothing_runs_nothing_is_drawn() -> None:
    with pytest.raises(ValueError, match="no layout runs"):
        plan_picture(listing(gpus=1))
    with pytest.raises(ValueError, match="most=0 does not work"):
        plan_picture(listing(), most=0)
