# %% [markdown]
# # 00 · Start here
#
# In this lesson four processes work as one job. You meet them, see what they share, and measure what it costs them to
# agree on one number. You also find a bug that makes a whole job hang. Everything runs on the machine in front of you,
# with GPUs or without.
#
# **70 minutes · difficulty 1 of 5 · needs: cpu**
#
# After this lesson you can
#
# - say what *rank*, *world size*, *device*, *node*, *replica*, *shard* and *collective* mean, with an example
#   from a run;
# - deal out data to ranks and compute a mean that no rank could compute alone;
# - find out from the evidence why a job hangs, and from a log which rank failed first;
# - name the parts of a program that runs under `torchrun`.

# %% [markdown]
# ## How a lesson goes
#
# Every lesson repeats one loop.
#
# ![Six steps in a row: predict, run, reveal, explain, build, break](../assets/00_loop.png)
#
# *Predict* is the step that people like to skip. Do not skip it: you will remember a guess that failed. Run the cells
# from top to bottom with Shift + Enter. No cell depends on one further down.

# %%
from course_lib import ask, calibrate, check, hint, machine, progress, quiz, reveal, shared_cluster, solution

# %% [markdown]
# ## What this machine has
#
# The course fits itself to the machine. It knows three *tiers*:
#
# - **cpu**: no GPU. Ranks share the cores of the processor. Everything except raw speed is real.
# - **one gpu**: several ranks share one GPU.
# - **many gpus**: each rank has a GPU of its own, as in production.

# %% tags=["nbval-ignore-output"]
print(machine().summary())

# %% [markdown]
# Where a part of a lesson needs more than this machine has, the part says so and is skipped. If something here
# surprises you, such as a missing GPU, run `course doctor` in a terminal: it says why, and what to do.

# %% [markdown]
# ## Four processes say hello
#
# <!-- word: rank -->
# <!-- word: world size -->
# <!-- word: device -->
# A **rank** is one process of a job, and also its number: 0, 1, 2, 3. The **world size** is how many ranks a job
# has. The **device** of a rank is what it computes on: a GPU, or the CPU where there is none.
#
# The line below starts four ranks and keeps them waiting for work.

# %% tags=["nbval-ignore-output"]
ranks = shared_cluster(4)

# %% [markdown]
# `ranks.run(f)` sends the function `f` to every rank. Each rank calls it with one argument, `me`: who it is.

# %% tags=["nbval-ignore-output"]
import os


def hello(me):
    print(f"I am rank {me.rank} of {me.world_size}, process {os.getpid()}, on {me.device}")
    return me.rank * 10


run = ranks.run(hello)

# %% [markdown]
# You see four process numbers, so these are four programs. A warning about more ranks than cores is true and harmless:
# the ranks take turns on the cores.
#
# What the ranks print is collected and shown in the order of the ranks, not in the order of time. What they return is
# in `run`.

# %%
print(run)
print("rank 2 returned", run[2])

# %% [markdown]
# ## What do ranks share?
#
# ![The notebook sends a function to four ranks and gets back what they return; each rank is a process with a number
# and a device](../assets/00_four_ranks.png)
#
# Here is a counter in the notebook, and a function that adds 1 to it.

# %%
counter = 0


def count(me):
    global counter
    counter += 1
    return counter


# %% [markdown]
# **Four ranks run `count`, once each. What is `counter` in the notebook afterwards?** Lock an answer before you
# go on.

# %%
### BEGIN SOLUTION
### STUB ask("00.shared")  # choose below and press the button, or add .commit("1") and run the cell
ask("00.shared").commit("4")  # what most people say
### END SOLUTION

# %%
run = ranks.run(count)
print("the ranks return", list(run))

reveal("00.shared", counter)

# %% [markdown]
# Each process has a copy of its own: this is the first thing to get used to. **Nothing is shared unless it is sent.**
# No rank can look into another's memory; a change reaches others only as a message, and somebody has to send it.
#
# You can also stay *in* the ranks. A cell that begins with `%%ranks` runs on every rank, and its variables last
# from cell to cell, on that rank. The name `rank` is there already.

