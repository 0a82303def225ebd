"""The table of a learner's own library, and the course's functions that stand in."""

from __future__ import annotations

import inspect

import pytest

from course_lib import mine
from course_lib.learn import exercises
from course_lib.learn.builds import BUILDS
from course_lib.learn.checks.reference import reference_answer
from course_lib.mine.table import ENTRIES, entry_of

BY_NAME = [pytest.param(entry, id=entry.name) for entry in ENTRIES]


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("entry", BY_NAME)
def test_the_courses_stand_in_is_right_by_the_check_itself(entry):
    assert exercises.exercise(entry.exercise).judge(entry.courses, ()).passed


@pytest.mark.parametrize("entry", BY_NAME)
def test_it_is_called_as_the_lesson_calls_its_answer(entry):
    answer = inspect.unwrap(reference_answer(entry.exercise))
    assert answer.__name__ == entry.name
    assert list(inspect.signature(answer).parameters) == list(entry.signature.parameters)


def test_names_are_given_once_and_hide_no_room_and_no_tool():
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)
    beside = {path.stem for path in __import__("pathlib").Path(mine.__file__).parent.iterdir()}
    assert not set(names) & (beside | set(mine._TOOLS))


def test_a_name_that_is_not_there_is_told_those_that_are():
    with pytest.raises(AttributeError, match=r"no name 'ring'; it offers .*ring_all_reduce"):
        _ = mine.ring
    with pytest.raises(ValueError, match=r"no 'ring' .*ring_all_reduce \(02.ring\)"):
        entry_of("ring")
    assert "tree_broadcast" in dir(mine)


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_every_build_has_an_entry_which_begins_with_the_step_from_which_it_is_usable(build):
    entry = entry_of(build.entry)
    assert entry.exercise == build.usable_from
    assert entry.build is build
