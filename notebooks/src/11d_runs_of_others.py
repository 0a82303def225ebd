# %% [markdown]
# # 11d · Choosing: runs of others, and when not to
#
# You compare the planner with published runs of others, famous ones and less famous ones. Then you look for the case in
# which several GPUs are a mistake, and write a function that computes the cheapest choice.
#
# **2 × 45 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 4 of 5 · [1: does it fit?](11a_does_it_fit.ipynb) · [2: how long does it take?](11b_how_long.ipynb) · [3: six
# sick runs](11c_sick_runs.ipynb) · [5: build a planner](11e_build_planner.ipynb)
#
# This part builds on [11a: does it fit?](11a_does_it_fit.ipynb) and [11b: how long does it take?](11b_how_long.ipynb).
# Have you done them? `from course_lib import start; start("11d")` says whether you have.
#
# At the end you can
#
# - read a published run, and say which share of the peak it reached, and which FLOPs that counts;
# - compare a prediction with a null model (one number for all runs) and with its band, before you believe it;
# - say when more GPUs make a training more expensive and hardly quicker;
# - choose the cheapest way that fits and is in time.
#
# From parts 1 and 2 you need to know what the planner does. It adds up the memory of a layout, part by part, and the
# seconds of its step, part by part. A layout is written as `tp8 pp16 dp64 mb1`. Eight ranks share each layer, sixteen
# stages share the layers, 64 replicas share the batch, and one sequence goes through at a time. Then come `v4` (four
# chunks of the pipeline on each rank), and `zero1` to `zero3` (what is sharded). Last are `sp` (sequence parallelism),
# and `selective` or `full` (what is recomputed). `full` computes whole layers again in the backward pass. `selective`
# computes the scores of attention again, and in some programs every second product.

# %%
from course_lib import Link, Links, ask, check, cost, hint, problems, quiz, reveal, shared_cluster
from course_lib.claims import verdicts
from course_lib.cli import main as course
from course_lib.parallel.data import DistributedDataParallel, PacedLayers
from course_lib.plan import (
    Job,
    Layout,
    Software,
    cluster_of,
    decoder,
    error_bands,
    how_sure,
    list_layouts,
    load_profiles,
    memory_parts,
    replayed_runs,
    step_parts,
    typical_constants,
)
from course_lib.plot import gpu_areas, lines
from course_lib.widgets import PlanExplorer

import time
from dataclasses import replace
from itertools import product
from statistics import median

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))

# %% [markdown]
# ## A famous run
#
# Llama 3 405B was trained on up to 16,384 GPUs. Its paper has a table of some settings. The next cell prints one of
# them, from the course's small file of published runs:

# %%
llama = replayed_runs("llama3-405b")[0]
run, gpu = llama.of.run, llama.of.profile.gpu
print(llama.name, "|", llama.source)
print(
    f"{run.job.model.parameters / 1e9:.0f} billion parameters, {run.job.batch:,} sequences of {run.job.seq:,} tokens"
)
print(f"the data sheet of a GPU: {gpu.peak_flops_per_s / 1e12:.0f} TFLOP/s in {run.dtype}, dense")

# %% [markdown]
# The run of the table used 8,192 GPUs in 1,024 machines, with a network between them, and each replica used 128 GPUs.
# **Which share of the data sheet's rate does the run reach, if only FLOPs that the model needs count?** (That is its
# MFU, from lesson 01.)

# %%
### BEGIN SOLUTION
### STUB ask("11.share")
ask("11.share").commit(70)  # "people who buy so many GPUs will use them well"
### END SOLUTION

# %%
print(f"{llama.tokens_per_s_per_gpu:.0f} tokens a second on each GPU")
reveal("11.share", llama)

# %% [markdown]
# Different authors give tokens, seconds, TFLOP/s or per cent. Always look which FLOPs they count:
#
# <!-- word: HFU | also: hardware FLOPs utilization, hardware FLOPs utilisation | sentences: 2 -->
# **HFU** (hardware FLOPs utilization) is the share of the peak that a run reaches if all executed FLOPs count. So
# recomputed FLOPs count too, while MFU counts only those that the model needs.
#
# | number | what you can compare or judge with it | what it does not show |
# |---|---|---|
# | HFU | how busy the GPUs are | which work is done twice: it counts twice |
# | MFU | runs on other GPUs, of other models | whether the scores of attention that a mask removes are counted |
# | tokens a second and GPU | two layouts of one model | everything else |
# | days, price, energy | what a training costs | failures, restarts, other batches: no table of steps has them |
#
# The next cell computes the table's last line, for a training of 15.6 trillion tokens, as the paper reports it. The
# price of a GPU hour is our guess: put in your own price. The 700 W are from the GPU's data sheet, without hosts,
# network and cooling.

