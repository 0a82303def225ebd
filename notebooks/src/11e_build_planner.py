# %% [markdown]
# # 11e · Choosing: build a planner
#
# You fill one empty class in seven steps, and each step needs more of it. At the end it ranks all layouts of a job on a
# thousand GPUs by their seconds. Published runs that it has never seen judge it.
#
# **2 × 75 minutes · difficulty 5 of 5 · needs: cpu**
#
# Part 5 of 5 · [1: does it fit?](11a_does_it_fit.ipynb) · [2: how long does it take?](11b_how_long.ipynb) · [3: six
# sick runs](11c_sick_runs.ipynb) · [4: runs of others, and when not to](11d_runs_of_others.ipynb)
#
# This part builds on [11a: does it fit?](11a_does_it_fit.ipynb) and [11b: how long does it take?](11b_how_long.ipynb).
# Have you done them? `from course_lib import start; start("11e")` says whether you have.
#
# At the end you can
#
# - write down memory and time of a layout as formulas, and say which axis enters where;
# - list all layouts that are legal and fit, and rank them;
# - find from a few runs what no data sheet says, and say how far off you are on others.
#
# From [part 1](11a_does_it_fit.ipynb) you need the parts of a rank's memory, and from [part 2](11b_how_long.ipynb) the
# parts of a step.

# %%
from course_lib import build_progress, check, hint, mine, planners_side_by_side
from course_lib.capstone import job_for, plans
from course_lib.layouts import Mesh
from course_lib.mine import courses
from course_lib.plan import (
    Constants,
    Job,
    Layout,
    Machines,
    PlannedJob,
    Software,
    cluster_of,
    decoder,
    list_layouts,
    machines_of,
    planned_job,
    shown_runs,
)
from course_lib.plot import lines

import time
from collections import Counter
from dataclasses import replace
from itertools import product
from statistics import median

# %% [markdown]
# ![A job and machines go into a planner, which is a question mark. Layouts with question marks for gigabytes, seconds
# and place come out, and beside two runs of others stand a question mark for your prediction and one for the
# error](../assets/11_planner.png)
#
# ## One cell
#
# The next cell is all that you write. Seven steps follow it. Each has a check, and needs what the steps before it need,
# and one thing more. So you come back to this cell: change it, run it, and run the next check.
#
# Take two sittings. The first one ends with step 3. Step 4 is the hardest.
#
# Steps 1 and 2 need `memory` alone. Do not change a method before a step needs it.


