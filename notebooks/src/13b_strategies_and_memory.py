# %% [markdown]
# # 13b · Claims on trial: strategies and memory
#
# Articles B and D: four strategies in a few pictures, and the simplest of them with all its code. You bet on their
# sentences. Several of them are about one question that everybody has: do two GPUs have twice the memory?
#
# **35 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 2 of 4 · [1: a first script](13a_a_first_script.ipynb) · [3: a deep dive](13c_a_deep_dive.ipynb) · [4: your
# own](13d_your_own_claim.ipynb)
#
# This part builds on [03a: four steps](03a_data_parallel.ipynb), [05a: states, shared
# out](05a_sharded_data_parallel.ipynb) and [13a: a first script](13a_a_first_script.ipynb). Have you done them? `from
# course_lib import start; start("13b")` says so.
#
# At the end you can
#
# - say which part of the memory data parallelism makes smaller, and which it leaves;
# - see when a trial was built so that it can come out one way only;
# - decide a claim of the kind "X is really Y" by counting.
#
# A bet is a verdict (holds, holds with conditions, misleading, false) and how sure you are; a near one is half a mark.
# Your bets of [part 1](13a_a_first_script.ipynb) are kept. Run the cells one by one: a verdict that has been seen takes
# no bet.

# %%
from course_lib import ask, bet, reveal, scoreboard, settle, shared_cluster
from course_lib.claims import trial
from course_lib.cost import LINKS, MACHINES

import inspect

# %% tags=["nbval-ignore-output"]
one, two, four = (shared_cluster(number) for number in (1, 2, 4))  # ranks for the trials

# %% [markdown]
# ## In their favour
#
# Article B tells four strategies apart where others say "multi-GPU" and mean one of them. Article D is about a class
# that you would not take today. But it shows what to do with `.module`, and it does not promise speed.
#
# Article D was never found again; its sentences stand here in the words of the course. What the course says of B is in
# our words too.
#
# ## Case 1: one class, one line
#
# `model = nn.DataParallel(model)`, and four devices work. You took this class apart in lesson 03. Four claims: whether
# the loop has to change (D4), how to save (D5), where the memory goes (D6), and whether threads are a limit (D7). On a
# CPU PyTorch's class runs on one device. So the trials of D4 and D7 run the one of lesson 03, which takes the same
# steps.

# %%
### BEGIN SOLUTION
### STUB bet("D4", "D5", "D6", "D7")
bet("D4", "D5", "D6", "D7").commit(
    D4=("holds with conditions", 90), D5=("holds", 90), D6=("misleading", 50), D7=("holds", 70)
)
### END SOLUTION

# %% tags=["nbval-ignore-output"]
one_class = settle("D4", "D5", "D6", "D7")

# %% [markdown]
# Look at the fourth row of D5. `strict=False` is what one writes when keys do not fit, and it makes the error go away:
# together with the weights. A program that does as the claim says is safe from it.
#
# D6 needs two GPUs, and without them your bet stays open. D7 is decided by a count: whether a second thread takes steps
# while the first one runs Python. Its last two rows are speeds, and one worker that does all the work is 1. They are
# left out while the machine is too busy for a clock.
#
# ## Case 2: do two GPUs have twice the memory?
#
# ![Two devices side by side, each a column of weights, gradients, optimizer state and activations; below it the
# question which of the four is smaller than on one device](../assets/13_twice.png)
#
# Two sentences of article D follow, in our words. Data parallelism combines several GPUs into one with more memory
# (D2), and it is not about speed (D1). They belong together: if it were not for speed, it would have to be for
# something else. And a third: it gives the gradients of accumulation (D3).

# %%
### BEGIN SOLUTION
### STUB bet("D1", "D2", "D3")
# a tired learner: "every rank holds everything, so D2 is plain wrong; and averaging cannot be exact"
bet("D1", "D2", "D3").commit(D1=("holds", 50), D2=("false", 90), D3=("holds with conditions", 70))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
memory = settle("D1", "D2", "D3")

# %% [markdown]
# D2 is the one to remember, for the table under it says two things. Weights, gradients and optimizer state: on one, two
# or four ranks not a byte less. Activations: a quarter on four ranks. So somebody whose activations filled the card did
# find more memory there, and could write it down in good faith. A claim can be wrong and still be somebody's honest
# observation. The verdict for that is *misleading*.
#
# And D3 asks less than it seems. It does not speak of the gradient of the whole batch, but of the one of accumulation.
# With BatchNorm both are away from the whole batch, by the same amount. Read what is compared with what.
#
# ## Case 3: a bottleneck, and who chose the link
#
# Article B says that a framework uses one GPU unless it is asked for more (B1). It also says that moving activations
# between layers on different GPUs makes a severe bottleneck (B2).
#
# How would you decide B2? You could shape a link, cut a model in two, and time it. The first version of the course's
# trial did that, and a reviewer asked: *who chose the link?* Here is what a choice can do. A message of 128 MB, about
# the activations of a batch, on some links from the course's table:

