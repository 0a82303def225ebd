"""Finding reference solutions in a lesson's source, and the place that ``solution`` points to."""

from __future__ import annotations

import inspect

import pytest

from course_lib.learn import exercises
from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.checks import hints
from course_lib.learn.checks.reference import place_of, reference_answer
from course_lib.learn.judging.judge import by_value

SOURCE = '''# %% [markdown]
# # 99 · A lesson
#
# ## Build 1: split

# %%
import math
from itertools import count as counter

FACTOR = 2
raise_if_run = 1 / 0
for part in range(1 // 0):
    item = part
items = [print(1 / 0) for x in counter()]


def helper(x):
    parts = [part for part in (x,)]  # names of its own, which the lesson has used above
    item = math.floor(parts[0])
    return item * FACTOR


# %%
# %%ranks -n 4
# no = python(here)

# %%
def split(x):
    """Split."""
    ### BEGIN SOLUTION
    return helper(x)
    ### END SOLUTION


# %%
check("99.split", split)

# %% [markdown]
# ## Build 2: how many
# Some words.

# %%
### BEGIN SOLUTION
### STUB answer = ...
answer = FACTOR * 21
### END SOLUTION

# %%
check("99.many", answer)
check("99.lost", nobody)
'''


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "99_lesson.py"
    path.write_text(SOURCE)
    return path


def test_a_function_comes_with_what_it_needs_and_nothing_else_runs(source):
    split = reference_answer("99.split", source)
    assert split(3.7) == 6
    assert "helper(x)" in inspect.getsource(split)
    assert split.__module__ == "__main__"  # so that it travels to ranks by value


def test_a_value_is_computed(source):
    assert reference_answer("99.many", source) == 42


def test_an_exercise_that_no_cell_checks_is_told(source):
    with pytest.raises(ValueError, match=r"99\.none"):
        reference_answer("99.none", source)


def test_the_place_of_a_solution(source):
    place = place_of("99.many", source)
    assert (place.notebook, place.heading) == ("notebooks/solutions/99_lesson.ipynb", "Build 2: how many")
    assert place.cell == 7
    with pytest.raises(ValueError, match="no solution cell"):
        place_of("99.lost", source)


def test_solution_points_to_the_notebook(monkeypatch, source):
    one = Exercise(name="99.many", title="", judge=by_value(42), mistakes=(), hints=("a", "b", "c"))
    monkeypatch.setattr(exercises, "exercise", lambda name: one)
    monkeypatch.setattr(hints, "place_of", lambda name: place_of(name, source))
    note = hints.solution("99.many")
    assert "cell 7 of `notebooks/solutions/99_lesson.ipynb`, under “Build 2: how many”" in repr(note)
    assert "href='solutions/99_lesson.ipynb#Build-2%3A-how-many'" in note._html()
