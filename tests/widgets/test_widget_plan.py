"""The plan explorer, driven without a front end."""

from __future__ import annotations

import io
import re
from html import unescape

import pytest
from PIL import Image

from course_lib.plan import Option, Refusal
from course_lib.widgets import OwnCut, PlanChoice, PlanExplorer
from course_lib.widgets.plan.choice import MACHINES, MODELS, SEQ
from course_lib.widgets.plan.search import best_of_cuts, planned
from course_lib.widgets.plan.words import loses, seconds_text


@pytest.fixture
def explorer() -> PlanExplorer:
    return PlanExplorer()


def words_of(explorer: PlanExplorer) -> str:
    return unescape(explorer.words.value.replace("<br>", " "))


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "llama-3-8"}, "model is 'llama-3-8'; it is one of gpt-2-xl, llama-3-8b"),
        ({"machine": "8xH100"}, "Did you mean '8x H100'"),
        ({"gpus": 0}, "gpus=0 does not work: gpus is a whole number of at least 1"),
        ({"gpus": 8192}, "gpus is at most 4,096"),
        ({"gpus": 12}, "gpus is 12; above 8, the GPUs of one machine, it is a multiple of 8. The nearest is 16."),
        ({"gpus": 96, "machine": "72x GB200"}, "The nearest is 72."),
        ({"seq": 8000}, "seq is '8000'; it is one of 512, 1024"),
        ({"seq": "8192"}, "seq='8192' does not work"),
        ({"batch": 0}, "batch=0 does not work: batch is a whole number of at least 1"),
        ({"batch": 10**6}, "batch is at most 8,192"),
        ({"tp": 0}, "tp=0 does not work: tp is a whole number of at least 1"),
        ({"cp": 257}, "cp is at most 256"),
        ({"micro_batch": 1.5}, "micro_batch=1.5 does not work"),
        ({"sharding": 4}, "sharding is at most 3"),
        ({"sharding": "3"}, "sharding='3' does not work"),
        ({"recompute": "fully"}, "Did you mean 'full'"),
        ({"nodes": 2}, "setting is 'nodes'; it is one of model, machine, gpus"),
    ],
)
def test_what_is_no_choice_gets_a_sentence_and_moves_no_control(explorer, given, said):
    image = explorer.image.value
    with pytest.raises(ValueError, match=re.escape(said)):
        explorer.choose(**{"tp": 2, **given})
    assert (explorer.choice, explorer.own) == (PlanChoice(), OwnCut())
    assert explorer.image.value == image


def test_it_starts_with_a_plan_a_picture_and_all_of_it_in_words(explorer):
    assert Image.open(io.BytesIO(explorer.image.value)).format == "PNG"
    words, plan = words_of(explorer), planned(PlanChoice())
    best, second, *_ = best_of_cuts(plan, 4)
    assert "llama-3-8b, 64 sequences of 8,192 tokens a step, 8 GPUs of 8x H100. The best layout" in words
    assert f"is {best.layout}: {seconds_text(best.step_s)} a step, {PlanChoice().share_of_peak(best):.0%} of" in words
    assert re.search(r"Its time: computing \d+%, .*\. Its memory: [\d.]+ GB of 79\.5 GB, [a-z ]+ \d+%,", words)
    assert f"The next cut, {second.layout}, {loses(second, best)}, most of it by " in words
    own = OwnCut().judged(PlanChoice())
    assert isinstance(own, Option)
    assert f"Your layout, {own.layout}, {loses(own, best)}, most of it by computing (+" in words
    assert explorer.missions.count("not yet") == 3
    assert explorer.words.value.startswith("<div role='status'>")
    assert repr(explorer) == (
        "Plan explorer (llama-3-8b, 64 sequences of 8,192 tokens a step, 8 GPUs of 8x H100): "
        f"{best.layout}, {seconds_text(best.step_s)} a step; missions reached: 0 of 3"
    )


