"""What the evidence of a run says about each suspect: numbers, what they clear, and whether a fault stands out."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.learn.sick.sick_runs.cases import (
    ACROSS,
    BUBBLE,
    EXPOSED,
    FULL,
    LOADER,
    RECOMPUTED,
    SLOW,
    UNEVEN,
)
from course_lib.learn.sick.sick_runs.evidence import RunEvidence
from course_lib.learn.sick.sick_runs.intervals import exposed_s
from course_lib.learn.sick.sick_runs.job import MIB

__all__ = ["BLURRED", "Clues", "cleared", "clues_of"]

BLURRED = " (In this run it is hard to see, since the machine was busy. Look at the run once more.)"


@dataclass(frozen=True)
class Clues:
    """Shares are of the step, unless said otherwise."""

    least_computing: float
    least_reading: float  # of the rank that reads least
    most_reading: float
    start_spread: float  # from the first rank's first box to the last rank's
    quickest_s: float  # a forward, of the quickest rank and of the slowest
    slowest_s: float
    slowest_rank: int
    backward_to_forward: float  # the most of any rank
    fullest: float  # of the memory of a device
    crossing_calls: int  # the most of any rank
    tail: float  # exposed after the last backward, on the rank that has the least of it

    def shows(self, fault: str) -> bool:
        """Whether this run bears the marks of a fault."""
        marks = {
            LOADER: self.least_reading > 0.15,
            BUBBLE: self.start_spread > 0.15,
            RECOMPUTED: self.backward_to_forward > 2.6 and self.fullest < 0.7,
            ACROSS: self.crossing_calls > 8,
            EXPOSED: self.tail > 0.15,
            SLOW: self.slowest_s > 1.4 * self.quickest_s,
        }
        return marks[fault]


def clues_of(seen: RunEvidence) -> Clues:
    """The numbers that the sentences are made of."""
    ranks = range(seen.num_ranks)
    shares = [seen.shares(rank) for rank in ranks]
    forward_s = [seen.box_s(rank, "forward") for rank in ranks]
    first_s = [
        min(span.start_s for span in seen.spans if span.rank == rank and span.kind == "compute") for rank in ranks
    ]
    return Clues(
        least_computing=min(share[0] for share in shares),
        least_reading=min(share[2] for share in shares),
        most_reading=max(share[2] for share in shares),
        start_spread=(max(first_s) - min(first_s)) / seen.step_s,
        quickest_s=min(forward_s),
        slowest_s=max(forward_s),
        slowest_rank=forward_s.index(max(forward_s)),
        backward_to_forward=max(seen.box_s(rank, "backward") / forward_s[rank] for rank in ranks),
        fullest=max(seen.memory_bytes) / seen.device_bytes,
        crossing_calls=max(seen.crossing_calls),
        tail=min(_tail_s(seen, rank) for rank in ranks) / seen.step_s,
    )


def _tail_s(seen: RunEvidence, rank: int) -> float:
    """Seconds of exposed communication after a rank's last backward."""
    end_s = max(span.end_s for span in seen.spans if (span.rank, span.name) == (rank, "backward"))
    return exposed_s([(max(a, end_s), b, kind) for a, b, kind in seen.spans_of(rank) if b > end_s])


def cleared(suspect: str, seen: RunEvidence) -> str:
    """What one would see if it were so, and what is seen."""
    clues = clues_of(seen)
    sentences = {
        LOADER: f"Then ranks would wait in `data`. Here they spend at most {clues.most_reading:.0%} of the step there.",
        BUBBLE: "Then ranks would begin one after the other, and be idle in turn. Here the first bars of all ranks "
        f"begin within {clues.start_spread:.0%} of the step.",
        SLOW: f"Then one rank would be slower at the same work. Here a forward takes {1e3 * clues.quickest_s:.1f} to "
        f"{1e3 * clues.slowest_s:.1f} ms on all ranks.",
        RECOMPUTED: "Then a backward would take three times a forward. Here it takes "
        f"{clues.backward_to_forward:.1f} times.",
        ACROSS: "Then every layer would send to the other node, forward and backward. Here no rank has more than "
        f"{clues.crossing_calls} call{'' if clues.crossing_calls == 1 else 's'} in a step to the other node.",
        EXPOSED: "Then all ranks would communicate for long when the last backward is done. Here one rank does so for "
        f"{clues.tail:.0%} of the step.",
        UNEVEN: _not_uneven(seen, clues),
        FULL: f"The fullest device has {clues.fullest:.0%} of its memory in use.",
    }
    blurred = suspect not in (UNEVEN, FULL) and clues.shows(suspect)
    return sentences[suspect] + (BLURRED if blurred else "")


def _not_uneven(seen: RunEvidence, clues: Clues) -> str:
    """Ranks with more layers have longer boxes and hold more."""
    then = "Then the ranks with more layers would have longer bars and hold more. "
    held_mib = [size / MIB for size in seen.memory_bytes]
    if clues.shows(SLOW):
        return then + (
            f"Here rank {clues.slowest_rank} has the longest bars, and it holds {held_mib[clues.slowest_rank]:.1f} "
            f"MiB; the others hold {_range([*held_mib[: clues.slowest_rank], *held_mib[clues.slowest_rank + 1 :]])}."
        )
    return then + (
        f"Here a forward takes {1e3 * clues.quickest_s:.1f} to {1e3 * clues.slowest_s:.1f} ms on all ranks, so all "
        f"have as many layers. They hold {_range(held_mib)}"
        + (": a later stage keeps fewer micro-batches for backward." if _differ(held_mib) else ".")
    )


def _differ(values: list[float]) -> bool:
    return max(values) > 1.1 * min(values)


def _range(values: list[float]) -> str:
    return (f"{min(values):.1f} to {max(values):.1f}" if _differ(values) else f"{max(values):.1f}") + " MiB"
