# %% [markdown]
# # 13d · Claims on trial: your own
#
# You bet on the last article, a page of a course. Then you write the trial of a claim yourself. A judge tests your
# trial in worlds in which the claim holds, in which it is false, and in which noise hides the answer.
#
# **65 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 4 of 4 · [1: a first script](13a_a_first_script.ipynb) · [2: strategies and
# memory](13b_strategies_and_memory.ipynb) · [3: a deep dive](13c_a_deep_dive.ipynb)
#
# This part builds on [13a: a first script](13a_a_first_script.ipynb). Have you done it? `from course_lib import start;
# start("13d")` says whether you have.
#
# At the end you can
#
# - write a trial that finds the right verdict, and says so if it cannot tell;
# - put a claim of your own beside those of the articles;
# - read an article about a technique, and know which claims to test first.
#
# A bet is a verdict (holds, holds with conditions, misleading, false) and how sure you are. A near verdict gets half a
# mark.

# %%
from course_lib import Link, Links, bet, check, hint, problems, quiz, scoreboard, settle, shared_cluster
from course_lib.claims import Evidence, blocked, own_claim, trial

import inspect
import statistics
import time

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))  # ranks for the trials

# %% [markdown]
# ## Article E, a course page
#
# In its favour: of all articles here, only this one gives the algebra of a cut layer. It names the collective for each
# cut, and says which cut belongs on which link. Such exact sentences can be tested, and the author deserves respect for
# them. Most of these claims are about what you have run in the lessons. Bet on them quickly, in groups, and note where
# you hesitate.
#
# (E6 is not from article E. It comes from the paper on PyTorch's DDP, Li et al. 2020, and the scoreboard counts it with
# E.)
#
# ### Words and shapes
#
# E1 says what strategies are called. E3 says how large a picture is after two poolings. E9 says what the columns of a
# product are.

# %%
### BEGIN SOLUTION
### STUB bet("E1", "E3", "E9")
bet("E1", "E3", "E9").commit(E1=("holds", 50), E3=("holds", 70), E9=("holds", 90))
### END SOLUTION

# %%
words = settle("E1", "E3", "E9")

# %% [markdown]
# ### Data
#
# E2 is about a script on `cuda:0`, E5 about the sampler's promise, and E6 about what DDP hides.

# %%
### BEGIN SOLUTION
### STUB bet("E2", "E5", "E6")
bet("E2", "E5", "E6").commit(E2=("false", 90), E5=("holds", 70), E6=("holds", 90))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
data = settle("E2", "E5", "E6")

# %% [markdown]
# PyTorch's own documentation makes the promise of E5 in one word, "exclusive". It is true if the number of ranks
# divides the length of the data set. So the claim is neither just true nor just false: a trial has to judge all the
# situations that a claim covers. The next cell prints the whole trial, without its texts:

# %%
print(inspect.getsource(trial("E5").function).partition("        {f")[0])

# %% [markdown]
# The trial has two lengths, chosen before the run: four ranks divide one of them, and not the other. Each length could
# have changed the verdict. Repeated samples among 64 would have made it *false*; no repeated samples among 66 would
# have made it *holds*. The trial does not test other samplers, or `drop_last=True`. So it names `drop_last=True` under
# what would change the verdict.
#
# ### Layers
#
# E7 is about a name, E8 about idle time, and E13 about memory.

# %%
### BEGIN SOLUTION
### STUB bet("E7", "E8", "E13")
bet("E7", "E8", "E13").commit(E7=("false", 50), E8=("holds", 90), E13=("holds with conditions", 70))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
layers = settle("E7", "E8", "E13")

# %% [markdown]
# ### Slices
#
# E10 is about what a cut layer needs, E11 about how often tensor parallelism sends, and E12 about which cut belongs on
# which link.

# %%
### BEGIN SOLUTION
### STUB bet("E10", "E11", "E12")
bet("E10", "E11", "E12").commit(E10=("holds", 50), E11=("holds", 90), E12=("holds", 90))
### END SOLUTION

# %% tags=["computed-time"]
slices = settle("E10", "E11", "E12")

