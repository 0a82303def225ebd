"""Answers that need no ranks: wrong ones are refused, right ones in other styles pass."""

from __future__ import annotations

import itertools
import random
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.parallel.model import split_evenly

pytestmark = pytest.mark.long


def stripped(saved):
    return {name.removeprefix("module."): tensor for name, tensor in saved.items()}


def loads_by_each_name(model, saved):
    own = model.state_dict()
    model.load_state_dict(
        {name if name in own else name.removeprefix("module."): tensor for name, tensor in saved.items()}
    )


def loads_by_copy(model, saved):
    if saved.keys() != model.state_dict().keys():
        saved = stripped(saved)
    assert saved.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        tensor.copy_(saved[name])


def cuts_by_chance(costs, num_parts):
    best, luck = None, random.Random(len(costs))
    for _ in range(200):
        ends = [0, *sorted(luck.sample(range(1, len(costs)), num_parts - 1)), len(costs)]
        sizes = [b - a for a, b in itertools.pairwise(ends)]
        largest = max(sum(costs[a:b]) for a, b in itertools.pairwise(ends))
        if best is None or largest < best[0]:
            best = (largest, sizes)
    return best[1]


def steps_in_bfloat16(model, optimizer, pieces):
    total = sum(len(x) for x, _ in pieces)
    optimizer.zero_grad()
    for x, y in pieces:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y) * (len(x) / total)
        loss.backward()
    optimizer.step()


def evaluates_in_bfloat16(model, batches):
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        total = sum(F.cross_entropy(model(x), y, reduction="sum").item() for x, y in batches)
    return total / sum(len(x) for x, _ in batches)


def cut_by(form):
    """The best cut, as another kind of thing."""
    return lambda costs, num_parts: form([len(part) for part in split_evenly(costs, num_parts)])


CUTS_OF_ANOTHER_FORM = [
    (lambda sizes: dict(enumerate(sizes)).values(), "got dict_values"),
    (lambda sizes: torch.tensor(sizes)[:, None], "got tensor of shape (4, 1)"),
    (lambda sizes: torch.tensor(sizes, dtype=torch.float64), "got tensor of shape (4,), [2.0"),
    (lambda sizes: "".join(map(str, sizes)), "got '2222'"),
]


@pytest.fixture
def cut_that_may_be_called():
    """06.cut without what is forbidden: these answers take their cuts from the library, in another form."""
    exercise = exercises.exercise("06.cut")
    return replace(exercise, forbidden=())


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(("form", "told"), CUTS_OF_ANOTHER_FORM)
def test_a_cut_that_is_no_sequence_of_whole_numbers_is_refused(cut_that_may_be_called, form, told):
    verdict = judged(cut_that_may_be_called, cut_by(form))
    assert verdict.status == "not yet"
    assert told in verdict.message


@pytest.mark.parametrize("form", [list, tuple, deque, iter, np.array, torch.tensor, lambda s: list(torch.tensor(s))])
def test_a_list_an_iterator_and_an_array_of_whole_numbers_are_the_same_cut(cut_that_may_be_called, form):
    verdict = judged(cut_that_may_be_called, cut_by(form))
    assert verdict.passed, verdict


def test_what_a_cut_changes_and_that_it_is_a_stub_is_still_seen(cut_that_may_be_called):
    def clears_the_costs(costs, num_parts):
        sizes = cut_by(list)(costs, num_parts)
        costs.clear()
        return sizes

    assert "`costs` had" in judged(cut_that_may_be_called, clears_the_costs).message
    assert judged(cut_that_may_be_called, lambda costs, num_parts: ...).status == "not attempted"
    assert judged(cut_that_may_be_called, 3).message.startswith("Give the function itself")


@pytest.mark.parametrize(
    ("name", "answer", "told"),
    [
        (
            "01.evaluate",
            evaluates_in_bfloat16,
            "the model ran under autocast, which makes another mean",
        ),
        (
            "01.accumulate",
            steps_in_bfloat16,
            "With a model in float32, pieces of 4, 4 and 1 examples: at the step the gradient is nearly right",
        ),
        (
            "03.load",
            loads_by_each_name,
            "With a model with a weight and a part called module, with the prefix",
        ),
        ("03.load", loads_by_copy, "With weights of which one has another shape, with the prefix"),
        ("06.cut", cuts_by_chance, "the largest can be"),
    ],
)
def test_what_got_through_once_is_refused(name, answer, told):
    verdict = judged(exercises.exercise(name), answer)
    assert verdict.status == "not yet"
    assert told in verdict.message + verdict.evidence


def loads_by_order(model, saved):
    model.load_state_dict(saved if list(saved) == list(model.state_dict()) else stripped(saved))


def loads_by_the_first_name(model, saved):
    model.load_state_dict(saved if next(iter(saved)) == next(iter(model.state_dict())) else stripped(saved))


@pytest.mark.parametrize("answer", [loads_by_order, loads_by_the_first_name])
def test_names_come_in_the_models_order_as_in_every_file(answer):
    verdict = judged(exercises.exercise("03.load"), answer)
    assert verdict.passed, verdict


def test_a_long_error_is_cut_where_a_word_ends_and_says_so():
    def loads_under_long_names(model, saved):
        model.load_state_dict({f"{'long.' * 20}{name}": tensor for name, tensor in saved.items()})

    verdict = judged(exercises.exercise("03.load"), loads_under_long_names)
    assert " ...; expected: went through" in verdict.message + verdict.evidence
