# %% [markdown]
# # 04c · DistributedDataParallel: drift, checkpoints and the real thing
#
# Replicas drift apart in silence, jobs go wrong, and programs crash in the middle of a save. You find out why, and then
# start the real thing by `torchrun`.
#
# **2 × 45 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 3 of 6 · [1: one rule, sent in buckets](04a_distributed_data_parallel.ipynb) · [2: batches, and how much
# faster](04b_batches_and_scaling.ipynb) · [4: build your own](04d_build_ddp.ipynb) · [5: a job on two
# A100](04e_read_a_trace.ipynb) · [6: divide once](04f_divide_once.ipynb)
#
# This part builds on [04a: one rule, sent in buckets](04a_distributed_data_parallel.ipynb) and [04b: batches, and how
# much faster](04b_batches_and_scaling.ipynb). Have you done them? `from course_lib import start; start("04c")` says
# whether you have.
#
# At the end you can
#
# - test whether replicas are still equal, and find why they are not;
# - write a checkpoint that survives a crash, and resume with another number of ranks;
# - read a whole training script, and start it by `torchrun`.
#
# From part 1 you need that every rank begins with the same weights and takes every step with the same gradients. From
# part 2 you need `no_sync` and the sampler.

# %%
from course_lib import ask, check, hint, mine, problems, quiz, reveal, shared_cluster, solution
from course_lib.cluster import RankError, folder_for_ranks
from course_lib.data import digits
from course_lib.meter import bytes_text, metered
from course_lib.models import SmallCNN
from course_lib.parallel.data import (
    DistributedDataParallel,
    DivergenceDetector,
    GlobalBatches,
    broadcast_parameters,
    find_divergence,
    load_on_all,
    save_by_one,
    save_checkpoint,
)
from course_lib.rounding import agree, rounded

import contextlib
import statistics
import time
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as TorchDDP

# %% tags=["nbval-ignore-output"]
two, four = (shared_cluster(number) for number in (2, 4))


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
# Data parallelism needs equal weights on all ranks, and nothing enforces them. One rank may leave a gradient out of the
# average. Somebody may change a parameter by hand on rank 0, or a faulty memory may flip a bit. Training goes on, and
# the losses look alike.
#
# <!-- word: hash | also: fingerprint | sentences: 2 -->
# To compare all weights each time would send more than a step does. A **hash** is a few bytes that are computed from
# all bits of a tensor. Equal bits give equal hashes, and a change escapes with a chance of one in billions. That is
# enough.
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
# The course's `DivergenceDetector` also says which ranks differ from the majority, and since when. You can use it in
# your own training. Here is a planted case: rank 2 rounds a weight after step 3, as a well-meant clean-up on one rank
# might.


# %%
def train_with_a_detector(me):
    ddp = DistributedDataParallel(me, make_model().to(me.device))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    detector = DivergenceDetector(me, ddp.module)
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
# *Symptom.* A colleague replaced `no_sync` by the flag that it sets. Memory is fine, the losses of both ranks fall, and
# steps got faster. The model that rank 0 saved is worse than last week's.


# %%
def accumulated_step(ddp, optimizer, pieces, quiet_at_first=True):
    optimizer.zero_grad()
    if quiet_at_first:
        ddp.require_backward_grad_sync = False
    for index, (x, y) in enumerate(pieces):
        loss = F.cross_entropy(ddp(x), y) / len(pieces)
        ddp.require_backward_grad_sync = index == len(pieces) - 1  # the last piece averages
        loss.backward()
    optimizer.step()
    return loss.item() * len(pieces)


def flagged_job(me, take_step=accumulated_step, steps=8):
    ddp = TorchDDP(make_model().to(me.device))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    images, labels = (part[me.rank : 256 : me.world_size].to(me.device) for part in digits().train.tensors)
    pieces, before = (
        list(zip(images.split(32), labels.split(32), strict=True)),
        find_divergence(me, ddp.module),
    )
    losses = [take_step(ddp, optimizer, pieces) for _ in range(steps)]
    return before, losses, find_divergence(me, ddp.module)


# %%
run = metered(two, flagged_job)
for rank, (_, losses, _) in enumerate(run):
    print(f"rank {rank}: loss falls from {rounded(losses[0], 1)}: {losses[-1] < losses[0]}")