# %% [markdown]
# E12 is a rule of thumb that the whole field uses. In the table each row names the axis that runs between the nodes.
# Look for the row in which replicas send more than slices: there the text is short, so there are few tokens compared
# with the weights. In the last row one fast domain holds all ranks of a rack, so the order makes no difference. The
# rule is good, but newer hardware has begun to make it less important.
#
# ### A claim that needs a GPU
#
# E4 says: high utilisation, free memory and slow training point at communication.

# %%
### BEGIN SOLUTION
### STUB bet("E4")
bet("E4").commit(E4=("misleading", 70))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
busy = settle("E4")

# %% [markdown]
# The trial of E4 trains in one process that sends nothing, and asks the driver whether the same signs appear. Without a
# GPU your bet stays open.
#
# ## What a fair trial has
#
# ![Four stations in a row: a sentence, a bound fixed before, a control, pairs side by side; below, three middle halves
# against the bounds: one inside, one outside, one across](../assets/13_fair.png)
#
# You have read some trials now. They have these things in common:
#
# 1. **A sentence that a run can contradict.** "Is slower" can be contradicted, "may be slower" cannot.
# 2. **A bound, fixed before the run.** How much slower counts as slower? If you choose the bound after the run, you
#    choose the verdict.
# 3. **A control**: the same run without the one difference. It shows that the trial could have had another verdict. The
#    control of E2 counts the devices of a script that names two (the CPU, and PyTorch's `meta`, which holds shapes and
#    no numbers). Without this control, a machine with one device proves nothing.
# 4. **Several situations**, none of them chosen for its outcome. They show under which conditions a claim holds.
# 5. **Counts if possible, pairs of times if necessary.** And a median, which a few disturbed measurements cannot
#    change.
# 6. **A way not to decide.** "Cannot tell here" is a result.
# 7. **What would change the verdict**, for readers with another machine.
#
# <!-- word: interquartile range | also: IQR, middle half | sentences: 2 -->
# The **interquartile range** of some numbers goes from their lower quartile to their upper one. It holds the middle
# half of them, and does not change when a few others are far away. (`statistics.quantiles(numbers, n=4)` gives the
# lower quartile, the median, and the upper quartile.)
#
# <!-- word: optional stopping | also: peeking -->
# **Optional stopping** is the fault to go on measuring until the numbers show what one hopes for. Almost any claim can
# be confirmed in that way, so the number of measurements must be fixed before.
#
# ## Build: a trial
#
# The claim is: *an all-reduce of twice as many bytes takes twice as long.* You get a clock, `time_s(size_bytes)`, and
# sizes to try. Write the function that decides.
#
# The check gives your function clocks of several worlds. In one world another program runs, in one the machine gets
# slower from call to call, and in some the claim is not true.


# %%
def twice(time_s, sizes, pairs):
    """Decide whether an all-reduce of twice as many bytes takes twice as long.

    time_s   time_s(size_bytes) runs one all-reduce and returns its seconds
    sizes    a list of sizes in bytes; each is compared with twice as many
    pairs    so many ratios for each size, 9 or more: two measurements one right after the other

    "Twice" is a ratio from 1.8 to 2.2. Of the ratios of a size the middle half decides, which goes
    from the lower to the upper quartile. If it lies within these bounds, the claim is confirmed at this
    size; if it lies wholly below or wholly above them, it is contradicted; otherwise the size is open.

    Returns (verdict, middles). The verdict is "cannot tell here" if any size is open; else "holds" or
    "false" if all sizes agree, and "holds with conditions" if they do not. middles is a dictionary
    with the median ratio of each size.
    """
    ### BEGIN SOLUTION
    found, middles = [], {}
    for size in sizes:
        ratios = []
        for _ in range(pairs):
            small_s = time_s(size)
            ratios.append(time_s(2 * size) / small_s)
        low, middles[size], high = statistics.quantiles(ratios, n=4)
        if high < 1.8 or low > 2.2:
            found.append("false")
        else:
            found.append("holds" if low >= 1.8 and high <= 2.2 else "open")
    if "open" in found:
        return "cannot tell here", middles
    return found[0] if len(set(found)) == 1 else "holds with conditions", middles
    ### END SOLUTION


# %%
twice_verdict = check("13.own", twice)

# %%
# hint("13.own")

