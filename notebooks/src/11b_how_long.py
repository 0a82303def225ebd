# %% [markdown]
# # 11b · Choosing: how long does it take?
#
# A planner adds up terms, and ranks thousands of layouts by the sum. You test the terms of its formula with runs that
# others measured, and write two of them. You find out how far to trust the layout that it puts first. Then you bet on a
# layout, and three plans run.
#
# **2 × 60 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 2 of 5 · [1: does it fit?](11a_does_it_fit.ipynb) · [3: six sick runs](11c_sick_runs.ipynb) · [4: runs of
# others, and when not to](11d_runs_of_others.ipynb) · [5: build a planner](11e_build_planner.ipynb)
#
# This part builds on [02a: what travels](02a_collectives.ipynb), [04a: one rule, sent in
# buckets](04a_distributed_data_parallel.ipynb), [07a: micro-batches, GPipe and 1F1B](07a_pipeline_parallel.ipynb),
# [08b: a transformer, cut](08b_split_transformer.ipynb) and [09a: places and links](09a_meshes.ipynb). Have you done
# them? `from course_lib import start; start("11b")` says whether you have.
#
# At the end you can
#
# - name the parts of a step's time, and say which of them wait for a link;
# - test one term of a formula by two runs that differ in one thing;
# - say how far off a planner was for one kind of layouts, and which of its layouts are a tie;
# - say how much a wrong layout costs, and when a habit of choosing no longer fits.
#
# From earlier lessons you need a ring all-reduce ([02](02a_collectives.ipynb)), and buckets of gradients that are sent
# during the backward pass ([04](04a_distributed_data_parallel.ipynb)). You need the bubble of a pipeline
# ([07](07a_pipeline_parallel.ipynb)), the sums in every split layer ([08](08b_split_transformer.ipynb)), and axes with
# their order ([09](09a_meshes.ipynb)).

# %%
from course_lib import Link, ask, check, hint, plan, reveal, shared_cluster
from course_lib.cost import Cut, NodeShape, ScaledJob
from course_lib.layouts import Mesh
from course_lib.meter import bytes_text
from course_lib.models import TransformerConfig
from course_lib.parallel.data import paced_step_s
from course_lib.parallel.mesh import regret, run_plan
from course_lib.plot import gantt, lines

from dataclasses import asdict, replace
from statistics import median

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## A sum, tested term by term
#
# <!-- word: planner | also: layout search, auto-parallelism -->
# A **planner** computes the memory and the time of every layout before any of them runs, and sorts those that fit by
# time. Its time is a sum of such parts:
#
# ![A step in two stages, as bars over time: forward and backward with thin stripes for the sums of tp, arrows for
# messages between stages, gaps, and gradients at the end, each with its name](../assets/11_parts.png)
#
# Its constants are fitted to published runs. They say which share of a data sheet's numbers a cluster reaches. Do not
# trust the planner yet. Take two published runs that differ in one thing, subtract their times, and compare the
# difference with the planner's term.
#
# ### The bubble
#
# Here are two runs from a paper on Megatron-LM of 2021. The model has GPT-3's size, a step 1,536 sequences, and the
# GPUs are A100. In the names, `tp`, `pp` and `dp` are sizes of axes, and `mb` is the number of sequences in a
# micro-batch. With `full`, backward computes all layers again.

# %% tags=["computed-time"]
axes_384, axes_1536 = plan.replayed_runs("megatron-2021-t2-ptd")
print(f"{axes_384.measured_s:5.1f} s a step: {axes_384.name}")
print(f"    ? s a step: {axes_1536.name}")
for run in (axes_384, axes_1536):
    print(f"{run.gpus:>5} GPUs: {run.of.run.layout.num_micro_batches(1536)} micro-batches for each pipeline")

# %% [markdown]
# The second run has four times as many pipelines, and nothing else is different. **Count only the slots of the
# pipeline. By how many per cent is the second step longer than a quarter of the first?** (Lesson 07 counts the slots of
# m micro-batches and p stages.)

# %%
### BEGIN SOLUTION
### STUB ask("11.slots")
ask("11.slots").commit(2.9)  # "11 slots beside 384"
### END SOLUTION

