"""Part b of lesson 10: equal work for all ranks, and all-to-all attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib import cost
from course_lib.cost.single_device.architectures import TransformerSizes
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.rounding import rounded

__all__ = ["BALANCE"]


def _last(pairs: Sequence[int]) -> Explanation:
    """From the pairs of each rank, where a causal sequence is cut into contiguous parts."""
    n = len(pairs)
    return Explanation(
        measured=round(100 * pairs[-1] / sum(pairs)),
        model=100 * (2 * n - 1) / n**2,
        because="The queries of rank 3 see all of the parts before theirs, and half of their own part. That is "
        f"{n - 1} and a half blocks, of {n * n / 2:g} that are seen at all. Rank 0 has half a block, "
        f"{pairs[0] / sum(pairs):.0%}.",
        misreadings={
            25: "A quarter of the positions, yes. But a late position sees more keys than an early one.",
            75: "That is the share of the last *half* of the positions, ranks 2 and 3 together.",
            100: "Rank 3 looks at all keys. But the queries of the other ranks look at some keys, too.",
        },
        apart="The model is for long sequences. In a short one the diagonal counts for more: take a longer one.",
    )


def _lap(busy_share: float, num_tokens: int, num_ranks: int) -> Explanation:
    """From the share of a paced lap in which ranks computed, and the size of its contiguous cut."""
    model = cost.ring_balance(SequenceCut(num_tokens, num_ranks, "contiguous"))
    return Explanation(
        measured=round(100 * busy_share),
        model=100 * model,
        because=f"The lap is as long as the last rank needs: {num_ranks - 1} blocks and a half. The mean over ranks "
        f"is {num_ranks / 2:g} blocks. Rank 0 has no pairs after those with its own keys, and only passes the other "
        "blocks on. It may run ahead, and then waits for the last rank in the next layer. With very many ranks the "
        "share falls to a half.",
        misreadings={
            100: "All ranks have messages to pass on until the end. But a block whose keys all come later is not "
            "computed.",
            44: "That is the last rank's share of all pairs. The question is how long all ranks compute, on average.",
            25: "That would be so if only one rank had work. The others have some, in some of the steps.",
            75: "Rank 3 computes all the time. But rank 0 does so for a seventh of it, and rank 1 for less than half.",
        },
        apart="On a busy machine a timed wait ends late, or a rank begins late. Run the cell again; the best of three "
        "laps is taken.",
    )


_SUSPECTS = (
    "blocks of keys stay on the ranks that they pass",
    "late positions keep more scores than early ones",
    "one rank has many more positions than the others",
    "the last rank still computes the most pairs",
)
_FAR = 1.5  # times the least, from which on ranks keep unlike amounts


def _equal(pairs: Sequence[int], kept_bytes: Sequence[int]) -> Explanation:
    """From the pairs of each rank with the colleague's cut, and what a block keeps on each."""
    stay, scores, uneven, last = _SUSPECTS
    measured = uneven if max(kept_bytes) > _FAR * min(kept_bytes) else stay
    if max(pairs) > _FAR * min(pairs):
        measured = last
    return Explanation(
        measured=measured,
        because="Early positions have few keys to look at, so an early rank needs very many of them to have its "
        f"share of the pairs. And it keeps {max(kept_bytes) / min(kept_bytes):.1f} times what the last rank keeps: "
        "activations grow with the number of positions. So does the arithmetic of every matrix, and outside "
        "attention all others wait for that rank.",
        misreadings={
            stay: "Then each rank would keep more than before. Look at the right column: most ranks keep less.",
            scores: "For backward no scores are kept, only one lse for each query and head. And it is not the last "
            "rank that keeps so much.",
            last: "The middle column shows that pairs are shared out evenly.",
        },
    )


_LOOKS = (
    "an error",
    "a loss that does not fall",
    "a falling loss; on one device the model is as good",
    "a falling loss; on one device the model is worse",
)