# %% [markdown]
# ## Your own claim, beside those of the articles
#
# Now do the same on real ranks. `own_claim` takes a name, Y1 to Y99, and a sentence of four words or more, with a full
# stop. The function below it is the trial. It gets `ranks`, measures and decides. It returns `Evidence`: a verdict,
# numbers, a reason (`because`), and what would change the verdict (`turns_if`). From then on `bet`, `settle` and
# `scoreboard` work with your claim as with A1.
#
# Here the link is shaped, with 4 ms for each message and 20 MB/s, and there is one small size and one large one. The
# trial runs when `twice` has passed, since your function decides.


# %%
def all_reduce_s(me, size_bytes):
    numbers = torch.zeros(size_bytes // 4, device=me.device)
    dist.barrier()
    start_s = time.perf_counter()
    dist.all_reduce(numbers)
    return time.perf_counter() - start_s


@own_claim("Y1", "An all-reduce of twice as many bytes takes twice as long.")
def doubling(ranks):
    cluster, sizes = ranks(2), [1024, 2 * 1024 * 1024]
    with cluster.shaped(links=Links(Link(latency_s=4e-3, bandwidth_bytes_per_s=20e6))):
        verdict, middles = twice(lambda size: max(cluster.run(all_reduce_s, size)), sizes, pairs=9)
    ratios = {f"ratio at {size:,} bytes": f"{ratio:.2f}" for size, ratio in middles.items()}
    if verdict == "cannot tell here":
        return blocked(f"the ratios of some size lie across a bound; medians {', '.join(ratios.values())}")
    why = "a message takes a time of its own besides that of its bytes; which of the two counts depends on the size"
    turns_if = "all messages were large, or the link had no latency (then it holds)"
    return Evidence(verdict, {"sizes": len(sizes)}, why, timings=ratios, turns_if=turns_if)


# %%
### BEGIN SOLUTION
### STUB bet("Y1")
bet("Y1").commit(Y1=("holds", 70))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
if twice_verdict.passed:
    settle("Y1")

# %% [markdown]
# You can use this as a template: a sentence, a measurement, a rule that decides, and what would change the verdict.
# Change the link, or the sentence (a new sentence begins without the old bet). Then take a sentence of your own from
# last month's work that a run could contradict, and call it Y2.
#
# ## How to read an article
#
# - **Who wrote it, when, and for whom?** A page for beginners leaves out details on purpose. You may need these
#   details.
# - **Use the idea, test the code.** Code is out of date sooner than ideas.
# - **Find what a sentence does not name**: how large, how many, over which link, in which framework.
# - **Check "always", "just" and "because"**: the first two may hide conditions, the third a cause that nobody tested.
# - **Look for the meaning in which it is true.** The author probably meant that one. Say so before you say where it is
#   wrong.
# - **Ask what would change the verdict**, and what would change your own opinion.
#
# ## Your board
#
# The board shows all articles and all sessions. Bets that stay open here may be settled on a machine with two GPUs.

# %% tags=["nbval-ignore-output"]
scoreboard()

# %% [markdown]
# Look at three things on the board. Which article was hardest for you? Did you trust too much, or too little? And were
# nine of ten bets right for which you said 90 %? A claim that you have seen without a bet has a dash, and does not
# count.
#
# ## Six questions

# %% tags=["computed-time"]
quiz("13")

# %% [markdown]
# ## What you can do now
#
# You can decide a claim by a fair trial. The trial has a bound that is fixed before the run, a control, pairs and
# several situations, and may say that it cannot tell. You know which well-known claims to rely on, and how sure you may
# be.
#
# **The limit.** All of these claims were about single techniques. Lesson 14 combines them in one training job, from the
# first estimate to a report.
#
# **Further reading.** Hoefler and Belli, [Scientific Benchmarking of Parallel Computing
# Systems](https://doi.org/10.1145/2807591.2807644) (SC 2015). Li et al., [PyTorch Distributed: Experiences on
# Accelerating Data Parallel Training](https://arxiv.org/abs/2006.15704) (2020): where claim E6 comes from. Gneiting and
# Raftery, *Strictly Proper Scoring Rules, Prediction, and Estimation* (JASA, 2007): why the board squares.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. The numbers are drawn for you, and others for
# each further try. When a problem is over, you see the way step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("13")
problems("13", ways=True)
### END SOLUTION
