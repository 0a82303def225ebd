# %% [markdown]
# # 11c · Choosing: six sick runs
#
# Six training runs are slow. You find out why from their timelines and numbers, and change one setting of each. Your
# score is the time that the change gains.
#
# **65 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 3 of 5 · [1: does it fit?](11a_does_it_fit.ipynb) · [2: how long does it take?](11b_how_long.ipynb) · [4: runs
# of others, and when not to](11d_runs_of_others.ipynb) · [5: build a planner](11e_build_planner.ipynb)
#
# This part builds on [04a: one rule, sent in buckets](04a_distributed_data_parallel.ipynb), [07a: micro-batches, GPipe
# and 1F1B](07a_pipeline_parallel.ipynb), [08a: one product, cut](08a_tensor_parallel.ipynb) and [09a: places and
# links](09a_meshes.ipynb). Have you done them? `from course_lib import start; start("11c")` says whether you have.
#
# At the end you can
#
# - read a timeline of many ranks, and distinguish hidden communication from communication that ranks wait for;
# - look for the fault in four steps: useful arithmetic, memory, who waits for whom, bytes by link;
# - say which numbers look good although a run is slow.
#
# You need bubbles ([lesson 07](07a_pipeline_parallel.ipynb)), the sums of tensor parallelism
# ([08a](08a_tensor_parallel.ipynb)), places and links ([09a](09a_meshes.ipynb)), and the buckets of
# [04a](04a_distributed_data_parallel.ipynb).

# %%
from course_lib import ask, check, hint, reveal, shared_cluster
from course_lib.learn import sick_runs
from course_lib.plot import gantt

from itertools import pairwise

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4, links=sick_runs.LINKS)  # two nodes of two ranks, on the CPU
sick = sick_runs.SickRuns(four)
inside, across = sick_runs.LINKS.default, sick_runs.LINKS.across
for name, link in (("within a node", inside), ("between nodes", across)):
    print(f"{name}: {1e3 * link.latency_s:.1f} ms and {link.bandwidth_bytes_per_s / 1e6:.0f} MB/s")

# %% [markdown]
# ## A run in good health
#
# All runs of this part train one model with eight equal layers, on 16 rows in a step. There are four ranks on two
# nodes: 0 and 1 on one, 2 and 3 on the other. The ranks of a node share its one link to the other node, which is slower
# than the links inside. Ranks and messages are real, and so are the tensors that are kept. Links are *shaped*.
# Computing and reading are *paced*: they are timed waits, since a few cores cannot do the work of four devices. A MiB
# here stands for a GiB in a real job.
#
# ![How to read a timeline. Two ranks, each with a bar of computing above a bar of communication, on one time axis;
# marks say which part of the communication is hidden or exposed, when a rank is idle, and when bytes
# travel](../assets/11_timeline.png)
#
# The first run is data parallel, with a quarter of the rows on each rank. Gradients are averaged in four equal buckets,
# each as soon as the backward of its two layers is done. The link carries all four buckets in less time than the
# backward takes. Still a part of the all-reduces is *exposed*: no computing runs at the same time.

# %% tags=["nbval-ignore-output"]
healthy = sick.evidence("0")
gantt(healthy.timeline(), title="Run 0: computing above, communication below")

# %% [markdown]
# The picture shows the quickest of a few steps. `R` is an all-reduce (the legend calls it `collective`), `S` is the
# optimizer's step. How much of the all-reduces is exposed? You can measure two overlapping bars by eye; for a thousand
# bars you need a tool. You write its central function.
#
# ### Build: exposed time
#
# ![A time axis. Above it bars of computing, below it bars of communication; some overlap, one lies inside another, two
# touch](../assets/11_spans.png)


# %%
def exposed_s(spans):
    """Seconds in which a rank communicates and does not compute.

    spans: a list of (begin_s, end_s, kind), in any order. Kinds are "compute", "communication", and
    others, such as "data", which count as neither. Spans of one kind may overlap, touch, lie inside
    one another, come twice, or have no length. An instant counts once, however many messages are on
    their way. Without spans: 0.0.
    """
    ### BEGIN SOLUTION
    edges = sorted({edge for begin_s, end_s, _ in spans for edge in (begin_s, end_s)})
    total_s = 0.0
    for left_s, right_s in pairwise(edges):  # between two edges nothing changes
        kinds = {kind for begin_s, end_s, kind in spans if begin_s <= left_s and right_s <= end_s}
        if "communication" in kinds and "compute" not in kinds:
            total_s += right_s - left_s
    return total_s
    ### END SOLUTION


# %%
exposed_verdict = check("11.exposed", exposed_s)

# %%
# hint("11.exposed")

# %% [markdown]
# The next cell measures the four all-reduces of rank 0, each by itself and then all together. It uses your function.
# (Until your function has passed, the course's own stands in.)

