"""A phone's width: no page of the site or of `course export` moves sideways; what is wide moves within itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from phone_page import PHONE, faults, moved
from small_course import small_course

from course_lib import export
from course_lib.authoring.site.command import missing
from course_lib.base import paths

needs_sphinx = pytest.mark.skipif(bool(missing()), reason="the site needs: pip install -e '.[site]'")


@pytest.fixture
def phone(browser: Any) -> Iterator[Any]:
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.set_default_timeout(120_000)
    yield page
    context.close()


def exported(words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page of solved lessons, by ``course export``."""
    monkeypatch.setenv("COURSE_HOME", str(folder / "home"))
    solved, page = paths.project_root() / "notebooks" / "solutions", folder / "page.html"
    assert export.main([*words, "--folder", str(solved), "--all", "--out", str(page)]) == 0
    return page


PLANTED = {
    "<p style='width: 500px'>Words</p>": "from ",
    "<div style='overflow-x: auto'><p style='width: 500px'>Words</p></div>": "plain text moves sideways",
    "<p style='font-size: 9px'>Words</p>": "letters of 9 px",
    "<p style='overflow: hidden; white-space: nowrap; width: 90px'>Words that go on and on</p>": "cut off",
    "<style>pre {white-space: pre-wrap}</style><pre>Words</pre>": "lines are broken",
    "<details><summary>S</summary><p style='width: 500px'>Words</p></details>": "from ",
    "<table style='display: block; overflow-x: auto'><tr><td><p style='width: 500px'>Words</p></td></tr></table>": "",
    "<pre style='overflow-x: auto'>Words that go on and on, further than any phone is wide</pre>": "",
}  # fmt: skip


def test_the_look_sees_what_it_is_for(phone: Any, tmp_path: Path) -> None:
    page, head = tmp_path / "page.html", "<!doctype html><meta name=viewport content='width=device-width'><body>"
    for body, found in PLANTED.items():
        page.write_text(head + body, encoding="utf-8")
        told = faults(phone, page)
        assert found in " ".join(told) if found else told == [], (body, told)
    page.write_text("<!doctype html><body>Words")
    assert any("asks for 980 px" in one for one in faults(phone, page))


def test_the_export_of_a_solved_lesson(phone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults(phone, exported(["13a"], tmp_path, monkeypatch)) == []
    assert moved(phone) > 3


@needs_sphinx
def test_a_page_of_the_site(phone: Any, tmp_path: Path) -> None:
    from course_lib.authoring.site.build import build_site

    root = small_course(tmp_path / "course")
    build_site(root, tmp_path / "site")
    assert faults(phone, tmp_path / "site" / "lessons" / "01a_two.html") == []


@pytest.mark.long
@pytest.mark.limit_s(1200)
def test_the_export_of_all_solved_lessons(phone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults(phone, exported([], tmp_path, monkeypatch)) == []
    assert moved(phone) > 100


@needs_sphinx
@pytest.mark.long
@pytest.mark.limit_s(1200)
def test_every_page_of_the_site(phone: Any, tmp_path: Path) -> None:
    from course_lib.authoring.site.build import build_site

    site = tmp_path / "site"
    build_site(paths.project_root(), site)
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 48
    assert [found for path in pages for found in faults(phone, path)] == []
    num_moved = 0
    for path in sorted((site / "lessons").glob("0*.html"))[:6]:
        phone.goto(path.as_uri())
        num_moved += moved(phone)
    assert num_moved > 0
