"""Every exercise and quiz of every lesson: its catalogue is true, its solution passes, its stub is no attempt."""

from __future__ import annotations

import re

import pytest
from dear_exercises import DEAR

from course_lib.authoring.bench.judging import kept_answers
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.checks.reference import place_of, reference_answer, source_with
from course_lib.lessons.regions import learner_text

EXERCISES = [one for lesson in exercises.lesson_numbers() for one in exercises.exercises_of(lesson)]
QUESTIONS = [(lesson, q) for lesson in exercises.lesson_numbers() for q in exercises.quiz_of(lesson)]

# An attempt at a job of the capstone takes seconds on four or eight ranks. The pages, which run each time, check each
# solution by one, and `tests/lessons/test_lesson_14_judge.py` tells every mistake from results that nobody has run.
BY_ATTEMPTS = ("14.one", "14.two", "14.three")


def waits(one, *, also=False):
    """The marks of a trial that runs with ``--long`` alone."""
    return [pytest.mark.long] if also or one.name in BY_ATTEMPTS or one.name in DEAR else []


MISTAKES = [  # the commonest one of every fourth exercise; the others with --long
    pytest.param(
        one,
        mistake,
        id=f"{one.name}:{mistake.name}",
        marks=waits(one, also=place >= 1 or number % 4 != 1),
    )
    for number, one in enumerate(EXERCISES)
    for place, mistake in enumerate(one.mistakes)
]
RIGHT_ANSWERS = [  # one of every eighth exercise; the rest with --long, and in `course bench judges`
    pytest.param(
        one,
        answer,
        id=f"{one.name}:{getattr(answer, '__name__', place)}",
        marks=waits(one, also=place >= 1 or number % 8 != 3),
    )
    for number, one in enumerate(EXERCISES)
    for place, answer in enumerate(kept_answers.right_answers(one.name))
]
by_name = pytest.mark.parametrize("exercise", [pytest.param(one, id=one.name) for one in EXERCISES])
by_trial = pytest.mark.parametrize("exercise", [pytest.param(one, id=one.name, marks=waits(one)) for one in EXERCISES])
by_question = pytest.mark.parametrize(
    ("lesson", "question"), [pytest.param(lesson, q, id=f"{lesson}.{q.name}") for lesson, q in QUESTIONS]
)

pytestmark = pytest.mark.xdist_group("exercises")  # one process: ranks and oracles are warm after the first


def test_there_are_exercises():
    assert len(EXERCISES) >= 2
    names = [one.name for one in EXERCISES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES)
def test_each_mistake_gets_its_own_message(exercise, mistake):
    verdict = judged(exercise, kept_answers.examples(exercise.name)[mistake.name])
    assert (verdict.status, verdict.mistake) == ("not yet", mistake.name), verdict
    assert verdict.message == mistake.message


# The solutions, which run each time, hand in every reference.
@pytest.mark.first_cases(6)
@by_trial
def test_the_reference_solution_passes(exercise):
    verdict = judged(exercise, reference_answer(exercise.name))
    assert verdict.passed, verdict
    assert verdict.message == exercise.passed
    assert not verdict.warning, "it would fail on NCCL"


@pytest.mark.parametrize(("exercise", "answer"), RIGHT_ANSWERS)
def test_a_right_answer_of_another_style_passes(exercise, answer):
    verdict = judged(exercise, answer)
    assert verdict.passed, verdict


@by_name
def test_there_is_an_answer_that_makes_each_mistake(exercise):
    assert kept_answers.examples(exercise.name).keys() == {mistake.name for mistake in exercise.mistakes}
    assert (kept_answers.forbidden_answer(exercise.name) is not None) == bool(exercise.forbidden)


@by_name
def test_there_are_right_answers_of_three_other_styles(exercise):
    assert len(kept_answers.right_answers(exercise.name)) >= 3


# The learners' copies, which run each time, hand in every stub.
@pytest.mark.first_cases(6)
@by_trial
def test_the_learners_stub_is_not_attempted(exercise, tmp_path):
    source = source_with(exercise.name)
    copy = tmp_path / source.name
    copy.write_text(learner_text(source.read_text(encoding="utf-8"), lambda line: f"{source.name}:{line}"))
    verdict = judged(exercise, reference_answer(exercise.name, copy))
    assert verdict.status == "not attempted", verdict


@pytest.mark.first_cases(12)
@by_name
def test_a_right_answer_by_a_forbidden_way_is_told_so(exercise):
    if exercise.forbidden:
        verdict = judged(exercise, kept_answers.forbidden_answer(exercise.name))
        assert verdict.status == "forbidden", verdict
        assert any(name in verdict.message for name in exercise.forbidden)


@by_name
def test_an_exercise_is_whole(exercise):
    assert exercise.lesson in exercises.lesson_numbers()
    assert exercise.mistakes, "an exercise names the usual wrong answers"
    assert len(set(exercise.hints)) == 3
    texts = [
        exercise.title,
        exercise.passed,
        *exercise.hints,
        *(mistake.message for mistake in exercise.mistakes),
    ]
    assert all(text.strip() for text in texts)
    assert len({mistake.message for mistake in exercise.mistakes}) == len(exercise.mistakes)
    for text in texts:
        assert not re.search(r"\b(simply|just|obviously|trivial)\b", text, re.IGNORECASE), text


@by_name
def test_the_solution_can_be_found_by_a_learner(exercise):
    place = place_of(exercise.name)
    assert place.heading
    assert re.fullmatch(rf"notebooks/solutions/{exercise.lesson}[a-z]?_\w+\.ipynb", place.notebook)


@by_question
def test_a_question_has_one_right_choice_and_a_sentence_for_each_other(lesson, question):
    right = [choice for choice in question.choices if choice == question.answer()]
    assert len(right) == 1, f"{question.answer()!r} is to be one of {question.choices}"
    wrong = {choice for choice in question.choices if choice != right[0]}
    assert set(question.misconceptions) == wrong
    shown = [question.show(choice) for choice in question.choices]
    assert len(set(shown)) == len(shown)
    assert all(text.strip() for text in (question.text, question.because, *question.misconceptions.values()))


def test_questions_have_names_of_their_own():
    names = [f"{lesson}.{question.name}" for lesson, question in QUESTIONS]
    assert names
    assert len(set(names)) == len(names)
