"""The report of the build of lesson 03: all that a trial sees. A step compares what it demands, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, Report, fact

__all__ = ["FINE", "NONE_OR_ZEROS", "DataParallelReport"]

NONE_OR_ZEROS = "none, or zeros"  # a gradient of which either will do
_CLOSE = close_to(1e-9, 1e-11)


def _gradients(expected: Any, got: Any) -> str:
    """By name; where a gradient may be zeros or none, either is right."""
    free = [name for name, want in expected.items() if isinstance(want, str) and want == NONE_OR_ZEROS]
    odd = [name for name in free if isinstance(got.get(name), Tensor) and got[name].any()]
    if odd:
        return f"under {odd[0]!r}: expected zeros or none"
    return _CLOSE(*({name: grad for name, grad in one.items() if name not in free} for one in (expected, got)))


def _output(expected: Any, got: Any) -> str:
    """Nested alike, kinds of containers too, and the same numbers."""
    if isinstance(expected, dict | list | tuple) and type(expected) is not type(got):
        return f"expected a {type(expected).__name__}, got a {type(got).__name__}"
    if isinstance(expected, dict) and isinstance(got, dict):
        return next((f"under {key!r}: {d}" for key in expected if (d := _output(expected[key], got.get(key)))), "")
    if isinstance(expected, list | tuple) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        return next((f"item {place}: {d}" for place, (a, b) in pairs if (d := _output(a, b))), "")
    return _CLOSE(expected, got)


@dataclass(frozen=True, kw_only=True)
class DataParallelReport(Report):
    """What a trial saw of one answer in one run."""

    asked_for = "a module"
    # Threads that failed or were not waited for explain whatever else is wrong.
    limits: str = fact("your code waited for a time, {got}, and the replicas were not done", right=NOT_DEMANDED)
    met: str = fact("the replicas ran {got}; expected: {expected}", right=NOT_DEMANDED)
    told: str = fact("the caller is told {got}; expected: replica, device, error and traceback", right=NOT_DEMANDED)
    output: Any = fact("the output: {difference}", by=_output, right=NOT_DEMANDED)
    rows: Any = fact("the output is right, and devices computed {got} rows; expected: {expected}", right=NOT_DEMANDED)
    earlier: str = fact("the output is right, and after another call it holds {got}", right=NOT_DEMANDED)
    changed: str = fact("the output is right, and your code changed what it was given: {got}", right=NOT_DEMANDED)
    training: Any = fact("replicas were not in the module's mode (train or eval): {difference}", right=NOT_DEMANDED)
    grads: Any = fact("the .grad of the module's parameters: {difference}", by=_gradients, right=NOT_DEMANDED)
    input_grads: Any = fact("the .grad of the batch: {difference}", by=_CLOSE, right=NOT_DEMANDED)
    weights: Any = fact(
        "the module's weights after three more steps of training: {difference}", by=_CLOSE, right=NOT_DEMANDED
    )
    memory: str = fact("the gradients are right, and {got}, which no other device can reach", right=NOT_DEMANDED)
    frozen: str = fact("the results are right, and in a replica {got} asks for a gradient", right=NOT_DEMANDED)
    cast: str = fact("the results are right, and in a replica {got} has another dtype", right=NOT_DEMANDED)
    copied: str = fact("the results are right, and your code copied {got}", right=NOT_DEMANDED)
    copied_flat: str = fact("the results are right, and your code copied {got}", right=NOT_DEMANDED)
    pieces: str = fact("the results are right, and the tensors made for replicas are {got}", right=NOT_DEMANDED)
    held: str = fact("the results are right, and when all is over somebody still holds {got}", right=NOT_DEMANDED)
    died: str = fact("a thread ended in {got}", right=NOT_DEMANDED)
    done: str = fact("the caller went on when {got} replicas were done", right=NOT_DEMANDED)
    mixed: str = fact("in the middle of its forward a replica's weights became {got}", right=NOT_DEMANDED)
    modes: str = fact("in a replica {got}", right=NOT_DEMANDED)
    after: str = fact("the caller's modes are {got}", right=NOT_DEMANDED)
    drawn: str = fact("the output is right, and torch's random numbers are in {got}", right=NOT_DEMANDED)
    threads: str = fact("the output is right, and {got} that your code started still runs", right=NOT_DEMANDED)
    later: str = fact("after the failure, another call is {got}", right=NOT_DEMANDED)
    buffers: Any = fact("the module's buffers after the call: {difference}", by=_CLOSE, right=NOT_DEMANDED)
    noted: Any = fact("a list of the module's, to which each replica adds, holds {got}", right=NOT_DEMANDED)
    # For recognisers alone:
    leaf: str = NOTHING
    initial: Any = None
    run: Any = None
    first_is_copied: bool = False  # replica 0 has weights in other memory than the module's
    made_bytes: int = 0
    model_bytes: int = 0


FINE = {
    "limits": NOTHING,
    "met": "at the same time",
    "earlier": NOTHING,
    "changed": NOTHING,
    "memory": "each has its own",
    "frozen": NOTHING,
    "cast": NOTHING,
    "copied": "enough",
    "copied_flat": "enough",
    "pieces": "few",
    "held": NOTHING,
    "died": NOTHING,
    "mixed": "its own",
    "modes": "the caller's",
    "after": "as before",
    "drawn": NOTHING,
    "threads": NOTHING,
}