# %% tags=["computed-time"]
reveal("11.slots", axes_384, axes_1536)

# %% [markdown]
# ### The data axis
#
# The authors of that paper also ran the same job with a data axis alone: ZeRO-3 over all GPUs.

# %% tags=["computed-time"]
zero_384, zero_1536 = plan.replayed_runs("megatron-2021-t2-zero3")
print(f"{zero_384.measured_s:5.1f} s a step: {zero_384.name}")
print(f"    ? s a step: {zero_1536.name}")

# %% [markdown]
# The second run has four times as many ranks, and each has one sequence in place of four. **How many seconds does its
# step take?**

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ask("11.fourfold")
ask("11.fourfold").commit(23)  # "a quarter, and a little for the network"
### END SOLUTION

# %% tags=["computed-time"]
reveal("11.fourfold", zero_384, zero_1536, (axes_384, axes_1536))

# %% [markdown]
# Now subtract. In both runs each rank has one micro-batch: of four sequences in the first, of one in the second. So
# suppose that a step takes *a* seconds for each sequence, and *b* more for any number of sequences. Two runs give two
# equations for the two unknowns.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB a_sequence_s, whatever_s = 0.0, 0.0  # compute both from zero_384.measured_s and zero_1536.measured_s
a_sequence_s = (zero_384.measured_s - zero_1536.measured_s) / (4 - 1)
whatever_s = zero_1536.measured_s - a_sequence_s
### END SOLUTION
print(
    f"by subtraction: {a_sequence_s:.1f} s for each sequence, and {whatever_s:.1f} s for any number of them"
)
print(f"at the data sheet's full rate a sequence takes {zero_1536.at_peak_s:.1f} s")
for run in (zero_384, zero_1536):
    data_s = run.elsewhere_parts.data_s
    print(
        f"{run.gpus:>5} GPUs: the planner predicts {data_s:.1f} s for data, of {run.measured_s:.1f} s measured"
    )

# %% [markdown]
# No GPU is faster than its data sheet, so something in the subtraction is wrong. It assumes that *a* and *b* are equal
# in both runs. **Which of the two is not?** Keep your answer: your own term will decide it below.
#
# (Here and below the planner has constants of *other* clusters: nothing was fitted to these runs. The planner has seen
# no run of your own cluster either.)
#
# (The two runs are of 2021. Since then ZeRO-3 gathers in fewer and larger calls, and ahead of use; see lesson 05. By
# default it still sends as many bytes. [ZeRO++](https://arxiv.org/abs/2306.10209) of 2023 sends fewer, if you switch it
# on. It sends weights in int8 and gradients in int4, and keeps a second copy of the weights in each node.)
#
# ### Two more terms
#
# vTrain is a simulator of training. Its authors measured 26 layouts of one model on 64 A100 GPUs, all with the same
# batch. The next cell compares three pairs. In the first two a pipeline of two stages gets micro-batches of half the
# size. In the third a tensor axis of 4 becomes one of 8, within a machine. **Write down for each pair: which part of
# the step grows, which part shrinks, and does the whole step become longer or shorter?**


# %% tags=["computed-time"]
def compare_two(one, other):
    """Prints the difference of two steps: measured, predicted by the planner, and predicted by part."""
    planned = {
        name: getattr(other.elsewhere_parts, name) - s for name, s in asdict(one.elsewhere_parts).items()
    }
    print(f"{one.of.run.layout}  ->  {other.of.run.layout}")
    print(
        f"    measured {other.measured_s - one.measured_s:+.2f} s, predicted {sum(planned.values()):+.2f} s:",
        end=" ",
    )
    large = sorted((part for part in planned.items() if abs(part[1]) > 0.02), key=lambda part: -abs(part[1]))
    print(", ".join(f"{name.removesuffix('_s')} {seconds:+.2f}" for name, seconds in large))


of_layout = {str(run.of.run.layout): run for run in plan.replayed_runs("vtrain-multi")}
compare_two(of_layout["pp2 dp32 mb8 full"], of_layout["pp2 dp32 mb4 full"])
compare_two(of_layout["pp2 dp32 mb4 full"], of_layout["pp2 dp32 mb2 full"])
compare_two(of_layout["tp4 dp16 mb8 full"], of_layout["tp8 dp8 mb8 full"])

