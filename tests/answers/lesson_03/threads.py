"""03.threads: a thread for each replica."""

from __future__ import annotations

import copy
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from answer_table import Row


def joins_all(modules, inputs):
    results, failures = [None] * len(modules), {}
    recording = torch.is_grad_enabled()

    def work(r):
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        first = min(failures)
        raise RuntimeError(f"module {first} failed") from failures[first]
    return results


def asks_until_all_are_done(modules, inputs):
    results, failures = [None] * len(modules), {}
    recording = torch.is_grad_enabled()

    def work(r):
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        time.sleep(0.01)
    for r in sorted(failures):
        raise RuntimeError(f"module {r}: {failures[r]}")
    return results


def waits_a_minute_at_most_and_says_so(modules, inputs):
    recording = torch.is_grad_enabled()

    def work(r):
        with torch.set_grad_enabled(recording):
            return modules[r](inputs[r])

    with ThreadPoolExecutor(max_workers=max(1, len(modules))) as pool:
        futures = [pool.submit(work, r) for r in range(len(modules))]
        results = []
        for r, future in enumerate(futures):
            try:
                results.append(future.result(timeout=60))
            except Exception as error:
                raise RuntimeError(f"module {r} of {len(modules)} failed") from error
        return results


def sleeps_and_never_joins(modules, inputs):
    results, failures = [None] * len(modules), {}
    recording = torch.is_grad_enabled()

    def work(r):
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error

    for r in range(len(modules)):
        threading.Thread(target=work, args=(r,), daemon=True).start()
    time.sleep(0.3)
    if failures:
        first = min(failures)
        raise RuntimeError(f"module {first} failed") from failures[first]
    return results


def joins_with_a_limit(modules, inputs):
    results, failures = [None] * len(modules), {}
    recording = torch.is_grad_enabled()

    def work(r):
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=0.2)
    if failures:
        first = min(failures)
        raise RuntimeError(f"module {first} failed") from failures[first]
    return results


def loses_what_went_wrong(modules, inputs):
    results, failures = [None] * len(modules), {}
    recording = torch.is_grad_enabled()

    def work(r):
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise RuntimeError(f"module {min(failures)} failed")
    return results


def works_on_copies(modules, inputs):
    modules = [copy.deepcopy(m) for m in modules]
    results, failures = [None] * len(modules), {}
    recording = torch.is_grad_enabled()

    def work(r):
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        first = min(failures)
        raise RuntimeError(f"module {first} failed") from failures[first]
    return results


def blames_the_last_with_the_error_of_the_first(modules, inputs):
    results, failures = [None] * len(modules), {}
    recording = torch.is_grad_enabled()

    def work(r):
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise RuntimeError(f"module {max(failures)} failed") from failures[min(failures)]
    return results


def takes_none_for_a_failure(modules, inputs):
    results, errors = [None] * len(modules), [None] * len(modules)
    recording = torch.is_grad_enabled()

    def work(r):
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            errors[r] = error

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r, result in enumerate(results):
        if result is None:
            raise RuntimeError(f"module {r} failed") from errors[r]
    return results


def counts_from_one(modules, inputs):
    results, failures = [None] * len(modules), {}
    recording = torch.is_grad_enabled()

    def work(r):
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in sorted(failures):
        raise RuntimeError(f"module number {r + 1} of {len(modules)} failed") from failures[r]
    return results


ROWS = [
    Row(answer=joins_all, verdict="passed", why="the definition"),
    Row(answer=asks_until_all_are_done, verdict="passed", why="it sleeps, and asks each time whether all are done"),
    Row(answer=waits_a_minute_at_most_and_says_so, verdict="passed", why="its limit is long, and ends in an error"),
    Row(
        answer=sleeps_and_never_joins,
        verdict="not yet",
        mistake="waits-for-a-time",
        words=("time.sleep(0.3)",),
        why="modules of a second give [None, None]",
    ),
    Row(
        answer=joins_with_a_limit,
        verdict="not yet",
        mistake="waits-for-a-time",
        words=("join(timeout=0.2)",),
        why="a module of a second gives None",
    ),
    Row(
        answer=loses_what_went_wrong,
        verdict="not yet",
        mistake="error-lost",
        why="the part promises that no error gets lost: neither the error nor its words are in the new one",
    ),
    Row(
        answer=works_on_copies,
        verdict="raised",
        words=("deepcopy",),
        why="the replicas of the next cell hold tensors with a graph, which cannot be copied",
    ),
    Row(
        answer=blames_the_last_with_the_error_of_the_first,
        verdict="not yet",
        mistake="another's-error",
        words=("that replica 3 failed, with the error of replica 1",),
        why="of two that fail it names one and shows the error of the other",
    ),
    Row(
        answer=takes_none_for_a_failure,
        verdict="raised",
        words=("a replica that gives None", "module 1 failed"),
        why="None is a result as any other, and nothing has failed",
    ),
    Row(
        answer=counts_from_one,
        verdict="not yet",
        mistake="another-number",
        words=("3 and 4",),
        unsaid=("no number in it says", "without a word"),
        why="`modules[r]` counts from 0, so that another one is blamed; it does tell a number",
    ),
]