all_reduces = len(run.communication.of(0, operation="all_reduce").calls)
print("replicas that differ before the first step:", run[0][0])
print("replicas that differ after the last step:", run[0][2])
print("all-reduces of rank 0 in 8 steps:", all_reduces)

# %% [markdown]
# No gradient was ever averaged. Yet the flag *is* True when the last piece goes backward. **So why does no all-reduce
# start?**

# %%
### BEGIN SOLUTION
### STUB ask("04.flag")
ask("04.flag").commit("once it is False, the hooks are gone")  # it was False first
### END SOLUTION

# %% [markdown]
# *An experiment.* Run the same job without the line at the top of the step that makes the flag False. Say first how
# many all-reduces in 8 steps you expect, for each of the four answers.

# %%
without_it = metered(two, flagged_job, partial(accumulated_step, quiet_at_first=False))
more = len(without_it.communication.of(0, operation="all_reduce").calls)
print("all-reduces of rank 0 in 8 steps, without the line:", more)
reveal("04.flag", all_reduces, more, 8)

# %% [markdown]
# ### Mend it
#
# Write one step of the optimizer over all pieces, however many they are. It sends the bytes of one all-reduce, and
# holds the activations of one piece at a time. `pieces` is a list of (x, y). Gradients that an earlier pass left in
# `.grad` do not belong to the step. After the step, `ddp` averages as before.


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
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting a model leaves some of its layers out, a save is interrupted, and `torchrun` starts
# a job.

# %% [markdown]
# ## Clinic 2: a layer that is not always used
#
# Some models do not send every image through every layer: they have a head for each task, or a branch for large images.
# The model below has two heads, and in each step the two ranks use different ones. So on each rank some parameters get
# no gradient. In part 1 *you* decided what happens then: zeros. What does PyTorch's DDP do?


# %%
class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.heads = nn.Linear(64, 32), nn.ModuleList([nn.Linear(32, 10), nn.Linear(32, 10)])

    def forward(self, x, task):
        return self.heads[task](torch.relu(self.body(x)))


def two_tasks(me, **options):
    ddp, place = TorchDDP(TwoHeads().to(me.device), **options), ""
    try:
        for step in range(3):
            place = f"in the forward pass of step {step}"
            loss = ddp(torch.ones(4, 64, device=me.device), task=(me.rank + step) % 2).sum()
            place = f"in the backward pass of step {step}"
            loss.backward()
    except RuntimeError as error:
        raise RuntimeError(f"{place}: {error}") from None


# %% [markdown]
# **The job should take steps 0, 1 and 2. Where does it stop?**

# %%
### BEGIN SOLUTION
### STUB ask("04.unused")
ask("04.unused").commit("in the backward pass of step 0")  # there the gradient is missing
### END SOLUTION

# %% tags=["nbval-ignore-output"]
place = "nowhere"
try:
    two.run(two_tasks)
except RankError as error:
    place = str(error).split(": ")[2]  # what two_tasks has put before PyTorch's own words
    print(error)
reveal("04.unused", place)

# %% [markdown]
# You have read one of PyTorch's best-known error messages, and it names the cure. Look for the two numbers in
# "Parameter indices which did not receive grad": with them you find the layer.

# %%
found = metered(two, two_tasks, find_unused_parameters=True)
print("all-reduces of rank 0 in 3 steps:", len(found.communication.of(0, operation="all_reduce").calls))

# %% [markdown]
# With `find_unused_parameters=True` DDP walks through the graph after each forward pass. If it does not find a
# parameter there, it treats that one as ready, with zeros for its gradient. It also asks all ranks which parameters
# *nobody* has used, in an all-reduce of its own. So do not switch it on for a model that does not need it. If the same
# layers are unused in every step, `static_graph=True` finds that out once.
#
# And if *one* rank alone misses a gradient? Then that rank stops as you have seen, while the others wait for its
# bucket: under NCCL, until a watchdog ends them.

# %% [markdown]
# ## A checkpoint that survives
#
# ![Above: a file is written over, and the power goes half-way. Below: it goes while a draft is written beside the
# file. What is in the file?](../assets/04_checkpoint.png)
#
# <!-- word: checkpoint -->
# A **checkpoint** is a file from which a run can go on: weights, optimizer state, and how far it has come. All replicas
# are equal, so *one* rank writes. The others wait until the file is there: a rank that goes on and exits might end the
# job before the file is complete. And since writing takes time, a crash may come in its middle.
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
# Now one rank writes a file, and all ranks load it. Then test a promise that is easy to break: a job that resumes with
# *another number of ranks* sees the same global batches. `GlobalBatches` cuts the order of an epoch into global
# batches, one for each step. Each rank takes its share of each of them.


