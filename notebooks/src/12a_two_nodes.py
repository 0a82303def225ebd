# %% [markdown]
# # 12a · Beyond one machine: two nodes
#
# A job needs more than one machine. You find out how agents meet before a rank starts, and number the ranks of any set
# of machines. You write an all-reduce that sends little over the slow link between machines. Then you start a real job:
# two agents, four ranks, one link.
#
# **2 × 40 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 1 of 6 · [2: when ranks die](12b_when_ranks_die.ipynb) · [3: thousands of GPUs](12c_thousands.ipynb) · [4: take
# it along](12d_take_it_along.ipynb) · [5: wrong numbers](12e_wrong_numbers.ipynb) · [6: build a job that outlives its
# ranks](12f_build_a_job.ipynb)
#
# This part builds on [00: Start here](00_start_here.ipynb), [02a: what travels](02a_collectives.ipynb) and [05d: links
# and precision](05d_links_and_precision.ipynb). Have you done them? `from course_lib import start; start("12a")` says
# whether you have.
#
# At the end you can
#
# - say what an agent, a store and a rendezvous do, and which machine becomes node 0;
# - compute node and local rank from a global rank, for nodes of any sizes, and the global rank from these;
# - count what crosses the link between nodes, for an all-reduce and for a step of training;
# - say where a hierarchical all-reduce saves time, and where it does not.
#
# You need torchrun and the local rank from [lesson 00](00_start_here.ipynb), the ring from [02](02a_collectives.ipynb),
# and hybrid sharding from [05](05d_links_and_precision.ipynb).

# %%
from course_lib import Link, ask, check, cost, hint, reveal, shared_cluster
from course_lib.meter import Communication, bytes_text, metered
from course_lib.nodes import Nodes, link_bytes
from course_lib.parallel.collectives import hierarchical_all_reduce, record
from course_lib.parallel.sharded import FullySharded
from course_lib.plot import flow_chart, tiles, traffic_map

import contextlib
import os
import threading
import time
from unittest import mock

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## How agents meet
#
# ![Two machines, zebra and ant. On each of them an agent; below each agent two ranks whose numbers are question marks.
# Both agents point to a store, which stands on zebra](../assets/12_meet.png)
#
# Take two machines, called `zebra` and `ant`, with two GPUs each. On *both* of them somebody types the same line:
#
# `torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint zebra:29500 train.py`
#
# This starts an agent on each machine (lesson 04). No rank exists yet. The agents look for each other at the
# *endpoint*. There the agent of `zebra` opens a **store**, a table of keys and values that others read and write over
# the network. When as many agents as `--nnodes` says have registered, the rendezvous is complete. Each agent then knows
# its number. It starts its ranks, with their numbers in their environment.
#
# <!-- word: group rank | also: `GROUP_RANK`, node rank -->
# The **group rank** of a rank is the number of its agent, and so of its node, from 0. (This has nothing to do with
# process groups. In torchrun, the ranks of an agent are a *worker group*.)
#
# Here is PyTorch's own rendezvous, with two agents as threads of this notebook, and a store in its memory. Agent
# `zebra` begins at once, and `ant` half a second later.


# %%
def agent(name, store, wait_s, met):
    """What an agent does before it starts a rank: join the rendezvous of its job, and wait until it is complete."""
    time.sleep(wait_s)
    start_s, backend = time.perf_counter(), C10dRendezvousBackend(store, run_id="our job")
    handler = DynamicRendezvousHandler.from_backend(
        "our job", store, backend, min_nodes=2, max_nodes=2, local_addr=name
    )
    info = handler.next_rendezvous()
    waited_s = time.perf_counter() - start_s
    met[name] = handler, info.rank, info.bootstrap_store_info.master_addr, waited_s


