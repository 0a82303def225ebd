# %% [markdown]
# # 04 · DistributedDataParallel
#
# Four processes train one model, each on its part of the batch, and are to end with the weights that one device would
# have found. You find out what that takes and write it, let it hide behind the backward pass, and see where more ranks
# make a job slower.
#
# **90 minutes · difficulty 3 of 5 · needs: cpu**
#
# At the end you can
#
# - say what has to travel in data parallelism, how often and how many bytes, and prove equality with one device;
# - pack gradients into buckets and send them while the backward pass goes on, and choose a size for them;
# - deal a data set out to ranks, and choose batch size, learning rate and BatchNorm for several of them;
# - predict the speed-up of n ranks on a given link, and the link on which two ranks lose to one;
# - test whether replicas are still equal, write a checkpoint that survives a crash, and start the real thing by
#   `torchrun`.
#
# <!-- word: `DistributedDataParallel` | also: DDP -->
# [Lesson 02](02_collectives.ipynb) built the all-reduce. [Lesson 03](03_data_parallel.ipynb) shared a batch inside
# *one* process, whose threads wait for each other. In **`DistributedDataParallel`** every device has a process of its
# own, with the whole model and a part of each batch. Where do the processes have to meet?

# %%
from course_lib import Link, Links, ask, check, cost, hint, machine, quiz, reveal, shared_cluster, solution
from course_lib.data import digits, loader
from course_lib.meter import MemoryLedger, Timeline, bytes_text, metered
from course_lib.models import SmallCNN, accuracy
from course_lib.parallel.data import (
    DistributedDataParallel,
    DistributedSampler,
    DriftDetector,
    GlobalBatches,
    SyncBatchNorm,
    all_reduce_gradients,
    broadcast_parameters,
    find_drift,
    global_mean,
    load_on_all,
    save_by_one,
    save_checkpoint,
)
from course_lib.plot import gantt, lines

import contextlib
import statistics
import time
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))

# %% [markdown]
# ## The same loop, four times
#
# ![Four ranks, each with a model and a quarter of the images, and question marks between the
# models](../assets/04_apart.png)
#
# Widely read articles describe data parallelism like this: start a process group, give each rank its part of the data
# by a `DistributedSampler`, and keep your training loop. Here is that program. The sampler deals the digits out to
# the ranks; every rank begins with the same seed and runs the loop of lesson 01.


# %%
def make_model(seed=0, **options):
    torch.manual_seed(seed)
    return SmallCNN(**{"batch_norm": False, **options})  # BatchNorm has a section of its own below


def train_alone(me, epochs=3):
    train, _ = digits()
    model = make_model().to(me.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = DistributedSampler(train, rank=me.rank, world_size=me.world_size)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader(train, 32, sampler=sampler):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(me.device)), y.to(me.device))
            loss.backward()
            optimizer.step()
    return torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])


# %% [markdown]
# **What do you get after three epochs on four ranks?**

# %%
### BEGIN SOLUTION
### STUB ask("04.apart")
ask("04.apart").commit("four equal models")  # same seed, same code, and a process group
### END SOLUTION

# %%
run = metered(four, train_alone)
weights = torch.stack(list(run))
furthest = (weights - weights[0]).abs().max().item()
print("messages sent:", sum(run.communication.num_messages(rank) for rank in range(4)))
print("two ranks have a weight that differs by more than 0.01:", furthest > 0.01)

# %%
reveal("04.apart", furthest)

# %% [markdown]
# <!-- word: drift | also: replica divergence -->
# No error, no hang, and not data parallelism. **Drift**, elsewhere called replica divergence, is when weights that
# should be equal on all ranks are not. Keep this picture: **replicas that drift apart do so in silence**. Most of this
# lesson is about what keeps them together.
#
# How do they stay one model? **An article says: "after the gradients are reduced, the updated weights are broadcast to
# every device, each iteration". In ten steps on four ranks, how many times do the weights have to travel?**

# %%
### BEGIN SOLUTION
### STUB ask("04.weights")
ask("04.weights").commit(10)  # as the article says
### END SOLUTION

# %% [markdown]
# ## One rule
#
# ![Two ranks: each goes forward and backward with its half of the batch; then an all-reduce averages the gradients;
# then each takes the same step](../assets/04_step.png)
#
# Two ranks with the same weights each take half of a batch. Rank 0's loss is the mean over its half, rank 1's the mean
# over the other. The mean over the *whole* batch is the mean of those two, and so is its gradient:
#
# $$\nabla L = \tfrac{1}{n}\,(\nabla L_0 + \nabla L_1 + \dots + \nabla L_{n-1})$$
#
# <!-- word: gradient synchronisation | also: gradient averaging, gradient all-reduce -->
# So the rule is **gradient synchronisation**: after `backward()`, every gradient is replaced by its mean over all
# ranks. Then each rank lets its own optimizer take a step, and since all of them begin with the same weights and take
# the same step, they have the same weights again.
#
# ### Build: the mean of all gradients
#
# You write the heart of it. Two things to keep in mind: a *frozen* parameter (`requires_grad` is False) has no
# gradient on any rank; and a parameter may have none on *one* rank only, because that rank's images did not need the
# layer. Then the others still wait for its call. What each rank sends is counted.


# %%
def average_gradients(me, model):
    """After backward: every gradient of ``model`` becomes its mean over all ranks, in place."""
    # 1. Go through the parameters that learn, in the model's order: it is the same on every rank.
    # 2. No gradient on this rank counts as zeros.
    # 3. Sum over all ranks, and then what makes a mean of it.
    ### BEGIN SOLUTION
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= me.world_size
    ### END SOLUTION


# %%
gradients_verdict = check("04.gradients", average_gradients)
average = average_gradients if gradients_verdict.passed else all_reduce_gradients

# %%
# hint("04.gradients")

# %% [markdown]
# `average` is yours if it passed, and the course's otherwise. Ten steps, with the meter on. Each rank begins with
# another seed, and `broadcast_parameters` gives it rank 0's weights.


