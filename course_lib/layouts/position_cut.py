"""Positions cut among ranks: who has which, and which pairs of a query and a key attention computes. Without torch.

What every cut has in common, however it was made: a rank's positions come in *runs* without a gap, each within one
document, and of two runs of one document one stands wholly before the other. So of a pair of runs a causal mask shows
all, nothing, or, where both are the same, a triangle. ``SequenceCut`` is a sequence that is one document,
``DocumentCut`` one that holds several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from course_lib.base.checks import at_least

__all__ = ["PositionCut", "TilePair"]


@dataclass(frozen=True)
class TilePair:
    """Some of a rank's queries and some of a rank's keys, by where they stand in their ranks' tensors.

    ``is_diagonal``: both are the same positions, and each sees itself and those before it. Otherwise every query sees
    every key.
    """

    queries: slice
    keys: slice
    is_diagonal: bool

    @property
    def num_pairs(self) -> int:
        """How many times a query looks at a key."""
        queries, keys = (each.stop - each.start for each in (self.queries, self.keys))
        return queries * (queries + 1) // 2 if self.is_diagonal else queries * keys


class PositionCut(ABC):
    """``num_tokens`` positions among ``num_ranks``. A rank's tensors hold its positions in rising order.

    *Place* is a rank's number among those that share the sequence.
    """

    num_tokens: int
    num_ranks: int

    # -- who has what -------------------------------------------------------------------------------------------

    @abstractmethod
    def runs(self, place: int) -> tuple[range, ...]:
        """The positions at a place, as runs without a gap, each within one document. ``ValueError``: no such place."""

    def document_of(self, run: range) -> int:
        """The number of the document that a run lies in."""
        del run
        return 0

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

    def check_place(self, place: int) -> None:
        """``ValueError`` for a place that is not there."""
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < self.num_ranks:
            raise ValueError(
                f"place={place!r} is not there: the sequence is cut among {self.num_ranks} ranks, whose places are 0 "
                f"to {self.num_ranks - 1}"
            )

    # -- who looks at what --------------------------------------------------------------------------------------

    def num_pairs(self, query_place: int, key_place: int, *, is_causal: bool = True) -> int:
        """How many times a query of one place looks at a key of another: the work of that step of the ring."""
        return sum(
            self._num_pairs(queries, keys, is_causal)
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
                if self._sees(queries, keys, is_causal):
                    yield TilePair(query_slice, key_slice, is_diagonal=is_causal and keys == queries)

    def tiles(self, place: int, tile: int) -> Iterator[tuple[range, slice]]:
        """The positions of each tile, and where they stand in the rank's tensors. No tile reaches over a gap."""
        here = 0
        for run in self.runs(place):
            for start in range(0, len(run), tile):
                positions = run[start : start + tile]
                yield positions, slice(here, here + len(positions))
                here += len(positions)

    def seen_by(self, key_place: int, query_places: Sequence[int], *, is_causal: bool = True) -> tuple[slice, ...]:
        """Which keys of a place a query of some other places looks at, by where they stand in its rank's tensors."""
        queries = [run for place in query_places for run in self.runs(place)]
        return tuple(
            where
            for keys, where in self.tiles(key_place, max(1, self.num_tokens))
            if any(self._sees(run, keys, is_causal) for run in queries)
        )

    def _sees(self, queries: range, keys: range, is_causal: bool) -> bool:
        """Whether some of the queries look at some of the keys; runs are the same, or one is all before the other."""
        if is_causal and keys.start > queries.start:
            return False
        return self.document_of(queries) == self.document_of(keys)

    def _num_pairs(self, queries: range, keys: range, is_causal: bool) -> int:
        if not self._sees(queries, keys, is_causal):
            return 0
        is_triangle = is_causal and queries == keys
        return len(queries) * (len(queries) + 1) // 2 if is_triangle else len(queries) * len(keys)
