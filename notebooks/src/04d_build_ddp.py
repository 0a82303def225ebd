# %% [markdown]
# # 04d · DistributedDataParallel: build your own
#
# You begin with one empty class, and each of five steps asks more of it. At the end it trains any model, beside the
# course's DDP and PyTorch's on the same run.
#
# **2 × 75 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 4 of 6 · [1: one rule, sent in buckets](04a_distributed_data_parallel.ipynb) · [2: batches, and how much
# faster](04b_batches_and_scaling.ipynb) · [3: drift, checkpoints and the real thing](04c_drift_and_production.ipynb) ·
# [5: a job on two A100](04e_read_a_trace.ipynb) · [6: divide once](04f_divide_once.ipynb)
#
# This part builds on [02d: build an all-reduce](02d_build_all_reduce.ipynb), [04a: one rule, sent in
# buckets](04a_distributed_data_parallel.ipynb) and [04b: batches, and how much faster](04b_batches_and_scaling.ipynb).
# Have you done them? `from course_lib import start; start("04d")` says whether you have.
#
# At the end you can
#
# - write a DDP from its interface alone, and say what each line of it is for;
# - prove that it is right, and count what it sends, keeps and hides;
# - train any model with it, also one whose layers are unused, frozen or shared.
#
# From [part 1](04a_distributed_data_parallel.ipynb) you need buckets and hooks, from [part
# 2](04b_batches_and_scaling.ipynb) `no_sync`.

# %%
from course_lib import Link, Links, build_progress, check, hint, mine, shared_cluster, side_by_side
from course_lib.meter import Timeline, metered
from course_lib.parallel.data import DistributedDataParallel, PacedLayers
from course_lib.plot import gantt

import contextlib
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as TorchDDP

# %% tags=["nbval-ignore-output"]
two = shared_cluster(2)

# %% [markdown]
# ![Two ranks, each with forward and then backward, layer by layer; between the ranks a question mark below each layer;
# behind them on both ranks every gradient, the mean of both. Who waits, and when?](../assets/04_build.png)
#
# ## One cell
#
# You write your class in the next cell. Below it stand five steps. Each has a check, and each asks for what the steps
# before it ask for, and one thing more. So you come back to that cell five times: change it, run it, and run the next
# check. You can do this part in two sittings: stop after step 3 if you like. What you have written is kept.
#
# Write the shortest thing that passes the next check. For step 1 twenty lines are enough, without buckets.


# %%
### BEGIN SOLUTION
### STUB # what your class needs beside itself can stand here
class Bucket:
    """Some parameters, and the flat tensor in which their gradients lie."""

    def __init__(self, parameters):
        self.parameters, self.come, self.work = parameters, set(), None
        sizes = [parameter.numel() for parameter in parameters]
        self.flat = torch.zeros(sum(sizes), dtype=parameters[0].dtype, device=parameters[0].device)
        self.views = [part.view_as(p) for part, p in zip(self.flat.split(sizes), parameters, strict=True)]

    def put(self, index):
        """Bring a gradient to its place, zeros where there is none; from then on the place is the gradient."""
        parameter, view = self.parameters[index], self.views[index]
        if parameter.grad is None:
            view.zero_()
        elif parameter.grad is not view:
            view.copy_(parameter.grad)
        parameter.grad = view
        self.come.add(index)

    def is_full(self):
        return len(self.come) == len(self.parameters)


### END SOLUTION


