# %% [markdown]
# # 09a · Meshes: places and links
#
# One job uses data, pipeline and tensor parallelism at once, and each gets an axis of a mesh. You number the ranks, and
# find out which ranks send to each other. Then you give the fast link to the axis that needs it.
#
# **2 × 40 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 1 of 5 · [2: who holds what](09b_who_holds_what.ipynb) · [3: one norm, one checkpoint](09c_one_norm.ipynb) · [4:
# three cuts at once](09d_three_cuts.ipynb) · [5: build a training step on a mesh](09e_build_on_a_mesh.ipynb)
#
# This part builds on [04a: one rule, sent in buckets](04a_distributed_data_parallel.ipynb), [05a: states, shared
# out](05a_sharded_data_parallel.ipynb), [07a: micro-batches, GPipe and 1F1B](07a_pipeline_parallel.ipynb) and [08a:
# one product, cut](08a_tensor_parallel.ipynb). Have you done them? `from course_lib import start; start("09a")` says
# whether you have.
#
# At the end you can
#
# - say where a rank stands on a mesh, and with whom it forms a group along each axis;
# - say what a step sends along each axis, and on what the amount depends;
# - say which axes stay within a node, and find the order of axes that sends least over the slow links;
# - compare a mesh of your own with PyTorch's.
#
# Each way of sharing out a model has its limit. Data parallelism (lessons 04 and 05) sends a gradient for every weight,
# and wants a large batch. In a pipeline (06 and 07) stages wait at the start and the end of a step, and each needs a
# layer at least. In tensor parallelism (08) all ranks wait at every region, so it needs fast links. So a large job uses
# all three at once, each only as far as it pays.

# %%
from course_lib import Link, Links, ask, check, cost, hint, reveal, shared_cluster
from course_lib.layouts import Mesh
from course_lib.meter import bytes_text, link_between_nodes, metered
from course_lib.models import Transformer, TransformerConfig
from course_lib.parallel.mesh import MeshGroups, OnMesh
from course_lib.plot import mesh_places
from course_lib.rounding import agree

import itertools
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## A place for every rank
#
# ![Eight ranks at the corners of a box whose edges are called pp, dp_shard and tp. Ranks 0 and 1 stand at the two ends
# of an edge along tp; all others are question marks](../assets/09_places.png)
#
# <!-- word: device mesh | also: mesh, `DeviceMesh`, process mesh -->
# A **device mesh** gives every rank of a job a place: a number along each of several named axes. Each axis stands for
# one way of sharing out the work. Ranks that differ along `tp` have parts of the same layers. Ranks that differ along
# `pp` have different stages of the same pipeline. Along `dp_replicate` (whole copies, lesson 04) and `dp_shard` (the
# weights shared out, lesson 05) ranks have different samples.
#
# <!-- word: mesh axis | also: mesh dimension, parallel dimension | sentences: 2 -->
# A **mesh axis** is one direction of a mesh, with a name and a size. The sizes of all axes multiplied are the number of
# ranks. The names are those of torchtitan, PyTorch's example of a large trainer. (PyTorch says mesh *dimension*; the
# course keeps *dim* for tensors.)
#
# One rule turns places into ranks: **the last axis varies fastest**. A clock counts in this way: seconds change first,
# then minutes, then hours.

# %%
mesh = Mesh.of(pp=2, dp_shard=2, tp=2)
for rank in range(4):
    print(f"rank {rank}:", mesh.coordinates(rank))

# %% [markdown]
# <!-- word: group of an axis | also: sub-mesh group, `mesh["tp"]` -->
# A **group of an axis** is made of ranks that differ along this axis and stand at the same place along all others. Each
# rank is in one group of every axis. A rank sums activations with its group along `tp`, and its group along `pp` is its
# pipeline. With its group along `dp_shard` it shares out the weights.
#
# Take the eight ranks above. **Along `pp`, rank 5 hands activations on to one rank, or gets them from it. Which rank is
# it?**

# %%
### BEGIN SOLUTION
### STUB ask("09.partner")
ask("09.partner").commit("rank 4")  # "its neighbour"
### END SOLUTION

# %%
reveal("09.partner", {axis: mesh.group(5, axis) for axis in mesh.axes})

