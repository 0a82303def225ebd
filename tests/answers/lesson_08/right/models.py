"""Right answers of other styles to the exercises about a whole transformer: heads, a table of tokens, all logits."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_08.right.sums import by_future, by_halves, by_messages
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.tensor import all_reduce_identity, identity_all_reduce

__all__ = ["EMBEDDINGS", "HEADS", "LOGITS"]


# -- 08.heads ---------------------------------------------------------------------------------------------------------


def heads_one_by_one(
    me: Rank, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_out: Tensor, num_heads: int
) -> Tensor:
    """A loop over the rank's heads, each with its own rows and columns, and the scores written out."""
    head_dim = x.size(-1) // num_heads
    entered = identity_all_reduce(me, x)
    later = torch.full((x.size(1), x.size(1)), -torch.inf, dtype=x.dtype).triu(1)
    y = torch.zeros_like(x)
    for start in range(0, w_q.size(0), head_dim):
        rows = slice(start, start + head_dim)
        q, k, v = (entered @ w[rows].T for w in (w_q, w_k, w_v))
        shares = torch.softmax(q @ k.transpose(1, 2) / head_dim**0.5 + later, dim=-1)
        y = y + shares @ v @ w_out[:, rows].T
    return all_reduce_identity(me, y)


def heads_by_einsum(
    me: Rank, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_out: Tensor, num_heads: int
) -> Tensor:
    """One joined matrix, index notation, and sums by a hook and by hand."""
    count = num_heads // me.world_size
    entered = x.view_as(x)
    entered.register_hook(by_halves)
    joined = torch.cat([w_q, w_k, w_v]).view(3, count, -1, x.size(-1))
    q, k, v = torch.einsum("btd,phkd->pbhtk", entered, joined)
    scores = torch.einsum("bhsk,bhtk->bhst", q, k) * q.size(-1) ** -0.5
    scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), -1e300)
    mixed = torch.einsum("bhst,bhtk->bhsk", scores.softmax(-1), v)
    y = torch.einsum("bhsk,dhk->bsd", mixed, w_out.view(-1, count, q.size(-1)))
    return y + (by_messages(y) - y).detach()


def heads_as_a_batch(
    me: Rank, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_out: Tensor, num_heads: int
) -> Tensor:
    """Heads folded into the batch, a mask in place of ``is_causal``, and a plain all-reduce of the result."""
    b, t, d = x.shape
    count, size = num_heads // me.world_size, d // num_heads

    def folded(w: Tensor) -> Tensor:
        return (entered @ w.mT).reshape(b, t, count, size).permute(0, 2, 1, 3).reshape(-1, t, size)

    entered = identity_all_reduce(me, x)
    mask = torch.ones(t, t, dtype=torch.bool).tril()
    mixed = F.scaled_dot_product_attention(folded(w_q), folded(w_k), folded(w_v), attn_mask=mask)
    y = F.linear(mixed.view(b, count, t, size).permute(0, 2, 1, 3).reshape(b, t, -1), w_out)
    dist.all_reduce(y)
    return y


# -- 08.embedding -----------------------------------------------------------------------------------------------------


def embedding_by_one_hot(me: Rank, tokens: Tensor, table: Tensor) -> Tensor:
    """A product with ones and zeros: a token of another rank has no one."""
    own = me.rank * len(table) + torch.arange(len(table))
    return all_reduce_identity(me, (tokens[..., None] == own).to(table.dtype) @ table)


def embedding_with_a_row_of_zeros(me: Rank, tokens: Tensor, table: Tensor) -> Tensor:
    """One row more, of zeros, for all tokens of others; the sum goes around a ring."""
    size = table.shape[0]
    longer = torch.cat([table, table.new_zeros(1, table.shape[1])])
    here = tokens.div(size, rounding_mode="floor") == me.rank
    vectors = longer[torch.where(here, tokens % size, size)]
    return vectors + (by_messages(vectors) - vectors).detach()


def embedding_in_one_function(me: Rank, tokens: Tensor, table: Tensor) -> Tensor:
    """One function of autograd, whose backward adds rows up."""
    return _WholeEmbedding.apply(tokens - me.rank * table.size(0), table)


class _WholeEmbedding(Function):
    @staticmethod
    def forward(ctx: object, *given: Tensor) -> Tensor:
        place, table = given
        is_here = place.ge(0) & place.lt(table.size(0))
        ctx.save_for_backward(place[is_here], is_here)  # type: ignore[attr-defined]
        ctx.size = table.size(0)  # type: ignore[attr-defined]
        vectors = table.new_zeros(*place.shape, table.size(1))
        vectors[is_here] = table[place[is_here]]
        return by_future(vectors)

    @staticmethod
    def backward(ctx: object, *grads: Tensor) -> tuple[None, Tensor]:
        place, is_here = ctx.saved_tensors  # type: ignore[attr-defined]
        rows = grads[0].new_zeros(ctx.size, grads[0].size(-1))  # type: ignore[attr-defined]
        return None, rows.index_add_(0, place, grads[0][is_here])


# -- 08.logits --------------------------------------------------------------------------------------------------------


def logits_by_columns(me: Rank, h: Tensor, w_vocab: Tensor) -> Tensor:
    """Gathered with the tokens first, and turned back."""
    mine = (w_vocab @ h.T).contiguous()
    parts = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(parts, mine)
    return torch.cat(parts).T


def logits_in_a_tensor(me: Rank, h: Tensor, w_vocab: Tensor) -> Tensor:
    """A dim of ranks, moved to where the tokens are."""
    mine = h @ w_vocab.T
    every = mine.new_empty(me.world_size, *mine.shape)
    dist.all_gather(list(every), mine, async_op=True).wait()
    return every.permute(1, 0, 2).reshape(len(h), -1)


def logits_among_zeros(me: Rank, h: Tensor, w_vocab: Tensor) -> Tensor:
    """A sum of tables in which each rank fills its own columns."""
    every = h.new_zeros(h.size(0), me.world_size, w_vocab.size(0))
    every[:, me.rank] = F.linear(h, w_vocab)
    dist.all_reduce(every)
    return every.flatten(1)


HEADS = (heads_one_by_one, heads_by_einsum, heads_as_a_batch)
EMBEDDINGS = (embedding_by_one_hot, embedding_with_a_row_of_zeros, embedding_in_one_function)
LOGITS = (logits_by_columns, logits_in_a_tensor, logits_among_zeros)
