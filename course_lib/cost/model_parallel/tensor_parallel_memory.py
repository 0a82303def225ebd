"""What a rank keeps of a transformer block for the backward pass: the published formula, and the course's own model.

The published formula (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022,
sections 4.1 and 4.2) counts 2-byte activations and 1-byte dropout masks of a block with unfused attention. Its letters:
s length, b batch, h width, a heads, t ranks. Bytes in all:

    unsplit               s b h (34 + 5 a s / h)
    tensor parallel       s b h (10 + 24/t + 5 a s / (h t))
    sequence parallel     s b h (34/t + 5 a s / (h t))

The course's model counts otherwise: float32, attention that never stores its scores, no dropout unless asked.
``explained_activations`` puts the two side by side, term by term; a test holds the second column to the memory ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.cost.single_device.architectures import TransformerSizes

__all__ = ["ActivationTerm", "explained_activations", "published_activation_bytes"]

_FLOAT32 = "float32: 4 bytes a number, not 2"
_FUSED = "fused attention computes the scores anew in the backward pass"
_NO_DROPOUT = "no dropout, no mask"


@dataclass(frozen=True)
class ActivationTerm:
    """One thing that a block keeps: bytes a rank by the published formula, and in the course's model."""

    name: str
    published_bytes: float
    course_bytes: int
    why: str  # they differ


@checked
def published_activation_bytes(
    *,
    length: int,
    batch_size: int,
    width: int,
    num_heads: int,
    num_ranks: int = 1,
    sequence_parallel: bool = False,
) -> float:
    """Bytes that each rank keeps of one transformer block, by the published formula.

    >>> published_activation_bytes(length=2048, batch_size=1, width=12288, num_heads=96) / 2**20
    2736.0
    """
    at_least(1, length=length, batch_size=batch_size, width=width, num_heads=num_heads, num_ranks=num_ranks)
    t, scores = num_ranks, 5 * num_heads * length / width
    outside = 10 / t if sequence_parallel else 10  # norms, dropout masks, the inputs of the two regions
    return length * batch_size * width * (outside + 24 / t + scores / t)


@checked
def explained_activations(
    config: TransformerSizes,
    *,
    batch_size: int,
    length: int | None = None,
    num_ranks: int = 1,
    sequence_parallel: bool = False,
    regather: bool = False,
) -> tuple[ActivationTerm, ...]:
    """What a rank keeps of one block of a ``Transformer``, beside what the published formula says, and why they differ.

    ``num_ranks=1`` is the unsplit block. The published formula gathers the inputs of the regions anew, as ``regather``
    does; without it the course's model keeps them whole. Where the hidden units do not divide, this is the first rank,
    which has the most. Raises ValueError for a configuration with dropout, which the course's column does not know.
    """
    if config.dropout:
        raise ValueError(f"dropout is {config.dropout}; this formula knows models without: set it to 0.")
    length = config.context_length if length is None else length
    at_least(1, batch_size=batch_size, length=length, num_ranks=num_ranks)
    kept = _Kept(config, batch_size * length, num_ranks, sequence_parallel, regather)
    scores = config.num_heads * length * kept.n / num_ranks  # numbers of a rank's T x T matrices, all heads
    return (
        *_attention_terms(config, kept, scores),
        ActivationTerm("input of w_up", 2 * kept.outside, kept.input_bytes, kept.input_why),
        ActivationTerm("input of GELU", 8 * kept.inside, kept.hidden_bytes, kept.hidden_why),
        ActivationTerm("input of w_down", 8 * kept.inside, kept.hidden_bytes, kept.hidden_why),
        ActivationTerm("dropout mask after the MLP", kept.outside, 0, _NO_DROPOUT),
    )


class _Kept:
    """Sizes on one rank: ``outside`` and ``inside`` of the regions in the published sbh, the rest in bytes of ours."""

    def __init__(
        self, config: TransformerSizes, n: int, num_ranks: int, sequence_parallel: bool, regather: bool
    ) -> None:
        d = config.width
        self.n, self.num_ranks = n, num_ranks  # n: rows, B T
        self.inside = n * d / num_ranks
        self.outside = self.inside if sequence_parallel else float(n * d)
        self.rows = n // num_ranks if sequence_parallel else n  # whose norms are computed here
        self.input_bytes = 4 * d * (self.rows if regather else n)
        self.input_why = _FLOAT32 + ("; kept whole" if sequence_parallel and not regather else "")
        self.hidden_bytes = 4 * n * ceil(config.mlp_hidden / num_ranks)
        self.hidden_why = _FLOAT32 + ("; another width" if config.mlp_hidden != 4 * d else "")
        is_joined = sequence_parallel and num_ranks > 1 and config.bias
        self.joined_bytes = 2 * 4 * 2 * d if is_joined else 0  # for each of two norms


def _attention_terms(config: TransformerSizes, kept: _Kept, scores: float) -> tuple[ActivationTerm, ...]:
    """The two norms, and attention up to its dropout."""
    queries, keys = (
        4 * kept.n * config.head_dim * heads // kept.num_ranks for heads in (config.num_heads, config.kv_heads)
    )
    norms = 2 * 4 * kept.rows * config.width
    statistics, log_sums = 2 * 8 * kept.rows, 4 * kept.n * config.num_heads // kept.num_ranks
    heads_why = _FLOAT32 + ("; fewer key/value heads" if config.kv_heads < config.num_heads else "")
    return (
        ActivationTerm("inputs of the norms", 4 * kept.outside, norms, _FLOAT32),
        ActivationTerm("norm statistics", 0, statistics, "a mean and a spread a row: left out as small"),
        ActivationTerm("norm parameters, joined", 0, kept.joined_bytes, "all-reduced in one message"),
        ActivationTerm("input of q, k, v", 2 * kept.outside, kept.input_bytes, kept.input_why),
        ActivationTerm("q and k", 4 * kept.inside, queries + keys, heads_why),
        ActivationTerm("softmax of the scores", 2 * scores, 0, _FUSED),
        ActivationTerm("dropout mask of the scores", scores, 0, _FUSED),
        ActivationTerm("scores after dropout", 2 * scores, 0, _FUSED),
        ActivationTerm("v", 2 * kept.inside, keys, heads_why),
        ActivationTerm("log-sums of the scores", 0, log_sums, "one number a row in the scores' place"),
        ActivationTerm("input of w_out", 2 * kept.inside, queries, _FLOAT32),
        ActivationTerm("dropout mask after attention", kept.outside, 0, _NO_DROPOUT),
    )
