"""The judge of 10.room: what it refuses, in whose words, and what it lets pass."""

from __future__ import annotations

import math

import pytest

from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_10.room import CASES, ROOM
from course_lib.learn.exercises.lesson_10.room.wrong_answers import MISTAKES
from course_lib.parallel.experts import expert_capacity


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_each_mistake_gets_its_own_message(mistake):
    verdict = judged(ROOM, mistake.example)
    assert not verdict.passed
    assert (verdict.mistake, verdict.message) == (mistake.name, mistake.message)


def tokens_left_out(num_tokens, num_experts, top_k, factor):
    return math.ceil(factor * top_k / num_experts)


def all_at_one(num_tokens, num_experts, top_k, factor):
    return min(num_tokens, math.ceil(factor * num_tokens * top_k))


def largest(num_tokens, num_experts, top_k, factor):
    return max(num_tokens, math.ceil(factor * num_tokens * top_k / num_experts))


def experts_rounded(num_tokens, num_experts, top_k, factor):
    return min(num_tokens, math.ceil(factor * top_k * (num_tokens // num_experts)))


def squared(num_tokens, num_experts, top_k, factor):
    return min(num_tokens, math.ceil(factor * num_tokens * top_k**2 / num_experts))


def factor_rounded(num_tokens, num_experts, top_k, factor):
    return min(num_tokens, math.ceil(round(factor) * num_tokens * top_k / num_experts))


def two_choices(num_tokens, num_experts, top_k, factor):
    return min(num_tokens, math.ceil(factor * num_tokens * 2 / num_experts))


def added(num_tokens, num_experts, top_k, factor):
    return min(num_tokens, math.ceil(factor + num_tokens * top_k / num_experts))


def most_of_experts(num_tokens, num_experts, top_k, factor):
    return min(num_experts, math.ceil(factor * num_tokens * top_k / num_experts))


def on_the_page(num_tokens, num_experts, top_k, factor):
    """Right for the lesson's own numbers."""
    return 256


def in_a_list(num_tokens, num_experts, top_k, factor):
    return [expert_capacity(num_tokens, num_experts=num_experts, top_k=top_k, capacity_factor=factor)]


TIRED = (
    tokens_left_out,
    all_at_one,
    largest,
    experts_rounded,
    squared,
    factor_rounded,
    two_choices,
    added,
    most_of_experts,
    on_the_page,
    in_a_list,
)


@pytest.mark.parametrize("answer", TIRED, ids=lambda answer: answer.__name__)
def test_a_wrong_answer_of_another_form_is_refused_without_a_name_that_is_not_its_own(answer):
    verdict = judged(ROOM, answer)
    assert not verdict.passed
    assert verdict.mistake is None


SAID = [
    (lambda num_tokens, num_experts, top_k, factor: None, "nothing came back (`None`)"),
    (lambda num_tokens: num_tokens, "TypeError"),
    (lambda num_tokens, num_experts, top_k, factor: "256", "expected"),
]


@pytest.mark.parametrize(("answer", "said"), SAID)
def test_what_is_no_number_is_said(answer, said):
    verdict = judged(ROOM, answer)
    assert not verdict.passed
    assert said in f"{verdict.message} {verdict.evidence}"


def test_no_case_depends_on_how_products_are_rounded():
    """Whatever is multiplied first, the room is the same."""
    for case in CASES:
        tokens, experts, top_k, factor = case.args
        ways = (
            factor * tokens * top_k / experts,
            tokens * top_k / experts * factor,
            factor / experts * (tokens * top_k),
            tokens / experts * (top_k * factor),
        )
        assert len({math.ceil(way) for way in ways}) == 1, case.label
