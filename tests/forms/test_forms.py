"""What a form brings to the page with it; what it does there is tried in tests/browser."""

from __future__ import annotations

import html
import re
from pathlib import Path

import ipywidgets as widgets
import pytest

from course_lib.forms import Form, busy, picture_box
from course_lib.forms.form import STYLE_SHEET, manners
from course_lib.learn import ask, bet, exercises
from course_lib.learn.quizzes.quizzes import Quiz

LIBRARY = Path(__file__).resolve().parents[2] / "course_lib"


def test_a_form_brings_script_and_style_behind_its_parts():
    text = widgets.Text(description="name")
    form = Form([text])
    assert form.children[0] is text
    assert form.children[-1].value == manners()
    assert form.children[-1].layout.display == "none"
    assert "course-form" in form._dom_classes


def test_script_and_style_arrive_whole():
    script, style = re.fullmatch(r'<style onload="([^"]*)">(.*)</style>', manners(), re.DOTALL).groups()
    script = html.unescape(script)
    assert script.startswith("((style) => {")
    assert script.endswith("})(this)")
    assert "//" not in script  # a comment would be harmless on lines of its own; there is none to be sent
    assert style == STYLE_SHEET.read_text(encoding="utf-8")
    assert "</" not in style


def test_a_busy_button_is_marked_until_its_work_has_ended_or_failed():
    button = widgets.Button(description="run")
    with busy(button):
        assert "course-busy" in button._dom_classes
        assert not button.disabled
    assert "course-busy" not in button._dom_classes
    with pytest.raises(RuntimeError), busy(button):
        raise RuntimeError("no ranks")
    assert "course-busy" not in button._dom_classes


def test_a_picture_has_a_text():
    assert picture_box().tooltip.endswith(".")
    assert picture_box(width="10px").layout.width == "10px"
    # Without it ipywidgets' page fails on the tooltip, and no explorer has a picture.
    assert picture_box().get_state()["description"] == ""


def test_every_box_with_controls_is_a_form_or_a_row_of_one():
    """An explorer that is a plain VBox would hand its keys to the notebook."""
    rows = {"Paired": "course-paired", "BetRow": "", "QuestionForm": "course-question"}
    for path in [*LIBRARY.glob("widgets/*.py"), *LIBRARY.glob("learn/*.py")]:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^class (\w+)\(widgets\.[VH]Box\)", text, re.MULTILINE):
            assert name in rows, f"{path.name}: {name} should be a Form"
            assert rows[name] in text
        assert "widgets.Image(" not in text, f"{path.name}: picture_box gives a picture its text"


def test_a_form_is_shown_as_ipywidgets_shows_it():
    form = Form([widgets.Text(description="name")])
    assert {**form._repr_mimebundle_(), "text/plain": "said"} == form.bundle("said")


@pytest.mark.parametrize("make", [lambda: ask("00.shared"), lambda: bet("A8")], ids=["ask", "bet"])
def test_questions_are_shown_by_ipywidgets_7_too(make, monkeypatch: pytest.MonkeyPatch):
    """Colab has 7.7.1, whose widgets have ``_ipython_display_`` in place of this method."""
    monkeypatch.delattr(widgets.Widget, "_repr_mimebundle_")
    question = make()
    bundle = question._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"] == repr(question)


def test_a_quiz_is_shown_by_ipywidgets_7_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(widgets.Widget, "_repr_mimebundle_")
    found = Quiz("00", exercises.quiz_of("00"))
    assert set(found._bundle()) == {"application/vnd.jupyter.widget-view+json", "text/plain"}
