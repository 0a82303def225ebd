# %% [markdown]
# # 12c · Beyond one machine: thousands of GPUs
#
# You find out how often a job on thousands of GPUs fails, and how often to write a checkpoint. You also find out how
# much of its time is left for training, and which improvement gains the most. Then you see how an all-reduce stops
# scaling. All of it is arithmetic and simulation, with stated assumptions; the rates of failures are published.
#
# **2 × 45 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 3 of 6 · [1: two nodes](12a_two_nodes.ipynb) · [2: when ranks die](12b_when_ranks_die.ipynb) · [4: take it
# along](12d_take_it_along.ipynb) · [5: wrong numbers](12e_wrong_numbers.ipynb) · [6: build a job that outlives its
# ranks](12f_build_a_job.ipynb)
#
# This part builds on [12a: two nodes](12a_two_nodes.ipynb) and [12b: when ranks die](12b_when_ranks_die.ipynb). Have
# you done them? `from course_lib import start; start("12c")` says whether you have.
#
# At the end you can
#
# - turn a rate of failures into hours between them, for any number of GPUs;
# - choose the interval between checkpoints, and say how much goodput a wrong one costs;
# - say which of four improvements gains the most goodput;
# - say why large jobs do not run one flat all-reduce over all ranks, and what they do instead.
#
# From parts 1 and 2 you need three facts. Training is synchronous, so a rank that dies stops all ranks. The job starts
# again from its last checkpoint. A *node* is one machine, here with eight GPUs.

# %%
from course_lib import ask, check, cost, hint, reveal
from course_lib.cost import FailingJob, expected_goodput, simulate_goodput
from course_lib.learn import sick_job
from course_lib.plot import lines

import math
from dataclasses import replace

import numpy as np

# %% [markdown]
# ## How often?
#
# The makers of Llama 3 405B counted the unexpected interruptions of its training, during 54 days on 16,384 H100 GPUs.
# GPUs and their memory caused more than half of them. The rest came from network, hosts, software and other causes:

# %%
llama = cost.failure_rate("Llama 3 405B")
print(llama.source)
hours = llama.mean_time_between_s() / 3600
print(f"{llama.num_failures:g} in {llama.days:g} days: one every {hours:.1f} hours")

# %% [markdown]
# <!-- word: mean time between failures | also: MTBF | sentences: 2 -->
# The **mean time between failures** (MTBF) of a job is how long it runs from one failure to the next, on average. It
# halves when the number of GPUs doubles.
#
# Share out those failures evenly over the GPUs, so that each GPU has its part of host, network and software. **How many
# years does one GPU run, on average, until it stops the job?**

# %%
### BEGIN SOLUTION
### STUB ask("12.years")
ask("12.years").commit(0.5)  # "they must be breaking all the time"
### END SOLUTION

# %%
reveal("12.years", llama)

# %% [markdown]
# Now use the rate of one GPU to compute the MTBF of a job. Write it down for 8, 1,024, 16,384 and 100,000 GPUs, then
# run the cell. The second rate is of RSC-1, a research cluster with A100 GPUs. The last column is the chance that a job
# at Llama's rate runs for a day without failure.

# %%
rsc = cost.failure_rate("RSC-1")
print(f"{'GPUs':>7}  {llama.name:>14}  {rsc.name:>12}  a day without failure")
for gpus in (8, 1024, 16_384, 100_000):
    hours = [rate.mean_time_between_s(gpus) / 3600 for rate in (llama, rsc)]
    through = cost.chance_of_no_failure(llama.per_gpu_day, gpus, 86_400)
    print(f"{gpus:>7,}  {hours[0]:>12,.1f} h  {hours[1]:>10,.1f} h  {through:>21.2%}")

# %% [markdown]
# So with eight GPUs such failures are rare; with ten thousand you plan for several failures a day.
#
# This table, and most of this part, assumes three things. Each GPU has the same rate at all times, failures are
# independent, and each of them stops the job. Real failures come in bunches, several within a short time. New machines
# fail more often than old ones, and jobs differ. The report on RSC-1 has jobs on 1,024 GPUs that fail every 7.9 hours.
# So read from the table only the order of magnitude.
#
# ## What a failure costs
#
# ![A job works, writes a checkpoint, works again; a rank fails in the middle of some work; after a while it is noticed,
# the job starts again and repeats that work from the last checkpoint](../assets/12_failure.png)
#
# Three things cost time. The first is the work since the last checkpoint. A failure may come at any moment, so this is
# half an interval on average. The second is the time until the failure is noticed, and until all ranks run again. The
# third comes without any failure: training waits while a checkpoint is written.
#
# <!-- word: goodput | also: effective training time | sentences: 2 -->
# **Goodput** is the share of a job's time that goes into training whose result is kept. The rest goes to writing
# checkpoints, to work done again, to restarts and to waiting.
#
# Take a job of Llama's size. A checkpoint takes one minute to write. From a failure until training continues it takes
# five minutes. (Both are assumptions.) **After how many minutes of work would you write a checkpoint?**