# %% [markdown]
# If the measured and the predicted difference are not equal, a term is wrong, or one is missing. Look for the pair for
# which the planner is nearest.
#
# ## Which messages hide
#
# Most parts add up: a layer waits for its sums, a stage for its message. Gradients are different, since they can be
# sent during the backward pass. For how long do ranks still wait for them?
#
# Take four ranks, each with a copy of a model of eight layers. Its gradients, 1 MiB, travel in four equal buckets, each
# as soon as backward has filled it. (Computing is paced, the link is shaped.)

# %% tags=["computed-time"]
FORWARD_S, BACKWARD_S, BUCKETS = 0.1, 0.2, 4
gradient_bytes, link = 2**20, Link(0.0, 6.55e6)
# rounds of a ring, each with a quarter of the bytes
on_the_link_s = 2 * (4 - 1) * link.time_s(gradient_bytes / 4)
print(f"backward takes {BACKWARD_S * 1e3:.0f} ms, and the gradients {on_the_link_s * 1e3:.0f} ms on the link")

# %% [markdown]
# **How many milliseconds pass between the end of the backward pass and the end of the step?**

# %% tags=["nbval-ignore-output"]
### BEGIN SOLUTION
### STUB ask("11.hidden")
ask("11.hidden").commit(40)  # "240 - 200"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
layers = {
    "num_layers": 8,
    "layer_bytes": gradient_bytes // 8,
    "forward_s": FORWARD_S,
    "backward_s": BACKWARD_S,
}
step_of_buckets_s = paced_step_s(
    four, bucket_size_bytes=gradient_bytes // BUCKETS, link=link, **layers, num_steps=2
)
waited_s = step_of_buckets_s - FORWARD_S - BACKWARD_S
reveal("11.hidden", waited_s * 1e3, BACKWARD_S * 1e3, on_the_link_s * 1e3, BUCKETS)

# %% [markdown]
# ## Build: the term of the data axis
#
# The term needs three things: bytes, calls, and what hides. Write it for copies (sharding 0), for optimizer states that
# are shared out (1), and for weights that are shared out (3). Stage 2 is left out. The function gets everything in one
# object, `sizes`:
#
# - `numbers` is how many weights a rank has while all of them are whole, with 2 bytes each. A gradient takes
#   `gradient_bytes`.
# - `group.all_gather_s(size_bytes)` gives the seconds until all ranks of the axis have a buffer of this size. A
#   reduce-scatter of the buffer takes as long. `group.all_reduce_s(size_bytes)` gives about twice that.
# - `computing_s` is the time that a rank computes for one micro-batch, forward and backward, in all its layers.
#   Backward is two thirds of it.
# - With `ahead`, weights are gathered before they are needed, so that they can hide. Without it a layer waits for them.


# %%
def data_term_s(sizes, hidden):
    """Seconds that a step waits for its data axis: the time of its messages, less what hides.

    ``sizes.sharding`` 0: the gradients are all-reduced once a step, in ``buckets`` equal calls.
    1: they are reduce-scattered in as many calls, and all weights gathered in one, once a step.
    3: for each of ``micro_batches`` all weights are gathered ``gathers`` times, and all gradients
    reduce-scattered once; each of these in ``calls`` equal calls.

    Gradients can hide, and with ``sizes.ahead`` weights too: behind the backward pass of one
    micro-batch, or with sharding 3 behind all computing of the step. Take the shorter of two times:
    of the messages that can hide, and of the computing that can hide them. Its share ``hidden`` hides.
    """
    ### BEGIN SOLUTION
    group, gradient_bytes = sizes.group, sizes.gradient_bytes * sizes.numbers
    if sizes.sharding == 3:
        times = sizes.micro_batches * sizes.calls
        gradients_s = times * group.all_gather_s(gradient_bytes / sizes.calls)
        weights_s = times * sizes.gathers * group.all_gather_s(2 * sizes.numbers / sizes.calls)
        window_s = sizes.micro_batches * sizes.computing_s
    else:
        call_s = group.all_reduce_s if sizes.sharding == 0 else group.all_gather_s
        gradients_s = sizes.buckets * call_s(gradient_bytes / sizes.buckets)
        weights_s = group.all_gather_s(2 * sizes.numbers) if sizes.sharding == 1 else 0.0
        window_s = 2 / 3 * sizes.computing_s
    can_hide_s = gradients_s + (weights_s if sizes.ahead else 0.0)
    return gradients_s + weights_s - hidden * min(can_hide_s, window_s)
    ### END SOLUTION


