# %% [markdown]
# # 03a · Data parallelism in one process: four steps
#
# The first way to share work needs one line: `nn.DataParallel(model)`. You divide it into four steps, build the main
# part of one of them, and count what travels.
#
# **60 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 1 of 3 · [2: what one process costs](03b_one_process.ipynb) · [3: build it whole](03c_build_data_parallel.ipynb)
#
# This part builds on [01a: where the memory goes](01a_one_device.ipynb). Have you done it? `from course_lib import
# start; start("03a")` says whether you have.
#
# At the end you can
#
# - say what scatter, replicate, parallel apply and gather do, forward and backward;
# - predict how many rows a device gets, and how many bytes travel in a step;
# - find out why a counter in a model does not count;
# - say how this class differs from `DistributedDataParallel`, which has a process for each device.
#
# <!-- word: data parallelism | also: DP -->
# [Lesson 02](02a_collectives.ipynb) ended with numbers that ranks can share. The first work to share is a batch.
# **Data parallelism** gives each device a copy of the whole model, a *replica*, and a part of every batch. Here there
# are no ranks yet: *one* process, and several devices.

# %%
from course_lib import ask, check, hint, reveal, shared_cluster, solution
from course_lib.data import digits, loader
from course_lib.meter import bytes_text
from course_lib.models import SmallCNN, parameter_count
from course_lib.parallel.data import CopyCounter, DataParallel, gather, parallel_apply, replicate, scatter
from course_lib.rounding import agree

import os
import threading

import torch
import torch.nn.functional as F
from torch import nn

# %% [markdown]
# PyTorch's own class needs GPUs. Without GPUs it raises no error. The next cell asks it which devices it uses:

# %% tags=["nbval-ignore-output"]
print("devices of nn.DataParallel here:", nn.DataParallel(nn.Linear(2, 2)).device_ids)

# %% [markdown]
# An empty list means that the class only hands each call on to the model. So this lesson uses the course's version,
# which does the same steps on any list of devices. The list may name one device several times. Four replicas on one CPU
# compute what four GPUs would. They are not faster, and nothing in this part measures time.

# %%
devices = ["cpu"] * 4

# %% [markdown]
# ## One batch, four devices
#
# ![A batch of 32 rows above four boxes called device 0 to device 3, each with a question
# mark](../assets/03_question.png)
#
# **The loader says `batch_size=32`. The model is wrapped for four devices. How many rows does each device compute?**

# %%
### BEGIN SOLUTION
### STUB ask("03.rows")
ask("03.rows").commit(32)  # "it says so"
### END SOLUTION

# %%
seen = []


class Noting(nn.Module):
    def forward(self, x):
        seen.append(len(x))
        return x


DataParallel(Noting(), devices)(torch.zeros(32, 1))
print("rows that each replica saw:", sorted(seen, reverse=True))
reveal("03.rows", seen)

# %% [markdown]
# So you have a choice when you move a script from one GPU to four. If you leave `batch_size` alone, each device has a
# quarter of the work, and small pieces do not keep a GPU busy. If you multiply it by four, you train with another batch
# size. Both can be right, if you know which of the two you did.
#
# How is the last batch of an epoch cut? By `Tensor.chunk`: all parts are as large as the first, until nothing is left.

# %%
for batch_size in (32, 10, 9, 6, 3):
    sizes = [len(part) for part in scatter(torch.zeros(batch_size, 1), devices)]
    print(
        f"{batch_size:>3} rows: {' + '.join(map(str, sizes)):<13} {4 - len(sizes)} of 4 devices without work"
    )

# %% [markdown]
# Look at ten rows: one part has a *single* row. A `BatchNorm1d` behind a linear layer cannot train on it: a channel has
# one value there. Such a run stops at the last batch of its first epoch, with an error that names a replica. (Behind a
# convolution a channel has a value for each pixel. There the run goes on, with the statistics of a single image.)

