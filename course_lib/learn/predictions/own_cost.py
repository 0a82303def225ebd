"""What the learner's own cost, beside the course's: a sentence of a reveal, made of the runs themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.base.checks import is_number
from course_lib.base.text import counted
from course_lib.meter import Communication, bytes_text

__all__ = ["COURSES", "YOURS", "cost_in_words"]

COURSES, YOURS = "the course's", "yours"  # whose a run is
_KINDS = "a metered run, its communication, (calls, bytes sent), or a number of bytes that a rank held"


def cost_in_words(beside: Mapping[str, Any]) -> str:
    """What each of some runs cost, the learner's first; "" where there is none of the learner's.

    ``beside`` has a run for each implementation, as ``mine.beside`` gives them: a metered run or its communication, of
    which rank 0's calls and bytes are told, or these two numbers; or a number of bytes that a rank held. Raises
    ``ValueError`` for others.
    """
    if not isinstance(beside, Mapping):
        raise ValueError(f"beside={beside!r} is no runs by name; give what mine.beside gave.")
    if YOURS not in beside:
        return ""
    names = [YOURS, *(name for name in beside if name != YOURS)]
    costs = [f"{name} {_cost(beside[name])}" for name in names]
    return f"What it cost a rank: {'; '.join(costs)}."


def _cost(run: Any) -> str:
    if is_number(run):
        return f"held {bytes_text(run)}"
    found = getattr(run, "communication", run)
    if isinstance(found, Communication):
        found = len(found.of(0).calls), found.sent_bytes(0)
    if not (isinstance(found, tuple) and len(found) == 2 and all(map(is_number, found))):
        raise ValueError(f"{run!r} tells no cost; give {_KINDS}.")
    return f"made {counted(found[0], 'call')} and sent {bytes_text(found[1])}"