# %%
data_verdict = check("11.data", data_term_s)

# %%
# hint("11.data")

# %% [markdown]
# First the open question: is *a* or *b* not equal in both runs? The next cell computes by your term how long the
# messages of the data axis take in each run, if nothing hides. (Until your term has passed, the course's own stands
# in.)

# %% tags=["computed-time"]
from course_lib.plan import waits_s as the_courses_term

my_term_s = data_term_s if data_verdict.passed else the_courses_term
for run in (zero_384, zero_1536):
    sizes = run.elsewhere_sizes
    sent_s, way_s = my_term_s(sizes, 0.0), sizes.group.hop_s * (sizes.group.size - 1)
    print(
        f"{run.gpus:>5} GPUs: {sent_s:.1f} s, in calls whose first byte takes {1e3 * way_s:.1f} ms round the ring"
    )

# %% [markdown]
# The bytes are the same in both runs, and the ring is four times as long. So *b* is not equal in both, and the
# subtraction counted a part of it as computing. A term by subtraction is right only if all else is really equal.
#
# ### Tested on all runs of its kind
#
# 18 published runs have weights that are sharded over several machines. The next cell puts your term in the place of
# the planner's. In the first column as much hides as the planner assumes. In the second column nothing hides, and in
# the third everything. The last column leaves out your term. The time of copies to and from messages is not in your
# term, and stays in every column.

# %% tags=["computed-time"]
family = [run for run in plan.replayed_runs() if run.kind == "weights sharded over nodes"]
ways = {
    "as planned": lambda sizes: my_term_s(sizes, sizes.hiding_share),
    "nothing hides": lambda sizes: my_term_s(sizes, 0.0),
    "all hides": lambda sizes: my_term_s(sizes, 1.0),
    "no term": lambda sizes: 0.0,
}
errors = {name: [] for name in ways}
print("published " + "".join(f"{name:>15}" for name in ways) + "   (+ is too long, - too short)")
for run in family:
    for name, term_s in ways.items():
        step_s = run.elsewhere_sizes.rest_s + term_s(run.elsewhere_sizes)
        errors[name].append(step_s / run.measured_s - 1)
    print(
        f"{run.measured_s:7.1f} s "
        + "".join(f"{errors[name][-1]:+15.0%}" for name in ways)
        + f"   {run.name}"
    )

# %%
for name, found in errors.items():
    sizes = [abs(error) for error in found]
    print(f"{name:<14} off by {median(sizes):4.0%} at the median, by {max(sizes):4.0%} at most")

# %% [markdown]
# A list of predictions alone does not show how far this term may be wrong, and in which direction. Now you know this
# error for one kind of runs.

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above this
# one. In the second sitting you find out how exact the planner's recommendation is, and write the time of a whole step.

# %% [markdown]
# ## A recommendation, and its band
#
# Take Llama 3 with 70 billion parameters, on 16 machines with 8 H100 GPUs each. A step has 512 sequences of 8192
# tokens.

# %% tags=["computed-time"]
job = plan.Job(plan.decoder("llama-3-70b"), seq=8192, batch=512)
cluster = plan.cluster_of("8xh100", nodes=16)
rates = cluster.peak_flops_per_s, cluster.memory_bandwidth_bytes_per_s
constants = plan.typical_of_gpu(*rates)  # the share of a data sheet's numbers that runs on such GPUs reach
software = plan.Software()
listing = plan.list_layouts(job, cluster, constants, software)
best = listing.best
bands = plan.error_bands("elsewhere")
print(f"{len(listing.options):,} layouts fit; the first: {best.layout}")
print(
    f"{best.step_s:.1f} s a step; the band, from 8 in 10 runs of its kind: {plan.step_band(listing, best, bands)}"
)