class MyDDP(nn.Module):
    """Wraps ``module`` so that after ``backward()`` every gradient is its mean over all ranks.

    All ranks get rank 0's parameters and buffers. ``me`` is this rank. ``all_reduce(tensor, async_op=False)`` adds up
    over ranks, in place; all sums go by it. Buckets are filled from the last parameter to the first. Each is of one
    dtype, and the parameter that brings it to ``bucket_bytes`` is its last.
    """

    def __init__(self, module, me, bucket_bytes=2**20, all_reduce=dist.all_reduce):
        super().__init__()
        ### BEGIN SOLUTION
        self.module, self.me, self.all_reduce = module, me, all_reduce
        self.syncs, self.started = True, 0  # False within no_sync; buckets that have left in this backward
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.detach(), src=0)
        self.buckets = self.assign(bucket_bytes)
        for bucket in self.buckets:
            for index, parameter in enumerate(bucket.parameters):
                parameter.register_post_accumulate_grad_hook(self.hook_of(bucket, index))

    def assign(self, bucket_bytes):
        """The buckets; one is open for each dtype until it has its bytes."""
        closed, still_open = [], {}
        for parameter in reversed([p for p in self.module.parameters() if p.requires_grad]):
            filling = still_open.setdefault(parameter.dtype, [])
            filling.append(parameter)
            if sum(p.nbytes for p in filling) >= bucket_bytes:
                closed.append(still_open.pop(parameter.dtype))
        return [Bucket(parameters) for parameters in (*closed, *still_open.values())]

    def hook_of(self, bucket, index):
        def on_gradient(parameter):
            if not self.syncs:
                return
            if not any(each.come for each in self.buckets):  # the first gradient of this backward
                torch.autograd.Variable._execution_engine.queue_callback(self.finish)
            bucket.put(index)
            self.start_full()

        return on_gradient

    def start_full(self):
        """Buckets leave in the order of the list on every rank, whichever is full first."""
        while self.started < len(self.buckets) and self.buckets[self.started].is_full():
            bucket = self.buckets[self.started]
            bucket.work = self.all_reduce(bucket.flat, async_op=True)
            self.started += 1

    def finish(self):
        """Called at the end of backward: fill the gaps, start what is left, wait, divide, and forget."""
        for bucket in self.buckets:
            for index in set(range(len(bucket.parameters))) - bucket.come:
                bucket.put(index)
        self.start_full()
        for bucket in self.buckets:
            bucket.work.wait()
            bucket.flat /= self.me.world_size
            bucket.work = None
            bucket.come.clear()
        self.started = 0
        ### END SOLUTION

    def forward(self, *args, **kwargs):
        """What the module gives."""
        ### BEGIN SOLUTION
        if self.syncs:
            for buffer in self.module.buffers():
                dist.broadcast(buffer, src=0)
        return self.module(*args, **kwargs)
        ### END SOLUTION

    @contextlib.contextmanager
    def no_sync(self):
        """Within it nothing is sent, and gradients add up on this rank. (Step 5.)"""
        ### BEGIN SOLUTION
        before, self.syncs = self.syncs, False
        try:
            yield
        finally:
            self.syncs = before
        ### END SOLUTION

    def state_dict(self, *args, **kwargs):
        """The module's, under the module's names."""
        ### BEGIN SOLUTION
        return self.module.state_dict(*args, **kwargs)
        ### END SOLUTION


# %% [markdown]
# ## Step 1: the values
#
# What must your wrapper do once, and what with every gradient, so that each rank ends with the weights of one process?
# Nothing calls your class after `backward()`. PyTorch calls a hook on each parameter during it.
#
# The run below trains three steps on two ranks, by your class, by the course's and by PyTorch's. In the table, a
# wrapper that fails has dashes.


# %%
def given(me):
    """On each rank: a model with weights of its own, and its half of a batch for each of three steps."""
    torch.manual_seed(me.rank)
    model = nn.Sequential(
        nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 8)
    ).double()
    torch.manual_seed(7)
    batches = torch.randn(3, 2, 16, 32, dtype=torch.float64)  # (steps, ranks, rows, width)
    return model.to(me.device), batches[:, me.rank].to(me.device)


def three_steps(me, wrap, model, batches):
    ddp = wrap(model, me, bucket_bytes=16 * 2**10)
    for x in batches:
        ddp.zero_grad()
        ddp(x).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
    return {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}


# %%
def courses(module, me, bucket_bytes):
    return DistributedDataParallel(
        me, module, bucket_size_bytes=bucket_bytes, first_bucket_size_bytes=bucket_bytes
    )


def pytorchs(module, me, bucket_bytes):
    return TorchDDP(module, bucket_cap_mb=bucket_bytes / 2**20)


def one_process(module, me, bucket_bytes):
    return module


def whole_batch(me):
    model, _ = given(me)
    torch.manual_seed(7)
    return model, torch.randn(3, 2, 16, 32, dtype=torch.float64, device=me.device).flatten(1, 2)


EXPECTED = two.run(lambda me: three_steps(me, one_process, *whole_batch(me)))[0]


def beside(wraps, job=three_steps, cluster=two):
    return side_by_side(cluster, job, wraps, expected=EXPECTED, prepare=given, within=1e-12, build="04.ddp")


def all_three():
    return {"yours": MyDDP, "the course's": courses, "PyTorch's": pytorchs}


beside(all_three())

# %%
check("04.ddp_values", MyDDP)

# %%
# hint("04.ddp_values")

