"""A smoke test, in every run: one part, its prediction and the keys in it, and what axe-core says."""

from __future__ import annotations

import pytest

START = "00_start_here.ipynb"
EXPLORER = """from course_lib.widgets import BucketExplorer

explorer = BucketExplorer()
display(explorer.picture())
explorer"""


@pytest.mark.limit_s(300)
def test_a_prediction_is_locked_by_keyboard_and_the_next_cell_is_one_key_away(lesson):
    page = lesson(START)
    asked = page.run_cells_above('ask("00.shared")')
    assert page.run_cell()
    form = page.form(asked)
    form.locator("select").focus()
    cells = page.num_cells()
    page.press("ArrowDown", "b", "ArrowDown")  # in a menu an arrow chooses, and no letter is a command
    assert page.focus()["cell"] == asked
    assert page.num_cells() == cells
    assert form.locator("select").input_value()
    page.press("Tab", "Enter")
    form.get_by_text("Locked:").wait_for()
    assert page.focus()["text"] == "Lock my answer"
    page.press("Enter")
    form.get_by_text("Already locked:").wait_for()
    page.press("Shift+Enter")
    assert page.comes_to(asked + 1)
    assert not page.focus()["in_form"]
    explorer = page.form(page.run_below(EXPLORER))
    explorer.locator("img.widget-image[alt]").wait_for()
    page.page.wait_for_selector(".jp-RenderedImage img[alt]")
    assert page.pictures_without_text() == []
    assert page.axe() == []
    assert page.problems == []
    assert page.tracebacks() == []
    page.run_below("1 / 0")
    assert page.tracebacks() == ["ZeroDivisionError: division by zero"]
