# %% [markdown]
# # 13b · Claims on trial: strategies and memory
#
# Article B shows four strategies in a few pictures. Article D shows the simplest of them with all its code. You bet on
# their claims. Several are about one common question: do two GPUs have twice the memory?
#
# **35 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 2 of 4 · [1: a first script](13a_a_first_script.ipynb) · [3: a deep dive](13c_a_deep_dive.ipynb) · [4: your
# own](13d_your_own_claim.ipynb)
#
# This part builds on [03a: four steps](03a_data_parallel.ipynb), [05a: states, shared
# out](05a_sharded_data_parallel.ipynb) and [13a: a first script](13a_a_first_script.ipynb). Have you done them? `from
# course_lib import start; start("13b")` says whether you have.
#
# At the end you can
#
# - say which part of the memory data parallelism makes smaller, and which it leaves;
# - notice when a trial can have only one outcome;
# - decide a claim of the kind "X is really Y" by counting.
#
# A bet is a verdict (holds, holds with conditions, misleading, false) and how sure you are. A near verdict gets half a
# mark. Your bets of [part 1](13a_a_first_script.ipynb) are kept. Run the cells one by one: after you have seen a
# verdict, you cannot bet on it.

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
# Article B distinguishes four strategies, where others say "multi-GPU" and mean one of them. Article D is about a class
# that you would not use today. But it shows what to do with `.module`, and it does not promise speed.
#
# Article D was not found again; its claims are here in the course's words. The claims of B are in our words too.
#
# ## Case 1: one class, one line
#
# After `model = nn.DataParallel(model)` four devices work. You studied this class in lesson 03. D4 says whether the
# loop has to change, D5 how to save. D6 says which device needs the most memory, and D7 whether threads are a limit. On
# a CPU PyTorch's class runs on one device. So the trials of D4 and D7 run the class of lesson 03, which does the same
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
# Look at the fourth row of D5. Many people write `strict=False` when keys do not fit. Then there is no error, and no
# weights are loaded either. A program that does as the claim says avoids this.
#
# D6 needs two GPUs; without them your bet stays open. A count decides D7: how many steps a second thread does while the
# first one runs Python. Its last two rows are speeds, relative to one worker that does all the work. They are left out
# while the machine is too busy for a clock.
#
# ## Case 2: do two GPUs have twice the memory?
#
# ![Two devices side by side, each a column of weights, gradients, optimizer state and activations; below it the
# question which of the four is smaller than on one device](../assets/13_twice.png)
#
# Here are three claims of article D, in our words. D2 says: data parallelism combines several GPUs into one with more
# memory. D1 says: it is not about speed. D3 says: it gives the same gradients as accumulation.

# %%
### BEGIN SOLUTION
### STUB bet("D1", "D2", "D3")
# a tired learner: "every rank holds everything, so D2 is plain wrong; and averaging cannot be exact"
bet("D1", "D2", "D3").commit(D1=("holds", 50), D2=("false", 90), D3=("holds with conditions", 70))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
memory = settle("D1", "D2", "D3")

# %% [markdown]
# Remember D2: the table under it shows two things. Weights, gradients and optimizer states take the same bytes on one,
# two or four ranks. Activations take a quarter on four ranks. So an author whose activations filled the GPU really
# found more free memory, and reported it in good faith. A claim can be an honest observation with a wrong explanation.
# The verdict for that is *misleading*.
#
# D3 claims less than it seems. It compares with the gradient of accumulation, and not with that of the whole batch.
# With BatchNorm both differ from the whole batch, by the same amount. So always read which two things a claim compares.
#
# ## Case 3: a bottleneck, and the choice of the link
#
# Article B says that a framework uses one GPU unless a program asks for more (B1). It also says that moving activations
# between layers on different GPUs makes a severe bottleneck (B2).
#
# How would you decide B2? You could shape a link, cut a model in two, and time it. The first version of the course's
# trial did that, and a reviewer asked: *who chose the link?* The next cell shows what the choice changes. It prints the
# time of a message of 128 MB, about the activations of a batch, on some links of the course's table:

