# %% [markdown]
# # 13c · Claims on trial: a deep dive
#
# Article C goes further than the others: samplers, speed, precision, checkpoints. You bet on its sentences, and
# you meet a trial that gave another verdict when the machine was busy.
#
# **40 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 3 of 4 · [1: a first script](13a_a_first_script.ipynb) · [2: strategies and
# memory](13b_strategies_and_memory.ipynb) · [4: your own](13d_your_own_claim.ipynb)
#
# This part builds on [03a: four steps](03a_data_parallel.ipynb), [04c: drift, checkpoints and the real
# thing](04c_drift_and_production.ipynb) and [13a: a first script](13a_a_first_script.ipynb). Have you done them? `from
# course_lib import start; start("13c")` says so.
#
# At the end you can
#
# - tell "different batches" from "no sample twice", and test for both;
# - say how often a trial errs that times each thing once;
# - name three ways out where other programs disturb the clock.
#
# A bet is a verdict (holds, holds with conditions, misleading, false) and how sure you are; a near one is half a mark.

# %%
from course_lib import ask, bet, reveal, scoreboard, settle, shared_cluster
from course_lib.claims import trial

import inspect
import random
from statistics import median

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))  # ranks for the trials

# %% [markdown]
# ## In its favour
#
# Article C speaks, more than the others, of faults *without an error*. Ranks train on the same batches, checkpoints are
# half written, or batches become too small. It also lists myths, and refutes them. It was never found again either: all
# of it stands here in the words of the course.
#
# ## Case 1: who sees what
#
# Two ranks, 64 samples, and three sentences about seeds and batches. Lessons 03 and 04 have what you need for all
# three; take them quickly.

# %%
### BEGIN SOLUTION
### STUB bet("C5", "C6", "C7")
bet("C5", "C6", "C7").commit(C5=("holds", 90), C6=("holds", 70), C7=("false", 70))
### END SOLUTION

# %%
data = settle("C5", "C6", "C7")

# %% [markdown]
# ### How would you decide this?
#
# C6 catches many. With two seeds no two batches are the same, and a script that prints its first batch on both ranks
# looks healthy. Here is what the trial counts besides:

# %%
print(inspect.getsource(trial("C6").function).partition("    return Evidence(")[0])

# %% [markdown]
# The trial runs two ranks with the seeds 7 and 8, first without a sampler, then with one, and keeps three numbers.
# `repeated` are batches that both ranks have. `both` are samples that both have seen in what would be one shared epoch.
# `missed` are samples that nobody sees although there is a sampler. The first is what the sentence says. The others are
# what its reader wants. Where those two come apart, the verdict is *misleading*.
#
# (The article offers different seeds *or* a distributed sampler. A careful program has both, and gets the last row.)
#
# ## Case 2: one process, many threads
#
# Three on `nn.DataParallel`. C2 and C4 stood at the end of lesson 03b; what do you say now?

# %%
### BEGIN SOLUTION
### STUB bet("C1", "C2", "C4")
bet("C1", "C2", "C4").commit(C1=("holds", 90), C2=("holds", 70), C4=("false", 50))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
threads = settle("C1", "C2", "C4")

# %% [markdown]
# C2 was put on trial with sixty small layers alone at first, where threads stand in line for the interpreter. It held.
# Then somebody asked for large layers. A claim is easily borne out by the one workload that one has at hand.
#
# The trial counts the steps of one worker while another one is busy. Two threads get on side by side where the busy one
# is in a large operator, since PyTorch gives the lock away there. So with large layers the cause that the claim names
# is hardly at work. The speeds below decide nothing, and are left out while the machine is too busy for a clock.
#
# ## Case 3: a trial that changed its mind
#
# ![Two timelines of a trial, one on a quiet machine and one with another program in between; below, pairs of
# measurements side by side](../assets/13_disturbed.png)
#
# A true story. The course had a trial that timed a pipeline. On a quiet machine it said "holds". On a machine with
# other work it said "false" in one run of four. Nothing about pipelines had changed.
#
# You can build that in a few lines. A takes 1 second, B takes 1.3. One measurement in four, at random, is disturbed,
# and then it takes three times as long. A trial measures both once, and says which is faster. **How often does it
# name B?**

# %%
### BEGIN SOLUTION
### STUB ask("13.flips")
ask("13.flips").commit(2)  # "30 % is a lot, it will hardly ever be wrong"
### END SOLUTION

# %%
noise = random.Random(0)


def measured(true_s):
    """Seconds on a machine on which one measurement in four is disturbed, at random."""
    return true_s * (3.0 if noise.random() < 0.25 else 1.0)


def is_wrong(pairs):
    """Whether a trial of so many pairs says that B is the faster one."""
    return median(measured(1.3) / measured(1.0) for _ in range(pairs)) < 1


