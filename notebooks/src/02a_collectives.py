# %% [markdown]
# # 02a · Collectives: what travels
#
# Four ranks hold a tensor each, and all of them need the sum. You see what travels, and build the algorithm that
# training jobs use in every step. Then a count shows that no exchange of messages does it with fewer bytes.
#
# **60 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 1 of 4 · [2: time, trees and groups](02b_time_trees_and_groups.ipynb) · [3: when a job hangs](02c_hangs.ipynb) ·
# [4: build an all-reduce](02d_build_all_reduce.ipynb)
#
# This part builds on [00: Start here](00_start_here.ipynb). Have you done it? `from course_lib import start;
# start("02a")` says whether you have.
#
# At the end you can
#
# - say for each of the eight collectives what a rank has before and after it;
# - count what a collective sends, for each rank and for the busiest one;
# - write an all-reduce around a ring, from single messages.
#
# [Lesson 01](01a_one_device.ipynb) ended at a limit: one device holds only so much, and computes only so fast. Several
# devices that share a job have to exchange numbers. This lesson measures what that costs.

# %%
from course_lib import ask, check, hint, reveal, shared_cluster, solution
from course_lib.cluster import exchange, recv, send
from course_lib.meter import metered
from course_lib.parallel import collectives
from course_lib.parallel.collectives import record
from course_lib.plot import tiles

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
ranks = shared_cluster(4)

# %% [markdown]
# ## Eight ways to move
#
# In the pictures below, each of four ranks has a tensor of four parts. The parts of rank 0 are called A0, A1, A2 and
# A3, those of rank 1 B0 to B3, and so on. A part keeps its name wherever it lies. A name with several letters means a
# *sum*: AB3 is A3 + B3. Nothing here is drawn by hand: `record` runs a collective on the ranks and reads their memory.


# %%
def before_and_after(*names):
    panels = {}
    for name in names:
        recording = record(ranks, name)
        panels[f"{name}: before"] = recording.frames[0]
        panels[f"{name}: after"] = recording.frames[-1]
    return tiles(panels, messages=False)


# %% [markdown]
# ### One rank and the others
#
# <!-- word: root | also: `src`, `dst` -->
# <!-- word: broadcast -->
# <!-- word: scatter -->
# <!-- word: gather -->
# The **root** of a collective is the one rank that plays a part of its own: here rank 0. In a **broadcast** every rank
# gets the root's tensor. In a **scatter** the root deals out its tensor, one part to each rank. In a **gather** the
# root gets a part from each rank. Heavy borders mark what has come.

# %%
before_and_after("broadcast", "scatter", "gather")

# %% [markdown]
# ### Everybody and everybody
#
# <!-- word: all-gather | also: all_gather -->
# <!-- word: all-to-all | also: all_to_all -->
# An **all-gather** is a gather whose result everybody gets. In an **all-to-all** every rank deals out its tensor: what
# stood in rows stands in columns afterwards.

# %%
before_and_after("all_gather", "all_to_all")

# %% [markdown]
# ### With adding
#
# A tile is one part, and has a cell for each of the four ranks. Where no cell is empty, the tile is a sum over all four
# ranks.

# %%
before_and_after("reduce", "reduce_scatter", "all_reduce, ring")

# %% [markdown]
# All eight are in `torch.distributed`, and a call is one line. Each rank calls it, in the same order:


# %%
def by_the_library(me):
    mine = torch.tensor([10 * me.rank], device=me.device)
    everybodys = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(everybodys, mine)
    return [one.item() for one in everybodys]


print("rank by rank:", *ranks.run(by_the_library))

# %% [markdown]
# ## Which one?
#
# ![Four ranks with four parts each; below, each rank has an empty row in which one box, a different one on each rank,
# says sum](../assets/02_question.png)
#
# **Every rank has a gradient for all weights, and each rank is to update its own quarter of the weights. Which
# collective brings every rank what it needs, and no more?**

# %%
### BEGIN SOLUTION
### STUB ask("02.which")  # choose and press the button, or add .commit("reduce") and run the cell
ask("02.which").commit("all_reduce, ring")  # brings what is needed, and much more
### END SOLUTION

