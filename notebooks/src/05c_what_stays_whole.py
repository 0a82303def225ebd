# %% [markdown]
# # 05c · Sharded data parallelism: what stays whole
#
# A rank keeps only its part of everything, and yet some tensors are whole at times. A tensor is whole for a moment by
# plan, too long by a fault, or because an optimizer needs it whole. You try all settings of a sharded step, find a
# fault that changes no result, and share out an optimizer that needs whole matrices.
#
# **50 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 3 of 8 · [1: states, shared out](05a_sharded_data_parallel.ipynb) · [2: whole while it
# computes](05b_whole_for_a_moment.ipynb) · [4: links and precision](05d_links_and_precision.ipynb) · [5: one model
# again](05e_one_model_again.ipynb) · [6: build the optimizer](05f_build_sharded_optimizer.ipynb) · [7: build the
# wrapper](05g_build_fully_sharded.ipynb) · [8: precision on the wire](05h_precision_on_the_wire.ipynb)
#
# This part builds on [05a: states, shared out](05a_sharded_data_parallel.ipynb) and [05b: whole while it
# computes](05b_whole_for_a_moment.ipynb). Have you done them? `from course_lib import start; start("05c")` says
# whether you have.
#
# At the end you can
#
# - choose stage, units and ranks for a limit of memory and messages;
# - find what keeps whole weights in memory too long, where every result is right;
# - say whether an optimizer can be cut as AdamW was, and what to do if it cannot.
#
# From parts 1 and 2 you need the three stages. ZeRO-1 shares out the optimizer's states, ZeRO-2 the gradients too.
# ZeRO-3, which the course has as `FullySharded`, makes *units* of layers. An all-gather makes a unit's weights whole
# before the unit computes. Then they are let go, and gathered again for the unit's backward. The gradients leave by a
# reduce-scatter.

# %%
from course_lib import ask, check, hint, mine, reveal, shared_cluster
from course_lib.meter import MemoryLedger, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.sharded import ShardedOptimizer, assign_owners

from collections import Counter

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## The explorer
#
# ![The explorer's picture, DDP on four ranks: a bar of memory for each part of a step, for each rank a bar at its peak,
# and a dashed line at DDP's peak](../assets/05_explorer.png)
#
# The model has twelve layers, each a matrix of 129 rows. You choose the stage, the number of ranks, and how many layers
# make a unit (in stages 0 to 2, a bucket). *Prefetch* is how many units are gathered before they are needed. *Weights
# after forward* are let go, or stay whole until backward has used them. Part 4 says more about both. The bars show what
# the cost model computes. The button runs steps with your settings on four ranks, and a line across the bars shows what
# the ledger measured. For other numbers of ranks there is only the cost model. Once `MyFullySharded` of part 7 has
# passed, the button runs it too in stage 3, and a green line shows its memory. Three missions:
#
# 1. Take four ranks. Hold at most half of DDP's peak, with no more messages in a step than DDP with a bucket for each
#    layer.
# 2. Sharding that saves nothing: find a stage above 0 that holds as much as DDP, or more. Run it on the ranks to
#    confirm it.
# 3. Use as many ranks as you like, up to 64, and reach the lowest peak that is possible. With more ranks each keeps
#    fewer rows. What else changes?

# %% tags=["computed-time"]
from course_lib.widgets import ShardedExplorer

explorer = ShardedExplorer(four, yours=mine.if_passed("MyFullySharded"))
explorer

# %%
### BEGIN SOLUTION
### STUB print(explorer.missions)
explorer.stage.value, explorer.per_unit.value, explorer.prefetch.value = "3 (weights too)", 3, 0
explorer.stage.value, explorer.per_unit.value = "1 (optimizer states)", 12
explorer.run.click()
explorer.stage.value, explorer.per_unit.value, explorer.num_ranks.value = "3 (weights too)", 1, 43
print(explorer.missions)
### END SOLUTION

