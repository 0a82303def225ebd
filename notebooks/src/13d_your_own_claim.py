# %% [markdown]
# # 13d · Claims on trial: your own
#
# The last article, a page of a course. Then you change sides, and write the trial of a claim of your own. A judge puts
# it into worlds in which the claim holds, in which it fails, and in which noise hides the answer.
#
# **65 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 4 of 4 · [1: a first script](13a_a_first_script.ipynb) · [2: strategies and
# memory](13b_strategies_and_memory.ipynb) · [3: a deep dive](13c_a_deep_dive.ipynb)
#
# This part builds on [13a: a first script](13a_a_first_script.ipynb). Have you done it? `from course_lib import start;
# start("13d")` says so.
#
# At the end you can
#
# - write a trial that says what is so, and says so too where it cannot tell;
# - put a claim of your own beside those of the articles;
# - read an article about a technique, and know which sentences to try first.
#
# A bet is a verdict (holds, holds with conditions, misleading, false) and how sure you are; a near one is half a mark.

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
# In its favour, of the claims that were taken down, only its own have the algebra of a cut layer. They name the
# collective that goes with it, and say which cut belongs on which link. An author who is that exact can be
# contradicted, and deserves respect for it. Most of the claims are about what you have run in the lessons. Take them in
# groups, quickly, and note which ones you still hesitate at.
#
# (E6 is not of article E. It comes from the paper on PyTorch's DDP, Li et al. 2020, and the board counts it here.)
#
# ### Words and shapes
#
# E1, E3 and E9 say how strategies are called, how large a picture is behind two poolings, and what the columns of a
# product are. One of them is arithmetic, one is algebra, and one is a list.

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
# A script on `cuda:0`, the sampler's promise, and what DDP hides.

# %%
### BEGIN SOLUTION
### STUB bet("E2", "E5", "E6")
bet("E2", "E5", "E6").commit(E2=("false", 90), E5=("holds", 70), E6=("holds", 90))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
data = settle("E2", "E5", "E6")

# %% [markdown]
# E5 is a promise that PyTorch's own documentation makes in one word, "exclusive", and it is kept wherever the length
# divides. Would you call it false? A sentence is judged by all the situations that it speaks of, and neither by its
# best nor by its worst. Here is the whole trial, but for its texts:

# %%
print(inspect.getsource(trial("E5").function).partition("        {f")[0])

# %% [markdown]
# Two lengths, chosen before: one that four ranks divide, and one that they do not. Each of them could have said
# otherwise. Samples that come twice among 64 would have made it *false*; none that come twice among 66, *holds*. What
# does this trial not try? Other samplers, and `drop_last=True`, which is why it names it in what would turn it.
#
# ### Layers
#
# A name (E7), idle time (E8), and memory (E13).

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
# What a cut layer needs (E10), how often tensor parallelism speaks (E11), and which cut belongs where (E12).

# %%
### BEGIN SOLUTION
### STUB bet("E10", "E11", "E12")
bet("E10", "E11", "E12").commit(E10=("holds", 50), E11=("holds", 90), E12=("holds", 90))
### END SOLUTION

# %% tags=["computed-time"]
slices = settle("E10", "E11", "E12")

# %% [markdown]
# E12 is the rule of thumb of the whole field. The axis that a row names is the one that runs between the nodes. Look
# for the row in which replicas send more than slices: a short text, and so few tokens for the weights. And the last
# row: in a rack where one fast domain holds all ranks, all is inside, and the order makes no difference. Rules of thumb
# age with the hardware. This one is good, and has begun to age.
#
# ### And one for a GPU
#
# High utilisation, memory to spare, slow training: it points at communication (E4).

# %%
### BEGIN SOLUTION
### STUB bet("E4")
bet("E4").commit(E4=("misleading", 70))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
busy = settle("E4")

