# %% [markdown]
# # 13a · Claims on trial: a first script
#
# Articles say much about training on many GPUs, and you have tried most of it. In this lesson you bet on what they
# claim before code decides. Then you see where you trusted too much, and where too little.
#
# **40 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 1 of 4 · [2: strategies and memory](13b_strategies_and_memory.ipynb) · [3: a deep dive](13c_a_deep_dive.ipynb) ·
# [4: your own](13d_your_own_claim.ipynb)
#
# This part builds on [04a: one rule, sent in buckets](04a_distributed_data_parallel.ipynb) and [06a: there and
# back](06a_model_parallel.ipynb). Have you done them? `from course_lib import start; start("13a")` says so.
#
# At the end you can
#
# - say what "holds", "holds with conditions", "misleading" and "false" mean, and tell one from the other;
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
# Five articles, for people who look for a beginning. Each of them tries something that is hard: to lead somebody who
# trains on one GPU to a second one. That deserves thanks. A sentence that is wrong in an article can be wrong in many
# scripts, too, and so it is worth a trial.
#
# - **Words.** Articles A, C and D were never found again when this course was made. It tells what they say in its own
#   words, from notes; no sentence here is a quotation. Where you find the article, read it, and judge that.
# - **One sentence.** On trial stands the claim as it is written here, and neither the article nor its author.
# - **Either way.** Claims were taken down because they can be tried, and not because they are wrong. Many hold.
#
# ![Four boxes in a row, from "holds" to "false", each with what it says of a sentence; a bracket joins the first two,
# and another one the last two](../assets/13_verdicts.png)
#
# The trial decides by numbers, never by opinion, and knows four verdicts:
#
# | verdict | what it says |
# |---|---|
# | holds | it was so wherever the trial looked |
# | holds with conditions | it was so in some of the situations that the sentence speaks of, and not in others |
# | misleading | the words can be read so that they are true, and what a reader takes from them is wrong |
# | false | what it says did not happen |
#
# There is a fifth answer, and it is no verdict: *cannot tell here*. Some trials need two GPUs, some need cores that
# nobody else is using. Then your bet stays open, and another machine may settle it.
#
# And every verdict says what would turn it. "False" without that is gossip.
#
# ## What a bet is worth
#
# - The trial's verdict is a mark of 1. A *near* one is a half: "holds" for "holds with conditions", or "false" for
#   "misleading". In both cases you knew whether to rely on the sentence. Anything else is a 0.
# - You also say how sure you are, which is the mark that you expect: 90 % is nearly certain, 25 % a guess.
# - A bet may be changed until its trial has been seen. From then on it stands, also after a restart. So run the cells
#   one by one here: *Run All* would show the verdicts before you have bet.
#
# <!-- word: Brier score | also: quadratic score | sentences: 2 -->
# The **Brier score** is the mean of (how sure you were - mark)², so 0 is perfect, and it punishes the confident error
# most. It is least for people who say what they expect.
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
# Bet and verdict side by side, and whose sentence it is. Then why, what your bet mixed up if it did, the condition on
# which the verdict would turn, and the numbers that led to it. The rest of this lesson goes on like that, a case at a
# time.
#
# ## Case 1: the script
#
# A colleague sends you 30 lines. They make two processes, and train. Here is their frame, after the notes on article A:
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
# Four claims come with it. Each is about a call or two, so they can be tried in no time.

# %%
### BEGIN SOLUTION
### STUB bet("A4", "A5", "A6", "A9")
# a tired learner: "such scripts are all over the web, somebody must have run them"
bet("A4", "A5", "A6", "A9").commit(A4=("misleading", 70), A5=("holds", 50), A6="holds", A9=("false", 90))
### END SOLUTION

# %%
script = settle("A4", "A5", "A6", "A9")

