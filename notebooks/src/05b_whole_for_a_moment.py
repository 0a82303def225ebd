# %% [markdown]
# # 05b · Sharded data parallelism: whole while it computes
#
# Weights are the last thing that every rank holds whole. You share them out too, and find out what a rank holds when it
# computes with weights that it does not keep.
#
# **75 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 2 of 8 · [1: states, shared out](05a_sharded_data_parallel.ipynb) · [3: what stays
# whole](05c_what_stays_whole.ipynb) · [4: links and precision](05d_links_and_precision.ipynb) · [5: one model
# again](05e_one_model_again.ipynb) · [6: build the optimizer](05f_build_sharded_optimizer.ipynb) · [7: build the
# wrapper](05g_build_fully_sharded.ipynb) · [8: precision on the wire](05h_precision_on_the_wire.ipynb)
#
# This part builds on [01a: where the memory goes](01a_one_device.ipynb) and [05a: states, shared
# out](05a_sharded_data_parallel.ipynb). Have you done them? `from course_lib import start; start("05b")` says whether
# you have.
#
# At the end you can
#
# - say what a rank holds at each moment of a step in which everything is shared out;
# - write a layer that borrows its weight, forward and backward;
# - say which collectives a unit (a part of the model) needs in a step, and choose what a unit is.
#
# From part 1 you need that optimizer states and gradients can be shared out. A reduce-scatter gives each rank its part
# of the mean gradient, and the rank takes the step on that part. Then an all-gather brings the new weights to
# everybody. From [lesson 01](01a_one_device.ipynb) you need the ledger, and what autograd saves.

# %%
from course_lib import ask, check, cost, hint, mine, reveal, shared_cluster
from course_lib.meter import MemoryLedger, bytes_text, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.data import DistributedDataParallel
from course_lib.parallel.sharded import FullySharded
from course_lib.plot import lines, memory_curve, sent_bars, stacked_bars
from course_lib.rounding import agree

from collections import Counter
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

# %% tags=["nbval-ignore-output"]
one, four = (shared_cluster(number) for number in (1, 4))

# %% [markdown]
# ## Weights too
#
# ![Four ranks, each with its own quarter of the rows of six layers, and its own part of the batch; the third layer is
# to compute, and a question mark stands beside it](../assets/05_quarters.png)
#
# After part 1 a rank holds 1/n of the optimizer's states, and 1/n of the gradients. Every weight is still there n
# times. Between two steps a rank needs only the part of the weights that it updates. So let it keep only this part: a
# quarter of the rows of every matrix.
#
# <!-- word: fully sharded data parallelism | also: FSDP, ZeRO-3 -->
# In **fully sharded data parallelism** each rank keeps 1/n of everything that belongs to the model: weights, gradients
# and optimizer states. [ZeRO](https://arxiv.org/abs/1910.02054) calls this its stage 3, PyTorch calls it FSDP. It *is*
# data parallelism. Each rank computes every layer on its own part of the batch. The result should be that of one
# device.
#
# The course's class for it is `FullySharded(me, model)`. Take eight layers that are as plain as can be, with AdamW, and
# a batch so small that its activations hardly count.

# %%
LAYERS, WIDTH = 8, 128


def stack(num_layers=LAYERS):
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(num_layers)))


layer_bytes = 4 * WIDTH * WIDTH
print(f"a layer: {bytes_text(layer_bytes)} of weights")
print(f"weights, gradients and two states of AdamW: {4 * LAYERS * layer_bytes / 1024:.0f} KiB")
print(f"a quarter of that: {LAYERS * layer_bytes / 1024:.0f} KiB")

# %% [markdown]
# **Four ranks, everything in quarters. How many KiB does a rank hold at the fullest moment of a step?**

# %%
### BEGIN SOLUTION
### STUB ask("05.peak")
ask("05.peak").commit(LAYERS * layer_bytes / 1024)  # "a quarter of everything"
### END SOLUTION

# %% [markdown]
# The ledger watches some steps. For each moment the smallest number counts, since gloo may hold a buffer a little
# longer than its message takes. (`prefetch=0`: nothing is fetched ahead of its time. Part 4 changes that.) Once
# `MyFullySharded` of part 7 has passed, it takes the same steps.


