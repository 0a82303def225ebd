"""A small site as Sphinx builds it: whole, closed where it should be, and without a word to other machines."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from small_course import small_course

from course_lib.authoring.site.command import missing
from course_lib.authoring.site.look_over import faults

if missing():
    pytest.skip(f"needs {', '.join(missing())}: pip install -e '.[site]'", allow_module_level=True)

from course_lib.authoring.site.build import MANIFEST, SiteError, build_site


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the course, that of its site, and Sphinx's warnings."""
    folder = tmp_path_factory.mktemp("small")
    root = small_course(folder / "course")
    return root, folder / "site", build_site(root, folder / "site", "https://github.com/a/b")


@pytest.fixture(scope="module")
def lesson(built):
    return (built[1] / "lessons" / "01a_two.html").read_text()


def test_no_warning_and_no_fault(built):
    _, site, warnings = built
    assert warnings == []
    assert faults(site) == []
    assert (site / ".nojekyll").exists()
    assert not list(site.parent.glob(".course_site_*"))


def test_nothing_is_fetched_from_elsewhere(built):
    for path in built[1].rglob("*.html"):
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", path.read_text()):
            assert not re.search(r"""(src|href)=["']?(https?:)?//""", tag), f"{path.name}: {tag}"


def test_folds_are_closed_and_say_what_they_hold(lesson):
    assert lesson.count("<details") == 4  # a guess, what came out, the answer, a solution
    assert "<details open" not in lesson
    assert len(re.findall(r"<details[^>]*>\s*<summary>", lesson)) == 4
    for words, hidden in (
        ("The answer", "you said 3"),
        ("A solution", "+</span>"),
        ("What came out", "it came to 2"),
    ):
        fold = re.search(rf"<details[^>]*>\s*<summary>\s*<p[^>]*>{words}</p>.*?</details>", lesson, re.DOTALL)
        assert hidden in fold[0]
    open_text = re.sub(r"<details.*?</details>", "", lesson, flags=re.DOTALL)
    assert "How much is 1 + 1?" in open_text
    assert "NotImplementedError" in open_text
    assert "you said 3" not in open_text
    assert "locked: 3" not in open_text


def test_formulas_are_drawn_by_the_browser_alone(lesson):
    assert lesson.count("<math") == 2
    assert '<div class="formula"><math' in lesson
    assert "MathJax" not in lesson


def test_pictures_have_their_words(lesson):
    assert 'alt="Two boxes, drawn"' in lesson
    assert 'alt="Two boxes"' in lesson


def test_the_way_on_and_back(lesson):
    assert re.search(r'<a class="next-page" href="01b_more.html"', lesson)
    assert re.search(r'<a class="prev-page" href="../index.html"', lesson)
    assert "a · two numbers (20 min, 1/5)" in lesson


def test_search_knows_the_words(built):
    assert "number" in (built[1] / "searchindex.js").read_text()


def test_built_again_in_its_own_place(built, tmp_path):
    root, site, _ = built
    shutil.copytree(site, tmp_path / "site")
    (root / "CONTRIBUTING.md").write_text("# The house\n\nRenewed.\n")
    assert build_site(root, tmp_path / "site") == []
    assert "Renewed." in (tmp_path / "site" / "contributing.html").read_text()
    files = json.loads((tmp_path / "site" / MANIFEST).read_text())["files"]
    assert "index.html" in files
    (tmp_path / "site" / "mine.txt").write_text("")
    with pytest.raises(SiteError, match=r"mine\.txt"):
        build_site(root, tmp_path / "site")


def test_what_comes_while_it_builds_is_not_lost(built, tmp_path, monkeypatch):
    root, site, _ = built
    shutil.copytree(site, tmp_path / "site")

    def meanwhile(texts, extra, made, *_):
        made.mkdir()
        (tmp_path / "site" / "mine.txt").write_text("")
        return []

    monkeypatch.setattr("course_lib.authoring.site.build._run_sphinx", meanwhile)
    with pytest.raises(SiteError, match=r"mine\.txt"):
        build_site(root, tmp_path / "site")
    assert (tmp_path / "site" / "mine.txt").exists()
    assert (tmp_path / "site" / "index.html").exists()


def test_a_link_that_leads_nowhere_is_a_warning(built, tmp_path):
    root = shutil.copytree(built[0], tmp_path / "course")
    (root / "CONTRIBUTING.md").write_text("# The house\n\n[no](#nowhere), [gone](a/gone.md), $\\frac{$.\n")
    warnings = "\n".join(build_site(root, tmp_path / "site"))
    assert "nowhere" in warnings
    assert "gone.md" in warnings
    assert "this formula cannot be read" in warnings


def test_a_build_that_fails_leaves_what_was_there(built, tmp_path, monkeypatch):
    root, site, _ = built
    shutil.copytree(site, tmp_path / "site")
    monkeypatch.setattr("course_lib.authoring.site.build.settings", lambda *_: {"html_theme": "no_such_theme"})
    with pytest.raises(SiteError, match="Sphinx stopped"):
        build_site(root, tmp_path / "site")
    assert (tmp_path / "site" / "index.html").read_bytes() == (site / "index.html").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def found_in(site, word):
    """The pages that Sphinx's index gives for a word, as its search takes it: by its stem."""
    index = json.loads((site / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    pages = index["terms"].get(word, [])
    return {index["docnames"][page] for page in ([pages] if isinstance(pages, int) else pages)}


def test_search_finds_text_and_what_the_library_says_and_no_answer(built, tmp_path):
    root = shutil.copytree(built[0], tmp_path / "course")
    for name, text in (
        ("docs/instructor/lessons/01.md", "# 01\n\nThe answer is a wallaby.\n"),
        ("docs/library.md", "# The library\n\nIt is read.\n"),
        ("course_lib/parallel/ring.py", '"""A ring of kangaroos: ``send`` <b>*all*</b>."""\n'),
        ("course_lib/learn/exercises/sums.py", '"""A hint: zebras."""\n'),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    site = tmp_path / "site"
    assert build_site(root, site) == []
    assert found_in(site, "write") == {"lessons/01a_two"}
    assert found_in(site, "kangaroo") == {"library/parallel"}
    page = (site / "library" / "parallel.html").read_text()
    assert "&lt;b&gt;*all*&lt;/b&gt;" in page
    for word, where in (("lock", "lessons/01a_two"), ("said", "lessons/01a_two"), ("wallabi", "instructor/lessons/01")):
        assert word in (site / f"{where}.html").read_text().replace("wallaby", "wallabi")
        assert found_in(site, word) == set(), word
    assert found_in(site, "wallaby") | found_in(site, "zebra") | found_in(site, "echo") == set()
    assert not list((site / "library").glob("learn*"))


def test_the_words_shown_of_a_result_are_of_no_cell(built):
    search = (built[1] / "search.html").read_text()
    script = re.search(r'<script[^>]*src="(_static/search_text\.js)[^"]*"[^>]*>', search)
    assert 'defer="defer"' in script[0]
    assert "div.cell" in (built[1] / script[1]).read_text()
    assert 'class="cell' in (built[1] / "lessons" / "01a_two.html").read_text()
