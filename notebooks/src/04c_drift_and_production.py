# %% [markdown]
# # 04c · DistributedDataParallel: drift, checkpoints and the real thing
#
# Replicas that part in silence, jobs that go wrong, and crashes in the middle of a save: you find them out, and then
# start the real thing by `torchrun`.
#
# **70 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 3 of 3 · [1: one rule, sent in buckets](04a_distributed_data_parallel.ipynb) · [2: batches, and how much
# faster](04b_batches_and_scaling.ipynb)
#
# At the end you can
#
# - test whether replicas are still equal, and find why they are not;
# - write a checkpoint that survives a crash, and resume with another number of ranks;
# - say what data parallelism does not save;
# - read a whole training script, and start it by `torchrun`.
#
# From part 1 you need that every rank begins with the same weights and takes every step with the same gradients; from
# part 2, `no_sync` and the sampler.

# %%
from course_lib import ask, check, hint, quiz, reveal, shared_cluster, solution
from course_lib.data import digits
from course_lib.meter import MemoryLedger, bytes_text, metered
from course_lib.models import SmallCNN
from course_lib.parallel.data import (
    DistributedDataParallel,
    DriftDetector,
    GlobalBatches,
    broadcast_parameters,
    find_drift,
    load_on_all,
    save_by_one,
    save_checkpoint,
)

import contextlib
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data.distributed import DistributedSampler as TorchSampler

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))


# %%
def make_model(seed=0):
    torch.manual_seed(seed)
    return SmallCNN(batch_norm=False)


NUM = len(digits().train)
print(NUM, "digits to train on")

# %% [markdown]
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