# %%
def watched_step(me, wrap, num_steps=6):
    """What this rank holds at three moments of a step, in bytes; and the history of the leanest step."""
    model = wrap(me, stack().to(me.device))
    optimizer = torch.optim.AdamW(model.parameters())
    x, found = torch.ones(1, WIDTH, device=me.device), []
    for _ in range(num_steps):
        optimizer.zero_grad()
        with MemoryLedger(model, optimizer, inputs=x, rank=me.rank) as ledger:
            loss = model(x).sum()
            ledger.mark("after forward")
            loss.backward()
            ledger.mark("after backward")
        balances = {**ledger.marks, "fullest": ledger.peak()}
        found.append(({when: balance.total_bytes for when, balance in balances.items()}, ledger.history()))
        optimizer.step()
    found = found[1:]  # in the first step AdamW had no states yet
    least = {when: min(sizes[when] for sizes, _ in found) for when in balances}
    return least, min(found, key=lambda step: sum(step[0].values()))[1]


def least_of_ranks(by_rank):
    return {when: min(sizes[when] for sizes, _ in by_rank) for when in by_rank[0][0]}


# %% tags=["nbval-ignore-output"]
def yours_of_part_7(me, model):
    return sharded_of_05(model, list(model), me, prefetch=0)


sharded_of_05 = mine.if_passed("MyFullySharded")
yours = yours_of_part_7 if sharded_of_05 else None
watched = mine.beside(lambda wrap: four.run(watched_step, wrap), partial(FullySharded, prefetch=0), yours)
held_by = {whose: least_of_ranks(by_rank) for whose, by_rank in watched.items()}
held_bytes = held_by["the course's"]
for when, *sizes in zip(held_bytes, *(sizes.values() for sizes in held_by.values()), strict=True):
    print(f"{when:<16}" + ",  yours ".join(f"{size_bytes / 1024:5.0f} KiB" for size_bytes in sizes))

# %% tags=["nbval-ignore-output"]
fullest_by = {whose: sizes["fullest"] for whose, sizes in held_by.items()}
reveal("05.peak", held_bytes["fullest"], LAYERS, WIDTH, beside=fullest_by)

# %% [markdown]
# ## Borrowed
#
# ![One layer in forward: a rank keeps its quarter; an all-gather brings the other three; it computes; it lets them go.
# Below, the same for backward, with question marks](../assets/05_borrow.png)
#
# <!-- word: unit | also: FSDP unit, FSDP parameter group -->
# A **unit** is a part of the model whose weights are whole together: a layer here, a block of a transformer in most
# jobs. Shortly before the unit computes, each rank gathers the weights that it lacks.
#
# <!-- word: unshard | also: all-gather before use, materialise -->
# <!-- word: reshard | also: free the unsharded parameters | sentences: 2 -->
# To **unshard** a unit is to make its weights whole on every rank, by an all-gather, right before they are used. To
# **reshard** a unit is to give the memory of its whole weights back. Each rank then holds its own rows of them and no
# more.
#
# Forward needs the weights, that is clear. Then they are gone. **In the backward pass of the layer Y = X Wᵀ, which
# gradient cannot be computed without W?**

# %%
### BEGIN SOLUTION
### STUB ask("05.again")
ask("05.again").commit("that of the weight")  # "what else would need it"
### END SOLUTION

# %% [markdown]
# Try it without any rank. After forward, the memory of the weight is filled with nan in such a way that autograd does
# not notice. Which gradients become nan?

# %%
x = torch.ones(2, WIDTH, requires_grad=True)
weight = torch.ones(WIDTH, WIDTH, requires_grad=True)
y = x @ weight.T
weight.data.fill_(float("nan"))  # its memory is somebody else's now
y.sum().backward()
spoilt = {"input": x.grad.isnan().any().item(), "weight": weight.grad.isnan().any().item()}
print("the gradient is spoilt:", spoilt)

# %%
reveal("05.again", spoilt)

# %% [markdown]
# ### Build: a layer that borrows its weight
#
# A rank has its own part of the batch, and its own rows of W. In forward and in backward it may gather; in between it
# may keep nothing that is as large as W. And the gradient of its rows is the *mean* over ranks, as in part 1.
#
# `shard.new_empty(shape)` makes room. A collective that you have used in part 1 fills it, and another one sums whole
# gradients and leaves each rank its rows.
#
# <details>
# <summary>To begin with an example: a bias that is borrowed</summary>
#
# y = x + b, and each of n ranks keeps its part of b. The gradient of x is that of y. The gradient of b is a sum over
# this rank's rows; after that the ranks have to take the mean.
#
# ```python
# class ShardedBias(torch.autograd.Function):
#     @staticmethod
#     def forward(ctx, x, part):
#         """x (B, out), this rank's rows; part (out/n,) -> x + b (B, out)."""
#         parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
#         dist.all_gather(parts, part)
#         return x + torch.cat(parts)
#
#     @staticmethod
#     def backward(ctx, grad):
#         """grad (B, out) -> the gradient of x, and this rank's part of the mean gradient of b."""
#         own = grad.new_empty(grad.size(1) // dist.get_world_size())
#         dist.reduce_scatter(own, list(grad.sum(dim=0).chunk(dist.get_world_size())))
#         return grad, own / dist.get_world_size()
# ```
#
# This backward needs neither x nor b. Yours has x and W. Which of these does it need, and what may `ctx` keep of them?
#
# </details>


