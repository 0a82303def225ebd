# %% [markdown]
# # 01b · One device: where the time goes
#
# You find out which part of a step takes each millisecond, and which layer does each multiplication. In between, you
# let a device wait for its data, feed it, and count the cores that this takes.
#
# **45 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 2 of 3 · [1: where the memory goes](01a_one_device.ipynb) · [3: doing with less memory](01c_less_memory.ipynb)
#
# This part builds on [01a: where the memory goes](01a_one_device.ipynb). Have you done it? `from course_lib import
# start; start("01b")` says whether you have.
#
# At the end you can
#
# - say which part of a step takes how long, and see on a timeline that a device waits for its data;
# - choose workers for a data loader, and say what each of its settings is for and what it costs;
# - count the arithmetic of a step, and say what share of your machine's speed it uses.
#
# From part 1 you need the training loop: clear the gradients, forward, backward, step.

# %%
from course_lib import ask, calibrate, cost, machine, reveal
from course_lib.data import PacedReads, digits, documentation_windows, generated_images, loader
from course_lib.meter import TimedReads, Timeline, bytes_text, compare, measure
from course_lib.models import SmallCNN, Transformer, TransformerConfig, next_token_loss, parameter_count
from course_lib.plot import gantt

import time

import torch
import torch.nn.functional as F

device = machine().device_for(0)  # the first GPU where there is one, else the CPU

# %%
torch.manual_seed(0)
train, _ = digits()
model = SmallCNN().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

# %% [markdown]
# ## The four parts of a step
#
# A step has four parts: fetch the batch, forward, backward, and the optimizer's step.
#
# **How many times as long as the forward pass does the backward pass take?**

# %%
### BEGIN SOLUTION
### STUB ask("01.backward")
ask("01.backward").commit(1)  # "it is forward, run backward"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
for _ in range(2):  # the first round warms up and is not kept
    timeline = Timeline(device=device)
    for x_i, y_i in timeline.iterate(loader(train, 256)):
        with timeline.span("forward"):
            loss = F.cross_entropy(model(x_i.to(device)), y_i.to(device))
        with timeline.span("backward"):
            loss.backward()
        with timeline.span("step"):
            optimizer.step()
            optimizer.zero_grad()
print(timeline)

# %% tags=["nbval-ignore-output"]
gantt(timeline, title="One epoch, batches of 256")

# %% tags=["nbval-ignore-output"]
reveal("01.backward", timeline)

# %% [markdown]
# ## When the device waits for its data
#
# The digits lie in memory, so fetching a batch (`data` in the table) took little time. Photographs lie in files: a
# program has to read them, decode them, and cut them to size. Here `generated_images` stands in for that: an image is
# *computed* when it is asked for, which keeps a core busy as decoding does. (No disk takes part yet.)
#
# On a CPU, reading and computing share the cores. With a GPU they do not. So that you see the second case on any
# machine, the device of this section is *paced*. In place of computing, the notebook sleeps as long as a device would
# compute, and uses no core. Let the device take half as long for a batch as this machine takes to read one.

# %% tags=["nbval-ignore-output"]
num_threads = torch.get_num_threads()
torch.set_num_threads(1)  # the notebook reads on one core, as a worker does
images = generated_images(1024, 128, channels=1)  # of 128 by 128 grey pixels
begun_s = time.perf_counter()
num_batches = sum(1 for _ in loader(images, 32))
read_s = (time.perf_counter() - begun_s) / num_batches
print(f"{num_batches} batches, {1e3 * read_s:.0f} ms to read each")


def epoch(batches, compute_s=read_s / 2):
    """Go through all batches on the paced device; who did what when."""
    timeline = Timeline()
    for _ in timeline.iterate(batches, "wait", kind="wait"):
        with timeline.span("compute"):
            time.sleep(compute_s)
    return timeline


# %% [markdown]
# We take the quickest of three runs: other work on the machine can only add to the time.

# %% tags=["nbval-ignore-output"]
hungry = min((epoch(loader(images, 32)) for _ in range(3)), key=lambda run: run.wall_s)
print(hungry)

# %% tags=["nbval-ignore-output"]
gantt(hungry, title="One process reads, and waits while its device computes", names={0: "notebook"})

# %% [markdown]
# <!-- word: input-bound | also: data starvation, data-loading bottleneck -->
# A training run is **input-bound** when its device waits for data, however fast it computes. Here one process does one
# thing after the other: it reads a batch, has the device compute on it, and reads the next.
#
# <!-- word: worker | also: data-loading worker -->
# A data loader can have **workers**, processes that prepare the next batches meanwhile. In the course's loader you
# write `loader(images, 32, workers=1)`. It calls PyTorch's own `DataLoader`, in which you write `num_workers=1`.
#
# **Take the two medians in the table above. With one worker, how many per cent of the time above does an epoch take?**

