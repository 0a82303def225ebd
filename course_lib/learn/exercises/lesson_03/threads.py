"""03.threads: a thread for each replica, with outputs in order, the caller's recording, and failures that are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.apart import by_cases_apart
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake

__all__ = ["THREADS"]

_MEET_S = 1.0  # how long a replica waits for the others; those that run one after another never meet
_OUTPUTS, _CALLS, _MET, _TOLD = (
    "outputs",
    "calls of each replica",
    "the replicas ran",
    "what the caller was told",
)


class Replicas:
    """Four replicas that wait for each other, and of which the first is the last to be done."""

    def __init__(self, failing: int | None) -> None:
        self.weight = torch.ones((), requires_grad=True)
        self.calls = [0] * 4
        self.met = True
        self._failing, self._meeting = failing, threading.Barrier(4)

    def each(self) -> list[Callable[[Tensor], Tensor]]:
        return [partial(self._run, replica) for replica in range(4)]

    def _run(self, replica: int, part: Tensor) -> Tensor:
        self.calls[replica] += 1
        try:
            self._meeting.wait(_MEET_S)
        except threading.BrokenBarrierError:
            self.met = False
        time.sleep(0.03 * (3 - replica))
        if replica == self._failing:
            raise ValueError("a label is out of range")
        return part * 2 * self.weight


@contextmanager
def _silent_threads() -> Iterator[None]:
    """What a thread dies of is not printed; the judge tells it."""
    before = threading.excepthook
    threading.excepthook = lambda _: None
    try:
        yield
    finally:
        threading.excepthook = before


def _try(answer: Callable[..., Any], recording: bool, failing: int | None) -> dict[str, Any]:
    replicas = Replicas(failing)
    parts = [torch.full((2,), float(r)) for r in range(4)]
    outputs: Any = None
    told = "nothing"
    with _silent_threads(), torch.set_grad_enabled(recording):
        before = set(threading.enumerate())
        try:
            outputs = answer(replicas.each(), parts)
        except (RuntimeError, ValueError) as error:
            words = " ".join([str(error), *getattr(error, "__notes__", ())])
            if "label is out of range" not in words + str(error.__cause__) + str(error.__context__):
                raise
            told = "that replica 2 failed" if "2" in words else "that some replica failed"
        shown = (
            list(outputs) if isinstance(outputs, (list, tuple)) else outputs
        )  # before late threads add to it
        for thread in set(threading.enumerate()) - before:
            thread.join(3 * _MEET_S)
    if failing is not None:
        return {_TOLD: told}
    return {
        _CALLS: replicas.calls,
        _OUTPUTS: _in_words(shown),
        _MET: "at the same time" if replicas.met else "one after another",
    }


def _in_words(outputs: Any) -> Any:
    """Each output by its number, and whether it was recorded."""
    if not isinstance(outputs, list):
        return outputs
    return [
        f"{int(out[0].item()) // 2}{', recorded' if out.requires_grad else ''}"
        if isinstance(out, Tensor)
        else out
        for out in outputs
    ]


def _right(recording: bool, failing: int | None) -> dict[str, Any]:
    if failing is not None:
        return {_TOLD: "that replica 2 failed"}
    outputs = [f"{r}{', recorded' if recording else ''}" for r in range(4)]
    return {_CALLS: [1] * 4, _OUTPUTS: outputs, _MET: "at the same time"}


def _applying(
    *,
    wait: str = "at the end",
    by_append: bool = False,
    late: bool = False,
    modes: bool = True,
    tell: str = "by name",
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
            thread.join()
        for r, error in sorted(failures.items()):
            if tell == "by name":
                raise RuntimeError(f"replica {r} failed: {error}") from error
            if tell == "as it is":
                raise error
        return outputs

    return apply_in_threads


def _facts(seen: Evidence) -> dict[str, Any]:
    """Those of the first case; empty where the answer raised."""
    got = seen.outcomes[0].got
    return got if isinstance(got, dict) else {}


def _not_waited(seen: Evidence) -> bool:
    outputs = _facts(seen).get(_OUTPUTS)
    return isinstance(outputs, list) and (len(outputs) < 4 or None in outputs)


def _recorded_anyway(evidence: Evidence) -> bool:
    return any("no_grad" in o.case and "recorded" in str(o.got) for o in evidence.outcomes)


def _out_of_order(seen: Evidence) -> bool:
    outputs, expected = _facts(seen).get(_OUTPUTS), _right(True, None)[_OUTPUTS]
    return outputs != expected and isinstance(outputs, list) and sorted(map(str, outputs)) == expected


THREADS = Exercise(
    name="03.threads",
    title="A thread for each replica",
    judge=by_cases_apart(
        [
            Case("four replicas", (True, None), _right),
            Case("four replicas, under torch.no_grad()", (False, None), _right),
            Case("a replica that fails", (True, 2), _right),
        ],
        call=_try,
    ),
    mistakes=(
        Mistake(
            "last-for-all",
            "Every thread ran the last replica. A function made in a loop looks its variable up when it *runs*, and by "
            "then the loop is over. Hand the number over: `threading.Thread(target=work, args=(r,))`.",
            _applying(late=True),
            recognise=lambda seen: _facts(seen).get(_CALLS) == [0, 0, 0, 4],
        ),
        Mistake(
            "one-after-another",
            "The replicas ran one after another: each waited for all four to be there, in vain. Start all threads in "
            "one loop, and wait for them in a second one.",
            _applying(wait="at once"),
            recognise=lambda seen: _facts(seen).get(_MET) == "one after another",
        ),
        Mistake(
            "not-waited",
            "You returned before the threads were done: outputs are missing. `thread.join()` waits for one; join all "
            "of them before you look at the outputs.",
            _applying(wait="never"),
            recognise=_not_waited,
        ),
        Mistake(
            "order-of-arrival",
            "The outputs stand in the order in which the threads were done, which is chance. Give each replica a "
            "place: `results = [None] * len(modules)`, and in the thread `results[r] = ...`.",
            _applying(by_append=True),
            recognise=_out_of_order,
        ),
        Mistake(
            "records-all-the-same",
            "Under `torch.no_grad()` the outputs were recorded all the same. That setting belongs to a thread, and a "
            "new thread begins with recording on. Ask `torch.is_grad_enabled()` before, and set it in the thread.",
            _applying(modes=False),
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
            "The exception arrives, without a word on which replica it was. With eight devices one would like to know: "
            '`raise RuntimeError(f"replica {r} failed: {error}") from error`.',
            _applying(tell="as it is"),
        ),
    ),
    hints=(
        "What does a new thread not have of its maker's: the result's place, the recording, and anybody who sees it "
        "fail.",
        "`work(r)` runs module r with the caller's recording, inside `try`, and puts away a result or a failure. Below "
        "it: ask whether the caller records, start all threads, then join all, then raise what was caught.",
        "In `work(r)`: `with torch.set_grad_enabled(recording): results[r] = modules[r](inputs[r])`, and `except "
        "Exception as error: failures[r] = error`. Threads: `threading.Thread(target=work, args=(r,))`.",
    ),
    passed="All at the same time, in order, with the caller's recording, and a failure has a name.",
)
