"""nbgrader's exchange, by the commands of docs/instructor/grading.md: released, fetched, submitted, marked, told."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from exchange_here import COURSE, ClassHere, class_here, why_no_exchange
from planted_work import points

WHY_NOT = why_no_exchange()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "never"),
    pytest.mark.xdist_group("exchange"),
    pytest.mark.limit_s(2000),
]
LESSON = "02a_collectives"  # it has one check, so it is marked the fastest
FEEDBACK_SAYS = {"right": "passed", "wrong": "not yet", "tampers": "not attempted yet"}  # by the work


@pytest.fixture(scope="module")
def handed_in(folder: Path, course: Path) -> Iterator[ClassHere]:
    """Three learners have fetched the lesson, worked, and submitted; the teacher has collected nothing yet."""
    with class_here(folder, course, LESSON, list(FEEDBACK_SAYS)) as here:
        here.hand_out()
        for name in here.learners:
            here.by_learner(name, "fetch_assignment")
            here.do(name)
            here.by_learner(name, "submit")
        yield here


@pytest.fixture(scope="module")
def marked(handed_in: ClassHere) -> ClassHere:
    """All is collected, marked, and back with the learners."""
    assert "cheating attempt" not in handed_in.by_teacher("collect")
    handed_in.mark()
    for name in handed_in.learners:
        handed_in.by_learner(name, "fetch_feedback")
    return handed_in


def feedback_of(here: ClassHere, name: str) -> list[str]:
    """The pages that a learner has fetched, the oldest first."""
    pages = (here.learners[name].home / LESSON / "feedback").glob(f"*/{LESSON}.html")
    return [page.read_text(encoding="utf-8") for page in sorted(pages)]


def test_a_learner_gets_the_lesson_with_its_pictures(handed_in: ClassHere) -> None:
    released = sorted(os.listdir(handed_in.assignments / "release" / LESSON / "assets"))
    assert released
    for name, user in handed_in.learners.items():
        listed = handed_in.told(user, user.home, "nbgrader", "list", "--course", COURSE)
        assert f"{COURSE} {LESSON}" in listed, listed
        assert handed_in.work_of(name).owner() == user.name
        assert sorted(os.listdir(user.home / LESSON / "assets")) == released


def test_a_learner_sees_nothing_of_another_and_changes_nothing_for_all(handed_in: ClassHere) -> None:
    curious = handed_in.learners["wrong"]
    released = handed_in.exchange / COURSE / "outbound" / LESSON / f"{LESSON}.ipynb"
    assert handed_in.ran(curious, curious.home, "test", "-r", str(released)).returncode == 0
    for command in (("ls", str(handed_in.inbound)), ("ls", str(handed_in.assignments)), ("rm", str(released))):
        assert handed_in.ran(curious, curious.home, *command).returncode != 0, command


def test_what_is_collected_is_what_was_handed_in(marked: ClassHere) -> None:
    for name, user in marked.learners.items():
        collected = marked.assignments / "submitted" / user.name / LESSON / f"{LESSON}.ipynb"
        assert collected.read_bytes() == marked.work_of(name).read_bytes()


def test_each_gets_the_points_of_their_work(marked: ClassHere) -> None:
    wanted = {user.name: points(LESSON, name) for name, user in marked.learners.items()}
    assert sorted(wanted.values()) == [0, 0, 1]
    assert marked.points() == wanted


def test_each_gets_their_own_feedback(marked: ClassHere) -> None:
    for name, user in marked.learners.items():
        (page,) = feedback_of(marked, name)
        assert page == (marked.assignments / "feedback" / user.name / LESSON / f"{LESSON}.html").read_text("utf-8")
        assert FEEDBACK_SAYS[name] in page
    curious = marked.learners["wrong"]
    assert marked.ran(curious, curious.home, "ls", str(marked.exchange / COURSE / "feedback")).returncode != 0


def test_a_later_submission_takes_the_place_of_the_first(marked: ClassHere) -> None:
    user, path = marked.learners["wrong"], marked.work_of("wrong")
    path.write_bytes(marked.work_of("right").read_bytes())
    marked.by_learner("wrong", "submit")
    marked.by_teacher("collect", "--update")
    marked.mark("--student", user.name)
    assert marked.points()[user.name] == points(LESSON, "right")
    marked.by_learner("wrong", "fetch_feedback")
    first, second = feedback_of(marked, "wrong")
    assert (FEEDBACK_SAYS["wrong"] in first, FEEDBACK_SAYS["right"] in second) == (True, True)


def test_work_under_the_name_of_another_is_named_when_it_is_collected(marked: ClassHere) -> None:
    victim, thief = marked.learners["right"], marked.learners["tampers"]
    marked.by_learner("tampers", "submit", "--student", victim.name)
    said = " ".join(marked.by_teacher("collect", "--update").split())
    names = f"claims to be submitted by {victim.name} but is owned by {thief.name}; cheating attempt"
    (stolen,) = re.findall(rf"({re.escape(str(marked.inbound))}\S+ \S+ \S+) {names}", said)
    collected = marked.assignments / "submitted" / victim.name / LESSON
    assert (collected / f"{LESSON}.ipynb").read_bytes() == marked.work_of("tampers").read_bytes()
    for command in (("mv", stolen, str(marked.inbound.parent)), ("rm", "-r", str(collected))):
        marked.told(marked.teacher, marked.teacher.home, *command)
    marked.by_teacher("collect")
    assert (collected / f"{LESSON}.ipynb").read_bytes() == marked.work_of("right").read_bytes()


@pytest.mark.parametrize("closed", ["exchange", "inbound"])
def test_an_exchange_that_learners_cannot_write_refuses_their_work(handed_in: ClassHere, closed: str) -> None:
    place: Path = getattr(handed_in, closed)
    before, mode = sorted(os.listdir(handed_in.inbound)), place.stat().st_mode
    user = handed_in.learners["right"]
    place.chmod(0o755)
    try:
        done = handed_in.ran(user, user.home, "nbgrader", "submit", LESSON, "--course", COURSE)
    finally:
        place.chmod(mode)
    assert done.returncode != 0
    assert re.search("Unwritable directory|You don't have write permissions", done.stderr), done.stderr
    assert sorted(os.listdir(handed_in.inbound)) == before