# %%
mesh_places(mesh, title="All eight ranks at their places")

# %% [markdown]
# ### Build: a mesh
#
# Now write a mesh for any axes, sizes and order. `sizes` names the axes from the outermost to the one that varies
# fastest, as `{"pp": 2, "dp_shard": 2, "tp": 2}`; a Python dictionary keeps that order.


# %%
class MyMesh:
    """Ranks with places along named axes; ``sizes``: axis -> size, the outermost first."""

    def __init__(self, sizes):
        self.sizes = sizes

    def rank_of(self, place):
        """The rank at a place: axis -> number from 0. ``place`` names every axis of the mesh, in any order."""
        ### BEGIN SOLUTION
        rank = 0
        for axis, size in self.sizes.items():
            rank = rank * size + place[axis]
        return rank
        ### END SOLUTION

    def groups_along(self, axis):
        """All groups of an axis, a list of lists of ranks in any order: every rank is in one of them."""
        ### BEGIN SOLUTION
        others = [name for name in self.sizes if name != axis]
        groups = []
        for here in itertools.product(*(range(self.sizes[name]) for name in others)):
            place = dict(zip(others, here, strict=True))
            groups.append([self.rank_of(place | {axis: number}) for number in range(self.sizes[axis])])
        return groups
        ### END SOLUTION


# %%
place_verdict = check("09.place", MyMesh)

# %%
# hint("09.place")

# %% [markdown]
# ### Compare with PyTorch's groups
#
# `init_device_mesh` takes the same axes and makes the process groups. The next cell compares these groups with those of
# your class. (Until your class has passed, the course's `Mesh` stands in for it.)


