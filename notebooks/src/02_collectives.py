# %% [markdown]
# # 02 · Collectives
#
# Four ranks hold a tensor each, and all of them need the sum. You see what travels, build the algorithm that training
# jobs use all day, and prove by counting that it cannot be done with fewer bytes. Then you read the evidence of three
# jobs that hang.
#
# **60 minutes · difficulty 2 of 5 · needs: cpu**
#
# At the end you can
#
# - say for each of the eight collectives what a rank has before and after it;
# - write an all-reduce around a ring and a broadcast along a tree, from single messages;
# - predict what a collective sends and roughly how long it takes, from two numbers of your machine;
# - name the cause of a job that hangs, from the evidence that its ranks leave.
#
# [Lesson 01](01a_one_device.ipynb) ended at a limit: one device holds so much and computes so fast. Several devices
# that share a job have to exchange numbers, and that is what this lesson weighs.

# %%
from course_lib import Link, ask, check, cost, hint, quiz, reveal, shared_cluster, solution
from course_lib.cluster import RankError, exchange, recv, send
from course_lib.meter import metered
from course_lib.parallel import collectives
from course_lib.parallel.collectives import record
from course_lib.plot import lines, tiles

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
ranks = shared_cluster(4)

# %% [markdown]
# ## Eight ways to move
#
# In the pictures below, each of four ranks has memory for four pieces. What rank 0 brings is called A0, A1, A2 and
# A3, what rank 1 brings B0 to B3, and so on. A piece stays itself wherever it lies, and a tile with several letters
# is a *sum*. Nothing here is drawn by hand: `record` runs a collective on the ranks and reads their memory.


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
# gets the root's tensor. In a **scatter** the root deals out its pieces, one to each rank. In a **gather** the root
# gets a piece from each rank. Heavy borders mark what has come.

# %%
before_and_after("broadcast", "scatter", "gather")

# %% [markdown]
# ### Everybody and everybody
#
# <!-- word: all-gather | also: all_gather -->
# <!-- word: all-to-all | also: all_to_all -->
# An **all-gather** is a gather whose result everybody gets. An **all-to-all** deals out everybody's pieces: what stood
# in rows stands in columns afterwards.

# %%
before_and_after("all_gather", "all_to_all")

# %% [markdown]
# ### With adding
#
# A tile without a white corner is a sum over all four ranks.

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
# ![Four ranks with four pieces each; below, each rank has an empty row in which one box, a different one on each rank,
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
# The recordings can answer. In the last frame, rank r must hold the whole sum of piece r, and nothing else.

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
# <!-- word: naive all-reduce | also: gather + broadcast -->
# First the way that comes to mind, in the style of a parameter server: one process through which everything goes. The
# **naive all-reduce** is a gather and a broadcast: all ranks send their tensor to rank 0; it adds them up and sends the
# sum to everybody.
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
# `metered` is `run` with a meter on: it notes every message of every rank. Row by row: who sent how much to whom.


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
# ![Four ranks in a ring; each has four parts of its tensor, and sends one of them to the next
# rank](../assets/02_ring.png)
#
# <!-- word: bottleneck link -->
# <!-- word: ring all-reduce -->
# The **bottleneck link** is the one that all others wait for: in the naive all-reduce it is rank 0's port. So cut the
# tensor in as many parts as there are ranks, and let every rank work all the time. In a **ring all-reduce** each rank
# sends, in each step, *one part* of the tensor to the next rank and receives one from the rank before. After a first
# lap, every part has met all ranks and is complete somewhere; in a second lap the complete parts go round.
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
# Here is the first lap as it happened. Follow one part, say number 2, from rank to rank. Who has it complete after
# three steps? (Here rank r begins with part r - 1, in the picture above with part r. Either will do, if all ranks do
# the same.)

# %%
steps = record(ranks, "all_reduce, ring").frames
tiles({"start": steps[0], "step 1": steps[1], "step 2": steps[2], "step 3": steps[3]})

# %% [markdown]
# Can anybody do with less? Think of one part of the tensor. Before it is complete somewhere, n - 1 ranks must have
# sent theirs, or a sum that holds it. Then n - 1 ranks must receive it. That is 2 (n - 1) messages for each part,
# however they travel, so on average a rank has to send $2(n-1)/n$ tensors. The ring needs exactly that, and shares
# it out evenly: **no all-reduce of n ranks can send less**.

