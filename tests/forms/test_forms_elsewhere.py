"""What VS Code, Colab and Kaggle can show: the widgets that ipywidgets itself brings, and HTML that needs no script.

Their renderers are not at hand. VS Code has the modules of ipywidgets' base and controls built in, takes others from
the network where it may, and shows HTML of a notebook that is not trusted without its scripts.
"""

from __future__ import annotations

import re

import ipywidgets as widgets
import pytest
from matplotlib.colors import to_rgb

from course_lib.forms import Form
from course_lib.forms.form import manners
from course_lib.forms.show import panel, paragraph, table
from course_lib.learn import ask, bet, exercises
from course_lib.learn.quizzes.quizzes import Quiz
from course_lib.plot.dark import GROUND
from course_lib.start_page.page import placement_of
from course_lib.widgets import ScheduleStudio, ShardedExplorer

BUILT_IN = {"@jupyter-widgets/base", "@jupyter-widgets/controls"}
FORMS = {
    "ask": lambda: ask("00.shared").form(),
    "bet": lambda: bet("A8").form(),
    "quiz": lambda: Quiz("00", exercises.quiz_of("00")).form(),
    "placement": lambda: placement_of().form(),
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


@pytest.mark.parametrize("kind", ["good", "bad", "info", "quiet"])
def test_the_edge_of_a_panel_stays_where_a_notebook_is_not_trusted_and_is_seen_in_both_themes(kind: str):
    """JupyterLab's cleaning keeps an edge whose colour is written out, and drops one with a variable."""
    (colour,) = re.findall(r"border-left:4px solid (#[0-9a-f]{3,6});", panel(kind, "", ""))
    for ground in ("#ffffff", GROUND):
        darker, lighter = sorted(luminance(one) for one in (colour, ground))
        assert (lighter + 0.05) / (darker + 0.05) >= 3


def luminance(colour: str) -> float:
    """By the Web Content Accessibility Guidelines, 0 for black to 1 for white."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