# %% [markdown]
# <details>
# <summary>When you have tried: the first two missions</summary>
#
# In the first, small units hold the least memory, but each unit sends three messages. With three layers in each unit
# the messages are just few enough. Prefetch has to be 0, because it keeps a second unit's buffer.
#
# In the second, stage 1 shares out the states, but not the messages. With one bucket for all layers, a rank holds the
# gradients three times: as gradients, packed in the bucket, and as what other ranks send. A job that shares out states
# must also send in small buckets.
#
# </details>
#
# For the third mission, compute the peak with the cost model, for every number of ranks:

# %%
from course_lib.widgets import ShardedChoice

by_ranks = {n: ShardedChoice(stage=3, num_ranks=n) for n in range(2, 65)}
best = min(by_ranks, key=lambda n: by_ranks[n].peak().total)
for n in (best, 64):
    empty = sum(by_ranks[n].num_rows(rank) == 0 for rank in range(n))
    held = f"{by_ranks[n].peak().total / 1024:.0f} KiB"
    print(f"{n} ranks: {held}; {by_ranks[n].num_rows(0)} rows each, {empty} ranks without rows")

# %% [markdown]
# No row is ever cut. With more ranks than the best number, rank 0 keeps as many rows as before, and the last ranks keep
# none. In place of their rows there is padding in every buffer and every message. PyTorch's `fully_shard` cuts along
# the same dim, so choose sizes that the number of ranks divides.

# %% [markdown]
# ## Clinic: the quarter that was not one
#
# *Symptom.* A colleague writes no backward for a layer, but leaves it to autograd. `Gather` makes a weight whole in
# forward, and reduce-scatters its gradient in backward. PyTorch's `F.linear` uses the whole weight. After that the
# layer deletes its name for the whole weight. The losses and gradients are those of one device. Between steps each of
# four ranks holds a quarter, as planned. But in a step memory grows layer by layer, as if no weight had been cut. A
# model with twice as many layers needs twice as much of this memory.

# %%
LAYERS, WIDTH = 8, 128


def stack(num_layers=LAYERS):
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(num_layers)))


# %%
class Gather(torch.autograd.Function):
    """This rank's rows -> the whole weight; backward, the whole gradient -> its rows of the mean."""

    @staticmethod
    def forward(ctx, shard):
        whole = shard.new_empty(dist.get_world_size() * shard.size(0), shard.size(1))
        dist.all_gather(list(whole.chunk(dist.get_world_size())), shard)
        return whole

    @staticmethod
    def backward(ctx, grad):
        parts = list(grad.contiguous().chunk(dist.get_world_size()))
        rows = torch.empty_like(parts[0])
        dist.reduce_scatter(rows, parts)
        return rows / dist.get_world_size()


def colleagues_layer(x, shard):
    whole = Gather.apply(shard)
    y = F.linear(x, whole)
    del whole  # nobody needs it any more
    return y


# %% [markdown]
# **What holds the memory?**

# %%
### BEGIN SOLUTION
### STUB ask("05.freed")
ask("05.freed").commit("whole gradients that nobody has cut yet")
### END SOLUTION

# %% [markdown]
# *Evidence.* The next cells print what a rank holds by the ledger, without an optimizer, in four situations. Before you
# run them, say what each possible answer predicts for each line.


# %%
class Borrowing(nn.Module):
    """Eight layers, computed by ``layer(x, shard)``; this rank keeps its rows of their weights."""

    def __init__(self, me, layer):
        super().__init__()
        rows = [linear.weight.detach().chunk(me.world_size)[me.rank] for linear in stack()]
        self.layer, self.shards = layer, nn.ParameterList(nn.Parameter(part.clone()) for part in rows)

    def forward(self, x):
        for shard in self.shards:
            x = self.layer(x, shard)
        return x


# %%
def leanest(steps):
    """The smallest balance after forward and the smallest after backward, of several such pairs."""
    return [min(moment, key=lambda balance: balance.total_bytes) for moment in zip(*steps, strict=True)]


