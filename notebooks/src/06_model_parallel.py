# %% [markdown]
# # 06 · Model parallelism
#
# A model that is too large for one device is cut between two layers, and each device gets a part. You let autograd
# do the work within one process, then carry across ranks, with your own hands, what has to cross, and find out what
# this buys in memory and what it costs in time.
#
# **65 minutes · difficulty 3 of 5 · needs: cpu**
#
# At the end you can
#
# - cut a model in parts, in one process and over ranks, and get the same gradients as without the cut;
# - write the backward pass across a cut, and say what `dist.send` and `dist.recv` do to autograd;
# - predict what share of the time a device works, and see it on a timeline;
# - choose a cut by time, by memory or by parameters, and say when the three disagree;
# - find out from losses and gradients why a model that was cut is another model.
#
# In lesson 04 every rank held the whole model, its gradients and its optimizer state. More ranks made the batch
# larger, not the model. There are two ways out. One cuts every *tensor* in shards and gathers it when it is needed
# (known as ZeRO and as FSDP); that is lesson 05. This lesson takes the other: a layer stays whole in one place, and the
# *activations* travel.

# %%
from course_lib import Cluster, Link, Links, ask, check, hint, quiz, reveal, shared_cluster, solution
from course_lib.cluster import exchange, recv, send
from course_lib.data import documentation_windows, loader
from course_lib.meter import MemoryLedger, Timeline, bytes_text, metered
from course_lib.models import ResNet, Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.model import (
    ModelParallel,
    cut,
    memory_costs,
    parameter_costs,
    pieces_of,
    split_evenly,
    time_costs,
)
from course_lib.plot import gantt, memory_bars

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
# The models of this course are a row: a *stem*, some *blocks*, a *head*. What one piece gives, the next one takes.
# `pieces_of` lists them, and `cut` makes parts of them: neighbours that stay together. A part is what the field calls a
# **stage** or a partition of the model: neighbouring layers, which one device holds. A **split point** is a place
# between two layers at which a model is cut.

# %%
config = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
text, _ = documentation_windows(config.context_length)
batches = [batch for batch, _ in zip(loader(text, 16), range(5), strict=False)]


def make_parts(num_parts, **settings):
    torch.manual_seed(0)  # every rank that calls this makes the same weights
    model = Transformer(TransformerConfig(**{**vars(config), **settings}))
    return cut(model, split_evenly(parameter_costs(model), num_parts))


whole = make_parts(1)[0]
for number, part in enumerate(make_parts(2)):
    print(f"part {number}: {', '.join(part.names)}")

# %% [markdown]
# ## Within one process
#
# <!-- word: device map -->
# Two devices, one process. The only new thing is `.to(device)` between the parts. To autograd, a move is an operation
# like any other, and its backward moves the gradient the other way. So `loss.backward()` needs no change. A table that
# says which layer lies on which device is called a **device map**; libraries that load large models ask for one.
#
# This cell uses your first two GPUs, or your only GPU and the CPU. Without a GPU both parts lie on the CPU: the code
# is the same, the moves are none.

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
print(f"loss in two parts {loss:.4f}, uncut {uncut_loss:.4f}")
print("parameters of the first part with a gradient:", sum(p.grad is not None for p in first.parameters()))

# %% [markdown]
# <!-- word: model parallelism | also: layer-wise model parallelism, inter-layer model parallelism -->
# **Model parallelism** is no more than this: each device holds some of the model's layers, and a batch goes through the
# devices one after the other. In one process that is all of it. It has a limit: one process sees the devices of one
# machine. To go further, each part gets a process of its own, a *rank*, and what crosses the cut is a message.
#
# ## A message
#
# ![Two ranks with a part each. A solid arrow labelled activation goes from rank 0 to rank 1; a dashed arrow with a
# question mark comes back](../assets/06_messages.png)
#
# A tutorial that many have read writes the second rank's side like this: `x = dist.recv(0)`.
#
# **What does `dist.recv` return?**

# %%
### BEGIN SOLUTION
### STUB ask("06.recv")
ask("06.recv").commit("the tensor that was sent")
### END SOLUTION


# %%
def send_and_recv(me):
    room = torch.zeros(3)
    if me.rank == 0:
        return dist.send(torch.tensor([1.0, 2.0, 3.0]), dst=1)
    result = dist.recv(room, src=0)
    return {"returned": result, "the tensor that was passed in": room.tolist()}


with Cluster(2, backend="gloo") as plain:  # messages between tensors on the CPU, on any machine
    run = plain.run(send_and_recv)
print(run[1])
reveal("06.recv", run[1]["returned"])