# %% [markdown]
# The recordings can answer. In the last frame, rank r must hold the whole sum of part r, and nothing else.

# %%
names = ["broadcast", "all_gather", "reduce", "reduce_scatter", "all_reduce, ring", "all_to_all"]
reveal("02.which", {name: record(ranks, name).frames[-1].held for name in names})

# %% [markdown]
# Where you will meet them:
#
# | collective | in training |
# |---|---|
# | broadcast | all ranks begin with the same weights (lesson 04) |
# | scatter, gather | a batch is dealt out, outputs come back (lesson 03) |
# | all_reduce | gradients are summed, every step (lesson 04) |
# | reduce_scatter, all_gather | each rank keeps a shard of weights and state (lesson 05) |
# | all_to_all | tokens go to the experts that are to read them (lesson 10) |

# %% [markdown]
# ## What does a sum cost?
#
# <!-- word: naive all-reduce | also: gather + broadcast | sentences: 2 -->
# We begin with the simplest way. A *parameter server* works like this: everything goes through one process. The **naive
# all-reduce** is a gather and a broadcast. All ranks send their tensor to rank 0, which adds them up and sends the sum
# to everybody.
#
# <!-- word: point-to-point | also: P2P, `send` and `recv` -->
# <!-- word: `exchange` | also: `batch_isend_irecv` -->
# A **point-to-point** message goes from one rank to one other: `send` describes one end of it, `recv` the other.
# `exchange` starts all messages of a list *together*, as PyTorch's `batch_isend_irecv` does, and waits until they are
# through.


# %%
def naive_all_reduce(me, tensor):
    others = range(1, me.world_size)
    if me.rank == 0:
        rooms = [torch.empty_like(tensor) for _ in others]
        exchange([recv(room, rank) for room, rank in zip(rooms, others, strict=True)])
        tensor += sum(rooms)
        exchange([send(tensor, rank) for rank in others])
    else:
        exchange([send(tensor, 0)])
        exchange([recv(tensor, 0)])
    return tensor


# %% [markdown]
# A rank's *port* is the door through which its messages come in and go out. **The tensor has 1 MiB. How many MiB go
# through rank 0's port, in and out together?**

# %%
### BEGIN SOLUTION
### STUB ask("02.naive")
ask("02.naive").commit(4)  # "four ranks, one MiB each"
### END SOLUTION

# %% [markdown]
# `metered` is `run` with a meter on: it notes every message of every rank. Each row of the table is a rank, and shows
# how much it sent to each other rank.


# %%
MIB = 2**20


