"""The order in which units are used, known from the last pass: it says which all-gather to start next."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from course_lib.parallel.sharded.misuse import OTHER_UNITS
from course_lib.parallel.sharded.unit import Unit

__all__ = ["Order", "Passed"]


class Order:
    """The units of a pass, as they come, and those of the pass before.

    All ranks run the same program, so they predict the same, and start the same messages in the same order.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
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


class Passed:
    """Which units came, and in which order, since ranks last agreed about it: the names, and a number for them all."""

    def __init__(self, *orders: Order) -> None:
        self._orders = orders
        self.begin()

    def begin(self) -> None:
        self.names: list[str] = []
        self._number = 0

    def add(self, unit: Unit) -> None:
        self.names.append(unit.name)
        self._number = (31 * self._number + zlib.crc32(unit.name.encode())) % 1_000_003

    def numbers(self) -> list[int]:
        """To be summed over ranks."""
        return [self._number, self._number**2]

    def check(self, sums: Sequence[int], num_ranks: int) -> None:
        """``RuntimeError`` where ``sums`` of the ranks' numbers say that they are not all the same. It begins anew.

        Numbers are all the same where the mean of their squares is the square of their mean.
        """
        (total, of_squares), names = sums, ", ".join(self.names)
        self.begin()
        if num_ranks * of_squares != total**2:
            for order in self._orders:
                order.forget()  # ranks would go on to predict different units
            raise RuntimeError(OTHER_UNITS.format(passed=names or "none"))
