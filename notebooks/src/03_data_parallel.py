# %% [markdown]
# # 03 · Data parallelism in one process
#
# The first way to share work takes one line: `nn.DataParallel(model)`. You take it apart into four steps, rebuild two
# of them, and measure what made everybody leave it.
#
# **60 minutes · difficulty 2 of 5 · needs: cpu**
#
# At the end you can
#
# - say what scatter, replicate, parallel apply and gather do, forward and backward;
# - predict how many rows a device gets, which device fills up first, and how many bytes travel;
# - tell when threads help a model and when they slow it down;
# - find out why a counter stands still, and why a checkpoint loads nothing.
#
# <!-- word: data parallelism | also: DP -->
# [Lesson 02](02_collectives.ipynb) ended with numbers that ranks can share. The first work to share is a batch.
# **Data parallelism** gives each device a copy of the whole model, a *replica*, and a part of every batch. Here there
# are no ranks yet: *one* process, and several devices.

# %%
from course_lib import ask, check, cost, hint, machine, quiz, reveal, shared_cluster, solution
from course_lib.data import digits, documentation_windows, loader
from course_lib.meter import MemoryLedger, bytes_text
from course_lib.models import SmallCNN, Transformer, TransformerConfig, next_token_loss, parameter_count
from course_lib.parallel.data import (
    CopyCounter,
    DataParallel,
    gather,
    parallel_apply,
    replicate,
    scatter,
)
from course_lib.plot import memory_bars

import threading
import warnings

import torch
import torch.nn.functional as F
from torch import nn

# %% [markdown]
# PyTorch's own needs GPUs. Without them it does not complain; ask it which devices it uses:

# %% tags=["nbval-ignore-output"]
print("devices of nn.DataParallel here:", nn.DataParallel(nn.Linear(2, 2)).device_ids)

# %% [markdown]
# An empty list means that a call goes to the model and that is all. So this lesson uses the course's version, which
# does the same steps on any list of devices, and may name one device several times. Four replicas on one CPU compute
# what four GPUs would; they are not faster, and where time matters below, we say what was measured.

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
# So you choose when you move a script from one GPU to four. Leave `batch_size` alone, and each device has a quarter of
# the work; small pieces keep a GPU badly busy. Multiply it by four, and you train with another batch size. Both can be
# right, if you know which of the two you did.
#
# And the last batch of an epoch? The cut is `Tensor.chunk`: all parts as large as the first, until nothing is left.

# %%
for batch_size in (32, 10, 9, 6, 3):
    sizes = [len(part) for part in scatter(torch.zeros(batch_size, 1), devices)]
    print(
        f"{batch_size:>3} rows: {' + '.join(map(str, sizes)):<13} {4 - len(sizes)} of 4 devices without work"
    )

# %% [markdown]
# Look at ten rows: a part of *one* row. A BatchNorm cannot train on that, and such a run dies on the last batch of its
# first epoch, with an error that names a replica:

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
# <!-- word: `nn.DataParallel` -->
# **`nn.DataParallel`** takes four steps in every forward pass: it scatters the batch, replicates the model, lets each
# replica compute its part in a thread of its own, and gathers the outputs on the first device.
#
# Now by hand, on 32 digits. The model has no BatchNorm, so that cutting the batch changes no value.

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
print("as one device: ", torch.allclose(logits, model(x), atol=1e-5))

# %% [markdown]
# That was the forward pass. There is one loss, computed from the gathered outputs, and one call of `backward`. Four
# models computed, and the optimizer knows only one.
#
# **Whose gradients does it find there?** Look at a weight of replica 2 before you run on.

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
# A replica's weights are not parameters. They are the *result of an operation* called broadcast, and autograd knows
# every operation's way back: what was copied four times gets four gradients, and they are **added up**. So the gradient
# of the whole batch arrives in the model, as if there had been one device:

# %%
F.cross_entropy(logits, y).backward()
together = [p.grad.clone() for p in model.parameters()]

model.zero_grad()
F.cross_entropy(model(x), y).backward()
alone = [p.grad for p in model.parameters()]
print("equal gradients:", all(torch.allclose(a, b, atol=1e-6) for a, b in zip(together, alone, strict=True)))

