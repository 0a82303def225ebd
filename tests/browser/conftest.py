"""One `course lab` and one Chromium for all browser tests; each test has a page of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from all_forms import FORMS, NUM_PICTURES
from browser_page import LessonPage

from course_lib.authoring.testing.browser_lab import (
    BROWSER_OPTIONS,
    RunningLab,
    chromium,
    missing,
    running_lab,
)

ROOT = Path(__file__).resolve().parents[2]
WHY_NOT = missing()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here; all on one worker, for one server and one browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("browser"))
            if WHY_NOT:
                item.add_marker(pytest.mark.skip(reason=WHY_NOT))


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """Over a copy of the lessons."""
    folder = tmp_path_factory.mktemp("lab")
    left_out = shutil.ignore_patterns("solutions", "src")
    shutil.copytree(ROOT / "notebooks", folder / "work" / "notebooks", ignore=left_out)
    shutil.copytree(ROOT / "assets", folder / "work" / "assets")
    with running_lab(folder / "work", folder / "home") as running:
        yield running


@pytest.fixture(scope="module")  # while it is there, nothing else in this process can run an event loop
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=BROWSER_OPTIONS)
        yield running
        running.close()


@pytest.fixture
def lesson(lab: RunningLab, browser: Any) -> Iterator[Callable[[str], LessonPage]]:
    """``lesson("00_start_here.ipynb")`` opens a part in a page of its own; its kernel ends with the test."""
    contexts = []

    def opened(part: str) -> LessonPage:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        return LessonPage(context.new_page(), lab, part)

    yield opened
    for context in contexts:
        end(context)


@pytest.fixture(scope="module")
def forms(lab: RunningLab, browser: Any) -> Iterator[tuple[LessonPage, dict[str, int]]]:
    """A page with every kind of form, whose reader wants no motion; and the number of each form's cell."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = LessonPage(context.new_page(), lab, "00_start_here.ipynb")
    page.go_to("from course_lib")
    cells = {name: page.run_below(source) for name, source in FORMS.items()}
    assert page.tracebacks() == []
    pictures = "(number) => document.querySelectorAll('.course-form img.widget-image[alt]').length === number"
    page.page.wait_for_function(pictures, arg=NUM_PICTURES)
    yield page, cells
    end(context)


def end(context: Any) -> None:
    """Close a browser's pages, and end their kernels."""
    for page in context.pages:
        page.evaluate("""async () => {
          const open = window.jupyterapp?.shell.currentWidget;
          await open?.context?.sessionContext.shutdown();
        }""")
    context.close()
