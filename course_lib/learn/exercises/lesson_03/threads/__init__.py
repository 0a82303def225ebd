"""03.threads: a thread for each replica, with outputs in order, the caller's recording, and failures that are told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_03.facts import compare_facts
from course_lib.learn.exercises.lesson_03.threads.facts import (
    CALLS,
    DONE,
    LIMITS,
    MET,
    OUTPUTS,
    TOLD,
    ReplicaTrial,
    expected_facts,
    facts_of,
)
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["THREADS"]


def _applying(
    *,
    wait: str = "at the end",
    by_append: bool = False,
    late: bool = False,
    modes: bool = True,
    tell: str = "by name",
    limit_s: float | None = None,
) -> Callable[..., list[Any]]:
    def apply_in_threads(replicas: list[Callable[[Tensor], Tensor]], parts: list[Tensor]) -> list[Any]:
        outputs: list[Any] = [] if by_append else [None] * len(replicas)
        failures: dict[int, Exception] = {}
        recording = torch.is_grad_enabled()

        def work(r: int) -> None:
            try:
                with torch.set_grad_enabled(recording or not modes):
                    result = replicas[r](parts[r])
                if by_append:
                    outputs.append(result)
                else:
                    outputs[r] = result
            except Exception as error:
                failures[r] = error

        threads = []
        for r in range(len(replicas)):
            run_it = (lambda: work(r)) if late else partial(work, r)  # noqa: B023
            threads.append(threading.Thread(target=run_it))
        for thread in threads:
            thread.start()
            if wait == "at once":
                thread.join()
        for thread in threads if wait == "at the end" else ():
            thread.join(limit_s)
        for r, error in sorted(failures.items()):
            if tell == "by name":
                raise RuntimeError(f"replica {r} failed: {error}") from error
            if tell == "as it is":
                raise error
            if tell == "by name alone":
                raise RuntimeError(f"replica {r} failed")
            if tell == "from 1":
                raise RuntimeError(f"replica {r + 1} failed") from error
            if tell == "another's":
                raise RuntimeError(f"replica {max(failures)} failed") from error
        return outputs

    return apply_in_threads


def _facts(seen: Evidence) -> dict[str, Any]:
    """Those of the first case; empty where the answer raised."""
    got = seen.outcomes[0].got
    return got if isinstance(got, dict) else {}


def _not_waited(seen: Evidence) -> bool:
    facts = _facts(seen)
    outputs = facts.get(OUTPUTS)
    missing = isinstance(outputs, list) and (len(outputs) < 4 or "no output" in outputs)
    return missing and facts[DONE] < 4 and LIMITS not in facts


def _waits_for_a_time(seen: Evidence) -> bool:
    return LIMITS in _facts(seen)


def _told(*words: str) -> Callable[[Evidence], bool]:
    """Of all cases that are not right, each was told in these words."""

    def recognise(seen: Evidence) -> bool:
        wrong = [outcome for outcome in seen.outcomes if not outcome.right]
        told = [outcome.got.get(TOLD, "") if isinstance(outcome.got, dict) else "" for outcome in wrong]
        return bool(told) and all(any(word in one for word in words) for one in told)

    return recognise


def _recorded_anyway(evidence: Evidence) -> bool:
    return any("no_grad" in o.case and "recorded" in str(o.got) for o in evidence.outcomes)


def _out_of_order(seen: Evidence) -> bool:
    outputs, expected = _facts(seen).get(OUTPUTS), expected_facts(ReplicaTrial(4))[OUTPUTS]
    return outputs != expected and isinstance(outputs, list) and sorted(map(str, outputs)) == expected


THREADS = Exercise(
    name="03.threads",
    title="A thread for each replica",
    judge=by_cases_apart(
        [
            Case("four replicas", (ReplicaTrial(4),), expected_facts),
            Case("four replicas, under torch.no_grad()", (ReplicaTrial(4, recording=False),), expected_facts),
            Case("two replicas, with inputs that ask for a gradient", (ReplicaTrial(2),), expected_facts),
            Case(
                "five replicas in float64, under torch.no_grad()",
                (ReplicaTrial(5, recording=False, dtype=torch.float64),),
                expected_facts,
            ),
            Case("a replica that fails", (ReplicaTrial(4, failing=(2,)),), expected_facts),
            Case("the first of three that fails", (ReplicaTrial(3, recording=False, failing=(0,)),), expected_facts),
            Case("two of four that fail", (ReplicaTrial(4, failing=(1, 3)),), expected_facts),
            Case("a replica that gives None", (ReplicaTrial(3, silent=1),), expected_facts),
        ],
        call=facts_of,
        compare=compare_facts,
    ),
    mistakes=(
        Mistake(
            "last-for-all",
            "Every thread ran the last replica. A function made in a loop looks its variable up when it *runs*, and by "
            "then the loop is over. Hand the number over when the thread is made.",
            recognise=lambda seen: _facts(seen).get(CALLS) == [0, 0, 0, 4],
        ),
        Mistake(
            "one-after-another",
            "The replicas ran one after another: each waited for the others to be there, in vain. Start all threads in "
            "one loop, and wait for them in a second one.",
            recognise=lambda seen: _facts(seen).get(MET) == "one after another",
        ),
        Mistake(
            "not-waited",
            "You returned before the threads were done: outputs are missing. `thread.join()` waits for one; join all "
            "of them before you look at the outputs.",
            recognise=_not_waited,
        ),
        Mistake(
            "waits-for-a-time",
            "You waited for a time, and not for the threads. A replica may take longer, as here, where each sleep and "
            "each short time limit of the caller's was over at once. `thread.join()` without a limit ends when the "
            "thread does.",
            recognise=_waits_for_a_time,
        ),
        Mistake(
            "order-of-arrival",
            "The outputs stand in the order in which the threads were done, which is chance. Give each replica a "
            "place: `results = [None] * len(modules)`, and in the thread `results[r] = ...`.",
            recognise=_out_of_order,
        ),
        Mistake(
            "records-all-the-same",
            "Under `torch.no_grad()` the outputs were recorded all the same. That setting belongs to a thread, and a "
            "new thread begins with recording on. Ask `torch.is_grad_enabled()` before, and set it in the thread.",
            recognise=_recorded_anyway,
        ),
        Mistake(
            "failure-lost",
            "A replica raised, and the caller never heard of it: an exception ends its own thread and nobody else's. "
            "Catch it in the thread, keep it, and raise after joining.",
            _applying(tell="nothing"),
        ),
        Mistake(
            "nobody-named",
            "An exception arrives, and no number in it says which replica failed. With eight devices one would like "
            "to know: raise a new one that tells the number, and keep the old one with it.",
            recognise=_told("that some replica failed"),
        ),
        Mistake(
            "another-number",
            "The exception has a number, and not that of the replica that failed. The replicas count from 0, as "
            "`modules[r]` does.",
            recognise=_told("no number of a replica that failed"),
        ),
        Mistake(
            "another's-error",
            "Two replicas failed, and the exception names one of them with the error of the other. A reader of it "
            "looks in the wrong place. Keep the number and the error together.",
            recognise=_told("with the error of replica"),
        ),
        Mistake(
            "error-lost",
            "The exception tells which replica failed, and what went wrong there is lost: neither the error nor its "
            "words are in it. `raise NewError(...) from error` keeps the old one with the new.",
            recognise=_told("and not of what"),
        ),
    ),
    hints=(
        "A new thread lacks three things that its maker has. It has no place for the result, it does not have the "
        "maker's recording, and nobody sees its error.",
        "`work(r)` runs module r with the caller's recording, inside `try`, and keeps a result or a failure. Below "
        "it: ask whether the caller records, start all threads, then join all, then raise what was caught.",
        "In `work(r)`: `with torch.set_grad_enabled(recording): results[r] = modules[r](inputs[r])`, and `except "
        "Exception as error: failures[r] = error`. Threads: `threading.Thread(target=work, args=(r,))`.",
    ),
    forbidden=(
        "course_lib.parallel.data.parallel_apply",
        "torch.nn.parallel.parallel_apply.parallel_apply",
        "course_lib.parallel.data.DataParallel",
        "torch.nn.DataParallel",
    ),
    passed="All modules run at the same time, with the caller's recording. The results are in order, and a failure "
    "names its replica.",
)
