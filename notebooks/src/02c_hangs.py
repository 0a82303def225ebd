# %% [markdown]
# # 02c · Collectives: when a job hangs
#
# Collectives fail in a way of their own: no rank crashes, and nothing moves. You find out when a collective is over,
# and then read the evidence of four jobs. The evidence is a log of NCCL's watchdog, a flight recorder, and the stacks
# of ranks that are really stuck.
#
# **55 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 3 of 4 · [1: what travels](02a_collectives.ipynb) ·
# [2: time, trees and groups](02b_time_trees_and_groups.ipynb) · [4: build an all-reduce](02d_build_all_reduce.ipynb)
#
# This part builds on [02a: what travels](02a_collectives.ipynb). Have you done it? `from course_lib import start;
# start("02c")` says whether you have.
#
# At the end you can
#
# - say at which line a hang shows, and why that is seldom the line that is wrong;
# - mend a deadlock of messages;
# - read a watchdog's log, a flight recorder's dump and a stack, and name the rank to look at;
# - name a mistake that is worse than a hang, and makes no job hang.
#
# From part 1 you need `exchange`, which starts all `send`s and `recv`s of a list together and waits for them. Every
# rank must call the same collectives in the same order.

# %%
from course_lib import Link, Links, ask, check, hint, problems, quiz, reveal, shared_cluster, solution
from course_lib.cluster import Cluster, RankError, black_box, exchange, folder_for_ranks, recv, send
from course_lib.rounding import rounded

import contextlib
import pickle
import queue
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
ranks = shared_cluster(4)

# %% [markdown]
# ## When is a collective over?
#
# With `async_op=True` a collective returns at once, with a handle whose `wait()` you call when you need the result. The
# next cell looks at the clock after each of three lines. The link is slowed down to 20 MB/s, so that 1 MiB takes a
# while.


# %%
def three_lines(me):
    tensor = torch.ones(2**18, device=me.device)
    clock_s = [time.perf_counter()]
    work = dist.all_reduce(tensor, async_op=True)
    clock_s.append(time.perf_counter())
    work.wait()
    clock_s.append(time.perf_counter())
    tensor[-1].item()
    clock_s.append(time.perf_counter())
    return [after_s - before_s for before_s, after_s in pairwise(clock_s)]


# %% [markdown]
# **Which of the three lines takes the time, on your machine?**

# %%
### BEGIN SOLUTION
### STUB ask("02.returns")
ask("02.returns").commit("all_reduce(..., async_op=True)")  # "there the work is done"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
with ranks.shaped(links=Links(Link(latency_s=1e-3, bandwidth_bytes_per_s=20e6))):
    lines_s = ranks.run(three_lines)[0]
print("rank 0:", ", ".join(f"{1e3 * line_s:.1f} ms" for line_s in lines_s))

# %% tags=["nbval-ignore-output"]
reveal("02.returns", lines_s, ranks.run(lambda me: me.device.type)[0])

# %% [markdown]
# On GPUs this goes one step further, also *without* `async_op`: `dist.all_reduce(tensor)` puts the work into the GPU's
# queue (its *stream*) and returns. Even `wait()` only tells the stream to wait; Python goes on. It stops where it needs
# a number: at `.item()`, `.cpu()`, `print(tensor)` or `torch.cuda.synchronize()`
# ([PyTorch on this](https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations)).
# Three things follow, and you will need all of them in a moment:
#
# - A clock around a collective on a GPU measures how long it took to *queue* the collective, unless you synchronise
#   before you read the clock.
# - An error or a hang shows at a later line than the one that caused it.
# - A rank that hangs may have queued further collectives. So there are two counts: the last that it *enqueued*, and
#   the last that was *completed*.

# %% [markdown]
# ## Clinic 1: to the next rank
#
# *Symptom.* Each rank passes its tensor to the next rank. With two ranks or more, nothing moves.


# %%
def pass_on(me, mine):
    theirs = torch.empty_like(mine)
    exchange([send(mine, (me.rank + 1) % me.world_size)])
    exchange([recv(theirs, (me.rank - 1) % me.world_size)])
    return theirs


def pass_on_job(me):
    return pass_on(me, torch.arange(5, device=me.device) + 100 * me.rank).tolist()


# %%
### BEGIN SOLUTION
### STUB ask("02.deadlock")
ask("02.deadlock").commit("a rank never came")
### END SOLUTION

# %% tags=["computed-time"]
try:
    ranks.call(pass_on_job, timeout_s=4)