# %% [markdown]
# ## Build: the ring
#
# Now write it. Your own convention for who begins with which part is welcome, if the sum is right and each rank keeps
# to the bound above, with $2(n-1)$ messages of one part each. The tensor is flat, and n need not divide it:
# `tensor.tensor_split(n)` gives n parts that are views, so that writing into a part writes into the tensor.


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
# `check` looks at the values and at the meter: an answer that gathers everything, or one that sends less than it
# must, gets a message of its own. Stuck? Take the `#` away; each run gives one more hint. `solution("02.ring")` says
# where the solved version stands.

# %%
# hint("02.ring")

# %% [markdown]
# What does *your* ring look like? The recorder takes any function.

# %%
if ring_verdict.passed:
    mine = record(ranks, ring_all_reduce)
    print(f"{mine.num_steps} steps; every part complete somewhere after step {mine.num_steps // 2}")
    print("each rank sent", [mine.sent_bytes(rank) for rank in range(4)], "bytes of a tensor of 4096")

# %% [markdown]
# ## More ranks
#
# <!-- word: tree all-reduce | also: binomial tree -->
# A third way is a tree. In a **tree all-reduce** ranks add in pairs, pairs of pairs, and so on up to one rank, and the
# sum comes down the same way. Three algorithms, one sum. What goes through the busiest port (the bottleneck), in or
# out, as ranks are added?

# %%
ours = {name: [] for name in ["naive", "tree", "ring"]}
for num_ranks in [2, 3, 4]:
    for name, found in ours.items():

        def by_name(me, tensor, name=name):
            return collectives.all_reduce(me, tensor, algorithm=name)

        sent = metered(shared_cluster(num_ranks), sum_of_a_mebibyte, by_name).communication
        found.append(f"{sent.busiest_bytes / MIB:.2f} MiB")
print("ranks  ", *(f"{n:>9}" for n in [2, 3, 4]))
for name, found in ours.items():
    print(f"{name:<7}", *(f"{text:>9}" for text in found))

# %% [markdown]
# Three points are measured; for more ranks ask the cost model, which knows each algorithm's messages round by round.


# %%
link = Link(latency_s=50e-6, bandwidth_bytes_per_s=2e9)  # bytes do not depend on it


def busiest_port(name, n):
    return cost.collective_cost("all_reduce", 1, link, num_ranks=n, algorithm=name).busiest_port_bytes


counts = [2**power for power in range(1, 7)]
print("at 4 ranks the model says", {name: busiest_port(name, 4) for name in ours}, "times the tensor")
lines(
    {name: (counts, [busiest_port(name, n) for n in counts]) for name in ours},
    x_label="ranks",
    y_label="busiest port (tensors)",
    title="All-reduce: what the busiest port carries one way (cost model)",
    log_x=True,
    log_y=True,
)

# %% [markdown]
# The naive way grows with every rank. The tree grows by one tensor each time the ranks double. The ring stays below
# *two*, for any number of ranks. That is why a job can grow from 8 to 800 GPUs without each of them sending more.
#
# ## Time: two numbers
#
# ![A broadcast on four ranks: rank 0 sends to rank 1, then both send to one more each](../assets/02_tree.png)
#
# <!-- word: alpha-beta model | also: Hockney model -->
# Bytes are not everything. In the **alpha-beta model** a message takes a latency α however small it is, and then β for
# each byte (β is one over the bandwidth).
#
# **Four ranks all-reduce 16 numbers, 64 bytes. Which is faster?**

# %%
### BEGIN SOLUTION
### STUB ask("02.small")
ask("02.small").commit("ring")  # it won a moment ago
### END SOLUTION

# %% [markdown]
# Measure both, from 64 bytes to 16 MiB, each 32 times. A repetition takes as long as its slowest rank, and the
# fastest repetition counts: whatever else your machine does can only lengthen a time.

# %%
import statistics
import time


def add_up(me, tensor, name):
    if name == "torch.distributed":
        dist.all_reduce(tensor)
        return tensor
    return collectives.all_reduce(me, tensor, algorithm=name, out=tensor)


