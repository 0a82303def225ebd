"""Every figure that a lesson or an explorer shows: its coloured marks stand out from the ground in both themes.

Measured on pixels. A coloured pixel beside the ground needs one within 3 px that is at least 3 to 1 from it: of an
outline, a hatch, or of the mark itself. Letters on a small ground of their own within a mark are no ground.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from PIL import Image, ImageDraw
from scipy import ndimage
from test_plot_outlines import contrast, luminance, turned

from course_lib.plot import OKABE_ITO, lines
from course_lib.plot.dark import GROUND, in_the_dark
from course_lib.plot.raster import Sheet
from course_lib.plot.style import Look, line_colour

ROOT = Path(__file__).resolve().parents[2]
ASSETS = [path for path in sorted((ROOT / "assets").glob("*.png")) if path.name != "lesson.png"]
SOLVED = sorted((ROOT / "notebooks" / "solutions").glob("[0-9]*.ipynb"))
MOST_LOST = 30  # smoothed corners, and letters
SMALLEST_GROUND = 4_000  # pixels of one piece of ground; the paper of a word is smaller
# Kept outputs of runs on a quiet machine, drawn before marks had outlines and lines a darker shade. A lesson that is
# executed again has new figures: take it off this list then.
BEFORE_OUTLINES = {
    "01a_one_device", "01b_time_and_data", "01c_less_memory", "02b_time_trees_and_groups", "03b_one_process",
    "06a_model_parallel",
    "06b_where_to_cut", "07b_smaller_bubbles", "08d_links_and_production", "14a_the_job", "14b_defend_it",
}  # fmt: skip
EXPLORERS = (
    "BucketExplorer", "ContextExplorer", "MatmulExplorer", "MeshExplorer", "PlanExplorer",
    "ScheduleStudio", "ShardedExplorer",
)  # fmt: skip


def lost(image: Image.Image) -> int:
    """How many coloured pixels beside the ground have nothing near that stands out, in the theme with more of them."""
    pixels = np.asarray(image.convert("RGB")) / 255
    colour = pixels.max(axis=-1) - pixels.min(axis=-1)
    parts, _ = ndimage.label((pixels.min(axis=-1) > 0.95) & (colour < 0.01))  # the pale grey of a panel too
    sizes = np.bincount(parts.ravel())
    sizes[0] = 0
    ground = (sizes > SMALLEST_GROUND)[parts]
    beside = (colour > 0.12) & ndimage.maximum_filter(ground, 3)
    counts = []
    for shown, behind in ((pixels, "#FFFFFF"), (turned(pixels), GROUND)):
        strong = contrast(luminance(shown), luminance(np.array(to_rgb(behind)))) >= 3
        counts.append(int(np.sum(beside & ~ndimage.maximum_filter(strong, 7))))
    return max(counts)


def pictures_of(notebook: Path) -> dict[str, Image.Image]:
    """The pictures in the outputs of a notebook, by the number of their cell."""
    found = {}
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        for place, output in enumerate(cell.get("outputs", [])):
            if data := output.get("data", {}).get("image/png"):
                bits = base64.b64decode("".join(data))
                found[f"cell {number}, output {place}"] = Image.open(io.BytesIO(bits))
    return found


@pytest.mark.parametrize("colour", ["orange", "sky blue", "yellow"])
def test_the_measure_sees_a_pale_line_and_a_pale_box(colour: str):
    for shape in ("line", "rectangle"):
        image = Image.new("RGB", (200, 100), "white")
        getattr(ImageDraw.Draw(image), shape)((20, 20, 180, 60), OKABE_ITO[colour])
        assert lost(image) > MOST_LOST, shape


def test_the_measure_lets_an_outline_and_a_word_on_its_paper_pass():
    image = Image.new("RGB", (200, 100), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((20, 20, 180, 80), OKABE_ITO["yellow"], "#333333")
    draw.rectangle((80, 40, 120, 60), "white")
    assert lost(image) == 0


@pytest.mark.parametrize("name", OKABE_ITO)
def test_a_line_stands_out_in_both_themes_and_keeps_its_hue(name: str):
    shade = line_colour(OKABE_ITO[name])
    for ink, behind in ((shade, "#FFFFFF"), (in_the_dark(shade), GROUND)):
        assert contrast(luminance(np.array(to_rgb(ink))), luminance(np.array(to_rgb(behind)))) >= 3
    before, after = np.array(to_rgb(OKABE_ITO[name])), np.array(to_rgb(shade))
    assert np.allclose(after * before.max(), before * after.max(), atol=0.01)


@pytest.mark.parametrize("width", range(12, 30))
def test_a_word_in_a_narrow_hatched_box_leaves_its_outline(width: int):
    sheet = Sheet(90, 60)
    sheet.box(30, 20, 30 + width, 35, Look("#F5CF80", "/", ""), "B0")
    assert lost(sheet.image) == 0


def test_seven_curves_of_one_figure_stand_out():
    curves = {f"curve {number}": {0: number, 1: number + 2} for number in range(7)}
    picture = lines(curves, x_label="x", y_label="y")
    assert lost(Image.open(io.BytesIO(picture.png()))) <= MOST_LOST


def test_a_shade_is_only_darker_where_it_must_be():
    assert to_hex(line_colour(OKABE_ITO["blue"])) == OKABE_ITO["blue"].lower()


@pytest.mark.long
@pytest.mark.parametrize("path", ASSETS, ids=lambda path: path.stem)
def test_the_marks_of_a_picture_stand_out(path: Path):
    assert lost(Image.open(path)) <= MOST_LOST


@pytest.mark.long
@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_the_marks_of_a_lessons_figures_stand_out(path: Path):
    pale = {where: found for where, image in pictures_of(path).items() if (found := lost(image)) > MOST_LOST}
    if path.stem in BEFORE_OUTLINES:
        assert pale, "it is executed anew: take it off the list"
    else:
        assert pale == {}


@pytest.mark.long
@pytest.mark.parametrize("name", EXPLORERS)
def test_the_marks_of_an_explorer_stand_out(name: str):
    explorer = getattr(importlib.import_module("course_lib.widgets"), name)()
    picture = explorer.picture()
    assert lost(Image.open(io.BytesIO(picture.png()))) <= MOST_LOST


@pytest.mark.long
def test_the_marks_of_the_memory_explorer_stand_out():
    from course_lib.widgets import MemoryExplorer

    def sizes(*, batch_size: int, **dials: object) -> dict[str, int]:
        return {
            "parameter": 2**20,
            "gradient": 2**20,
            "optimizer state": 2**21,
            "activation": batch_size * 2**18,
        }

    picture = MemoryExplorer(sizes).picture()
    assert lost(Image.open(io.BytesIO(picture.png()))) <= MOST_LOST
