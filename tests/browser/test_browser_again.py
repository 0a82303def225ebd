"""A page that is loaded again shows what it showed; after a restart of the kernel each form says so, once."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.long, pytest.mark.limit_s(400)]

PART, CELL = "07b_smaller_bubbles.ipynb", "studio = ScheduleStudio("


def test_a_reload_keeps_what_was_typed(lesson):
    page = lesson(PART)
    number = page.run_cells_above(CELL)
    assert page.run_cell()
    table = page.form(number).locator("textarea")
    table.focus()
    page.press("Control+End", "Enter", "x")
    page.form(number).get_by_text("Cannot be read yet").wait_for()
    typed = table.input_value()
    page.save()
    page.open()
    again = page.form(number).locator("textarea")
    again.wait_for()
    assert again.input_value() == typed
    again.focus()
    page.press("b", "ArrowDown")  # keys are kept here after a reload as well
    assert page.focus()["in_form"]


def test_after_a_restart_a_form_says_what_has_happened(lesson):
    page = lesson(PART)
    number = page.run_cells_above(CELL)
    assert page.run_cell()
    page.form(number).locator("textarea").wait_for()
    page.restart_kernel()
    signs = page.disconnected()
    assert len(signs) == page.page.locator(".course-form").count()
    assert all("Run its cell again" in sign for sign in signs)
