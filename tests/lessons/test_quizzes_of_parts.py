"""The quizzes of parts that come after their lesson's quiz: answers by hand, and other cases of what counts them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from course_lib.layouts import Mesh
from course_lib.learn.exercises import quiz_of
from course_lib.learn.exercises.lesson_04 import quiz as quiz_04
from course_lib.learn.exercises.lesson_05 import quiz as quiz_05
from course_lib.learn.exercises.lesson_10 import part_quizzes
from course_lib.learn.exercises.lesson_12 import quiz as quiz_12

BY_HAND = {
    "04f rounds": Fraction(160, 40),
    "04f axes": 4 * 2 * 1000,
    "05h wide-sums": Fraction(2 + 2 + 4, 2 + 2 + 2),
    "05h stored": (0.5 + 50 * 0.006, 0.5 + 50 * 0.01),
    "10e long-exchange": Fraction(4 * 2, 4 * 1 + 4 * 2),
    "10e room": 6,
    "10f more-choices": 1.3,
    "10f all-ranks": (15 / 16) / (3 / 4),
    "10g packings": (1.0, 1.6),
    "10g keys-needed": (Fraction(0), Fraction(7, 8)),
    "12e copies": 2,
    "12e one-node": 14.3,
}
OF_PARTS = {
    f"{number}{question.part} {question.name}": question
    for number in ("04", "05", "10", "12")
    for question in quiz_of(number)
    if question.part
}


def test_each_of_these_parts_asks_two():
    assert OF_PARTS.keys() == BY_HAND.keys()


@pytest.mark.parametrize("name", BY_HAND)
def test_the_right_answer_is_the_one_by_hand(name):
    assert OF_PARTS[name].answer() == BY_HAND[name]


def test_tokens_of_a_step_count_once_whatever_the_axes():
    assert quiz_04._valid_tokens(Mesh.of(dp_shard=8), 10) == 80
    assert quiz_04._valid_tokens(Mesh.of(pp=2, dp_shard=2, tp=4), 10) == 20


def test_one_count_for_all_rounds_gives_equal_weights():
    assert quiz_04._weight_by_rounds((50, 50), (30, 70)) == 1


def test_a_step_shorter_than_half_a_code_is_lost_where_the_message_is_stored():
    assert quiz_05._after_steps(50, 0.003) == (0.65, 0.5)


def test_by_turns_a_short_exchange_leaves_the_computing_alone():
    assert part_quizzes._time_by_turns(1.0) == Fraction(1, 2)
    assert part_quizzes._time_by_turns(0.0) == 1


@pytest.mark.parametrize(("exposed", "backward", "begins", "hidden"), [(4, 20, 6, 4), (9, 20, 0, 0), (9, 20, 20, 9)])
def test_the_model_hides_what_is_exposed_and_has_room(exposed, backward, begins, hidden):
    assert part_quizzes._hidden_ms(exposed, backward, begins) == hidden


def test_the_named_numbers_of_nodes_and_pairs_are_so():
    assert [round(part_quizzes._rows_between_nodes(k), 1) for k in (8, 16)] == [5.3, 7.1]
    assert round(8 / part_quizzes._rows_between_nodes(8), 1) == 1.5
    assert part_quizzes._busiest(64) == 1.0
    assert part_quizzes._busiest(48, 16) == round(520 / ((520 + 136) / 2), 1)


def test_a_vote_names_a_rank_only_among_three_copies():
    assert [quiz_12._suspects(Mesh.of(dp_replicate=n, dp_shard=8), wrong=5) for n in (1, 2, 3, 4)] == [0, 2, 1, 1]


def test_what_other_ways_to_stand_in_two_racks_take():
    assert quiz_12._times_in_two_racks(apart=8) == 9.6
    machine = quiz_12.machine_spec("72x GB200")
    assert round(machine.inter.time_s(4 / 16 * 1e9) / machine.intra.time_s(15 / 16 * 1e9), 1) == 4.8
