"""Ten planted learners are each sent to the right part, by at most twenty questions; the others are left alone."""

from __future__ import annotations

import pytest
from start_page.conftest import Planted

from course_lib.base.paths import project_root
from course_lib.learn import exercises
from course_lib.learn.checks.lesson_index import places
from course_lib.lessons.info import lessons
from course_lib.start_page.chosen_path import EVERYTHING, parts_of, path_named
from course_lib.start_page.part_states import known_parts
from course_lib.start_page.placement import PlacementSession, parts_up_to_quiz
from course_lib.start_page.placement_search import PlacementSearch
from course_lib.start_page.strands import ASKED_OF, STRANDS
from course_lib.start_page.terminal import ask_in_terminal

ALL = tuple(f"{number:02}" for number in range(13))
# Who: which lessons they know, their path, the part to read first, some parts to skip.
LEARNERS = {
    "a beginner": ((), EVERYTHING.time, "00", ()),
    "who has trained on one device": (("00", "01"), EVERYTHING.time, "02a", ("00", "01a", "01b", "01c")),
    "who knows collectives": (("00", "01", "02"), EVERYTHING.time, "02d", ("02a", "02b", "02c")),
    "who uses DDP": (("00", "01", "02", "03", "04"), "2 to 8 GPUs", "05a", ("04a", "04b", "04c")),
    "who shards": (("00", "01", "02", "03", "04", "05"), "2 to 8 GPUs", "11a", ("05a", "05b", "05e")),
    "who builds pipelines": (tuple(ALL[:8]), "From one GPU", "03c", ("07a", "06a", "03a", "01a")),
    "who cuts matrices": (tuple(ALL[:9]), "choose hardware", "11a", ("08d", "05d")),
    "who plans": (tuple(ALL[:12]), "look after a cluster", "04e", ("02c", "04c", "11c")),
    "who knows it all": (ALL, "a weekend", "", ("08a",)),
    "who knows pipelines, and no shards": (("00", "01", "02", "03", "06", "07"), "a weekend", "04a", ("06a", "07a")),
}


def planted(known: tuple[str, ...], path: str) -> PlacementSession:
    """A placement answered to its end by somebody who knows these lessons, and of others nothing."""
    placement = PlacementSession(parts_of(path_named(path), lessons(project_root())), places())
    while (item := placement.item) is not None:
        lesson, _, name = item.name.partition(".")
        question = next(one for one in exercises.quiz_of(lesson) if one.name == name)
        placement.take(question.show(question.answer()) if lesson in known else "")
    return placement


@pytest.mark.parametrize("who", LEARNERS)
def test_each_learner_is_sent_to_the_right_part(who: str) -> None:
    known, path, first, skipped = LEARNERS[who]
    placement = planted(known, path)
    found = placement.first()
    assert (found.label if found else "") == first
    assert set(skipped) <= placement.skipped().keys()
    assert {part[:2] for part in placement.skipped()} <= set(known)
    assert placement._search.asked <= 20


def test_every_number_of_known_lessons_in_a_strand_is_found_by_few_questions() -> None:
    for strand in STRANDS:
        for number in range(len(strand.lessons) + 1):
            search = PlacementSearch([strand], ASKED_OF)
            while search.next is not None:
                search.answer(search.next[0] in strand.lessons[:number])
            assert tuple(search.known()) == strand.lessons[:number]
            assert search.asked <= search.most <= 4


def test_one_of_two_right_is_not_known() -> None:
    search = PlacementSearch(STRANDS, ASKED_OF)
    assert search.next == ("01", "state")
    search.answer(True)
    assert search.next == ("01", "batch")
    search.answer(False)
    assert search.next == ("00", "ranks")
    assert search.known() == {}


def test_it_ends_early_for_a_beginner_and_says_what_it_did_not_ask() -> None:
    search = PlacementSearch(STRANDS, ASKED_OF)
    while search.next is not None:
        search.answer(False)
    assert search.asked == 2
    assert search.not_asked == [strand.title for strand in STRANDS[1:]]


def test_it_ends_where_two_strands_in_a_row_are_new() -> None:
    search = PlacementSearch(STRANDS, ASKED_OF)
    while search.next is not None:
        search.answer(search.next[0] in ("00", "01", "02"))
    assert search.not_asked == [strand.title for strand in STRANDS[3:]]


def test_each_skip_names_the_answers_that_say_so(learner: Planted) -> None:
    placement = planted(("00", "01", "02"), EVERYTHING.time)
    said = "\n".join(placement.conclusion())
    assert "You can skip 00: you answered 01.state and 01.batch right." in said
    assert "You can skip 02a, 02b and 02c: you answered 02.bytes and 02.rounds right." in said
    assert "Read 02d first" in said
    known = known_parts(learner.events)
    assert known["02c"] == ["02.bytes", "02.rounds"]
    assert "02d" not in known


def test_parts_after_the_quiz_and_builds_are_never_skipped() -> None:
    index = places()
    assert parts_up_to_quiz("04", index) == ["04a", "04b", "04c"]
    assert parts_up_to_quiz("05", index) == ["05a", "05b", "05c", "05d", "05e"]


def test_the_questions_are_there_and_belong_to_the_lesson_s_own_quiz() -> None:
    assert {lesson for strand in STRANDS for lesson in strand.lessons} == ASKED_OF.keys()
    for lesson, names in ASKED_OF.items():
        quiz = {one.name: one for one in exercises.quiz_of(lesson)}
        for name in names:
            assert not quiz[name].part, f"{lesson}.{name} is asked by a part of its own"
            assert len(quiz[name].choices) > 2
            assert "same mesh" not in quiz[name].text, "it stands on the question before it"
            assert quiz[name].answer() in quiz[name].choices


def test_a_placement_tells_no_answer() -> None:
    placement = planted((), EVERYTHING.time)
    placement = PlacementSession(parts_of(EVERYTHING, lessons(project_root())), places())
    assert placement.take("a") == "✗ Not so."
    assert placement.take("") == "Noted."


def test_it_is_done_by_keyboard_and_keeps_nothing_when_it_is_stopped(learner: Planted) -> None:
    placement = PlacementSession(parts_of(EVERYTHING, lessons(project_root())), places())
    typed = iter(["d", "x", "", "q"])
    told: list[str] = []
    assert not ask_in_terminal(placement, read=lambda ask: next(typed), tell=told.append)
    assert "✗ 'x' is no choice; type a letter from a to d." in told
    assert "Question 2, of 20 at most:" in "\n".join(told)
    assert known_parts(learner.events) == {}


def test_the_form_and_the_text_ask_the_same() -> None:
    placement = PlacementSession(parts_of(EVERYTHING, lessons(project_root())), places())
    assert "Question 1, of 20 at most:" in repr(placement)
    form = placement.form()
    assert [label[:2] for label, _ in form.choice.options] == ["a)", "b)", "c)", "d)"]
    form.choice.value = 3
    form.button.click()
    assert "✓ Right." in form.feedback.value
    form.unknown.click()
    note = placement.answer("zz")
    assert "is no choice" in note.text
    note = placement.answer()
    assert "Read 00 first" in note.text
    assert "Read 00 first" in placement.answer().text
    assert "Read 00 first" in repr(placement)
    form.button.click()
    form.refresh()
    assert form.button.disabled