# %% [markdown]
# The trial of E4 asks the driver, while one process trains that sends nothing to anybody: can it look like that all the
# same? Where there is no GPU, your bet waits for one.
#
# ## What a fair trial has
#
# ![Four stations in a row: a sentence, a bound fixed before, a control, pairs side by side; below, three middle halves
# against the bounds: one inside, one outside, one across](../assets/13_fair.png)
#
# You have read some trials now. What they share:
#
# 1. **A sentence that a run can contradict.** "Is slower" can be contradicted, "may be slower" cannot.
# 2. **A bound, fixed before the run.** How much slower is slower? The person who chooses the bound afterwards chooses
#    the verdict.
# 3. **A control**: the same thing without the one difference. It shows that the trial could have said otherwise. The
#    control of E2 counts the devices of a script that names two (the CPU, and PyTorch's `meta`, which holds shapes and
#    no numbers). Without it, a machine with one device proves nothing.
# 4. **More situations than one**, none of them chosen for its outcome. That is where conditions come from.
# 5. **Counts where it can, pairs where it must.** And a middle that a few disturbed measurements cannot move.
# 6. **A way to say nothing.** "Cannot tell here" is a result.
# 7. **What would turn it**, for the reader whose machine is another one.
#
# <!-- word: interquartile range | also: IQR, middle half | sentences: 2 -->
# The **interquartile range** of some numbers goes from their lower quartile to their upper one. It holds the middle
# half of them, and does not move when a few others lie far away. (`statistics.quantiles(numbers, n=4)` gives the lower
# quartile, the median, and the upper quartile.)
#
# <!-- word: optional stopping | also: peeking -->
# **Optional stopping** is to go on measuring until the numbers say what one hopes for. Almost any claim can be had that
# way, so the number of measurements belongs to what is fixed before.
#
# ## Build: a trial
#
# The claim: *an all-reduce of twice as many bytes takes twice as long.* Sounds right? Somebody hands you a clock,
# `time_s(size_bytes)`, and sizes to try. Write the function that decides.
#
# You do not know in which world the clock hangs. In one of them another program runs, in one the machine gets slower
# from call to call, and in some the claim is not true.


# %%
def twice(time_s, sizes, pairs):
    """Decide whether an all-reduce of twice as many bytes takes twice as long.

    time_s   time_s(size_bytes) runs one all-reduce and returns its seconds
    sizes    a list of sizes in bytes; each is compared with twice as many
    pairs    so many ratios for each size, 9 or more: two measurements one right after the other

    "Twice" is a ratio from 1.8 to 2.2. Of the ratios of a size the middle half decides, which goes
    from the lower to the upper quartile. If it lies within these bounds, the claim is borne out at this
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
# ## Your own claim, beside theirs
#
# Now the same on real ranks. `own_claim` takes a name, Y1 to Y99, and a sentence of four words or more, with a full
# stop. The function below it is the trial. It gets `ranks`, measures, decides, and returns `Evidence` with a verdict,
# numbers, a because and what would turn it. From then on `bet`, `settle` and `scoreboard` know it as they know A1.
#
# Here the link is shaped: 4 ms for each message, 20 MB/s. One small size, one large one. It runs once `twice` has
# passed, since it decides by your function.


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
# The whole template is this: a sentence, something that measures, a rule that decides, and what would turn it. Change
# the link, or the sentence (a new sentence begins anew, without the old bet). What have you said in a meeting last
# month that a run could contradict? Call it Y2.
#
# ## How to read an article
#
# - **Who, when, for whom?** A page for beginners leaves out on purpose. That is its merit, and your risk.
# - **Take the idea, try the code.** Code ages in a year; ideas hold for ten.
# - **Find the situation that a sentence does not name**: how large, how many, over which link, in which framework.
# - **Mistrust "always", "just" and "because"**: the first two hide conditions, the third one a cause that nobody tried.
# - **Read it at its best.** Is there a reading in which it is true? Then that is where the author stood. Say so before
#   you say where it fails.
# - **Ask what would turn it**, and your own opinion as well.
#
# ## Your board
#
# All articles, all sessions. What stays open here may be settled where there are two GPUs.

# %% tags=["nbval-ignore-output"]
scoreboard()

# %% [markdown]
# Three things to look at. Which article was hardest for you? Did you trust too much, or too little? And is your 90 % a
# 90 %? If you have seen a claim without a bet, it has a dash, and counts for nothing.
#
# ## Six questions

# %% tags=["computed-time"]
quiz("13")

# %% [markdown]
# ## What you can do now
#
# You can decide a claim, by a trial that is fair to it. The trial has a bound before the run, a control, pairs, several
# situations, and the honesty to say nothing. You know which well-known sentences to rely on, and how well you know it.
#
# **The limit.** All of these claims were about parts. Lesson 14 puts the parts together, for one training from the
# first estimate to the last checkpoint.
#
# **Further reading.** Hoefler and Belli, [Scientific Benchmarking of Parallel Computing
# Systems](https://doi.org/10.1145/2807591.2807644) (SC 2015). Li et al., [PyTorch Distributed: Experiences on
# Accelerating Data Parallel Training](https://arxiv.org/abs/2006.15704) (2020): where claim E6 comes from. Gneiting and
# Raftery, *Strictly Proper Scoring Rules, Prediction, and Estimation* (JASA, 2007): why the board squares.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were true and small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. The numbers are drawn for you, and others for
# each further try. When a problem is over, you see the way step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("13")
problems("13", ways=True)
### END SOLUTION