# %%
class ShardedLinear(torch.autograd.Function):
    """y = x Wᵀ with W (out, in), of which each of n ranks keeps out/n rows and borrows the others."""

    @staticmethod
    def forward(ctx, x, shard):
        """x (B, in), this rank's part of the batch; shard (out/n, in), its rows of W -> y (B, out)."""
        ### BEGIN SOLUTION
        weight = shard.new_empty(dist.get_world_size() * shard.size(0), shard.size(1))
        dist.all_gather(list(weight.chunk(dist.get_world_size())), shard)
        ctx.save_for_backward(x, shard)  # not the whole weight: it goes now
        return x @ weight.T
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        """grad (B, out) -> the gradient of x (B, in); and this rank's rows of W's *mean* gradient (out/n, in)."""
        ### BEGIN SOLUTION
        x, shard = ctx.saved_tensors
        weight = shard.new_empty(dist.get_world_size() * shard.size(0), shard.size(1))
        dist.all_gather(list(weight.chunk(dist.get_world_size())), shard)
        grad_x = grad @ weight
        rows = torch.empty_like(shard)
        dist.reduce_scatter(rows, list((grad.T @ x).chunk(dist.get_world_size())))
        return grad_x, rows / dist.get_world_size()
        ### END SOLUTION


# %%
check("05.unit", ShardedLinear)

# %%
# hint("05.unit")

# %% [markdown]
# ## A transformer, in units
#
# Your layer has its own backward. `FullySharded` does the same for any module, with *hooks* (lesson 04). Before a
# unit's forward it puts whole weights in the place of the shards, and after it the shards again. Before the unit's
# backward the weights come again. When all of their gradients are there, the whole weights leave, and each rank gets
# its rows of the mean. The optimizer sees only the shards: `model.parameters()` are shards, and their `.grad` are rows.
#
# Is it still one model? Three steps of AdamW on four ranks, in float64, beside one device with the whole batch:

# %%
small = TransformerConfig(vocab_size=256, context_length=32, num_layers=3, width=64, num_heads=4)


def make_model(dtype=torch.float32):
    torch.manual_seed(0)
    return Transformer(small).to(dtype)


def loss_on_my_part(me, model, num_rows=8, seed=0):
    whole = torch.randint(0, 256, (num_rows, 33), generator=torch.Generator().manual_seed(seed))
    tokens = whole.chunk(me.world_size)[me.rank].to(me.device)
    return next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])


# %%
def trained(me):
    """All weights after three steps: on one rank of the plain model, on more of the sharded one."""
    plain = make_model(torch.float64).to(me.device)
    model = FullySharded(me, plain) if me.world_size > 1 else plain
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)  # made after sharding
    for step in range(3):
        loss_on_my_part(me, model, seed=step).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.full_state_dict() if me.world_size > 1 else model.state_dict()


alone, together = one.run(trained)[0], four.run(trained)[0]
print("as on one device, up to rounding in float64:", agree(together, alone, within=1e-10))

# %% [markdown]
# The model has three blocks, and each of them is a unit. The stem stands in front of them and looks tokens up. The head
# stands behind them and scores tokens. Take one step, forward and backward, with the optimizer left out.
#
# **In how many collectives does each rank take part?**

# %%
num_tensors = len(list(make_model().parameters()))
print(f"{num_tensors} parameters, {small.num_layers} blocks")

# %%
### BEGIN SOLUTION
### STUB ask("05.gathers")
ask("05.gathers").commit(2 * 3)  # "each block: a gather and a reduce-scatter"
### END SOLUTION


# %%
def one_step(me, num_rows=8):
    model = FullySharded(me, make_model().to(me.device), prefetch=0)
    dist.barrier()  # what comes behind it is the step
    loss_on_my_part(me, model, num_rows).backward()


def calls_of_the_step(num_rows=8):
    calls = metered(four, one_step, num_rows).communication.of(0).calls
    return calls[[call.operation for call in calls].index("barrier") + 1 :]