def times_by_size(me, name, sizes, repeats=32):
    all_times_s = []
    for size_bytes in sizes:
        tensor = torch.zeros(size_bytes // 4, device=me.device)
        for _ in range(repeats):
            dist.barrier()
            start_s = time.perf_counter()
            add_up(me, tensor, name)[-1].item()
            all_times_s.append(time.perf_counter() - start_s)
    return torch.tensor(all_times_s).view(len(sizes), repeats)


def fastest(run):
    slowest_rank_s = torch.stack(list(run)).amax(dim=0)  # (sizes, repeats)
    return slowest_rank_s.amin(dim=1).tolist()


# %% tags=["nbval-ignore-output"]
sizes = [64 * 4**power for power in range(10)]
measured_s = {name: fastest(ranks.run(times_by_size, name, sizes)) for name in ["ring", "tree"]}
for size_bytes, ring_s, tree_s in zip(sizes, *measured_s.values(), strict=True):
    print(f"{size_bytes:>10,} bytes   ring {ring_s * 1e6:>7,.0f} µs   tree {tree_s * 1e6:>7,.0f} µs")

# %% tags=["nbval-ignore-output"]
reveal("02.small", measured_s)

# %% [markdown]
# ![Six messages in a row for the ring, four for the tree; each is nearly all latency](../assets/02_small.png)
#
# That is the model. In general a ring of n ranks takes $2(n-1)$ messages in a row, a tree up and down about
# $2\log_2 n$; the naive way $2(n-1)$ as well, since one port handles them one after the other.
#
# Two more runs of 64 bytes tell what else costs time here. The naive way has as many messages in a row as the ring, but
# in all as few as the tree. And on CPU ranks the `all_reduce` of `torch.distributed` is a ring too, with no Python
# between its steps.

# %% tags=["nbval-ignore-output"]
for name in ["naive", "torch.distributed"]:
    [time_s] = fastest(ranks.run(times_by_size, name, sizes[:1]))
    print(f"{sizes[0]} bytes   {name:<17} {time_s * 1e6:>7,.0f} µs")

# %% [markdown]
# Hold them against the first line of the table above. If the naive way is far ahead of the ring, then messages in a row
# are not what costs most on this machine. Messages in all are: each keeps two ranks busy, and ranks that share cores
# wait for each other. If `torch.distributed` is far ahead of the ring, then much of the ring's time is Python.
#
# Now fit α and β to what you measured. With m messages in a row, each of a share c of the s bytes, the model is
#
# $$t = m\,(\alpha + \beta\,c\,s)$$
#
# A ring has $m = 2(n-1)$ and $c = 1/n$; the tree of four ranks $m = 4$ and $c = 1$. Dividing by t makes every size
# count alike: find α and β such that $m\,\alpha/t + m\,c\,s\,\beta/t$ is near 1.


# %%
def fit(times_s, in_a_row, share):
    t, s = (torch.tensor(values, dtype=torch.float64) for values in (times_s, sizes))
    columns = torch.stack([in_a_row / t, in_a_row * share * s / t], dim=1)
    alpha, beta = torch.linalg.lstsq(columns, torch.ones_like(t)[:, None]).solution.flatten().tolist()
    return Link(latency_s=max(alpha, 1e-7), bandwidth_bytes_per_s=1 / max(beta, 1e-13))


# %% tags=["nbval-ignore-output"]
fits = {"ring": fit(measured_s["ring"], 6, 1 / 4), "tree": fit(measured_s["tree"], 4, 1)}
for name, found in fits.items():
    rate = found.bandwidth_bytes_per_s / 1e9
    print(f"{name}: a message takes {found.latency_s * 1e6:4.0f} µs, and beyond that {rate:.2f} GB/s")


# %% tags=["nbval-ignore-output"]
def model_s(name, size_bytes):
    cost_of = cost.collective_cost("all_reduce", size_bytes, fits[name], num_ranks=4, algorithm=name)
    return cost_of.time_s


curves = {f"{name}, measured": measured_s[name] for name in fits}
curves |= {f"{name}, model": [model_s(name, size_bytes) for size_bytes in sizes] for name in fits}
lines(
    {name: (sizes, [1e6 * time_s for time_s in times_s]) for name, times_s in curves.items()},
    x_label="bytes",
    y_label="time (µs)",
    title="All-reduce on four ranks: measured, and two numbers each",
    log_x=True,
    log_y=True,
)

# %% [markdown]
# By the model a curve is flat on the left, where latency rules, and straight on the right, where bytes do. See how well
# two numbers describe six powers of ten in size here, and where your points leave the lines.
#
# Now compare the two α above. It is the same machine: by the model a message costs the same in a ring and in a tree. If
# yours differ, think of the load. In a ring all four ranks send at the same moment, along a tree at most two do; where
# four ranks share two cores, they queue. Lesson 00 found a third α, between two ranks while nobody else did anything.
# **α and β belong to a link under the load it was measured with**, and a model that forgets that is wrong in a way that
# looks like noise.
#
# What do the two numbers say of larger jobs? A network of a GPU cluster, by the numbers of its maker:

# %% tags=["computed-time"]
network = cost.LINKS["infiniband ndr"]
for num_ranks in [8, 64, 512]:
    for name in ["ring", "tree"]:
        found = cost.collective_cost("all_reduce", MIB, network, num_ranks=num_ranks, algorithm=name)
        print(f"1 MiB on {num_ranks:>3} ranks, {name}: {found.time_s * 1e3:5.2f} ms")

# %% [markdown]
# With hundreds of ranks a ring has hundreds of latencies, and a tree wins at larger and larger sizes. So libraries
# keep several algorithms, and choose by size and number of ranks.

# %% [markdown]
# ## Build: a tree
#
# ![A broadcast on four ranks: rank 0 sends to rank 1, then both send to one more each](../assets/02_tree.png)
#
# <!-- word: reduce -->
# A **reduce** adds up the tensors of all ranks, for the root alone: that is the half of a tree that goes up. The half
# that comes down is a broadcast. In each round, *every* rank that has the tensor sends it to one that has not, so that
# their number doubles. Write it for any number of ranks, with rank 0 as the root and single messages alone.


# %%
def tree_broadcast(me, tensor):
    """Rank 0's tensor on every rank; on the others ``tensor`` is overwritten. Returns the tensor."""
    # 1. Who has the tensor before the round, and how far away is the rank that each of them sends to?
    # 2. Who receives in this round, and from whom?
    ### BEGIN SOLUTION
    reach = 1
    while reach < me.world_size:
        if me.rank < reach:
            if me.rank + reach < me.world_size:
                exchange([send(tensor, me.rank + reach)])
        elif me.rank < 2 * reach:
            exchange([recv(tensor, me.rank - reach)])
        reach *= 2
    return tensor
    ### END SOLUTION


# %%
check("02.tree", tree_broadcast)

# %%
# hint("02.tree")

# %% [markdown]
# ## Two halves
#
# ![A recorded all-reduce: at the start each rank has its own pieces, half-way each rank has one complete sum, at the
# end every rank has all of them](../assets/02_halves.png)
#
# <!-- word: reduce-scatter | also: reduce_scatter -->
# A **reduce-scatter** adds up the tensors of all ranks and leaves each rank with one complete part of the sum: that is
# what the ring has done half-way. What follows is an all-gather.
# **all_reduce = reduce_scatter + all_gather**, and nothing is lost by doing the two one by one:


# %%
def in_two_halves(me, tensor):
    part = collectives.reduce_scatter(me, tensor)
    return collectives.all_gather(me, part)


halves = metered(ranks, sum_of_a_mebibyte, in_two_halves)
print("the same sum:", list(halves), "and each rank sent", halves.communication.sent_bytes(0) / MIB, "MiB")

# %% [markdown]
# <!-- word: ZeRO -->
# You could do something between the halves: update a quarter of the weights on each rank, say. In **ZeRO** each rank
# updates its own shard of the weights, and keeps the optimizer state of that shard alone: that is the idea of lesson
# 05.
#
# **Our reduce-scatter of 1 MiB sends 0.75 MiB from each rank. PyTorch's own, on these ranks: how many times as
# much?**

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
# The course's meter knows what each library sends; for gloo this was checked by counting bytes at its sockets. Who
# knows what a call *should* cost can find such things. (For an all-reduce, gloo's ring sends what yours does.)

# %% [markdown]
# ## The explorer
#
# ![The explorer: a menu of collectives, a box for the step, buttons back and forward, and below them what each rank
# holds after step 2 of a ring all-reduce](../assets/02_explorer.png)
#
# Every collective of this lesson, recorded a moment ago on your ranks. Three missions:
#
# 1. `all_reduce, halving-doubling`: in which step does a rank send most, and to whom? Compare the bytes with the
#    ring's, and the steps with the tree's.
# 2. `all_reduce, tree`: find a step in which two of the four ranks have nothing to do.
# 3. `reduce`: how many copies of the whole tensor travel, and how many would travel if everybody sent to rank 0?

# %%
from course_lib.parallel.collectives import RECORDABLE
from course_lib.widgets import CollectiveExplorer

recordings = [record(ranks, name) for name in RECORDABLE]
CollectiveExplorer(recordings)

# %% [markdown]
# ## Clinic 1: everybody is polite
#
# ![Four ranks have worked and then stand at some line; nobody knows which](../assets/02_stuck.png)
#
# *Symptom.* Each rank passes its tensor to the next rank. With one rank it works. With more, nothing moves.


# %%
def pass_on(me, mine):
    theirs = torch.empty_like(mine)
    exchange([send(mine, (me.rank + 1) % me.world_size)])
    exchange([recv(theirs, (me.rank - 1) % me.world_size)])
    return theirs


def pass_on_job(me):
    return pass_on(me, torch.arange(5, device=me.device) + 100 * me.rank).tolist()


# %%
### BEGIN SOLUTION
### STUB ask("02.deadlock")
ask("02.deadlock").commit("a rank never came")
### END SOLUTION

# %% tags=["computed-time"]
try:
    ranks.call(pass_on_job, timeout_s=4)
except RankError as error:
    print(error)

# %%
reveal("02.deadlock")

# %% [markdown]
# <!-- word: deadlock -->
# A **deadlock** is a hang in which ranks wait for each other in a circle. Here each waits for the next one's second
# line. This is why this course sends in lists: `exchange` starts a whole list before it waits, as
# `dist.batch_isend_irecv` does.
#
# ### Mend it


# %%
def pass_on_mended(me, mine):
    """The tensor of the rank before this one; ``mine`` goes to the rank after it, and stays as it is here."""
    ### BEGIN SOLUTION
    theirs = torch.empty_like(mine)
    after, before = (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
    exchange([send(mine, after), recv(theirs, before)])
    return theirs
    ### END SOLUTION


# %%
check("02.shift", pass_on_mended)

# %%
# hint("02.shift")

# %% [markdown]
# ## Clinic 2: the end of the epoch
#
# *Symptom.* The job hangs at the end of the first epoch. Rank 0 has some more to do there than the others, and
# a colleague tidied up its branch yesterday.


# %%
def end_of_epoch(me, weights, loss):
    if me.rank == 0:
        dist.broadcast(weights, src=0)
        dist.all_reduce(loss)
        return f"mean loss {loss.item() / me.world_size:.2f}"
    dist.all_reduce(loss)
    dist.broadcast(weights, src=0)


def epoch_job(me):
    weights, loss = torch.ones(4, device=me.device), torch.ones(1, device=me.device)
    return end_of_epoch(me, weights, loss)


# %% [markdown]
# Read the code, and name a suspect before the ranks are asked.

# %%
### BEGIN SOLUTION
### STUB ask("02.mismatch")
ask("02.mismatch").commit("rank 0 never came")
### END SOLUTION

# %% tags=["computed-time"]
try:
    ranks.call(epoch_job, timeout_s=4)
except RankError as error:
    print(error)

# %%
reveal("02.mismatch")

# %% [markdown]
# ## Clinic 3: a broken batch
#
# *Symptom.* Some batches give a loss that is not a number, and somebody decided to skip those. The job now hangs near
# the end of some epochs. Of others, the log shows odd losses, and nothing hangs.


# %%
def train_epoch(me, losses):
    means = []
    for loss in losses:
        if torch.isnan(loss):
            continue  # skip a broken batch
        dist.all_reduce(loss)
        means.append(loss.item() / me.world_size)
    return means


def job_with_a_broken_batch(me, broken):
    losses = torch.tensor([1.0, 2.0, 3.0], device=me.device)
    for rank, batch in broken:
        losses[batch] = float("nan") if rank == me.rank else losses[batch]
    return train_epoch(me, losses)


# %%
### BEGIN SOLUTION
### STUB ask("02.skip")
ask("02.skip").commit("all_reduce cannot add what is not a number")
### END SOLUTION

# %%
try:
    ranks.call(job_with_a_broken_batch, ([(1, 0)],), timeout_s=20)
except RankError as error:
    print(error)

# %%
reveal("02.skip")

# %% [markdown]
# A hang is the *lucky* case: it took a rank that made fewer calls than the others. Now let every rank skip
# one batch, not all of them the same one. The counts agree again.

# %%
run = ranks.run(job_with_a_broken_batch, [(0, 0), (1, 1), (2, 2), (3, 2)])
for rank, means in enumerate(run):
    print(f"rank {rank}: means {means}")
print("the batches' true means are 1, 2 and 3")

# %% [markdown]
# No error, no hang, and numbers that mean nothing: a rank's second batch was added to another's third. With gradients
# in place of losses, this trains a model on garbage. The rule that prevents it: **whether a collective is called must
# never depend on something that only one rank knows.** If a batch may be skipped, let the ranks agree first; for
# example, all-reduce a flag.

# %% [markdown]
# ## In production
#
# You will call `torch.distributed`, which chooses an algorithm, works in the background if you ask it to
# (`async_op=True`), and has no Python in its loop. Side by side, on 16 MiB:


# %%
def side_by_side(me, function):
    functions = {"torch.distributed": lambda me, x: dist.all_reduce(x), "yours": function}
    tensor, times_s = torch.zeros(4 * MIB, device=me.device), {name: [] for name in functions}
    for _ in range(9):
        for name, all_reduce in functions.items():
            dist.barrier()
            start_s = time.perf_counter()
            all_reduce(me, tensor)
            tensor[-1].item()  # waits for a GPU to be done
            times_s[name].append(time.perf_counter() - start_s)
    return {name: statistics.median(values) for name, values in times_s.items()}


# %% tags=["nbval-ignore-output"]
function = ring_all_reduce if ring_verdict.passed else collectives.all_reduce
found = list(ranks.run(side_by_side, function))
for name in found[0]:
    time_s = max(times_s[name] for times_s in found)
    share = 16 * ring.sent_bytes(0) / time_s
    print(f"{name:<18} {time_s * 1e3:6.1f} ms, {share / 1e9:.2f} GB/s sent by each rank")

# %% [markdown]
# A ring is a ring: at this size the model gives nearly all of the time to the bytes, and both send the same. What
# production code adds is everything around it: GPUs that add while they receive, several rings at once over all links
# of a machine, trees where they win.
#
# | you wrote | production code uses |
# |---|---|
# | `ring_all_reduce` | `dist.all_reduce(tensor)` |
# | `tree_broadcast` | `dist.broadcast(tensor, src=0)` |
# | `exchange([send(...), recv(...)])` | `dist.batch_isend_irecv([dist.P2POp(...), ...])` |
# | the evidence table | `TORCH_NCCL_TRACE_BUFFER_SIZE`, PyTorch's flight recorder |
#
# The other collectives of this lesson, in the same style, are in `course_lib/parallel/collectives`; each fits a
# screen.

# %% [markdown]
# ## Five questions

# %% tags=["computed-time"]
quiz("02")

# %% [markdown]
# ## What you can do now
#
# You know what each collective moves, what it costs in bytes and in messages, and which of the two matters for your
# size. You have written a ring that no all-reduce can beat in bytes, and you can tell three kinds of hang apart.
#
# **The limit.** You can share numbers; you do not share any *work* yet. The simplest thing to share is a batch: one
# process, several devices, each with a copy of the model. It takes one line in PyTorch, and lesson 03 takes it apart,
# to see why nobody uses it any more.
#
# **Further reading.** Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*
# (2009), section 3: the ring and its bound. Thakur, Rabenseifner and Gropp, *Optimization of Collective Communication
# Operations in MPICH* (2005), sections 3 and 4: trees, halving and doubling. [NCCL tests, on
# performance](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): the same factors, as bus
# bandwidth.
