# %% [markdown]
# # 04b · DistributedDataParallel: batches, and how much faster
#
# You cut a batch in pieces, deal out a data set, and choose one learning rate for many ranks. You meet a BatchNorm that
# sees a part of the batch. Then you predict the speed-up of n ranks, and find the link on which two ranks are slower
# than one.
#
# **2 × 40 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 2 of 6 · [1: one rule, sent in buckets](04a_distributed_data_parallel.ipynb) · [3: drift, checkpoints and the
# real thing](04c_drift_and_production.ipynb) · [4: build your own](04d_build_ddp.ipynb) · [5: a job on two
# A100](04e_read_a_trace.ipynb) · [6: divide once](04f_divide_once.ipynb)
#
# This part builds on [04a: one rule, sent in buckets](04a_distributed_data_parallel.ipynb). Have you done it? `from
# course_lib import start; start("04b")` says whether you have.
#
# At the end you can
#
# - accumulate gradients and send them once a step;
# - deal a data set out to ranks, and choose batch size, learning rate and BatchNorm for several of them;
# - prove that several ranks take the step of one device, and say when they do not;
# - predict the speed-up of n ranks on a given link, and the link on which two ranks are slower than one;
# - say what data parallelism does not save.
#
# From part 1 you need its rule: after `backward()` every gradient becomes its mean over all ranks, in buckets that
# travel while backward goes on. The course's `DistributedDataParallel` does that. (Once you have built a class of your
# own in part 4, `mine.if_passed` finds it, and it runs beside the course's.)

# %%
from course_lib import Link, Links, ask, check, cost, hint, machine, mine, reveal, shared_cluster, solution
from course_lib.data import digits, loader
from course_lib.meter import MemoryLedger, bytes_text, metered
from course_lib.models import SmallCNN, accuracy
from course_lib.parallel.data import (
    DistributedDataParallel,
    DistributedSampler,
    PacedLayers,
    SyncBatchNorm,
    global_mean,
)
from course_lib.plot import lines
from course_lib.rounding import agree, rounded

import time
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))


# %%
def make_model(seed=0, **options):
    torch.manual_seed(seed)
    return SmallCNN(**{"batch_norm": False, **options})


gradient_bytes = sum(parameter.nbytes for parameter in make_model().parameters())
print(f"the gradients of the CNN: {gradient_bytes / 1024:.0f} KiB")

# %% [markdown]
# ## Accumulating: several pieces, one step
#
# ![Four pieces of a batch go through forward and backward, then comes one step; a question mark after each
# piece](../assets/04_accumulate.png)
#
# A batch too large for a device's memory comes in pieces (micro-batches), as in lesson 01: several backward passes, one
# step of the optimizer.
#
# **Two ranks accumulate 4 pieces for one step, with DDP. How many KiB does each rank send for that step?**

# %%
### BEGIN SOLUTION
### STUB ask("04.pieces")
ask("04.pieces").commit(round(gradient_bytes / 1024))  # "one step, one all-reduce"
### END SOLUTION


# %%
def the_courses(model, me):
    return DistributedDataParallel(me, model)


def accumulate(me, num_pieces, quiet, wrap):
    ddp = wrap(make_model().to(me.device), me)
    x = torch.ones(2, 1, 8, 8, device=me.device)
    for index in range(num_pieces):
        if quiet and index < num_pieces - 1:
            with ddp.no_sync():
                ddp(x).sum().backward()
        else:
            ddp(x).sum().backward()


def all_reduces_of(num_pieces, quiet, wrap=the_courses):
    return metered(two, accumulate, num_pieces, quiet, wrap).communication.of(operation="all_reduce")


# %%
loud = mine.beside(lambda wrap: all_reduces_of(4, False, wrap), the_courses, mine.if_passed("MyDDP"))
reveal("04.pieces", loud["the course's"].sent_bytes(0) / 1024, gradient_bytes, beside=loud)

