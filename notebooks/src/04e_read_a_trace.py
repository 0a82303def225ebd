# %% [markdown]
# # 04e · DistributedDataParallel: a job on two A100
#
# Somebody trained a model on two GPUs and recorded three steps. You have the recording, and nothing else. You find out
# which model it was, what it sent, and why its GPUs did so little.
#
# **2 × 45 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 5 of 6 · [1: one rule, sent in buckets](04a_distributed_data_parallel.ipynb) · [2: batches, and how much
# faster](04b_batches_and_scaling.ipynb) · [3: drift, checkpoints and the real thing](04c_drift_and_production.ipynb) ·
# [4: build your own](04d_build_ddp.ipynb) · [6: divide once](04f_divide_once.ipynb)
#
# This part builds on [04a: one rule, sent in buckets](04a_distributed_data_parallel.ipynb). Have you done it? `from
# course_lib import start; start("04e")` says whether you have.
#
# At the end you can
#
# - read the trace of a job: its steps, its kernels, its collectives and its host;
# - compute PyTorch's buckets from the sizes of a model, and find them in a trace;
# - measure how much of the communication is hidden, that is, goes on while the GPU computes;
# - say whether a GPU waits for another rank or for its own host;
# - record and read the trace of a job of yours.
#
# From [part 1](04a_distributed_data_parallel.ipynb) you need its rule, buckets, and what *exposed* communication is.

# %%
from course_lib import ask, check, hint, reveal, shared_cluster
from course_lib.cluster import folder_for_ranks
from course_lib.meter import Span
from course_lib.models import ResNet, SmallCNN
from course_lib.parallel.data import assign_buckets
from course_lib.plot import gantt
from course_lib.traces import table_rows, trace_report

from collections import Counter
from pathlib import Path
from statistics import median

import torch
from torch.nn.parallel import DistributedDataParallel as TorchDDP
from torch.profiler import profile, schedule

# %% [markdown]
# ## What is in the table
#
# A *trace* is what a profiler writes down while a job runs: what was done, on which device, when, and for how long. The
# trace of this part was recorded by `torch.profiler` on rank 0 of two, on an A100.
#
# (The course keeps it as a table, which leaves out the single operators of the host. It comes from the test data of
# [Holistic Trace Analysis](https://github.com/facebookresearch/HolisticTraceAnalysis), MIT licence, © Meta Platforms,
# Inc. and affiliates; `assets/traces/README.md` has the licence.)
#
# ![Three rows on one time axis: the host goes through forward, backward and optimizer; two streams of the GPU stand
# below, with a question mark each](../assets/04_rows.png)
#
# Here the *host* is the processor that runs the Python program. It computes little itself: it tells the GPU what to
# compute, and goes on.
#
# <!-- word: kernel | also: GPU kernel, CUDA kernel -->
# A **kernel** is a function that runs on a GPU. The host launches it (lesson 03b). That takes some of the host's own
# time, whether the kernel is large or small.
#
# <!-- word: stream | also: CUDA stream -->
# A **stream** is a queue of kernels: those of one stream run one after the other. Two streams may run at the same time.
# PyTorch computes on one stream, and NCCL communicates on another.

# %% tags=["computed-time"]
rows = table_rows("ddp_resnet_2xa100")
for place in (0, 2, 13, 14, 25, 400):
    where, lane, start_us, duration_us, name, *_ = rows[place]
    print(
        f"{where} {lane:<11} starts at {start_us:>9,.1f} us, takes {duration_us:>9,.1f} us: {name[:43].strip()}"
    )
print("rows:", dict(Counter(f"{row.where} {row.lane}" for row in rows)))


def inside(span, others):
    """Those of the others that start within the span."""
    return [row for row in others if span.start_us <= row.start_us < span.end_us]


# %% tags=["computed-time"]
steps = [row for row in rows if row.name.startswith("ProfilerStep")]
forwards = [row for row in rows if row.name == "## forward ##"]
kernels = [row for row in rows if row.lane == "7"]  # computing, and copies within the GPU
calls = [row for row in rows if row.collective]  # communication, on stream 40
sums = [call for call in calls if call.collective == "allreduce"]
print("steps take         ", [f"{step.duration_us / 1e3:.0f} ms" for step in steps])
print("their forwards take", [f"{forward.duration_us / 1e3:.0f} ms" for forward in forwards])
print(f"all-reduces of a step carry {sum(call.size_bytes for call in sums) / len(steps) / 2**20:.1f} MiB")

