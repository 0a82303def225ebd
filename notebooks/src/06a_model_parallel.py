# %% [markdown]
# # 06a · Model parallelism: there and back
#
# A model that is too large for one device is cut between two layers, and each device gets a part. Within one process
# autograd does all the work. Across ranks you write the messages yourself. Then you measure what a cut costs in time,
# and what it saves in memory.
#
# **75 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 1 of 2 · [2: where to cut](06b_where_to_cut.ipynb)
#
# This part builds on [02a: what travels](02a_collectives.ipynb). Have you done it? `from course_lib import start;
# start("06a")` says whether you have.
#
# At the end you can
#
# - cut a model in parts, in one process and over ranks, and get the same weights as without the cut;
# - write the backward pass across a cut, and say what `dist.send` and `dist.recv` do to autograd;
# - predict what share of the time a device works, and see it on a timeline;
# - say how many bytes cross a cut, and how much memory each part holds.
#
# In lesson 04 every rank held the whole model, its gradients and its optimizer state. More ranks made the batch larger,
# not the model. There are two ways out. One cuts every *tensor* in shards and gathers it when it is needed (known as
# ZeRO and as FSDP); that is lesson 05. This lesson takes the other way: a layer stays whole in one place, and ranks
# send *activations*.

# %%
from course_lib import Cluster, Link, Links, ask, check, hint, reveal, shared_cluster, solution
from course_lib.cluster import exchange, recv, send
from course_lib.data import documentation_windows, loader
from course_lib.meter import MemoryLedger, Timeline, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.model import ModelParallel, cut, parameter_costs, split_evenly
from course_lib.plot import gantt, memory_bars
from course_lib.rounding import agree, rounded

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
two, four = shared_cluster(2), shared_cluster(4)

# %% [markdown]
# ## A row of pieces
#
# ![A row of six boxes: stem, four blocks, head. A dashed line between the third and the fourth says cut; the left half
# is labelled device 0, the right half device 1](../assets/06_cut.png)
#
# <!-- word: stage | also: part, partition, pipeline stage -->
# <!-- word: split point | also: cut -->
# The models of this course are a row of pieces: a *stem*, some *blocks*, a *head*. The output of one piece is the input
# of the next. `pieces_of` lists the pieces, and `cut` makes parts of neighbouring pieces. A part is what the field
# calls a **stage** or a partition of the model: neighbouring layers, which one device holds. A **split point** is a
# place between two layers at which a model is cut.

# %%
config = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
text, _ = documentation_windows(config.context_length)
batches = [batch for batch, _ in zip(loader(text, 16), range(5), strict=False)]


def make_parts(num_parts):
    torch.manual_seed(0)  # every rank that calls this makes the same weights
    model = Transformer(config)
    return cut(model, split_evenly(parameter_costs(model), num_parts))


whole = make_parts(1)[0]
for number, part in enumerate(make_parts(2)):
    print(f"part {number}: {', '.join(part.names)}")

# %% [markdown]
# ## Within one process
#
# <!-- word: device map | sentences: 2 -->
# Take two devices and one process. The only new thing is `.to(device)` between the parts. To autograd, a move is an
# operation like any other, and its backward moves the gradient the other way. So `loss.backward()` needs no change. A
# table that says which layer is on which device is called a **device map**. Libraries that load large models need one,
# such as [Accelerate](https://huggingface.co/docs/accelerate/usage_guides/big_modeling).
#
# The next cell uses your first two GPUs, or your only GPU and the CPU. Without a GPU both parts are on the CPU: the
# code is the same, and nothing moves.

# %%
num_gpus = torch.cuda.device_count()
devices = ["cuda:0" if num_gpus else "cpu", "cuda:1" if num_gpus > 1 else "cpu"]
first, second = (part.to(device) for part, device in zip(make_parts(2), devices, strict=True))


def from_device_to_device(x):
    x = first(x.to(devices[0]))
    return second(x.to(devices[1]))


