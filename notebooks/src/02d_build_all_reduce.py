# %% [markdown]
# # 02d · Collectives: build an all-reduce
#
# You write one function, `all_reduce`, from single messages. It adds up tensors of any size, on any group of ranks. You
# build it in five steps. First the function is right. Then it needs few bytes, then little memory, then few rounds, and
# at last it works on groups.
#
# **2 × 75 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 4 of 4 · [1: what travels](02a_collectives.ipynb) ·
# [2: time, trees and groups](02b_time_trees_and_groups.ipynb) · [3: when a job hangs](02c_hangs.ipynb)
#
# This part builds on [02a: what travels](02a_collectives.ipynb) and [02b: time, trees and
# groups](02b_time_trees_and_groups.ipynb). Have you done them? `from course_lib import start; start("02d")` says
# whether you have.
#
# At the end you can
#
# - write an all-reduce that needs no more bytes, messages and buffers than it must;
# - choose the algorithm by the size of the tensor;
# - keep two groups of ranks apart that add up at the same time.
#
# You need the ring of part 1 and the tree of part 2. You can do this part in two sittings, and stop after step 3.

# %%
from course_lib import Link, Links, build_progress, check, hint, shared_cluster, side_by_side
from course_lib.meter import metered
from course_lib.parallel import collectives
from course_lib.plot import gantt_beside

import contextlib

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
ranks = shared_cluster(4)

# %% [markdown]
# ![Four ranks with a tensor of four parts each; a box for your function, with a question mark, in which there are
# messages alone; behind it the sum on each rank. Below, five questions: values, bytes, room, rounds,
# ranks](../assets/02_build.png)
#
# You know what goes in and what comes out. The five questions below the box are the five steps.
#
# ## One message each, as a start
#
# The two names below are all that you need of PyTorch. `P2POp` describes one half of a message, `batch_isend_irecv`
# begins all halves of a list together, and `wait` ends each. Here ranks 0 and 1 swap their numbers, and so do ranks 2
# and 3.


