"""A lesson in each front end that a Jupyter server serves: `course lab`, JupyterLab as it comes, Notebook 7."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from front_page import FrontPage, notebook_of

from course_lib.authoring.testing.browser_lab import FRONT_ENDS, RunningLab, running_lab
from course_lib.forms.stand_in import GONE

ROOT = Path(__file__).resolve().parents[2]
WORK = "work.ipynb"
ALONE = "00_start_here.ipynb"
SMALL = """\
from course_lib.forms import Form, picture_box
import io
from PIL import Image
class Explorer(Form):
    def __init__(self):
        self.image = picture_box(width="200px")
        self.show("red")
        super().__init__([self.image])
    def show(self, colour):
        self.colour, file = colour, io.BytesIO()
        Image.new("RGB", (200, 50), colour).save(file, "png")
        self.image.value = file.getvalue()
    def __repr__(self):
        return f"a {self.colour} box"
explorer = Explorer()
explorer"""  # an explorer as the course's are, without what takes them seconds to import
pytestmark = [pytest.mark.long, pytest.mark.limit_s(600)]


@pytest.fixture(scope="module", params=sorted(FRONT_ENDS))
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """Each over a folder with a lesson that lies alone, and a notebook of forms."""
    module = FRONT_ENDS[request.param][0].partition(".")[0]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install {module}")
    folder = tmp_path_factory.mktemp("front")
    (folder / "work").mkdir()
    shutil.copy(ROOT / "notebooks" / ALONE, folder / "work")
    painted = "from course_lib.plot.raster import sentence\nsentence('a painted box', 300, 60)"
    ask = 'from course_lib import ask, quiz\nask("00.shared")'
    notebook_of(folder / "work" / WORK, SMALL, ask, 'quiz("00")', "explorer.show('green')", painted)
    with running_lab(folder / "work", folder / "home", request.param) as running:
        yield running


@pytest.fixture
def opened(front: RunningLab, browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    pages: list[FrontPage] = []

    def open_it(path: str) -> FrontPage:
        pages.append(FrontPage(context.new_page(), front, path))
        return pages[-1]

    yield open_it
    for page in pages:
        page.end_kernel()
    context.close()


def test_forms_that_are_lost_show_a_sentence_and_their_last_picture(opened: Any):
    page = opened(WORK)
    page.run_all()
    page.page.wait_for_selector(".course-form img")
    assert GONE not in page.text(), "forms that are there need nobody to stand in for them"
    texts = "() => [...document.querySelectorAll('.jp-OutputArea img')].every((one) => one.alt.trim())"
    page.page.wait_for_function(texts)
    page.save()
    page.end_kernel()
    page.open()
    page.page.wait_for_function("(said) => document.body.innerText.split(said).length === 4", arg=GONE)
    assert "model not found" not in page.text()
    (picture,) = page.pictures(".course-stand-in img")
    assert picture["shown"]
    assert picture["width"] > 100
    assert picture["alt"] == "a green box", "it has followed what a cell did"
    page.run_all()
    page.page.wait_for_selector(".course-form img")
    assert GONE not in page.text()


def test_a_lesson_that_lies_alone_has_its_pictures(opened: Any):
    page = opened(ALONE)
    page.page.locator(".jp-CodeCell").first.click()
    page.page.keyboard.press("Shift+Enter")
    first = '.jp-MarkdownCell img[alt^="Six steps"]'
    page.page.wait_for_function("(where) => document.querySelector(where)?.naturalWidth > 100", arg=first)
    assert "do not lie beside it" in page.text()
    page.dark()
    assert all("url(" in each["filter"] for each in page.pictures(first))
