# %% [markdown]
# # 10h · Long context and experts: build ring attention
#
# You fill one empty class, in seven steps that each ask more of it. At the end it runs in a transformer, beside the
# course's ring and beside one device.
#
# **2 × 75 minutes · difficulty 5 of 5 · needs: cpu**
#
# Part 8 of 9 · [1: the ring](10a_long_context.ipynb) · [2: equal work, and all-to-all](10b_equal_work.ipynb) · [3:
# experts, shared out](10c_experts.ipynb) · [4: equally busy](10d_busy_experts.ipynb) · [5: hide the
# exchange](10e_hide_the_exchange.ipynb) · [6: many small experts](10f_many_small_experts.ipynb) · [7: packed
# documents](10g_packed_documents.ipynb) · [9: build an expert layer](10i_build_experts.ipynb)
#
# This part builds on [10a: the ring](10a_long_context.ipynb) and [10b: equal work, and
# all-to-all](10b_equal_work.ipynb). Have you done them? `from course_lib import start; start("10h")` says whether you
# have.
#
# At the end you can
#
# - write attention, forward and backward, for a sequence that no rank has whole;
# - say for each byte of the ring why it is sent, and for each tensor how long it stays in memory;
# - order messages and computing so that one hides behind the other.
#
# From [part 1](10a_long_context.ipynb) you need the ring and how two results are joined; from [part
# 2](10b_equal_work.ipynb) zigzag order. Shapes are as there: queries (B, H, T, K), keys and values (B, G, T, K).