# %%
try:
    DataParallel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), devices)(torch.ones(10, 3))
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## Four steps
#
# ![Four columns. Scatter: a batch is cut in four. Replicate: a model is copied four times. Parallel apply: four
# threads, each with a part and a copy. Gather: four outputs are joined on device 0](../assets/03_four_steps.png)
#
# <!-- word: `nn.DataParallel` | sentences: 3 -->
# **`nn.DataParallel`** takes four steps in every forward pass. It scatters the batch and replicates the model. Then
# each replica computes its part in a thread of its own, and the outputs are gathered on the first device.
#
# Now we take these steps by hand, on 32 digits. The model has no BatchNorm, so that cutting the batch changes no value.

# %%
torch.manual_seed(0)
model = SmallCNN(batch_norm=False)
train, _ = digits()
x, y = next(iter(loader(train, 32)))

parts = scatter(x, devices)
print("scatter:       ", [tuple(part.shape) for part in parts])
replicas = replicate(model, devices)
print("replicate:     ", len(replicas), "models of", parameter_count(model), "numbers")
outputs = parallel_apply(replicas, parts)
print("parallel apply:", [tuple(output.shape) for output in outputs])
logits = gather(outputs, "cpu")
print("gather:        ", tuple(logits.shape))
print("as one device: ", agree(logits, model(x), within=1e-5))

# %% [markdown]
# So far you have seen the forward pass. There is one loss, computed from the gathered outputs, and one call of
# `backward`. Four models computed, and the optimizer knows only one.
#
# **Whose gradients does the optimizer find in that one model?** The next cell looks at a weight of replica 2.

# %%
weight, copy_of_it = model.head[2].weight, replicas[2].head[2].weight
print("the model's weight is a leaf:", weight.is_leaf, "  and came from:", weight.grad_fn)
print(
    "replica 2's weight is a leaf:", copy_of_it.is_leaf, " and came from:", type(copy_of_it.grad_fn).__name__
)
print("parameters of replica 2:", list(replicas[2].parameters()))

# %% [markdown]
# <!-- word: leaf | also: leaf tensor -->
# A **leaf** is a tensor that no recorded operation made: autograd stops there, and puts the gradient in `.grad`.
#
# A replica's weights are not parameters. They are the *result of an operation* called broadcast, and autograd knows the
# backward of every operation. A weight that was copied four times gets four gradients, and they are **added up**. So
# the gradient of the whole batch arrives in the model, as if there had been one device:

# %%
F.cross_entropy(logits, y).backward()
together = [p.grad.clone() for p in model.parameters()]

model.zero_grad()
F.cross_entropy(model(x), y).backward()
alone = [p.grad for p in model.parameters()]
print("equal gradients, to within 1e-5:", agree(together, alone, within=1e-5))

# %% [markdown]
# Each of the four steps has its own backward:
#
# | forward | backward |
# |---|---|
# | scatter the inputs | gather their gradients |
# | replicate: broadcast the weights | add the gradients up, where the model is |
# | parallel apply | each replica's own backward pass |
# | gather the outputs | scatter the gradient of the outputs |
#
# ### What travels
#
# ![Four boxes. Device 0: the model, the optimizer. Devices 1, 2 and 3: a part of the batch, and nothing
# else](../assets/03_traffic.png)
#
# A replica lives for one forward and backward pass. The next step makes new ones. The picture shows what the devices
# hold when the batch has been cut, and nothing else has happened yet.
#
# **How many times are the model's bytes copied from device to device, in one training step on four devices? Count
# weights and gradients. Leave inputs and outputs aside: they are small here.**

# %%
### BEGIN SOLUTION
### STUB ask("03.copies")
ask("03.copies").commit(3)  # "a copy for each of the three others"
### END SOLUTION

# %% [markdown]
# `CopyCounter` adds up every tensor that is copied to a device. (Between replicas on one CPU the course copies as well,
# so that this can be counted anywhere.)

# %%
size = sum(p.nbytes for p in model.parameters())
wrapped = DataParallel(model, devices)
totals = {"forward": 0, "backward": 0}
for _ in range(10):
    with CopyCounter() as copied:
        loss = F.cross_entropy(wrapped(x), y)
    totals["forward"] += copied.size_bytes
    with CopyCounter() as copied:
        loss.backward()
    totals["backward"] += copied.size_bytes