# %% tags=["nbval-ignore-output"]
exposed = exposed_s if exposed_verdict.passed else sick_runs.exposed_s
spans = healthy.spans_of(0)
computing = [span for span in spans if span[2] == "compute"]
sums = [span for span in spans if span[2] == "communication"]
for number, span in enumerate(sums, 1):
    alone_ms, open_ms = 1e3 * exposed([*computing, span]), 1e3 * (span[1] - span[0])
    print(f"all-reduce {number}: {open_ms:4.1f} ms, exposed {alone_ms:4.1f} ms")
sums_ms, exposed_ms = 1e3 * sum(end_s - begin_s for begin_s, end_s, _ in sums), 1e3 * exposed(spans)
print(f"all four: {sums_ms:.1f} ms, exposed {exposed_ms:.1f} ms, {exposed_ms / sums_ms:.0%} of it")

# %% [markdown]
# A bucket is sent when the backward of its layers is done. The last bucket is sent when all of the backward is done, so
# no computing is left to hide it. With smaller buckets the last one is smaller. But the latency of many small messages
# costs more at some point.
#
# ## The order of four looks
#
# A slow run shows a hundred numbers. Four looks, in this order, leave few possible causes:
#
# ![Four boxes in a row: useful arithmetic, memory, who waits for whom, bytes by link; below each what it is compared
# with](../assets/11_looks.png)
#
# 1. **Useful arithmetic.** What share of the step would the model's own arithmetic take, at the devices' full speed?
#    That is MFU. It says how much time can be gained. Compare it with the share of the step in which ranks compute. If
#    that share is much larger, ranks compute something that is not needed, or compute slowly.
# 2. **Memory.** Is it full? Is it equally full on all ranks? Free memory can be used to save time.
# 3. **Who waits for whom.** Do not ask only how long a rank waits. Ask at which bar of the timeline it waits, and for
#    which rank. On the rank that waits, waiting looks like communication.
# 4. **Bytes by link.** How many bytes are sent within a node, and how many leave it? And how long does that take at the
#    link's speed?
#
# Here are the four for the healthy run:

# %% tags=["nbval-ignore-output"]
healthy

# %% [markdown]
# `computes`, `talks only` (exposed communication), `reads` and `idle` are shares of the step. Bytes are what a rank
# sends in one step, to the other rank of its node and to the other node. An all-reduce goes round a ring. So ranks 0
# and 2 send to the other rank of their node, and ranks 1 and 3 send to the other node. Look at this table for a minute:
# you will compare all other runs with it. Even in a healthy run `useful` is less than `computes`. Each layer has a
# fixed cost besides that of its rows, the optimizer's step takes time, and on a busy machine timed waits end late.
#
# ## The runs
#
# Each run has one fault. Not all are cut like run 0. A sum after every layer belongs to tensor parallelism, and `recv`
# (`←` where a bar is narrow) waits for another stage of a pipeline. The eight possible answers are the same for every
# run, and one answer may be right for several runs. First bet from the evidence, then read the answer, then mend the
# run. `sick.change("A")` shows six settings with their values. `sick.change("A", buckets=8)`, for example, repeats the
# run with that *one* change. The score is your gain, in per cent of the gain of the best single change. The last change
# counts.
#
# ### Run A

# %% tags=["nbval-ignore-output"]
a = sick.evidence("A")
print(a)
gantt(a.timeline(), title="Run A")

# %% [markdown]
# **What is wrong with run A?**

# %%
### BEGIN SOLUTION
### STUB ask("11.run_a")
ask("11.run_a").commit("batches are not read fast enough")
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("11.run_a", a)

# %% tags=["nbval-ignore-output"]
### BEGIN SOLUTION
### STUB sick.change("A")  # shows what can be set; your turn: one setting
print(sick.change("A"))
sick.change("A", readers=2)
### END SOLUTION

# %% [markdown]
# ### Run B

# %% tags=["nbval-ignore-output"]
b = sick.evidence("B")
print(b)
gantt(b.timeline(), title="Run B")

# %% [markdown]
# **What is wrong with run B?**

# %%
### BEGIN SOLUTION
### STUB ask("11.run_b")
ask("11.run_b").commit("the layers are cut unevenly")  # "the first ranks hold more"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("11.run_b", b)

# %% tags=["nbval-ignore-output"]
### BEGIN SOLUTION
### STUB sick.change("B")  # your turn: one setting
sick.change("B", micro_batches=8)
### END SOLUTION

# %% [markdown]
# ### Run C

# %% tags=["nbval-ignore-output"]
c = sick.evidence("C")
print(c)
gantt(c.timeline(), title="Run C")

# %% [markdown]
# **What is wrong with run C?**

# %%
### BEGIN SOLUTION
### STUB ask("11.run_c")
# "they all compute, and then there is an all-reduce"
ask("11.run_c").commit("gradients are averaged when there is nothing left to hide behind")
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("11.run_c", c)

# %% tags=["nbval-ignore-output"]
### BEGIN SOLUTION
### STUB sick.change("C")  # your turn: one setting
sick.change("C", recompute="none")
### END SOLUTION

# %% [markdown]
# ### Run D

# %% tags=["nbval-ignore-output"]
d = sick.evidence("D")
print(d)
gantt(d.timeline(), title="Run D")

