# %% [markdown]
# # 08 · Tensor parallelism
#
# One matrix, and no single device that holds it. You cut the matrices themselves, work out which collective each cut
# needs, forward and backward, and build a transformer whose every layer lives on several ranks and learns as one.
#
# **90 minutes · difficulty 4 of 5 · needs: cpu**
#
# At the end you can
#
# - derive, for any cut of a matrix product, what has to travel and how many bytes;
# - write the two gates of a split region, a split MLP, and a loss whose logits never meet;
# - cut a whole transformer by columns, rows, heads and vocabulary, and predict what each of its layers sends;
# - say what sequence parallelism saves, and find what is wrong in three split models;
# - tell on which link this pays.
#
# A pipeline hands each device some whole *layers*. So two things stay as they were: the largest layer must fit on one
# device, and a single sample still passes through all layers one after the other, so it takes no less time than
# before.
#
# <!-- word: tensor parallelism | also: intra-layer model parallelism, TP -->
# In **tensor parallelism** every matrix is cut among several devices, which work on the *same* layer at the same
# moment. Both limits fall.

# %%
from course_lib import Link, Links, ask, check, cost, hint, pace, quiz, reveal, shared_cluster, solution
from course_lib.claims import trial
from course_lib.meter import MemoryLedger, bytes_text, metered
from course_lib.models import Attention, Transformer, TransformerBlock, TransformerConfig, next_token_loss
from course_lib.parallel.data import paced_step_s
from course_lib.parallel.tensor import (
    ColumnParallelLinear,
    HeadParallelAttention,
    Shard,
    all_reduce_identity,
    gather_state,
    identity_all_reduce,
    matmul_plan,
    parse_placement,
    split_block,
    split_transformer,
    vocab_parallel_cross_entropy,
)
from course_lib.plot import lines

import contextlib
import itertools
import math
import statistics
import time
from dataclasses import replace

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))

# %% [markdown]
# ## By columns
#
# ![X times a matrix A of which rank 0 has the left columns and rank 1 the right ones; each gets half of the columns of
# Y](../assets/08_columns.png)
#
# A linear layer is a product, $Y = XA$: each row of X is a sample or a token, each column of A makes one output. (In
# PyTorch `weight` is A's transpose, so that columns of A are rows of `weight`.) Give each of two ranks half of the
# *columns* of A, and let both have all of X:

# %%
X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
A = torch.tensor([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 3.0]])


def by_columns(me):
    my_columns = A.chunk(me.world_size, dim=1)[me.rank]  # (2, 2) of (2, 4)
    return X @ my_columns


parts = two.run(by_columns)
for rank, part in enumerate(parts):
    print(f"rank {rank} has", part.tolist())
print("X A is    ", (X @ A).tolist())
print("side by side they are X A:", torch.equal(torch.cat(list(parts), dim=1), X @ A))

# %% [markdown]
# <!-- word: column-parallel | also: column-wise parallel, `ColwiseParallel`, column split -->
# A linear layer, Y = X A, is called **column-parallel** when each rank holds some columns of A and makes the same
# columns of Y. A column of Y is X times one column of A and knows nothing of the others. No message was sent. A widely
# read text says so too; here is the sentence on trial:

# %%
print(trial("E9").claim.text)
print(trial("E9").run())

# %% [markdown]
# ## By rows
#
# ![X, of which rank 0 has the left columns and rank 1 the right ones, times A, of which rank 0 has the upper rows and
# rank 1 the lower ones; two full-sized products, and a question mark](../assets/08_rows.png)
#
# <!-- word: row-parallel | also: row-wise parallel, `RowwiseParallel`, row split -->
# Now cut A the other way: each rank has some *rows*. A row of A is multiplied by a column of X, so each rank uses the
# columns of X that match its rows. A linear layer, Y = X A, is called **row-parallel** when each rank holds some rows
# of A, and the columns of X that match them.
#
# **Rank 0 gets Y0, rank 1 gets Y1. How do they become Y?**

# %%
### BEGIN SOLUTION
### STUB ask("08.rows")
ask("08.rows").commit("one above the other")  # "A was cut by rows, so Y comes in rows"
### END SOLUTION


# %%
def by_rows(me):
    my_rows = A.chunk(me.world_size, dim=0)[me.rank]  # (1, 4) of (2, 4)
    my_part_of_x = X.chunk(me.world_size, dim=1)[me.rank]  # (2, 1) of (2, 2)
    return my_part_of_x @ my_rows


first, second = two.run(by_rows)
print("rank 0 has", first.tolist())
print("rank 1 has", second.tolist())
print("X A is    ", (X @ A).tolist())

# %%
reveal("08.rows", first, second, X @ A)

# %% [markdown]
# ## By both
#
# ![A cut in four tiles: rank 0 upper left, rank 1 upper right, rank 2 lower left, rank 3 lower
# right](../assets/08_tiles.png)
#
# <!-- word: tile | also: two-dimensional tensor parallelism, 2D sharding -->
# Four ranks can cut A both ways at once, so that each holds a **tile** of the matrix: some columns of some of its rows.
# Nothing new happens: ranks that share *columns* hold summands of the same part of Y and add them up among themselves,
# in a group of two.


# %%
def by_both(me):
    row, column = divmod(me.rank, 2)
    tile = A.chunk(2, dim=0)[row].chunk(2, dim=1)[column]
    partial = X.chunk(2, dim=1)[row] @ tile
    groups = [dist.new_group([c, c + 2]) for c in range(2)]  # all ranks make all groups, in one order
    dist.all_reduce(partial, group=groups[column])
    dist.destroy_process_group(groups[column])
    return partial