# %% [markdown]
# (`cp` would cut sequences, as in lesson 10; `v` is the number of virtual stages of a rank, `sp` is sequence
# parallelism. `zero1` shares out optimizer states, `zero3` gradients and weights as well. `selective` computes every
# second product again.)
#
# The last numbers are the **band** of the prediction. It holds 8 in 10 published runs of the same kind, which the
# planner had not seen. Two layouts of one job are a *tie* if their predicted steps are so near each other that their
# order means nothing. The next cell prints how near that is, by published runs:

# %%
print(f"of pairs predicted less than {bands.tie - 1:.0%} apart, one in ten ran in the other order")

# %% [markdown]
# **How many of the layouts that fit are a tie with the first one?**

# %%
### BEGIN SOLUTION
### STUB ask("11.near")
ask("11.near").commit(3)  # "there is a best one, and one or two close to it"
### END SOLUTION

# %% tags=["computed-time"]
reveal("11.near", [option.step_s for option in listing.options], bands.tie)

# %% [markdown]
# Many people would choose another layout, by a habit: `tp` fills a machine, `pp` goes from machine to machine, and `dp`
# takes the rest. The next cell prints the best layout of that kind beside the best of all, each with its band and its
# parts.


# %%
def print_parts(option):
    """Where a step's time goes, largest part first."""
    kind, band = bands.judged_kind(cluster, option.layout), bands.time_band(cluster, option.layout)
    print(f"{option.layout}: {option.step_s:.1f} s a step, place {listing.options.index(option) + 1}")
    print(f"    8 in 10 of {band.runs} runs ({kind}): {plan.step_band(listing, option, bands)}")
    for name, time_s in sorted(asdict(option.step).items(), key=lambda part: -part[1]):
        share = time_s / option.step_s
        if share >= 0.001:
            print(f"    {name.removesuffix('_s'):<10} {share:6.1%} {'#' * round(40 * share)}")


# %% tags=["computed-time"]
node = cluster.node_size
by_habit = next(
    one for one in listing.options if one.layout.tp == node and one.layout.pp > 1 and one.layout.cp == 1
)
print_parts(best)
print_parts(by_habit)
print(f"the habit takes {by_habit.step_s / best.step_s - 1:.0%} more; up to {bands.tie - 1:.0%} is a tie")

# %% [markdown]
# (`output` is the scores for all tokens of the vocabulary, and the loss.) Each layout has the band of its own kind.
# Compare the two bands: if they overlap, they do not decide which layout is faster.
#
# Now change the planner's constants, and watch the order. Each line changes one constant, within the range that was
# found for clusters. It prints which layout then comes first, and how much longer the habit's layout takes. Change a
# line, or add one.

# %% tags=["computed-time"]
turned = [{}, {"hidden_share": 0.02}, {"hidden_share": 1.0}, {"outside_share": 0.15}, {"matmul_share": 0.85}]
for changed in turned:
    other = plan.list_layouts(job, cluster, replace(constants, **changed), software)
    step_of = {one.layout: one.step_s for one in other.options}
    behind = step_of[by_habit.layout] / other.best.step_s - 1
    how = ", ".join(f"{name} {value}" for name, value in changed.items()) or "as it was"
    print(f"{how:<20} first {other.best.layout!s:<28} {other.best.step_s:5.1f} s; the habit {behind:+.0%}")

