"""Where a table runs one kind of action at a moment at which another one of that rank could begin."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.schedules import ScheduleTrace

__all__ = ["PASSED_OVER", "passed_over"]

PASSED_OVER = (("F", "I"), ("W", "I"), ("W", "F"))  # what ran, and what could begin there
_EPSILON = 1e-9


def passed_over(run: ScheduleTrace, max_in_flight: int) -> Mapping[tuple[str, str], list[str]]:
    """For each of ``PASSED_OVER`` the places, in words. ``run`` is of F, I and W alone, with a stage on each rank."""
    end_s = {tuple(span.action): span.end_s for span in run.spans}
    found: dict[tuple[str, str], list[str]] = {pair: [] for pair in PASSED_OVER}
    last, all_of_them = len(run.rows) - 1, set(range(run.schedule.num_micro_batches))
    for rank, row in enumerate(run.rows):
        done: dict[str, set[int]] = {kind: set() for kind in "FIW"}
        for span in row:
            is_full = len(done["F"]) - len(done["W"]) >= max_in_flight
            waiting = {"F": set() if is_full else all_of_them - done["F"], "I": done["F"] - done["I"]}
            source = {"F": rank - 1 if rank else None, "I": rank + 1 if rank < last else None}
            for ran, other in PASSED_OVER:
                could = {
                    i
                    for i in waiting[other]
                    if source[other] is None or end_s[other, source[other], i] <= span.start_s + _EPSILON
                }
                if span.action.kind == ran and could:
                    words = f"when {other}{min(could)} could begin there"
                    found[ran, other].append(f"rank {rank} begins {span.action.short} at {span.start_s:.4g} s, {words}")
            done[span.action.kind].add(span.action.micro_batch)
    return found