# %%
def some_steps(me, num_steps, average):
    model = make_model(seed=me.rank).to(me.device)  # other first weights on every rank
    broadcast_parameters(me, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(num_steps):
        torch.manual_seed(100 * step + me.rank)  # other images on every rank
        x, y = torch.randn(8, 1, 8, 8, device=me.device), torch.randint(0, 10, (8,), device=me.device)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        average(me, model)
        optimizer.step()
    return find_drift(me, model)  # compares all replicas: the one all_gather below


num_tensors = len(list(make_model().parameters()))
ten = metered(four, some_steps, 10, average)
calls = {name: count // 4 for name, count in ten.communication.by_operation().items()}
print("calls of each rank:", calls, f"for {num_tensors} parameters")
print("replicas that differ after ten steps:", ten[0])

# %%
reveal("04.weights", calls["broadcast"], num_tensors)

# %% [markdown]
# ### The same as one device?
#
# "The same" is a claim that can be tested: the same batch, once on one rank and once cut up, five steps, and then
# compare all weights. In float64, so that rounding is no excuse.


# %%
def five_steps(me, num_images, prepare=lambda me, model: model, loss_of=None, **options):
    model = prepare(me, make_model(**options).double().to(me.device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    images, labels = (tensor[:num_images] for tensor in digits().train.tensors)
    x = images[me.rank :: me.world_size].double().to(me.device)
    y = labels[me.rank :: me.world_size].to(me.device)
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) if loss_of is None else loss_of(me, model(x), y)
        loss.backward()
        average(me, model)
        optimizer.step()
    return torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])


def off_by(ranks, *args, **options):
    alone = one.run(five_steps, *args, **options)[0]
    found = max((weights - alone).abs().max().item() for weights in ranks.run(five_steps, *args, **options))
    return "no weight off by more than 1e-10" if found < 1e-10 else f"a weight is off by {found:.0e}"


# %%
print("batch of 24 on two ranks: ", off_by(two, 24))
print("batch of 24 on four ranks:", off_by(four, 24))
print("batch of 22 on four ranks:", off_by(four, 22))

# %% [markdown]
# Equal where every rank holds the same number of images. With 22 on four ranks two of them hold 6 and two hold 5: the
# mean of four means is not the mean of all, since an image in a short part counts for more. Lesson 01 met the same in
# a batch that comes in pieces, and the cure is the same: weigh by the number of items. Each rank divides its *sum* of
# losses by the number of items on all ranks, and multiplies by n because the average will divide by n.


# %%
def weighed(me, logits, labels):
    return global_mean(me, F.cross_entropy(logits, labels, reduction="sum"), len(labels))


print("batch of 22 on four ranks, weighed:", off_by(four, 22, loss_of=weighed))

# %% [markdown]
# So data parallelism gives this model the gradients of one device, or of gradient accumulation, which cuts the same
# batch in time instead of in space. Whether it does so for every layer you will see further down. The sampler below
# makes all shares equal, so most programs never meet the uneven case, until the last batch of a validation set, or
# sentences of unequal length.

# %% [markdown]
# ## What a step sends
#
# ![Four ranks in a ring; each has four parts of its tensor, and sends one of them to the next
# rank](../assets/02_ring.png)
#
# **The gradients of this CNN take the KiB printed below. How much does each of *four* ranks send in a step?**

# %%
gradient_bytes = sum(parameter.nbytes for parameter in make_model().parameters())
print(f"the gradients: {gradient_bytes / 1024:.0f} KiB")

# %%
### BEGIN SOLUTION
### STUB ask("04.bytes")
ask("04.bytes").commit(round(3 * gradient_bytes / 1024))  # "my gradients, to three others"
### END SOLUTION

# %%
all_reduces = ten.communication.of(0, operation="all_reduce")
reveal("04.bytes", all_reduces.sent_bytes(0) / 10, gradient_bytes)

# %% [markdown]
# ### Many small messages
#
# <!-- word: paced | also: emulated compute -->
# A call for each gradient is right. Is it quick as well? To see that without four busy cores getting in the way, take a
# model whose layers do not compute. A **paced** model has real layers, with real gradients and real messages, but its
# computing is a timed wait; elsewhere this is called emulated compute. Here a layer waits 4 ms in its forward pass and
# 8 ms in its backward pass, on every machine.


# %%
from course_lib import pace


class Paced(torch.autograd.Function):
    """Hands x on; that takes ``time_s`` forward and twice that backward, and a timeline notes it."""

    @staticmethod
    def forward(ctx, x, me, time_s, timeline):
        ctx.pacing = me, time_s, timeline
        with timeline.span("forward"):
            pace(me, time_s)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        me, time_s, timeline = ctx.pacing
        with timeline.span("backward"):
            pace(me, 2 * time_s)
        return gradient, None, None, None


# %%
class PacedLayer(nn.Module):
    def __init__(self, me, time_s, timeline):
        super().__init__()
        self.linear, self.pacing = nn.Linear(256, 256), (me, time_s, timeline)

    def forward(self, x):
        return Paced.apply(self.linear(x), *self.pacing)


def paced_model(me, time_s=0.004, timeline=None):
    timeline = timeline or Timeline(rank=me.rank)
    torch.manual_seed(0)
    return nn.Sequential(*(PacedLayer(me, time_s, timeline) for _ in range(8)))


LAYER_BYTES = 4 * 256 * 256, 4 * 256  # weight and bias
print(f"8 layers, 16 gradients, {bytes_text(8 * sum(LAYER_BYTES))}")

# %% [markdown]
# <!-- word: shaped link | also: traffic shaping -->
# A **shaped link** is slowed down to a latency and a bandwidth of your choice: it holds every real message back until
# its time has come, which is called traffic shaping elsewhere. The link between the two ranks gets 5 ms latency and
# 100 MB/s. In one all-reduce of two ranks, each sends two messages, one after the other.
#
# **All gradients in one message, or each in its own: how many times as long does the communication of a step take with
# 16 calls as with one?**

# %%
### BEGIN SOLUTION
### STUB ask("04.calls")
ask("04.calls").commit(1)  # "the bytes are the same"
### END SOLUTION


# %%
def all_reduce_at_once(me, model):
    gradients = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])  # the bucket
    dist.all_reduce(flat)
    parts = (flat / me.world_size).split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def one_step(me, average):
    model = paced_model(me, time_s=0.0)
    model(torch.ones(4, 256, device=me.device)).sum().backward()
    average(me, model)


def communication_s(average):
    """Of three steps the quickest: whatever else goes on here can only lengthen one."""
    runs = [metered(two, one_step, average).communication.of(0, operation="all_reduce") for _ in range(3)]
    return min(sum(call.time_s for call in run.calls) for run in runs)


# %% tags=["nbval-ignore-output"]
far = Link(latency_s=5e-3, bandwidth_bytes_per_s=100e6)


def all_reduce_s(size_bytes, num_ranks=2, link=far):
    return cost.collective_cost("all_reduce", size_bytes, link, num_ranks=num_ranks).time_s


with two.shaped(links=Links(far)):
    measured_s = {"16 calls": communication_s(average), "1 call": communication_s(all_reduce_at_once)}
for name, time_s in measured_s.items():
    print(f"{name:>8}: {time_s * 1e3:4.0f} ms")

# %% tags=["nbval-ignore-output"]
reveal("04.calls", measured_s)

