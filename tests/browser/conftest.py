"""One `course lab` and one Chromium for all browser tests; each test has a page of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_lab import RunningLab, chromium, missing, running_lab
from browser_page import LessonPage

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
    with running_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
        ]
        running = playwright.chromium.launch(executable_path=chromium(), args=options)
        yield running
        running.close()


@pytest.fixture
def lesson(lab: RunningLab, browser: Any) -> Iterator[Callable[[str], LessonPage]]:
    """``lesson("00_start_here.ipynb")`` opens a part in a page of its own; its kernel ends with the test."""
    pages = []

    def opened(part: str) -> LessonPage:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        pages.append(context)
        return LessonPage(context.new_page(), lab, part)

    yield opened
    for context in pages:
        for page in context.pages:
            page.evaluate("""async () => {
              const open = window.jupyterapp?.shell.currentWidget;
              await open?.context?.sessionContext.shutdown();
            }""")
        context.close()
