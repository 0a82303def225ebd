# %% [markdown]
# # 08b · Tensor parallelism: a transformer, cut
#
# You cut a whole transformer: attention by heads, the first and the last matrix by vocabulary. You predict what each of
# its layers sends, and compare its weights with those of one device.
#
# **75 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 2 of 5 · [1: one product, cut](08a_tensor_parallel.ipynb) · [3: positions, shared
# out](08c_sequence_parallel.ipynb) · [4: the link, two faults, and production](08d_links_and_production.ipynb) · [5:
# build the transformer](08e_build_split_transformer.ipynb)
#
# This part builds on [08a: one product, cut](08a_tensor_parallel.ipynb). Have you done it? `from course_lib import
# start; start("08b")` says whether you have.
#
# At the end you can
#
# - cut attention by heads, and say on how many ranks that can be done;
# - predict what a transformer block sends, and compare it with data parallelism;
# - write an embedding and a loss that are cut by vocabulary.
#
# From part 1 you need the cut by columns, then by rows: each rank itself uses the hidden units that it makes. You also
# need the two gates of a split region. `enter` lets x pass, and sums its gradient over ranks. `leave` sums what the
# ranks have made, and lets the gradient pass.

# %%
from course_lib import ask, check, cost, hint, reveal, shared_cluster
from course_lib.meter import bytes_text, metered
from course_lib.models import Attention, Transformer, TransformerBlock, TransformerConfig, next_token_loss
from course_lib.parallel.tensor import (
    HeadParallelAttention,
    all_reduce_identity,
    gather_state,
    identity_all_reduce,
    split_block,
    split_transformer,
    vocab_parallel_cross_entropy,
)
from course_lib.rounding import agree

from dataclasses import replace

import torch
import torch.distributed as dist
import torch.nn.functional as F

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))

# %%
enter, leave = identity_all_reduce, all_reduce_identity  # enter(me, x), leave(me, partial)
small = TransformerConfig(vocab_size=256, context_length=32, num_layers=2, width=128, num_heads=4)

# %% [markdown]
# ## A whole block
#
# ![A transformer block: norm, attention by heads between two gates, plus; norm, MLP between two gates,
# plus](../assets/08_block.png)
#
# <!-- word: residual stream | also: residual connection, skip connection -->
# The **residual stream** is the tensor that passes from block to block and to which attention and MLP add what they
# make. The residual stream and the norms stay outside the split regions, and are the same on all ranks. You have cut
# the MLP in part 1. How is attention cut?
#
# The heads of attention do not look at each other. Each has its own columns of the three matrices that make queries,
# keys and values. And each has its own rows of the matrix at the end. So a rank can take some heads from beginning to
# end.
#
# ### Build: attention by heads
#
# The weights come as PyTorch keeps them, transposed. `w_q`, `w_k` and `w_v` are (D/n, D), the rows of this rank's heads
# one after the other. `w_out` is (D, D/n), their columns. `num_heads` is the number of heads of the whole model. The
# attention is causal: a position looks at itself and at earlier ones. For that you have
# `F.scaled_dot_product_attention(q, k, v, is_causal=True)`, which takes (batch, heads, positions, numbers of a head)
# and returns the same shape.


# %%
def split_attention(me, x, w_q, w_k, w_v, w_out, num_heads):
    """x (B, T, D), the same on all ranks -> (B, T, D), the same on all ranks."""
    ### BEGIN SOLUTION
    entered = enter(me, x)  # once: queries, keys and values read the same
    own_heads = num_heads // me.world_size
    q, k, v = (
        F.linear(entered, w).unflatten(-1, (own_heads, -1)).transpose(1, 2)  # (B, H/n, T, K)
        for w in (w_q, w_k, w_v)
    )
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return leave(me, F.linear(mixed.transpose(1, 2).flatten(2), w_out))
    ### END SOLUTION


# %%
check("08.heads", split_attention)

# %%
# hint("08.heads")

# %% [markdown]
# ### Heads that do not divide
#
# <!-- word: grouped-query attention | also: GQA -->
# No rank can compute half a head, so the number of heads must be divisible by the number of ranks. In **grouped-query
# attention** several query heads share one head of keys and values. Then the number of *key/value* heads must be
# divisible as well:


# %%
def try_heads(me, num_heads, num_kv_heads):
    sizes = replace(small, width=96, num_heads=num_heads, num_kv_heads=num_kv_heads)
    try:
        attention = HeadParallelAttention(me, Attention(sizes))
    except ValueError as error:
        return str(error)
    return f"each rank has {attention.w_q.weight.size(0) // attention.head_dim} query heads"


for heads in ((8, 8), (8, 4), (6, 6), (8, 2)):
    print(*heads, "heads on 4 ranks:", four.run(try_heads, *heads)[0])