for direction, copied_bytes in totals.items():
    print(f"{direction:<8} in 10 steps: {copied_bytes / size:4.1f} models of {bytes_text(size)}")

# %%
reveal("03.copies", sum(totals.values()) / 10, size)

# %% [markdown]
# <!-- word: parameter server -->
# You know this traffic: it is that of the naive all-reduce of lesson 02, with all traffic through one port, the
# bottleneck. A **parameter server** keeps the weights in one place, sends them to the devices that compute, and
# collects their gradients. Here device 0 does this.
#
# (Beyond whole models, the forward count has the batch, which is cut and handed out, and the outputs.)
#
# On GPUs PyTorch uses NCCL for both ways where it can: a broadcast for the weights, and an `nccl.reduce` for the
# gradients. See its [`comm.py`](https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/comm.py). Every device
# still gets all weights and gives all gradients. But they may pass from device to device, and not all of them through
# one port.
#
# The course puts five articles on trial (`course_lib.claims.ARTICLES` has their titles), and says in its own words what
# they claim. Article A is *How can a single model be trained using multiple GPUs?* It says of data parallelism that the
# updated weights are sent to every device in each iteration. The sentence is true of *this* class: it sends the weights
# in each forward pass, also in an evaluation under `no_grad`. Lesson 04 asks whether it is true of the next class.

# %% [markdown]
# ## What BatchNorm remembers
#
# ![A batch in four parts whose means are 10, 20, 30 and 40; below, a box called running mean with a question
# mark](../assets/03_batchnorm.png)
#
# <!-- word: running statistics | also: running mean and variance -->
# A *buffer* is a tensor of the module that is not learned. BatchNorm's **running statistics** are buffers: averages of
# the mean and the variance over the batches of training, which it uses in evaluation. A replica writes into them during
# the forward pass.
#
# **A batch comes in four parts with the means 10, 20, 30 and 40. A BatchNorm that remembers the last mean alone
# (`momentum=1`) runs on four devices. What is its running mean afterwards?**

# %%
### BEGIN SOLUTION
### STUB ask("03.mean")
ask("03.mean").commit(25)  # "the mean of the batch"
### END SOLUTION

# %%
norm = nn.BatchNorm1d(1, momentum=1.0)
batch = torch.tensor([9.0, 11, 19, 21, 29, 31, 39, 41]).view(8, 1)
DataParallel(norm, devices)(batch)
reveal("03.mean", norm.running_mean.item())

# %% [markdown]
# In training, too, each replica normalizes with the statistics of its own part. On four devices that is a BatchNorm
# over 8 rows where you asked for 32. Lesson 04 comes back to it.

# %% [markdown]
# ## Build: tensors for each replica
#
# You build the main part of replicate. For each replica give a dictionary from names to tensors, *all* that the module
# needs. A gradient that reaches a replica's tensor has to find its way to the module's parameter.
#
# For *buffers* the rule of `nn.DataParallel` holds: **replica 0 has the module's own**, and the others have copies.
# What the others write is lost with their copies.


# %%
def replica_tensors(module, num_replicas):
    """A list with one dictionary for each replica, from the names of parameters and buffers to tensors."""
    # 1. Every parameter, copied by an operation that autograd records.
    # 2. Every buffer: the module's own for replica 0, a copy for the others.
    ### BEGIN SOLUTION: copy what is learned for all, what is not for all but the first
    dictionaries = []
    for replica in range(num_replicas):
        tensors = {name: parameter.clone() for name, parameter in module.named_parameters()}
        for name, buffer in module.named_buffers():
            tensors[name] = buffer if replica == 0 else buffer.clone()
        dictionaries.append(tensors)
    return dictionaries
    ### END SOLUTION


# %%
check("03.replicas", replica_tensors)

# %% [markdown]
# `check` runs a module with your tensors, goes backward, and looks at gradients, at buffers, and at the memory in which
# each tensor lies. Stuck? Take the `#` away; each run gives one more hint. `solution("03.replicas")` says where the
# solved version stands.

# %%
# hint("03.replicas")