# %%
### BEGIN SOLUTION
### STUB ask("01.fed")
ask("01.fed").commit(50)  # "two processes, half the time"
### END SOLUTION

# %% [markdown]
# `TimedReads` is a class of the course: a data set that hands on the items of another data set. It notes who read them,
# when, and for how many seconds of a core.

# %% tags=["nbval-ignore-output"]
runs = []
for _ in range(3):
    reads = TimedReads(images)
    runs.append((epoch(loader(reads, 32, workers=1)), reads.spans()))
fed, reading = min(runs, key=lambda run: run[0].wall_s)

names = {0: "notebook", 1: "worker 1"}
gantt(Timeline.join([fed, reading]), title="A worker reads ahead", names=names)

# %% tags=["nbval-ignore-output"]
reveal("01.fed", hungry, fed)

# %% [markdown]
# ### What it took
#
# ![From left to right: files, two workers that read and decode, a queue of ready batches, pinned memory, and the
# device. Below stand the settings of PyTorch's data loader: num_workers and persistent_workers at the workers,
# prefetch_factor at the queue, pin_memory and non_blocking at the last two.](../assets/01_loader.png)
#
# Workers are not free: they take cores. The cell reads two epochs with each setting. For each setting it prints how
# long the two epochs took, and for how much of this time the notebook waited. It also prints how long the very first
# batch of the second epoch took. The last column is the core-seconds that the reading took.


# %%
def fed_by(epochs=2, **settings):
    """Time, share of waiting, wait for the second epoch's first batch, and core-seconds of reading."""
    reads = TimedReads(images)
    batches = loader(reads, 32, **settings)
    wall_s = wait_s = cpu_s = 0.0
    for _ in range(epochs):
        timeline = epoch(batches)
        wall_s, wait_s = wall_s + timeline.wall_s, wait_s + timeline.time_s("wait")
        cpu_s += reads.cpu_s
    first_s = timeline.spans[0].time_s
    return f"{wall_s:6.2f} s {wait_s / wall_s:8.0%} {1e3 * first_s:12.0f} ms {cpu_s:10.2f} s"


# %% tags=["nbval-ignore-output"]
settings = {
    "no worker": {},
    "1 worker": {"workers": 1},
    "1 worker, kept": {"workers": 1, "keep_workers": True},
    "2 workers, kept": {"workers": 2, "keep_workers": True},
}
print(f"{'':<16} {'time':>8} {'waiting':>8} {'first batch':>15} {'core-seconds':>12}")
for name, chosen in settings.items():
    print(f"{name:<16} {fed_by(**chosen)}")

# %% [markdown]
# Read the table in three steps.
#
# - *One worker against none.* The first column shows the seconds that a worker saves. The last column shows what this
#   costs. A worker makes no read cheaper. It reads while the device computes, on a core of its own. It also has to
#   start, and to hand each batch over.
# - *Kept or not.* Without `keep_workers` (`persistent_workers` in PyTorch) the workers end with the epoch, and the next
#   epoch begins with new processes and an empty queue. Keeping them matters most where a process starts slowly, as on
#   macOS and Windows, and where a worker opens large files first.
# - *A second worker.* Does it help here? How many would keep up with this device? Their number is the time of reading
#   over the time of computing, if there are so many cores:

# %% tags=["nbval-ignore-output"]
computes = [span.time_s for span in hungry.spans if span.name == "compute"]
waits = [span.time_s for span in hungry.spans if span.name == "wait"]
print(f"reading takes {sum(waits) / sum(computes):.1f} times as long as computing")
print(f"cores of this machine: {machine().cores}")

# %% [markdown]
# By that rule, a device that computes ten times as fast needs ten times the workers, and a core for each of them. Where
# there are not so many cores, people store smaller images, decode them on the GPU, or keep prepared batches.
#
# And with real arithmetic? On a CPU the device *is* the cores, and a core that reads does not compute. Here are the
# same images and a small CNN, with one core for its arithmetic (on a GPU: the GPU), without and with a worker:


# %% tags=["nbval-ignore-output"]
def learn_from(batches):
    for x, y in batches:
        x = F.avg_pool2d(x.to(device), 4)  # 32 by 32 pixels
        F.cross_entropy(small(x), y.to(device)).backward()
        small.zero_grad()


small = SmallCNN(width=8).to(device)
alone, helped = loader(images, 32), loader(images, 32, workers=1, keep_workers=True)
ways = (lambda: learn_from(alone), lambda: learn_from(helped))
print(compare(*ways, names=("no worker", "1 worker, kept"), rounds=5, warmup=1, device=device))
torch.set_num_threads(num_threads)  # all cores compute again

