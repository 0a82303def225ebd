"""A form in pages that are not JupyterLab's, as far as their marks are known: VS Code's, Colab's, and one without any.

The pages are made up of what these front ends' own pages have: the classes of their body, their theme, their ground.
"""

from __future__ import annotations

from typing import Any

import pytest

from course_lib.forms.form import manners

pytestmark = pytest.mark.long
FORM = f"<div class='course-form'><img src='data:,' title='A picture.'><input><div>{manners()}</div></div>"
DARK, LIGHT = True, False


@pytest.fixture
def page(browser: Any):
    context = browser.new_context()
    yield context.new_page()
    context.close()


def is_dark(page: Any, html: str) -> bool:
    page.set_content(html)
    page.wait_for_function("() => document.querySelector('.course-form').dataset.courseKeys")
    found = page.evaluate("() => [...document.querySelectorAll('img')].map((one) => getComputedStyle(one).filter)")
    assert len(set(found)) == 1
    return "url(" in found[0]


@pytest.mark.parametrize(
    ("html", "dark"),
    [
        (f"<html><body class='vscode-dark'><div class='output'>{FORM}<img></div></body></html>", DARK),
        (
            f"<html><body class='vscode-high-contrast'><div class='output'>{FORM}<img></div></body></html>",
            DARK,
        ),
        (f"<html><body class='vscode-light'><div class='output'>{FORM}<img></div></body></html>", LIGHT),
        (f"<html><body class='vscode-high-contrast vscode-high-contrast-light'>{FORM}</body></html>", LIGHT),
        (f"<html theme='dark'><body>{FORM}</body></html>", DARK),
        (f"<html theme='light'><body>{FORM}</body></html>", LIGHT),
        (f"<html><body style='background: #222'><div>{FORM}</div></body></html>", DARK),
        (f"<html><body style='background: white'><div>{FORM}</div></body></html>", LIGHT),
        (f"<html><body>{FORM}</body></html>", LIGHT),
        (f"<html><body data-jp-theme-light='true' style='background: #222'>{FORM}</body></html>", LIGHT),
    ],
)
def test_pictures_follow_the_page(page: Any, html: str, dark: bool):
    assert is_dark(page, html) == dark


def test_without_a_ground_of_its_own_the_system_decides_only_in_a_frame(page: Any):
    page.emulate_media(color_scheme="dark")
    assert not is_dark(page, f"<html><body>{FORM}</body></html>"), "a page without a ground is white"
    page.set_content("<iframe></iframe>")
    page.frames[1].set_content(f"<html><body>{FORM}</body></html>")
    page.frames[1].wait_for_selector("html[data-course-ground=dark]", state="attached")


def test_shift_enter_is_left_to_a_page_without_cells_and_letters_are_not(page: Any):
    page.set_content(f"<html><body class='vscode-dark'>{FORM}</body></html>")
    page.wait_for_function("() => document.querySelector('.course-form').dataset.courseKeys")
    page.evaluate("() => { window.heard = []; document.onkeydown = (event) => window.heard.push(event.key); }")
    page.focus("input")
    for key in ("b", "ArrowDown", "Shift+Enter"):
        page.keyboard.press(key)
    heard = page.evaluate("() => window.heard")
    assert "Enter" in heard
    assert not {"b", "ArrowDown"} & set(heard)


def test_a_picture_has_its_text_without_jupyterlab(page: Any):
    page.set_content(f"<html><body>{FORM}</body></html>")
    page.wait_for_selector("img[alt='A picture.']", state="attached")