# %% tags=["computed-time"]
for name in ("ethernet 1", "ethernet 10", "pcie 4 x16", "nvlink 4"):
    print(f"{name:<12} {LINKS[name].time_s(128e6) * 1e3:8.2f} ms")
print(len(MACHINES), "machines in the table, and the networks between two of each")

# %% [markdown]
# The times differ by a factor of thousands. The authors of a trial may choose the link that gives the verdict that they
# expect, without noticing it.
#
# The present trial chooses no link. It takes all machines of the course's table, as they are sold, inside one machine
# and between two, with a model of usual size. It counts on how many machines the moving of activations costs more time
# than waiting. **On 8x H100, how long does moving take, as a share of the time in which a device waits for the
# others?**

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
# There *is* a severe bottleneck when layers are on different GPUs, and article B is right to warn of one. One device
# works and three wait. The schedule causes this, and not the link, so a faster link does not help. The article's claims
# about pipelines (case 5) are about less waiting.
#
# Now ask one question about B1: could its trial have had another outcome? With one device it could not, since the
# program could touch no other device. Look at "devices of this machine". If it says 1, the reason decides, and not the
# number.
#
# ## Case 4: inside an operation
#
# B4 says: a large product can be divided into smaller ones. B3 says: tensor parallelism is already built into the
# standard operations of PyTorch.

# %%
### BEGIN SOLUTION
### STUB bet("B3", "B4")
bet("B3", "B4").commit(B3=("false", 70), B4=("holds", 90))
### END SOLUTION

# %% tags=["nbval-ignore-output"]
inside = settle("B3", "B4")

# %% [markdown]
# On paper B4 is clearly true. On a machine the smaller products can give "the same" in two senses: the same by algebra,
# or the same bits. The trial shows both, and it shows that the uncut product has an error, too.
#
# B3 has another meaning, which the trial does not test: also on one device a product is divided among the cores. But
# that is not about several devices.
#
# ## Case 5: is a pipeline a combination?
#
# Article B says that a pipeline keeps devices busy by feeding the next micro-batch (B5). It also says that a pipeline
# is often considered a combination of data and model parallelism (B6).

# %%
### BEGIN SOLUTION
### STUB bet("B5", "B6")
bet("B5", "B6").commit(B5=("holds", 70), B6=("holds", 50))
### END SOLUTION

# %% [markdown]
# ### How would you decide this?
#
# B6 says that X is considered a kind of Y. Many people may think so, and that is not on trial. Whether X *is* a Y looks
# like a matter of taste. But it can be tried, if you find what every Y *has*. Before you run the next cell, think:
# which two numbers would you count, for a pipeline and for a job that surely is the combination?

# %%
print(inspect.getsource(trial("B6").function).partition("    return Evidence(")[0])

# %% [markdown]
# Copies of each weight, and all-reduces of gradients: data parallelism has both. The control is two pipelines side by
# side, which *are* the combination. And the table has `apart`, so that you can see whether the pipeline computes the
# right result. A broken pipeline would prove nothing. Now see the verdicts.

# %% tags=["nbval-ignore-output"]
pipelines = settle("B5", "B6")

# %% [markdown]
# ## What these articles gave you

# %% tags=["nbval-ignore-output"]
tried = [one for case in (one_class, memory, links, inside, pipelines) for one in case.claims]
for verdict in sorted({one.evidence.verdict for one in tried}):
    print(f"{verdict:<22}", *(one.name for one in tried if one.evidence.verdict == verdict))

# %% [markdown]
# Hardly any claim is false. But the misleading ones have a pattern: a true observation with a wrong cause. Memory
# becomes free, but not because memory is pooled. Devices wait, but not for bytes. A pipeline shares out pieces of a
# batch, but not among copies of the model. When you write a text yourself, check each sentence with "because".

# %% tags=["nbval-ignore-output"]
scoreboard()

# %% [markdown]
# ## What you can do now
#
# You can say what data parallelism does to memory, part by part. You can ask how the link of a trial was chosen, and
# decide "X is Y" by what every Y has.
#
# [Part 3](13c_a_deep_dive.ipynb) is about article C, and about a trial whose verdict changed.
