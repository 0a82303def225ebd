"""A phone's width: no page of the site or of `course export` moves sideways; what is wide moves within itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from course_lib import export
from course_lib.authoring.site.command import missing
from course_lib.base import paths

pytestmark = [pytest.mark.long, pytest.mark.limit_s(1200)]
PHONE = {"width": 390, "height": 844}
# Boxes around a heading that are wider within than a phone, or than themselves: the page, or all of its text, moves.
# Code, tables and formulas hold no heading: they move within boxes of their own.
# The theme lays a heading 8 px beyond the text on both sides, into the margin of the page.
BEYOND = """(seen) => {
  const around = new Set();
  for (const heading of document.querySelectorAll("h1, h2, h3"))
    for (let box = heading; box; box = box.parentElement) around.add(box);
  return [...around].filter((box) => box.clientWidth && box.scrollWidth > Math.min(seen, box.clientWidth) + 8)
    .map((box) => `${box.tagName} ${box.className}: ${box.scrollWidth} of ${box.clientWidth} px`);
}"""
# Code and tables that are wider than their box, and that can be moved in it: there are some, or nothing was tried.
MOVES = """() => [...document.querySelectorAll("pre, div")].filter((part) =>
  part.scrollWidth > part.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(part).overflowX)).length"""


@pytest.fixture
def phone(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport=PHONE, is_mobile=True, has_touch=True)
    page = context.new_page()
    page.set_default_timeout(120_000)
    yield page
    context.close()


def beyond(phone: Any, path: Path) -> list[str]:
    """What makes the page at ``path`` wider than the phone."""
    phone.goto(path.as_uri())
    return [f"{path.name}: {found}" for found in phone.evaluate(BEYOND, PHONE["width"])]


def test_the_export_of_solved_lessons(phone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "home"))
    solved, page = paths.project_root() / "notebooks" / "solutions", tmp_path / "page.html"
    assert export.main(["00", "11a", "14a", "--folder", str(solved), "--all", "--out", str(page)]) == 0
    assert beyond(phone, page) == []
    assert phone.evaluate(MOVES) > 10


@pytest.mark.skipif(bool(missing()), reason="the site needs: pip install -e '.[site]'")
def test_every_page_of_the_site(phone: Any, tmp_path: Path) -> None:
    from course_lib.authoring.site.build import build_site

    site = tmp_path / "site"
    build_site(paths.project_root(), site)
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 48
    assert [found for path in pages for found in beyond(phone, path)] == []
    phone.goto((site / "index.html").as_uri())
    moved = 0
    for path in sorted((site / "lessons").glob("0*.html"))[:6]:
        phone.goto(path.as_uri())
        moved += phone.evaluate(MOVES)
    assert moved > 0
