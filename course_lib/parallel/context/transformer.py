"""The transformer over a sequence that is cut among ranks: only the stem and attention know of it.

::

    stem       takes this rank's positions of the tokens
    attention  looks at everybody's positions                        ring, or all-to-all
    the rest   works on one position at a time                       nothing is sent
    loss       of this rank's positions
    gradients  each rank's tell of its own positions                 averaged, as in data parallelism

The last line is all that is left to do, and lesson 04 has done it: to a ``DistributedDataParallel`` around the model a
rank with some of the positions is a rank with some of the samples. With a data axis beside it, gradients are averaged
over both axes together, as torchtitan does. On each rank::

    cut = SequenceCut(num_tokens=1000, num_ranks=me.world_size)
    model = DistributedDataParallel(me, split_context(me, Transformer(config), cut))
    context_loss(me, model(tokens), targets, cut).backward()
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checked import checked
from course_lib.cluster.base.rank import Rank
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.models import next_token_loss
from course_lib.models.transformer import Embedding, Transformer, TransformerBlock
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.context.attention import ContextParallelAttention
from course_lib.parallel.context.checks import check_ranks
from course_lib.parallel.context.positions import own_positions
from course_lib.parallel.context.ring import TILE
from course_lib.parallel.data.replica_check import check_replicas, checked_as_one, tensors_of

__all__ = ["ContextStem", "context_loss", "split_context"]


@checked
def split_context(
    me: Rank,
    model: Transformer,
    cut: SequenceCut,
    *,
    way: str = "ring",
    group: dist.ProcessGroup | None = None,
    tile: int = TILE,
) -> Transformer:
    """Let ``model`` work on this rank's positions, in place: whole sequences (B, T) -> their logits (B, T_r, V).

    Every rank of ``group`` (None: all) hands in the same model and the same tokens, T = ``cut.num_tokens`` of each
    sequence. Parameters are whole on every rank, which compare them once. ``way`` and errors as in
    ``ContextParallelAttention``.
    """
    attentions = {}
    with checked_as_one(me, Members.of(me, group), "split_context", model):
        for block in model.blocks:  # all are made before one is put in: an error leaves the model as it was
            assert isinstance(block, TransformerBlock)
            attentions[block] = ContextParallelAttention(me, block.attention, cut, way=way, group=group, tile=tile)
        stem = ContextStem(me, model.stem, cut, group=group)
    for module, name, part in [(model, "stem", stem), *((b, "attention", a) for b, a in attentions.items())]:
        setattr(module, name, part)
    return model.to(me.device)


@checked
def context_loss(
    me: Rank, logits: Tensor, targets: Tensor, cut: SequenceCut, *, group: dist.ProcessGroup | None = None
) -> Tensor:
    """The loss to call backward on: this rank's part of the mean over all positions, in nats.

    logits: (B, T_r, V) of this rank's positions; targets: (B, T) of the whole sequences. Returned is n sums of losses
    over B T: its mean over the n ranks of the group is the mean over all positions, and averaged over them, its
    gradients are those of that mean. Nothing is sent: the cut says how many positions there are.
    """
    members = Members.of(me, group)
    check_ranks(members, cut)
    own = own_positions(cut, members.group_rank, targets)
    if own.shape != logits.shape[:2]:
        raise ValueError(
            f"logits have {tuple(logits.shape[:2])} sequences and positions, and this rank's targets are "
            f"{tuple(own.shape)}. Give the logits of this rank's positions, and the targets of all positions of the "
            "same sequences"
        )
    return next_token_loss(logits, own, reduction="sum") * (members.count / targets.numel())


@checked
class ContextStem(nn.Module):
    """A vector for each token of this rank plus a vector for its position: (B, T) -> (B, T_r, D)."""

    def __init__(
        self, me: Rank, embedding: Embedding, cut: SequenceCut, *, group: dist.ProcessGroup | None = None
    ) -> None:
        super().__init__()
        members = Members.of(me, group)
        check_ranks(members, cut)
        if cut.num_tokens > embedding.context_length:
            raise ValueError(
                f"a sequence of {cut.num_tokens} tokens is longer than context_length={embedding.context_length}: "
                f"take a sequence of {embedding.context_length}, or build the model with a longer context"
            )
        check_replicas(me, members, type(self).__name__, tensors_of(embedding))
        self.cut, self.group_rank = cut, members.group_rank
        self.tokens, self.positions, self.dropout = embedding.tokens, embedding.positions, embedding.dropout

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, T_r, D)."""
        own_tokens = own_positions(self.cut, self.group_rank, tokens)  # (B, T_r)
        runs = self.cut.runs(self.group_rank) or (range(0),)
        numbers = torch.cat([torch.arange(run.start, run.stop, device=tokens.device) for run in runs])  # (T_r,)
        return self.dropout(self.tokens(own_tokens) + self.positions(numbers))
