"""Ways to deal the positions of packed documents out to ranks. Data, without torch.

================ ================================================ ======================= =====================
order            what a rank has                                  tokens                  pairs
================ ================================================ ======================= =====================
contiguous       a part of the packed sequence                    even                    uneven
zigzag           a part from its front, and one from its back     even                    uneven
by_work          blocks, the heaviest dealt out first             even, but for a block   even in sum
per_document     a part of each document's front, and of its back even where parts divide even in every step
even             the same; what does not divide is pooled         even                    even in every step
================ ================================================ ======================= =====================

``per_document`` is PyTorch's ``_PerDocumentHeadTailLoadBalancer`` where every length divides by twice the number of
ranks; PyTorch refuses others. Here their first parts are longer by one. ``by_work`` is greedy: the next heaviest block
goes to the rank with the fewest pairs of those that have room. PyTorch's ``_PTRRLoadBalancer`` deals blocks in the
same order to and fro.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from course_lib.layouts.sequence_cut import SequenceCut

__all__ = ["BLOCK", "ORDERS", "by_work", "even", "per_document"]

BLOCK = 4  # positions that ``by_work`` keeps together; kernels have tiles of 128

Positions = list[list[int]]  # of each rank, rising


def contiguous(lengths: Sequence[int], num_ranks: int) -> Positions:
    """Neighbouring parts of the packed sequence."""
    cut = SequenceCut(sum(lengths), num_ranks, "contiguous")
    return [cut.positions(place) for place in range(num_ranks)]


def zigzag(lengths: Sequence[int], num_ranks: int) -> Positions:
    """Zigzag over the packed sequence, as if it were one document."""
    cut = SequenceCut(sum(lengths), num_ranks, "zigzag")
    return [cut.positions(place) for place in range(num_ranks)]


def per_document(lengths: Sequence[int], num_ranks: int) -> Positions:
    """Zigzag within each document."""
    parts: Positions = [[] for _ in range(num_ranks)]
    for start, length in _documents(lengths):
        cut = SequenceCut(length, num_ranks, "zigzag")
        for place, own in enumerate(parts):
            own += [start + position for position in cut.positions(place)]
    return parts


def even(lengths: Sequence[int], num_ranks: int) -> Positions:
    """Zigzag within each document, and the remainders of all documents pooled and dealt out by their pairs.

    A remainder is a document's first tokens: those with the fewest pairs, less than twice the number of ranks. So no
    rank has more than the heaviest of them above another.
    """
    parts: Positions = [[] for _ in range(num_ranks)]
    rest = []
    for start, length in _documents(lengths):
        size, over = divmod(length, 2 * num_ranks)
        rest += [(offset, start + offset) for offset in range(over)]
        for place, own in enumerate(parts):
            for part in (place, 2 * num_ranks - 1 - place):
                begin = start + over + part * size
                own += range(begin, begin + size)
    for turn, (_, position) in enumerate(sorted(rest, reverse=True)):
        parts[turn % num_ranks].append(position)
    return [sorted(own) for own in parts]


def by_work(lengths: Sequence[int], num_ranks: int, block: int = BLOCK) -> Positions:
    """Blocks of ``block`` neighbouring positions, the heaviest first, each to the rank with the fewest pairs so far.

    A rank has room for its share of the blocks, so that all have as many positions, but for a block.
    """
    num_pairs = [offset + 1 for _, length in _documents(lengths) for offset in range(length)]
    blocks = [range(begin, min(begin + block, len(num_pairs))) for begin in range(0, len(num_pairs), block)]
    room = -(-len(blocks) // num_ranks)
    parts: list[list[range]] = [[] for _ in range(num_ranks)]
    work = [0] * num_ranks
    for one in sorted(blocks, key=lambda one: -sum(num_pairs[position] for position in one)):
        place = min((p for p in range(num_ranks) if len(parts[p]) < room), key=lambda p: (work[p], p))
        parts[place].append(one)
        work[place] += sum(num_pairs[position] for position in one)
    return [sorted(position for one in own for position in one) for own in parts]


ORDERS: Mapping[str, Callable[[Sequence[int], int], Positions]] = {
    "contiguous": contiguous,
    "zigzag": zigzag,
    "by_work": by_work,
    "per_document": per_document,
    "even": even,
}


def _documents(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Start and length of each document."""
    return list(zip(accumulate(lengths, initial=0), lengths, strict=False))