# %%
def swap(me):
    partner = me.rank ^ 1
    own, room = torch.full((2,), float(me.rank)), torch.empty(2)
    both = [dist.P2POp(dist.isend, own, partner), dist.P2POp(dist.irecv, room, partner)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return room.tolist()


print(*ranks.run(swap), sep="\n")

# %% [markdown]
# ## The whole build in one cell
#
# Everything you write stands in the next cell. You may add functions above `all_reduce`. With each step below you come
# back here, change the cell, run it, and run the check of the step. Use messages alone: `dist.send`, `dist.recv`,
# `dist.isend`, `dist.irecv`, `dist.batch_isend_irecv`, or those of part 1:
# `from course_lib.cluster import exchange, recv, send`.


# %%
def all_reduce(me, tensor, group=None):
    """Every rank of ``group`` gets the sum of their tensors, in place. Returns ``tensor``.

    me: this rank; ``me.rank`` is its number in the job. tensor: any shape and dtype, the same on all ranks of the
    group. group: a process group that has this rank; None for all ``me.world_size`` ranks.
    """
    ### BEGIN SOLUTION
    ranks = list(range(me.world_size)) if group is None else dist.get_process_group_ranks(group)
    n, at = len(ranks), ranks.index(me.rank)
    whole = tensor.contiguous()
    row = whole.view(-1)

    def exchange(give=None, to=0, take=None, source=0):
        halves = []
        if give is not None:
            halves.append(dist.P2POp(dist.isend, give, ranks[to % n], group=group))
        if take is not None:
            halves.append(dist.P2POp(dist.irecv, take, ranks[source % n], group=group))
        for work in dist.batch_isend_irecv(halves):
            work.wait()

    def around_a_ring():
        parts = row.tensor_split(n)
        room = torch.empty_like(parts[0])
        for step in range(n - 1):
            mine = parts[(at - step - 1) % n]
            arrived = room[: mine.numel()]
            exchange(parts[(at - step) % n], at + 1, arrived, at - 1)
            mine += arrived
        for step in range(n - 1):
            exchange(parts[(at + 1 - step) % n], at + 1, parts[(at - step) % n], at - 1)

    def by_doubling():
        room = torch.empty_like(row)
        even = 1 << (n.bit_length() - 1)  # as many ranks as pair up in all rounds
        if at >= even:
            exchange(row, at - even)
            exchange(take=row, source=at - even)
            return
        if at + even < n:
            exchange(take=room, source=at + even)
            row.add_(room)
        reach = 1
        while reach < even:
            exchange(row, at ^ reach, room, at ^ reach)
            row.add_(room)
            reach *= 2
        if at + even < n:
            exchange(row, at + even)

    if n > 1 and row.numel() * row.element_size() <= 1024:
        by_doubling()
    elif n > 1:
        around_a_ring()
    if whole is not tensor:
        tensor.copy_(whole)
    return tensor
    ### END SOLUTION


# %% [markdown]
# The next cell compares your function with the course's ring and PyTorch's all-reduce, on the same run.
# `compare(count)` gives each rank `count` numbers, runs all three, and counts. As long as your function is not written,
# its column is empty and a line says why.


# %%
def by_the_course(me, tensor, group=None):
    return collectives.all_reduce(me, tensor, out=tensor, group=group)


def by_pytorch(me, tensor, group=None):
    dist.all_reduce(tensor, group=group)
    return tensor


def all_three():
    return {"yours": all_reduce, "the course's": by_the_course, "PyTorch's": by_pytorch}


def compare(count):
    return side_by_side(
        ranks,
        lambda me, reduce, tensor: reduce(me, tensor),
        all_three(),
        prepare=lambda me: (torch.arange(float(count)) + me.rank,),
        expected=4 * torch.arange(float(count)) + 6,
        build="02.all_reduce",
    )


# %% [markdown]
# ## Step 1: the values
#
# Which tensors could break your function? Think of a tensor without any number, of one number without dims, and of a
# tensor whose numbers do not lie side by side. Any way is right in this step: everybody may send everything to
# everybody. The sum has to stand in `tensor` itself, and `group` is always `None`.

# %%
check("02.sum_values", all_reduce)

# %%
# hint("02.sum_values")

# %% [markdown]
# ## Step 2: the bytes
#
# With four ranks, how often does your tensor leave your rank? Each rank may now send 2 (n - 1) parts of a large tensor,
# one of more than 1 KiB. A part is the tensor divided by n. With messages alone, no all-reduce can send less.

# %%
compare(3000)

# %%
check("02.sum_bytes", all_reduce)

# %%
# hint("02.sum_bytes")

# %% [markdown]
# ## Step 3: memory and messages
#
# How many buffers live at the same time? Beside a large tensor, a rank may hold one part during the call, and nothing
# after it. It may send 2 (n - 1) messages. Look at the row *memory beside what was given* in the table above: the
# course's ring takes more memory than your function may take.

# %%
check("02.sum_memory", all_reduce)

# %%
# hint("02.sum_memory")

# %% [markdown]
# ## Step 4: small tensors
#
# A message of four bytes costs as much time as one of four hundred. In a ring of 1000 ranks, 1998 messages follow one
# another. For tensors of up to 1 KiB, bytes no longer count. Each rank may send log2 n messages, rounded up, and at
# most twice as many may follow one another. Large tensors keep the limits of step 3.

# %%
compare(60)

# %% [markdown]
# Here is the same sum on a slow link, with 5 ms for each message. The figure shows what rank 0 sends and receives with
# each of the three functions. Count how many messages follow one another. (PyTorch's all-reduce shows as one call,
# whatever it sends inside.)


# %%
def small_sum(me, reduce):
    tensor = torch.arange(60.0) + me.rank
    dist.barrier()
    reduce(me, tensor)


def messages_of_rank_0(reduce):
    spans = metered(ranks, small_sum, reduce).communication.of(0).timeline().spans
    return [span for span in spans if span.name != "barrier"]


# %% tags=["nbval-ignore-output"]
rows = {}
with ranks.shaped(links=Links(Link(latency_s=5e-3, bandwidth_bytes_per_s=100e6))):
    for name, reduce in all_three().items():
        with contextlib.suppress(Exception):  # yours may not be so far
            rows[name] = messages_of_rank_0(reduce)
gantt_beside(rows, title="60 numbers on four ranks: the messages of rank 0")

# %%
check("02.sum_latency", all_reduce)

# %%
# hint("02.sum_latency")

# %% [markdown]
# ## Step 5: any group
#
# Think of a group of ranks 2 and 3, and of the position that rank 2 has in it. Now `group` may have two ranks, or all
# ranks in another order, or one rank. Two groups may add up at the same time. A rank may not send to a rank outside of
# its group, nor wait for one. One call may be for a group, and the next one for all ranks. In all limits n is the size
# of the group.

# %%
check("02.sum_groups", all_reduce)

# %%
# hint("02.sum_groups")

# %% [markdown]
# ## How far you are
#
# Each step that has passed gives a point. From the first one on, lessons can run on your function as `mine.all_reduce`;
# a later step puts the newer version in its place.

# %% tags=["nbval-ignore-output"]
build_progress("02.all_reduce")

# %% [markdown]
# **If you have time left.** Let `all_reduce(me, tensor, group, async_op=True)` return at once, with a handle whose
# `wait()` ends it. Which of your messages can begin before `wait` is called? What happens if two such calls are in
# flight at once?
#
# ## What you can do now
#
# You have written a collective that a job could use. It is right for any tensor, on any group, with the fewest bytes
# for large tensors and few rounds for small ones. [Lesson 03](03a_data_parallel.ipynb) shares a batch, and lesson 04
# adds up its gradients with an all-reduce.