# %%
from course_lib import Link, Links, build_progress, check, hint, mine, shared_cluster, side_by_side
from course_lib.cluster import recv, send, start
from course_lib.data import documentation_windows
from course_lib.layouts import SequenceCut
from course_lib.meter import bytes_text, metered
from course_lib.mine import courses
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.context import context_loss, split_context
from course_lib.plot import gantt_beside
from course_lib.rounding import agree

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._functional_collectives import all_gather_single_autograd
from torch.nn.parallel import DistributedDataParallel

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ![Rank 1 of four: forward it meets the keys and values of ranks 1, 0, 3 and 2, with a question mark between one and
# the next, and asks which pairs to compute; backward it meets them again, and behind each travels something with a
# question mark](../assets/10_ring_to_build.png)
#
# ## One cell
#
# This cell is all that you write. Seven steps follow below. The check of a step asks for all that the earlier steps ask
# for, and for one thing more. So you come back to this cell: change it, run it, and run the next check.
#
# Take two sittings. The first one ends with step 3, and each has some 75 minutes.
#
# For each step, write the shortest code that passes its check. For step 1 every rank may send everything to all ranks.


# %%
### BEGIN SOLUTION
### STUB # what your class needs beside itself can stand here
def widened(x):
    """In float32 at least: many small numbers are about to be added up."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def stretches_of(own):
    """Positions without a gap, each as (the first position, where they stand in the rank's tensors)."""
    cuts = [at for at in range(len(own)) if at == 0 or own[at] != own[at - 1] + 1]
    return [(own[a], slice(a, b)) for a, b in zip(cuts, [*cuts[1:], len(own)], strict=False)]


def scores_of(q, k, is_same):
    """(..., Q, K) and (..., S, K) -> (..., Q, S); of the same positions only those that are not after it."""
    scores = q @ k.mT * q.size(-1) ** -0.5
    if is_same:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores.masked_fill_(later, -torch.inf)
    return scores


class Around(torch.autograd.Function):
    """Both ways round as one operation of autograd. M heads of queries share one of keys: (B, G, M, T_r, K)."""

    @staticmethod
    def forward(ctx, ring, q, k, v):
        queries = widened(q).unflatten(1, (k.size(1), -1))
        sums, total = torch.zeros_like(queries), torch.zeros_like(queries[..., 0])
        largest = torch.full_like(total, -torch.inf)
        for owner, block in ring.blocks(k, v):
            keys, values = widened(block).unsqueeze(3)
            for here, there, is_same in ring.pairs(owner):
                scores = scores_of(queries[..., here, :], keys[..., there, :], is_same)
                now = torch.maximum(largest[..., here], scores.amax(-1))
                old, weights = (largest[..., here] - now).exp(), (scores - now[..., None]).exp()
                found = weights @ values[..., there, :]
                sums[..., here, :] = sums[..., here, :] * old[..., None] + found
                total[..., here] = total[..., here] * old + weights.sum(-1)
                largest[..., here] = now
        out = (sums / total[..., None]).flatten(1, 2).to(q.dtype)
        ctx.ring = ring
        ctx.save_for_backward(q, k, v, out, largest + total.log())
        return out

    @staticmethod
    def backward(ctx, grad):
        ring, (q, k, v, out, lse) = ctx.ring, ctx.saved_tensors
        queries, grads, outs = (widened(x).unflatten(1, (k.size(1), -1)) for x in (q, grad, out))
        dots, grad_q = (grads * outs).sum(-1, keepdim=True), torch.zeros_like(queries)
        coming, wait = None, start([])
        for owner, block in ring.blocks(k, v):
            part = torch.zeros_like(widened(block))  # what this rank adds to the gradients of that block
            keys, values = widened(block).unsqueeze(3)
            for here, there, is_same in ring.pairs(owner):
                query, key, given = queries[..., here, :], keys[..., there, :], grads[..., here, :]
                weights = (scores_of(query, key, is_same) - lse[..., here, None]).exp()
                part[1][..., there, :] += (weights.mT @ given).sum(2)
                weights *= given @ values[..., there, :].mT - dots[..., here, :]
                weights *= q.size(-1) ** -0.5
                grad_q[..., here, :] += weights @ key
                part[0][..., there, :] += (weights.mT @ query).sum(2)
            if owner == ring.at:
                own = part
                continue
            wait()
            if coming is not None:
                part += coming
            coming = ring.room_like(part, owner - 1)
            wait = ring.pass_on(part, coming)
        wait()
        if coming is not None:
            own += coming
        return None, grad_q.flatten(1, 2).to(q.dtype), *own.to(k.dtype)


### END SOLUTION
class MyRingAttention:
    """Attention of this rank's queries to the keys of all ranks of a group.

    ``positions``: for each rank of the group, in its order, a list of the positions that this rank holds, rising.
    With ``causal`` a query looks at the keys that are not after it. ``group``: None for all ranks.
    """

    def __init__(self, me, positions, causal=False, group=None):
        ### BEGIN SOLUTION
        ranks = list(range(me.world_size)) if group is None else dist.get_process_group_ranks(group)
        self.at, self.count, self.group, self.causal = ranks.index(me.rank), len(ranks), group, causal
        self.before, self.after = ranks[self.at - 1], ranks[(self.at + 1) % self.count]
        self.sizes, self.stretches = [len(own) for own in positions], [stretches_of(own) for own in positions]

    def room_like(self, block, owner):
        return block.new_empty(*block.shape[:-2], self.sizes[owner], block.size(-1))

    def pass_on(self, give, take):
        both = [send(give, self.after), recv(take, self.before)]
        return start([message for message in both if message.tensor.numel()], group=self.group)

    def blocks(self, k, v):
        """Each rank's keys and values, (2, B, G, T_o, K), while the next ones are on their way."""
        block = torch.stack([k, v])
        for step in range(self.count):
            owner, arriving, wait = (self.at - step) % self.count, None, start([])
            if step < self.count - 1:
                arriving = self.room_like(block, owner - 1)
                wait = self.pass_on(block, arriving)
            yield owner, block
            wait()
            block = arriving

    def pairs(self, owner):
        """Which of this rank's stretches look at which of the owner's, and whether they are the same positions."""
        for first, here in self.stretches[self.at]:
            for other, there in self.stretches[owner]:
                if not self.causal or other <= first:
                    yield here, there, self.causal and other == first
        ### END SOLUTION

    def __call__(self, q, k, v):
        """This rank's output, (B, H, T_r, K), of the dtype of q, which autograd can go back through.

        q: (B, H, T_r, K); k and v: (B, G, T_r, K), and H is a multiple of G: heads 0 to H/G - 1 of queries share head
        0 of keys, and so on. T_r is the number of this rank's positions. All ranks of the group call together.
        """
        ### BEGIN SOLUTION
        return Around.apply(self, q, k, v)
        ### END SOLUTION


# %% [markdown]
# ## Step 1: the values
#
# There is no mask yet: every query looks at every key. The check uses scores of 1000, and calls your object twice. (Do
# not change the tensors that your object receives.)
#
# Send messages by `start`, the first half of `exchange`: `wait = start([send(x, after), recv(room, before)])` begins
# both and returns at once; `wait()` waits for both. A message is one piece of memory: `torch.stack([k, v])` makes one
# tensor of two.
#
# The run below computes 64 positions on four ranks in three ways: by your class, by the course's ring, and by PyTorch.
# PyTorch's ring is for GPUs ([part 2](10b_equal_work.ipynb)). So the column for PyTorch uses an all-gather of keys and
# values, and then PyTorch's attention kernel. (Llama 3 was trained in this way.) For a class that fails the table shows
# dashes.

# %%
T, K = 64, 8


def dealt(order):
    """The positions of each of four ranks."""
    cut = SequenceCut(T, 4, order=order)
    return [cut.positions(rank) for rank in range(4)]


def whole(heads):
    """q, k, v and the gradient of the output, (1, H, T, K) or (1, G, T, K)."""
    draw, (num_heads, num_kv_heads) = torch.Generator().manual_seed(0), heads
    counts = num_heads, num_kv_heads, num_kv_heads, num_heads
    return [torch.randn(1, count, T, K, generator=draw, dtype=torch.float64) for count in counts]


def given(me, order, heads):
    *leaves, grad = (x[:, :, dealt(order)[me.rank]].to(me.device) for x in whole(heads))
    return *(x.requires_grad_() for x in leaves), grad


# %%
def run_once(me, attention, order, causal, back, q, k, v, grad):
    """The output of this rank and, with ``back``, the gradients of its q, k and v."""
    out = attention(me, dealt(order), causal)(q, k, v)
    if back:
        out.backward(grad)
    return [x.detach().cpu() for x in (out, *(x.grad for x in (q, k, v) if back))]


def alone(order, heads, causal, back, rank):
    """What one process has for the positions of a rank."""
    *leaves, grad = whole(heads)
    q, k, v = (x.requires_grad_() for x in leaves)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    if back:
        out.backward(grad)
    return [x.detach()[:, :, dealt(order)[rank]] for x in (out, *(x.grad for x in (q, k, v) if back))]


# %%
class PyTorchs:
    """All keys and values on every rank, by an all-gather that autograd knows; then PyTorch's attention."""

    def __init__(self, me, positions, causal=False, group=None):
        theirs = torch.tensor([position for own in positions for position in own], device=me.device)
        own = torch.tensor(positions[me.rank], device=me.device)
        self.mask = theirs <= own.unsqueeze(1) if causal else None

    def __call__(self, q, k, v):
        k, v = (all_gather_single_autograd(x.contiguous(), 2, dist.group.WORLD) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, enable_gqa=True)


# %%
RINGS = {"yours": MyRingAttention, "the course's": courses.MyRingAttention, "PyTorch's": PyTorchs}


def beside(order="contiguous", heads=(4, 4), causal=False, back=True, **more):
    return side_by_side(
        four,
        lambda me, attention, *parts: run_once(me, attention, order, causal, back, *parts),
        RINGS,
        expected=partial(alone, order, heads, causal, back),
        prepare=lambda me: given(me, order, heads),
        within=1e-9,
        build="10.ring",
        **more,
    )


# %%
beside(back=False)

# %%
values = check("10.ring_values", MyRingAttention)

# %%
# hint("10.ring_values")

# %% [markdown]
# ## Step 2: the way back
#
# A message carries numbers, and no history: autograd does not see what another rank has done with them. So you write
# the backward pass yourself. The next cell shows an operation with its own backward; `ctx` carries things from forward
# to backward.


# %%
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, factor, x):
        ctx.factor = factor  # whatever is no tensor
        ctx.save_for_backward(x)  # tensors
        return factor * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return None, ctx.factor * 2 * x * grad  # a gradient for each argument of forward


x = torch.ones(2, requires_grad=True)
Doubled.apply(3.0, x).sum().backward()
print(x.grad)

# %% [markdown]
# Take one query with weights $p_j$, output $o = \sum_j p_j v_j$ and gradient $g$ of that output. The gradient of value
# $v_j$ is then $p_j g$. The gradient of the score of key $j$ is $p_j (g \cdot v_j - g \cdot o)$. With the log-sum-exp
# $\ell$ of all keys you can compute a weight again from its score $s_j$ alone: $p_j = e^{s_j - \ell}$.
#
# Which of these gradients can a rank compute from another rank's block? And to which rank does each gradient belong?

# %%
beside()

# %%
check("10.ring_backward", MyRingAttention)

# %%
# hint("10.ring_backward")

# %% [markdown]
# ## Step 3: a causal mask
#
# Now a query looks at keys that are not after it. A *stretch* is a part of the sequence without a gap. Each rank has
# one stretch, or two in zigzag order, or more. `positions` has the positions of all ranks:

# %%
print("rank 0:", dealt("zigzag")[0])
print("rank 3:", dealt("zigzag")[3])

# %% [markdown]
# Take a stretch of your queries and a stretch of some rank's keys. If all of these keys come after all of these
# queries, compute nothing for this pair. The check counts multiplications, and allows some more for scales and sums. If
# both are the same positions, you may compute all scores and mask some.

# %%
beside("zigzag", causal=True)

# %%
check("10.ring_causal", MyRingAttention)

# %%
# hint("10.ring_causal")

# %% [markdown]
# You can stop here: your class is kept.
#
# ## Step 4: messages
#
# Now the check counts bytes. With p ranks a rank sends p - 1 blocks of keys and values forward, to a neighbour, in at
# most two messages each. Backward it may send twice the bytes, in at most four messages for each block. There is no
# collective and no barrier.
#
# Heads may also be grouped: 4 heads of queries with 2 heads or 1 of keys and values. How many heads have to travel?
# Compare the bytes in the next table with those above. As in a transformer, q, k and v may be strided, with gaps in
# memory between the positions of a head.

# %%
beside("zigzag", heads=(4, 2), causal=True)

# %%
check("10.ring_messages", MyRingAttention)

# %%
# hint("10.ring_messages")

# %% [markdown]
# From here on lessons can run on your class, as `mine.MyRingAttention`.
#
# ## Step 5: memory
#
# The reason for a ring is memory: no rank has the keys and values of all ranks at a time. In the tables, PyTorch's
# column has all of them. It may still need less memory, since its fused kernel never writes scores to memory. The check
# looks at memory whenever you compute:
#
# - forward there are at most two blocks that came or are coming; backward at most four, since sums of gradients travel
#   as well;
# - no tensor is larger than the scores of one block, or than a block;
# - from forward to backward you keep the output and tensors of the size of your own part, but no scores;
# - when the output is deleted, nothing stays in memory.

# %%
check("10.ring_memory", MyRingAttention)

# %%
# hint("10.ring_memory")

# %% [markdown]
# ## Step 6: hidden messages
#
# While a rank computes with one block, the next one can travel. The check uses no clock. At the first product of each
# block it asks which messages have begun and were not yet waited for. Forward these must be the next block's, sent and
# received. Backward two things travel; which messages can be in flight there?
#
# The next cell has a longer sequence on a slow link. The last row comes from measured times, and differs from run to
# run.

# %% tags=["nbval-ignore-output"]
T = 512
slow = Links(Link(bandwidth_bytes_per_s=20e6))
with four.shaped(links=slow):
    beside("zigzag", heads=(4, 2), causal=True, hidden=True)

# %% [markdown]
# The next picture shows what rank 0 sends and receives there, forward and backward. Look for the gaps between messages.


# %%
def messages_of_rank_0(attention):
    """One run of a ring on the slow link, as spans."""
    order, heads = "zigzag", (4, 2)

    def job(me):
        parts = given(me, order, heads)
        dist.barrier()
        run_once(me, attention, order, True, True, *parts)

    spans = metered(four, job).communication.of(0).timeline().spans
    return [span for span in spans if span.name != "barrier"]


# %% tags=["nbval-ignore-output"]
with four.shaped(links=slow):
    rows = mine.beside(
        messages_of_rank_0, courses.MyRingAttention, MyRingAttention if values.passed else None
    )
gantt_beside(rows, title=f"{T} positions on four ranks: the messages of rank 0")

# %%
check("10.ring_hidden", MyRingAttention)

# %%
# hint("10.ring_hidden")

# %% [markdown]
# ## Step 7: awkward sequences
#
# In which of these cases does your class hang, and in which does it give a wrong result without an error?
#
# - ranks with 3, 0, 6 and 1 positions; every fourth position on each rank;
# - bfloat16 for inputs and outputs, with scores and sums in float32;
# - k needs no gradient, and the others do;
# - two rings that take turns, with different positions;
# - a group of two ranks of four, a group of one, and a job of one rank.

# %%
check("10.ring_awkward", MyRingAttention)

# %%
# hint("10.ring_awkward")

# %% [markdown]
# ## Your ring in a transformer
#
# A transformer with two layers trains on Python's documentation, with 128 positions on four ranks in zigzag order.
# Its attention is your ring. (`mine.MyRingAttention` is the version of yours that has passed; the course's stands in
# until then.)

# %% tags=["nbval-ignore-output"]
own_ring = mine.MyRingAttention

# %%
config = TransformerConfig(context_length=128, num_layers=2, width=32, num_heads=4, num_kv_heads=2)
CUT = SequenceCut(config.context_length, 4)
windows, _ = documentation_windows(config.context_length)
X, Y = (torch.stack(part) for part in zip(*(windows[number] for number in range(4)), strict=True))


class OwnAttention(nn.Module):
    """The matrices of an attention layer around a ring."""

    def __init__(self, layer, ring):
        super().__init__()
        self.w_q, self.w_k, self.w_v, self.w_out = layer.w_q, layer.w_k, layer.w_v, layer.w_out
        self.head_dim, self.ring = layer.head_dim, ring

    def forward(self, x):
        matrices = self.w_q, self.w_k, self.w_v
        q, k, v = (w(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for w in matrices)
        return self.w_out(self.ring(q, k, v).transpose(1, 2).flatten(2))


# %%
def train(me, attention, num_steps=5):
    """The losses of this rank's part."""
    torch.manual_seed(0)
    model = split_context(me, Transformer(config).double(), CUT)
    ring = attention(me, [CUT.positions(rank) for rank in range(me.world_size)], True)
    for block in model.blocks:
        block.attention = OwnAttention(block.attention, ring)
    ddp, losses = DistributedDataParallel(model), []  # averages gradients over ranks
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = context_loss(me, ddp(X.to(me.device)), Y.to(me.device), CUT)
        loss.backward()
        optimizer.step()
        dist.all_reduce(mean := loss.detach() / me.world_size)
        losses.append(mean.item())
    return losses


# %%
def train_alone(num_steps=5):
    torch.manual_seed(0)
    model, losses = Transformer(config).double(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = next_token_loss(model(X), Y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


losses = four.run(train, own_ring)[0]
print("all losses as on one device:", agree(losses, train_alone(), within=1e-6))
print("the last loss is lower than the first:", losses[-1] < losses[0])

# %% [markdown]
# The next cell counts what a step sends, with the course's ring and with yours:

# %% tags=["nbval-ignore-output"]
trained = mine.beside(
    lambda attention: metered(four, train, attention, 1),
    courses.MyRingAttention,
    mine.if_passed("MyRingAttention"),
)
for whose, run in trained.items():
    sent = run.communication
    print(f"{whose}: {bytes_text(sent.sent_bytes(0))} in {sent.num_messages(0)} messages of rank 0")
gantt_beside(
    {whose: run.communication.of(0).timeline() for whose, run in trained.items()},
    title="A step of training on four ranks: the messages of rank 0",
)

# %% [markdown]
# ## How far you are

# %% tags=["nbval-ignore-output"]
build_progress("10.ring")

# %% [markdown]
# **If you have time.** Let your class take the lengths of packed documents ([part 7](10g_packed_documents.ipynb)), and
# leave out pairs of stretches of two documents. Then find the blocks that need not travel all the way round.
#
# ## What you can do now
#
# You have written the core of context parallelism as in PyTorch and Megatron-Core. Their versions call a fused kernel
# for each block, which returns an output and a log-sum-exp, and join these as you did in part 1. In your class you can
# read each of these computations.
#
# A fused kernel does one thing better: it never writes the scores of a block to memory. The course's ring does part of
# that, with tiles of a block (`course_lib/parallel/context/ring.py`).
