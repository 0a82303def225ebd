"""The build 02.all_reduce: what wrong answers show at the edge of a demand, and from one call to the next."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.exercises.lesson_02.sums.cases import AFTER, COMPLEX, ROWS, tensor_of
from course_lib.learn.exercises.lesson_02.sums.trial import SumReport
from course_lib.learn.judging.report import only_in, only_wrong, reports

__all__ = ["cuts_by_rows", "holds_on", "keeps_from_a_call_before", "one_kib_is_large"]


keeps_from_a_call_before = only_in(AFTER)


def one_kib_is_large(evidence: Evidence) -> bool:
    """Whether of all small tensors the one of 1 KiB alone goes in too many messages."""
    return only_wrong("messages", "rounds")(evidence) and all(one.kind == COMPLEX for one in evidence.wrong)


def cuts_by_rows(evidence: Evidence) -> bool:
    """Whether a tensor of two rows alone costs too much, and is sent in whole rows."""
    if not only_wrong("sent", "extra")(evidence) or any(one.kind != ROWS for one in evidence.wrong):
        return False
    row_bytes = tensor_of(ROWS, 0)[0].nbytes
    seen = [report for outcome, report in reports(evidence, SumReport) if not outcome.right]
    return all(call.size_bytes % row_bytes == 0 and call.item_bytes == 2 for one in seen for call in one.calls)


def holds_on(evidence: Evidence) -> bool:
    """Whether all is right but for what is held after the call."""
    return only_wrong("kept")(evidence)