# %% [markdown]
# ### Reading ahead, and pinned memory
#
# <!-- word: prefetch factor -->
# Two settings are left. The **prefetch factor** is how many batches each worker may have ready before they are asked
# for, 2 unless you say otherwise. A longer queue makes no worker faster. Then what is it good for? Let reads take
# *unequally* long, as with a disk that is slow for every eighth batch. (The reads are paced as well: they sleep.)


# %%
def waited_s(ahead):
    """How long the device waits in an epoch, the first batch aside: that one waits for the worker's start."""
    read_times_s = [0.001] * (7 * 8) + [0.010] * 8  # seven quick batches of 8, then a slow one
    batches = loader(PacedReads(256, read_times_s), 8, shuffle=False, workers=1, prefetch_factor=ahead)
    spans = epoch(batches, compute_s=0.020).spans
    return sum([span.time_s for span in spans if span.name == "wait"][1:])


# %% tags=["nbval-ignore-output"]
for ahead in (1, 2, 8):
    quicker_s = min(waited_s(ahead) for _ in range(2))
    print(f"prefetch_factor={ahead}: the device waits {1e3 * quicker_s:.0f} ms in an epoch")

# %% [markdown]
# On average the worker is faster than the device. The batches that it has read ahead feed the device during a slow
# read, if the queue is long enough. The price of a longer queue is memory: workers × prefetch factor × the size of a
# batch.
#
# <!-- word: pinned memory | also: page-locked memory -->
# **Pinned memory** is memory of the host that the system may not move or swap out. A GPU copies from it on its own,
# while the CPU goes on. From ordinary memory, PyTorch must first copy to a pinned place and wait. So a loop for a GPU
# has `pin_memory=True` in the loader and `non_blocking=True` in `.to(device)`. Without a GPU there is nothing to copy
# to, and nothing to measure.

# %% tags=["nbval-ignore-output"]
if device.type == "cuda":
    ordinary = torch.randn(16 * 2**20)  # 64 MiB
    pinned = ordinary.pin_memory()
    ways = (lambda: ordinary.to(device), lambda: pinned.to(device, non_blocking=True))
    print(compare(*ways, names=("ordinary", "pinned"), rounds=7, device=device))
else:
    print("blocked: needs a GPU. There, this cell times a copy from ordinary and from pinned memory.")

# %% [markdown]
# ## Counting the arithmetic
#
# ![A matrix product y = x times w, drawn once for the forward pass; below it the two products of the backward pass, one
# for the gradient of x and one for the gradient of w, each of the same size.](../assets/01_three_products.png)
#
# <!-- word: FLOP | also: floating-point operation -->
# A **FLOP** is one operation on floating-point numbers. A linear layer multiplies and adds `in × out` times for each
# row: two FLOPs each. Backward does the same work twice: once for the gradient of its input, once for that of its
# weights. The first layer is spared one of them, since nobody asks for the gradient of the pixels.

# %%
layers = cost.cnn_layers(batch_size=64)
for layer in layers:
    one = cost.flops(layer)
    print(
        f"{layer.name:<12} forward {one.forward / 1e6:>6.1f} MFLOP   backward {one.backward / 1e6:>6.1f} MFLOP"
    )
print(f"{'whole step':<12} {cost.flops(layers).total:,} FLOP")

# %% [markdown]
# PyTorch has a counter of its own, which watches the operations that really run.

# %%
from torch.utils.flop_counter import FlopCounterMode

x, y = (tensor.to(device) for tensor in next(iter(loader(train, 64))))
with FlopCounterMode(display=False) as counter:
    F.cross_entropy(model(x), y).backward()
optimizer.zero_grad()
torch_counts = counter.get_total_flops()
print(f"counted by torch {torch_counts:,}, difference {torch_counts - cost.flops(layers).total}")

# %% [markdown]
# ### A transformer, and two counts that differ
#
# Count a step of a small transformer in both ways.

# %%
config = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
reader = Transformer(config).to(device)
reader_optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-3)
text, _ = documentation_windows(config.context_length)
tokens, targets = (tensor.to(device) for tensor in next(iter(loader(text, 8))))

with FlopCounterMode(display=False) as counter:
    next_token_loss(reader(tokens), targets).backward()
step_flops = cost.flops(cost.transformer_layers(config, batch_size=8)).total
print(f"formula        {step_flops:>13,}\ntorch counted  {counter.get_total_flops():>13,}")

# %% [markdown]
# On a CPU the two counts differ. In which part of the model? The formula knows the parts, so ask it for the attention
# alone. Then let PyTorch compute attention in another way. Usually `scaled_dot_product_attention` (SDPA) is *fused*:
# one operation computes all of attention. Under `sdpa_kernel(SDPBackend.MATH)` PyTorch makes it of plain matrix
# products.

