# %% [markdown]
# # 08d · Tensor parallelism: the link, two faults, and production
#
# On which link is tensor parallelism faster than one device? You predict the time of a step, measure it, and hide one
# of a region's two sums behind computing. Then you find two faults that raise no error, and cut the same model with
# PyTorch's own functions.
#
# **65 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 4 of 5 · [1: one product, cut](08a_tensor_parallel.ipynb) · [2: a transformer, cut](08b_split_transformer.ipynb)
# · [3: positions, shared out](08c_sequence_parallel.ipynb) · [5: build the
# transformer](08e_build_split_transformer.ipynb)
#
# This part builds on [08a: one product, cut](08a_tensor_parallel.ipynb), [08b: a transformer,
# cut](08b_split_transformer.ipynb) and [08c: positions, shared out](08c_sequence_parallel.ipynb). Have you done them?
# `from course_lib import start; start("08d")` says whether you have.
#
# At the end you can
#
# - say on which link tensor parallelism is faster than one device;
# - hide the sum at a region's entrance, and say why this way does not hide the sum at its exit;
# - find a fault in dropout on several ranks, and one in gathered logits;
# - cut a model by a plan for PyTorch.
#
# From parts 1 to 3 you need the split regions of a transformer block, attention and MLP. Each region has one all-reduce
# at its exit forward, and one at its entrance backward. Four blocks have eight regions, and so sixteen all-reduces.

# %%
from course_lib import Link, Links, ask, check, cost, hint, pace, problems, quiz, reveal, shared_cluster
from course_lib.claims import trial
from course_lib.meter import bytes_text, metered
from course_lib.models import Transformer, TransformerBlock, TransformerConfig, next_token_loss
from course_lib.parallel.data import paced_step_s
from course_lib.parallel.tensor import ColumnParallelLinear, split_block
from course_lib.plot import lines
from course_lib.rounding import agree, rounded

import contextlib
import math
import statistics
import time
from dataclasses import replace

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

# %% tags=["nbval-ignore-output"]
two = shared_cluster(2)

# %%
small = TransformerConfig(vocab_size=256, context_length=32, num_layers=2, width=128, num_heads=4)

# %% [markdown]
# ## How fast must the link be?
#
# ![Above: six regions, each followed by a sum for which everything waits. Below: forward and backward in one go, and
# three sums, two of them beside the backward pass](../assets/08_link.png)
#
# Two cores cannot show two devices at work, so computing is *paced* here. Each rank waits for a set time. A step of
# four blocks takes 160 ms on one device, and 80 ms on each of two ranks. Messages are real, on a *shaped* link. The
# next cell sets its speed:

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
# Data parallelism hides its all-reduce behind the backward pass. In tensor parallelism every rank waits for sixteen
# all-reduces. Does it have to?
#
# ## Hide one sum of two
#
# At a region's exit, forward, the next layer needs the sum *at once*. But look at the entrance, backward. There a rank
# computes two products. One is $dX = dY\,A^T$, which is a summand and goes through the all-reduce. The other is
# $dA = X^T dY$, which needs no other rank, and which is not needed before the optimizer's step. Lesson 07 cut the
# backward pass in these two halves. So a rank computes dX first, begins its all-reduce, computes dA meanwhile, and
# then waits.
#
# The next cells have that entrance together with the product that follows it. Both products are paced.

# %% tags=["computed-time"]
product_s = 0.015
sum_s = cost.collective_cost("all_reduce", stream_bytes, dial, num_ranks=2).time_s
print(f"each product takes {product_s * 1e3:.0f} ms, an all-reduce of dX, by the model, {sum_s * 1e3:.0f} ms")

# %% [markdown]
# **How long does this backward pass take, if the rank begins the all-reduce before it computes dA, and waits for it
# afterwards?**

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ask("08.hidden")
ask("08.hidden").commit(42)  # "two products and a sum"
### END SOLUTION


# %%
class Entrance(torch.autograd.Function):
    """x enters a split region and meets its first matrix: (N, D) times (D/n, D) transposed."""

    @staticmethod
    def forward(ctx, me, x, w, hides):
        ctx.me, ctx.hides = me, hides
        ctx.save_for_backward(x, w)
        return x @ w.T

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        pace(ctx.me, product_s)
        grad_x = grad @ w  # this rank's summand
        summing = dist.all_reduce(grad_x, async_op=True)
        if not ctx.hides:
            summing.wait()
        pace(ctx.me, product_s)
        grad_w = grad.T @ x  # needs nobody
        summing.wait()
        return None, grad_x, grad_w, None