# %% [markdown]
# If another value of a constant changes the first place, do not rely on the first place. So take a few of the tied
# layouts that *differ*, and run them. You do that next, with a job that is small enough for this machine.
#
# ## Build: a whole step in fifteen lines
#
# You have met every part of a step. Now put them together, for copies of a model (sharding 0). Three dataclasses are
# given:
#
# - `work` has `layers`, and `forward_s`, the time of one layer for the whole batch on one device. Its
#   `activation_bytes` are the bytes that a layer hands to the next for the whole batch. Its `gradient_bytes` are those
#   of all layers. Backward computes twice as long as forward.
# - `cut` has the sizes of axes, `pp`, `dp` and `tp`. It also has `micro_batches`, their number in each pipeline, and
#   `buckets`.
# - `nodes`: `nodes.link(size, stride)` is the link of an axis of `size` ranks whose numbers are `stride` apart. It is
#   the link within a node if all of them are on one node, else the one between nodes. `link.time_s(size_bytes)` is the
#   time of one message.
#
# Ranks are numbered along `tp` first, then along `dp`, then along `pp`. With `tp=2` and `dp=2` ranks 0 and 1 share a
# layer, and ranks 0 and 2 are copies. A rank has its share of everything. The batch is divided by `dp` and by the
# micro-batches, each layer by `tp`, and the layers by `pp`. All of these divide evenly.
#
# Here is one case by hand: two stages of two layers on one node, with three micro-batches. A layer's forward takes 0.3
# s for the whole batch, and hands on 12 MB. So for one micro-batch it takes 0.1 s, and hands on 4 MB.

# %% tags=["computed-time"]
slot_s = 2 * (0.1 + 0.2) + 2 * Link(0.001, 100e6).time_s(4e6)  # two layers; a message forward, and one back
print(f"a slot takes {slot_s:.2f} s, and the {3 + 2 - 1} slots of the step {(3 + 2 - 1) * slot_s:.2f} s")


# %%
def step_s(work, cut, nodes):
    """Seconds of a step: one slot after the other, then what is left of the gradients.

    Slot: one micro-batch on one stage, forward and backward. In each of the two passes every layer
    has two ring all-reduces along tp, of the micro-batch's activations. If there are stages, a slot
    has two messages of these activations, one each way; they do not hide.
    A step has as many slots as a pipeline takes, with its bubble.

    Gradients: a rank averages its own along dp by ring all-reduces, in equal buckets. The backward
    pass of the last micro-batch, with its all-reduces along tp, fills them at an even pace; the
    link sends one after the other.

    A ring of n ranks has 2(n - 1) rounds; in each a rank sends an n-th of the bytes.
    """
    ### BEGIN SOLUTION
    parts = cut.dp * cut.micro_batches
    part_bytes = work.activation_bytes / parts
    computing_s = work.forward_s / parts / cut.tp
    sums_s = 4 * (cut.tp - 1) * nodes.link(cut.tp, 1).time_s(part_bytes / cut.tp)  # two all-reduces
    forward_s = work.layers / cut.pp * (computing_s + sums_s)
    backward_s = work.layers / cut.pp * (2 * computing_s + sums_s)
    hop_s = nodes.link(cut.pp, cut.tp * cut.dp).time_s(part_bytes) if cut.pp > 1 else 0.0
    slots = cut.micro_batches + cut.pp - 1
    bucket_bytes = work.gradient_bytes / cut.pp / cut.tp / cut.buckets
    bucket_s = 2 * (cut.dp - 1) * nodes.link(cut.dp, cut.tp).time_s(bucket_bytes / cut.dp)
    late_s = max(bucket_s, cut.buckets * bucket_s - (1 - 1 / cut.buckets) * backward_s)
    return slots * (forward_s + backward_s + 2 * hop_s) + late_s
    ### END SOLUTION


# %%
step_verdict = check("11.step", step_s)

# %%
# hint("11.step")

# %% [markdown]
# ## The bet
#
# Now take a job that can run here: a transformer of four layers, 32 sequences, and four ranks on two nodes of two.
# Links are shaped: 20 MB/s within a node, and 2 MB/s for each rank between nodes. The computing is paced. One device
# would take 720 ms, 240 ms of them forward, and every plan shares this time evenly among its ranks. Messages, ranks and
# memory are real.
#
# ![Two nodes with two ranks each, thick lines within the nodes and thin ones between them, beside a list of seven plans
# with a box to tick for each](../assets/11_bet.png)
#
# In a plan's name the last axis is the innermost, as in lesson 09: with `pp=2 tp=2` the ranks of `tp` share a node.
# First memory decides: a rank has room for 2,000,000 bytes of weights, gradients and optimizer states.

