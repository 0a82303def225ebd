# %% [markdown]
# # 07 · Pipelines and their bubbles
#
# A model cut over four devices leaves each of them idle most of the time. Here the batch is cut as well, in
# *micro-batches* that follow each other through the stages. You predict how much idle time is left, write the schedules
# that decide it, design one of your own and have it executed by real ranks.
#
# **120 minutes · difficulty 4 of 5 · needs: cpu**
#
# At the end you can
#
# - derive the idle share of a pipeline, and say when the formula is wrong;
# - write GPipe and 1F1B as tables, and say what each of them keeps in memory;
# - say what interleaving and a split backward buy, and what they pay with;
# - design a schedule for a memory limit, and run it on ranks, on this course's runtime and on PyTorch's;
# - tell three usual faults of pipelines by their evidence.

# %%
from course_lib import Cluster, Link, ask, check, hint, quiz, reveal, schedules, shared_cluster
from course_lib.claims import trial
from course_lib.cluster import RankError
from course_lib.cost import simulate
from course_lib.data import documentation_windows, loader
from course_lib.meter import MemoryLedger, bytes_text, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel import pipeline
from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.plot import lines, memory_bars, pipeline_gantt
from course_lib.schedules import StageTimes
from course_lib.widgets import Goal, ScheduleStudio

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
two, four = shared_cluster(2), shared_cluster(4)

# %% [markdown]
# ## The staircase again
#
# ![Four ranks on a time axis: a forward box on each, one after the other, down the stairs, then a backward box on each,
# up again; everything else is white](../assets/07_staircase.png)
#
# Lesson 06 ended with this picture: four stages, one batch, and at any moment one device at work. Here it is from four
# ranks of this machine.
#
# A word on honesty first. Two cores cannot play four devices: where four ranks compute at once, each gets half a core.
# So on this page, on any machine, *computing is paced*: a rank waits as long as a device would compute. Ranks,
# messages, their order and the clock are real. Where the arithmetic is real, too, the text says so.
#
# On each of the four stages the batch takes 40 ms forward and twice that backward.


# %%
def run_paced(schedule, times, steps=1, **settings):
    """Who did what when, on real ranks: of `steps` steps the quickest."""
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
# When stage 0 has done its forward, it could begin with something else. The next batch will not do: its forward needs
# the weights that this batch is about to change. But a *piece* of this batch will, a **micro-batch**: gradients add up
# over pieces, as you saw in lesson 01. So: four stages, four micro-batches, each a quarter of the work.
# **Pipeline parallelism** cuts a model by layers and the batch in micro-batches, which follow each other through the
# stages. **GPipe** (Huang et al., 2019) is the order of work in which a pipeline runs all forwards first, then all
# backwards.
#
# **What share of the devices' time is idle now?**

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
# By the model the ranks now work for more than half of the time, and that is far from full. The **bubble** is the time
# in which ranks of a pipeline wait: what is white in the picture.
#
# One widely read text says that model parallelism *is* pipeline parallelism. You have now seen both: four stages, and
# one batch or its pieces on them. Does the sentence hold? (`trial` runs the course's test of a claim; what is printed
# below the verdict is what it found.)

# %%
tried = {"E7": trial("E7").run()}
print(trial("E7").claim.text)
print(tried["E7"])

# %% [markdown]
# ## The formula
#
# ![Boxes of GPipe on four ranks; arrows below mark where the pipeline fills and where it empties, which together is p
# minus 1 moments of waiting](../assets/07_formula.png)
#
# <!-- word: idle share | also: bubble fraction, bubble ratio | sentences: 2 -->
# The **idle share** of a pipeline is the part of all ranks' time in which they do not compute; the field calls it the
# *bubble fraction*. Some papers divide the waiting by the time of the work instead, which gives a larger number.
#
# With p stages of equal time and m micro-batches, count in moments of one micro-batch, forward and backward together:
#
# 1. Every rank has m moments of work.
# 2. The last rank gets its first micro-batch after p - 1 forwards. After its last backward, p - 1 more follow.
# 3. Together these are p - 1 moments. So the step takes m + p - 1.
# 4. Idle share: **(p - 1) / (m + p - 1)**.


# %%
def idle_by_formula(p, m):
    return (p - 1) / (m + p - 1)


print("micro-batches", *[f"{m:>5}" for m in [1, 4, 8, 16, 64]])
for p in [2, 4, 8, 64]:
    print(f"{p:>2} stages     ", *[f"{idle_by_formula(p, m):>5.0%}" for m in [1, 4, 8, 16, 64]])

# %% [markdown]
# A formula that nobody held against a run is a rumour. From here on a micro-batch takes 10 ms forward and 20 ms
# backward, whatever their number.

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
# Where a measured point lies above the curve, messages are in it, which take time as well, and ranks of a busy machine
# that woke up late. Of three steps the quickest is drawn.
#
# Another sentence on trial: *"Pipeline parallelism keeps the devices busy by feeding the next micro-batch as soon as
# the first stage is free; utilisation improves drastically."* Your bet?

# %%
### BEGIN SOLUTION
### STUB ask("07.b5")
ask("07.b5").commit("holds")
### END SOLUTION

# %% tags=["nbval-ignore-output"]
tried["B5"] = trial("B5").run()
print(tried["B5"])
reveal("07.b5", tried["B5"])

# %% [markdown]
# ### And more of them?
#
# More micro-batches, less idle time. By the formula there is no end to it. Now with **real arithmetic**: a transformer
# in two stages on two ranks, a batch of 32 texts, cut in 1 to 32 micro-batches. Two ranks fit on two cores.
#
# **Which number of micro-batches is the quickest on this machine?**

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
import time


def step_times(me, counts, repeats=4):
    quickest_s = {}
    for m in counts:
        schedule = schedules.gpipe(me.world_size, m)
        model = pipeline.Pipeline(me, make_stages(me.world_size), schedule, next_token_loss)
        for _ in range(repeats):
            dist.barrier()
            start_s = time.perf_counter()
            model.step(*batches[0])
            quickest_s[m] = min(quickest_s.get(m, 60.0), time.perf_counter() - start_s)
    return quickest_s


