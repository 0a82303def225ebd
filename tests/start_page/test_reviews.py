"""Missed questions are asked again after 1, 3, 7 and 21 days, two a day, and a wrong answer begins anew."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from start_page.conftest import MONDAY, Planted

from course_lib.learn import exercises
from course_lib.start_page.review_session import ReviewSession, item_of
from course_lib.start_page.reviews import ReviewState, due_on, review_states
from course_lib.start_page.terminal import ask_in_terminal


def after(days: int) -> date:
    return MONDAY + timedelta(days=days)


def event(happened: str, name: str, days: int, **fields: Any) -> dict[str, Any]:
    day = after(days)
    return {"time": f"{day.isoformat()}T12:00:00+00:00", "event": happened, "name": name, **fields}


def test_what_was_right_at_once_is_never_asked_again() -> None:
    assert review_states([event("quiz", "04.bytes", 0, right=True), event("predict", "04.a", 0, right=True)]) == []


def test_a_missed_question_comes_after_1_3_7_and_21_days_and_then_no_more() -> None:
    events = [event("quiz", "04.bytes", 0, right=False)]
    day = 0
    for wait in (1, 3, 7, 21):
        (state,) = review_states(events)
        assert (state.missed_on, state.due_on) == (MONDAY, after(day + wait))
        day += wait
        assert due_on(events, after(day - 1)) == []
        assert due_on(events, after(day)) == [state]
        events.append(event("review", "04.bytes", day, kind="quiz", right=True))
    assert review_states(events) == []


def test_a_wrong_answer_begins_anew() -> None:
    events = [
        event("quiz", "04.bytes", 0, right=False),
        event("review", "04.bytes", 1, kind="quiz", right=True),
        event("review", "04.bytes", 4, kind="quiz", right=False),
    ]
    (state,) = review_states(events)
    assert (state.step, state.due_on) == (0, after(5))


def test_a_right_answer_before_its_day_changes_nothing() -> None:
    events = [event("quiz", "04.bytes", 0, right=False), event("quiz", "04.bytes", 0, right=True)]
    assert [state.due_on for state in review_states(events)] == [after(1)]


def test_two_a_day_the_oldest_first_and_those_of_today_counted() -> None:
    events = [event("quiz", f"04.{name}", days, right=False) for days, name in enumerate("abcd")]
    assert [one.name for one in due_on(events, after(9))] == ["04.a", "04.b"]
    events.append(event("review", "04.a", 9, kind="quiz", right=True))
    assert [one.name for one in due_on(events, after(9))] == ["04.b"]
    events.append(event("review", "04.b", 9, kind="quiz", right=False))
    assert due_on(events, after(9)) == []
    assert [one.name for one in due_on(events, after(10))] == ["04.c", "04.d"]


def test_a_prediction_and_a_question_of_one_name_are_two() -> None:
    events = [event("quiz", "04.bytes", 0, right=False), event("predict", "04.bytes", 1, right=False)]
    assert [one.kind for one in review_states(events)] == ["quiz", "prediction"]


def test_a_shown_way_counts_as_missed_and_a_bet_does_not() -> None:
    events = [event("problem", "04.sent", 0, shown=True), event("predict", "13.A1", 0, kind="bet", right=False)]
    assert [(one.kind, one.name) for one in review_states(events)] == [("problem", "04.sent")]


@pytest.mark.parametrize("damage", [{"time": "yesterday"}, {"time": None}, {"right": "no"}, {"right": None}])
def test_events_that_cannot_be_read_are_left_out(damage: dict[str, Any]) -> None:
    assert review_states([event("quiz", "04.bytes", 0, right=False) | damage]) == []


# --- Asked again --------------------------------------------------------------------------------------------------


def state(kind: str, name: str) -> ReviewState:
    return ReviewState(kind, name, MONDAY, after(1))


def test_a_question_of_a_quiz_is_judged_and_not_given_away() -> None:
    item = item_of(state("quiz", "00.mean"), [])
    question = next(one for one in exercises.quiz_of("00") if one.name == "mean")
    right = question.show(question.answer())
    assert item is not None
    for choice in item.choices:
        is_right, said = item.judge(choice)
        assert is_right == (choice == right)
        assert (right in said.split(".")[0]) == is_right
    with pytest.raises(ValueError, match="'zz' is no choice; type a letter from a to d"):
        item.judge("zz")


def test_a_prediction_is_held_against_the_run_that_was_seen() -> None:
    unit = exercises.prediction("00.sum").unit
    run = event("predict", "00.sum", 0, kind="number", unit=unit, right=False, measured=2.0, model=1.0)
    item = item_of(state("prediction", "00.sum"), [run])
    assert item is not None
    assert [item.judge(text)[0] for text in ("2", f"2.1 {unit}", "1", "30")] == [True, True, True, False]
    assert item_of(state("prediction", "00.sum"), []) is None
    assert item_of(state("prediction", "00.sum"), [run | {"unit": "weeks"}]) is None
    with pytest.raises(ValueError, match="apple"):
        item.judge("apple")


def test_a_problem_is_asked_with_numbers_that_are_open(learner: Planted) -> None:
    item = item_of(state("problem", "04.sent"), learner.events)
    assert item is not None
    right, said = item.judge("0.000001")
    assert not right
    assert said.startswith("✗")
    assert learner.events[-1]["event"] == "problem"


def test_what_the_course_no_longer_has_is_left_out() -> None:
    for gone in (state("quiz", "00.gone"), state("prediction", "00.gone"), state("problem", "00.gone")):
        assert item_of(gone, []) is None


def test_answers_are_kept_and_a_stop_keeps_those_given(learner: Planted) -> None:
    for name in ("ranks", "mean"):
        learner.did("quiz", f"00.{name}", right=False)
    session = ReviewSession(due_on(learner.events, after(1)), learner.events)
    typed = iter(["zz", "a", "q"])
    told: list[str] = []
    assert not ask_in_terminal(session, read=lambda ask: next(typed), tell=told.append)
    assert "✗ 'zz' is no choice; type a letter from a to d." in told
    reviews = [one for one in learner.events if one["event"] == "review"]
    assert [(one["name"], one["kind"]) for one in reviews] == [("00.mean", "quiz")]


def test_the_end_of_the_input_stops(learner: Planted) -> None:
    learner.did("quiz", "00.mean", right=False)

    def closed(ask: str) -> str:
        raise EOFError

    session = ReviewSession(due_on(learner.events, after(1)), learner.events)
    assert not ask_in_terminal(session, read=closed, tell=lambda text: None)


def test_the_form_asks_by_choices_and_says_what_is_wrong(learner: Planted) -> None:
    learner.did("quiz", "00.mean", right=False)
    learner.did("predict", "00.sum", kind="number", right=False, measured=2.0, unit=exercises.prediction("00.sum").unit)
    form = ReviewSession(due_on(learner.events, after(1)), learner.events).form()
    assert form.choice is not None
    assert form.box is None
    assert form.question.children == (form.text, form.choice)
    assert "<strong>" in form.text.value  # keys.js names the radio buttons by it
    form.button.click()
    assert "Give an answer first" in form.feedback.value
    form.choice.value = 0
    form.button.click()
    assert form.choice is None
    assert form.box is not None
    form.box.value = "apple"
    form.button.click()
    assert "✗" in form.feedback.value
    assert form.box.value == "apple"
    form.unknown.click()
    assert "That is all for today." in form.text.value
    assert form.button.disabled
    assert form.unknown.disabled