# %% [markdown]
# ## How the gradients travel
#
# The file's name says that the model is a ResNet, and that it is wrapped by PyTorch's DDP. The usual size of DDP's
# buckets is 25 MiB. **How many all-reduces does one step make?**

# %%
### BEGIN SOLUTION
### STUB ask("04.trace_calls")
ask("04.trace_calls").commit("4")  # "97.5 MiB in pieces of 25"
### END SOLUTION

# %%
for step in steps:
    print(step.name, *(f"{call.collective} {call.size_bytes:,}" for call in inside(step, calls)), sep="\n  ")
sent = [[call.size_bytes for call in inside(step, sums)] for step in steps]
reveal("04.trace_calls", sent)

# %% [markdown]
# The same sizes come in every step, and in the same order. None of them is a round number. The first is much smaller
# than the second, and the third and the fourth are nearly alike. Which rule makes such sizes?
#
# ### Build: PyTorch's rule
#
# From its second step on PyTorch fills its buckets in the order in which gradients come. In a model such as this one,
# that is from the last parameter to the first. A bucket ends with the parameter that brings it to its limit, so a
# bucket may be much larger than its limit. The first bucket has a small limit of its own, since it should leave soon.
#
# Write that rule for any list of sizes. A *place* is an index of this list: `[[5], [4, 3]]` says that the first bucket
# holds parameter 5 alone, and the second holds 4 and 3. The order within a bucket is up to you.


# %%
def buckets_of(sizes, first_limit, limit):
    """The buckets in the order in which they leave, each a list of places in ``sizes``.

    sizes: bytes of each parameter, from the first to the last of the model. It may be empty.
    A bucket is full when it has its limit or more: ``first_limit`` for the first, ``limit`` for the others.
    """
    ### BEGIN SOLUTION
    buckets, bucket, num_bytes, full = [], [], 0, first_limit
    for place in reversed(range(len(sizes))):
        bucket.append(place)
        num_bytes += sizes[place]
        if num_bytes >= full:
            buckets.append(bucket)
            bucket, num_bytes, full = [], 0, limit
    return [*buckets, bucket] if bucket else buckets
    ### END SOLUTION


# %%
buckets_verdict = check("04.trace_buckets", buckets_of)

# %%
# hint("04.trace_buckets")

# %% [markdown]
# ### Is it a ResNet-50?
#
# Now put it to the test. Below is the course's ResNet-50, on the device `meta`: it has shapes, and no memory. PyTorch's
# limits are 1 MiB for the first bucket and 25 MiB for the others. **Does your rule give the five sizes of the trace,
# and with which layers do the buckets end?** (Until your function has passed, the course's is used.)

# %%
with torch.device("meta"):
    model = ResNet.preset(50)
names = [name for name, _ in model.named_parameters()]
sizes = [parameter.nbytes for parameter in model.parameters()]
places = {parameter: place for place, parameter in enumerate(model.parameters())}
buckets = [[places[parameter] for parameter in one.parameters] for one in assign_buckets(model.parameters())]
if buckets_verdict.passed:
    buckets = buckets_of(sizes, 2**20, 25 * 2**20)
print(f"{len(sizes)} tensors of {sum(sizes):,} bytes; in the trace {sum(sent[0]):,}")
for bucket, in_trace in zip(buckets, sent[0], strict=True):
    by_rule = sum(sizes[place] for place in bucket)
    ends = f"{names[max(bucket)]} to {names[min(bucket)]}"
    print(f"{by_rule:,} by the rule, {in_trace:,} in the trace: {len(bucket)} tensors, {ends}")

# %% [markdown]
# `stem` is the first convolution, `blocks` are numbered from the front, `head` is the classifier. The first bucket is
# the whole classifier: its bias is too small to fill a bucket, and its weight is far more than a mebibyte.
#
# All sizes agree to the byte. No row of the trace names a layer, and yet it tells you the model, the order of its
# layers and DDP's rule.
#
# ## What else is sent
#
# Two broadcasts stand before the all-reduces of each step, a short one and a very short one. They come in the forward
# pass. **What does rank 0 send there?**

