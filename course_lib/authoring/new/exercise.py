"""The files of a new exercise: one that works, about doubling a number, to be made into what it is to be."""

from __future__ import annotations

from pathlib import Path
from string import Template

from course_lib.authoring.new.files import Changed
from course_lib.authoring.new.names import exercise_name

__all__ = ["files"]

_EXERCISE = Template('''\
"""$lesson.$name: twice a number. (Say here what is asked for, in a line.)"""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.judging.judge import by_cases

__all__ = ["$CONSTANT"]

# What the answer is called with, and what is right: the smallest size, an uneven one, and a larger one than the page's.
_CASES = [Case(f"of {number}", (number,), lambda number: 2 * number) for number in (0, 1, 3, -5)]


# -- usual wrong answers, each of which a mistake below names ----------------------------------------------------------


def _squared(number: int) -> int:
    return number * number


$CONSTANT = Exercise(
    name="$lesson.$name",
    title="Twice a number",
    judge=by_cases(_CASES),
    mistakes=(
        Mistake("squared", "The number times itself: right for 0 alone. It is the number and itself.", _squared),
    ),
    hints=(
        "A nudge: what is the answer for 3?",
        "More than a nudge: which operation takes a number twice?",
        "Nearly the line: `2 * number`",
    ),
    passed="Right for nothing, for one, for more, and below nothing.",
)
''')
_ANSWERS = Template('''\
"""$lesson.$name: answers as people write them. Right ones of other styles pass; each wrong one gets its words."""

from __future__ import annotations

from answer_table import Row


def adds(number):
    return number + number


def shifts(number):
    return number << 1


def of_pieces(number):
    return sum([number, number])


KEPT = []


def keeps_the_first(number):
    KEPT.append(2 * number)
    return KEPT[0]


ROWS = [
    Row(answer=adds, verdict="passed", why="the number and itself"),
    Row(answer=shifts, verdict="passed", why="a binary digit further"),
    Row(answer=of_pieces, verdict="passed", why="a sum of two"),
    Row(answer=keeps_the_first, verdict="not yet", why="it is right at the first call alone", mistake=""),
]
''')
_CELL = """\
a cell on a page of notebooks/src/{lesson}*: the solution of {name} between ### BEGIN SOLUTION and ### END SOLUTION,
     then check("{lesson}.{name}", {name}) and hint("{lesson}.{name}"); and a later cell that uses what was written"""


def files(root: Path, word: str) -> tuple[dict[str, str], list[str]]:
    """Their texts by name, and what is left to do. Raises ValueError for a name that cannot be."""
    lesson, name = exercise_name(word)
    given = {"lesson": lesson, "name": name, "CONSTANT": name.upper()}
    room = f"course_lib/learn/exercises/lesson_{lesson}"
    texts = {
        f"{room}/{name}.py": _EXERCISE.substitute(given),
        f"{room}/__init__.py": Changed(_listed((root / room / "__init__.py").read_text(encoding="utf-8"), **given)),
        f"tests/answers/lesson_{lesson}/{name}.py": _ANSWERS.substitute(given),
    }
    return texts, [
        f"{room}/{name}.py: your cases, mistakes and hints in place of the doubled number",
        _CELL.format(lesson=lesson, name=name),
        f"tests/answers/lesson_{lesson}/{name}.py: your rows, at least three right answers in other styles among them",
        f"./course build {lesson}; pytest tests/learn/test_exercises.py tests/learn/test_answers.py -k {lesson}.{name}",
        f"./course bench judges {lesson}",
        f"a paragraph in docs/instructor/lessons/{lesson}.md",
    ]


def _listed(face: str, *, lesson: str, name: str, CONSTANT: str) -> str:  # noqa: N803 - as the template says it
    """The face of a lesson's room with the exercise last."""
    imported = f"from course_lib.learn.exercises.lesson_{lesson}.{name} import {CONSTANT}\n"
    lines = face.splitlines(keepends=True)
    first = next(place for place, line in enumerate(lines) if line.startswith("from course_lib."))
    place = next(
        (p for p in range(first, len(lines)) if not lines[p].startswith("from ") or lines[p] > imported), first
    )
    text = "".join([*lines[:place], imported, *lines[place:]])
    head, separator, tail = text.partition("EXERCISES = (")
    if not separator or ")" not in tail:
        raise ValueError(
            f"lesson {lesson} does not list its exercises as EXERCISES = (...); write {name} there by hand."
        )
    inside, _, rest = tail.partition(")")
    items = [item.strip() for item in inside.split(",") if item.strip()]
    return f"{head}{separator}{', '.join([*items, CONSTANT])}{',' if not items else ''}){rest}"
