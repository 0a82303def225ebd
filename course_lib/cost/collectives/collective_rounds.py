"""Collectives as data: which rank sends how much to which, round by round.

A round is a set of messages that start together; the next begins when all have arrived. ``size_bytes`` is always
the whole buffer: what a rank holds after an all-gather or before a reduce-scatter, what the root of a scatter
holds, what each rank of an all-to-all holds. What is called "naive" goes through the root: an all-reduce is then
a gather that adds and a broadcast, as with a parameter server.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005
(trees, recursive halving and doubling, rings); Bruck et al., 1997 (all-gather in log2 n rounds for any n).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most, known, not_negative

__all__ = ["ALGORITHMS", "Round", "rounds_of"]


@dataclass(frozen=True)
class Round:
    """Messages that start together: message i goes from ``senders[i]`` to ``receivers[i]``.

    ``repeat`` rounds of the same pattern follow each other. ``name`` is the phase, for reading.
    """

    name: str
    senders: np.ndarray
    receivers: np.ndarray
    sizes_bytes: np.ndarray
    repeat: int = 1

    @property
    def backwards(self) -> Round:
        """The same messages, each from its receiver to its sender."""
        return replace(self, senders=self.receivers, receivers=self.senders)


Rounds = tuple[Round, ...]


@checked
def rounds_of(collective: str, algorithm: str, num_ranks: int, size_bytes: float) -> Rounds:
    """The rounds of a collective whose root, where it has one, is rank 0. None of them for one rank.

    ``ALGORITHMS`` lists what there is. Raises ``ValueError`` for another, and for fewer than one rank.
    """
    known("collective", collective, ALGORITHMS)
    known(f"algorithm of {collective}", algorithm, ALGORITHMS[collective])
    at_least(1, num_ranks=num_ranks)
    at_most(MOST_RANKS, num_ranks=num_ranks)
    not_negative(size_bytes=size_bytes)
    return ALGORITHMS[collective][algorithm](num_ranks, size_bytes) if num_ranks > 1 else ()


def _round(name: str, messages: Iterable[tuple[int, int, float]], repeat: int = 1) -> Round:
    senders, receivers, sizes = zip(*messages, strict=True)
    return Round(name, np.array(senders), np.array(receivers), np.array(sizes, dtype=float), repeat)


def _shift(name: str, n: int, distance: int, size_bytes: float, repeat: int = 1) -> Round:
    """Every rank sends to the one ``distance`` ahead, round the end."""
    ranks = np.arange(n)
    return Round(name, ranks, (ranks + distance) % n, np.full(n, float(size_bytes)), repeat)


def _backwards(rounds: Rounds) -> Rounds:
    """The mirror image in time: it adds where the original copies (all-gather <-> reduce-scatter)."""
    return tuple(each.backwards for each in reversed(rounds))


# -- one rank to all, and back ----------------------------------------------------------------------------------


def _send(n: int, size_bytes: float) -> Rounds:
    return (_round("send", [(0, 1, size_bytes)]),)


def _from_root(share: Callable[[int], float]) -> Callable[[int, float], Rounds]:
    """The root sends to each of the others; ``share(n)`` of the buffer goes to each."""

    def rounds(n: int, size_bytes: float) -> Rounds:
        return (_round("from root", [(0, rank, size_bytes * share(n)) for rank in range(1, n)]),)

    return rounds


_naive_broadcast = _from_root(lambda n: 1.0)
_naive_scatter = _from_root(lambda n: 1.0 / n)


def _tree_broadcast(n: int, size_bytes: float) -> Rounds:
    """A binomial tree: in each round every rank that has the data sends it on, so their number doubles."""
    rounds, have = [], 1
    while have < n:
        messages = [(rank, rank + have, size_bytes) for rank in range(min(have, n - have))]
        rounds.append(_round("tree", messages))
        have *= 2
    return tuple(rounds)


def _tree_scatter(n: int, size_bytes: float) -> Rounds:
    """A binomial tree that halves: a rank keeps the front of its range of ranks and sends the rest."""
    rounds, ranges = [], [(0, n)]
    while any(end - start > 1 for start, end in ranges):
        messages, following = [], []
        for start, end in ranges:
            middle = start + (end - start + 1) // 2
            if end - start > 1:
                messages.append((start, middle, size_bytes * (end - middle) / n))
                following.append((middle, end))
            following.append((start, middle))
        rounds.append(_round("tree", messages))
        ranges = following
    return tuple(rounds)


def _chain_broadcast(n: int, size_bytes: float) -> Rounds:
    """A chain from rank to rank through which n pieces follow each other, as NCCL's ring broadcast does."""
    rounds = []
    for turn in range(2 * n - 2):  # piece p passes from rank r to r + 1 in turn p + r
        links = [rank for rank in range(n - 1) if 0 <= turn - rank < n]
        rounds.append(_round("chain", [(rank, rank + 1, size_bytes / n) for rank in links]))
    return tuple(rounds)