def sum_of_a_mebibyte(me, all_reduce):
    tensor = torch.full((MIB // 4,), me.rank + 1.0, device=me.device)  # 4 bytes a number
    return all_reduce(me, tensor)[-1].item()


run = metered(ranks, sum_of_a_mebibyte, naive_all_reduce)
sent = run.communication
print("every rank has", list(run))
print("MiB from rank (row) to rank (column):")
for row in sent.matrix():
    print("   ", "  ".join(f"{size_bytes / MIB:4.2f}" for size_bytes in row))

# %%
reveal("02.naive", sent)

# %% [markdown]
# ![Left: ranks 1, 2 and 3 send to rank 0. Right: rank 0 sends to ranks 1, 2 and 3](../assets/02_naive.png)

# %% [markdown]
# ## Around the ring
#
# ![Four ranks in a ring; each has four parts of its tensor, and sends one of them to the next rank: rank 0 its part 3,
# rank 1 its part 0, and so on](../assets/02_ring.png)
#
# <!-- word: bottleneck link -->
# <!-- word: ring all-reduce | sentences: 2 -->
# The **bottleneck link** is the one that all others wait for. In the naive all-reduce it is the link at rank 0. So cut
# the tensor in as many parts as there are ranks, and let every rank work all the time. In a **ring all-reduce** each
# rank sends, in each step, *one part* of the tensor to the next rank. It receives one part from the rank before. After
# a first lap, every part has been added up over all ranks, and one rank holds the complete sum. In a second lap the
# complete parts go round.
#
# <details>
# <summary>An aside: where the ring comes from</summary>
#
# The ring is an old algorithm of supercomputers. [Baidu](https://github.com/baidu-research/baidu-allreduce) brought it
# to deep learning in 2017, and [Horovod](https://arxiv.org/abs/1802.05799) made it the usual way.
#
# </details>
#
# **How much does each of the four ranks send in all, for a tensor of 1 MiB?**

# %%
### BEGIN SOLUTION
### STUB ask("02.ring_bytes")
ask("02.ring_bytes").commit(3)  # "it goes round to three others"
### END SOLUTION

# %%
ring = metered(ranks, sum_of_a_mebibyte, collectives.all_reduce).communication
print("MiB sent by rank:", [ring.sent_bytes(rank) / MIB for rank in range(4)])

reveal("02.ring_bytes", ring)

# %% [markdown]
# Here is the first lap as it happened; it begins as in the drawing above. Follow one part, say number 2, from rank to
# rank. Which rank has the complete sum of this part after three steps?

# %%
steps = record(ranks, "all_reduce, ring").frames
tiles({"start": steps[0], "step 1": steps[1], "step 2": steps[2], "step 3": steps[3]})

# %% [markdown]
# Can any all-reduce send less? Think of one part of the tensor. Before some rank has its complete sum, n - 1 ranks must
# have sent their own part, or a sum that holds it. Then n - 1 ranks must receive the complete sum. That is 2 (n - 1)
# messages for each part, however they travel, so on average a rank has to send $2(n-1)/n$ tensors. The ring needs
# exactly that, and shares it out evenly: **no all-reduce made of messages between ranks can send less** ([Patarasuk and
# Yuan, 2009](https://doi.org/10.1016/j.jpdc.2008.09.002)).
#
# *Made of messages between ranks* is a condition. Some switches can add: NVLink SHARP (NVLS) and InfiniBand SHARP sum
# up inside the network. There a rank sends its tensor about once, whatever n is. (The course's cost model calls that
# `in-switch`.)

# %% [markdown]
# ## Build: the ring
#
# Now write it. In the recording rank r sends part r - 1 first. You may begin with another part, such as part r, if all
# ranks begin by the same rule. The sum must be right, and each rank keeps to the bound above, with $2(n-1)$ messages of
# one part each. The tensor is flat, and n need not divide it. `tensor.tensor_split(n)` gives n parts that are views, so
# that writing into a part writes into the tensor.


# %%
def ring_all_reduce(me, tensor):
    """The sum over all ranks of the flat ``tensor``, on every rank; works in place and returns the tensor."""
    n = me.world_size
    after, before = (me.rank + 1) % n, (me.rank - 1) % n
    # 1. Cut the tensor in n parts.
    # 2. First lap, n - 1 steps: send a part, receive the part before it, and add.
    # 3. Second lap, n - 1 steps: send a complete part, receive the one before it in its place.
    ### BEGIN SOLUTION
    parts = tensor.tensor_split(n)
    for step in range(n - 1):
        mine = parts[(me.rank - step - 1) % n]
        arrived = torch.empty_like(mine)
        exchange([send(parts[(me.rank - step) % n], after), recv(arrived, before)])
        mine += arrived
    for step in range(n - 1):
        exchange([send(parts[(me.rank + 1 - step) % n], after), recv(parts[(me.rank - step) % n], before)])
    return tensor
    ### END SOLUTION


# %%
ring_verdict = check("02.ring", ring_all_reduce)

# %% [markdown]
# `check` looks at the values and at the meter. An answer that gathers everything, or one that sends less than it must,
# gets a message of its own. Stuck? Take the `#` away; each run gives one more hint. `solution("02.ring")` says where
# the solved version stands.

# %%
# hint("02.ring")

# %% [markdown]
# What does *your* ring look like? The recorder works with any function.

# %%
recorded = []
if ring_verdict.passed:
    recorded = [record(ranks, ring_all_reduce)]
    (own,) = recorded
    print(f"{own.num_steps} steps; every part complete somewhere after step {own.num_steps // 2}")
    print("each rank sent", [own.sent_bytes(rank) for rank in range(4)], "bytes of a tensor of 4096")

# %% [markdown]
# ## Two halves
#
# ![A recorded all-reduce: at the start each rank has its own parts, half-way each rank has one complete sum, at the
# end every rank has all of them](../assets/02_halves.png)
#
# <!-- word: reduce-scatter | also: reduce_scatter -->
# A **reduce-scatter** adds up the tensors of all ranks and leaves each rank with one complete part of the sum. After
# its first lap, the ring has done exactly this. The second lap is an all-gather. **all_reduce = reduce_scatter +
# all_gather**, and nothing is lost by doing the two one by one:


# %%
def in_two_halves(me, tensor):
    part = collectives.reduce_scatter(me, tensor)
    return collectives.all_gather(me, part)


halves = metered(ranks, sum_of_a_mebibyte, in_two_halves)
print("the same sum:", list(halves), "and each rank sent", halves.communication.sent_bytes(0) / MIB, "MiB")

# %% [markdown]
# <!-- word: ZeRO -->
# You could do something between the halves: for example, update a quarter of the weights on each rank. In **ZeRO**
# ([Rajbhandari et al., 2020](https://arxiv.org/abs/1910.02054)) each rank updates its own shard of the weights, and
# keeps the optimizer state of that shard alone. Lesson 05 is about this idea.
#
# **The course's reduce-scatter of 1 MiB sends 0.75 MiB from each rank. How many times as much does PyTorch's own
# reduce-scatter send, on these ranks?**

# %%
### BEGIN SOLUTION
### STUB ask("02.reduce_scatter")
ask("02.reduce_scatter").commit(1)  # "they will have done it well"
### END SOLUTION


# %%
def their_reduce_scatter(me, tensor):
    part = torch.empty(len(tensor) // me.world_size, device=tensor.device)
    dist.reduce_scatter(part, list(tensor.chunk(me.world_size)))
    return part


theirs = metered(ranks, sum_of_a_mebibyte, their_reduce_scatter).communication
mine = metered(ranks, sum_of_a_mebibyte, collectives.reduce_scatter).communication
reveal("02.reduce_scatter", theirs, mine)

# %% [markdown]
# The course's meter knows from the call and the back end what each library sends. For gloo a test compares its count
# with the bytes at the sockets. If you know what a call *should* cost, you notice when it costs more.

# %% [markdown]
# ## The explorer
#
# ![The explorer: a menu of collectives, a box for the step, buttons back and forward, and below them what each rank
# holds after step 2 of a ring all-reduce](../assets/02_explorer.png)
#
# <!-- word: halving-doubling | also: Rabenseifner's algorithm | sentences: 3 -->
# The explorer shows every collective of this lesson, recorded on your ranks. The last is your own ring, once it has
# passed. One all-reduce is new. In **halving-doubling** ([Rabenseifner,
# 2004](https://doi.org/10.1007/978-3-540-24685-5_1)) a rank swaps half of its tensor with one partner, then half of
# that half with another. It goes on until it has one complete part. Then everything goes the same way back.
#
# **Four ranks: how many steps does halving-doubling take?** Say a number, then walk through the recording.

# %%
### BEGIN SOLUTION
### STUB ask("02.halving")
ask("02.halving").commit(6)  # "as the ring"
### END SOLUTION

# %%
from course_lib.parallel.collectives import RECORDABLE
from course_lib.widgets import CollectiveExplorer

recordings = [record(ranks, name) for name in RECORDABLE]
CollectiveExplorer([*recordings, *recorded])

# %%
reveal("02.halving", recordings)

# %% [markdown]
# ## What you can do now
#
# You know what each collective moves and what it costs in bytes. You have written a ring that no all-reduce made of
# messages can beat in bytes, and you know that it is made of two halves.
#
# Bytes are not everything: [part 2](02b_time_trees_and_groups.ipynb) measures time, builds a tree, and lets some of the
# ranks talk among themselves. [Part 3](02c_hangs.ipynb) reads the evidence of jobs that hang.
#
# **Further reading.** Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*
# (2009), section 3: the ring and its bound. Thakur, Rabenseifner and Gropp, *Optimization of Collective Communication
# Operations in MPICH* (2005), section 4: halving and doubling. The other collectives of this lesson are in
# `course_lib/parallel/collectives`; each is short enough for one screen.