# %% [markdown]
# ![Sixteen small messages, each with a latency of its own, above one message that carries the same
# bytes](../assets/04_buckets.png)
#
# <!-- word: bucket | also: gradient bucket, fusion buffer -->
# A **bucket** is a flat tensor that holds several gradients, which travel in one all-reduce. One bucket for everything
# pays the fewest latencies. Why does nobody use one bucket for everything?
#
# ## While backward goes on
#
# ![Above: backward, then one long all-reduce. Below: backward, and beside it the all-reduces of four buckets, the
# last of which ends a little after it](../assets/04_overlap.png)
#
# <!-- word: overlap | also: compute-communication overlap -->
# Communication needs a link, and backward needs a device. Communication and computing **overlap** when they run at the
# same time. Whether they can here depends on when each gradient is there.
#
# **Which gradient is there first?**

# %%
### BEGIN SOLUTION
### STUB ask("04.order")
ask("04.order").commit("all at once")  # "backward() returns, and there they are"
### END SOLUTION

# %% [markdown]
# <!-- word: hook | also: callback -->
# A **hook** is a function of yours that PyTorch calls at a certain moment: here, when a parameter's gradient is
# complete.

# %%
model, order = make_model(), []
for name, parameter in model.named_parameters():
    parameter.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name.partition(".")[0]))
F.cross_entropy(model(torch.randn(4, 1, 8, 8)), torch.arange(4)).backward()
forward = [name.partition(".")[0] for name, _ in model.named_parameters()]
print("forward goes through:        ", *dict.fromkeys(forward))
print("gradients came in this order:", *dict.fromkeys(order))

reveal("04.order", order, forward)

# %% [markdown]
# ### Build: buckets that leave early
#
# You get the parameters in buckets, in the order in which their gradients come. When the last gradient of a bucket has
# come, its all-reduce starts and backward goes on. `finish` is called after `backward()`: it waits for all buckets and
# leaves the means in `.grad`. It has to work for step after step, with no other calls than one all-reduce for each
# bucket. The hooks are registered for you.
#
# `dist.all_reduce(flat, async_op=True)` returns at once; what it returns has a method `wait()`.


# %%
def start_early(me, buckets):
    """Register hooks on the parameters of ``buckets`` (a list of lists); returns ``finish()``."""
    under_way = []  # what finish has to know of each bucket that has left
    come = [0] * len(buckets)  # how many gradients of each bucket are there

    def on_gradient(number, parameter):
        """The gradient of a parameter in bucket ``number`` is there. The last one sends the bucket off."""
        ### BEGIN SOLUTION
        come[number] += 1
        if come[number] == len(buckets[number]):
            flat = torch.cat([parameter.grad.flatten() for parameter in buckets[number]])
            under_way.append((dist.all_reduce(flat, async_op=True), flat, buckets[number]))
            come[number] = 0
        ### END SOLUTION

    def finish():
        """Wait for every bucket, and make the means of its parts the gradients."""
        ### BEGIN SOLUTION
        for work, flat, bucket in under_way:
            work.wait()
            parts = (flat / me.world_size).split([parameter.numel() for parameter in bucket])
            for parameter, part in zip(bucket, parts, strict=True):
                parameter.grad.copy_(part.view_as(parameter))
        under_way.clear()
        ### END SOLUTION

    for number, bucket in enumerate(buckets):
        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(partial(on_gradient, number))
    return finish


# %%
check("04.overlap", start_early)

# %%
# hint("04.overlap")

# %% [markdown]
# The course's `DistributedDataParallel` does that, and cares for parameters that get no gradient, buffers, mixed types
# and a backward pass that fails. Here is a step of two ranks with buckets of four gradients' size, as it happened.


# %%
def watched_step(me, **options):
    timeline = Timeline(rank=me.rank)
    ddp = DistributedDataParallel(me, paced_model(me, timeline=timeline), **options)
    dist.barrier()
    ddp(torch.ones(4, 256, device=me.device)).sum().backward()
    return timeline


def buckets_of(size_bytes):
    return {"bucket_size_bytes": size_bytes, "first_bucket_size_bytes": size_bytes}


# %% tags=["nbval-ignore-output"]
with two.shaped(links=Links(far)):
    watched = metered(two, watched_step, **buckets_of(2 * 2**18))
only = watched.communication.of(operation="all_reduce")
gantt(Timeline.join([*watched, only.timeline()]), title="Two ranks: computing above, all-reduces below")

# %% [markdown]
# <!-- word: exposed | also: exposed communication -->
# The cost model draws such a picture in numbers: a bucket starts when it is complete and the one before it is through.
# Communication that is still on its way when backward ends is **exposed**: nothing hides it, and everybody waits for
# it. The last bucket always is. Where the two lines printed here are far apart, your ranks waited for something that
# the model does not know, such as a core.

# %% tags=["nbval-ignore-output"]
TENSOR_BYTES = [size_bytes for _ in range(8) for size_bytes in LAYER_BYTES]


def predicted_step(bucket_bytes, forward_s=0.032, backward_s=0.064):
    sizes = cost.ddp_buckets(TENSOR_BYTES, bucket_cap_bytes=bucket_bytes, first_bucket_bytes=bucket_bytes)
    return cost.ddp_step(sizes, forward_s=forward_s, backward_s=backward_s, all_reduce_time_s=all_reduce_s)


step = predicted_step(2 * 2**18)
hidden_s, exposed_s = only.hidden_s(0), only.exposed_s(0)
print(f"model:    {step.hidden_s / step.communication_s:4.0%} of {step.communication_s * 1e3:.0f} ms hidden")
print(f"measured: {hidden_s / (hidden_s + exposed_s):4.0%} of {(hidden_s + exposed_s) * 1e3:.0f} ms hidden")

# %% [markdown]
# ## How large a bucket?
#
# ![Small buckets set out early, each with a latency of its own; a large one sets out when backward has ended; a
# question mark between them](../assets/04_bucket_size.png)
#
# Small buckets start early and pay a latency each. Large ones pay few latencies, and the last one, which nothing
# hides, is large.
#
# **The paced model on this link, 16 gradients: in how many buckets is the step fastest?**

# %%
### BEGIN SOLUTION
### STUB ask("04.buckets")
ask("04.buckets").commit("16 buckets")  # "the earlier they start, the better"
### END SOLUTION


# %%
def step_s(me, after=None, time_s=0.004, repeats=5, **options):
    """The fastest of some steps of the paced model: bare, with ``after(me, model)``, or as DDP with ``options``."""
    model = paced_model(me, time_s)
    wrapped = DistributedDataParallel(me, model, **options) if options else model
    x, times_s = torch.ones(4, 256, device=me.device), []
    for _ in range(repeats):
        dist.barrier()
        start_s = time.perf_counter()
        wrapped(x).sum().backward()
        if after is not None:
            after(me, model)
        times_s.append(time.perf_counter() - start_s)
        model.zero_grad()
    return min(times_s)