def balances(me, layer, num_rows=1, with_backward=True):
    """The ledger's balances after forward and after backward: the smallest of three steps."""
    model, steps = Borrowing(me, layer).to(me.device), []
    x = torch.ones(num_rows, WIDTH, device=me.device)
    for _ in range(3):
        model.zero_grad()
        with torch.set_grad_enabled(with_backward), MemoryLedger(model, inputs=x, rank=me.rank) as ledger:
            loss = model(x).sum()
            after_forward = ledger.mark("after forward")
            if with_backward:
                loss.backward()
        steps.append((after_forward, ledger.now("after backward")))
    return leanest(steps)


# %% tags=["nbval-ignore-output"]
def evidence_of(layer):
    after_forward, after_backward = leanest(four.run(balances, layer))
    found = {"after forward": after_forward, "after backward": after_backward}
    found["after forward, 64 rows in the batch"] = leanest(four.run(balances, layer, num_rows=64))[0]
    found["after forward under no_grad"] = leanest(four.run(balances, layer, with_backward=False))[0]
    print(f"{'KiB':<38}{'parameter':>10}{'gradient':>10}{'all the rest':>14}")
    for when, balance in found.items():
        rest = balance.total_bytes - sum(balance[label] for label in ("parameter", "gradient", "input"))
        sizes = [balance["parameter"], balance["gradient"], rest]
        print(f"{when:<38}{sizes[0] / 1024:>10.0f}{sizes[1] / 1024:>10.0f}{sizes[2] / 1024:>14.0f}")


evidence_of(colleagues_layer)

# %%
reveal("05.freed")

# %% [markdown]
# ### Mend it
#
# Keep `Gather` and `F.linear` as they are, and write no backward. Lesson 01 had a tool for tensors that are cheaper to
# compute again than to keep.


# %%
def mended_layer(x, shard):
    """x (B, in), shard (out/n, in) -> (B, out); between forward and backward no whole weight is kept."""
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend the one below")
    ### STUB return colleagues_layer(x, shard)
    from torch.utils.checkpoint import checkpoint

    return checkpoint(colleagues_layer, x, shard, use_reentrant=False)
    ### END SOLUTION


# %%
layer_verdict = check("05.layer", mended_layer)

# %%
# hint("05.layer")

# %% tags=["nbval-ignore-output"]
right_layer = mended_layer if layer_verdict.passed else colleagues_layer
evidence_of(right_layer)

# %% [markdown]
# Does the table show less memory now? Then the layers have to do something a second time. **What does a step of the
# mended layers do that a step of the colleague's layers did not do?**

# %%
### BEGIN SOLUTION
### STUB ask("05.anew")
ask("05.anew").commit("both of them")  # "recomputation repeats the forward"
### END SOLUTION


# %%
def counted(me, layer):
    """Floating-point operations of a step."""
    from torch.utils.flop_counter import FlopCounterMode

    model = Borrowing(me, layer).to(me.device)
    with FlopCounterMode(display=False) as counter:
        model(torch.ones(1, WIDTH, device=me.device)).sum().backward()
    return counter.get_total_flops()


runs = {"before": metered(four, counted, colleagues_layer), "after": metered(four, counted, right_layer)}
gathers = {name: len(run.communication.of(0, operation="all_gather").calls) for name, run in runs.items()}
operations = {name: run[0] for name, run in runs.items()}
for name in runs:
    print(f"{name:<7}{gathers[name]:>3} all-gathers, {operations[name]:,} floating-point operations")

# %%
if layer_verdict.passed:
    reveal("05.anew", gathers, operations)
else:
    print("Both lines are of the colleague's layer. Mend it, and run these cells again.")

# %% [markdown]
# `FullySharded` and PyTorch's FSDP solve this in another way, which works for any module and needs no `checkpoint`.
# Autograd may keep the *tensor*. But they free the tensor's memory (`untyped_storage().resize_(0)`), and fill it again
# before the unit's backward. `course_lib/parallel/sharded/unit.py` does so: read it if you like.
#