# %% [markdown]
# The way back of each step is another of the steps:
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
# A replica lives for one forward and backward pass. The next step makes new ones.
#
# **One training step on four devices. How many times the model's bytes are copied from device to device? Count weights
# and gradients; leave inputs and outputs aside, they are small here.**

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
# ![Device 0 with the model and the optimizer; three solid arrows called weights go out to devices 1, 2 and 3, and three
# dashed ones, with a question mark, lead back](../assets/03_traffic.png)
#
# The question mark in this picture has its answer now: what comes back are gradients.
#
# <!-- word: parameter server -->
# You know this shape: it is the naive all-reduce of lesson 02, with all traffic through one port, the bottleneck. A
# **parameter server** keeps the weights in one place, hands them out to those who compute, and takes their gradients
# in. Device 0 plays that part here.
#
# And you may have read that "the updated weights are broadcast to every device in each iteration". Of *this* class that
# is true, and for an evaluation under `no_grad` too. Lesson 04 asks it of the next one.

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
# The heart of replicate. For each replica give a dictionary from names to tensors, *all* that the module needs. A
# gradient that reaches a replica's tensor has to find its way to the module's parameter.
#
# And the *buffers*: by the rule of `nn.DataParallel`, **replica 0 has the module's own**, the others have copies, and
# what they write is lost with them.


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
# `check` runs a module with your tensors, goes backward, and looks at gradients, buffers and at whose memory each
# tensor lies in. Stuck? Take the `#` away; each run gives one more hint. `solution("03.replicas")` says where the
# solved version stands.

# %%
# hint("03.replicas")

# %% [markdown]
# ## Who is full first?
#
# ![Four bars for four devices. Each has parameters and activations; device 0 has a box with a question mark on
# top](../assets/03_memory_question.png)
#
# All devices hold the same weights and a quarter of the batch each. Yet it is device 0 that runs out of memory.
#
# **The small transformer of lesson 01, 32 texts, AdamW, four devices, at the end of the forward pass. How many times as
# much as device 1 does device 0 hold?**

# %%
### BEGIN SOLUTION
### STUB ask("03.device_0")
ask("03.device_0").commit(4)  # "everything comes back to it"
### END SOLUTION

# %%
torch.manual_seed(0)
config = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
reader = Transformer(config)
optimizer = torch.optim.AdamW(reader.parameters())
text, _ = documentation_windows(config.context_length)
tokens, targets = next(iter(loader(text, 32)))

next_token_loss(DataParallel(reader, devices)(tokens), targets).backward()
optimizer.step()  # AdamW has its state now, and the model its gradients
replicas, parts = replicate(reader, devices), scatter(tokens, devices)

# %% [markdown]
# On GPUs each device has its own memory to ask. Here we let the replicas run one after another, each under a ledger
# that sees what *its* device would hold. First replica 1, with its weights and its eight texts:


# %%
def weights_of(replica):
    """Tensors that are attributes: a replica has no parameters."""
    return [value for m in replica.modules() for value in vars(m).values() if isinstance(value, torch.Tensor)]


with MemoryLedger(inputs=parts[1]) as ledger_1:
    ledger_1.own("parameter", weights_of(replicas[1]))
    output_1 = replicas[1](parts[1])
on_device_1 = ledger_1.now("device 1, 2, 3")
print(on_device_1)

# %% [markdown]
# Then device 0. It has replica 0, and besides it whatever there is only one of.

# %%
others = [output_1, replicas[2](parts[2]), replicas[3](parts[3])]
with MemoryLedger(reader, optimizer, inputs=(tokens, targets)) as ledger_0:
    logits = gather([replicas[0](parts[0]), *others], "cpu")
    loss = next_token_loss(logits, targets)
on_device_0 = dict(ledger_0.now().by_label)
on_device_0["other"] -= sum(output.nbytes for output in others)  # seen by the ledger, and not on this device
memory_bars({"device 0": on_device_0, "device 1, 2, 3": on_device_1}, title="At the end of the forward pass")

# %%
reveal("03.device_0", on_device_0, on_device_1)

# %% [markdown]
# This reader chooses among 256 bytes. Language models choose among tens of thousands of tokens, for each token of each
# text. What is that in a model of 12 layers, by the formulas of lesson 01?

# %%
large = TransformerConfig(vocab_size=50_257, context_length=512, num_layers=12, width=768, num_heads=12)
with torch.device("meta"):  # sizes without memory
    state = cost.model_state(parameter_count(Transformer(large)))
logits_bytes = 4 * 32 * large.context_length * large.vocab_size
print("gradients and optimizer state:", bytes_text(state.gradients + state.optimizer))
print(
    "outputs of the whole batch:   ",
    bytes_text(logits_bytes),
    "and as much again for the loss, and for the gradient",
)

