"""The glossary: every word where a lesson first explains it, and what others call it.

A lesson marks a word above the paragraph that explains it, in a line that the notebooks do not show::

    # <!-- word: micro-batch | also: microbatch -->
    # A **micro-batch** is a piece of a batch that goes through the pipeline on its own.

The glossary takes the first sentence of that paragraph in which the word stands, or two with ``| sentences: 2``.
So an explanation is written once, and it is the one that the learner reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.lessons.info import LessonError, source_files
from course_lib.lessons.source import Source, read_source

__all__ = ["Word", "glossary", "glossary_is_fresh", "renew_glossary", "without_marks", "words_of"]

FILE = "notebooks/glossary.md"

_MARK = re.compile(
    r"^<!-- word: (?P<name>[^|\n]+?)(?: \| also: (?P<also>[^|\n]+?))?(?: \| sentences: (?P<sentences>[1-3]))? -->$"
)
_LIKE_A_MARK = re.compile(r"^[ \t]*<!--\s*word\b.*\n?", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.?!])[\"')*_]*\s+(?=[A-Z`*(\[\"'])")
_HEAD = """# Glossary

The words of this course, each as the lesson explains it in which you first meet it, and what others call it. This page
is made from the lessons by `course build`.
"""


@dataclass(frozen=True)
class Word:
    """A word of the field, the sentences that explain it, its other names, and the lesson that says so."""

    name: str
    text: str
    also: tuple[str, ...]
    lesson: str  # "07 · Pipelines and their bubbles"
    notebook: str  # "07_pipeline_parallel.ipynb"


def without_marks(markdown: str) -> str:
    """A markdown cell as the notebooks show it: without the lines that mark words."""
    return _LIKE_A_MARK.sub("", markdown)


def words_of(source: Source) -> list[Word]:
    """The words that a lesson marks, in its order. Raises LessonError, with the line, for a mark that is of no use."""
    found = []
    for cell in source.cells:
        lines = [] if cell.is_code else cell.text.splitlines()
        for number, line in enumerate(lines, start=1):
            if _LIKE_A_MARK.match(line):
                where = source.where(cell, number)
                found.append(_word(source, line.strip(), lines[number:], where))
    return found


def glossary(sources: Sequence[Source]) -> str:
    """The page: all words by the alphabet, then the other names with the word that stands for each.

    Raises LessonError for a word, or another name, that is marked twice.
    """
    words = sorted((word for source in sources for word in words_of(source)), key=lambda word: _key(word.name))
    home: dict[str, Word] = {}
    for word in words:
        for name in (word.name, *word.also):
            twin = home.setdefault(_key(name), word)
            if twin is not word or (name != word.name and _key(name) == _key(word.name)):
                raise LessonError(
                    f"glossary: {name!r} is marked in lesson {word.lesson} and in lesson {twin.lesson}; a word is "
                    "marked once, where it is first explained"
                )
    entries = [_entry(word) for word in words]
    others = sorted(((name, word) for word in words for name in word.also), key=lambda pair: _key(pair[0]))
    rows = [f"- {name}: see [{word.name}](#{_anchor(word.name)})" for name, word in others]
    return "\n".join([_HEAD, *entries, "## Other names\n", *rows]).rstrip() + "\n"


def renew_glossary(root: Path) -> bool:
    """Write the page below ``root``, from all its lessons; True when it was not up to date."""
    path, text = root / FILE, _made(root)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def glossary_is_fresh(root: Path) -> bool:
    """Whether the page is what the lessons say."""
    path = root / FILE
    return path.is_file() and path.read_text(encoding="utf-8") == _made(root)


def _made(root: Path) -> str:
    return glossary([read_source(path) for path in source_files(root)])


def _word(source: Source, mark: str, below: Sequence[str], where: str) -> Word:
    match = _MARK.match(mark)
    if match is None:
        raise LessonError(
            f"{where}: {mark!r} is no mark of a word; write <!-- word: NAME | also: NAME, NAME | sentences: 2 -->, "
            "where the last two may be left out"
        )
    name = match["name"].strip()
    also = tuple(other.strip() for other in (match["also"] or "").split(",") if other.strip())
    paragraph = _next_paragraph(below)
    sentences = _SENTENCE_END.split(paragraph)
    first = next((i for i, sentence in enumerate(sentences) if _holds(sentence, name)), None)
    if first is None:
        raise LessonError(f"{where}: the paragraph below does not say {name!r}; the glossary takes its sentence")
    text = " ".join(sentences[first : first + int(match["sentences"] or 1)])
    info = source.info
    return Word(name, text, also, f"{info.label} · {info.title}", f"{info.stem}.ipynb")


def _next_paragraph(lines: Sequence[str]) -> str:
    """The lines up to the next blank one or the next list item, as one line; marks in between are passed over."""
    kept: list[str] = []
    for line in lines:
        text = line.strip()
        if text.startswith("<!--"):
            continue
        if kept and (not text or re.match(r"([-*]|\d+\.) ", text)):
            break
        if text:
            kept.append(re.sub(r"^([-*]|\d+\.) ", "", text))
    return " ".join(kept)


def _holds(sentence: str, name: str) -> bool:
    """Whether the word, or its plural, stands in a sentence; a part of a word with a hyphen is another word."""
    plain, word = (re.sub(r"[*`]", "", text).casefold() for text in (sentence, name))
    return re.search(rf"(?<![\w-]){re.escape(word)}(e?s)?(?![\w-])", plain) is not None


def _entry(word: Word) -> str:
    also = f" Elsewhere: {', '.join(word.also)}." if word.also else ""
    return f"### {word.name}\n\n{word.text}{also} *Lesson [{word.lesson}]({word.notebook}).*\n"


def _anchor(name: str) -> str:
    """The anchor that GitHub and JupyterLab give to a heading, near enough: small letters, blanks as hyphens."""
    return re.sub(r"[^\w\- ]", "", name.casefold()).replace(" ", "-")


def _key(name: str) -> str:
    return re.sub(r"[`*]", "", name).casefold()