# %% [markdown]
# ## Another optimizer: Muon
#
# Muon ([Jordan et al., 2024](https://kellerjordan.github.io/posts/muon/)) takes the gradient of a matrix, with
# momentum, and computes nearly the nearest orthogonal matrix to it. The singular values of the result are between about
# 0.5 and 1.5. Muon multiplies the result by the learning rate and by a factor for the matrix's shape. Then it subtracts
# that from the weights. (PyTorch's `torch.optim.Muon` also has weight decay, 0.1 unless you say otherwise.)
#
# Somebody shards Muon as you sharded AdamW. Each of four ranks gives `torch.optim.Muon` its own rows of every matrix,
# with the mean gradient of these rows.
#
# **What comes out?**

# %%
### BEGIN SOLUTION
### STUB ask("05.muon")
ask("05.muon").commit("what one device computes")  # "it worked for AdamW"
### END SOLUTION

# %%
config = TransformerConfig(context_length=32, num_layers=4, width=64, num_heads=4)
TOKENS = torch.randint(256, (8, 33), generator=torch.Generator().manual_seed(1))


def make_model():
    torch.manual_seed(0)
    return Transformer(config)


def backward(model, tokens):
    model.zero_grad()
    next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()


def own_part(me):
    """This rank's part of the batch."""
    return TOKENS.chunk(me.world_size)[me.rank].to(me.device)


# %%
def stepped(optimizer_class, weight, gradient):
    """What a first step of ``optimizer_class`` adds to ``weight``."""
    parameter = nn.Parameter(weight.clone())
    parameter.grad = gradient.clone()
    optimizer_class([parameter], lr=0.1).step()
    return parameter.detach() - weight


# %% tags=["nbval-ignore-output"]
model = make_model()
backward(model, TOKENS)
GRADIENTS = {n: p.grad for n, p in model.blocks[0].named_parameters() if p.dim() == 2}


def muon(gradients):
    """The first step of Muon on each of these matrices."""
    return {n: stepped(torch.optim.Muon, torch.zeros_like(g), g) for n, g in gradients.items()}


def muon_on_own_rows(me):
    return muon({n: g.chunk(me.world_size)[me.rank].to(me.device) for n, g in GRADIENTS.items()})


of_one, by_rank = muon(GRADIENTS), list(four.run(muon_on_own_rows))
cosines = {}
for name, update in of_one.items():
    rows = torch.cat([of_rank[name].cpu() for of_rank in by_rank])
    cosines[name] = torch.cosine_similarity(update.flatten(), rows.flatten(), dim=0).item()
    print(f"{name:<22} cosine of one device and four ranks: {cosines[name]:.2f}")

# %% tags=["nbval-ignore-output"]
reveal("05.muon", cosines)

# %% [markdown]
# The factor of `torch.optim.Muon` is the square root of rows / columns where a matrix has more rows than columns, and
# else 1. A shard has fewer rows, so its factor may differ from the whole matrix's factor.
#
# AdamW works number by number, and so does SGD, with momentum or without. Their states can be cut anywhere. Muon needs
# whole matrices, but one rank for each *matrix* is enough: its *owner*. `assign_owners` goes through the matrices, the
# largest first, and gives each to the rank that has the fewest numbers so far. Only the owner gets the mean gradient,
# keeps the momentum and takes the step. Then it sends the new matrix to the other ranks.


# %%
class OwnedMuon:
    """Muon; each matrix has an owner among the ranks, and only its owner keeps momentum for it."""

    def __init__(self, me, matrices, lr):
        self.me, self.matrices = me, list(matrices)
        self.owners = assign_owners([matrix.shape for matrix in self.matrices], me.world_size)
        owned = [m for m, owner in zip(self.matrices, self.owners, strict=True) if owner == me.rank]
        self.muon = torch.optim.Muon(owned, lr=lr)

    @torch.no_grad()
    def step(self):
        for matrix, owner in zip(self.matrices, self.owners, strict=True):
            dist.reduce(matrix.grad, dst=owner)  # the sum, on the owner alone
            matrix.grad /= self.me.world_size
        self.muon.step()
        for matrix, owner in zip(self.matrices, self.owners, strict=True):
            dist.broadcast(matrix, src=owner)


