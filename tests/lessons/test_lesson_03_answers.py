"""Lesson 03's judges against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from answers.lesson_03.right import replicas_by_arithmetic, threads_from_a_pool
from torch import nn

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def copies_of_modules(module, num_replicas):
    return [nn.Sequential(*module) for _ in range(num_replicas)]


def the_modules_own(module, num_replicas):
    return [dict(module.named_parameters()) for _ in range(num_replicas)]


def half_of_each(module, num_replicas):
    return [
        {n: t * 0.5 if t.is_floating_point() else t.clone() for n, t in module.state_dict(keep_vars=True).items()}
    ] * 2


def cut_off_on_the_second_only(module, num_replicas):
    tensors = replicas_by_arithmetic(module, num_replicas)
    return [tensors[0], *({n: t.detach().clone() for n, t in one.items()} for one in tensors[1:])]


def without_threads(replicas, parts):
    return [replica(part) for replica, part in zip(replicas, parts, strict=True)]


def asks_in_the_thread(replicas, parts):
    def work(r):
        with torch.set_grad_enabled(torch.is_grad_enabled()):  # the thread's, which is always on
            return replicas[r](parts[r])

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(work, range(4)))


def waits_but_loses_the_last(replicas, parts):
    return threads_from_a_pool(replicas, parts)[:-1]


def prefix_off_and_changed_in_place(model, saved):
    for name in list(saved):
        saved[name.removeprefix("module.")] = saved.pop(name)
    model.load_state_dict(saved)


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("name", "answer", "mistake"),
    [
        ("03.replicas", cut_off_on_the_second_only, "cut-off"),
        ("03.replicas", half_of_each, "one-copy-for-all"),
        ("03.replicas", the_modules_own, "nothing-copied"),
        ("03.threads", lambda replicas, parts: list(map(torch.Tensor.__rmul__, parts, (2,) * 4)), None),
        ("03.threads", without_threads, "one-after-another"),
        ("03.threads", asks_in_the_thread, "records-all-the-same"),
        ("03.threads", waits_but_loses_the_last, None),
        ("03.load", lambda model, saved: model.load_state_dict({n.lstrip("module."): t for n, t in saved.items()}),
         "lstrip"),
        ("03.load", prefix_off_and_changed_in_place, None),
        ("03.load", lambda model, saved: model.eval(), None),
    ],
)  # fmt: skip
def test_wrong_answers_do_not_pass(name, answer, mistake):
    seen = verdict(name, answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen


def test_what_came_is_told_when_it_is_no_list_of_dictionaries():
    assert "what came back: a list of Sequential" in str(verdict("03.replicas", copies_of_modules))