# %% [markdown]
# So a receiver must *know* what will come. Here it is easy: whatever the cut, a block of this transformer gives
# (batch, tokens, width).
#
# Now the whole step, as it first comes to mind: rank 0 sends its activation, rank 1 goes on and calls
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
# A loss that goes down proves little. Somebody has to send the gradient back, and that is you.
#
# ## Build: there and back
#
# ![Two ranks. Rank 0 forward, an activation goes right, rank 1 forward, loss, backward, a gradient goes left, rank 0
# backward](../assets/06_there_and_back.png)
#
# Write one batch for any rank. On the first rank `x` is the batch, on the last `target` is there; elsewhere they are
# None. `room` is a new tensor of the shape and dtype of every activation, for what arrives. It is an ordinary tensor:
# `requires_grad_()` makes it a *leaf*, a place where autograd leaves a gradient. And `tensor.backward(gradient)` begins
# a backward pass in the middle of a model, with the gradient that you give it.


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
# Your step on the transformer, cut over four ranks. Compare the losses with those of the uncut model, below.


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
        losses.append(round(torch.as_tensor(loss).item(), 4) if is_last else None)
    return losses


if backward_verdict.passed:
    print("4 parts, by hand:", four.run(train_by_hand, there_and_back)[3])

# %% [markdown]
# ### Twice the same, by autograd
#
# <!-- word: custom autograd function | also: `torch.autograd.Function` -->
# What you wrote by hand can be taught to autograd. A **custom autograd function** is a forward and the backward that
# belongs to it, both written by you; in PyTorch it is a `torch.autograd.Function`. Here: *forward: `send`; backward:
# `recv`*, and the other way round. With such a pair every rank's loop looks like any training loop. The pair is in
# `course_lib/parallel/model/passing.py`, 40 lines; `ModelParallel` uses it.


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
        losses.append(round(loss.item(), 4))
    return losses


for cluster in [shared_cluster(1), two, four]:
    run = cluster.run(train, 4)
    print(f"{len(run)} part{'s' * (len(run) > 1)}: {run[len(run) - 1]}")

# %% [markdown]
# The same losses, cut or not. Not *nearly* the same model: the same.
#
# ## Who works when?
#
# ![A time axis and two rows. Rank 0: a box forward, then nothing but a question mark; rank 1: a question
# mark](../assets/06_staircase_question.png)
#
# Twice the devices. **What share of the time does each of two devices work on one batch?** Computing counts, waiting
# does not.

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
# The ranks below do real arithmetic, nothing is paced. That is honest even on two cores, as a count below the picture
# will show: no two ranks compute at the same moment, so none takes a core from another. Of seven steps the quickest
# counts; whatever else your machine does can only lengthen a step.


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


def quickest(run):
    steps = [Timeline.join(by_rank) for by_rank in zip(*run, strict=True)]
    return min(steps, key=lambda timeline: timeline.wall_s)


def share_at_work(timeline):
    return 100 * timeline.time_s(kind="compute") / len(timeline.ranks) / timeline.wall_s


# %% tags=["nbval-ignore-output"]
timelines = {cluster.world_size: quickest(cluster.run(timelines_of_steps)) for cluster in [two, four]}
working = {
    n: [span for span in timeline.spans if span.kind == "compute"] for n, timeline in timelines.items()
}
gantt(working[4], title="One batch, four ranks: boxes are computing, white is waiting")

# %% tags=["nbval-ignore-output"]
reveal("06.two", share_at_work(timelines[2]))

# %% tags=["nbval-ignore-output"]
reveal("06.four", share_at_work(timelines[4]))

# %% [markdown]
# A staircase. Four devices, and at any moment at most one of them computes. Count it: of all moments of that step,
# how many ranks computed at once at most?


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
# "Model parallelism is also known as pipeline parallelism", you may have read, and "pipeline parallelism is a
# combination of data and model parallelism". A pipeline has several things in it at once; what you ran has one.
# Lesson 07 makes one of your staircase, and puts both sentences on trial.
#
# ### Is it the moving?
#
# "Placing layers on different devices makes a severe bottleneck: moving the activations", says another text. You
# have a timeline; it can be checked.
#
# **What takes more of a device's time on two ranks of this machine: moving activations and gradients, or waiting for
# the other device to compute?**

# %%
### BEGIN SOLUTION
### STUB ask("06.moving")
ask("06.moving").commit("moving")
### END SOLUTION

# %% [markdown]
# Whatever is not computing, on any rank, is moving. Whatever one rank computes, the other waits for. The same step over
# the machine's own links, and over links that the course makes slower (bytes are real, their speed is set):