# %%
class MyPlanner:
    """What the layouts of ``job`` need and take on ``machines``, by formulas: nothing runs.

    ``job``: ``layers``, ``hidden``, ``heads``, ``kv_heads``, ``ffn``, ``vocab`` of a decoder; whether its MLPs are
    ``gated``, and its tables ``tied``. ``batch`` sequences of ``seq`` tokens in a step of all GPUs. Each gradient has
    ``gradient_bytes``.

    ``machines``: ``gpus`` in nodes of ``node_size``, each GPU with ``memory_bytes``, of which no layout can use
    ``reserve_bytes``. Step 3 explains ``peak_flops_per_s``, ``share`` and ``pass_s``. Step 4 explains
    ``inside_bytes_per_s``, ``network_bits_per_s`` of each GPU, ``latency_s`` and ``hidden``.

    A layout: ``tp``, ``pp``, ``dp``, ``micro_batch`` (sequences), ``sharding`` (0 to 3), ``sequence_parallel`` (or
    not), ``recompute`` ("none" or "full"). Ranks are numbered along ``tp`` first, then ``dp``, then ``pp``.
    """

    def __init__(self, job, machines):
        ### BEGIN SOLUTION
        self.job, self.machines = job, machines
        kv = job.hidden // job.heads * job.kv_heads
        self.kept = 4 * job.hidden + 4 * kv + (8 if job.gated else 4) * job.ffn
        self.kept += 6 * (job.hidden + kv) if job.gated else 0
        self.matrices = 2 * job.hidden * (job.hidden + kv) + (3 if job.gated else 2) * job.hidden * job.ffn

    def numbers(self, layout, stage):
        job = self.job
        tables = (stage == 0) + (stage == layout.pp - 1) - (job.tied and layout.pp == 1)
        layer = self.matrices / layout.tp + 2 * job.hidden
        return job.layers // layout.pp * layer + tables * job.vocab * job.hidden / layout.tp

    def micro_batches(self, layout):
        return self.job.batch // (layout.dp * layout.micro_batch)
        ### END SOLUTION

    def memory(self, layout, stage):
        """Bytes of a rank of this stage: "weights", "gradients", "optimizer", "activations", "logits"."""
        ### BEGIN SOLUTION
        job, numbers = self.job, self.numbers(layout, stage)
        rows, cut = layout.micro_batch * job.seq, layout.tp if layout.sequence_parallel else 1
        inside = rows * (8 * job.hidden / cut + self.kept / layout.tp)
        in_flight = min(layout.pp - stage, self.micro_batches(layout)) * (job.layers // layout.pp)
        again = layout.recompute == "full"
        return {
            "weights": 2 * numbers / (layout.dp if layout.sharding == 3 else 1),
            "gradients": job.gradient_bytes * numbers / (layout.dp if layout.sharding >= 2 else 1),
            "optimizer": 12 * numbers / (layout.dp if layout.sharding >= 1 else 1),
            "activations": in_flight * 2 * rows * job.hidden / cut + inside if again else in_flight * inside,
            "logits": 10 * rows * job.vocab / layout.tp if stage == layout.pp - 1 else 0.0,
        }

    def needed(self, layout):
        most = max(sum(self.memory(layout, stage).values()) for stage in range(layout.pp))
        return most + self.machines.reserve_bytes

    def pass_s(self, layout, forwards):
        """A pass of a layer that computes as much as so many forwards."""
        job, machines = self.job, self.machines
        flops = layout.micro_batch * job.seq * (2 * self.matrices + 4 * job.seq * job.hidden) / layout.tp
        return max(forwards * flops / (machines.peak_flops_per_s * machines.share), machines.pass_s)

    def ring_s(self, size, stride, size_bytes):
        """A gather of so many bytes, or a scatter of their sums."""
        if size == 1:
            return 0.0
        machines, rate = self.machines, self.machines.inside_bytes_per_s
        nodes = Counter(rank // machines.node_size for rank in range(0, size * stride, stride))
        if len(nodes) > 1:
            rate = min(rate, min(nodes.values()) * machines.network_bits_per_s / 8)
        return (size - 1) * (size_bytes / size / rate + machines.latency_s)
        ### END SOLUTION

    def time(self, layout):
        """Seconds of a step: "compute", "tensor", "pipeline", "data". A part that is not needed yet may be 0."""
        ### BEGIN SOLUTION
        ### STUB return {}  # from step 3 on
        job, machines, m = self.job, self.machines, self.micro_batches(layout)
        layers, slots, again = job.layers // layout.pp, m + layout.pp - 1, layout.recompute == "full"
        backward_s = layers * self.pass_s(layout, 2)
        slot_s = (2 if again else 1) * layers * self.pass_s(layout, 1) + backward_s
        rows = layout.micro_batch * job.seq
        output_flops = 3 * 2 * rows * job.vocab * job.hidden / layout.tp
        last_s = slot_s + output_flops / (machines.peak_flops_per_s * machines.share)
        row_bytes = 2 * rows * job.hidden
        hop_rate = machines.inside_bytes_per_s
        if layout.gpus > machines.node_size:
            hop_rate = min(hop_rate, machines.network_bits_per_s / 8)
        hop_s = row_bytes / (layout.tp if layout.sequence_parallel else 1) / hop_rate + machines.latency_s
        sums = (6 if again else 4) * layers * slots
        first_s = slot_s if layout.pp > 1 else last_s
        return {
            "compute": (layout.pp - 1) * slot_s + m * last_s,
            "tensor": sums * 2 * self.ring_s(layout.tp, 1, row_bytes),
            "pipeline": 2 * slots * hop_s if layout.pp > 1 else 0.0,
            "data": self.data_s(layout, m, backward_s, first_s),
        }

    def data_s(self, layout, m, backward_s, slot_s):
        numbers, hidden = self.numbers(layout, 0), self.machines.hidden
        gradients_s = self.ring_s(layout.dp, layout.tp, self.job.gradient_bytes * numbers)
        weights_s = self.ring_s(layout.dp, layout.tp, 2 * numbers)
        if layout.sharding == 3:
            sent_s = m * (gradients_s + 2 * weights_s)
            return sent_s - hidden * min(sent_s, m * slot_s)
        sent_s = gradients_s if layout.sharding else 2 * gradients_s
        late_s = weights_s if layout.sharding else 0.0
        return sent_s - hidden * min(sent_s, backward_s) + late_s
        ### END SOLUTION

    def why_not(self, layout):
        """Why this layout cannot run: a sentence that names what is at fault. "" where it can."""
        ### BEGIN SOLUTION
        ### STUB return ""  # in step 7
        job = self.job
        for name in ("heads", "kv_heads", "ffn"):
            if getattr(job, name) % layout.tp:
                return f"tp={layout.tp} does not divide {name}, {getattr(job, name)}"
        if job.layers % layout.pp:
            return f"pp={layout.pp} does not divide the layers, {job.layers}"
        if job.batch % (layout.dp * layout.micro_batch):
            return f"dp={layout.dp} with micro-batches of {layout.micro_batch} does not divide the batch, {job.batch}"
        if self.needed(layout) > self.machines.memory_bytes:
            return f"{self.needed(layout) / 1e9:.0f} GB are needed, more than the memory of a GPU"
        return ""
        ### END SOLUTION

    def plans(self):
        """All layouts that can run on all GPUs: a list of (seconds of a step, layout), fastest first."""
        ### BEGIN SOLUTION
        ### STUB return []  # from step 5 on
        gpus, found = self.machines.gpus, []
        sizes = [size for size in range(1, gpus + 1) if gpus % size == 0]
        for tp, pp in product(sizes, sizes):
            if gpus % (tp * pp) or self.job.kv_heads % tp or self.job.layers % pp:
                continue
            dp = gpus // (tp * pp)
            powers = [2**n for n in range(32) if self.job.batch % (dp * 2**n) == 0]
            for size, sharding, how in product(powers, (0, 1, 3) if dp > 1 else (0,), ("none", "full")):
                shape = {"tp": tp, "pp": pp, "dp": dp, "micro_batch": size, "sharding": sharding}
                layout = Layout(**shape, recompute=how, sequence_parallel=tp > 1)
                if not self.why_not(layout):
                    found.append((sum(self.time(layout).values()), layout))
        return sorted(found, key=lambda plan: plan[0])
        ### END SOLUTION

    def fit(self, runs):
        """``self.machines`` with the ``share`` that fits these runs best.

        A run has a ``job``, ``machines``, a ``layout``, and the measured ``step_s``.
        """

        ### BEGIN SOLUTION
        ### STUB return self.machines  # from step 6 on
        def error(share):
            told = [MyPlanner(run.job, replace(run.machines, share=share)).time(run.layout) for run in runs]
            return median(
                abs(sum(one.values()) / run.step_s - 1) for one, run in zip(told, runs, strict=True)
            )

        return replace(self.machines, share=min([percent / 100 for percent in range(5, 101)], key=error))
        ### END SOLUTION


# %% [markdown]
# ## Step 1: states
#
# A layer has four matrices in its attention, two in its MLP (three if it is gated), and two norms of `hidden` numbers.
# The first stage holds a table that looks tokens up, the last one a table that scores them. Biases and the last norm
# are left out. `tp` cuts every matrix, and leaves norms whole.
#
# A weight has 2 bytes, and a gradient `gradient_bytes`. The optimizer keeps a float32 copy of the weight and two
# moments. `sharding` says which of the three the ranks of `dp` share out, as in lesson 05.
#
# ### A worked example
#
# The next cell counts the numbers in the attention of one layer. The layout is for eight H100, from the runs behind the
# Ultra-Scale Playbook.

# %%
few = shown_runs("ultra-scale")
job, layout = few[0].job, few[0].layout
print(
    f"{layout}: {job.layers} layers, {job.hidden} wide, {job.heads} heads, {job.kv_heads} of keys and values"
)
print(f"queries, keys, values, output: 4 x {job.hidden}² = {4 * job.hidden**2:,} numbers in a layer")

# %%
check("11.planner_states", MyPlanner)

# %%
# hint("11.planner_states")

# %% [markdown]
# ## Step 2: activations
#
# Now add what a rank keeps for the backward pass. A layer keeps these bytes of each token of a micro-batch. Here `kv`
# is the width of the keys.
#
# | what | bytes | cut by `tp` |
# |---|---|---|
# | inputs of two norms and of two regions | 8 `hidden` | if `sequence_parallel` |
# | queries, attention's output; keys, values | 4 `hidden` + 4 `kv` | always |
# | inside of the MLP | 4 `ffn`, of a gated one 8 `ffn` | always |
# | queries and keys, rotated and in float32, only in a gated model | 6 (`hidden` + `kv`) | always |
#
# With `recompute="full"` each layer keeps its input, which is one of the four tensors in the first row. During the
# backward pass the inside of one layer is there as well, for one micro-batch. Stages run 1F1B: how many micro-batches
# does each hold? A logit takes 10 bytes, with what the loss makes from it. Logits are there for one micro-batch, and
# `tp` cuts them.
#
# Is that enough? The next cell prints what your formulas and the course's give, and what PyTorch counted.

# %% tags=["nbval-ignore-output"]
PLANNERS = {"yours": MyPlanner, "the course's": courses.MyPlanner}
planners_side_by_side(PLANNERS, few, build="11.planner")

# %%
check("11.planner_memory", MyPlanner)

# %%
# hint("11.planner_memory")

# %% [markdown]
# ## Step 3: computing
#
# A step computes on `batch` sequences. Which of them does a rank have? For each number of a matrix a token needs one
# multiplication and one addition. In attention each token meets all `seq` keys and values, also those that a mask
# removes. Backward has twice the FLOPs of forward. The last stage also multiplies by the output matrix.
#
# The rate is `share` of `peak_flops_per_s`. `tp` ranks share all products. But the host has to begin each pass of a
# layer, for which it needs `pass_s`. So no pass of a layer takes less than `pass_s`: neither forward nor backward, nor
# a forward that is done again. (The output matrix is no layer.)
#
# Stages are not equal, since the last one scores tokens. The first micro-batch goes through all stages, each in its own
# time. From then on the slowest stage sets the pace. Messages come in step 4.

# %%
check("11.planner_compute", MyPlanner)

# %%
# hint("11.planner_compute")

# %% [markdown]
# ## Step 4: links
#
# All messages of a step go around rings, or from stage to stage.
#
# - **A ring** of n ranks gathers, or scatters sums, in n - 1 rounds. In each round it sends an n-th of the bytes, after
#   `latency_s`. An all-reduce does both, one after the other.
# - **Its rate.** Look at the group of rank 0. If the group is on one node, the rate is `inside_bytes_per_s`. Otherwise
#   each of its ranks on the node brings a port of `network_bits_per_s`. The ring still passes through the node, so its
#   rate is never above `inside_bytes_per_s`.
# - **"tensor"**: a layer has two all-reduces in each pass, of a micro-batch's activations (2 bytes a number). A pass
#   that is done again has them, too. Sequence parallelism sends as much. Every slot of the pipeline has these messages.
# - **"pipeline"**: every slot has a message each way, of the same activations. Under sequence parallelism a rank has
#   its part of them. The message goes through one port, or over the link inside a node if all stages are on one.
# - **"data"**: what ranks of the first stage send. Without sharding it is an all-reduce of the gradients, once a step.
#   Sharding 1 scatters their sums, and gathers the weights after the optimizer. Sharding 3 gathers the weights twice
#   for each micro-batch, and scatters the sums once.
# - **What hides**: take the shorter of two times, sending and the computing that can hide it. Its share `hidden` hides.
#   Gradients can hide behind the backward pass of the last micro-batch through the stage's layers, without what is
#   computed again. All that sharding 3 sends can hide behind all slots of the stage.
#
# Here is one ring by hand: 1 GB of gradients, on two nodes with 8 ranks each, with ports of 200 Gbit/s.

# %% tags=["computed-time"]
bytes_per_s = 8 * 200e9 / 8  # 8 ports, 8 bits in a byte
print(
    f"{bytes_per_s / 1e9:.0f} GB/s; 2 x 15 rounds of 1/16 GB: {2 * 15 / 16 * 1e9 / bytes_per_s * 1e3:.1f} ms"
)

# %% tags=["nbval-ignore-output"]
a100 = shown_runs("vtrain-multi")
planners_side_by_side(PLANNERS, a100[::5], build="11.planner")

# %% [markdown]
# The course's formulas predict too little time for five of the six, since `share` is 100 %, as on the data sheet. Step
# 6 changes that. For one layout they predict too much: which of its parts is on a link whose speed was guessed?

# %%
check("11.planner_links", MyPlanner)

# %%
# hint("11.planner_links")

# %% [markdown]
# ## Step 5: the layouts that fit
#
# `plans` lists every layout that can run, and has
#
# - `tp`, `pp` and `dp` whose product is `gpus`. `tp` divides `heads`, `kv_heads` and `ffn`; `pp` divides `layers`;
# - a micro-batch of 1, 2, 4, 8, ... sequences, as far as `dp` times that divides `batch`;
# - `sharding` 0, 1 or 3, or 0 alone if `dp` is 1; `recompute` "none" or "full"; `sequence_parallel` if `tp` is above 1;
# - no more bytes on the fullest rank than the memory has, `reserve_bytes` among them.
#
# The check has a job on 1,024 GPUs. All its cases together have 40 seconds. What can you throw out before you count
# bytes?

# %%
check("11.planner_layouts", MyPlanner)

# %%
# hint("11.planner_layouts")

# %% [markdown]
# ## Step 6: runs of others
#
# No data sheet says how large `share` is. `fit` gets some runs that others measured, and returns the machines with a
# better share. Try it on runs that this course has shown: 26 layouts of one job on 64 A100, in two halves.

# %% tags=["computed-time"]
given, others = a100[::2], a100[1::2]


def errors(planner, machines):
    """Errors on the runs of the other half."""
    told = [sum(planner(run.job, machines).time(run.layout).values()) for run in others]
    return [step_s / run.step_s - 1 for step_s, run in zip(told, others, strict=True)]


for name, planner in PLANNERS.items():
    try:
        machines = planner(others[0].job, others[0].machines).fit(given)
        found = errors(planner, machines)
    except NotImplementedError:
        continue
    near = sum(abs(error) <= 0.3 for error in found)
    print(
        f"{name}: share {machines.share:.2f}, median {median(found):+.0%}, {near} of {len(found)} within 30 %"
    )

# %% [markdown]
# The check does the same with runs that no page shows: 30 on up to 8 A100, and 23 on up to 128 H100. In each cluster
# your mean error may be 25 %, and 65 % of the runs have to lie within 30 %. The formulas of step 4 are well within
# these limits. The check also plans jobs that nobody ran, with twice the batch or twice the layers.

# %%
check("11.planner_runs", MyPlanner)

# %%
# hint("11.planner_runs")

# %% [markdown]
# ## Step 7: awkward jobs
#
# Which of these does your class get wrong without an error?
#
# - grouped-query attention, with `kv_heads` fewer than `heads`;
# - tied tables: one matrix where one stage has both, and a copy on each stage where two have them;
# - nodes that are not full, as with 12 GPUs in nodes of 8. A ring has as many ports as it has ranks on the node with
#   the fewest of them;
# - one GPU; a batch that few numbers divide; a model that fits nowhere. Then `plans` is an empty list.
#
# And `why_not` says why a layout cannot run, in a sentence. The sentence has the word `batch`, `layers`, `heads` or
# `ffn` if that does not divide, and `memory` if there is too little. For a layout that can run, `why_not` returns "".

# %%
check("11.planner_awkward", MyPlanner)

# %%
# hint("11.planner_awkward")

# %% [markdown]
# ## Use it: a thousand GPUs
#
# (`mine.MyPlanner` is the version of your planner that has passed step 6. Until then the course's own stands in.) The
# job is Llama 3 70B on 1,024 H100.

# %% tags=["nbval-ignore-output"]
own_planner = mine.MyPlanner
whose = "your planner" if mine.if_passed("MyPlanner") else "the stand-in"

# %%
big, cluster = Job(decoder("llama-3-70b"), seq=8192, batch=1024), cluster_of("8xh100", gpus=1024)
began_s = time.process_time()
ranked = own_planner(planned_job(big, gradient_bytes=6), machines_of(cluster, Constants())).plans()
is_quick = time.process_time() - began_s < 60
print(f"{len(ranked)} layouts fit; in less than a minute: {is_quick}")

# %% tags=["computed-time"]
for step_s, layout in ranked[:5]:
    print(f"{step_s:5.1f} s a step: {layout}")

# %% [markdown]
# The course's own planner knows more: norms that wait for memory, the loss, interleaved stages, trees between nodes.
# What does it predict for the same layouts, from your fastest to your slowest?

# %% tags=["nbval-ignore-output"]
listed = list_layouts(big, cluster, Constants(), Software(), layouts=[layout for _, layout in ranked])
theirs = {option.layout: option.step_s for option in listed.options}
both = [(step_s, theirs[layout]) for step_s, layout in ranked if layout in theirs]
places = list(range(1, len(both) + 1))
lines(
    {
        whose: (places, [one for one, _ in both]),
        "the course's planner": (places, [other for _, other in both]),
    },
    x_label=f"layouts, fastest first by {whose}",
    y_label="seconds a step",
    title=f"{len(both)} layouts that fit by both, Llama 3 70B on 1,024 H100",
)

# %% [markdown]
# ## Use it: a job of the capstone
#
# Lesson 14 gives you small jobs with slow links. The next cells write one of them as your planner's `job` and
# `machines`, from a seed that lesson 14 does not use. Numbers have 4 bytes there, so the links get half their speed.
# Computing is paced, so the peak is the FLOP/s of that pace.

# %%
small = job_for(level=1, seed=5)
config, nodes = small.job.config, small.job.nodes
sizes = {"layers": config.num_layers, "hidden": config.width, "heads": config.num_heads}
sizes |= {"kv_heads": config.kv_heads, "ffn": config.mlp_hidden, "vocab": config.vocab_size}
tiny = PlannedJob(**sizes, seq=config.context_length, batch=small.job.batch_size)

# %%
flops = tiny.batch * tiny.seq * tiny.layers * (24 * tiny.hidden**2 + 4 * tiny.seq * tiny.hidden)
rates = {
    "inside_bytes_per_s": nodes.within.bandwidth_bytes_per_s / 2,
    "network_bits_per_s": 8 * nodes.between.bandwidth_bytes_per_s / 2,
    "peak_flops_per_s": flops / small.job.forward_s,
}
shares = {
    "share": 1.0,
    "hidden": 0.5,
    "pass_s": 0.0,
    "latency_s": nodes.between.latency_s,
    "reserve_bytes": 0.0,
}
places = {"gpus": small.ranks, "node_size": nodes.ranks_per_node, "memory_bytes": small.memory_bytes}
slow = Machines(**places, **rates, **shares)


# %%
def layout_of(mesh):
    """The same cut as a layout, with two micro-batches for each stage; None if the axes are in another order."""
    size = dict(zip(mesh.axes, mesh.shape, strict=True))
    if list(size) != [axis for axis in ("pp", "dp_replicate", "dp_shard", "tp") if axis in size]:
        return None
    pp, tp = size.get("pp", 1), size.get("tp", 1)
    copies, shards = size.get("dp_replicate", 1), size.get("dp_shard", 1)
    if min(copies, shards) > 1:
        return None
    sequences = max(1, tiny.batch // (copies * shards * (2 * pp if pp > 1 else 1)))
    return Layout(tp=tp, pp=pp, dp=copies * shards, micro_batch=sequences, sharding=3 if shards > 1 else 0)


# %% tags=["computed-time"]
print(f"room on a rank {small.memory_bytes / 1e6:.1f} MB; in each pair first {whose}, then lesson 14's")
mine_of_it = own_planner(tiny, slow)
for plan in plans(small):
    if (layout := layout_of(plan.mesh)) is None:
        continue
    needed = max(sum(mine_of_it.memory(layout, stage).values()) for stage in range(layout.pp))
    step_s = sum(mine_of_it.time(layout).values())
    print(
        f"{plan.mesh!s:<24} {needed / 1e6:5.1f} {plan.peak_bytes / 1e6:5.1f} MB "
        f"{step_s * 1e3:6.0f} {plan.played_s * 1e3:6.0f} ms"
    )

# %% [markdown]
# Lesson 14's model follows every message. Your planner adds up rings. Where do the two differ? Look for what hides: a
# pipeline's messages, and the gathers of shards.
#
# ## How far you are

# %% tags=["nbval-ignore-output"]
build_progress("11.planner")

# %% [markdown]
# ## What you can do now
#
# You have written what `./course plan` does, and what every framework's own estimator does: memory first, then seconds,
# then a list. You have found one constant from runs, and know your error on others.
#
# Your next terms could be those that are left out. Norms and activation functions wait for memory and not for products.
# Stages can interleave. An all-reduce between nodes can use a tree. [Part 4](11d_runs_of_others.ipynb) shows how far
# off a planner with these terms still is, by kind of layout.