# %%
### BEGIN SOLUTION
### STUB ask("04.trace_sent")
ask("04.trace_sent").commit("rank 0's weights")  # "so that all ranks begin alike"
### END SOLUTION

# %% [markdown]
# Here are all tensors of the model, counted by the last part of their names. Which kinds have, in sum, as many bytes as
# a broadcast?

# %%
by_kind, how_many = Counter(), Counter()
for name, tensor in model.state_dict().items():
    kind = name.rpartition(".")[2]
    by_kind[kind] += tensor.nbytes
    how_many[kind] += 1
print(*(f"{how_many[kind]:>3} {kind}, {by_kind[kind]:,} bytes" for kind in by_kind), sep="\n")

# %%
broadcasts = [call for call in inside(steps[0], calls) if call.collective == "broadcast"]
reveal("04.trace_sent", [call.size_bytes for call in broadcasts], by_kind)

# %% [markdown]
# So the ranks go into each forward pass with equal buffers (tensors of the model that no gradient changes). During
# training BatchNorm does not use the running values; they are for evaluation and for the checkpoint.
# `DistributedDataParallel(model, broadcast_buffers=False)` sends none of them: then each rank keeps its own buffers,
# and you save those of one rank.
#
# A link between two GPUs needs hardly any time for so few bytes. **How long is it from the start of the forward pass to
# the kernel of the first convolution?** You have seen above how long a whole forward pass takes.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ask("04.trace_first")
ask("04.trace_first").commit(0.2)  # "two short messages"
### END SOLUTION

# %% tags=["computed-time"]
waits_ms, num_copies = [], []
for forward in forwards:
    own = inside(forward, kernels)
    first = next(row for row in own if "cudnn" in row.name)  # the library whose kernels are convolutions
    waits_ms.append((first.start_us - forward.start_us) / 1e3)
    num_copies.append(sum(row.name.startswith("Memcpy DtoD") for row in own if row.start_us < first.start_us))
print("first convolution after", [f"{wait_ms:.1f} ms" for wait_ms in waits_ms])
print("copies within the GPU before it:", num_copies)
reveal("04.trace_first", median(waits_ms), num_copies[0], sum(call.duration_us for call in broadcasts))

# %% [markdown]
# Compare the number of copies with the numbers of tensors that you have printed above. A message costs more than its
# own row: look at the rows around it, too. (`Memcpy DtoD` is the profiler's name of a copy from device to device, here
# within one GPU.)
#
# ## How much is hidden
#
# A bucket leaves while backward goes on, so that its all-reduce hides under computing. In the trace all five begin
# during backward. **During which share of the communication's time does the GPU also compute, in per cent?**

# %%
### BEGIN SOLUTION
### STUB ask("04.trace_hidden")
ask("04.trace_hidden").commit(90)  # "all but the last bucket"
### END SOLUTION

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above this
# one. In the second sitting you compute for how long two lists of spans overlap, and find out why the GPUs did so
# little.

# %% [markdown]
# ### Build: what two lists have in common
#
# You are given two lists of spans, `(start, duration)`: communication and computing. For how long do both go on at the
# same time? Kernels are short, and there are thousands. Spans may come in any order, and overlap others of their own
# list.


# %%
def overlap_us(communication, computing):
    """Time in which a span of one list and a span of the other go on at once; each moment counts once.

    Both are lists of (start, duration), in microseconds, in any order. Spans of one list may overlap, touch,
    lie inside one another, come twice, or have no duration. Nothing in common: 0.0.
    """
    ### BEGIN SOLUTION
    edges = []
    for which, spans in enumerate((communication, computing)):
        for start, duration in spans:
            edges += [(start, which, 1), (start + duration, which, -1)]
    num_open, total, before = [0, 0], 0.0, 0.0
    for moment, which, change in sorted(edges):
        if num_open[0] and num_open[1]:
            total += moment - before
        num_open[which] += change
        before = moment
    return total
    ### END SOLUTION


# %%
overlap_verdict = check("04.trace_overlap", overlap_us)

# %%
# hint("04.trace_overlap")

# %% [markdown]
# Now use your function on the trace, beside what the course's `trace_report` counts:

# %% tags=["computed-time"]
report = trace_report("ddp_resnet_2xa100")
time = report.devices[0].time
spans = [[(row.start_us, row.duration_us) for row in these] for these in (calls, kernels)]
hidden_us = overlap_us(*spans) if overlap_verdict.passed else time.hidden_us
by = "your function" if overlap_verdict.passed else "the course's function"
print(f"by {by} {hidden_us / 1e3:.2f} ms; by trace_report {time.hidden_us / 1e3:.2f} ms")
print(f"all communication: {time.communication_us / 1e3:.1f} ms in {len(steps)} steps")
reveal("04.trace_hidden", hidden_us, time.communication_us, len(steps))

# %% [markdown]
# See it for yourself: the second all-reduce of the first step, and the kernels around it. How much of the upper row is
# empty while the lower one is full?


# %% tags=["computed-time"]
def span_of(row):
    kind = "collective" if row.collective else "compute"
    return Span(0, row.collective or "kernel", kind, row.start_us / 1e6, row.end_us / 1e6)


one = sums[1]
near = [row for row in (*kernels, one) if one.start_us - 500 < row.start_us < one.end_us + 500]
gantt(map(span_of, near), names={0: "rank 0"}, title="One all-reduce, and the kernels above it")

# %% [markdown]
# One more thing about these times. Does an all-reduce of more bytes take longer? Look down the columns, and along the
# rows.

# %%
print("MB sent      ", *(f"{size / 1e6:>7.1f}" for size in sent[0]))
for step in steps:
    print(f"{step.name[8:]}: ms   ", *(f"{call.duration_us / 1e3:>7.1f}" for call in inside(step, sums)))

# %% [markdown]
# The time does not grow with the bytes: the first has a quarter of the bytes of the second, and takes about as long.
# And the time of an all-reduce of one size differs from step to step. NCCL's kernel begins on this rank when this rank
# has its bucket. It ends when *both* ranks have exchanged theirs. The rank that comes first waits inside the kernel,
# and the table counts its waiting as communication. So these times are no measure of the link, and a trace of one rank
# does not show which part is waiting. With the traces of both ranks `trace_report` can show it.
#
# ## Why a step takes so long
#
# Communication hides only while something is computed. **For how many milliseconds of a step does the GPU compute?**

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ask("04.trace_busy")
ask("04.trace_busy").commit(180)  # "an A100 is not idle"
### END SOLUTION

# %% tags=["computed-time"]
reveal("04.trace_busy", time.computing_us, len(steps), time.step_us)

# %% [markdown]
# **So what does the GPU wait for?** There are four suspects. Think what each of them would leave in the table: which
# rows, and where.

# %%
### BEGIN SOLUTION
### STUB ask("04.trace_host")
ask("04.trace_host").commit("the other rank")  # "communication is the usual suspect"
### END SOLUTION

# %% [markdown]
# There are two pieces of evidence. The first is how long the GPU takes for each kernel, and how long the host takes.
# The second is how long the host itself waits for the GPU.

# %% tags=["computed-time"]
for phase in ("forward", "backward", "optimizer"):
    span = next(row for row in rows if row.name == f"## {phase} ##")
    own = inside(span, kernels)
    gpu_us, host_us = sum(row.duration_us for row in own) / len(own), span.duration_us / len(own)
    print(f"{phase}: {len(own)} kernels; for each the GPU takes {gpu_us:.0f} us, the host {host_us:,.0f} us")
*waits, last = (row for row in rows if "ynchronize" in row.name)
waits_us = sum(row.duration_us for row in waits)
print(f"in the steps the host waits for the GPU {len(waits)} times, {waits_us:.0f} us in all;")
print(f"after the last step once more, for all that is left: {last.duration_us} us")
reveal("04.trace_host", time.idle_us, waits_us, last.duration_us)

# %% [markdown]
# Here is what `trace_report` says of the whole trace. Communication counts as *exposed* while no kernel runs beside it.

# %% tags=["computed-time"]
print(report)

