"""Lesson 06: right answers of other styles pass, what reviews found accepted is refused, and messages are true."""

from __future__ import annotations

import dataclasses
import itertools

import numpy
import pytest
import torch
import torch.distributed as dist
from answers.lesson_06.right import by_a_product, in_turns
from answers.lesson_06.wrong.backward import first_and_others

from course_lib.cluster import exchange, recv, send
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


# -- found refused, and right -----------------------------------------------------------------------------------


def with_list_methods(costs, num_parts):
    """Costs are the list that the notebook hands in."""
    begin = [0]
    until = list(itertools.accumulate(begin + costs.copy()))
    cuts = itertools.combinations(range(1, len(costs)), num_parts - 1)
    bounds = [(0, *inner, len(costs)) for inner in cuts]
    best = min(bounds, key=lambda ends: max(until[b] - until[a] for a, b in itertools.pairwise(ends)))
    return [b - a for a, b in itertools.pairwise(best)]


@pytest.mark.parametrize("of", [numpy.array, torch.tensor, tuple, lambda sizes: [numpy.int64(s) for s in sizes]])
def test_sizes_may_be_whole_numbers_of_any_kind(of):
    seen = verdict("06.cut", lambda costs, num_parts: of(with_list_methods(costs, num_parts)))
    assert seen.passed, seen


# -- found accepted, and wrong ----------------------------------------------------------------------------------


def two_or_four(answer):
    """Right on 2 and on 4 ranks; on others the world is taken for one of 4."""

    def hard_coded(me, *args):
        return answer(me if me.world_size in (2, 4) else dataclasses.replace(me, world_size=4), *args)

    return hard_coded


def sums_on_two_or_four(me, weight, other):
    if me.world_size in (2, 4):
        in_turns(me, weight, other)


def a_group_that_only_two_make(me, weight, other):
    pair = dist.new_group([0, me.world_size - 1])
    dist.all_reduce(weight.grad, group=pair)


def freezes_the_weight(me, weight, other):
    in_turns(me, weight, other)
    weight.requires_grad_(False)


def zeroes_its_inputs(me, part, x, target, loss_of, room):
    loss = by_a_product(me, part, x, target, loss_of, room)
    for tensor in (x, target):
        if tensor is not None:
            with torch.no_grad():
                tensor.zero_()
    return loss


def bisects_whole_numbers(costs, num_parts):
    def fill(limit):
        sizes, load = [0], 0
        for cost in costs:
            if load + cost > limit and sizes[-1]:
                sizes, load = [*sizes, 0], 0
            sizes[-1], load = sizes[-1] + 1, load + cost
        return sizes

    low, high = int(max(costs)), int(sum(costs)) + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(fill(middle)) <= num_parts else (middle + 1, high)
    sizes = fill(low)
    while len(sizes) < num_parts:
        at = next(place for place, size in enumerate(sizes) if size > 1)
        sizes[at : at + 1] = [1, sizes[at] - 1]
    return sizes


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("06.backward", two_or_four(by_a_product), "(rank"),
        ("06.backward", zeroes_its_inputs, "changed what was to stay"),
        ("06.tied", sums_on_two_or_four, "of 3"),
        ("06.tied", a_group_that_only_two_make, "new_group"),
        ("06.tied", freezes_the_weight, "requires_grad=False"),
        ("06.cut", bisects_whole_numbers, "the largest can be"),
    ],
)
def test_what_was_found_accepted_is_refused(name, answer, words):
    seen = verdict(name, answer)
    assert not seen.passed
    assert words in f"{seen.message} {seen.evidence}", seen


def test_after_a_group_that_only_two_ranks_made_the_next_answer_finds_whole_ranks():
    verdict("06.tied", a_group_that_only_two_make)
    assert verdict("06.tied", in_turns).passed


def cuts_and_clears(costs, num_parts):
    sizes = with_list_methods(costs, num_parts)
    costs.clear()
    return sizes


def test_costs_stay_what_they_were():
    seen = verdict("06.cut", cuts_and_clears)
    assert not seen.passed
    assert "changed what it was given" in seen.message


# -- messages that said what nobody saw -------------------------------------------------------------------------


def greedy(costs, num_parts):
    """To each part as much as is nearest to the average of what is left."""
    sizes, at = [], 0
    for part in range(num_parts, 1, -1):
        goal, size = sum(costs[at:]) / part, 1
        while at + size < len(costs) - part + 1 and abs(sum(costs[at : at + size + 1]) - goal) < abs(
            sum(costs[at : at + size]) - goal
        ):
            size += 1
        sizes, at = [*sizes, size], at + size
    return [*sizes, len(costs) - at]


def test_a_greedy_cut_is_not_said_to_cut_halves():
    seen = verdict("06.cut", greedy)
    assert seen.status == "not yet"
    assert seen.mistake != "halves-of-halves"


def squares(costs, num_parts):
    cuts = itertools.combinations(range(1, len(costs)), num_parts - 1)
    parts = [[costs[a:b] for a, b in itertools.pairwise((0, *inner, len(costs)))] for inner in cuts]
    return [len(part) for part in min(parts, key=lambda one: sum(sum(part) ** 2 for part in one))]


def test_least_squares_are_told_by_their_name():
    assert verdict("06.cut", squares).mistake == "least-squares"


def test_one_point_zero_is_not_said_to_leave_the_last_rank_learning():
    seen = verdict("06.backward", lambda *_: 1.0)
    assert seen.mistake != "gradients-stay", seen
    assert "Only the last rank learns" not in seen.message


def test_a_rank_that_does_not_come_is_not_said_to_send_first():
    def only_the_last(me, weight, other):
        if me.rank:
            theirs = torch.empty_like(weight.grad)
            exchange([send(weight.grad, other), recv(theirs, other)])
            weight.grad += theirs

    seen = verdict("06.tied", only_the_last)
    assert seen.mistake == "one-comes-alone", seen
    assert "Both ranks" not in seen.message.partition(".")[0]


def test_the_courses_own_cut_is_refused_by_name():
    from course_lib.parallel.model import split_evenly

    seen = verdict("06.cut", lambda costs, num_parts: [len(part) for part in split_evenly(costs, num_parts)])
    assert seen.status == "forbidden"


def test_a_gradient_received_on_top_of_ones_own_is_told_so():
    def into_the_gradient(me, weight, other):
        exchange([send(weight.grad, other), recv(weight.grad, other)])

    assert verdict("06.tied", into_the_gradient).mistake in ("wiped-out", "swaps")


def test_a_loss_without_a_target_is_not_said_to_be_a_missing_leaf():
    seen = verdict("06.backward", first_and_others)
    assert seen.mistake == "no-target-in-the-middle", seen
    assert "requires_grad_" not in seen.message
