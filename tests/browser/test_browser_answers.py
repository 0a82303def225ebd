"""Every question of every lesson part, answered by keys alone; then the page is loaded again, then the kernel restarts.

Only the imports and the cells that ask are run, so a part takes seconds. No control is focused by the test: Tab comes
to each, as for somebody without a mouse.
"""

from __future__ import annotations

import re

import pytest
from browser_page import PARTS, LessonPage

pytestmark = [pytest.mark.long, pytest.mark.limit_s(600)]

ASKS = re.compile(r"^(ask|quiz|bet)\(", re.MULTILINE)
NEEDED = re.compile(r"^@own_claim\(", re.MULTILINE)  # a bet on a claim of one's own
OUTCOME = re.compile("Locked:|All locked|✗")
MOST_STOPS = 60  # of the Tab key in one form


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_answered_by_keys_and_keeps_it(lesson, part):
    page = lesson(part)
    sources = page.sources()
    page.activate(next(iter(sources)))
    assert page.run_cell()  # the imports
    asked = [number for number, source in sources.items() if ASKS.search(source)]
    assert asked
    for number, source in sources.items():
        if number in asked or NEEDED.search(source):
            page.activate(number)
            assert page.run_cell(), page.tracebacks()
        if number in asked:
            page.form(number).wait_for()
            answer(page, number)
    assert page.axe() == []

    said = {number: page.form(number).inner_text() for number in asked}
    page.save()
    page.open()
    for number in asked:
        page.form(number).wait_for()
    assert {number: page.form(number).inner_text() for number in asked} == said

    assert page.problems == []

    page.restart_kernel()  # of which JupyterLab's own debugger may complain, if it was about to ask something
    signs = page.disconnected()
    assert len(signs) == len(asked)
    assert all("Run its cell again" in sign for sign in signs)


def answer(page: LessonPage, number: int) -> None:
    """Go through a form by Tab: give each control an answer, press each button, and leave by Shift+Enter."""
    form, cells = page.form(number), page.num_cells()
    last = form.locator("button").last.inner_text().strip()
    is_order, menus = form.locator("select").count() > 1 and not form.get_by_text("how sure?").count(), 0
    page.activate(number)
    entered = False
    for _ in range(MOST_STOPS):
        page.press("Tab")
        at = page.focus()
        entered |= at["in_form"]  # the buttons of the active cell come before
        assert at["in_form"] if entered else at["cell"] == number, f"Tab left before {last!r}, at {at}"
        if not entered:
            continue
        if at["tag"] == "SELECT":
            menus += 1
            page.press(*["ArrowDown"] * (menus if is_order else 1))  # in an order each comes once
        elif at["tag"] == "INPUT" and at["kind"] == "radio":
            page.press("Space", "ArrowDown")
        elif at["tag"] == "INPUT":
            page.press("1")
        elif at["tag"] == "BUTTON":
            page.press("Enter")
            _see_the_answer(page, form, at["text"])
            assert page.focus()["text"] == at["text"]
            if at["text"] == last:
                break
    page.press("Shift+Enter")
    assert page.comes_to(number + 1)
    assert page.num_cells() == cells


def _see_the_answer(page: LessonPage, form, button: str) -> None:
    """What pressing this button has done; a number out of range is told the nearest one, which is given then."""
    if "question" in button:
        question = form.locator(".course-question", has_text=button)
        question.locator("div[style*='border-left']").wait_for()
        return
    form.get_by_text(OUTCOME).first.wait_for()
    nearest = re.search(r"the nearest is ([\d.e+-]*\d)", form.inner_text())
    if nearest:
        page.press("Shift+Tab", "Control+a", *nearest[1], "Tab", "Enter")
    form.get_by_text(re.compile("Locked:|All locked")).first.wait_for()
