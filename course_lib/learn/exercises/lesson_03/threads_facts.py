"""What 03.threads looks at: replicas that wait for each other, and what the caller gets, or is told, in the end."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.judging.mutation_guard import Kept

__all__ = ["CALLS", "DONE", "MET", "OUTPUTS", "Replicas", "expected_facts", "facts_of"]

_MEET_S = 1.0  # how long a replica waits for the others; those that run one after another never meet
_LATER_S = 0.02  # from one replica that is done to the next
CALLS, MET, DONE = "calls of each replica", "the replicas ran", "replicas that were done by then"
_DIED = "what ended a thread"
OUTPUTS, _TOLD, _LEFT = "outputs", "what the caller was told", "the caller's recording and inputs afterwards"


class _Replica(nn.Module):
    def __init__(self, number: int, of: Replicas) -> None:
        super().__init__()
        self.run = lambda part: of.run(number, part)

    def forward(self, part: Tensor) -> Tensor:
        return self.run(part)


class Replicas:
    """Replicas that wait for each other, and are done one by one: from the last to the first, or the other way."""

    def __init__(self, count: int, failing: int | None, first_is_last: bool) -> None:
        self.weight = torch.ones((), requires_grad=True)
        self.calls, self.num_done, self.most_at_once = [0] * count, 0, 0
        self.met = True
        self._count, self._failing, self._running = count, failing, 0
        self._first_is_last = first_is_last
        self._meeting, self._lock = threading.Barrier(count), threading.Lock()

    def each(self) -> list[nn.Module]:
        return [_Replica(number, self) for number in range(self._count)]

    def run(self, number: int, part: Tensor) -> Tensor:
        self._count_in(number, 1)
        try:
            self._meeting.wait(_MEET_S)
        except threading.BrokenBarrierError:
            self.met = False
        time.sleep(_LATER_S * (self._count - 1 - number if self._first_is_last else number))
        self._count_in(number, -1)
        if number == self._failing:
            raise ValueError("a label is out of range")
        return part * 2 * self.weight

    def _count_in(self, number: int, step: int) -> None:
        with self._lock:
            self._running += step
            self.calls[number] += step > 0
            self.num_done += step < 0
            self.most_at_once = max(self.most_at_once, self._running)

    @property
    def how(self) -> str:
        """How the replicas ran, by what they saw of each other."""
        if self.met:
            return "at the same time"
        return "one after another" if self.most_at_once < 2 else f"{self.most_at_once} at a time"


@contextmanager
def _silent_threads() -> Iterator[list[str]]:
    """What a thread dies of is not printed; the judge tells it."""
    before, died = threading.excepthook, []
    threading.excepthook = lambda told: died.append(f"{told.exc_type.__name__}: {told.exc_value}".rstrip(": "))
    try:
        yield died
    finally:
        threading.excepthook = before


def _parts(count: int) -> list[Tensor]:
    return [torch.tensor([r + 0.5, 10.0 * count]) for r in range(count)]


def facts_of(answer: Callable[..., Any], count: int, recording: bool, failing: int | None) -> dict[str, Any]:
    """What the caller has when the answer returns, before threads that are late add to it."""
    replicas, parts = Replicas(count, failing, first_is_last=recording), _parts(count)
    kept = Kept(inputs=parts)
    outputs: Any = None
    told = "nothing"
    with _silent_threads() as died, torch.set_grad_enabled(recording):
        before = set(threading.enumerate())
        try:
            outputs = answer(replicas.each(), parts)
        except Exception as error:
            told = _told(error, failing)
            if not told:
                raise
        num_done, shown = replicas.num_done, list(outputs) if isinstance(outputs, list | tuple) else outputs
        left = kept.changes() or ("" if torch.is_grad_enabled() == recording else "the recording was switched")
        for thread in set(threading.enumerate()) - before:
            thread.join(3 * _MEET_S)
    facts = {DONE: num_done, _LEFT: left or "as they were"}
    if failing is not None:
        return {_TOLD: told, **facts}
    ended = died[0] if died else "nothing"
    told_of = {
        _DIED: ended,
        CALLS: replicas.calls,
        OUTPUTS: _in_words(shown, _parts(count)),
        MET: replicas.how,
    }
    return {**told_of, **facts}


def expected_facts(count: int, recording: bool, failing: int | None) -> dict[str, Any]:
    facts = {DONE: count, _LEFT: "as they were"}
    if failing is not None:
        return {_TOLD: f"that replica {failing} failed", **facts}
    outputs = [f"output {r}{', recorded' if recording else ''}" for r in range(count)]
    return {_DIED: "nothing", CALLS: [1] * count, OUTPUTS: outputs, MET: "at the same time", **facts}


def _told(error: BaseException, failing: int | None) -> str:
    """What an error says of the failure; empty where it is about something else."""
    words = " ".join(_words(error))
    if failing is not None and re.search(rf"\b{failing}\b", words):
        return f"that replica {failing} failed"
    whole = f"{words} {error.__cause__} {error.__context__}"
    in_own_words = type(error) in (RuntimeError, ValueError, Exception) and re.search(r"\bfail|\bwrong\b", words, re.I)
    return "that some replica failed" if in_own_words or "label is out of range" in whole else ""


def _words(error: BaseException) -> Iterator[str]:
    yield from (str(error), *getattr(error, "__notes__", ()))
    for one in getattr(error, "exceptions", ()):  # of a group
        yield from _words(one)


def _in_words(outputs: Any, parts: list[Tensor]) -> Any:
    """Each output by the number of the replica that it is right for, and whether it was recorded."""
    if not isinstance(outputs, list):
        return outputs
    return ["no output" if out is None else _output(out, parts) for out in outputs]


def _output(out: Any, parts: list[Tensor]) -> Any:
    if not isinstance(out, Tensor):
        return out
    found = [r for r, part in enumerate(parts) if torch.equal(out.detach(), part * 2)]
    name = f"output {found[0]}" if found else str(out.tolist())
    return f"{name}{', recorded' if out.requires_grad else ''}"