# %%
from course_lib.cost import layout_step_s as the_courses_step

my_step_s = step_s if step_verdict.passed else the_courses_step
config = TransformerConfig(vocab_size=64, context_length=16, num_layers=4, width=64, num_heads=4)
pairs = NodeShape(2, within=Link(0.0, 20e6), between=Link(0.0, 2e6))
scaled = ScaledJob(config=config, batch_size=32, forward_s=0.24, nodes=pairs, memory_bytes=2e6)
PLANS = [{"dp_replicate": 4}, {"dp_shard": 4}, {"tp": 4}, {"pp": 4}]
PLANS += [{"dp_replicate": 2, "tp": 2}, {"pp": 2, "dp_replicate": 2}, {"pp": 2, "tp": 2}]
plans = {str(mesh): mesh for mesh in (Mesh.of(**sizes) for sizes in PLANS)}
for name, mesh in plans.items():
    print(f"{name:<20} {bytes_text(scaled.state_bytes(mesh)):>8} of states, fits: {scaled.fits(mesh)}")
print(
    f"room on a rank {bytes_text(scaled.memory_bytes)}; all gradients {bytes_text(scaled.work.gradient_bytes)}"
)
print(f"activations between two layers, for the whole batch {bytes_text(scaled.work.activation_bytes)}")

# %% [markdown]
# **Which plan has the shortest step?** A pipeline has two micro-batches for each of its stages, and gradients travel in
# one bucket. Compute the steps on paper, or by your formula: `my_step_s(scaled.work, Cut(...), pairs)`. (Until your
# formula has passed, the course's own stands in.)

# %%
### BEGIN SOLUTION
### STUB bet = ask("11.bet")
### STUB bet
bet = ask("11.bet")
bet.commit("dp_replicate=2 tp=2")  # "tensor parallelism within a node, data parallelism between nodes"
### END SOLUTION

# %% [markdown]
# The next cell prints the table that a planner would show. It has times by your formula, and times that the cost model
# of lesson 09 *plays*. When it plays a step, each message of each rank waits for its turn on the link.

# %% tags=["computed-time"]
fitting = {name: mesh for name, mesh in plans.items() if scaled.fits(mesh)}
played = {name: scaled.played(mesh) for name, mesh in fitting.items()}
by_table = sorted(fitting, key=lambda name: played[name].step_s)
for name in by_table:
    formula_s = my_step_s(scaled.work, scaled.cut(fitting[name]), pairs)
    print(f"{name:<20} by formula {formula_s * 1e3:5.0f} ms, played {played[name].step_s * 1e3:5.0f} ms")

# %% [markdown]
# In the formula no message of a pipeline hides. In truth some hide: while a message travels, a stage computes another
# micro-batch. And the formula counts `dp_shard` as if it were copies. Is the formula good enough for the order of the
# plans? Look which plans have another place by the formula than when played.
#
# <!-- word: regret | sentences: 2 -->
# Now three plans run: your bet, and the fastest plans of the table. The **regret** of a choice says by how much it is
# worse than the best choice that was possible. A step of 300 ms, where 200 ms were possible, is a regret of 50 %.


# %%
def run_beside(bet, job, played, count, num_steps):
    """Runs ``count`` plans: the bet, and the fastest by the model. Played times are in brackets."""
    by_model = sorted(played, key=lambda name: played[name].step_s)
    chosen = [name for name in dict.fromkeys([bet, *by_model]) if name in played][:count]
    runs = {name: run_plan(four, job, fitting[name], num_steps=num_steps) for name in chosen}
    times_s = {name: run.step_s for name, run in runs.items()}
    for name, run in runs.items():
        print(
            f"{name}: {run.step_s * 1e3:.0f} ms ({played[name].step_s * 1e3:.0f}), {bytes_text(run.state_bytes)} held"
        )
        for axis, time_s in run.waited_s.items():
            print(
                f"    a rank waits for {axis:<12} {time_s * 1e3:4.0f} ms ({played[name].waited_s[axis] * 1e3:.0f})"
            )
        print(f"    regret {regret(times_s, name):.0%}")
    return runs, times_s


