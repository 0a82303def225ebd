"""Facts by name, as the judges of this room write them down, and the first that is not as expected."""

from __future__ import annotations

from typing import Any

from course_lib.learn.judging.compare import close_to

__all__ = ["compare_facts"]

_close = close_to(1e-8)


def compare_facts(expected: Any, got: Any) -> str:
    """The first fact that differs. Facts that an answer did not get to are left out: an earlier one says why."""
    if not isinstance(expected, dict) or not isinstance(got, dict):
        return _close(expected, got)
    for name, fact in got.items():
        want = expected.get(name)
        if isinstance(fact, str) and isinstance(want, str):
            if fact != want:
                return f"{name}: {fact}; expected: {want}"
        elif found := _close(want, fact):
            return f"{name}: {found}"
    return ""