# %% tags=["nbval-ignore-output"]
step_s = two.run(step_times, [1, 2, 4, 8, 16, 32])[0]
for m, time_s in step_s.items():
    print(f"{m:>2} micro-batches of {32 // m:>2} texts: {time_s * 1e3:6.1f} ms a step")

# %% tags=["nbval-ignore-output"]
reveal("07.best", step_s)

# %% [markdown]
# ![A wide box for 32 texts in one go, a question mark, and eight narrow boxes with a black rim](../assets/07_thin.png)
#
# So m is large enough for the bubble and small enough for the pieces. GPipe's authors found that with four times as
# many micro-batches as stages the bubble hardly counts. (What does the table above say for 4 stages and 16? They
# recompute activations in the backward pass, and can do that while they wait.) The formula knows nothing of the pieces.
#
# ## Build: GPipe as a table
#
# ![A table with a row for each of two stages and a column for each moment: F0, F1, idle dots, B0,
# B1](../assets/07_table.png)
#
# <!-- word: schedule | also: pipeline schedule -->
# The **schedule** of a pipeline says in which order each stage runs the forwards and backwards of its micro-batches. It
# is data: a table with a row for each stage, and a column for each moment. `F2` is the forward of micro-batch 2, `B2`
# its backward, and a dot is an idle cell. No messages are written down; who needs what from whom follows from the
# table.
#
# Write the table of GPipe for p stages and m micro-batches: a text for each stage, such as `"F0 F1 . . B0 B1"` for the
# first of two. In this table forward and backward take one column each. All begin as early as they can. Dots at the end
# of a row may be left out.


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
# The runtime of this course reads such a table and executes it, whatever stands in it, as long as it *can* be executed.
# (Dots are for your eyes: it waits for what an action needs, however many there are.) What if it cannot? `validate`
# says so before any rank begins. Here stage 0 wants to run B0 before F1, and stage 1 F1 before B0:

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
# The bubble asks for many micro-batches. What do they cost? A backward needs the activations that its forward left
# behind; until then they stay. An **in-flight micro-batch** of a stage is one whose forward has run there and whose
# backward has not: the stage keeps its activations.
#
# **Four stages, 16 micro-batches, GPipe. How many are in flight on the first rank at most?**

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
# Sixteen pieces of one batch are one batch: every stage keeps what it would keep without a pipeline. And once the
# pieces are as thin as is good for them, a smaller bubble takes *more* of them: a larger batch, and more memory on
# every rank.
#
# ## One forward, one backward
#
# ![On the last stage, arrows from F0 to F1, which is GPipe, and to B0, which is 1F1B](../assets/07_choice.png)
#
# <!-- word: 1F1B | also: one forward one backward, PipeDream-Flush -->
# <!-- word: flush | also: pipeline flush -->
# Look at the last stage. After F0 it has all that it needs for B0. GPipe makes it run F1 instead. **1F1B** (one
# forward, one backward; Narayanan et al., 2021) is the schedule in which a stage runs a backward as soon as it can, and
# from then on a forward and a backward in turn. At a **flush** the pipeline runs empty: all micro-batches of a batch
# come back before the optimizer steps. With a flush after every batch, as here, 1F1B is also called PipeDream-Flush.
#
# **Four stages, eight micro-batches: what does 1F1B do to GPipe's idle share?** In the picture after your guess, *run*
# is measured, and *plan* is what `simulate` works out from the table alone, with messages that take no time.

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
# Then why does everybody use it? Because of what it keeps:

# %%
f1b1_peaks = four.run(peaks_of_a_step, schedules.one_f_one_b(4, 16))
bars = {}
for name, peaks in [("GPipe", gpipe_peaks), ("1F1B", f1b1_peaks)]:
    print(f"{name:<6} micro-batches in flight at most, by rank:", [count for count, _ in peaks])
    for rank, (_, peak) in enumerate(peaks):
        bars[f"{name}, rank {rank}"] = {"activation": peak.by_label["activation"]}
memory_bars(bars, title="Activations at their peak, 16 micro-batches, measured")

# %% [markdown]
# Not the bubble, the memory. Under 1F1B a rank holds no more micro-batches than there are stages from its own to the
# last, *however many follow*. That is what lets you make m large. And see who holds most: the first stage.
#
# "Micro-batches fill the pipeline and reduce idle time", another text says. You know the gain and its price now:

# %% tags=["nbval-ignore-output"]
tried["E8"] = trial("E8").run()
print(tried["E8"])

# %% [markdown]
# ### Build: one stage of 1F1B
#
# <!-- word: warm-up | also: warm-up phase, ramp-up -->
# Write the row of one stage, without idle cells: a list such as `["F0", "B0", "F1", "B1"]`, which is right for the
# last stage. The others begin with some forwards. How many? The **warm-up** of a stage is the forwards that it runs
# before its first backward; the backwards after its last forward are its *cool-down*.


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
# ## It trains
#
# ![A transformer's row of pieces cut in one, two and four stages, with one loss for all](../assets/07_train.png)
#
# Schedules are about time and memory. Do they change what is learned? The transformer again, with real arithmetic:
# uncut, in two stages, in four, in four that two ranks share; 32 texts in eight micro-batches, and once in five, which
# do not divide 32.


