"""In which order units are used: it is known from the last pass, and tells what to gather next."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.parallel.sharded.unit import Unit

__all__ = ["Order"]


class Order:
    """The units of a pass, as they come, and those of the pass before.

    All ranks run the same program, so they predict the same, and start the same messages in the same order.
    """

    def __init__(self) -> None:
        self._before: list[Unit] = []
        self._now: list[Unit] = []

    def begin(self) -> None:
        """A new pass begins."""
        self._before, self._now = self._now or self._before, []

    def after(self, unit: Unit, count: int) -> Sequence[Unit]:
        """``unit`` comes now: the ``count`` units that follow it, if all is as it was in the pass before."""
        at = len(self._now)
        self._now.append(unit)
        as_before = self._before[at : at + 1] == [unit]
        return self._before[at + 1 : at + 1 + count] if as_before else []
