"""What a rank keeps in memory of a sequence that is cut among ranks, and what is sent through it.

Every activation belongs to a position, so a rank with T/n positions keeps 1/n of them: this is what lets a sequence
that is too long for any one rank run on many. Parameters are whole on every rank. What comes on top does not grow
with the number of ranks: a few blocks of keys and values that are passing by.
"""

from __future__ import annotations

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, known
from course_lib.cost.model_parallel.context import PassBytes, check_heads_divide
from course_lib.cost.single_device.activations import Saved, transformer_activations
from course_lib.cost.single_device.architectures import TransformerSizes
from course_lib.layouts.sequence_cut import SequenceCut

__all__ = ["context_activations", "ring_in_flight_bytes"]

_WAYS = ("ring", "all_to_all")
_TOKEN_BYTES = 8
_IN_ATTENTION = (": q, k, v", ": attention: log-sums")  # what an all-to-all has cut by heads


@checked
def context_activations(
    config: TransformerSizes, cut: SequenceCut, place: int, *, batch_size: int, way: str = "ring"
) -> tuple[Saved, ...]:
    """What the rank at ``place`` keeps for the backward pass of a ``Transformer`` over its positions, and of its loss.

    That of a model which reads sequences of its length, in float32; the rank's own tokens and targets, taken from the
    whole. With the all-to-all, q, k and v are those of some heads at all positions, and each layer's output is kept in
    both cuts: by heads for the backward of attention, by positions for that of the next matrix. ``ValueError`` for a
    place without positions, a configuration with dropout, and, for the all-to-all, heads that do not divide.
    """
    at_least(1, batch_size=batch_size)
    known("way", way, _WAYS)
    length = cut.size(place)
    if not length:
        raise ValueError(
            f"place={place} has no positions of {cut}, and keeps nothing; take a place from 0 to "
            f"{sum(size > 0 for size in cut.sizes) - 1}"
        )
    rows = batch_size * length
    saved = [
        *transformer_activations(config, batch_size=batch_size, length=length),
        Saved("stem: own tokens", _TOKEN_BYTES * rows),
        Saved("loss: own targets", _TOKEN_BYTES * rows),
    ]
    if way == "ring" or cut.num_ranks == 1:  # one rank has every head of every position: no all-to-all, one cut
        return tuple(saved)
    check_heads_divide(config, cut)
    by_heads = [_of_some_heads(item, cut, length) if item.name.endswith(_IN_ATTENTION) else item for item in saved]
    output = batch_size * cut.num_tokens * 4 * config.head_dim * config.num_heads // cut.num_ranks
    return (*by_heads, *(Saved(f"blocks.{i}: output by heads", output) for i in range(config.num_layers)))


def _of_some_heads(item: Saved, cut: SequenceCut, length: int) -> Saved:
    """What is kept of all heads at ``length`` positions, for some heads at all positions."""
    return Saved(item.name, item.size_bytes // length * cut.num_tokens // cut.num_ranks)


@checked
def ring_in_flight_bytes(
    config: TransformerSizes, cut: SequenceCut, *, batch_size: int, itemsize: int = 4
) -> PassBytes:
    """The most that a rank holds of blocks in flight at once, beside what it keeps, in one layer.

    Forward two blocks of keys and values: one is used while the next arrives. Backward four blocks of sums more: the
    part that is being computed, the one before it on its way out, the sum that arrives, and the rank's part for its own
    block, which stays. Where there are fewer ranks, fewer. (A tile's scores come on top, and copies of q and of the
    gradients where 16 bits are added up in 32.)
    """
    at_least(1, batch_size=batch_size, itemsize=itemsize)
    block = 2 * batch_size * config.kv_heads * config.head_dim * max(cut.sizes)
    n = cut.num_ranks
    blocks, sums = min(n, 2), min(n, 4)
    return PassBytes(blocks * block * itemsize, (blocks * itemsize + sums * max(itemsize, 4)) * block)
