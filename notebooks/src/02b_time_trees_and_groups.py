# %% [markdown]
# # 02b · Collectives: time, trees and groups
#
# No all-reduce made of messages sends fewer bytes than a ring. You race the ring against three other ways to add up.
# You find out what all of them wait for, on this machine and on a network. You build a tree. Then some of the ranks
# talk among themselves.
#
# **65 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 2 of 4 · [1: what travels](02a_collectives.ipynb) · [3: when a job hangs](02c_hangs.ipynb) ·
# [4: build an all-reduce](02d_build_all_reduce.ipynb)
#
# This part builds on [02a: what travels](02a_collectives.ipynb). Have you done it? `from course_lib import start;
# start("02b")` says whether you have.
#
# At the end you can
#
# - write a broadcast along a tree;
# - predict how long a collective takes, from two numbers, and say under which load the two are right;
# - read `algbw` and `busbw`, as benchmarks print them;
# - let a part of the ranks form a group of its own.
#
# From part 1 you need three things. A rank's *port* is the door through which its messages come in and go out. The
# *naive* all-reduce sends everything to rank 0 and back. The *ring* takes $2(n-1)$ steps, and in each of them every
# rank sends one n-th of the tensor to the next rank.

# %%
from course_lib import Link, Links, ask, check, cost, hint, mine, reveal, shared_cluster, solution
from course_lib.cluster import RankError, exchange, recv, send
from course_lib.meter import metered
from course_lib.parallel import collectives
from course_lib.plot import lines
from course_lib.rounding import rounded

import time

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
ranks = shared_cluster(4)

# %% [markdown]
# ## A tree
#
# ![A broadcast on four ranks: rank 0 sends to rank 1, then both send to one more each](../assets/02_tree.png)
#
# <!-- word: reduce -->
# <!-- word: tree all-reduce | also: binomial tree | sentences: 2 -->
# In a **tree all-reduce** ranks add in pairs, then pairs of pairs, and so on up to one rank. The sum comes down the
# same way. The way up is a **reduce**: it adds up the tensors of all ranks, for the root alone. The way down is a
# broadcast, and the picture shows it.
#
# ### Build: the half that comes down
#
# In each round, *every* rank that has the tensor sends it to a rank that does not have it, so that their number
# doubles. Write it for any number of ranks, with rank 0 as the root and single messages alone.


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
# ## The busiest port
#
# Here are three algorithms for one sum. How many bytes go through the busiest port, in or out, and how does this number
# grow with the ranks?


# %%
MIB = 2**20