# %%
### BEGIN SOLUTION
### STUB ask("12.best")
ask("12.best").commit(120)  # "it runs for three hours, so a bit before that"
### END SOLUTION

# %% [markdown]
# The next cell simulates 200 jobs for 30 days each, for every interval in the list. Failures are drawn at random, and
# each job is followed from failure to failure.

# %% tags=["computed-time"]
MONTH_S = 30 * 86_400
job = FailingJob(mean_time_between_s=llama.mean_time_between_s(), write_s=60, restart_s=300)
found = {
    minutes: simulate_goodput(job, 60 * minutes, duration_s=MONTH_S, num_runs=200, seed=1)
    for minutes in (1, 2, 4, 8, 12, 16, 18, 20, 24, 32, 64, 128, 256)
}
reveal("12.best", found, job)

# %%
lines(
    {
        "writing": {minutes: 100 * run.mean.writing for minutes, run in found.items()},
        "work done again": {minutes: 100 * run.mean.redone for minutes, run in found.items()},
        "both": {minutes: 100 * (run.mean.writing + run.mean.redone) for minutes, run in found.items()},
    },
    x_label="minutes of work between two checkpoints",
    y_label="% of the time",
    title="16,384 GPUs: too often and too seldom",
    log_x=True,
)

# %% [markdown]
# ## Around the best interval
#
# Nobody hits the best interval to the minute. **Take an interval twice as long as the best one. By how many per cent
# does the loss grow, writing and work done again together?**

# %%
### BEGIN SOLUTION
### STUB ask("12.twice")
ask("12.twice").commit(100)  # "twice as much is thrown away"
### END SOLUTION

# %% [markdown]
# Call the interval $t$, the writing $C$, the mean time between failures $M$. To the first order:
#
# - writing takes $C$ after each $t$ of work: the share $C/t$;
# - a failure comes every $M$ and throws $t/2$ away: the share $t/2M$;
# - the first falls with $t$, the second rises; their sum is least where its slope $-C/t^2 + 1/2M$ is zero, and there
#   both are equal: $C/t = t/2M$;
# - so $t = \sqrt{2CM}$. That is *Young's* interval, of 1974.
#
# The time of a restart is not in the formula: it costs the same after each failure, however often you write.

# %%
around = {
    times: simulate_goodput(job, times * job.best_interval_s, duration_s=MONTH_S, num_runs=200, seed=2)
    for times in (0.1, 0.25, 0.5, 1, 2, 4, 10)
}
reveal("12.twice", around, job)

# %% [markdown]
# Young's formula leaves out failures during a write, and two failures within one interval. Daly added further terms
# (2006). Failures have *no memory* if the next one is as likely now as it was an hour ago. Then the expected goodput is
# known exactly, and a search finds its maximum. In the table a write takes one minute, a restart takes no time, and
# machines fail more often from row to row. The last column is the mean of 200 simulated jobs, with its standard error:

# %%
print("M           interval in seconds       goodput, by the formula    simulated")
print("           Young   Daly  exact        Young     Daly    exact    with the exact one")
for mean_minutes in (600, 60, 10, 2, 0.5):
    failing = FailingJob(mean_time_between_s=60 * mean_minutes, write_s=60)
    each_s = [way(60, 60 * mean_minutes) for way in (cost.young_interval_s, cost.daly_interval_s)]
    each_s.append(failing.best_interval_s)
    left = [expected_goodput(failing, interval_s).useful for interval_s in each_s]
    run = simulate_goodput(failing, each_s[-1], duration_s=3000 * 60 * mean_minutes, num_runs=200)
    row = "".join(f"{interval_s:>7.0f}" for interval_s in each_s)
    row += "    " + "".join(f"{share:>9.3%}" for share in left)
    print(f"{mean_minutes:>5} min{row}    {run.mean.useful:.3%} ± {run.standard_error:.3%}")