x, y = batches[0]
loss = next_token_loss(from_device_to_device(x), y.to(devices[1]))
loss.backward()
uncut_loss = next_token_loss(whole(x), y)
print(f"loss in two parts {rounded(loss, 2)}, uncut {rounded(uncut_loss, 2)}")
print("parameters of the first part with a gradient:", sum(p.grad is not None for p in first.parameters()))

# %% [markdown]
# <!-- word: model parallelism | also: layer-wise model parallelism, inter-layer model parallelism -->
# In **model parallelism** each device holds some of the model's layers, and passes their output on to the device with
# the next layers. In one process you need no more code than above. But one process sees only the devices of one
# machine. To use more machines, each part gets a process of its own, a *rank*, and ranks send messages over the cut.
#
# ## A message
#
# ![Two ranks with a part each. A solid arrow labelled activation goes from rank 0 to rank 1; a dashed arrow with a
# question mark comes back](../assets/06_messages.png)
#
# Article A of this course's five, *How can a single model be trained using multiple GPUs?*, writes for the second rank:
# `x = dist.recv(0)`. (`course_lib.claims.ARTICLES` has the titles of all five. The course repeats their statements in
# its own words.)
#
# **What does `dist.recv` return?**

# %%
### BEGIN SOLUTION
### STUB ask("06.recv")
ask("06.recv").commit("the tensor that was sent")
### END SOLUTION


# %%
def send_and_recv(me):
    if me.rank == 0:
        return dist.send(torch.tensor([1.0, 2.0, 3.0]), dst=1)
    try:
        as_written = dist.recv(0)
    except TypeError:
        as_written = "TypeError"
    room = torch.zeros(3)
    result = dist.recv(room, src=0)
    return {"dist.recv(0)": as_written, "dist.recv(room, src=0)": result, "room": room.tolist()}


with Cluster(2, backend="gloo") as plain:  # messages between tensors on the CPU, on any machine
    run = plain.run(send_and_recv)
print(run[1])
reveal("06.recv", run[1]["dist.recv(room, src=0)"])

# %% [markdown]
# So a receiver must *know* what will come. For this transformer that is easy: wherever you cut, the output of a block
# has the shape (batch, tokens, width).
#
# Now take a whole step in the simplest way: rank 0 sends its activation, and rank 1 goes on and calls
# `loss.backward()`. (`exchange`, `send` and `recv` are those of lesson 02; they work on GPUs too.)
#
# **How many of rank 0's parameters have a gradient then?**

# %%
num_parameters = len(list(make_parts(2)[0].parameters()))
print("rank 0 has", num_parameters, "parameters")

# %%
### BEGIN SOLUTION
### STUB ask("06.gradients")
ask("06.gradients").commit(18)  # "backward goes through the whole model"
### END SOLUTION


# %%
SHAPE = (16, config.context_length, config.width)  # batch, tokens, width: what crosses a cut


def forward_alone(me):
    part = make_parts(2)[me.rank].to(me.device)
    x, y = (tensor.to(me.device) for tensor in batches[0])
    if me.rank == 0:
        exchange([send(part(x), 1)])
    else:
        activation = torch.empty(SHAPE, device=me.device)
        exchange([recv(activation, 0)])
        next_token_loss(part(activation), y).backward()
    return sum(p.grad is not None for p in part.parameters())


run = two.run(forward_alone)
print("parameters with a gradient, by rank:", list(run))

# %%
reveal("06.gradients", run[0], num_parameters)

# %% [markdown]
# Article A says, in the course's words, that sending activations between two halves of a model is enough to train it.
# It is not enough. Your code also has to send the gradient back.
#
# ## Build: there and back
#
# ![Two ranks. Rank 0 forward, an activation goes right, rank 1 forward, loss, backward, a gradient goes left, rank 0
# backward](../assets/06_there_and_back.png)
#
# Write a function that runs one batch on any rank. Only the first rank has the batch `x`, and only the last rank has
# `target`; on other ranks they are None. `room` is a new tensor of the shape and dtype of every activation, for the
# activation that arrives.
#
# Two tools of PyTorch help. `requires_grad_()` makes an ordinary tensor a *leaf*: a place where autograd leaves a
# gradient. And `tensor.backward(gradient)` begins a backward pass in the middle of a model, with the gradient that you
# give it.