# %% [markdown]
# <!-- word: `no_sync` | sentences: 2 -->
# Under `with ddp.no_sync():` the hooks do nothing and no gradient is sent. Each rank adds its gradients up, and the
# next backward pass outside of it sends the sum.

# %%
hushed = mine.beside(lambda wrap: all_reduces_of(4, True, wrap), the_courses, mine.if_passed("MyDDP"))
for whose, calls in hushed.items():
    kib = f"{calls.sent_bytes(0) / 1024:.0f} KiB"
    print(f"with no_sync for all but the last{', by yours' if whose == 'yours' else ''}: {kib}")

# %% [markdown]
# Article C, *Multi-GPU training in PyTorch - Deep Dive*, says, in our words: how often gradients are synchronised
# trades speed for accuracy. Here that is not so: `no_sync` with *one* step at the end changes nothing but bytes.
#
# <!-- word: local SGD -->
# In **local SGD** ([Stich, 2018](https://arxiv.org/abs/1805.09767)) each rank takes several *steps* of its own between
# two averages of the weights. There the sentence is true: it is another algorithm, with another result.
#
# ### Fewer bytes for each gradient
#
# Lesson 01 found that under bfloat16 autocast layers compute with half the bytes. **Does mixed precision halve what DDP
# sends?** Think what type a parameter's gradient has, then run the cell.


# %%
def step_in_bfloat16(me, autocast):
    model = make_model().to(me.device)
    model = model if autocast else model.bfloat16()
    ddp = DistributedDataParallel(me, model)
    x = torch.ones(2, 1, 8, 8, device=me.device, dtype=torch.float32 if autocast else torch.bfloat16)
    with torch.autocast(me.device.type, torch.bfloat16, enabled=autocast):
        loss = ddp(x).sum()
    loss.backward()


for autocast, name in ((True, "autocast"), (False, "the whole model in bfloat16")):
    sent = metered(two, step_in_bfloat16, autocast).communication.of(0, operation="all_reduce").sent_bytes(0)
    print(
        f"{name}: {sent / 1024:.0f} KiB for a step; the float32 gradients are {gradient_bytes / 1024:.0f} KiB"
    )

# %% [markdown]
# Autocast keeps float32 parameters, so gradients are float32 and travel as such: activations shrink, traffic does not.
#
# <!-- word: master weights | also: float32 master copy -->
# A model turned to bfloat16 as a whole sends half as many bytes, and learns less exactly: small steps are lost in
# rounding. The usual cure is **master weights**, a copy of all weights in float32, to which the optimizer adds its
# steps.
#
# <!-- word: communication hook | also: comm hook, DDP hook -->
# There is a third way, which leaves the model alone. A **communication hook** is a function that PyTorch's DDP calls
# for each bucket in place of its own all-reduce. `fp16_compress_hook` sends a bucket in float16 and turns the result
# back into the type of the gradients.


# %%
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel as TorchDDP


def step_with_a_hook(me, hook=None):
    ddp = TorchDDP(make_model().to(me.device))
    if hook is not None:
        ddp.register_comm_hook(None, hook)
    ddp(torch.ones(2, 1, 8, 8, device=me.device)).sum().backward()


for name, hook in (("no hook", None), ("fp16_compress_hook", fp16_compress_hook)):
    sent = metered(two, step_with_a_hook, hook).communication.of(0, operation="all_reduce").sent_bytes(0)
    print(f"PyTorch's DDP, {name}: {sent / 1024:.0f} KiB for a step")