found = four.run(by_both)
print("columns 0, 1 on ranks 0 and 2:", found[0].tolist())
print("columns 2, 3 on ranks 1 and 3:", found[1].tolist())
print("X A is                        ", (X @ A).tolist())

# %% [markdown]
# ## What each cut needs
#
# ![Forward, X goes to both ranks and each gives some columns of Y. Backward, each rank has the gradient of its columns;
# what goes back to X is a question mark](../assets/08_backward.png)
#
# <!-- word: placement | also: sharding, layout -->
# <!-- word: partial sums | also: partial tensor, `Partial` -->
# The **placement** of a tensor says which part of it each rank holds: **S(0)** cut by rows, **S(1)** cut by columns (S
# is for *shard*, with the dim), **R** whole on every rank (replicated), **P** partial. Tensors of the full shape, one
# on each rank, are **partial sums** of the tensor that they add up to. The rules for $Y = XA$ follow from arithmetic
# alone: R times S(1) is S(1), as you saw; S(1) times S(0) is P.
#
# The backward pass is two products more: $dX = dY\,A^T$ and $dA = X^T dY$. A transpose turns rows into columns, so the
# same rules answer for it.
#
# **A is cut by columns, X is whole on every rank, Y stays cut. Forward nothing is sent. What does the backward pass
# need, if X is to get its gradient?**

# %%
### BEGIN SOLUTION
### STUB ask("08.backward")
ask("08.backward").commit("nothing")  # "forward needed nothing"
### END SOLUTION

# %% [markdown]
# `matmul_plan` applies the rules: from the placements of X, A and Y it derives what every rank multiplies and which
# collectives that takes. Nothing in this table is typed by hand.

# %%
situations = {
    "by columns": ("R", "S(1)", "S(1)"),
    "by columns, Y whole": ("R", "S(1)", "R"),
    "by rows": ("S(1)", "S(0)", "R"),
    "by rows, Y cut": ("S(1)", "S(0)", "S(0)"),
    "X by rows": ("S(0)", "R", "S(0)"),
    "X by rows, A by columns": ("S(0)", "S(1)", "S(1)"),
}
plans = {name: matmul_plan(*map(parse_placement, cuts)) for name, cuts in situations.items()}
print(f"{'':<24}{'X':<5}{'A':<5}{'Y':<5}{'forward':<22}backward")
for name, plan in plans.items():
    there, again = (
        ", ".join(f"{s.collective} {s.tensor}" for s in way if s.is_sent) or "-"
        for way in (plan.forward, plan.backward)
    )
    print(f"{name:<24}{plan.x!s:<5}{plan.a!s:<5}{plan.y!s:<5}{there:<22}{again}")

# %%
reveal("08.backward", plans["by columns"])

# %% [markdown]
# Read the table again. Columns and rows mirror each other: where one sends forward, the other sends backward. And you
# have met the fifth line: X cut by rows, A whole, and an all-reduce of dA backward. That is *data parallelism*. It is
# one cut of a product among others.
#
# A text that is often quoted says: *a column-split linear layer needs an all-gather and a row-split one a
# reduce-scatter*. **Bet on a verdict before the trial.**

# %%
### BEGIN SOLUTION
### STUB ask("08.bet_e10")
ask("08.bet_e10").commit("holds")
### END SOLUTION

# %%
evidence = trial("E10").run()
print(evidence)
reveal("08.bet_e10", evidence)

# %% [markdown]
# ## The explorer
#
# ![The explorer: menus for X, A, Y and the ranks; below, for each of four ranks, its part of X, its part of A, the
# partial sum that it computes, and Y after an all-reduce](../assets/08_explorer.png)
#
# Cut what you like, and press *run*: the ranks then do these steps and no others, and the meter counts. Three missions:
#
# 1. The ranks share the work, and nothing travels, forward or backward. One choice of X, A and Y does that. Which, and
#    who pays for it?
# 2. X, A and Y are all cut by rows. How is that possible, and which lesson did it?
# 3. Four ranks: what sends less, forward and backward together, A and Y by columns with X whole, or A in tiles? (In
#    tiles each rank uses half of X's columns, as above.)

# %%
from course_lib.widgets import MatmulExplorer

MatmulExplorer(shared_cluster)

# %% [markdown]
# When you have tried, compare. The first mission can be solved by asking for every choice there is:

# %%
placements = [parse_placement(text) for text in ("R", "S(0)", "S(1)", "P")]
for x, a, y in itertools.product(placements[:3], placements[:3], placements):
    plan = matmul_plan(x, a, y)
    is_shared = isinstance(plan.x_used, Shard) or isinstance(plan.a_used, Shard)
    if is_shared and plan.collectives() == ((), ()):
        print(f"X {x}, A {a}, Y {y}: nothing travels")

# %% [markdown]
# Columns of X, rows of A, and nobody adds up: whoever uses Y next has to. For the second, each rank gathers all of A,
# multiplies its rows of X, and lets A go: FSDP, lesson 05. For the third, tiles, at the explorer's sizes: there are two
# all-reduces and not one, but each runs between two ranks and not four, for half of a tensor. (The wider Y is beside X,
# the less that helps.) Very large jobs cut this way; this lesson stays with one cut at a time.
#
# ## Two layers in a row
#
# ![X goes through A, GELU and B; both matrices bear a question mark](../assets/08_between.png)
#
# A layer seldom comes alone. An MLP is $\mathrm{GELU}(XA)\,B$: widen, bend, narrow. X is on every rank, and so shall
# the output be. Cut *both* matrices, so that each rank holds its share of either, in such a way that **nothing travels
# between the two**. One thing to know about GELU: it bends every number by itself, and it is not linear.

