# %% [markdown]
# # 07a · Pipelines and their bubbles: micro-batches, GPipe and 1F1B
#
# A model cut over four devices leaves each of them idle most of the time. In a pipeline the batch is cut as well, in
# *micro-batches* that follow each other through the stages. You predict how much idle time is left, and write the two
# schedules that most others are built on.
#
# **60 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 1 of 5 · [2: smaller bubbles, and a schedule of your own](07b_smaller_bubbles.ipynb) · [3: the loop, its faults
# and production](07c_runtime_and_faults.ipynb) · [4: build the runtime](07d_build_pipeline.ipynb) · [5: search a
# schedule](07e_search_a_schedule.ipynb)
#
# This part builds on [01c: doing with less memory](01c_less_memory.ipynb) and [06a: there and
# back](06a_model_parallel.ipynb). Have you done them? `from course_lib import start; start("07a")` says whether you
# have.
#
# At the end you can
#
# - derive the idle share of a pipeline;
# - write GPipe and 1F1B as tables, and say what each of them keeps in memory.

# %%
from course_lib import ask, check, hint, reveal, schedules, shared_cluster
from course_lib.claims import trial
from course_lib.cost import simulate
from course_lib.data import documentation_windows, loader
from course_lib.meter import MemoryLedger
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel import pipeline
from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.plot import lines, memory_bars, pipeline_gantt
from course_lib.schedules import StageTimes

import time

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
two, four = shared_cluster(2), shared_cluster(4)

# %% [markdown]
# ## The staircase again
#
# ![Four ranks on a time axis: a forward box on each, one after the other, down the stairs, then a backward box on each,
# up again; everything else is empty](../assets/07_staircase.png)
#
# Lesson 06 had this picture: four stages, one batch, and one device at work at any moment. The next cells draw it from
# a run of four ranks on this machine.
#
# Not everything on this page is real. Two cores cannot replace four devices: if four ranks compute at once, each gets
# half a core. So on any machine *computing is paced*: a rank waits as long as a device would compute. Ranks, messages,
# their order and the clock are real. Some cells do real arithmetic, and the text says so there.
#
# On each of the four stages the batch takes 40 ms forward and 80 ms backward.


# %%
def run_paced(schedule, times, steps=1, **settings):
    """Which rank did what and when, on real ranks: the quickest of `steps` steps."""
    ranks = shared_cluster(schedule.num_ranks)
    taken = pipeline.run_pipeline_steps(ranks, schedule, times, steps=steps, **settings)
    return min(taken, key=lambda step: step.makespan_s)


batch_times = StageTimes.of(0.040)

# %% tags=["nbval-ignore-output"]
stairs = run_paced(schedules.naive(4), batch_times)
print(f"{stairs.makespan_s * 1e3:.0f} ms, and {stairs.idle_share:.0%} of the devices' time is idle")
pipeline_gantt(measured=stairs, title="One batch through four stages, measured")

# %% [markdown]
# ## Cut the batch in pieces
#
# ![A batch of 16 samples cut in four micro-batches of four, in a queue before four stages](../assets/07_pieces.png)
#
# <!-- word: pipeline parallelism | also: pipelining, PP -->
# <!-- word: GPipe | also: fill-drain schedule -->
# After its forward, stage 0 could begin to compute something else. It cannot begin the next batch, whose forward needs
# the weights that this batch will change. But it can begin another *piece* of this batch, a **micro-batch**: gradients
# add up over pieces, as you saw in lesson 01. Take four stages and four micro-batches, each with a quarter of the work.
# **Pipeline parallelism** cuts a model by layers and the batch in micro-batches, which follow each other through the
# stages. **GPipe** ([Huang et al., 2019](https://arxiv.org/abs/1811.06965)) is the order of work in which a pipeline
# runs all forwards first, then all backwards.
#
# **What share of the devices' time is idle in this pipeline?**

# %%
### BEGIN SOLUTION
### STUB ask("07.four")
ask("07.four").commit(0)  # "four pieces keep four devices busy"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
pieces = run_paced(schedules.gpipe(4, 4), batch_times.divided(4), steps=3)  # the quickest of three
print(f"{pieces.makespan_s * 1e3:.0f} ms")
pipeline_gantt(measured=pieces, title="The same batch in four micro-batches, measured")

# %% tags=["nbval-ignore-output"]
reveal("07.four", pieces)

# %% [markdown]
# <!-- word: bubble | also: pipeline bubble -->
# By the model the ranks now work for more than half of the time, but not for all of it. The **bubble** is the time in
# which ranks of a pipeline wait. In the picture it is the empty space.
#
# One widely read text says that model parallelism *is* pipeline parallelism. You have now seen both on four stages:
# first with one whole batch, then with its pieces. Is the statement right? (`trial` runs the course's test of a claim.
# It prints a verdict, and below it the numbers that it found.)

