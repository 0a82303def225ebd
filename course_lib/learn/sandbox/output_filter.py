"""Filters captured output: keeps what the learner printed, drops PyTorch's warnings and the course's own lines."""

from __future__ import annotations

import contextlib
import dis
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from course_lib.learn.sandbox.call_watcher import from_library, is_of_judges

__all__ = ["own_lines", "own_warnings", "text_of_ranks"]

# What C++ writes itself: PyTorch's logger ("[rank0]:[W1122 05:22:20.616 init.cpp:3955] ..."), and the end of a process.
_OF_CPP = re.compile(
    r"(\[rank\d+\]:)?\s*\[?[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ .*?\]"
    r"|terminate called after throwing an instance of"
    r"|  what\(\):  "
    r"|frame #\d+: "
    r"|Exception raised from .* \(most recent call first\):"
)
# The file that warns: from Python 3.14 on it is another than ``warnings.__file__``.
_OF_WARNINGS = warnings.formatwarning.__code__.co_filename
_WARNS = frozenset({"warn", "warn_explicit", "showwarning"})


@contextlib.contextmanager
def own_warnings() -> Iterator[None]:
    """Within it a warning that a person's own code gives is written to ``sys.stderr``, and no other is shown.

    The others speak of the check's own set-up as often as of the answer. Filters are put back at the end.
    """

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
    ) -> None:
        if sys.stderr is not None and _is_by_a_person(sys._getframe(1)):
            sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


def _is_by_a_person(frame: FrameType | None) -> bool:
    """Whether the code that warns is a person's, and says so: C warns in the name of the line that called it."""
    while frame is not None and frame.f_code.co_filename == _OF_WARNINGS:
        frame = frame.f_back
    if frame is None:
        return False
    code = frame.f_code
    if from_library(code.co_filename) or is_of_judges(code.co_filename):
        return False
    steps = list(dis.get_instructions(code))
    call = next((step.positions for step in steps if step.offset == frame.f_lasti), None)
    first, last = (call.lineno, call.end_lineno) if call else (None, None)
    if first is None or last is None:
        return False
    named = {step.argval for step in steps if step.positions and first <= (step.positions.lineno or 0) <= last}
    return any(name in _WARNS or frame.f_globals.get(name) is warnings.warn for name in map(str, named))


def own_lines(text: str) -> str:
    """The text of a rank without the lines that C++ wrote."""
    return "".join(line for line in text.splitlines(keepends=True) if not _OF_CPP.match(line))


def text_of_ranks(text: Mapping[int, str]) -> str:
    """What persons wrote on ranks, rank by rank, each line with its rank before it."""
    from course_lib.cluster.failures.run import in_rank_order

    return in_rank_order({rank: own_lines(written) for rank, written in text.items()})
