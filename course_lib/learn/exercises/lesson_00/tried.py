"""How the rank answers of lesson 00 are tried: what came back, what was sent for it, and how the rank was left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.judging.compare import Compare, difference
from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.meter import Call

__all__ = ["CauseTried", "alone", "place_of", "told_by", "trial", "value_of", "with_label"]


@dataclass(frozen=True)
class CauseTried:
    """What an answer gave on one rank; ``remark`` is a sentence on what it did besides, empty when all is well."""

    value: Any
    num_calls: int = 0  # of torch.distributed
    given_bytes: int = 0  # to those calls, by this rank
    remark: str = ""


def trial(*, keep: str = "", most_bytes: int | None = None) -> Callable[..., CauseTried]:
    """A trial for ``by_trial``: ``answer(me, tensor)``. ``keep`` names a tensor that is to stay as it is.

    ``most_bytes`` is how much a rank may give to its collectives. With each further tensor of a case the answer is
    called before: it may keep nothing from one call to the next.
    """
    return partial(_tried, keep=keep, most_bytes=most_bytes)


def _tried(
    answer: Callable[..., Any],
    me: Any,
    tensor: torch.Tensor,
    *before: torch.Tensor,
    keep: str,
    most_bytes: int | None,
) -> CauseTried:
    """Runs on each rank."""
    from course_lib.meter.communication.recorder import Recorder

    stayed = ""
    for other in before:
        traces = Traces((other,))
        answer(me, other)
        stayed = stayed or traces.found(None)
    kept = Kept(**{keep: tensor}) if keep else Kept()
    world, num_groups = dist.group.WORLD, _num_groups()
    with Recorder(me.rank) as recorder:
        value = answer(me, tensor)
    given_bytes = sum(call.size_bytes for call in recorder.calls)
    remark = ""
    if not dist.is_initialized() or dist.group.WORLD is not world:
        remark = "afterwards the process group is gone, and the next call needs it"
    elif _num_groups() != num_groups:
        remark = "a process group that your code made is left behind"
    elif changed := kept.changes():
        remark = f"your code changed what it was given: {changed}"
    elif stayed:
        remark = f"your code {stayed}"
    elif value is not None and (elsewhere := _result_elsewhere(recorder.calls)):
        remark = elsewhere
    elif most_bytes is not None and given_bytes > most_bytes:
        remark = (
            f"for it this rank gave {given_bytes:,} bytes to its collectives; a few numbers are enough, whatever a "
            "rank holds"
        )
    return CauseTried(value, len(recorder.calls), given_bytes, remark)


def _result_elsewhere(calls: Sequence[Call]) -> str:
    """A reduce to another rank after which nothing more came to this one; empty where there is none.

    What such a reduce leaves in this rank's tensor is not defined; gloo sometimes leaves the very sum there.
    """
    for call in reversed(calls):
        if call.operation == "reduce" and call.root != call.rank:
            return (
                f"it rests on chance: with dst={call.root}, `dist.reduce` gives the sum to rank {call.root} alone. "
                f"What it leaves in the tensor of rank {call.rank} is not defined"
            )
        if call.operation not in ("send", "barrier") and not _gives_only(call):
            return ""
    return ""


def _gives_only(call: Call) -> bool:
    """Whether this rank hands something over in the call, and nothing comes to it."""
    is_root = call.root == call.rank
    return is_root if call.operation in ("broadcast", "scatter") else call.operation == "gather" and not is_root


def told_by(compare: Compare = difference) -> Compare:
    """A comparison of a plain value with a :class:`Tried`, or of two of these: first the value, then the remark."""

    def told(expected: Any, got: Any) -> str:
        found = compare(value_of(expected), value_of(got))
        if found or not isinstance(got, CauseTried) or not got.remark:
            return found
        alike = isinstance(expected, CauseTried) and expected.remark == got.remark
        return "" if alike else f"the result is right, and {got.remark}"

    return told


def value_of(got: Any) -> Any:
    return got.value if isinstance(got, CauseTried) else got


def place_of(outcome: AnswerOutcome) -> tuple[int, int]:
    """Rank and world size."""
    return outcome.rank, outcome.num_ranks


def alone(seen: Evidence) -> bool:
    """Whether all is right but what was tried on one rank."""
    return bool(seen.wrong) and all(one.case.endswith((" of 1", " on 1 rank")) for one in seen.wrong)


def with_label(seen: Evidence, label: str) -> list[AnswerOutcome]:
    """The outcomes of ranks that came to an end in the cases of this label."""
    return [one for one in seen.outcomes if one.error is None and one.case.startswith(f"{label}, rank ")]


def _num_groups() -> int:
    from course_lib.cluster.base.open_groups import groups_here

    return len(groups_here())
