"""Which cells are folded is told by the structure of a lesson's source."""

from __future__ import annotations

from pathlib import Path

import pytest

from course_lib.authoring.site.folds import ANSWER, GUESS, RESULT, SOLUTION, folds
from course_lib.lessons.info import source_files
from course_lib.lessons.source import parse_source, read_source

ROOT = Path(__file__).resolve().parents[2]
HEAD = "# %% [markdown]\n# # 00 · X\n#\n# Y.\n#\n# **20 minutes · difficulty 1 of 5 · needs: cpu**\n\n"


def folded(*cells: str) -> list[object]:
    """The fold of each cell below the first; a cell that begins with # is text."""
    body = "".join(f"# %% [markdown]\n{cell}\n\n" if cell.startswith("# ") else f"# %%\n{cell}\n\n" for cell in cells)
    source = parse_source(HEAD + body, Path("00_x.py"))
    found = folds(source.cells)
    return [found.get(cell.id) for cell in source.cells[1:]]


def test_from_a_question_to_its_answer():
    ask = '### BEGIN SOLUTION\nask("00.a").commit(1)\n### END SOLUTION'
    cells = ["print(0)", ask, "# text", "print(1)", 'reveal("00.a", 2)', "print(3)"]
    assert folded(*cells) == [None, GUESS, None, RESULT, ANSWER, None]


def test_two_questions_at_a_time_and_a_check_between():
    ask = '### BEGIN SOLUTION\nask("00.{}").commit(1)\n### END SOLUTION'
    cells = [ask.format("a"), ask.format("b"), 'v = check("00.c", f)', "run()", 'reveal("00.b", 1)', "more()"]
    cells.append('reveal("00.a", 1)')
    assert folded(*cells) == [GUESS, GUESS, None, RESULT, ANSWER, RESULT, ANSWER]


def test_a_bet_stays_in_sight_and_its_verdict_does_not():
    bet = '### BEGIN SOLUTION\nbet("A1", "A2").commit(A1="holds", A2="false")\n### END SOLUTION'
    assert folded(bet, "trial()", 'settle("A1", "A2")') == [None, RESULT, ANSWER]


def test_a_solution_in_a_function_and_at_the_top_of_a_cell():
    inside = "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION"
    on_top = "### BEGIN SOLUTION\n### STUB x = ...\nx = 1\n### END SOLUTION\ncheck('00.x', x)"
    assert folded(inside, on_top) == [SOLUTION, SOLUTION]


@pytest.mark.parametrize(
    ("text", "fold"),
    [
        ("# **How many?** Say it\n# before you run on.", RESULT),
        ("# **How many?**", RESULT),
        ("# **One.** **How many of *four*?** Say it.", RESULT),
        ("# **One?** **Two.**", None),
        ("# Many? **Many.**", None),
        ("# **How many?** " + "It is said at length. " * 9, None),
    ],
)
def test_below_a_question_in_bold(text, fold):
    assert folded(text, "print(4)") == [None, fold]


def test_what_is_given_before_a_question_is_put_stays_in_sight():
    ask = '### BEGIN SOLUTION\nask("00.a").commit(1)\n### END SOLUTION'
    cells = ["# The sizes are below. **How many?**", "print('sizes')", ask, "print(4)", 'reveal("00.a", 4)']
    assert folded(*cells) == [None, None, GUESS, RESULT, ANSWER]


def test_what_is_only_a_comment_asks_nothing():
    assert folded('# ask("00.a")\nprint(1)'.replace("# ask", "x = 0  \n# ask"), "print(2)") == [None, None]


def test_an_answer_without_a_question_on_the_page():
    assert folded("print(1)", 'reveal("00.a", 1)') == [None, ANSWER]


@pytest.mark.long
def test_every_answer_of_the_course_is_folded():
    for path in source_files(ROOT):
        source = read_source(path)
        found = folds(source.cells)
        for cell in source.cells:
            if cell.is_code and ("\nreveal(" in f"\n{cell.text}" or "\nsettle(" in f"\n{cell.text}"):
                assert found[cell.id] is ANSWER, source.where(cell)
            if cell.is_code and "### BEGIN SOLUTION" in cell.text and "bet(" not in cell.text:
                assert found[cell.id] in (GUESS, SOLUTION), source.where(cell)
