"""What the context explorer's controls choose, and what the cost model says of the choice.

One layer of attention with 4 query heads of 8 numbers each, one sequence, float32.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checks import at_least, at_most, known
from course_lib.cost.model_parallel.context import (
    PassBytes,
    all_to_all_attention_sent_bytes,
    ring_attention_sent_bytes,
    ring_balance,
    ring_pairs,
)
from course_lib.cost.model_parallel.context_memory import context_activations
from course_lib.layouts.sequence_cut import ORDERS, SequenceCut
from course_lib.models import TransformerConfig

__all__ = ["HEAD_DIM", "KEY_HEADS", "NUM_HEADS", "RANKS", "TOKENS", "WAYS", "ContextChoice", "kib_text"]

NUM_HEADS, HEAD_DIM = 4, 8
TOKENS = (16, 256)  # the fewest and the most
RANKS = (1, 2, 3, 4, 8)
KEY_HEADS = (1, 2, 4)
WAYS = {"ring": "ring", "all_to_all": "all-to-all"}  # by the library's name, the page's


@dataclass(frozen=True)
class ContextChoice:
    """Tokens, ranks and order of a cut, the way of attention, and heads of keys and values.

    ``ValueError`` for what the explorer does not draw, and for an all-to-all whose heads do not divide.
    """

    num_tokens: int = 64
    num_ranks: int = 4
    order: str = "contiguous"
    way: str = "ring"
    key_heads: int = 4

    def __post_init__(self) -> None:
        at_least(TOKENS[0], tokens=self.num_tokens)
        at_most(TOKENS[1], tokens=self.num_tokens)
        for name, value, values in (
            ("ranks", self.num_ranks, RANKS),
            ("key heads", self.key_heads, KEY_HEADS),
        ):
            known(name, str(value), map(str, values))
        known("order", self.order, ORDERS)
        known("way", self.way, WAYS)
        if self.way == "all_to_all" and self.key_heads % self.num_ranks:
            raise ValueError(_refused(self.key_heads, self.num_ranks))

    @property
    def cut(self) -> SequenceCut:
        """Who has which positions."""
        return SequenceCut(self.num_tokens, self.num_ranks, self.order)

    @property
    def config(self) -> TransformerConfig:
        """A transformer of one layer whose attention it is."""
        return TransformerConfig(
            context_length=self.num_tokens,
            num_layers=1,
            width=NUM_HEADS * HEAD_DIM,
            num_heads=NUM_HEADS,
            num_kv_heads=self.key_heads,
        )

    def pairs(self) -> tuple[tuple[int, ...], ...]:
        """``pairs()[step][rank]``: pairs of query and key, those of all heads together. An all-to-all has one step."""
        if self.way == "ring":
            return tuple(tuple(NUM_HEADS * number for number in step) for step in ring_pairs(self.cut))
        of_a_head = self.num_tokens * (self.num_tokens + 1) // 2
        return ((NUM_HEADS // self.num_ranks * of_a_head,) * self.num_ranks,)

    @property
    def apart(self) -> float:
        """How far the rank and step that is farthest from the mean of all of them is from it, as a share of it."""
        every = [number for step in self.pairs() for number in step]
        mean = sum(every) / len(every)
        return max(abs(number - mean) for number in every) / mean

    @property
    def balance(self) -> float:
        """The share of the ranks' time that has work, if every step lasts as long as its busiest rank."""
        return ring_balance(self.cut) if self.way == "ring" else 1.0

    def sent_by(self, rank: int) -> PassBytes:
        """What a rank sends in the layer."""
        count = ring_attention_sent_bytes if self.way == "ring" else all_to_all_attention_sent_bytes
        return count(self.config, self.cut, rank, batch_size=1)

    def sent(self) -> list[PassBytes]:
        """``sent_by`` of every rank."""
        return [self.sent_by(rank) for rank in range(self.num_ranks)]

    @property
    def most_sent_bytes(self) -> int:
        """Forward and backward, by the rank that sends most."""
        return max(each.total for each in self.sent())

    @property
    def most_kept_bytes(self) -> int:
        """Activations of the one-layer transformer, on the rank that keeps most."""
        return max(
            sum(item.size_bytes for item in context_activations(
                self.config, self.cut, rank, batch_size=1, way=self.way
            ))
            for rank in range(self.num_ranks)
        )  # fmt: skip

    def __str__(self) -> str:
        heads = "key head" if self.key_heads == 1 else "key heads"
        ranks = "rank" if self.num_ranks == 1 else "ranks"
        cut = f"{self.num_tokens} tokens, {self.num_ranks} {ranks}, {self.order}"
        return f"{cut}, {WAYS[self.way]}, {self.key_heads} {heads}"


def _refused(key_heads: int, num_ranks: int) -> str:
    """Why an all-to-all cannot have so many ranks, and what is nearest."""
    ranks = max(number for number in RANKS if key_heads % number == 0)
    more = [heads for heads in KEY_HEADS if heads % num_ranks == 0]
    heads = f", {min(more)} key heads" if more else ""
    these = "1 key head does" if key_heads == 1 else f"{key_heads} key heads do"
    return (
        f"With all-to-all a rank computes whole heads, and {these} not divide among {num_ranks} ranks. Take {ranks} "
        f"{'rank' if ranks == 1 else 'ranks'}{heads}, or the ring."
    )


def kib_text(size_bytes: float) -> str:
    """Bytes in one unit, to a tenth, so that settings can be compared by their digits."""
    return f"{size_bytes / 1024:,.1f} KiB"
