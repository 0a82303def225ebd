# %% [markdown]
# # 07b · Pipelines and their bubbles: smaller bubbles, and a schedule of your own
#
# You make the bubble smaller in two ways: several stages on each rank, and a backward in two halves. Both have a price.
# Then you design a schedule for a memory limit, and real ranks execute it.
#
# **55 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 2 of 5 · [1: micro-batches, GPipe and 1F1B](07a_pipeline_parallel.ipynb) · [3: the loop, its faults and
# production](07c_runtime_and_faults.ipynb) · [4: build the runtime](07d_build_pipeline.ipynb) · [5: search a
# schedule](07e_search_a_schedule.ipynb)
#
# This part builds on [07a: micro-batches, GPipe and 1F1B](07a_pipeline_parallel.ipynb). Have you done it? `from
# course_lib import start; start("07b")` says whether you have.
#
# At the end you can
#
# - say when the formula of the idle share is wrong;
# - say what interleaving and a split backward save, and what they cost;
# - design a schedule for a memory limit, and have it executed.
#
# From part 1 you need the idle share of GPipe and 1F1B, (p - 1)/(m + p - 1) for p equal stages and m micro-batches. A
# micro-batch is *in flight* on a stage from its forward to its backward.

# %%
from course_lib import Link, ask, check, hint, reveal, schedules, shared_cluster
from course_lib.cost import simulate
from course_lib.data import documentation_windows, loader
from course_lib.meter import bytes_text, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel import pipeline
from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.plot import lines, pipeline_gantt
from course_lib.schedules import StageTimes
from course_lib.widgets import Goal, ScheduleStudio

import torch

# %% tags=["nbval-ignore-output"]
two, four = shared_cluster(2), shared_cluster(4)

# %% [markdown]
# *Computing is paced* on this page, as in part 1. A rank waits as long as a device would compute, 10 ms for a forward
# and 20 ms for a backward. Ranks, messages, their order and the clock are real. Some cells do real arithmetic, and the
# text says so there.


# %%
def run_paced(schedule, times, steps=1, **settings):
    """Which rank did what and when, on real ranks: the quickest of `steps` steps."""
    ranks = shared_cluster(schedule.num_ranks)
    taken = pipeline.run_pipeline_steps(ranks, schedule, times, steps=steps, **settings)
    return min(taken, key=lambda step: step.makespan_s)


def idle_by_formula(p, m):
    return (p - 1) / (m + p - 1)


times = StageTimes.of(0.010)

# %% [markdown]
# ## When the formula is wrong
#
# ![Boxes of GPipe on four ranks; arrows below mark where the pipeline fills and where it empties, which together is p
# minus 1 moments of waiting](../assets/07_formula.png)
#
# Part 1 derived (p - 1)/(m + p - 1) from this picture, with equal boxes. Change the picture in one of three ways. A
# backward takes three times as long as a forward, not twice. Or stage 1 takes 1.5 times as long as the other stages. Or
# a message takes half as long as a forward.
#
# **With 1F1B, four stages and eight micro-batches: which of these changes leaves the idle share as it is?**

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
# - **Unequal stages.** All ranks wait for the slowest (load imbalance), micro-batch after micro-batch, and more
#   micro-batches do not help. Another cut helps: `06.cut`, by time.
# - **Messages.** Under GPipe ranks wait for latency twice in a step: once forward and once backward. Under 1F1B they
#   wait for it in every turn. The two bubbles are equal only if messages take no time.
# - **Another definition.** Texts divide the waiting time by different things, and call each result the bubble or the
#   bubble fraction:

# %%
step = simulate(schedules.gpipe(4, 8), times)
work_s = step.compute_s[0]
print(f"share of the step that is idle, (p - 1)/(m + p - 1):  {1 - work_s / step.makespan_s:.1%}")
print(f"waiting for each unit of work, (p - 1)/m:             {step.makespan_s / work_s - 1:.1%}")

# %% [markdown]
# The first number divides by the time of the whole step, as GPipe's authors do. It is the idle share of this page. The
# second number divides by the working time alone, as Megatron-LM's authors do (Narayanan et al., 2021). Both are right,
# but you cannot compare one with the other.
#
# ## Smaller steps on the stairs
#
# ![Eight stages of a model on four ranks: rank 0 holds stages 0 and 4, rank 1 holds 1 and 5, and so on; an arrow goes
# round twice](../assets/07_virtual_stages.png)
#
# <!-- word: virtual stage | also: model chunk, virtual pipeline stage -->
# <!-- word: interleaved 1F1B | also: interleaving, interleaved schedule -->
# The bubble lasts p - 1 *steps of the staircase*. Make these steps shorter: cut the model in 2p stages, and give rank r
# the stages r and p + r. Then a micro-batch passes all ranks twice. If a rank holds several stages, each of them is
# called a **virtual stage** (Megatron-LM says *model chunk*). **Interleaved 1F1B** ([Narayanan et al.,
# 2021](https://arxiv.org/abs/2104.04473)) is 1F1B with v virtual stages on each rank, and its bubble shrinks to
# (p - 1)/(v m + p - 1). In the paper the number of micro-batches has to be a multiple of p (section 2.2.2). The
# course's version works with any number.

