"""What a rank runs when an answer is tried there, and what it tells of the call beside its value."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.learn.judging.call_io import in_words, remembered, settled
from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.sandbox.call_watcher import watch
from course_lib.learn.sandbox.output_filter import own_warnings
from course_lib.learn.sandbox.state_guard import LEFT_BEHIND, gradients_left_off

__all__ = ["Looks", "SeenOnRank", "left_behind", "on_rank"]


@dataclass(frozen=True)
class Looks:
    """What is looked at beside the value."""

    changes: bool = False  # the answer may change its arguments
    records: bool = False  # its calls: not in a trial, which may look at what is kept, since a recorder keeps
    makes_groups: bool = False  # the trial makes process groups itself, and leaves them


@dataclass(frozen=True)
class SeenOnRank:
    """What a call gave on a rank, and what was seen beside it."""

    value: Any
    forbidden: tuple[str, ...]  # those that it called
    note: str  # what is wrong about how it came, in words; "" for nothing
    unwaited: str  # a call that was begun and never waited for, which is then what the note says; "" for none
    calls: tuple[Any, ...] = ()  # those of communication, where they are recorded


def left_behind(lines: Sequence[str]) -> str:
    """What a call has left on its ranks, as a difference."""
    return f"{LEFT_BEHIND}: {lines[0]}" if lines else ""


def on_rank(
    me: Any,
    answer: Any,
    args: list[tuple[Any, ...]],
    before: list[tuple[Any, ...]] | None,
    forbidden: Sequence[str],
    looks: Looks,
) -> SeenOnRank:
    """On each rank: call the answer, and look at what it gives, calls, keeps and leaves.

    Where ``before`` is given, the answer is called with that first, and nobody looks at what comes of it.
    """
    from course_lib.cluster.base.open_groups import groups_here
    from course_lib.cluster.leaks.compare import never_waited_here
    from course_lib.meter.communication.recorder import Recorder

    mine = tuple(_on_device(value, me.device) for value in args[me.rank])
    kept, traces = Kept() if looks.changes else remembered(answer, mine), Traces()
    recorder = Recorder(me.rank) if looks.records else None
    groups, place = len(groups_here()), copy.copy(me)
    with (
        gradients_left_off() as left,
        own_warnings(),
        recorder or contextlib.nullcontext(),
        watch(forbidden) as called,
    ):
        if before is not None:
            settled(answer(me, *(_on_device(value, me.device) for value in before[me.rank])))
        got = settled(answer(me, *mine))
    begun = never_waited_here()
    note = f"rank {place.rank} {begun[0]}" if begun else in_words(kept.changes())
    if looks.records:  # a trial seeds and draws itself; what is held is not looked at, since the recorder holds it too
        note = note or traces.left(None)
    if me != place:
        left.append("changed `me`, which tells a rank its place")
    if len(groups_here()) > groups and not looks.makes_groups:
        left.append("has made a process group by new_group and left it there")
    note = note or left_behind([f"rank {place.rank} {said}" for said in left])
    return SeenOnRank(got, tuple(sorted(called)), note, begun[0] if begun else "", recorder.calls if recorder else ())


def _on_device(value: Any, device: Any) -> Any:
    """A tensor where the rank's back end can reach it; anything else as it is."""
    return value.to(device) if hasattr(value, "to") and hasattr(value, "untyped_storage") else value
