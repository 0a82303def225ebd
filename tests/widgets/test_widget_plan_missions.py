"""The missions of the plan explorer: each can be reached, none is at the start, and what is lacking is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from course_lib.plan.search.constraints import divisors
from course_lib.plan.search.search_space import candidates
from course_lib.widgets import OwnCut, PlanChoice, PlanExplorer
from course_lib.widgets.plan.communication_optimal import fewer_that_hold, fits, more_that_hold
from course_lib.widgets.plan.missions import MISSIONS, PlanMission
from course_lib.widgets.plan.search import planned

SEVENTY = PlanChoice("llama-3-70b", gpus=8, batch=64)
EIGHT = PlanChoice("llama-3-8b", gpus=16, batch=128)
SMALL = PlanChoice("gpt-2-xl", gpus=8, seq=1024, batch=8)


def own_cuts(gpus: int) -> Iterator[OwnCut]:
    """Cuts of one's own, one sequence at a time."""
    for tp in divisors(gpus):
        for pp, cp in product(divisors(gpus // tp), (1, 2, 4, 8)):
            for sharding, recompute in product((1, 3), ("none", "selective")):
                yield OwnCut(tp=tp, cp=cp, pp=pp, sharding=sharding, recompute=recompute)


def solution(mission: PlanMission, choice: PlanChoice) -> OwnCut | None:
    return next((own for own in own_cuts(choice.gpus) if not mission.missed(choice, own)), None)


def reached(explorer: PlanExplorer) -> list[bool]:
    return [": reached (" in line for line in explorer.missions.splitlines()]


def test_none_is_reached_at_the_start_and_the_planner_s_best_reaches_none_there():
    explorer = PlanExplorer()
    assert reached(explorer) == [False] * 3
    explorer.take.click()
    assert reached(explorer) == [False] * 3


def test_seventy_billion_are_held_by_the_fewest_machines_alone():
    few = MISSIONS[0]
    solved = [gpus for gpus in (8, 16, 24, 32, 40, 64) if solution(few, replace(SEVENTY, gpus=gpus))]
    assert len(solved) == 1
    explorer = PlanExplorer()
    more = {"tp": 8, "cp": 2, "sharding": 3, "recompute": "none"}
    explorer.choose(model="llama-3-70b", gpus=2 * solved[0], **more)
    assert "It runs on 64 GPUs, and fewer would be enough." in explorer.missions
    own = solution(few, replace(SEVENTY, gpus=solved[0]))
    assert own is not None
    explorer.choose(gpus=solved[0], **vars(own))
    assert reached(explorer) == [True, False, False]
    explorer.choose(model="gpt-2-xl")  # once reached, it stays so
    assert reached(explorer) == [True, False, False]


def test_half_of_the_memory_costs_little_time_and_the_best_itself_is_no_answer():
    little = MISSIONS[1]
    own = solution(little, EIGHT)
    assert own is not None
    best = planned(EIGHT).best
    assert best is not None
    assert "Your layout needs" in little.missed(EIGHT, OwnCut.of(best.layout))
    slow = OwnCut(sharding=3, recompute="full")
    assert "of time; the mission allows a loss of at most 15%." in little.missed(EIGHT, slow)
    explorer = PlanExplorer()
    explorer.choose(gpus=16, batch=128, **vars(own))
    assert reached(explorer) == [False, True, False]


def test_one_gpu_is_cheaper_for_a_small_job():
    one = MISSIONS[2]
    assert one.missed(SMALL, OwnCut()) == ""
    assert one.missed(replace(SMALL, gpus=4), OwnCut()) == "This mission is for 8 GPUs or more."
    assert one.missed(PlanChoice(), OwnCut()) == "This job does not run on one GPU."
    nowhere = PlanChoice("llama-3-405b")
    assert one.missed(nowhere, OwnCut()) == "This job does not run on 8 GPUs."
    said = one.missed(replace(SMALL, batch=512), OwnCut())
    assert said.startswith("8 GPUs cost 0.9")  # one GPU adds up the gradients of more micro-batches
    assert said.endswith(" times as much as one for the same step; the mission asks for 2 times.")
    explorer = PlanExplorer()
    explorer.choose(model="gpt-2-xl", seq=1024, batch=8)
    assert reached(explorer) == [False, False, True]
    told = explorer.missions.splitlines()[2]
    assert told == f"mission 3: reached ({SMALL})"
    explorer.choose(gpus=16)  # which reaches it as well
    assert explorer.missions.splitlines()[2] == told


@pytest.mark.parametrize(
    ("number", "choice", "own", "said"),
    [
        (0, PlanChoice(), OwnCut(), "This mission is for llama-3-70b on 8x H100, 8,192 tokens a sequence."),
        (0, replace(SEVENTY, batch=32), OwnCut(), "This mission is for 64 sequences a step."),
        (0, SEVENTY, OwnCut(), "Your layout recomputes (full); in this mission it must not."),
        (0, SEVENTY, OwnCut(tp=3, recompute="none"), "Your layout is not possible: tp=3 does not divide 8 GPUs"),
        (0, SEVENTY, OwnCut(recompute="none"), "Your layout does not run: "),
        (
            1,
            PlanChoice(),
            OwnCut(),
            "This mission is for llama-3-8b, 128 sequences of 8,192 tokens, 16 GPUs of 8x H100",
        ),
        (1, EIGHT, OwnCut(tp=5), "Your layout is not possible: tp=5 does not divide 16 GPUs"),
    ],
)
def test_what_is_lacking_is_said(number, choice, own, said):
    assert MISSIONS[number].missed(choice, own).startswith(said)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("model", ["gpt-2-xl", "llama-3-70b"])
def test_the_leanest_layouts_decide_what_fits(model, recompute):
    for gpus in (1, 8, 24):
        choice = PlanChoice(model, gpus=gpus, batch=24)
        some = [
            one
            for one in candidates(choice.job, choice.cluster)
            if one.recompute == recompute and one.chunks == one.micro_batch == one.ep == 1
        ]
        assert fits(choice, recompute) == bool(choice.ask(some).options)


def test_fewer_and_more_gpus_are_whole_machines():
    assert fewer_that_hold(SEVENTY, "none") is None
    assert fewer_that_hold(PlanChoice(gpus=64), "full") == 8
    fewest = fewer_that_hold(replace(SEVENTY, gpus=128), "none")
    assert fewest is not None
    assert fits(replace(SEVENTY, gpus=fewest), "none")
    assert not fits(replace(SEVENTY, gpus=fewest - 8), "none")
    big = PlanChoice("llama-3-405b", "72x GB200", 36, batch=144)
    assert more_that_hold(replace(big, gpus=9)) in (18, 36, 72)
    assert more_that_hold(PlanChoice("llama-3-405b", gpus=4096, batch=64)) is None
