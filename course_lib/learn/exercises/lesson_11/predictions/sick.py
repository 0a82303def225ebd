"""Part c of lesson 11: six runs that are slow, and what their evidence says."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.exercises.lesson_11.predictions.sick_clues import cleared, clues_of
from course_lib.learn.sick.sick_runs.cases import (
    ACROSS,
    BUBBLE,
    CASES,
    EXPOSED,
    LOADER,
    RECOMPUTED,
    SLOW,
    SUSPECTS,
)
from course_lib.learn.sick.sick_runs.evidence import RunEvidence

__all__ = ["SICK"]


def _loader(seen: RunEvidence) -> str:
    clues = clues_of(seen)
    return (
        f"Each rank spends {clues.least_reading:.0%} of the step or more in `data`, before anything is computed. "
        "After that nothing is wrong. Links and devices are not the cause. Readers that work ahead, quicker storage, "
        "or less decoding will mend it. (PyTorch's `DataLoader` has `num_workers=0` by default.)"
    )


def _bubble(seen: RunEvidence) -> str:
    clues = clues_of(seen)
    return (
        f"The last rank begins to compute when {clues.start_spread:.0%} of the step is over, and the first one ends "
        "last: the bars form stairs. Bars are equally long, and few bytes are sent. The ranks spend that time in "
        "`recv`, which is waiting and no transfer. So a share of communication does not show that a link is slow. "
        "Look at (p - 1)/m: which setting changes it?"
    )


def _recomputed(seen: RunEvidence) -> str:
    clues = clues_of(seen)
    return (
        f"In this run every rank computes for {clues.least_computing:.0%} of the step or more, and nobody waits for "
        "long. But "
        f"the model's own arithmetic is {seen.useful_share:.0%}. A backward takes {clues.backward_to_forward:.1f} "
        f"times a forward, and it needs only twice the time. {clues.fullest:.0%} of the memory is in use: there is "
        "room to keep what is computed again."
    )


def _across(seen: RunEvidence) -> str:
    clues = clues_of(seen)
    inside, outside = (sum(seen.node_bytes(rank)[place] for rank in range(seen.num_ranks)) for place in (0, 1))
    return (
        "After every layer, forward and backward, there is a sum which nothing hides. It leaves the node: one rank "
        f"has {clues.crossing_calls} calls to the other node. {outside / 1e6:.1f} MB go to the other node, and "
        f"{inside / 1e6:.1f} MB stay. With the axes in the other order these sums stay within a node. Then gradients "
        "are sent between nodes, during a backward."
    )


def _exposed(seen: RunEvidence) -> str:
    clues = clues_of(seen)
    return (
        f"One all-reduce, of all gradients, begins when the last backward is done: {clues.tail:.0%} of the step "
        "or more passes in it, on every rank. Before that, no rank communicates at all. The link was idle while it "
        "could have sent gradients."
    )


def _slow(seen: RunEvidence) -> str:
    clues = clues_of(seen)
    return (
        f"The same forward takes {1e3 * clues.slowest_s:.0f} ms on rank {clues.slowest_rank}, and "
        f"{1e3 * clues.quickest_s:.0f} ms elsewhere. All others wait for it, in `recv` or in the all-reduce, and look "
        "as if they had a slow link. The rank that waits least is the one to look at. (While NCCL's kernels wait for "
        "another rank, a GPU counts as busy: `nvidia-smi` would show nothing of this.)"
    )


_WHY: dict[str, Callable[[RunEvidence], str]] = {
    LOADER: _loader,
    BUBBLE: _bubble,
    RECOMPUTED: _recomputed,
    ACROSS: _across,
    EXPOSED: _exposed,
    SLOW: _slow,
}


def _told(seen: RunEvidence) -> Explanation:
    """From the evidence of a run: its fault, as it was built in, and what shows it."""
    fault = CASES[seen.name].fault
    clues = clues_of(seen)
    because = _WHY[fault](seen)
    if not clues.shows(fault):
        because += " (In this run it is hard to see, since the machine was busy. Look at the run once more.)"
    return Explanation(
        measured=fault,
        label="built in",
        because=because,
        misreadings={suspect: cleared(suspect, seen) for suspect in SUSPECTS if suspect != fault},
    )


def _asked(name: str) -> Asked:
    return Asked(
        name=f"11.run_{name.lower()}",
        question=f"What is wrong with run {name}?",
        choices=SUSPECTS,
        tell=_told,
    )


SICK: tuple[Asked, ...] = (*(_asked(name) for name in CASES),)
