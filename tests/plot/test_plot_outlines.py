"""Bars, boxes and tiles stand out from the ground in both themes, whatever their colour: measured on pixels."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from course_lib.plot import OKABE_ITO, memory_bars
from course_lib.plot.dark import CHROMA, GAMMA, GROUND, WEIGHTS, in_the_dark
from course_lib.plot.raster import Sheet
from course_lib.plot.style import LABEL_LOOKS, OUTLINE, Look, hatch_colour

ROOT = Path(__file__).resolve().parents[2]
DRAWN_BY = sorted(
    path
    for folder in ("plot", "authoring/pictures", "capstone", "classroom", "widgets")
    for path in (ROOT / "course_lib" / folder).rglob("*.py")
)


def luminance(pixels: np.ndarray) -> np.ndarray:
    """Relative luminance of WCAG 2.2; channels from 0 to 1, last."""
    linear = np.where(pixels <= 0.04045, pixels / 12.92, ((pixels + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (np.maximum(one, other) + 0.05) / (np.minimum(one, other) + 0.05)


def turned(pixels: np.ndarray) -> np.ndarray:
    """What the filter of ``plot/dark.py`` makes of pixels."""
    lightness = (pixels @ np.array(WEIGHTS))[..., None]
    floor = to_rgb(GROUND)[0]
    return floor + (1 - floor) * np.clip(1 - lightness + CHROMA * (pixels - lightness), 0, 1) ** GAMMA


def pale_beside_ground(image: Image.Image) -> int:
    """How many pixels of a pale coloured area touch the ground, in the theme where there are more of them.

    Pale: less than 3 to 1 from the ground. Of an area: two more pale pixels follow on the other side.
    """
    pixels = np.asarray(image.convert("RGB")) / 255
    ground = pixels.min(axis=-1) > 0.995
    coloured = pixels.max(axis=-1) - pixels.min(axis=-1) > 0.12
    counts = []
    for shown, behind in ((pixels, "#FFFFFF"), (turned(pixels), GROUND)):
        pale = coloured & (contrast(luminance(shown), luminance(np.array(to_rgb(behind)))) < 3)
        touching = [
            pale & np.roll(ground, step, axis) & np.roll(pale, -step, axis) & np.roll(pale, -2 * step, axis)
            for axis, step in ((0, 1), (0, -1), (1, 1), (1, -1))
        ]
        counts.append(int(np.sum(touching)))
    return max(counts)


def box_of(colour: str, hatch: str) -> Image.Image:
    sheet = Sheet(60, 40)
    sheet.box(10, 10, 50, 30, Look(colour, hatch, ""))
    return sheet.image


def test_the_measure_sees_a_light_box_without_an_outline():
    bare = Image.new("RGB", (60, 40), "white")
    bare.paste(Image.new("RGB", (30, 20), OKABE_ITO["yellow"]), (10, 10))
    assert pale_beside_ground(bare) == 100  # its whole edge


@pytest.mark.parametrize("hatch", ["", "/", "x", "|", "."])
@pytest.mark.parametrize("colour", OKABE_ITO.values())
def test_a_box_of_an_explorer_has_an_outline(colour: str, hatch: str):
    assert pale_beside_ground(box_of(colour, hatch)) == 0


def test_a_slim_box_has_one_too():
    sheet = Sheet(60, 40)
    sheet.box(10, 10, 13, 30, Look(OKABE_ITO["yellow"], "", ""))
    assert pale_beside_ground(sheet.image) == 0


def test_bars_and_their_key_have_outlines():
    bars = {"a bar": dict.fromkeys(LABEL_LOOKS, 1000)}
    picture = Image.open(io.BytesIO(memory_bars(bars).png()))
    assert pale_beside_ground(picture) < 10  # smoothed corners; without outlines it is hundreds


def test_an_outline_stands_out_from_the_ground_in_both_themes():
    for ink, behind in ((OUTLINE, "#FFFFFF"), (in_the_dark(OUTLINE), GROUND)):
        assert contrast(luminance(np.array(to_rgb(ink))), luminance(np.array(to_rgb(behind)))) >= 4.5


@pytest.mark.parametrize("colour", [*OKABE_ITO.values(), "#FFFFFF", "#BBBBBB", "#666666", "#888888"])
def test_a_hatch_stands_out_from_its_box(colour: str):
    line, box = (luminance(np.array(to_rgb(ink))) for ink in (hatch_colour(colour), colour))
    assert contrast(line, box) >= 3


@pytest.mark.parametrize("path", DRAWN_BY, ids=lambda path: path.name)
def test_no_bar_or_tile_is_drawn_with_a_white_edge(path: Path):
    text = path.read_text(encoding="utf-8").replace('facecolor="white", edgecolor="white"', "")  # a halo of letters
    assert 'edgecolor="white"' not in text
    assert 'outline="white"' not in text