# %% tags=["nbval-ignore-output"]
# %%ranks -n 4
x = rank + 1
print("my x is", x)

# %% [markdown]
# In the next cell every rank still has its x. The notebook has none.

# %%
# %%ranks
x * 100

# %%
print("x in the notebook:", globals().get("x", "there is none"))

# %% [markdown]
# ## Nodes, replicas, shards
#
# <!-- word: node | also: host -->
# A **node** is one machine of a job. A job may span many; the numbers of its ranks go on from one node to the next.
#
# ![Two nodes with two devices each; ranks 0 and 1 run on node 0, ranks 2 and 3 on node
# 1](../assets/00_nodes.png)
#
# <!-- word: replica -->
# <!-- word: shard -->
# A **replica** is a whole copy of something, such as a model, on each rank. A **shard** is one piece of something, the
# rest of which lies on other ranks. Every method in this course answers one question: *what* is replicated, and what is
# sharded?
#
# ![Left: four ranks hold the pieces A, B, C and D each; right: each of four ranks holds one
# piece](../assets/00_replica_and_shard.png)

# %% [markdown]
# **A model needs 8 GB. How much memory do four ranks need together, with replicas and with shards?** Say it
# before you run the cell.

# %%
model_gb, world_size = 8, 4

print("replicas:", model_gb * world_size, "GB in all,", model_gb, "GB on each rank")
print("shards:  ", model_gb, "GB in all,", model_gb // world_size, "GB on each rank")

# %% [markdown]
# Small models are replicated, and large ones are sharded (lesson 05). The *data* of a job is sharded in nearly every
# case: each rank works on its own part. So the first function to write answers the question: which part is mine?

# %% [markdown]
# ## Exercise 1: deal out the items
#
# ![Ten items in a row: ranks 0 and 1 take three each, ranks 2 and 3 take two each](../assets/00_shares.png)
#
# Write `my_share`. It returns the block of items of one rank, as a `range`:
#
# - every item belongs to exactly one rank, and the blocks follow each other in the order of the ranks;
# - the largest block is at most one item longer than the smallest;
# - where the items do not divide evenly, each of the first ranks takes one more, as in the picture.


# %%
def my_share(num_items: int, rank: int, world_size: int) -> range:
    """The items that belong to `rank`: a block of neighbours out of 0, 1, ..., num_items - 1."""
    # 1. How many items does everybody get, and how many are left over?
    # 2. Where does this rank's block start?
    # 3. How long is it?
    ### BEGIN SOLUTION
    base, extra = divmod(num_items, world_size)
    start = rank * base + min(rank, extra)
    return range(start, start + base + (rank < extra))
    ### END SOLUTION


# %%
share_verdict = check("00.share", my_share)

# %% [markdown]
# `check` tries your answer in several cases and tells you what is wrong, if anything. It never stops the notebook. A
# library call that does the whole exercise does not count as an answer. When you are stuck, take the `#` away in the
# next cell; each further run of it gives one more hint, three in all. `solution("00.share")` says where the solved
# version stands.

# %%
# hint("00.share")

# %% [markdown]
# ## How fast is this machine?
#
# Ranks share no memory and must send messages, so it matters what a message costs. The course measures three things of
# your machine once and keeps the results. They are how fast it multiplies matrices, how fast it copies memory, and how
# fast a message goes between two ranks. That takes some seconds, and up to a minute where other programs run too: `[*]`
# beside the cell says that it runs.

# %% tags=["nbval-ignore-output"]
calibration = calibrate()
print(calibration.summary())

# %% [markdown]
# <!-- word: latency -->
# <!-- word: bandwidth -->
# Two numbers describe the link between two ranks. The **latency** is the time that even an empty message takes.
# The **bandwidth** is how many bytes per second a link carries once they flow. A message of *n* bytes takes about
#
# > time = latency + n / bandwidth
#
# Elsewhere this is called the alpha-beta model; lesson 02 builds on it. For which sizes does the latency matter most,
# and for which the bandwidth?

# %% tags=["nbval-ignore-output"]
link = calibration.link
print("   bytes   time of the message   share of latency")
for size_bytes in [4, 4_000, 4_000_000, 400_000_000]:
    time_s = link.time_s(size_bytes)
    print(f"{size_bytes:>12,}   {time_s * 1e6:>12,.0f} µs   {link.latency_s / time_s:>10.0%}")

# %% [markdown]
# The time of a small message is nearly all latency; the time of a large one is nearly all bandwidth. Sending one number
# costs nearly as much as sending a thousand. Keep that in mind for the next question.

# %% [markdown]
# ## One number, four ranks
#
# <!-- word: collective | also: collective operation, collective communication -->
# <!-- word: all-reduce | also: all_reduce -->
# A **collective** is a call that all ranks make together, a meeting of the whole job. The one that you will
# meet most is `all_reduce`. In an **all-reduce** every rank gives a number (or a tensor), and every rank gets the
# sum.
#
# ![Four ranks hold 3, 1, 4 and 1; after all_reduce each of them holds 9](../assets/00_all_reduce.png)

# %%
# %%ranks
number = torch.tensor([3.0, 1.0, 4.0, 1.0][rank], device=device)
dist.all_reduce(number)
number.item()

# %% [markdown]
# No rank was in charge, and no rank asked the notebook. (`dist` is `torch.distributed`, PyTorch's own library; nothing
# here is a toy.)
#
# **How long does it take four ranks to add up one number each?** Four numbers need only three additions. Which messages
# have to travel?

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ask("00.sum")
ask("00.sum").commit(1)  # "four numbers: next to nothing"
### END SOLUTION

# %% [markdown]
# <!-- word: barrier -->
# The ranks repeat the call a hundred times, and we take the middle one of the times. A **barrier** is a collective that
# carries nothing: nobody leaves it before all have come. The ranks call one before each sum, so that all begin
# together.
#
# For comparison, one process adds four numbers that it has already.

# %%
import statistics
import time

import torch
import torch.distributed as dist


def time_of_sum(me):
    number, times_s = torch.ones(1, device=me.device), []
    for _ in range(100):
        dist.barrier()
        start_s = time.perf_counter()
        dist.all_reduce(number)
        number.item()  # a GPU works in the background; this waits for it
        times_s.append(time.perf_counter() - start_s)
    return statistics.median(times_s)


# %% tags=["nbval-ignore-output"]
import timeit

together_us = max(ranks.run(time_of_sum)) * 1e6
numbers = "a, b, c, d = 3.0, 1.0, 4.0, 1.0"
alone_us = timeit.timeit("a + b + c + d", numbers, number=100_000) / 100_000 * 1e6

print(f"one process, four numbers: {alone_us:8.2f} µs")
print(f"four ranks, a number each: {together_us:8.2f} µs")
print(f"which is {together_us / alone_us:,.0f} times as long")

# %% [markdown]
# <!-- word: cost model | also: performance model -->
# <!-- word: gloo -->
# <!-- word: NCCL -->
# Why does the sum take so long? A **cost model** is a formula that says what a run should cost before it runs. Here is
# a first one. **gloo** is the library that carries messages between CPU ranks. **NCCL** (NVIDIA's collective
# communications library, said "nickel") carries messages between NVIDIA GPUs. With gloo the partial sums are passed
# around in a ring. With $p$ ranks a message has to be passed on $2(p-1)$ times, one after the other. Each time costs
# one latency. You measured the latency above.

# %% tags=["nbval-ignore-output"]
steps = 2 * (ranks.world_size - 1)
model_us = steps * link.latency_s * 1e6

reveal("00.sum", together_us, model_us, link.latency_s * 1e6)

# %% [markdown]
# One point proves little. If the ring is right, two ranks need two messages and three ranks four. Does the time
# grow like that on your machine?

# %% tags=["nbval-ignore-output"]
print("ranks   messages     model   measured")
for num_ranks in [2, 3, 4]:
    measured_us = max(shared_cluster(num_ranks).run(time_of_sum)) * 1e6
    steps = 2 * (num_ranks - 1)
    model_us = steps * link.latency_s * 1e6
    print(f"{num_ranks:>5}   {steps:>8}   {model_us:>4.0f} µs   {measured_us:>5.0f} µs")

# %% [markdown]
# Look at the growth first. By the model, each further rank adds two messages, and so the same time again. How evenly
# does your measured time grow, and how far is it from the model? On a machine with fewer cores than ranks, a rank also
# waits for a core, and the model does not know this. On GPUs and between nodes the messages take other paths.
#
# Still, the model says what you pay for: **a small collective costs latency, not arithmetic and not bandwidth.** Lesson
# 02 shows how the ring works; here it is enough to know that agreeing on one number is not free.

# %% [markdown]
# ## Exercise 2: a mean that no rank knows
#
# Each rank holds some numbers. The ranks may hold different counts of them, and a rank may hold none at all. Write
# `global_mean`: **every** rank returns the mean over all the numbers of all ranks. You have `dist.all_reduce(tensor)`,
# which adds up a tensor over the ranks *in place*: afterwards the tensor holds the sum. A rank may hold millions of
# numbers: send no more than a few, and leave `values` as they are.


# %%
def global_mean(me, values: torch.Tensor) -> float:
    """The mean over the values of all ranks; `values`, of shape (n,), are those of this rank."""
    # 1. What does this rank have to tell the others? Put it into one tensor.
    # 2. Add it up over all ranks.
    # 3. Divide, once.
    ### BEGIN SOLUTION
    count = torch.tensor(float(len(values)), dtype=values.dtype, device=values.device)
    totals = torch.stack([values.sum(), count])
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])
    ### END SOLUTION


