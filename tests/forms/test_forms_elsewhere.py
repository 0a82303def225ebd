"""What VS Code, Colab and Kaggle can show: the widgets that ipywidgets itself brings, and HTML that needs no script.

Their renderers are not at hand. VS Code has the modules of ipywidgets' base and controls built in, takes others from
the network where it may, and shows HTML of a notebook that is not trusted without its scripts.
"""

from __future__ import annotations

import re

import ipywidgets as widgets
import pytest

from course_lib.forms import Form
from course_lib.forms.form import manners
from course_lib.learn import ask, bet, exercises
from course_lib.learn.quizzes import Quiz
from course_lib.learn.show import panel, paragraph, table
from course_lib.widgets import ScheduleStudio, ShardedExplorer

BUILT_IN = {"@jupyter-widgets/base", "@jupyter-widgets/controls"}
FORMS = {
    "ask": lambda: ask("00.shared").form(),
    "bet": lambda: bet("A8").form(),
    "quiz": lambda: Quiz("00", exercises.quiz_of("00")).form(),
    "explorer": ShardedExplorer,
    "studio": ScheduleStudio,
}


def parts_of(widget: widgets.Widget) -> list[widgets.Widget]:
    """A widget and all that it is made of."""
    found = [widget]
    for part in getattr(widget, "children", ()):
        found += parts_of(part)
    return found


@pytest.mark.parametrize("name", FORMS)
def test_a_form_needs_no_widgets_but_those_of_ipywidgets(name: str):
    form = FORMS[name]()
    assert isinstance(form, Form)
    for part in parts_of(form):
        assert {part._model_module, part._view_module} <= BUILT_IN, part
        for own in (part.layout, getattr(part, "style", None)):
            assert own is None or not hasattr(own, "_model_module") or own._model_module in BUILT_IN


@pytest.mark.parametrize("name", FORMS)
def test_but_for_what_it_brings_with_it_a_form_has_no_script(name: str):
    for part in parts_of(FORMS[name]()):
        if isinstance(part, widgets.HTML) and part.value != manners():
            assert not re.search(r"<script|<[^>]*\son\w+\s*=|javascript:", part.value), part.value


def test_panels_are_whole_without_a_theme():
    """Names of JupyterLab's colours have a colour beside them, for pages that do not know the names."""
    html = panel("good", "Right", paragraph("because")) + table(["a", "b"], [["1", "2"]])
    assert not re.search(r"var\(--[\w-]+\)", html)
    assert not re.search(r"<script|\son\w+=", html)
