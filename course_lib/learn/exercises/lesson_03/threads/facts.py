"""What 03.threads looks at: replicas that wait for each other, and what the caller gets, or is told, in the end."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.exercises.lesson_03.failures import silent_threads, words_of
from course_lib.learn.judging.call_time_limits import limits_end_at_once
from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import Kept

__all__ = [
    "CALLS",
    "DONE",
    "LIMITS",
    "MET",
    "OUTPUTS",
    "TOLD",
    "ReplicaTrial",
    "Replicas",
    "expected_facts",
    "facts_of",
]

_MEET_S = 1.0  # how long a replica waits for the others; those that run one after another never meet
_LATER_S = 0.02  # from one replica that is done to the next
CALLS, MET, DONE = "calls of each replica", "the replicas ran", "replicas that were done by then"
_DIED, _GIVEN = "what ended a thread", "the inputs came"
OUTPUTS, TOLD = "outputs", "what the caller was told"
LIMITS = "sleeps and time limits of the caller's that were cut short"
_LEFT, _HELD = "the caller's recording, modules and inputs afterwards", "what is left when all is over"
_EARLIER = "the outputs of an earlier call"
_ERRORS = ("a label is out of range", "a row is empty", "the learning rate is negative", "a file is missing")


@dataclass(frozen=True)
class ReplicaTrial:
    """What replicas are tried with: those in ``failing`` raise, and replica ``silent`` gives None."""

    count: int
    recording: bool = True
    failing: tuple[int, ...] = ()
    silent: int | None = None
    dtype: torch.dtype = torch.float32


class _Replica(nn.Module):
    weight: Tensor

    def __init__(self, number: int, of: Replicas) -> None:
        super().__init__()
        self.run = lambda part: of.run(number, part)
        with torch.enable_grad():
            self.weight = of.weight * 1  # as a real replica's, it comes from a recorded copy

    def forward(self, part: Tensor) -> Tensor | None:
        return self.run(part)


class Replicas:
    """Replicas that wait for each other, and are done one by one: from the last to the first, or the other way."""

    def __init__(self, trial: ReplicaTrial) -> None:
        count = trial.count
        self.weight = torch.ones((), requires_grad=True)
        self.calls, self.num_done, self.most_at_once = [0] * count, 0, 0
        self.met, self.other_dtype = True, ""
        self._count, self._trial, self._running = count, trial, 0
        self._meeting, self._lock = threading.Barrier(count), threading.Lock()

    def each(self) -> list[nn.Module]:
        return [_Replica(number, self) for number in range(self._count)]

    def run(self, number: int, part: Tensor) -> Tensor | None:
        self._count_in(number, 1)
        if part.dtype != self._trial.dtype:
            self.other_dtype = f"in {part.dtype}, and were given in {self._trial.dtype}"
        try:
            self._meeting.wait(_MEET_S)
        except threading.BrokenBarrierError:
            self.met = False
        time.sleep(_LATER_S * (self._count - 1 - number if self._trial.recording else number))
        self._count_in(number, -1)
        if number in self._trial.failing:
            raise ValueError(_ERRORS[number])
        if number == self._trial.silent:
            return None
        return part * 2 * self.weight.to(part.dtype)

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


def _parts(trial: ReplicaTrial) -> list[Tensor]:
    numbers = range(trial.count)
    parts = [torch.tensor([r + 0.5, 10.0 * trial.count], dtype=trial.dtype) for r in numbers]
    return [part.requires_grad_(trial.recording and trial.count == 2) for part in parts]


def facts_of(answer: Callable[..., Any], trial: ReplicaTrial) -> dict[str, Any]:
    """What the caller has when the answer returns, before threads that are late add to it."""
    replicas, parts = Replicas(trial), _parts(trial)
    modules = replicas.each()
    kept, traces = Kept(inputs=parts, modules=modules), Traces((parts,))
    outputs: Any = None
    told = "nothing"
    with silent_threads() as died, torch.set_grad_enabled(trial.recording), limits_end_at_once() as cut:
        before = set(threading.enumerate())
        try:
            outputs = answer(modules, parts)
        except Exception as error:
            told = _told(error, trial)
            if not told:
                raise
        num_done, shown = replicas.num_done, list(outputs) if isinstance(outputs, list | tuple) else outputs
        left = kept.changes() or ("" if torch.is_grad_enabled() == trial.recording else "the recording was switched")
    for thread in set(threading.enumerate()) - before:
        thread.join(3 * _MEET_S)
    late = {LIMITS: cut[0]} if cut and num_done < trial.count else {}
    facts = {DONE: num_done, _LEFT: left or "as they were"}
    if trial.failing:
        return {**late, TOLD: told, **facts}
    told_of = {
        _DIED: died[0] if died else "nothing",
        _GIVEN: replicas.other_dtype or "as they were",
        CALLS: replicas.calls,
        OUTPUTS: _in_words(shown, trial),
        MET: replicas.how,
    }
    held = {_HELD: traces.found(outputs) or "nothing"}
    return {**late, **told_of, **facts, **held, **_earlier(answer, trial, shown)}


def _earlier(answer: Callable[..., Any], trial: ReplicaTrial, shown: Any) -> dict[str, Any]:
    """What the outputs are after another call: they are the caller's."""
    if trial.recording or not isinstance(shown, list):
        return {}
    now = _in_words(shown, trial)
    with torch.set_grad_enabled(False):
        answer(Replicas(trial).each(), [part + 1 for part in _parts(trial)])
    return {_EARLIER: "as they were" if _in_words(shown, trial) == now else "changed by a later one"}