# %%
print(trial("E7").claim.text)
print(trial("E7").run())

# %% [markdown]
# ## The formula
#
# ![Boxes of GPipe on four ranks; arrows below mark where the pipeline fills and where it empties, which together is p
# minus 1 moments of waiting](../assets/07_formula.png)
#
# <!-- word: idle share | also: bubble fraction, bubble ratio | sentences: 3 -->
# The **idle share** of a pipeline is the part of all ranks' time in which they do not compute. The field calls it the
# *bubble fraction*. Some papers divide the waiting time by the working time instead, which gives a larger number.
#
# Take p stages of equal time and m micro-batches. One *moment* is the time of a micro-batch on one stage, forward and
# backward together:
#
# 1. Every rank has m moments of work.
# 2. The last rank gets its first micro-batch after p - 1 forwards. After its last backward, p - 1 backwards of other
#    ranks follow.
# 3. Together these are p - 1 moments. So the step takes m + p - 1.
# 4. Idle share: **(p - 1) / (m + p - 1)**.


# %%
def idle_by_formula(p, m):
    return (p - 1) / (m + p - 1)


print("micro-batches", *[f"{m:>5}" for m in [1, 4, 8, 16, 64]])
for p in [2, 4, 8, 64]:
    print(f"{p:>2} stages     ", *[f"{idle_by_formula(p, m):>5.0%}" for m in [1, 4, 8, 16, 64]])

# %% [markdown]
# Now compare the formula with runs. From here on a micro-batch takes 10 ms forward and 20 ms backward, however many
# there are.

# %% tags=["nbval-ignore-output"]
times = StageTimes.of(0.010)
counts = [1, 2, 4, 8, 16]
measured = [100 * run_paced(schedules.gpipe(4, m), times, steps=3).idle_share for m in counts]
lines(
    {
        "(p - 1) / (m + p - 1)": (counts, [100 * idle_by_formula(4, m) for m in counts]),
        "measured on 4 ranks": (counts, measured),
    },
    x_label="micro-batches",
    y_label="idle share (%)",
    title="GPipe on four stages",
)

# %% [markdown]
# If a measured point is above the curve, messages have taken time as well, and on a busy machine ranks may have
# continued late. Each point is the quickest of three steps.
#
# The course also tests another statement: *"Pipeline parallelism keeps the devices busy by feeding the next micro-batch
# as soon as the first stage is free. Utilisation improves drastically."* **What will the verdict be?**

# %%
### BEGIN SOLUTION
### STUB ask("07.b5")
ask("07.b5").commit("holds")
### END SOLUTION

# %% tags=["nbval-ignore-output"]
tried = trial("B5").run()
print(tried)
reveal("07.b5", tried)

# %% [markdown]
# ### More micro-batches
#
# By the formula, each further micro-batch makes the idle share smaller. The next cells do **real arithmetic**. They
# train a transformer in two stages on two ranks, with a batch of 32 texts, cut in 1 to 32 micro-batches. Two ranks need
# only two cores.
#
# **With which number of micro-batches is a step the quickest on this machine?**

# %%
### BEGIN SOLUTION
### STUB ask("07.best")
ask("07.best").commit(32)  # "the formula says the more the better"
### END SOLUTION

# %%
config = TransformerConfig(context_length=64, num_layers=8, width=48, num_heads=4)
text, _ = documentation_windows(config.context_length)
batches = [batch for batch, _ in zip(loader(text, 32), range(4), strict=False)]


def make_stages(num_stages):
    torch.manual_seed(0)  # every rank makes the same weights, and keeps its own stages
    model = Transformer(config)
    return cut(model, split_evenly(parameter_costs(model), num_stages))


# %%
def step_times(me, counts, repeats=4):
    quickest_s = {}
    for m in counts:
        schedule = schedules.gpipe(me.world_size, m)
        model = pipeline.Pipeline(me, make_stages(me.world_size), schedule, next_token_loss)
        for _ in range(repeats):
            dist.barrier()
            start_s = time.perf_counter()
            model.step(*batches[0])
            dist.barrier()  # now all are through, GPUs too
            quickest_s[m] = min(quickest_s.get(m, 60.0), time.perf_counter() - start_s)
    return quickest_s


# %% tags=["nbval-ignore-output"]
step_s = two.run(step_times, [1, 2, 4, 8, 16, 32])[0]
for m, time_s in step_s.items():
    print(f"micro-batches: {m:>2}, texts in each: {32 // m:>2}, {time_s * 1e3:6.1f} ms a step")

# %% tags=["nbval-ignore-output"]
reveal("07.best", step_s)

