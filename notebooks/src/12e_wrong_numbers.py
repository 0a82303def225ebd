# %% [markdown]
# # 12e · Beyond one machine: wrong numbers
#
# A GPU can die, hang or be slow. It can also compute wrongly and say nothing. You plant such a fault in a training run,
# see which checks do not find it, and build the check that names the rank.
#
# **60 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 5 of 6 · [1: two nodes](12a_two_nodes.ipynb) · [2: when ranks die](12b_when_ranks_die.ipynb) · [3: thousands of
# GPUs](12c_thousands.ipynb) · [4: take it along](12d_take_it_along.ipynb) · [6: build a job that outlives its
# ranks](12f_build_a_job.ipynb)
#
# This part builds on [04c: drift, checkpoints and the real thing](04c_drift_and_production.ipynb) and [12c: thousands
# of GPUs](12c_thousands.ipynb). Have you done them? `from course_lib import start; start("12e")` says whether you
# have.
#
# At the end you can
#
# - say which check finds a wrong gradient, which a wrong weight, and what each costs;
# - find the wrong rank by 8 bytes from each rank, and say when that is impossible;
# - choose a checkpoint that the fault has not changed;
# - ask Slurm for nodes that share an NVLink domain.
#
# You need replicas and hashes ([04c](04c_drift_and_production.ipynb)), and checkpoints ([12c](12c_thousands.ipynb)).

# %%
from course_lib import ask, check, cost, hint, quiz, reveal, shared_cluster
from course_lib.data import digits
from course_lib.learn import bit_flips
from course_lib.meter import metered
from course_lib.models import SmallCNN
from course_lib.parallel import collectives as library
from course_lib.parallel.collectives import hash_of_bits
from course_lib.parallel.data import all_reduce_gradients, find_divergence
from course_lib.rounding import agree, rounded

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F

# %% tags=["nbval-ignore-output"]
two, four = (shared_cluster(number) for number in (2, 4))

# %% [markdown]
# ## One bit
#
# <!-- word: silent data corruption | also: SDC | sentences: 2 -->
# **Silent data corruption** is a wrong result that no part of the hardware reports. A circuit gives another number than
# it should, and the program goes on. Memory and links have codes that find most flipped bits. The units that multiply
# usually have none.
#
# The makers of Llama 3 405B count six such cases among the 419 unexpected interruptions of 54 days (their table 5). In
# those six cases somebody noticed.
#
# A float32 has 32 bits: a sign, 8 bits of exponent, 23 bits of fraction. Take 0.02, as it might stand in a gradient,
# and flip each of its bits in turn. **Of the 32 wrong numbers, how many are at least 1,000 times as large as 0.02?**

# %%
### BEGIN SOLUTION
### STUB ask("12.flips")
ask("12.flips").commit(8)  # "all bits of the exponent"
### END SOLUTION


# %%
def with_bit(value, bit):
    number = torch.tensor([value])
    bit_flips.flip_bit(number, bit)
    return number.item()


flips = {bit: with_bit(0.02, bit) for bit in range(32)}
for bit, part in {0: "fraction, last", 10: "fraction", 22: "fraction, first", 23: "exponent, last"}.items():
    print(f"bit {bit:>2} ({part}): {rounded(flips[bit], 9, apart=1e-12)}")
reveal("12.flips", torch.tensor(0.02).item(), flips)  # the float32 next to 0.02

# %% [markdown]
# A run with a NaN, or with a jump of the loss, is lucky: its fault can be seen.
#
# ## A rank that computes wrongly
#
# Four ranks train a small network on digits, each on 32 images of its own in each step. Their gradients are averaged,
# as in lesson 04. The function in the next cell can plant a fault on one rank, and can call a check after each step.


# %%
def batch(rank, step):
    images, labels = digits().train.tensors
    mine = (torch.arange(32) + 32 * (4 * step + rank)) % len(labels)
    return images[mine], labels[mine]


