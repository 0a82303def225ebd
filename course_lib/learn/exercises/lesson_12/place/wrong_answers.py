"""Usual wrong answers to 12.place, each with what it mixes up.

They are recognised by what they give: an answer of which one method alone is wrong is told as one of which both are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Mistake

__all__ = ["MISTAKES"]


class _Right:
    """The right answer; below, one thing of it is wrong at a time."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes

    def first(self, node: int) -> int:
        """The first rank of a node."""
        return sum(self.sizes[:node])

    def node_of(self, rank: int) -> int:
        return next(node for node in range(len(self.sizes)) if rank < sum(self.sizes[: node + 1]))

    def place_of(self, rank: int) -> Any:
        node = self.node_of(rank)
        return node, rank - self.first(node)

    def rank_of(self, node: int, local_rank: int) -> Any:
        return self.first(node) + local_rank


class _AsTheFirst(_Right):
    """As if all nodes were as large as the first."""

    def place_of(self, rank: int) -> Any:
        return divmod(rank, self.sizes[0])

    def rank_of(self, node: int, local_rank: int) -> Any:
        return node * self.sizes[0] + local_rank


class _AsTheLargest(_Right):
    def place_of(self, rank: int) -> Any:
        return divmod(rank, max(self.sizes))

    def rank_of(self, node: int, local_rank: int) -> Any:
        return node * max(self.sizes) + local_rank


class _InTurn(_Right):
    """Dealt out like cards: rank 0 to node 0, rank 1 to node 1, and so on, over nodes that have room."""

    def order(self) -> list[tuple[int, int]]:
        rounds = range(max(self.sizes))
        return [(node, turn) for turn in rounds for node, size in enumerate(self.sizes) if turn < size]

    def place_of(self, rank: int) -> Any:
        return self.order()[rank]

    def rank_of(self, node: int, local_rank: int) -> Any:
        return self.order().index((node, local_rank))


class _ByRemainder(_Right):
    """Dealt out by remainder, whoever has room."""

    def place_of(self, rank: int) -> Any:
        local, node = divmod(rank, len(self.sizes))
        return node, local

    def rank_of(self, node: int, local_rank: int) -> Any:
        return local_rank * len(self.sizes) + node


class _Exchanged(_Right):
    def place_of(self, rank: int) -> Any:
        node, local = super().place_of(rank)
        return local, node


class _FromOne(_Right):
    def place_of(self, rank: int) -> Any:
        node, local = super().place_of(rank)
        return node + 1, local


class _LocalFromOne(_Right):
    def place_of(self, rank: int) -> Any:
        node, local = super().place_of(rank)
        return node, local + 1


class _OneTooLong(_Right):
    """``>`` in the place of ``>=``: a node's first rank is taken for one more on the node before."""

    def place_of(self, rank: int) -> Any:
        node = 0
        while node + 1 < len(self.sizes) and rank > self.sizes[node]:
            rank -= self.sizes[node]
            node += 1
        return node, rank


class _GlobalRank(_Right):
    def place_of(self, rank: int) -> Any:
        return self.node_of(rank), rank


class _Remainder(_Right):
    """``RANK % GPUs``: a place of its own for each, and another one than torchrun's."""

    def place_of(self, rank: int) -> Any:
        node = self.node_of(rank)
        return node, rank % self.sizes[node]


class _OnlyTheOneBefore(_Right):
    def first(self, node: int) -> int:
        return self.sizes[node - 1] if node else 0


class _OwnSize(_Right):
    def rank_of(self, node: int, local_rank: int) -> Any:
        return node * self.sizes[node] + local_rank


class _LocalAlone(_Right):
    def rank_of(self, node: int, local_rank: int) -> Any:
        return local_rank


class _OwnToo(_Right):
    """The node's own ranks are counted among those before it."""

    def rank_of(self, node: int, local_rank: int) -> Any:
        return sum(self.sizes[: node + 1]) + local_rank


class _WearsOut(_Right):
    """Takes the sizes off its own list: the second question finds another job."""

    def place_of(self, rank: int) -> Any:
        node = 0
        while self.sizes and rank >= self.sizes[0]:
            rank -= self.sizes.pop(0)
            node += 1
        return node, rank


