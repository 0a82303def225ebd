"""``ask`` and ``reveal``: questions by name; what is told when run and model agree, and when they are apart."""

from __future__ import annotations

import re

import pytest

from course_lib.learn import ask, exercises, reveal
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.predictions import asking


def _idle(run: float, model: float = 43.0) -> Explanation:
    return Explanation(measured=run, model=model, because="It waits.", misreadings={25: "One device.", 63: "Stairs."})


@pytest.fixture
def four(monkeypatch):
    """A question of a lesson that is not there, as if it were."""
    asked = Asked(name="99.four", question="How much is idle?", unit="%", high=100, tell=_idle)
    choice = Asked(
        name="99.which", question="Which?", choices=("a", "b"),
        tell=lambda run: Explanation(measured=run, model="b", because="So it is.", misreadings={"b": "Not b."}),
    )  # fmt: skip
    by_name = {one.name: one for one in (asked, choice)}
    monkeypatch.setattr(asking.exercises, "prediction", by_name.__getitem__)
    for name in by_name:
        ask(name).reset()
    return asked


def sentences(shown: object) -> str:
    return repr(shown).split(".\n  ", 1)[1]


def test_a_question_is_asked_by_its_name_and_remembered(four):
    assert ask("99.four").question == "How much is idle?"
    assert "Lock a number in %" in repr(ask("99.four"))
    ask("99.four").commit(40)
    assert ask("99.four").value == 40
    with pytest.raises(ValueError, match=r"outside 99\.four's range from 0 to 100"):
        ask("99.four").lock(101)


def test_a_form_follows_what_is_done_by_the_name_of_its_question(four):
    """The form of one cell, an answer in code in a second, the reveal in a third."""
    form = ask("99.four").form()
    assert not form.inputs[0].disabled
    ask("99.four").commit(40)
    assert form.inputs[0].disabled
    assert "Locked: 40 %" in form.status.value
    ask("99.four").reset()
    assert not form.inputs[0].disabled
    reveal("99.four", 44.0)
    assert form.inputs[0].disabled
    assert "has been shown" in form.status.value


def test_an_answer_that_agrees_with_the_run_is_right(four):
    ask("99.four").commit(45)
    shown = reveal("99.four", 44.0)
    assert shown.is_right
    assert not shown.is_apart
    assert sentences(shown) == "Your prediction: 1 percentage point too much.\n  It waits."


def test_an_answer_that_agrees_with_the_model_is_right_though_the_run_is_noisy(four):
    ask("99.four").commit(43)
    shown = reveal("99.four", 63.0)
    assert shown.is_right
    assert shown.is_apart
    told = sentences(shown)
    assert told.startswith(
        "Your prediction, held against the cost model: exactly right; against the run: 20 percentage points too little."
    )
    assert "Here the cost model and the run are apart. Run the cells above once more." in told


def test_an_answer_that_agrees_with_the_noisy_run_is_right_and_called_no_misreading(four):
    ask("99.four").commit(63)
    shown = reveal("99.four", 63.0)
    assert shown.is_right
    assert "Stairs." not in repr(shown)


def test_a_wrong_answer_hears_what_it_mixes_up(four):
    ask("99.four").commit(25)
    shown = reveal("99.four", 44.0)
    assert not shown.is_right
    assert "One device." in repr(shown)


def test_a_choice_may_agree_with_the_model_alone(four):
    ask("99.which").commit("b")
    shown = reveal("99.which", "a")
    assert shown.is_right
    assert sentences(shown).startswith("Not as you predicted. It is what the cost model says.")
    assert "Not b." not in repr(shown)
    ask("99.which").reset()
    ask("99.which").commit("b")
    assert sentences(reveal("99.which", "b")) == "As you predicted.\n  So it is."


def test_a_lesson_can_say_what_may_be_behind_a_disagreement(four, monkeypatch):
    asked = Asked(
        name="99.x", question="?", tell=lambda run: Explanation(measured=run, model=1, because="B.", apart="Pin it.")
    )
    monkeypatch.setattr(asking.exercises, "prediction", lambda name: asked)
    assert "Here the cost model and the run are apart. Pin it." in repr(reveal("99.x", 9))
    assert "apart" not in repr(reveal("99.x", 1.2))


@pytest.mark.parametrize(
    ("arguments", "named", "sentence"),
    [
        ((), {}, '99.four tells of what the cells above have run, so write reveal("99.four", run, model'),
        ((1.0, 2.0, 3.0), {}, "it was given 1.0, 2.0, 3.0"),
        ((), {"rum": 3}, "it was given rum=3"),
    ],
)
def test_a_reveal_without_its_run_says_how_to_write_it(four, arguments, named, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        reveal("99.four", *arguments, **named)


def test_a_name_that_no_lesson_has():
    for call in (ask, reveal):
        with pytest.raises(ValueError, match="There is no prediction 'nonsense'"):
            call("nonsense")
    with pytest.raises(ValueError, match="There is no prediction 3"):
        ask(3)


# -- the course's own ------------------------------------------------------------------------------------------------

ALL = [asked for lesson in exercises.lesson_numbers() for asked in exercises.predictions_of(lesson)]


def test_names_are_unique_and_bear_their_lesson():
    names = [asked.name for asked in ALL]
    assert len(set(names)) == len(names)
    for lesson in exercises.lesson_numbers():
        assert all(asked.name.startswith(f"{lesson}.") for asked in exercises.predictions_of(lesson))


@pytest.mark.parametrize("asked", ALL, ids=lambda asked: asked.name)
def test_every_question_can_be_asked(asked):
    assert ask(asked.name).question == asked.question
