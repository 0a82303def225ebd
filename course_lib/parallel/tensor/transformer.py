"""The transformer cut inside its layers: the same outline, the same names, each rank with a slice of every matrix.

::

    stem    tokens cut by vocabulary            forward: 1 all-reduce         backward: nothing
    block   attention cut by heads              forward: 1 all-reduce         backward: 1 all-reduce
            MLP cut by columns, then rows       forward: 1 all-reduce         backward: 1 all-reduce
    head    w_vocab cut by vocabulary           forward: nothing              backward: 1 all-reduce

With sequence parallelism each all-reduce becomes a reduce-scatter on one side and an all-gather on the other: the
stream between the split regions is (B, T/n, D), norms and dropout work on it, and the gradients of what all ranks hold
but use on their own positions (norms, the biases of rows) are all-reduced.

The classes of the course's model stay in use; only the modules inside are exchanged. (PyTorch's
``parallelize_module`` turns the weights into DTensors instead, by a plan.) Sources: Shoeybi et al.,
"Megatron-LM" (2019), and Korthikanti et al. (2022) for sequence parallelism.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checked import checked
from course_lib.cluster.base.rank import Rank
from course_lib.models.transformer import Embedding, Transformer, TransformerBlock, position_numbers
from course_lib.parallel.data.replica_check import checked_as_one
from course_lib.parallel.tensor.attention import HeadParallelAttention
from course_lib.parallel.tensor.autograd_collectives import split_all_gather
from course_lib.parallel.tensor.layers import (
    ColumnParallelLinear,
    RowParallelLinear,
    SequenceParallelNorm,
)
from course_lib.parallel.tensor.randomness import OwnDropout
from course_lib.parallel.tensor.region import SEQUENCE_DIM, Region
from course_lib.parallel.tensor.vocabulary import VocabParallelEmbedding

__all__ = ["ParallelStem", "split_block", "split_transformer"]


@checked
def split_transformer(
    me: Rank,
    model: Transformer,
    *,
    group: dist.ProcessGroup | None = None,
    sequence_parallel: bool = False,
    regather: bool = False,
) -> Transformer:
    """Cut ``model`` in place; returned is the same model, which now gives this rank's logits, (B, T) -> (B, T, V/n).

    Every rank hands in the same unsplit model (same seed, or same checkpoint), which they compare once, and gets its
    slices of it. The loss is ``vocab_parallel_cross_entropy``; sampling wants ``gather_logits``. The optimizer is made
    afterwards, from the new parameters. Ranks must be seeded alike (see ``randomness.py``).

    ``regather`` as in ``Region``. A ``ValueError`` for models that differ between ranks, where heads do not divide by
    the number of ranks, and, in the forward pass with ``sequence_parallel``, where the length of the sequences does
    not. The vocabulary and the hidden units need not divide.
    """
    region = Region(me, group, sequence_parallel, regather)
    head, tied = model.head, model.head.w_vocab.weight is model.stem.tokens.weight
    with checked_as_one(me, region.members, "split_transformer", model):
        _exchange(model, stem=ParallelStem(region, model.stem))
        for block in model.blocks:
            assert isinstance(block, TransformerBlock)
            split_block(me, block, group=group, sequence_parallel=sequence_parallel, regather=regather)
        if sequence_parallel:
            _exchange(head, norm=SequenceParallelNorm(me, head.norm, group=group))
        _exchange(head, w_vocab=ColumnParallelLinear(me, head.w_vocab, **_entering(region)))
    if tied:
        head.w_vocab.weight = model.stem.tokens.weight  # both are cut by vocabulary
    return model.to(me.device)


@checked
def split_block(
    me: Rank,
    block: TransformerBlock,
    *,
    group: dist.ProcessGroup | None = None,
    sequence_parallel: bool = False,
    regather: bool = False,
) -> TransformerBlock:
    """Cut one block in place: (B, T, D) -> (B, T, D), with ``sequence_parallel`` (B, T/n, D) -> same.

    A ``ValueError`` for blocks that differ between ranks.
    """
    region = Region(me, group, sequence_parallel, regather)
    mlp = block.mlp
    with checked_as_one(me, region.members, "split_block", block):
        _exchange(block, attention=HeadParallelAttention(me, block.attention, **_entering(region)))
        _exchange(
            mlp,
            w_up=ColumnParallelLinear(me, mlp.w_up, **_entering(region)),
            w_down=RowParallelLinear(me, mlp.w_down, group=group, sequence_parallel=sequence_parallel),
        )
        if sequence_parallel:
            _exchange(mlp, dropout=OwnDropout(region, mlp.dropout.p))
            for name in ("norm1", "norm2"):
                _exchange(block, **{name: SequenceParallelNorm(me, getattr(block, name), group=group)})
    return block.to(me.device)


class ParallelStem(nn.Module):
    """Token vectors, cut by vocabulary, plus position vectors: (B, T) -> (B, T, D).

    With sequence parallelism it leaves (B, T/n, D); every rank looks up all positions and keeps its part, whose
    gradients an all-gather of (T, D) numbers makes complete in the backward pass.
    """

    def __init__(self, region: Region, embedding: Embedding) -> None:
        super().__init__()
        self.region, self.context_length = region, embedding.context_length
        self.tokens = VocabParallelEmbedding(
            region.me, embedding.tokens, group=region.group, sequence_parallel=region.sequence_parallel
        )
        self.positions = embedding.positions
        self.dropout = OwnDropout(region, embedding.dropout.p) if region.sequence_parallel else embedding.dropout

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, T, D), or (B, T/n, D) with sequence parallelism."""
        positions = self.positions(position_numbers(tokens, self.context_length))  # (T, D)
        if self.region.sequence_parallel:
            # (T/n, D)
            positions = split_all_gather(self.region.me, positions, dim=SEQUENCE_DIM, group=self.region.group)
        return self.dropout(self.tokens(tokens) + positions)


def _exchange(module: nn.Module, **parts: nn.Module) -> None:
    """Put other modules where the named ones were."""
    for name, part in parts.items():
        setattr(module, name, part)


def _entering(region: Region) -> dict[str, Any]:
    return {
        "group": region.group,
        "sequence_parallel": region.sequence_parallel,
        "regather": region.regather,
    }
