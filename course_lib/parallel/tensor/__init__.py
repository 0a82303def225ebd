"""Lesson 08, tensor parallelism: every matrix of a model cut among ranks, and the collectives that make the cuts whole.

Read ``placements.py`` (what a cut is, and which collective it needs), ``autograd_collectives.py`` (f and g: collectives
with their backward), ``redistribution.py`` (from one cut to another, on real ranks), ``region.py`` (where a split
region begins and ends), ``layers.py`` (columns, then rows), ``attention.py``, ``vocabulary.py`` and ``transformer.py``,
which puts them together. ``overlapped_column_parallel.py`` overlaps the backward pass, ``randomness.py`` is about
dropout, ``checkpoint.py`` about saving, ``tiled_matmul.py`` about cuts in both directions, ``given_transformer.py`` has
the interface of what a learner builds. Production code uses
``torch.distributed.tensor.parallel``.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "ColumnParallelLinear": "layers",
    "GivenTransformer": "given_transformer",
    "HeadParallelAttention": "attention",
    "MATMUL_RULES": "placements",
    "MatmulPlan": "placements",
    "OwnDropout": "randomness",
    "Partial": "placements",
    "Placement": "placements",
    "Region": "region",
    "Replicate": "placements",
    "RowParallelLinear": "layers",
    "SequenceParallelNorm": "layers",
    "Shard": "placements",
    "RedistributionStep": "placements",
    "VocabParallelEmbedding": "vocabulary",
    "all_gather_reduce_scatter": "autograd_collectives",
    "all_gather_split": "autograd_collectives",
    "all_reduce_identity": "autograd_collectives",
    "change": "placements",
    "gather_logits": "vocabulary",
    "gather_state": "checkpoint",
    "gradient_placement": "placements",
    "identity_all_reduce": "autograd_collectives",
    "join_states": "checkpoint",
    "load_unsplit": "checkpoint",
    "local_part": "redistribution",
    "local_product": "placements",
    "matmul_plan": "placements",
    "own_random_numbers": "randomness",
    "parameter_placements": "checkpoint",
    "parse_placement": "placements",
    "redistribute": "redistribution",
    "reduce_scatter_all_gather": "autograd_collectives",
    "run_matmul": "redistribution",
    "split_all_gather": "autograd_collectives",
    "split_block": "transformer",
    "split_transformer": "transformer",
    "vocab_parallel_cross_entropy": "vocabulary",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