def _numbers(first: float, last: float, on_one_device: float) -> Explanation:
    """From the losses of the first and the last step, and of the same weights on one device."""
    _, stuck, good, worse = _LOOKS
    measured = worse if on_one_device > 1.2 * last else good
    if last > 0.9 * first:
        measured = stuck
    return Explanation(
        measured=measured,
        because=f"The loss falls from {rounded(first, 1)} to {rounded(last, 1)}, and nothing looks odd. The model "
        "has learned with four tokens at each of its first positions. On one device it gets positions that it was "
        f"never trained with, and has a loss of {rounded(on_one_device, 1)}.",
        misreadings={
            _LOOKS[0]: "Each rank looks up positions that are in its table, and shapes are right.",
            stuck: "Gradients belong to the model that was computed, and that model can learn as well. It is "
            "another model than the one on one device.",
            good: "It would be as good if one device numbered tokens as the ranks do. But one device takes their "
            "true positions.",
        },
    )


def _sent(ring_bytes: int, all_to_all_bytes: int, config: TransformerSizes, num_ranks: int) -> Explanation:
    """From what a rank sends forward in a ring, and in all-to-all attention."""
    heads, kv_heads = config.num_heads, config.kv_heads
    model = (2 * heads + 2 * kv_heads) / num_ranks / (2 * kv_heads)
    return Explanation(
        measured=round(all_to_all_bytes / ring_bytes, 2),
        model=round(model, 2),
        because="In an all-to-all q and the output travel as well as k and v. But a rank sends its own part once, "
        "while in the ring nearly all keys and values pass through every rank. So with more ranks the ring's bytes "
        "hardly change, and those of the all-to-all shrink as the parts do.",
        misreadings={
            round(
                model * num_ranks, 2
            ): "In the all-to-all each position does have so much more to send. But a rank sends it only for its "
            "own positions, while the ring sends keys and values of nearly all.",
            round(1 / num_ranks, 2): "That counts keys and values alone. Queries go to the rank of their heads as "
            "well, and outputs come back.",
            round(
                model * num_ranks / (num_ranks - 1), 2
            ): "That would be so if a rank sent all of its part. But what belongs to its own heads is not sent.",
        },
        apart="Bytes do not depend on how busy a machine is. Print `run.communication.of(0)` in the loop and look "
        "at the messages.",
    )


_WINNERS = (
    "the ring, at every length",
    "all-to-all, at every length",
    "the ring for short sequences, all-to-all for long ones",
    "all-to-all for short sequences, the ring for long ones",
)


def _which(ring_ms: Mapping[int, float], all_to_all_ms: Mapping[int, float]) -> Explanation:
    """From the time of a layer by length, one way and the other."""
    ring, all_to_all, ring_first, ring_last = _WINNERS
    wins = [ring_ms[length] < all_to_all_ms[length] for length in sorted(ring_ms)]
    measured = ring_first if wins[0] else ring_last
    if len(set(wins)) == 1:
        measured = ring if wins[0] else all_to_all
    longest = max(ring_ms)
    more = all_to_all_ms[longest] / ring_ms[longest] - 1
    return Explanation(
        measured=measured,
        label="computed",
        because="An all-to-all sends less, and nothing hides it: attention needs all of its positions to begin. The "
        "ring sends more, but during its arithmetic, and long sequences have much arithmetic. Yet for long "
        f"sequences the messages of both ways are short compared with the arithmetic: at {longest:,} tokens the two "
        f"times differ by {more:.1%}.",
        misreadings={
            ring: "With short parts there is too little arithmetic to hide a message.",
            all_to_all: "It sends fewer bytes; but ranks wait for all of them.",
            ring_first: "The other way round: what hides the ring's messages grows with the square of the length.",
        },
    )


BALANCE: tuple[Asked, ...] = (
    Asked(name="10.last", question="What share of all pairs has rank 3?", unit="%", high=100, tell=_last),
    Asked(
        name="10.lap",
        question="What share of a lap do four ranks compute, on average?",
        unit="%",
        high=100,
        tell=_lap,
    ),
    Asked(name="10.equal", question="Why does it not fit any more?", choices=_SUSPECTS, tell=_equal),
    Asked(name="10.numbers", question="What does the team see?", choices=_LOOKS, tell=_numbers),
    Asked(
        name="10.sent",
        question="How many times the ring's bytes does the all-to-all send?",
        unit="times",
        high=1000,
        tell=_sent,
    ),
    Asked(name="10.which", question="Which one is quicker, between machines?", choices=_WINNERS, tell=_which),
)