# %% [markdown]
# If a checkpoint is short compared with M, Young's formula is good enough. If it takes as long as M, Young's interval
# loses a large part of the little goodput that is left.
#
# ## Build: the best interval
#
# For each number of GPUs there is an interval with the highest goodput. Write the function that finds it, by a search
# or by a formula, as you like. M below is the mean time between failures of the whole job, in seconds.


# %%
def best_interval(gpus, failures_per_gpu_day, checkpoint_s, restart_s):
    """The interval of the highest expected goodput, and that goodput: (seconds, share from 0 to 1).

    gpus                   how many the job runs on, 1 or more
    failures_per_gpu_day   of one GPU in a day; it may be 0
    checkpoint_s           how long training waits for each checkpoint, above 0
    restart_s              from a failure until training goes on, 0 or more

    With `t` seconds of work between two checkpoints, the writing not counted, the goodput is

        t / M * exp(-restart_s / M) / (exp((t + checkpoint_s) / M) - 1)

    exact for failures without memory. The interval must be right to 1 %, the goodput to 0.1 % of
    itself, also for a checkpoint much longer than M. Where nothing ever fails: (math.inf, 1.0).
    """
    ### BEGIN SOLUTION
    if failures_per_gpu_day == 0:
        return math.inf, 1.0
    mean_s = 86_400 / (gpus * failures_per_gpu_day)
    low, high = 0.0, mean_s  # one hill; its top lies between
    for _ in range(100):
        third = (high - low) / 3
        left, right = (t / math.expm1((t + checkpoint_s) / mean_s) for t in (low + third, high - third))
        if left < right:
            low += third
        else:
            high -= third
    kept = high / mean_s / math.expm1((high + checkpoint_s) / mean_s)
    return high, kept * math.exp(-restart_s / mean_s)
    ### END SOLUTION


# %%
interval_verdict = check("12.interval", best_interval)

# %%
# hint("12.interval")

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you find out how much of its time a larger job has for training, and what to buy.

# %% [markdown]
# ## The time that is left for training
#
# Take the same settings, a minute to write and five to restart. Now the job has 100,000 GPUs at Llama's rate, with the
# best interval. The next cell simulates how much of its time is left for training:

# %% tags=["computed-time"]
largest = replace(job, mean_time_between_s=llama.mean_time_between_s(100_000))
interval_s = largest.best_interval_s
run = simulate_goodput(largest, interval_s, duration_s=MONTH_S / 3, num_runs=200, seed=3)
print(
    f"it fails every {largest.mean_time_between_s / 60:.0f} min, and writes every {interval_s / 60:.0f} min"
)
for name in ("useful", "writing", "redone", "restarting"):
    print(f"{name:<11}{getattr(run.mean, name):>5.0%}")

# %% [markdown]
# With these settings a smaller job keeps most of its time. Here the restarts alone take more than a smaller job loses
# in all.
#
# The next cell runs your function for several sizes:

# %%
if interval_verdict.passed:
    print("   GPUs  interval  goodput  failures a day")
    for gpus in (8, 64, 1024, 4096, 16_384, 50_000, 100_000):
        interval_s, share = best_interval(gpus, llama.per_gpu_day, 60, 300)
        failures = cost.failures_per_day(llama.per_gpu_day, gpus)
        print(f"{gpus:>7,}  {interval_s / 60:>4.0f} min  {share:>7.1%}  {failures:>14.3f}")

# %% [markdown]
# ## What to buy
#
# ![Above, training stands still while a checkpoint is written. Below, it stands still only while the bytes are copied
# to host memory, and they are written to storage during the next work](../assets/12_hidden.png)
#
# Why does a write take so long? A checkpoint of 405 billion parameters has 12 bytes for each parameter, a float32 copy
# and two moments. This does not depend on the number of GPUs. But one rank may write it, or all ranks together. The
# next cell compares some speeds of writing, all of them assumptions:

# %% tags=["computed-time"]
checkpoint_bytes = 405e9 * 12
writers = {
    "one rank writes all, 5 GB/s": 5e9,
    "each rank its shard, 100 GB/s in all": 100e9,
    "each rank its shard, 1 TB/s in all": 1e12,
}
print(f"{checkpoint_bytes / 1e12:.1f} TB")
for who, bytes_per_s in writers.items():
    writing = replace(job, write_s=checkpoint_bytes / bytes_per_s)
    share = expected_goodput(writing, writing.best_interval_s).useful
    print(f"{who:<38} {writing.write_s:>6,.0f} s  goodput {share:.1%}")

