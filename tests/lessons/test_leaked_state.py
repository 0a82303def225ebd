"""State that a wrong answer leaves: hooks on parameters, and gradients switched off."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from course_lib.authoring.bench.judging import kept_answers
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def right_of(name):
    return kept_answers.right_answers(name)[0]


def accumulates_by_a_hook(model, optimizer, pieces):
    count = sum(len(x) for x, _ in pieces)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_hook(lambda gradient: gradient / count)
    optimizer.zero_grad()
    for x, y in pieces:
        F.cross_entropy(model(x), y, reduction="sum").backward()
    optimizer.step()


def averages_and_halves_what_comes_later(me, model):
    right_of("04.gradients")(me, model)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_hook(lambda gradient: gradient / 2)


def hooks_in_every_step(me, buckets):
    finish = right_of("04.overlap")(me, buckets)

    def finish_and_hook():
        finish()
        for parameter in (parameter for bucket in buckets for parameter in bucket):
            parameter.register_hook(lambda gradient: gradient)

    return finish_and_hook


def accumulates_and_leaves_gradients_off(model, optimizer, pieces):
    torch.set_grad_enabled(True)
    right_of("01.accumulate")(model, optimizer, pieces)
    torch.set_grad_enabled(False)


def averages_and_leaves_gradients_off(me, model):
    torch.set_grad_enabled(False)
    right_of("04.gradients")(me, model)


def finishes_and_leaves_gradients_off(me, buckets):
    torch.set_grad_enabled(True)
    finish = right_of("04.overlap")(me, buckets)

    def finish_and_leave():
        finish()
        torch.set_grad_enabled(False)

    return finish_and_leave


def loses_gradients_after_the_loss(me, logits, targets):
    torch.set_grad_enabled(True)
    loss = right_of("08.loss")(me, logits, targets)
    torch.set_grad_enabled(False)
    return loss


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("name", "answer", "told"),
    [
        ("01.accumulate", accumulates_by_a_hook, "hook"),
        ("04.gradients", averages_and_halves_what_comes_later, "hook"),
        ("04.overlap", hooks_in_every_step, "hook"),
        ("01.accumulate", accumulates_and_leaves_gradients_off, "gradients switched off"),
        ("04.gradients", averages_and_leaves_gradients_off, "gradients switched off"),
        ("04.overlap", finishes_and_leaves_gradients_off, "gradients switched off"),
        ("08.loss", loses_gradients_after_the_loss, "gradients"),
    ],
)
def test_what_is_left_is_told_and_nothing_else(name, answer, told):
    verdict = judged(exercises.exercise(name), answer)
    assert verdict.status == "not yet", verdict
    assert told in verdict.message, verdict
    assert not verdict.mistake, verdict