# %%
def moving_and_waiting(timeline):
    computing_s = timeline.time_s(kind="compute")
    return {
        "moving": timeline.wall_s - computing_s,
        "waiting for the other": computing_s / len(timeline.ranks),
    }


found = {"this machine": moving_and_waiting(timelines[2])}
for megabytes_per_s in [1000, 100, 10]:
    with two.shaped(links=Links(Link(bandwidth_bytes_per_s=megabytes_per_s * 1e6))):
        found[f"{megabytes_per_s} MB/s"] = moving_and_waiting(quickest(two.run(timelines_of_steps)))

# %% tags=["nbval-ignore-output"]
for name, times_s in found.items():
    print(f"{name:<14}", "   ".join(f"{what} {time_s * 1e3:6.1f} ms" for what, time_s in times_s.items()))

# %% tags=["nbval-ignore-output"]
reveal("06.moving", found["this machine"])

# %% [markdown]
# ![Two rows on a time axis; one question mark points at the arrow between them, another at the empty half of each
# row](../assets/06_moving.png)
#
# The verdict on that claim: *misleading*, since it depends on the link. A faster one would win back the moving and
# nothing else, and the number of bytes does not grow with the depth of the model. How much crosses a cut? One
# activation to the right and its gradient to the left, each (batch, tokens, width) of 4 bytes:

# %%
run = metered(two, lambda me: ModelParallel(me, make_parts(2)).forward_backward(*batches[0], next_token_loss))
print("bytes from rank (row) to rank (column):", run.communication.matrix())
print("batch x tokens x width x 4 bytes:      ", 4 * SHAPE[0] * SHAPE[1] * SHAPE[2])

# %% [markdown]
# <!-- word: shape inference -->
# (The few bytes more from rank 0 are sent once, before the first activation: the shape and dtype to expect.)
# **Shape inference** finds out, before the first batch, which shapes and dtypes will travel; PyTorch's pipelines do it
# by themselves.
#
# ## What it buys
#
# ![One tall bar labelled the whole model, and beside it two dashed bars with question marks labelled rank 0 and rank
# 1](../assets/06_memory_question.png)
#
# Memory. The uncut step holds parameters, gradients, optimizer state and activations. **Cut in two: what share of
# that does the fuller of the two ranks hold?**

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
# The claim "splitting the layers lowers the memory on each device" *holds*. That is more than data parallelism can
# say. In a real pipeline there is a second thing to know: several pieces of a batch are in flight at once, and the
# first rank holds the most of them. Lesson 07 comes to that.

# %% [markdown]
# ## Where to cut
#
# ![A row of pieces of a network for images; above each its share of the parameters, growing to the right; below its
# share of the memory, shrinking to the right](../assets/06_where.png)
#
# For a transformer, blocks are alike. A network for images is not: at the start its pictures are large and its
# channels few, at the end it is the other way round. This ResNet has ten pieces.

# %%
torch.manual_seed(0)
resnet = ResNet((2, 2, 2, 2), width=8, bottleneck=False, num_classes=10, small_images=True)
images, labels = torch.randn(32, 3, 32, 32), torch.arange(32) % 10
costs = {"parameters": parameter_costs(resnet), "memory": memory_costs(resnet, images)}
cuts = {name: split_evenly(cost, 2) for name, cost in costs.items()}
for name, cost in costs.items():
    print(f"{name:<10}", "  ".join(f"{100 * one / sum(cost):4.1f}%" for one in cost))
    print(f"{'':<10} cut in two:", [len(part) for part in cuts[name]], "pieces")

# %% [markdown]
# Somebody cuts it in two by parameters, as evenly as can be. **What share of the computing does rank 0 then do?**

# %%
### BEGIN SOLUTION
### STUB ask("06.lopsided")
ask("06.lopsided").commit(50)  # "evenly is evenly"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
costs["time"] = time_costs(resnet, images)
cuts["time"] = split_evenly(costs["time"], 2)
print("time      ", "  ".join(f"{100 * one / sum(costs['time']):4.1f}%" for one in costs["time"]))
print("           cut in two:", [len(part) for part in cuts["time"]], "pieces")

# %% tags=["nbval-ignore-output"]
reveal("06.lopsided", costs["time"], cuts["parameters"], resnet, images)

# %% [markdown]
# Now run both cuts, and let each rank's ledger speak. The cut by parameters shares out what is small here.


