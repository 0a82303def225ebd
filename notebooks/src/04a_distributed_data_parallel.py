# %% [markdown]
# # 04a · DistributedDataParallel: one rule, sent in buckets
#
# Four processes train one model, each on its part of the batch, and must end with the weights that one device would
# have found. You find out what has to travel for that. You write the averaging, and let its messages travel during the
# backward pass.
#
# **2 × 45 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 1 of 6 · [2: batches, and how much faster](04b_batches_and_scaling.ipynb) · [3: drift, checkpoints and the real
# thing](04c_drift_and_production.ipynb) · [4: build your own](04d_build_ddp.ipynb) · [5: a job on two
# A100](04e_read_a_trace.ipynb) · [6: divide once](04f_divide_once.ipynb)
#
# This part builds on [02a: what travels](02a_collectives.ipynb). Have you done it? `from course_lib import start;
# start("04a")` says whether you have.
#
# At the end you can
#
# - say what has to travel in data parallelism, how often and how many bytes;
# - write the mean of all gradients, and see that it keeps replicas equal;
# - pack gradients into buckets and send them while the backward pass goes on, and choose a size for them.
#
# <!-- word: `DistributedDataParallel` | also: DDP -->
# [Lesson 02](02a_collectives.ipynb) built the all-reduce. [Lesson 03](03a_data_parallel.ipynb) shared a batch inside
# *one* process, whose threads wait for each other. In **`DistributedDataParallel`** every device has a process of its
# own, with the whole model and a part of each batch.

# %%
from course_lib import Link, Links, ask, check, cost, hint, mine, reveal, shared_cluster, solution
from course_lib.data import digits, loader
from course_lib.meter import Timeline, bytes_text, metered
from course_lib.models import SmallCNN
from course_lib.parallel.data import (
    DistributedDataParallel,
    DistributedSampler,
    all_reduce_gradients,
    assign_buckets,
    broadcast_parameters,
    find_divergence,
)
from course_lib.plot import gantt_beside, lines

import time
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

# %% tags=["nbval-ignore-output"]
two, four = (shared_cluster(number) for number in (2, 4))

# %% [markdown]
# ## The same loop, four times
#
# ![Four ranks, each with a model and a quarter of the images, and question marks between the
# models](../assets/04_apart.png)
#
# The course puts five articles on trial (`course_lib.claims.ARTICLES` has their titles), and says in its own words what
# they claim. Article A is *How can a single model be trained using multiple GPUs?* It asks for three things: start a
# process group, give each rank its part of the data by a `DistributedSampler`, and keep your training loop.
#
# Here is that program. The sampler deals the digits out to the ranks; every rank begins with the same seed and runs the
# loop of lesson 01.


# %%
def make_model(seed=0, **options):
    torch.manual_seed(seed)
    return SmallCNN(**{"batch_norm": False, **options})


def train_each(me, epochs=3):
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
#
# (`metered` runs a function on the ranks, and keeps in `.communication` what they sent.)

# %%
### BEGIN SOLUTION
### STUB ask("04.apart")
ask("04.apart").commit("four equal models")  # same seed, same code, and a process group
### END SOLUTION

# %%
run = metered(four, train_each)
weights = torch.stack(list(run))
furthest = (weights - weights[0]).abs().max().item()
print("messages sent:", sum(run.communication.num_messages(rank) for rank in range(4)))
print("two ranks have a weight that differs by more than 0.01:", furthest > 0.01)

# %%
reveal("04.apart", furthest)

# %% [markdown]
# <!-- word: drift | also: replica divergence -->
# There was no error and no hang, but this was not data parallelism. **Drift**, elsewhere called replica divergence, is
# when weights that should be equal on all ranks are not. Keep in mind: **replicas drift apart without any error**.
#
# How do they stay one model? By article A, the updated weights are broadcast to every device in each iteration, when
# the gradients have been reduced. **Four ranks begin with different weights and take ten steps. How many times do the
# weights have to travel?**

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
# over the other. The mean over the *whole* batch is the mean of those two, and its gradient is the mean of the two
# gradients:
#
# $$\nabla L = \tfrac{1}{n}\,(\nabla L_0 + \nabla L_1 + \dots + \nabla L_{n-1})$$
#
# <!-- word: gradient synchronisation | also: gradient averaging, gradient all-reduce -->
# So the rule is **gradient synchronisation**: after `backward()`, every gradient is replaced by its mean over all
# ranks. Then each rank lets its own optimizer take a step. All of them began with the same weights and took the same
# step, so they have the same weights again.
#
# ### Build: the mean of all gradients
#
# You write this averaging. Two cases need care. A *frozen* parameter (`requires_grad` is False) has no gradient on any
# rank. And a parameter may have none on *one* rank only, because that rank's images did not need the layer. The others
# still wait for that rank's call. The check counts what each rank sends.


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
# `average` is your function if it passed, and the course's otherwise. The cell takes ten steps, with the meter on. Each
# rank begins with another seed, and `broadcast_parameters` gives it rank 0's weights. In `.communication`,
# `by_operation()` counts the calls of all ranks, and `of(0, operation="all_reduce")` keeps those of rank 0 and one
# kind.


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
    return find_divergence(me, model)  # compares all replicas: the one all_gather below