# %%
def there_and_back(me, part, x, target, loss_of, room):
    """One batch; gradients are added to those of ``part``. Returns the loss on the last rank, None elsewhere."""
    is_first, is_last = me.rank == 0, me.rank == me.world_size - 1
    # 1. Forward: get what enters this part, run it, pass on what leaves it.
    # 2. Backward: begin at the loss, or at the gradient that the next rank sends.
    # 3. Who waits for a gradient from you?
    ### BEGIN SOLUTION
    if not is_first:
        exchange([recv(room, me.rank - 1)])
    entering = x if is_first else room.requires_grad_()
    leaving, loss = part(entering), None
    if is_last:
        loss = loss_of(leaving, target)
        loss.backward()
    else:
        exchange([send(leaving.detach(), me.rank + 1)])
        gradient = torch.empty_like(leaving)
        exchange([recv(gradient, me.rank + 1)])
        leaving.backward(gradient)
    if not is_first:
        exchange([send(entering.grad, me.rank - 1)])
    return loss
    ### END SOLUTION


# %%
backward_verdict = check("06.backward", there_and_back)

# %% [markdown]
# `check` compares every gradient with the uncut model's, and counts messages. Stuck? Take the `#` away; each run gives
# one more hint. `solution("06.backward")` says where the solved version stands.

# %%
# hint("06.backward")

# %% [markdown]
# In the next cell your step trains the transformer, cut over four ranks. Compare the losses with those of the uncut
# model, which a later cell prints.


# %%
def train_by_hand(me, step, num_steps=4):
    part = make_parts(me.world_size)[me.rank].to(me.device)
    is_first, is_last = me.rank == 0, me.rank == me.world_size - 1
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-3)
    losses = []
    for x, y in batches[:num_steps]:
        optimizer.zero_grad()
        room = torch.empty(SHAPE, device=me.device)
        x, y = x.to(me.device) if is_first else None, y.to(me.device) if is_last else None
        loss = step(me, part, x, y, next_token_loss, room)
        optimizer.step()
        losses.append(torch.as_tensor(loss).item() if is_last else None)
    return losses


if backward_verdict.passed:
    print("4 parts, by hand:", rounded(four.run(train_by_hand, there_and_back)[3], 1, apart=1e-5))

# %% [markdown]
# In this run two of four ranks send messages while the others do something else. NCCL allows that, but not as the
# *first* call of a group that has no communicator yet. In the first call all ranks of the group must take part, says
# the [page of `batch_isend_irecv`](https://docs.pytorch.org/docs/stable/distributed.html). The course's ranks give
# `init_process_group` a `device_id`, which forms the communicator at once. Do so too, or begin with a barrier.
#
# ### The same, by autograd
#
# <!-- word: custom autograd function | also: `torch.autograd.Function` -->
# Autograd can do what you wrote by hand. A **custom autograd function** is a forward and the backward that belongs to
# it, both written by you; in PyTorch it is a `torch.autograd.Function`. You need two of them. One sends in forward and
# receives in backward, and the other receives in forward and sends in backward. With this pair every rank's loop looks
# like any training loop. The pair is in `course_lib/parallel/model/stage_p2p.py`, 40 lines; `ModelParallel` uses it.