# %% [markdown]
# Sums of gradients in 16 bits are less exact, and float16 overflows at 65,504. `bf16_compress_hook`, with the range of
# float32, is the usual choice on GPUs; a PyTorch that was built without NCCL refuses it. A hook may do more:
# [PyTorch's list](https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html) has one that sends a product of two small
# matrices in place of a gradient.
#
# ## Who reads what
#
# ![Ten cards in a shuffled row; every fourth card goes to the same rank; two of the four hands have an empty
# place](../assets/04_sampler.png)
#
# <!-- word: distributed sampler | also: `DistributedSampler` -->
# Every rank needs its own part of the data. And all ranks need the same number of batches, or one rank calls an
# all-reduce that no other rank joins, and the job hangs. A **distributed sampler** deals a data set out: it gives each
# rank the list of the indices that it reads in an epoch.
#
# (Where the numbers must differ, as with streams of text, PyTorch has
# [`Join`](https://docs.pytorch.org/tutorials/advanced/generic_join.html): ranks that have finished answer the others'
# all-reduces with zeros.)
#
# **Ten examples, four ranks. How many examples do the four ranks read in an epoch, together?**

# %%
### BEGIN SOLUTION
### STUB ask("04.reads")
ask("04.reads").commit("10")  # "each gets a unique part"
### END SOLUTION

# %%
from torch.utils.data.distributed import DistributedSampler as TorchSampler

dealt = [list(TorchSampler(range(10), 4, rank, seed=0)) for rank in range(4)]
print("by rank:", dealt)
reveal("04.reads", dealt)

# %% [markdown]
# ### Build: the sampler
#
# Give rank `rank` its indices. All ranks shuffle the same way, by `torch.randperm` with a `torch.Generator` of their
# own, seeded by `seed + epoch`. The order is made long enough by repeating it from its start. Then it is dealt out like
# cards, one to each rank in turn.