# %%
def rendezvous(names):
    """Starts agents of these names, half a second apart; returns what each of them knows when they have met."""
    met, store = {}, dist.HashStore()
    settings = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # start no server for ranks here
    with mock.patch.dict(os.environ, settings):
        threads = [
            threading.Thread(target=agent, args=(name, store, i / 2, met)) for i, name in enumerate(names)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for handler, *_ in met.values():
        handler.shutdown()
    return {name: known for name, (_, *known) in met.items()}


# %% [markdown]
# **Which machine becomes node 0, with the ranks 0 and 1?**

# %%
### BEGIN SOLUTION
### STUB ask("12.first")
ask("12.first").commit("zebra")  # "it came first, and it has the store"
### END SOLUTION

# %%
met = rendezvous(["zebra", "ant"])
for name, (number, master, _) in sorted(met.items()):
    print(f"agent {name:<6} node {number}; its ranks will get MASTER_ADDR={master}")
reveal("12.first", {name: number for name, (number, *_) in met.items()})

# %%
agents = {f"agent {name}\nnode {number}": 2 * number for name, (number, *_) in sorted(met.items())}
ranks_of = {agent: {f"rank {first + local}": 1 for local in range(2)} for agent, first in agents.items()}
flow_chart(ranks_of, title="Which ranks each agent starts")

# %% tags=["nbval-ignore-output"]
for name, (*_, waited_s) in met.items():
    print(f"agent {name:<6} waited {waited_s:.1f} s")

# %% [markdown]
# The output shows two more things. An agent that is early waits: no rank starts, and nothing is computed, until all
# agents are there. And the ranks get an address, `MASTER_ADDR`, which is node 0's. There the ranks meet, in
# `init_process_group`.
#
# | variable | what it says |
# |---|---|
# | `RANK`, `WORLD_SIZE` | the number in the whole job, and how many ranks there are |
# | `LOCAL_RANK`, `LOCAL_WORLD_SIZE` | the number on this node, and how many ranks this node has |
# | `GROUP_RANK`, `GROUP_WORLD_SIZE` | the number of the node, and how many nodes there are |
# | `MASTER_ADDR`, `MASTER_PORT` | where the ranks meet |
#
# ## Which GPU?
#
# Ranks are numbered node by node. Nodes need not be equal: three machines with 8, 4 and 4 GPUs, with one rank for each
# GPU, form one job of 16 ranks.
#
# A script chooses its GPU by `torch.cuda.set_device(RANK)`. On one machine this works. On a second machine rank 8 asks
# for GPU 8, and CUDA says "invalid device ordinal". A colleague changes the line to `set_device(RANK % 8)`.
#
# **Take 16 ranks on nodes with 8, 4 and 4 GPUs. How many of them still ask for a GPU that their node does not have?**

# %%
### BEGIN SOLUTION
### STUB ask("12.gpu")
ask("12.gpu").commit(8)  # "both small nodes"
### END SOLUTION

# %% [markdown]
# ### Build: the place of a rank
#
# The number of the GPU should be the local rank, which torchrun puts into `LOCAL_RANK`. But many programs have to
# compute it for *other* ranks as well. They need it to form groups, to read a log, or to know which ranks were lost
# with a machine. Write a class for nodes of any sizes. It gives the place of a rank, and the rank at a place.


# %%
class MyNodes:
    """Nodes of a job; ``sizes``: how many ranks each of them has, in order, such as [8, 8, 4]."""

    def __init__(self, sizes):
        self.sizes = sizes

    def place_of(self, rank):
        """Where a global rank is: (node, local rank), both counted from 0."""
        ### BEGIN SOLUTION
        node = 0
        while rank >= self.sizes[node]:
            rank -= self.sizes[node]
            node += 1
        return node, rank
        ### END SOLUTION

    def rank_of(self, node, local_rank):
        """The global rank at a place."""
        ### BEGIN SOLUTION
        return sum(self.sizes[:node]) + local_rank
        ### END SOLUTION


# %%
place_verdict = check("12.place", MyNodes)

# %%
# hint("12.place")

# %% [markdown]
# The next cell prints which GPU each rank asks for, by the colleague's line. (Until your class has passed, places come
# from a list.)

# %%
sizes = [8, 4, 4]
places = [(node, local) for node, size in enumerate(sizes) for local in range(size)]
if place_verdict.passed:
    places = [MyNodes(sizes).place_of(rank) for rank in range(sum(sizes))]
asked = {rank: rank % 8 for rank in range(sum(sizes))}
for node, size in enumerate(sizes):
    here = {rank: gpu for rank, gpu in asked.items() if places[rank][0] == node}
    print(
        f"node {node} has the GPUs 0 to {size - 1}; its ranks {min(here)} to {max(here)} ask for {list(here.values())}"
    )
reveal("12.gpu", places, sizes)

# %% [markdown]
# Ranks are not always numbered node by node. Slurm can deal ranks out *in turn* (`--distribution=cyclic`): one to each
# node, and then one to each node again. Then node 0 of two has the ranks 0, 2, 4, 6. `RANK % 4` gives them the GPUs 0,
# 2, 0, 2: two GPUs have two ranks each, and two have none. NCCL refuses that ("Duplicate GPU detected"). With gloo
# there is no error. `LOCAL_RANK` is right in any order, since the launcher sets it. (Slurm's own name for it is
# `SLURM_LOCALID`.)
#
# ## Bytes that leave a node
#
# ![Two drawings of two nodes with two ranks each. On the left node 0 has the ranks 0 and 1, and arrows go from each
# rank to the next; on the right node 0 has the ranks 0 and 2, and in the place of arrows stands a question
# mark](../assets/12_ring.png)
#
# Between nodes the link is slow, and all ranks of a node share it. So from now on you count the bytes that *leave a
# node*. Lesson 02's all-reduce is a ring through all ranks. It is called *flat*, since it treats all links alike.
#
# The next three cells define the measurement for the rest of this page. They measure a *job*, such as `flat`. A job is
# a function that gets the rank and two groups, `inside` (the ranks of its node) and `between` (one rank of each node).
# It returns a function that is then run. `flat` needs neither group; other jobs will.

# %%
MIB = 2**20
NODES = (0, 1), (2, 3)


def flat(me, inside, between):
    """An all-reduce of 2 MiB, to be run."""
    tensor = torch.ones(2 * MIB // 4, device=me.device)
    return lambda: dist.all_reduce(tensor)


def groups_of(me, nodes=NODES):
    """The group of this rank's node, and that of the ranks with its local rank; every rank makes all of them."""
    inside = [dist.new_group(list(node)) for node in nodes]
    between = [dist.new_group(list(twins)) for twins in zip(*nodes, strict=True)]
    node, local_rank = divmod(me.rank, len(nodes[0]))
    return inside[node], between[local_rank]


# %%
def watched(me, job):
    """Runs a job to warm up, and again to measure it: its seconds, and its bytes if the kernel counts them."""
    groups = groups_of(me)
    run = job(me, *groups)
    run()
    dist.barrier()
    before = link_bytes()  # (sent, received) by all ranks of this node
    dist.barrier()
    start_s = time.perf_counter()
    run()
    run_s = time.perf_counter() - start_s
    dist.barrier()
    counted = before and link_bytes()[0] - before[0]
    for group in groups:
        dist.destroy_process_group(group)  # each keeps threads, on every rank
    return run_s, counted


# %%
def sent_matrix(job):
    """matrix[i][j]: bytes from rank i to rank j between the last two barriers, by the meter."""
    every, calls = metered(four, watched, job).communication, ()
    for rank in range(4):
        mine = every.of(rank).calls
        first, last = [place for place, call in enumerate(mine) if call.operation == "barrier"][-2:]
        calls += mine[first:last]
    return Communication(4, calls).matrix()


def leaving_by_rank(job, nodes=NODES):
    """What each rank of node 0 sends to other nodes."""
    matrix = sent_matrix(job)
    return [sum(matrix[i][j] for j in nodes[1]) for i in nodes[0]]


def leaving_bytes(job, nodes=NODES):
    return sum(leaving_by_rank(job, nodes))


# %%
flat_by_rank = leaving_by_rank(flat)
flat_bytes = sum(flat_by_rank)
print(f"2 MiB, all-reduced flat over two nodes of two: {bytes_text(flat_bytes)} leave each node")

# %% [markdown]
# Now start the same job with a launcher that deals out ranks in turn. Node 0 has the ranks 0 and 2, and node 1 has the
# others. The ring goes from 0 to 1 to 2 to 3, as before. **How many times as many bytes leave a node as before?**

# %%
### BEGIN SOLUTION
### STUB ask("12.turn")
ask("12.turn").commit(1)  # "the same ring, the same bytes"
### END SOLUTION

# %%
reveal("12.turn", leaving_bytes(flat, nodes=((0, 2), (1, 3))), flat_bytes)

# %%
matrix = sent_matrix(flat)
both = {"numbered node by node": (matrix, NODES), "dealt out in turn": (matrix, ((0, 2), (1, 3)))}
traffic_map(both, title="The ring's messages, between the ranks and between the nodes")

# %% [markdown]
# NCCL finds the machines itself, and builds its rings so that each ring enters a node once. The simple rings of gloo
# and MPI do not. And no library can correct groups that *you* make from wrong rank numbers.
#
# ## In two levels
#
# ![Two nodes of two ranks, each with a tensor in two halves. Three steps: inside each node, between the nodes, inside
# again; what each rank holds after the first two is a question mark](../assets/12_storeys.png)
#
# <!-- word: hierarchical all-reduce | also: two-level all-reduce, 2D all-reduce | sentences: 3 -->
# A **hierarchical all-reduce** adds up inside every node first, so that each rank of a node has one part of the node's
# sum. Then each part is added up between the nodes, by the ranks with the same local rank. Then the ranks of each node
# exchange their parts.
#
# **Take 2 MiB on two nodes of two ranks. How many MiB leave each node with the hierarchical all-reduce?** (The number
# for the flat one is printed above.)

# %%
### BEGIN SOLUTION
### STUB ask("12.leave")
ask("12.leave").commit(1)  # "each rank has a half"
### END SOLUTION

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above this
# one. In the second sitting you write an all-reduce that sends less over the link between nodes, and start two agents.

# %% [markdown]
# ### Build: the hierarchical all-reduce
#
# Use three collectives, and the two groups of this rank. All nodes have the same number of ranks. The tensor may have
# any length. But `dist.reduce_scatter(own, parts, group=...)` and `dist.all_gather(parts, own, group=...)` need parts
# of equal length. So pad the tensor, and cut the padding off at the end.


# %%
def all_reduce_on_nodes(me, tensor, inside, between):
    """The sum of all ranks' tensors, on every rank: a new tensor of the same shape and dtype.

    tensor: any shape, any number of elements; it stays as it is. inside: the group of this rank's
    node. between: the group of the ranks with this rank's local rank, one on each node. With n ranks
    on a node, a rank sends other nodes no more than an all-reduce of an n-th of the tensor does.
    """
    ### BEGIN SOLUTION
    n = dist.get_world_size(inside)
    row = F.pad(tensor.flatten(), (0, -tensor.numel() % n))
    own = row.new_empty(len(row) // n)
    dist.reduce_scatter(own, list(row.chunk(n)), group=inside)
    dist.all_reduce(own, group=between)
    dist.all_gather(list(row.chunk(n)), own, group=inside)
    return row[: tensor.numel()].view(tensor.shape)
    ### END SOLUTION


# %%
hierarchical_verdict = check("12.hierarchical", all_reduce_on_nodes)

# %%
# hint("12.hierarchical")

# %% [markdown]
# The next cell counts the bytes of your function. (Until it has passed, the course's own stands in, which sends the
# same between nodes.)


# %%
def course_own(me, tensor, inside, between):
    return hierarchical_all_reduce(me, tensor, dist.get_world_size(inside))


in_storeys = all_reduce_on_nodes if hierarchical_verdict.passed else course_own


def hierarchical(me, inside, between):
    tensor = torch.ones(2 * MIB // 4, device=me.device)
    return lambda: in_storeys(me, tensor, inside, between)


storeys_by_rank = leaving_by_rank(hierarchical)
storeys_bytes = sum(storeys_by_rank)
print(f"hierarchical: {bytes_text(storeys_bytes)} leave each node; flat: {bytes_text(flat_bytes)}")
reveal("12.leave", storeys_bytes, flat_bytes, 2 * MIB)


# %%
def in_place(me, tensor):
    return hierarchical_all_reduce(me, tensor, 2, out=tensor)


frames = record(four, in_place).frames
steps = {"at first": 0, "after step 1, inside": 1, "after step 2, between": 3, "at last": 4}
tiles({name: frames[step] for name, step in steps.items()}, messages=False)

# %% [markdown]
# ### On many nodes
#
# So far you have seen the smallest case. The cost model computes larger ones: 1 GiB on up to 128 nodes of 8 ranks, each
# node with one link to the others. The last two columns count messages that come one after the other:

# %% tags=["computed-time"]
FAST, SLOW = Link(5e-6, 200e9), Link(10e-6, 25e9)  # inside a node, and between
print("nodes  ranks on each   GiB that leave a node: flat   hierarchical   in a row: flat   hierarchical")
for num_nodes, per_node in ((2, 2), (2, 8), (16, 8), (128, 8)):
    network = cost.Network.nodes(num_nodes, per_node, intra=FAST, inter=SLOW)
    ring, two_level = (cost.all_reduce_point(way, 2**30, network) for way in ("ring", "hierarchical"))
    left = f"{ring.node_bytes / 2**30:>28.3f} {two_level.node_bytes / 2**30:>14.3f}"
    print(f"{num_nodes:>5} {per_node:>14} {left} {ring.num_rounds:>16,} {two_level.num_rounds:>14,}")

# %% [markdown]
# With both ways 2 (n - 1)/n of the tensor leave a node. For the flat ring n is the number of *ranks*, and for the
# hierarchical way the number of *nodes*. So with few nodes the hierarchical way saves bytes. With many nodes both send
# nearly twice the tensor. There the hierarchical way saves waiting: far fewer messages come one after the other. (NCCL
# has trees for that. Part 3 has thousands of nodes.)
#
# ### A card for each rank
#
# So far all ranks of a node share one link. In a cluster for training, each GPU has a network card of its own. Now give
# each rank of a node a port that is as fast as the shared link was. Then the busiest port sets the time:

# %%
for name, by_rank in {"flat": flat_by_rank, "hierarchical": storeys_by_rank}.items():
    sends = ", ".join(f"rank {rank} sends {bytes_text(size)}" for rank, size in enumerate(by_rank))
    print(f"{name:<12} {sends}")
print(f"the busiest port of the flat ring sends {max(flat_by_rank) / max(storeys_by_rank):.1f} times as much")

# %% [markdown]
# A flat ring leaves a node at a single rank, and the other ports have nothing to send. With eight cards on a node only
# one works; in the hierarchical way all eight work. So NCCL runs as many rings as there are cards, and each ring leaves
# by a different card.
#
# Bytes between nodes are not the only cost. The hierarchical way makes three calls in place of one, and sends more
# inside the node. Where the links inside and between nodes are equally fast, use a flat ring.
#
# ## A step of training
#
# Here are three ways to train a model on two nodes. The model has four layers, 1 MiB in all. The first way is DDP
# (lesson 04). In the second every layer is sharded over all four ranks (lesson 05). The third is hybrid sharding, with
# shards inside a node and replicas between nodes. **With which of the three do the fewest bytes leave a node in a
# step?**

# %%
### BEGIN SOLUTION
### STUB ask("12.steps")
ask("12.steps").commit("DDP")  # "it sends the gradients once, and that is all"
### END SOLUTION

# %%
WIDTH = 256


def layers(me):
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))).to(me.device)


def ddp(me, inside, between):
    return nn.parallel.DistributedDataParallel(layers(me))


def sharded(me, inside, between):
    return FullySharded(me, layers(me))


def hybrid(me, inside, between):
    return FullySharded(me, layers(me), group=inside, replicas=between)


# %%
def training(wrap, pieces=1):
    """A step on a batch in ``pieces`` pieces, as a job; gradients are sent with the last piece alone."""

    def job(me, inside, between):
        model = wrap(me, inside, between)
        batch = torch.ones(4, WIDTH, device=me.device)

        def run():
            for number, piece in enumerate(batch.chunk(pieces), start=1):
                with contextlib.nullcontext() if number == pieces else model.no_sync():
                    model(piece).sum().backward()

        return run

    return job


WRAPS = {"DDP": ddp, "sharded over all": sharded, "hybrid": hybrid}
step_bytes = {name: leaving_bytes(training(wrap)) for name, wrap in WRAPS.items()}
for name, size_bytes in step_bytes.items():
    print(f"{name:<18} {bytes_text(size_bytes)} leave each node in a step")
reveal("12.steps", step_bytes, 4 * 4 * WIDTH * WIDTH)

# %% [markdown]
# On a slow link you can send less often. Cut the batch in four pieces, use `no_sync` for all but the last, and take one
# step of the optimizer. **With sharding over all ranks, how many times as many bytes leave a node as with hybrid
# sharding?**

# %%
### BEGIN SOLUTION
### STUB ask("12.pieces")
ask("12.pieces").commit(2.5)  # "gradients of all pieces leave once, so as before"
### END SOLUTION

# %%
piece_bytes = {name: leaving_bytes(training(wrap, pieces=4)) for name, wrap in WRAPS.items()}
for name, size_bytes in piece_bytes.items():
    print(f"{name:<18} {bytes_text(size_bytes)} leave each node, with four pieces")
reveal("12.pieces", piece_bytes, step_bytes)

# %% [markdown]
# ## Two nodes for real
#
# All of that was counted on ranks of one machine. Now start two agents of torchrun, each with two ranks, and a link
# between them. On Linux a process can have a *network namespace*: interfaces and addresses of its own, as on another
# machine. A virtual cable joins two of them, and the kernel slows it to 10 MB/s. For the network these are two nodes.
# If your system does not allow that, the agents get two addresses of this machine, and the course slows the messages.
# The first line printed below says which of the two it is here.


# %%
JOBS = {"all-reduce, flat": flat, "all-reduce, hierarchical": hierarchical}
JOBS |= {f"step, {name}": training(wrap) for name, wrap in WRAPS.items()}
JOBS |= {f"four pieces, {name}": training(wrap, pieces=4) for name, wrap in WRAPS.items()}
NAMES = ("RANK", "LOCAL_RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE")


def on_real_nodes(me):
    """One program for all that is measured: who I am, and every job in turn."""
    found = {name: watched(me, job) for name, job in JOBS.items()}
    return {name: os.environ[name] for name in NAMES}, found


# %% tags=["nbval-ignore-output"]
with Nodes(2, ranks_per_node=2, link=Link(0.0, 10e6)) as nodes:
    print(nodes)
    job = nodes.torchrun(on_real_nodes)
    print("typed on node 1:", job.command(node=1).replace(" --", "\n    --"))
    environments, found = zip(*job.wait(timeout_s=200).results, strict=True)

# %%
print("".join(f"{name:>18}" for name in NAMES))
for environment in environments:
    print("".join(f"{environment[name]:>18}" for name in NAMES))

# %% [markdown]
# Compare these places with those of your class. (The values after `--rdzv-conf` are shorter waits than torchrun's
# defaults.) The next table has the bytes that left node 0, by the course's meter and by the kernel. The kernel counts
# at the cable (if there is one), with every header. The last column has the time of the slowest rank.

# %% tags=["nbval-ignore-output"]
by_meter = [flat_bytes, storeys_bytes, *step_bytes.values(), *piece_bytes.values()]
print(f"{'node 0 sent':<32}{'meter':>10}{'kernel':>14}{'at 10 MB/s':>14}{'measured':>12}")
for name, size_bytes in zip(JOBS, by_meter, strict=True):
    run_s, counted = max(rank[name][0] for rank in found), found[0][name][1]
    kernel = "not counted" if counted is None else bytes_text(counted)
    times = f"{size_bytes / 10e3:>11.0f} ms{run_s * 1e3:>9.0f} ms"
    print(f"{name:<32}{bytes_text(size_bytes):>10}{kernel:>14}{times}")

# %% [markdown]
# Bytes divided by bandwidth is the shortest time that a job can take on a link of 10 MB/s. On a slow link it is also a
# good estimate. If a row takes much longer, its messages wait for each other, or the machine was busy. Read the last
# row of the steps and the last row of the pieces. With hybrid sharding everything but one all-reduce stays inside the
# nodes.
#
# ## In production
#
# (You may read this section later: nothing on this page needs it.)
#
# <!-- word: InfiniBand | also: IB -->
# **InfiniBand** is a network whose cards write straight into the memory of another machine (*RDMA*), without its
# processor; RoCE does the same over Ethernet. A card carries 200 to 800 Gbit/s.
#
# <!-- word: GPUDirect RDMA | also: GDR -->
# With **GPUDirect RDMA** a network card reads and writes the memory of a GPU itself, and nothing passes through the
# host's memory.
#
# <!-- word: rail | also: rail-optimized network, multi-rail -->
# A **rail** is a network of its own for one local rank: the cards of GPU 3 of all machines, for example, share their
# switches. An all-reduce between ranks of one local rank then never leaves its rail.
#
# A machine with rails is built like your exercise: it has eight GPUs, eight cards and eight rails, and `between` is a
# rail. NCCL finds cards and GPUs by itself, and knows which ranks share a machine. It runs several rings or trees at
# once so that every card is busy. The gloo library uses one interface, unless you name several. You set three things.
# `NCCL_SOCKET_IFNAME` and `GLOO_SOCKET_IFNAME` name the interface. A machine has several, and the wrong one is a common
# reason for a job that hangs at its start. `NCCL_IB_HCA` names the cards. `NCCL_DEBUG=INFO` prints what was found.
#
# With `--rdzv-backend c10d` the rendezvous decides which machine is node 0, as you saw. It ignores `--node-rank`, with
# a warning. With the older *static* backend you choose it yourself: `--rdzv-backend static --node-rank 1 --master-addr
# zebra --master-port 29500`. It does not allow nodes that come and go, which [part 2](12b_when_ranks_die.ipynb) needs.
# If there is a firewall between nodes, it is not enough to open the endpoint's port. Ranks meet at `MASTER_PORT`, and
# gloo and NCCL open ports of their own.
#
# | you did | torchrun | Slurm |
# |---|---|---|
# | start an agent on each node | `torchrun` on each | `srun --ntasks-per-node 1 torchrun ...` |
# | number of nodes | `--nnodes` | `--nodes`, `SLURM_NNODES` |
# | endpoint | `--rdzv-endpoint zebra:29500` | the first line of `scontrol show hostnames` |
# | `MyNodes.place_of` | `GROUP_RANK`, `LOCAL_RANK` | `SLURM_NODEID`, and `SLURM_LOCALID` of a task |
# | `all_reduce_on_nodes` | NCCL does it: rings by every card, trees of nodes | the same |
# | hybrid sharding | `init_device_mesh("cuda", (num_nodes, 8), mesh_dim_names=("replicate", "shard"))` | the same |
#
# [Part 4](12d_take_it_along.ipynb) has the whole scripts.
#
# ## What you can do now
#
# You know what happens before the first rank starts, and where each rank is. You have counted the bytes that leave a
# node. A hierarchical all-reduce saves bytes on few nodes, time where ranks have cards of their own, and waiting on
# many nodes. And you know which way to train sends least over a slow link. The all-reduces and the steps of training
# ran on two nodes.
#
# **The limit.** The two nodes stayed alive. With thousands of GPUs one of them dies every few hours. [Part
# 2](12b_when_ranks_die.ipynb) kills a rank, and then a node.
#
# **Further reading.** PyTorch, [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html) and
# [rendezvous](https://docs.pytorch.org/docs/stable/elastic/rendezvous.html). Mikami et al., [Massively Distributed SGD:
# ImageNet/ResNet-50 Training in a Flash](https://arxiv.org/abs/1811.05233) (2018): the three steps on a torus. Zhao et
# al., [PyTorch FSDP](https://arxiv.org/abs/2304.11277) (2023), section 3: hybrid sharding.