# %%
PRICE, WATTS = 2.50, 700  # dollars for a GPU hour; a GPU's power
gpu_hours = 15.6e12 / llama.tokens_per_s_per_gpu / 3600
print(f"{gpu_hours / llama.gpus / 24:.0f} days on {llama.gpus:,} GPUs")
print(f"{gpu_hours / 1e6:.1f} million GPU hours, {gpu_hours * PRICE / 1e6:.0f} million dollars")
print(f"{gpu_hours * WATTS / 1e9:.1f} GWh")
print(f"MFU {llama.mfu:.0%}, HFU {llama.hfu:.0%}: nothing is recomputed; this HFU counts masked scores too")

# %% [markdown]
# The model card of Llama 3.1 405B reports 30.84 million GPU hours. A table of steps does not show smaller batches at
# the start, longer sequences at the end, failures and restarts.
#
# ## Twenty-five runs, and one number
#
# ![A published run's model, GPUs and layout go two ways, to the planner and to one share of the peak; the seconds that
# come out are compared with those that were measured](../assets/11_replay.png)
#
# Can you trust the planner? Compare it with runs that others measured: it gets sizes and layout, and predicts the
# seconds of a step. Its eight constants for each cluster were fitted to such runs, these included. So its errors here
# are smaller than for a new cluster. The column *elsewhere* is the same planner with constants of other clusters, as in
# part 2. Expect errors of that size for your own cluster.
#
# <!-- word: null model | also: baseline model -->
# A prediction is useful only if it is better than a very simple one. A **null model** uses one number, fitted to the
# same data, and nothing else. Ours says that every run reaches the same share of the peak (in HFU). So the time of a
# step is its FLOPs, divided by that share of the rate of all GPUs. It uses no links, no layout and no pipeline.
#
# There are 25 runs from papers and web pages, of 1.7 to 530 billion parameters, on 8 to 8,192 GPUs of three kinds. The
# null model's one number is the median of their shares. **How far off is the null model, at the median?** (Half of its
# errors are larger than that, half smaller.)

# %%
### BEGIN SOLUTION
### STUB ask("11.one_share")
ask("11.one_share").commit(40)  # "it does not even know the layout"
### END SOLUTION

# %%
chosen = replayed_runs("chosen")
share = median(run.hfu for run in chosen)
reveal("11.one_share", chosen, share)

# %% tags=["computed-time"]
print("published   planner  elsewhere  one share   (errors: + is too long, - too short)")
for run in chosen:
    errors = (
        seconds / run.measured_s - 1 for seconds in (run.predicted_s, run.elsewhere_s, run.at_peak_s / share)
    )
    print(f"{run.measured_s:7.2f} s " + "".join(f"{error:+10.0%}" for error in errors), f"  {run.name}")

# %% [markdown]
# <!-- word: survivorship bias | also: survivor bias | sentences: 2 -->
# **Survivorship bias** is an error: somebody judges by what is left after a choice, and forgets the choice. Papers show
# the layout that won, and the layouts that lost are not in the table.
#
# ### By kind
#
# The planner's error depends on which messages leave an NVLink domain. In part 2 you went through one kind run by run:
# weights that are sharded over nodes. The next cell prints the band of this kind and of the others, over all published
# runs that we know:

# %%
bands = error_bands("elsewhere")
for kind, band in bands.time.items():
    print(
        f"{kind:<27}{band.runs:>4} runs; 8 in 10 took {band.low:.2f} to {band.high:.2f} times the prediction"
    )
print(f"two layouts of one job are a tie where predictions are less than {bands.tie - 1:.0%} apart")

# %% [markdown]
# From here on, each prediction for a layout that nobody ran has such a band.
#
# ## 26 layouts of one job
#
# The authors of vTrain, a simulator, published all that they measured while they tested it, also the bad results. They
# have 26 layouts of one model of 3.6 billion parameters, all on the same 64 A100 GPUs, all with the same batch. All of
# them run, and all compute the same. The next cell prints some of the 26:

# %%
tried = replayed_runs("tried")
print(*(run.of.run.layout for run in tried[::5]), sep="\n")

# %% [markdown]
# **How many times as long as the fastest layout does the slowest take?**

# %%
### BEGIN SOLUTION
### STUB ask("11.spread")
ask("11.spread").commit(1.5)  # "the arithmetic is the same"
### END SOLUTION

# %%
reveal("11.spread", tried, share)

# %% tags=["nbval-ignore-output"]
by_time = sorted(tried, key=lambda run: run.measured_s)
places = list(range(1, len(by_time) + 1))
lines(
    {
        "published": (places, [run.measured_s for run in by_time]),
        "planner": (places, [run.predicted_s for run in by_time]),
        "planner, constants of other clusters": (places, [run.elsewhere_s for run in by_time]),
        "one share of the peak": (places, [run.at_peak_s / share for run in by_time]),
    },
    x_label="layouts, the fastest first",
    y_label="seconds a step",
    title="One job on 64 GPUs, in 26 layouts",
)

# %% [markdown]
# So a planner is useful: it tells you not to try most of that list. The next cell prints where it is wrong:

# %% tags=["computed-time"]
for run in by_time:
    if abs(run.predicted_s / run.measured_s - 1) > 0.2:
        print(f"published {run.measured_s:5.2f} s, planner {run.predicted_s:5.2f} s: {run.of.run.layout}")

# %% [markdown]
# Each of these took far longer than planned. It also took far longer than another layout that differs only in its
# micro-batch. The planner has no term for that. The table does not show the cause: nearly full memory, a slow node, or
# something that all such runs have. A planner's seconds are an expectation. The next step is to run the best three
# layouts, as in part 2.
#
# ## Inside the node
#
# A rule says: "Tensor parallelism belongs inside a node." Here is a job on a single machine with 8 H100 GPUs and
# NVLink, from the runs behind the Ultra-Scale Playbook. It has 3.6 billion parameters, and 256 sequences of 4,096
# tokens in a step. The next cell prints its four layouts, three of them with their time:

# %% tags=["computed-time"]
*better, inside = sorted(replayed_runs("ultra-scale"), key=lambda run: run.measured_s)
for run in better:
    print(f"{run.measured_s:5.1f} s a step: {run.of.run.layout}")
print(f"    ? s a step: {inside.of.run.layout}")

# %% [markdown]
# The fourth layout has one tensor axis over all 8 GPUs, within the node, as in the rule. It has one sequence in a
# micro-batch. **How many seconds does its step take?**

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ask("11.inside")
ask("11.inside").commit(11)  # "two calls a layer, but over NVLink"
### END SOLUTION

# %% tags=["computed-time"]
reveal("11.inside", inside, better[0])

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you look for a case in which several GPUs are a mistake.

# %% [markdown]
# ## When several GPUs are a mistake
#
# ![A step as a rectangle, time to the right and GPUs upwards: one GPU, four if nothing is lost, and four as they run,
# with a question mark](../assets/11_bill.png)
#
# You pay for GPU hours, the area of the rectangle. Now take a small model, on one rank, on two and on four. Suppose
# that all ranks are in different machines, joined by a link of 1 ms and 60 MB/s. The batch stays the same, and so does
# the work. It is 60 ms of computing in all, which the ranks share, and 1 MiB of gradients, in two buckets.
#
# Messages are real; the link is shaped and computing is *paced*, as in part 2. **What does a token cost on four ranks,
# as a multiple of its price on one?**

# %%
### BEGIN SOLUTION
### STUB ask("11.price")
ask("11.price").commit(1)  # "four times the GPUs for a quarter of the time"
### END SOLUTION

# %%
COMPUTE_S, LAYERS, BUCKET_BYTES = 0.060, {"num_layers": 8, "layer_bytes": 129 * 1024}, 512 * 1024
BUCKETS = {"bucket_size_bytes": BUCKET_BYTES, "first_bucket_size_bytes": BUCKET_BYTES}


