"""Lesson 03's judges: what reviews found accepted, refused and told untruly, and right answers of other styles."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from answers.lesson_03.right import load_guarded_by_the_library, replicas_by_arithmetic, threads_from_a_pool

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.parallel import data

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


# -- what was accepted -------------------------------------------------------------------------------------------


def replicas_that_evaluate(module, num_replicas):
    module.eval()
    return replicas_by_arithmetic(module, num_replicas)


def replicas_that_clear_gradients(module, num_replicas):
    module.zero_grad()
    return replicas_by_arithmetic(module, num_replicas)


def replicas_that_learn_all(module, num_replicas):
    module.requires_grad_(True)
    return replicas_by_arithmetic(module, num_replicas)


def replicas_of_what_is_saved(module, num_replicas):
    """A buffer that is not saved is missing."""
    state = module.state_dict(keep_vars=True)
    return [{n: t.clone() if r or t.requires_grad else t for n, t in state.items()} for r in range(num_replicas)]


def replicas_of_three(module, num_replicas):
    return replicas_by_arithmetic(module, 3)[:num_replicas]


def replicas_with_one_weight_cut_off(module, num_replicas):
    replicas = replicas_by_arithmetic(module, num_replicas)
    for one in replicas[1:]:
        name = next(n for n, t in one.items() if t.requires_grad)
        one[name] = one[name].detach()
    return replicas


def replicas_under_another_type(module, num_replicas):
    return [{n: t.float() for n, t in one.items()} for one in replicas_by_arithmetic(module, num_replicas)]


def threads_of_four(modules, inputs):
    return threads_from_a_pool(modules[:4], inputs[:4])


def threads_from_a_pool_of_four(modules, inputs):
    recording = torch.is_grad_enabled()

    def work(r):
        with torch.set_grad_enabled(recording):
            return modules[r](inputs[r])

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(_named(work), range(len(modules))))
    return results


def _named(work):
    def told(r):
        try:
            return work(r)
        except Exception as error:
            raise RuntimeError(f"replica {r}") from error

    return told


def threads_that_change_the_inputs(modules, inputs):
    outputs = threads_from_a_pool(modules, inputs)
    for given in inputs:
        given.zero_()
    return outputs


def threads_that_switch_the_recording(modules, inputs):
    outputs = threads_from_a_pool(modules, inputs)
    torch.set_grad_enabled(not torch.is_grad_enabled())
    return outputs


def started(modules, inputs):
    """A running thread for each replica; results by place, and failures by replica, when it is done."""
    results, failures, recording = [None] * len(modules), {}, torch.is_grad_enabled()

    def work(r):
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for thread in threads:
        thread.start()
    return threads, results, failures


def threads_raise_before_all_are_done(modules, inputs):
    """Joins up to the one that failed."""
    threads, results, failures = started(modules, inputs)
    for r, thread in reversed(list(enumerate(threads))):
        thread.join()
        if r in failures:
            raise RuntimeError(f"replica {r}") from failures[r]
    return results


def threads_that_wait_for_the_first(modules, inputs):
    threads, results, failures = started(modules, inputs)
    threads[0].join()
    for r, error in failures.items():
        raise RuntimeError(f"replica {r}") from error
    return results


def load_without_names(model, saved):
    model.load_state_dict(dict(zip(model.state_dict(), saved.values(), strict=True)))


def load_into_shared_memory(model, saved):
    if saved.keys() != model.state_dict().keys():
        saved = {name.removeprefix("module."): tensor for name, tensor in saved.items()}
    model.load_state_dict(saved, assign=True)


def load_and_evaluate(model, saved):
    load_guarded_by_the_library(model, saved)
    model.eval()


def load_and_freeze(model, saved):
    load_guarded_by_the_library(model, saved)
    model.requires_grad_(False)


def load_by_order_if_names_fail(model, saved):
    try:
        load_guarded_by_the_library(model, saved)
    except RuntimeError:
        load_without_names(model, saved)


def load_parameters_alone(model, saved):
    prefix = "" if saved.keys() == model.state_dict().keys() else "module."
    assert {prefix + name for name in model.state_dict()} == set(saved)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(saved[prefix + name])


def load_and_empty(model, saved):
    load_guarded_by_the_library(model, saved)
    saved.clear()


@pytest.mark.first_cases(4)
@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("03.replicas", replicas_that_evaluate, "left in eval mode"),
        ("03.replicas", replicas_that_clear_gradients, "has lost its .grad"),
        ("03.replicas", replicas_that_learn_all, "left with requires_grad=True"),
        ("03.replicas", replicas_of_what_is_saved, "has no '0.offset'"),
        ("03.replicas", replicas_of_three, "four replicas"),
        ("03.replicas", replicas_with_one_weight_cut_off, "0.weight of replica 1 cut off"),
        ("03.replicas", replicas_under_another_type, "ended in"),
        ("03.threads", data.parallel_apply, "parallel_apply"),
        ("03.threads", threads_of_four, "five replicas"),
        ("03.threads", threads_from_a_pool_of_four, "4 at a time"),
        ("03.threads", threads_that_change_the_inputs, "`inputs`[0] has changed"),
        ("03.threads", threads_that_switch_the_recording, "the recording was switched"),
        ("03.threads", threads_raise_before_all_are_done, "replicas that were done by then"),
        ("03.threads", threads_that_wait_for_the_first, "no output"),
        ("03.load", load_without_names, "with the prefix"),
        ("03.load", load_into_shared_memory, "lie in the memory of those that were saved"),
        ("03.load", load_and_evaluate, "left in eval mode"),
        ("03.load", load_and_freeze, "left with requires_grad=False"),
        ("03.load", load_by_order_if_names_fail, "weights of a model of the same sizes"),
        ("03.load", load_parameters_alone, "6 of 10"),
        ("03.load", load_and_empty, "`saved` had 4 items and has 0 now"),
    ],
)
def test_what_was_accepted_is_refused_and_told(name, answer, words):
    seen = verdict(name, answer)
    assert not seen.passed
    assert words in f"{seen.message} {seen.evidence}", seen


def test_a_failure_told_in_the_learners_own_words_is_no_error_of_theirs():
    def tells_nobodys_number(modules, inputs):
        results, failed, recording = [None] * len(modules), [], torch.is_grad_enabled()

        def work(r):
            try:
                with torch.set_grad_enabled(recording):
                    results[r] = modules[r](inputs[r])
            except ValueError as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise RuntimeError("a replica failed")
        return results

    seen = verdict("03.threads", tells_nobodys_number)
    assert seen.mistake == "nobody-named", seen