# %% [markdown]
# Where a model has fewer key/value heads than there are ranks, production code gives several ranks a copy of the same
# head. The copies have to stay equal, so their gradients are summed among these ranks. The course's layer refuses such
# a cut.
#
# ## What a block sends
#
# `split_block` does all this to a block of the course's transformer: attention by heads, the MLP by columns and rows.
#
# **A block of width 128 reads 4 sequences of 32 tokens, in float32: 64 KiB at each gate. Its weights are 768 KiB. How
# many KiB does each of four ranks send for this block, forward and backward together?**

# %%
### BEGIN SOLUTION
### STUB ask("08.bytes")
ask("08.bytes").commit(1152)  # "an all-reduce of its weights' gradients, 3/2 of 768"
### END SOLUTION


# %%
def block_step(me, batch_size=4):
    torch.manual_seed(0)
    block = split_block(me, TransformerBlock(small))
    x = torch.randn(batch_size, 32, 128, device=me.device, requires_grad=True)
    block(x).sum().backward()


block = metered(four, block_step).communication
for call in block.of(0).calls:
    print(
        f"{call.operation} of {bytes_text(call.size_bytes)}, {bytes_text(sum(call.sent_bytes.values()))} sent"
    )

# %%
reveal("08.bytes", block, small)

# %% [markdown]
# Data parallelism sends gradients, as large as the weights, once a step. Tensor parallelism sends activations, four
# times a block. So the size of the batch decides which of the two sends less:

# %%
for batch_size in (1, 4, 16, 64):
    tensor_bytes = metered(four, block_step, batch_size).communication.sent_bytes(0)
    data_bytes = cost.bus_factor("all_reduce", 4) * sum(
        p.nbytes for p in TransformerBlock(small).parameters()
    )
    print(f"batch of {batch_size:>2}: tensor {bytes_text(tensor_bytes):>8}, data {bytes_text(data_bytes):>9}")

# %% [markdown]
# ## The vocabulary
#
# <!-- word: vocabulary parallelism | also: vocab-parallel embedding, `VocabParallelEmbedding` -->
# The largest matrices of a language model are its first and its last: a row for each token. **Vocabulary parallelism**
# cuts the first and the last matrix of a language model by tokens, so that each rank holds the rows of some tokens.
#
# ### Build: the embedding
#
# The first matrix is a table: a token's number picks its row. `tokens` are the same on all ranks, `table` holds the
# rows of this rank's tokens, and rank r's first row is token `r * V/n`. All ranks want all vectors.


# %%
def split_embedding(me, tokens, table):
    """tokens (B, T), numbers 0 to V-1; table (V/n, D): this rank's tokens -> (B, T, D) on every rank."""
    ### BEGIN SOLUTION
    place = tokens - me.rank * len(table)  # where a token stands among this rank's rows
    is_here = (place >= 0) & (place < len(table))
    vectors = F.embedding(place.clamp(0, len(table) - 1), table)
    return leave(me, torch.where(is_here[..., None], vectors, 0.0))
    ### END SOLUTION


# %%
check("08.embedding", split_embedding)

# %%
# hint("08.embedding")

# %% [markdown]
# ### The other end
#
# ![Logits, a row for each position and a column for each token; rank 0 has the left columns and rank 1 the right ones.
# What travels between them for a row is a question mark](../assets/08_vocabulary.png)
#
# <!-- word: logit -->
# A **logit** is the score of one possible next token, before the softmax. Each rank computes those of *its* tokens. The
# loss of a position is
#
# $$-\log \frac{e^{z_t}}{\sum_v e^{z_v}} \;=\; \log \sum_v e^{z_v} - z_t$$
#
# where $z_v$ is the logit of token v, and t is the token that really comes next. The sum runs over the whole
# vocabulary, and each rank has a part of it.
#
# **The vocabulary has 50,000 tokens, and two ranks share it. A logit may be as large as 1000, and the ranks call
# nothing but all-reduces. How many numbers does each hand in for a position, so that both know its loss?**

# %%
### BEGIN SOLUTION
### STUB ask("08.loss")
ask("08.loss").commit(25000)  # "its half of the logits"
### END SOLUTION