# %% tags=["nbval-ignore-output"]
in_a_step = [16, 8, 4, 2, 1]  # buckets, of these sizes
sizes = [2**10, 2**18, 2 * 2**18, 4 * 2**18, 8 * 2**18 + 2**13]
alone_s = max(two.run(step_s))  # what computing takes here, with all that comes on top of the pacing
predicted_s = [predicted_step(size, alone_s / 3, alone_s * 2 / 3).time_s for size in sizes]
with two.shaped(links=Links(far)):
    swept_s = [max(two.run(step_s, **buckets_of(size))) for size in sizes]
    after_s = max(two.run(step_s, average))
for number, model_s, time_s in zip(in_a_step, predicted_s, swept_s, strict=True):
    print(f"{number:>2} in a step: model {model_s * 1e3:4.0f} ms, measured {time_s * 1e3:4.0f} ms")
print(
    f"a call for each gradient, after backward: {after_s * 1e3:.0f} ms; no communication: {alone_s * 1e3:.0f} ms"
)

# %% tags=["nbval-ignore-output"]
reveal("04.buckets", swept_s, predicted_s)

# %% tags=["nbval-ignore-output"]
lines(
    {
        "measured": (in_a_step, [1e3 * time_s for time_s in swept_s]),
        "model": (in_a_step, [1e3 * time_s for time_s in predicted_s]),
    },
    x_label="buckets in a step",
    y_label="step (ms)",
    title="A paced step of two ranks, 5 ms latency and 100 MB/s",
    log_x=True,
)

# %% [markdown]
# "DDP hides much of its communication behind the backward pass" is a claim that holds with a condition, then: bucket
# and link have to fit. (Where your points lie off the model's line, the model has left something out: what a call costs
# besides latency and bytes, and cores that were busy.) On a CPU the arithmetic itself and the messages share the cores,
# so real arithmetic hides less than a paced step. A GPU computes while its links copy, as the paced step pretends.
#
# ### The explorer
#
# ![The explorer's picture: backward in one row, the buckets' all-reduces below it, and the step time over bucket sizes
# with the chosen one marked](../assets/04_explorer.png)
#
# Another model, of 16 layers, and your choice of bucket and link. The button runs the choice on two ranks. Three
# missions:
#
# 1. 5 ms and 50 MB/s: find the bucket size with the shortest step, and say what is wrong with the next smaller one.
# 2. Take the latency away. Which size wins now, and why is it not the same?
# 3. 10 ms and 20 MB/s: every size waits for longer than it computes. What would help, where no bucket size does?

# %% tags=["computed-time"]
from course_lib.widgets import BucketExplorer

BucketExplorer(two)

# %% [markdown]
# To compare, by the model: on the first link two buckets win, and the latencies of four last longer than the backward
# pass. Without latency it prefers the smallest: nothing speaks against many, and the last one is short. (Measured, a
# call still takes what it takes on your machine, and a larger size may win.) On the third link the bytes alone take
# longer than the backward pass that should hide them: send fewer, less often, or over another link.
#
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
def accumulate(me, num_pieces, quiet):
    ddp = DistributedDataParallel(me, make_model().to(me.device))
    x = torch.ones(2, 1, 8, 8, device=me.device)
    for index in range(num_pieces):
        if quiet and index < num_pieces - 1:
            with ddp.no_sync():
                ddp(x).sum().backward()
        else:
            ddp(x).sum().backward()


def sent_kib(*args):
    return metered(two, accumulate, *args).communication.of(0, operation="all_reduce").sent_bytes(0) / 1024


# %%
reveal("04.pieces", sent_kib(4, False), gradient_bytes)

# %% [markdown]
# <!-- word: `no_sync` -->
# Under `with ddp.no_sync():` the hooks stay quiet and no gradient is sent: each rank adds its gradients up, and the
# next backward pass outside carries the sum.

# %%
print(f"with no_sync for all but the last: {sent_kib(4, True):.0f} KiB")

# %% [markdown]
# <!-- word: local SGD -->
# "How often gradients are synchronised trades speed for accuracy", you may read. Not so here: `no_sync` with *one*
# step at the end changes nothing but bytes. In **local SGD** each rank takes several *steps* of its own between two
# averages of the weights; that is another algorithm, and it does change the result.
#
# **Does mixed precision halve the bytes?** Under bfloat16 autocast, lesson 01 found, layers compute in half the bytes.
# Think what type a parameter's gradient has, then look.


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
# <!-- word: master weights | also: float32 master copy -->
# Autocast keeps float32 parameters, so gradients are float32 and travel as such: activations shrink, traffic does not.
# A model turned to bfloat16 as a whole sends half, and pays in accuracy, unless **master weights** are kept beside it:
# a copy in float32, which the optimizer changes.
#
# ## Who reads what
#
# ![Ten cards in a shuffled row; every fourth card goes to the same rank; two of the four hands have an empty
# place](../assets/04_sampler.png)
#
# <!-- word: distributed sampler | also: `DistributedSampler` -->
# Every rank needs its own part of the data, and all ranks need the same number of batches, or one of them calls an
# all-reduce that nobody joins, and the job hangs. A **distributed sampler** deals a data set out: it gives each rank
# the list of the indices that it reads in an epoch.
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
# own, seeded by `seed + epoch`; the order is made long enough by repeating it from its start; and it is dealt out like
# cards, one to each rank in turn.