# %% [markdown]
# **What is wrong with run D?**

# %%
### BEGIN SOLUTION
### STUB ask("11.run_d")
ask("11.run_d").commit("tensor parallelism goes from node to node")
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("11.run_d", d)

# %% tags=["nbval-ignore-output"]
### BEGIN SOLUTION
### STUB sick.change("D")  # your turn: one setting
sick.change("D", mesh="dp_replicate=2 tp=2")
### END SOLUTION

# %% [markdown]
# ### Run E

# %% tags=["nbval-ignore-output"]
e = sick.evidence("E")
print(e)
gantt(e.timeline(), title="Run E")

# %% [markdown]
# **What is wrong with run E?**

# %%
### BEGIN SOLUTION
### STUB ask("11.run_e")
ask("11.run_e").commit("gradients are averaged when there is nothing left to hide behind")
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("11.run_e", e)

# %% tags=["nbval-ignore-output"]
### BEGIN SOLUTION
### STUB sick.change("E")  # your turn: one setting
sick.change("E", buckets=2)  # "one more will do"
### END SOLUTION

# %% [markdown]
# ### Run F

# %% tags=["nbval-ignore-output"]
f = sick.evidence("F")
print(f)
gantt(f.timeline(), title="Run F")

# %% [markdown]
# **What is wrong with run F?**

# %%
### BEGIN SOLUTION
### STUB ask("11.run_f")
ask("11.run_f").commit("too few micro-batches for the stages")  # "stages, and much waiting"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("11.run_f", f)

# %% tags=["nbval-ignore-output"]
### BEGIN SOLUTION
### STUB sick.change("F")  # your turn: one setting
sick.change("F", spare_for=2)
### END SOLUTION

# %% tags=["nbval-ignore-output"]
print(sick.scores())

# %% [markdown]
# ## One number is not enough
#
# The next table has all six runs. It shows the largest share of computing on any rank, the largest share of exposed
# communication on any rank, and the share of useful arithmetic.

# %% tags=["nbval-ignore-output"]
print("run      step   computes, at most   talks only, at most   useful")
for run in (healthy, a, b, c, d, e, f):
    shares = [run.shares(rank) for rank in range(4)]
    most = [max(share[column] for share in shares) for column in (0, 1)]
    time = f"{run.name:<5}{1e3 * run.step_s:>5.0f} ms"
    print(time + f"{most[0]:>20.0%}{most[1]:>22.0%}{run.useful_share:>9.0%}")

# %% [markdown]
# Look down a column. Ranks that compute nearly all of the time may do work that is not needed, or do it slowly. The
# same share of exposed communication may come from a link, from a schedule, or from another rank. Useful arithmetic
# shows that something is wrong, and the other three looks show what it is.
#
# <!-- word: utilisation | also: GPU utilisation, GPU utilization -->
# **Utilisation**, as `nvidia-smi` shows it for a GPU, is the share of time in which some kernel was running, whatever
# it did. A kernel of NCCL that waits for another rank counts as running. So a job in which three ranks wait for a
# fourth can show 100 % on all of them.
#
# ## In production
#
# <!-- word: trace | sentences: 2 -->
# A **trace** records what a program does as spans, each with begin and end. Tools such as Perfetto draw it as a
# timeline. In your own job you get the same evidence from:
#
# | look | from |
# | --- | --- |
# | useful arithmetic | the step's time and the model's FLOPs; most training codes log MFU or TFLOP/s |
# | memory by rank | `torch.cuda.max_memory_allocated()`, and the snapshots of PyTorch's memory history |
# | timeline | traces of `torch.profiler`, of a few ranks for a few steps |
# | computing, exposed, idle | Holistic Trace Analysis; its *overlap* is the share of communication that is hidden |
# | who waits for whom | the begin of each collective, by rank: the rank that begins last waits least |
# | bytes by link | counters: NVLink's by NVIDIA's DCGM, an InfiniBand card's by Linux (`port_xmit_data`) |
#
# Two habits save time. Record a run while it is healthy, so that you can compare later. And time one layer on every
# rank before a long job: this finds a slow rank in a minute.
#
# ## What you can do now
#
# You have written the function that measures exposed communication. You have found six faults from evidence, or learned
# from a wrong bet, and seen how much one setting gains. You know that waiting looks like communication, and that busy
# ranks may do work that is not needed.
#
# **The limit.** These runs were made for this course, and each had one fault. [Part 4](11d_runs_of_others.ipynb) looks
# at runs of others on thousands of GPUs. Would the planner have predicted them, and was it right to use so many GPUs?
#
# **Further reading.** Jiang et al., [MegaScale](https://arxiv.org/abs/2402.15627) (2024), on finding what slows ten
# thousand GPUs, with timelines of many ranks. Llama Team, [The Llama 3 Herd of
# Models](https://arxiv.org/abs/2407.21783) (2024), section 3.3.4, on a job of 16,384 GPUs and what stopped it.
# PyTorch's [Holistic Trace Analysis](https://hta.readthedocs.io).
