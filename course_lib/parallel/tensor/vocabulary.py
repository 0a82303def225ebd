"""The vocabulary cut among ranks: looking tokens up, and the loss, without ever gathering the logits.

A batch of B sequences of T tokens has B T V logits: with a vocabulary of 50 000 and a width of 1000, fifty times the
activations. Each rank keeps those of its own tokens; what the ranks tell each other is three numbers for each position.

V tokens need not divide by the number of ranks: the first ranks have one more (``split_sizes``).
Source: Shoeybi et al., "Megatron-LM" (2019), section 3, and its ``vocab_parallel_cross_entropy``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from course_lib.base.checked import checked
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives import all_gather, split_sizes
from course_lib.parallel.collectives.dim_collectives import start_all_reduce
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.collectives.parts import HoldsParts
from course_lib.parallel.data.replica_check import check_replicas, tensors_of
from course_lib.parallel.tensor.layers import own_slice
from course_lib.parallel.tensor.placements import Placement, Shard
from course_lib.parallel.tensor.region import Region

__all__ = ["VocabParallelEmbedding", "gather_logits", "vocab_parallel_cross_entropy"]

_REDUCTIONS = ("mean", "sum", "none")


@checked
class VocabParallelEmbedding(HoldsParts):
    """Token numbers in, vectors out, each rank knowing some of the tokens: (B, T) int64 -> (B, T, D).

    A rank gives zeros for the tokens of others, so the vectors are the sum over ranks. Forward: an all-reduce
    (``sequence_parallel``: a reduce-scatter, which leaves (B, T/n, D)). Backward: nothing is sent (an all-gather).
    """

    placements: ClassVar[dict[str, Placement]] = {"weight": Shard(0)}

    def __init__(
        self,
        me: Rank,
        embedding: nn.Embedding,
        *,
        group: dist.ProcessGroup | None = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        if embedding.padding_idx is not None or embedding.max_norm is not None or embedding.scale_grad_by_freq:
            raise ValueError(
                "This embedding has padding_idx, max_norm or scale_grad_by_freq, which a split embedding does not "
                "have. Use a plain nn.Embedding(num_tokens, width)."
            )
        self.region = Region(me, group, sequence_parallel)
        check_replicas(me, self.region.members, type(self).__name__, tensors_of(embedding))
        self.num_embeddings, self.embedding_dim = embedding.num_embeddings, embedding.embedding_dim
        self.weight = own_slice(self.region, embedding.weight, Shard(0))  # (V/n, D)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, T, D), or (B, T/n, D) with sequence parallelism."""
        local_index, is_here = _local_indices(tokens, self.num_embeddings, self.region.members)
        vectors = F.embedding(local_index, self.weight).masked_fill(~is_here.unsqueeze(-1), 0.0)
        return self.region.leave(vectors)

    @property
    def parts_among(self) -> Members:
        """The ranks that hold the other parts: for them this module's parameters are no copies."""
        return self.region.members

    def extra_repr(self) -> str:
        return f"{self.weight.size(0)} of {self.num_embeddings}, {self.embedding_dim}"


def vocab_parallel_cross_entropy(
    me: Rank,
    logits: Tensor,
    targets: Tensor,
    *,
    vocab_size: int,
    reduction: str = "mean",
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Cross-entropy from each rank's logits (..., V/n) against targets (...), in nats, the same on all ranks.

    Forward: two all-reduces, of the largest logit of each position, then of two numbers for each position (the sum of
    exponentials, and the target's logit, which one rank has). Backward: nothing is sent; softmax minus one-hot is known
    to each rank for its own tokens. The arithmetic is float32 at least. ``reduction``: "mean", "sum" or "none".
    """
    members = Members.of(me, group)
    own_size = split_sizes(vocab_size, members.count)[members.group_rank]
    if logits.size(-1) != own_size:
        raise ValueError(
            f"logits have {logits.size(-1)} tokens on rank {me.rank}; its share of vocab_size={vocab_size} among "
            f"{members.count} ranks is {own_size}. Give the logits of this rank's tokens alone, ungathered, and the "
            f"vocab_size of the whole vocabulary."
        )
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction={reduction!r} is not known; use one of {', '.join(_REDUCTIONS)}.")
    losses = _VocabParallelCrossEntropy.apply(members, logits, targets, vocab_size)
    return losses if reduction == "none" else getattr(losses, reduction)()


class _VocabParallelCrossEntropy(Function):
    @staticmethod
    def forward(ctx: Any, members: Members, logits: Tensor, targets: Tensor, vocab_size: int) -> Tensor:
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        largest = logits.amax(-1)  # (...): subtracted, so that no exponential overflows
        if members.count > 1:
            start_all_reduce(members, largest, op=dist.ReduceOp.MAX)()
        local_index, is_here = _local_indices(targets, vocab_size, members)
        shifted = logits - largest.unsqueeze(-1)  # (..., V/n)
        target_logit = shifted.gather(-1, local_index.unsqueeze(-1)).squeeze(-1).masked_fill(~is_here, 0.0)
        exponentials = shifted.exp_()
        sums = torch.stack([exponentials.sum(-1), target_logit])  # (2, ...)
        if members.count > 1:
            start_all_reduce(members, sums)()
        probabilities = exponentials.div_(sums[0].unsqueeze(-1))
        ctx.save_for_backward(probabilities, local_index, is_here)
        return sums[0].log() - sums[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        probabilities, local_index, is_here = ctx.saved_tensors
        grad_logits = probabilities.clone()
        one_hot = is_here.to(grad_logits.dtype).unsqueeze(-1)  # 0 where the target is another rank's
        grad_logits.scatter_add_(-1, local_index.unsqueeze(-1), -one_hot)
        return None, grad_logits.mul_(grad.unsqueeze(-1)), None, None


def gather_logits(me: Rank, logits: Tensor, *, vocab_size: int, group: dist.ProcessGroup | None = None) -> Tensor:
    """All logits on every rank, (..., V/n) -> (..., V), for sampling from them; no gradient passes."""
    sizes = split_sizes(vocab_size, Members.of(me, group).count)
    return all_gather(me, logits.movedim(-1, 0), sizes=sizes, group=group).movedim(0, -1)


def _local_indices(tokens: Tensor, vocab_size: int, members: Members) -> tuple[Tensor, Tensor]:
    """Where each token stands among this rank's tokens (0 for those of other ranks), and whether it is there.

    A token beyond the vocabulary would belong to nobody and pass for zeros: on a CPU that is a ``ValueError``. On a
    GPU the check would make the host wait, and is left out.
    """
    if tokens.is_cpu and tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        wrong = int(tokens.min()) if int(tokens.min()) < 0 else int(tokens.max())
        raise ValueError(
            f"token {wrong} is not in the vocabulary, whose tokens are 0 to {vocab_size - 1}. The nearest is "
            f"{min(max(wrong, 0), vocab_size - 1)}."
        )
    sizes = split_sizes(vocab_size, members.count)
    first = sum(sizes[: members.group_rank])
    is_here = (tokens >= first) & (tokens < first + sizes[members.group_rank])
    return torch.where(is_here, tokens - first, 0), is_here