# %% [markdown]
# So m should be large enough for a small bubble, and small enough for pieces that compute quickly. GPipe's authors
# found that with four times as many micro-batches as stages the bubble hardly counts. (Look up 4 stages and 16
# micro-batches in the table above. GPipe also recomputes activations in the backward pass, and can do that while a rank
# waits.) The formula leaves out how quickly small pieces compute.
#
# ## Build: GPipe as a table
#
# ![A table with a row for each of two stages and a column for each moment: F0, F1, idle dots, B0,
# B1](../assets/07_table.png)
#
# <!-- word: schedule | also: pipeline schedule -->
# The **schedule** of a pipeline says in which order each stage runs the forwards and backwards of its micro-batches. It
# is data: a table with a row for each stage, and a column for each unit of time. `F2` is the forward of micro-batch 2,
# `B2` its backward, and a dot is an idle cell. The table has no messages: they follow from its actions.
#
# Write the table of GPipe for p stages and m micro-batches: a text for each stage, such as `"F0 F1 . . B0 B1"` for the
# first of two stages. In this table a forward and a backward take one column each. Each of them begins as early as it
# can. You may leave out dots at the end of a row.


# %%
def gpipe_table(num_stages, num_micro_batches):
    """A list with a text for each stage: its cells, column by column, separated by blanks."""
    # In which column does stage s run F0? And when has the last forward of all been run?
    ### BEGIN SOLUTION
    rows = []
    for stage in range(num_stages):
        behind = num_stages - 1 - stage
        forwards = [f"F{i}" for i in range(num_micro_batches)]
        backwards = [f"B{i}" for i in range(num_micro_batches)]
        rows.append(" ".join(["."] * stage + forwards + ["."] * (2 * behind) + backwards))
    return rows
    ### END SOLUTION


# %%
table_verdict = check("07.gpipe", gpipe_table)

# %% [markdown]
# Stuck? Take the `#` away; each run gives one more hint.

# %%
# hint("07.gpipe")

# %%
if table_verdict.passed:
    print("\n".join(gpipe_table(4, 6)))

# %% [markdown]
# The course's runtime reads such a table and executes it, if that is possible. (Dots are only for the reader. The
# runtime waits for what an action needs, with dots or without.) If a table cannot be executed, `validate` says so
# before any rank begins. In the next table stage 0 runs B0 before F1, and stage 1 runs F1 before B0:

# %%
impatient = schedules.from_text("F0 B0 F1 B1\nF0 F1 B1 B0")
for problem in schedules.validate(impatient):
    print(problem)

# %% [markdown]
# ## What is kept
#
# ![A pile of boxes that grows by one with each forward, F0, F1, F2, F3, and the question how
# high](../assets/07_pile.png)
#
# <!-- word: in-flight micro-batch | also: live activations, outstanding micro-batch -->
# A small bubble needs many micro-batches. What do they cost? A backward needs the activations of its forward, and a
# stage keeps them until then. An **in-flight micro-batch** of a stage is one whose forward has run there and whose
# backward has not. The stage keeps its activations.
#
# **Under GPipe with four stages and 16 micro-batches, how many micro-batches are in flight on the first rank at most?**

# %%
### BEGIN SOLUTION
### STUB ask("07.in_flight")
ask("07.in_flight").commit(4)  # "one for each stage"
### END SOLUTION


# %%
def peaks_of_a_step(me, schedule):
    """With real arithmetic: the most micro-batches in flight, and the ledger's peak."""
    model = pipeline.Pipeline(me, make_stages(schedule.num_stages), schedule, next_token_loss)
    for _ in range(2):  # the first step also pays for what is made once
        with MemoryLedger(model.stages, inputs=batches[0], rank=me.rank) as ledger:
            model.step(*batches[0])
    return max(model.peak_in_flight.values()), ledger.peak()


gpipe_peaks = four.run(peaks_of_a_step, schedules.gpipe(4, 16))
print("micro-batches in flight at most, by rank:", [count for count, _ in gpipe_peaks])
reveal("07.in_flight", gpipe_peaks[0][0])

# %% [markdown]
# Sixteen pieces of one batch are one batch: every stage keeps what it would keep without a pipeline. And below some
# size, smaller pieces make a step slower. Then a smaller bubble needs more pieces *of the same size*. That is a larger
# batch, and more memory on every rank.
#
# ## One forward, one backward
#
# ![On the last stage, arrows from F0 to F1, which is GPipe, and to B0, which is 1F1B](../assets/07_choice.png)
#
# <!-- word: 1F1B | also: one forward one backward, PipeDream-Flush | sentences: 2 -->
# <!-- word: flush | also: pipeline flush -->
# Look at the last stage. After F0 it has all that it needs for B0, but under GPipe it runs F1 next. **1F1B** (one
# forward, one backward) is the schedule in which a stage runs a backward as soon as it can. From then on it runs a
# forward and a backward in turn. At a **flush** the pipeline becomes empty: when the optimizer takes its step, no
# micro-batch is in flight any more.
#
# The 1F1B of this page has a flush after every batch, so that all micro-batches see the same weights.
#
# <details>
# <summary>An aside: where the names come from</summary>
#
# The first 1F1B, [PipeDream](https://arxiv.org/abs/1806.03377) (2019), had no flush. It kept old and new weights at the
# same time. The schedule with a flush is called *PipeDream-Flush* ([Narayanan et al.,
# 2020](https://arxiv.org/abs/2006.09503)) or [DAPPLE](https://arxiv.org/abs/2007.01045) (Fan et al., 2020). Most texts
# call this one 1F1B.
#
# </details>
#
# **With four stages and eight micro-batches, how does the idle share of 1F1B compare with GPipe's?** In the picture
# after your guess, *run* is measured. *Plan* is what `simulate` computes from the table alone, with messages that take
# no time.