# %%
def train(me, schedule, num_steps=2):
    model = pipeline.Pipeline(me, make_stages(schedule.num_stages), schedule, next_token_loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    losses = []
    for x, y in batches[:num_steps]:
        optimizer.zero_grad()
        loss = model.step(x, y)  # forward and backward of all micro-batches, in the schedule's order
        optimizer.step()
        losses.append(None if loss is None else round(loss.item(), 4))
    flat = {
        name: torch.cat([p.detach().flatten() for p in stage.parameters()])
        for name, stage in model.stages.items()
    }
    return losses, flat  # losses: None on all ranks but that of the last stage; weights by stage


# %%
six = [schedules.naive(1), schedules.gpipe(2, 8), schedules.one_f_one_b(4, 8)]
six += [schedules.one_f_one_b(4, 5), schedules.interleaved(2, 8), schedules.zero_bubble_h1(4, 8)]
uncut = None
for schedule in six:
    run = shared_cluster(schedule.num_ranks).run(train, schedule)
    by_stage = {name: weights for _, mine in run for name, weights in mine.items()}
    weights = torch.cat([by_stage[name] for name in sorted(by_stage, key=int)])
    uncut = weights if uncut is None else uncut
    sizes = f"stages {schedule.num_stages}, ranks {schedule.num_ranks}, m {schedule.num_micro_batches}"
    losses, same = run[schedule.rank_of_stage[-1]][0], (weights - uncut).abs().max().item() < 1e-5
    print(f"{schedule.name:<16} {sizes}: {losses}, weights as uncut: {same}")

# %% [markdown]
# The same losses and the same weights. A schedule changes when things are computed, not what: every micro-batch passes
# the same weights, and the optimizer steps after the last one. (Two of these schedules you have not met yet. Wait for
# them.)
#
# One exception, from lesson 01: BatchNorm sees micro-batches, so with BatchNorm the cut of the batch does change the
# model.
#
# ## When the formula is wrong
#
# ![Boxes of GPipe on four ranks; arrows below mark where the pipeline fills and where it empties, which together is p
# minus 1 moments of waiting](../assets/07_formula.png)
#
# (p - 1)/(m + p - 1) was derived from this picture, with equal boxes. Change the picture: let a backward take three
# times the forward, not twice; let stage 1 take half as long again as the others; let a message take half a forward.
#
# **Which of these changes leaves the idle share as it is?** Four stages, eight micro-batches, 1F1B.

# %%
### BEGIN SOLUTION
### STUB ask("07.formula")
ask("07.formula").commit("a message takes half a forward")
### END SOLUTION

# %%
changes = {
    "backward takes three times the forward": {"times": StageTimes.of(0.010, 3.0)},
    "stage 1 takes half as long again": {"times": [times, StageTimes.of(0.015), times, times]},
    "a message takes half a forward": {"times": times, "link": Link(latency_s=0.005)},
}

# %% tags=["nbval-ignore-output"]
for kind in [schedules.gpipe, schedules.one_f_one_b]:
    schedule = kind(4, 8)
    print(f"{schedule.name:<6} by the formula {idle_by_formula(4, 8):.1%}")
    for change, settings in changes.items():
        found = f"{simulate(schedule, **settings).idle_share:.1%} simulated"
        if schedule.name == "1F1B":
            found += f", {run_paced(schedule, **settings).idle_share:.1%} measured"
        print(f"       {change:<40} {found}")

# %%
reveal("07.formula", changes)

# %% [markdown]
# ![Three small pipelines: longer backwards, one stage longer than the others, and gaps where messages
# travel](../assets/07_wrong.png)
#
# - **Unequal stages.** Everybody waits for the slowest (load imbalance), micro-batch after micro-batch, and more
#   micro-batches do not help. What helps is another cut: `06.cut`, by time.
# - **Messages.** GPipe pays for the latency twice a step: going down, and coming up. 1F1B pays in every turn.
#   "The same bubble" was true for free messages only.
# - **Another definition.** Texts differ in what they divide by, and all call it the bubble, or the bubble fraction:

# %%
step = simulate(schedules.gpipe(4, 8), times)
work_s = step.compute_s[0]
print(f"share of the step that is idle, (p - 1)/(m + p - 1):  {1 - work_s / step.makespan_s:.1%}")
print(f"waiting for each unit of work, (p - 1)/m:             {step.makespan_s / work_s - 1:.1%}")

# %% [markdown]
# The first divides by the whole step: it is what GPipe's authors count, and the idle share of this page. The second
# divides by the time of the work alone, as Megatron-LM's authors do (Narayanan et al., 2021). Nobody is wrong; only
# comparing the one with the other is.
#
# ## Smaller steps on the stairs
#
# ![Eight stages of a model on four ranks: rank 0 holds stages 0 and 4, rank 1 holds 1 and 5, and so on; an arrow goes
# round twice](../assets/07_virtual_stages.png)
#
# <!-- word: virtual stage | also: model chunk, virtual pipeline stage -->
# <!-- word: interleaved 1F1B | also: interleaving, interleaved schedule -->
# The bubble is p - 1 *steps of the stairs* wide. Make the steps smaller: cut the model in 2p stages, and give each rank
# two of them that are p apart. A micro-batch goes round twice. Where a rank holds several stages, each of them is
# called a **virtual stage** (Megatron-LM says *model chunk*). **Interleaved 1F1B** (Narayanan et al., 2021) is 1F1B
# with v virtual stages on each rank, and its bubble shrinks to (p - 1)/(v m + p - 1).

# %% tags=["nbval-ignore-output"]
schedule = schedules.interleaved(4, 8, num_virtual_stages=2)
stage_times = times.divided(2)  # a virtual stage is half of what a rank holds
plan, run = simulate(schedule, stage_times), run_paced(schedule, stage_times)
print(f"by the formula {3 / (2 * 8 + 3):.1%}, simulated {plan.idle_share:.1%}, measured {run.idle_share:.1%}")
pipeline_gantt(plan, run, title="Interleaved 1F1B, two virtual stages a rank")

# %% [markdown]
# (What is measured may lie further from the plan than before: there are twice as many actions of half the length, and
# your machine adds its bit to each.)
#
# Nothing is free. **How many times as many bytes travel between *two* ranks, with two virtual stages a rank instead of
# one stage?**

# %%
### BEGIN SOLUTION
### STUB ask("07.bytes")
ask("07.bytes").commit(2)  # "round twice, so twice"
### END SOLUTION


# %%
def one_step(me, schedule):
    model = pipeline.Pipeline(me, make_stages(schedule.num_stages), schedule, next_token_loss)
    model.step(*batches[0])


sent_bytes = {}
for schedule in [schedules.one_f_one_b(2, 8), schedules.interleaved(2, 8)]:
    said = metered(two, one_step, schedule).communication
    sent_bytes[schedule.name] = said.total_bytes
    messages = said.by_operation()["send"]
    print(f"{schedule.name:<16} {bytes_text(said.total_bytes)} in {messages} messages")

# %%
reveal("07.bytes", sent_bytes["1F1B"], sent_bytes["interleaved 1F1B"])

# %% [markdown]
# (The few messages more, and their bytes, tell each receiver once which shape will come.) More messages, and each rank
# waits for more of them. What does a slow link do to that? These curves are simulated, for four ranks.

# %% tags=["computed-time"]
latencies_ms = [0, 0.5, 1, 2, 3, 5, 7, 10, 15, 20]
curves = {}
for v in [1, 2, 4]:
    schedule, stage_times = schedules.interleaved(4, 8, num_virtual_stages=v), times.divided(v)
    shares = [simulate(schedule, stage_times, link=Link(ms / 1e3)).idle_share for ms in latencies_ms]
    curves["1F1B" if v == 1 else f"{v} virtual stages"] = (latencies_ms, [100 * share for share in shares])
lines(
    curves,
    x_label="time of a message (ms); a forward takes 10 ms",
    y_label="idle share (%)",
    title="Four ranks, eight micro-batches, simulated",
)

# %% [markdown]
# On a quick link more virtual stages are better, on a slow one worse: each pair of curves crosses, four virtual stages
# well before two.
#
# ## A backward in two halves
#
# ![A linear layer in the backward pass: from the arriving gradient one arrow goes to the gradient of the inputs, for
# which the stage before is waiting, and one to the gradient of the weights, for which nobody
# waits](../assets/07_halves.png)
#
# <!-- word: split backward | also: dgrad and wgrad, I and W, B and W -->
# What does the stage before wait for? For the gradient of *its output*, which is your input. The gradient of your
# weights is needed by nobody until the optimizer steps. Autograd computes both in one go. A **split backward** has two
# halves: **I**, the gradients of the inputs, for which others wait, and **W**, the gradients of the weights, which can
# fill a hole. (I and W are PyTorch's letters; other texts say *dgrad* and *wgrad*.)
#
# ### Build: two halves of one layer
#
# For a linear layer `y = x @ weight.T`, write both halves. `gradient` is that of y. Return the gradient of x, and a
# *function* that adds the gradient of the weight to `weight.grad` when it is called, later. (Something stands in
# `weight.grad` already: earlier micro-batches have left it there.)


# %%
def backward_in_halves(x, gradient, weight):
    """x: (samples, inputs), gradient: (samples, outputs), weight: (outputs, inputs)."""
    ### BEGIN SOLUTION
    return gradient @ weight, lambda: weight.grad.add_(gradient.T @ x)
    ### END SOLUTION


# %%
halves_verdict = check("07.halves", backward_in_halves)

# %%
# hint("07.halves")

# %% [markdown]
# <!-- word: zero bubble | also: zero bubble schedule, ZB-H1, ZB-V -->
# For a whole stage the same is done on autograd's graph (`course_lib/parallel/pipeline/split_backward.py`): walk it for
# the inputs' gradients, and note down what the weights still need. A **zero bubble** schedule splits each backward and
# puts the half for the weights where a rank would wait. **ZB-H1** (Qi et al., 2023) does this to 1F1B. The plan and the
# run:

# %% tags=["nbval-ignore-output"]
zero_bubble = schedules.zero_bubble_h1(4, 8)
plan, run = simulate(zero_bubble, times), run_paced(zero_bubble, times)
before = simulate(schedules.one_f_one_b(4, 8), times)
print(f"1F1B {before.idle_share:.1%} simulated; ZB-H1 {plan.idle_share:.1%}, measured {run.idle_share:.1%}")
pipeline_gantt(plan, run, title="ZB-H1: yellow goes back, green can wait")

# %% [markdown]
# A smaller bubble, with one stage a rank: the cuts are those of 1F1B, and so are the messages. **Who pays, and with
# what?** Under 1F1B the ranks had 4, 3, 2 and 1 micro-batches in flight.

# %%
### BEGIN SOLUTION
### STUB ask("07.payer")
ask("07.payer").commit("nowhere")  # "the W's only move"
### END SOLUTION


# %%
def in_flight_of_a_step(me, schedule):
    model = pipeline.Pipeline(me, make_stages(schedule.num_stages), schedule, next_token_loss)
    model.step(*batches[0])
    return max(model.peak_in_flight.values())


zero_peaks = list(four.run(in_flight_of_a_step, zero_bubble))
plain_peaks = list(four.run(in_flight_of_a_step, schedules.one_f_one_b(4, 8)))
print("1F1B: ", plain_peaks)
print("ZB-H1:", zero_peaks)
print(str(zero_bubble).split("\n", 1)[1])
reveal("07.payer", plain_peaks, zero_peaks)

# %% [markdown]
# ### Against somebody else's numbers
#
# Everything simulated on this page comes from one small simulator. Does it agree with anybody? The authors of ZB-H1
# profiled models on their GPUs and published the times and the bubbles (arXiv 2401.10241, tables 5 and 9). Their
# measure, the *bubble rate*, counts from a stage's own first forward to its own last action, on the stage that takes
# longest. For p stages, m micro-batches and v virtual stages a rank:

# %%
published = [  # p, m, v; forward, input half, weight half, message (ms); 1F1B, ZB-H1, interleaved
    (8, 24, 3, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1055),
    (8, 32, 3, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.1242, 0.0818),
    (8, 24, 4, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0808),
    (16, 48, 3, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.1104),
]
names = f"{'1F1B':<8}{'ZB-H1':<8}inter."
print(f"{'':<35}{names}{'':<13}{names}")
for p, m, v, *ms, in_1f1b, in_zb, in_interleaved in published:
    stage, link = StageTimes(*[each / 1e3 for each in ms[:3]]), Link(ms[3] / 1e3)
    plans = [(schedules.one_f_one_b(p, m), stage), (schedules.zero_bubble_h1(p, m), stage)]
    plans += [(schedules.interleaved(p, m, v), stage.divided(v))]
    here = "  ".join(f"{simulate(plan, each, link=link).bubble_rate:.4f}" for plan, each in plans)
    there = f"{in_1f1b:.4f}  {in_zb:.4f}  {in_interleaved:.4f}"
    print(f"{p:>2} stages, {m} micro-batches   here {here}   published {there}")

# %% [markdown]
# To the last digit for two schedules. For the third it is close; the course's simulator lets *every* micro-batch pay
# for its way from the last rank back to the first.
#
# ## The schedule studio
#
# ![The schedule studio's picture: four ranks, boxes of forwards and backwards, planned above and measured
# below](../assets/07_studio.png)
#
# Now you. Choose a schedule or type into its table; it is checked and simulated while you type. The button runs *your*
# table on real ranks and lays what was measured below what was planned. A new choice writes over the table; *back to my
# table* brings yours back. All of it works by keyboard.
#
# 1. **Warm-up.** Start from GPipe with 4 ranks and 8 micro-batches. Move B0 of rank 3 to the left, as far as it goes.
#    What happens to the idle share, what to the micro-batches in flight?
# 2. **Slow link.** Eight micro-batches. Which schedule of the list is idle least with a latency of 1 ms, and which
#    with 5 ms? The list has two that this page did not speak of: *looped BFS*, which is GPipe with virtual stages, and
#    *ZB-V*, a zero bubble with two virtual stages a rank that lie in a V, so that the last piece is on rank 0 again.
# 3. **The mission.** Four ranks, six micro-batches, *at most three of them in flight* on any rank, and less idle time
#    than GPipe. 1F1B needs four, ZB-H1 too.


# %%
def run_on_ranks(schedule, times, link):
    return run_paced(schedule, times, link=link)


goal = Goal(num_ranks=4, num_micro_batches=6, max_in_flight=3, idle_share=idle_by_formula(4, 6))
studio = ScheduleStudio(run_on_ranks, kind="1f1b", num_ranks=4, num_micro_batches=6, goal=goal)
studio

# %% [markdown]
# The second task, in numbers. Micro-batches in flight are counted for a whole rank: where a rank holds two virtual
# stages, one that is in flight on one of them counts half. (The studio counts single stages.)

# %% tags=["computed-time"]
print("idle with a latency of   1 ms    5 ms   in flight on the fullest rank")
for kind in ["gpipe", "1f1b", "interleaved", "looped_bfs", "zb_h1", "zb_v"]:
    schedule = schedules.get_schedule(kind, 4, 8)
    v = schedule.num_stages // 4
    plans = [simulate(schedule, times.divided(v), link=Link(ms / 1e3)) for ms in [1, 5]]
    shares = "   ".join(f"{plan.idle_share:>5.1%}" for plan in plans)
    print(f"{schedule.name:<22} {shares}   {max(plans[0].peak_in_flight) / v:g}")

# %% [markdown]
# The winner changes with the link, and the winner on the slow one holds everything, as GPipe does. (See also what
# interleaving holds: its bill is not for messages alone.) There is no best schedule. There is one for a link, a memory
# and a number of micro-batches.
#
# ### Build: a schedule of your own
#
# Hand in your table for mission 3: as a text, a line for each rank, or straight from the studio: `studio.schedule`. A
# backward takes twice as long as a forward, and I and W half of that each.

# %%
### BEGIN SOLUTION
### STUB my_schedule = ...  # studio.schedule, or a text of four lines
my_schedule = """
F0 F1 F2 I0 W0 I1 F3 I2 W1 F4 W2 F5 I3 W3 I4 W4 I5 W5
F0 F1 F2 I0 I1 W0 I2 W1 F3 W2 F4 F5 I3 I4 W3 I5 W4 W5
F0 F1 I0 F2 I1 I2 W0 W1 W2 F3 F4 I3 F5 I4 I5 W3 W4 W5
F0 I0 F1 I1 F2 I2 W0 W1 W2 F3 I3 F4 I4 F5 I5 W3 W4 W5
"""
### END SOLUTION
design_verdict = check("07.design", my_schedule)

# %%
# hint("07.design")

# %% tags=["nbval-ignore-output"]
designed, whose = schedules.zero_bubble_h1(4, 6), "ZB-H1, until yours is handed in"
if design_verdict.passed:
    is_schedule, whose = isinstance(my_schedule, schedules.Schedule), "Your schedule"
    designed = my_schedule if is_schedule else schedules.from_text(my_schedule, name="your schedule")
plan, run = simulate(designed, times), run_paced(designed, times)
print(
    f"{plan.idle_share:.1%} idle planned, {run.idle_share:.1%} measured; in flight by rank: {plan.peak_in_flight}"
)
pipeline_gantt(plan, run, title=f"{whose}: planned and run")

# %% [markdown]
# The runtime knows no schedule by name, neither ZB-H1 nor yours. It reads a row, waits for what an action needs, runs
# it, and sends on what it made; that is all it knows.
#
# ## Pipelines side by side
#
# ![Four ranks in a square: ranks 0 and 1 are a pipeline, ranks 2 and 3 another; dotted lines join ranks 0 and 2, and
# ranks 1 and 3, which hold the same stage](../assets/07_grid.png)
#
# A pipeline has an end: a model of eight blocks cannot be cut in a hundred stages. More devices go into *replicas*: two
# pipelines of two stages, each with half of the batch. Ranks that hold the same stage average their gradients, as in
# lesson 04.


# %%
PIPELINES, SAME_STAGE = [[0, 1], [2, 3]], [[0, 2], [1, 3]]


def two_by_two(me, num_micro_batches, way=None):
    """One batch over two pipelines; how far are the gradients from the uncut model's?"""
    replica, stage = me.rank // 2, me.rank % 2
    group = [dist.new_group(ranks) for ranks in SAME_STAGE][stage]  # every rank makes all groups
    schedule = schedules.one_f_one_b(2, num_micro_batches)
    stages, ranks = make_stages(2), PIPELINES[replica]
    model = pipeline.Pipeline(me, stages, schedule, next_token_loss, ranks=ranks)
    x, y = (tensor.chunk(2)[replica] for tensor in batches[0])
    if way is None:
        pipeline.joint_step(model, x, y, group)
    else:
        way(model, group, lambda: model.step(x, y))
    whole = make_stages(2)
    next_token_loss(whole[1](whole[0](batches[0][0])), batches[0][1]).backward()
    pairs = zip(model.parameters(), whole[stage].parameters(), strict=True)
    return max((mine.grad.cpu() - right.grad).abs().max().item() for mine, right in pairs)


run = metered(four, two_by_two, 4)
print("gradients agree with the uncut model's to 1e-5 on all ranks:", max(run) < 1e-5)
print("operations:", run.communication.by_operation())

# %% [markdown]
# Two kinds of traffic: activations and gradients of activations by `send` and `recv` *within* a pipeline, gradients of
# weights by all-reduce *across* pipelines. (Count the sends: four activations and four gradients in each of two
# pipelines, and once in each the shape of what will come. How `joint_step` averages is not shown: you will write it in
# clinic 1.)
#
# "Pipeline parallelism is a combination of data and model parallelism", says one text. Bet:

# %%
### BEGIN SOLUTION
### STUB ask("07.b6")
ask("07.b6").commit("holds")
### END SOLUTION

# %%
tried["B6"] = trial("B6").run()
print(tried["B6"])
reveal("07.b6", tried["B6"])

# %% [markdown]
# ## Clinic 1: the link that is always full
#
# ![Two pipelines and the link between them, black from end to end, with a question mark](../assets/07_clinic_bytes.png)
#
# *Symptom.* Another team has the same two pipelines. Their losses are right. They cut the batch in more micro-batches,
# for the bubble's sake, and the step gets *slower*. The link between the replicas is always full. This is how they call
# the step:


# %%
def that_teams_way(model, group, step):
    def average(weight):
        dist.all_reduce(weight.grad, op=dist.ReduceOp.AVG, group=group)

    hooks = [weight.register_post_accumulate_grad_hook(average) for weight in model.parameters()]
    step()
    for hook in hooks:
        hook.remove()


# %% [markdown]
# **Why is the link full?** Name a suspect. The meter speaks after you.

# %%
### BEGIN SOLUTION
### STUB ask("07.sync")
ask("07.sync").commit("the stages are too large for the link")
### END SOLUTION

# %% tags=["computed-time"]
print("micro-batches   all-reduces   bytes of all-reduces      send and recv   gradients right")
for m in [1, 2, 4]:
    run = metered(four, two_by_two, m, that_teams_way)
    said = run.communication
    reduced, sent = said.of(operation="all_reduce").total_bytes, said.of(operation="send").total_bytes
    print(
        f"{m:>13}   {said.by_operation()['all_reduce']:>11}   {bytes_text(reduced):>20}   "
        f"{bytes_text(sent):>16}   {max(run) < 1e-5}"
    )

# %%
reveal("07.sync")

# %% [markdown]
# ### Mend it
#
# Write it anew: other lines before and after `step()` than that team's, so that the bytes stay what they are with one
# micro-batch: each rank hands its gradients in once for a batch, be it to an all-reduce or an all-gather. On its own
# rank a gradient adds up over micro-batches without a message. (`group` has as many ranks as there are pipelines, which
# need not be two.)


# %%
def averaged(model, group, step):
    """One step of a pipeline, and gradients that are averaged over ``group``."""
    ### BEGIN SOLUTION
    step()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)
    ### END SOLUTION


