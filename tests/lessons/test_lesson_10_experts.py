"""The judge of 10.experts: its oracle is the course's layer on one device, and its cases are what they say."""

from __future__ import annotations

import itertools

import pytest
import torch

from course_lib.learn.exercises.lesson_10.call_reports import near
from course_lib.learn.exercises.lesson_10.expert_layer import EXPERTS_STEPS
from course_lib.learn.exercises.lesson_10.expert_layer.cases import (
    COARSE,
    NO_TOKENS,
    NOBODY,
    SITUATIONS,
    layer_weights,
    tokens_of,
)
from course_lib.learn.exercises.lesson_10.expert_layer.oracle import chosen_experts, oracle, with_room
from course_lib.learn.exercises.lesson_10.expert_layer.right import rows_between
from course_lib.parallel.experts import MixtureOfExperts, expert_capacity, within_capacity

ON_ONE = [label for label, one in SITUATIONS.items() if one.group == "all"]


@pytest.mark.parametrize("label", ON_ONE)
def test_what_one_process_gives_is_the_courses_layer(label):
    one, count = SITUATIONS[label], 2
    router, up, down = (weight.double() for weight in layer_weights(label, count, 0))
    layer = MixtureOfExperts(
        one.width,
        hidden=one.width,
        num_experts=len(router),
        top_k=one.chosen(count),
        capacity_factor=one.capacity_factor,
    ).double()
    found = oracle(label, count, 0, 0)
    with torch.no_grad():
        layer.router.weight.copy_(router)
        layer.experts.w_up.copy_(up)
        layer.experts.w_down.copy_(down)
    for place, (x, grad) in enumerate(tokens_of(label, count, 0, 0)):
        x = x.double().flatten(0, -2).requires_grad_()
        layer.router.zero_grad()
        out = layer(x)
        out.backward(grad.double().flatten(0, -2))
        assert not near(out.detach(), found.outputs[place], 1e-9)
        assert not near(layer.router.weight.grad, found.unbalanced[place], 1e-9)
        if not one.balances:
            assert not near(x.grad, found.of_x[place], 1e-9)
    for which, weight in enumerate((layer.experts.w_up, layer.experts.w_down)):
        assert not near(weight.grad, torch.stack([part[which] for part in found.of_experts]).sum(0), 1e-9)


@pytest.mark.parametrize("label", [label for label, one in SITUATIONS.items() if one.capacity_factor])
def test_room_is_given_as_the_course_gives_it(label):
    one, found = SITUATIONS[label], oracle(label, 4, 0, 0)
    for best, kept in zip(found.chosen, found.kept, strict=True):
        num_experts = one.num_experts(4)
        room = expert_capacity(
            len(best), num_experts=num_experts, top_k=best.size(1), capacity_factor=one.capacity_factor
        )
        assert torch.equal(kept, within_capacity(best, num_experts=num_experts, capacity=room))
        assert torch.equal(kept, with_room(one, best, num_experts))


def test_a_limit_turns_some_away_where_it_is_tight_and_nobody_where_it_is_wide():
    shares = {
        label: torch.cat([kept.flatten() for kept in oracle(label, 4, 0, 0).kept]).double().mean().item()
        for label, one in SITUATIONS.items()
        if one.capacity_factor
    }
    assert shares["room for all"] == 1
    assert all(0.2 < share < 1 for label, share in shares.items() if label != "room for all")


def test_a_rank_has_no_tokens_and_experts_have_no_rows_where_a_case_says_so():
    assert 0 in SITUATIONS[NO_TOKENS].num_tokens(4)
    assert rows_between(NOBODY, 4, 0)[:, 2:4].sum() == 0
    assert rows_between(NOBODY, 4, 1)[:, 2:4].sum() == 0


@pytest.mark.parametrize("count", [1, 4])
def test_scores_in_float32_choose_as_those_in_float64_and_in_bfloat16_they_do_not(count):
    moved = 0
    for turn, number in itertools.product(range(2), range(1)):
        router = layer_weights(COARSE, count, number)[0]
        for x, _ in tokens_of(COARSE, count, number, turn):
            best = chosen_experts(x.double(), router.double(), 2)[1]
            assert torch.equal(chosen_experts(x.float(), router.float(), 2)[1], best)
            moved += int((chosen_experts(x, router, 2)[1] != best).sum())
    assert moved


def test_each_step_looks_at_all_that_the_one_before_it_looks_at():
    kinds = [type(step.judge.cases[0].expected(0, step.judge.world_sizes[0])) for step in EXPERTS_STEPS]
    assert all(issubclass(later, earlier) for earlier, later in itertools.pairwise(kinds))
    names = [{mistake.name for mistake in step.mistakes} for step in EXPERTS_STEPS]
    assert all(earlier < later for earlier, later in itertools.pairwise(names))
    cases = [[case.label for case in step.judge.cases] for step in EXPERTS_STEPS]
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(cases))
