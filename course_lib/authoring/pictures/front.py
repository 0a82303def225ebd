"""``course pictures front``: the picture of README, ``assets/lesson.png``, taken of a real page in a real browser.

A few cells of lesson 00 are run in JupyterLab by headless Chromium, with the answer of the solved copy in the form.
The words of these cells and of their outputs are kept in the PNG; ``course test`` compares them with the lesson as it
is now, so a picture of a page that is no longer there is found. No time of this machine is shown.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from course_lib.authoring.testing.browser_lab import (
    BROWSER_OPTIONS,
    RunningLab,
    chromium,
    missing,
    running_lab,
)
from course_lib.lessons.info import LessonError

__all__ = ["FRONT", "is_front_fresh", "take_front", "words_in", "words_now"]

FRONT = "lesson.png"
_LESSON = "00_start_here.ipynb"
_FIRST, _LAST = "**Four ranks run", 'reveal("00.shared"'  # in the first cell of the picture, and in its last
_ANSWER = "4"
_WORDS = "course: words of the page"
_WIDTH, _HEIGHT, _DENSITY, _EDGE = 1060, 1600, 1.5, 6
_COLOURS = 128
_LIMIT_MS = 120_000
# The numbers of the first and the last cell; all cells up to the last are run, but for the question's form.
_RUN = """async ([first, last]) => {
  const {commands, shell} = window.jupyterapp;
  const {context, content} = shell.currentWidget;
  await context.ready; await context.sessionContext.ready; await context.sessionContext.session.kernel.info;
  commands.execute("application:toggle-left-area", {side: "left"}).catch(() => {});
  const at = (text) => content.widgets.findIndex(
    (cell) => cell.model.sharedModel.getSource().includes(text));
  content.activeCellIndex = at(last);
  await commands.execute("notebook:run-all-above");
  return [at(first), at(last)];
}"""
_RUN_LAST = """async (last) => {
  const {commands, shell} = window.jupyterapp;
  shell.currentWidget.content.activeCellIndex = last;
  await commands.execute("notebook:run-cell");
  shell.currentWidget.content.activeCellIndex = 0;
  document.activeElement.blur();
  return true;
}"""
_BOX = """([first, last]) => {
  const cells = window.jupyterapp.shell.currentWidget.content.widgets;
  cells[first].node.scrollIntoView();
  cells[first].node.closest(".jp-WindowedPanel-outer").scrollTop -= 40; // away from the toolbar's edge
  const [top, end] = [cells[first], cells[last]].map((cell) => cell.node.getBoundingClientRect());
  return [top.left, top.top, end.right, end.bottom];
}"""


def words_now(root: Path) -> str:
    """The words of the cells in the picture as the lesson is now, with their outputs in its solved copy.

    Raises LessonError (a ValueError) where the lesson has no such cells any more.
    """
    learner, solved = (
        json.loads((root / folder / _LESSON).read_text(encoding="utf-8"))["cells"]
        for folder in ("notebooks", "notebooks/solutions")
    )
    sources = ["".join(cell["source"]) for cell in learner]
    first = next((n for n, text in enumerate(sources) if _FIRST in text), None)
    last = next((n for n, text in enumerate(sources) if _LAST in text), None)
    if first is None or last is None or first > last:
        raise LessonError(
            f"{_LESSON}: README's picture shows the cells from {_FIRST!r} to {_LAST!r}, and the lesson has none such; "
            "course_lib/authoring/pictures/front.py says which cells to show"
        )
    told = [text for cell in solved[first : last + 1] for text in _outputs(cell)]
    return "\n\n".join(sources[first : last + 1] + told)


def words_in(picture: Path) -> str:
    """The words that a picture was taken of; "" where it says none."""
    with Image.open(picture) as image:
        image.load()
        return str(getattr(image, "text", {}).get(_WORDS, ""))


def is_front_fresh(root: Path) -> bool:
    """Whether README's picture shows the lesson as it is; True where there is no picture."""
    picture = root / "assets" / FRONT
    return not picture.exists() or words_in(picture) == words_now(root)


def take_front(folder: Path, root: Path) -> int:
    """Take the picture into ``folder``: 0 well, 1 where no browser can be driven here."""
    why_not = missing()
    if why_not:
        print(f"course pictures front: {why_not}", file=sys.stderr)
        return 1
    words = words_now(root)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place) / "work"
        (work / "notebooks").mkdir(parents=True)
        shutil.copy(root / "notebooks" / _LESSON, work / "notebooks")
        shutil.copytree(root / "assets", work / "assets", ignore=shutil.ignore_patterns("measured", "published"))
        with running_lab(work, Path(place) / "home") as lab:
            shot = _shot(lab)
    (folder / FRONT).write_bytes(_with_words(shot, words))
    print(f"{FRONT}: taken anew of {_LESSON}. Look at it.")
    return 0


def _outputs(cell: dict[str, Any]) -> list[str]:
    """What a cell says, as plain text."""
    return ["".join(output.get("text") or output["data"]["text/plain"]) for output in cell.get("outputs", [])]


def _shot(lab: RunningLab) -> bytes:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=BROWSER_OPTIONS)
        page = browser.new_page(
            viewport={"width": _WIDTH, "height": _HEIGHT}, device_scale_factor=_DENSITY, color_scheme="light"
        )
        page.set_default_timeout(_LIMIT_MS)
        page.goto(lab.address(_LESSON))
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        cells = page.evaluate(_RUN, [_FIRST, _LAST])
        form = page.locator(".course-form").filter(has=page.locator("select")).first
        form.locator("select").select_option(label=_ANSWER)
        form.get_by_role("button").first.click()
        form.get_by_text("Locked:").wait_for()
        page.evaluate(_RUN_LAST, cells[1])
        page.get_by_text(re.compile("Each rank changed its own copy")).wait_for()
        left, top, right, bottom = page.evaluate(_BOX, cells)
        wide, high = right - left + 2 * _EDGE, bottom - top + 2 * _EDGE
        shot = page.screenshot(clip={"x": left - _EDGE, "y": top - _EDGE, "width": wide, "height": high})
        browser.close()
    return bytes(shot)


def _with_words(shot: bytes, words: str) -> bytes:
    """The picture in few colours, with the words that it was taken of."""
    kept, buffer = PngInfo(), io.BytesIO()
    kept.add_itxt(_WORDS, words)
    with Image.open(io.BytesIO(shot)) as image:
        image.convert("RGB").quantize(_COLOURS).save(buffer, "png", optimize=True, pnginfo=kept)
    return buffer.getvalue()