# %% [markdown]
# ### Let the replicas compute the loss
#
# The usual way out: put the loss into the module. Each replica then returns a single number in place of its logits.


# %%
class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        return F.cross_entropy(self.model(x), y)


x10, y10 = x[:10], y[:10]
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    losses = DataParallel(WithLoss(model), devices)(x10, y10)
print("came back:", tuple(losses.shape), "and a warning:", told[0].message)

# %% [markdown]
# Four scalars became a vector of four, which `backward` refuses. So one writes `losses.mean().backward()`, and all is
# well until a batch cannot be cut evenly:

# %%
sizes = torch.tensor([len(part) for part in scatter(x10, devices)])
whole = F.cross_entropy(model(x10), y10)
print("rows:", sizes.tolist())
print("mean of the means is the batch's loss:    ", torch.allclose(losses.mean(), whole))
print("means weighed by rows are the batch's loss:", torch.allclose((losses * sizes).sum() / 10, whole))

# %% [markdown]
# The last row counted as much as three others. You met this in lesson 01, with pieces of a batch; it will come back
# with ranks.

# %% [markdown]
# ## Threads
#
# <!-- word: thread -->
# <!-- word: GIL | also: global interpreter lock -->
# **Threads** are lines of work that go on side by side in one process and share its memory. *Parallel apply* runs each
# replica in one. A usual Python has one lock, the **GIL** (global interpreter lock): of all threads, one at a time runs
# Python. PyTorch lets go of it while an operator computes, so two threads can compute at once, as long as they are
# inside operators.
#
# **A model of 100 small layers, two threads on two cores, half of the batch each. How many times as fast as one thread
# with the whole batch?**

# %%
### BEGIN SOLUTION
### STUB ask("03.threads")
ask("03.threads").commit(1.8)  # "nearly two"
### END SOLUTION

# %% [markdown]
# A fair race: one worker, two threads, two *processes* (ranks of the cluster), in turns, one core each. Nothing is
# exchanged and no weights are copied: forward passes alone, since that is what `nn.DataParallel` runs in threads. Of
# each, the fastest round counts: whatever else your machine does can only lengthen a time.


# %%
def many_small_layers():
    return nn.Sequential(*(nn.Linear(32, 32) for _ in range(100))), torch.ones(256, 32)


def few_large_layers():
    return nn.Sequential(nn.Linear(1024, 1024), nn.Linear(1024, 1024)), torch.ones(512, 1024)


# %% tags=["nbval-ignore-output"]
from course_lib.parallel.data import interpreter_lock, threads_or_processes

ranks = shared_cluster(2)
races = {
    "100 small layers": threads_or_processes(ranks, many_small_layers, backward=False, steps=5, rounds=25),
    "2 large layers": threads_or_processes(ranks, few_large_layers, backward=False, steps=3, rounds=9),
}
print(f"the lock is {interpreter_lock()}; times as fast as one worker:")
for which, race in races.items():
    print(f"{which:<18} 2 threads {race.threads_speed_up:4.2f}   2 processes {race.processes_speed_up:4.2f}")

# %% tags=["nbval-ignore-output"]
reveal("03.threads", races["100 small layers"])

# %% [markdown]
# ![Above, two threads in one process that share a lock: each works while it holds the lock, and waits while the other
# has it. Below, two processes with a lock each work side by side](../assets/03_threads.png)
#
# <!-- word: launch | also: kernel launch -->
# The picture is the extreme case, in which all the work is Python. With few large layers the threads spend their time
# inside operators, without the lock; on two free cores they then come closer to the processes. So "Python threads are
# slow" is not the rule. The rule: **the lock costs what your model spends in Python**. On a GPU, Python only
# **launches** an operator: it hands it to the device and goes on without waiting. That makes it worse, because one
# interpreter has to launch for all devices.
#
# (How far two processes get depends on the cores that are really free. Compare them first: if yours stay far below two
# with the large layers, the race says little about threads. Look at what else is running, and race again.)
#
# <!-- word: free-threaded | also: no-GIL build -->
# A **free-threaded** Python, one without the GIL, exists since 3.13 as a build of its own. There, the reason for the
# difference above is gone, and threads would keep everything else that they share. We have not measured it: the course
# installs the usual build. `interpreter_lock()` says what you have, so that you can race yourself.

