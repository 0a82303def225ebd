"""A change redraws at once, and a drag draws the newest value: what is asked for while one is drawn is drawn once."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.long, pytest.mark.limit_s(400)]

# Counts how often the picture of a form is replaced.
COUNT = """(form) => {
  const picture = form.querySelector("img.widget-image");
  window.drawn = [];
  new MutationObserver(() => window.drawn.push(performance.now())).observe(picture, {attributeFilter: ["src"]});
}"""


def test_a_drag_draws_few_pictures_and_ends_at_the_newest_value(lesson):
    page = lesson("07b_smaller_bubbles.ipynb")
    number = page.run_cells_above("studio = ScheduleStudio(")
    assert page.run_cell()
    form = page.form(number)
    form.locator("img.widget-image").wait_for()
    form.evaluate(COUNT)
    handle = form.locator(".course-paired", has_text="backward / forward").locator(".noUi-handle")
    handle.focus()
    steps = 12
    page.press(*["ArrowRight"] * steps)
    box = form.get_by_role("spinbutton", name="backward / forward")
    page.page.wait_for_function("(box) => Math.abs(box.value - 3.2) < 1e-6", arg=box.element_handle())
    still = "() => window.drawn.length && performance.now() - window.drawn.at(-1) > 1500"
    page.page.wait_for_function(still)
    drawn = page.page.evaluate("() => window.drawn.length")
    assert 1 <= drawn < steps