# %%
### BEGIN SOLUTION
### STUB ask("07.1f1b")
ask("07.1f1b").commit("somewhat smaller")
### END SOLUTION

# %% tags=["nbval-ignore-output"]
steps = {kind.__name__: run_paced(kind(4, 8), times) for kind in [schedules.gpipe, schedules.one_f_one_b]}
for name, step in steps.items():
    planned = simulate(step.schedule, times).idle_share
    print(f"{name:<12} {planned:.1%} idle planned, {step.idle_share:.0%} measured")
pipeline_gantt(simulate(steps["one_f_one_b"].schedule, times), steps["one_f_one_b"], title="1F1B")

# %%
reveal("07.1f1b", times)

# %% [markdown]
# So why do most people prefer 1F1B? The next cell counts what it keeps:

# %%
f1b1_peaks = four.run(peaks_of_a_step, schedules.one_f_one_b(4, 16))
bars = {}
for name, peaks in [("GPipe", gpipe_peaks), ("1F1B", f1b1_peaks)]:
    print(f"{name:<6} micro-batches in flight at most, by rank:", [count for count, _ in peaks])
    for rank, (_, peak) in enumerate(peaks):
        bars[f"{name}, rank {rank}"] = {"activation": peak.by_label["activation"]}
memory_bars(bars, title="Activations at their peak, 16 micro-batches, measured")

# %% [markdown]
# 1F1B saves memory, and leaves the bubble as it is. Under 1F1B a rank holds no more micro-batches than there are stages
# from its own to the last, *however many follow*. So you can make m large. In the picture the first stage holds most.
#
# ### Build: one stage of 1F1B
#
# <!-- word: warm-up | also: warm-up phase, ramp-up -->
# Write the row of one stage, without idle cells: a list such as `["F0", "B0", "F1", "B1"]`, which is right for the last
# stage. The other stages run more forwards before their first backward. How many? The **warm-up** of a stage is the
# forwards that it runs before its first backward; the backwards after its last forward are its *cool-down*.


# %%
def order_of_stage(stage, num_stages, num_micro_batches):
    """What this stage does under 1F1B, in order: a list of texts."""
    # 1. Warm-up: some forwards.
    # 2. In turn: one forward, one backward.
    # 3. The backwards that are left.
    ### BEGIN SOLUTION
    warm_up = min(num_stages - 1 - stage, num_micro_batches)
    order = [f"F{i}" for i in range(warm_up)]
    for i in range(num_micro_batches - warm_up):
        order += [f"F{warm_up + i}", f"B{i}"]
    return order + [f"B{i}" for i in range(num_micro_batches - warm_up, num_micro_batches)]
    ### END SOLUTION


# %%
order_verdict = check("07.1f1b", order_of_stage)

# %%
# hint("07.1f1b")

# %% tags=["nbval-ignore-output"]
if order_verdict.passed:
    rows = [" ".join(order_of_stage(stage, 4, 6)) for stage in range(4)]
    yours = schedules.from_text("\n".join(rows), name="your 1F1B")
    print(yours)
    print(f"executed by four ranks: {run_paced(yours, times).makespan_s * 1e3:.0f} ms")

# %% [markdown]
# ## What you can do now
#
# You can compute how long a pipeline waits before you build it, and write the two schedules that most others are built
# on. With GPipe a small bubble costs memory. With 1F1B a rank keeps no more, however many micro-batches follow.
#
# [Part 2](07b_smaller_bubbles.ipynb) asks when the formula is wrong, makes the bubble smaller, and lets you design a
# schedule of your own. [Part 3](07c_runtime_and_faults.ipynb) shows the runtime that has executed your tables.
#
# **Further reading.** Huang et al., [GPipe](https://arxiv.org/abs/1811.06965) (2019), section 2.3: the bubble and what
# recomputing does to memory. Narayanan et al., [Memory-Efficient Pipeline-Parallel DNN
# Training](https://arxiv.org/abs/2006.09503) (2020): 1F1B with a flush, and without.
