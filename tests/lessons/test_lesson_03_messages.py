"""Lesson 03's judges: what they say of a wrong answer was seen, and right answers that were refused pass."""

from __future__ import annotations

import copy
import sys
import threading

import pytest
import torch
from answers.lesson_03.right import load_guarded_by_the_library, replicas_by_arithmetic, threads_from_a_pool
from torch import nn

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = pytest.mark.xdist_group("exercises")


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def threads_that_name_without_a_cause(modules, inputs):
    try:
        return threads_from_a_pool(modules, inputs)
    except ValueError as error:
        number, words = error.__notes__[0].split()[-1], str(error)
    raise RuntimeError(f"replica {number}: {words}")


class ReplicaError(Exception):
    pass


def threads_with_an_error_of_their_own(modules, inputs):
    try:
        return threads_from_a_pool(modules, inputs)
    except ValueError as error:
        raise ReplicaError(error.__notes__[0]) from error


@pytest.mark.parametrize("answer", [threads_that_name_without_a_cause, threads_with_an_error_of_their_own])
def test_a_failure_may_be_told_in_any_words_that_name_the_replica(answer):
    seen = verdict("03.threads", answer)
    assert seen.passed, seen


def load_by_the_library_alone(model, saved):
    mine = dict(saved)
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(mine, "module.")
    model.load_state_dict(mine)


def test_pytorchs_helper_is_right_where_the_names_need_it_and_else_told_why():
    """It takes a prefix off the names of a bare model, too, if that has a part of this name; the text warns of it."""
    assert verdict("03.load", load_guarded_by_the_library).passed
    assert verdict("03.load", load_by_the_library_alone).mistake == "never-asked"


def threads_that_exit(modules, inputs):
    """Waits for all, and loses what is there: the exit ends a thread without a word."""
    results, recording = [None] * len(modules), torch.is_grad_enabled()

    def work(r):
        with torch.set_grad_enabled(recording):
            output = modules[r](inputs[r])
        if r == 0:
            sys.exit()
        results[r] = output

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def replicas_of_wrong_shapes(module, num_replicas):
    return [{n: t.flatten() for n, t in one.items()} for one in replicas_by_arithmetic(module, num_replicas)]


def replicas_deep_copied(module, num_replicas):
    return [copy.deepcopy(one) for one in replicas_by_arithmetic(module, num_replicas)]


def replicas_of_parameters_alone(module, num_replicas):
    return [list(module.parameters())] * num_replicas


def load_with_replace_guarded_and_shared(model, saved):
    """Names `replace`, and is wrong for another reason."""
    if saved.keys() != model.state_dict().keys():
        saved = {n.replace("module.", "", 1): t for n, t in saved.items()}
    model.load_state_dict(saved, assign=True)


def load_with_a_slip(model, saved):
    model.load_state_dict(save)  # noqa: F821


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("name", "answer", "mistake", "words", "never"),
    [
        ("03.threads", threads_that_exit, None, "what ended a thread", "join"),
        ("03.replicas", replicas_of_wrong_shapes, None, "a training step: ended in", "on line"),
        ("03.replicas", replicas_of_parameters_alone, None, "what came back: a list of list", "on line"),
        (
            "03.replicas",
            lambda module, n: [nn.Linear(1, 1)] * n,
            None,
            "what came back: a list of Linear",
            "on line",
        ),
        (
            "03.replicas",
            lambda module, n: [dict(module.named_modules())] * n,
            None,
            "where tensors were asked",
            "line",
        ),
        ("03.load", load_with_replace_guarded_and_shared, None, "lie in the memory", "wherever it stands"),
        ("03.load", load_with_a_slip, None, "NameError", "prefix off"),
    ],
)
def test_a_message_says_what_was_seen_and_no_more(name, answer, mistake, words, never):
    seen = verdict(name, answer)
    told = f"{seen.message} {seen.evidence} {seen.details}"
    assert (seen.passed, seen.mistake) == (False, mistake), seen
    assert words in told, seen
    assert never not in told, seen
    assert "facts.py" not in told


def test_copies_that_autograd_does_not_know_are_refused():
    assert not verdict("03.replicas", replicas_deep_copied).passed
