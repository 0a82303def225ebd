"""Tensor parallelism: every matrix of a model cut among ranks, and the collectives that make the cuts whole again.

Read ``region.py`` (the two gates), ``layers.py`` (columns, then rows), ``attention.py``, ``vocabulary.py``, and then
``transformer.py``, which puts them together. ``entering.py`` overlaps the backward pass, ``randomness.py`` is about
dropout, ``checkpoint.py`` about saving. Production code uses ``torch.distributed.tensor.parallel``.
"""

from course_lib.parallel.tensor_parallel.attention import HeadParallelAttention
from course_lib.parallel.tensor_parallel.checkpoint import (
    gather_state,
    join_states,
    load_unsplit,
    parameter_placements,
)
from course_lib.parallel.tensor_parallel.layers import (
    ColumnParallelLinear,
    RowParallelLinear,
    SequenceParallelNorm,
)
from course_lib.parallel.tensor_parallel.randomness import OwnDropout, own_random_numbers
from course_lib.parallel.tensor_parallel.region import Region
from course_lib.parallel.tensor_parallel.transformer import split_block, split_transformer
from course_lib.parallel.tensor_parallel.vocabulary import (
    VocabParallelEmbedding,
    gather_logits,
    vocab_parallel_cross_entropy,
)

__all__ = [
    "ColumnParallelLinear",
    "HeadParallelAttention",
    "OwnDropout",
    "Region",
    "RowParallelLinear",
    "SequenceParallelNorm",
    "VocabParallelEmbedding",
    "gather_logits",
    "gather_state",
    "join_states",
    "load_unsplit",
    "own_random_numbers",
    "parameter_placements",
    "split_block",
    "split_transformer",
    "vocab_parallel_cross_entropy",
]