# %%
def train_and_resume(me, path):
    model = make_model(seed=me.rank).to(me.device)
    broadcast_parameters(me, model)
    save_by_one(me, path, {"step": 3, "model": model.state_dict()})
    state, other = load_on_all(me, path), make_model(seed=7 + me.rank).to(me.device)
    other.load_state_dict(state["model"])
    return state["step"], find_divergence(me, other)


def global_batch(world_size, number):
    batches = [
        GlobalBatches(NUM, rank=r, world_size=world_size, global_batch_size=64) for r in range(world_size)
    ]
    return sorted(index for of_rank in batches for index in list(of_rank)[number])


with folder_for_ranks(four) as folder:
    print("step and drift after loading:", four.run(train_and_resume, Path(folder) / "last.pt")[3])
same = all(global_batch(4, number) == global_batch(2, number) for number in range(NUM // 64 + 1))
print("an epoch of global batches is the same on 4 and on 2 ranks:", same)

# %% [markdown]
# ## In production
#
# In production you write `nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])`: the same idea, with
# buckets, hooks and bookkeeping in C++. The next cells run the course's class and PyTorch's on the same model and the
# same batches. The one that you build in part 4 runs beside them, once it is there:

# %% tags=["nbval-ignore-output"]
WRAPS = {
    "ours": lambda model, me: DistributedDataParallel(me, model),
    "PyTorch's": lambda model, me: TorchDDP(model),
}
if (my_ddp := mine.if_passed("MyDDP")) is not None:
    WRAPS["yours"] = my_ddp


# %%
def train_by(me, which, steps):
    model = make_model().to(me.device)
    ddp = WRAPS[which](model, me)
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
def losses_and_bytes(which):
    return two.run(train_by, which, 5)[0][0], bytes_of_a_step(which)


found = mine.beside(losses_and_bytes, "ours", "yours" if "yours" in WRAPS else None)
found = {"ours": found.pop("the course's"), "PyTorch's": losses_and_bytes("PyTorch's"), **found}
theirs, _ = found["PyTorch's"]
alike = all(agree(losses, theirs, within=1e-5) for losses, _ in found.values())
print("losses equal to within 1e-5:", alike)
for which, (_, size_bytes) in found.items():
    print(f"{which:<10} sends {size_bytes:,} bytes in a step")

# %% tags=["nbval-ignore-output"]
for which in (*found, *found):
    print(f"{which:<10} {max(time_s for _, time_s in two.run(train_by, which, 20)) * 1e3:6.1f} ms for a step")

# %% [markdown]
# Two things about PyTorch's version are worth knowing when you read a profile. **How many buckets does it send in the
# first step, and how many later?** And **do the gradients lie beside the buckets, or in them?** For the second question
# a communication hook (part 2) notes the buckets' memory.


# %%
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook


def eight_layers(me, num_steps):
    ddp = TorchDDP(nn.Sequential(*(nn.Linear(256, 256) for _ in range(8))).to(me.device), bucket_cap_mb=0.5)
    for _ in range(num_steps):
        ddp(torch.ones(4, 256, device=me.device)).sum().backward()


def note_the_bucket(tensors, bucket):
    tensors.append(bucket.buffer())
    return allreduce_hook(None, bucket)


def gradient_memory(me, as_views):
    model, tensors = make_model().to(me.device), []
    ddp = TorchDDP(model, gradient_as_bucket_view=as_views)
    ddp.register_comm_hook(tensors, note_the_bucket)
    ddp(torch.ones(2, 1, 8, 8, device=me.device)).sum().backward()
    tensors += [parameter.grad for parameter in model.parameters()]
    return sum({s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in tensors)}.values())


# %%
runs = [metered(two, eight_layers, num_steps).communication for num_steps in (1, 2, 3)]
up_to = [0, *(len(run.of(0, operation="all_reduce").calls) for run in runs)]
print("buckets sent in steps 0, 1, 2:", [up_to[step + 1] - up_to[step] for step in range(3)])
for as_views in (False, True):
    size = two.run(gradient_memory, as_views)[0]
    print(f"gradients and buckets, gradient_as_bucket_view={as_views}: {bytes_text(size)}")

# %% [markdown]
# In its first step PyTorch has one bucket for all, and notes in which order the gradients come. Then it makes its
# buckets in that order: the *bucket rebuild*. So do not judge overlap by the first step.
#
# And each gradient exists twice, in `.grad` and in its bucket, unless `gradient_as_bucket_view=True` makes `.grad` a
# view into the bucket. That saves a copy as well. (Code that sets `.grad` to other tensors undoes it.)

# %% [markdown]
# | you wrote | production code uses |
# |---|---|
# | `average_gradients`, `start_early` | `nn.parallel.DistributedDataParallel`, `bucket_cap_mb`, `no_sync()` |
# | `indices_of` | `torch.utils.data.DistributedSampler`, `set_epoch` |
# | `drifted` | nothing: DDP compares number and shapes of the weights when it wraps a model, and sends rank 0's |
# | `save_by_one` | rank 0 writes and renames; `torch.distributed.checkpoint` for large checkpoints |
# | `shared_cluster(4).run(...)` | `torchrun` |
#
# ### Starting processes
#
# In a notebook the course starts the ranks. Real jobs start theirs by `torchrun`. It puts rank, world size and the
# meeting point (the address for the rendezvous) into each process's environment. If a process dies, `torchrun` ends the
# others. With `--max-restarts` it starts all of them again; the default is 0.
#
# `torch.multiprocessing.spawn` only starts processes. Article A says, in our words, that `init_process_group(backend,
# rank=rank, world_size=n)` is all the set-up that they need. Here is a trial of this sentence:

# %% tags=["nbval-ignore-output"]
from course_lib.claims import trial

print(trial("A5").run())

# %% [markdown]
# ### A script to take home
#
# `course_lib/examples/train_ddp` is a whole program. It trains a ResNet on images that it makes itself, or on those in
# a folder of yours. It runs on a laptop or on many machines. It is a folder of ten short files that needs nothing of
# this course. Copy it to where you work, and `torchrun --nproc-per-node 8 -m train_ddp --data /data/flowers` is a real
# job. You have met every idea in it, so read three of its functions with a question each.
#
# A step. *What would change if `clip_grad_norm_` stood in the loop?*

# %%
from course_lib.examples.train_ddp import loading, train

import inspect

print(inspect.getsource(train.train_step))

# %% [markdown]
# In the loop, clipping would see sums that are not complete yet, and that differ from rank to rank. After it, all ranks
# see the gradient of the whole batch, and the same norm. Forward *and* backward stand under `no_sync`; clinic 1 showed
# why.
#
# An epoch. A signal to stop (SIGTERM, from the cluster's scheduler) reaches the ranks in different steps. *How do they
# agree on the step after which they leave?*

# %%
print(inspect.getsource(train.train_epoch))

# %% [markdown]
# They agree by an all-reduce: the largest number wins, so all ranks learn of a signal that one of them got. They finish
# that step, save and leave, and nobody waits for a rank that has gone.
#
# **Now somebody deletes a line of this function. After that, a job stops half-way through an epoch and resumes. It
# reads the first half of its images twice, and the second half never. Which line is missing?**

# %%
### BEGIN SOLUTION
### STUB ask("04.script")
ask("04.script").commit("save(training, epoch, done)")  # what is not saved is lost
### END SOLUTION

# %%
sampler = loading.ResumableSampler(range(12), num_replicas=2, rank=0, seed=0)
sampler.begin(epoch=3, num_done=0)
whole = [number for epoch, number in sampler]
sampler.begin(epoch=3, num_done=3)
rest = [number for epoch, number in sampler]
print("this rank's images of the epoch:", whole)
print("after half of it, resumed:      ", rest)
reveal("04.script", whole, rest)

# %% [markdown]
# Resuming. *Who decides whether there is a checkpoint, and why not each rank for itself?*

# %%
print(inspect.getsource(train.resume))

# %% [markdown]
# Rank 0 decides (look into `RunFolder.load`): on several machines the others may not see its disk. A program that
# resumes asks first whether the file belongs to this run. And what was saved is the bare model (`model.module`), so
# that the names in the file carry no prefix and load into any model.
#
# The sampler gives each image's epoch along with its number. From the seed and these two, the loader draws how the
# image is cut and mirrored. So the image looks the same on any rank, in any of the loader's workers, and after any
# resume.
#
# You can read the rest in the folder. You will meet the *local rank* of lesson 00 there: the number of a process on its
# machine, which chooses its GPU. It stands in `LOCAL_RANK`; `RANK`, which `init_process_group` reads itself, is the
# number in the whole job.

# %% [markdown]
# <!-- word: agent | also: elastic agent -->
# Now start the script. An **agent** is what `torchrun` runs once on each machine: it starts the ranks there and watches
# them. Here one agent starts two ranks, which talk over this machine's own address, 127.0.0.1.

# %% tags=["nbval-ignore-output"]
import os
import subprocess
import sys

meet = ["--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
job = ["-m", "course_lib.examples.train_ddp", "--device=cpu", "--epochs=2", "--log-every=45"]
command = [sys.executable, "-m", "torch.distributed.run", *meet, *job]
settings = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
PIPE = subprocess.PIPE
agent = subprocess.Popen(command, env=settings, stdout=PIPE, stderr=PIPE, text=True)
try:
    output, errors = agent.communicate(timeout=200)
except subprocess.TimeoutExpired:
    agent.terminate()  # by SIGTERM, so that it ends its ranks before itself
    output, errors = agent.communicate()
finally:
    agent.terminate()  # after an interrupt; an agent that has ended does not mind
print(output if agent.returncode == 0 else f"exit code {agent.returncode}\n{output}{errors}", end="")

# %% [markdown]
# There is one log for two ranks: only rank 0 writes. On *two machines* you would run the same line on both, with
# `--nnodes=2` and `--rdzv-endpoint=first-machine:29500`.
#
# With `--max-restarts 3` for `torchrun` and `--out runs/1` for the program, the job survives a rank that dies in the
# middle of an epoch. The agents start all ranks anew, and the ranks load the file. The steps since it was written are
# lost.
#
# <details>
# <summary>An aside: a setting for torch 2.13</summary>
#
# `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` gives each start a meeting point of its own. Without it, new ranks may look for
# each other at the address of the dead ones. On a busy machine a job that had done its work has hung for this reason.
#
# </details>
#
# ## What the articles say
#
# The five articles say a number of things about the subject of this lesson. Your own runs have decided most of them. A
# few sentences are left, in our words. **Bet on each before you run the cell**: does it hold, hold with conditions,
# mislead, or is it false? A trial in `course_lib/claims` decides by its numbers; `print(trial("C10").run())` shows
# them, and what would change the verdict. A trial says *cannot tell here* where this machine is too busy to measure a
# time.
#
# - A6: `DistributedDataParallel(model, device_ids=[rank])` can wrap a model that was never moved to its device.
# - A11: bad communication can cancel what more compute gains.
# - C10: a batch per device that is too small harms training.
# - C13: mixed precision saves memory and time in multi-device training.
# - D3: data parallelism gives the same gradients as gradient accumulation.

# %% tags=["nbval-ignore-output"]
from course_lib.claims import verdicts

print(verdicts("A6", "A11", "C10", "C13", "D3"))

# %% [markdown]
# ## Six questions

# %% tags=["computed-time"]
quiz("04")

# %% [markdown]
# ## What you can do now
#
# You can find out whether a replica has drifted, and why a job does not average. You can read DDP's best-known error,
# and write a checkpoint that a crash does not spoil. And you can start the real thing.
#
# **The limit.** Every rank holds everything: parameters, gradients and optimizer state, n times the same. A model that
# does not fit on one device does not fit on a thousand of them, in this way. Lesson 02 showed where to cut: an
# all-reduce is a reduce-scatter and an all-gather, and between the halves each rank needs only its own part. [Lesson
# 05](05a_sharded_data_parallel.ipynb) cuts there, as ZeRO does.
#
# **Further reading.** PyTorch's [notes on DDP's design](https://docs.pytorch.org/docs/stable/notes/ddp.html): what
# happens in forward and in backward, and how buckets are made. Goyal et al., [Accurate, Large Minibatch
# SGD](https://arxiv.org/abs/1706.02677) (2017), section 3: what distributed training gets subtly wrong.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. You get numbers of your own, and new ones for
# each further try. When a problem is over, you see its solution step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("04")
problems("04", ways=True)
### END SOLUTION
