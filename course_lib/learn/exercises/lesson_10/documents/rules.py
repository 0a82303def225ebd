"""10.documents: the packings with which it is tried, and what is wrong with a cut of them, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from course_lib.learn.exercises.lesson_10.dealt_positions import fault_in_owners
from course_lib.learn.judging.compare import Difference

__all__ = ["MOST_RUNS", "PACKINGS", "PAIRS", "RUNS", "TOKENS", "fault_in"]

TOKENS, PAIRS, RUNS = "tokens", "pairs", "runs"  # kinds of differences
MOST_RUNS = 4  # a document

PACKINGS: tuple[tuple[int, tuple[int, ...]], ...] = (  # ranks, and lengths
    (4, (40, 8, 8, 8)),
    (2, (8, 16, 4)),
    (2, (12, 20, 16)),
    (4, (40, 60, 100)),
    (4, (64,)),
    (1, (5, 3)),
    (4, (37,)),
    (2, (41, 3, 3, 3, 3, 3)),
    (2, (2,) * 20),
    (4, (3,) * 21 + (1,)),
    (2, (1, 3) * 10),  # as many documents and tokens as twenty twos; to and fro in their order is uneven
    (4, (3, 5) * 18),
    (4, (1,) * 10),
    (3, (5, 1, 12, 2, 30, 1, 7)),
    (3, (100, 31, 7)),
    (6, (250, 17, 1, 1, 103)),
    (4, (3,)),  # fewer tokens than ranks
    (8, (4, 2, 1)),
    (1, (1,)),
    (24, (300, 50, 200)),
)


def fault_in(parts: Sequence[Sequence[Any]], lengths: Sequence[int]) -> str:
    """What is wrong with the positions of all ranks, in words; empty where nothing is."""
    if said := fault_in_owners(parts, sum(lengths)):
        return said
    sizes = [len(own) for own in parts]
    if max(sizes) - min(sizes) > 1:
        most, least = sizes.index(max(sizes)), sizes.index(min(sizes))
        said = f"rank {most} has {max(sizes)} tokens and rank {least} has {min(sizes)}: more than 1 apart"
        return Difference(said, TOKENS)
    starts = list(accumulate(lengths, initial=0))
    offsets = [position - start for start, end in pairwise(starts) for position in range(start, end)]
    pairs = [sum(offsets[position] + 1 for position in own) for own in parts]
    mean = sum(pairs) / len(parts)
    if max(pairs) > mean + max(lengths):
        return Difference(
            f"rank {pairs.index(max(pairs))} computes {max(pairs)} pairs; the mean is {mean:g}, and with a longest "
            f"document of {max(lengths)} tokens, {mean + max(lengths):g} are the most",
            PAIRS,
        )
    for rank, own in enumerate(parts):
        runs = 1 + sum(following != one + 1 for one, following in pairwise(own))
        if runs > MOST_RUNS * len(lengths):
            documents = f"{len(lengths)} document{'s' * (len(lengths) > 1)}"
            said = f"the positions of rank {rank} make {runs} stretches, and with {documents} "
            return Difference(f"{said}{MOST_RUNS * len(lengths)} are the most", RUNS)
    return ""
