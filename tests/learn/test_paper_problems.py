"""Every problem on paper: two hundred draws without nonsense, and answers that somebody worked out by hand."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from course_lib.learn import exercises
from course_lib.learn.catalogue.problem_spec import PaperProblem
from course_lib.learn.paper.judge import is_right, sentence_on
from course_lib.learn.paper.typed import said, scale_of, typed

PROBLEMS = [one for number in exercises.lesson_numbers() for one in exercises.problems_of(number)]
SEEDS = range(200)
_PATTERN = re.compile(r"\bnan\b|\binf\b|None|\d{7,}|\de[+-]?\d")  # numbers that nobody reads
# Answers worked out from the texts alone, with a calculator: the problem, the seed, the answer in its unit.
BY_HAND = json.loads((Path(__file__).parents[1] / "support" / "problems_by_hand.json").read_text(encoding="utf-8"))
every_problem = pytest.mark.parametrize("one", PROBLEMS, ids=[one.name for one in PROBLEMS])


def test_each_lesson_but_the_capstone_ends_with_five_to_eight_problems():
    counts = {number: len(exercises.problems_of(number)) for number in exercises.lesson_numbers()}
    assert counts.pop("14") == 0  # the job is the problem
    assert all(5 <= count <= 8 for count in counts.values()), counts


def test_names_are_of_the_lesson_and_unique():
    names = [one.name for one in PROBLEMS]
    assert len(set(names)) == len(names)
    for number in exercises.lesson_numbers():
        assert all(re.fullmatch(rf"{number}\.\w+", one.name) for one in exercises.problems_of(number))


@every_problem
def test_two_hundred_draws_hold_no_nonsense(one: PaperProblem):
    answers = set()
    for seed in SEEDS:
        drawn = one.drawn(seed)
        answers.add(said(drawn.value, one.unit))
        assert math.isfinite(drawn.value)
        assert 0.005 <= drawn.value <= 1e6, (seed, drawn.value)
        assert one.unit != "%" or drawn.value < 100 or "more" in drawn.text, (seed, drawn.value)
        for text in (drawn.text, *drawn.way, drawn.beside, *drawn.sources):
            assert not _PATTERN.search(text), (seed, text)
            assert text == text.strip()
        assert drawn.text.count("?") == 1, drawn.text
        assert drawn.text.endswith("?"), drawn.text
        assert 2 <= len(drawn.way) <= 6
    assert len(answers) >= 20, len(answers)


@every_problem
def test_the_way_ends_with_the_answer(one: PaperProblem):
    for seed in SEEDS[:20]:
        drawn = one.drawn(seed)
        assert said(drawn.value, one.unit) in drawn.way[-1], (seed, drawn.way[-1], drawn.value)


@every_problem
def test_a_usual_wrong_answer_is_named_and_never_right(one: PaperProblem):
    named = dict.fromkeys(range(len(one.drawn(0).slips)), 0)
    assert len(named) >= 2
    for seed in SEEDS:
        drawn = one.drawn(seed)
        for index, slip in enumerate(drawn.slips):
            assert math.isfinite(slip.value), seed
            if math.isclose(slip.value, drawn.value, rel_tol=0.12):
                continue
            assert not is_right(drawn, slip.value)
            named[index] += drawn.slip_of(slip.value) is slip and slip.value > 0
            told = sentence_on(drawn, slip.value, one.unit)
            assert not re.search(rf"(?<![\d.,]){re.escape(said(drawn.value, one.unit))}", told), (seed, told)
    assert min(named.values()) >= 40, named


@every_problem
def test_the_answer_can_be_typed_in_its_unit(one: PaperProblem):
    drawn = one.drawn(1)
    assert is_right(drawn, typed(said(drawn.value, one.unit), one.unit))
    assert scale_of(one.unit)[1] > 0


@every_problem
def test_a_constant_has_its_source(one: PaperProblem):
    drawn = one.drawn(2)
    has_constants = re.search("TFLOP/s|GB/s|billion|[ABHV][123]00|T4", drawn.text)
    assert drawn.sources or "uppose" in drawn.text or not has_constants, one.name


@pytest.mark.parametrize(("name", "seed", "answer"), BY_HAND, ids=[f"{name}-{seed}" for name, seed, _ in BY_HAND])
def test_who_works_by_hand_from_the_text_alone_is_right(name, seed, answer):
    one = next(one for one in PROBLEMS if one.name == name)
    assert math.isclose(one.drawn(seed).value, answer, rel_tol=0.02)


def test_three_draws_of_each_problem_were_worked_by_hand():
    worked = {one.name: {seed for name, seed, _ in BY_HAND if name == one.name} for one in PROBLEMS}
    assert {name for name, seeds in worked.items() if len(seeds) < 3} == set()
