"""Part g of lesson 10: packed documents, and the work and bytes of a ring over them."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib import cost
from course_lib.layouts.document_cut import DocumentCut
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["PACKED"]


def _work(pairs: Sequence[int], cut: DocumentCut) -> Explanation:
    """From the pairs that each rank computed, and the cut."""
    mean = sum(pairs) / len(pairs)
    by_model = [sum(own) for own in zip(*cost.ring_pairs(cut), strict=True)]
    least = pairs.index(min(pairs))
    return Explanation(
        measured=round(max(pairs) / mean, 2),
        model=round(max(by_model) * len(by_model) / sum(by_model), 2),
        because=f"Rank {pairs.index(max(pairs))} computes {max(pairs)} pairs, rank {least} {min(pairs)}. A late place "
        "in the sequence costs much only where it is also late in its document. Zigzag pairs the front of the sequence "
        "with the back. Here the costly queries stand just before the long document ends, and the back of the sequence "
        "is as cheap as the front.",
        misreadings={
            1: "That is so with one document. Here the last part of the sequence belongs to short documents, and "
            "looks at few keys.",
            len(pairs): "That would be one rank with all of the work. The long document lies on every rank.",
            1.74: "That is so for the last of four contiguous parts of one document. Here there are several "
            "documents, in zigzag order.",
        },
        apart="Pairs are counted, not timed. Did you change a length?",
    )


def _unused(all_bytes: int, needed_bytes: int, cut: DocumentCut) -> Explanation:
    """From the bytes of all ranks forward, sent whole and with what nobody needs left out, and the cut."""
    n = cut.num_ranks
    sent = sum(cut.size(owner) for owner in range(n) for _ in range(n - 1))
    needed = sum(
        where.stop - where.start
        for owner in range(n)
        for step in range(n - 1)
        for where in cut.seen_by(owner, [(owner + hop) % n for hop in range(step + 1, n)])
    )
    return Explanation(
        measured=round(100 * (1 - needed_bytes / all_bytes)),
        model=100 * (1 - needed / sent),
        because="Three of four documents have eight tokens, and each lies in one rank's part. No other rank looks at "
        "it, but it still goes round. Rank 3 has the last 16 keys of the long document, which no other rank may "
        "see. And keys of ranks 1 and 2 go on after the last rank that looks at them.",
        misreadings={
            0: "Under one causal mask most keys are needed by some rank further on. Here a mask hides whole documents.",
            25: "That is the share that some rank still needs.",
            38: "That is the three short documents. Keys of the long one also travel in vain, after the last rank "
            "that looks at them has them.",
        },
        apart="Bytes are counted by the meter. Did you change a length, or the order?",
    )


def _ahead(busy_share: float, cut: DocumentCut) -> Explanation:
    """From the share of a paced lap in which ranks computed, and its cut."""
    together = cost.ring_balance(cut)
    return Explanation(
        measured=round(100 * busy_share),
        model=100 * cost.ring_lap_balance(cut),
        because="A rank does not wait for all others. In this loop it goes on when its own step is done and both "
        "neighbours have begun theirs. So it can be one step ahead of a neighbour, and some gaps are filled. Here "
        "it gets no further ahead. A rank with its work in a late step waits for that step, and then the others "
        "wait for this rank. With room for more blocks, sent on as they come, it could be further ahead. Even sums "
        "are not enough: ranks wait unless each single step is even.",
        misreadings={
            100: "Sums are even, and that would be enough if each rank could work at any time. It has a block's keys "
            "only when they come round, and in this loop it gets at most one step ahead of its neighbours.",
            round(100 * together): "That would be so if no rank began a step before all had ended the one before. "
            "Nothing in the ring makes them wait for all.",
        },
        apart="On a busy machine a timed wait ends late, or a rank begins late. Run the cell again; the best of three "
        "laps is taken.",
    )


def _short(tokens: int, lengths: Sequence[int], num_ranks: int) -> Explanation:
    """From the tokens of the last rank, the lengths of the documents, and the number of ranks."""
    own = DocumentCut.by_order(lengths, num_ranks, "per_document").size(num_ranks - 1)
    mean = sum(lengths) / num_ranks
    return Explanation(
        measured=tokens,
        model=own,
        label="counted",
        because=f"A document of {max(lengths)} tokens has {2 * num_ranks} parts, and the first {max(lengths)} have one "
        f"token each. Parts {num_ranks - 1} and {num_ranks} are the last rank's, and always empty. Every document "
        "begins again with rank 0, so nothing evens out.",
        misreadings={
            round(mean): "That would be so if the tokens that remain went to another rank each time. Here the first "
            "parts get them, in every document.",
            len(lengths): "Rank 0 has one token of each document, since it has the first part.",
            len(lengths) - 1: "Ranks 1 and 2 have that many. Which parts are the last rank's?",
        },
        apart="Did you change the lengths?",
    )


PACKED: tuple[Asked, ...] = (
    Asked(
        name="10.packed",
        question="Divide the busiest rank's pairs by the mean of all ranks. What comes out?",
        unit="times",
        high=100,
        tell=_work,
    ),
    Asked(
        name="10.unused",
        question="Forward, what share of the ring's bytes is sent in vain?",
        unit="%",
        high=100,
        tell=_unused,
    ),
    Asked(
        name="10.ahead",
        question="What share of the four ranks' time in a lap is computing?",
        unit="%",
        high=100,
        tell=_ahead,
    ),
    Asked(name="10.short", question="How many of the 64 tokens has rank 3?", unit="tokens", high=64, tell=_short),
)