# %% [markdown]
# ## Build: parallel apply
#
# Write it. A thread is `threading.Thread(target=work, args=(r,))`, with `start()` and `join()`, which waits for its
# end. A new thread does not inherit what is set for the caller's, such as `torch.no_grad()`, and an exception in a
# thread ends that thread and nobody else's. `raise NewError(...) from error` keeps the old one with the new.


# %%
def apply_in_threads(modules, inputs):
    """``modules[r](inputs[r])`` for every r, at the same time; a list of the results in this order."""
    results, failures = [None] * len(modules), {}

    def work(r):  # what one thread does
        ### BEGIN SOLUTION: run module r as the caller would; keep its result, or its failure
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error
        ### END SOLUTION

    # Does the caller record? Start all threads. Wait for all. If one failed, tell which.
    ### BEGIN SOLUTION: a thread for each module, all at the same time
    recording = torch.is_grad_enabled()
    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for r, error in sorted(failures.items()):
        raise RuntimeError(f"replica {r} failed: {error}") from error
    return results
    ### END SOLUTION


# %%
threads_verdict = check("03.threads", apply_in_threads)

# %%
# hint("03.threads")

# %% [markdown]
# All four steps, with yours among them:

# %%
if threads_verdict.passed:
    logits = gather(apply_in_threads(replicate(model, devices), scatter(x, devices)), "cpu")
    print(
        "four threads of yours, one forward pass, as one device:", torch.allclose(logits, model(x), atol=1e-5)
    )

# %% [markdown]
# ## Clinic 1: the warm-up that never ends
#
# ![A curve that should rise over a hundred steps, dashed, and one that stays flat at the
# bottom](../assets/03_warm_up.png)
#
# *Symptoms.* A model fades its dropout in: for the first hundred steps its share grows. On one GPU it does. On four it
# stays at a hundredth of the target for the whole training. No error, no warning. The code:


# %%
noted = []  # what each forward saw


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


# %%
### BEGIN SOLUTION
### STUB ask("03.self")
ask("03.self").commit("the threads overwrite each other")  # threads are always under suspicion
### END SOLUTION

# %% [markdown]
# Evidence: five forward passes without the wrapper, five with it. What did the module remember, and what did every
# `forward` see?

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
# So a module must not keep things on `self` in its forward pass, or keep them where replica 0 can write through: in a
# buffer, *in place*. (`self.step = self.step + 1` would make a new tensor and put it on the replica: lost again.)


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
# ## Clinic 2: a model that forgot everything
#
# ![Trained on four GPUs; saved and loaded without an error; begins like a model that was never
# trained](../assets/03_keys.png)
#
# *Symptoms.* A model was trained on four GPUs and saved. Fine-tuning starts from that file, and begins at the loss of
# a model that has never seen a digit. No error. The two lines, as they were sent in:
#
# ```python
# torch.save(wrapped.state_dict(), path)                        # at the end of the training
# model.load_state_dict(torch.load(path), strict=False)         # at the start of the fine-tuning
# ```

# %%
### BEGIN SOLUTION
### STUB ask("03.keys")
ask("03.keys").commit("the model is in training mode")  # one forgets eval() so easily
### END SOLUTION

# %% [markdown]
# <!-- word: state dict | also: `state_dict` -->
# A **state dict** is what is saved of a model: a dictionary with the name and the tensor of each parameter and buffer.
# Evidence: what `load_state_dict` returns, which nobody had looked at, and a name from each side.

# %%
in_file = DataParallel(model, devices).state_dict()
fresh = SmallCNN(batch_norm=False)
report = fresh.load_state_dict(in_file, strict=False)
missing, unexpected = report.missing_keys, report.unexpected_keys
print("saved:", len(in_file), "tensors; missing:", len(missing), "unexpected:", len(unexpected))
print("the model asks for ", missing[0])
print("the file offers    ", unexpected[0])

# %%
reveal("03.keys")

# %% [markdown]
# Two habits prevent it: save `wrapped.module.state_dict()`, load it into the bare model, and wrap afterwards; and never
# use `strict=False` to silence an error.
#
# ### Mend it
#
# Files like that exist by the thousand. Write a `load` that takes both kinds, and still raises an error for what is not
# this model. Now and then a bare model has a part of its own that is called `module`; its names are right as they are.


# %%
def load(model, saved):
    """Load ``saved`` into the bare ``model``, whoever saved it: the model or a wrapper. ``saved`` stays as it is."""
    ### BEGIN SOLUTION: bring the names to those of the bare model, where they are not
    if saved.keys() != model.state_dict().keys():
        saved = {name.removeprefix("module."): tensor for name, tensor in saved.items()}
    model.load_state_dict(saved)
    ### END SOLUTION