def sum_of_a_mebibyte(me, name):
    tensor = torch.full((MIB // 4,), me.rank + 1.0, device=me.device)  # 4 bytes a number
    return collectives.all_reduce(me, tensor, algorithm=name)[-1].item()


ALGORITHMS = ["naive", "tree", "ring"]
print("ranks  ", *(f"{num_ranks:>9}" for num_ranks in [2, 3, 4]))
for name in ALGORITHMS:
    runs = [metered(shared_cluster(num_ranks), sum_of_a_mebibyte, name) for num_ranks in [2, 3, 4]]
    print(f"{name:<7}", *(f"{run.communication.busiest_bytes / MIB:5.2f} MiB" for run in runs))

# %% [markdown]
# The ring in this table is the course's. If 02.ring has passed, `check` has kept *your* ring as source, in a folder
# `mine` beside your lessons. How many bytes go through the busiest port with it? The first line of the output says
# whose ring it is.

# %%
ring_of_part_1 = mine.ring_all_reduce


def sum_by(me, all_reduce):
    return all_reduce(me, torch.full((MIB // 4,), me.rank + 1.0, device=me.device))[-1].item()


runs = [metered(shared_cluster(num_ranks), sum_by, ring_of_part_1) for num_ranks in [2, 3, 4]]
print("part 1 ", *(f"{run.communication.busiest_bytes / MIB:5.2f} MiB" for run in runs))

# %% [markdown]
# Three points are measured; for more ranks ask the cost model, which knows each algorithm's messages round by round.


# %%
def cost_of(name, size_bytes, link, num_ranks=4):
    return cost.collective_cost("all_reduce", size_bytes, link, num_ranks=num_ranks, algorithm=name)


some_link = Link(latency_s=50e-6, bandwidth_bytes_per_s=2e9)  # bytes do not depend on it
counts = [2**power for power in range(1, 7)]
lines(
    {
        name: (counts, [cost_of(name, 1, some_link, n).busiest_port_bytes for n in counts])
        for name in ALGORITHMS
    },
    x_label="ranks",
    y_label="busiest port (tensors)",
    title="All-reduce: what the busiest port carries one way (cost model)",
    log_x=True,
    log_y=True,
)

# %% [markdown]
# In the naive way the busiest port carries one tensor more for every rank. In this tree it carries one more each time
# the number of ranks doubles, since the root sends the whole tensor once in every round. In the ring it stays below
# *two tensors*, for any number of ranks. That is why a job can grow from 8 to 800 GPUs without each of them sending
# more.
#
# ## Time: two numbers
#
# <!-- word: alpha-beta model | also: Hockney model | sentences: 2 -->
# Bytes are not everything. In the **alpha-beta model** a message takes a latency α, however small the message is, and
# then β for each byte ([Hockney, 1994](https://doi.org/10.1016/S0167-8191%2806%2980021-9)). So β is 1 / bandwidth. The
# times of messages that must follow each other add up; messages between other ranks travel at the same time. And a port
# takes one message after the other: if three ranks send to rank 0, these are three in a row.
#
# **Four ranks all-reduce 16 numbers, 64 bytes. Which is faster?**

# %%
### BEGIN SOLUTION
### STUB ask("02.small")
ask("02.small").commit("ring")  # it sends the fewest bytes
### END SOLUTION

# %% [markdown]
# Measure, from 64 bytes to 16 MiB, each size several times. Let `torch.distributed` run as well: on CPU ranks it is a
# ring too, written in C++. A repetition takes as long as its slowest rank, and the fastest repetition counts: whatever
# else your machine does can only lengthen a time.


# %%
def add_up(me, tensor, name):
    if name == "torch.distributed":
        dist.all_reduce(tensor)
        return tensor
    return collectives.all_reduce(me, tensor, algorithm=name, out=tensor)


def times_by_size(me, name, sizes, repeats):
    all_times_s = []
    for size_bytes in sizes:
        tensor = torch.zeros(size_bytes // 4, device=me.device)
        for _ in range(repeats):
            dist.barrier()
            start_s = time.perf_counter()
            add_up(me, tensor, name)[-1].item()  # reading a number waits for a GPU to be done
            all_times_s.append(time.perf_counter() - start_s)
    return torch.tensor(all_times_s).view(len(sizes), repeats)


# %% tags=["nbval-ignore-output"]
def race(names, sizes, repeats=16):
    by_name = {}
    for name in names:
        slowest_rank_s = torch.stack(list(ranks.run(times_by_size, name, sizes, repeats))).amax(dim=0)
        by_name[name] = slowest_rank_s.amin(dim=1).tolist()  # the fastest repetition, for each size
    return by_name


sizes = [64 * 8**power for power in range(7)]
measured_s = race([*ALGORITHMS, "torch.distributed"], sizes)
print(" " * 18, *(f"{name:>18}" for name in measured_s))
for index, size_bytes in enumerate(sizes):
    print(
        f"{size_bytes:>12,} bytes", *(f"{times_s[index] * 1e6:>15,.0f} µs" for times_s in measured_s.values())
    )


# %% tags=["nbval-ignore-output"]
def sum_of_16(me, all_reduce):
    all_reduce(me, torch.zeros(16, device=me.device))


def ring_of_the_course(me, tensor):
    return collectives.all_reduce(me, tensor, algorithm="ring", out=tensor)


yours = mine.if_passed("ring_all_reduce")
rings = mine.beside(lambda ring: metered(ranks, sum_of_16, ring), ring_of_the_course, yours)
reveal("02.small", measured_s, beside=rings)

# %% [markdown]
# ### What did they wait for?
#
# The model counts messages *in a row*. Where ranks share cores, another count may fit better. Each message keeps two
# ranks busy, and then the work of *all* messages queues for the cores. So the next cell divides the time of a small
# tensor (the fastest of the first three rows) by both counts.


# %% tags=["nbval-ignore-output"]
def counts_of(name):
    """(in a row, in all): messages, and tensors' worth of bytes."""
    just_latency, just_bytes = Link(latency_s=1.0, bandwidth_bytes_per_s=1e30), Link(1e-30, 1.0)
    found = cost_of(name, 1, just_latency)
    in_a_row = found.time_s, cost_of(name, 1, just_bytes).time_s
    return in_a_row, (sum(found.messages_sent), found.total_bytes)


print(" " * 12, "in a row   µs for each      in all   µs for each")
for name in ALGORITHMS:
    (in_a_row, _), (in_all, _) = counts_of(name)
    time_us = min(measured_s[name][:3]) * 1e6
    print(f"{name:<9} {in_a_row:>10.0f} {time_us / in_a_row:>13,.0f} {in_all:>11} {time_us / in_all:>13,.0f}")

# %% [markdown]
# Which of the two columns of µs has about the same number three times? That number is what a message costs between your
# ranks. If it is the column *in all*, then your ranks do not wait for latency: they wait for a core.
# (`torch.distributed` may be faster than our ring in the table above. Its ring sends the same bytes, but needs no
# Python for each message.)
#
# The next cells test both counts on all sizes. For m messages, which carry c times the bytes of a tensor of s bytes,
# the time should be
#
# $$t = m\,\alpha + c\,s\,\beta$$
#
# with *one* α and *one* β for the three algorithms. Dividing by t makes every point count alike: find α and β such
# that $m\,\alpha/t + c\,s\,\beta/t$ is near 1.


# %%
def fit(which):
    rows = []
    for name in ALGORITHMS:
        m, c = counts_of(name)[which]
        rows += [[m / t, c * s / t] for s, t in zip(sizes, measured_s[name], strict=True)]
    matrix = torch.tensor(rows, dtype=torch.float64)
    alpha, beta = torch.linalg.lstsq(matrix, torch.ones(len(rows), 1, dtype=torch.float64)).solution.flatten()
    typical_error = (matrix @ torch.stack([alpha, beta]) - 1).abs().median().item()
    return alpha.item(), beta.item(), typical_error


# %% tags=["nbval-ignore-output"]
fits = {label: fit(which) for which, label in enumerate(["in a row", "in all"])}
for label, (alpha, beta, error) in fits.items():
    print(
        f"counted {label:<9} α = {alpha * 1e6:4.0f} µs, 1/β = {1e-9 / beta:4.2f} GB/s, off by {error:.0%} (median)"
    )

# %% tags=["nbval-ignore-output"]
better = min(fits, key=lambda label: fits[label][2])
alpha, beta, _ = fits[better]
curves = {f"{name}, measured": measured_s[name] for name in ALGORITHMS}
for name in ALGORITHMS:
    m, c = counts_of(name)[list(fits).index(better)]
    curves[f"{name}, fitted"] = [m * alpha + c * size_bytes * beta for size_bytes in sizes]
lines(
    {name: (sizes, [1e6 * time_s for time_s in times_s]) for name, times_s in curves.items()},
    x_label="bytes",
    y_label="time (µs)",
    title=f"All-reduce on four ranks, and one α and β for all, counted {better}",
    log_x=True,
    log_y=True,
)

# %% [markdown]
# By the model a curve is flat on the left, where the time is nearly all latency. It rises in a straight line on the
# right, where the bytes take the time. See how well two numbers describe five powers of ten in size here, and where
# your points leave the lines.
#
# Which of the two counts fits better depends on the machine. Where every rank has cores and a port of its own, as GPUs
# have, count *in a row*. Where ranks share cores, as on a laptop, count *in all*. **α and β belong to a link under the
# load it was measured with.** A model that forgets the load is wrong, and its errors look like noise.
#
# ### On a network
#
# <!-- word: shaped link | also: traffic shaping | sentences: 2 -->
# Now take the cores out of the measurement. A **shaped link** is slowed down to a latency and a bandwidth of your
# choice. It delays every real message until such a link would have delivered it, which is called traffic shaping
# elsewhere. Here it is 20 ms and 20 MB/s, so slow that cores hardly matter. The link knows nothing of rings and trees:
# it delays each message by itself.

# %% tags=["nbval-ignore-output"]
slow = Link(latency_s=20e-3, bandwidth_bytes_per_s=20e6)
with ranks.shaped(links=Links(slow)):
    shaped_s = race(ALGORITHMS, [64, MIB], repeats=2)
for name in ALGORITHMS:
    for size_bytes, time_s in zip([64, MIB], shaped_s[name], strict=True):
        model_s = cost_of(name, size_bytes, slow).time_s
        print(
            f"{name:<5} {size_bytes:>9,} bytes: model {model_s * 1e3:4.0f} ms, measured {time_s * 1e3:4.0f} ms"
        )

# %% [markdown]
# ![Six messages in a row for the ring, four for the tree; each is nearly all latency](../assets/02_small.png)
#
# By the model the tree is faster for the 64 bytes, and the ring for the mebibyte. Both predictions use *one* α, the
# latency of the shaped link. See how near your run comes. The time above the model is the work at the two ends of each
# message, which this machine does with its cores. The ring, with its 24 messages, has most of this work.
#
# What do the two numbers say about larger jobs? Take the network of a GPU cluster. Its bandwidth is the one that its
# maker gives; its latency of 8 µs a message is an estimate of the course.

# %% tags=["computed-time"]
network = cost.LINKS["infiniband ndr"]
for num_ranks in [8, 64, 512]:
    times = [f"{name} {cost_of(name, MIB, network, num_ranks).time_s * 1e3:6.2f} ms" for name in ALGORITHMS]
    print(f"1 MiB on {num_ranks:>3} ranks: ", ",  ".join(times))

# %% [markdown]
# With hundreds of ranks a ring has hundreds of latencies, and a tree is faster up to larger and larger sizes. So
# libraries keep several algorithms, and choose by size and number of ranks. NCCL's tree is better than the course's. It
# uses two trees at once, so that every rank is busy, and cuts the tensor in pieces that follow each other ([NVIDIA on
# double binary trees](https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/)).

# %% [markdown]
# ## How fast is a collective?
#
# **64 ranks all-reduce 1 GB around a ring, over links of 50 GB/s each way. How many GB/s is the size of the tensor
# divided by the time?**

# %%
### BEGIN SOLUTION
### STUB ask("02.algbw")
ask("02.algbw").commit(50)  # "what the link does"
### END SOLUTION

# %%
on_64 = cost_of("ring", 1e9, network, num_ranks=64)
reveal("02.algbw", on_64)

# %% [markdown]
# <!-- word: algorithm bandwidth | also: algbw -->
# <!-- word: bus bandwidth | also: busbw -->
# NVIDIA's benchmark [nccl-tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) prints two
# bandwidths. The **algorithm bandwidth** (`algbw`) is the size of the tensor divided by the time. On the same links, it
# falls when ranks are added. The **bus bandwidth** (`busbw`) is the algorithm bandwidth times a factor, $2(n-1)/n$ for
# an all-reduce. Each rank has to send this many bytes for each byte of the tensor. You can compare the bus bandwidth
# with the link's bandwidth, for any number of ranks. `cost.bus_factor` has the factor of each collective.

# %% tags=["computed-time"]
print("ring over 50 GB/s     algbw        busbw")
for num_ranks in [2, 8, 64, 512]:
    found = cost_of("ring", 1e9, network, num_ranks)
    both = found.algorithm_bandwidth_bytes_per_s / 1e9, found.bus_bandwidth_bytes_per_s / 1e9
    print(f"1 GB on {num_ranks:>3} ranks", *(f"{rate:7.1f} GB/s" for rate in both))

# %% [markdown]
# (With 512 ranks a thousand latencies begin to show.) Here are the two bandwidths of your own ranks, from the race
# above:

# %% tags=["nbval-ignore-output"]
factor = cost.bus_factor("all_reduce", 4)
print(f"busbw = {factor} algbw      algbw        busbw")
for name in ["ring", "torch.distributed"]:
    for size_bytes, time_s in list(zip(sizes, measured_s[name], strict=True))[-2:]:
        algbw = size_bytes / time_s / 1e9
        print(f"{name:<18} {size_bytes / MIB:4.0f} MiB {algbw:6.2f} GB/s {factor * algbw:6.2f} GB/s")

# %% [markdown]
# There are two traps. A `busbw` may be above the link's bandwidth: where a switch adds up, ranks send less than the
# factor says. And at a small size, `busbw` says nothing about the link's bandwidth: there you have measured α.

# %% [markdown]
# ## Some of the ranks
#
# <!-- word: process group | also: communicator -->
# So far all ranks took part in every collective. A **process group** (in MPI and NCCL: a communicator) is a set of
# ranks that do collectives of their own. Later lessons need several at a time: think of a grid of ranks, with a group
# for each row and one for each column. Here are two pairs:


# %%
def in_pairs(me):
    pairs = [dist.new_group(members) for members in ([0, 1], [2, 3])]  # every rank makes both
    mine = pairs[me.rank // 2]
    total = torch.tensor([float(me.rank)], device=me.device)
    dist.all_reduce(total, group=mine)
    return total.item(), dist.get_process_group_ranks(mine), dist.get_rank(mine)


for rank, (total, members, place) in enumerate(ranks.run(in_pairs)):
    print(f"rank {rank}: sum {rounded(total, 0)}, in the group of {members}, where it is rank {place}")

# %% [markdown]
# A rank now has two numbers: its *global rank* in the whole job, and its *group rank*. **The first rank of the pair [2,
# 3] broadcasts to the other. What does rank 3 write, `src=0` or `src=2`?** The next cell tries both.


# %%
def from_the_first(me, source_of):
    pair = [dist.new_group(members) for members in ([0, 1], [2, 3])][me.rank // 2]
    value = torch.tensor([me.rank], device=me.device)
    try:
        dist.broadcast(value, src=source_of(me.rank), group=pair)
    except ValueError as error:
        return str(error).partition(" <")[0]
    return f"got {value.item()}"


print("src=0:                     ", *ranks.run(from_the_first, lambda rank: 0), sep=" | ")
print("src=0 and src=2, by group: ", *ranks.run(from_the_first, lambda rank: rank // 2 * 2), sep=" | ")

# %% [markdown]
# `src` and `dst` are *global* ranks, in a group as well. To use the group's own numbers, write `group_src=0`, or ask
# `dist.get_global_rank(group, 0)`.
#
# A colleague asks why ranks 0 and 1 should make a group that they are not in. So in the next cell, ranks 2 and 3 make
# their pair alone. Later all four make a group of everybody. **What happens?**


# %%
def own_groups_only(me):
    total = torch.tensor([float(me.rank)], device=me.device)
    if me.rank >= 2:
        pair = dist.new_group([2, 3])
        dist.all_reduce(total, group=pair)
    dist.barrier()  # all four meet here, before they go on
    everybody = dist.new_group([0, 1, 2, 3])
    dist.all_reduce(total, group=everybody)
    return total.item()


# %%
### BEGIN SOLUTION
### STUB ask("02.new_group")
ask("02.new_group").commit("ranks 2 and 3 hang, where they make their pair")
### END SOLUTION

# %% tags=["computed-time"]
try:
    ended = ranks.call(own_groups_only, timeout_s=8)
except RankError as error:
    ended = error
    print(error)

# %%
reveal("02.new_group", ended)

# %% [markdown]
# [PyTorch's rule](https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.new_group): **every rank of
# the job calls `new_group`, for every group, in the same order**, whether the rank is a member or not.
#
# <details>
# <summary>An aside: groups that the members alone make</summary>
#
# With `use_local_synchronization=True` the members alone call `new_group`. Each rank must still make its groups in one
# order. From torch 2.14 on, such a group also moves the count from which its members take names for later groups. A
# later group of all ranks then needs the same count on every rank.
#
# </details>
#
# ## What you can do now
#
# You can say what a collective costs in messages and in bytes, and which of the two matters for your size. You can also
# say under which load your α and β were measured. You can read a benchmark's two bandwidths. And you can let some of
# the ranks talk among themselves.
#
# You have also seen how a job hangs far from the line that is wrong. [Part 3](02c_hangs.ipynb) is about that.
#
# **Further reading.** Thakur, Rabenseifner and Gropp, *Optimization of Collective Communication Operations in MPICH*
# (2005), sections 3 and 4: trees, and which algorithm for which size. Sanders, Speck and Träff, *Two-tree algorithms
# for full bandwidth broadcast, reduction and scan* (2009): the idea behind NCCL's tree.
