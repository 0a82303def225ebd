"""What part b of lesson 11 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

from functools import cached_property

import pytest

from course_lib.cost import MeshStepTime
from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_11.predictions.terms import TERMS
from course_lib.learn.exercises.lesson_11.predictions.time import TIME
from course_lib.plan.runs.replayed import Replayed, replayed_runs

ASKED = {asked.name: asked for asked in (*TERMS, *TIME)}
ZERO, AXES = (replayed_runs(f"megatron-2021-t2-{name}") for name in ("zero3", "ptd"))
STEPS_S = [10.0, 10.5, 11.0, 11.1, 40.0, 80.0]


def played(steps_s):
    """Plans that fit, with what a rank waits for shared evenly by the axes."""
    found = {}
    for name, step_s in steps_s.items():
        axes = [word.partition("=")[0] for word in name.split()]
        found[name] = MeshStepTime(step_s, 0.18, {axis: (step_s - 0.18) / len(axes) for axis in axes})
    return found


HABIT, CROSSED, SHARDS = "dp_replicate=2 tp=2", "pp=2 dp_replicate=2", "dp_shard=4"
REST = ("pp=4", "pp=2 tp=2", "tp=4")
SLOW = played({SHARDS: 0.9, HABIT: 0.45, CROSSED: 0.28, **dict(zip(REST, (0.32, 0.41, 1.95), strict=True))})
EVEN = played({SHARDS: 0.184, HABIT: 0.26, CROSSED: 0.25, **dict(zip(REST, (0.26, 0.31, 0.36), strict=True))})
BET_S = {HABIT: 0.55, CROSSED: 0.33, "pp=4": 0.41}
EVEN_S = {CROSSED: 0.31, SHARDS: 0.28}


class Slow(Replayed):
    """A run whose planner says three times what it says, and a second more."""

    @cached_property
    def predicted_s(self) -> float:
        return 3 * self.of.step_s(self.of.profile.constants) + 1


RUNS = [  # name, what ran, what is measured, what the model says
    ("11.slots", AXES, 8.5, 8.4),
    ("11.fourfold", (*ZERO, AXES), 66.7, round(ZERO[1].predicted_s, 1)),
    ("11.near", (STEPS_S, 1.1), 3, None),
    ("11.near", (STEPS_S, 1.12), 4, None),
    ("11.hidden", (95.2, 200.0, 240.0, 4), 95, 90),
    ("11.hidden", (61.0, 400.0, 240.0, 4), 61, 60),
    ("11.bet", (BET_S, SLOW), CROSSED, CROSSED),
    ("11.bet", (BET_S | {"pp=4": 0.3}, SLOW), "pp=4", CROSSED),
    ("11.fast", (EVEN_S, EVEN), SHARDS, SHARDS),
]
USUAL = {name: runs for name, runs, *_ in reversed(RUNS)}  # of several runs the first


@pytest.fixture(autouse=True)
def nothing_predicted():
    for name in ASKED:
        ask(name).reset()
    yield
    for name in ASKED:
        ask(name).reset()


def test_every_prediction_is_tried():
    assert list(dict.fromkeys(name for name, *_ in RUNS)) == list(ASKED)


@pytest.mark.parametrize(("name", "runs", "measured", "model"), RUNS)
def test_a_run_is_told_as_it_was(name, runs, measured, model):
    told = ASKED[name].tell(*runs)
    assert told.measured == measured
    assert told.model == model
    if ASKED[name].choices is not None:
        assert told.measured in ASKED[name].choices


@pytest.mark.parametrize("name", ASKED)
def test_a_misreading_is_an_answer_that_can_be_given_and_is_wrong(name):
    runs = USUAL[name]
    for wrong, sentence in ASKED[name].tell(*runs).misreadings.items():
        ask(name).reset()
        if callable(wrong):
            wrong = next(guess for guess in (0.5, 3, 20, 23, 30, 40, 60, 300) if wrong(guess))
        ask(name).commit(wrong)
        shown = reveal(name, *runs)
        assert not shown.is_right
        assert shown.misreading == sentence
        assert sentence in repr(shown)


@pytest.mark.parametrize(("name", "runs"), [(name, runs) for name, runs, *_ in RUNS if ASKED[name].choices])
def test_every_wrong_choice_hears_why(name, runs):
    told = ASKED[name].tell(*runs)
    assert set(ASKED[name].choices) - {told.measured, told.model} == set(told.misreadings)


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("11.slots", (AXES[0], ZERO[1])),
        ("11.fourfold", (ZERO[0], Slow(ZERO[1].of, ZERO[1].elsewhere), AXES)),
        ("11.hidden", (160.0, 200.0, 240.0, 4)),
        ("11.bet", (BET_S | {"pp=4": 0.3}, SLOW)),
        ("11.fast", ({CROSSED: 0.3, SHARDS: 0.4}, EVEN)),
    ],
)
def test_a_run_far_from_the_model_is_called_so(name, runs):
    shown = reveal(name, *runs)
    assert shown.is_apart
    assert f"Here the cost model and the run are apart. {shown.apart}" in repr(shown)


def test_the_numbers_told_are_those_of_the_run():
    slots = ASKED["11.slots"].tell(*AXES).because
    for said in (
        "took 20.8 s",
        "With 12 stages, 384 micro-batches take 395 slots, and 96 take 107",
        "the second step is 20.8 s",
        "from 3% of the step to 10%",
    ):
        assert said in slots
    fourfold = ASKED["11.fourfold"].tell(*ZERO, AXES).because
    for said in (
        "give 1.2 times the speed",
        "1,536 sequences for 1,536 ranks are 1 for",
        "76.8 s on 384 and 20.8 s on",
    ):
        assert said in fourfold
    assert "6 layouts fit" in ASKED["11.near"].tell(STEPS_S, 1.1).because
    assert "the slowest takes 8 times as long" in ASKED["11.near"].tell(STEPS_S, 1.1).because
    assert "after 50 of 200 ms" in ASKED["11.hidden"].tell(90.0, 200.0, 240.0, 4).because
    assert (
        "computes 180 ms and waits 50 ms along pp and 50 ms along dp_replicate"
        in ASKED["11.bet"].tell(BET_S, SLOW).because
    )


@pytest.mark.parametrize(("name", "times_s", "steps"), [("11.bet", BET_S, SLOW), ("11.fast", EVEN_S, EVEN)])
def test_steps_are_called_longer_than_played_only_where_all_were(name, times_s, steps):
    assert "Measured steps are longer" in ASKED[name].tell(times_s, steps).because
    short = times_s | {CROSSED: steps[CROSSED].step_s}
    assert "Measured steps are longer" not in ASKED[name].tell(short, steps).because


def test_who_guesses_that_more_gpus_are_slower_hears_its_numbers():
    said = ASKED["11.fourfold"].tell(*ZERO, AXES).misreadings
    heard = [text for holds, text in said.items() if callable(holds) and holds(300)]
    assert [f"{ZERO[1].measured_s / ZERO[0].measured_s:.0%} of the time" in text for text in heard] == [True]


def test_what_was_measured_does_not_follow_the_planner():
    slow = [Slow(run.of, run.elsewhere) for run in ZERO]
    assert ASKED["11.fourfold"].tell(*slow, AXES).measured == 66.7


def test_a_bet_that_does_not_fit_is_told_so():
    told = ASKED["11.bet"].tell(BET_S, SLOW)
    assert "dp_replicate=4" not in SLOW
    assert told.misreadings["dp_replicate=4"].startswith("It does not fit")
    assert "waits" in told.misreadings[HABIT]