# %%
def indices_of(num_items, rank, world_size, epoch, seed):
    """The indices that this rank reads in this epoch, as PyTorch's DistributedSampler would give them."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed + epoch)
    order = torch.randperm(num_items, generator=generator).tolist()
    share = -(-num_items // world_size)  # rounded up
    order = (order * world_size)[: share * world_size]
    return order[rank::world_size]
    ### END SOLUTION


# %%
check("04.sampler", indices_of)

# %%
# hint("04.sampler")

# %% [markdown]
# Three ways to go wrong that no error reports. Count what share of the digits four ranks read in an epoch, and whether
# the next epoch differs.


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
# Without a sampler, ranks that share a seed all train on the same images: the replicas agree, and three of four devices
# work for nothing. A seed for each rank is often advised against that; then the ranks draw at random, and a third of
# the digits is read by nobody in that epoch while others are read twice. And that `set_epoch` must be called for a new
# shuffle is a claim that holds: without it every epoch has the same order, and the same batches.
#
# ## Batch size and learning rate
#
# ![One rank with a batch of 32 takes 45 steps; four ranks with 32 each take 12 steps of 128](../assets/04_batch.png)
#
# <!-- word: global batch | also: effective batch size -->
# `batch_size=32` in a loader is now the batch of *one process*. (`nn.DataParallel` would split the 32.)
# The **global batch** is what all ranks together read in one step: 128 images, where four ranks read 32 each. An epoch
# then has a quarter of the steps.
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
# <!-- word: learning-rate warm-up -->
# <!-- word: critical batch size -->
# <!-- word: throughput -->
# The usual first guess is the **linear scaling rule**: n times the batch, n times the learning rate. The third line
# above follows it: how much of what the second lost does it win back? The fourth, with four times as much again, shows
# whether there is an end to it. Large runs begin with a **learning-rate warm-up**: the rate rises over the first steps,
# for it is at the start that a large rate does most harm. Even so, beyond a **critical batch size** a larger batch
# hardly needs fewer steps, and more ranks need more epochs. The **throughput** of a job is how many images it takes in
# per second: that is what data parallelism speeds up. It is not yet a speed-up in *learning*.
#
# ## Which batch does BatchNorm see?
#
# ![Eight images on four ranks: a mean of the two images on each rank, or one mean of all
# eight?](../assets/04_batch_norm.png)
#
# <!-- word: BatchNorm | also: batch normalization -->
# The equality above was shown with `batch_norm=False`. A **BatchNorm** layer normalises each channel by its mean and
# its deviation over *the batch*.
#
# **The same test with BatchNorm: 24 images, four ranks, five steps. Are the weights those of one device?**

# %%
### BEGIN SOLUTION
### STUB ask("04.norm")
ask("04.norm").commit("yes, to rounding")  # "all gradients are averaged"
### END SOLUTION

# %%
plain = off_by(four, 24, batch_norm=True)
print("BatchNorm:    ", plain)
print("SyncBatchNorm:", off_by(four, 24, SyncBatchNorm.convert, batch_norm=True))
reveal("04.norm", plain)

# %% [markdown]
# <!-- word: SyncBatchNorm | also: synchronized BatchNorm -->
# **SyncBatchNorm** adds up counts, sums and squares over all ranks before it normalises: an all-reduce in each layer,
# forward and backward. PyTorch's own (`nn.SyncBatchNorm.convert_sync_batchnorm(model)`) refuses a CPU, so this one is
# the course's. It is worth its messages when a rank sees few images; where it sees many, most programs do without. The
# running averages differ between ranks as well, and DDP hands out rank 0's before each forward pass.
#
# ## How much faster?
#
# ![Above: backward, then one long all-reduce. Below: backward, and beside it the all-reduces of four buckets, the
# last of which ends a little after it](../assets/04_overlap.png)
#
# Of this picture, which parts get shorter when more ranks share the work, and which do not?
#
# <!-- word: strong scaling -->
# <!-- word: weak scaling -->
# **Strong scaling**: the same batch is shared by more ranks. Each computes less, and the gradients are as large as
# ever. **Weak scaling**: each rank gets a batch of the same size, so with more ranks a step does more work.
#
# The paced model computes for 96 ms on one rank. Its 2 MiB of gradients travel in two buckets, over a *slow* link of
# 1 ms latency and 200 MB/s, or over the *free* one: this machine's own, not slowed down.
#
# **Strong scaling, four ranks, the slow link: how many times as fast as one?**

# %%
### BEGIN SOLUTION
### STUB ask("04.speedup")
ask("04.speedup").commit(4)  # "four times the devices"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
slow = Link(latency_s=1e-3, bandwidth_bytes_per_s=200e6)
buckets = buckets_of(4 * 2**18)
share_s = {"strong": lambda n: 0.004 / n, "weak": lambda n: 0.004}


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
    log_x=True,
    log_y=True,
)

# %% [markdown]
# ![Two stacks of bars: strong scaling shares one batch out, so computing shrinks and communication stays; weak scaling
# gives every rank a whole batch](../assets/04_scaling.png)
#
# Follow the *model's* strong curve beyond four ranks: it turns down. Computing shrinks, while every rank more adds two
# latencies to each all-reduce, until 32 ranks are slower than one. Weak scaling keeps the backward pass that hides most
# of it. How near your measured points lie depends on your cores: paced ranks compute nothing, but whoever carries their
# messages does. (Even the free link is not free: a message takes what this machine takes for it.)
#
# <!-- word: straggler | also: slow rank -->
# And real arithmetic? That needs a core for each rank. This machine's cores decide how far the next cell goes; beyond
# them ranks take turns, and a speed-up of ranks that take turns would be a lie. The CNN, 1,024 images in a step on one
# rank; of several rounds the fastest counts. A **straggler** is a slow rank for which all others wait in the
# all-reduce. Where other programs use the same cores, any rank may become one, and these numbers jump all the same; run
# the cell again.


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


def fastest_s(ranks, num_images, links=None):
    with ranks.shaped(links=links):
        return max(ranks.run(real_step_s, num_images))


# %% tags=["nbval-ignore-output"]
workers = max(machine().cores, len(machine().devices))
for number, ranks in ((2, two), (4, four)):
    if number > workers:
        print(f"{number} ranks: more than the {workers} cores of this machine; only the paced run tells")
        continue
    settings = [(links, images) for links in (None, Links(slow)) for images in (1024 // number, 1024)]
    rounds = [
        [fastest_s(one, 1024), fastest_s(one, 1024 // number)]
        + [fastest_s(ranks, images, links) for links, images in settings]
        for _ in range(5)
    ]
    alone_real_s, part_s, *shared_s = (min(times_s) for times_s in zip(*rounds, strict=True))
    print(f"one rank alone computes 1/{number} of the images in {part_s / alone_real_s:.2f} of the time")
    for name, (strong_s, weak_s) in (("free", shared_s[:2]), ("slow", shared_s[2:])):
        strong, weak = alone_real_s / strong_s, number * alone_real_s / weak_s
        odd = "  (?)" if max(strong, weak) > 1.05 * number or weak < 0.95 * strong else ""
        print(f"{number} ranks, real arithmetic, {name} link: strong {strong:.2f}, weak {weak:.2f}{odd}")

# %% [markdown]
# A line that ends in (?) contradicts what you have just learnt: n ranks are more than n times as fast, or weak scaling
# gains less than strong. Do not take such a line for a law. Two things make one. *Caches*: if one rank alone computes
# its part of the images in clearly less than that part of the time, then smaller batches compute faster here, and only
# strong scaling gets that as a present. *Other work*: if the numbers change when you run the cell again, or the slow
# link beats the free one, ranks waited for cores. A line without a mark does what the model says in kind; how much is
# lost to the link is this machine's own number.
#
# ### Where two ranks lose to one
#
# <!-- word: break-even | also: crossover point -->
# A **break-even** is the point at which two ways take just as long, such as one rank and two. Turn the link down.
# **At which bandwidth are two ranks no faster than one?** One rank takes 96 ms for the paced step; two ranks compute
# 48 ms each and exchange 2 MiB, in two buckets, 1 ms latency.

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
        two_ranks_s.append(max(two.run(step_s, time_s=0.002, **buckets)))
    print(
        f"{bandwidth / 1e6:4.0f} MB/s: two ranks {two_ranks_s[-1] * 1e3:4.0f} ms, one {one_rank_s * 1e3:4.0f} ms"
    )

# %% tags=["nbval-ignore-output"]
reveal("04.break_even", one_rank_s, dial, two_ranks_s)

# %% [markdown]
# Well before two ranks lose, they wait. The cost model also gives another break-even, the bandwidth at which the
# all-reduces take as long as the backward pass that should hide them. And a *small* model may have none: when latency
# alone takes longer than its backward pass, no bandwidth helps.

# %% tags=["computed-time"]
for name, backward_s in (("the paced model", 0.032), ("one that is 50 times as quick", 0.032 / 50)):
    needed = cost.break_even_bandwidth_bytes_per_s(SIZES, num_ranks=2, backward_s=backward_s, latency_s=1e-3)
    rate = f"{needed / 1e6:.0f} MB/s" if needed < float("inf") else "no bandwidth is enough"
    print(f"{name}, two ranks: to hide everything, {rate}")

# %% [markdown]
# So "data parallelism is not about speed and may slow training", as one article has it, is half of the truth. Speed is
# what it is for; it slows training where communication outweighs the computing that it shares out. Very small models
# train faster on one device. Now you know how to tell beforehand.
#
# ## Replicas that drift
#
# ![Four replicas over time; one leaves the others at some step, and only a comparison of hashes shows
# it](../assets/04_drift.png)
#
# <!-- word: hash | also: fingerprint -->
# Equal weights are the ground on which all of this stands, and nothing enforces it. A gradient that one rank did not
# average, a parameter changed by hand on rank 0, a bit flipped by a faulty memory: training goes on, and the losses
# look alike. To compare all weights each time would send more than a step does. A **hash** is a few bytes that are
# computed from all bits of a tensor: equal bits give equal hashes, and a change escapes with a chance of one in
# billions. That is enough.
#
# ### Build: which parameters differ?


# %%
def drifted(me, model):
    """Names of parameters whose bits are not the same on all ranks, in the model's order: one list on every rank."""
    ### BEGIN SOLUTION
    import zlib

    hashes = [zlib.crc32(p.detach().cpu().numpy().tobytes()) for p in model.parameters()]
    mine = torch.tensor(hashes, device=me.device)
    rows = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(rows, mine)
    differs = (torch.stack(rows) != rows[0]).any(dim=0)
    return [name for (name, _), odd in zip(model.named_parameters(), differs.tolist(), strict=True) if odd]
    ### END SOLUTION