# %%
def peak_of_a_cut(me, ranges):
    model = ModelParallel(me, cut(resnet, ranges))
    with MemoryLedger(model.part, inputs=(images, labels), rank=me.rank) as ledger:
        model.forward_backward(images, labels, torch.nn.functional.cross_entropy)
    return ledger.peak()


bars = {}
for name in ["parameters", "memory"]:
    for peak in two.run(peak_of_a_cut, cuts[name]):
        bars[f"by {name}, rank {peak.rank}"] = peak
memory_bars(bars, title="The same model, cut in two places")

# %% [markdown]
# <!-- word: naive model parallelism -->
# <!-- word: load balance | also: load balancing, load imbalance -->
# Which to use? In **naive model parallelism** only one device works at a time, so the *time* of a step is the same
# wherever you cut; **memory** decides. In a pipeline all devices work at once and wait for the slowest: then **time**
# decides, as far as memory allows. Parameters alone decide where the weights and the optimizer are most of the memory,
# as in large language models with small batches. The **load balance** of a cut is good when no device has much more to
# do, or to hold, than the others.
#
# ### Build: the best cut
#
# <!-- word: linear partition | also: chains-on-chains partitioning -->
# You get what each piece costs, and how many parts are wanted. Return how many pieces each part gets, so that the
# costliest part costs as little as can be. Exactly, not nearly: models have few pieces. The problem is known as
# **linear partition**: cut a row of costs into a given number of runs, so that the costliest run costs as little as can
# be.


# %%
def cut_evenly(costs, num_parts):
    """How many neighbouring pieces each part gets: a list of ``num_parts`` numbers of at least 1."""
    # 1. One part: it gets everything.
    # 2. Else: try every size of the first part. What is the best that the others can do with the rest?
    # 3. Of these, keep the one whose largest part is smallest.
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
    print("by memory, in 2, 3 and 4 parts:", [cut_evenly(costs["memory"], n) for n in [2, 3, 4]])

# %% [markdown]
# ## Is it necessary?
#
# ![A bar labelled one step on one device rises above a dashed line labelled limit](../assets/06_fits.png)
#
# "Model parallelism is necessary when the model does not fit on one device." Say your device has half of what the
# uncut step of our transformer takes. Cutting helps. Two things from lesson 01 need no second device at all:
# recomputing activations in the backward pass (activation checkpointing), and taking the batch in small pieces one
# after the other (gradient accumulation).

# %%
from torch.utils.checkpoint import checkpoint


def recomputing(model, x):
    for name in model.names:
        x = checkpoint(model.get_submodule(name), x, use_reentrant=False)
    return x


def peak_on_one_device(forward, num_pieces=1):
    model, optimizer = make_parts(1)[0], None
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        with MemoryLedger(model, optimizer, inputs=batches[0]) as ledger:
            for x, y in zip(*(tensor.chunk(num_pieces) for tensor in batches[0]), strict=True):
                (next_token_loss(forward(model, x), y) / num_pieces).backward()
            optimizer.step()
            optimizer.zero_grad()
    return ledger.peak()