# %%
from torch.nn.attention import SDPBackend, sdpa_kernel

attention = cost.flops(
    layer for layer in cost.transformer_layers(config, batch_size=8) if layer.name.endswith("attention")
)
print(f"attention, by the formula          {attention.total:>13,}")
with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:  # attention from plain matmuls
    next_token_loss(reader(tokens), targets).backward()
reader_optimizer.zero_grad()
print(f"torch, attention from plain matmuls {counter.get_total_flops():>12,}")
rule = cost.six_n_flops(parameter_count(reader), tokens.numel())
print(f"6 x parameters x tokens            {rule:>13,}, {rule / step_flops:.0%} of the formula")

# %% [markdown]
# On a CPU, torch's counter has no entry for fused attention, and so counts no work for it. Compare the first line of
# this cell with the difference between the two lines of the cell before. Then compare the second line, where attention
# is made of plain matrix products, with the formula. *A counter leaves out the operations that it does not know, and
# does not say so. So compare it with a second count.*
#
# <details>
# <summary>An aside: on a GPU, and on a CPU from torch 2.15 on</summary>
#
# There the counter has an entry for fused attention. Then torch's count may be the higher one: fused attention computes
# its scores a second time in backward, and torch counts that.
#
# </details>
#
# The last line is the rule of thumb for large models: two operations forward and four backward for each parameter and
# token ([Kaplan et al., 2020](https://arxiv.org/abs/2001.08361), section 2.1). It forgets attention. And people often
# put *all* parameters into it, as here; Kaplan's count leaves the embedding tables out, since they are only looked up.
#
# ### Share of peak
#
# <!-- word: MFU | also: model FLOPs utilisation, model FLOPs utilization -->
# **MFU** (model FLOPs utilisation) is the arithmetic of a step, divided by what your machine could have done in that
# time.
# `calibrate()` has measured the rate of large matrix products here, in lesson 00 or now.
#
# **What share of that rate does this step of the transformer reach?**

# %%
### BEGIN SOLUTION
### STUB ask("01.mfu")
ask("01.mfu").commit(90)  # "it does nothing but compute"
### END SOLUTION


# %% tags=["nbval-ignore-output"]
def reader_step():
    reader_optimizer.zero_grad()
    next_token_loss(reader(tokens), targets).backward()
    reader_optimizer.step()


rates = calibrate().gpu or calibrate().all_cores
peak_rate = rates.matmul_flops_per_s["float32"]
timing = measure(reader_step, name="a step of the transformer", rounds=7, device=device)
print(timing)
reveal("01.mfu", cost.mfu(step_flops, step_time_s=timing.median_s, peak_flops_per_s=peak_rate))

# %% [markdown]
# No training run reaches all of it: PaLM, a carefully tuned run, reports 46.2 % ([Chowdhery et al.,
# 2022](https://arxiv.org/abs/2204.02311), table 3). A larger batch or a wider model raises the share: change `config`
# above and see.
#
# ## In production
#
# <!-- word: profiler -->
# You will not write timelines by hand. A **profiler** such as PyTorch's records every operation with its time (and with
# `profile_memory=True` its bytes). Where does our step spend its time, by operation?

# %% tags=["nbval-ignore-output"]
import os

from torch.profiler import ProfilerActivity, profile

os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler's own log would stand between the lines
activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
with profile(activities=activities) as profiler:
    reader_step()
rows = sorted(profiler.key_averages(), key=lambda row: -row.self_cpu_time_total)[:6]
for row in rows:
    print(f"{row.key:<58} {row.count:>4} calls {row.self_cpu_time_total / 1e3:>8.2f} ms")

# %% [markdown]
# | you used | production code uses |
# |---|---|
# | the timeline | `torch.profiler`, as above; its trace opens in [Perfetto](https://ui.perfetto.dev) |
# | `loader(images, 32, workers=2)` | `DataLoader(images, 32, shuffle=True, num_workers=2)`, which it calls |
# | `cost.flops` and `cost.mfu` | `FlopCounterMode`, as above; large projects count by formula, as you did |
#
# ## What you can do now
#
# You can say where a step's time goes, and whether a device works or waits. You can feed a device with workers, as long
# as there are cores for them. And you can say what share of its speed a device reaches, by counting what the step had
# to compute.
#
# [Part 3](01c_less_memory.ipynb) trades time for memory: three ways to need less of it, and what each of them costs.
#
# **Further reading.** PyTorch's [performance tuning
# guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html), its first section: data loading. Mohan
# et al., [Analyzing and Mitigating Data Stalls in DNN Training](https://arxiv.org/abs/2007.06775) (2021): how much time
# large jobs wait for data.