# -- all to all -------------------------------------------------------------------------------------------------


def _ring_all_gather(n: int, size_bytes: float) -> Rounds:
    return (_shift("gather round the ring", n, 1, size_bytes / n, n - 1),)


def _ring_reduce_scatter(n: int, size_bytes: float) -> Rounds:
    return (_shift("add round the ring", n, 1, size_bytes / n, n - 1),)


def _ring_all_reduce(n: int, size_bytes: float) -> Rounds:
    return _ring_reduce_scatter(n, size_bytes) + _ring_all_gather(n, size_bytes)


def _tree_all_gather(n: int, size_bytes: float) -> Rounds:
    """Bruck's algorithm: each round doubles what a rank holds, for any n; by powers of two, in log2 n rounds."""
    rounds, held = [], 1
    while held < n:
        rounds.append(_shift("double", n, -held, size_bytes * min(held, n - held) / n))
        held *= 2
    return tuple(rounds)


def _halving_doubling(n: int, size_bytes: float) -> Rounds:
    """Recursive halving, then doubling, between ranks that differ in one bit (Rabenseifner).

    Where n is no power of two, the ranks beyond the last one first add theirs to a partner's and get the
    result at the end.
    """
    power = 1 << (n.bit_length() - 1)
    fold: Rounds = ()
    if n > power:
        fold = (_round("fold", [(rank, rank - power, size_bytes) for rank in range(power, n)]),)
    halving, distance, part = [], power // 2, size_bytes / 2
    ranks = np.arange(power)
    while distance:
        halving.append(Round("halve", ranks, ranks ^ distance, np.full(power, part)))
        distance, part = distance // 2, part / 2
    doubling = tuple(replace(each, name="double") for each in reversed(halving))
    return (*fold, *halving, *doubling, *(each.backwards for each in fold))


def _pairwise(n: int, size_bytes: float) -> Rounds:
    """In round k every rank sends to the one k ahead what belongs there."""
    return tuple(_shift("pairwise", n, distance, size_bytes / n) for distance in range(1, n))


def _through_root_all_to_all(n: int, size_bytes: float) -> Rounds:
    to_root = _round("to root", [(rank, 0, size_bytes * (n - 1) / n) for rank in range(1, n)])
    return (to_root, replace(to_root.backwards, name="from root"))


def _then(*parts: Callable[[int, float], Rounds]) -> Callable[[int, float], Rounds]:
    return lambda n, size_bytes: tuple(each for part in parts for each in part(n, size_bytes))


def _reversed(part: Callable[[int, float], Rounds]) -> Callable[[int, float], Rounds]:
    return lambda n, size_bytes: _backwards(part(n, size_bytes))


_naive_reduce, _naive_gather = _reversed(_naive_broadcast), _reversed(_naive_scatter)
_tree_reduce = _reversed(_tree_broadcast)

ALGORITHMS: dict[str, dict[str, Callable[[int, float], Rounds]]] = {
    "all_reduce": {
        "ring": _ring_all_reduce,
        "naive": _then(_naive_reduce, _naive_broadcast),
        "tree": _then(_tree_reduce, _tree_broadcast),
        "halving-doubling": _halving_doubling,
    },
    "all_gather": {
        "ring": _ring_all_gather,
        "naive": _then(_naive_gather, _naive_broadcast),
        "tree": _tree_all_gather,
    },
    "reduce_scatter": {
        "ring": _ring_reduce_scatter,
        "naive": _then(_naive_reduce, _naive_scatter),
        "tree": _reversed(_tree_all_gather),
    },
    "broadcast": {"tree": _tree_broadcast, "naive": _naive_broadcast, "ring": _chain_broadcast},
    "reduce": {"tree": _tree_reduce, "naive": _naive_reduce, "ring": _reversed(_chain_broadcast)},
    "scatter": {"tree": _tree_scatter, "naive": _naive_scatter},
    "gather": {"tree": _reversed(_tree_scatter), "naive": _naive_gather},
    "all_to_all": {"pairwise": _pairwise, "naive": _through_root_all_to_all},
    "send": {"direct": _send},
}
