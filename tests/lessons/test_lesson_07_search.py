"""The judge of 07.search: what it sees in tables, and that it says no more than that."""

from __future__ import annotations

import itertools

import pytest
from answer_table import pieces

from course_lib.cost import simulate
from course_lib.learn import check, exercises
from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.exercises.lesson_07.search import SEARCH
from course_lib.learn.exercises.lesson_07.search.cases import BOUND, CASES, FULL, LONG, SIZE, WHOLE, compare
from course_lib.learn.exercises.lesson_07.search.passed_over import passed_over
from course_lib.schedules import StageTimes, from_text, list_schedule, one_f_one_b, peak_in_flight, validate

ANSWERS = pieces("lesson_07/search.py")
ONE = StageTimes(1, 1, 1)


def wanted(times, m, limit):
    case = next(iter(CASES))
    return case.expected(times, m, limit)


def test_the_cases_have_what_is_easily_forgotten():
    sizes = [(len(times), m, limit) for times, m, limit in (case.args for case in CASES)]
    assert {p for p, _, _ in sizes} == {1, 2, 3, 4, 5, 6}
    assert any(m < p for p, m, _ in sizes)
    assert {1, 2} <= {limit for _, _, limit in sizes}
    assert any(limit == p - 1 for p, _, limit in sizes)
    assert any(limit == 2 * p for p, _, limit in sizes)
    assert len({case.label for case in CASES}) == len(CASES)


def test_the_courses_own_tables_are_far_from_the_bound():
    for case in CASES:
        times, m, limit = case.args
        step_s = simulate(list_schedule(times, m, limit), times).makespan_s
        assert step_s <= wanted(times, m, limit).longest_s * 1.08 / BOUND + 1e-9


@pytest.mark.parametrize("answer", ANSWERS.RIGHT, ids=lambda answer: answer.__name__)
def test_right_answers_are_right_where_the_check_does_not_look(answer):
    times = [StageTimes(1, 1.2, 0.7), StageTimes(1.4, 1.1, 1), StageTimes(0.6, 1, 0.9)]
    for m, limit in itertools.product((2, 5), (1, 3)):
        made = answer(list(times), m, limit)
        assert validate(made, max_in_flight=limit) == ()
        assert compare(wanted(times, m, limit), made) == ""


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("F0 I0 W0", SIZE, "the table has 1 rank, 1 stage and 1 micro-batch; the task has 2 ranks with a stage each"),
        ("F0 B0 F1 B1\nF0 B0 F1 B1", WHOLE, "rank 0 runs a whole backward (B)"),
        ("F0 F1 I0 I1 W0 W1\nF0 F1 I0 I1 W0 W1", FULL, "rank 0 has 2 micro-batches in flight; at most 1 may be"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(text, kind, words):
    found = compare(wanted([ONE, ONE], 2, 1), from_text(text))
    assert found.kind == kind
    assert words in found


@pytest.mark.parametrize("got", [None, "F0 I0 W0", [["F0"]], 3])
def test_what_is_no_schedule_is_shown(got):
    assert compare(wanted([ONE], 1, 1), got).startswith("expected a Schedule, got ")


def test_a_table_that_cannot_run_is_told_by_what_keeps_it():
    stuck = from_text("I0 F0 W0\nF0 I0 W0")
    assert compare(wanted([ONE, ONE], 1, 1), stuck) == str(validate(stuck)[0])


def test_a_long_table_is_told_with_a_place_that_is_there():
    late = from_text("F0 I0 W0 F1 I1 W1\nF0 I0 W0 F1 I1 W1")
    found = compare(wanted([ONE, ONE], 2, 2), late)
    assert found.kind.startswith(LONG)
    assert "the step takes 10 s" in found
    assert "begins" in found
    assert "could begin there" in found


def test_what_could_begin_had_all_that_it_needs():
    run = simulate(from_text("F0 F1 I0 W0 I1 W1\nF0 I0 W0 F1 I1 W1"), ONE)
    assert passed_over(run, 2)["W", "F"] == ["rank 1 begins W0 at 3 s, when F1 could begin there"]
    assert passed_over(run, 1)["W", "F"] == []  # with room for one it could not
    assert passed_over(run, 2)["F", "I"] == []


def test_micro_batches_in_another_order_are_followed():
    run = simulate(from_text("F1 F0 I1 I0 W1 W0\nF1 I1 F0 I0 W1 W0"), ONE)
    assert all(not places for places in passed_over(run, 2).values())


def test_a_table_with_whole_backwards_of_the_right_memory_is_not_taken():
    assert compare(wanted([ONE] * 4, 8, 4), one_f_one_b(4, 8)).kind == WHOLE
    assert max(peak_in_flight(one_f_one_b(4, 8))) == 4


def test_no_mistake_is_recognised_where_nothing_was_seen():
    assert not any(mistake.recognise(Evidence(())) for mistake in SEARCH.mistakes)


def test_an_empty_function_is_not_wrong_yet():
    def find_schedule(times, num_micro_batches, max_in_flight):
        raise NotImplementedError("Your turn: write this")

    assert check("07.search", find_schedule).status == "not attempted"


def test_each_mistake_has_its_own_message():
    messages = {mistake.message for mistake in exercises.exercise("07.search").mistakes}
    assert len(messages) == len(SEARCH.mistakes) >= 10
