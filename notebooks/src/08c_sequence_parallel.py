# %% [markdown]
# # 08c · Tensor parallelism: positions, shared out
#
# Between the split regions all ranks compute and hold the same tensors. You share these out by positions, with two more
# gates, and you measure what that saves and what it costs. And you find two faults that let the copies of a norm drift
# apart without an error.
#
# **65 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 3 of 5 · [1: one product, cut](08a_tensor_parallel.ipynb) · [2: a transformer, cut](08b_split_transformer.ipynb)
# · [4: the link, two faults, and production](08d_links_and_production.ipynb) · [5: build the
# transformer](08e_build_split_transformer.ipynb)
#
# This part builds on [08a: one product, cut](08a_tensor_parallel.ipynb) and [08b: a transformer,
# cut](08b_split_transformer.ipynb). Have you done them? `from course_lib import start; start("08c")` says whether you
# have.
#
# At the end you can
#
# - find a fault by the place from which on gradients are wrong;
# - build sequence parallelism, and say what it sends, forward and backward;
# - say what it saves, by the memory ledger, and what the published formula assumes;
# - say which parameters' gradients ranks have to sum, and why.
#
# From parts 1 and 2 you need the two gates of a split region. `enter` lets x pass, and sums its gradient over ranks.
# `leave` sums what the ranks have computed, and lets the gradient pass. You also need the block of a transformer.
# Before each region is a norm, and the residual stream goes around the region. Both are the same on all ranks.

# %%
from course_lib import ask, check, cost, hint, reveal, shared_cluster
from course_lib.meter import MemoryLedger, bytes_text, metered
from course_lib.models import Transformer, TransformerBlock, TransformerConfig, next_token_loss
from course_lib.parallel import collectives
from course_lib.parallel.tensor import (
    all_gather_reduce_scatter,
    all_reduce_identity,
    gather_state,
    identity_all_reduce,
    reduce_scatter_all_gather,
    split_block,
    split_transformer,
    vocab_parallel_cross_entropy,
)
from course_lib.rounding import agree, rounded

from collections import Counter
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
# ## Clinic 1: right at the first step
#
# *Symptom.* A model has two blocks, each with a norm, a split MLP and a residual. In the first step its loss is that of
# one device. From the second step on the loss differs, and the job learns worse. This symptom alone excludes two of the
# four answers below. **What is wrong?**

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
    mine = {name: part.to(me.device, copy=True).requires_grad_() for name, part in parts.items()}
    weights = list(mine.values())
    loss = block(me, block(me, INPUT.to(me.device), *weights[:3]), *weights[3:]).square().sum()
    loss.backward()
    return {name: tensor.grad for name, tensor in mine.items()} | {"loss": loss.detach()}


# %%
def evidence_of(block):
    alone, found = one.run(gradients, block)[0], two.run(gradients, block)
    print("the loss is right:", [agree(got["loss"], alone["loss"], within=1e-5) for got in found])
    print(f"{'':<16}{'right on rank 0':<18}{'right on rank 1':<18}alike on both")
    for name in reversed(WHOLE):
        parts = [part_of(rank, 2, name, alone[name]) for rank in range(2)]
        right = [agree(got[name], part, within=1e-5) for got, part in zip(found, parts, strict=True)]
        alike = "cut" if "w_" in name else agree(found[0][name], found[1][name], within=1e-5)
        print(f"{name:<16}{right[0]!s:<18}{right[1]!s:<18}{alike}")


evidence_of(colleagues_block)

# %%
reveal("08.norms")

# %% [markdown]
# ### Mend it
#
# Change one of the three lines. Where exactly does the gate belong? Remember that all ranks have the same weight of the
# norm.


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
# ## What all ranks keep
#
# ![Between the regions each rank has some of the positions; an all-gather leads into a region, a reduce-scatter out of
# it](../assets/08_sequence.png)
#
# <!-- word: sequence parallelism | also: SP | sentences: 3 -->
# Norms, dropout and the residual stream are the same on all ranks. Every rank computes all of them, and *keeps* all of
# them for the backward pass. But a norm works on each position by itself. With **sequence parallelism** each rank has
# some of the *positions* outside the split regions. At the exit a reduce-scatter replaces the all-reduce: it gives each
# rank its positions of the sum. At the entrance there is an all-gather. ([Korthikanti et al.,
# 2022](https://arxiv.org/abs/2205.05198). Lesson 10 has other methods with such names, for long contexts.)
#
# **On four ranks whose collectives are rings: do the ranks send fewer bytes for a block than before, more, or the
# same?**