# %%
mean_verdict = check("00.mean", global_mean)

# %%
# hint("00.mean")

# %% [markdown]
# Now use both of your functions on real data, images of handwritten digits. Which share of them shows a seven? Each of
# four ranks looks at one part, and the ranks agree on the share. Then one process counts all images.

# %%
from course_lib.data import digits
from course_lib.rounding import rounded

labels = digits().train.tensors[1]
sevens = (labels == 7).double()


def share_of_sevens(me):
    mine = my_share(len(sevens), me.rank, me.world_size)
    print(f"I count in items {mine.start} to {mine.stop - 1}")
    return global_mean(me, sevens[mine.start : mine.stop].to(me.device))


# %%
if share_verdict.passed and mean_verdict.passed:
    run = ranks.run(share_of_sevens)
    print(f"four ranks say {rounded(list(run), 4)}")
    print(f"one process, looking at all {len(sevens):,} digits, says {rounded(sevens.mean(), 4)}")
else:
    print("Solve exercises 1 and 2, then run this cell again.")

# %% [markdown]
# Every rank has the same number, and one process finds the same. That comparison, *is it what one process would have
# computed?*, is the test behind every method in this course.
#
# There was a second idea in this exercise. The mean of the ranks' means would have been wrong, since the shares
# are not equal. Real training code has this bug, in the last batch of an epoch.