# %% [markdown]
# <!-- word: asynchronous checkpoint | also: async checkpoint, asynchronous saving | sentences: 3 -->
# With an **asynchronous checkpoint** training waits only while its state is copied to host memory. The copy is written
# to storage during the next steps. Until the writing is done, the previous checkpoint is the valid one.
#
# Now take a well-run job on 16,384 GPUs. A write takes 30 seconds. Say that each failure makes a rank hang. This is
# noticed after PyTorch's default time-out for NCCL, ten minutes. The start takes four minutes more. Another node is
# always ready. You may have one of four improvements, each with the interval that is best for it. **Which gains the
# most goodput?**

# %%
### BEGIN SOLUTION
### STUB ask("12.buy")
ask("12.buy").commit("nine tenths of a write go on beside training")
### END SOLUTION

# %% tags=["computed-time"]
kept = FailingJob(mean_time_between_s=job.mean_time_between_s, write_s=30, restart_s=600 + 240)
buys = {
    "as it is": kept,
    "a failure is noticed after 10 seconds": replace(kept, restart_s=10 + 240),
    "nine tenths of a write go on beside training": replace(kept, exposed_share=0.1),
    "storage four times as fast": replace(kept, write_s=30 / 4),
    "a start in one minute in place of four": replace(kept, restart_s=600 + 60),
}
runs = {
    name: simulate_goodput(one, one.best_interval_s, duration_s=MONTH_S, num_runs=200, seed=5)
    for name, one in buys.items()
}
reveal("12.buy", runs)

# %% tags=["computed-time"]
buys["the first two together"] = replace(kept, restart_s=10 + 240, exposed_share=0.1)
for name, one in buys.items():
    run = simulate_goodput(one, one.best_interval_s, duration_s=MONTH_S, num_runs=200, seed=5)
    formula = expected_goodput(one, one.best_interval_s).useful
    every = one.best_interval_s / 60
    print(f"{run.mean.useful:.1%} (formula {formula:.1%}), every {every:4.1f} min: {name}")

# %% [markdown]
# <!-- word: spare node | also: hot spare, standby node | sentences: 2 -->
# A **spare node** stands ready beside a job and takes the place of a node that failed. So the job continues before the
# broken node is repaired.
#
# Until now a spare node was always ready. Say that a node that fails is away for a whole day, and that the job needs
# 2,048 nodes. With too few spare nodes the job waits until one is back. The number of failures differs from day to day.
# So with as many spare nodes as fail on an average day, the job still waits often:

# %%
waiting = [replace(kept, repair_s=86_400, num_spares=spares).waiting_share for spares in range(20)]
print(f"{86_400 / kept.mean_time_between_s:.1f} nodes fail in a day")
for spares in (0, 4, 8, 12, 16):
    print(f"{spares:>2} spare nodes: the job waits {waiting[spares]:.1%} of the time")

# %% [markdown]
# The formula is Erlang's, made for telephones: it says how often all lines are busy. It assumes independent failures.
# The simulation can also let failures come in bunches. Weibull's distribution of the times between failures has no
# memory if its shape is 1. Schroeder and Gibson found shapes of 0.7 to 0.8 on real machines (2006). With such a shape
# the next failure is more likely soon after a failure. The next cell compares shapes with the same mean time:

# %%
SPARES = (5, 10, 14)
print("             goodput with     share of the time that it waits")
print("            always a spare" + "".join(f"{spares:>5} spares" for spares in SPARES))
shares = "".join(f"{waiting[spares]:>12.1%}" for spares in SPARES)
print(f"formula   {expected_goodput(kept, kept.best_interval_s).useful:>16.1%}{shares}")
for shape in (1.0, 0.7):
    jobs = [kept, *(replace(kept, repair_s=86_400, num_spares=spares) for spares in SPARES)]
    how = {"duration_s": 4 * MONTH_S, "num_runs": 100, "seed": 6, "weibull_shape": shape}
    means = [simulate_goodput(one, kept.best_interval_s, **how).mean for one in jobs]
    shares = "".join(f"{mean.waiting:>12.1%}" for mean in means[1:])
    print(f"shape {shape} {means[0].useful:>16.1%}{shares}")

# %% [markdown]
# So bunches matter little for the goodput, as long as the mean is right: a failure soon after another loses little
# work. For spare nodes bunches matter: more often many nodes are away at once, and 14 spare nodes are too few.
#
# ## Clinic: a job that is always busy and slow
#
# *Symptom.* A colleague runs a job on 4,096 GPUs. No step is slow, the job survives each failure, and spare nodes are
# ready. Still it does far fewer steps than fit into a week. Here is its log (simulated, at Llama's rate):