# %%
### BEGIN SOLUTION
### STUB ask("08.sequence")
ask("08.sequence").commit("more")  # "eight collectives in place of four"
### END SOLUTION

# %% [markdown]
# The rings of lesson 02 send messages, and the meter counts these. The next cell runs one exit and the entrance that
# follows it, in both ways.

# %%
stream = torch.randn(128, 64)  # 128 positions, 64 wide: a summand of the stream


def in_one(me):
    collectives.all_reduce(me, stream.to(me.device), algorithm="ring")


def in_two(me):
    mine = collectives.reduce_scatter(me, stream.to(me.device))
    # here comes the norm, on this rank's positions
    collectives.all_gather(me, mine)


rings = {way.__name__: metered(four, way).communication for way in (in_one, in_two)}
for name, counted in rings.items():
    print(f"{name}: {counted.num_messages(0)} messages, {bytes_text(counted.sent_bytes(0))} sent by rank 0")

# %%
reveal("08.sequence", *(counted.sent_bytes(0) for counted in rings.values()))

# %% [markdown]
# ### Build: two gates along the positions
#
# You know what the gates do forward. Backward each gate is a collective too: which one? Use the two functions of the
# next cell. Think of one gate at a time. Which positions does each rank have, and is its tensor complete or a summand?


# %%
def joined(part):
    """The parts of all ranks, one after the other: (P, D) -> (n P, D)."""
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts)


def shared_out(summand):
    """This rank's rows of the sum over all ranks: (n P, D) -> (P, D)."""
    parts = [part.contiguous() for part in summand.chunk(dist.get_world_size())]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts)
    return mine