def train(me, plant=None, after_step=None, steps=60):
    torch.manual_seed(0)
    model, losses, seen = SmallCNN(batch_norm=False).to(me.device), [], {}
    if plant and me.rank == 2:
        plant(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(1, steps + 1):
        images, labels = (part.to(me.device) for part in batch(me.rank, step))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        losses.append(loss.item())
        all_reduce_gradients(me, model)
        optimizer.step()
        seen[step] = after_step(me, model, step) if after_step else None
    return losses, [p.detach().cpu() for p in model.parameters()], seen, find_divergence(me, model)


# %% [markdown]
# The fault is this: on rank 2 the last layer's product is wrong after its first 20 calls. The product has 320 numbers,
# for 32 images and 10 classes. In its first number the first bit of the fraction is flipped, so this number is off by
# at most half of itself.
#
# The ranks train for 60 steps. Then they compare a hash of their weights. **Which ranks hold other weights than the
# others?**

# %%
### BEGIN SOLUTION
### STUB ask("12.spoilt")
ask("12.spoilt").commit("rank 2")  # "the fault is there"
### END SOLUTION


# %%
def after_20_calls(call):
    return call >= 20


def wrong_product(calls, model):
    bit_flips.plant_in_products(model.head[2], calls)


def mean_losses(run):
    return torch.tensor([losses for losses, *_ in run]).mean(0)


# %%
healthy = four.run(train)
sick = four.run(train, partial(wrong_product, after_20_calls))
print("step  healthy  sick")
for step in (1, 25, 40, 60):
    each = [rounded(mean_losses(run)[step - 1], 1) for run in (healthy, sick)]
    print(f"{step:>4}  {each[0]:>7}  {each[1]:>4}")
print("losses within 0.05 of each other:", agree(mean_losses(sick), mean_losses(healthy), within=0.05))

# %%
_, weights, *_ = healthy[0]  # what rank 0's `train` returned
_, spoilt, _, found = sick[0]
differ = sum((a != b).sum().item() for a, b in zip(weights, spoilt, strict=True))
reveal("12.spoilt", found, differ / sum(p.numel() for p in weights))

# %% [markdown]
# ## Two places
#
# ![Three ranks from the top down: each has a gradient, arrows lead into one box, the all-reduce, and from it to each
# rank's weights. A cross stands at the gradient of rank 2, marked before; another at the weights of rank 2, marked
# after](../assets/12_wrong.png)
#
# (The picture has three of the four ranks.) So what matters is where the fault is. A fault *before* the all-reduce
# changes the sum that all ranks get. A fault *after* it, in the optimizer or in memory, changes only what one rank
# keeps.
#
# ## After the all-reduce
#
# ### Build: which ranks are wrong?
#
# In 04c you found *which parameters* differ. Now find *which ranks* are wrong; every rank has to return the answer.
# Assume that the bits which more than half of the ranks hold are right. `tensors` may be weights, buffers or gradients.
#
# As before, bits are compared and not numbers: a NaN agrees with the same NaN, and -0.0 differs from 0.0.
#
# Write it with Python and torch alone: the course's `hash_of_bits` comes only later on this page.


# %%
def odd_ranks(me, tensors):
    """The ranks that hold other bits than more than half of all ranks do: one answer on every rank.

    tensors: a list, which may be empty, on every rank with the same shapes and dtypes: float32, bfloat16, int64, ...
    Returns a list of ranks in order, [] where all agree, None where no more than half of the ranks agree.
    A rank sends each other one at most 200 bytes, however many tensors there are. If it is a hash: 32 bits or more.
    """
    ### BEGIN SOLUTION
    import hashlib
    from collections import Counter

    found = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    mine = torch.tensor([int.from_bytes(found.digest(), "big", signed=True)], device=me.device)
    rows = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(rows, mine)
    votes = [row.item() for row in rows]
    most, count = Counter(votes).most_common(1)[0]
    return [rank for rank, vote in enumerate(votes) if vote != most] if 2 * count > me.world_size else None
    ### END SOLUTION


# %%
replicas_verdict = check("12.replicas", odd_ranks)

# %%
# hint("12.replicas")

# %% [markdown]
# (Until your function has passed, the course's is used below.)
#
# ### Which checkpoint?
#
# Now the products are right again. This time one bit of a weight on rank 2 flips in memory, after step 23. Every 10
# steps the ranks vote, by your function. Every 5 steps rank 0 writes a checkpoint, and rank 0 computes correctly. The
# vote after step 30 names rank 2. **Which is the last checkpoint that is the same as without the fault?**

# %%
### BEGIN SOLUTION
### STUB ask("12.trusted")
ask("12.trusted").commit("that of step 30")  # "rank 0 writes it, and rank 0 is right"
### END SOLUTION


# %%
vote = odd_ranks if replicas_verdict.passed else library.odd_ranks


def keep(me, model, step):
    """The checkpoint of this rank, as a hash of its bits."""
    return hash_of_bits(model.parameters())


def flip_and_vote(me, model, step):
    if me.rank == 2 and step == 23:
        bit_flips.flip_bit(model.head[2].weight, bit=22)
    return keep(me, model, step), vote(me, list(model.parameters())) if step % 10 == 0 else []


# %%
before = four.run(train, None, keep)[0][2]  # without the fault; by step, what rank 0 saw
flipped = four.run(train, None, flip_and_vote, 30)[0][2]
for step in (10, 20, 30):
    print(f"step {step}: the vote names {flipped[step][1]}")
unspoilt = {step: flipped[step][0] == before[step] for step in range(5, 31, 5)}
print("checkpoints as without the fault:", unspoilt)
reveal("12.trusted", unspoilt)

# %% [markdown]
# So note two steps for each checkpoint: when it was written, and when the replicas last agreed. And it is not enough to
# give rank 2 the weights of rank 0: by then these are wrong as well.
#
# With two replicas a vote finds less. In the next cell one number differs:

# %%
print("two ranks:  ", two.run(lambda me: vote(me, [torch.tensor([1.0, 2.0 + (me.rank == 1)])]))[0])
print("four, 2 : 2:", four.run(lambda me: vote(me, [torch.tensor([1.0, 2.0 + (me.rank > 1)])]))[0])
print("four, 3 : 1:", four.run(lambda me: vote(me, [torch.tensor([1.0, 2.0 + (me.rank > 2)])]))[0])

# %% [markdown]
# `None` is also a useful answer: stop, and go back to a checkpoint. The next cell counts what a vote costs:


# %%
def one_vote(me):
    return vote(me, list(SmallCNN().parameters()))


sent = metered(four, one_vote).communication.of(0).calls
print("bytes from rank 0 to each other rank:", sum(sum(call.sent_bytes.values()) for call in sent) // 3)
print("bytes of weights that it reads:", sum(p.nbytes for p in SmallCNN().parameters()))

# %% [markdown]
# The bytes on the link hardly matter. A vote also reads all weights, and waits for the slowest rank. So a job may vote
# only every hundred or thousand steps.
#
# ## Before the all-reduce
#
# Now take the wrong product again. A vote over weights does not find it, as you have seen. The gradient of rank 2 is
# wrong *before* it is added up. But at that point every rank has a gradient of its own images, so all gradients differ
# anyway.
#
# One idea is to let the rank compute the same images twice, and compare the bits. Try it with two faults. One is in
# every product. The other comes and goes: it is in every seventh product, and in the first one of the two here. **Which
# of the two faults does this check find?**

# %%
### BEGIN SOLUTION
### STUB ask("12.again")
ask("12.again").commit("both")  # "twice the work, so twice as sure"
### END SOLUTION


# %%
def gradients(model, images, labels):
    loss = F.cross_entropy(model(images), labels)
    return torch.autograd.grad(loss, list(model.parameters()))


def twice(me, calls):
    torch.manual_seed(0)
    model = SmallCNN(batch_norm=False)
    if me.rank == 2:
        wrong_product(calls, model)
    first, again = (hash_of_bits(gradients(model, *batch(me.rank, 1))) for _ in range(2))
    return first == again


# %%
faults = {"always": lambda call: True, "now and then": lambda call: call % 7 == 0}
same = {name: list(four.run(twice, calls)) for name, calls in faults.items()}
for name, of_ranks in same.items():
    print(f"{name:<12} the same bits twice, on ranks 0 to 3: {of_ranks}")
reveal("12.again", {name: not of_ranks[2] for name, of_ranks in same.items()})

# %% [markdown]
# So the second computation has to be on *another* rank. Your function can compare the results. At some steps all ranks
# compute the gradient of the *same* images, with the same weights, and vote over these gradients. Such a check is
# called a *probe* here. The next cells use it in the run with the wrong product, whose loss looked so good. (A probe
# calls the product as well, so here step 20 is the first wrong step.)


# %%
def probe(me, model, step):
    """All ranks take rank 0's images: who has another gradient?"""
    if step % 10 == 0:
        images, labels = (part.to(me.device) for part in batch(0, step))
        return vote(me, gradients(model, images, labels))


probed = four.run(train, partial(wrong_product, after_20_calls), probe, 40)[0][2]
for step in (10, 20, 30, 40):
    print(f"step {step}: the vote over gradients names {probed[step]}")

# %% [markdown]
# A probe finds a fault that is there at that moment. A fault that is not always there may be absent just then. So for a
# checkpoint also note the step of the last good probe. In this run the weights agreed at every step, and were wrong all
# the same.
#
# The vote also assumes that equal inputs give equal *bits*, on every GPU of the group. That holds for GPUs of one kind,
# with the same kernels, if no kernel adds in a random order (`torch.use_deterministic_algorithms`). If equal inputs do
# not give equal bits, each vote may be a false alarm.
#
# A probe costs the computing of one micro-batch. With 8 micro-batches in a step, this is its share of the training's
# computing:

# %%
for every in (1, 10, 100, 1000):
    print(f"a probe every {every:>4} steps: {100 / (8 * every):g}%")

# %% [markdown]
# | check | it finds a fault before the all-reduce | it finds a fault after it |
# |---|---|---|
# | loss, NaN, norm of the gradient | if the wrong number is huge | if the wrong number is huge |
# | vote over weights | never | at the next vote |
# | the same images twice, one rank | if it is in one of the two | never: both times the same wrong weight |
# | vote over gradients of the same images | if it is there just then | at the next vote, if the images use the weight |
#
# The next cell shows the last entry of the table in a run: a weight on rank 2 flips after step 23, and `probe` votes.


# %%
def flip_and_probe(me, model, step):
    if me.rank == 2 and step == 23:
        bit_flips.flip_bit(model.head[2].weight, bit=22)
    return probe(me, model, step)


probed = four.run(train, None, flip_and_probe, 30)[0][2]
for step in (10, 20, 30):
    print(f"step {step}: the vote over gradients names {probed[step]}")

# %% [markdown]
# ## In production
#
# - *Megatron-LM* has `--check-weight-hash-across-dp-replicas-interval N`: a hash of weights over data-parallel replicas
#   every N steps.
# - Megatron-LM's *rerun state machine* (`--rerun-mode validate_results`) reacts to a suspicious result, such as a NaN.
#   It runs the step once more on the same GPU. If the result differs, it was a *transient* error. If not, Megatron-LM
#   writes a checkpoint and ends, so that the step runs again on another GPU. If the result differs there, it is a
#   *persistent* error. If the result is the same again, it was right, and the cause is the data or the model. Its
#   source calls this machine experimental.
# - *Sharded states* have no copies: with ZeRO-3 no two ranks hold the same bits, so no vote is possible. With hybrid
#   sharding there are as many copies as replicas. Let the ranks that hold copies of one shard vote.
# - *Afterwards* the node must leave the job. A job that only starts again gets the same GPU, and the same fault.
#   Diagnostics such as `dcgmi diag` find some faulty GPUs, and not all: a fault may appear only with certain numbers,
#   or at a certain temperature.
#
# <details>
# <summary>An aside: restarts that take less time</summary>
#
# In 12b a failure restarted every process, from a checkpoint on disk. NVIDIA's Resiliency Extension
# (`nvidia-resiliency-ext`) shortens this at three places, and each makes `restart_s` of 12c smaller.
#
# - *In-job restart*: `ft_launcher` takes torchrun's place. Ranks send heartbeats to a monitor beside them, so a rank
#   that hangs is noticed without NCCL's time-out. Workers start again within the same allocation, on spare nodes too.
# - *In-process restart*: `inprocess.Wrapper` around the training function. After a failure the groups are aborted and
#   the function is called again, in the same process. Python, libraries and the CUDA context are still there. Megatron
#   has `--inprocess-restart`.
# - *Local checkpoints*: each rank writes to its own node's disk or memory, with a copy on another node. The data of the
#   dead node is read from that copy, and no rank waits for shared storage.
#
# </details>
#
# ## Racks of 72 GPUs
#
# Until now a *node* had eight GPUs, and its border was the border of the fast links. In a rack such as NVL72 a node has
# four GPUs, and NVLink joins the 72 of eighteen nodes. So the NVLink domain of lesson 08 is larger than the node. An
# axis that sends much, of tensors or of experts, may now go from node to node. But its group has to stay inside *one
# rack*.
#
# Sixteen ranks of an expert axis are on four nodes. In an all-to-all each rank has 1 GB, a sixteenth of it for each
# rank, itself included. Each GPU sends 900 GB/s over NVLink and 50 GB/s over the network (data sheets). Both work at
# the same time, so the slower one sets the time. Now two of the four nodes are in another rack. **How many times as
# long does the all-to-all take then?**

# %%
### BEGIN SOLUTION
### STUB ask("12.racks")
ask("12.racks").commit(18)  # "900 over 50"
### END SOLUTION

# %% tags=["computed-time"]
rack, piece, times_s = cost.machine_spec("72x GB200"), 1e9 / 16, {}
print("ranks in a rack  by NVLink  by the network       time")
for here in (16, 8, 4):
    near, far = (here - 1) * piece, (16 - here) * piece  # bytes that a rank sends
    times_s[here] = max(rack.intra.time_s(near), rack.inter.time_s(far) if far else 0.0)
    print(f"{here:>15}  {near / 1e6:>6.0f} MB  {far / 1e6:>11.0f} MB  {1e3 * times_s[here]:>6.2f} ms")
reveal("12.racks", times_s[16], times_s[8])

# %% [markdown]
# The scheduler has to give the job four nodes of one rack. Slurm knows racks only from its settings. The administrator
# lists *blocks* in `topology.conf` (plugin `topology/block`), and you ask for *segments*:
#
# ```
# BlockName=rack1 Nodes=node[001-018]
# BlockName=rack2 Nodes=node[019-036]
# BlockSizes=18
# ```
#
# ```
# #SBATCH --nodes=16 --ntasks-per-node=1
# #SBATCH --segment=4
# ```
#
# The job's 16 nodes come in segments of four, and each segment is in one block. Two segments may be in different racks:
# axes that send little go between them. The size of a segment is the size of the largest group that sends much, divided
# by the four GPUs of a node. With larger segments a job waits longer in the queue: `--segment=16` needs 16 free nodes
# in one rack. And four segments of four leave two of 18 nodes unused.
#
# NVLink between nodes needs two more things. Without them messages go over the network, or the job fails. Consecutive
# ranks must be on the nodes of one segment, in order. And *IMEX* must run: NVIDIA's service that lets a process map
# memory of a GPU on another node of the rack. A job needs an IMEX *channel*, a device file that says which processes
# belong together. Slurm or Kubernetes gives it out, or the administrator makes it.
#
# ## Two questions

# %%
quiz("12e")

# %% [markdown]
# ## What you can do now
#
# You can say for each check which faults it cannot find, and what it costs. You find a wrong rank by a vote, and you
# know when a vote has no answer. You go back to a checkpoint that is no newer than the last vote at which the replicas
# agreed.
#
# **The limit.** The faults here were planted, and known to the bit. Real faults come with certain inputs, heat or age.
# And a fault that appears only between two votes leaves no trace except wrong weights.
#
# **Further reading.** [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783) (2024), section 3.3.4. Ma et al.,
# [Understanding Silent Data Corruption in LLM Training](https://arxiv.org/abs/2502.12340) (2025): real faulty nodes.
# Dixit et al., [Silent Data Corruptions at Scale](https://arxiv.org/abs/2102.11245) (2021). Megatron-LM,
# `megatron/core/rerun_state_machine.py`. Slurm's [topology guide](https://slurm.schedmd.com/topology.html). NVIDIA's
# [IMEX guide](https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide) and
# [Resiliency Extension](https://nvidia.github.io/nvidia-resiliency-ext/).
