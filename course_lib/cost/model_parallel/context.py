"""What attention costs over a sequence that is cut among ranks: bytes, balance and time, by ring and by all-to-all.

All functions are about one attention layer, n ranks, B sequences of T positions, H query heads and G key/value heads of
K numbers. Even parts; each rank sends, in numbers::

                    forward                                  backward
    ring            2 B G K T (n - 1)/n                      twice that
    all-to-all      B (2 H + 2 G) K T/n (n - 1)/n            the same

so the all-to-all sends less where 3 G n > 2 H + 2 G. That is with one number format throughout. With rows of 16 bits
and sums of gradients in float32, the ring's backward sends three times its forward's bytes, and the rule is
4 G n > 2 H + 2 G. The ring hides its messages behind arithmetic: each step's is 4 B H K (T/n)^2 / 2, which for long
parts outgrows its message. The ring goes at the pace of the busiest rank of each
step, which makes the order of the positions matter (``layouts/sequence_cut.py``).
Sources: Liu et al., *Ring Attention* (2023), section 3; Jacobs et al., *DeepSpeed Ulysses* (2023), section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, at_least, nearest_divisor
from course_lib.cost.single_device.architectures import TransformerSizes
from course_lib.layouts.link import Link
from course_lib.layouts.position_cut import PositionCut

__all__ = [
    "PassBytes",
    "RingTime",
    "all_to_all_attention_sent_bytes",
    "ring_attention_sent_bytes",
    "ring_attention_time",
    "ring_balance",
    "ring_lap_balance",
    "ring_pairs",
]

_SUM_BYTES = 4  # gradients are added up in float32 at least
# A pair and number of a head: two products, and five with the scores anew.
_FLOPS_FORWARD, _FLOPS_BACKWARD = 4, 10


@checked
@dataclass(frozen=True)
class PassBytes:
    """Bytes of a forward pass and of the backward pass that follows it."""

    forward: int
    backward: int

    def __post_init__(self) -> None:
        at_least(0, forward=self.forward, backward=self.backward)

    @property
    def total(self) -> int:
        """Both passes together."""
        return self.forward + self.backward


@checked
def ring_attention_sent_bytes(
    config: TransformerSizes, cut: PositionCut, place: int, *, batch_size: int, itemsize: int = 4
) -> PassBytes:
    """What the rank at ``place`` sends in one layer of ring attention.

    Forward all blocks of keys and values pass through it, but that of the next place stays. Backward they do so again,
    and the sums of all gradients, but its own. ``ValueError`` for a place that is not there.
    """
    at_least(1, batch_size=batch_size, itemsize=itemsize)
    own, next_one = cut.size(place), cut.size((place + 1) % cut.num_ranks)
    numbers = 2 * batch_size * config.kv_heads * config.head_dim  # a position's keys and values
    forward = numbers * (cut.num_tokens - next_one) * itemsize
    return PassBytes(forward, forward + numbers * (cut.num_tokens - own) * max(itemsize, _SUM_BYTES))


@checked
def all_to_all_attention_sent_bytes(
    config: TransformerSizes, cut: PositionCut, place: int, *, batch_size: int, itemsize: int = 4
) -> PassBytes:
    """What the rank at ``place`` sends in one layer of all-to-all attention.

    Forward it gives away the other ranks' heads of its positions of q, k and v, and the others' positions of its heads
    of the output. Backward it is the other way round. ``ValueError`` where heads do not divide among the ranks.
    """
    at_least(1, batch_size=batch_size, itemsize=itemsize)
    check_heads_divide(config, cut)
    n, own = cut.num_ranks, cut.size(place)
    head_bytes = batch_size * config.head_dim * itemsize
    queries, all_three = (
        heads // n * head_bytes for heads in (config.num_heads, config.num_heads + 2 * config.kv_heads)
    )
    give_heads, give_positions = own * (n - 1), cut.num_tokens - own
    return PassBytes(
        all_three * give_heads + queries * give_positions, all_three * give_positions + queries * give_heads
    )


def check_heads_divide(config: TransformerSizes, cut: PositionCut) -> None:
    """``ValueError`` where an all-to-all cannot give every rank as many heads."""
    for name, heads in (("num_heads", config.num_heads), ("num_kv_heads", config.kv_heads)):
        if heads % cut.num_ranks:
            raise ValueError(
                f"{name}={heads} does not divide among {cut.num_ranks} ranks: all-to-all attention computes a head on "
                f"one rank. Take {nearest_divisor(cut.num_ranks, of=heads)} ranks, or ring attention."
            )


@checked
def ring_pairs(cut: PositionCut, *, is_causal: bool = True) -> tuple[tuple[int, ...], ...]:
    """``ring_pairs(cut)[step][place]``: how many pairs of query and key the rank at a place computes in a step."""
    places = range(cut.num_ranks)
    return tuple(
        tuple(cut.num_pairs(place, (place - step) % cut.num_ranks, is_causal=is_causal) for place in places)
        for step in places
    )


@checked
def ring_balance(cut: PositionCut, *, is_causal: bool = True) -> float:
    """The share of the ranks' time that has work, where every step lasts as long as its busiest rank: 1 is perfect.

    Contiguous causal parts come to 1/(2 - 1/n): in every step the last rank looks at all of a block, and others wait.

    >>> from course_lib.layouts import SequenceCut
    >>> ring_balance(SequenceCut(64, 4, "zigzag")), round(ring_balance(SequenceCut(6400, 4, "contiguous")), 2)
    (1.0, 0.57)
    """
    steps = ring_pairs(cut, is_causal=is_causal)
    return sum(map(sum, steps)) / (cut.num_ranks * sum(map(max, steps)))


@checked
def ring_lap_balance(cut: PositionCut, *, is_causal: bool = True) -> float:
    """The share of the ranks' time that has work in one lap, where a rank goes on as soon as it can: 1 is perfect.

    A rank begins a step when it is done with the one before, and both its neighbours have begun that one: then what it
    sent has been received, and what it needs is here. So a rank may be one step ahead of its neighbours, and steps need
    not be even. Messages take no time. ``ring_balance`` is the least that this can be.

    >>> from course_lib.layouts import DocumentCut
    >>> cut = DocumentCut.by_order([40, 8, 8, 8], 4, "by_work")
    >>> round(ring_balance(cut), 2), round(ring_lap_balance(cut), 2)
    (0.55, 0.88)
    """
    steps, n = ring_pairs(cut, is_causal=is_causal), cut.num_ranks
    begins, ends = [0] * n, list(steps[0])
    for pairs in steps[1:]:
        begins = [max(ends[place], begins[place - 1], begins[(place + 1) % n]) for place in range(n)]
        ends = [begin + work for begin, work in zip(begins, pairs, strict=True)]
    return sum(map(sum, steps)) / (n * max(ends))


@dataclass(frozen=True)
class RingTime:
    """How long a pass takes: arithmetic of the busiest rank of each step, and what of the messages it does not hide."""

    compute_s: float
    exposed_s: float

    @property
    def time_s(self) -> float:
        return self.compute_s + self.exposed_s


@checked
def ring_attention_time(
    config: TransformerSizes,
    cut: PositionCut,
    link: Link,
    *,
    batch_size: int,
    flops_per_s: float,
    itemsize: int = 4,
    is_causal: bool = True,
    is_backward: bool = False,
) -> RingTime:
    """The time of one pass of one layer, where all ranks go from step to step together.

    Beside a step's arithmetic the next keys and values are on their way, and backward the sums that the step before has
    added to, of which the last ones, on their way home, have nothing to hide behind.
    """
    at_least(1, batch_size=batch_size, itemsize=itemsize)
    above_zero(flops_per_s=flops_per_s)
    per_pair = batch_size * config.num_heads * config.head_dim * (_FLOPS_BACKWARD if is_backward else _FLOPS_FORWARD)
    numbers = 2 * batch_size * config.kv_heads * config.head_dim * max(cut.sizes)  # of the largest block
    n, sum_bytes = cut.num_ranks, numbers * max(itemsize, _SUM_BYTES)
    compute_s = exposed_s = 0.0
    for step, pairs in enumerate(ring_pairs(cut, is_causal=is_causal)):
        step_s = max(pairs) * per_pair / flops_per_s
        keys = [numbers * itemsize] if step < n - 1 else []
        sums = [sum_bytes] if is_backward and step >= 2 else []
        compute_s += step_s
        exposed_s += max(0.0, sum(map(link.time_s, keys + sums)) - step_s)
    return RingTime(compute_s, exposed_s + (link.time_s(sum_bytes) if is_backward and n > 1 else 0.0))