# %% [markdown]
# For each kernel the host spends time on Python, PyTorch's bookkeeping and the launch. That is several times as long as
# the GPU needs for the kernel. While an all-reduce runs this stays the same: kernels begin one by one, with gaps, as
# the picture above shows.
#
# The profiler works on the host too, at every call. This table does not say how much of the gaps the profiler makes. To
# find out, time a few steps without it.
#
# Here is what would help, and what each change would do to the rows of the trace:
#
# | change | in the table |
# |---|---|
# | a larger batch | the same number of rows, each longer: the host launches as often, for more images |
# | `torch.compile` | fewer rows: several small kernels become one |
# | CUDA graphs | the same rows with smaller gaps: one launch starts many kernels that were recorded before |
# | `broadcast_buffers=False` | no broadcasts, and no copies before the first convolution |
# | `gradient_as_bucket_view=True` | no copies out of the buckets at the end of backward |
# | a faster link | at best shorter rows on stream 40, and the same gaps on stream 7 |
#
# You can check two of these changes in the trace. You have seen the copies before the first convolution. **How many
# copies come at the end of backward, after the last all-reduce has begun? How long do they take, and over how many
# milliseconds do they stretch?** Write code that answers this for the first step. `inside(steps[0], sums)` are its
# all-reduces, and `inside(steps[0], kernels)` what is on stream 7, copies too.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ...  # the copies' names begin with "Memcpy DtoD"
last = inside(steps[0], sums)[-1]
late = [row for row in inside(steps[0], kernels) if row.start_us > last.start_us and "DtoD" in row.name]
stretch_ms = (late[-1].end_us - late[0].start_us) / 1e3
print(f"{len(late)} copies take {sum(row.duration_us for row in late) / 1e3:.1f} ms, in {stretch_ms:.1f} ms")
### END SOLUTION

# %% [markdown]
# Compare the number of copies with the number of parameters: there is a copy for each, from its bucket back to its
# `.grad`. Compare also the time of the copies with their stretch: between them the GPU waits for the host, once more.
# [Part 3](04c_drift_and_production.ipynb) has shown the setting that makes these copies unnecessary.
#
# ## A trace of your own ranks
#
# Here two ranks train a small CNN by PyTorch's DDP over gloo. Two steps warm up, three are recorded, and each rank
# writes a file. These lines work in a job on GPUs without a change.


# %%
def record(me, folder):
    torch.manual_seed(0)
    ddp = TorchDDP(SmallCNN().to(me.device))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    images = torch.randn(64, 1, 8, 8, device=me.device)

    def save(profiler):
        profiler.export_chrome_trace(f"{folder}/rank{me.rank}.json")

    plan = schedule(wait=0, warmup=2, active=3)
    with profile(schedule=plan, on_trace_ready=save, record_shapes=True) as profiler:
        for _ in range(5):
            optimizer.zero_grad()
            ddp(images).square().mean().backward()
            optimizer.step()
            profiler.step()


# %% tags=["nbval-ignore-output"]
two = shared_cluster(2)
with folder_for_ranks(two) as folder:
    two.call(record, (folder,), show=False)  # the profiler's own lines are not shown
    files = sorted(Path(folder).iterdir())
    own_report = trace_report(*files)
print(own_report)

# %% [markdown]
# **What does this report say that the one of the A100 could not, and what can it not say?** Compare both before you
# read on: the ranks, the devices, the last lines.
#
# This report has the traces of both ranks. So it says which rank waited for which, and how long.
#
# Ranks without a GPU have no kernels. Computing is then what operators do on the host, so nothing waits for a launch.
# Gloo's threads share the host's cores: communication that hides may slow down the computing that hides it. Bytes and
# numbers of calls are those that a cluster would have. Times are those of your own ranks.
#
# For a job of yours, `./course trace rank0.json rank1.json` prints the same report. Give it the files of all ranks.
#
# ## What you can do now
#
# You can open a stranger's trace and say which model ran, what DDP sent and when, and how much of it was hidden. You
# can say whether a GPU waits for another rank or for its own host.
#
# **The limit.** Without DDP, too, the GPU of this job would mostly wait for its host. To make a step shorter, the host
# has to launch less, or the GPU has to be given more for each launch. [Lesson 11](11b_how_long.ipynb) has a model for
# what a step should take.
#
# **Further reading.** [Holistic Trace Analysis](https://hta.readthedocs.io) reads traces of many ranks. [PyTorch's
# profiler recipe](https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html) lists its options.