# %% tags=["nbval-ignore-output"]
runs, times_s = run_beside(bet.value, scaled, played, count=3, num_steps=2)
errors = [time_s / played[name].step_s - 1 for name, time_s in times_s.items()]
print(f"measured compared with played: {median(errors):+.0%} at the median")
reveal("11.bet", times_s, played)

# %% [markdown]
# The next pictures show a step of the slowest of the three plans, and then one of the fastest:

# %% tags=["nbval-ignore-output"]
gantt(runs[max(times_s, key=times_s.get)].timeline)

# %% tags=["nbval-ignore-output"]
gantt(runs[min(times_s, key=times_s.get)].timeline)

# %% [markdown]
# Each measured time is that of the shortest of a few steps. Measured times include two things that no model here
# counts. One is the arithmetic of the small model. The other is the start of each message, which is late where ranks
# share cores. This costs most in a plan that sends many messages. So plans with nearly equal times may change places,
# and plans with very different times seldom do. A planner may be wrong in every number, and still name the right few
# plans to try.
#
# ## What you can do now
#
# You can predict the parts of a step before it runs: computing, idle time, and waiting for sums, messages and
# gradients. You have tested a formula term by term, with runs that others measured, and know how far off it was for one
# kind. You have bet on a layout, seen plans run, and know how much time a wrong bet costs.
#
# For a job of your own, run `./course plan --model llama-3-70b --machine 8xh100 --nodes 16 --batch 512 --seq 8192`. It
# prints the table with its bands, the parts of the first layout, and which others are a tie with it. Then measure two
# or three of them.
#
# **The limit.** A plan says how long a step should take. What if a step of your run takes twice as long? [Part
# 3](11c_sick_runs.ipynb) has six runs that are slow, with the evidence to find out why.
#
# **Further reading.** Narayanan et al., [Efficient Large-Scale Language Model Training on GPU Clusters Using
# Megatron-LM](https://arxiv.org/abs/2104.04473) (2021), section 3: formulas of this kind, and takeaways on how to
# combine the axes. Zheng et al., [Alpa](https://arxiv.org/abs/2201.12023) (2022): a planner that searches for layouts
# by itself.
#
# ## Another day: the same job, other links
#
# This section takes some ten minutes more, and nothing later needs it.
#
# Suppose that a year later the link between nodes is as fast as the link within a node, 20 MB/s. Nothing else has
# changed. **Which plan is the best one now?**

# %%
### BEGIN SOLUTION
### STUB second_bet = ask("11.fast")
### STUB second_bet
second_bet = ask("11.fast")
second_bet.commit("pp=2 dp_replicate=2")  # "it was the best, and the links were only in its way"
### END SOLUTION

# %% tags=["computed-time"]
even = replace(scaled, nodes=replace(pairs, between=pairs.within))
played_even = {name: even.played(mesh) for name, mesh in fitting.items()}
for name in sorted(fitting, key=lambda name: played_even[name].step_s):
    waits = ", ".join(f"{axis} {time_s * 1e3:.0f} ms" for axis, time_s in played_even[name].waited_s.items())
    print(f"{name:<20} played {played_even[name].step_s * 1e3:4.0f} ms, of which it waits for {waits}")

# %% tags=["nbval-ignore-output"]
_, even_s = run_beside(second_bet.value, even, played_even, count=2, num_steps=3)
reveal("11.fast", even_s, played_even)

# %% [markdown]
# The next picture shows the step of every plan that fits, except the slowest one, with links from 1 to 20 MB/s between
# nodes. Look for the speed at which the curves of the two winners cross.

# %% tags=["computed-time"]
speeds = (1, 2, 4, 8, 14, 20)


def step_ms(mesh, speed):
    there = replace(pairs, between=Link(0.0, speed * 1e6))
    return replace(scaled, nodes=there).played(mesh).step_s * 1e3


curves = {name: (speeds, [step_ms(fitting[name], speed) for speed in speeds]) for name in by_table[:-1]}
lines(curves, x_label="link between nodes, MB/s", y_label="step, ms", log_x=True, log_y=True)