# %%
def loss_step(me, vocab_size=1000, positions=8):
    logits = torch.randn(positions, vocab_size // me.world_size, device=me.device)
    targets = torch.arange(positions, device=me.device)
    vocab_parallel_cross_entropy(me, logits, targets, vocab_size=vocab_size)


handed = {
    size: sum(call.size_bytes for call in metered(two, loss_step, size).communication.of(0).calls) / 4 / 8
    for size in (1000, 50_000)
}
print("numbers a position, by size of the vocabulary:", handed)

# %%
reveal("08.loss", handed[50_000])

# %% [markdown]
# ### Build: the loss
#
# <!-- word: vocabulary-parallel cross-entropy | also: loss parallel, `loss_parallel` -->
# Write a **vocabulary-parallel cross-entropy**: a loss from logits that stay cut by vocabulary. Each rank hands in a
# few numbers for each position. Rank r's first column is token `r * V/n`. The largest logit is subtracted only to keep
# the exponentials small, and no gradient has to pass through it. So `logits.detach()` and a plain
# `dist.all_reduce(largest, op=dist.ReduceOp.MAX)` will do. Use `leave` for the sums that gradients must pass through.


# %%
def split_loss(me, logits, targets):
    """Mean cross-entropy, on every rank. logits (N, V/n): this rank's tokens; targets (N,): token numbers, 0 to V-1."""
    ### BEGIN SOLUTION
    largest = logits.detach().amax(dim=1)  # (N,)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    size = logits.size(1)
    place = targets - me.rank * size  # where the target stands among this rank's tokens
    is_here = (place >= 0) & (place < size)
    found = shifted.gather(1, place.clamp(0, size - 1)[:, None])[:, 0]
    target_logit = torch.where(is_here, found, 0.0)
    sums = leave(me, torch.stack([shifted.exp().sum(dim=1), target_logit]))
    return (sums[0].log() - sums[1]).mean()
    ### END SOLUTION


# %%
check("08.loss", split_loss)

# %%
# hint("08.loss")

# %% [markdown]
# ## The same as one device?
#
# `split_transformer` cuts the whole model: attention by heads, the MLP by columns and rows, and both the first and the
# last matrix by vocabulary. The next cells take five steps of AdamW in float64, on one device, on two ranks and on
# four. Then they gather the parts and compare all weights.


# %%
def five_steps(me, is_split):
    torch.manual_seed(0)
    model = Transformer(replace(small, width=32, vocab_size=50)).double().to(me.device)
    if is_split:
        split_transformer(me, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = torch.randint(50, (4, 33), generator=torch.Generator().manual_seed(1)).to(me.device)
    x, y = tokens[:, :-1], tokens[:, 1:]
    for _ in range(5):
        optimizer.zero_grad()
        if is_split:
            vocab_parallel_cross_entropy(me, model(x), y, vocab_size=50).backward()
        else:
            next_token_loss(model(x), y).backward()
        optimizer.step()
    return gather_state(me, model) if is_split else model.state_dict()


# %%
alone = one.run(five_steps, False)[0]
for ranks in (two, four):
    states = ranks.run(five_steps, True)
    alike = all(agree(state, alone, within=1e-10) for state in states)
    print(f"{ranks.world_size} ranks: no weight off by more than 1e-10: {alike}")

# %% [markdown]
# ### And in float32?
#
# In float64 the weights differ by rounding alone. Training runs in float32 or less, and a cut by rows adds in another
# order: each rank sums its part, then the parts are summed. Take a product whose sums have 4096 terms, and compare with
# the exact result.
#
# **Which is further from the truth: the product in one piece, or four partial products added up?** Three times as far
# or more is *clearly* further.

# %%
### BEGIN SOLUTION
### STUB ask("08.rounding")
ask("08.rounding").commit("the four parts, clearly")  # "cutting loses something"
### END SOLUTION


# %%
def split_sum(me):
    generator = torch.Generator().manual_seed(0)
    x, a = (torch.randn(shape, generator=generator).to(me.device) for shape in [(64, 4096), (4096, 64)])
    exact = x.double() @ a.double()
    n, r = me.world_size, me.rank
    partial = x.chunk(n, dim=1)[r] @ a.chunk(n, dim=0)[r]
    dist.all_reduce(partial)

    def error(found):
        return ((found.double() - exact).square().mean().sqrt() / exact.square().mean().sqrt()).item()

    return error(x @ a), error(partial), (partial != x @ a).double().mean().item()


# %% tags=["nbval-ignore-output"]
whole_error, parts_error, differ = four.run(split_sum)[0]
print(f"typical error, in one piece: {whole_error:.1e}")
print(f"typical error, four parts:   {parts_error:.1e}")
print(f"numbers that differ in some bit: {differ:.0%}")
reveal("08.rounding", whole_error, parts_error, differ)

# %% [markdown]
# A test that asks for equal bits will fail with a cut by rows, and perhaps with a cut by columns. With columns nothing
# is added up between ranks, but a narrower product may be computed by another routine, which adds in another order. A
# test is fair if it allows for the rounding of its number format.
#
# ## What you can do now
#
# You can cut a transformer from its first matrix to its loss, and you have shown that it trains as on one device. You
# can say what a block sends before it runs: four all-reduces of the residual stream, however large the weights are.
#
# Between the regions all ranks still hold the same tensors, and compute the same. [Part 3](08c_sequence_parallel.ipynb)
# shares that out as well.
#
# **Further reading.** Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053) (2019), section 3: attention by
# heads, and the vocabulary. Ainslie et al., [GQA](https://arxiv.org/abs/2305.13245) (2023): query heads that share.