# %%
sync_verdict = check("07.sync", averaged)

# %%
# hint("07.sync")

# %% [markdown]
# PyTorch's wrappers behave as that team's hooks do: they average at every backward. `DistributedDataParallel` has
# `no_sync()` for it, and `torch.distributed.pipelining` switches the averaging on for the last micro-batch only. This
# course's `joint_step` calls `pipeline.average_gradients`, which puts all gradients of a rank in one message.
#
# ## Clinic 2: eight times more careful
#
# ![A batch in one, two, four and eight pieces, and beside each the step that is taken: an arrow, half as long each
# time](../assets/07_clinic_loss.png)
#
# *Symptom.* A team goes from one micro-batch to eight, and their model learns more slowly. Nothing else was changed.
# With plain SGD it is plain to see; Adam divides by the size of the gradients, and hides it.


# %%
def step_of_that_team(me, num_micro_batches):
    def loss_of(output, target):
        return next_token_loss(output, target) / num_micro_batches

    schedule = schedules.one_f_one_b(2, num_micro_batches)
    model = pipeline.Pipeline(me, make_stages(2), schedule, loss_of)
    x, y = batches[0]
    output = model.forward_only(x)
    model.step(x, y)
    gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    loss = None if output is None else round(next_token_loss(output, y.to(me.device)).item(), 4)
    return loss, gradients.norm().item()