# %%
def indices_of(num_items, rank, world_size, epoch, seed):
    """The indices that this rank reads in this epoch, as PyTorch's DistributedSampler would give them."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed + epoch)
    order = torch.randperm(num_items, generator=generator).tolist()
    share = -(-num_items // world_size)  # rounded up
    places = range(rank, share * world_size, world_size)
    return [order[place % num_items] for place in places]
    ### END SOLUTION


# %%
check("04.sampler", indices_of)

# %%
# hint("04.sampler")

# %% [markdown]
# The next cell has three wrong ways, which raise no error, and the right one. It prints what share of the digits four
# ranks read in an epoch, and whether the next epoch is the same.


# %%
NUM = len(digits().train)


def ways(rank, epoch):
    shuffle = partial(torch.randperm, NUM)
    same, own = torch.Generator().manual_seed(epoch), torch.Generator().manual_seed(100 * rank + epoch)
    right, stuck = (DistributedSampler(NUM, rank=rank, world_size=4) for _ in range(2))
    right.set_epoch(epoch)  # and stuck never hears of it
    return {
        "no sampler, same seed": shuffle(generator=same).tolist()[: NUM // 4],
        "no sampler, a seed for each rank": shuffle(generator=own).tolist()[: NUM // 4],
        "sampler, set_epoch forgotten": list(stuck),
        "sampler": list(right),
    }


for name in ways(0, 0):
    epochs = [[ways(rank, epoch)[name] for rank in range(4)] for epoch in range(2)]
    seen = len(set().union(*epochs[0])) / NUM
    print(f"{name:<34} {seen:4.0%} of the digits read; next epoch the same: {epochs[0] == epochs[1]}")

# %% [markdown]
# Without a sampler, ranks that share a seed all train on the same images. The replicas agree, and three of four devices
# work for nothing.
#
# A seed for each rank, without a sampler, is what article C offers as a cure. Then the ranks draw at random: a third of
# the digits is read by nobody in that epoch, while others are read twice or more. The same happens *with* a sampler if
# each rank gives it another `seed=`: then each rank gets every fourth card of another pack.
#
# And `set_epoch` must be called for a new shuffle, as article A says. Without it every epoch has the same order, and
# the same batches.
#
# ## Batch size and learning rate
#
# ![One rank with a batch of 32 takes 45 steps; four ranks with 32 each take 12 steps of 128](../assets/04_batch.png)
#
# <!-- word: global batch | also: effective batch size -->
# `batch_size=32` in a loader is now the batch of *one process*. (`nn.DataParallel` would split the 32.) The **global
# batch** is what all ranks together read in one step: 128 images, where four ranks read 32 each. An epoch then has a
# quarter of the steps.
#
# **One rank learns the digits in five epochs. You start the same script on four ranks, with the same learning rate and
# as many epochs. The accuracy is then...**

# %%
### BEGIN SOLUTION
### STUB ask("04.rate")
ask("04.rate").commit("about the same")  # "data parallelism changes nothing but speed"
### END SOLUTION


# %%
def learn_digits(me, learning_rate, epochs=5):
    train, test = digits()
    model = make_model().to(me.device)
    ddp = DistributedDataParallel(me, model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=learning_rate, momentum=0.9)
    sampler = DistributedSampler(train, rank=me.rank, world_size=me.world_size)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader(train, 32, sampler=sampler):
            optimizer.zero_grad()
            F.cross_entropy(ddp(x.to(me.device)), y.to(me.device)).backward()
            optimizer.step()
    images, labels = (tensor.to(me.device) for tensor in test.tensors)
    with torch.no_grad():
        return accuracy(model(images), labels)


# %% tags=["nbval-ignore-output"]
scores = {
    "1 rank,  learning rate 0.05": one.run(learn_digits, 0.05)[0],
    "4 ranks, learning rate 0.05": four.run(learn_digits, 0.05)[0],
    "4 ranks, learning rate 0.2 ": four.run(learn_digits, 0.2)[0],
    "4 ranks, learning rate 0.8 ": four.run(learn_digits, 0.8)[0],
}
for name, score in scores.items():
    print(f"{name}: {score:.1%} of unseen digits")

# %% tags=["nbval-ignore-output"]
alone, same_rate, *_ = scores.values()
reveal("04.rate", alone, same_rate)

# %% [markdown]
# <!-- word: linear scaling rule -->
# The usual first guess is the **linear scaling rule** ([Goyal et al., 2017](https://arxiv.org/abs/1706.02677)): n times
# the batch, n times the learning rate. The third line above follows it. The second line has lost accuracy against the
# first. Compare how much of it comes back in the third line. In the fourth line the rate is four times as high again:
# see whether the rule still helps there.
#
# <!-- word: learning-rate warm-up | sentences: 2 -->
# <!-- word: critical batch size -->
# Large runs begin with a **learning-rate warm-up**: the rate rises over the first steps. A large rate does most harm at
# the start. And beyond a **critical batch size** a larger batch hardly saves steps: from there on more ranks only need
# more epochs.
#
# <!-- word: throughput -->
# The **throughput** of a job is how many images it reads per second. Data parallelism makes the throughput higher. That
# alone does not mean that the model learns faster.

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above this
# one. In the second sitting you compare two ranks with one device, and predict the speed-up of more.

# %% [markdown]
# ## The same as one device?
#
# Part 1's rule keeps replicas equal. Are they also equal to the model that *one* device would have trained on the whole
# batch? You can test that: take five steps with the same batch, once on one rank and once divided among ranks, and then
# compare all weights. The test uses float64, so that no difference is due to rounding. And it uses SGD, whose steps are
# as wrong as the gradients are. (AdamW divides each gradient by its own size, so one that is three times too large goes
# unnoticed.)
#
# The gradients are averaged by the function that you have written in part 1, if it has passed.

# %% tags=["nbval-ignore-output"]
average_of_part_1 = mine.average_gradients


# %%
def five_steps(me, num_images, prepare=lambda me, model: model, loss_of=None, **options):
    model = prepare(me, make_model(**options).double().to(me.device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images, labels = (tensor[:num_images] for tensor in digits().train.tensors)
    x = images[me.rank :: me.world_size].double().to(me.device)
    y = labels[me.rank :: me.world_size].to(me.device)
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) if loss_of is None else loss_of(me, model(x), y)
        loss.backward()
        average_of_part_1(me, model)
        optimizer.step()
    return torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])


def off_by(ranks, *args, **options):
    alone = one.run(five_steps, *args, **options)[0]
    found = list(ranks.run(five_steps, *args, **options))
    if all(agree(weights, alone, within=1e-10) for weights in found):
        return "no weight off by more than 1e-10"
    furthest = max((weights - alone).abs().max().item() for weights in found)
    return f"a weight is off by {rounded(furthest, 3)}"


# %%
print("batch of 24 on two ranks: ", off_by(two, 24))
print("batch of 24 on four ranks:", off_by(four, 24))
print("batch of 22 on four ranks:", off_by(four, 22))

# %% [markdown]
# The weights are equal where every rank holds the same number of images. With 22 on four ranks two of them hold 6 and
# two hold 5. The mean of four means is not the mean of all, since an image in a short part counts for more.
#
# You met the same in lesson 01, in a batch that comes in pieces. The cure is the same: weigh by the number of items.
# Each rank divides its *sum* of losses by the number of items on all ranks. It multiplies by n, because the average
# will divide by n. The course's `global_mean` does that, with an all-reduce of the counts.


# %%
def weighed(me, logits, labels):
    return global_mean(me, F.cross_entropy(logits, labels, reduction="sum"), len(labels))


print("batch of 22 on four ranks, weighed:", off_by(four, 22, loss_of=weighed))

# %% [markdown]
# So data parallelism gives this model the gradients of one device. Gradient accumulation does so too, but it cuts the
# same batch in time instead of in space. A `DistributedSampler` makes all shares equal, so most programs never meet the
# uneven case. They meet it at the last batch of a validation set, or with sentences of unequal length.

# %% [markdown]
# ## Which batch does BatchNorm see?
#
# ![Eight images on four ranks: a mean of the two images on each rank, or one mean of all
# eight?](../assets/04_batch_norm.png)
#
# <!-- word: BatchNorm | also: batch normalization -->
# All models so far had `batch_norm=False`. A **BatchNorm** layer normalises each channel by its mean and its deviation
# over *the batch*.
#
# **The same test with BatchNorm: 24 images, four ranks, five steps, gradients averaged. Which weights come out?**

# %%
### BEGIN SOLUTION
### STUB ask("04.norm")
ask("04.norm").commit("those of one device")  # "all gradients are averaged"
### END SOLUTION


# %%
plain = off_by(four, 24, batch_norm=True)
weights = four.run(five_steps, 24, batch_norm=True)
all_equal = all(torch.equal(of_rank, weights[0]) for of_rank in weights)
print("BatchNorm, beside one device:", plain)
print("BatchNorm, the four ranks have equal weights:", all_equal)
reveal("04.norm", plain, all_equal)

# %% [markdown]
# <!-- word: SyncBatchNorm | also: synchronized BatchNorm -->
# **SyncBatchNorm** adds up counts, sums and squares over all ranks before it normalises: an all-reduce in each layer,
# forward and backward. PyTorch's own (`nn.SyncBatchNorm.convert_sync_batchnorm(model)`) refuses a CPU, so this one is
# the course's.

# %%
print("SyncBatchNorm:", off_by(four, 24, SyncBatchNorm.convert, batch_norm=True))

# %% [markdown]
# `SyncBatchNorm` is useful, in spite of its messages, when a rank sees few images. Where a rank sees many, most
# programs do without it. With a plain BatchNorm, the running averages that it keeps for evaluation differ between ranks
# as well. DDP sends those of rank 0 to all ranks before each forward pass.
#
# ## How much faster?
#
# ![Above: backward, then one long all-reduce. Below: backward, and beside it the all-reduces of four buckets, the
# last of which ends a little after it](../assets/04_overlap.png)
#
# Which parts of this picture get shorter when more ranks share the work, and which do not?
#
# <!-- word: strong scaling -->
# **Strong scaling**: the same batch is shared by more ranks. Each computes less, and the gradients stay as large as
# they were ([Amdahl, 1967](https://doi.org/10.1145/1465482.1465560)).
#
# <!-- word: weak scaling -->
# **Weak scaling**: each rank gets a batch of the same size, so with more ranks a step does more work ([Gustafson,
# 1988](https://doi.org/10.1145/42411.42415)).
#
# So that you can measure both on any machine, `PacedLayers` is part 1's *paced* model. The messages are real, and each
# layer's computing is a timed wait. It computes for 96 ms on one rank. Its 2 MiB of gradients travel in two buckets,
# over one of two links. The *slow* link has 1 ms latency and 200 MB/s (shaped, as in part 1). The *free* one is this
# machine's own, not slowed down.
#
# **With strong scaling on the slow link, how many times as fast are four ranks as one?**

# %%
### BEGIN SOLUTION
### STUB ask("04.speedup")
ask("04.speedup").commit(4)  # "four times the devices"
### END SOLUTION


# %%
LAYERS = {"num_layers": 8, "layer_bytes": 257 * 1024}
TENSOR_BYTES = [LAYERS["layer_bytes"]] * LAYERS["num_layers"]


def buckets_of(size_bytes):
    return {"bucket_size_bytes": size_bytes, "first_bucket_size_bytes": size_bytes}


# %%
def step_s(me, time_s=0.096, repeats=3, **options):
    """The fastest of some steps of the paced model, which computes for ``time_s``: a third of it forward."""
    layers = PacedLayers(me, **LAYERS, forward_s=time_s / 3, backward_s=time_s * 2 / 3)
    ddp, times_s = DistributedDataParallel(me, layers, **options), []
    for _ in range(repeats):
        dist.barrier()
        start_s = time.perf_counter()
        ddp(torch.ones(1, device=me.device)).sum().backward()
        times_s.append(time.perf_counter() - start_s)
        layers.zero_grad()
    return min(times_s)


def all_reduce_s(size_bytes, num_ranks, link):
    return cost.collective_cost("all_reduce", size_bytes, link, num_ranks=num_ranks).time_s


# %% tags=["nbval-ignore-output"]
slow = Link(latency_s=1e-3, bandwidth_bytes_per_s=200e6)
buckets = buckets_of(4 * 2**18)
share_s = {"strong": lambda n: 0.096 / n, "weak": lambda n: 0.096}


def speedups(kind, links=None):
    """Images per second of 1, 2 and 4 ranks, in those of one rank; paced."""
    times_s = []
    for n, ranks in ((1, one), (2, two), (4, four)):
        with ranks.shaped(links=links if n > 1 else None):
            times_s.append(max(ranks.run(step_s, time_s=share_s[kind](n), **buckets)))
    images = [1, 1, 1] if kind == "strong" else [1, 2, 4]
    return [times_s[0] / time_s * image for time_s, image in zip(times_s, images, strict=True)]


found = {
    (kind, name): speedups(kind, links)
    for kind in share_s
    for name, links in (("free", None), ("slow", Links(slow)))
}
for (kind, name), values in found.items():
    print(f"{kind:>6} scaling, {name} link:", "  ".join(f"{value:.2f}" for value in values), "(paced)")

# %% tags=["nbval-ignore-output"]
SIZES = cost.ddp_buckets(TENSOR_BYTES, bucket_cap_bytes=4 * 2**18, first_bucket_bytes=4 * 2**18)


def curve(kind, counts, link=slow):
    return cost.scaling_curve(
        counts,
        SIZES,
        forward_s=0.032,
        backward_s=0.064,
        all_reduce_time_s=lambda n, size_bytes: all_reduce_s(size_bytes, n, link),
        kind=kind,
    )


reveal("04.speedup", found["strong", "slow"])

# %% tags=["nbval-ignore-output"]
counts = [1, 2, 4, 8, 16, 32]
lines(
    {
        "strong, measured (paced)": ([1, 2, 4], found["strong", "slow"]),
        "strong, model": (counts, [point.speedup for point in curve("strong", counts)]),
        "weak, measured (paced)": ([1, 2, 4], found["weak", "slow"]),
        "weak, model": (counts, [point.speedup for point in curve("weak", counts)]),
        "perfect": (counts, counts),
    },
    x_label="ranks",
    y_label="speed (one rank = 1)",
    title="The same model on a link of 1 ms and 200 MB/s",
    log_y=True,
)

# %% [markdown]
# ![Two stacks of bars: strong scaling shares one batch out, so computing shrinks and communication stays; weak scaling
# gives every rank a whole batch](../assets/04_scaling.png)
#
# Follow the *model's* strong curve beyond four ranks: it turns down. Computing shrinks, while every further rank adds
# two latencies to each all-reduce, until 32 ranks are slower than one. Weak scaling keeps the backward pass, which
# hides most of the communication.
#
# How near your measured points lie depends on your cores. Paced ranks compute nothing, but their messages take time on
# a core. On the free link, too, a message takes the time that this machine needs for it.
#
# <!-- word: straggler | also: slow rank -->
# What about real arithmetic? It needs a core for each rank: a speed-up of ranks that take turns on one core would mean
# nothing. So the next cell takes four ranks, or two where there are fewer cores than four. They share 1,024 images,
# with no link slowed down; of several rounds the fastest counts. A **straggler** is one slow rank, for which all others
# wait in the all-reduce. Where other programs use the cores, any rank may be one.


# %%
def real_step_s(me, num_images, repeats=5):
    model = DistributedDataParallel(me, make_model().to(me.device))
    x = torch.ones(num_images, 1, 8, 8, device=me.device)
    y = torch.zeros(num_images, dtype=torch.long, device=me.device)
    times_s = []
    for _ in range(repeats):
        dist.barrier()
        start_s = time.perf_counter()
        F.cross_entropy(model(x), y).backward()
        times_s.append(time.perf_counter() - start_s)
    return min(times_s)


# %% tags=["nbval-ignore-output"]
workers = max(machine().cores, len(machine().devices))
n, ranks = (4, four) if workers >= 4 else (2, two)
settings = [(one, 1024), (one, 1024 // n), (ranks, 1024 // n)]
rounds = [[max(who.run(real_step_s, images)) for who, images in settings] for _ in range(5)]
alone_real_s, part_s, shared_s = (min(times_s) for times_s in zip(*rounds, strict=True))
print(f"{n} ranks on {workers} cores, real arithmetic: {alone_real_s / shared_s:.2f} times as fast as one")
print(f"if nothing were lost, by one rank that computes a part alone: {alone_real_s / part_s:.2f}")

# %% [markdown]
# What lies between the two numbers is lost to messages, and to waiting for cores. Is the second number larger than n?
# Then a smaller batch computes faster here for each image. Most often the reason is that more of it stays in the
# caches. This is a gain of this machine, and not a rule. On a busy machine the reason may be that other work slowed
# down the large batch. And if the first number is the larger one, other work slowed down the one rank: run the cell
# again.
#
# ### Where two ranks are slower than one
#
# <!-- word: break-even | also: crossover point -->
# A **break-even** is the point at which two ways take just as long, such as one rank and two. Now we make the link
# slower. **At which bandwidth are two ranks no faster than one?** One rank takes 96 ms for the paced step. Two ranks
# compute 48 ms each and exchange 2 MiB, in two buckets, over a link with 1 ms latency.

# %%
### BEGIN SOLUTION
### STUB ask("04.break_even")
ask("04.break_even").commit(5)  # "it must be a very slow link"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
dial = [160e6, 80e6, 50e6, 30e6, 20e6]  # bytes per second
one_rank_s = max(one.run(step_s, **buckets))
two_ranks_s = []
for bandwidth in dial:
    with two.shaped(links=Links(Link(latency_s=1e-3, bandwidth_bytes_per_s=bandwidth))):
        two_ranks_s.append(max(two.run(step_s, time_s=0.048, **buckets)))
    print(
        f"{bandwidth / 1e6:4.0f} MB/s: two ranks {two_ranks_s[-1] * 1e3:4.0f} ms, one {one_rank_s * 1e3:4.0f} ms"
    )

# %% tags=["nbval-ignore-output"]
reveal("04.break_even", one_rank_s, dial, two_ranks_s)

# %% [markdown]
# On many links on which two ranks are still faster than one, they already wait for messages. The cost model also gives
# another break-even, the bandwidth at which the all-reduces take as long as the backward pass that should hide them.
# And a *small* model may have none: when latency alone takes longer than its backward pass, no bandwidth helps.

# %% tags=["computed-time"]
for name, backward_s in (("the paced model", 0.032), ("one that is 50 times as quick", 0.032 / 50)):
    needed = cost.break_even_bandwidth_bytes_per_s(SIZES, num_ranks=2, backward_s=backward_s, latency_s=1e-3)
    rate = f"{needed / 1e6:.0f} MB/s" if needed < float("inf") else "no bandwidth is enough"
    print(f"{name}, two ranks: to hide everything, {rate}")

# %% [markdown]
# Article D is *Training a Model on Multiple GPUs with Data Parallelism*. It says, in our words, that data parallelism
# is not about speed, and may make training slower. That is half of the truth. Data parallelism is there for speed; it
# makes training slower where communication outweighs the computing that it shares out. Very small models train faster
# on one device. Now you can compute beforehand which of the two will happen.

# %% [markdown]
# ## What it does not save
#
# ![Three bars: what a rank holds when there are one, two and four of them. Parameters, gradients and optimizer state
# are as long in each; only the activations shrink](../assets/04_memory.png)
#
# Article D says, in our words, that data parallelism combines several GPUs into one with more memory. Let the ledger of
# lesson 01 decide: a batch of 256 on one, two and four ranks.


# %%
def held(me, batch_size=256):
    model = make_model().to(me.device)
    ddp, optimizer = DistributedDataParallel(me, model), torch.optim.AdamW(model.parameters())
    x = torch.ones(batch_size // me.world_size, 1, 8, 8, device=me.device)
    y = torch.zeros(len(x), dtype=torch.long, device=me.device)
    F.cross_entropy(ddp(x), y).backward()
    optimizer.step()  # AdamW makes its state in the first step
    optimizer.zero_grad()
    with MemoryLedger(model, optimizer, inputs=(x, y), rank=me.rank) as ledger:
        loss = F.cross_entropy(ddp(x), y)
        ledger.mark("after forward")
        loss.backward()
        ledger.mark("after backward")
    state = ledger.marks["after backward"]
    state_bytes = state["parameter"] + state["gradient"] + state["optimizer state"]
    return state_bytes, ledger.marks["after forward"]["activation"]


# %%
for name, ranks in (("1 rank: ", one), ("2 ranks:", two), ("4 ranks:", four)):
    state_bytes, activation_bytes = ranks.run(held)[0]
    print(name, f"state {bytes_text(state_bytes)} on each, activations {bytes_text(activation_bytes)}")

# %% [markdown]
# The state of the model is on every rank, whole. Only activations shrink, with the rank's share of the batch. Four
# devices hold what one device holds, four times. That is the limit which lesson 05 removes.
#
# ## What you can do now
#
# You can accumulate gradients without needless messages, and deal data out so that no example is read twice while
# another one is left out. You know what a batch and a learning rate mean on n ranks. You can say which part of a step n
# ranks share, which part stays, and on which links they are faster than one.
#
# [Part 3](04c_drift_and_production.ipynb) is about what can go wrong, and how the real thing is started.
#
# **Further reading.** Goyal et al., [Accurate, Large Minibatch SGD](https://arxiv.org/abs/1706.02677) (2017), section
# 2: the linear scaling rule and warm-up; section 3: what distributed training gets subtly wrong. McCandlish et al.,
# [An Empirical Model of Large-Batch Training](https://arxiv.org/abs/1812.06162) (2018), section 2: why larger batches
# stop to help. Shallue et al., [Measuring the Effects of Data Parallelism on Neural Network
# Training](https://arxiv.org/abs/1811.03600) (2019): the same, measured.