# %% [markdown]
# ## When a rank fails
#
# Processes fail: a file is missing, memory runs out. Here rank 2 fails while the others wait for it in a
# collective.

# %%
from course_lib.cluster import RankError


def lose_the_batch(me):
    if me.rank == 2:
        raise FileNotFoundError("batch 17 is not there")
    gradients = torch.ones(3, device=me.device)
    dist.all_reduce(gradients)
    return gradients.tolist()


try:
    ranks.run(lose_the_batch)
except RankError as error:
    print(error)

# %% [markdown]
# Read the report from the top: *who* failed first, *why*, *at which line*, and *where everybody else stood*. The three
# others did nothing wrong. A real job prints no such report; near the end of this lesson you read what it prints.
#
# The ranks that stood in the collective could not be freed, so the cluster ended them and will start fresh ones. What
# your `%%ranks` cells had made in those ranks is gone. You need not do anything; the next call works.

# %%
print(list(ranks.run(lambda me: f"rank {me.rank} is here")))

# %% [markdown]
# ## The clinic: a job that hangs
#
# In every lesson you will meet a bug that people really make. You get the symptom and the code, and name a suspect.
# Then the evidence decides.
#
# <!-- word: hang -->
# *The symptom.* A colleague wants to log the mean loss. One line in the log is enough, so only rank 0 writes it. Since
# this change the job gets no further than the first log line. A **hang** is a job that neither goes on nor ends: no
# error, no crash, and here the processors are idle.
#
# ![Four ranks have done their own work; what each of them does afterwards is a question
# mark](../assets/00_silent_job.png)