def step_s(me, repeats=4):
    """The fastest of some steps of a paced model; a third of its computing is forward."""
    own_s = COMPUTE_S / me.world_size
    layers = PacedLayers(me, **LAYERS, forward_s=own_s / 3, backward_s=own_s * 2 / 3)
    ddp, times_s = DistributedDataParallel(me, layers, **BUCKETS), []
    for _ in range(repeats):
        dist.barrier()
        start_s = time.perf_counter()
        ddp(torch.ones(1, device=me.device)).sum().backward()
        times_s.append(time.perf_counter() - start_s)
        layers.zero_grad()
    return min(times_s)


# %%
SLOW = Link(latency_s=1e-3, bandwidth_bytes_per_s=60e6)


def all_reduce_s(num_ranks, size_bytes):
    return cost.collective_cost("all_reduce", size_bytes, SLOW, num_ranks=num_ranks).time_s


tensors = [LAYERS["layer_bytes"]] * LAYERS["num_layers"]
buckets = cost.ddp_buckets(tensors, bucket_cap_bytes=BUCKET_BYTES, first_bucket_bytes=BUCKET_BYTES)
times = {"forward_s": COMPUTE_S / 3, "backward_s": COMPUTE_S * 2 / 3}
model_price = 4 / cost.scaling_curve([4], buckets, **times, all_reduce_time_s=all_reduce_s)[0].speedup

# %% tags=["nbval-ignore-output"]
step_of = {1: max(one.run(step_s))}
for ranks, cluster in ((2, two), (4, four)):
    with cluster.shaped(links=Links(SLOW)):
        step_of[ranks] = max(cluster.run(step_s))
for ranks, seconds in step_of.items():
    price = ranks * seconds / step_of[1]
    print(f"ranks: {ranks}   a step: {seconds * 1e3:3.0f} ms   price of a token: {price:.2f}")
reveal("11.price", step_of, model_price)

# %% tags=["nbval-ignore-output"]
gpu_areas(step_of, title="What is paid for: GPUs by time")

# %% [markdown]
# On real GPUs the link is faster, and so are the GPUs. Take GPT-2 (124 million parameters) with half a million tokens a
# step, on 1 to 128 H100 GPUs. For each number of GPUs the planner prints its best layout with a data axis alone. The
# price is for 10 billion tokens: first as predicted, then the band in which 8 in 10 of such runs lie. A small model's
# passes are short. So the *host*, the processor that starts the GPU's work, may set the pace. The band also says what
# a slower or a faster one would change.

# %%
h100 = typical_constants([one for one in load_profiles().values() if one.gpu.name.startswith("H100")])
small = Job(decoder("gpt-2"), seq=1024, batch=512)
print("GPUs  hours  dollars     8 in 10  layout")
for gpus in (1, 2, 4, 8, 16, 32, 64, 128):
    layouts = [Layout(dp=gpus, micro_batch=sequences) for sequences in (1, 2, 4, 8, 16)]
    machines = cluster_of("8xh100", gpus=gpus)
    listing = list_layouts(small, machines, h100, Software(), layouts=layouts)
    best = listing.best
    hours = 10e9 / small.tokens * best.step_s / 3600
    band = bands.time_band(machines, best.layout, listing.reach)
    low, high = band.around(gpus * hours * PRICE)
    print(f"{gpus:>4} {hours:6.2f} {gpus * hours * PRICE:8.0f} {low:5.0f}-{high:<5.0f}  {best.layout}")

# %% [markdown]
# Up to some number, more GPUs need less time for the same money. Beyond it the time hardly falls, and the price rises.
# A larger batch would keep the GPUs busy: with twice the sequences on twice the GPUs a token costs the same. That works
# up to the critical batch size of lesson 04. Beyond it a larger batch hardly saves steps, and the additional tokens
# bring little.
#
# So take several GPUs for one model if it does not fit on fewer, or if somebody waits for it. Otherwise run eight small
# trainings, one on each GPU. They send nothing to each other, lose no time, and give you eight results.
#
# ## Build: the cheapest that is in time
#
# Rows of a plan are tuples `(gpus, step_s, bytes)`: the number of GPUs, the seconds of a step, and the bytes of the
# fullest GPU. Write the function that chooses the row to pay for.
#
# The function also computes what one habit costs: "take all GPUs that there are". Its *regret* is the additional cost
# of the habit, as a share of the least cost (part 2 had a regret of time).


