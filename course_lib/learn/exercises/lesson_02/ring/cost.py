"""02.ring: what the ranks sent, and what it says about an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.exercises.lesson_02.costs import by_messages_alone, calls_of, is_for_all, sent, values_are_right
from course_lib.meter import Communication

__all__ = ["SIZE_BYTES", "right_but", "sends_everything", "through_rank_0", "weigh"]

_NUMBER_BYTES = 8
SIZE_BYTES = 40 * _NUMBER_BYTES  # of the tensor on 4 ranks, ten numbers for each


def weigh(
    count: int, number_bytes: int = _NUMBER_BYTES
) -> Callable[[Communication], tuple[Mapping[str, Any], Mapping[str, Any], str]]:
    """The cost for a tensor of so many numbers; 0: ten for each rank."""
    return partial(_weigh, count, number_bytes)


def _weigh(
    count: int, number_bytes: int, communication: Communication
) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    n = communication.world_size
    ranks = range(n)
    count = count or 10 * n
    steps, part = 2 * (n - 1), -(-count // n)  # the largest part
    wanted = {"bytes at most": steps * part * number_bytes, "bytes of all": steps * count * number_bytes}
    got = {
        "bytes by rank": [communication.sent_bytes(rank) for rank in ranks],
        "messages by rank": [communication.num_messages(rank) for rank in ranks],
        "other calls": [sum(map(is_for_all, calls_of(communication, rank))) for rank in ranks],
        "receivers": [[to for to in ranks if communication.matrix()[rank][to]] for rank in ranks],
    }
    return wanted, got, by_messages_alone(communication) or _words(wanted, got, steps)


def _words(wanted: Mapping[str, int], got: Mapping[str, Any], steps: int) -> str:
    most, fewest = wanted["bytes at most"], wanted["bytes of all"]
    for rank, size in enumerate(got["bytes by rank"]):
        if size > most:
            return f"rank {rank} sent {size} B, {size / most:.3g} times the {most} B that the task needs"
    if sum(got["bytes by rank"]) < fewest:
        size = sum(got["bytes by rank"])
        return f"all ranks together sent {size} B, {size / fewest:.3g} times the {fewest} B that the task needs"
    for rank, number in enumerate(got["messages by rank"]):
        if number > steps:
            return f"rank {rank} sent {number} messages; the task needs {steps}"
    for rank, receivers in enumerate(got["receivers"]):
        if len(receivers) > 1:
            names = ", ".join(map(str, receivers))
            return f"rank {rank} sent to ranks {names}; in a ring a rank sends to one neighbour alone"
    return ""


def right_but(check: Callable[[Evidence], bool]) -> Callable[[Evidence], bool]:
    """Recognises right values whose cost is as ``check`` says."""
    return lambda evidence: values_are_right(evidence) and check(evidence)


def through_rank_0(evidence: Evidence) -> bool:
    """On 4 ranks: whole tensors from everybody to rank 0, and from rank 0 to everybody."""
    sizes, receivers = sent(evidence, "bytes by rank"), sent(evidence, "receivers")
    return sizes == [3 * SIZE_BYTES, *[SIZE_BYTES] * 3] and receivers == [[1, 2, 3], [0], [0], [0]]


def sends_everything(evidence: Evidence) -> bool:
    """On 4 ranks: nothing but whole tensors, n - 1 of them from each rank or more."""
    sizes, messages = sent(evidence, "bytes by rank"), sent(evidence, "messages by rank")
    return min(sizes) >= 3 * SIZE_BYTES and sizes == [number * SIZE_BYTES for number in messages]