def test_every_control_has_a_name_and_none_is_a_slider(explorer):
    controls = [child for row in explorer.children[:2] for child in row.children]
    assert [control.description for control in controls] == [
        "model", "machine", "GPUs", "tokens a sequence", "sequences a step",
        "yours: tp", "cp", "pp", "ep", "micro-batch", "shared out", "recomputed", "take the planner's",
    ]  # fmt: skip
    assert {type(control).__name__ for control in controls} == {"BoundedIntText", "Dropdown", "Button"}


@pytest.mark.parametrize(
    ("control", "value", "said"),
    [
        ("model", "mixtral-8x7b", "mixtral-8x7b, 64 sequences"),
        ("machine", "8x B200", "8 GPUs of 8x B200."),
        ("gpus", 16, "16 GPUs of 8x H100."),
        ("seq", 4096, "64 sequences of 4,096 tokens"),
        ("batch", 128, "128 sequences of 8,192 tokens"),
        ("tp", 2, "Your layout, tp2 dp4 mb1 zero3 sp full, "),
        ("cp", 2, "Your layout, cp2 dp4 mb1 zero3 full, "),
        ("pp", 2, "Your layout, pp2 dp4 mb1 zero3 full, "),
        (
            "ep",
            2,
            "dp8 ep2 mb1 zero3 full, is not possible: ep=2 shares out experts, and this model has none: the nearest "
            "is 1.",
        ),
        ("micro_batch", 2, "Your layout, dp8 mb2 zero3 full, "),
        ("sharding", 2, "Your layout, dp8 mb1 zero2 full, "),
        ("recompute", "selective", "Your layout, dp8 mb1 zero3 selective, "),
    ],
)
def test_every_control_redraws_and_says_so(explorer, control, value, said):
    image = explorer.image.value
    getattr(explorer, control).value = value
    assert explorer.image.value != image
    assert said in words_of(explorer)
    assert explorer.picture().alt in words_of(explorer)


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"tp": 3}, "Your layout is not possible: tp=3 does not divide 8 GPUs: the nearest is 2."),
        (
            {"tp": 2, "pp": 8},
            "Your layout is not possible: pp=8 does not divide the 4 GPUs that tp2 leaves: the nearest is 4.",
        ),
        (
            {"tp": 2, "pp": 2, "cp": 4},
            "cp=4 does not divide the 2 GPUs that tp2 pp2 leaves: the nearest is 2.",
        ),
        ({"tp": 8, "cp": 2}, "cp=2 does not divide the 1 GPU that tp8 leaves: the nearest is 1."),
        (
            {"tp": 8},
            "cannot be: sharding 3 shards states among the ranks of dp and cp: here that is 1 rank, so take sharding "
            "0.",
        ),
        (
            {"pp": 2, "sharding": 2},
            "cannot be: sharding 2 drops most of a gradient after each micro-batch, while a pipeline",
        ),
        ({"micro_batch": 3}, "do not divide a batch of 64: the nearest batch is 72."),
        ({"sharding": 0}, "does not fit: "),
    ],
)
def test_a_layout_that_cannot_be_is_told_and_no_setting_is_lost(explorer, own, said):
    explorer.choose(**own)
    words = words_of(explorer)
    assert said in words
    assert "The best layout that the planner found" in words  # the planner's are there all the same
    assert said in explorer.picture().alt
    assert explorer.own == OwnCut(**own)
    explorer.choose(**{name: getattr(OwnCut(), name) for name in own})
    assert explorer.own == OwnCut()


def test_what_does_not_fit_says_by_how_much_and_what_would_have_to_change(explorer):
    explorer.choose(sharding=0)
    found = explorer.own.judged(explorer.choice)
    assert isinstance(found, Refusal)
    assert f"does not fit: {found.why}. To make it fit: {found.instead}." in words_of(explorer)
    assert "optimizer" in found.why


def test_gpus_that_fill_no_machines_are_told_and_no_setting_is_lost(explorer):
    explorer.choose(gpus=16, tp=2)
    explorer.gpus.value = 12
    said = "gpus is 12; above 8, the GPUs of one machine, it is a multiple of 8. The nearest is 16."
    assert said in words_of(explorer)
    assert explorer.picture().alt == said
    assert said in repr(explorer)
    assert explorer.take.disabled
    assert explorer.missions.splitlines()[0] == "mission 1: not yet. These GPUs make no cluster."
    explorer.machine.value = "4x RTX 4090"
    assert "12 GPUs of 4x RTX 4090" in words_of(explorer)
    explorer.choose(machine="8x H100", gpus=16)
    assert explorer.choice == PlanChoice(gpus=16)
    assert explorer.own == OwnCut(tp=2)
    assert not explorer.take.disabled