num_tensors = len(list(make_model().parameters()))
ten = metered(four, some_steps, 10, average)
calls = {name: count // 4 for name, count in ten.communication.by_operation().items()}
print("calls of each rank:", calls, f"for {num_tensors} parameters")
print("replicas that differ after ten steps:", ten[0])

# %%
reveal("04.weights", calls["broadcast"], num_tensors)

# %% [markdown]
# So the replicas stay one model. Is it also the model that *one* device would have trained? [Part
# 2](04b_batches_and_scaling.ipynb) tests that, with even and uneven batches and with BatchNorm.

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
def all_reduces_of_a_step(average):
    return metered(four, some_steps, 1, average).communication.of(operation="all_reduce")


yours = average_gradients if gradients_verdict.passed else None
one_step_by = mine.beside(all_reduces_of_a_step, all_reduce_gradients, yours)
reveal("04.bytes", one_step_by["the course's"].sent_bytes(0), gradient_bytes, beside=one_step_by)

# %% [markdown]
# ### Many small messages
#
# <!-- word: paced | also: emulated compute -->
# A call for each gradient is right. Is it quick as well? Busy cores would disturb the answer. So take a model whose
# layers do not compute. A **paced** model has real layers, with real gradients and real messages, but its computing is
# a timed wait; elsewhere this is called emulated compute. Here a layer waits 4 ms in its forward pass and 8 ms in its
# backward pass, on every machine.


# %%
from course_lib import pace


class Paced(torch.autograd.Function):
    """Passes x on; this takes ``time_s`` forward and twice as long backward, and a timeline notes it."""

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
    return nn.Sequential(*(PacedLayer(me, time_s, timeline) for _ in range(8))).to(me.device)


LAYER_BYTES = 4 * 256 * 256, 4 * 256  # weight and bias
print(f"8 layers, 16 gradients, {bytes_text(8 * sum(LAYER_BYTES))}")

# %% [markdown]
# A **shaped link** is slowed down to a latency and a bandwidth of your choice. It delays every real message until such
# a link would have delivered it, which is called traffic shaping elsewhere. The link between the two ranks gets 5 ms
# latency and 100 MB/s. In one all-reduce of two ranks, each sends two messages, one after the other.
#
# **All gradients in one message, or each in its own? How many times as long does the communication of a step take with
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
    """Of the quickest of three steps, in seconds: other work on this machine can only make a step longer."""
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
# pays the fewest latencies. Yet programs use several. The next sections show why.
#
# ## While backward goes on
#
# ![Above: backward, then one long all-reduce. Below: backward, and beside it the all-reduces of four buckets, the
# last of which ends a little after it](../assets/04_overlap.png)
#
# <!-- word: overlap | also: compute-communication overlap -->
# Communication needs a link, and backward needs a device. Communication and computing **overlap** when they run at the
# same time. Can they, here? That depends on when each gradient is there.
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
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you write an all-reduce that starts before backward has ended, and try buckets of
# many sizes.

# %% [markdown]
# ### Build: buckets that leave early
#
# You get the parameters in buckets, in the order in which their gradients come. When the last gradient of a bucket has
# come, its all-reduce starts and backward goes on. `finish` is called after `backward()`: it waits for all buckets and
# leaves the means in `.grad`. It has to work for step after step, with no other calls than one all-reduce for each
# bucket. The hooks are registered for you.
#
# `dist.all_reduce(flat, async_op=True)` returns at once; what it returns has a method `wait()`.
#
# <details>
# <summary>To begin with an example: two tensors in one message</summary>
#
# Rank 1's `a` and `b` come to all ranks in one broadcast. Between the call and `wait()` the flat tensor belongs to the
# message: nobody reads it, and nobody writes to it.
#
# ```python
# def from_rank_1(a, b):
#     flat = torch.cat([a.flatten(), b.flatten()])
#     work = dist.broadcast(flat, src=1, async_op=True)
#     ...  # meanwhile this rank computes something else
#     work.wait()
#     first, second = flat.split([a.numel(), b.numel()])
#     a.copy_(first.view_as(a))
#     b.copy_(second.view_as(b))
# ```
#
# In your build the call and the wait stand in two functions. So decide for each line to which of the two it belongs,
# and what the second one has to know.
#
# </details>


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
overlap_verdict = check("04.overlap", start_early)

# %%
# hint("04.overlap")

# %% [markdown]
# The course's `DistributedDataParallel` does that. It also handles parameters that get no gradient, buffers, mixed
# types and a backward pass that fails. The course's class and your function go through the same steps below. Each of
# the two functions in the next cell gives the model to call, and a function to call after backward.


# %%
def buckets_of(size_bytes):
    return {"bucket_size_bytes": size_bytes, "first_bucket_size_bytes": size_bytes}


def the_courses(model, me, bucket_bytes):
    return DistributedDataParallel(me, model, **buckets_of(bucket_bytes)), lambda: None


def by_your_hooks(model, me, bucket_bytes):
    buckets = assign_buckets(model.parameters(), **buckets_of(bucket_bytes))
    return model, start_early(me, [list(bucket.parameters) for bucket in buckets])


yours = by_your_hooks if overlap_verdict.passed else None

# %% [markdown]
# Here is a step of two ranks as it happened, with buckets of 512 KiB: two layers fill one. Where `start_early` has
# passed, the lower rows are those of your function.


# %%
def watched_step(me, wrap, bucket_bytes):
    timeline = Timeline(rank=me.rank)
    ddp, finish = wrap(paced_model(me, timeline=timeline), me, bucket_bytes)
    dist.barrier()
    ddp(torch.ones(4, 256, device=me.device)).sum().backward()
    finish()
    return timeline


# %% tags=["nbval-ignore-output"]
with two.shaped(links=Links(far)):
    watched = mine.beside(lambda wrap: metered(two, watched_step, wrap, 2 * 2**18), the_courses, yours)
only = {whose: run.communication.of(operation="all_reduce") for whose, run in watched.items()}
gantt_beside(
    {whose: Timeline.join([*run, only[whose].timeline()]) for whose, run in watched.items()},
    title="Two ranks: computing above, all-reduces below",
)

# %% [markdown]
# The cost model has the same picture in numbers. In it a bucket starts as soon as two things are true: it is complete,
# and the bucket before it has arrived.
#
# <!-- word: exposed | also: exposed communication -->
# Communication that is still on its way when backward ends is **exposed**: nothing hides it, and everybody waits for
# it. The last bucket is always exposed. The next cell prints what share is hidden, by the model and by the run. Are the
# lines far apart? Then your ranks waited for something that the model does not know, such as a core.

# %% tags=["nbval-ignore-output"]
TENSOR_BYTES = [size_bytes for _ in range(8) for size_bytes in LAYER_BYTES]


def predicted_step(bucket_bytes, forward_s=0.032, backward_s=0.064):
    sizes = cost.ddp_buckets(TENSOR_BYTES, bucket_cap_bytes=bucket_bytes, first_bucket_bytes=bucket_bytes)
    return cost.ddp_step(sizes, forward_s=forward_s, backward_s=backward_s, all_reduce_time_s=all_reduce_s)


step = predicted_step(2 * 2**18)
print(f"model:    {step.hidden_s / step.communication_s:4.0%} of {step.communication_s * 1e3:.0f} ms hidden")
for whose, calls in only.items():
    name = "yours" if whose == "yours" else "measured"
    hidden_s, sent_s = calls.hidden_s(0), calls.hidden_s(0) + calls.exposed_s(0)
    print(f"{name + ':':<9} {hidden_s / sent_s:4.0%} of {sent_s * 1e3:.0f} ms hidden")

# %% [markdown]
# ## How large a bucket?
#
# ![Small buckets set out early, each with a latency of its own; a large one sets out when backward has ended; a
# question mark between them](../assets/04_bucket_size.png)
#
# Small buckets start early and pay a latency each. Large ones pay few latencies, and the last one, which nothing
# hides, is large.
#
# **The paced model has 16 gradients. With how many buckets is its step fastest on this link?**

# %%
### BEGIN SOLUTION
### STUB ask("04.buckets")
ask("04.buckets").commit("16 buckets")  # "the earlier they start, the better"
### END SOLUTION


# %%
def bare(model, me, bucket_bytes):
    return model, lambda: None


def after_backward(model, me, bucket_bytes):
    return model, lambda: average(me, model)


def step_s(me, wrap, bucket_bytes=0, repeats=3):
    """The fastest of some steps of the paced model, as ``wrap`` makes it."""
    model = paced_model(me)
    (ddp, finish), x, times_s = wrap(model, me, bucket_bytes), torch.ones(4, 256, device=me.device), []
    for _ in range(repeats):
        dist.barrier()
        start_s = time.perf_counter()
        ddp(x).sum().backward()
        finish()
        times_s.append(time.perf_counter() - start_s)
        model.zero_grad()
    return min(times_s)


# %% tags=["nbval-ignore-output"]
in_a_step = [16, 8, 4, 2, 1]  # buckets, of these sizes
sizes = [2**10, 2**18, 2 * 2**18, 4 * 2**18, 8 * 2**18 + 2**13]
alone_s = max(two.run(step_s, bare))  # what computing takes here, with all that comes on top of the pacing
times_s = {"model": [predicted_step(size, alone_s / 3, alone_s * 2 / 3).time_s for size in sizes]}
with two.shaped(links=Links(far)):
    swept = mine.beside(lambda wrap: [max(two.run(step_s, wrap, size)) for size in sizes], the_courses, yours)
    after_s = max(two.run(step_s, after_backward))
times_s |= {"yours" if whose == "yours" else "measured": found_s for whose, found_s in swept.items()}
for number, *found_s in zip(in_a_step, *times_s.values(), strict=True):
    in_words = (f"{name} {time_s * 1e3:4.0f} ms" for name, time_s in zip(times_s, found_s, strict=True))
    print(f"{number:>2} in a step: {', '.join(in_words)}")
print(f"a call for each gradient, after backward: {after_s * 1e3:.0f} ms")
print(f"no communication: {alone_s * 1e3:.0f} ms")

# %% tags=["nbval-ignore-output"]
reveal("04.buckets", times_s["measured"], times_s["model"])

# %% tags=["nbval-ignore-output"]
lines(
    {name: (in_a_step, [1e3 * time_s for time_s in found_s]) for name, found_s in times_s.items()},
    x_label="buckets in a step",
    y_label="step (ms)",
    title="A paced step of two ranks, 5 ms latency and 100 MB/s",
)

# %% [markdown]
# So DDP hides its communication behind the backward pass on one condition: the size of the buckets has to fit the link.
# Where your points lie off the model's line, the model has left something out. It leaves out what a call costs besides
# latency and bytes, and cores that were busy.
#
# And remember what *paced* means. On a CPU the arithmetic and the messages share the cores, so real arithmetic hides
# less than a paced step does. A GPU computes while its links copy, as the paced step pretends.
#
# ### The explorer
#
# ![The explorer's picture: backward in one row, the buckets' all-reduces below it, and the step time over bucket sizes
# with the chosen one marked](../assets/04_explorer.png)
#
# The explorer has another model, of 16 layers, and you choose bucket size and link. The button runs your choice on two
# ranks, first with the course's function and then with your own. That is the `MyDDP` of your library, or `start_early`
# where that has passed. There are three missions:
#
# 1. 5 ms and 50 MB/s: find the bucket size with the shortest step, and say what is wrong with the next smaller one.
# 2. Take the latency away. Which size wins now, and why is it not the same?
# 3. 10 ms and 20 MB/s: every size waits for longer than it computes. What would help, where no bucket size does?

# %% tags=["computed-time"]
from course_lib.widgets import BucketExplorer

BucketExplorer(two, yours=mine.if_passed("MyDDP") or yours)

# %% [markdown]
# <details>
# <summary>To compare: what the model says of the missions</summary>
#
# On the first link two buckets win. With four, the latencies alone last as long as the backward pass. Without latency
# the smallest buckets win: their number costs nothing, and the last one is short. (In a measurement each call still
# takes some time on your machine, and a larger size may win.)
#
# On the third link the bytes alone take longer than the backward pass that should hide them. Then send fewer bytes,
# send them less often, or take another link; part 2 begins with that.
#
# </details>
#
# ## What you can do now
#
# You know the one rule of data parallelism, same weights and same gradients. It needs one broadcast at the start and
# one mean a step. You have hidden most of its communication behind the backward pass, and can say which part stays
# exposed.
#
# [Part 2](04b_batches_and_scaling.ipynb) asks what each rank reads, whether n ranks train the model of one device, and
# how much faster they are. [Part 3](04c_drift_and_production.ipynb) keeps replicas equal, writes checkpoints and starts
# PyTorch's own DDP.
#
# **Further reading.** Li et al., [PyTorch Distributed: Experiences on Accelerating Data Parallel
# Training](https://arxiv.org/abs/2006.15704) (2020), section 3.2: buckets, overlap, `no_sync`.