# %% [markdown]
# ## Step 2: bytes and messages
#
# The values are right. Look at the row of messages. It also counts the messages that are sent when the model is
# wrapped. Which of the three classes has most, and why? A bias is a few hundred bytes, and a message costs its latency
# however short it is.
#
# Now every step is to make one all-reduce for each bucket, and no other call. A bucket is a list of parameters, filled
# from the last one. It has one dtype, and ends with the parameter that brings it to `bucket_bytes`. Change the cell
# above, run it, and then run the table again.

# %%
beside(all_three())

# %%
check("04.ddp_bytes", MyDDP)

# %%
# hint("04.ddp_bytes")

# %% [markdown]
# ## Step 3: memory
#
# How often does each gradient lie in memory while its bucket is under way? `torch.cat` makes a second copy, and the
# mean is copied back out of it. For a model of 10 GB that is another 10 GB, and two copies a step.
#
# From now on a gradient *is* a part of its bucket: after `backward()` there are as many pieces of memory as buckets. No
# step leaves more than the one before.

# %%
beside(all_three())

# %%
check("04.ddp_memory", MyDDP)

# %%
# hint("04.ddp_memory")

# %% [markdown]
# ## Step 4: time hidden
#
# The first bucket is complete long before backward is over. It can be under way meanwhile. Then where do you wait for
# the last one, when `backward()` returns and nothing calls your class?
#
# ### A worked example, whole
#
# Autograd can call a function of yours at the end of the backward pass that is running. A hook asks autograd for this
# call. Here is a model of three layers, with a list of events.


# %%
def watch(parameters, say):
    """Say when gradients come, and when backward is over."""
    come = []

    def backward_is_over():
        say(f"backward is over, {len(come)} gradients")
        come.clear()

    def on_gradient(parameter):
        if not come:  # the first gradient of this backward: ask to be called at its end
            torch.autograd.Variable._execution_engine.queue_callback(backward_is_over)
        come.append(parameter)
        say(f"a gradient of {parameter.numel()}")

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(on_gradient)


# %%
def three_layers():
    return nn.Sequential(*(nn.Linear(3, 3, bias=False) for _ in range(3)))


layers, said = three_layers(), []
watch(layers.parameters(), said.append)
for _ in range(2):
    layers(torch.ones(1, 3)).sum().backward()
    said.append("backward() has returned")
print(*said, sep="\n")

# %% [markdown]
# ### The same, with gaps
#
# Now there are two groups of parameters. Say "group 0" when the last gradient of group 0 has come, likewise for group
# 1, and "the end" once when backward is over. The second backward is to say the same. The shape is that of the example.
# Think what you have to count, and what to set back.


# %%
def watch_groups(groups, say):
    come = [0] * len(groups)

    def at_the_end():
        say("the end")
        ### BEGIN SOLUTION
        ### STUB ...  # what has to be set back?
        come[:] = [0] * len(groups)
        ### END SOLUTION

    def on_gradient(number):
        ### BEGIN SOLUTION
        ### STUB ...  # ask to be called, count, and say so when the group is complete
        if not any(come):
            torch.autograd.Variable._execution_engine.queue_callback(at_the_end)
        come[number] += 1
        if come[number] == len(groups[number]):
            say(f"group {number}")
        ### END SOLUTION

    for number, group in enumerate(groups):
        for parameter in group:
            parameter.register_post_accumulate_grad_hook(lambda _, number=number: on_gradient(number))


layers, said = three_layers(), []
watch_groups([[layers[2].weight], [layers[1].weight, layers[0].weight]], said.append)
for _ in range(2):
    layers(torch.ones(1, 3)).sum().backward()
print(said == ["group 0", "group 1", "the end"] * 2)

# %% [markdown]
# ### Your class
#
# Go back to the one cell. A bucket leaves with its last gradient, by `async_op=True`; no rank waits before backward has
# come to its end. The check judges by the order of calls, not by a clock.

# %%
check("04.ddp_overlap", MyDDP)

# %%
# hint("04.ddp_overlap")

# %% [markdown]
# How much time does that hide? The picture shows a paced model of eight layers on a slow link, with one bucket for each
# layer. It has one step with each of the three classes, and below each step the messages that are under way. A busy
# machine stretches a row, so look at what lies below what, and not at the lengths.


# %%
def watched_step(me, wrap):
    timeline = Timeline(rank=me.rank)
    layers = PacedLayers(me, num_layers=8, layer_bytes=2**18, forward_s=0.03, backward_s=0.06)
    ddp = wrap(layers, me, bucket_bytes=2**18)
    for _ in range(2):  # PyTorch deals out its buckets anew after the first step
        dist.barrier()
        with timeline.span("forward"):
            out = ddp(torch.zeros(1, device=me.device)).sum()
        with timeline.span("backward"):
            out.backward()
    return timeline.spans[-2:]


