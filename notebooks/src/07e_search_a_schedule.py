# %% [markdown]
# # 07e · Pipelines and their bubbles: search a schedule
#
# A pipeline gets half of the memory, and its step should take only a little longer. You write a program that makes the
# table of its schedule, for stages of any times and with any limit of memory.
#
# **65 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 5 of 5 · [1: micro-batches, GPipe and 1F1B](07a_pipeline_parallel.ipynb) · [2: smaller bubbles, and a schedule
# of your own](07b_smaller_bubbles.ipynb) · [3: the loop, its faults and production](07c_runtime_and_faults.ipynb) ·
# [4: build the runtime](07d_build_pipeline.ipynb)
#
# This part builds on [07b: smaller bubbles, and a schedule of your own](07b_smaller_bubbles.ipynb). Have you done it?
# `from course_lib import start; start("07e")` says whether you have.
#
# At the end you can
#
# - say what a limit of memory costs a pipeline at least;
# - write a list scheduler for a pipeline, and judge its tables;
# - say in which cases a published program makes the shorter step, and in which your own does.
#
# From [part 2](07b_smaller_bubbles.ipynb) you need backwards in halves: I, for which the rank before waits, and W,
# which may come later.

# %%
from course_lib import ask, check, hint, mine, reveal, schedules, shared_cluster
from course_lib.cost import simulate
from course_lib.parallel import pipeline
from course_lib.plot import lines, pipeline_gantt
from course_lib.schedules import Action, Schedule, StageTimes, placement

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ![One micro-batch on four ranks: forwards go down, gradients of inputs come back up, and each rank runs a W. An arrow
# above rank 0 goes from its forward to the end of its W](../assets/07_held.png)
#
# ## What does half of the memory cost?
#
# A rank holds the activations of a micro-batch from its F to the end of its W. In this picture rank 0 waits most of
# that time. With memory for more micro-batches it can run other actions meanwhile. A rank whose memory is full may
# begin no forward.
#
# Qi et al. published a program that makes zero bubble schedules for a given memory (section 3.1 of their paper).
# `schedules.zero_bubble_auto` is the course's version. It was made for a limit of p micro-batches and more, where p is
# the number of ranks.
#
# **Take six ranks and twelve micro-batches. How many times as long is the step of its schedule with a limit of 3 as
# with a limit of 6?** Here F, I and W take 10 ms each, messages take no time, and every step is simulated.

# %%
### BEGIN SOLUTION
### STUB ask("07.half_memory")
ask("07.half_memory").commit(1)  # "there is work enough"
### END SOLUTION

# %% tags=["computed-time"]
each = StageTimes.of(0.010)


def step_s(schedule, times=each):
    return simulate(schedule, times).makespan_s


published_s = {limit: step_s(schedules.zero_bubble_auto(6, 12, limit)) for limit in [3, 6]}
for limit, seconds in published_s.items():
    print(f"limit {limit}: a step of {seconds * 1e3:.0f} ms")

# %% tags=["computed-time"]
reveal("07.half_memory", published_s[6], published_s[3])

# %% [markdown]
# ## Three rules beside each other
#
# <!-- word: list scheduling | also: list scheduler -->
# How does a program make such a table? **List scheduling** places one action after the other: a rule picks each one
# from a list of all actions that could come next. An action that has been placed is never moved.
#
# The rules differ when a rank could begin several actions at the same moment. The tables below were made by three
# rules, for four ranks, five micro-batches and a limit of 4:
#
# - *F before I*: a forward, if the limit allows it; else an I; a W only if neither can begin.
# - *I before F*: an I, if it can begin; else a forward; a W only if neither can begin.
# - *I before F, each W at once*: the same, but the W of a micro-batch follows its I directly.
#
# **Which rule makes the shortest step?**

# %%
### BEGIN SOLUTION
### STUB ask("07.tie")
ask("07.tie").commit("I before F, each W at once")  # "it frees memory early"
### END SOLUTION

# %%
tables = {
    "F before I": """
F0 F1 F2 F3 I0 I1 I2 I3 W0 F4 W1 W2 W3 I4 W4
F0 F1 F2 F3 I0 I1 I2 I3 W0 W1 W2 F4 W3 I4 W4
F0 F1 F2 F3 I0 I1 I2 I3 W0 W1 W2 W3 F4 I4 W4
F0 F1 F2 F3 I0 I1 I2 I3 W0 W1 W2 W3 F4 I4 W4""",
    "I before F": """
F0 F1 F2 F3 I0 W0 I1 F4 I2 W1 I3 W2 W3 I4 W4
F0 F1 F2 F3 I0 W0 I1 W1 I2 F4 I3 W2 W3 I4 W4
F0 F1 F2 I0 F3 I1 W0 I2 W1 I3 F4 W2 W3 I4 W4
F0 I0 F1 I1 F2 I2 F3 I3 W0 W1 F4 I4 W2 W3 W4""",
    "I before F, each W at once": """
F0 F1 F2 F3 I0 W0 F4 I1 W1 I2 W2 I3 W3 I4 W4
F0 F1 F2 F3 I0 W0 I1 W1 F4 I2 W2 I3 W3 I4 W4
F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 F4 I3 W3 I4 W4
F0 I0 W0 F1 I1 W1 F2 I2 W2 F3 I3 W3 F4 I4 W4""",
}

# %% tags=["computed-time"]
plans = {name: simulate(schedules.from_text(text, name=name), each) for name, text in tables.items()}
for name, plan in plans.items():
    print(f"{name:<28} {plan.makespan_s * 1e3:.0f} ms, in flight by rank: {plan.peak_in_flight}")

# %%
reveal("07.tie", {name: plan.makespan_s for name, plan in plans.items()})

# %% tags=["nbval-ignore-output"]
pipeline_gantt(plans["F before I"])

# %% tags=["nbval-ignore-output"]
pipeline_gantt(plans["I before F"])

# %% [markdown]
# All three keep to the limit, and do the same work. Follow rank 0 in both pictures from its fifth action on.
#
# ## Build: a program that finds a schedule
#
# Your function gets the times of each stage; stage s is on rank s. It returns a `Schedule` of F, I and W. The
# schedule's step should be short, for any times.
#
# The next cell makes a `Schedule` of two ranks and one micro-batch. An `Action` has a kind, a stage and the number of
# its micro-batch:

# %% tags=["computed-time"]
rows = [
    [Action("F", 0, 0), Action("I", 0, 0), Action("W", 0, 0)],
    [Action("F", 1, 0), Action("I", 1, 0), Action("W", 1, 0)],
]
example = Schedule("example", 1, placement(2), rows)
print(example)
print("problems:", schedules.validate(example, max_in_flight=1))
print("time of an I:", each.time_s("I"), "s")

# %% [markdown]
# The check tries 24 cases. They have one to six ranks and up to twelve micro-batches, in some cases fewer micro-batches
# than ranks. Limits go from 1 to 2p, and some stages are slower than others or have a long I or W. A table passes if it
# can run, keeps its limit, and has a short step. The step may take 15% longer than that of the better of two programs
# of the course. Try your own cases first, with `validate`, `peak_in_flight` and `simulate`.


# %%
def find_schedule(times, num_micro_batches, max_in_flight):
    """A Schedule of F, I and W under a limit of memory, with a step that is as short as you can make it.

    ``times``: a list of StageTimes, one for each rank, in seconds. ``max_in_flight``: so many micro-batches may be
    between the begin of F and the end of W on a rank. Messages take no time.
    """
    ### BEGIN SOLUTION
    p, m = len(times), num_micro_batches
    rows, free_s, end_s = [[] for _ in times], [0.0] * p, {}
    count = [{"F": 0, "I": 0, "W": 0} for _ in times]

    def ready_s(kind, s):
        i = count[s][kind]
        if i == m or (kind == "F" and i - count[s]["W"] == max_in_flight):
            return None
        if kind == "F":
            return end_s.get(("F", s - 1, i)) if s else 0.0
        own = end_s.get(("F" if kind == "I" else "I", s, i))
        return own if kind == "W" or s == p - 1 or own is None else end_s.get(("I", s + 1, i))

    for _ in range(3 * p * m):
        offers = [(ready_s(kind, s), turn, s) for s in range(p) for turn, kind in enumerate("IFW")]
        offers = [(max(at, free_s[s]), turn, s) for at, turn, s in offers if at is not None]
        start_s, turn, s = min(offers)
        kind = "IFW"[turn]
        rows[s].append(Action(kind, s, count[s][kind]))
        free_s[s] = end_s[tuple(rows[s][-1])] = start_s + times[s].time_s(kind)
        count[s][kind] += 1
    return Schedule("found", m, placement(p), rows)
    ### END SOLUTION


# %%
search_verdict = check("07.search", find_schedule)

# %%
# hint("07.search")

# %% [markdown]
# ## Where memory is small
#
# From here on the page runs *your* program, once it has passed. Until then it runs a program of the course.

# %% tags=["nbval-ignore-output"]
find = mine.find_schedule
whose = "yours" if mine.if_passed("find_schedule") else "stand-in"

# %% [markdown]
# Take six ranks and twelve micro-batches again, now with a limit of 2. The published program makes eight tables and
# chooses the best of them. **How long is your step, compared with that of the published program?**

# %%
### BEGIN SOLUTION
### STUB ask("07.small_memory")
ask("07.small_memory").commit("within a tenth of it")  # "both keep to the same limit"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
p, m, limits = 6, 12, [1, 2, 3, 4, 5, 6, 8, 12]
yours_ms = {limit: 1e3 * step_s(find([each] * p, m, limit)) for limit in limits}
theirs_ms = {limit: 1e3 * step_s(schedules.zero_bubble_auto(p, m, limit)) for limit in limits}
print(f"limit {whose:>8}   published")
for limit in limits:
    print(f"{limit:>5} {yours_ms[limit]:>5.0f} ms {theirs_ms[limit]:>8.0f} ms")
fixed_ms = {}
for schedule in [schedules.one_f_one_b(p, m), schedules.zero_bubble_h1(p, m)]:
    held = max(schedules.peak_in_flight(schedule))
    fixed_ms[schedule.name] = {held: 1e3 * step_s(schedule)}
    print(f"{schedule.name:<6} {fixed_ms[schedule.name][held]:.0f} ms, with {held} in flight")

# %% tags=["nbval-ignore-output"]
reveal("07.small_memory", yours_ms[2] / 1e3, theirs_ms[2] / 1e3)

# %% tags=["nbval-ignore-output"]
lines(
    {whose: yours_ms, "published": theirs_ms, **fixed_ms},
    x_label="limit: micro-batches in flight on a rank",
    y_label="step (ms)",
    title="Six ranks, twelve micro-batches, simulated",
)

# %% [markdown]
# Read the curve from right to left. Which is the smallest limit that hardly makes the step longer? Where does your
# program need less time than 1F1B, and how much less memory does it need there?
#
# The published program assumes stages of equal times. Your program works with any times. In the next cell stage 2 of
# four takes 1.5 times as long as the others. Does it help to give your program these times?

# %% tags=["nbval-ignore-output"]
slow = [each, each, StageTimes.of(0.015), each]
for limit in [2, 3, 4]:
    found = {"with their own times": find(slow, 8, limit), "as if all were equal": find([each] * 4, 8, limit)}
    steps = ", ".join(f"{1e3 * step_s(table, slow):.1f} ms {name}" for name, table in found.items())
    print(f"limit {limit}: {steps}")

# %% [markdown]
# ## Run it on ranks
#
# Four real ranks execute a table that your program has made, with three micro-batches in flight at most. Computing is
# paced: a rank waits 10 ms for each F, I and W. Ranks, messages and the clock are real. (Have you built the runtime in
# [part 4](07d_build_pipeline.ipynb)? Then put `mine.MyPipeline` in the place of the course's.)

# %% tags=["nbval-ignore-output"]
chosen, runtime = find([each] * 4, 8, 3), pipeline.GivenStages
planned, measured = simulate(chosen, each), pipeline.run_runtime(four, runtime, chosen, each)
for name, run in {"planned": planned, "measured": measured}.items():
    print(
        f"{name:<9} {1e3 * run.makespan_s:.0f} ms, {run.idle_share:.0%} idle, in flight: {run.peak_in_flight}"
    )
pipeline_gantt(planned, measured, title="Found by a program, and run")

# %% [markdown]
# In the simulation messages take no time, and a rank that is ready begins at once. If the run is longer, look which
# action came late, and for which message it had waited.
#
# ## If you have time left
#
# In which cases is your program worse than the published one? The next cell tries many numbers of ranks, micro-batches
# and limits, with equal times. It prints your three best and three worst cases.

# %% tags=["nbval-ignore-output"]
ratios = {}
for ranks in [2, 3, 4, 6]:
    for count in [2, 4, 8, 12]:
        for limit in sorted({1, 2, ranks, 2 * ranks}):
            published = schedules.zero_bubble_auto(ranks, count, limit)
            own = find([each] * ranks, count, limit)
            ratios[ranks, count, limit] = step_s(own) / step_s(published)
by_ratio = sorted(ratios, key=ratios.get)
for case in [*by_ratio[:3], *by_ratio[-3:]]:
    print(
        "ranks {}, micro-batches {}, limit {}:".format(*case), f"{ratios[case]:.2f} times the published step"
    )

# %% [markdown]
# A list scheduler always takes the earliest start, and never waits for something better. Let your program make several
# tables, with other rules for ties, or with a random choice at each tie. `simulate` says which table has the shortest
# step. In how many of the worse cases does that help, and which rule helps most often?
#
# ## What you can do now
#
# You can make a table for any stages and limits, also where no published schedule fits. You can say how much a limit of
# memory lengthens a step. A list scheduler gives a good table, not always the best one. For small tables a solver can
# find the best one. The authors of the published program also wrote their problem as an integer linear program, in an
# appendix.
#
# **Further reading.** Qi et al., [Zero Bubble Pipeline Parallelism](https://arxiv.org/abs/2401.10241) (2023), section
# 3: their program, and the limits for which they made it. Graham, [Bounds on Multiprocessing Timing
# Anomalies](https://doi.org/10.1137/0117039) (1969): how far from the best a list scheduler can be.
