"""Part a of lesson 10: attention over a sequence that is cut among ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.models import TransformerConfig
from course_lib.rounding import rounded

__all__ = ["RING"]

_RANKS = 4
_HIDDEN = 0.2  # at most this share of a lap is waiting


def _length(short_bytes: int, long_bytes: int) -> Explanation:
    """From what a block keeps of a sequence, and of one that is twice as long."""
    return Explanation(
        measured=round(long_bytes / short_bytes, 2),
        model=2,
        because="All that a block keeps belongs to one position: vectors of the stream, queries, keys and values, "
        "and one number for each query and head. Each query has a score for every key. But fused attention computes "
        "the scores tile by tile, and again in backward. So memory becomes twice as large, and only attention's "
        "arithmetic four times as large.",
        misreadings={
            4: "Pairs of a query and a key become four times as many, and so does their arithmetic. But lesson 08 "
            "found that these scores are not kept.",
            1: "A block's weights stay what they are. What it keeps for backward are activations, and each position "
            "has its own.",
            lambda times: (
                2.2 < times < 4
            ): "A part of what is kept would have to become four times as large. Only scores could, and they are "
            "not kept.",
        },
        apart="Look in the ledger for what has grown by another factor. Where PyTorch has no fused attention for a "
        "device it stores the scores, and those grow by four.",
    )


_MEANS = ("attention to all keys", "that, but for rounding", "something else")
_ROUNDING = 1e-9


def _mean(off: float, typical: float) -> Explanation:
    """From how far the mean of two sides is off, at most, and from how large outputs are, at most."""
    _, rounding, other = _MEANS
    return Explanation(
        measured=other if off > _ROUNDING else rounding,
        because=f"The mean is off by up to {rounded(off, 2, apart=1e-5)}, where no output is larger than "
        f"{rounded(typical, 2, apart=1e-5)}. Each side has divided by a sum of its own, so that its weights add up "
        "to 1, however small its scores are. In the mean a side with small scores counts as much as the side with "
        "the best key. To weigh the sides, you need the size of each side's sum.",
        misreadings={
            _MEANS[
                0
            ]: "The mean would be attention to all keys for a query whose exponentials of scores add up to the same "
            "on both sides. Softmax on one side does not use the other side's scores.",
            rounding: "Rounding in float64 is off in the sixteenth digit.",
        },
    )


def _queries(keys_bytes: int, queries_bytes: int, config: TransformerConfig) -> Explanation:
    """From what a rank sends where keys and values go round, and where queries do with what they have found."""
    heads, kv_heads, head_dim = config.num_heads, config.kv_heads, config.head_dim
    query, steps = heads * head_dim, _RANKS - 1  # numbers of a position's query, and as many of its output
    numbers = steps * (2 * query + heads) + query  # and home goes the output alone
    model = numbers / (steps * 2 * kv_heads * head_dim)
    without_results = heads / (2 * kv_heads)
    return Explanation(
        measured=round(queries_bytes / keys_bytes, 2),
        model=round(model, 2),
        because=f"A position has {heads} query heads and {kv_heads} heads each of keys and values. The queries "
        "travel with their output so far, which is as large as they are, and with an lse for each head. The output "
        "also makes a fourth trip, back to its rank. With as many key heads as query heads it would be "
        f"{model * kv_heads / heads:.2f} times. Keys and values are small because several query heads share one of "
        "them.",
        misreadings={
            round(without_results, 2): "That is the queries alone. Their outputs have to travel, too.",
            1: "With as many heads of each kind it would be close to that. Count the heads.",
            round(
                kv_heads / heads, 2
            ): "It is the other way round: there are more heads of queries, and each step sends all of them.",
        },
        apart="Bytes do not depend on how busy a machine is. Count the messages of one rank by `communication.of(0)`.",
    )


def _back(forward_bytes: int, both_bytes: int) -> Explanation:
    """From what a rank sends in a forward pass, and in forward and backward together, in float32."""
    return Explanation(
        measured=round((both_bytes - forward_bytes) / forward_bytes, 2),
        model=2,
        because="Keys and values go round a second time, because a rank has kept only its own. The sums of a "
        "block's gradients travel with it, and are as large as the block. Every rank adds its part, and after a lap "
        "the complete sums are back on the rank of the block. In bfloat16 it is three times: keys and values take 2 "
        "bytes a number, and the course sends sums in float32.",
        misreadings={
            1: "One lap sums the gradients over ranks. But to compute them, each rank needs everybody's keys and "
            "values once more.",
            0: "To send nothing, each rank would have to keep all ranks' keys and values from forward. This is the "
            "memory that the ring saves. And the gradients of keys and values are sums over all ranks.",
            3: "Queries and their gradients stay where they are.",
        },
        apart="Bytes do not depend on how busy a machine is. Print `both.of(0)` and look at its messages.",
    )


def _longest(of_one: int, of_four: int) -> Explanation:
    """From the longest sequence of those tried that one rank can hold, and that four can."""
    return Explanation(
        measured=of_four,
        model=_RANKS * of_one,
        because="Every activation belongs to a position, so each of four ranks keeps what one rank keeps of a "
        "quarter of the sequence. Weights and their gradients are whole on every rank, but they are as large for a "
        "long sequence as for a short one. Little comes on top: a few blocks of keys and values of other ranks.",
        misreadings={
            2 * of_one: "Four devices would hold a sequence twice as long, the square root of four, if memory grew "
            "with the square of the length. But it grows with the length.",
            of_one: "That is so for data parallelism, which shares out whole sequences. Here each rank keeps what "
            "belongs to a quarter of the positions.",
            lambda tokens: (
                2.2 * of_one < tokens < 3.2 * of_one
            ): "Did you take something off for the weights? They are on one rank as well, and do not grow.",
        },
        apart="The lengths tried are steps: the next one may have failed by a few bytes. Add some lengths to the list.",
    )


def _hidden(exposed: Mapping[int, float], compute_s: float, message_s: float, length: int) -> Explanation:
    """From the share of a lap in which ranks waited, by length of a part; and a step's two times at ``length``."""
    hidden = [one for one, share in sorted(exposed.items()) if share < _HIDDEN]
    return Explanation(
        measured=hidden[0] if hidden else math.inf,
        model=round(length * message_s / compute_s),
        because="Twice the length is twice the message and four times the arithmetic: a part's queries meet another "
        f"part's keys in pairs. The message takes {message_s / compute_s:.0f} times as long as the arithmetic at "
        f"{length} positions. This ratio halves each time the length doubles.",
        misreadings={
            round(length * math.sqrt(message_s / compute_s)): "At that length the arithmetic takes as long as the "
            f"message took at {length}. But the message has grown, too.",
            length: f"At that length a message takes {message_s / compute_s:.0f} times as long as the computing "
            "that it could hide behind.",
            lambda tokens: tokens >= 1e6: "With twice the length the message becomes twice as long, and the "
            "arithmetic four times. So the arithmetic overtakes it.",
        },
        apart="On a busy machine ranks wait for a core, and it looks like waiting for a message. Run the cell "
        "again: if the result changes, other work on this machine is the reason.",
    )


RING: tuple[Asked, ...] = (
    Asked(
        name="10.length",
        question="A sequence twice as long: how many times as much does a block keep?",
        unit="times",
        tell=_length,
        high=1000,
    ),
    Asked(name="10.mean", question="The mean of the two sides: what is it?", choices=_MEANS, tell=_mean),
    Asked(
        name="10.queries",
        question="How many times as many bytes does a rank send if queries go round?",
        unit="times",
        tell=_queries,
        high=1000,
    ),
    Asked(
        name="10.back",
        question="How many times forward's bytes does backward send?",
        unit="times",
        tell=_back,
        high=1000,
    ),
    Asked(
        name="10.longest",
        question="How many tokens fit on four ranks?",
        unit="tokens",
        tell=_longest,
    ),
    Asked(
        name="10.hidden",
        question="From which length of a part on is the message hidden?",
        unit="positions",
        tell=_hidden,
    ),
)