# %% tags=["nbval-ignore-output"]
schedule = schedules.interleaved(4, 8, num_virtual_stages=2)
stage_times = times.divided(2)  # a virtual stage is half of what a rank holds
plan, run = simulate(schedule, stage_times), run_paced(schedule, stage_times)
print(f"by the formula {3 / (2 * 8 + 3):.1%}, simulated {plan.idle_share:.1%}, measured {run.idle_share:.1%}")
pipeline_gantt(plan, run, title="Interleaved 1F1B, two virtual stages a rank")

# %% [markdown]
# (The measured share may differ more from the plan than before. There are twice as many actions of half the length, and
# your machine adds some time to each action.)
#
# Interleaving has a price. Take *two* ranks with two virtual stages each, and not one stage each. **How many times as
# many bytes do they send?**

# %%
### BEGIN SOLUTION
### STUB ask("07.bytes")
ask("07.bytes").commit(2)  # "round twice, so twice"
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
# (A few of the messages announce, once for each receiver, which shape will come.) With virtual stages there are more
# messages, and each rank waits for more of them. What does a slow link do to the idle share then? The next cell
# simulates it for four ranks.

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
# On a fast link more virtual stages are better, and on a slow link they are worse: each pair of curves crosses. The
# curve of four virtual stages crosses the curve of 1F1B at a much shorter time of a message than the curve of two does.
#
# ## A backward in two halves
#
# ![A linear layer in the backward pass: from the arriving gradient one arrow goes to the gradient of the inputs, for
# which the stage before is waiting, and one to the gradient of the weights, for which nobody
# waits](../assets/07_halves.png)
#
# <!-- word: split backward | also: dgrad and wgrad, I and W, B and W | sentences: 3 -->
# In backward, stage s - 1 waits for the gradient of *its output*, which is the input of stage s. But nobody needs the
# gradient of stage s's weights before the optimizer's step. Autograd computes both together. A **split backward** has
# two halves. **I** computes the gradients of the inputs, for which others wait. **W** computes the gradients of the
# weights, and can fill time in which a rank would wait. (I and W are PyTorch's letters. Other texts say *dgrad* and
# *wgrad*. In the papers on zero bubbles, B is the half for the inputs, and not the whole backward.)
#
# ### Build: two halves of one layer
#
# For a linear layer `y = x @ weight.T`, write both halves. `gradient` is the gradient of y. Return the gradient of x,
# and a *function*. When it is called later, it adds the gradient of the weight to `weight.grad`. (`weight.grad` already
# holds the sum of earlier micro-batches.)


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
# For a whole stage the course does the same on autograd's graph (`course_lib/parallel/pipeline/split_backward.py`). I
# walks the graph for the inputs' gradients, and keeps what the weights' gradients still need. A **zero bubble**
# schedule splits each backward and puts the half for the weights where a rank would wait. **ZB-H1** ([Qi et al.,
# 2023](https://arxiv.org/abs/2401.10241)) does this to 1F1B. The next cell plans and runs it:

# %% tags=["nbval-ignore-output"]
zero_bubble = schedules.zero_bubble_h1(4, 8)
plan, run = simulate(zero_bubble, times), run_paced(zero_bubble, times)
before = simulate(schedules.one_f_one_b(4, 8), times)
print(f"1F1B {before.idle_share:.1%} simulated; ZB-H1 {plan.idle_share:.1%}, measured {run.idle_share:.1%}")
pipeline_gantt(plan, run, title="ZB-H1: I goes back, W can wait")

