"""The board of the context explorer: tiles of the mask by rank, and bars as high as what they show."""

from __future__ import annotations

import pytest

from course_lib.cost import PassBytes
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.plot.boards.context_board import PASS_LOOKS, ContextBoard, rank_look
from course_lib.plot.raster import Raster
from course_lib.widgets import ContextChoice

BLANK, BLACK = "#FFFFFF", "#000000"
LEFT, TOP, SIDE = 58, 40, 290  # of the mask


def colours_near(picture: Raster, x: float, y: float) -> set[str]:
    """Some pixels side by side: a line of a hatch may run through one of them."""
    return {
        "#{:02X}{:02X}{:02X}".format(*picture.image.getpixel((round(x * 1.5) + dx, round(y * 1.5))))
        for dx in range(-3, 4)
    }


def board(choice: ContextChoice, **measured) -> Raster:
    return ContextBoard().draw(choice.cut, choice.way, 4, choice.pairs(), choice.sent(), alt="said", **measured)


@pytest.mark.parametrize("order", ["contiguous", "zigzag"])
@pytest.mark.parametrize("num_ranks", [1, 3, 4, 8])
def test_a_row_of_the_mask_has_the_look_of_its_rank_up_to_the_diagonal(num_ranks, order):
    choice = ContextChoice(64, num_ranks, order)
    picture, size = board(choice), SIDE / 64
    for rank in range(num_ranks):
        for query in choice.cut.positions(rank)[1::3]:
            y = TOP + (query + 0.5) * size
            assert rank_look(rank).colour in colours_near(picture, LEFT + 0.5 * size, y)
            assert rank_look(rank).colour in colours_near(picture, LEFT + (query + 0.3) * size, y)
            if query < 60:
                assert colours_near(picture, LEFT + (query + 2.5) * size, y) == {BLANK}


def test_by_all_to_all_each_head_has_a_mask_of_its_rank():
    picture = board(ContextChoice(64, 2, way="all_to_all"))
    for head, rank in enumerate((0, 0, 1, 1)):
        x, y = LEFT + head % 2 * 157, TOP + 12 + head // 2 * 153
        assert rank_look(rank).colour in colours_near(picture, x + 30, y + 100)
        assert colours_near(picture, x + 100, y + 30) == {BLANK}


def test_eight_ranks_differ_in_colour_and_in_hatch():
    looks = [rank_look(rank) for rank in range(8)]
    assert len({look.colour for look in looks}) == len({look.hatch for look in looks}) == 8


def test_bars_are_as_high_as_what_they_show_and_what_was_measured_is_a_black_line():
    choice = ContextChoice()
    measured = [PassBytes(each.forward // 2, each.backward) for each in choice.sent()]
    plain, found = board(choice), board(choice, measured=measured)
    group, bottom = 312 / 4, 372
    high = (372 - 254) / (24 * 1.12)  # of a KiB
    x = 444 + group / 2 - 10
    assert colours_near(plain, x, bottom - 11 * high) == {PASS_LOOKS["forward"].colour}
    assert PASS_LOOKS["forward"].colour not in colours_near(plain, x, bottom - 12.4 * high)
    assert PASS_LOOKS["backward"].colour in colours_near(plain, x + 30, bottom - 23 * high)
    assert BLACK not in colours_near(plain, x, bottom - 6 * high)
    assert colours_near(found, x, bottom - 6 * high) == {BLACK}
    work_bottom, of_a_pair = 174, (174 - 40) / (1024 * 1.12)
    last = 444 + 3.5 * group + 1.5 * 0.84 * group / 4  # rank 3 in step 3, where the others have nothing
    assert rank_look(3).colour in colours_near(plain, last, work_bottom - 900 * of_a_pair)
    assert colours_near(plain, last - group / 4, work_bottom - 300 * of_a_pair) == {BLANK}


@pytest.mark.parametrize("num_tokens", [16, 255])
def test_any_setting_is_drawn_within_the_sheet(num_tokens):
    for choice in (
        ContextChoice(num_tokens, 8, "zigzag"),
        ContextChoice(num_tokens, 1),
        ContextChoice(num_tokens, 4, way="all_to_all"),
    ):
        picture = board(choice, measured=choice.sent())
        assert picture.size == (768, 424)
        for y in range(2, 420, 11):
            assert colours_near(picture, 764, y) == {BLANK}


def test_a_sentence_is_drawn_where_a_setting_is_refused():
    said = "2 key heads do not divide among 4 ranks. " * 8
    blank = ContextBoard().blank(said)
    assert blank.alt == said
    assert blank.size == board(ContextChoice(SequenceCut(64, 4).num_tokens)).size
