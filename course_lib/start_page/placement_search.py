"""A binary search along each strand for the first lesson that somebody does not know. It knows no question's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.start_page.strands import Strand

__all__ = ["PlacementSearch"]


class PlacementSearch:
    """Which question comes next, and what the answers say.

    A lesson counts as known when both of its questions were answered right; then those before it in its strand count
    as known too. The first wrong answer settles that it is not. It ends before the last strand where not even the
    first lesson is known, or where two strands in a row begin with a lesson that is not known.
    """

    def __init__(self, strands: Sequence[Strand], asked_of: Mapping[str, Sequence[str]]) -> None:
        self._strands, self._asked_of = tuple(strands), asked_of
        self._low = [0] * len(strands)  # lessons that are known, from the strand's first on
        self._high = [len(strand.lessons) for strand in strands]
        self._at, self._question = 0, 0
        self.asked = 0
        self._proof: dict[str, tuple[str, ...]] = {}  # by a lesson, the questions answered right
        self.is_stopped = False

    @property
    def next(self) -> tuple[str, str] | None:
        """The lesson and the question to be asked; None when enough is known."""
        if self.is_stopped or self._at == len(self._strands):
            return None
        lesson = self._strands[self._at].lessons[self._probe]
        return lesson, self._asked_of[lesson][self._question]

    @property
    def most(self) -> int:
        """How many questions there can be at most."""
        return sum(2 * len(strand.lessons).bit_length() for strand in self._strands)

    def answer(self, right: bool) -> None:
        """Take in whether the question of ``next`` was answered right."""
        lesson, _ = self.next or ("", "")
        probe, names = self._probe, self._asked_of[lesson]
        self.asked += 1
        if right and self._question + 1 < len(names):
            self._question += 1
            return
        self._question = 0
        if right:
            self._proof[lesson] = tuple(f"{lesson}.{name}" for name in names)
            self._low[self._at] = probe + 1
        else:
            self._high[self._at] = probe
        if self._low[self._at] == self._high[self._at]:
            self._at += 1
            ends = [self._low[0] == 0, self._at > 1 and not any(self._low[self._at - 2 : self._at])]
            self.is_stopped = any(ends)

    def known(self) -> dict[str, tuple[str, ...]]:
        """The lessons that count as known, each with the questions that say so."""
        found = {}
        for strand, low in zip(self._strands, self._low, strict=True):
            for place, lesson in enumerate(strand.lessons[:low]):
                later = strand.lessons[place:low]
                found[lesson] = next(self._proof[one] for one in later if one in self._proof)
        return found

    def begins(self) -> list[tuple[Strand, str]]:
        """For each strand of which was asked the first lesson that is not known; "" where all are."""
        asked = zip(self._strands[: self._at], self._low, strict=False)
        return [(strand, strand.lessons[low] if low < len(strand.lessons) else "") for strand, low in asked]

    @property
    def not_asked(self) -> list[str]:
        """What the strands are called of which nothing was asked, as it ended before them."""
        return [strand.title for strand in self._strands[self._at :]] if self.is_stopped else []

    @property
    def _probe(self) -> int:
        return (self._low[self._at] + self._high[self._at]) // 2
