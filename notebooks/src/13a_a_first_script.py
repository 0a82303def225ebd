# %% [markdown]
# # 13a · Claims on trial: a first script
#
# Articles make many claims about training on several GPUs, and you have tried most of these things yourself. In this
# lesson you bet on such claims before code decides. Then you see which you trusted too much, and which too little.
#
# **40 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 1 of 4 · [2: strategies and memory](13b_strategies_and_memory.ipynb) · [3: a deep dive](13c_a_deep_dive.ipynb) ·
# [4: your own](13d_your_own_claim.ipynb)
#
# This part builds on [04a: one rule, sent in buckets](04a_distributed_data_parallel.ipynb) and [06a: there and
# back](06a_model_parallel.ipynb). Have you done them? `from course_lib import start; start("13a")` says whether you
# have.
#
# At the end you can
#
# - say what "holds", "holds with conditions", "misleading" and "false" mean, and choose the right one;
# - read a first script for several GPUs, and find what it leaves out;
# - say which measurement can decide a claim, and which one cannot.

# %%
from course_lib import ask, bet, reveal, scoreboard, settle, shared_cluster
from course_lib.claims import ARTICLES, CLAIMS, trial

import inspect

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))  # ranks for the trials

# %%
print(len(CLAIMS), "claims, nearly all from these articles:")
for letter, title in ARTICLES.items():
    print(letter, title)

# %% [markdown]
# ## What is fair
#
# There are five articles, written for beginners. Each tries something difficult: to lead somebody who trains on one GPU
# to a second one. That deserves thanks. A wrong sentence in an article can become a mistake in many scripts, so it is
# worth a trial.
#
# - **Words.** The authors of this course did not find articles A, C and D again. The course gives their claims in its
#   own words, from notes; no sentence here is a quotation. If you find the article, read it, and judge the article
#   itself.
# - **One sentence.** The trial is about the claim as it is written here, and neither about the article nor about its
#   author.
# - **Right or wrong.** A claim is here because it can be tried, and not because it is wrong. Many claims hold.
#
# ![Four boxes in a row, from "holds" to "false", each with what it says of a sentence; a bracket joins the first two,
# and another one the last two](../assets/13_verdicts.png)
#
# A trial decides by numbers, never by opinion. It has four verdicts:
#
# | verdict | meaning |
# |---|---|
# | holds | the claim was true in all situations of the trial |
# | holds with conditions | the claim was true in some of the situations that it covers, and not in others |
# | misleading | the words are true in one sense, but most readers will understand something wrong |
# | false | what the claim says did not happen |
#
# There is a fifth answer, which is not a verdict: *cannot tell here*. Some trials need two GPUs, and some need cores
# that no other program uses. Then your bet stays open, and another machine may settle it.
#
# And every verdict says what would change it. Without that a reader cannot test it.
#
# ## What a bet is worth
#
# - If your bet is the trial's verdict, you get a mark of 1. If it is *near*, you get a half: "holds" for "holds with
#   conditions", or "false" for "misleading". In both cases you knew whether to rely on the sentence. Any other bet gets
#   0.
# - You also say how sure you are, as the mark that you expect: 90 % is nearly certain, 25 % is a guess.
# - You may change a bet until you have seen its trial. Then it is fixed, also after a restart. So run the cells one by
#   one here: *Run All* would show the verdicts before you have bet.
#
# <!-- word: Brier score | also: quadratic score | sentences: 2 -->
# The **Brier score** is the mean of (how sure you were - mark)², so 0 is perfect, and a confident error costs the most.
# People who say what they really expect get the lowest score.
#
# <!-- word: calibration of a forecast | also: calibration | sentences: 2 -->
# The **calibration of a forecast** is how well "how sure" agrees with how often it comes true. Somebody who says 70 %
# of ten things, and is right in seven, is well calibrated.
#
# Try it with a claim about the sampler. Choose and lock; then run the cell below.

