"""Every kind of form on one page: who goes by Tab sees where the focus is, and nothing is cut at 200 % or moves.

The focus is measured on pixels, in both themes: what changes on the screen when it comes to a control.
"""

from __future__ import annotations

import pytest
from browser_page import THEMES, LessonPage
from focus_ring import ring_of_focus
from motion import moving

pytestmark = [pytest.mark.long, pytest.mark.limit_s(1800)]
MOST_STOPS = 80  # of the Tab key in one form
LEAST = 1.0  # a line of 1 px around the control
# Labels and buttons whose text is longer than their box, and parts of a form that can be moved sideways.
CUT = """() => [...document.querySelectorAll(".course-form, .course-form *")].filter((part) => part.clientWidth
    && part.scrollWidth > part.clientWidth + 1 && !part.matches("textarea, input, select, .noUi-target *"))
  .map((part) => `${part.className}: ${part.scrollWidth} of ${part.clientWidth} px, ${part.innerText.slice(0, 60)}`)"""


def stops_in(page: LessonPage, number: int) -> list[tuple[str, float]]:
    """Go by Tab through the outputs of a cell: what each stop is, and how much of a ring it has."""
    outputs = f"window.jupyterapp.shell.currentWidget.content.widgets[{number}].outputArea.node"
    inside = f"() => {outputs}.contains(document.activeElement)"
    page.activate(number)
    seen: list[tuple[str, float]] = []
    for _ in range(MOST_STOPS):
        page.press("Tab")
        if page.page.evaluate(inside):
            at = page.focus()
            seen.append((f"{at['tag']} {at['kind']} {at['text']!r}", ring_of_focus(page.page)))
        elif seen:
            return seen
    raise AssertionError(f"Tab does not come out of cell {number} in {MOST_STOPS} stops: {seen}")


@pytest.mark.parametrize("theme", THEMES)
def test_every_control_that_has_the_focus_shows_it(forms, theme):
    page, cells = forms
    page.width(1280)
    page.theme(theme)
    stops = {name: stops_in(page, number) for name, number in cells.items()}
    hidden = [f"{name}: {what} {ring:.2f}" for name, found in stops.items() for what, ring in found if ring < LEAST]
    assert hidden == []
    assert sum(map(len, stops.values())) > 60


@pytest.mark.parametrize("width", [720, 640])  # 1440 and 1280 px at 200 %
def test_at_twice_the_size_no_part_of_a_form_is_cut(forms, width):
    page, _ = forms
    page.width(width)
    assert page.page.evaluate(CUT) == []


def test_with_reduced_motion_nothing_in_a_form_moves(forms):
    page, cells = forms
    handle = page.form(cells["the studio"]).locator(".noUi-target").first
    handle.evaluate("(slider) => slider.classList.add('noUi-state-tap')")  # as for a moment after a click
    assert moving(page.page, ".course-form, .course-form *, .jp-OutputArea-output *") == []
    page.page.emulate_media(reduced_motion="no-preference")
    assert moving(page.page, ".course-form *"), "the slider moves, or nothing was looked at"
    page.page.emulate_media(reduced_motion="reduce")