wrong = {pairs: 100 * sum(is_wrong(pairs) for _ in range(10_000)) / 10_000 for pairs in (1, 3, 7, 15)}
for pairs, share in wrong.items():
    print(f"pairs: {pairs:>3}, wrong in {share:5.2f} % of the trials")
reveal("13.flips", wrong)

# %% [markdown]
# <!-- word: paired measurement | also: paired comparison, interleaved benchmark | sentences: 2 -->
# A **paired measurement** takes the two things that are compared one right after the other. What disturbs the machine
# for a while then disturbs both alike, and their ratio is left.
#
# Three ways out, and the course's trials use all of them:
#
# - **Count** in place of timing, wherever the claim allows it: bytes, calls, samples. Counts do not care who else is on
#   the machine. Most of the trials need no clock at all.
# - **Pair, repeat, and take a middle**, as above. The repeats and the middle did it there, where each measurement was
#   disturbed by itself; pairs help where the load comes and goes.
# - **Know when not to decide.** Linux tells how long a process stood in line for a core. Where that was long, the trial
#   runs again, and in the end says "cannot tell here". A missing verdict costs an evening; a wrong one is quoted for
#   years.
#
# Now four sentences about speed, three of them known from lesson 11d. C3 and C12 are decided by the cost model with
# data sheets, and C8 by ranks whose computing is a timed wait. C11 needs GPUs with NVLink.

# %%
### BEGIN SOLUTION
### STUB bet("C3", "C8", "C11", "C12")
bet("C3", "C8", "C11", "C12").commit(
    C3=("holds", 90), C8=("holds", 70), C11=("holds", 70), C12=("holds with conditions", 50)
)
### END SOLUTION

# %% tags=["nbval-ignore-output"]
speed = settle("C3", "C8", "C11", "C12")

# %% [markdown]
# C8 is a sentence to be careful with: that model parallelism is always better is listed there as a *myth*. It would be
# the worst kind of unfairness to put the myth on trial, and then to say that the article errs. This happened in an
# early draft of this catalogue. Before you refute a sentence, look who says it.
#
# ## Case 4: what training feels
#
# Here are three claims. Synchronising more rarely trades speed for accuracy (C9). A batch per device that is too small
# harms (C10). Mixed precision saves memory and time (C13). And one of everyday work: checkpoints and logs need care
# (C14).
#
# A fifth is not of article C, and the board counts it here. PyTorch's documentation of DDP speaks of a loss that is
# summed over the batch, as with `reduction="sum"` (C15).

# %%
### BEGIN SOLUTION
### STUB bet("C9", "C10", "C13", "C14", "C15")
# a tired learner: "the all-reduce adds gradients up, and so does the sum: nothing gets smaller" (C15)
bet("C9", "C10", "C13", "C14", "C15").commit(
    C9=("holds", 70),
    C10=("false", 50),
    C13=("holds with conditions", 70),
    C14=("holds", 90),
    C15=("false", 50),
)
### END SOLUTION

# %% tags=["nbval-ignore-output"]
training = settle("C9", "C10", "C13", "C14", "C15")

# %% [markdown]
# Three of these have the same shape: two things go by one name. To send rarely can mean to add up gradients first,
# which is exact, or to average weights now and then, which is another algorithm. A small batch harms a layer that looks
# at its batch, and no other. Mixed precision makes narrow what is computed, and not what is kept. In such cases "holds
# with conditions" says more than "holds" and "false" together, if the condition is named with it.
#
# The last row of C13 is a time: below 1 the step was faster in mixed precision, above 1 it was slower. It is of this
# machine and this moment, and the verdict does not rest on it.
#
# C15 raises no error. Somebody may move a loop with a summed loss to more ranks, and keep the learning rate. The loop
# then takes smaller steps of SGD, and is slow to learn.
#
# ## What the article gave you

# %% tags=["nbval-ignore-output"]
tried = [one for case in (data, threads, speed, training) for one in case.claims]
for verdict in sorted({one.evidence.verdict for one in tried}):
    print(f"{verdict:<22}", *(one.name for one in tried if one.evidence.verdict == verdict))

# %% tags=["nbval-ignore-output"]
scoreboard()

# %% [markdown]
# Look at the table of "how sure". Are you right in nine of ten where you said 90 %? Being
# surer than right is common, and to know it of yourself is worth more than any single verdict here.
#
# ## What you can do now
#
# You can say of two numbers whether a trial may compare them, and how often it errs if it does so once.
#
# [Part 4](13d_your_own_claim.ipynb) has the last article, and then a claim of your own.
#
# **Further reading.** Hoefler and Belli, [Scientific Benchmarking of Parallel Computing
# Systems](https://doi.org/10.1145/2807591.2807644) (SC 2015): twelve rules for measurements that somebody else can
# believe.