# %%
def report_loss(me, loss):
    if me.rank == 0:
        dist.all_reduce(loss)
        return f"mean loss {loss / me.world_size:.2f}"


def training_step(me):
    loss = torch.tensor(me.rank + 0.5, device=me.device)
    return report_loss(me, loss)


# %% [markdown]
# **Why does the job hang?** Name your suspect before you see the evidence.

# %%
### BEGIN SOLUTION
### STUB ask("00.cause")
ask("00.cause").commit("rank 0 is too slow")  # "it is the one that hangs"
### END SOLUTION

# %% [markdown]
# *The evidence.* The cluster notices that nobody will ever answer, and asks each rank where it stands. (`ranks.call` is
# `ranks.run` with options: here, the longest time that we would wait.)

# %%
try:
    ranks.call(training_step, timeout_s=20)
except RankError as error:
    print(error)

# %%
reveal("00.cause")

# %% [markdown]
# ![Rank 0 stands at the meeting point; the other three have returned and gone
# on](../assets/00_waiting.png)
#
# A collective is a meeting: **every rank must come, and all ranks must come to their meetings in the same order.** An
# `if me.rank == 0` around a collective is the most common way to break this. In real code the collective is often
# hidden in a function that the `if` calls.
#
# Note that rank 0 looked guilty, since it was the one that hung. The cause was on the ranks that did *not* hang.
#
# <!-- word: watchdog | sentences: 2 -->
# In a real job there is no cluster that notices a hang at once. A **watchdog** is a thread in each rank that ends its
# process when a collective takes longer than a time limit. With NCCL, PyTorch allows ten minutes unless you say
# otherwise.

# %% [markdown]
# ## Exercise 3: mend the report
#
# Write `mended_report`. Rank 0 returns the text `"mean loss 2.00"` (with the mean over all ranks, two decimals), and
# every other rank returns `None`. No rank may wait for ever, and no call may be left unfinished at the end.


# %%
def mended_report(me, loss: torch.Tensor) -> str | None:
    """On rank 0 the mean loss over all ranks as text, on every other rank None."""
    # 1. What does everybody do?
    # 2. What does only rank 0 do?
    ### BEGIN SOLUTION
    dist.all_reduce(loss)
    return f"mean loss {loss / me.world_size:.2f}" if me.rank == 0 else None
    ### END SOLUTION


# %%
check("00.report", mended_report)

# %%
# hint("00.report")

# %% [markdown]
# ## What production uses
#
# <!-- word: torchrun | also: torch.distributed.run -->
# <!-- word: rendezvous | sentences: 2 -->
# In a notebook the ranks are started before you need them, and wait. This is for learning. Real jobs are started by
# **torchrun**, PyTorch's own launcher, and the script joins the others in its first lines. The **rendezvous** is the
# meeting at the start of a job. All processes that take part report at one agreed address, and agree on who is there
# and which rank each has.
#
# Here is a whole script of that kind. Its parts have numbers; every training script has these five.

# %%
script = """
import os
import torch
import torch.distributed as dist

# 1. Who am I? torchrun has put it into the environment of this process.
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
told = "  ".join(f"{name}={os.environ[name]}" for name in names)
# 2. My device, before anything touches a GPU.
if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
# 3. Join the others. It reads RANK, WORLD_SIZE and the address by itself. ("nccl" on GPUs)
dist.init_process_group("gloo")
# 4. The work.
number = torch.tensor([3.0, 4.0][dist.get_rank()])
dist.all_reduce(number)
# 5. Leave.
dist.destroy_process_group()
print(f"{told}\\n  the sum is {number.item():g}\\n", end="")
"""