# %%
sick = sick_job.Setup()
log = sick_job.log_of(sick, days=7)
print(log)

# %% [markdown]
# The week has 168 hours. Add up the hours that each cause cost. **Which cause costs this job the most hours?**

# %%
### BEGIN SOLUTION
### STUB ask("12.dear")
ask("12.dear").commit("failures are noticed too late")
### END SOLUTION

# %% tags=["computed-time"]
reveal("12.dear", log)

# %% [markdown]
# ### Mend it
#
# Change one setting, in seconds. Then the job runs again for simulated months, with the same failures. The smallest
# possible values are `write_s` 25, `notice_s` 30 and `start_s` 120; for `interval_s` any value is possible. The score
# is your gain, in per cent of the gain of the best single change.

# %%
print(sick)

# %%
### BEGIN SOLUTION
### STUB mended = sick_job.changed(sick, notice_s=30)  # your turn: which setting, and how many seconds?
mean_s = sick.job.mean_time_between_s
mended = sick_job.changed(sick, interval_s=math.sqrt(2 * sick.write_s * mean_s))
### END SOLUTION
before, after, score = sick_job.gained(sick, mended)
print(f"goodput {before:.1%}, with your change {after:.1%}: {score:.0%} of what one change can gain")

# %% [markdown]
# "It fails often, so I save all the time" is wrong. Before you change a setting, print three shares: writing, work done
# again, and time in which the job is down.
#
# ## One all-reduce over all ranks
#
# Two costs grow with the number of ranks: failures, and the all-reduce. In a flat ring of n ranks a gradient goes round
# in 2(n - 1) messages, one after the other. The *hierarchical* all-reduce of part 1 has three steps. The first is a
# reduce-scatter within each node. The second is an all-reduce between nodes, of the ranks with the same local rank. The
# third is an all-gather within each node.
#
# Take nodes of eight H100 GPUs, with 450 GB/s and 5 µs within a node. Between nodes a port has 50 GB/s and 8 µs, and a
# node has eight ports. All ports work in a flat ring too (as if several rings shared the bytes). The speeds are from
# data sheets, the latencies are round numbers. The time of a message is its latency plus the time of its bytes. The
# next round waits for the slowest message. (NCCL is faster: its ranks do not wait for each other in each round.)
#
# The next cell takes 1 GB of gradients, on 8 to 16,384 ranks, and prints which share of a flat ring's time is latency:

# %% tags=["computed-time"]
WAYS = ("ring", "hierarchical", "hierarchical, doubling")
points = cost.all_reduce_at_scale(10**9, cost.machine_spec("8x H100"), ways=WAYS)
by_way = {way: [point for point in points if point.way == way] for way in WAYS}
for point in by_way["ring"][::2]:
    print(
        f"{point.num_ranks:>6,} ranks: {1e3 * point.time_s:>4.0f} ms, of which {point.latency_share:.0%} are latency"
    )

# %%
lines(
    {way: {point.num_ranks: 1e3 * point.time_s for point in by_way[way]} for way in WAYS},
    x_label="ranks",
    y_label="ms",
    title="An all-reduce of 1 GB",
    log_x=True,
    log_y=True,
)

# %% [markdown]
# One part of the time stays the same, and one grows. A rank sends nearly twice the buffer, however many ranks there
# are; the bandwidth sets this part. The latency of a ring grows with the number of ranks. The hierarchical way has an
# eighth of the ranks in its ring between nodes. With halving and doubling there (lesson 02) the number of messages
# grows with the logarithm of the number of nodes. NCCL has a tree between nodes for the same reason.
#
# Up to 128 ranks the flat ring is the quickest. All ways send the same bytes. But the hierarchical way has three steps
# in a row, and in each step one kind of link is idle. For 1 MB a ring's time is nearly all latency on 8 ranks already.
# So combine small tensors into few messages.
#
# ## Waiting for the slowest
#
# ![Eight ranks compute for about the same time; one takes longer, and the other seven wait for it before the all-reduce
# begins](../assets/12_slowest.png)
#
# Suppose that links have no latency. A step still ends when its slowest rank is done. Say that each rank is late by a
# random time at each step, 10 ms on average. Causes are the operating system, a GPU that is too hot, or a long batch.
# (This is an assumption again: the delays are exponential, and independent.) **On 16,384 ranks, by how many ms is a
# step late on average?**

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ask("12.jitter")
ask("12.jitter").commit(10)  # "on average 10 ms"
### END SOLUTION

