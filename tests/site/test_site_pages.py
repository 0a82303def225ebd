"""The texts that Sphinx gets: lessons with folds, README as the first page, links that lead to pages."""

from __future__ import annotations

import nbformat
import pytest
from small_course import small_course

from course_lib.authoring.site.pages import write_pages
from course_lib.lessons.info import LessonError


@pytest.fixture
def root(tmp_path):
    return small_course(tmp_path / "course")


@pytest.fixture
def written(root, tmp_path):
    """The folder of texts, and how many pages were told."""
    return tmp_path / "texts", write_pages(root, tmp_path / "texts", tmp_path / "extra")


def cells(folder, name):
    return nbformat.read(folder / "lessons" / f"{name}.ipynb", as_version=4).cells


def test_what_is_written(written, tmp_path):
    folder, count = written
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    pages = {"index.md", "glossary.md", "contributing.md", "examples/index.md", "examples/train.md"}
    lessons = {"lessons/01a_two.ipynb", "lessons/01b_more.ipynb"}
    assert names == pages | lessons | {"assets/01_boxes.png"}
    assert count == 7
    assert (tmp_path / "extra" / "files" / "01a_two.ipynb").read_text().count("Your turn") == 1


def test_a_lesson_shows_its_task_and_folds_its_solution(written):
    page = cells(written[0], "01a_two")
    (solution,) = [cell for cell in page if cell.metadata.get("mystnb", {}).get("code_prompt_show") == "A solution"]
    task = page[page.index(solution) - 1]
    assert "NotImplementedError" in task.source
    assert task.metadata == {}
    assert "return a + b" in solution.source
    assert solution.metadata["tags"] == ["hide-cell"]


def test_questions_in_sight_and_answers_folded(written):
    page = cells(written[0], "01a_two")
    tags = {cell.source.split("(")[0]: cell.metadata.get("tags") for cell in page if cell.cell_type == "code"}
    assert tags["ask"] == ["hide-cell"]
    assert tags["print"] == tags["reveal"] == ["hide-output"]
    assert tags["check"] is None
    assert "How much is 1 + 1?" in page[1].source


def test_a_picture_made_by_code_has_its_words(written):
    (drawn,) = [cell for cell in cells(written[0], "01a_two") if cell.source == "draw()"]
    assert drawn.metadata["mystnb"]["image"]["alt"] == "Two boxes, drawn"


def test_the_first_cell_says_what_the_page_is_and_names_its_notebook(written):
    first = cells(written[0], "01a_two")[0].source
    assert '<a href="../files/01a_two.ipynb" download>' in first
    assert "[2: more of it](01b_more.ipynb)" in first


def test_a_learners_word_marks_do_not_show(written, root, tmp_path):
    source = root / "notebooks" / "src" / "01b_more.py"
    source.write_text(source.read_text().replace("# You add more.", "# <!-- word: sum -->\n# You add more."))
    write_pages(root, tmp_path / "again", tmp_path / "extra")
    assert "word:" not in cells(tmp_path / "again", "01b_more")[0].source


def test_the_first_page_is_readme_with_a_map_for_any_width(written):
    text = (written[0] / "index.md").read_text()
    assert "| a table |" not in text
    assert "- **[a · two numbers](lessons/01a_two.ipynb)** · 20 minutes · difficulty 1 of 5 · needs: cpu<br>" in text
    assert "[the house](contributing.md) and [the code](examples/index.md), or a file." in text
    assert "a · two numbers (20 min, 1/5) <lessons/01a_two>" in text
    assert ":caption: 01 · Sums" in text
    assert "glossary\nexamples/index\nexamples/train\n```" in text


def test_notes_for_instructors_are_there_when_they_are_written(root, tmp_path):
    (root / "docs" / "instructor").mkdir(parents=True)
    for name in ("a_plan", "README"):
        (root / "docs" / "instructor" / f"{name}.md").write_text("# N\n\n[01](../../notebooks/01a_two.ipynb)\n")
    write_pages(root, tmp_path / "texts", tmp_path / "extra")
    assert "[01](../lessons/01a_two.ipynb)" in (tmp_path / "texts" / "instructor" / "a_plan.md").read_text()
    index = (tmp_path / "texts" / "index.md").read_text()
    assert "For instructors\n\ninstructor/README\ninstructor/a_plan\n" in index


@pytest.mark.parametrize("how", ["missing", "changed"])
def test_a_lesson_that_is_not_built_is_named(root, tmp_path, how):
    solved = root / "notebooks" / "solutions" / "01b_more.ipynb"
    if how == "missing":
        solved.unlink()
    else:
        solved.write_text(solved.read_text().replace("on and on", "on and off"))
    with pytest.raises(LessonError, match=r"01b_more\.ipynb.* `course build"):
        write_pages(root, tmp_path / "texts", tmp_path / "extra")


def test_a_program_to_take_home_is_a_page_with_its_files(written):
    text = (written[0] / "examples" / "train.md").read_text()
    assert text.startswith("# train\n\nTrain, at home.\n")
    assert "## `go.sh`\n\n`````bash\necho go\n`````" in text