# %%
check("04.drift", drifted)

# %%
# hint("04.drift")

# %% [markdown]
# The course's `DriftDetector` also says who differs from the majority, and since when. You can use it in your own
# training. A planted case: rank 2 rounds a weight after step 3, as a well-meant clean-up on one rank might.


# %%
def train_with_a_detector(me):
    ddp = DistributedDataParallel(me, make_model().to(me.device))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    detector = DriftDetector(me, ddp.module)
    for step in range(6):
        torch.manual_seed(10 * step + me.rank)
        optimizer.zero_grad()
        ddp(torch.randn(4, 1, 8, 8, device=me.device)).square().mean().backward()
        optimizer.step()
        if step == 3 and me.rank == 2:
            ddp.module.head[2].weight.data.mul_(100).round_().div_(100)
        if drift := detector.check(step):
            return str(drift)


print(four.run(train_with_a_detector)[1])

# %% [markdown]
# ## Clinic 1: the flag
#
# ![A patient's chart: a log in which the losses of two ranks fall, and beside it a sheet for evidence that is still
# empty](../assets/04_chart.png)
#
# *Symptom.* A colleague replaced `no_sync` by the flag that it sets. Memory is fine, the losses of both ranks fall, and
# steps got faster. The model that rank 0 saved is worse than last week's.


# %%
def accumulated_step(ddp, optimizer, pieces):
    optimizer.zero_grad()
    ddp.require_backward_grad_sync = False
    for index, (x, y) in enumerate(pieces):
        loss = F.cross_entropy(ddp(x), y) / len(pieces)
        ddp.require_backward_grad_sync = index == len(pieces) - 1  # the last piece averages
        loss.backward()
    optimizer.step()
    return loss.item() * len(pieces)


def flagged_job(me, take_step=accumulated_step, steps=8):
    ddp = nn.parallel.DistributedDataParallel(make_model().to(me.device))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    images, labels = (
        tensor[me.rank : 256 : me.world_size].to(me.device) for tensor in digits().train.tensors
    )
    pieces, before = list(zip(images.split(32), labels.split(32), strict=True)), find_drift(me, ddp.module)
    losses = [take_step(ddp, optimizer, pieces) for _ in range(steps)]
    return before, losses, find_drift(me, ddp.module)


# %%
run = metered(two, flagged_job)
for rank, (_, losses, _) in enumerate(run):
    print(f"rank {rank}: loss falls from {losses[0]:.1f}: {losses[-1] < losses[0]}")
print("replicas that differ after the last step:", "none" if run[0][2] is None else run[0][2])

# %%
### BEGIN SOLUTION
### STUB ask("04.flag")
ask("04.flag").commit("the ranks began with different weights")  # seeds are easily forgotten
### END SOLUTION

# %% [markdown]
# *Evidence.*

# %%
print("replicas that differ before the first step:", run[0][0])
print("all-reduces in 8 steps of rank 0:", len(run.communication.of(0, operation="all_reduce").calls))

# %%
reveal("04.flag")

# %% [markdown]
# ### Mend it
#
# One step over all pieces, for any number of them, with one all-reduce's worth of bytes and the activations of one
# piece in memory at a time. `pieces` is a list of (x, y). What an earlier pass left in `.grad` does not belong to the
# step, and after it `ddp` averages as before.