# %%
plainly = peak_on_one_device(lambda model, x: model(x))
ways = {
    "one device": plainly,
    "cut in four, fullest rank": max(peaks[4], key=lambda peak: peak.total_bytes),
    "one device, recomputing": peak_on_one_device(recomputing),
    "one device, batch in 4 pieces": peak_on_one_device(lambda model, x: model(x), num_pieces=4),
}
memory_bars(ways, limit_bytes=plainly.total_bytes // 2, title="Ways to fit in half of the memory")

# %% [markdown]
# The verdict: *misleading*. Three of the four fit, and two of those use one device. What neither of the two shrinks is
# parameters, gradients and optimizer state. Once *those* are too large, you shard them (lesson 05), move them out of
# the device (offload), or cut the model. Cutting is one way among several, and what it asks for in return you have
# seen: devices that wait.
#
# ## Clinic: the model that learns a little worse
#
# ![A row of six boxes: stem, four blocks, head. A dashed line between the third and the fourth says cut; the left half
# is labelled device 0, the right half device 1](../assets/06_cut.png)
#
# *Symptom.* A team cuts a transformer in two, as in the picture. Nobody saw an error, and the losses fall. The loss of
# step 0 is that of the uncut model; from step 1 on it is another. What they can say: both ranks call
# `torch.manual_seed(0)`; activations and gradients travel as float32; the optimizer is plain SGD, one on each rank; and
# the model has `tied=True`: one matrix looks tokens up in the stem and scores them in the head.
#
# **Why is it another model?** Name a suspect first. The evidence comes after.

# %%
### BEGIN SOLUTION
### STUB ask("06.tied")
ask("06.tied").commit("the ranks began with different weights")
### END SOLUTION

# %% [markdown]
# The team's training, and for each step what the two ranks hold:


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
    for step, (one, start, end) in enumerate(zip(uncut, run[0], run[-1], strict=True)):
        apart = (start[1] - end[1]).abs().max().item()
        norms = "   ".join(f"{norm:.3f}" for _, _, norm in (one, start, end))
        print(f"{step:>4}   {one[0]:>10.3f}   {end[0]:>8.3f}   {apart:>16.5f}   {norms}")


# %%
uncut = shared_cluster(1).run(train_tied, None)[0]
sick = list(two.run(train_tied, lambda me, weight, other: None))
print_evidence(sick, uncut)

# %%
reveal("06.tied")

# %% [markdown]
# ### Mend it
#
# ![A row of pieces over two ranks. The stem on rank 0 and the head on rank 1 hold the same matrix, drawn
# twice](../assets/06_tied.png)
#
# Write what both ranks call after the backward pass and before the step. `weight` is this rank's copy, `other` the rank
# that has the other one. Ranks in between have none, and are not asked. Once each way is enough.


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
    print_evidence(list(two.run(train_tied, after_backward)), uncut)

# %% [markdown]
# Copies that begin equal and add up the same numbers stay equal, to the last bit. `ModelParallel` finds tied
# parameters by itself and does this in `sum_tied_gradients()`.
#
# ## In production
#
# What production code uses is in `torch.distributed.pipelining`: it takes care of parts, messages and the order of
# work, for the pipelines of lesson 07. A part is a *stage* there, and the order of work a *schedule*. With *one*
# micro-batch it does what you built. The same parts, the same batch:


# %%
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def both_ways(me):
    """Our step and PyTorch's as functions, and the parts that they train."""
    (x, y), is_first, is_last = batches[0], me.rank == 0, me.rank == me.world_size - 1
    ours, theirs = (
        ModelParallel(me, make_parts(me.world_size)),
        make_parts(me.world_size)[me.rank].to(me.device),
    )
    x, y = x.to(me.device), y.to(me.device)
    stage = PipelineStage(theirs, me.rank, me.world_size, me.device)
    schedule = ScheduleGPipe(stage, n_microbatches=1, loss_fn=next_token_loss)
    steps = {
        "ours": lambda: ours.forward_backward(x, y, next_token_loss),
        "torch.distributed.pipelining": lambda: schedule.step(*[x] * is_first, target=y if is_last else None),
    }
    return steps, ours.part, theirs


# %%
def largest_difference(me):
    steps, ours, theirs = both_ways(me)
    for step in steps.values():
        step()
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    return max((a.grad - b.grad).abs().max().item() for a, b in pairs)


differences = list(two.run(largest_difference))
print("gradients agree to 1e-6 on every rank:", max(differences) < 1e-6)


# %% tags=["nbval-ignore-output"]
import statistics
import time


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
# | `after_backward` | an all-reduce in a group of the first and the last rank |
#
# ## Five sentences, tried
#
# ![Three boxes in a row on a time axis, the first and the last with a question mark](../assets/06_quiz.png)
#
# Five sentences from widely read texts went through this lesson. Each was decided by something that you ran:

# %%
verdicts = {
    "x = dist.recv(0) returns the tensor that rank 0 sent": "false",
    "sending activations is enough to train two halves": "false",
    "moving activations makes a severe bottleneck": "misleading",
    "splitting the layers lowers the memory on each device": "holds",
    "it is necessary when the model does not fit": "misleading",
}
for sentence, verdict in verdicts.items():
    print(f"{verdict:<12} {sentence}")

# %% [markdown]
# ### Five questions

# %% tags=["computed-time"]
quiz("06")

# %% [markdown]
# ## What you can do now
#
# You can cut a model of any row of layers, in one process or over ranks, and it learns as it would in one piece. You
# know what crosses a cut and who has to carry it back; you can choose the cut by what runs out first; and you know that
# a tensor in two places is two tensors.
#
# **The limit.** Four devices, and each works a quarter of the time: you have bought memory, and paid with time. The
# white on your staircase is large enough for three more batches. Lesson 07 cuts the batch in pieces and sends them
# down the stairs one after the other.
#
# **Further reading.** Dean et al., *Large Scale Distributed Deep Networks* (2012), section 3: models cut over machines,
# before GPUs. Huang et al., *GPipe* (2019), section 2 and figure 2: the staircase, and what to do about it. Shoeybi et
# al., *Megatron-LM* (2019), section 3: the other way to cut a layer, for lesson 08.