# %% [markdown]
# The next cells let torchrun start two ranks of this script. What the ranks write is collected, and shown when the job
# is over. This takes some seconds, or up to a minute on a busy machine, since each new process loads PyTorch first.

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

folder = tempfile.TemporaryDirectory()
file = Path(folder.name) / "sum_up.py"
file.write_text(script)
meet = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", *meet, file]
settings = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

# %% tags=["nbval-ignore-output"]
start_s, pipe = time.perf_counter(), subprocess.PIPE
job = subprocess.Popen(command, env=os.environ | settings, stdout=pipe, stderr=pipe, text=True)
try:
    output, errors = job.communicate(timeout=200)
except subprocess.TimeoutExpired:
    output, errors = "", "not done after 200 s; a very busy machine? Run the cell again."
finally:
    job.terminate()  # it ends its ranks; a job that is over does not mind
torchrun_s = time.perf_counter() - start_s
print(output if job.returncode == 0 else errors)

# %% [markdown]
# Both ranks print the same sum. In a terminal the command is `torchrun --nproc-per-node=2 sum_up.py`; the other options
# of the cell keep the rendezvous on this machine and on a free port. (torchrun sets one thread a process, too.
# `TORCH_DISABLE_SHARE_RDZV_TCP_STORE` gives each start a meeting point of its own, which torch 2.13 needs.) If you
# start the script by `python sum_up.py`, it dies in part 1 with `KeyError: 'RANK'`: no launcher has given it a rank.
#
# <!-- word: local rank | also: `LOCAL_RANK` -->
# These six variables are all that a process knows of its job. You know `RANK` and `WORLD_SIZE`. `MASTER_ADDR` and
# `MASTER_PORT` are the address of the rendezvous, the same for all. The **local rank** is the number of a rank on its
# own node, and `LOCAL_WORLD_SIZE` is how many ranks that node has. On one node, local rank and rank are equal. So
# scripts that mix them up work until the day they get a second node.
#
# **Two nodes with four GPUs each, a rank for each GPU. Which GPU should rank 6 take?** Say it before you run the cell.

# %%
gpus_per_node = 4
print("RANK   node   LOCAL_RANK, the number of its GPU there")
for rank in range(2 * gpus_per_node):
    node, local_rank = divmod(rank, gpus_per_node)
    print(f"{rank:>4}   {node:>4}   {local_rank:>10}")

# %% [markdown]
# So a script says `torch.cuda.set_device(local_rank)`. With `set_device(rank)`, rank 6 asks its node for a GPU number
# 6, and CUDA answers "invalid device ordinal". Without the line it is worse: in every process of the node, `"cuda"`
# means GPU 0, and the other GPUs stand idle.
#
# How long does it take to start processes, compared with a call to ranks that already run?

# %% tags=["nbval-ignore-output"]
warm_s = statistics.median(ranks.run(lambda me: None).time_s for _ in range(20))
print(f"torchrun, from start to end: {torchrun_s * 1e3:10,.1f} ms for 2 ranks")
print(f"a call to ranks that wait:   {warm_s * 1e3:10,.1f} ms for 4 ranks")

# %% [markdown]
# A job that trains for hours can afford such a start. While you try things out, it would make you wait each time. There
# is no other difference: between start and end, both use the same functions of `torch.distributed`. A rank function of
# this course also runs under torchrun as it is: `torchrun --nproc-per-node 4 -m course_lib.cluster.launch
# my_module:my_function`.
#
# Use torchrun for every job that is to last. It spans many nodes, and it ends all ranks when one has died. With
# `--max-restarts 3` it starts them again, up to three times. (Without that option it does not: the default is 0.)
# Lesson 12 uses torchrun on several machines.

