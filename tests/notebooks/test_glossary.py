"""The glossary is made of the lessons' own sentences; marks are not shown; a bad mark is refused with its line."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from course_lib.base.paths import project_root
from course_lib.lessons.convert import learner_notebook, solution_shell
from course_lib.lessons.glossary import glossary, glossary_is_fresh, renew_glossary, words_of
from course_lib.lessons.info import LessonError, source_files
from course_lib.lessons.source import Source, parse_source, read_source

ROOT = project_root()
HEAD = """\
# %% [markdown]
# # {number} · A title
#
# A promise.
#
# **10 minutes · difficulty 1 of 5 · needs: cpu**

# %% [markdown]
"""


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    return [read_source(path) for path in source_files(ROOT)]


def lesson(*lines: str, number: str = "05") -> Source:
    text = HEAD.format(number=number) + "".join(f"# {line}".rstrip() + "\n" for line in lines)
    return parse_source(text, Path(f"{number}_name.py"))


def the_word(*lines: str) -> tuple[str, str, tuple[str, ...]]:
    (word,) = words_of(lesson(*lines))
    return word.name, word.text, word.also


def test_a_word_is_explained_by_the_first_sentence_that_has_it():
    assert the_word(
        "Before.",
        "",
        "<!-- word: bubble | also: idle time, pipeline bubble -->",
        "Ranks wait. The time in which they wait is the **bubble**, and",
        "it has a formula. Bubbles are costly.",
        "",
        "Another bubble.",
    ) == (
        "bubble",
        "The time in which they wait is the **bubble**, and it has a formula.",
        ("idle time", "pipeline bubble"),
    )


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (("<!-- word: stage -->", "**Stages** are pieces. More."), "**Stages** are pieces."),
        (("<!-- word: batch -->", "Many batches. More."), "Many batches."),
        (("<!-- word: batch -->", "A micro-batch. A batch is whole."), "A batch is whole."),
        (("<!-- word: a -->", "<!-- note -->", "- a is one", "- b is two"), "a is one"),
        (("<!-- word: a | sentences: 2 -->", "No. This is a. It is small. More."), "This is a. It is small."),
        (("<!-- word: `x()` -->", "Call `x()`, please."), "Call `x()`, please."),
    ],
)
def test_where_a_sentence_begins_and_ends(lines, text):
    assert the_word(*lines)[1] == text


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (("<!-- word: bubble -->", "Nothing of it here."), "05_name.py:9: the paragraph below does not say 'bubble'"),
        (("Text.", "<!-- word bubble -->", "A bubble."), "05_name.py:10: '<!-- word bubble -->' is no mark of a word"),
        (("<!-- word: a | sentences: 9 -->", "a"), "is no mark of a word; write <!-- word: NAME"),
        (("<!-- word: a | alos: b -->", "a"), "is no mark of a word"),
        (("<!-- word: a -->",), "does not say 'a'"),
    ],
)
def test_a_mark_of_no_use_is_refused_with_its_line(lines, sentence):
    with pytest.raises(LessonError, match=re.escape(sentence)):
        words_of(lesson(*lines))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("<!-- word: A -->", "<!-- word: a -->"),
        ("<!-- word: a -->", "<!-- word: b | also: a -->"),
        ("<!-- word: a | also: c -->", "<!-- word: b | also: C -->"),
    ],
)
def test_a_word_is_marked_once_in_the_course(first, second):
    one, two = lesson(first, "a and A and b.", number="05"), lesson(second, "a and A and b.", number="06")
    with pytest.raises(LessonError, match="a word is marked once"):
        glossary([one, two])
    with pytest.raises(LessonError, match="a word is marked once"):
        glossary([lesson("<!-- word: a | also: A -->", "An a.")])


def test_the_page_is_sorted_and_points_from_other_names_to_the_word():
    page = glossary(
        [
            lesson("<!-- word: stage | also: Partition -->", "A stage is a piece.", number="06"),
            lesson("<!-- word: NCCL -->", "NCCL carries messages.", number="02"),
        ]
    )
    assert page.index("### NCCL") < page.index("### stage") < page.index("## Other names")
    assert "A stage is a piece. Elsewhere: Partition. *Lesson [06 · A title](06_name.ipynb).*" in page
    assert "- Partition: see [stage](#stage)" in page


def test_marks_are_in_no_notebook_and_both_copies_lead_to_the_page():
    source = lesson("<!-- word: bubble -->", "The bubble.", "", "`<!-- kept -->`")
    for notebook, link in (
        (learner_notebook(source), "](glossary.md)"),
        (solution_shell(source), "](../glossary.md)"),
    ):
        text = "\n".join(cell.source for cell in notebook.cells)
        assert "word: bubble" not in text
        assert "The bubble." in text
        assert "`<!-- kept -->`" in text
        assert link in notebook.cells[0].source


def test_a_mark_leaves_paragraphs_apart_and_items_together():
    source = lesson(
        "Before.",
        "",
        "<!-- word: bubble -->",
        "<!-- word: rank -->",
        "A bubble, a rank.",
        "- one",
        "<!-- word: two -->",
        "- two",
    )
    assert learner_notebook(source).cells[1].source == "Before.\n\nA bubble, a rank.\n- one\n- two"


def test_the_page_is_renewed_when_a_lesson_says_another_thing(tmp_path):
    folder = tmp_path / "notebooks" / "src"
    folder.mkdir(parents=True)
    path = folder / "05_name.py"
    path.write_text(HEAD.format(number="05") + "# <!-- word: bubble -->\n# A bubble.\n")
    assert not glossary_is_fresh(tmp_path)
    assert renew_glossary(tmp_path)
    assert glossary_is_fresh(tmp_path)
    assert not renew_glossary(tmp_path)
    path.write_text(path.read_text().replace("A bubble.", "A large bubble."))
    assert not glossary_is_fresh(tmp_path)


# -- the course's own ------------------------------------------------------------------------------------------------


def test_the_glossary_is_what_the_lessons_say():
    assert glossary_is_fresh(ROOT), "run `course build`"


def test_every_lesson_explains_words(sources):
    explained = Counter()  # by lesson, whose parts are counted together
    for source in sources:
        explained[source.info.number] += len(words_of(source))
    assert not {lesson: words for lesson, words in explained.items() if words < 5}


def test_no_word_is_put_in_bold_before_it_is_explained(sources):
    """Bold is for a word that is explained there: so a mark stands at the first bold one, not at a later one."""
    seen: dict[str, str] = {}
    late = []
    for source in sources:
        marked = {word.name.casefold() for word in words_of(source)}
        late += [f"{name}: bold in {seen[name]}, explained in {source.info.number}" for name in marked if name in seen]
        for cell in source.cells:
            for bold in re.findall(r"\*\*([^*\n]+)\*\*", "" if cell.is_code else cell.text):
                seen.setdefault(bold.casefold(), source.info.number)
    assert not late