# %%
### BEGIN SOLUTION
### STUB bet("A8")
bet("A8").commit(A8=("holds with conditions", 70))  # "there is always some condition"
### END SOLUTION

# %%
first = settle("A8")

# %% [markdown]
# You see your bet, the verdict, and the article that the claim is from. Then come the reason, and the mistake behind
# your bet if there was one. Last come the condition that would change the verdict, and the numbers. All cases of this
# lesson work in this way.
#
# ## Case 1: the script
#
# A colleague sends you 30 lines. They start two processes, and train. Here is their frame, from the notes on article A:
#
# ```python
# def work(rank, world_size):
#     dist.init_process_group("nccl", rank=rank, world_size=world_size)
#     model = DistributedDataParallel(Net(), device_ids=[rank])
#     if rank == 1:
#         x = dist.recv(0)
#     ...
#
# mp.spawn(work, args=(2,), nprocs=2)
# ```
#
# The script comes with four claims. Each is about one or two calls, so the trials take little time.

# %%
### BEGIN SOLUTION
### STUB bet("A4", "A5", "A6", "A9")
# a tired learner: "such scripts are all over the web, somebody must have run them"
bet("A4", "A5", "A6", "A9").commit(A4=("misleading", 70), A5=("holds", 50), A6="holds", A9=("false", 90))
### END SOLUTION

# %%
script = settle("A4", "A5", "A6", "A9")

# %% [markdown]
# If a script sets no address, there are two possibilities. A program such as `torchrun` starts the script and sets the
# address, or nobody has ever started the script. Remember that for the next 30 lines that somebody sends you.
#
# In favour of the script: one process for each GPU, with its rank and its replica, *is* what you built in lesson 04. An
# address, `.to(rank)` and a buffer for `recv` are missing, but the idea is right.
#
# ## Case 2: an ordinary loop
#
# The script runs now. It has a process group, a `DistributedSampler` and an ordinary loop. The notes on the article say
# that this makes the loop data parallel. Is that true?
#
# Before you bet, think how a trial could find out. The next cell has the loop, with and without DDP. Below it are three
# things that a trial could look at.


