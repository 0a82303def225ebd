"""What the plan explorer's controls choose: few layouts that have the best of all, and cuts of one's own."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import pytest

from course_lib.plan import (
    Listing,
    Option,
    Refusal,
    Software,
    load_profiles,
    step_parts,
    typical_constants,
)
from course_lib.plan.search.search_space import candidates
from course_lib.widgets import OwnCut, PlanChoice
from course_lib.widgets.plan.search import best_of_cuts, cut_of, planned
from course_lib.widgets.plan.words import loses, next_in_words, seconds_text


def every_layout(choice: PlanChoice) -> Listing:
    """All layouts of the planner's that are in the explorer's bounds, whether worth a look or not."""
    experts = choice.job.model.experts
    return choice.ask(
        one
        for one in candidates(choice.job, choice.cluster)
        if one.chunks == 1
        and not one.shard_size
        and one.tp <= choice.cluster.domain_size
        and one.pp <= 16
        and one.cp <= max(1, choice.seq // 4096)
        and (one.micro_batch == 1 or one.micro_batch * choice.seq / one.cp <= 32768)
        and one.ep in (1, gcd(one.dp, experts))
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"model": "gpt-2-xl", "gpus": 8, "seq": 1024, "batch": 512},
        {"model": "llama-3-70b", "gpus": 24, "batch": 48, "seq": 2048},
        {"model": "gpt-2-xl", "machine": "4x RTX 4090", "gpus": 16, "seq": 1024},
        {"gpus": 1, "model": "gpt-2-xl"},
        {"model": "mixtral-8x7b", "gpus": 16, "batch": 32, "seq": 2048},
    ],
)
def test_the_few_layouts_that_are_looked_at_have_the_best_cuts_of_all(given):
    choice = PlanChoice(**given)
    every, found = every_layout(choice), planned(choice)
    assert len(found.options) + len(found.refusals) < min(500, len(every.options) + len(every.refusals))
    by_layout = {option.layout: option for option in every.options}
    assert all(by_layout[option.layout] == option for option in found.options)
    expected = [option.step_s for option in best_of_cuts(every, 4)]
    # The planner ranks by three digits, and 1.016 s and 1.024 s are one there.
    assert [option.step_s for option in best_of_cuts(found, 4)] == pytest.approx(expected, rel=0.01)


def test_options_fit_stand_in_order_once_each_and_recompute_no_more_than_they_must():
    choice = PlanChoice("llama-3-70b", gpus=32, batch=64)
    listing = planned(choice)
    times = [float(f"{option.step_s:.4g}") for option in listing.options]
    assert times == sorted(times)
    layouts = [option.layout for option in listing.options]
    assert len(set(layouts)) == len(layouts)
    assert all(option.memory.total_bytes <= choice.cluster.memory_bytes for option in listing.options)
    assert {layout.recompute for layout in layouts} == {"none", "selective", "full"}
    for layout in [one for one in layouts if one.recompute != "none"][:20]:
        less = {"selective": "none", "full": "selective"}[layout.recompute]
        own = OwnCut(**{**vars(OwnCut.of(layout)), "recompute": less})
        assert isinstance(own.judged(choice), Refusal)


def test_of_each_cut_the_fastest_is_shown_the_fastest_cut_first():
    listing = planned(PlanChoice())
    shown = best_of_cuts(listing, 4)
    assert shown[0] is listing.best
    assert len({cut_of(option.layout) for option in shown}) == 4
    for option in shown:
        alike = [one for one in listing.options if cut_of(one.layout) == cut_of(option.layout)]
        assert alike[0] is option
    assert len(best_of_cuts(planned(PlanChoice("gpt-2-xl", gpus=1)), 4)) == 1


def test_a_layout_of_one_s_own_has_the_ranks_that_are_left_for_the_data_axis():
    assert str(OwnCut(tp=4, pp=2, recompute="none").layout(64)) == "tp4 pp2 dp8 mb1 zero3 sp"
    assert str(OwnCut(cp=2, sharding=0, micro_batch=2).layout(2)) == "cp2 mb2 full"
    choice = PlanChoice()
    for option in best_of_cuts(planned(choice), 4):
        assert OwnCut.of(option.layout).layout(choice.gpus) == option.layout
        assert OwnCut.of(option.layout).judged(choice) == option


def test_the_share_of_the_peak_does_not_count_what_is_computed_again():
    choice = PlanChoice()
    judged = [OwnCut(recompute=recompute, tp=2).judged(choice) for recompute in ("selective", "full")]
    shares = [choice.share_of_peak(found) for found in judged if isinstance(found, Option)]
    assert len(shares) == 2
    assert 1 > shares[0] > shares[1] > 0.1
    job = choice.job
    flops = 6 * job.tokens * (job.model.parameters - job.model.embedding_parameters)  # and attention beside them
    assert isinstance(judged[1], Option)
    assert shares[1] > flops / (judged[1].step_s * 8 * choice.cluster.peak_flops_per_s) > 0.8 * shares[1]


@pytest.mark.parametrize("machine", ["8x A100", "8x H100"])
def test_constants_are_those_of_clusters_with_the_same_gpu(machine):
    choice = PlanChoice("llama-3-70b", machine, gpus=32)
    gpu = f"{machine[3:]}-80GB"
    alike = [profile for profile in load_profiles().values() if profile.gpu.name == gpu]
    assert alike
    best = planned(choice).best
    assert best is not None
    expected = step_parts(choice.job, best.layout, choice.cluster, typical_constants(alike), Software())
    assert best.step == expected


def test_what_a_layout_loses_its_time_on_is_the_part_that_grows_and_not_the_longest():
    listing = planned(PlanChoice())
    best = listing.best
    assert best is not None
    step = replace(best.step, data_s=best.step.data_s + 0.2, compute_s=best.step.compute_s + 0.1)
    other = Option(OwnCut(tp=8, sharding=0).layout(8), best.memory, step)
    said = next_in_words(replace(listing, options=(best, other)))
    assert said.endswith(f"{loses(other, best)}, most of it by the data axis (+0.2 s).")
    assert next_in_words(replace(listing, options=(best,))) == "No other cut runs."
    alike = Option(other.layout, best.memory, best.step)
    assert next_in_words(replace(listing, options=(best, alike))).endswith(" is as fast.")


def test_losses_are_said_in_words():
    best = planned(PlanChoice()).best
    assert best is not None
    others = [
        replace(best, step=replace(best.step, optimizer_s=best.step.optimizer_s + share * best.step_s))
        for share in (0, 0.0004, 0.031, 4.5)
    ]
    assert [loses(other, best) for other in others] == [
        "is as fast", "is as fast", "loses 3.1%", "takes 5.5 times as long",
    ]  # fmt: skip
    assert loses(best, others[2]) == "gains 3.0%"
    times = [seconds_text(time_s) for time_s in (0.01234, 1.5, 99.94, 2384.2)]
    assert times == ["0.0123 s", "1.5 s", "99.9 s", "2,384 s"]


def test_a_batch_that_is_no_power_of_two_runs_as_well():
    """13 sequences: micro-batches of 8 do not divide them, and a pipeline takes them one by one."""
    best = planned(PlanChoice("gpt-2-xl", gpus=8, seq=1024, batch=13)).best
    assert best is not None
    assert (best.layout.dp, best.layout.micro_batch) == (1, 1)
