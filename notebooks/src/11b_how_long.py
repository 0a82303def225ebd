# %% [markdown]
# # 11b · Choosing: how long does it take?
#
# Thousands of layouts fit, and one is to be chosen. You take a step apart, write a planner's formula in some fifteen
# lines, bet on a layout, and see three plans run for real.
#
# **65 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 2 of 4 · [1: does it fit?](11a_does_it_fit.ipynb) · [3: six sick runs](11c_sick_runs.ipynb) ·
# [4: runs of others, and when not to](11d_runs_of_others.ipynb)
#
# At the end you can
#
# - say of what a step's time is made, and what of it waits for a link;
# - work out the step of a layout by hand, before anybody has run it;
# - say how much a wrong layout costs, and how far to trust a planner;
# - tell when a habit of choosing layouts is out of date.
#
# From earlier lessons you need: a ring all-reduce ([02](02a_collectives.ipynb)), buckets of gradients that travel
# beside the backward pass ([04](04a_distributed_data_parallel.ipynb)), the bubble of a pipeline
# ([07](07a_pipeline_parallel.ipynb)), the sums in every split layer ([08](08b_split_transformer.ipynb)), and axes with
# their order ([09](09a_meshes.ipynb)).

# %%
from course_lib import Link, ask, check, hint, plan, reveal, shared_cluster
from course_lib.cost import Cut, NodeShape, ScaledJob, StepCompute, layout_step_s
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
# ## A step, taken apart
#
# <!-- word: planner | also: layout search, auto-parallelism -->
# Llama 3 with 70 billion parameters, on 16 machines with 8 H100 each; a step has 512 sequences of 8192 tokens. A
# **planner** works out the memory and the time of every layout before any of them runs, and ranks those that fit. The
# course's does so with constants that it has learned from runs that others have published.

# %%
job = plan.Job(plan.decoder("llama-3-70b"), seq=8192, batch=512)
cluster = plan.cluster_of("8xh100", nodes=16)
alike = [one for one in plan.load_profiles().values() if one.gpu.peak_flops_per_s == cluster.peak_flops_per_s]
constants = plan.typical_constants(alike)  # the share of a data sheet's numbers that runs get
software = plan.Software()
listing = plan.list_layouts(job, cluster, constants, software)
best = listing.best
print(f"{len(listing.options):,} layouts fit; the best: {best.layout}")

# %% [markdown]
# Its words: `tp`, `cp`, `pp` and `dp` are sizes of axes (`cp` cuts sequences, as in lesson 10), `mb` is a micro-batch
# in sequences, `v` are virtual stages of a rank, `sp` is sequence parallelism. `zero1` shares out optimizer states,
# `zero3` gradients and weights as well. In the backward pass `full` computes whole layers again, `selective` a part.
#
# Many would take another one, by a habit: `tp` fills a machine, `pp` goes from machine to machine, and `dp` takes the
# rest. Here is the best of that kind.

# %%
by_habit = next(
    option
    for option in listing.options
    if option.layout.tp == cluster.node_size and option.layout.pp > 1 and option.layout.cp == 1
)
print(f"by habit: {by_habit.layout}")

# %% [markdown]
# A step has these parts. Some are computing; the others wait.
#
# ![A step in two stages, as bars over time: forward and backward with thin stripes for the sums of tp, arrows for
# messages between stages, gaps, and gradients at the end, each with its name](../assets/11_parts.png)
#
# **Of what waits, which part is the largest in the layout by habit?**

# %%
### BEGIN SOLUTION
### STUB ask("11.part")
ask("11.part").commit("gradients and weights of data parallelism")  # "most bytes, and the slowest link"
### END SOLUTION


# %%
def print_parts(option):
    """Where a step's time goes, largest part first."""
    print(f"{option.layout}: {option.step_s:.1f} s a step")
    for name, time_s in sorted(asdict(option.step).items(), key=lambda part: -part[1]):
        share = time_s / option.step_s
        if share >= 0.001:
            print(f"    {name.removesuffix('_s'):<10} {share:6.1%} {'#' * round(40 * share)}")


# %% tags=["computed-time"]
print_parts(by_habit)
reveal("11.part", by_habit.step)

# %% [markdown]
# (`output` is the scores for all tokens of the vocabulary, and the loss. `data` is what `dp` sends, as far as it does
# not hide.) And the best layout. It computes more, as `full` says. What does it wait for?

# %% tags=["computed-time"]
print_parts(best)

# %% [markdown]
# Now somebody offers a network between the machines that is twice as fast, ports, switches and all.
# **By how many per cent does it shorten the step of the best layout?**

# %%
### BEGIN SOLUTION
### STUB ask("11.network")
ask("11.network").commit(30)  # "at this size it is all about the network"
### END SOLUTION