# %%
u, v = torch.tensor(1.0), torch.tensor(-1.5)  # two summands of one number
print(f"GELU of the sum: {F.gelu(u + v).item():.2f}")
print(f"sum of GELUs:    {(F.gelu(u) + F.gelu(v)).item():.2f}")

# %%
### BEGIN SOLUTION
### STUB cuts = ...  # for example: {"A": "R", "B": "S(1)"}, with R, S(0) or S(1) for each
cuts = {"A": "S(1)", "B": "S(0)"}
### END SOLUTION

# %%
check("08.between", cuts)

# %%
# hint("08.between")

# %% [markdown]
# The hidden units are dealt out to the ranks: each rank makes some of them, and uses the same ones. That works wherever
# something is made in parts and used in the same parts. Soon it will be the heads of attention.
#
# ## Two gates
#
# ![A region between two gates, with two ranks in it, forward and backward; at both gates stands a question
# mark](../assets/08_gates.png)
#
# <!-- word: split region | also: tensor-parallel region, model-parallel region -->
# What lies between the first cut matrix and the last is a **split region**: inside, every rank works on features of its
# own; outside, everything is the same on all ranks. What happens at the two borders? Call them gates, *entrance* and
# *exit*; the Megatron paper calls them f and g.
#
# ### Build: the gates
#
# Autograd needs to know what each gate does backward, so it is a `torch.autograd.Function`: `backward` gets the
# gradient of what `forward` gave, and returns one for each input of `forward` (the flag has none: `None`). What
# `backward` has to know, `forward` leaves on `ctx` as an attribute. Where a gate has to send, it calls one all-reduce
# and no more. Think about one gate at a time: what is the same on all ranks and complete there, and what is a summand?


# %%
def summed(tensor):
    """The sum over all ranks, in a tensor of its own."""
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