print("micro-batches   loss before the step   size of the gradients, rank 0 and rank 1")
for m in [1, 2, 4, 8]:
    run = two.run(step_of_that_team, m)
    print(f"{m:>13}   {run[1][0]:>20}   {run[0][1]:.4f}   {run[1][1]:.4f}")

# %%
### BEGIN SOLUTION
### STUB ask("07.twice")
ask("07.twice").commit("micro-batches are too small for good gradients")
### END SOLUTION

# %%
reveal("07.twice")

# %% [markdown]
# ### Mend it
#
# They came from gradient accumulation by hand, where that division is right.
#
# What should one micro-batch contribute, so that a plain *sum* over micro-batches gives the mean loss of the batch and
# its gradients? Write it once and for all, for a classifier, with outputs of any size; the last micro-batch may be
# smaller than the others. `num_samples` is the size of the whole batch.


# %%
def contribution(output, target, num_samples):
    """What this micro-batch adds to the batch's mean loss. output: (samples, classes), target: (samples,)."""
    ### BEGIN SOLUTION
    return torch.nn.functional.cross_entropy(output, target, reduction="sum") / num_samples
    ### END SOLUTION


# %%
loss_verdict = check("07.loss", contribution)

# %%
# hint("07.loss")

# %% [markdown]
# ## Clinic 3: after you
#
# ![Two ranks that hang, with a question mark between them](../assets/07_clinic_send.png)
#
# *Symptom.* Somebody writes a runtime for two stages with `dist.send` and `dist.recv`. Under GPipe it works. Under 1F1B
# it hangs. "On gloo this works, it only hangs on NCCL", says a colleague; "small messages are buffered", says another.
# Do not believe anybody. Look.


