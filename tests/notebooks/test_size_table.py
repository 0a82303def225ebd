"""The table of how large each part is: what counts as a word, as given, as written, as a question."""

from __future__ import annotations

from pathlib import Path

from course_lib.authoring.notebooks.writing.size_table import size_of, size_table
from course_lib.base.paths import project_root
from course_lib.lessons.info import lessons
from course_lib.lessons.source import parse_source

PAGE = '''# %% [markdown]
# # 02a · Collectives: what travels
#
# A promise.
#
# **30 minutes · difficulty 2 of 5 · needs: cpu**

# %%
from course_lib import ask

import torch

# a comment
x = torch.ones(2)
ask("02.one")

# %%
ask("02.one", guess=3)
ask("02.two")


# %%
def twice(x):
    """Two times x."""
    ### BEGIN SOLUTION
    ### STUB ...  # your turn
    y = 2 * x  # one line

    return y
    ### END SOLUTION


check("02.ring", twice)
'''


def test_a_part_is_counted_from_its_source():
    size = size_of(parse_source(PAGE, Path("02a_collectives.py")))
    assert (size.label, size.minutes) == ("02a", 30)
    assert size.words == len(
        ["a", "Collectives", "what", "travels", "A", "promise", "minutes", "difficulty", "of", "needs:", "cpu"]
    )
    assert size.written == 2  # the stub is neither, nor is the blank line
    assert size.given == 7  # x, three asks, the signature, its docstring, the check
    assert size.ratio == "3.5"
    assert (size.asked, size.checks) == (2, 1)


def test_a_part_in_which_nothing_is_written_has_no_ratio():
    size = size_of(parse_source(PAGE.partition("# %%\ndef twice")[0], Path("02a_collectives.py")))
    assert (size.given, size.written, size.ratio) == (4, 0, "–")


def test_the_table_has_each_part_once_and_a_sum():
    rows = [line.split(" | ") for line in size_table(project_root()).splitlines()]
    labels = [cells[0].removeprefix("| ") for cells in rows[2:]]
    assert labels == ["tour", *(info.label for info in lessons()), "all"]
    minutes = [int(cells[-1].removesuffix(" |").replace(",", "")) for cells in rows[2:]]
    assert minutes[-1] == sum(minutes[:-1])


def test_no_part_asks_more_than_six_questions():
    rows = [line.strip("| ").split(" | ") for line in size_table(project_root()).splitlines()[2:-1]]
    assert {cells[0]: int(cells[5]) for cells in rows if int(cells[5]) > 6} == {}