# %%
class Gate(torch.autograd.Function):
    """The entrance of a split region, or its exit."""

    @staticmethod
    def forward(ctx, x, is_entrance):
        ### BEGIN SOLUTION
        ctx.is_entrance = is_entrance
        return x.view_as(x) if is_entrance else summed(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        return (summed(grad) if ctx.is_entrance else grad), None
        ### END SOLUTION


# %%
check("08.gates", Gate)

# %%
# hint("08.gates")

# %% [markdown]
# <!-- word: conjugate operators | also: f and g, copy_to region, reduce_from region, entrance and exit -->
# The entrance and the exit of a split region are **conjugate operators**: each does forward what the other does
# backward. From here on they are called `enter` and `leave`; both are the course's, which are written like yours and
# also take a group of ranks. (In Megatron-LM's code f is `copy_to_tensor_model_parallel_region`, and g is
# `reduce_from_tensor_model_parallel_region`.)
#
# ### Build: the MLP
#
# Now the MLP of a rank, with biases. The weights come as PyTorch keeps them: `w_up` is (hidden/n, width), `b_up`
# (hidden/n), `w_down` (width, hidden/n); `b_down` (width) is whole on every rank. Use `F.linear(x, weight, bias)`. The
# check looks at the output, at the gradients of all five, and at what is sent.

# %%
enter, leave = identity_all_reduce, all_reduce_identity  # enter(me, x), leave(me, partial)


# %%
def split_mlp(me, x, w_up, b_up, w_down, b_down):
    """x (N, width), the same on all ranks -> (N, width), the same on all ranks."""
    ### BEGIN SOLUTION
    hidden = F.gelu(F.linear(enter(me, x), w_up, b_up))  # (N, hidden/n)
    return leave(me, F.linear(hidden, w_down)) + b_down
    ### END SOLUTION


# %%
check("08.mlp", split_mlp)

# %%
# hint("08.mlp")

# %% [markdown]
# ![A region between two gates. Forward: at the entrance X passes, at the exit an all-reduce. Backward: at the exit the
# gradient passes, at the entrance an all-reduce](../assets/08_region.png)
#
# The region of the MLP, with both gates and what passes them.
#
# ## A whole block
#
# ![A transformer block: norm, attention by heads between two gates, plus; norm, MLP between two gates,
# plus](../assets/08_block.png)
#
# <!-- word: residual stream | also: residual connection, skip connection -->
# Attention is made for this. Its heads do not look at each other: each has its own queries, keys and values (columns of
# `w_q`, `w_k`, `w_v`) and its own rows of `w_out`. So a rank takes some heads from beginning to end: columns, then
# rows, as in the MLP. The **residual stream** is the tensor that passes from block to block and to which attention and
# MLP add what they make; with the norms it stays outside the regions, the same on all ranks. `split_block` does all
# this to a block of the course's transformer.
#
# **A block of width 128 reads 4 sequences of 32 tokens, in float32: 64 KiB at each gate. Its weights are 768 KiB. How
# many KiB does each of four ranks send for this block, forward and backward together?**

# %%
small = TransformerConfig(vocab_size=256, context_length=32, num_layers=2, width=128, num_heads=4)
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
# times a block. So the batch decides:

# %%
for batch_size in (1, 4, 16, 64):
    tensor_bytes = metered(four, block_step, batch_size).communication.sent_bytes(0)
    data_bytes = cost.bus_factor("all_reduce", 4) * sum(
        p.nbytes for p in TransformerBlock(small).parameters()
    )
    print(
        f"{batch_size:>2} sequences: tensor {bytes_text(tensor_bytes):>8}, data {bytes_text(data_bytes):>9}"
    )

# %% [markdown]
# A sentence on trial, where *layer* means a block. (In the last line, the one call beyond two a block is for the table
# of tokens, which comes next.)

# %%
print(trial("E11").claim.text)
print(trial("E11").run())

# %% [markdown]
# ### Heads that do not divide
#
# <!-- word: grouped-query attention | also: GQA -->
# Half a head cannot be computed. In **grouped-query attention** several query heads share one head of keys and values.
# Then the *key/value* heads have to divide as well:


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
# ## The vocabulary
#
# ![Logits, a row for each position and a column for each token; rank 0 has the left columns and rank 1 the right ones.
# What travels between them for a row is a question mark](../assets/08_vocabulary.png)
#
# <!-- word: vocabulary parallelism | also: vocab-parallel embedding, `VocabParallelEmbedding` -->
# <!-- word: logit -->
# The largest matrices of a language model are its first and its last: a row for each token. **Vocabulary parallelism**
# cuts the first and the last matrix of a language model by tokens, so that each rank holds the rows of some tokens. To
# look a token up, a rank gives its vector, or zeros where the token belongs to another rank, and the exit gate adds
# them up. A **logit** is the score of one possible next token, before the softmax; at the other end each rank computes
# those of *its* tokens. The loss of a position is
#
# $$-\log \frac{e^{z_t}}{\sum_v e^{z_v}} \;=\; \log \sum_v e^{z_v} - z_t$$
#
# with the sum over the whole vocabulary, of which each rank has a part.
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
# Write a **vocabulary-parallel cross-entropy**: a loss from logits that stay cut by vocabulary, for which each rank
# hands in a few numbers for a position. Rank r's first column is token `r * V/n`. The largest logit is subtracted only
# for the sake of the exponentials; no gradient need pass through it, so `logits.detach()` and a plain
# `dist.all_reduce(largest, op=dist.ReduceOp.MAX)` will do. For what gradients must pass through you have `leave`.


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
# ![A transformer in one piece beside the same transformer on two ranks, each with half of every
# matrix](../assets/08_model.png)
#
# `split_transformer` cuts the whole model: attention by heads, the MLP by columns and rows, and both the first and the
# last matrix by vocabulary. Five steps of AdamW in float64, once whole and once on two and four ranks; then the parts
# are gathered and all weights compared.


# %%
def five_steps(me, way=None):
    torch.manual_seed(0)
    model = Transformer(replace(small, width=32, vocab_size=50)).double()
    if way is not None:
        split_transformer(me, model, **way)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = torch.randint(50, (4, 33), generator=torch.Generator().manual_seed(1)).to(me.device)
    x, y = tokens[:, :-1], tokens[:, 1:]
    for _ in range(5):
        optimizer.zero_grad()
        if way is None:
            next_token_loss(model(x), y).backward()
        else:
            vocab_parallel_cross_entropy(me, model(x), y, vocab_size=50).backward()
        optimizer.step()
    return model.state_dict() if way is None else gather_state(me, model)


# %%
alone = one.run(five_steps)[0]
for way in ({}, {"sequence_parallel": True}):
    for ranks in (two, four):
        states = ranks.run(five_steps, way)
        off = max((state[name] - alone[name]).abs().max().item() for state in states for name in alone)
        name = f"{ranks.world_size} ranks {'sequence parallel' if way else ''}"
        print(f"{name:<27} no weight off by more than 1e-10: {off < 1e-10}")

# %% [markdown]
# ### And in float32?
#
# In float64 nothing is off but rounding. Training runs in float32 or less, and a row cut adds in another order: each
# rank sums its part, then the parts are summed. Take a product whose sums have 4096 terms, and compare with the exact
# result.
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
    x, a = torch.randn(64, 4096, generator=generator), torch.randn(4096, 64, generator=generator)
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
# A test that asks for equal bits will fail, perhaps with columns too: nothing is added up between ranks there, but a
# narrower product may be computed by another routine, which adds in another order and rounds more, or less. A test is
# fair if it allows for the rounding of its number format. Here is a sentence that you may have read. (The errors above
# are typical ones; those of the trial are the largest that it meets.)

# %% tags=["nbval-ignore-output"]
print(trial("B4").claim.text)
print(trial("B4").run())

# %% [markdown]
# ## Sequence parallelism
#
# ![Between the regions each rank has some of the positions; an all-gather leads into a region, a reduce-scatter out of
# it](../assets/08_sequence.png)
#
# <!-- word: sequence parallelism | also: SP -->
# Norms, dropout and the residual stream are the same on all ranks: every rank computes all of it, and *keeps* all of it
# for the backward pass. But a norm looks at one position at a time. With **sequence parallelism** each rank has some of
# the *positions* outside the split regions: at the exit a reduce-scatter (each rank gets its positions of the sum) in
# place of the all-reduce, and at the entrance an all-gather.
#
# **On eight ranks whose collectives are rings: does a block send fewer bytes than before, more, or the same?**

# %%
### BEGIN SOLUTION
### STUB ask("08.sequence")
ask("08.sequence").commit("more")  # "eight collectives in place of four"
### END SOLUTION

# %%
amounts_sent = {}
for way in ("plain", "sequence parallel"):
    calls = cost.block_collectives(small, batch_size=4, sequence_parallel=way != "plain")
    calls = [call for call in calls if "norm" not in call.where]  # of the norms' gradients see below
    names = [call.collective for call in calls]
    amounts_sent[way] = cost.collectives_sent_bytes(calls, 8)
    counts = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
    print(f"{way:<18} {bytes_text(amounts_sent[way])} a rank: {counts}")

# %%
reveal("08.sequence", *amounts_sent.values())

# %% [markdown]
# With one reservation, which you know from lesson 02: gloo's reduce-scatter is an all-reduce inside. So the meter sees
# more than the formula says, here on four ranks and with the norms:


# %%
def sequence_step(me):
    torch.manual_seed(0)
    block = split_block(me, TransformerBlock(small), sequence_parallel=True)
    x = torch.randn(4, 32 // me.world_size, 128, device=me.device, requires_grad=True)  # its positions
    block(x).sum().backward()


seen = metered(four, sequence_step).communication.sent_bytes(0)
calls = cost.block_collectives(small, batch_size=4, sequence_parallel=True)
print("by rings:", bytes_text(cost.collectives_sent_bytes(calls, 4)), " by gloo:", bytes_text(seen))

# %% [markdown]
# What it buys is memory. A published formula counts what a block keeps for the backward pass, in 16-bit numbers, with
# dropout and unfused attention, for a length s, batch b, width h, a heads and t ranks:
#
# $$sbh\left(34 + \tfrac{5as}{h}\right)\quad sbh\left(10 + \tfrac{24}{t} + \tfrac{5as}{ht}\right)\quad
# \tfrac{sbh}{t}\left(34 + \tfrac{5as}{h}\right)$$
#
# unsplit, tensor parallel, and with sequence parallelism. The 10 in the middle is what stands outside the regions.

# %%
sizes = {"length": 2048, "batch_size": 1, "width": 12288, "num_heads": 96}  # a block of GPT-3
print("ranks   tensor parallel   and sequence parallel")
for num_ranks in (1, 2, 4, 8):
    kept = [
        cost.published_activation_bytes(**sizes, num_ranks=num_ranks, sequence_parallel=way)
        for way in (False, True)
    ]
    print(f"{num_ranks:>5}   {bytes_text(kept[0]):>15}   {bytes_text(kept[1]):>21}")

# %% [markdown]
# The course's model keeps other things (float32, attention that stores no scores, no dropout), so its bytes differ.
# Term by term, with the reason, and below the sum what the memory ledger of lesson 01 finds on a rank:

# %%
terms = cost.explained_activations(small, batch_size=4, num_ranks=4)
print(f"{'':<28}{'formula':>9}{'course':>9}")
for term in terms:
    if term.published_bytes or term.course_bytes:
        print(
            f"{term.name:<28}{bytes_text(int(term.published_bytes)):>9}{bytes_text(term.course_bytes):>9}  {term.why}"
        )
print(f"{'sum, on each of four ranks':<37}{bytes_text(sum(term.course_bytes for term in terms)):>9}")


# %%
def kept_by_a_block(me):
    block = split_block(me, TransformerBlock(small))
    x = torch.ones(4, 32, 128, device=me.device, requires_grad=True)
    with MemoryLedger(block) as ledger:
        y = block(x)
        kept = ledger.mark("after forward").by_label["activation"]
    return kept + y.nbytes  # and x, which the ledger takes for an input; it is as large as y


print("the ledger:", {bytes_text(kept) for kept in four.run(kept_by_a_block)})

# %% [markdown]
# ## How fast must the link be?
#
# ![Above: six regions, each followed by a sum for which everything waits. Below: forward and backward in one go, and
# three sums, two of them beside the backward pass](../assets/08_link.png)
#
# Two cores cannot show two devices at work, so computing is *paced* here: a timed wait, 160 ms for a step of four
# blocks on one device, 80 ms for each of two ranks. Messages are real, on a *shaped* link. The dial:

# %%
dial = Link(latency_s=0.5e-3, bandwidth_bytes_per_s=12e6)  # turn it: 4e6, 40e6, 250e6
model = replace(small, num_layers=4, width=64)
step_s, num_layers, batch_size = 0.160, 4, 16
layer_bytes = sum(parameter.nbytes for parameter in TransformerBlock(model).parameters())
stream_bytes = 4 * batch_size * model.context_length * model.width
print(f"a gate: {bytes_text(stream_bytes)}; the gradients of a block: {bytes_text(layer_bytes)}")

# %% [markdown]
# **One device takes 160 ms. How long does a step take with tensor parallelism on two ranks, at 12 MB/s?**

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ask("08.link")
ask("08.link").commit(90)  # "half of the work, and a little for the messages"
### END SOLUTION


# %%
def tensor_step_s(link):
    calls = num_layers * cost.block_collectives(model, batch_size=batch_size)
    return step_s / 2 + cost.collectives_time_s(calls, link, num_ranks=2)


def data_step_s(link):
    buckets = cost.ddp_buckets(
        [layer_bytes] * num_layers, bucket_cap_bytes=layer_bytes, first_bucket_bytes=layer_bytes
    )

    def all_reduce_s(size_bytes):
        return cost.collective_cost("all_reduce", size_bytes, link, num_ranks=2).time_s

    return cost.ddp_step(
        buckets, forward_s=step_s / 6, backward_s=step_s / 3, all_reduce_time_s=all_reduce_s
    ).time_s


# %%
def paced_regions(me, repeats=3):
    """Eight regions forward, eight backward (twice as long), each with its computing and its all-reduce."""
    stream, times_s = torch.zeros(stream_bytes // 4, device=me.device), []
    for _ in range(repeats):
        dist.barrier()
        start_s = time.perf_counter()
        for share in [1 / 3] * 8 + [2 / 3] * 8:
            pace(me, share * step_s / me.world_size / 8)
            dist.all_reduce(stream)
        times_s.append(time.perf_counter() - start_s)
    return statistics.median(times_s)


def measured_s(link):
    with two.shaped(links=Links(link)):
        tensor_s = max(two.run(paced_regions))
    layers = {"num_layers": num_layers, "layer_bytes": layer_bytes, "bucket_size_bytes": layer_bytes}
    return tensor_s, paced_step_s(two, link=link, **layers, forward_s=step_s / 6, backward_s=step_s / 3)


# %% tags=["nbval-ignore-output"]
at_dial = measured_s(dial)
for name, found_s, model_s in zip(
    ("tensor", "data"), at_dial, (tensor_step_s(dial), data_step_s(dial)), strict=True
):
    print(f"{name:<7} predicted {model_s * 1e3:5.0f} ms, measured {found_s * 1e3:5.0f} ms; one device 160 ms")
reveal("08.link", at_dial[0], tensor_step_s(dial), step_s)

# %% [markdown]
# Data parallelism hides its all-reduce behind the backward pass. A region's exit cannot hide: the next layer needs the
# sum *now*. The entrance could, in the backward pass: its sum of dX can run beside the product for dA. (These are
# the two halves of lesson 07.) The course's gates wait, and so do the paced regions here, for all four sums of a block.
# Now the link at other speeds:

# %% tags=["nbval-ignore-output"]
speeds = [4e6 * 2**power for power in range(7)]
at = {speed: replace(dial, bandwidth_bytes_per_s=speed) for speed in speeds}
tried = {speed: measured_s(at[speed]) for speed in speeds[::2]}
curves = {
    "tensor, predicted": (speeds, [tensor_step_s(at[speed]) for speed in speeds]),
    "data, predicted": (speeds, [data_step_s(at[speed]) for speed in speeds]),
    "one device": (speeds, [step_s for _ in speeds]),
    "tensor, measured": (list(tried), [both[0] for both in tried.values()]),
    "data, measured": (list(tried), [both[1] for both in tried.values()]),
}
lines(
    {name: ([x / 1e6 for x in xs], [1e3 * y for y in ys]) for name, (xs, ys) in curves.items()},
    x_label="link (MB/s)",
    y_label="step (ms)",
    title="Two ranks, paced computing on a shaped link",
    log_x=True,
)

# %% [markdown]
# Look at the two predicted curves. On the slow side both are above one device, tensor parallelism by far. On the fast
# side both are below it, and what keeps tensor parallelism behind is latency for the most part, which it pays sixteen
# times with nothing beside it. The measured points lie a little above their curves on a quiet machine, and further
# above on a busy one. From where on does it pay? The cost model can find the break-even, and it can put a real block in
# the place of the paced one: 4096 wide, 2048 tokens, 16-bit numbers, on eight large GPUs.


# %% tags=["computed-time"]
def wins(speed):
    return tensor_step_s(replace(dial, bandwidth_bytes_per_s=speed)) < step_s


pays_from = next(speed for speed in range(10**6, 10**10, 10**6) if wins(speed))
print(f"by the model our two ranks beat one device from {pays_from / 1e6:.0f} MB/s on")

large = TransformerConfig(vocab_size=32000, context_length=2048, num_layers=1, width=4096, num_heads=32)
blocks = [
    cost.flops(cost.transformer_layers(replace(large, num_layers=n), batch_size=1)).total for n in (1, 2)
]
computing_s = (blocks[1] - blocks[0]) / 8 / 400e12  # each of 8 GPUs at 400 TFLOP/s, which a good one reaches
print(f"a large block: {computing_s * 1e3:.2f} ms of computing on each of 8 GPUs, and its messages:")
for name in ("nvlink 4", "infiniband ndr"):
    calls = cost.block_collectives(large, batch_size=1, itemsize=2)
    print(f"  {name:<15} {cost.collectives_time_s(calls, cost.LINKS[name], num_ranks=8) * 1e3:.2f} ms")

# %% [markdown]
# By the model, messages between the GPUs of one machine take less time than the computing. Over the network between
# machines they take several times as much. That is why tensor parallelism stays inside a machine.
#
# And why use it, where data parallelism sends less and hides it? Because data parallelism *cannot* do two things: hold
# a layer that is too large for a device, and make a batch of one sample faster. A part of each matrix on each rank does
# both; and the wider a layer, the more it computes for each number that it sends.
#
# ## Clinic 1: right at the first step
#
# *Symptom.* Two blocks, each a norm, a split MLP and a residual. The loss of the first step is that of one device. From
# the second step on it is not, and the job learns worse. Two of the four suspects can be cleared by that alone. **What
# is wrong?**

# %%
### BEGIN SOLUTION
### STUB ask("08.norms")
ask("08.norms").commit("the ranks began with different weights")
### END SOLUTION

# %% [markdown]
# The code of a block:


# %%
def colleagues_block(me, x, norm_weight, w_up, w_down):
    h = F.layer_norm(x, (x.size(-1),), norm_weight)
    hidden = F.gelu(F.linear(h, w_up))
    return x + leave(me, F.linear(hidden, w_down))


# %% [markdown]
# *Evidence.* The loss and all gradients of the first step, beside those of one device.

# %%
torch.manual_seed(0)
shapes = {"norm": (16,), "w_up": (32, 16), "w_down": (16, 32)}
WHOLE = {f"block {i} {name}": torch.randn(shape).double() for i in (1, 2) for name, shape in shapes.items()}
INPUT = torch.randn(6, 16).double()


def part_of(rank, num_ranks, name, tensor):
    dims = {"w_up": 0, "w_down": 1}  # hidden units; a norm is whole on every rank
    kind = name.split()[-1]
    return tensor.chunk(num_ranks, dims[kind])[rank] if kind in dims else tensor


def gradients(me, block):
    """This rank's gradients of both blocks, by name, and the loss."""
    parts = {name: part_of(me.rank, me.world_size, name, tensor) for name, tensor in WHOLE.items()}
    mine = {name: part.clone().requires_grad_() for name, part in parts.items()}
    weights = list(mine.values())
    loss = block(me, block(me, INPUT, *weights[:3]), *weights[3:]).square().sum()
    loss.backward()
    return {name: tensor.grad for name, tensor in mine.items()} | {"loss": loss.detach()}


# %%
def evidence_of(block):
    alone, found = one.run(gradients, block)[0], two.run(gradients, block)
    print("the loss is right:", [torch.allclose(alone["loss"], got["loss"]) for got in found])
    print(f"{'':<16}{'right on rank 0':<18}{'right on rank 1':<18}alike on both")
    for name in reversed(WHOLE):
        right = [
            torch.allclose(part_of(rank, 2, name, alone[name]), got[name]) for rank, got in enumerate(found)
        ]
        alike = "cut" if "w_" in name else torch.allclose(found[0][name], found[1][name])
        print(f"{name:<16}{right[0]!s:<18}{right[1]!s:<18}{alike}")


evidence_of(colleagues_block)

# %%
reveal("08.norms")

# %% [markdown]
# ![A chart of two ranks: cut matrices learn, and the two copies of a norm move away from each
# other](../assets/08_clinic.png)
#
# ### Mend it
#
# One line of the three. Where exactly does the gate stand? The norm's weight is shared by all ranks.


# %%
def mended_block(me, x, norm_weight, w_up, w_down):
    """x (N, D) -> (N, D), the same on all ranks; gradients as on one device."""
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend one of the three below")
    ### STUB h = F.layer_norm(x, (x.size(-1),), norm_weight)
    h = enter(me, F.layer_norm(x, (x.size(-1),), norm_weight))
    ### END SOLUTION
    hidden = F.gelu(F.linear(h, w_up))
    return x + leave(me, F.linear(hidden, w_down))


# %%
norm_verdict = check("08.norm", mended_block)

# %%
# hint("08.norm")

# %%
evidence_of(mended_block if norm_verdict.passed else colleagues_block)

# %% [markdown]
# ## Clinic 2: dropout that does too little
#
# ![A hidden layer of 16 units, of which rank 0 has eight and rank 1 eight; which of them are dropped is a question
# mark](../assets/08_dropout.png)
#
# *Symptom.* A model with dropout inside the MLP trains, ranks agree, no error. On four ranks it overfits more than on
# one. **Why does dropout help less?**

# %%
### BEGIN SOLUTION
### STUB ask("08.seeds")
ask("08.seeds").commit("dropout must not stand in a split region")
### END SOLUTION

# %% [markdown]
# *Evidence.* The set-up says `torch.manual_seed(0)` on every rank, "so that all begin alike". Which hidden units are
# dropped, over 2000 draws? Unit 0 of rank 0 and unit 0 of rank 1 are two different units of the layer.


# %%
def masks(me, drawing):
    region = ColumnParallelLinear(me, nn.Linear(4, 8)).region  # a split layer knows its region
    torch.manual_seed(0)
    kept = []
    for _ in range(2000):
        with drawing(region):
            kept.append(F.dropout(torch.ones(4), 0.5) > 0)
    outside = F.dropout(torch.ones(6), 0.5) > 0  # for the stream, which all ranks share
    return torch.stack(kept), outside


def report(drawing):
    (first, outside), (second, other) = two.run(masks, drawing)
    print(
        f"unit 0 kept: {first[:, 0].double().mean():.0%} on rank 0, {second[:, 0].double().mean():.0%} on rank 1"
    )
    print(f"both kept or both dropped: {(first[:, 0] == second[:, 0]).double().mean():.0%} of the draws")
    print("outside the region the masks are the same:", torch.equal(outside, other))


report(contextlib.nullcontext)  # as they are drawn now

# %%
reveal("08.seeds")

# %% [markdown]
# ![Above: two ranks drop hidden units by the same mask. Below: each by a mask of its own](../assets/08_masks.png)
#
# <!-- word: RNG tracker | also: RNG state tracker, `CudaRNGStatesTracker` -->
# The fix is one line: draw inside `own_random_numbers(region)`, which seeds the generator with a common number plus the
# rank's place for the length of the block, and afterwards puts it back to where all ranks agree. An **RNG tracker**,
# such as Megatron-LM's, keeps the states of several random generators; inside a split region it switches to the one
# that is each rank's own.

# %%
from course_lib.parallel.tensor import own_random_numbers

report(own_random_numbers)

# %% [markdown]
# ## Clinic 3: right for one position
#
# *Symptom.* For sampling, a colleague wants all logits on every rank. One prompt, one position: right. Several at once:
# plausible text that belongs to nobody's prompt. No error, the shape is right, and all ranks agree. **What is wrong
# with the logits?**

# %%
### BEGIN SOLUTION
### STUB ask("08.gather")
ask("08.gather").commit("the parts come in the wrong order of ranks")
### END SOLUTION


# %%
def colleagues_logits(me, h, w_vocab):
    """h (N, D), w_vocab (V/n, D): this rank's tokens -> (N, V)."""
    mine = F.linear(h, w_vocab)  # (N, V/n)
    parts = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(parts, mine)
    return torch.cat(parts).view(len(h), -1)


# %% [markdown]
# *Evidence.* A model made so that each logit tells where it comes from: ten times its position, plus its token.

# %%
WEIGHTS = torch.tensor([[1.0, token] for token in range(4)])  # (V, D); h is [10 position, 1]


def evidence_of_logits(gather):
    for num_positions in (1, 2):
        h = torch.tensor([[10.0 * position, 1.0] for position in range(num_positions)])
        got = two.run(lambda me, h=h: gather(me, h, WEIGHTS.chunk(me.world_size)[me.rank]))[0]
        print(f"{num_positions} positions: wanted {F.linear(h, WEIGHTS).int().tolist()}")
        print(f"{'got':>19} {got.int().tolist()}")


evidence_of_logits(colleagues_logits)

# %%
reveal("08.gather")

# %% [markdown]
# ![Two tables of logits side by side: what is wanted, with the positions one below the other, and what came, with
# numbers in other places](../assets/08_gather.png)
#
# Mend it. The evidence runs again below.


# %%
def mended_logits(me, h, w_vocab):
    """h (N, D), w_vocab (V/n, D): this rank's tokens -> (N, V)."""
    mine = F.linear(h, w_vocab)  # (N, V/n)
    parts = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(parts, mine)
    ### BEGIN SOLUTION
    ### STUB return torch.cat(parts).view(len(h), -1)  # mend this line
    return torch.cat(parts, dim=1)
    ### END SOLUTION


evidence_of_logits(mended_logits)

# %% [markdown]
# ## In production
#
# *Tensor parallelism is already built into the standard operations of PyTorch*, says an article. **Bet.**

# %%
### BEGIN SOLUTION
### STUB ask("08.bet_b3")
ask("08.bet_b3").commit("false")
### END SOLUTION

# %%
evidence = trial("B3").run()
print(evidence)
reveal("08.bet_b3", evidence)

# %% [markdown]
# <!-- word: DTensor | also: distributed tensor -->
# <!-- word: `parallelize_module` -->
# A **DTensor** is a tensor that is spread over ranks and knows its placement. You write a plan, and PyTorch's
# `parallelize_module` turns the weights of a module into DTensors as the plan says; autograd and collectives follow
# from the placements.
#
# ![A plan in five lines: w_q, w_k, w_v and w_up column-wise, w_out and w_down row-wise](../assets/08_production.png)
#
# The blocks of the same transformer, by both:


# %%
def by_dtensor(me, block):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh(me.device.type, (me.world_size,))
    entrance = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    plan = {"attention": entrance, "mlp": entrance}
    plan |= {f"attention.{name}": ColwiseParallel() for name in ("w_q", "w_k", "w_v")}
    plan |= {"attention.w_out": RowwiseParallel()}
    plan |= {"mlp.w_up": ColwiseParallel(), "mlp.w_down": RowwiseParallel()}
    return parallelize_module(block, mesh, plan)


# %%
def train_by(me, cut, num_steps):
    torch.manual_seed(0)
    model = Transformer(small).to(me.device)
    for block in model.blocks:
        cut(me, block)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)  # not in lists: two kinds
    tokens = torch.randint(256, (4, 33), generator=torch.Generator().manual_seed(1)).to(me.device)
    losses, times_s = [], []
    for _ in range(num_steps):
        dist.barrier()
        start_s = time.perf_counter()
        optimizer.zero_grad()
        loss = next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times_s.append(time.perf_counter() - start_s)
    return losses, statistics.median(times_s)


# %%
cutters = {"the course": split_block, "DTensor": by_dtensor}
runs = {name: metered(two, train_by, cut, 3) for name, cut in cutters.items()}
for name, run in runs.items():
    sums = run.communication.of(0, operation="all_reduce").calls
    print(f"{name:<11} {len(sums)} all-reduces in 3 steps, {bytes_text(sum(c.size_bytes for c in sums))}")
pairs = zip(*(run[0][0] for run in runs.values()), strict=True)
print("losses equal to six digits:", all(math.isclose(a, b, rel_tol=1e-6) for a, b in pairs))

# %% tags=["nbval-ignore-output"]
for name in ("the course", "DTensor", "the course", "DTensor"):
    step_time_s = max(time_s for _, time_s in two.run(train_by, cutters[name], 8))
    print(f"{name:<11} {step_time_s * 1e3:6.1f} ms a step")

# %% [markdown]
# Two blocks, four all-reduces each, three steps: the same calls, the same bytes, the same losses. What DTensor adds is
# that it derives, for *every* operator, what you derived for one; what that costs on a small model you see in the
# times.
#
# | you wrote | production code uses |
# |---|---|
# | `Gate` | autograd of a DTensor's placements; Megatron's `copy_to_` and `reduce_from_tensor_model_parallel_region` |
# | `split_mlp`, and `split_block` | `ColwiseParallel`, `RowwiseParallel`, `parallelize_module` |
# | `split_loss` | `loss_parallel()`, with logits left cut |
# | own random numbers | DTensor's random operators; Megatron's RNG tracker |
# | sequence parallelism | `SequenceParallel` for norms, `PrepareModuleInput` at the gates |
#
# ## Five questions

# %% tags=["computed-time"]
quiz("08")

# %% [markdown]
# ## What you can do now
#
# You can cut a product any way and say what travels; you have written the gates, the MLP and the loss that a split
# transformer is made of, and know them to be equal to one device. You can tell a forgotten gate by where gradients turn
# wrong, you know what equal seeds do, and you mistrust a `view` after a gather.
#
# **The limit.** Every region waits for the link, so tensor parallelism wants the fastest one there is, and that ends
# where the machine ends: the eight GPUs of a node, not the eighty of a room. Beyond that, something that talks less has
# to take over: pipelines between nodes, replicas over all of them. Lesson 09 arranges ranks in a *mesh* and gives each
# way of cutting an axis of its own.
#
# **Further reading.** Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053) (2019), section 3: columns, then
# rows, f and g, the vocabulary. Korthikanti et al., [Reducing Activation Recomputation in Large Transformer
# Models](https://arxiv.org/abs/2205.05198) (2022), section 4: sequence parallelism, and the formula above. Xu et al.,
# [GSPMD](https://arxiv.org/abs/2105.04663) (2021), section 3: placements, and how they spread through a program.
# Narayanan et al., [Efficient Large-Scale Language Model Training on GPU
# Clusters](https://arxiv.org/abs/2104.04473) (2021), section 3: which way of cutting goes on which link.
