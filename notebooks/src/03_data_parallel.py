# %% [markdown]
# # 03 · Data parallelism in one process
#
# The first way to share work takes one line: `nn.DataParallel(model)`. You take it apart into four steps, rebuild two
# of them, and measure the three things that made everybody leave it: one interpreter, one crowded device, and weights
# that travel at every step.
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
import threading
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import Link, Predict, check, cost, hint, machine, quiz, shared_cluster, solution
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
rows = Predict("03.rows", "batch_size=32 on four devices: how many rows on each?", unit="rows")
### BEGIN SOLUTION
### STUB # Type your number below and press the button, or write for example: rows.commit(128)
rows.commit(32)  # "it says so"
### END SOLUTION
rows

# %%
seen = []


class Noting(nn.Module):
    def forward(self, x):
        seen.append(len(x))
        return x


DataParallel(Noting(), devices)(torch.zeros(32, 1))
print("rows that each replica saw:", sorted(seen, reverse=True))
rows.reveal(
    measured=max(seen),
    misreadings={
        32: "So it is with DistributedDataParallel, lesson 04, where each process has a loader of its own. Here there "
        "is one loader, one batch, and it is cut.",
        128: "Nobody makes rows: the batch of the loader is cut.",
    },
    because="One process has one loader. Its batch is the whole batch, and each device gets a share.",
)

# %% [markdown]
# Who moves a script from one GPU to four and leaves `batch_size` alone gives each device a quarter of the work, and
# small pieces keep a GPU badly busy. Who multiplies it by four trains with another batch size. Neither is a mistake;
# not knowing which is.
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
# ## What travels
#
# ![Device 0 with the model and the optimizer in the middle; three arrows called weights go out to devices 1, 2 and 3,
# and a question mark stands on the way back](../assets/03_traffic.png)
#
# A replica lives for one forward and backward pass. The next step makes new ones.
#
# **One training step on four devices. How many times the model's bytes are copied from device to device? Count weights
# and gradients; leave inputs and outputs aside, they are small here.**

# %%
copies = Predict("03.copies", "One step, four devices: how many times the model's bytes?", unit="models")
### BEGIN SOLUTION
### STUB # Type your number below and press the button, or write for example: copies.commit(0)
copies.commit(3)  # "a copy for each of the three others"
### END SOLUTION
copies

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
link = Link(latency_s=10e-6, bandwidth_bytes_per_s=10e9)  # bytes do not depend on it
naive = cost.collective_cost("all_reduce", size, link, num_ranks=4, algorithm="naive")
ring = cost.collective_cost("all_reduce", size, link, num_ranks=4, algorithm="ring")
copies.reveal(
    measured=round(sum(totals.values()) / 10 / size, 1),
    model=round((naive.bytes_sent[0] + naive.bytes_received[0]) / size, 1),
    misreadings={
        3: "That is the way out. From each of the three comes a gradient, as large as the weights.",
        0: "The replicas are new at every forward pass: nothing of the last step is left in them.",
        1: "Each of three devices needs all of the weights, and sends all of the gradients.",
        8: "Replica 0 sits with the model: nothing travels for it.",
    },
    because="Weights to three devices forward, gradients from three devices backward, in every single step.",
)
print(
    f"device 0 carries {naive.bytes_sent[0] / size:.1f} out; in a ring each would send {ring.bytes_sent[0] / size}"
)

# %% [markdown]
# <!-- word: parameter server -->
# You know this shape: it is the naive all-reduce of lesson 02, with all traffic through one port, the bottleneck. A
# **parameter server** keeps the weights in one place, hands them out to those who compute, and takes their gradients
# in. Device 0 plays that part here.
#
# And you may have read that "the updated weights are broadcast to every device in each iteration". Of *this* class that
# is true, and for an evaluation under `no_grad` too. Of the one in lesson 04 it is not.

# %% [markdown]
# ## Build: tensors for each replica
#
# The heart of replicate. For each replica give a dictionary from names to tensors, *all* that the module needs. A
# gradient that reaches a replica's tensor has to find its way to the module's parameter.
#
# <!-- word: running statistics | also: running mean and variance -->
# A *buffer* is a tensor of the module that is not learned. BatchNorm's **running statistics** are buffers: averages of
# the mean and the variance over the batches of training, which it uses in evaluation. A replica writes into them during
# the forward pass. The rule of `nn.DataParallel`: **replica 0 has the module's own buffers**, the others have copies,
# and what they write is lost with them.


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
# ### What BatchNorm remembers
#
# ![A batch in four parts whose means are 10, 20, 30 and 40; below, a box called running mean with a question
# mark](../assets/03_batchnorm.png)
#
# **A batch comes in four parts with the means 10, 20, 30 and 40. A BatchNorm that remembers the last mean alone
# (`momentum=1`) runs on four devices. What is its running mean afterwards?**

