"""What an error of a failed replica tells its caller: which replica, on which device, what, and from which line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from course_lib.learn.exercises.lesson_03.data_parallel.models import ERRORS
from course_lib.learn.exercises.lesson_03.failures import words_of

__all__ = ["told_of"]


def told_of(error: BaseException, failing: Sequence[int], num_devices: int) -> str:
    """What an error says of the failure; empty where it is about something else."""
    words, everything = " ".join(words_of(error)), " ".join(words_of(error, with_causes=True))
    first = min(failing)
    kept = [r for r in failing if ERRORS[r] in everything]
    named = [r for r in range(num_devices + 1) if re.search(rf"(?<![\d.]){r}(?![\d.]*\d)", words)]
    in_own_words = type(error) in (RuntimeError, ValueError, Exception) and re.search(r"\bfail|\bwrong\b", words, re.I)
    if not kept:
        return f"that replica {first} failed, and not of what" if first in named and in_own_words else ""
    if first not in kept:
        return f"the error of replica {kept[0]}, and replica {first} failed as well"
    if first not in named:
        return f"{named[0]}, and it was replica {first}" if named else "no number of a replica"
    if "cpu" not in words:
        return "no device"
    return "all" if "in forward" in everything or _has_frame(error) else "no traceback"


def _has_frame(error: BaseException | None) -> bool:
    """Whether a traceback in the chain of causes leads to the line of the model that raised."""
    while error is not None:
        at = error.__traceback__
        while at is not None:
            if at.tb_frame.f_code.co_filename.endswith("models.py"):
                return True
            at = at.tb_next
        if any(_has_frame(one) for one in getattr(error, "exceptions", ())):
            return True
        error = error.__cause__ or error.__context__
    return False
