"""Quizzes: computed answers, feedback by misconception, by form and by code; hints and solutions."""

from __future__ import annotations

import pytest

from course_lib.learn import exercises, hint, quiz, solution
from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.learn.checks import hints
from course_lib.learn.judging.judge import by_value
from course_lib.learn.quizzes import answers
from course_lib.learn.quizzes.quiz_form import QuizForm

BYTES = Question(
    name="bytes",
    text="How many bytes?",
    choices=(4, 12),
    answer=lambda: 4 * 3,
    show=lambda n: f"{n} bytes",
    misconceptions={4: "Those are the weights alone."},
    because="Three numbers of four bytes.",
)
WHO = Question(
    name="who",
    text="Who waits?",
    choices=("rank 0", "all"),
    answer=lambda: "all",
    misconceptions={"rank 0": "A collective is entered by every rank."},
    because="It is collective.",
)
LATER = Question(
    name="later",
    part="f",
    text="And in part f?",
    choices=(1, 2),
    answer=lambda: 1 + 1,
    misconceptions={1: "That is one."},
    because="One and one.",
)
ONE = Exercise(name="99.one", title="One", judge=by_value(1), mistakes=(), hints=("nudge", "idea", "line"))


@pytest.fixture(autouse=True)
def lesson(monkeypatch):
    monkeypatch.setattr(exercises, "quiz_of", lambda lesson: (BYTES, WHO, LATER) if lesson == "99" else ())
    monkeypatch.setattr(exercises, "exercise", lambda name: {"99.one": ONE}[name])
    monkeypatch.setattr(hints, "_given", {})


def test_a_quiz_is_text_without_a_front_end(capsys):
    found = quiz("99")
    text = capsys.readouterr().out
    assert text == repr(found) + "\n"
    assert "1. How many bytes?  [bytes]\n   a) 4 bytes\n   b) 12 bytes\n2. Who waits?" in text


def test_answers_by_letter_and_by_value():
    found = quiz("99")
    assert "✗ Not 4 bytes. Those are the weights alone." in repr(found.answer("bytes", "a"))
    assert "✓ Right: 12 bytes. Three numbers" in repr(found.answer("bytes", 12))
    assert (found.tries["bytes"], found.right) == (2, {"bytes"})
    assert found.standing() == "1 of 2 questions answered right."
    assert "entered by every rank" in repr(found.answer("who", "rank 0"))


@pytest.mark.parametrize(("name", "choice", "words"), [("size", "a", "bytes, who"), ("bytes", "c", "from a to b")])
def test_a_wrong_name_or_letter_is_told(name, choice, words):
    with pytest.raises(ValueError, match=words):
        quiz("99").answer(name, choice)


def test_a_lesson_without_a_quiz_is_told():
    with pytest.raises(ValueError, match="no quiz"):
        quiz("98")


def test_a_part_that_comes_later_has_a_quiz_of_its_own(capsys, monkeypatch):
    kept = []
    monkeypatch.setattr(answers, "record", lambda event, name, **_: kept.append((event, name)))
    found = quiz("99f")
    text = capsys.readouterr().out
    assert text.startswith("Quiz of part 99f, ")
    assert text.endswith("\n1. And in part f?  [later]\n   a) 1\n   b) 2\n")
    assert "✓ Right: 2." in repr(found.answer("later", "b"))
    assert kept == [("quiz", "99.later")]  # as all others of the lesson, whose progress counts it
    assert "later" not in quiz("99").tries


@pytest.mark.parametrize("label", ["99a", "99F", "99ff"])
def test_a_part_without_a_quiz_hears_which_there_are(label):
    with pytest.raises(ValueError, match="has no quiz") as raised:
        quiz(label)
    assert str(raised.value) == f'\'{label}\' has no quiz. Lesson 99 has quiz("99"), quiz("99f").'


@pytest.mark.parametrize("lesson", ["", "4", "99", 4, None, 4.5, b"04", ["04"], ("04",), {}])
def test_what_is_no_lesson_is_refused_in_a_sentence(monkeypatch, lesson):
    monkeypatch.undo()
    with pytest.raises(ValueError, match="a lesson is two digits"):
        quiz(lesson)


def test_the_form_gives_feedback_and_closes_a_question_that_is_right():
    form = QuizForm(quiz("99"))
    first = form.questions[0]
    first.button.click()
    assert "Choose an answer" in first.feedback.value
    first.choice.value = 0
    assert "weights alone" not in first.feedback.value  # selecting gives nothing away
    first.button.click()
    assert "weights alone" in first.feedback.value
    assert not first.choice.disabled
    first.choice.value = 1
    first.button.click()
    assert "✓ Right" in first.feedback.value
    assert first.choice.disabled
    assert "1 of 2" in form.standing.value


def test_a_question_whose_sentence_fits_no_choice_is_refused():
    with pytest.raises(ValueError, match="not among"):
        Question(name="a", text="", choices=(1, 2), answer=lambda: 1, misconceptions={3: "x"}, because="")
    with pytest.raises(ValueError, match="two at least"):
        Question(name="a", text="", choices=(1,), answer=lambda: 1, misconceptions={}, because="")


def test_hints_come_one_by_one_and_end():
    texts = [repr(hint("99.one")) for _ in range(5)]
    assert texts[:3] == [
        "99.one, hint 1 of 3: nudge",
        "99.one, hint 2 of 3: idea",
        "99.one, hint 3 of 3: line",
    ]
    assert 'solution("99.one")' in texts[3]
    assert texts[3] == texts[4]


def test_hint_and_solution_of_an_unknown_exercise_tell_so(monkeypatch):
    monkeypatch.undo()
    assert "no exercise '99.two'" in repr(hint("99.two"))
    assert "no exercise '99.two'" in repr(solution("99.two"))
