"""Lesson 07's judges look at what an answer leaves behind, forgets or holds on to; and take what is as good."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_07.right import as_room_allows, one_stage_less

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = pytest.mark.xdist_group("exercises")


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


# -- what an answer leaves behind ---------------------------------------------------------------------------------

HELD = []


def holds_its_inputs(x, gradient, weight):
    HELD.append((x, gradient))
    return gradient @ weight, lambda: weight.grad.add_(gradient.T @ x)


def early_in_numpy(x, gradient, weight):
    made = torch.from_numpy(gradient.numpy().T @ x.numpy())
    return gradient @ weight, lambda: weight.grad.add_(made)


def of_the_last_weight(x, gradient, weight):
    globals().update(x=x, gradient=gradient, weight=weight)
    return gradient @ weight, lambda: globals()["weight"].grad.add_(globals()["gradient"].T @ globals()["x"])


def leaves_hooks(model, group, step):
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda _: None)
    step()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)


def makes_groups(model, group, step):
    ranks = dist.get_process_group_ranks(group)
    mine = dist.new_group(ranks, use_local_synchronization=True)
    step()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=mine)


def leaves_eval_mode(model, group, step):
    step()
    model.stages.eval()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)


def waits_for_the_last(model, group, step):
    step()
    for parameter in model.parameters():
        work = dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group, async_op=True)
    work.wait()


def holds_its_losses(output, target, num_samples):
    HELD.append(F.cross_entropy(output, target, reduction="sum") / num_samples)
    return HELD[-1]


def runs_backward_itself(output, target, num_samples):
    loss = F.cross_entropy(output, target, reduction="sum") / num_samples
    loss.backward(retain_graph=True)
    return loss


COUNT = itertools.count()


def by_the_count_of_calls(stage, p, m):
    return as_room_allows(next(COUNT) % p, p, m)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("07.halves", holds_its_inputs, "somebody still holds"),
        ("07.halves", early_in_numpy, "Nothing was put off"),
        ("07.halves", of_the_last_weight, ""),
        ("07.sync", leaves_hooks, "hooks stay on the weights"),
        ("07.sync", makes_groups, "process groups were made"),
        ("07.sync", leaves_eval_mode, "train or eval"),
        ("07.sync", waits_for_the_last, "waited"),
        ("07.loss", holds_its_losses, "somebody still holds"),
        ("07.loss", runs_backward_itself, "a backward has run already"),
        ("07.1f1b", by_the_count_of_calls, ""),
        ("07.gpipe", lambda p, m: one_stage_less(p, min(m, 9)), "12"),
        ("07.gpipe", lambda p, m: [row.replace(" ", ", ") for row in one_stage_less(p, m)], "by blanks"),
    ],
)
def test_what_an_answer_leaves_or_forgets_is_seen(name, answer, words):
    seen = verdict(name, answer)
    HELD.clear()
    assert seen.status == "not yet", seen
    assert words in f"{seen.message} {seen.evidence}", seen


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("07.gpipe", lambda p, m: np.array(one_stage_less(p, m))),
        ("07.gpipe", lambda p, m: iter(one_stage_less(p, m))),
        ("07.1f1b", lambda s, p, m: np.array(as_room_allows(s, p, m))),
        ("07.1f1b", lambda s, p, m: iter(as_room_allows(s, p, m))),
        ("07.halves", lambda x, g, w: [(g @ w).tolist(), lambda: w.grad.add_(g.T @ x)]),
        ("07.halves", lambda x, g, w: ((g @ w).numpy(), lambda: w.grad.add_(g.T @ x))),
    ],
)
def test_lists_arrays_and_generators_are_as_good(name, answer):
    seen = verdict(name, answer)
    assert seen.passed, seen