def row_of(wrap, number):
    run = metered(two, watched_step, wrap)
    begin_s = run[0][0].start_s
    sent = run.communication.of(0, operation="all_reduce").timeline().spans
    spans = [*run[0], *(span for span in sent if span.start_s >= begin_s)]
    moved = {"rank": number}
    return [replace(s, start_s=s.start_s - begin_s, end_s=s.end_s - begin_s, **moved) for s in spans]


# %% tags=["nbval-ignore-output"]
rows, names = [], {}
with two.shaped(links=Links(Link(latency_s=3e-3, bandwidth_bytes_per_s=100e6))):
    for name, wrap in all_three().items():
        with contextlib.suppress(Exception):  # yours may not be so far
            rows.append(row_of(wrap, len(names)))
            names[len(names)] = name
gantt(Timeline.join(rows), names=names, title="The second step of rank 0, by each")

# %% [markdown]
# ## Step 5: awkward models
#
# Real models are not plain. In which of these does your class hang, and in which is it wrong without an error?
#
# - a layer that one rank leaves out, or that nobody uses; gradients that come in another order on another rank;
# - frozen parameters, one that two layers share, a module with nothing to train (run it, or raise an error that says
#   why not);
# - buffers such as BatchNorm's: a forward pass whose gradients are averaged sees those of rank 0;
# - `no_sync`, also one inside another; two forward passes before one backward;
# - a last batch of unequal parts, one of them empty, where the loss makes up for the sizes;
# - `channels_last`, two models at the same time, and one rank.

# %%
check("04.ddp_awkward", MyDDP)

# %%
# hint("04.ddp_awkward")

# %% [markdown]
# ## Train with it
#
# All sums of your class go by the `all_reduce` that it was given. So it can train with the all-reduce of [part 4 of
# lesson 02](02d_build_all_reduce.ipynb): with your own, if you have built one.

# %% tags=["nbval-ignore-output"]
all_reduce_of_02 = mine.all_reduce


# %%
class Done:
    """The handle of a sum that is complete already."""

    def wait(self):
        return True


def by_messages(me):
    """The all-reduce of lesson 02, called as ``dist.all_reduce`` is. It has waited before it returns."""

    def all_reduce(tensor, async_op=False):
        all_reduce_of_02(me, tensor)
        return Done() if async_op else None

    return all_reduce


def on_messages(module, me, bucket_bytes):
    return MyDDP(module, me, bucket_bytes=bucket_bytes, all_reduce=by_messages(me))


beside({"yours, dist.all_reduce": MyDDP, "yours, on lesson 02's": on_messages})

# %% [markdown]
# The weights are equal, and so are the bytes. The all-reduce of lesson 02 sends its messages by `send` and `recv`; it
# cannot go on while backward computes.
#
# ## If you have time left: a harder task
#
# Send fewer bytes without touching the class. `in_bfloat16` is an `all_reduce` that sends two bytes for each number.
# What it returns has a `wait()`, after which `tensor` holds the sum. In the table "equal" then allows one part in a
# hundred: the sums have lost digits on their way.


# %%
def in_bfloat16(tensor, async_op=False):
    """Adds up over ranks, in place, and sends bfloat16. Returns something to wait for, where ``async_op``."""
    ### BEGIN SOLUTION
    short = tensor.to(torch.bfloat16)
    work = dist.all_reduce(short, async_op=True)

    class Widened:
        def wait(self):
            work.wait()
            tensor.copy_(short)

    if async_op:
        return Widened()
    Widened().wait()
    ### END SOLUTION


def short_ddp(module, me, bucket_bytes):
    return MyDDP(module, me, bucket_bytes=bucket_bytes, all_reduce=in_bfloat16)


# %% tags=["nbval-ignore-output"]
side_by_side(
    two, three_steps, {"float64": MyDDP, "bfloat16": short_ddp}, expected=EXPECTED, prepare=given, within=0.01
)

# %% [markdown]
# ## How far you are

# %% tags=["nbval-ignore-output"]
build_progress("04.ddp")

# %% [markdown]
# ## What you can do now
#
# You have written DDP, for any model. All ranks begin alike. They average each gradient in place, in few messages,
# while backward goes on. PyTorch's DDP has the same parts, in C++, and [its paper](https://arxiv.org/abs/2006.15704)
# explains them in the order in which you built them.
#
# Every rank still holds all weights, all gradients and all states of the optimizer. [Lesson
# 05](05a_sharded_data_parallel.ipynb) asks why.