# %%
def train(me, num_steps):
    model = ModelParallel(me, make_parts(me.world_size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for x, y in batches[:num_steps]:
        optimizer.zero_grad()
        loss = model.loss(next_token_loss, model(x), y)
        loss.backward()  # on each rank its part, in the right order
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: weight.detach().cpu() for name, weight in model.part.named_parameters()}


weights = {}  # after 4 steps, by number of parts: what all ranks hold together
for cluster in [shared_cluster(1), two, four]:
    run = cluster.run(train, 4)
    weights[len(run)] = {name: weight for _, mine in run for name, weight in mine.items()}
    print(f"{len(run)} part{'s' * (len(run) > 1)}: {rounded(run[len(run) - 1][0], 1, apart=1e-5)}")

# %% [markdown]
# Losses that agree in one decimal prove little. The next cell compares the weights. **By how much may a weight of the
# cut model differ from the uncut model's, after four steps of AdamW?**

# %%
for num_parts in [2, 4]:
    same = all(torch.equal(weights[num_parts][name], weight) for name, weight in weights[1].items())
    print(f"{num_parts} parts: {len(weights[1])} tensors, equal to the last bit: {same}")

# %% [markdown]
# A cut changes no number that a layer computes, only where it is computed. So only rounding may differ, and only if
# ranks run on devices of different kinds.
#
# ## Who works when?
#
# On two ranks you have twice as many devices. **What share of the time does each of two devices compute, in a step of
# one batch? And each of four devices?** Waiting does not count.

# %%
### BEGIN SOLUTION
### STUB ask("06.two")
ask("06.two").commit(100)  # "both are busy"
### END SOLUTION

# %%
### BEGIN SOLUTION
### STUB ask("06.four")
ask("06.four").commit(80)  # "there is some waiting"
### END SOLUTION

# %% [markdown]
# The ranks below do real arithmetic, and not timed waits. That is fair even on two cores, and a cell below the picture
# shows why. The quickest of seven steps counts, because other work on your machine can only lengthen a step.


# %%
def timelines_of_steps(me, num_steps=7):
    model = ModelParallel(me, make_parts(me.world_size))
    x, y = batches[0]
    timelines = []
    for _ in range(num_steps):
        model.passing.timeline = model.timeline = Timeline(me.rank, device=me.device)
        dist.barrier()
        model.forward_backward(x, y, next_token_loss)
        timelines.append(model.timeline)
    return timelines


def steps_of(run):
    return [Timeline.join(by_rank) for by_rank in zip(*run, strict=True)]


def quickest(steps):
    return min(steps, key=lambda timeline: timeline.wall_s)


def share_at_work(timeline):
    return 100 * timeline.time_s(kind="compute") / len(timeline.ranks) / timeline.wall_s


# %% tags=["nbval-ignore-output"]
steps = {cluster.world_size: steps_of(cluster.run(timelines_of_steps)) for cluster in [two, four]}
working = {n: [span for span in quickest(mine).spans if span.kind == "compute"] for n, mine in steps.items()}
gantt(working[4], title="One batch, four ranks: boxes are computing, gaps are waiting")

# %% tags=["nbval-ignore-output"]
reveal("06.two", share_at_work(quickest(steps[2])))

# %% tags=["nbval-ignore-output"]
reveal("06.four", share_at_work(quickest(steps[4])))

# %% [markdown]
# The picture looks like a staircase. The next cell counts how many ranks computed at once, at most, in that step.


# %%
def most_at_once(spans):
    edges = sorted([(span.start_s, 1) for span in spans] + [(span.end_s, -1) for span in spans])
    computing, most = 0, 0
    for _, change in edges:
        computing += change
        most = max(most, computing)
    return most


print({f"{n} ranks": most_at_once(spans) for n, spans in working.items()})

# %% [markdown]
# No two ranks compute at the same moment, so no rank needs a core that another rank uses.
#
# Article E, *Data, model, and tensor parallelism*, says that model parallelism and pipeline parallelism are two names
# for the same thing. Article B, *4 Strategies for Multi-GPU Training*, says that a pipeline is data and model
# parallelism together. But a pipeline works on several pieces of a batch at once, and your run on one batch. Lesson 07
# makes a pipeline of your staircase, and tests both statements.
#
# ### Is it the moving?
#
# Article B says: if layers are on different devices, moving the activations becomes a severe bottleneck. You have a
# timeline, so you can check this.
#
# **On two ranks of this machine, which costs a device more time: moving activations and gradients, or waiting for the
# other device to compute?**

# %%
### BEGIN SOLUTION
### STUB ask("06.moving")
ask("06.moving").commit("moving")
### END SOLUTION

# %% [markdown]
# When no rank computes, the time counts as *moving*. When one rank computes, the other is *waiting*. The next cells
# take the same step over the machine's own links, and over links that the course makes slower. (The bytes are real, and
# the course sets their speed.) For each of the two times, the smallest of seven steps counts:


# %%
def moving_and_waiting(steps):
    computing_s = [step.time_s(kind="compute") for step in steps]
    return {
        "moving": min(step.wall_s - its_s for step, its_s in zip(steps, computing_s, strict=True)),
        "waiting for the other": min(computing_s) / len(steps[0].ranks),
    }


found = {"this machine": moving_and_waiting(steps[2])}
for megabytes_per_s in [1000, 100, 10]:
    with two.shaped(links=Links(Link(bandwidth_bytes_per_s=megabytes_per_s * 1e6))):
        found[f"{megabytes_per_s} MB/s"] = moving_and_waiting(steps_of(two.run(timelines_of_steps)))

# %% tags=["nbval-ignore-output"]
for name, times_s in found.items():
    print(f"{name:<14}", "   ".join(f"{what} {time_s * 1e3:6.1f} ms" for what, time_s in times_s.items()))

# %% tags=["nbval-ignore-output"]
reveal("06.moving", found["this machine"])

# %% [markdown]
# Which of the two is longer depends on the link, and article B does not say so. A faster link would only make the
# moving shorter.
#
# How many bytes cross a cut? One activation goes to the right, and its gradient goes to the left. Each has batch ×
# tokens × width numbers of 4 bytes. The number of layers does not matter.

# %%
run = metered(two, lambda me: ModelParallel(me, make_parts(2)).forward_backward(*batches[0], next_token_loss))
print("bytes from rank (row) to rank (column):", run.communication.matrix())
print("batch x tokens x width x 4 bytes:      ", 4 * SHAPE[0] * SHAPE[1] * SHAPE[2])

# %% [markdown]
# <!-- word: shape inference -->
# (Rank 0 sends a few bytes more. Once, before the first activation, it sends the shape and dtype that rank 1 has to
# expect.) **Shape inference** finds out, before the first batch, which shapes and dtypes ranks will send. PyTorch's
# pipelines do that automatically.
#
# ## What it buys
#
# A cut saves memory. The uncut step holds parameters, gradients, optimizer state and activations. **With the model cut
# in two, one of the two ranks holds more than the other. What share of the uncut step's memory does this rank hold?**

# %%
### BEGIN SOLUTION
### STUB ask("06.memory")
ask("06.memory").commit(50)  # "two halves"
### END SOLUTION


# %%
def peak_of_a_step(me):
    x, y = batches[0]
    model = ModelParallel(me, make_parts(me.world_size))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):  # in the second step the optimizer has its state
        with MemoryLedger(model.part, optimizer, inputs=(x, y), rank=me.rank) as ledger:
            model.forward_backward(x, y, next_token_loss)
            optimizer.step()
            optimizer.zero_grad()
    return ledger.peak()


