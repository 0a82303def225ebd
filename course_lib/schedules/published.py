"""The schedules that were published, by name: each says in a few lines in which order a rank works.

Start with ``gpipe`` and ``one_f_one_b``. Sources: GPipe, Huang et al., arXiv 1811.06965; 1F1B, Narayanan et al.,
"PipeDream", arXiv 1806.03377, with a flush at the end of the batch as in arXiv 2006.09503 (PipeDream-Flush);
interleaved 1F1B, Narayanan et al., arXiv 2104.04473; looped breadth-first, Lamy-Poirier, arXiv 2211.05953. Zero bubble
schedules and DualPipeV have files of their own. ``SCHEDULES`` lists all, ``get_schedule`` makes one by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.schedules.action import Action
from course_lib.schedules.dualpipe import dual_pipe_v
from course_lib.schedules.table import Schedule, check_counts, placement
from course_lib.schedules.zb_auto import zero_bubble_auto
from course_lib.schedules.zb_v import zero_bubble_v
from course_lib.schedules.zero_bubble import zero_bubble_h1, zero_bubble_h2

__all__ = [
    "SCHEDULES",
    "ScheduleKind",
    "get_schedule",
    "gpipe",
    "interleaved",
    "looped_bfs",
    "naive",
    "one_f_one_b",
    "virtual_stages_of",
]


@checked
def naive(num_ranks: int, num_micro_batches: int = 1) -> Schedule:
    """One micro-batch at a time goes all the way down and back: one rank works, the others wait."""
    check_counts(num_ranks, num_micro_batches)
    rows = [[Action(kind, stage, i) for i in range(num_micro_batches) for kind in "FB"] for stage in range(num_ranks)]
    return _one_stage_a_rank("naive", num_micro_batches, rows)


@checked
def gpipe(num_ranks: int, num_micro_batches: int) -> Schedule:
    """All forwards, then all backwards (fill and drain): on every rank all micro-batches are in flight at once."""
    check_counts(num_ranks, num_micro_batches)
    rows = [[Action(kind, stage, i) for kind in "FB" for i in range(num_micro_batches)] for stage in range(num_ranks)]
    return _one_stage_a_rank("GPipe", num_micro_batches, rows)


@checked
def one_f_one_b(num_ranks: int, num_micro_batches: int) -> Schedule:
    """A few forwards to fill the pipeline, then one forward and one backward in turn, then the backwards left.

    A rank never has more micro-batches in flight than there are stages from its own to the last.
    """
    check_counts(num_ranks, num_micro_batches)
    rows = []
    for stage in range(num_ranks):
        forwards = [Action("F", stage, i) for i in range(num_micro_batches)]
        backwards = [Action("B", stage, i) for i in range(num_micro_batches)]
        rows.append(_in_turn(forwards, backwards, num_warm_up=num_ranks - 1 - stage))
    return _one_stage_a_rank("1F1B", num_micro_batches, rows)


@checked
def interleaved(num_ranks: int, num_micro_batches: int, num_virtual_stages: int = 2) -> Schedule:
    """1F1B over several virtual stages a rank, which are ``num_ranks`` stages apart: idle for a shorter time.

    Micro-batches go in groups: a group passes a rank's first stage, then its second, and so on. With a number of
    micro-batches that ``num_ranks`` divides, groups are of ``num_ranks`` and the order is Megatron-LM's. Else they
    are made as even as can be and none is smaller than ``num_ranks``, unless all micro-batches are one group.
    With one stage a rank it is 1F1B. Megatron-LM calls virtual stages model chunks.
    """
    check_counts(num_ranks, num_micro_batches, num_virtual_stages)
    groups = _groups(num_micro_batches, max(1, num_micro_batches // num_ranks))
    turns = range(num_virtual_stages)
    rows = []
    for rank in range(num_ranks):
        forwards = [Action("F", turn * num_ranks + rank, i) for group in groups for turn in turns for i in group]
        backwards = [
            Action("B", turn * num_ranks + rank, i) for group in groups for turn in reversed(turns) for i in group
        ]
        # The first group must have passed all but the last stage here; each hop to the last rank and back takes two.
        hops = num_ranks - 1 - rank
        num_warm_up = (num_virtual_stages - 1) * len(groups[0]) + 2 * hops if num_virtual_stages > 1 else hops
        rows.append(_in_turn(forwards, backwards, num_warm_up))
    return _schedule("interleaved 1F1B", num_micro_batches, placement(num_ranks, num_virtual_stages), rows)


@checked
def looped_bfs(num_ranks: int, num_micro_batches: int, num_virtual_stages: int = 2) -> Schedule:
    """GPipe over several stages a rank: all micro-batches pass the first, then the second; backwards in reverse.

    Breadth first: as little idle as interleaved 1F1B, with the memory of GPipe.
    """
    check_counts(num_ranks, num_micro_batches, num_virtual_stages)
    rows = []
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * num_virtual_stages, num_ranks)
        forwards = [Action("F", stage, i) for stage in stages for i in range(num_micro_batches)]
        rows.append(forwards + [action._replace(kind="B") for action in reversed(forwards)])
    return _schedule("looped BFS", num_micro_batches, placement(num_ranks, num_virtual_stages), rows)


_Make = Callable[[int, int, int], Schedule]


@dataclass(frozen=True)
class ScheduleKind:
    """A schedule as menus and tables need it: ``make(num_ranks, num_micro_batches, num_virtual_stages)``."""

    title: str
    make: _Make
    virtual_stages: str = "one"  # how many stages a rank holds: "one", "any" or "two"


SCHEDULES = {
    "naive": ScheduleKind("naive", lambda p, m, v: naive(p, m)),
    "gpipe": ScheduleKind("GPipe", lambda p, m, v: gpipe(p, m)),
    "1f1b": ScheduleKind("1F1B", lambda p, m, v: one_f_one_b(p, m)),
    "interleaved": ScheduleKind("interleaved 1F1B", interleaved, virtual_stages="any"),
    "looped_bfs": ScheduleKind("looped BFS", looped_bfs, virtual_stages="any"),
    "zb_h1": ScheduleKind("ZB-H1", lambda p, m, v: zero_bubble_h1(p, m)),
    "zb_h2": ScheduleKind("ZB-H2", lambda p, m, v: zero_bubble_h2(p, m)),
    "zb_1p": ScheduleKind("ZB-1p", lambda p, m, v: zero_bubble_auto(p, m, p)),
    "zb_2p": ScheduleKind("ZB-2p", lambda p, m, v: zero_bubble_auto(p, m, 2 * p)),
    "zb_v": ScheduleKind("ZB-V", lambda p, m, v: zero_bubble_v(p, m), virtual_stages="two"),
    "dualpipe_v": ScheduleKind("DualPipeV", lambda p, m, v: dual_pipe_v(p, m), virtual_stages="two"),
}


@checked
def get_schedule(
    kind: str, num_ranks: int, num_micro_batches: int, *, num_virtual_stages: int | None = None
) -> Schedule:
    """The schedule of a kind, one of ``SCHEDULES``. ``num_virtual_stages``: stages a rank, 2 where it is free.

    Raises ValueError for a kind that is not there and for a number of stages a rank that the kind cannot have.
    """
    return _kind(kind).make(num_ranks, num_micro_batches, virtual_stages_of(kind, num_virtual_stages))


@checked
def virtual_stages_of(kind: str, num_virtual_stages: int | None = None) -> int:
    """How many stages a rank holds in a kind of ``SCHEDULES``, where ``num_virtual_stages`` of them are asked for."""
    known = _kind(kind)
    fixed = {"one": 1, "two": 2}.get(known.virtual_stages)
    if fixed is None or num_virtual_stages is None:
        at_least(1, num_virtual_stages=2 if num_virtual_stages is None else num_virtual_stages)
        return fixed or num_virtual_stages or 2
    if num_virtual_stages != fixed:
        raise ValueError(
            f"num_virtual_stages={num_virtual_stages} does not work with {known.title}: it puts "
            f"{known.virtual_stages} stage{'s' * (fixed > 1)} on a rank. Give {fixed}, or leave it out."
        )
    return fixed


Rows = Sequence[Sequence[Action]]


def _in_turn(forwards: Sequence[Action], backwards: Sequence[Action], num_warm_up: int) -> list[Action]:
    """``num_warm_up`` forwards, then one forward and one backward in turn, then the backwards that are left."""
    num_warm_up = min(num_warm_up, len(forwards))
    row = list(forwards[:num_warm_up])
    for forward, backward in zip(forwards[num_warm_up:], backwards, strict=False):
        row += [forward, backward]
    return row + list(backwards[len(forwards) - num_warm_up :])


def _groups(num_micro_batches: int, num_groups: int) -> list[range]:
    """The micro-batches in order, in groups whose sizes differ by one at most, the larger ones first."""
    size, larger = divmod(num_micro_batches, num_groups)
    starts = [group * size + min(group, larger) for group in range(num_groups + 1)]
    return [range(start, end) for start, end in pairwise(starts)]


def _one_stage_a_rank(name: str, num_micro_batches: int, rows: Rows) -> Schedule:
    return _schedule(name, num_micro_batches, placement(len(rows)), rows)


def _schedule(name: str, num_micro_batches: int, rank_of_stage: tuple[int, ...], rows: Rows) -> Schedule:
    return Schedule(name, num_micro_batches, rank_of_stage, tuple(map(tuple, rows)))


def _kind(name: str) -> ScheduleKind:
    if name not in SCHEDULES:
        raise ValueError(f"kind is {name!r}; the schedules known here are {', '.join(SCHEDULES)}.")
    return SCHEDULES[name]