# %% [markdown]
# ## A log from production
#
# Some day you will get a log, and nobody will explain it to you. This one is real: a job of two ranks under torchrun,
# recorded on a machine without GPUs. (The first half of the paths of PyTorch's files is left out; nothing else was
# touched.) The next cell prints its first lines.

# %%
from course_lib.base import project_root

import json

record = project_root() / "assets" / "measured" / "torchrun_log.json"
log = json.loads(record.read_text(encoding="utf-8"))["log"]
told_by_ranks = next(number for number, line in enumerate(log) if line.startswith("W"))
print("\n".join(log[:told_by_ranks]))

# %% [markdown]
# Only rank 0 left a traceback (the `[rank0]:` before a line says who wrote it). Rank 0 was in the all-reduce of the
# fourth step when its connection was closed.
#
# **Who failed first, and how?** Look also for what the log does *not* have.

# %%
### BEGIN SOLUTION
### STUB ask("00.first")
ask("00.first").commit("rank 0, by the RuntimeError")  # "there stands its traceback"
### END SOLUTION

# %% [markdown]
# The other lines come from torchrun itself. The traceback in the middle is torchrun's own, and the same in every such
# log: skip it. The table at the end is what counts.

# %%
print("\n".join(log[told_by_ranks:]))
reveal("00.first", log)

# %% [markdown]
# <!-- word: exit code | sentences: 3 -->
# How do you read such a table? An **exit code** is the number that a process leaves behind when it ends. Zero is
# success, and a positive one was set by the program itself (1 after an exception that nobody caught). A negative one is
# the number of the signal that ended the process. (A *signal* is a short message of the operating system to a process.)
#
# - -9 is SIGKILL. No program can catch it, so the process can write nothing more. For this recording somebody typed
#   `kill -9`. In other jobs the signal mostly comes from the operating system's out-of-memory killer, which ends a
#   process when the memory of the machine is full. The command `dmesg` shows it.
# - -15 is SIGTERM, here from torchrun itself: the line with "Sending process" says so. What torchrun ended is not the
#   cause. (Rank 0 was about to end by its RuntimeError, with exit code 1; the signal was faster.)
# - -11 is SIGSEGV, a crash in compiled code such as PyTorch's own; -6 is SIGABRT, which is also how the watchdog ends a
#   rank.
#
# "First *observed*" is meant literally: torchrun looks at its processes every tenth of a second, and the times in its
# table are whole seconds. Where two ranks fail together, the table may name the second one, which failed because of the
# first. So compare with what the ranks wrote.
#
# On GPUs the other ranks write less. This job used gloo, where a lost connection is an error at once. Under NCCL the
# other ranks often keep waiting, without a word, until torchrun or the watchdog ends them.
#
# And where a rank ends by an *exception*, its traceback comes into the table as well, if the script's main function has
# the decorator [`@record`](https://docs.pytorch.org/docs/stable/elastic/errors.html).

# %% [markdown]
# ## Five questions
#
# The course computes the right answers. After a wrong one it says what was mixed up.

# %%
quiz("00")

# %% [markdown]
# ## Where you are
#
# You can start ranks and send them work, deal out data, and let ranks agree on a number and say what that costs. You
# can read a hang from its evidence, and a log for its first cause. And you can say what each part of a torchrun script
# is for. `progress()` shows what you have done in every lesson. It is kept on this machine, in a file of yours, and
# holds no code. `from course_lib import start; start()` says what comes next, and asks again the questions that you
# missed.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# **The limit.** You have ranks and no model. Before a model is cut in pieces, you should know what it does on *one*
# device: where its memory goes, and where its time goes. Then you can choose how to cut it. That is lesson 01.
#
# *Further reading.* PyTorch's own overview, [Distributed
# communication](https://docs.pytorch.org/docs/stable/distributed.html);
# [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html), with all that it puts into the environment.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. You get numbers of your own, and new ones for
# each further try. When a problem is over, you see its solution step by step, and where each constant comes from.

# %% tags=["computed-time"]
from course_lib import problems

### BEGIN SOLUTION
### STUB problems("00")
problems("00", ways=True)
### END SOLUTION