# %%
mean = Predict("03.mean", "Four parts with means 10, 20, 30, 40: the running mean?")
### BEGIN SOLUTION
### STUB # Type your number below and press the button, or write for example: mean.commit(40)
mean.commit(25)  # "the mean of the batch"
### END SOLUTION
mean

# %%
norm = nn.BatchNorm1d(1, momentum=1.0)
batch = torch.tensor([9.0, 11, 19, 21, 29, 31, 39, 41]).view(8, 1)
DataParallel(norm, devices)(batch)
mean.reveal(
    measured=norm.running_mean.item(),
    misreadings={
        25: "That is the mean of the whole batch, and no replica ever sees the whole batch.",
        40: "The last part's replica wrote 40 into a copy, and the copy is gone.",
    },
    because="Replica 0 wrote into the module's own buffer. The other three wrote into copies that nobody kept.",
)

# %% [markdown]
# In training, too, each replica normalizes with the statistics of its own part. On four devices that is a BatchNorm
# over 8 rows where you asked for 32. Lesson 04 has the cure.

# %% [markdown]
# ## Who is full first?
#
# ![Four bars for four devices. Each has parameters and activations; device 0 has a box with a question mark on
# top](../assets/03_memory_question.png)
#
# All devices hold the same weights and a quarter of the batch each. Yet `nvidia-smi` shows device 0 fuller than the
# others, and it is device 0 that runs out of memory.
#
# **The small transformer of lesson 01, 32 texts, AdamW, four devices, at the end of the forward pass. How many times as
# much as device 1 does device 0 hold?**

# %%
fuller = Predict("03.device_0", "Device 0 holds how many times what device 1 holds?", unit="times")
### BEGIN SOLUTION
### STUB # Type your number below and press the button, or write for example: fuller.commit(4)
fuller.commit(1)  # "the same weights, the same share"
### END SOLUTION
fuller

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
fuller.reveal(
    measured=round(sum(on_device_0.values()) / on_device_1.total_bytes, 2),
    misreadings={
        1: "They share what there is four times. Device 0 also has what there is once: gradients, the optimizer's "
        "state, the gathered outputs and the loss.",
        4: "The layers' activations are shared out evenly, and they are the largest part on every device.",
    },
    because="Gradients and the optimizer's state come with every model. The outputs of the *whole* batch, and what the "
    "loss keeps of them, come with the way in which this class works.",
)

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
# ![Above, two threads in one process: each computes only while it holds the lock, and waits while the other has it.
# Below, two processes that compute side by side](../assets/03_threads.png)
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
speed_up = Predict(
    "03.threads", "100 small layers: two threads are how many times as fast as one?", unit="times"
)
### BEGIN SOLUTION
### STUB # Type your number below and press the button, or write for example: speed_up.commit(1)
speed_up.commit(1.8)  # "nearly two"
### END SOLUTION
speed_up

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
hopeful = "That is for processes to reach. Two threads share one interpreter, with much Python between short operators."
speed_up.reveal(
    measured=round(races["100 small layers"].threads_speed_up, 2),
    misreadings={2: hopeful, 1.9: hopeful, 1.8: hopeful, 1.5: hopeful},
    because="Each layer is a little Python and a short operator. The threads hand the lock to and fro hundreds of "
    "times a step, and handing over costs more than what there is to compute.",
)

