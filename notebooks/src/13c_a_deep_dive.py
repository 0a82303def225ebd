# %% [markdown]
# # 13c · Claims on trial: a deep dive
#
# Article C covers more than the others: samplers, speed, precision, checkpoints. You bet on its claims, and see a trial
# that gave another verdict when the machine was busy.
#
# **40 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 3 of 4 · [1: a first script](13a_a_first_script.ipynb) · [2: strategies and
# memory](13b_strategies_and_memory.ipynb) · [4: your own](13d_your_own_claim.ipynb)
#
# This part builds on [03a: four steps](03a_data_parallel.ipynb), [04c: drift, checkpoints and the real
# thing](04c_drift_and_production.ipynb) and [13a: a first script](13a_a_first_script.ipynb). Have you done them? `from
# course_lib import start; start("13c")` says whether you have.
#
# At the end you can
#
# - distinguish "different batches" from "no sample twice", and test for both;
# - say how often a trial is wrong that times each thing once;
# - name three remedies when other programs disturb the times.
#
# A bet is a verdict (holds, holds with conditions, misleading, false) and how sure you are. A near verdict gets half a
# mark.

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
# half written, or batches become too small. It also lists myths, and refutes them. This article was not found again
# either: all its claims are here in the course's words.
#
# ## Case 1: the samples of each rank
#
# Take two ranks, 64 samples, and three claims about seeds and batches. Lessons 03 and 04 have what you need for all
# three, so take little time for them.

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
# Many people bet wrong on C6. With two seeds no two batches are the same, so a script that prints its first batch on
# both ranks looks right. The next cell prints what else the trial counts:

# %%
print(inspect.getsource(trial("C6").function).partition("    return Evidence(")[0])

# %% [markdown]
# The trial runs two ranks with the seeds 7 and 8, first without a sampler, then with one, and keeps three numbers.
# `repeated` counts batches that both ranks have. `both` counts samples that both ranks have seen in what should be one
# shared epoch. `missed` counts samples that no rank sees although there is a sampler. The claim is about the first
# number. Its reader needs the other two to be zero. If the claim is true and the reader's need is not met, the verdict
# is *misleading*.
#
# (The article proposes different seeds *or* a distributed sampler. A careful program has both, and gets the last row.)
#
# ## Case 2: one process, many threads
#
# Here are three claims on `nn.DataParallel`. You saw C2 and C4 at the end of lesson 03b. Bet on them now:

# %%
### BEGIN SOLUTION
### STUB bet("C1", "C2", "C4")
bet("C1", "C2", "C4").commit(C1=("holds", 90), C2=("holds", 70), C4=("false", 50))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
threads = settle("C1", "C2", "C4")

# %% [markdown]
# At first the trial of C2 had only sixty small layers, with which threads wait for the interpreter. The claim held.
# Then somebody asked about large layers. It is easy to confirm a claim with the one workload that is at hand.
#
# The trial counts the steps of one worker while another one is busy. Two threads work at the same time while the busy
# one is in a large operator, since PyTorch releases the lock there. So with large layers the cause that the claim names
# hardly matters. The speeds decide nothing, and are left out while the machine is too busy for a clock.
#
# ## Case 3: a trial whose verdict changed
#
# ![Two timelines of a trial, one on a quiet machine and one with another program in between; below, pairs of
# measurements side by side](../assets/13_disturbed.png)
#
# This happened: the course had a trial that timed a pipeline. On a quiet machine its verdict was "holds". On a machine
# with other work it was "false" in one run of four. Nothing about pipelines had changed.
#
# You can simulate that in a few lines. Program A takes 1 second, program B takes 1.3 seconds. One measurement in four,
# at random, is disturbed, and then it takes three times as long. A trial measures both once, and says which is faster.
# **How often does the trial say that B is faster?**

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
# A **paired measurement** measures the two things to compare one right after the other. Then a disturbance of some
# duration affects both alike, and their ratio stays right.
#
# There are three remedies, and the course's trials use all of them:
#
# - **Count** in place of timing, wherever the claim allows it: bytes, calls, samples. Counts do not depend on other
#   programs. Most of the trials need no clock at all.
# - **Pair, repeat, and take the median**, as above. In the simulation each measurement was disturbed independently, so
#   the repeats and the median helped. Pairs help when a load comes and goes.
# - **Know when not to decide.** Linux reports how long a process waited for a core. If that was long, the trial runs
#   again, and in the end says "cannot tell here". A missing verdict does less harm than a wrong one.
#
# Now bet on four claims about speed; you know three of them from lesson 11d. The cost model with data sheets decides C3
# and C12. Ranks whose computing is a timed wait decide C8. C11 needs GPUs with NVLink.

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
# Be careful with C8: the article lists the sentence that model parallelism is always better as a *myth*. It would be
# very unfair to put the myth on trial, and then to say that the article is wrong. An early draft of this catalogue did
# that. Before you refute a sentence, check whether the author really claims it.
#
# ## Case 4: effects on training
#
# Here are four claims. C9: synchronising more rarely trades speed for accuracy. C10: too small a batch on each device
# does harm. C13: mixed precision saves memory and time. C14: checkpoints and logs need care.
#
# A fifth claim is not from article C, but the scoreboard counts it with C. C15 is from PyTorch's documentation of DDP.
# It is about a loss that is summed over the batch, as with `reduction="sum"`.

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
# Three of these claims have the same problem: one name for two things. "To send rarely" can mean to add up gradients
# first, which is exact. Or it can mean to average weights at times, which is another algorithm. A small batch harms a
# layer that uses statistics of its batch, and no other. Mixed precision computes in narrow numbers, but keeps wide
# ones. In such cases the verdict "holds with conditions" is useful, if it names the condition.
#
# The last row of C13 is a time: below 1 the step was faster in mixed precision, above 1 it was slower. It depends on
# this machine and this moment, and the verdict does not depend on it.
#
# The fault of C15 raises no error. Somebody may move a loop with a summed loss to more ranks, and keep the learning
# rate. Then SGD takes smaller steps, and the model learns slowly.
#
# ## What the article gave you

# %% tags=["nbval-ignore-output"]
tried = [one for case in (data, threads, speed, training) for one in case.claims]
for verdict in sorted({one.evidence.verdict for one in tried}):
    print(f"{verdict:<22}", *(one.name for one in tried if one.evidence.verdict == verdict))

# %% tags=["nbval-ignore-output"]
scoreboard()

# %% [markdown]
# Look at the table of "how sure". Were you right in nine of ten bets for which you said 90 %? Many people are right
# less often than they expect. If you know that about yourself, you can correct for it.
#
# ## What you can do now
#
# You can say whether a trial may compare two numbers, and how often it is wrong if it measures each once.
#
# [Part 4](13d_your_own_claim.ipynb) has the last article, and then a claim of your own.
#
# **Further reading.** Hoefler and Belli, [Scientific Benchmarking of Parallel Computing
# Systems](https://doi.org/10.1145/2807591.2807644) (SC 2015): twelve rules for measurements that somebody else can
# believe.
