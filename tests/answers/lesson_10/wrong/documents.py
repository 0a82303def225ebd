"""10.documents: right by a call that is forbidden there. The mistakes' examples stand in the course."""

from __future__ import annotations

from collections.abc import Sequence


def _by_the_library(rank: int, num_ranks: int, lengths: Sequence[int]) -> list[int]:
    from course_lib.layouts import DocumentCut

    return list(DocumentCut.by_order(lengths, num_ranks, "even").owned[rank])


EXERCISE = "10.documents"
FORBIDDEN = _by_the_library