# %% [markdown]
# <!-- word: launch | also: kernel launch -->
# With few large layers the threads spend their time inside operators, without the lock, and come closer to the
# processes. So "Python threads are slow" is not the rule. The rule: **the lock costs what your model spends in
# Python**. On a GPU, Python only **launches** an operator: it hands it to the device and goes on without waiting. That
# makes it worse, because one interpreter has to launch for all devices.
#
# (How far two processes get depends on the cores that are really free. If yours stay far below two with the large
# layers, look at what else is running.)
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
suspects = [
    "the threads overwrite each other",
    "a replica counts on itself, and is thrown away",
    "the optimizer resets it",
    "dropout is off in replicas",
]
stands_still = Predict("03.self", "Why does the share stand still?", choices=suspects)
### BEGIN SOLUTION
### STUB # Choose below and press the button, or write for example: stands_still.commit(suspects[2])
stands_still.commit(suspects[0])  # threads are always under suspicion
### END SOLUTION
stands_still

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
stands_still.reveal(
    measured=suspects[1],
    label="the evidence says",
    misreadings={
        suspects[0]: "Then some counts would be lost, and others not. Every one of twenty calls saw a 1.",
        suspects[2]: "There is no optimizer in this evidence.",
        suspects[3]: "Nothing suggests it: the number that sets its share is what stands still.",
    },
    because="Every forward saw a replica that was made a moment ago, from a module that says 0. It counts to 1, and "
    "the replica goes the way of all replicas.",
)

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
causes = [
    "the file was cut short",
    "no name in the file fits",
    "the model is in training mode",
    "it was never trained",
]
forgot = Predict("03.keys", "Why is nothing left?", choices=causes)
### BEGIN SOLUTION
### STUB # Choose below and press the button, or write for example: forgot.commit(causes[0])
forgot.commit(causes[2])  # one forgets eval() so easily
### END SOLUTION
forgot

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
forgot.reveal(
    measured=causes[1],
    label="the evidence says",
    misreadings={
        causes[0]: "All tensors are there, under names that nobody asks for.",
        causes[2]: "That changes dropout and BatchNorm, and no weight.",
        causes[3]: "Its training was in order; what is in the file is a trained model.",
    },
    because="The wrapper holds the model under the name `module`, and `state_dict` puts that before every name. With "
    "strict=False what does not fit is skipped, and here that is all of it.",
)

# %% [markdown]
# Two habits prevent it: save `wrapped.module.state_dict()`, load it into the bare model, and wrap afterwards; and never
# use `strict=False` to silence an error.
#
# ### Mend it
#
# Files like that exist by the thousand. Write a `load` that takes both kinds, and still refuses what is not this model.


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
# program an example of `nn.DataParallel`. **How many processes does `nn.DataParallel` run on four devices?**

# %%
processes = Predict("03.processes", "How many processes on four devices?", choices=["one", "four", "five"])
### BEGIN SOLUTION
### STUB # Choose below and press the button, or write for example: processes.commit("five")
processes.commit("four")  # as the article has it
### END SOLUTION
processes

# %%
import os

places = []


class Where(nn.Module):
    met = threading.Barrier(4)  # nobody goes on before all four are here

    def forward(self, x):
        self.met.wait()
        places.append((os.getpid(), threading.get_ident()))
        return x


DataParallel(Where(), devices)(torch.zeros(4))
num_processes, num_threads = len({process for process, _ in places}), len(set(places))
print(f"{num_processes} process, {num_threads} threads")
processes.reveal(
    measured={1: "one", 4: "four"}[num_processes],
    misreadings={
        "four": "That is the class of lesson 04. The names differ by a word, and the programs by everything."
    },
    because="Four threads of one process, one interpreter, one loader, one optimizer.",
)

# %% [markdown]
# What else widely read articles say about `nn.DataParallel`, and about using several GPUs. Each sentence has a small
# trial in `course_lib/claims`, and its numbers decide: `print(trial("D4").run())` shows those of one. Where this
# machine lacks the GPUs that a trial needs, the verdict is *blocked*.

# %% tags=["nbval-ignore-output"]
from course_lib.claims import trial, verdicts

print(verdicts("A4", "B1", "C1", "C2", "C4", "C7", "D4", "D5", "D6", "D7", "E2"))

# %% [markdown]
# And one that is false of most programs and true of this one: "the updated weights are broadcast to every device, each
# iteration". You have counted it.

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
# | `load` | `torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(saved, "module.")` |
#
# The course's own version is in `course_lib/parallel/data/data_parallel.py`, about four screens.

# %% [markdown]
# ## Five questions
#
# ![Device 0 with the model and the optimizer in the middle; three arrows called weights go out to devices 1, 2 and 3,
# and a question mark stands on the way back](../assets/03_traffic.png)

# %%
quiz("03")

# %% [markdown]
# ## What you can do now
#
# You can take `nn.DataParallel` apart, say what each part costs, and name its four prices: an interpreter for all,
# device 0, the weights on the road at every step, and a model that must not remember anything.
#
# **The limit.** Each price has one cause: *one process does it for all*. Lesson 04 gives every device a process of its
# own. Each has its interpreter, its loader, its optimizer and a model that stays; the weights are sent once, at the
# start, and of all this traffic one thing is left: the gradients, in the ring that you wrote.
#
# **Further reading.** Li et al., *PyTorch Distributed: Experiences on Accelerating Data Parallel Training* (2020),
# section 2.2: data parallelism, and why it went to processes. [PyTorch's page on
# `nn.DataParallel`](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html): what it warns of. [PEP
# 703](https://peps.python.org/pep-0703/), the motivation: the lock, and what goes without it.