# %% [markdown]
# ## Clinic: the warm-up that never ends
#
# ![A curve that should rise over a hundred steps, dashed, and one that stays flat at the
# bottom](../assets/03_warm_up.png)
#
# *Symptoms.* A model is to begin with little dropout: the share of dropped values grows over the first hundred steps.
# On one GPU it grows. On four GPUs it stays at a hundredth of the target for the whole training. There is no error and
# no warning. Here is the code:


# %%
noted = []  # what every forward sees is added here


class FadesIn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.step = 0

    def forward(self, x):
        self.step += 1
        share = 0.3 * min(1, self.step / 100)
        noted.append(self.step)
        return F.dropout(self.layer(x), share)


# %% [markdown]
# **Why does the share stand still?** Name your suspect before you see the evidence.

# %%
### BEGIN SOLUTION
### STUB ask("03.self")
ask("03.self").commit("the threads overwrite each other")  # threads are always under suspicion
### END SOLUTION

# %% [markdown]
# The evidence is from five forward passes without the wrapper, and five with it. What does the module remember, and
# what did each `forward` see?

# %%
for where, wrap in {"one device": lambda m: m, "four devices": lambda m: DataParallel(m, devices)}.items():
    noted, fading = [], FadesIn()
    forward = wrap(fading)
    for _ in range(5):
        forward(torch.ones(8, 4))
    print(f"{where:<12} the module remembers {fading.step}; forward saw {sorted(noted)}")

# %%
reveal("03.self")

# %% [markdown]
# So in its forward pass a module must keep nothing on `self`. If it has to remember something, there is one place in
# which what replica 0 writes is kept: a buffer, changed *in place*. (`self.step = self.step + 1` would make a new
# tensor and put it on the replica, and it would be lost, too.)


# %%
class FadesInEverywhere(FadesIn):
    def __init__(self):
        super().__init__()
        del self.step
        self.register_buffer("step", torch.zeros(()))

    def forward(self, x):
        self.step += 1  # in place: += on a tensor
        share = 0.3 * min(1, self.step.item() / 100)
        return F.dropout(self.layer(x), share)


fading = FadesInEverywhere()
for _ in range(5):
    DataParallel(fading, devices)(torch.ones(8, 4))
print("the module remembers", int(fading.step))

# %% [markdown]
# ## One process or four?
#
# Article A starts one process for each GPU, wraps the model in `DistributedDataParallel`, and calls the program an
# example of `nn.DataParallel`. Do what it says: start four processes, and each wraps its model in the course's
# `DataParallel` for the four devices. **One forward pass in each process: how many replicas compute in all?**

# %%
### BEGIN SOLUTION
### STUB ask("03.processes")
ask("03.processes").commit(4)  # "one for each device"
### END SOLUTION


# %% tags=["nbval-ignore-output"]
ranks = shared_cluster(4)


# %%
def forward_of_a_process(me):
    places, met = [], threading.Barrier(4)  # nobody goes on before all four are here

    class Where(nn.Module):
        def forward(self, x):
            met.wait()
            places.append((os.getpid(), threading.get_ident()))
            return x

    DataParallel(Where(), ["cpu"] * 4)(torch.zeros(4))
    return places


places = [place for of_process in ranks.run(forward_of_a_process) for place in of_process]
print(len({process for process, _ in places}), "processes;", len(set(places)), "threads")
reveal("03.processes", places)

# %% [markdown]
# The class of this lesson wants *one* process, with one loader and one optimizer for all devices. If four processes use
# it, all of the work is done four times.

# %% [markdown]
# ## What you can do now
#
# You can take `nn.DataParallel` apart. You can say how many rows each device gets, what travels, and why a replica's
# own writes are lost. You have also met the first two of its prices. The weights are sent in every step, and a model
# must not remember anything.
#
# [Part 2](03b_one_process.ipynb) measures the other two: which device runs out of memory first, and how much threads
# gain.
#
# **Further reading.** Li et al., [*PyTorch Distributed: Experiences on Accelerating Data Parallel
# Training*](https://arxiv.org/abs/2006.15704) (2020), section 2.2: data parallelism, and why it now uses processes.
# [PyTorch's page on `nn.DataParallel`](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html): what
# it warns of.