calls = calls_of_the_step()
print(dict(Counter(call.operation for call in calls)))
print("in this order:", *(call.operation for call in calls))

# %%
reveal("05.gathers", len(calls), small.num_layers, num_tensors)

# %%
sent_bars({"rank 0": calls}, title="This step, call after call")

# %% [markdown]
# (The course's reduce-scatter is an all-to-all and a sum. Each rank gets its rows of the gradients from every other
# rank, and adds them. Gloo's own reduce-scatter is an all-reduce, and sends twice as much.)
#
# Look at the first and the last call of the list: both are of the unit that holds the stem *and* the head. The stem
# comes first and the head last, so this unit is whole nearly all the time. It is whole from the first moment of forward
# to the last one of backward, except for an instant between the two. So a large vocabulary costs much memory. Give stem
# and head a unit each (`units=[model.stem, *model.blocks, model.head]`), unless they share a weight.
#
# Now every rank gets four sequences in place of two. **How many times as many bytes does it send in a step?**

# %%
### BEGIN SOLUTION
### STUB ask("05.batch")
ask("05.batch").commit(2)  # "twice the work"
### END SOLUTION


# %%
def sent_bytes(calls):
    return sum(sum(call.sent_bytes.values()) for call in calls)


bytes_by_rows = {rows // 4: sent_bytes(calls_of_the_step(rows)) for rows in (8, 16)}
for rows, size_bytes in bytes_by_rows.items():
    print(f"{rows} sequences on each rank: {bytes_text(size_bytes)} sent by rank 0")

# %%
reveal("05.batch", bytes_by_rows)

# %% [markdown]
# How many bytes is that, compared with a step of DDP? [Part 4](05d_links_and_precision.ipynb) begins with this
# question.
#
# ## Memory over a step
#
# Back to the eight plain layers: why does a rank hold more than a quarter of everything? The ledger has kept the
# history of the step that you saw. In its labels shards are *parameter*, and the rows of their gradients are
# *gradient*. Tensors that are whole for a moment belong to nothing that the ledger knows: they are *other*, or
# *activation* while autograd remembers them. The buffers of messages are *other*, too.

# %% tags=["nbval-ignore-output"]
histories = {whose: min(found, key=lambda one: sum(one[0].values()))[1] for whose, found in watched.items()}
memory_curve(histories["the course's"], title="One rank of four: forward and backward of eight layers")

# %% tags=["nbval-ignore-output"]
memory_curve(histories["yours"], title="The same by yours") if "yours" in histories else None

# %% [markdown]
# Does forward climb, layer by layer? No: the curve has a tooth for each layer, which ends before the next one begins.
# At the end of forward no tooth is left. Backward has taller teeth, and its floor rises as rows of gradients come. The
# cost model has the same step, moment by moment. The cell prints its fullest moment, term by term, and three moments
# beside the ledger's:

# %% tags=["nbval-ignore-output"]
numel = WIDTH * WIDTH
moments = cost.sharded_moments([cost.UnitSizes(numel, numel // 4)] * LAYERS, num_ranks=4, prefetch=0)
fullest = max(moments, key=lambda moment: moment.total)
print(f"fullest: {fullest.what}, in backward")
for term in ("kept", "gradients", "whole", "whole_gradients", "messages"):
    print(f"    {term:<16}{getattr(fullest, term) / 1024:5.0f} KiB")

by_model = {"after forward": moments[0], "fullest": fullest, "after backward": moments[-1]}
for when, moment in by_model.items():
    print(f"{when:<16}model {moment.total / 1024:5.0f} KiB   ledger {held_bytes[when] / 1024:5.0f} KiB")

# %% [markdown]
# (A unit is *laid out* when the numbers from its message are copied to the place of the weights. `kept` are the rows of
# weights and of optimizer states; `messages` are buffers of collectives. Activations are left out: each rank has those
# of its own part of the batch, as in any other step.)
#
# ## How large a unit?
#
# ![Eight layers, divided into eight units, into two, into one; below each a bar with a question
# mark](../assets/05_units.png)
#
# You choose what a unit is: `units=` takes modules, or lists of modules that are whole together. With a unit for each
# layer, every layer has its own messages, and every message its own latency. So somebody puts all eight layers into
# *one* unit. Between steps nothing changes: everything is in quarters.
#
# **How much does a rank hold at its peak then, compared with its peak under DDP?**

# %%
### BEGIN SOLUTION
### STUB ask("05.units")
ask("05.units").commit("about half of it")  # "the weights are whole, the states are not"
### END SOLUTION


# %%
def in_units(me, model, of):
    layers = list(model)
    units = [layers[first : first + of] for first in range(0, len(layers), of)]
    return FullySharded(me, model, units=units, prefetch=0)


def peak_of(wrap):
    return least_of_ranks(four.run(watched_step, wrap))["fullest"]


# %% tags=["nbval-ignore-output"]
ddp_bytes = peak_of(DistributedDataParallel)
by_unit = {of: peak_of(partial(in_units, of=of)) for of in (1, 2, 4, 8)}
print("layers in a unit   peak, model   peak, ledger   collectives, 3 a unit")
for of, size_bytes in by_unit.items():
    units = [cost.UnitSizes(of * numel, of * numel // 4)] * (LAYERS // of)
    model_bytes = max(moment.total for moment in cost.sharded_moments(units, num_ranks=4, prefetch=0))
    print(f"{of:>16}{model_bytes / 1024:>10.0f} KiB{size_bytes / 1024:>11.0f} KiB{3 * len(units):>24}")
print(f"DDP:{ddp_bytes / 1024:>37.0f} KiB")

# %%
reveal("05.units", by_unit[LAYERS], ddp_bytes, LAYERS, WIDTH)

# %% tags=["nbval-ignore-output"]
TERMS = ("kept", "gradients", "whole", "whole_gradients", "messages")


def parts_at_the_peak(of):
    """KiB of each term when a rank holds most, as ``cost`` counts it."""
    units = [cost.UnitSizes(of * numel, of * numel // 4)] * (LAYERS // of)
    moments = cost.sharded_moments(units, num_ranks=4, prefetch=0)
    fullest = max(moments, key=lambda moment: moment.total)
    return {term.replace("_", " "): getattr(fullest, term) / 1024 for term in TERMS}


at_the_peak = {f"units of {of}": parts_at_the_peak(of) for of in by_unit}
limit = ("DDP, by the ledger:", ddp_bytes / 1024)
stacked_bars(at_the_peak, unit="KiB", what="a rank at its peak, by the model", limit=limit, decimals=0)

# %% [markdown]
# So the size of a unit trades memory against messages. Most jobs take a block of a transformer. Its messages are long,
# so that their latency counts little. And it is a small part of a model that has dozens of blocks.
#
# What can you gain by more ranks? Keep a unit for each layer, and go from four ranks to 64: sixteen times as many. **To
# how many per cent does the peak of a rank fall?**

# %%
### BEGIN SOLUTION
### STUB ask("05.ranks")
ask("05.ranks").commit(round(100 / 16))  # "a sixteenth"
### END SOLUTION


# %%
def model_peak(num_ranks, of=1, layers=LAYERS, numel=numel):
    units = [cost.UnitSizes(of * numel, of * numel // num_ranks)] * (layers // of)
    return max(moment.total for moment in cost.sharded_moments(units, num_ranks=num_ranks, prefetch=0))


reveal("05.ranks", {ranks: model_peak(ranks) for ranks in (4, 64)})

# %% [markdown]
# Here is a larger model, by the cost model alone: 32 blocks of 200 million parameters, in float32 with AdamW, without
# activations.

# %%
ranks = [2**power for power in range(1, 11)]
billions = {"layers": 32, "numel": 200_000_000}
curves = {f"peak, units of {of}": [model_peak(n, of, **billions) / 2**30 for n in ranks] for of in (1, 4, 32)}
curves["between steps"] = [16 * 32 * 200e6 / n / 2**30 for n in ranks]
lines(
    {name: (ranks, gibs) for name, gibs in curves.items()},
    x_label="ranks",
    y_label="memory of a rank (GiB)",
    title="6.4 billion parameters in 32 blocks; units of 1, 4 and 32 blocks",
    log_x=True,
    log_y=True,
)

# %% [markdown]
# ## What you can do now
#
# You have shared out the last thing that was whole, and know the price in memory. It is a unit that is whole, its
# gradients, and the messages that bring and take them. You know what travels for a unit, and that it does not grow with
# the batch.
#
# All of this assumes that whole weights leave memory after their use. [Part 3](05c_what_stays_whole.ipynb) has a layer
# that keeps them, though all its numbers are right. It also has an optimizer that needs whole matrices.
#
# **Further reading.** Rajbhandari et al., [ZeRO: Memory Optimizations Toward Training Trillion Parameter
# Models](https://arxiv.org/abs/1910.02054) (2020), section 5: the three stages; section 7: what they send. Zhao et al.,
# [PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel](https://arxiv.org/abs/2304.11277) (2023): units,
# and how weights are made whole and let go.
