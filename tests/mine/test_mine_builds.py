"""A build in the learner's library: kept from its usable step on, a newer version by each later one."""

from __future__ import annotations

import pytest
from own_library import Notebook

from course_lib import check, mine
from course_lib.learn.builds import Build
from course_lib.learn.builds import catalogue as builds
from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.judging.judge import by_cases
from course_lib.mine import courses, table
from course_lib.mine.again import check_again
from course_lib.mine.ledger import furthest_step
from course_lib.mine.source.package import version_of
from course_lib.mine.table import LibraryEntry, entry_of, entry_of_exercise

ENTRY = LibraryEntry("10.twice_zero", "twice", "doubles", "twice a number")
BUILD = Build(
    name="10.twice",
    title="Twice",
    steps=("10.twice_begun", "10.twice_zero", "10.twice_one", "10.twice_two"),
    entry="twice",
    usable_from="10.twice_zero",
)


def step(name, *numbers):
    """An exercise that is right when twice these numbers is."""
    return Exercise(
        name=name,
        title=name,
        judge=by_cases([Case(f"{n}", (n,), 2 * n) for n in numbers]),
        mistakes=(Mistake("none", "None.", recognise=lambda evidence: False),),
        hints=("", "", ""),
    )


STEPS = {
    one.name: one for one in (step(BUILD.steps[0], -1), step(BUILD.steps[1], -1, 0), step(BUILD.steps[2], -1, 0, 1))
} | {BUILD.steps[3]: step(BUILD.steps[3], -1, 0, 1, 2)}


def twice(number):
    """The course's, for these tests."""
    return 2 * number


@pytest.fixture
def build(monkeypatch, anna):
    from course_lib.learn import exercises

    known = exercises.exercise
    monkeypatch.setattr(builds, "BUILDS", (BUILD,))
    monkeypatch.setattr(table, "ENTRIES", (*table.ENTRIES, ENTRY))
    monkeypatch.setattr(exercises, "exercise", lambda name: STEPS.get(name) or known(name))
    monkeypatch.setattr(courses, "twice", twice, raising=False)
    return anna


def right_up_to(largest, name="twice"):
    notebook = Notebook()
    notebook.cell(f"LARGEST = {largest}\n\n\ndef {name}(x):\n    return 2 * x if x <= LARGEST else 0")
    return notebook[name]


def passes(name, answer, capsys):
    verdict = check(name, answer)
    assert verdict.passed, str(verdict)
    return capsys.readouterr().out


def line(capsys):
    function = mine.twice
    return function, capsys.readouterr().out.strip()


def kept_text(learner):
    return (learner.folder / "doubles.py").read_text()


def test_before_its_step_nothing_is_kept_and_the_courses_stand_in_is_no_answer(build, capsys):
    assert "Kept" not in passes("10.twice_begun", right_up_to(-1), capsys)
    assert not build.folder.exists()
    assert line(capsys)[1] == "mine.twice is the course's; once 10.twice_zero has passed, it is yours."
    verdict = check("10.twice_begun", courses.twice)
    assert verdict.status == "forbidden", str(verdict)


def test_from_its_step_on_it_is_used_and_the_line_says_how_far_it_is(build, capsys):
    said = passes("10.twice_zero", right_up_to(0), capsys)
    assert "from here on `mine.twice` is yours. It has passed 10.twice_zero, step 2 of 4 of its build." in said
    function, told = line(capsys)
    assert function(-3) == -6
    assert "which passed 10.twice_zero (step 2 of 4 of its build) on " in told


def test_a_later_step_keeps_the_newer_version_and_the_earlier_one_stays_beside(build, capsys):
    passes("10.twice_zero", right_up_to(0), capsys)
    said = passes("10.twice_one", right_up_to(1), capsys)
    assert "It has passed 10.twice_one, step 3 of 4 of its build." in said
    assert "What it replaces there is mine/earlier/doubles-2" in said
    assert "LARGEST = 1" in kept_text(build)
    (earlier,) = (build.folder / "earlier").iterdir()
    assert "LARGEST = 0" in earlier.read_text()
    assert "which passed 10.twice_one (step 3 of 4" in line(capsys)[1]


def test_a_version_that_skips_a_step_is_usable_too(build, capsys):
    passes("10.twice_two", right_up_to(2), capsys)
    assert line(capsys)[0](2) == 4


def test_the_same_version_at_a_later_step_goes_on_and_replaces_nothing(build, capsys):
    passes("10.twice_zero", right_up_to(2), capsys)
    said = passes("10.twice_two", right_up_to(2), capsys)
    assert "It has passed 10.twice_two, step 4 of 4" in said
    assert "replaces" not in said
    assert passes("10.twice_two", right_up_to(2), capsys).count("Kept") == 0


def test_a_version_that_is_behind_leaves_the_better_one_where_it_is(build, capsys):
    passes("10.twice_two", right_up_to(2), capsys)
    said = passes("10.twice_zero", right_up_to(0), capsys)
    assert "mine/doubles.py stays as it is: the version there has passed 10.twice_two, step 4 of 4 of its build" in said
    assert "LARGEST = 2" in kept_text(build)
    assert line(capsys)[0](2) == 4
    newer = right_up_to(3)
    assert "stays as it is" in passes("10.twice_one", newer, capsys)
    assert "Kept in" in passes("10.twice_two", newer, capsys)
    assert "LARGEST = 3" in kept_text(build)


def test_an_edit_of_the_file_is_no_better_version(build, capsys):
    """What stands there then has passed nothing, so the next pass takes its place, and it stays beside."""
    passes("10.twice_two", right_up_to(2), capsys)
    path = build.folder / "doubles.py"
    path.write_text(path.read_text().replace("LARGEST = 2", "LARGEST = 9"))
    assert "Kept in" in passes("10.twice_zero", right_up_to(0), capsys)
    assert "LARGEST = 0" in kept_text(build)


def test_an_edit_is_checked_by_the_entrys_step_or_by_the_one_that_is_named(build, capsys):
    passes("10.twice_zero", right_up_to(0), capsys)
    path = build.folder / "doubles.py"
    path.write_text(path.read_text().replace("LARGEST = 0", "LARGEST = 1"))
    assert line(capsys)[0] is courses.twice
    assert not check_again("10.twice_two").passed
    assert line(capsys)[0] is courses.twice
    assert check_again("twice").exercise == "10.twice_zero"
    assert check_again("10.twice_one").passed
    version = version_of(build.folder, "doubles", "twice")
    assert furthest_step(ENTRY, version.digest) == "10.twice_one"
    assert line(capsys)[0](1) == 2
    with pytest.raises(ValueError, match=r"no '10\.twice_begun' in a library"):
        check_again("10.twice_begun")


def test_every_step_belongs_to_the_entry_and_those_from_its_own_on_keep_it(build):
    assert ENTRY.exercises == BUILD.steps[1:]
    assert all(entry_of_exercise(name) is ENTRY for name in BUILD.steps)
    assert entry_of("10.twice_two") is ENTRY
    assert entry_of_exercise("10.zigzag").exercises == ("10.zigzag",)