def _gives(example: Callable[[list[int]], Any], outcome: AnswerOutcome) -> bool:
    """Whether the example gives in this case what was given."""
    if outcome.error is not None or not isinstance(outcome.expected, dict):
        return False
    mine = example(copy.copy(outcome.expected["sizes"]))
    asked, method = outcome.expected["asked"], outcome.expected["method"]
    questions = [(one,) if method == "place_of" else tuple(one) for one in asked]
    try:
        getattr(mine, method)(*questions[0])
        found = [getattr(mine, method)(*question) for question in questions]
    except (IndexError, ValueError):
        return False
    return _plain(found) == _plain(outcome.got)


def _plain(found: Any) -> Any:
    """Whole numbers and pairs of any kind, as they can be compared; what is no whole number is like none of them."""
    found = found.tolist() if hasattr(found, "tolist") else found
    if isinstance(found, bool | float):
        return repr(found)
    return tuple(_plain(one) for one in found) if isinstance(found, list | tuple) else found


def _like(example: Callable[[list[int]], Any]) -> Callable[[Evidence], bool]:
    """Whether everything that is wrong is what the example gives."""
    return lambda evidence: bool(evidence.wrong) and all(_gives(example, one) for one in evidence.wrong)


def _mistake(name: str, message: str, example: Callable[[list[int]], Any]) -> Mistake:
    return Mistake(name, message, example, _like(example))


MISTAKES = (
    _mistake(
        "all-as-the-first",
        "You count as if every node had as many ranks as the first. Nodes may differ, [8, 8, 4] for one: each takes "
        "as many ranks as its own size.",
        _AsTheFirst,
    ),
    _mistake(
        "all-as-the-largest",
        "You count as if every node had as many ranks as the largest. A smaller node takes fewer, and the next one "
        "begins right after them.",
        _AsTheLargest,
    ),
    _mistake(
        "dealt-in-turn",
        "You deal ranks out in turn, one to each node. That is a way in which Slurm can number its tasks; torchrun "
        "fills node 0 first, then node 1, and so on.",
        _InTurn,
    ),
    _mistake(
        "dealt-by-remainder",
        "You deal ranks out by the remainder: one to each node in turn, whether it has room or not. torchrun fills "
        "node 0 first, then node 1, and so on.",
        _ByRemainder,
    ),
    _mistake(
        "exchanged",
        "`place_of` gives the local rank first. Return (node, local rank).",
        _Exchanged,
    ),
    _mistake("nodes-from-one", "You count nodes from 1. The first node is node 0.", _FromOne),
    _mistake(
        "local-from-one",
        "You count local ranks from 1. The first rank of a node has the local rank 0, and takes GPU 0.",
        _LocalFromOne,
    ),
    _mistake(
        "one-too-long",
        "You count the first rank of a node as one more on the node before. A node of 8 has the local ranks 0 to 7: "
        "where 8 are left, one node more is full (`>=`, not `>`).",
        _OneTooLong,
    ),
    _mistake(
        "global-rank",
        "The node is right, and what you give as local rank is the global one. Take away the first rank of the node: "
        "node 1 has a GPU 0, too.",
        _GlobalRank,
    ),
    _mistake(
        "by-remainder",
        "The node is right. The local rank is not the remainder by the node's own size: where nodes differ, a node "
        "does not begin at a multiple of it. Count from the node's first rank.",
        _Remainder,
    ),
    _mistake(
        "only-the-one-before",
        "You count only the last of the nodes before. The first rank of a node is the sum of the sizes of *all* nodes "
        "before it.",
        _OnlyTheOneBefore,
    ),
    _mistake(
        "own-size",
        "`rank_of` counts the nodes before as if each were as large as this one. Add up their own sizes.",
        _OwnSize,
    ),
    _mistake(
        "local-alone",
        "`rank_of` gives the local rank again. The ranks of all nodes before come first.",
        _LocalAlone,
    ),
    _mistake(
        "own-too",
        "`rank_of` counts the node itself among the nodes before it. Its own ranks begin where those of the nodes "
        "*before* end: `sizes[:node]`, without the node.",
        _OwnToo,
    ),
    _mistake(
        "wears-out",
        "The first question gets its answer, and later ones are wrong: your code takes sizes off the list for good. "
        "Leave `self.sizes` as it is.",
        _WearsOut,
    ),
)