# %%
def train(me, with_ddp, steps=20):
    """An ordinary loop; returns whether the loss went down, and the weights."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4)).to(me.device)
    model = DistributedDataParallel(model) if with_ddp else model
    inputs = torch.randn(64, 12, device=me.device)
    classes = inputs[:, :4].argmax(dim=1)
    sampler = DistributedSampler(range(64), me.world_size, me.rank, shuffle=False)
    mine = torch.tensor(list(sampler), device=me.device)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs[mine]), classes[mine])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[-1] < losses[0], torch.cat([p.detach().flatten().cpu() for p in model.parameters()])


# %% [markdown]
# **Which of these three differs between a run with DDP and one without? The loss of every rank goes down; no error is
# raised; the ranks hold equal weights.** Then bet on the claim (A7), and on two more about what data parallelism copies
# and sends.

# %%
### BEGIN SOLUTION
### STUB ask("13.tells")
ask("13.tells").commit("the loss of every rank goes down")  # "two models that never meet cannot both learn"
### END SOLUTION

# %%
### BEGIN SOLUTION
### STUB bet("A7", "A1", "A2")
bet("A7", "A1", "A2").commit(A7=("holds", 70), A1=("holds", 90), A2=("false", 90))
### END SOLUTION

# %%
runs = [two.run(train, with_ddp) for with_ddp in (False, True)]  # an error would stop the cell
goes_down = tuple(all(fell for fell, _ in run) for run in runs)
no_error = (True, True)
equal = tuple(torch.equal(run[0][1], run[1][1]) for run in runs)
names = ("the loss of every rank goes down", "no error is raised", "the ranks hold equal weights")
reveal("13.tells", dict(zip(names, (goes_down, no_error, equal), strict=True)))

# %%
loop = settle("A7", "A1", "A2")

# %% [markdown]
# Did A2 surprise you? DDP sends no updated weights, so a reader of lesson 04 may bet on "false". Now read the sentence
# again: it is about *data parallelism*. ZeRO-1 is data parallelism, and so is `nn.DataParallel`, and both do send
# updated weights. A sentence can be wrong for the tool that you use, and right for another. So the trial ran two tools,
# DDP and ZeRO-1. The trial of A1 also ran two, DDP and ZeRO-3.
#
# ### How would you decide this?
#
# The next cell prints the function that decided A7. Read it with four questions. What does it run? Which number does it
# look at? With which threshold? And could the verdict have been another one? The answers stand below it.

# %%
print(inspect.getsource(trial("A7").function))

# %% [markdown]
# <!-- word: control | also: control experiment, baseline run -->
# A **control** is a run that differs from the run on trial only in what the claim is about. Here the control is the
# same loop *with* DDP. Without a control, "the weights differ" might be rounding.
#
# Note three more things. The threshold is in the code before the run: weights differ by more than `1e-3` without DDP,
# and by exactly 0 with it. The verdict is computed, and can be either one. And `turns_if` names the one line that would
# change it.
#
# ## Case 3: half a model
#
# Now the model has grown and no longer fits. The notes on the article propose to cut it in two, and to send activations
# with `dist.send`. For very large models they combine this with data parallelism.

# %%
### BEGIN SOLUTION
### STUB bet("A3", "A10", "A12")
bet("A3", "A10", "A12").commit(A3=("holds", 70), A10=("holds with conditions", 50), A12=("holds", 70))
### END SOLUTION

# %%
halves = settle("A3", "A10", "A12")

# %% [markdown]
# The fault of A10 is hard to notice in a run. Half of the model never learns, the other half learns all the same, and
# the loss may still go down. You know the remedy from lesson 06: send the gradient back. Lesson 05 answers A3: between
# "it fits" and "it must be cut" there is sharding.
#
# The trial of A12 has a tiny model, with two heads, three pieces and three samples. So it shows that one axis alone can
# have too few parts, and that two axes together have enough. It does not count how many people combine them in
# practice.
#
# ## Case 4: the cost of communication
#
# One claim is left, and its trial needs a clock. The trial shapes the link between two ranks and paces their computing,
# so that the ranks of a laptop can stand for two GPUs. If ranks wait for a core, the times are wrong. Then the trial
# says that it cannot tell.

# %%
### BEGIN SOLUTION
### STUB bet("A11")
bet("A11").commit(A11=("holds", 90))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
speed = settle("A11")

# %% [markdown]
# ## What the article gave you
#
# The next cell lists its claims by verdict:

# %% tags=["nbval-ignore-output"]
tried = [one for case in (first, script, loop, halves, speed) for one in case.claims]
for verdict in sorted({one.evidence.verdict for one in tried}):
    print(f"{verdict:<22}", *(one.name for one in tried if one.evidence.verdict == verdict))

# %% [markdown]
# Look at the false ones. They are about code: a name, a missing argument, a return value, a missing call. Code is easy
# to mend, and it changes from version to version. More of the claims about *ideas* hold. So when you read such an
# article, use the idea, and test the code.
#
# Here is your own result so far:

# %% tags=["nbval-ignore-output"]
scoreboard()

# %% [markdown]
# ## What you can do now
#
# You can distinguish the four verdicts, and you have read a trial. It has a control, a threshold that is fixed before
# the run, and a verdict that could have been another one.
#
# [Part 2](13b_strategies_and_memory.ipynb) is about articles B and D: four strategies, and what they do for memory.
#
# **Further reading.** Glenn W. Brier, *Verification of forecasts expressed in terms of probability* (Monthly Weather
# Review, 1950). It has three pages, from the US Weather Bureau, on how to judge forecasts that give a probability of
# rain.