# %% tags=["computed-time"]
faster = replace(cluster, node_bandwidth_bytes_per_s=2 * cluster.node_bandwidth_bytes_per_s)
after = plan.step_parts(job, best.layout, faster, constants, software)
print(f"{best.step_s:.2f} s a step, and with the faster network {after.total_s:.2f} s")
reveal("11.network", best.step_s, after.total_s, str(best.layout))

# %% [markdown]
# A planner is a model with errors of its own; against published runs it is off by several per cent, as part 4 will
# show. So ask not only for the best one. **How many layouts take at most 10 % longer than the best?**

# %%
### BEGIN SOLUTION
### STUB ask("11.near")
ask("11.near").commit(3)  # "there is a best one, and a runner-up or two"
### END SOLUTION

# %% tags=["computed-time"]
steps_s = [option.step_s for option in listing.options]
for place in (0, len(steps_s) // 10, len(steps_s) // 2, len(steps_s) - 1):
    print(f"place {place + 1:>5,}: {steps_s[place]:6.1f} s  {listing.options[place].layout}")
print(f"the one by habit has place {listing.options.index(by_habit) + 1}")
reveal("11.near", steps_s)

# %% [markdown]
# The last one of that list, in its parts. Which words of its name would have warned you?

# %% tags=["computed-time"]
print_parts(listing.options[-1])

# %% [markdown]
# A `tp` of more ranks than a machine has: its sums go over the network. And `zero3` with small micro-batches, across
# machines: all weights travel again for each of them.
#
# ## What hides
#
# Most parts add up: a layer waits for its sums, a stage for its message. Gradients are another matter, since they may
# travel beside the backward pass. How much of them is waited for all the same?
#
# Four ranks with a copy each of a model of eight layers. Its gradients, 1 MiB, travel in four equal buckets, each as
# soon as backward has filled it. (Computing is paced, the link is shaped.)

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
# ## Build: a planner's formula in fifteen lines
#
# You have met every part of a step. Now put them together. Three things are given, as dataclasses:
#
# - `work`: `layers`; `forward_s`, of one layer for the whole batch on one device; `activation_bytes`, what a layer
#   gives the next for the whole batch; `gradient_bytes`, of all layers. Backward computes twice as long as forward.
# - `cut`: `pp`, `dp`, `tp`, sizes of axes; `micro_batches` of each pipeline; `buckets`.
# - `nodes`: `nodes.link(size, stride)` is the link of an axis of `size` ranks, each `stride` after the one before: the
#   slowest that it passes. `link.time_s(size_bytes)` is the time of one message. Neighbours in number are ranks along
#   `tp`, then come those along `dp`; `pp` is outermost.
#
# A rank has its share of everything: of the batch by `dp` and by the micro-batches, of each layer by `tp`, of the
# layers by `pp`. All divide evenly.


# %%
def step_s(work, cut, nodes):
    """Seconds of a step: one slot after the other, then what is left of the gradients.

    Slot: one micro-batch on one stage, forward and backward. In each of the two passes every layer
    has two ring all-reduces along tp, of the micro-batch's activations. If there are stages, a slot
    has two messages of these activations, one each way; they do not hide.
    A step has as many slots as a pipeline takes, bubble and all.

    Gradients: a rank averages its own along dp by ring all-reduces, in equal buckets. The backward
    pass of the last micro-batch, with its all-reduces along tp, fills them at an even pace; the
    link takes one after the other.

    A ring of n ranks has 2(n - 1) rounds; in each a message with an n-th of the bytes.
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
# What is it good for? For questions of "how many", before anything runs. (The course's own stands in until yours has
# passed.) Eight layers of 20 ms each, forward, on four ranks, on links where a message needs a millisecond to start. In
# four stages, with more and more micro-batches; or without stages, where the gradients are so small that only the
# starts of their messages count:

# %% tags=["computed-time"]
my_step_s = step_s if step_verdict.passed else layout_step_s
some_work = StepCompute(layers=8, forward_s=0.02, activation_bytes=1e6, gradient_bytes=0.0)
some_nodes = NodeShape(4, within=Link(1e-3, 1e9), between=Link(2e-3, 1e8))
counts = (1, 2, 4, 8, 16, 32, 64)
by_count_ms = [my_step_s(some_work, Cut(pp=4, micro_batches=m), some_nodes) * 1e3 for m in counts]
no_pipeline_ms = my_step_s(some_work, Cut(dp=4), some_nodes) * 1e3
lines(
    {"four stages": (counts, by_count_ms), "no stages": (counts, [no_pipeline_ms] * len(counts))},
    x_label="micro-batches",
    y_label="step, ms",
    log_x=True,
)

# %% [markdown]
# The curve falls as the bubble does, and rises again: every slot pays for two messages, and their start does not shrink
# with them. Where is the bottom? No rank had to run to find it.
#
# ## The bet
#
# Now a job that can run here. A transformer of four layers, 32 sequences, four ranks on two nodes of two. Links are
# shaped: 20 MB/s within a node, and 2 MB/s for each rank between nodes. What one device would compute in 720 ms, 240
# of them forward, is paced, and every plan shares it evenly. Messages, ranks and memory are real.
#
# ![Two nodes with two ranks each, thick lines within the nodes and thin ones between them, beside a list of seven plans
# with a box to tick for each](../assets/11_bet.png)
#
# Each axis lies as in lesson 09: the last one within a node. Memory first: a rank has room for 2,000,000 bytes of
# weights, gradients and optimizer states.

# %%
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
# one bucket. Take a sheet of paper, or use `my_step_s(scaled.work, Cut(...), pairs)`.

# %%
### BEGIN SOLUTION
### STUB bet = ask("11.bet")
### STUB bet
bet = ask("11.bet")
bet.commit("dp_replicate=2 tp=2")  # "tensor parallelism within a node, data parallelism between nodes"
### END SOLUTION

# %% [markdown]
# The table that a planner would show: by your formula, and *played*, the cost model of lesson 09, which lets each
# message of each rank wait for its turn.

# %% tags=["computed-time"]
fitting = {name: mesh for name, mesh in plans.items() if scaled.fits(mesh)}
played = {name: scaled.played(mesh) for name, mesh in fitting.items()}
by_table = sorted(fitting, key=lambda name: played[name].step_s)
for name in by_table:
    formula_s = my_step_s(scaled.work, scaled.cut(fitting[name]), pairs)
    print(f"{name:<20} by formula {formula_s * 1e3:5.0f} ms, played {played[name].step_s * 1e3:5.0f} ms")

# %% [markdown]
# The formula lets no message of a pipeline hide, and some do: while a message travels, a stage has another micro-batch.
# It takes shards for replicas. For the order of the plans, is that too rough? Look which of them change places.
#
# <!-- word: regret -->
# Three plans run: your bet, and the fastest of the table beside it. The **regret** of a choice is by how much it is
# worse than the best one that was there: a step of 300 ms beside one of 200 ms is a regret of 50 %.


# %%
def run_beside(bet, job, played, count, num_steps):
    """Runs ``count`` plans: the bet, and the fastest by the model. In brackets what was played."""
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
print(f"measured beside played: {median(errors):+.0%} at the median")
reveal("11.bet", times_s, played)

# %% [markdown]
# A step of the slowest of the three, as it went by. And one of the fastest:

# %% tags=["nbval-ignore-output"]
gantt(runs[max(times_s, key=times_s.get)].timeline)

# %% tags=["nbval-ignore-output"]
gantt(runs[min(times_s, key=times_s.get)].timeline)

# %% [markdown]
# Each measured time is that of the shortest of a few steps. They hold what no model here counts: the arithmetic of the
# small model, and the start of each message, late where ranks share cores. It does not hit all plans alike: who sends
# many messages pays most. So plans that are near each other may change places, and those far apart seldom do.
# That is why a planner may be wrong in every number, and yet right about which few plans to try.
#
# ## The same job, other links
#
# A year later the link between nodes is as fast as that within, 20 MB/s. Nothing else has changed. **Which plan is the
# best one now?**

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
# And in between? From 1 to 20 MB/s, the step of every plan that fits, but for the slowest of the table. Where do the
# curves of the two winners cross?

# %% tags=["computed-time"]
speeds = (1, 2, 4, 8, 14, 20)


def step_ms(mesh, speed):
    there = replace(pairs, between=Link(0.0, speed * 1e6))
    return replace(scaled, nodes=there).played(mesh).step_s * 1e3


curves = {name: (speeds, [step_ms(fitting[name], speed) for speed in speeds]) for name in by_table[:-1]}
lines(curves, x_label="link between nodes, MB/s", y_label="step, ms", log_x=True, log_y=True)

# %% [markdown]
# ## What you can do now
#
# You can take a step apart before it runs: what computes, what waits for a sum, a message, a gradient, and what idles.
# You have bet on a layout twice, seen plans run, and know the price of a wrong bet. You know that near the top many
# layouts are as good as each other, and that a faster network helps only what is on it.
#
# In a job of your own: `./course plan --model llama-3-70b --machine 8xh100 --nodes 16 --batch 512 --seq 8192`. It
# prints the table, the parts of the best layout, and why the others do not fit. Then measure two or three.
#
# **The limit.** A plan says how long a step should take. What if yours takes twice as long? [Part
# 3](11c_sick_runs.ipynb) has six runs that are sick, and evidence.
#
# **Further reading.** Narayanan et al., [Efficient Large-Scale Language Model Training on GPU Clusters Using
# Megatron-LM](https://arxiv.org/abs/2104.04473) (2021), section 3: formulas of this kind, and takeaways on how to
# combine the axes. Zheng et al., [Alpa](https://arxiv.org/abs/2201.12023) (2022): a planner that searches for layouts
# by itself.
