"""Texts that checks, reveals, explorers, trials, errors and commands print, in all packages that a learner meets.

No sentence is too long, begins with "who" or with what is not its subject. Most packages also name the thing in place
of "of what", and who reports a number in place of "told".
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from course_lib.authoring.notebooks.rules.sentences import LENGTH, found_in
from course_lib.base.paths import project_root

LIBRARY = project_root() / "course_lib"
FOLDERS = (
    "capstone",
    "claims",
    "classroom",
    "cluster",
    "cost",
    "doctor",
    "export",
    "forms",
    "kernels",
    "lab",
    "learn",
    "mine",
    "nodes",
    "parallel",
    "plan",
    "plan_command",
    "plot",
    "schedules",
    "start_page",
    "take_along",
    "traces",
    "widgets",
)
LOOKED_FOR = (LENGTH, "'who' without a noun", "an inversion", "'told' for a number", "'of what'")
BUT_IN = {"learn": ("'told' for a number", "'of what'")}
"""Kinds that a package does not look for yet."""
PROGRAMS = ("take_along/sick_script.py", "take_along/stand_ins.py")
"""Files whose texts are programs that a dry run starts, and what Slurm printed."""
A_VALUE = "7"  # for what an f-string fills in

STAND = {
    "reach = 1; while": "code of a hint",
    "In `finish`: for each": "code of a hint",
    "for each action:": "code of a hint",
    "With `reduce_s` for one bucket": "a formula of a hint",
    "In the runs of the Ultra-Scale Playbook": "numbers with their units",
    "the loss and its gradients are right; 7": "what is filled in is one word or none",
    "the output is right, but an expert computed": "names in braces are filled in later",
    "A pipeline keeps its bubble on any link": "what is filled in is a sentence of its own",
    "Who reads which examples": "a title",
    "Of those who have not come, only": "the list that it speaks of stands in the sentence before",
    "Measured over predicted, of published runs": "a note in a file of numbers, which nobody prints",
    "told": "a name of a column",
    "a abbr b blockquote": "names of tags",
    "course lab [--folder DIR]": "lines of a usage text",
}
"""How a text begins that breaks the rule, and why it stands."""


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a file that are no docstring, with the number of their line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            left_out.update(id(part) for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else A_VALUE for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@functools.cache
def breaches() -> list[tuple[str, str, str]]:
    return [
        (f"{path.relative_to(LIBRARY)}:{line}", kind, sentence.text)
        for folder in FOLDERS
        for path in sorted((LIBRARY / folder).rglob("*.py"))
        if path.relative_to(LIBRARY).as_posix() not in PROGRAMS
        for line, text in texts_of(path)
        for sentence, kind in found_in(text)
        if kind in LOOKED_FOR and kind not in BUT_IN.get(folder, ())
    ]


def test_no_sentence_that_a_learner_is_shown_has_to_be_read_twice():
    assert [found for found in breaches() if not found[2].startswith(tuple(STAND))] == []


def test_what_stands_is_still_there():
    begun = [text for _, _, text in breaches()]
    assert [start for start in STAND if not any(text.startswith(start) for text in begun)] == []


def test_a_text_is_found_whatever_it_is_written_as(tmp_path):
    path = tmp_path / "texts.py"
    path.write_text('"""A docstring."""\na = "one " "two"\nb = f"three {a} " f"four"\n', encoding="utf-8")
    assert [text for _, text in texts_of(path)] == ["one two", "three 7 four"]
