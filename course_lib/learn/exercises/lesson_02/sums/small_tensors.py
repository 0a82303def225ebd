"""The build 02.all_reduce: how small tensors go where they cost too many messages."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.exercises.lesson_02.sums.cases import fewest_rounds, is_small
from course_lib.learn.exercises.lesson_02.sums.evidence import COSTS, tries_wrong_in
from course_lib.learn.judging.report import differing

__all__ = ["small_ones_in_a_ring", "small_ones_to_everybody"]


def small_ones_in_a_ring(evidence: Evidence) -> bool:
    """Whether small tensors alone cost too much, and go to one neighbour in 2 (n - 1) messages."""
    wrong = tries_wrong_in(evidence, "messages", "rounds")
    return bool(wrong) and all(
        is_small(one.kind)
        and len(one.sent_to) >= 2 * (one.world_size - 1) > fewest_rounds(one.world_size)
        and len(set(one.sent_to)) == 1
        for one in wrong
    )


def small_ones_to_everybody(evidence: Evidence) -> bool:
    """Whether what is wrong first is the cost of a small tensor, which each rank sends once to every other."""
    wrong = tries_wrong_in(evidence, *COSTS)
    if not wrong or "messages" not in differing(wrong[0].outcome) or not is_small(wrong[0].kind):
        return False
    alike = [one for one in wrong if (one.kind, one.world_size) == (wrong[0].kind, wrong[0].world_size)]
    return all({*one.sent_to, one.rank} == {*one.ranks} and len(one.sent_to) == one.world_size - 1 for one in alike)