# %%
def messages_of(me, schedule, send, numbers):
    """Only the messages: two ranks, each action sends or receives ``numbers`` numbers."""
    tensor, other, sent = torch.zeros(numbers), 1 - me.rank, []
    for action in schedule.rows[me.rank]:
        if (action.kind == "F") == (me.rank == 0):
            sent.append(send(tensor, other))
        else:
            dist.recv(tensor.clone(), other)
    for work in filter(None, sent):  # dist.send returns nothing to wait for
        work.wait()


def outcome(schedule, send, numbers=1):
    """Did it end? If not, where did the ranks stand?"""
    with Cluster(2, backend="gloo") as ranks:
        try:
            ranks.call(messages_of, (schedule, send, numbers), timeout_s=3, show=False)
            return "it ends"
        except RankError as error:
            return str(error)


# %% [markdown]
# **Why does it hang under 1F1B?** Name a suspect. Then see where the ranks stood.

# %%
### BEGIN SOLUTION
### STUB ask("07.send")
ask("07.send").commit("the messages are too large for gloo's buffers")
### END SOLUTION

# %% tags=["computed-time"]
print("GPipe, one number a message: ", outcome(schedules.gpipe(2, 4), dist.send))
print("1F1B, one number a message:  ", outcome(schedules.one_f_one_b(2, 4), dist.send))