# %% [markdown]
# The bubble is smaller. The model is cut in the same places as for 1F1B, so ranks send the same messages. But they may
# keep more micro-batches in flight. Under 1F1B they had 4, 3, 2 and 1 in flight. **On which rank does that number grow
# most?**

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
# Everything simulated on this page comes from one small simulator. Does it agree with other people's numbers? The
# authors of ZB-H1 profiled models on their GPUs, and published times and bubbles (arXiv 2401.10241, tables 5 and 9).
# Their measure is the *bubble rate*. It counts from a stage's own first forward to its own last action, on the stage
# that takes longest. The next cell compares both for p stages, m micro-batches and v virtual stages on each rank:

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
# For two schedules the numbers agree to the last digit. For the third they are close. One reason for the difference is
# that in the course's simulator *every* micro-batch needs time from the last rank back to the first.
#
# ## The schedule studio
#
# ![The schedule studio's picture: four ranks, boxes of forwards and backwards, planned above and measured
# below](../assets/07_studio.png)
#
# Now design a schedule. Choose one or type into its table: the studio checks and simulates it while you type. The
# button runs *your* table on real ranks, and draws the measured run below the plan. A new choice replaces the table,
# and *back to my table* brings your table back. You can use all of it by keyboard.
#
# 1. **Warm-up.** Start from GPipe with 4 ranks and 8 micro-batches. Move B0 of rank 3 to the left, as far as it goes.
#    Watch what happens to the idle share and to the micro-batches in flight.
# 2. **Slow link.** Take eight micro-batches. Which schedule of the list has the smallest idle share with a latency of 1
#    ms, and which with 5 ms? The list has schedules that are new on this page. *Looped BFS* ([Lamy-Poirier,
#    2022](https://arxiv.org/abs/2211.05953)) is GPipe with virtual stages. *ZB-V* (Qi et al., section 6) is a zero
#    bubble schedule with two virtual stages on each rank. They go in a V, from rank 0 to the last rank and back, so
#    that the last stage is on rank 0 again.
# 3. **The mission.** Four ranks, six micro-batches, *at most three of them in flight* on any rank, and less idle time
#    than GPipe. 1F1B and ZB-H1 both need four.


# %%
def run_on_ranks(schedule, times, link):
    return run_paced(schedule, times, link=link)


goal = Goal(num_ranks=4, num_micro_batches=6, max_in_flight=3, idle_share=idle_by_formula(4, 6))
studio = ScheduleStudio(run_on_ranks, kind="1f1b", num_ranks=4, num_micro_batches=6, goal=goal)
studio

# %% [markdown]
# The next cell computes the numbers of the second task. It counts micro-batches in flight for a whole rank. If a rank
# holds two virtual stages, a micro-batch in flight on one of them counts half. (The studio counts each stage by
# itself.)

# %% tags=["computed-time"]
print("idle with a latency of   1 ms    5 ms   in flight on the fullest rank")
for kind in ["gpipe", "1f1b", "interleaved", "looped_bfs", "zb_h1", "zb_v"]:
    schedule = schedules.get_schedule(kind, 4, 8)
    v = schedule.num_stages // 4
    plans = [simulate(schedule, times.divided(v), link=Link(ms / 1e3)) for ms in [1, 5]]
    shares = "   ".join(f"{plan.idle_share:>5.1%}" for plan in plans)
    print(f"{schedule.name:<22} {shares}   {max(plans[0].peak_in_flight) / v:g}")

# %% [markdown]
# The link decides which schedule has the smallest idle share. The best schedule on the slow link keeps all
# micro-batches in flight, as GPipe does. (Interleaving keeps more in flight than 1F1B, so it costs memory too.) No
# schedule is always the best. You choose one for your link, memory and number of micro-batches.
#
# ### Build: a schedule of your own
#
# Hand in your table for mission 3: as a text with a line for each rank, or `studio.schedule` from the studio. A
# backward takes twice as long as a forward, and I and W take as long as a forward each.

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
designed, whose = schedules.zero_bubble_h1(4, 6), "ZB-H1, as your schedule has not passed yet"
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
# the action, and sends its result to the next rank.
#
# ## What you can do now
#
# You know when the usual formula is wrong, and three prices of a smaller bubble. They are memory (more micro-batches
# under GPipe), messages (interleaving), and activations that wait for late W's (zero bubble). You can write a schedule
# of your own, and run it. [Part 3](07c_runtime_and_faults.ipynb) shows the runtime that did so.
#
# **Further reading.** Narayanan et al., [Efficient Large-Scale Language Model Training on GPU Clusters Using
# Megatron-LM](https://arxiv.org/abs/2104.04473) (2021), section 2.2: interleaving, and its price. Qi et al., [Zero
# Bubble Pipeline Parallelism](https://arxiv.org/abs/2401.10241) (2023), section 2: the two halves, and schedules from
# them. Lamy-Poirier, [Breadth-First Pipeline Parallelism](https://arxiv.org/abs/2211.05953) (2022): pipelines, replicas
# and small batches together. DeepSeek-AI, [DeepSeek-V3](https://arxiv.org/abs/2412.19437) (2024), section 3.2.1: in
# *DualPipe* micro-batches enter at both ends, so there are two copies of every stage.
