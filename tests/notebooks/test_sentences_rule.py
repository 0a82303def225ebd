"""The rule over sentences: what it counts, which wordings it names, and that the pages for readers keep it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from course_lib.authoring.notebooks.rules.sentences import KINDS, LENGTH, MAX_WORDS, breaches, found_in, sentences_of
from course_lib.authoring.notebooks.rules.sentences_that_stand import REASONED
from course_lib.base.paths import project_root
from course_lib.lessons.source import read_source

ROOT = project_root()
LESSONS = {path.stem: path for path in sorted((ROOT / "notebooks" / "src").glob("*.py"))}
PAGES = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/instructor/**/*.md"), ROOT / "README.md"]
BY_HAND = {str(path.relative_to(ROOT)): path for path in sorted(PAGES) if path.name != "lessons.md"}
WRITTEN = re.compile(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", re.DOTALL)  # by `course build`


def text_by_hand(path: Path) -> str:
    return WRITTEN.sub(lambda block: "\n" * block[0].count("\n"), path.read_text(encoding="utf-8"))


def kinds(markdown: str) -> list[str]:
    return [kind for _, kind in found_in(markdown)]


def test_the_limit_is_the_one_that_its_name_says():
    assert str(MAX_WORDS) in LENGTH
    assert kinds(" ".join(["word"] * MAX_WORDS) + ".") == []
    assert kinds(" ".join(["word"] * (MAX_WORDS + 1)) + ".") == [LENGTH]


@pytest.mark.parametrize(
    "one_word",
    ["`a b c d`", "$a + b + c$", "[a b\nc](x.md)", "https://a.b/c d".partition(" ")[0], "``a `b` c``"],
)
def test_code_a_formula_and_a_link_are_a_word_each(one_word: str):
    (sentence,) = sentences_of(f"It is {one_word} here.")
    assert sentence.words == 4


@pytest.mark.parametrize(
    ("markdown", "texts"),
    [
        ("One. Two? **Three!** (Four.) gloo five.", ["One.", "Two?", "**Three!**", "(Four.)", "gloo five."]),
        ("A value, e.g. this one, of Li et al. in 2.13 is fine.", None),
        ("Code `a. B` and [a. B](c.md) end nothing.", None),
        ("# A heading\nText.", ["A heading", "Text."]),
        ("Before\n\n- one\n  goes on\n- two", ["Before", "one goes on", "two"]),
        ("1. one\n2. two", ["one", "two"]),
        ("| a b | c |\n| --- | --- |\n| d | e |", ["a b", "c", "d", "e"]),
        ("One.\n```\nno. No.\n```\n<!-- word: x -->\n![a b. C](x.png)\nTwo.", ["One.", "Two."]),
    ],
)
def test_a_page_is_taken_apart(markdown: str, texts: list[str] | None):
    assert [sentence.text for sentence in sentences_of(markdown)] == (texts or [markdown])


def test_a_sentence_knows_its_line_also_behind_a_link_over_two_lines():
    page = "One [of\nthose](a.md) is\nhere. Two.\n\nThree.\n| x |\n\n- Four\n  five. Six.\n```\nx\n```\nSeven."
    assert [(s.text.split()[0], s.line) for s in sentences_of(page)] == [
        ("One", 1),
        ("Two.", 3),
        ("Three.", 5),
        ("x", 6),
        ("Four", 8),
        ("Six.", 9),
        ("Seven.", 13),
    ]


@pytest.mark.parametrize(
    ("kind", "found", "let_be"),
    [
        ("an inversion", "Told is the time of a step.", "When is a collective over?"),
        ("an inversion", "What DTensor adds is that it derives all.", "What is it?"),
        ("an inversion", "Of seven steps the quickest counts.", "Of course it does."),
        ("'who' without a noun", "Who comes last has to wait.", "Who comes last, and why?"),
        ("'who' without a noun", "Whoever loads asks for its rows.", "Who chooses"),
        ("'told' for a number", "It is told 16.3 s.", "They cannot be told apart."),
        ("'of what'", "Most of what waits is here.", "Some of that waits."),
        ("a pronoun that begins a paragraph", "It is worth its price.", "So it is worth its price."),
        ("a pronoun that begins a paragraph", "**They send** it.".replace("**", ""), "They sum up."),
    ],
)
def test_a_wording_is_named_and_its_neighbour_is_not(kind: str, found: str, let_be: str):
    assert kind in kinds(found)
    assert kind not in kinds(let_be)


def test_a_pronoun_may_begin_what_follows_its_noun():
    assert kinds("The ring is here. It is worth its price.") == []


def test_a_reason_lets_a_sentence_stand_on_its_own_page_alone():
    (page, reasons), *_ = REASONED.items()
    start = next(iter(reasons))
    sentence = f"{start} " + "word, " * 30
    assert breaches(sentence, page) == []
    assert breaches(sentence, "another page") != []


def test_every_exception_has_its_sentence_a_reason_and_a_page():
    pages = LESSONS | BY_HAND
    for page, reasons in REASONED.items():
        texts = [sentence.text for sentence, _ in found_in(pages[page].read_text(encoding="utf-8"))]
        for start, reason in reasons.items():
            assert any(text.startswith(start) for text in texts), f"{page}: {start!r} stands nowhere: take it out"
            assert len(reason.split()) > 3


def test_no_reason_lets_a_long_sentence_stand_in_a_lesson():
    for page in REASONED.keys() & LESSONS.keys():
        cells = [cell.text for cell in read_source(LESSONS[page]).cells if not cell.is_code]
        for sentence, kind in (found for text in cells for found in found_in(text)):
            assert kind != LENGTH or not any(sentence.text.startswith(start) for start in REASONED[page])


def test_every_lesson_keeps_the_rule():
    """From the sources alone: `test_notebooks.py` needs the pages to have been built."""
    found = [
        f"{page}:{cell.line + s.line - 1}: {kind}: {s.text}"
        for page, path in LESSONS.items()
        for cell in read_source(path).cells
        if not cell.is_code
        for s, kind in breaches(cell.text, page)
    ]
    assert found == []


@pytest.mark.parametrize("page", BY_HAND)
def test_the_pages_for_readers_keep_the_rule(page: str):
    found = breaches(text_by_hand(BY_HAND[page]), page)
    assert [f"{page}:{s.line}: {kind}: {s.text}; {KINDS[kind][1]}" for s, kind in found] == []