# %%
reveal("07.send")

# %% [markdown]
# So both were wrong about `dist.send`: sends that cross end in a deadlock on gloo, with the smallest message there is.
#
# ### Mend it
#
# `torch.distributed` has another function that sends. It returns at once, and what it returns can be waited for, which
# `messages_of` does at the end. Which one is it?

# %%
### BEGIN SOLUTION
### STUB way_to_send = dist.send  # which function returns before the message has been taken?
way_to_send = dist.isend
### END SOLUTION

# %%
print("1F1B, one number a message:", outcome(schedules.one_f_one_b(2, 4), way_to_send))

# %% tags=["computed-time"]
print("1F1B, a million numbers:   ", outcome(schedules.one_f_one_b(2, 4), way_to_send, 1_000_000))

# %% [markdown]
# With the function that returns at once it ends. (The price: until what it returned has been waited for, the tensor
# must not be changed, nor its memory be reused.)
#
# And *this* is the program that works on gloo and may hang on NCCL. There a message is a kernel in a queue of the GPU,
# and a `recv` can stand in that queue behind the very `send` that waits for it. NVIDIA's guide to NCCL, under
# *Point-to-point communication*, says: calls that have to progress at the same time must be merged into one group. In
# PyTorch that is `dist.batch_isend_irecv`, and in this course `exchange`. (You read what the documents say here; this
# page was not run on NCCL.)
#
# | crossing messages | gloo, tried above | NCCL, by its documents |
# |---|---|---|
# | `dist.send`, then `dist.recv` | hangs | not safe: not in one group |
# | `dist.isend`, then `dist.recv` | works | not safe: not in one group |
# | `dist.batch_isend_irecv([...])` | works: every pipeline on this page | the way to do it |
#
# A runtime therefore has to know which messages of a schedule *cross*, and start those together. Ours derives it from
# the table (`course_lib/parallel/pipeline/messages.py`), and `validate` refuses tables for which it cannot be done.
#
# ## In production
#
# ![One schedule as a CSV table with two arrows, to the course's runtime and to PyTorch's](../assets/07_production.png)
#
# PyTorch has all of this in `torch.distributed.pipelining`. The same stages, the same schedule, the same batch. (Where
# ranks share a GPU and so talk through gloo, PyTorch's stages stay on the CPU: gloo sends no CUDA tensors.)


# %%
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B


def device_of_torch(me):
    return torch.device("cpu") if dist.get_backend() == "gloo" else me.device


def torch_stages(me, schedule):
    stages, device = make_stages(schedule.num_stages), device_of_torch(me)
    mine = schedule.stages_of_rank[me.rank]
    return [PipelineStage(stages[s].to(device), s, len(stages), device) for s in mine]


def run_by_torch(me, schedule, runner, x, y):
    first, last = schedule.rank_of_stage[0], schedule.rank_of_stage[-1]
    losses = [] if me.rank == last else None
    x, y = (tensor.to(device_of_torch(me)) for tensor in (x, y))
    runner.step(*[x] * (me.rank == first), target=y if me.rank == last else None, losses=losses)
    return torch.stack(losses).mean() if losses else None