# %%
class AlongGate(torch.autograd.Function):
    """The entrance of a split region, or its exit; outside, each rank has some positions."""

    @staticmethod
    def forward(ctx, x, is_entrance):
        ### BEGIN SOLUTION
        ctx.is_entrance = is_entrance
        return joined(x) if is_entrance else shared_out(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        return (shared_out(grad) if ctx.is_entrance else joined(grad)), None
        ### END SOLUTION


# %%
check("08.along", AlongGate)

# %%
# hint("08.along")

# %% [markdown]
# From here on these two gates are called `enter_along` and `leave_along`. Both are the course's functions. They are
# written like yours, and also have arguments for a dim and a group of ranks.

# %%
enter_along, leave_along = all_gather_reduce_scatter, reduce_scatter_all_gather

# %% [markdown]
# ## What it saves
#
# How many bytes of a block's tensors does a rank keep for the backward pass? The memory ledger of lesson 01 measures
# that, first without sequence parallelism:


# %%
def kept_by_a_block(me, **way):
    block = split_block(me, TransformerBlock(small), **way)
    length = 32 // me.world_size if way else 32
    x = torch.ones(4, length, 128, device=me.device, requires_grad=True)
    with MemoryLedger(block) as ledger:
        y = block(x)
        kept = ledger.mark("after forward").by_label["activation"]
    return kept + y.nbytes  # and x, which the ledger takes for an input; it is as large as y


plain_kept = max(four.run(kept_by_a_block))
print(f"one block on four ranks: each keeps {plain_kept / 1024:.0f} KiB")
print(f"a tensor of the stream is {4 * 4 * 32 * 128 / 1024:.0f} KiB large")

# %% [markdown]
# Four of the tensors that it keeps are *the same on all ranks*, 64 KiB each. They are the inputs of the two norms, and
# the inputs of the two regions. The rest is the rank's own part of the regions' results, and a little for each norm.
#
# **With sequence parallelism each of the four ranks has a quarter of the positions outside the regions. How many KiB of
# a block does a rank keep?**

# %%
### BEGIN SOLUTION
### STUB ask("08.kept")
ask("08.kept").commit(257)  # "both become a quarter"
### END SOLUTION

# %%
along_kept = max(four.run(kept_by_a_block, sequence_parallel=True))
print(f"with sequence parallelism: {along_kept / 1024:.0f} KiB")

# %%
reveal("08.kept", along_kept, small)

# %% [markdown]
# A rank may keep the gathered input, or free it. If it frees the input, the backward pass has to gather it once more,
# for the gradient of the weight. The course calls this `regather`. The next cell prints what the ledger and the meter
# find:


# %%
def along_step(me, regather):
    block = split_block(me, TransformerBlock(small), sequence_parallel=True, regather=regather)
    x = torch.ones(4, 32 // me.world_size, 128, device=me.device, requires_grad=True)
    block(x).sum().backward()


for regather in (False, True):
    kept = max(four.run(kept_by_a_block, sequence_parallel=True, regather=regather))
    calls = metered(four, along_step, regather).communication.of(0).calls
    counts = Counter(call.operation for call in calls)
    halves = counts["all_gather"] + counts["reduce_scatter"]
    print(f"regather={regather!s:<6}{kept / 1024:4.0f} KiB kept; {dict(counts)}")
    print(f"{'':<15}{halves} halves of an all-reduce, by rings {halves * 3 / 4 * 64:.0f} KiB sent")

# %% [markdown]
# (The cell computes the bytes that rings would send. gloo runs a reduce-scatter as an all-reduce, as lesson 02 found,
# and sends more. The two all-reduces are small.)
#
# So a rank saves one part of the memory without sending more bytes. For the other part it needs two more all-gathers:
# ten halves of an all-reduce and not eight. The next table has each term in KiB. Its last line has what the ledger has
# found:

# %%
ways = {"plain": {}, "along": {"sequence_parallel": True}}
ways["anew"] = {"sequence_parallel": True, "regather": True}
columns = {
    name: cost.explained_activations(small, batch_size=4, num_ranks=4, **way) for name, way in ways.items()
}
print(f"{'':<28}", *(f"{name:>7}" for name in columns))
for terms in zip(*columns.values(), strict=True):
    if any(term.course_bytes for term in terms):
        print(f"{terms[0].name:<28}", *(f"{term.course_bytes / 1024:7.1f}" for term in terms))
sums = (sum(term.course_bytes for term in terms) / 1024 for terms in columns.values())
print(f"{'sum, by the model':<28}", *(f"{total:7.1f}" for total in sums))
found = (max(four.run(kept_by_a_block, **way)) / 1024 for way in ways.values())
print(f"{'sum, by the ledger':<28}", *(f"{total:7.1f}" for total in found))

# %% [markdown]
# ### The published formula
#
# [Korthikanti et al.](https://arxiv.org/abs/2205.05198), section 4, count what a block keeps in 16-bit numbers. Their
# block has dropout, and its attention stores all scores. They write s for the length, b for the batch, h for the width,
# a for the heads and t for the ranks:
#
# $$sbh\left(34 + \tfrac{5as}{h}\right)\quad sbh\left(10 + \tfrac{24}{t} + \tfrac{5as}{ht}\right)\quad
# \tfrac{sbh}{t}\left(34 + \tfrac{5as}{h}\right)$$
#
# The three formulas are for an unsplit block, for tensor parallelism, and for both parallelisms together. The 10 in the
# second formula counts the tensors outside the regions. The third formula assumes the extra all-gather (their section
# 4.2.2).
#
# <!-- word: selective recomputation | also: selective activation recomputation -->
# The scores of attention may be the largest part. **Selective recomputation** keeps everything of a block except the
# scores of attention, which it computes again in the backward pass. The third formula then becomes $34\,sbh/t$. Fused
# attention always computes its scores again.
#
# (The course's blocks keep 32-bit numbers, no masks and no scores, so their bytes differ. `cost.explained_activations`
# has both numbers for each term.)

# %%
sizes = {"length": 2048, "batch_size": 1, "width": 12288, "num_heads": 96}  # a block of GPT-3
stream_numbers = sizes["length"] * sizes["batch_size"] * sizes["width"]  # s b h
print("ranks   tensor parallel   and sequence parallel   and scores anew")
for num_ranks in (1, 2, 4, 8):
    kept = [
        cost.published_activation_bytes(**sizes, num_ranks=num_ranks, sequence_parallel=way)
        for way in (False, True)
    ]
    kept.append(34 * stream_numbers / num_ranks)
    print(
        f"{num_ranks:>5}   {bytes_text(kept[0]):>15}   {bytes_text(kept[1]):>21}   {bytes_text(kept[2]):>15}"
    )

# %% [markdown]
# ## Clinic 2: two checkpoints of one model
#
# *Symptom.* A colleague has written code that shares out the positions in each block. The first loss is that of one
# device. There is no error, and the job learns a little worse than before. Then somebody notices that a checkpoint with
# rank 0's norms has a different loss from one with rank 1's norms. **What is wrong?**

# %%
### BEGIN SOLUTION
### STUB ask("08.shares")
ask("08.shares").commit("the exit gives a rank the wrong positions")
### END SOLUTION

# %% [markdown]
# The colleague's block is a norm and a split MLP with its residual:


# %%
def colleagues_positions(me, x, norm_weight, w_up, w_down):
    """x (P, D): this rank's positions -> (P, D)."""
    h = F.layer_norm(x, (x.size(-1),), norm_weight)
    hidden = F.gelu(F.linear(enter_along(me, h), w_up))
    return x + leave_along(me, F.linear(hidden, w_down))


# %% [markdown]
# *Evidence.* The next cells compare the loss and the gradients of the first step with those of one device.

# %%
torch.manual_seed(1)
shapes = {"x": (6, 16), "norm_weight": (16,), "w_up": (32, 16), "w_down": (16, 32)}
BLOCK = {name: torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}


def part_along(rank, num_ranks, name, tensor):
    dims = {"x": 0, "w_up": 0, "w_down": 1}  # positions, hidden units; the norm is whole on every rank
    return tensor.chunk(num_ranks, dims[name])[rank] if name in dims else tensor


def first_gradients(me, block):
    parts = {name: part_along(me.rank, me.world_size, name, tensor) for name, tensor in BLOCK.items()}
    mine = {name: part.to(me.device, copy=True).requires_grad_() for name, part in parts.items()}
    loss = block(me, *mine.values()).square().sum()  # of this rank's positions
    loss.backward()
    total = loss.detach()
    dist.all_reduce(total)
    return {name: tensor.grad for name, tensor in mine.items()} | {"loss": total}


# %%
def evidence_along(block):
    alone, found = one.run(first_gradients, block)[0], two.run(first_gradients, block)
    print("the loss is right:", [agree(got["loss"], alone["loss"], within=1e-5) for got in found])
    for name in ("w_down", "w_up", "x"):
        parts = [part_along(rank, 2, name, alone[name]) for rank in range(2)]
        rights = [agree(got[name], part, within=1e-5) for got, part in zip(found, parts, strict=True)]
        print(f"{name}: the gradient is right on both ranks: {all(rights)}")
    print("the norm's gradient, its first four numbers:")
    for where, got in (("rank 0", found[0]), ("rank 1", found[1]), ("one device", alone)):
        print(f"  {where:<11}", rounded(got["norm_weight"][:4], 1, apart=1e-9))


evidence_along(colleagues_positions)

# %%
reveal("08.shares")

# %% [markdown]
# ### Mend it
#
# Add one line, with a gate that you know.


# %%
def mended_positions(me, x, norm_weight, w_up, w_down):
    """x (P, D): this rank's positions -> (P, D); gradients as on one device."""
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend the block")
    norm_weight = enter(me, norm_weight)
    ### END SOLUTION
    h = F.layer_norm(x, (x.size(-1),), norm_weight)
    hidden = F.gelu(F.linear(enter_along(me, h), w_up))
    return x + leave_along(me, F.linear(hidden, w_down))


# %%
positions_verdict = check("08.positions", mended_positions)

# %%
# hint("08.positions")

# %%
evidence_along(mended_positions if positions_verdict.passed else colleagues_positions)

# %% [markdown]
# Every parameter that all ranks hold, and that each rank uses on positions of its own, needs this sum. Examples are the
# bias after a row cut, and a table of learned positions. Megatron-LM marks such parameters with
# `sequence_parallel=True` and sums their gradients once, at the end of the backward pass.
#
# With sequence parallelism, `split_transformer` makes each norm a `SequenceParallelNorm`, which sums these gradients.
# Does the whole model then train as on one device? The next cells take five steps of AdamW in float64 and compare:


# %%
def five_steps(me, is_split):
    torch.manual_seed(0)
    model = Transformer(replace(small, width=32, vocab_size=50)).double().to(me.device)
    if is_split:
        split_transformer(me, model, sequence_parallel=True)
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
# ## What you can do now
#
# You have built sequence parallelism: two gates, each of which does backward what the other does forward. You have
# measured how much memory it saves without more bytes, and what it costs to save the rest. And you know two reasons why
# the copies of a norm drift apart. A gate is in the wrong place, or nobody sums the gradients of all positions.
#
# Every region still waits for the link. [Part 4](08d_links_and_production.ipynb) asks how fast the link must be, and
# hides one of a region's two sums.
#
# **Further reading.** Korthikanti et al., [Reducing Activation Recomputation in Large Transformer
# Models](https://arxiv.org/abs/2205.05198) (2022), section 4: sequence parallelism and the formula; section 5:
# selective recomputation.
