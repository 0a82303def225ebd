"""A busy kernel when somebody answers: what stands on the page is locked, not what stood there before."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.long, pytest.mark.limit_s(400)]

PART = "00_start_here.ipynb"
BUSY_S = 4


def opened(page, text):
    """The form of a cell, and a kernel that is busy for some seconds."""
    page.run_cells_above(text)
    assert page.run_cell()
    form = page.form(page.go_to(text))
    form.wait_for()
    page.keep_busy(BUSY_S)
    return form


def test_two_arrows_and_a_quick_press_lock_what_is_shown(lesson):
    page = lesson(PART)
    form = opened(page, 'ask("00.shared")')
    menu = form.locator("select")
    menu.focus()
    page.press("ArrowDown", "ArrowDown", "Tab", "Enter")
    shown = menu.evaluate("(menu) => menu.selectedOptions[0].textContent")
    form.get_by_text("Locked:").wait_for()
    assert form.get_by_text(f"Locked: {shown}").count()


def test_arrows_in_a_quiz_and_a_quick_press_answer_what_is_shown(lesson):
    page = lesson(PART)
    question = opened(page, 'quiz("00")').locator(".course-question").first
    chosen = question.locator("input[type=radio]")
    feedback = question.locator("div[style*='border-left']")
    chosen.first.focus()
    page.press("Space", "ArrowDown", "Tab", "Enter")
    feedback.wait_for()
    said = feedback.inner_text()
    assert chosen.nth(1).is_checked()
    if not chosen.nth(1).is_disabled():  # once more, with time: the same answer is told the same
        page.press("Enter")
        page.page.wait_for_timeout(1000)
        assert feedback.inner_text() == said
    chosen.first.focus()
    page.press("Space", "Tab", "Enter")
    page.page.wait_for_timeout(1000)
    assert chosen.nth(1).is_disabled() or feedback.inner_text() != said