def test_a_job_that_runs_nowhere_says_what_is_nearest_and_how_many_gpus_hold_it(explorer):
    explorer.model.value = "llama-3-405b"
    words, nearest = words_of(explorer), planned(explorer.choice).nearest
    assert nearest is not None
    assert f"no layout runs on these 8 GPUs. The nearest is {nearest.layout}: {nearest.why}." in words
    enough = int(re.search(r"(\d+) GPUs hold it", words)[1])
    assert planned(PlanChoice("llama-3-405b", gpus=enough)).best is not None
    assert planned(PlanChoice("llama-3-405b", gpus=enough // 2)).best is None
    assert explorer.take.disabled
    assert repr(explorer).startswith("Plan explorer (llama-3-405b, ")
    assert "): nothing runs; missions" in repr(explorer)
    explorer.model.value = "llama-3-8b"
    assert explorer.choice == PlanChoice()


def test_a_batch_that_is_too_small_for_the_gpus_says_so(explorer):
    explorer.choose(model="gpt-2-xl", gpus=64, batch=1)
    said = "The ranks of the data axis share the sequences evenly. Take a batch of 64, one sequence a GPU,"
    assert said in words_of(explorer)
    for other in ({"batch": 64}, {"batch": 1, "gpus": 1}):
        explorer.choose(**other)
        assert "The best layout that the planner found" in words_of(explorer)


def test_no_number_of_gpus_that_can_be_chosen_may_be_enough(explorer, monkeypatch):
    monkeypatch.setattr("course_lib.widgets.plan.communication_optimal.fits", lambda *_: False)
    explorer.choose(model="llama-3-405b")
    assert "more of these GPUs: no number up to 4,096 of these GPUs holds it." in words_of(explorer)


def test_the_planner_s_best_can_be_taken_and_then_turned(explorer):
    explorer.choose(gpus=32, model="llama-3-70b")
    best = planned(explorer.choice).best
    explorer.take.click()
    assert best is not None
    assert explorer.own.layout(32) == best.layout
    assert f"Your layout, {best.layout}, is the best: " in words_of(explorer)
    explorer.choose(micro_batch=2 * best.layout.micro_batch)
    assert "is the best" not in words_of(explorer)
    explorer.choose(model="llama-3-405b", gpus=8)
    own = explorer.own
    explorer.take.click()  # a cell can, where the button is disabled
    assert explorer.own == own


def test_a_setting_is_drawn_once_and_what_is_not_given_stays(explorer, monkeypatch):
    drawn = []
    blank = explorer._board.blank("")
    monkeypatch.setattr(explorer._board, "draw", lambda rows, own, *_, **__: drawn.append(own.name) or blank)
    explorer.choose(gpus=16, tp=2, pp=2)
    explorer.choose(recompute="selective")
    assert drawn == ["yours: tp2 pp2 dp4 mb1 zero3 sp full", "yours: tp2 pp2 dp4 mb1 zero3 sp selective"]


def test_a_plan_is_worked_out_once(explorer, monkeypatch):
    explorer.choose(gpus=16)
    monkeypatch.setattr("course_lib.widgets.plan.search._cuts", lambda _: pytest.fail("planned again"))
    explorer.choose(gpus=8)
    explorer.choose(tp=2)
    assert "Your layout, tp2" in words_of(explorer)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_and_every_model_are_planned(explorer, machine):
    for model, seq in zip(MODELS, (SEQ[0], SEQ[3], SEQ[4], SEQ[5], SEQ[4]), strict=True):
        explorer.choose(machine=machine, model=model, gpus=4, seq=seq, batch=16)
        assert ("The best layout that" in words_of(explorer)) != ("no layout runs" in words_of(explorer))