# %%
def by_pytorch(me, sizes):
    """Along each axis the ranks of this rank's group, as PyTorch has made it."""
    theirs = init_device_mesh(me.device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    return {axis: dist.get_process_group_ranks(theirs.get_group(axis)) for axis in sizes}


def my_groups(sizes, axis):
    groups = MyMesh(sizes).groups_along(axis) if place_verdict.passed else Mesh.of(**sizes).groups(axis)
    return {frozenset(group) for group in groups}


for sizes in ({"dp_replicate": 2, "tp": 2}, {"tp": 2, "pp": 2}):
    by_rank = list(four.run(by_pytorch, sizes))
    same = {axis: {frozenset(of[axis]) for of in by_rank} == my_groups(sizes, axis) for axis in sizes}
    print(f"{sizes}: rank 0 with {by_rank[0]}; the same groups: {same}")

# %% [markdown]
# ## Who makes the groups
#
# Lesson 02 had a rule for `new_group`: every rank of the job calls it for every group, member or not. The course's
# `MeshGroups` makes the groups of a mesh by this rule. An axis has one group for every place along the other axes, and
# a rank is in one of these groups. The largest runs of Llama 3 had 16,384 GPUs: 16 stages, 128 data-parallel parts of
# the batch, and 8 ranks along `tp`. The next cell counts how many groups each rank of such a job would make by this
# rule:

# %%
llama = Mesh.of(pp=16, dp_shard=128, tp=8)
num_groups = {axis: llama.num_ranks // llama.size(axis) for axis in llama.axes}
print(f"{num_groups}: {sum(num_groups.values()):,} groups, of which a rank is in {len(num_groups)}")

# %% [markdown]
# PyTorch's `init_device_mesh` needs one call of `split_group` for each axis, if `init_process_group` was given the
# `device_id`.
#
# ## What travels along each axis
#
# The course's `OnMesh` puts a transformer on a mesh; in part 4 you build such a class. Here you watch it run: on three
# meshes of four ranks, with the meter on. The batch has 32 rows, each a sequence of 32 tokens. Along `tp` ranks sum
# activations in each region, and along `dp_replicate` they average gradients. Along `pp` they hand activations on and
# get gradients back.

# %%
small = TransformerConfig(context_length=32, num_layers=4, width=64, num_heads=4)
PAIRS = ("dp_replicate", "tp"), ("pp", "tp"), ("pp", "dp_replicate")
num_parameters = sum(parameter.numel() for parameter in Transformer(small).parameters())
print(f"{num_parameters:,} parameters, {bytes_text(4 * num_parameters)} of gradients")
print(f"the whole batch's activations between two layers: {bytes_text(4 * 32 * 32 * small.width)}")

# %% [markdown]
# **Along which axis does a rank send the most bytes?**

# %%
### BEGIN SOLUTION
### STUB ask("09.axis")
ask("09.axis").commit("dp_replicate")  # "a gradient for every weight of the model"
### END SOLUTION


# %%
def two_steps(me, mesh, num_rows):
    """Two steps, since a pipeline's first one also settles shapes; a barrier before, between and after."""
    model = OnMesh(me, mesh, Transformer(small))
    tokens = torch.randint(256, (num_rows, 33), generator=torch.Generator().manual_seed(1))
    for _ in range(2):
        dist.barrier()
        loss = model.step(*model.data.deal(tokens[:, :-1], tokens[:, 1:]))
    dist.barrier()
    model.close()
    return loss.item()


# %%
def messages_of(mesh, num_rows):
    """What rank 0 sends in the second step: (axis, bytes) of each message, in order."""
    calls = metered(four, two_steps, mesh, num_rows).communication.of(0).calls
    first, last = [place for place, call in enumerate(calls) if call.operation == "barrier"][1:3]
    axis_of = {mesh.group(0, axis): axis for axis in mesh.axes}
    sent = []
    for call in calls[first:last]:
        if call.operation == "send":
            sent.append(("pp", call.size_bytes))
        elif call.group in axis_of:
            sent.append((axis_of[call.group], call.size_bytes))
    return sent


# %%
def by_axis(messages):
    """Bytes of the messages along each axis."""
    return {axis: sum(size for one, size in messages if one == axis) for axis in dict(messages)}


jobs = {pair: messages_of(Mesh.of(**dict.fromkeys(pair, 2)), num_rows=32) for pair in PAIRS}
for pair, messages in jobs.items():
    counts = [f"{axis} {bytes_text(size)}" for axis, size in by_axis(messages).items()]
    print(f"{' x '.join(pair):<18} rank 0 sends along", ", along ".join(counts))
reveal("09.axis", {pair: by_axis(messages) for pair, messages in jobs.items()})

# %% [markdown]
# Bytes alone do not decide; it also matters who waits. The next region needs the sum along `tp` at once. Gradients may
# travel during the backward pass, and a pipeline's messages go while other micro-batches are computed. So ranks send
# the most along `tp` here, and these messages are the hardest to hide.
#
# ## Nodes
#
# ![Four ranks on two nodes, twice. On the left the two ranks of a node are joined by a line called tp, and lines called
# dp_replicate go from node to node; on the right the names are exchanged](../assets/09_nodes.png)
#
# Launchers number ranks node by node: with 4 ranks on a node, ranks 0 to 3 are on the first one. `torchrun` does so.
# Slurm does too, unless it is set to give each node one task in turn. So the order of the axes decides which ranks
# share a node. A mesh needs to know only one thing about machines, `ranks_per_node`.
#
# Take nodes with 2 GPUs each, and eight ranks with `pp=2` and `tp=4`. **In which order of the two axes does no message
# along `tp` leave its node?**

# %%
### BEGIN SOLUTION
### STUB ask("09.cut")
ask("09.cut").commit("pp, tp")  # "the last axis is the one within the node"
### END SOLUTION

# %%
orders = list(Mesh.of(pp=2, tp=4, ranks_per_node=2).orders())
reveal("09.cut", orders)


# %%
def on_nodes(order):
    nodes = {rank: f"node {order.node_of(rank)}" for rank in range(8)}
    return mesh_places(order, nodes, title=f"{order}: where each rank is")


on_nodes(orders[0])

# %%
on_nodes(orders[1])

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you measure what the order of the axes costs.

# %% [markdown]
# ### The wrong order
#
# Take four ranks on two nodes, `dp_replicate=2` and `tp=2`, and a batch of 32 rows. Within a node the link has 20 MB/s.
# Between nodes it has 2 MB/s for each rank, a tenth of that. (The ratio is a usual one; the speeds are small, so that
# two cores can keep up. The course slows its links down to them. With nodes of your own, a last line says how long the
# real link takes.) A job's axes stand in the wrong order: `tp` goes from node to node. No error is raised, and loss and
# messages are those of the right order:

# %%
RIGHT, WRONG = Mesh.of(dp_replicate=2, tp=2), Mesh.of(tp=2, dp_replicate=2)
losses = [four.run(two_steps, order, 32)[0] for order in (RIGHT, WRONG)]
print("the losses of both orders, equal to within 1e-4:", agree(losses[0], losses[1], within=1e-4))
sent = [by_axis(messages_of(order, num_rows=32)) for order in (RIGHT, WRONG)]
print("a rank sends the same along each axis:", sent[0] == sent[1])
print({axis: bytes_text(size_bytes) for axis, size_bytes in sent[0].items()})

# %% [markdown]
# **Count the messages of a step alone, without the computing. How many times as long do they take in the wrong order?**

# %%
### BEGIN SOLUTION
### STUB ask("09.factor")
ask("09.factor").commit(10)  # "the link is ten times as slow"
### END SOLUTION


# %%
def messages_s(me, mesh, messages):
    """How long the messages of a step take, one after the other, with nothing computed between them."""
    groups = MeshGroups(me, mesh)
    dist.barrier()
    start_s = time.perf_counter()
    for axis, size_bytes in messages:
        dist.all_reduce(torch.zeros(size_bytes // 4), group=groups.group(axis))
    end_s = time.perf_counter()
    groups.close()
    return end_s - start_s


FAST, SLOW = Link(0.0, 20e6), Link(0.0, 2e6)
NODES = Links.nodes(2, inside=FAST, across=SLOW, ports_per_node=2)  # a port for each rank


# %%
def seconds_of(messages):
    """For each axis how long its messages take, (within a node, between nodes): of two ranks each sends all bytes."""
    return {axis: (FAST.time_s(size), SLOW.time_s(size)) for axis, size in by_axis(messages).items()}


def predicted_s(mesh, messages):
    """On nodes of two ranks the last axis stays within its node, and the first goes from node to node."""
    outer, inner = mesh.axes
    return seconds_of(messages)[inner][0] + seconds_of(messages)[outer][1]


def measured_s(mesh, messages):
    with four.shaped(links=NODES):
        return max(four.run(messages_s, mesh, messages))


# %% tags=["nbval-ignore-output"]
both = jobs[RIGHT.axes]
model_s = [predicted_s(order, both) for order in (WRONG, RIGHT)]
found_s = [measured_s(order, both) for order in (WRONG, RIGHT)]
for order, by_model_s, by_clock_s in zip((WRONG, RIGHT), model_s, found_s, strict=True):
    print(f"{', '.join(order.axes)}: predicted {by_model_s * 1e3:.0f} ms, measured {by_clock_s * 1e3:.0f} ms")
if link := link_between_nodes(four):  # None where all ranks are on one machine
    real_s = [max(four.run(messages_s, order, both)) for order in (WRONG, RIGHT)]
    print(f"{link}; in these orders {real_s[0] * 1e3:.0f} ms and {real_s[1] * 1e3:.0f} ms")
reveal("09.factor", found_s[0] / found_s[1], *model_s, seconds_of(both))

# %% [markdown]
# ### Is it always `tp`?
#
# torchtitan's and Megatron's default order is `pp`, `dp_replicate`, `dp_shard`, `tp`, from the slow links to the fast
# ones. Llama 3 had data parallelism outermost and stages inside it; `tp` is the last in both. Now take the same model
# on the same four ranks, `dp_replicate=2` and `tp=2`. Only the batch differs: it has 4 rows, not 32.
#
# **Which axis should have the link within the node?**

# %%
### BEGIN SOLUTION
### STUB ask("09.habit")
ask("09.habit").commit("tp")  # "always tp"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
few = messages_of(RIGHT, num_rows=4)
print({axis: bytes_text(size) for axis, size in by_axis(few).items()})
few_s = {mesh.axes[-1]: measured_s(mesh, few) for mesh in (RIGHT, WRONG)}
for inner, time_s in few_s.items():
    print(f"{inner + ' within the node:':<30} {time_s * 1e3:4.0f} ms")
reveal("09.habit", few_s, seconds_of(few))

# %% [markdown]
# `tp` within the node is a good guess for usual jobs, and not a rule. Count for each axis how long a step *waits* for
# its messages. Gradients that hide behind the backward pass need no fast link, however many they are.
#
# ### Build: the best order
#
# You know the sizes of the axes, and how many ranks a node has. For each axis you know how many seconds a step waits
# for its messages. `seconds[axis]` is `(within_s, between_s)`. An axis needs `between_s` as soon as *any* of its groups
# has ranks on two nodes, because the other groups wait for the slowest one. Otherwise it needs `within_s`. The time of
# an order is the sum over its axes.
#
# The groups may come from your class or from `Mesh.of(...).groups(axis)`. You go through the orders and find out which
# axis leaves its node yourself. Use neither `orders` nor `stays_within_a_node` of `Mesh`.


# %%
def best_order(sizes, ranks_per_node, seconds):
    """The order of the axes that takes the least time, a tuple of their names, outermost first; of equal ones any."""
    ### BEGIN SOLUTION
    times_s = {}
    for order in itertools.permutations(sizes):
        mesh = Mesh.of(**{axis: sizes[axis] for axis in order})
        times_s[order] = 0.0
        for axis in order:
            leaves = any(len({rank // ranks_per_node for rank in group}) > 1 for group in mesh.groups(axis))
            times_s[order] += seconds[axis][1 if leaves else 0]
    return min(times_s, key=times_s.get)
    ### END SOLUTION


# %%
order_verdict = check("09.order", best_order)

# %%
# hint("09.order")

# %% [markdown]
# Does your function find the orders that were faster above?

# %%
if order_verdict.passed:
    for num_rows, messages in ((32, jobs[RIGHT.axes]), (4, few)):
        print(f"{num_rows:>2} rows: {best_order({'dp_replicate': 2, 'tp': 2}, 2, seconds_of(messages))}")

# %% [markdown]
# ### All three axes
#
# Eight ranks, `pp=2`, `dp_replicate=2`, `tp=2`, on two nodes of four. There are six orders of the axes. The cost model
# plays a step of 32 rows in each order. It sends every message over the links from above, and counts no time for the
# computing.
#
# **How many different times do the six orders take?**

# %%
### BEGIN SOLUTION
### STUB ask("09.six")
ask("09.six").commit(6)  # "each order is another one"
### END SOLUTION

# %% tags=["computed-time"]
nodes = cost.Network.nodes(2, 4, intra=FAST, inter=SLOW, ports_per_node=4)
times_s = {}
for order in Mesh.of(pp=2, dp_replicate=2, tp=2, ranks_per_node=4).orders():
    step = cost.MeshStep(config=small, mesh=order, batch_size=32)
    times_s[order.axes] = cost.mesh_step_time(step, nodes).step_s
    leaving = bytes_text(step.by_link().between_bytes)
    print(f"{', '.join(order.axes):<24} {leaving:>9} from node to node, {times_s[order.axes] * 1e3:4.0f} ms")
reveal("09.six", times_s)

# %% [markdown]
# ## What you can do now
#
# You can number the ranks of any mesh and name their groups, and you know who has to make them. You have counted what
# travels along each axis, and found which axis needs the fast link, for a large batch and for a small one.
#
# In a job of your own one line makes the mesh and its groups: `init_device_mesh("cuda", (2, 2, 2),
# mesh_dim_names=("pp", "dp_shard", "tp"))`. The numbers and their order are yours to choose.
#
# **The limit.** Every rank has a place now, and we do not yet know what it holds there. Which rows of which matrix does
# rank 5 keep? Which samples does it see, and which random numbers must it share, and with whom? [Part
# 2](09b_who_holds_what.ipynb) answers this, and shows two jobs that get it wrong without an error.
#
# **Further reading.** Narayanan et al., [Efficient Large-Scale Language Model Training on GPU Clusters Using
# Megatron-LM](https://arxiv.org/abs/2104.04473) (2021), section 3: how the three ways act on each other, and which goes
# over which link. PyTorch's [recipe for device
# meshes](https://docs.pytorch.org/tutorials/recipes/distributed_device_mesh.html).
