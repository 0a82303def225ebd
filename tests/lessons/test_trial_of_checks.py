"""Answers that somebody gave who had seen no judge: wrong ones that got through once, right ones that did not."""

from __future__ import annotations

import itertools
import random

import pytest

from course_lib.learn import exercises
from course_lib.learn.checking import judged


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


@pytest.mark.parametrize(
    ("name", "answer", "told"),
    [
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