# %% tags=["computed-time"]
draw = np.random.default_rng(0)
waits_ms = {
    ranks: draw.exponential(10, (200, ranks)).max(axis=1).mean().item()  # 200 steps
    for ranks in (8, 32, 128, 512, 2048, 16_384)
}
reveal("12.jitter", waits_ms, 10)

# %% [markdown]
# So the more ranks take part in each exchange, the longer the fast ranks wait. Therefore large jobs do not let all
# ranks exchange everything in each step. They use three ways:
#
# - *Shard within, replicate between* (hybrid sharding, lesson 05): the messages of each layer stay in the node.
#   Gradients go between nodes once a step, an eighth of them by each rank.
# - *Other axes* (lessons 06 to 10): with 8 x 16 ranks for each replica, a rank's gradients are 1/128 of the model. Its
#   ring has 128 ranks and not 16,384.
# - *Exchange less often.* Local SGD (lesson 04) takes several steps between two averages.
#
# <!-- word: DiLoCo | sentences: 3 -->
# **DiLoCo** is local SGD for groups of machines far apart. Each group takes hundreds of AdamW steps of its own. Then
# all groups average the changes of their weights. A second optimizer with momentum takes that average as its gradient.
#
# The next cell uses the cost model for the gradients of 8 billion parameters, in two bytes each, on 16,384 ranks. (The
# last line is another way to train. You would have to show that it learns as well.)

# %% tags=["computed-time"]
machine = cost.machine_spec("8x H100")
everybody = machine.network(16_384)
# a replica is 16 nodes, and the 128 ranks of one ring are each on a node of their own
apart = cost.Network.nodes(128, 1, intra=machine.intra, inter=machine.inter)
ways = {
    "a flat ring, every step": ("ring", 16e9, everybody, 1),
    "hierarchical, every step": ("hierarchical", 16e9, everybody, 1),
    "128 replicas of 8 x 16 ranks, rings of 128, every step": ("ring", 16e9 / 128, apart, 1),
    "hierarchical, every 500 steps": ("hierarchical", 16e9, everybody, 500),
}
for name, (way, size_bytes, network, steps) in ways.items():
    point = cost.all_reduce_point(way, size_bytes, network)
    print(f"{1e3 * point.time_s / steps:>7.2f} ms a step: {name}")

# %% [markdown]
# ## In production
#
# - *Published.* Llama 3's report says that more than 90 % of its time was effective training time, in spite of its
#   interruptions. Automation handled nearly all of them. The job "as it is" above would not have reached that.
# - *Asynchronous.* `torch.distributed.checkpoint.async_save(state_dict, checkpoint_id=...)` copies to host memory,
#   returns a future and writes in a thread, or in a process with `async_checkpointer_type`. PyTorch calls it
#   experimental. It needs a process group that also works on CPUs: `init_process_group("cpu:gloo,cuda:nccl")`. Wait for
#   the future before you begin the next checkpoint. And count the host memory: it holds a copy of all shards of a node.
# - *Noticed sooner.* `init_process_group(timeout=...)` sets the time-out. A time-out that is too short kills healthy
#   jobs: the first step may compile, and a checkpoint may wait for storage. A rank whose process is gone is noticed by
#   torchrun's agent within seconds; a rank that hangs is not.
# - *Restart less.* [torchft](https://github.com/meta-pytorch/torchft) keeps the other replicas training while one is
#   away. A replica that comes back gets its weights from another replica and not from a file. torchft has DiLoCo, too.
# - *Smaller.* Each rank writes its own shard (lesson 05). To publish a model, weights alone are enough; to resume, they
#   are not.
#
# ## What you can do now
#
# You can turn a rate of failures into hours, choose an interval between checkpoints and defend it. You can say how much
# of a job's time is left for training, and what would gain some back. And you can say which part of an all-reduce's
# time grows with the number of ranks.
#
# **The limit.** All of this was arithmetic. [Part 4](12d_take_it_along.ipynb) has what you take along to a cluster of
# your own.
#
# **Further reading.** [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783) (2024), section 3.3.4. Kokolis et
# al., [Revisiting Reliability in Large-Scale Machine Learning Research Clusters](https://arxiv.org/abs/2410.21680)
# (2024). Young (1974), two pages, and Daly, *A higher order estimate of the optimum checkpoint interval for restart
# dumps* (2006). Douillard et al., [DiLoCo](https://arxiv.org/abs/2311.08105) (2023).
