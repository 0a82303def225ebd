"""By keyboard alone: a number, a quiz, a bet, every explorer and the studio; where the focus is, and what is kept."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.long, pytest.mark.limit_s(400)]

EXPLORERS = {  # the part, the cell, and the controls to be moved
    "01c_less_memory.ipynb": "Explorer(",
    "02a_collectives.ipynb": "CollectiveExplorer(",
    "04a_distributed_data_parallel.ipynb": "BucketExplorer(",
    "05c_what_stays_whole.ipynb": "ShardedExplorer(",
    "08a_tensor_parallel.ipynb": "MatmulExplorer(",
    "09b_who_holds_what.ipynb": "MeshExplorer(",
    "10b_equal_work.ipynb": "ContextExplorer(",
    "11d_runs_of_others.ipynb": "PlanExplorer(",
}
PICTURE = "img.widget-image"
_LOOKS, _LOOK_MS = 50, 100


def comes(page, is_so):
    """Whether it becomes so, on a busy machine too; some controls change nothing, and are given up after a while."""
    for _ in range(_LOOKS):
        if is_so():
            return True
        page.page.wait_for_timeout(_LOOK_MS)
    return False


def shown(page, text):
    """The form of the first cell that holds ``text``, made by running all cells up to it."""
    number = page.run_cells_above(text)
    assert page.run_cell()
    form = page.form(number)
    form.wait_for()
    return number, form


def test_a_number_is_typed_and_locked(lesson):
    page = lesson("00_start_here.ipynb")
    asked, form = shown(page, 'ask("00.sum")')
    form.locator("input").focus()
    cells = page.num_cells()
    page.press("1", "2", "Tab", "d", "d", "Space")
    form.get_by_text("Locked: 12").wait_for()
    assert page.num_cells() == cells  # "d d" deletes a cell elsewhere
    assert page.focus()["text"] == "Lock my answer"
    page.press("Shift+Enter")
    assert page.comes_to(asked + 1)


def test_a_quiz_is_answered_by_arrows(lesson):
    page = lesson("00_start_here.ipynb")
    _, form = shown(page, 'quiz("00")')
    question = form.locator(".course-question").first
    question.locator("input[type=radio]").first.focus()
    page.press("Space", "ArrowDown", "ArrowDown")
    assert page.focus()["in_form"]
    assert question.locator("input[type=radio]").nth(2).is_checked()
    page.press("Tab", "Enter")
    question.locator("div[style*='border-left']").wait_for()  # the feedback
    assert page.focus()["text"] == "Answer question 1"
    group = question.locator("[role=radiogroup]")
    assert group.get_attribute("aria-label").startswith("1. ")


def test_a_bet_is_placed(lesson):
    page = lesson("13a_a_first_script.ipynb")
    number, form = shown(page, 'bet("A8")')
    form.locator("select").first.focus()
    page.press("ArrowDown", "Tab", "ArrowDown", "Tab", "Enter")
    form.get_by_text("All locked").wait_for()
    assert page.focus()["text"] == "Lock my bets"
    page.press("Shift+Enter")
    assert page.comes_to(number + 1)


@pytest.mark.parametrize("part", EXPLORERS)
def test_an_explorer_is_moved(lesson, part):
    """Each menu by ArrowDown, each number by ArrowUp: the focus stays, the words change, and the page is the same."""
    page = lesson(part)
    number, form = shown(page, EXPLORERS[part])
    cells, told = page.num_cells(), form.locator("[role=status]")
    picture = form.locator(PICTURE)
    picture.wait_for()
    assert picture.get_attribute("alt")
    changed = 0
    for control in form.locator("select, input").all():
        if not control.is_enabled():  # of no use beside what another control says now
            continue
        before, source = told.inner_text(), picture.get_attribute("src")
        control.focus()
        kind = control.get_attribute("type")
        page.press("Space" if kind == "checkbox" else "ArrowUp" if kind == "number" else "ArrowDown")
        assert page.focus()["cell"] == number
        page.press("Tab")  # a number counts when it is left
        changed += comes(page, lambda seen=(before, source): (told.inner_text(), picture.get_attribute("src")) != seen)
    assert changed >= 2
    assert page.num_cells() == cells
    assert page.axe() == []
    assert page.problems == []


def test_stepping_to_the_end_keeps_the_focus(lesson):
    page = lesson("02a_collectives.ipynb")
    number, form = shown(page, "CollectiveExplorer(")
    form.get_by_role("button", name="forward").focus()
    page.press(*["Enter"] * 30)
    form.get_by_text("There is no step after the last.").wait_for()
    assert page.focus()["text"] == "forward"
    page.press("Shift+Enter")
    assert page.comes_to(number + 1)


def test_the_studio_by_keyboard_and_its_table_is_kept(lesson):
    page = lesson("07b_smaller_bubbles.ipynb")
    number, form = shown(page, "studio = ScheduleStudio(")
    table = form.locator("textarea")
    table.focus()
    page.press("Control+End", "Enter", "x")
    form.get_by_text("Cannot be read yet").wait_for()
    typed = table.input_value()
    page.press("Shift+Enter")  # goes on: neither a new line nor a new studio
    assert page.comes_to(number + 1)
    assert page.form(number).locator("textarea").input_value() == typed
    form.get_by_role("button", name="fill the table anew").focus()
    page.press("Enter")
    form.get_by_text("Not the goal yet").wait_for()
    for handle in form.locator(".noUi-handle").all():
        assert handle.get_attribute("aria-label")
    form.locator(".noUi-handle").first.focus()
    page.press("ArrowRight")
    form.get_by_text("it is for").wait_for()  # another number of ranks than the goal's
    form.get_by_role("button", name="run on ranks").focus()
    page.press("Enter")
    form.get_by_text("It ran in").wait_for()
    assert page.focus()["text"] == "run on ranks"
