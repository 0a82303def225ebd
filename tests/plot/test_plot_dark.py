"""Pictures in a dark theme: letters stay legible, boxes stay as far from the ground, style sheets hold that filter."""

from __future__ import annotations

from pathlib import Path

import pytest
from contrast import contrast
from matplotlib.colors import to_hex, to_rgb

from course_lib.capstone.reports.page import fill
from course_lib.forms.form import STYLE_SHEET
from course_lib.plot.dark import DARK_FILTER, GROUND, in_the_dark
from course_lib.plot.style import OKABE_ITO, text_colour

SITE = Path(__file__).resolve().parents[2] / "course_lib" / "authoring" / "site" / "static" / "site.css"
GREYS = ["#1a1a1a", "#333333", "#6b6b6b"]  # of lines and small words
TINTS = [
    to_hex([share * channel + 1 - share for channel in to_rgb(colour)])
    for colour in OKABE_ITO.values()
    for share in (0.22, 0.33, 0.53, 0.6, 0.8)
    if colour != OKABE_ITO["black"]
]


def test_white_is_the_themes_ground_and_black_is_white():
    assert in_the_dark("white") == GROUND
    assert in_the_dark("black") == "#ffffff"
    grey = to_rgb(in_the_dark("#808080"))
    assert max(grey) == min(grey)


@pytest.mark.parametrize("colour", [*OKABE_ITO.values(), "#FFFFFF", "#BBBBBB", "#F5CF80", "#F0B08A", "#7FCDB5", *TINTS])
def test_letters_on_a_box_can_be_read_in_both_themes(colour):
    ink = text_colour(colour)
    assert contrast(ink, colour) >= 4.5
    assert contrast(in_the_dark(ink), in_the_dark(colour)) >= 4.5


@pytest.mark.parametrize("ink", GREYS)
def test_words_beside_a_box_can_be_read_in_both_themes(ink):
    assert contrast(ink, "white") >= 4.5
    assert contrast(in_the_dark(ink), GROUND) >= 4.5


@pytest.mark.parametrize("colour", OKABE_ITO.values())
def test_a_colour_stands_out_from_the_dark_nearly_as_from_white(colour):
    """Those that stand out from white (3 to 1) do so in the dark; the pale ones have an edge or a hatch in both."""
    light, dark = contrast(colour, "white"), contrast(in_the_dark(colour), GROUND)
    assert dark >= (3 if light >= 3 else 0.78 * light)


@pytest.mark.parametrize("colour", [name for name in OKABE_ITO if name not in ("black", "yellow")])
def test_a_colour_keeps_its_hue(colour):
    channels = to_rgb(OKABE_ITO[colour])
    turned = to_rgb(in_the_dark(OKABE_ITO[colour]))
    assert turned.index(max(turned)) == channels.index(max(channels))
    assert turned.index(min(turned)) == channels.index(min(channels))


def test_every_page_turns_pictures_by_this_filter():
    for path in (STYLE_SHEET, SITE):
        text = path.read_text(encoding="utf-8")
        assert DARK_FILTER in text, path.name
        assert "brightness(" not in text, path.name
    assert DARK_FILTER in fill("page.html", title="A report")


def test_a_colour_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="no such colour"):
        in_the_dark("no such colour")
