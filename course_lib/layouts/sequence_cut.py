"""A sequence cut among ranks: who has which positions, and which pairs of them attention looks at. Data, without torch.

Causal attention lets position t look at positions 0 to t: late positions have more to do than early ones. Two orders::

    8 tokens, 2 ranks, contiguous     rank 0: 0 1 2 3      10 pairs      rank 1: 4 5 6 7      26 pairs
    8 tokens, 2 ranks, zigzag         rank 0: 0 1 6 7      18 pairs      rank 1: 2 3 4 5      18 pairs

Zigzag cuts the sequence into two parts for each of n ranks and gives rank r part r, counted from the front, and part r
counted from the back. It also balances every *step* of ring attention: of each other rank's keys, a rank looks at half.
Source of the zigzag: Zhu, *ring-flash-attention* (2024); Llama 3 trains so (Llama Team, 2024, section 3.3.2). (Another
balanced order is Brandon et al., *Striped Attention*, 2023.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most, known
from course_lib.layouts.position_cut import PositionCut

__all__ = ["ORDERS", "SequenceCut"]

ORDERS = ("zigzag", "contiguous")


@checked
@dataclass(frozen=True)
class SequenceCut(PositionCut):
    """``num_tokens`` positions among ``num_ranks``, in an order of ``ORDERS``; they need not divide.

    A rank's tensors hold its positions in rising order. The sequence is one document; ``DocumentCut`` is for several.
    """

    num_tokens: int
    num_ranks: int
    order: str = "zigzag"

    def __post_init__(self) -> None:
        at_least(1, num_tokens=self.num_tokens, num_ranks=self.num_ranks)
        at_most(MOST_RANKS, num_ranks=self.num_ranks)
        known("order", self.order, ORDERS)

    @classmethod
    def parse(cls, text: str) -> SequenceCut:
        """The cut that ``str`` has written: ``"10 tokens, 4 ranks, zigzag"``."""
        found = re.fullmatch(r"(\d+) tokens, (\d+) ranks, (\w+)", text)
        if found is None:
            raise ValueError(f"{text!r} is no cut of a sequence; write it as '10 tokens, 4 ranks, zigzag'")
        return cls(int(found[1]), int(found[2]), found[3])

    def __str__(self) -> str:
        return f"{self.num_tokens} tokens, {self.num_ranks} ranks, {self.order}"

    def runs(self, place: int) -> tuple[range, ...]:
        """The positions at a place, as runs without a gap: one, or two that come from the front and the back."""
        self.check_place(place)
        if self.order == "contiguous":
            parts = [self._part(place, self.num_ranks)]
        else:
            front, back = place, 2 * self.num_ranks - 1 - place
            parts = [self._part(part, 2 * self.num_ranks) for part in (front, back)]
        return tuple(part for part in parts if part)

    def _part(self, number: int, num_parts: int) -> range:
        """Parts as even as can be: the first ones have one position more."""
        base, extra = divmod(self.num_tokens, num_parts)
        start = number * base + min(number, extra)
        return range(start, start + base + (number < extra))