except RankError as error:
    print(error)

# %%
reveal("02.deadlock")

# %% [markdown]
# <!-- word: deadlock -->
# A **deadlock** is a hang in which ranks wait for each other in a circle. Here each rank waits for the `recv` of the
# next rank. It stands in the second line, which no rank reaches. This is why this course sends in lists: `exchange`
# starts a whole list before it waits, as `dist.batch_isend_irecv` does. (NCCL has one rule more. If `batch_isend_irecv`
# is the *first* call of a group, all of its ranks must take part, [its documentation
# says](https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.batch_isend_irecv).)
#
# ### Mend it


# %%
def pass_on_mended(me, mine):
    """The tensor of the rank before this one; ``mine`` goes to the rank after it, and stays as it is here."""
    ### BEGIN SOLUTION
    theirs = torch.empty_like(mine)
    after, before = (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
    exchange([send(mine, after), recv(theirs, before)])
    return theirs
    ### END SOLUTION


# %%
check("02.shift", pass_on_mended)

# %%
# hint("02.shift")

# %% [markdown]
# ## Clinic 2: the end of the epoch
#
# *Symptom.* A job on four GPUs hangs at the end of the first epoch, every time. After ten minutes NCCL's watchdog, the
# thread that looks after collectives (lesson 00), ends it. This is what stands in the log of each rank.
#
# ```text
# [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2407, OpType=BROADCAST,
#   NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600019 milliseconds before timing out.
# [PG ID 0 PG GUID 0(default_pg) Rank 0] failure detected by watchdog at work sequence id: 2407
#   PG status: last enqueued work: 2408, last completed work: 2406
# [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2407, OpType=ALLREDUCE,
#   NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600044 milliseconds before timing out.
# [PG ID 0 PG GUID 0(default_pg) Rank 1] failure detected by watchdog at work sequence id: 2407
#   PG status: last enqueued work: 2408, last completed work: 2406
# [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2407, OpType=ALLREDUCE,
#   NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600038 milliseconds before timing out.
# [PG ID 0 PG GUID 0(default_pg) Rank 2] failure detected by watchdog at work sequence id: 2407
#   PG status: last enqueued work: 2408, last completed work: 2406
# [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2407, OpType=ALLREDUCE,
#   NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600051 milliseconds before timing out.
# [PG ID 0 PG GUID 0(default_pg) Rank 3] failure detected by watchdog at work sequence id: 2407
#   PG status: last enqueued work: 2408, last completed work: 2406
# ```
#
# No GPU wrote these lines: the course composed them by the format in [PyTorch's
# source](https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp), without time
# stamps. [Here is a real log of this kind](https://github.com/NVIDIA/nccl/issues/1409).
#
# *SeqNum* counts the collectives of a group, *Numel* the numbers in the tensor. **Why does this job hang?** (You have
# not seen the code. In a real job, too, you often have the log alone.)

# %%
### BEGIN SOLUTION
### STUB ask("02.mismatch")
ask("02.mismatch").commit("rank 0 never came")
### END SOLUTION

# %% [markdown]
# Here is the code. At the end of an epoch rank 0 has some more to do, and yesterday a colleague changed the lines of
# rank 0. The course's own ranks run the code, and say where they stand.


# %%
def end_of_epoch(me, weights, loss):
    if me.rank == 0:
        dist.broadcast(weights, src=0)
        dist.all_reduce(loss)
        return f"mean loss {rounded(loss / me.world_size, 2)}"
    dist.all_reduce(loss)
    dist.broadcast(weights, src=0)


def epoch_job(me):
    weights, loss = torch.ones(4096, device=me.device), torch.ones(1, device=me.device)
    return end_of_epoch(me, weights, loss)


# %% tags=["computed-time"]
try:
    ranks.call(epoch_job, timeout_s=4)
except RankError as error:
    print(error)

# %%
reveal("02.mismatch")

# %% [markdown]
# The log showed this in three fields: all ranks have the same SeqNum, and one rank has another OpType and another
# Numel. There are two traps. The watchdog of every rank writes such lines, also where the rank did nothing wrong. And
# each rank had queued one more call before its watchdog looked.
#
# If a job hangs like that again and again, start it with `TORCH_DISTRIBUTED_DEBUG=DETAIL`. PyTorch then compares the
# ranks *before* each collective, and raises an error in place of a hang. That takes time in every call, so use it only
# to search. Here four ranks run with that switch:

# %% tags=["nbval-ignore-output"]
with Cluster(4, debug=True) as compared:
    try:
        compared.call(epoch_job, timeout_s=20)
    except RankError as error:
        message = error.failure.message if error.failure else str(error)
        print(f"{message[:140]} ...\n... {message[message.find('Collectives differ') :]}")

# %% [markdown]
# ## Clinic 3: a broken batch
#
# *Symptom.* Some batches give a loss that is not a number, and somebody decided to skip those batches. The job now
# hangs near the end of some epochs. In other epochs the log shows odd losses, and nothing hangs.


# %%
def train_epoch(me, losses):
    means = []
    for loss in losses:
        if torch.isnan(loss):
            continue  # skip a broken batch
        dist.all_reduce(loss)
        means.append(loss.item() / me.world_size)
    return means


def job_with_a_broken_batch(me, broken):
    losses = torch.tensor([1.0, 2.0, 3.0], device=me.device)
    for rank, batch in broken:
        losses[batch] = float("nan") if rank == me.rank else losses[batch]
    return train_epoch(me, losses)


# %% [markdown]
# **In an epoch that hangs, rank 1 has a broken batch. Why does the job hang?**

# %%
### BEGIN SOLUTION
### STUB ask("02.skip")
ask("02.skip").commit("all_reduce cannot add what is not a number")
### END SOLUTION

# %%
try:
    ranks.call(job_with_a_broken_batch, ([(1, 0)],), timeout_s=20)
except RankError as error:
    print(error)

# %%
reveal("02.skip")

# %% [markdown]
# A hang is the *lucky* case: it needs a rank that makes fewer calls than the others. Now let every rank skip one batch,
# but not all the same one. Then all ranks make equally many calls again.

# %%
run = ranks.run(job_with_a_broken_batch, [(0, 0), (1, 1), (2, 2), (3, 2)])
for rank, means in enumerate(run):
    print(f"rank {rank}: means {means}")
print("the batches' true means are 1, 2 and 3")

# %% [markdown]
# There is no error and no hang, but the numbers mean nothing: a rank's second batch was added to another rank's third.
# With gradients in place of losses, this trains a model on meaningless sums. The rule that prevents it: **whether a
# collective is called must never depend on something that only one rank knows.** If a batch may be skipped, let the
# ranks agree first, for example by an all-reduce of a flag.

# %% [markdown]
# ## Clinic 4: Monday morning
#
# *Symptom.* The job has stood still since Saturday. Nobody has touched it, so its ranks can still be asked.
#
# Each rank has a *loader*: a thread that reads records and puts them into a queue. One record of the data set cannot be
# read. Neither you nor the training loop knows which rank has it in its part.


# %%
def read_records(records, ready):
    for record in records:
        if record < 0:
            return  # cannot be read: the thread ends, and tells nobody
        ready.put(record)


def next_batch(ready):
    return ready.get()


def train(me, shards, folder):
    ready, gradient, loss = queue.Queue(), torch.zeros(1024), torch.zeros(1)
    threading.Thread(target=read_records, args=(shards[me.rank], ready), daemon=True).start()
    with black_box(me, folder, quiet_s=2.0):
        for _ in range(6):
            gradient.fill_(next_batch(ready))
            works = [dist.all_reduce(tensor, async_op=True) for tensor in (gradient, loss)]
            for work in works:
                work.wait()


# %% [markdown]
# <!-- word: flight recorder | sentences: 2 -->
# PyTorch's **flight recorder** keeps the last collectives of each rank in memory. It writes them to a file when the
# watchdog finds one that takes too long. This job runs on gloo, on the CPU of any machine: there the recorder runs as
# well, but there is no watchdog. `black_box` takes the watchdog's place. If no collective begins or ends on a rank for
# two seconds, it writes two files. The entries of the recorder go to `rank_N`, and the stack of the main thread to
# `stack_N.txt`.

# %%
shards = torch.arange(24).view(4, 6)
torch.manual_seed(9)
shards[tuple(int(torch.randint(high, ())) for high in (4, 6))] = -1  # somewhere
with Cluster(4, backend="gloo") as cluster, contextlib.suppress(RankError):
    kept = folder_for_ranks(cluster)  # gone when the kernel ends
    folder = Path(kept.name)
    cluster.call(train, (shards.tolist(), str(folder)), timeout_s=8)
print(*sorted(path.name for path in folder.iterdir()))

# %% [markdown]
# A dump is a pickle. For every rank the cell prints the last collective that it has enqueued, and three entries.
# (`retired` says whether the collective is over. NCCL's dumps also say by `state` whether it was `scheduled`, `started`
# or `completed`.)

# %%
dumps = [pickle.loads((folder / f"rank_{rank}").read_bytes()) for rank in range(4)]
for rank, dump in enumerate(dumps):
    print(f"rank_{rank}: last_enqueued_collective {dump['pg_status']['0']['last_enqueued_collective']}")
    for entry in dump["entries"][-3:]:
        keys = "collective_seq_id", "profiling_name", "input_sizes", "retired"
        print("   ", *(f"{key} {entry[key]}" for key in keys), sep="  ")

# %% [markdown]
# **Which rank is to blame?**

# %%
### BEGIN SOLUTION
### STUB ask("02.blame")
ask("02.blame").commit("rank 0")  # "it complains"
### END SOLUTION

# %%
reveal("02.blame", dumps)

# %% [markdown]
# The recorder says *which* rank. A stack says *where* that rank stands. In production you ask a running process with
# [py-spy](https://github.com/benfred/py-spy): `py-spy dump --pid 4711` prints such lines, the innermost call first, and
# needs no preparation. (`black_box` has written the stacks below, in the same form.) Read the stack of the rank to
# blame, and compare it with the others.

# %% tags=["nbval-ignore-output"]
for rank in range(4):
    print(f"stack_{rank}.txt:", (folder / f"stack_{rank}.txt").read_text())

# %% [markdown]
# Note where the innocent ranks stand: not at `all_reduce`, which returned long ago, but at `work.wait()`. On GPUs they
# would stand at an even later line, the first one that needs a number. So the stack of an innocent rank says little.
# Ask the recorder first.
#
# With hundreds of ranks nobody can read all dumps. PyTorch has a program for it, `torchfrtrace`, which compares all
# ranks. It was made for NCCL's dumps: in gloo's the list of groups is empty, so `black_box` fills in that list.

# %% tags=["nbval-ignore-output"]
reader = [
    sys.executable,
    "-m",
    "torch.distributed.flight_recorder.fr_trace",
    str(folder),
    "--prefix",
    "rank_",
]
done = subprocess.run(reader, capture_output=True, text=True)
print(*(line for line in (done.stdout + done.stderr).splitlines() if "tabulate" not in line), sep="\n")

# %% [markdown]
# ## In production
#
# | you wrote | production code uses |
# |---|---|
# | `ring_all_reduce` | `dist.all_reduce(tensor)` |
# | `tree_broadcast` | `dist.broadcast(tensor, src=0)` |
# | `exchange([send(...), recv(...)])` | `dist.batch_isend_irecv([dist.P2POp(...), ...])` |
#
# And these tools give you the evidence:
#
# - The flight recorder is on by default, with 2000 entries (`TORCH_FR_BUFFER_SIZE`). With `TORCH_NCCL_DUMP_ON_TIMEOUT`
#   the watchdog writes it to a file, and `torchfrtrace` reads it
#   ([tutorial](https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html)).
# - `torch.distributed.debug.start_debug_server` shows stacks and recorders of all ranks on a page (experimental).
# - The watchdog's time limit is `init_process_group(timeout=...)`: ten minutes by default for NCCL, thirty for gloo.
#
# <details>
# <summary>An aside: versions</summary>
#
# In PyTorch 2.13 the flight recorder is on by default. The setting for its number of entries was formerly called
# `TORCH_NCCL_TRACE_BUFFER_SIZE`. NCCL has had calls of its own for all-to-all, gather and scatter since version 2.28;
# before, PyTorch made them of sends and receives.
#
# </details>
#
# Look in this order: **the recorder says which rank, its stack says which line, the code says why.**

# %% [markdown]
# ## Questions

# %% tags=["computed-time"]
quiz("02")

# %% [markdown]
# ## What you can do now
#
# After three parts you know what each collective moves, and what it costs in bytes, in messages and in time. You have
# written a ring and a tree. And you can find out from evidence why a job hangs. You know four causes: messages in a
# circle, calls in another order, a call left out, and a rank that is busy with something else.
#
# **The limit.** You can share numbers; you do not share any *work* yet. The first thing to share is a batch: one
# process, several devices, each with a copy of the model. PyTorch does this in one line. [Lesson
# 03](03a_data_parallel.ipynb) takes that line apart, and shows why it is hardly used any more.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. You get numbers of your own, and new ones for
# each further try. When a problem is over, you see its solution step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("02")
problems("02", ways=True)
### END SOLUTION