# %% tags=["computed-time"]
for name in ("ethernet 1", "ethernet 10", "pcie 4 x16", "nvlink 4"):
    print(f"{name:<12} {LINKS[name].time_s(128e6) * 1e3:8.2f} ms")
print(len(MACHINES), "machines in the table, and the networks between two of each")

# %% [markdown]
# Between the first and the last lies a factor of thousands. The author of the trial may take the link that gives the
# verdict that they had in mind, and need not even notice.
#
# The trial as it is now takes no link. It asks all machines of the course's table, as they are sold, inside and between
# two of them, with a model of usual size. It counts on how many machines moving costs more than waiting. **On 8x H100,
# how long does moving take, as a share of the time in which a device waits for the others?**

# %%
### BEGIN SOLUTION
### STUB ask("13.waiting")
ask("13.waiting").commit(40)  # "a severe bottleneck: not all of it, but a good part"
### END SOLUTION

# %%
### BEGIN SOLUTION
### STUB bet("B1", "B2")
bet("B1", "B2").commit(B1=("holds", 90), B2=("holds with conditions", 70))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
links = settle("B1", "B2")
reveal("13.waiting", links.evidence("B2"))

# %% [markdown]
# There *is* a severe bottleneck where layers stand on different GPUs, and article B is right to warn of one. One device
# works and three wait. It comes from the schedule, and not from the wire, so a faster wire is no cure. What the article
# says of pipelines (case 5) goes at the waiting.
#
# Now ask the same of B1: could its trial have come out otherwise? With one device it could not, for there was no other
# to be touched. Look at "devices of this machine". Where it says 1, the reason decides, and not the number.
#
# ## Case 4: inside an operation
#
# A large product can be divided into smaller ones (B4), and tensor parallelism is already built into the standard
# operations of PyTorch (B3).

# %%
### BEGIN SOLUTION
### STUB bet("B3", "B4")
bet("B3", "B4").commit(B3=("false", 70), B4=("holds", 90))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
inside = settle("B3", "B4")

# %% [markdown]
# Nobody would doubt B4 on paper. On a machine the smaller products can give the same in two senses: by the same
# algebra, or to the same bits. The trial shows both, and it shows that the uncut product has an error, too.
#
# B3 can be read in another way, which the trial does not try: on one device, too, a product is divided among the cores.
# That says nothing of several devices.
#
# ## Case 5: is a pipeline a combination?
#
# Article B: a pipeline keeps devices busy by feeding the next micro-batch (B5), and is often considered a combination
# of data and model parallelism (B6).

# %%
### BEGIN SOLUTION
### STUB bet("B5", "B6")
bet("B5", "B6").commit(B5=("holds", 70), B6=("holds", 50))
### END SOLUTION

# %% [markdown]
# ### How would you decide this?
#
# B6 says that X is considered a kind of Y. That many consider it so may well be, and is not on trial. Whether it *is*
# so looks like a matter of taste. It can be tried, if one finds what every Y *has*. Before you run the next cell: which
# two numbers would you count, of a pipeline and of something that surely is the combination?

# %%
print(inspect.getsource(trial("B6").function).partition("    return Evidence(")[0])

# %% [markdown]
# Copies of each weight, and all-reduces of gradients: data parallelism has both. The control is two pipelines side by
# side, which *are* the combination. And `apart` goes into the table, so that you can see whether the pipeline computes
# the right thing. A broken pipeline would prove nothing. Now the verdicts.

# %% tags=["nbval-ignore-output"]
pipelines = settle("B5", "B6")

# %% [markdown]
# ## What these articles gave you

# %% tags=["nbval-ignore-output"]
tried = [one for case in (one_class, memory, links, inside, pipelines) for one in case.claims]
for verdict in sorted({one.evidence.verdict for one in tried}):
    print(f"{verdict:<22}", *(one.name for one in tried if one.evidence.verdict == verdict))

# %% [markdown]
# Hardly anything is false. Misleading sentences have a pattern, though: a true observation with the wrong cause. Memory
# is freed, and not by pooling. Devices wait, and not for bytes. A pipeline shares out pieces of a batch, and not to
# copies. When you write yourself, that is the sentence to look at twice: the one with "because" in it.

# %% tags=["nbval-ignore-output"]
scoreboard()

# %% [markdown]
# ## What you can do now
#
# You can say what data parallelism does to memory, part by part. You can ask of a trial who chose its link, and decide
# "X is Y" by what every Y has.
#
# [Part 3](13c_a_deep_dive.ipynb) takes article C, and a trial that changed its mind.
