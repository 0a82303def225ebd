"""What a form leaves in a notebook for the day when its kernel is gone."""

from __future__ import annotations

import html
import re

import ipywidgets as widgets
import pytest

from course_lib.forms import Form, form, picture_box, stand_in
from course_lib.forms.stand_in import GONE


class Explorer(Form):
    """A form with a picture."""

    def __init__(self) -> None:
        self.image = picture_box(width="20px")
        self.image.value = b"first"
        super().__init__([self.image])

    def __repr__(self) -> str:
        return f"<{bytes(self.image.value).decode()}> & more"


class Handle:
    """Of a display that can be updated."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def update(self, content: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(content)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch):
    """A server's page: what it is shown, and what is called when a cell ends."""
    handle, ends = Handle(), []

    def display(content: dict[str, str], **_: object) -> Handle:
        handle.shown.append(content)
        return handle

    monkeypatch.setattr(form, "shown_by_server", lambda: True)
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(stand_in, "at_cell_ends", ends.append)
    return handle.shown, ends


def test_outside_a_page_an_explorer_has_its_picture_beside_it():
    """nbconvert, papermill and pages that know no widgets show it."""
    bundle = Explorer()._repr_mimebundle_()
    assert bundle["image/png"] == "Zmlyc3Q="
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "image/png" not in Form([widgets.Text()])._repr_mimebundle_()


def test_in_a_page_a_picture_stands_in_for_an_explorer(page):
    shown, _ = page
    bundle = Explorer()._repr_mimebundle_()
    assert "image/png" not in bundle, "it would be kept twice"
    (content,) = shown
    assert GONE in content["text/html"]
    assert "alt='&lt;first&gt; &amp; more'" in content["text/html"]
    assert "width:20px" in content["text/html"]
    assert content["text/plain"] == GONE


def test_the_picture_follows_when_a_cell_has_ended(page):
    shown, ends = page
    explorer = Explorer()
    explorer._repr_mimebundle_()
    (end,) = ends
    end()
    assert len(shown) == 1, "nothing has changed"
    explorer.image.value = b"second"
    end()
    end()
    assert len(shown) == 2
    assert "c2Vjb25k" in shown[-1]["text/html"]
    assert "&lt;second&gt;" in shown[-1]["text/html"]


def test_a_question_is_told_in_words(page):
    shown, ends = page
    Form([widgets.Text()]).bundle("How many?\n<3>")
    assert "How many?\n&lt;3&gt;" in shown[0]["text/html"]
    assert not ends


def test_it_is_whole_without_a_script_or_a_style_sheet(page):
    """VS Code and an untrusted notebook take away what is more than text and pictures: nothing is hidden then."""
    shown, _ = page
    Explorer()._repr_mimebundle_()
    bare = re.sub(r"<style>.*?</style>", "", shown[0]["text/html"], flags=re.DOTALL)
    assert not re.search(r"<script|\son\w+=|javascript:|display:\s*none", html.unescape(bare))
    assert GONE in bare
