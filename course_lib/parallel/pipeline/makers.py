"""The makers of schedules: each says in a few lines in which order a rank works, for any number of ranks.

Start with ``gpipe`` and ``one_f_one_b``. Sources: GPipe, Huang et al., arXiv 1811.06965; 1F1B, Narayanan et al.,
"PipeDream", arXiv 1806.03377, with a flush at the end of the batch as in arXiv 2006.09503; interleaved 1F1B,
Narayanan et al., arXiv 2104.04473; looped breadth-first, Lamy-Poirier, arXiv 2211.05953. Zero bubble schedules have
a file of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from course_lib.checks import at_least
from course_lib.parallel.pipeline.schedule import Action, Schedule, placement
from course_lib.parallel.pipeline.zero_bubble import zero_bubble_h1, zero_bubble_v

__all__ = [
    "MAKERS",
    "Maker",
    "chunks_of",
    "gpipe",
    "interleaved",
    "looped_bfs",
    "make",
    "naive",
    "one_f_one_b",
]


def naive(num_ranks: int, num_micro_batches: int = 1) -> Schedule:
    """One micro-batch at a time goes all the way down and back: one rank works, the others wait."""
    at_least(1, num_ranks=num_ranks, num_micro_batches=num_micro_batches)
    rows = [
        [Action(kind, stage, i) for i in range(num_micro_batches) for kind in "FB"]
        for stage in range(num_ranks)
    ]
    return _one_stage_a_rank("naive", num_micro_batches, rows)


def gpipe(num_ranks: int, num_micro_batches: int) -> Schedule:
    """All forwards, then all backwards: every rank holds the activations of all micro-batches."""
    at_least(1, num_ranks=num_ranks, num_micro_batches=num_micro_batches)
    rows = [
        [Action(kind, stage, i) for kind in "FB" for i in range(num_micro_batches)]
        for stage in range(num_ranks)
    ]
    return _one_stage_a_rank("GPipe", num_micro_batches, rows)


def one_f_one_b(num_ranks: int, num_micro_batches: int) -> Schedule:
    """A few forwards to fill the pipeline, then one forward and one backward in turn, then the backwards left.

    A rank never holds more activations than there are stages from its own to the last.
    """
    at_least(1, num_ranks=num_ranks, num_micro_batches=num_micro_batches)
    rows = []
    for stage in range(num_ranks):
        forwards = [Action("F", stage, i) for i in range(num_micro_batches)]
        backwards = [Action("B", stage, i) for i in range(num_micro_batches)]
        rows.append(_in_turn(forwards, backwards, num_warm_up=num_ranks - 1 - stage))
    return _one_stage_a_rank("1F1B", num_micro_batches, rows)


def interleaved(num_ranks: int, num_micro_batches: int, num_chunks: int = 2) -> Schedule:
    """1F1B over ``num_chunks`` stages a rank, which are ``num_ranks`` stages apart: idle for a shorter time.

    Micro-batches go in groups: a group passes a rank's first stage, then its second, and so on. With a number of
    micro-batches that ``num_ranks`` divides, groups are of ``num_ranks`` and the order is Megatron-LM's. Else they
    are made as even as can be and none is smaller than ``num_ranks``, unless all micro-batches are one group.
    With one chunk it is 1F1B.
    """
    at_least(1, num_ranks=num_ranks, num_micro_batches=num_micro_batches, num_chunks=num_chunks)
    groups = _groups(num_micro_batches, max(1, num_micro_batches // num_ranks))
    chunks = range(num_chunks)
    rows = []
    for rank in range(num_ranks):
        forwards = [Action("F", c * num_ranks + rank, i) for group in groups for c in chunks for i in group]
        backwards = [
            Action("B", c * num_ranks + rank, i) for group in groups for c in reversed(chunks) for i in group
        ]
        # The first group must have passed all but the last chunk, and each hop to the last rank and back takes two.
        hops = num_ranks - 1 - rank
        num_warm_up = (num_chunks - 1) * len(groups[0]) + 2 * hops if num_chunks > 1 else hops
        rows.append(_in_turn(forwards, backwards, num_warm_up))
    return _schedule("interleaved 1F1B", num_micro_batches, placement(num_ranks, num_chunks), rows)


def looped_bfs(num_ranks: int, num_micro_batches: int, num_chunks: int = 2) -> Schedule:
    """GPipe over several stages a rank: all micro-batches pass the first, then the second; backwards in reverse.

    Breadth first: as little idle as interleaved 1F1B, with the memory of GPipe.
    """
    at_least(1, num_ranks=num_ranks, num_micro_batches=num_micro_batches, num_chunks=num_chunks)
    rows = []
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * num_chunks, num_ranks)
        forwards = [Action("F", stage, i) for stage in stages for i in range(num_micro_batches)]
        rows.append(forwards + [action._replace(kind="B") for action in reversed(forwards)])
    return _schedule("looped BFS", num_micro_batches, placement(num_ranks, num_chunks), rows)


class _Make(Protocol):
    def __call__(self, num_ranks: int, num_micro_batches: int, num_chunks: int) -> Schedule: ...


@dataclass(frozen=True)
class Maker:
    """A kind of schedule as menus and tables need it: ``make(num_ranks, num_micro_batches, num_chunks)``."""

    title: str
    make: _Make
    chunks: str = "one"  # how many stages a rank holds: "one", "any" or "two"


MAKERS = {
    "naive": Maker("naive", lambda p, m, v: naive(p, m)),
    "gpipe": Maker("GPipe", lambda p, m, v: gpipe(p, m)),
    "1f1b": Maker("1F1B", lambda p, m, v: one_f_one_b(p, m)),
    "interleaved": Maker("interleaved 1F1B", interleaved, chunks="any"),
    "looped_bfs": Maker("looped BFS", looped_bfs, chunks="any"),
    "zb_h1": Maker("ZB-H1", lambda p, m, v: zero_bubble_h1(p, m)),
    "zb_v": Maker("ZB-V", lambda p, m, v: zero_bubble_v(p, m), chunks="two"),
}


def make(kind: str, num_ranks: int, num_micro_batches: int, *, num_chunks: int | None = None) -> Schedule:
    """The schedule of a kind, one of ``MAKERS``. ``num_chunks`` is the number of stages a rank, 2 where it is free.

    Raises ValueError for a kind that is not there and for a number of chunks that the kind cannot have.
    """
    if kind not in MAKERS:
        raise ValueError(f"kind is {kind!r}; the schedules made here are {', '.join(MAKERS)}.")
    return MAKERS[kind].make(num_ranks, num_micro_batches, chunks_of(kind, num_chunks))


def chunks_of(kind: str, num_chunks: int | None = None) -> int:
    """How many stages a rank holds in a kind of ``MAKERS``, where ``num_chunks`` of them are asked for."""
    maker = MAKERS[kind]
    fixed = {"one": 1, "two": 2}.get(maker.chunks)
    if fixed is None or num_chunks is None:
        at_least(1, num_chunks=2 if num_chunks is None else num_chunks)
        return fixed or num_chunks or 2
    if num_chunks != fixed:
        raise ValueError(
            f"num_chunks={num_chunks} does not work with {maker.title}: it puts {maker.chunks} "
            f"stage{'s' * (fixed > 1)} on a rank. Give {fixed}, or leave it out."
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