def expected_facts(trial: ReplicaTrial) -> dict[str, Any]:
    facts = {DONE: trial.count, LIMITS: "none", _LEFT: "as they were", _EARLIER: "as they were", _HELD: "nothing"}
    if trial.failing:
        which = " or ".join(map(str, trial.failing))
        return {TOLD: f"that replica {which} failed, and of what", **facts}
    recorded = ", recorded" if trial.recording else ""
    outputs = ["None" if r == trial.silent else f"output {r}{recorded}" for r in range(trial.count)]
    told_of = {
        TOLD: "nothing",
        _DIED: "nothing",
        _GIVEN: "as they were",
        CALLS: [1] * trial.count,
        OUTPUTS: outputs,
        MET: "at the same time",
    }
    return {**told_of, **facts}


def _told(error: BaseException, trial: ReplicaTrial) -> str:
    """What an error says of the failure; empty where it is about something else."""
    if not trial.failing:
        return ""
    words, everything = " ".join(words_of(error)), " ".join(words_of(error, with_causes=True))
    named = [r for r in range(trial.count + 1) if re.search(rf"(?<![\d.]){r}(?![\d.]*\d)", words)]
    blamed = [r for r in trial.failing if r in named]
    kept = [r for r in trial.failing if _ERRORS[r] in everything]
    if blamed and not kept:
        return f"that replica {blamed[0]} failed, and not of what"
    if blamed and not set(blamed) & set(kept):
        return f"that replica {blamed[0]} failed, with the error of replica {kept[0]}"
    if blamed:
        return f"that replica {' or '.join(map(str, trial.failing))} failed, and of what"
    in_own_words = type(error) in (RuntimeError, ValueError, Exception) and re.search(r"\bfail|\bwrong\b", words, re.I)
    if named and (in_own_words or kept):
        return f"{' and '.join(map(str, named))}, and no number of a replica that failed"
    return "that some replica failed" if in_own_words or kept else ""


def _in_words(outputs: Any, trial: ReplicaTrial) -> Any:
    """Each output by the number of the replica that it is right for, and whether it was recorded."""
    if not isinstance(outputs, list):
        return outputs
    parts = _parts(trial)
    none = "no output" if trial.silent is None else "None"
    return [none if out is None else _output(out, parts) for out in outputs]


def _output(out: Any, parts: list[Tensor]) -> Any:
    if not isinstance(out, Tensor):
        return out
    found = [r for r, part in enumerate(parts) if torch.equal(out.detach().double(), part.detach().double() * 2)]
    name = f"output {found[0]}" if found else str(out.tolist())
    other = f", in {out.dtype}" if out.dtype != parts[0].dtype else ""
    return f"{name}{', recorded' if out.requires_grad else ''}{other}"