# %%
def backward_pass(me, hides, repeats=5):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(stream_bytes // 4 // model.width, model.width, generator=generator)
    w = torch.randn(2 * model.width, model.width, generator=generator).chunk(me.world_size)[me.rank]
    times_s = []
    for _ in range(repeats):
        mine = x.to(me.device).requires_grad_(), w.to(me.device).clone().requires_grad_()
        h = Entrance.apply(me, *mine, hides)
        dist.barrier()
        start_s = time.perf_counter()
        h.square().sum().backward()
        times_s.append(time.perf_counter() - start_s)
    return statistics.median(times_s), [tensor.grad.cpu() for tensor in mine]


with two.shaped(links=Links(dial)):
    (waits_s, one_by_one), (hides_s, side_by_side) = (two.run(backward_pass, way)[0] for way in (False, True))
print("the same gradients, to within 1e-5:", agree(side_by_side, one_by_one, within=1e-5))

# %% tags=["nbval-ignore-output"]
print(f"it waits at once: predicted {(2 * product_s + sum_s) * 1e3:.0f} ms, measured {waits_s * 1e3:.0f} ms")
hidden_s = product_s + max(product_s, sum_s)
print(f"it waits at the end: predicted {hidden_s * 1e3:.0f} ms, measured {hides_s * 1e3:.0f} ms")
reveal("08.hidden", hides_s, product_s, sum_s)

# %% [markdown]
# ![Above: dX, its sum and dA one after the other. Below: dX, then the sum and dA side by side](../assets/08_hidden.png)
#
# The course's own layers do this (`course_lib/parallel/tensor/overlapped_column_parallel.py`), for all the weights that
# follow one entrance. So does Megatron-LM. On a GPU the all-reduce has to reach the device before the product for dA.
# To keep this order, Megatron-LM needs `CUDA_DEVICE_MAX_CONNECTIONS=1` on GPUs older than Blackwell.
#
# <!-- word: asynchronous tensor parallelism | also: async TP, collective matmul, `_micro_pipeline_tp` -->
# There is a way to hide the sum at the exit, too. **Asynchronous tensor parallelism** cuts a product in pieces and
# sends each piece while the next one is computed. So the sum hides behind its own product ([Wang et al.,
# 2023](https://doi.org/10.1145/3567955.3567959)). PyTorch has it in `torch.compile`, as `_micro_pipeline_tp`. It uses
# memory that GPUs share. The course's runs do not use it.
#
# ## The link at other speeds
#
# The paced regions wait for every sum. The curve *with one of two hidden* is only predicted, and not measured. For it,
# each sum at an entrance hides behind the dA of the matrices there. Those are three of attention's four matrices, and
# one of the MLP's two. (Scores are left out.)

# %%
# attention, MLP: of a region's products backward, those that can stand beside the sum
shares = (3 / 8, 1 / 4)


def hidden_step_s(link):
    region_s = 2 / 3 * step_s / 2 / 8  # the backward pass of one region of eight, on each of two ranks
    sum_s = cost.collective_cost("all_reduce", stream_bytes, link, num_ranks=2).time_s
    saved_s = sum(min(sum_s, share * region_s) for share in shares)
    return tensor_step_s(link) - num_layers * saved_s


# %% tags=["nbval-ignore-output"]
speeds = [4e6 * 2**power for power in range(7)]
at = {speed: replace(dial, bandwidth_bytes_per_s=speed) for speed in speeds}
tried = {speed: measured_s(at[speed]) for speed in speeds[::2]}
curves = {
    "tensor, predicted": (speeds, [tensor_step_s(at[speed]) for speed in speeds]),
    "with one of two hidden": (speeds, [hidden_step_s(at[speed]) for speed in speeds]),
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
# Look at the predicted curves. On slow links all ways take longer than one device, and tensor parallelism takes by far
# the longest. On fast links all take less time than one device. There tensor parallelism takes longer than data
# parallelism mostly because of latency: a step waits for it sixteen times. The measured points are a little above their
# curves on a quiet machine, and further above on a busy one.
#
# From which speed on is tensor parallelism faster than one device? The next cell asks the cost model. It also predicts
# the times of a real block in place of the paced one. The block is 4096 wide, with 2048 tokens in 16-bit numbers, on
# eight large GPUs.


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
sums = cost.block_collectives(large, batch_size=1, itemsize=2)  # four all-reduces, one after the other
# dA of attention's three, of w_up
beside_s = [2 * 2048 * 4096 * count * 4096 / 8 / 400e12 for count in (3, 4)]
print(f"a large block: {computing_s * 1e3:.2f} ms of computing on each of 8 GPUs, and its messages:")
for name in ("nvlink 4", "infiniband ndr"):
    each_s = cost.collectives_time_s(sums, cost.LINKS[name], num_ranks=8) / 4
    left_s = 4 * each_s - sum(min(each_s, one_s) for one_s in beside_s)
    print(f"  {name:<15} {4 * each_s * 1e3:.2f} ms, {left_s * 1e3:.2f} ms of it when two sums hide")

# %% [markdown]
# <!-- word: NVLink domain | also: scale-up domain -->
# By the model, the messages take less time than the computing if NVLink joins all eight GPUs. Over the network they
# take several times as much. An **NVLink domain** is the set of GPUs that reach each other over NVLink. In most
# machines these are the eight GPUs of the machine. In a rack such as the GB200 NVL72 they are 72 GPUs, in eighteen
# machines of four. Because of these times, tensor parallelism stays inside a domain.
#
# Data parallelism sends less, and hides what it sends. But it *cannot* do two things: hold a layer that is too large
# for a device, and make a batch of one sample faster. Tensor parallelism does both. And the wider a layer is, the more
# it computes for each number that it sends.
#
# ## Clinic 3: dropout that does too little
#
# *Symptom.* A team trains a model with dropout inside the MLP. The ranks agree, and there is no error. On four ranks
# the model overfits more than on one rank. **Why does dropout help less?**

# %%
### BEGIN SOLUTION
### STUB ask("08.seeds")
ask("08.seeds").commit("dropout must not stand in a split region")
### END SOLUTION

# %% [markdown]
# *Evidence.* The set-up says `torch.manual_seed(0)` on every rank, "so that all begin alike". The next cells count
# which hidden units are dropped in 2000 draws. Unit 0 of rank 0 and unit 0 of rank 1 are two different units of the
# layer.


# %%
def masks(me, drawing):
    region = ColumnParallelLinear(me, nn.Linear(4, 8)).region  # a split layer knows its region
    torch.manual_seed(0)
    kept = []
    for _ in range(2000):
        with drawing(region):
            kept.append(F.dropout(torch.ones(4), 0.5) > 0)
    outside = F.dropout(torch.ones(6), 0.5) > 0  # for the residual stream, which all ranks share
    return torch.stack(kept), outside


def report(drawing):
    (first, outside), (second, other) = two.run(masks, drawing)
    shares = [rounded(100 * kept[:, 0].double().mean(), -1) for kept in (first, second)]
    both = rounded(100 * (first[:, 0] == second[:, 0]).double().mean(), -1)
    print(f"unit 0 kept: about {shares[0]}% on rank 0, {shares[1]}% on rank 1")
    print(f"both kept or both dropped: {both}% of the draws")
    print("outside the region the masks are the same:", torch.equal(outside, other))


report(contextlib.nullcontext)  # as they are drawn now

# %%
reveal("08.seeds")

# %% [markdown]
# ![Above: two ranks drop hidden units by the same mask. Below: each by a mask of its own](../assets/08_masks.png)
#
# <!-- word: RNG tracker | also: RNG state tracker, `CudaRNGStatesTracker` | sentences: 2 -->
# The fix is one line: draw inside `own_random_numbers(region)`. Inside this `with` block each rank's generator is
# seeded with a common number plus the rank's place. After the block the generator is back in the state that all ranks
# share. An **RNG tracker**, such as Megatron-LM's, keeps the states of several random generators. Inside a split region
# it switches to a generator that each rank has for itself.

# %%
from course_lib.parallel.tensor import own_random_numbers

report(own_random_numbers)

# %% [markdown]
# ## Clinic 4: right for one position
#
#
# *Symptom.* For sampling, a colleague wants all logits on every rank. With one prompt of one position the text is
# right. With several prompts at once each text looks plausible, but fits none of the prompts. There is no error, the
# shape is right, and all ranks agree. **What is wrong with the logits?**

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
# *Evidence.* The next cells use a model whose logits show where they come from: each is ten times its position, plus
# its token.

# %%
WEIGHTS = torch.tensor([[1.0, token] for token in range(4)])  # (V, D); h is [10 position, 1]


def part_of_weights(me):
    return WEIGHTS.chunk(me.world_size)[me.rank].to(me.device)  # (V/n, D)


def evidence_of_logits(gather):
    for num_positions in (1, 2):
        h = torch.tensor([[10.0 * position, 1.0] for position in range(num_positions)])
        got = two.run(lambda me, h=h: gather(me, h.to(me.device), part_of_weights(me)))[0]
        print(f"of length {num_positions}: wanted {F.linear(h, WEIGHTS).int().tolist()}")
        print(f"{'got':>19} {got.int().tolist()}")


evidence_of_logits(colleagues_logits)

# %%
reveal("08.gather")

# %% [markdown]
# ![Two tables of logits side by side: what is wanted, with the positions one below the other, and what came, with
# numbers in other places](../assets/08_gather.png)
#
# Mend it.


# %%
def mended_logits(me, h, w_vocab):
    """h (N, D), w_vocab (V/n, D): this rank's tokens -> (N, V)."""
    mine = F.linear(h, w_vocab)  # (N, V/n)
    parts = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(parts, mine)
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend the one below")
    ### STUB return torch.cat(parts).view(len(h), -1)
    return torch.cat(parts, dim=1)
    ### END SOLUTION


# %%
logits_verdict = check("08.logits", mended_logits)

# %%
# hint("08.logits")

# %%
evidence_of_logits(mended_logits if logits_verdict.passed else colleagues_logits)

# %% [markdown]
# ## In production
#
# Article B, *4 Strategies for Multi-GPU Training*, says in the course's words: *tensor parallelism is already built
# into the standard operations of PyTorch.* **Which verdict do you expect?**

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
# <!-- word: `parallelize_module` | sentences: 2 -->
# A **DTensor** is a tensor that is spread over ranks and knows its placement. You write a plan, and PyTorch's
# `parallelize_module` turns the weights of a module into DTensors as the plan says. Autograd and collectives follow
# from the placements.
#
# The next cells cut the blocks of the same transformer in both ways:


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
print("losses equal to within 1e-5:", agree(*(run[0][0] for run in runs.values()), within=1e-5))

# %% tags=["nbval-ignore-output"]
for name in ("the course", "DTensor", "the course", "DTensor"):
    step_time_s = max(time_s for _, time_s in two.run(train_by, cutters[name], 8))
    print(f"{name:<11} {step_time_s * 1e3:6.1f} ms a step")

# %% [markdown]
# With two blocks, four all-reduces in each, and three steps, both ways have the same calls, the same bytes and the same
# losses. You derived the collectives of one operator. DTensor derives those of *every* operator. The times show what
# that costs for a small model.
#
# | you wrote | elsewhere |
# |---|---|
# | `Gate` | autograd of a DTensor's placements; Megatron-LM's `copy_to_...` and `reduce_from_...` |
# | `split_mlp`, `split_attention` | PyTorch's `ColwiseParallel`, `RowwiseParallel`, `parallelize_module` |
# | `split_embedding` | `RowwiseParallel(input_layouts=Replicate())` on an `nn.Embedding`; `VocabParallelEmbedding` |
# | `split_loss` | `loss_parallel()`, with logits left cut; `vocab_parallel_cross_entropy` |
# | `AlongGate`, `mended_positions` | `SequenceParallel` for norms, `PrepareModuleInput` at the gates |
# | `Entrance` | Megatron-LM's `LinearWithGradAccumulationAndAsyncCommunication`; async TP in `torch.compile` |
# | own random numbers | DTensor's random operators; Megatron-LM's RNG tracker |
#
# For a model of your own, `parallelize_module` needs the least code. Large trainers use code of their own. Megatron-LM
# has its own layers. (Since 2026 the core of torchtitan, PyTorch's example of a large trainer, calls neither
# `parallelize_module` nor `loss_parallel`; as of August 2026.)
#
# ## Five questions

# %% tags=["computed-time"]
quiz("08")

# %% [markdown]
# ## What you can do now
#
# You can cut a product in any way and say what ranks send. You have written the gates, the MLP, the heads, the table of
# tokens and the loss of a split transformer. You have shared out by positions the tensors between the regions. You can
# find a forgotten gate by the place from which on gradients are wrong. You know what equal seeds do to dropout, and you
# check each `view` after a gather.
#
# **The limit.** All ranks wait for at least half of the sums, so tensor parallelism needs the fastest link. That link
# joins only the GPUs of an NVLink domain: mostly eight, and 72 in some racks. A large job has thousands of GPUs.
# Between domains it needs ways that send less: pipelines and replicas. Lesson 09 arranges ranks in a *mesh* and gives
# each way of cutting an axis of its own.
#
# **Further reading.** Narayanan et al., [Efficient Large-Scale Language Model Training on GPU
# Clusters](https://arxiv.org/abs/2104.04473) (2021), section 3: which way of cutting goes on which link. Wang et al.,
# [Overlap Communication with Dependent Computation via
# Decomposition](https://doi.org/10.1145/3567955.3567959) (2023). PyTorch's [tutorial of tensor
# parallelism](https://docs.pytorch.org/tutorials/intermediate/TP_tutorial.html).

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. The next cell shows problems of the size of real jobs, on real chips,
# for a pencil and a calculator. The answer to each is one number; it may be off by 5 %. You get numbers of your own,
# and new ones for each further try. When a problem is over, you see the way step by step, and where each constant comes
# from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("08")
problems("08", ways=True)
### END SOLUTION