# %%
def both(me, schedule, make_runner, batch):
    """The loss by PyTorch and by the course, and the largest difference between gradients."""
    stages = torch_stages(me, schedule)
    loss = run_by_torch(me, schedule, make_runner(me, stages, schedule), *batch)
    model = pipeline.Pipeline(me, make_stages(schedule.num_stages), schedule, next_token_loss)
    ours = model.step(*batch)
    theirs = [parameter for stage in stages for parameter in stage.submod.parameters()]
    pairs = zip(theirs, model.parameters(), strict=True)
    apart = max((their.grad.cpu() - our.grad.cpu()).abs().max().item() for their, our in pairs)
    return None if loss is None else (round(loss.item(), 4), round(ours.item(), 4)), apart


def one_f_one_b_of_torch(me, stages, schedule):
    return Schedule1F1B(stages[0], schedule.num_micro_batches, loss_fn=next_token_loss)


def interleaved_of_torch(me, stages, schedule):
    return ScheduleInterleaved1F1B(stages, schedule.num_micro_batches, loss_fn=next_token_loss)


# %%
def compare(cluster, schedule, make_runner, batch=batches[0]):
    run = cluster.run(both, schedule, make_runner, batch)
    losses = run[schedule.rank_of_stage[-1]][0]
    agree = max(apart for _, apart in run) < 1e-5
    print(f"{schedule.name:<16} loss by PyTorch and here: {losses}; gradients agree to 1e-5: {agree}")


compare(four, schedules.one_f_one_b(4, 8), one_f_one_b_of_torch)
compare(two, schedules.interleaved(2, 8), interleaved_of_torch)

# %% [markdown]
# And *your* schedule? PyTorch's runtime reads a table as well: a CSV file, a line for each rank. That reader's name
# begins with an underscore, so it may change. Here it executes the schedule you handed in (or ZB-H1, if you
# have not yet). PyTorch's micro-batches must all be of one size, so the batch has 24 texts.

# %%
print(schedules.to_csv(designed).splitlines()[0])

# %%
import tempfile
from pathlib import Path

from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime


def from_csv_by_torch(me, stages, schedule):
    runtime = _PipelineScheduleRuntime(stages, schedule.num_micro_batches, loss_fn=next_token_loss)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.csv"
        path.write_text(schedules.to_csv(schedule))
        runtime._load_csv(str(path), format="compute_only")  # reads, validates, adds the messages
    return runtime


compare(four, designed, from_csv_by_torch, tuple(tensor[:24] for tensor in batches[0]))

# %% [markdown]
# Two runtimes, and both read the schedule as a table. And the time of a step, side by side:


# %% tags=["nbval-ignore-output"]
def times_of_both(me, schedule, repeats=5):
    (x, y), times_s = batches[0], {"PyTorch": [], "the course": []}
    runner = one_f_one_b_of_torch(me, torch_stages(me, schedule), schedule)
    model = pipeline.Pipeline(me, make_stages(me.world_size), schedule, next_token_loss)
    steps = {
        "PyTorch": lambda: run_by_torch(me, schedule, runner, x, y),
        "the course": lambda: model.step(x, y),
    }
    for name in list(steps) * repeats:
        dist.barrier()
        start_s = time.perf_counter()
        steps[name]()
        times_s[name].append(time.perf_counter() - start_s)
    return {name: min(each) for name, each in times_s.items()}


for name, time_s in two.run(times_of_both, schedules.one_f_one_b(2, 8))[0].items():
    print(f"{name:<11} {time_s * 1e3:6.1f} ms, the quickest step of 1F1B on two ranks")

# %% [markdown]
# | you wrote | production code uses |
# |---|---|
# | `gpipe_table`, `order_of_stage` | `ScheduleGPipe`, `Schedule1F1B`, `ScheduleInterleaved1F1B` |
# | `backward_in_halves` | `ScheduleInterleavedZeroBubble`, `ScheduleZBVZeroBubble` |
# | `my_schedule` | a CSV table for `_PipelineScheduleRuntime` |
# | `averaged` | data-parallel wrappers around stages; averaging after the last micro-batch |
# | `cut` | by hand, or `torch.distributed.pipelining.pipeline(...)`, which traces the model |
#
# Use PyTorch's for work. Use this course's to find out what a schedule does before you pay for a cluster.
#
# ## Four sentences, tried
#
# ![Four ranks on a time axis, boxes and bubbles, under a question mark](../assets/07_quiz.png)

# %% tags=["nbval-ignore-output"]
for name, evidence in tried.items():
    print(f"{evidence.verdict}: {trial(name).claim.text}")

# %% [markdown]
# ### Five questions

# %% tags=["computed-time"]
quiz("07")

# %% [markdown]
# ## What you can do now
#
# You can say how long a pipeline waits before it is built, and when the usual formula lies. You know the three prices
# of a smaller bubble: memory (more micro-batches under GPipe), messages (interleaving), put-off work (zero bubble). You
# can write a schedule that no library ships and have it executed by two runtimes. You know three faults by their
# evidence: the bill, the ratio, and the deadlock of two ranks that are both sending.
#
# **The limit.** A stage is at least one layer, and a layer has to fit on one device. For a very wide layer it does not.
# And the more stages, the more micro-batches it takes to fill them, until the batch is larger than is good for
# learning. Lesson 08 cuts *inside* the layer: all devices work on the same micro-batch at the same moment.
#
# **Further reading.** Huang et al., *GPipe* (2019), section 2.3: the bubble and what recomputing does to memory.
# Narayanan et al., *PipeDream* (2019), section 3: 1F1B, there without a flush. Narayanan et al., *Efficient
# Large-Scale Language Model Training on GPU Clusters Using Megatron-LM* (2021), section 2.2: interleaving, and its
# bill. Qi et al., *Zero Bubble Pipeline Parallelism* (2023), section 2: the two halves, and schedules
# from them. Lamy-Poirier, *Breadth-First Pipeline Parallelism* (2022): pipelines, replicas and small batches together.
