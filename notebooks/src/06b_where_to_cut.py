# %% [markdown]
# # 06b · Model parallelism: where to cut
#
# Where do you cut a model: where the parameters are halved, or the memory, or the time, or where the fewest bytes
# cross? You compare all four cuts, write a function that finds the best one, and ask whether you need a cut at all. You
# also find out why a cut model trained differently from the uncut one.
#
# **75 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 2 of 2 · [1: there and back](06a_model_parallel.ipynb)
#
# This part builds on [06a: there and back](06a_model_parallel.ipynb). Have you done it? `from course_lib import start;
# start("06b")` says whether you have.
#
# At the end you can
#
# - measure the pieces of a model in four ways, and choose a cut by what your devices have too little of;
# - cut a row of costs in parts as evenly as can be, exactly;
# - name ways to fit a model into less memory that need no second device;
# - find out from losses and gradients why a model that was cut trains differently, and mend it;
# - run the same parts with `torch.distributed.pipelining`.
#
# From part 1 you need what crosses a cut: an activation to the right, and its gradient, as large, to the left. A batch
# goes through the parts one after the other, so one rank computes and the others wait. The course's `ModelParallel`
# does that: `ModelParallel(me, parts).forward_backward(x, y, loss_of)` runs forward and backward of one batch.

# %%
from course_lib import Link, Links, ask, check, hint, problems, quiz, reveal, shared_cluster
from course_lib.claims import verdicts
from course_lib.cluster import exchange, recv, send
from course_lib.data import documentation_windows, loader
from course_lib.meter import MemoryLedger, bytes_text
from course_lib.models import VGG, Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.model import (
    ModelParallel,
    crossing_costs,
    cut,
    memory_costs,
    parameter_costs,
    split_evenly,
    time_costs,
)
from course_lib.plot import memory_bars
from course_lib.rounding import agree, rounded

import statistics
import time
from dataclasses import replace

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))

# %% [markdown]
# ## Where to cut
#
# ![A row of thirteen pieces, ten convolutions and three linear layers. Above each its share of the parameters, most of
# it in the linear layers; below its share of the memory, largest at both ends; under each gap between two pieces the
# bytes that would cross it, fewer to the right](../assets/06_where.png)
#
# In a transformer, all blocks are alike. In a network for images, layers differ. At its start pictures are large and
# channels few; at its end pictures are small and channels many. A VGG ([Simonyan and Zisserman,
# 2014](https://arxiv.org/abs/1409.1556)) is an extreme case: first convolutions, then three linear layers. The VGG of
# this page is small. It has thirteen pieces, and so twelve places to cut it in two.
#
# `split_evenly` finds the cut whose larger part is as small as possible. By *memory* we mean what training keeps for a
# piece: weights, gradients, the state of AdamW, and the activations of this batch.

# %%
torch.manual_seed(0)
vgg = VGG((2, 2, 3, 3), width=8, hidden=512, num_classes=10, image_size=32)
images, labels = torch.randn(32, 3, 32, 32), torch.arange(32) % 10
costs = {"parameters": parameter_costs(vgg), "memory": memory_costs(vgg, images)}
cuts = {name: split_evenly(cost, 2) for name, cost in costs.items()}
for name, cost in costs.items():
    print(f"{name:<10}", "  ".join(f"{100 * one_cost / sum(cost):4.1f}%" for one_cost in cost))
    print(f"{'':<10} cut in two:", [len(part) for part in cuts[name]], "pieces")

# %% [markdown]
# A team cuts the VGG in two by parameters, as evenly as possible. **What share of the computing does rank 0 then do?**

# %%
### BEGIN SOLUTION
### STUB ask("06.lopsided")
ask("06.lopsided").commit(50)  # "evenly is evenly"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
costs["time"] = one.run(lambda me: time_costs(vgg.to(me.device), images.to(me.device), repetitions=15))[0]
cuts["time"] = split_evenly(costs["time"], 2)
print("time      ", "  ".join(f"{100 * one_cost / sum(costs['time']):4.1f}%" for one_cost in costs["time"]))
print("           cut in two:", [len(part) for part in cuts["time"]], "pieces")

# %% tags=["nbval-ignore-output"]
reveal("06.lopsided", costs["time"], cuts["parameters"], vgg, images)

# %% [markdown]
# ### A fourth way
#
# <!-- word: communication volume | also: bytes on the wire, traffic -->
# Parameters, memory and time belong to a piece. The fourth measure belongs to a *gap* between two pieces. The
# **communication volume** of a cut is how many bytes cross it in a step, to the right and to the left. The cut by bytes
# is in the gap that the fewest bytes cross.