# %%
def matrices_of(model):
    return [parameter for parameter in model.blocks.parameters() if parameter.dim() == 2]


def two_steps(model, optimizer, tokens):
    before = torch.cat([matrix.detach().flatten() for matrix in matrices_of(model)])
    for _ in range(2):
        backward(model, tokens)
        optimizer.step()
    return torch.cat([matrix.detach().flatten() for matrix in matrices_of(model)]) - before


def owned_steps(me):
    model = make_model().to(me.device)
    optimizer = OwnedMuon(me, matrices_of(model), lr=1e-2)
    return two_steps(model, optimizer, own_part(me)), optimizer.owners


model = make_model()
way_of_one = two_steps(model, torch.optim.Muon(matrices_of(model), lr=1e-2), TOKENS)
ways, owners = zip(*four.run(owned_steps), strict=True)
print("matrices of each rank:", dict(sorted(Counter(owners[0]).items())))
print("the four ranks agree to the last bit:", all(torch.equal(way, ways[0]) for way in ways))
cosine = torch.cosine_similarity(way_of_one, ways[0], dim=0).item()
print(f"they went the way of one device, by a cosine above 0.99: {cosine > 0.99}")

# %% [markdown]
# (The cell takes only the matrices of the blocks: Jordan gives embeddings and the last layer to AdamW. It compares only
# by a cosine: Muon computes in bfloat16, where sums in another order differ visibly.) PyTorch's own stage 1,
# `ZeroRedundancyOptimizer`, also gives whole tensors to owners, for every optimizer. The course's `ShardedOptimizer`
# refuses an optimizer that it cannot cut:

# %%
try:
    ShardedOptimizer(None, model.parameters(), torch.optim.Muon)  # it refuses before it needs a rank
except ValueError as error:
    print(error)

# %% [markdown]
# `WholeMatrixOptimizer` is `OwnedMuon` for weights that are shards themselves, as in part 2.
#
# <details>
# <summary>Under which names you find this elsewhere</summary>
#
# - Megatron-LM: `LayerWiseDistributedOptimizer` gives whole matrices to owners among the data-parallel ranks.
# - Megatron-LM: `TensorParallelMuon` is for matrices that tensor parallelism has cut too (lesson 08). Its setting
#   `muon_tp_mode` says how ranks compute with such pieces. With `blockwise` each rank treats its own piece as a matrix.
#   With `duplicated` every rank computes all of it, and with `distributed` ranks share the computing.
# - torchtitan: `DistMuon` uses `flex_shard`, which gives whole matrices to owners in place of rows to every rank.
#
# </details>
#
# ## What you can do now
#
# You can choose the settings of a sharded step for a limit of memory and messages. You have seen how sharding can fail
# without an error: whatever keeps a whole weight takes away what sharding has saved. And before you cut an optimizer,
# you ask what the update of each number depends on.
#
# A limit remains, and it is time. In the middle of its computing a rank has to wait for weights that come over a link.
# [Part 4](05d_links_and_precision.ipynb) measures how much time that costs, and how much of it can be hidden.
#
# **Further reading.** Zhao et al., [PyTorch FSDP: Experiences on Scaling Fully Sharded Data
# Parallel](https://arxiv.org/abs/2304.11277) (2023): how weights are made whole and let go. Jordan et al., [Muon: An
# optimizer for hidden layers in neural networks](https://kellerjordan.github.io/posts/muon/) (2024). Liu et al., [Muon
# is Scalable for LLM Training](https://arxiv.org/abs/2502.16982) (2025): Muon on ranks that share states out.