# %%
check("03.load", load)

# %%
# hint("03.load")

# %% [markdown]
# ## One process or four?
#
# ![A batch of 32 rows above four boxes called device 0 to device 3, each with a question
# mark](../assets/03_question.png)
#
# A widely read article starts one process for each GPU, wraps the model in `DistributedDataParallel`, and calls the
# program an example of `nn.DataParallel`. Take it at its word: four processes, and each wraps its model in the course's
# `DataParallel` for the four devices. **One forward pass in each process: how many replicas compute, all together?**

# %%
### BEGIN SOLUTION
### STUB ask("03.processes")
ask("03.processes").commit(4)  # "one for each device"
### END SOLUTION

# %%
import os


def forward_of_a_process(me):
    places, met = [], threading.Barrier(4)  # nobody goes on before all four are here

    class Where(nn.Module):
        def forward(self, x):
            met.wait()
            places.append((os.getpid(), threading.get_ident()))
            return x

    DataParallel(Where(), ["cpu"] * 4)(torch.zeros(4))
    return places


places = [place for of_process in shared_cluster(4).run(forward_of_a_process) for place in of_process]
print(len({process for process, _ in places}), "processes;", len(set(places)), "threads")
reveal("03.processes", places)

# %% [markdown]
# The class of this lesson wants *one* process, with one loader and one optimizer for all devices. Started four times,
# it does all of its work four times over.

# %% [markdown]
# What else widely read articles say about `nn.DataParallel`, and about using several GPUs. Each sentence has a small
# trial in `course_lib/claims`, and its numbers decide: `print(trial("D4").run())` shows those of one. Where this
# machine lacks the GPUs that a trial needs, the verdict is *blocked*.

# %% tags=["nbval-ignore-output"]
from course_lib.claims import trial, verdicts

print(verdicts("A4", "B1", "C1", "C2", "C4", "C7", "D4", "D5", "D6", "D7", "E2"))

# %% [markdown]
# And one on which you need no trial: "the updated weights are broadcast to every device, each iteration". Of this class
# it is true; you have counted them.

# %% [markdown]
# ## In production
#
# The real class, on two GPUs. With fewer, there is nothing that it could do.

# %% tags=["nbval-ignore-output"]
num_gpus = len(machine().devices)
if num_gpus < 2:
    print(f"blocked: needs 2 GPUs, and this machine has {num_gpus}")
else:
    real = nn.DataParallel(SmallCNN(batch_norm=False).to("cuda:0"), device_ids=[0, 1])
    optimizer = torch.optim.AdamW(real.parameters())
    F.cross_entropy(real(x.to("cuda:0")), y.to("cuda:0")).backward()
    optimizer.step()
    for gpu in (0, 1):
        print(f"GPU {gpu}: at most {bytes_text(torch.cuda.max_memory_allocated(gpu))}")

# %% [markdown]
# Its documentation recommends `DistributedDataParallel` in its place, on one machine too, and you have seen why. You
# will meet it in older code; then you know what its one line does.
#
# | you wrote or used | production code has |
# |---|---|
# | `replica_tensors` | `torch.nn.parallel.replicate`, which sends many tensors in one go |
# | `apply_in_threads` | `torch.nn.parallel.parallel_apply`, with a CUDA stream for each device |
# | `scatter`, `gather` | the same names in `torch.nn.parallel` |
# | `load` | `torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(saved, "module.")`, which never asks |
#
# The course's own version is in `course_lib/parallel/data/data_parallel.py`, about four screens.

# %% [markdown]
# ## Five questions

# %%
quiz("03")

# %% [markdown]
# ## What you can do now
#
# You can take `nn.DataParallel` apart, say what each part costs, and name its four prices: an interpreter for all,
# device 0, the weights on the road at every step, and a model that must not remember anything.
#
# **The limit.** Each price has one cause: *one process does it for all*. Lesson 04 gives every device a process of its
# own, with its interpreter, its loader, its optimizer and a model that stays. What then still has to travel, and how
# often, is the first thing that it asks.
#
# **Further reading.** Li et al., *PyTorch Distributed: Experiences on Accelerating Data Parallel Training* (2020),
# section 2.2: data parallelism, and why it went to processes. [PyTorch's page on
# `nn.DataParallel`](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html): what it warns of. [PEP
# 703](https://peps.python.org/pep-0703/), the motivation: the lock, and what goes without it.