# %%
crossing = crossing_costs(vgg, images)
place = crossing.index(min(crossing)) + 1
cuts["bytes"] = [range(place), range(place, len(crossing) + 1)]
print("KiB over each gap, one way:", [size_bytes // 1024 for size_bytes in crossing])
print("cut in two:", [len(part) for part in cuts["bytes"]], "pieces")

# %% [markdown]
# There are four cuts, each the best by its own measure. **Which of them is the worst by all three other measures?** Go
# along the row of the picture, from left to right. Ask for each measure where a cut would be worst.

# %%
### BEGIN SOLUTION
### STUB ask("06.ways")
ask("06.ways").commit("the cut by parameters")
### END SOLUTION


# %% tags=["nbval-ignore-output"]
def larger_part(cost, ranges):
    return max(sum(cost[i] for i in part) for part in ranges) / sum(cost)


table = {
    by: {name: larger_part(cost, ranges) for name, cost in costs.items()}
    | {"bytes": crossing[len(ranges[0]) - 1]}
    for by, ranges in cuts.items()
}
print("             of all, the larger part has in    bytes that cross")
print("the cut by   parameters    memory      time             one way    pieces")
for by, row in table.items():
    shares = "".join(f"{row[name]:>10.0%}" for name in costs)
    sizes = " + ".join(str(len(part)) for part in cuts[by])
    print(f"{by:<13}{shares}{bytes_text(row['bytes']):>20}    {sizes}")

# %% tags=["nbval-ignore-output"]
reveal("06.ways", table)

# %% [markdown]
# No cut is the best by all measures. So ask what each measure *means* for your job. Memory is a limit. A cut far below
# the limit is no better for it, and a cut above the limit does not run. Time and bytes are costs, and both are seconds
# once you know your link.
#
# First look at memory. The next cells run the four cuts on two ranks, with AdamW, and show each rank's peak by the
# ledger.


# %%
def peak_of_a_step(me, parts, x, y, loss_of):
    model = ModelParallel(me, parts)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):  # in the second step the optimizer has its state
        with MemoryLedger(model.part, optimizer, inputs=(x, y), rank=me.rank) as ledger:
            model.forward_backward(x, y, loss_of)
            optimizer.step()
            optimizer.zero_grad()
    return ledger.peak()


# %% tags=["nbval-ignore-output"]
bars = {}
for by, ranges in cuts.items():
    for peak in two.run(peak_of_a_step, cut(vgg, ranges), images, labels, cross_entropy):
        bars[f"by {by}, rank {peak.rank}"] = peak
memory_bars(bars, title="The same model, cut in four places")

# %% [markdown]
# Compare the fuller ranks: here the cut by memory is not the best one, even by memory. The memory cost of a piece *adds
# up* all that a step holds for it, but a peak is one moment. On rank 1 of that cut the peak is in the optimizer's step:
# the activations are gone, and AdamW needs memory for its computing (*other*). On rank 0 the peak is when it keeps most
# activations. So such a cost is a forecast, and the ledger measures.
#
# Now look at time. Here one rank computes at a time. **With which cut is a step the quickest: on this machine's link,
# and on a link of 10 MB/s?** Decide before you run the cell.


# %%
def quickest_step_s(me, parts, num_steps=8):
    model, times_s = ModelParallel(me, parts), []
    for _ in range(num_steps):
        dist.barrier()
        start_s = time.perf_counter()
        model.forward_backward(images, labels, cross_entropy)
        times_s.append(time.perf_counter() - start_s)
    return min(times_s)


# %% tags=["nbval-ignore-output"]
times_s = {by: {"own": [], "slow": []} for by in cuts}
for by, ranges in list(cuts.items()) * 3:  # in turns, so that a busy moment of the machine hits no cut alone
    times_s[by]["own"].append(two.run(quickest_step_s, cut(vgg, ranges))[0])
    with two.shaped(links=Links(Link(bandwidth_bytes_per_s=10e6))):
        times_s[by]["slow"].append(two.run(quickest_step_s, cut(vgg, ranges))[0])
print("the cut by   this machine's link      10 MB/s")
for by, its in times_s.items():
    print(f"{by:<13}{min(its['own']) * 1e3:>16.0f} ms{min(its['slow']) * 1e3:>10.0f} ms")

# %% [markdown]
# <!-- word: naive model parallelism | sentences: 2 -->
# In **naive model parallelism** one device computes at a time, and together they do all of the computing. So the
# computing takes equally long wherever you cut. A cut changes only the bytes that cross it, so *bytes* decide, as far
# as memory allows. On a fast link the difference is smaller than the noise. On a busy machine that can be so on a slow
# link as well. But the cut with the most bytes is clearly slower there: most of its step is sending.
#
# <!-- word: load balance | also: load balancing, load imbalance -->
# In a pipeline (lesson 07) all devices compute at once and wait for the slowest. Then *time* decides: the **load
# balance** of a cut is good when no device has much more to do, or to hold, than the others.
#
# [PipeDream](https://doi.org/10.1145/3341301.3359646) (Narayanan et al., 2019, section 3.1) puts the two together. It
# measures each layer's time and the bytes of its output, and turns bytes into seconds by the link's bandwidth. Then it
# cuts so that the slowest *stage or link* is as quick as possible. *Parameters* alone are a fair guess if blocks are
# alike, and weights and optimizer states need most of the memory. Large language models with small batches are of this
# kind.
#
# ### Build: the best cut
#
# <!-- word: linear partition | also: chains-on-chains partitioning | sentences: 2 -->
# Your function gets what each piece costs, and the number of parts. It returns how many pieces each part gets, so that
# the costliest part costs as little as possible. Find the exact answer: models have few pieces. The problem is known as
# **linear partition**. It cuts a row of costs into a given number of runs, so that the costliest run costs as little as
# possible.


# %%
def cut_evenly(costs, num_parts):
    """How many neighbouring pieces each part gets: a list of ``num_parts`` numbers of at least 1."""
    ### BEGIN SOLUTION
    if num_parts == 1:
        return [len(costs)]
    best, best_largest = [], float("inf")
    for first in range(1, len(costs) - num_parts + 2):
        sizes, begin, largest = [first, *cut_evenly(costs[first:], num_parts - 1)], 0, 0
        for size in sizes:
            largest = max(largest, sum(costs[begin : begin + size]))
            begin += size
        if largest < best_largest:
            best, best_largest = sizes, largest
    return best
    ### END SOLUTION


# %%
cut_verdict = check("06.cut", cut_evenly)

# %%
# hint("06.cut")

# %%
if cut_verdict.passed:
    print("by memory, in 2, 3 and 4 parts:", [list(cut_evenly(costs["memory"], n)) for n in [2, 3, 4]])

# %% [markdown]
# Trying everything is quick for thirteen pieces and three cuts, and hopeless for a hundred pieces and sixteen stages.
# `split_evenly` in `course_lib/layouts/linear_partition.py` keeps partial results and uses them again (a dynamic
# programme). [Pinar and Aykanat](http://www.cs.bilkent.edu.tr/~aykanat/papersAbs/04JPDCabs.html) (2004) compare exact
# ways; their name for the problem is *chains-on-chains partitioning*.
#
# ## Is it necessary?
#
# Article A (*How can a single model be trained using multiple GPUs?*) says, in the course's words, that model
# parallelism is necessary when the model does not fit on one device. Say your device has half of the memory that the
# uncut step of a transformer needs. Cutting the model is one way. Two ways from lesson 01 need no second device.
# Activation checkpointing recomputes activations in the backward pass. Gradient accumulation computes the batch in
# small pieces, one after the other.
#
# **Which of the three ways fit into half of the memory?**

# %%
config = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
text, _ = documentation_windows(config.context_length)
batches = [batch for batch, _ in zip(loader(text, 16), range(4), strict=False)]


def make_parts(num_parts, **settings):
    torch.manual_seed(0)  # every rank that calls this makes the same weights
    model = Transformer(TransformerConfig(**{**vars(config), **settings}))
    return cut(model, split_evenly(parameter_costs(model), num_parts))


# %%
from torch.utils.checkpoint import checkpoint


def recomputing(model, x):
    for name in model.names:
        x = checkpoint(model.get_submodule(name), x, use_reentrant=False)
    return x


def peak_on_one_device(forward, num_pieces=1):
    model = make_parts(1)[0]
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        with MemoryLedger(model, optimizer, inputs=batches[0]) as ledger:
            for x, y in zip(*(tensor.chunk(num_pieces) for tensor in batches[0]), strict=True):
                scores = forward(model, x)
                (next_token_loss(scores, y) / num_pieces).backward()
            optimizer.step()
            optimizer.zero_grad()
    return ledger.peak()


# %% tags=["nbval-ignore-output"]
uncut = peak_on_one_device(lambda model, x: model(x))
in_four = four.run(peak_of_a_step, make_parts(4), *batches[0], next_token_loss)
ways = {
    "one device": uncut,
    "cut in four, fullest rank": max(in_four, key=lambda peak: peak.total_bytes),
    "one device, recomputing": peak_on_one_device(recomputing),
    "one device, batch in 4 pieces": peak_on_one_device(lambda model, x: model(x), num_pieces=4),
}
memory_bars(ways, limit_bytes=uncut.total_bytes // 2, title="Ways to fit in half of the memory")

# %% [markdown]
# Two of the ways that fit use one device. But neither of these two reduces parameters, gradients and optimizer state.
# If *those* are too large, you shard them (lesson 05), move them out of the device (offload), or cut the model. Cutting
# is one way of several, and you saw its price in part 1: devices that wait.
#
# ## Clinic: the model that learns a little worse
#
# *Symptom.* A team cuts a transformer in two: stem and two blocks on rank 0, two blocks and head on rank 1. There is no
# error, and the losses fall. The loss of step 0 is that of the uncut model; from step 1 on the losses differ. The team
# reports the following. Both ranks call `torch.manual_seed(0)`. They send activations and gradients in float32. Each
# rank has an optimizer of its own, plain SGD. And the model has `tied=True`: the stem looks tokens up in a matrix, and
# the head scores tokens with the same matrix.
#
# **Why does the cut model train differently?** Answer before you look at the evidence.

# %%
### BEGIN SOLUTION
### STUB ask("06.worse")
ask("06.worse").commit("the ranks began with different weights")
### END SOLUTION

# %% [markdown]
# The next cells run the team's training, and print for each step what the two ranks hold:


# %%
def train_tied(me, after_backward, num_steps=4):
    model = ModelParallel(me, make_parts(me.world_size, tied=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    first, last = 0, me.world_size - 1
    name = {first: "stem.tokens.weight", last: "head.w_vocab.weight"}.get(me.rank)
    weight = dict(model.part.named_parameters(remove_duplicate=False))[name] if name else None
    rows = []
    for x, y in batches[:num_steps]:
        optimizer.zero_grad()
        loss = model.loss(next_token_loss, model(x), y)
        loss.backward()
        if weight is not None and last != first:
            after_backward(me, weight, last - me.rank)
        optimizer.step()
        if weight is not None:
            rows.append((loss.item(), weight.detach().clone(), weight.grad.norm().item()))
    return rows


# %%
def print_evidence(run, uncut):
    print(
        "step   uncut loss   cut loss   copies differ by   size of the gradient: uncut, first copy, second copy"
    )
    for step, (whole, start, end) in enumerate(zip(uncut, run[0], run[-1], strict=True)):
        losses = f"{rounded(whole[0], 1):>10}   {rounded(end[0], 1):>8}"
        apart = rounded((start[1] - end[1]).abs().max(), 3)
        norms = "   ".join(rounded(norm, 2) for _, _, norm in (whole, start, end))
        print(f"{step:>4}   {losses}   {apart:>16}   {norms}")


# %%
uncut_rows = one.run(train_tied, None)[0]
sick = list(two.run(train_tied, lambda me, weight, other: None))
print_evidence(sick, uncut_rows)

# %%
reveal("06.worse")

# %% [markdown]
# ### Mend it
#
# ![A row of pieces over two ranks. The stem on rank 0 and the head on rank 1 hold the same matrix, drawn
# twice](../assets/06_tied.png)
#
# Write the function that both ranks call after the backward pass and before the optimizer's step. `weight` is this
# rank's copy, and `other` is the rank that has the other copy. Ranks in between have no copy, and do not call your
# function. One message in each direction is enough.


# %%
def after_backward(me, weight, other):
    """Make ``weight.grad`` on both ranks what the uncut model's matrix would have."""
    ### BEGIN SOLUTION
    theirs = torch.empty_like(weight.grad)
    exchange([send(weight.grad, other), recv(theirs, other)])
    weight.grad += theirs
    ### END SOLUTION


# %%
tied_verdict = check("06.tied", after_backward)

# %%
# hint("06.tied")

# %%
if tied_verdict.passed:
    print_evidence(list(two.run(train_tied, after_backward)), uncut_rows)

# %% [markdown]
# Copies that begin equal and get the same gradients stay equal, to the last bit. `ModelParallel` finds tied parameters
# by itself, and its `sum_tied_gradients()` sums their gradients.
#
# ## In production
#
# Production code uses
# [`torch.distributed.pipelining`](https://docs.pytorch.org/docs/stable/distributed.pipelining.html). It manages parts,
# messages and the order of work, for the pipelines of lesson 07. There a part is called a *stage*, and the order of
# work a *schedule*. With *one* micro-batch, which is the whole batch, it does what you built. The next cells give it
# the same parts and the same batch:


# %%
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def both_ways(me):
    """Our step and PyTorch's as functions, and the parts that they train."""
    if me.backend == "gloo":  # by which PyTorch's stages send nothing that lies on a GPU
        me = replace(me, device=torch.device("cpu"))
    (x, y), is_first, is_last = batches[0], me.rank == 0, me.rank == me.world_size - 1
    ours = ModelParallel(me, make_parts(me.world_size))
    theirs = make_parts(me.world_size)[me.rank].to(me.device)
    x, y = x.to(me.device), y.to(me.device)
    stage = PipelineStage(theirs, me.rank, me.world_size, me.device)
    schedule = ScheduleGPipe(stage, n_microbatches=1, loss_fn=next_token_loss)
    steps = {
        "ours": lambda: ours.forward_backward(x, y, next_token_loss),
        "torch.distributed.pipelining": lambda: schedule.step(*[x] * is_first, target=y if is_last else None),
    }
    return steps, ours.part, theirs


# %%
def gradients_agree(me):
    steps, ours, theirs = both_ways(me)
    for step in steps.values():
        step()
    grads = [[parameter.grad for parameter in part.parameters()] for part in (ours, theirs)]
    return agree(*grads, within=1e-5)


print("gradients agree to within 1e-5 on every rank:", all(two.run(gradients_agree)))


# %% tags=["nbval-ignore-output"]
def times_of_both(me, repeats=7):
    steps, _, _ = both_ways(me)
    times_s = {name: [] for name in steps}
    for name in list(steps) * repeats:
        dist.barrier()
        start_s = time.perf_counter()
        steps[name]()
        times_s[name].append(time.perf_counter() - start_s)
    return {name: statistics.median(mine[1:]) for name, mine in times_s.items()}  # the first warms up


for name, time_s in two.run(times_of_both)[0].items():
    print(f"{name:<30} {time_s * 1e3:6.1f} ms a step")

# %% [markdown]
# | you wrote | production code uses |
# |---|---|
# | `.to(device)` between parts | the same; for inference, loaders that place layers by a *device map* |
# | `there_and_back` | `PipelineStage` and a schedule such as `ScheduleGPipe` |
# | room of a known shape | shapes found in the first step, and kept (shape inference) |
# | `cut_evenly` | most often by hand, or evenly by blocks; you can do better |
# | `after_backward` | an all-reduce in a group of first and last rank; *every* rank calls `new_group` to make it |
#
# ## Five sentences, tried
#
# The articles make five statements about the subject of this lesson. In the next cell the course tests each one by runs
# of its own, and prints its verdicts. `print(trial("B2").run())` shows the numbers of one test, after `from
# course_lib.claims import trial`. Do you agree with all five verdicts?

# %% tags=["nbval-ignore-output"]
print(verdicts("A3", "A9", "A10", "B2", "E13"))

# %% [markdown]
# ### Five questions

# %% tags=["computed-time"]
quiz("06")

# %% [markdown]
# ## What you can do now
#
# You can choose a cut by memory, time or bytes, and find the best one exactly. You can say when no cut is needed. And
# you know that a tied tensor becomes two tensors when a cut separates its two places.
#
# **The limit.** A cut saves memory and costs time: while one device computes, all others wait. In that time they could
# compute other pieces of the batch. Lesson 07 cuts the batch in pieces, and sends them through the parts one after the
# other.
#
# **Further reading.** Huang et al., [GPipe](https://arxiv.org/abs/1811.06965) (2019), section 2 and figure 2: the
# staircase, and what to do about it. Narayanan et al., [PipeDream](https://doi.org/10.1145/3341301.3359646) (2019),
# section 3.1: a cut found by profile and dynamic programme. Shoeybi et al.,
# [Megatron-LM](https://arxiv.org/abs/1909.08053) (2019), section 3: the other way to cut, inside a
# layer, for lesson 08.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. The next cell shows problems of the size of real jobs, on real chips,
# for a pencil and a calculator. The answer to each is one number; it may be off by 5 %. You get numbers of your own,
# and new ones for each further try. When a problem is over, you see its solution step by step, and where each constant
# comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("06")
problems("06", ways=True)
### END SOLUTION
