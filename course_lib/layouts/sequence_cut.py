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
from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most, known

__all__ = ["ORDERS", "SequenceCut", "TilePair"]

ORDERS = ("zigzag", "contiguous")


@dataclass(frozen=True)
class TilePair:
    """Some of a rank's queries and some of a rank's keys, by where they stand in their ranks' tensors.

    ``is_diagonal``: both are the same positions, and each sees itself and those before it. Otherwise every query sees
    every key.
    """

    queries: slice
    keys: slice
    is_diagonal: bool


@checked
@dataclass(frozen=True)
class SequenceCut:
    """``num_tokens`` positions among ``num_ranks``, in an order of ``ORDERS``; they need not divide.

    A rank's tensors hold its positions in rising order. *Place* is a rank's number among those that share the sequence.
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

    # -- who has what -------------------------------------------------------------------------------------------

    def runs(self, place: int) -> tuple[range, ...]:
        """The positions at a place, as runs without a gap: one, or two that come from the front and the back."""
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < self.num_ranks:
            raise ValueError(
                f"place={place!r} is not there: the sequence is cut among {self.num_ranks} ranks, whose places are 0 "
                f"to {self.num_ranks - 1}"
            )
        if self.order == "contiguous":
            parts = [self._part(place, self.num_ranks)]
        else:
            front, back = place, 2 * self.num_ranks - 1 - place
            parts = [self._part(part, 2 * self.num_ranks) for part in (front, back)]
        return tuple(part for part in parts if part)

    def positions(self, place: int) -> list[int]:
        """The positions at a place, one by one."""
        return [position for run in self.runs(place) for position in run]

    def size(self, place: int) -> int:
        """How many positions there are at a place."""
        return sum(map(len, self.runs(place)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """``size`` of every place."""
        return tuple(self.size(place) for place in range(self.num_ranks))

    def _part(self, number: int, num_parts: int) -> range:
        """Parts as even as can be: the first ones have one position more."""
        base, extra = divmod(self.num_tokens, num_parts)
        start = number * base + min(number, extra)
        return range(start, start + base + (number < extra))

    # -- who looks at what --------------------------------------------------------------------------------------

    def num_pairs(self, query_place: int, key_place: int, *, is_causal: bool = True) -> int:
        """How many times a query of one place looks at a key of another: the work of that step of the ring."""
        return sum(
            _num_pairs(queries, keys) if is_causal else len(queries) * len(keys)
            for queries in self.runs(query_place)
            for keys in self.runs(key_place)
        )

    def tile_pairs(self, query_place: int, key_place: int, *, tile: int, is_causal: bool = True) -> Iterator[TilePair]:
        """What attention of the one's queries to the other's keys computes, in tiles of at most ``tile`` positions.

        A pair of tiles of which nothing may be seen is left out: that is where a causal mask saves work.
        """
        at_least(1, tile=tile)
        for queries, query_slice in self.tiles(query_place, tile):
            for keys, key_slice in self.tiles(key_place, tile):
                if not is_causal or keys.stop <= queries.start:
                    yield TilePair(query_slice, key_slice, is_diagonal=False)
                elif keys == queries:
                    yield TilePair(query_slice, key_slice, is_diagonal=True)

    def tiles(self, place: int, tile: int) -> Iterator[tuple[range, slice]]:
        """The positions of each tile, and where they stand in the rank's tensors. No tile reaches over a gap."""
        here = 0
        for run in self.runs(place):
            for start in range(0, len(run), tile):
                positions = run[start : start + tile]
                yield positions, slice(here, here + len(positions))
                here += len(positions)


def _num_pairs(queries: range, keys: range) -> int:
    """Pairs of a query and a key that is not after it; runs are the same, or one is all before the other."""
    if queries == keys:
        return len(queries) * (len(queries) + 1) // 2
    return len(queries) * len(keys) if keys.start < queries.start else 0