# %%
def cheapest(rows, tokens, step_tokens, price, most_days, gpu_bytes):
    """The row that costs least, of those that fit and end in time.

    rows         a list of (gpus, step_s, bytes)
    tokens       of the whole training; each step takes step_tokens of them, and the last may not be full
    price        of one GPU for an hour
    most_days    no row may take longer; just as long is in time
    gpu_bytes    no row may need more; just as much fits

    Returns (its number in rows, its cost, the regret of the habit), or None if no row fits and
    ends in time. Of rows that cost the same, it takes the one that is done first; if they are done
    together, the first in rows. The habit takes the most GPUs of all rows that fit and end in time,
    and of several with as many the quickest.
    """
    ### BEGIN SOLUTION
    steps, possible = -(-tokens // step_tokens), []
    for number, (gpus, seconds, needed_bytes) in enumerate(rows):
        total_s = steps * seconds
        if needed_bytes <= gpu_bytes and total_s <= most_days * 86_400:
            possible.append((gpus * total_s / 3600 * price, total_s, number))
    if not possible:
        return None
    cost_of_it, _, chosen = min(possible)
    most = max(rows[number][0] for *_, number in possible)
    habit = min(paid for paid, _, number in possible if rows[number][0] == most)
    return chosen, cost_of_it, habit / cost_of_it - 1
    ### END SOLUTION


# %%
cheapest_verdict = check("11.cheapest", cheapest)

# %%
# hint("11.cheapest")

# %% [markdown]
# Now use your function. (Until it has passed, the course's own stands in.) The job is Llama 3 8B, with 200 billion
# tokens and a batch of a million tokens, on 1 to 512 H100 GPUs. Each layout has a tensor axis within a node and a data
# axis. It is sharded by ZeRO-1 or ZeRO-3, with recomputation or without.

# %%
job = Job(decoder("llama-3-8b"), seq=8192, batch=128)
rows, layouts = [], []
for gpus in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
    cluster = cluster_of("8xh100", gpus=gpus)
    for tp in (tp for tp in (1, 2, 4, 8) if tp <= gpus and gpus // tp <= job.batch):
        for sharding, recompute in ((1, "none"), (1, "full"), (3, "none"), (3, "full")):
            ways = {"sharding": sharding if gpus > tp else 0, "recompute": recompute}
            layouts.append(Layout(tp=tp, dp=gpus // tp, sequence_parallel=tp > 1, **ways))
            step = step_parts(job, layouts[-1], cluster, h100, Software())
            memory = memory_parts(job, layouts[-1], cluster, h100, Software())
            rows.append((gpus, step.total_s, memory.total_bytes))
fits = sum(needed_bytes <= cluster.memory_bytes for *_, needed_bytes in rows)
print(f"{len(rows)} rows, of which {fits} fit")

# %%
from course_lib.learn import cheapest_row as the_courses

choose = cheapest if cheapest_verdict.passed else the_courses
print("days  GPUs  dollars        8 in 10  a tie  regret of all GPUs  layout")
for days in (60, 30, 15, 7, 3, 2):
    limits = (job.tokens, PRICE, days, cluster.memory_bytes)
    if (found := choose(rows, 200 * 10**9, *limits)) is None:
        print(f"{days:>4}  no row")
        continue
    number, dollars, regret = found
    alone = [choose([row], 200 * 10**9, *limits) for row in rows]  # each row as if there were no other
    tied = sum(one is not None and one[1] < bands.tie * dollars for one in alone)
    band = bands.time_band(cluster_of("8xh100", gpus=rows[number][0]), layouts[number])
    low, high = band.around(dollars)
    print(f"{days:>4} {rows[number][0]:>5} {dollars:8,.0f} {low:7,.0f}-{high:<7,.0f} {tied:>4}", end="")
    print(f" {regret:19.0%}  {layouts[number]}")

# %% [markdown]
# Read the dollars from the top. At first a shorter deadline costs hardly anything: there are more GPUs for a shorter
# time. Then it costs clearly more. (128 sequences are enough for 128 replicas; more GPUs must share a replica.) *A tie*
# counts the rows that are in time and whose cost is a tie with the cheapest. Choose among these the one that is easiest
# to set up. And show the band, not the dollars alone, to the person who sets deadlines.
#
# ## What changes the choice
#
# ![72 GPUs twice: as nine NVLink domains of eight with a network between them, and as one NVLink domain of all
# 72](../assets/11_domains.png)
#
# *The NVLink domain.* Until now it was the machine, with eight GPUs. In a rack such as NVL72 it has 72. Take 72 H100
# GPUs as they are, in nine machines, and the same 72 as if NVLink joined them all. (Nobody sells that. But so you see
# the effect of the domain, and not that of a newer GPU.) The job is Llama 3 70B, with 144 sequences of 8,192 tokens.
# The planner looks for the best layout on each, with one sequence in a micro-batch. **By how many per cent is the best
# step shorter in the large domain?**

# %%
### BEGIN SOLUTION
### STUB ask("11.domain")
ask("11.domain").commit(30)  # "NVLink is nine times as fast as the network"
### END SOLUTION

# %%
large = Job(decoder("llama-3-70b"), seq=8192, batch=144)
nines = cluster_of("8xh100", nodes=9)
whole = replace(nines, domain_size=72)


def planned(cluster):
    """The planner's listing of layouts whose axes divide the 72 GPUs; a micro-batch is one sequence."""
    layouts = []
    ways = product((1, 2, 4, 8), (1, 2), (1, 3, 9), (1, 2, 4), (0, 1, 3), ("none", "selective"))
    for tp, cp, pp, chunks, sharding, again in ways:
        if 72 % (tp * cp * pp) == 0:
            axes = {"tp": tp, "cp": cp, "pp": pp, "dp": 72 // (tp * cp * pp), "chunks": chunks}
            steps = {"sharding": sharding, "sequence_parallel": tp > 1, "recompute": again}
            layouts.append(Layout(**axes, **steps))
    return list_layouts(large, cluster, h100, Software(), layouts=layouts)


# %% tags=["computed-time"]
on_nines, on_whole = planned(nines), planned(whole)
unstaged = [  # the best layout without stages, on each
    next(option for option in listing.options if option.layout.pp == 1) for listing in (on_nines, on_whole)
]
reveal("11.domain", on_nines.best, on_whole.best, *unstaged)
print(how_sure(on_nines))

# %% [markdown]
# Compare the gain with the width of a tie. Other models send more. Before you believe this for your model, try one with
# many experts, or longer sequences.
#
# *Memory.* With more memory on each GPU a job needs fewer cuts. The next cell plans Llama 3 8B again, with 64
# sequences, on one machine of each kind:

# %%
for machine in ("8xh100", "8xh200", "8xb200"):
    cluster = cluster_of(machine)
    found = list_layouts(Job(decoder("llama-3-8b"), 8192, 64), cluster, h100, Software())
    room, tied = f"{cluster.memory_bytes / 1e9:.0f} GB", len(found.tied(bands.tie))
    print(
        f"{machine} ({room}): {len(found.options):>3} layouts run, first {found.best.layout}, {tied} a tie with it"
    )

# %% [markdown]
# (The constants here are those of H100 clusters. We found too few published runs of newer GPUs to fit others.)
#
# ## In production
#
# You get the same in a terminal with one line: `./course plan --model llama-3-8b --machine 8xh100 ...`. The next cell
# runs it here:

# %% tags=["computed-time"]
line = "plan --model llama-3-8b --machine 8xh100 --batch 64 --seq 8192 --top 3"
status = course(line.split())

# %% [markdown]
# `./course plan --tokens 2e11 --price 2.5 --days 30` adds days, energy and price, and says how many GPUs would meet the
# deadline; `--layout "tp=8"` asks about your own layout alone. These are the settings of your decisions in three
# libraries:
#
# | you decided | torchtitan | Megatron-Core | DeepSpeed |
# |---|---|---|---|
# | tensor axis | `tensor_parallel_degree` | `--tensor-model-parallel-size` | `tensor_parallel.autotp_size` (newer) |
# | stages | `pipeline_parallel_degree` | `--pipeline-model-parallel-size` | `PipelineModule(num_stages=...)` |
# | sharding | `data_parallel_shard_degree` | `--use-distributed-optimizer` | `zero_optimization.stage` |
# | micro-batch | `local_batch_size` | `--micro-batch-size` | `train_micro_batch_size_per_gpu` |
# | recomputation | `activation_checkpoint.mode` | `--recompute-granularity` | `activation_checkpointing` |
#
# Names change with versions: look them up. As far as we know, none of the three chooses tensor axis and stages for you.
# DeepSpeed has an autotuner that tries ZeRO stages and micro-batches by running them. We advise the same for the last
# step: plan, run three layouts, take the fastest.
#
# ## Claims on trial
#
# Here are three claims from widely read articles (in our words). C3 says: more GPUs give no proportional speed-up. C12
# says: very small models train faster on one device. C8 says: it is a myth that model parallelism is always better than
# data parallelism. Bet on each, then run the trials. (*Cannot tell here*: the machine was too busy to decide.)

# %% tags=["nbval-ignore-output"]
print(verdicts("C3", "C12", "C8"))

# %% [markdown]
# ## Five questions on this lesson

# %% tags=["computed-time"]
quiz("11")

# %% [markdown]
# ## What you can do now
#
# You can size a job, first by memory and then by time. You can bet on a layout, run three and know your regret, and
# find by evidence why a run is slow. You can compare a planner with runs that others measured and with a null model.
# And you can compute how many GPUs to pay for.
#
# **The limit.** All plans of this lesson assume machines that work. With thousands of GPUs some of them fail every day,
# and a step that waits for all ranks also waits for the broken one. In lesson 12 jobs run on several machines, lose
# some ranks, and continue.
#
# **Further reading.** Narayanan et al., [Efficient Large-Scale Language Model Training on GPU
# Clusters](https://arxiv.org/abs/2104.04473) (2021), sections 3 and 5: how to choose three axes, and tables 1 and 2.
# Korthikanti et al., [Reducing Activation Recomputation](https://arxiv.org/abs/2205.05198) (2022): MFU and HFU side by
# side. [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783) (2024), section 3.3. McCandlish et al., [An
# Empirical Model of Large-Batch Training](https://arxiv.org/abs/1812.06162) (2018): the critical batch size.
#
# ## Another day: the explorer
#
# The explorer takes some ten minutes more, and nothing later asks for it.
#
# ![The explorer's picture: a row for each of four layouts and one of your own below, bars for the seconds of a step by
# part, and bars for the memory of the fullest GPU by part with a dashed line where it may be
# filled](../assets/11_explorer.png)
#
# The first row of controls is the job: a model, a machine, a number of GPUs, tokens a sequence, sequences a step. Below
# you see the planner's best layout, with its time and memory by part. Then come the best layouts of other cuts, with
# the time that they lose. The second row of controls is a layout of your own; the data axis gets the ranks that the
# other axes leave. *Shared out* says what is sharded. *Take the planner's* sets your layout to the best one, so that
# you can change one setting and see what it costs. The planner computes all of it, and nothing runs. It looks at some
# hundred layouts at once. Only `./course plan` has interleaved pipelines, hybrid sharding, offload and more than 16
# stages. (JupyterLab keeps arrow keys and some letters for itself, even in a menu. Without a mouse, choose from a cell:
# `explorer.choose(model="llama-3-70b", gpus=16)`.) Three missions:
#
# 1. Take `llama-3-70b` on 8x H100, with 64 sequences of 8,192 tokens a step. Find a layout of your own without
#    recomputation, on the fewest machines that hold one. Then read how much time it loses.
# 2. Take `llama-3-8b` on 16 GPUs of 8x H100, with 128 sequences of 8,192 tokens. Find a layout of your own with at most
#    70 % of the memory of the planner's best, that loses at most 15 % of time.
# 3. Find a job that runs on one GPU, and whose step costs at least twice as much on 8 GPUs or more. The cost is GPUs
#    times seconds.

# %% tags=["computed-time"]
explorer = PlanExplorer()
explorer

# %%
### BEGIN SOLUTION
### STUB print(explorer.missions)
explorer.choose(model="llama-3-70b", gpus=32, tp=8, cp=2, pp=2, sharding=3, recompute="none")
explorer.choose(model="llama-3-8b", gpus=16, batch=128, tp=2, cp=1, pp=2, sharding=3, recompute="none")
explorer.choose(model="gpt-2-xl", gpus=8, seq=1024, batch=8)
print(explorer.missions)
### END SOLUTION

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. The numbers are drawn for you, and others for
# each further try. When a problem is over, you see the way step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("11")
problems("11", ways=True)
### END SOLUTION
