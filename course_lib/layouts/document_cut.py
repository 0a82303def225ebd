"""A packed sequence cut among ranks: several documents in one sequence, and each attends to itself alone.

Training packs documents one after the other until a sequence is full. A token looks at the tokens of its own document
that are not after it (a *block-causal* mask), so a document of L tokens has L (L + 1) / 2 pairs, wherever it stands::

    10 tokens, documents of 6, 2 and 2      pairs  21 + 3 + 3 = 27       one document of 10: 55

``document_orders.py`` has ways to deal the positions out. Source: Llama Team, *The Llama 3 Herd of Models* (2024),
section 3.2 (the mask between documents), and PyTorch's ``_context_parallel/_load_balancer.py``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most, known
from course_lib.layouts.document_orders import ORDERS
from course_lib.layouts.position_cut import PositionCut

__all__ = ["DocumentCut"]


@checked
@dataclass(frozen=True)
class DocumentCut(PositionCut):
    """Documents of these ``lengths``, packed in this order, and the positions of each place in ``owned``.

    ``owned[place]`` holds whole numbers in rising order; over all places each position comes once. A ``ValueError``
    says which does not. ``by_order`` makes the cut from the name of an order.
    """

    lengths: Sequence[int]
    owned: Sequence[Sequence[int]]
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _runs: tuple[tuple[range, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", tuple(self.lengths))
        object.__setattr__(self, "owned", tuple(tuple(own) for own in self.owned))
        check_lengths(self.lengths)
        at_least(1, num_ranks=len(self.owned))
        at_most(MOST_RANKS, num_ranks=len(self.owned))
        self._check_owners()
        object.__setattr__(self, "_starts", tuple(accumulate(self.lengths, initial=0))[:-1])
        object.__setattr__(self, "_runs", tuple(self._runs_of(own) for own in self.owned))

    @staticmethod
    def by_order(lengths: Sequence[int], num_ranks: int, order: str) -> DocumentCut:
        """The cut of an order in ``document_orders.ORDERS``."""
        check_lengths(lengths)
        at_least(1, num_ranks=num_ranks)
        at_most(MOST_RANKS, num_ranks=num_ranks)
        known("order", order, tuple(ORDERS))
        return DocumentCut(lengths, ORDERS[order](lengths, num_ranks))

    @property
    def num_tokens(self) -> int:  # type: ignore[override]
        """Positions of all documents together."""
        return sum(self.lengths)

    @property
    def num_ranks(self) -> int:  # type: ignore[override]
        """Among how many ranks they are cut."""
        return len(self.owned)

    def __str__(self) -> str:
        return f"{self.num_tokens} tokens in {len(self.lengths)} documents, {self.num_ranks} ranks"

    def runs(self, place: int) -> tuple[range, ...]:
        """The positions at a place, as runs without a gap, each within one document."""
        self.check_place(place)
        return self._runs[place]

    def document_of(self, run: range) -> int:
        """The number of the document that a run lies in."""
        return bisect_right(self._starts, run.start) - 1

    def _runs_of(self, own: Sequence[int]) -> tuple[range, ...]:
        runs: list[range] = []
        starts = set(self._starts)
        for position in own:
            if runs and position == runs[-1].stop and position not in starts:
                runs[-1] = range(runs[-1].start, position + 1)
            else:
                runs.append(range(position, position + 1))
        return tuple(runs)

    def _check_owners(self) -> None:
        owner: dict[int, int] = {}
        for place, own in enumerate(self.owned):
            before = -1
            for position in own:
                if not 0 <= position < self.num_tokens:
                    raise ValueError(
                        f"place {place} has position {position}, and the documents have positions 0 to "
                        f"{self.num_tokens - 1}"
                    )
                if position <= before:
                    raise ValueError(f"place {place} has position {position} after {before}; give them in rising order")
                if position in owner:
                    raise ValueError(f"position {position} is at place {owner[position]} and at place {place}")
                owner[position], before = place, position
        if len(owner) < self.num_tokens:
            missing = next(position for position in range(self.num_tokens) if position not in owner)
            raise ValueError(f"no place has position {missing}; each of 0 to {self.num_tokens - 1} has one")


def check_lengths(lengths: Sequence[int]) -> None:
    """``ValueError`` where there is no document, or one without a token."""
    at_least(1, num_documents=len(lengths))
    for number, length in enumerate(lengths):
        if length < 1:
            raise ValueError(f"document {number} has {length} tokens; a document has at least 1: leave it out")