peaks = {n: list(shared_cluster(n).run(peak_of_a_step)) for n in [1, 2, 4]}
memory_bars({f"{n} parts, rank {p.rank}" if n > 1 else "uncut": p for n, ps in peaks.items() for p in ps})

# %%
reveal("06.memory", peaks, config)

# %% [markdown]
# Article E says that splitting the layers lowers the memory on each device, and here it does. Data parallelism does not
# do that for parameters, gradients and optimizer state. In a real pipeline, several pieces of a batch are on their way
# at once, and the first rank keeps activations of the most pieces. Lesson 07 measures that.
#
# ## What you can do now
#
# You can cut a model of any row of layers, in one process or over ranks. The cut model learns what the uncut model
# would learn. You know what crosses a cut, and that your code has to send the gradient back. And you know how long a
# device waits, and how much memory a cut saves.
#
# So far you have cut where the parameters are halved. [Part 2](06b_where_to_cut.ipynb) asks whether that is a good
# place, and what happens to a matrix that both sides of a cut need.
#
# **Further reading.** Dean et al., [Large Scale Distributed Deep
# Networks](https://papers.nips.cc/paper/4687-large-scale-distributed-deep-networks) (2012), section 3: models cut over
# machines, before GPUs. PyTorch's page on [writing an autograd
# function](https://docs.pytorch.org/docs/stable/notes/extending.html).