# %%
def mended_step(ddp, optimizer, pieces):
    """One optimizer step over equal ``pieces`` of a batch; gradients travel once."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    for number, (images, labels) in enumerate(pieces, start=1):
        quiet = number < len(pieces)
        with ddp.no_sync() if quiet else contextlib.nullcontext():
            piece_loss = F.cross_entropy(ddp(images), labels) / len(pieces)
            piece_loss.backward()
    optimizer.step()
    ### END SOLUTION


# %%
check("04.accumulate", mended_step)

# %%
# hint("04.accumulate")

# %% [markdown]
# ## Clinic 2: too many epochs
#
# *Symptom.* Four ranks, PyTorch's own DDP, `DistributedSampler`, `set_epoch` in the loop. Nothing hangs, replicas
# agree. Yet training needs more epochs than on one device with a batch four times as large. The set-up, as far as it
# has to do with the data:


# %%
def sampler_of_the_job(rank, epoch):
    seed = 1234 + rank  # so that dropout differs
    torch.manual_seed(seed)
    sampler = TorchSampler(range(NUM), 4, rank, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


# %%
### BEGIN SOLUTION
### STUB ask("04.seeds")
ask("04.seeds").commit("the padding repeats digits")  # it does repeat some
### END SOLUTION

# %% [markdown]
# *Evidence.*

# %%
read = [[sampler_of_the_job(rank, epoch) for rank in range(4)] for epoch in range(2)]
times_read = torch.bincount(torch.tensor(read[0]).flatten(), minlength=NUM)
print(NUM, "digits; indices read by each rank:", [len(indices) for indices in read[0]])
print("epoch 0 and 1 in the same order:", read[0] == read[1])
for count in range(5):
    print(f"read by {count} of the ranks in epoch 0: {(times_read == count).sum().item():>4} digits")

# %%
reveal("04.seeds")

# %% [markdown]
# ## A checkpoint that survives
#
# ![Above: a file is written over, and the power goes half-way. Below: it goes while a draft is written beside the
# file. What is in the file?](../assets/04_checkpoint.png)
#
# <!-- word: checkpoint -->
# A **checkpoint** is a file from which a run can go on: weights, optimizer state, and how far it has come. All replicas
# are equal, so *one* rank writes. The others wait until the file is there: a rank that goes on and exits might take the
# job down before the file is complete. And since writing takes time, a crash may come in its middle.
#
# **`last.pt` holds step 100. The job writes step 200 to the same name by `torch.save`, and dies while it does. What is
# in `last.pt`?**

# %%
### BEGIN SOLUTION
### STUB ask("04.crash")
ask("04.crash").commit("step 100")  # "the new one never came to be"
### END SOLUTION

# %%
import tempfile
from pathlib import Path


class PowerCut:
    """Whoever tries to write it dies at that moment."""

    def __reduce__(self):
        raise KeyboardInterrupt("the power is gone")


def left_by(save):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.pt"
        save_checkpoint(path, {"step": 100, "weights": torch.ones(1000)})
        with contextlib.suppress(KeyboardInterrupt):
            save(path, {"step": 200, "weights": torch.ones(1000), "more": PowerCut()})
        try:
            return torch.load(path)["step"]
        except Exception:
            return None


# %%
by_torch, by_course = left_by(lambda path, state: torch.save(state, path)), left_by(save_checkpoint)
print("written by save_checkpoint: step", by_course)
reveal("04.crash", by_torch)

# %% [markdown]
# <!-- word: atomic -->
# A write is **atomic** if it happens wholly or not at all.
#
# Now on ranks: one writes, all load. Then a promise that is easy to break: to resume with *another number of ranks*
# and see the same global batches. `GlobalBatches` cuts the epoch's order into what all ranks together read in a step,
# and a rank takes its share of that.


# %%
def train_and_resume(me, path):
    model = make_model(seed=me.rank).to(me.device)
    broadcast_parameters(me, model)
    save_by_one(me, path, {"step": 3, "model": model.state_dict()})
    state, other = load_on_all(me, path), make_model(seed=7 + me.rank).to(me.device)
    other.load_state_dict(state["model"])
    return state["step"], find_drift(me, other)


def global_batch(world_size, number):
    batches = [
        GlobalBatches(NUM, rank=r, world_size=world_size, global_batch_size=64) for r in range(world_size)
    ]
    return sorted(index for of_rank in batches for index in list(of_rank)[number])


with tempfile.TemporaryDirectory() as folder:
    print("step and drift after loading:", four.run(train_and_resume, Path(folder) / "last.pt")[3])
same = all(global_batch(4, number) == global_batch(2, number) for number in range(NUM // 64 + 1))
print("an epoch of global batches is the same on 4 and on 2 ranks:", same)

# %% [markdown]
# ## What it does not save
#
# ![Three bars: what a rank holds when there are one, two and four of them. Parameters, gradients and optimizer state
# are as long in each; only the activations shrink](../assets/04_memory.png)
#
# "Data parallelism combines several GPUs into one with more memory." Let the ledger of lesson 01 decide: a batch of 256
# on one, two and four ranks.


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
# Another sentence one reads holds: "data parallelism replicates the whole model on every device and partitions the
# data". The state of the model is on every rank, whole. Only activations shrink, with the rank's share of the batch.
# Four devices hold what one device holds, four times. That is the limit which the next lesson removes.
#
# ## In production
#
# In production you write `nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])`: the same idea, with
# buckets, hooks and bookkeeping in C++. Side by side on the same model and the same batches:


# %%
def train_by(me, which, steps):
    model = make_model().to(me.device)
    theirs = nn.parallel.DistributedDataParallel
    ddp = theirs(model) if which == "PyTorch's" else DistributedDataParallel(me, model)
    optimizer, losses, times_s = torch.optim.SGD(ddp.parameters(), lr=0.05), [], []
    images, labels = (
        tensor[me.rank : 256 : me.world_size].to(me.device) for tensor in digits().train.tensors
    )
    for _ in range(steps):
        start_s = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(ddp(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times_s.append(time.perf_counter() - start_s)
    return losses, statistics.median(times_s)


def bytes_of_a_step(which):
    totals = [metered(two, train_by, which, steps).communication.sent_bytes(0) for steps in (4, 5)]
    return totals[1] - totals[0]


# %%
losses = {which: two.run(train_by, which, 5)[0][0] for which in ("ours", "PyTorch's")}
pairs = zip(losses["ours"], losses["PyTorch's"], strict=True)
print("losses equal to six digits:", all(abs(a - b) < 1e-6 * abs(b) for a, b in pairs))
for which in losses:
    print(f"{which:<10} sends {bytes_of_a_step(which):,} bytes in a step")

# %% tags=["nbval-ignore-output"]
for which in ("ours", "PyTorch's", "ours", "PyTorch's"):
    print(f"{which:<10} {max(time_s for _, time_s in two.run(train_by, which, 20)) * 1e3:6.1f} ms for a step")

# %% [markdown]
# | you wrote | production code uses |
# |---|---|
# | `average_gradients`, `start_early` | `nn.parallel.DistributedDataParallel`, `bucket_cap_mb`, `no_sync()` |
# | `indices_of` | `torch.utils.data.DistributedSampler`, `set_epoch` |
# | `drifted` | nothing: PyTorch compares the models once, when it wraps them |
# | `save_by_one` | rank 0 and a rename; `torch.distributed.checkpoint` for large ones |
# | `shared_cluster(4).run(...)` | `torchrun` |
#
# ### Starting processes
#
# A notebook's ranks are the course's. Real jobs start theirs by `torchrun`, which puts rank, world size and the
# meeting point, the address for the rendezvous, into each process's environment and starts all again when one dies.
# `torch.multiprocessing.spawn` only starts processes. One article claims that
# `init_process_group(backend, rank=rank, world_size=n)` is all the set-up that spawned processes need. On trial:

# %% tags=["nbval-ignore-output"]
from course_lib.claims import trial

print(trial("A5").run())

# %% [markdown]
# ### A script to take home
#
# `course_lib/examples/train_ddp.py` is a whole program: a ResNet on the digits or on your folder of images, on a laptop
# or on many machines. You have met every idea in it. First, who am I, and who carries the messages?

# %%
from course_lib.examples import train_ddp

import inspect


def show(function):
    print(inspect.getsource(function))


show(train_ddp.set_up)

# %% [markdown]
# <!-- word: local rank | also: `LOCAL_RANK` -->
# The **local rank** is the number of a process on its machine, and chooses its GPU. It stands in `LOCAL_RANK`; `RANK`,
# which `init_process_group` reads itself, is the number in the whole job.
#
# Next, the data. `batch_size` on the command line is the *global* batch; each rank takes its part of it, and refuses
# parts that would be unequal. One sampler deals out the training images. The validation images go without: a sampler
# that pads would count some of them twice.

# %%
show(train_ddp.make_loaders)

# %% [markdown]
# A step. Look for `no_sync` with forward *and* backward under it, autocast, and clipping after the all-reduce, where
# all ranks see the same norm:

# %%
show(train_ddp.train_step)

# %% [markdown]
# An epoch. `begin` is `set_epoch`, and skips what a resumed run has read already. Chance is seeded by step and rank, so
# that a run which is resumed draws what it would have drawn. And a signal to stop (SIGTERM, from the cluster's
# scheduler) reaches the ranks in different steps: they agree on it by an all-reduce, finish that step, save and leave,
# so that nobody waits for a rank that has gone.

# %%
show(train_ddp.train_epoch)

# %% [markdown]
# Saving and resuming. What is saved is the bare model (`model.module`), so that the names in the file carry no prefix
# and load into any model; and the position in the epoch, in steps. Whoever resumes asks first whether the file belongs
# to this run. Whether there is a file is rank 0's to say: on several machines the others may not see its disk.

# %%
show(train_ddp.save)
show(train_ddp.resume)

# %% [markdown]
# Last, the frame. `@record` writes an error down where `torchrun` finds it. The group is destroyed after a good end
# alone: a rank that failed must leave at once, so that the others are told.

# %%
show(train_ddp.main)

# %% [markdown]
# <!-- word: agent | also: elastic agent -->
# And a start on *two machines*. An **agent** is what `torchrun` runs once on each machine: it starts the ranks there
# and watches them. So: one agent each, a process for each agent, one meeting point (`rdzv`, for rendezvous). Here both
# agents run on this machine and talk over the loopback; on two machines the same line names the first one's address.

# %% tags=["nbval-ignore-output"]
import os
import socket
import subprocess
import sys

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
meet = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"]
job = ["-m", "course_lib.examples.train_ddp", "--device=cpu", "--epochs=3", "--every=22", "--lr=0.03"]
command = [sys.executable, "-m", "torch.distributed.run", *meet, "--local-addr=127.0.0.1", *job]
settings = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
PIPE = subprocess.PIPE
agents = [subprocess.Popen(command, env=settings, stdout=PIPE, stderr=PIPE, text=True) for _ in range(2)]
try:
    for agent in agents:
        output, errors = agent.communicate(timeout=90)
        print(output if agent.returncode == 0 else f"exit code {agent.returncode}\n{errors}", end="")
finally:
    for agent in agents:
        agent.kill()

# %% [markdown]
# One log for two agents: only rank 0 speaks. With `--max-restarts 3` for `torchrun` and `--checkpoint run.pt` for the
# script, the job survives a rank that dies in the middle of an epoch: the agents start all ranks anew, they load the
# file, and what is lost are the steps since it was written. Lesson 12 kills some.
#
# (`TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` is for torch 2.13, and gives each start a meeting point of its own: without it
# new ranks may look for each other where the dead ones were, and on a busy machine a job that was done has hung.)
#
# ## What the articles say
#
# Sentences from widely read articles, which you have met in this lesson. Each has a small trial in
# `course_lib/claims`, and its numbers decide: `print(trial("C6").run())` shows those of one. A verdict is *blocked*
# where this machine lacks the GPUs that a trial needs.

# %% tags=["nbval-ignore-output"]
from course_lib.claims import verdicts

print(verdicts("A1", "A2", "A5", "A6", "A7", "A8", "A11", "C3", "C5", "C6", "C9", "C10", "C12", "C13", "C14"))
print(verdicts("D1", "D2", "D3", "E5", "E6"))

# %% [markdown]
# ## Six questions

# %% tags=["computed-time"]
quiz("04")

# %% [markdown]
# ## What you can do now
#
# You know the one rule of data parallelism, same weights and same gradients, and what keeps it: one broadcast, one mean
# a step, one seed for the sampler. You have hidden communication behind the backward pass and can say what part of it
# stays exposed, and on which link n ranks are worth their trouble. You can tell a drifted replica from a healthy one.
#
# **The limit.** Every rank holds everything: parameters, gradients and optimizer state, n times the same. A model that
# does not fit on one device does not fit on a thousand of them, in this way. Lesson 02 showed the seam: an all-reduce
# is a reduce-scatter and an all-gather, and between the halves each rank needs only its own part. Lesson 05 cuts there,
# as ZeRO does.
#
# **Further reading.** Li et al., [PyTorch Distributed: Experiences on Accelerating Data Parallel
# Training](https://arxiv.org/abs/2006.15704) (2020), section 3.2: buckets, overlap, `no_sync`. Goyal et al., [Accurate,
# Large Minibatch SGD](https://arxiv.org/abs/1706.02677) (2017), section 2: the linear scaling rule and warm-up; section
# 3: what distributed training gets subtly wrong. McCandlish et al., [An Empirical Model of Large-Batch
# Training](https://arxiv.org/abs/1812.06162) (2018), section 2: why larger batches stop to help. Shallue et al.,
# [Measuring the Effects of Data Parallelism on Neural Network Training](https://arxiv.org/abs/1811.03600) (2019): the
# same, measured.