# %% [markdown]
# Where a script says nothing of an address, one of two things is so. A program that sets the address has started the
# script, such as `torchrun`, or the script was never started. That is worth remembering for the next 30 lines that
# somebody sends you.
#
# In its favour: a process for each GPU, with its rank and its replica, *is* what you built in lesson 04. An address,
# `.to(rank)` and a buffer for `recv` are missing, and the idea is right.
#
# ## Case 2: an ordinary loop
#
# The script runs now. It has a process group, a `DistributedSampler` and an ordinary loop. The notes on the article
# say: that makes the loop data parallel. Does it?
#
# Before you bet, ask how one would find out. Here is the loop, with and without DDP. Below it are three things that one
# could look at.


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
# **Which of these comes out differently with DDP and without? The loss of every rank goes down; no error is raised; the
# ranks hold equal weights.** And what do you bet on the claim (A7), and on two more about what data parallelism copies
# and sends?

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
# Did A2 surprise you? In DDP nothing of the kind travels, and who has read lesson 04 bets on "false". Now read the
# sentence again: it speaks of *data parallelism*. ZeRO-1 is data parallelism, and so is `nn.DataParallel`; in both of
# them updated weights do go round. A sentence that is wrong of the tool that you use can be right of another one. So
# the trial ran two: DDP and ZeRO-1. A1 was tried in the same way, by DDP and by ZeRO-3.
#
# ### How would you decide this?
#
# Here is the function that decided A7. Read it as you would read a referee's notes. What does it run, and which number
# does it look at? With which threshold, and could it have come out otherwise?

# %%
print(inspect.getsource(trial("A7").function))

# %% [markdown]
# <!-- word: control | also: control experiment, baseline run -->
# A **control** is a run that differs from the one on trial in what the claim speaks of, and in nothing else. Here it is
# the same loop *with* DDP. Without it "the weights differ" might be noise of the arithmetic.
#
# Three more things to see. The threshold stands in the code before the run: `1e-3` apart without, exactly 0 with. The
# verdict is a value that can be either one. And `turns_if` names the one line that would change it.
#
# ## Case 3: half a model
#
# The model has grown and no longer fits. The notes on the article offer to cut it in two, and to send activations with
# `dist.send`. For very large models they combine that with data parallelism.

# %%
### BEGIN SOLUTION
### STUB bet("A3", "A10", "A12")
bet("A3", "A10", "A12").commit(A3=("holds", 70), A10=("holds with conditions", 50), A12=("holds", 70))
### END SOLUTION

# %%
halves = settle("A3", "A10", "A12")

# %% [markdown]
# A10 is hard to find in a run. Half of the model never learns, the other half learns around it, and the loss may go
# down all the same. You know the cure from lesson 06, the gradient's way back. And to A3 the whole of lesson 05 is an
# answer: between "it fits" and "it must be cut" lies sharding.
#
# A12 was tried on a tiny model, with two heads, three pieces and three samples. So the trial shows that one axis can
# run out of places, and that two axes together have them. It does not count who combines them in practice.
#
# ## Case 4: what communication takes away
#
# One sentence is left, and it needs a clock. The trial shapes the link between two ranks and paces their computing, so
# that a laptop can play two GPUs. Ranks that stand in line for a core would spoil the times; where they do, the trial
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
# Its sentences, sorted by what the trials found:

# %% tags=["nbval-ignore-output"]
tried = [one for case in (first, script, loop, halves, speed) for one in case.claims]
for verdict in sorted({one.evidence.verdict for one in tried}):
    print(f"{verdict:<22}", *(one.name for one in tried if one.evidence.verdict == verdict))

# %% [markdown]
# Look at the ones that are false. They are about code: a name, a missing argument, a value that is returned or is not,
# a call that nobody makes. Code is easy to mend, and it changes from version to version. The sentences about *ideas*
# did better. So one can read such an article like this: take the idea, and try the code.
#
# And your own part of it:

# %% tags=["nbval-ignore-output"]
scoreboard()

# %% [markdown]
# ## What you can do now
#
# You can tell the four verdicts apart, and you have read a trial. It has a control beside what is tried, a threshold
# before the run, and a verdict that could be another.
#
# In [part 2](13b_strategies_and_memory.ipynb) articles B and D follow: four strategies, and what they do for memory.
#
# **Further reading.** Glenn W. Brier, *Verification of forecasts expressed in terms of probability* (Monthly Weather
# Review, 1950). It has three pages, from the US Weather Bureau, on how to judge forecasts of how likely rain is.
