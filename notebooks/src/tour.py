# %% [markdown]
# # Tour · One model, many GPUs, in ten minutes
#
# You train one small transformer for three steps on one device. Then four ranks do the same three steps, in five ways.
# Each way runs for real, on your machine, in seconds.
#
# **10 minutes · difficulty 1 of 5 · needs: cpu**
#
# Run the cells from top to bottom. You build nothing here; in the lessons you do. If a word is new, read on: each way
# has a lesson of its own, and a link to it.

# %%
from course_lib import plan, shared_cluster
from course_lib.layouts import Mesh
from course_lib.meter import StepSplit, bytes_text, mean_split, metered, split_step
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.mesh import OnMesh
from course_lib.plot import memory_and_time_bars
from course_lib.rounding import agree, rounded

import time

import torch
import torch.distributed as dist

# %% [markdown]
# ## One device
#
# The model is a transformer of four layers. It trains on a batch of 16 sequences, with AdamW. Numbers are float64, so
# that results can be compared to ten digits. On a CPU the device is one core, as it will be for each rank.

# %%
torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = TransformerConfig(vocab_size=256, context_length=32, num_layers=4, width=64, num_heads=4)


def make_model():
    torch.manual_seed(0)
    return Transformer(config).double()


def batch():
    tokens = torch.randint(256, (16, 33), generator=torch.Generator().manual_seed(1))
    return tokens[:, :-1], tokens[:, 1:]  # what it reads, and what is to come next: (16, 32) each


# %%
def on_one_device(model):
    optimizer = torch.optim.AdamW(model.parameters())
    losses, times_s = [], []
    for _ in range(3):
        begin_s = time.perf_counter()
        optimizer.zero_grad()
        tokens, targets = (half.to(device) for half in batch())
        loss = next_token_loss(model(tokens), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times_s.append(time.perf_counter() - begin_s)
    return losses, held_bytes(model, optimizer), StepSplit(computing_s=min(times_s[1:]))


def held_bytes(model, optimizer):
    """What stays in memory from step to step, by kind."""
    weights = list(model.parameters())
    states = [value for state in optimizer.state.values() for value in state.values() if value.numel() > 1]
    kinds = {"parameter": weights, "gradient": [w.grad for w in weights], "optimizer state": states}
    return {kind: sum(tensor.nbytes for tensor in tensors) for kind, tensors in kinds.items()}


# %% [markdown]
# The picture below gets a new bar with each way. On the left, a bar is what one device, or one rank, holds: its
# parameters, their gradients, and the states of the optimizer. AdamW keeps two numbers for each parameter. On the right
# is the time of one step, the quicker of the last two. It was measured in this run: another run shows other times,
# especially where programs share the cores.

# %%
right_losses, held, step = on_one_device(make_model().to(device))
bars, times = {"one device": held}, {"one device": step}
print("losses:", rounded(right_losses, 3, apart=1e-10))

# %% tags=["nbval-ignore-output"]
memory_and_time_bars(bars, times)

# %% [markdown]
# ## Four ranks
#
# A **rank** is a process with a device of its own: a GPU where you have them, a share of the CPU otherwise. The next
# cell starts four. They share no memory, and can only send each other messages.

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)
print(f"{four.world_size} ranks, which send by {four.run(lambda me: me.backend)[0]}")

# %% [markdown]
# Here is the same training on ranks. This function does not say how the ranks share the work. A **mesh**, which is an
# arrangement of the ranks, says it. `OnMesh`, from the course's library, puts a transformer on a mesh. In lesson 09 you
# build it.


# %%
def on_ranks(me, mesh):
    model = OnMesh(me, mesh, make_model())
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(3):
        dist.barrier()  # so that the meter can tell one step from the next
        optimizer.zero_grad()
        loss = model.step(*model.data.deal(*batch()))
        optimizer.step()
        losses.append(loss.item())
    dist.barrier()
    held = held_bytes(model, optimizer)
    model.close()
    return losses, held


# %%
def sent_in_last_step(run, rank):
    calls = run.communication.of(rank).calls
    first, last = [place for place, call in enumerate(calls) if call.operation == "barrier"][2:4]
    return sum(sum(call.sent_bytes.values()) for call in calls[first + 1 : last])


def train(name, **axes):
    """Three steps on a mesh: are the losses right, what does a rank hold, and what does it send?"""
    run = metered(four, on_ranks, Mesh.of(**axes))
    losses, held = zip(*run, strict=True)
    same = all(agree(one, right_losses, within=1e-10) for one in losses)
    sent[name] = max(sent_in_last_step(run, rank) for rank in range(4))
    bars[name] = max(held, key=lambda kinds: sum(kinds.values()))  # of the rank that holds most
    steps = [mean_split(split_step(run.communication, step)) for step in (1, 2)]
    times[name] = min(steps, key=lambda split: split.step_s)
    print(f"{name}: each rank holds {bytes_text(sum(bars[name].values()))} at most")
    print(f"{name}: the losses of one device on every rank: {same}")


sent = {}

# %% [markdown]
# ## Way 1: copies
#
# Each rank has a copy of the model and a quarter of the batch. Their gradients are averaged, and every copy makes the
# same step. This is what `DistributedDataParallel` does ([lesson 04](04a_distributed_data_parallel.ipynb)).

# %%
train("copies", dp_replicate=4)

# %% tags=["nbval-ignore-output"]
memory_and_time_bars(bars, times)

# %% [markdown]
# The losses are the same, and four ranks worked. But each holds what one device held: four times the memory in all.
#
# The time is divided: C is computing, and W is waiting for a rank that has not come yet. M is messages: all ranks have
# come, and the result is on its way. Where ranks share cores, each of the three holds some waiting for a core as well.
#
# ## Way 2: shards
#
# Why should four ranks hold the same? Now each keeps a quarter of everything, and borrows the rest for the moment in
# which a layer computes. This is what `fully_shard` and ZeRO do ([lesson 05](05a_sharded_data_parallel.ipynb)).

# %%
train("shards", dp_shard=4)

# %% tags=["nbval-ignore-output"]
memory_and_time_bars(bars, times)

# %% [markdown]
# ## Way 3: stages
#
# Each rank has one of the four layers. The batch goes through them in small pieces, from rank to rank, and the
# gradients come back ([lessons 06](06a_model_parallel.ipynb) and [07](07a_pipeline_parallel.ipynb)).

# %%
train("stages", pp=4)

# %% tags=["nbval-ignore-output"]
memory_and_time_bars(bars, times)

# %% [markdown]
# The bar shows the rank that holds most. Beside its layer, the first rank and the last rank each have weights for all
# tokens of the vocabulary. A part of the waiting is a *bubble*: a stage waits until its first piece arrives, and then
# for gradients.
#
# ## Way 4: slices
#
# Each rank has a slice of *every* matrix, and works on the whole batch. Within each layer the ranks add up their
# partial results ([lesson 08](08a_tensor_parallel.ipynb)).

# %%
train("slices", tp=4)

# %% tags=["nbval-ignore-output"]
memory_and_time_bars(bars, times)

# %% [markdown]
# ## What travels
#
# The four ways give the same losses to ten digits. They differ in memory, and in what travels. Guess before you look:
# **in which way does a rank send the most bytes in a step?** Type your guess into the next cell: `"copies"`,
# `"shards"`, `"stages"` or `"slices"`.

# %%
guess = "copies"  # a usual guess: each copy sends all of its gradients

# %%
for name, size_bytes in sent.items():
    print(f"{name:<8} {bytes_text(size_bytes):>10} {'#' * round(40 * size_bytes / max(sent.values()))}")
most = max(sent, key=sent.get)
print(
    f"You guessed {guess}; a rank of {most} sends most: {sent[most] / sent.get(guess, sent[most]):.1f} times as much."
)

# %% [markdown]
# Copies send gradients, so their bytes grow with the model. Slices add up *activations*, several times in each layer,
# forward and backward, so their bytes grow with the batch. So slices need fast links, while slow ones are enough for
# stages. Much of the course follows from this table.
#
# ## Way 5: several at once
#
# Large jobs combine ways. A mesh has an axis for each way: here each of two shards is cut into two slices.

# %%
train("shards of slices", dp_shard=2, tp=2)

# %% tags=["nbval-ignore-output"]
memory_and_time_bars(bars, times)

# %% [markdown]
# Only the mesh has changed. On eight ranks it could be `pp=2, dp_shard=2, tp=2` ([lesson 09](09a_meshes.ipynb)).
#
# Look for the shortest bar of time in your picture. Four ranks that share two cores compute no faster than two ranks
# would. And in so small a model messages take a large part of the time. [Part 2 of lesson
# 04](04b_batches_and_scaling.ipynb) works out when several devices pay.
#
# ## When one does not come
#
# Rank 2 forgets to join a sum, and the others wait for it. By default PyTorch lets them wait for ten minutes with NCCL
# (its library for GPUs), and for thirty with gloo (for CPUs).


# %%
def forgets(me):
    total = torch.ones(1)
    if me.rank != 2:
        dist.all_reduce(total)
    return total.item()


# %% tags=["nbval-ignore-output"]
try:
    four.run(forgets)
except Exception as error:
    print(error)

# %% [markdown]
# The course says within seconds which rank waits, at which call, and for which other rank. In [lesson
# 02](02c_hangs.ipynb) you read such reports, and in [lesson 12](12b_when_ranks_die.ipynb) ranks die.
#
# ## Your own model
#
# Which of these ways fits your model? The course's planner works out the memory and the time of every layout of a job.
# It has learned its constants from runs that others have published. Change the model, the machine and the batch.

# %% tags=["computed-time"]
job = plan.Job(plan.decoder("llama-3-8b"), seq=8192, batch=64)
cluster = plan.cluster_of("8xh100")
constants = plan.typical_constants(list(plan.load_profiles().values()))
listing = plan.list_layouts(job, cluster, constants, plan.Software())
print(f"{len(listing.options):,} layouts fit. The three fastest, by the planner:")
for option in listing.options[:3]:
    print(f"    {option.step_s:5.1f} s a step  {option.layout}")

# %% [markdown]
# `dp`, `tp` and `pp` are the ways that you have just seen. At a terminal, `./course plan --model llama-3-8b --machine
# 8xh100 --batch 64 --seq 8192` says more: what fills the memory, where the time goes, how far to trust it
# ([lesson 11](11a_does_it_fit.ipynb)).
#
# ## Where to go on
#
# - [Lesson 00](00_start_here.ipynb) begins at the beginning: ranks, messages, and the first thing that you build.
# - Each way above has its lesson, where you predict, run, and build it yourself.
# - If this machine has GPUs, all of this ran on them. Where NCCL carried the bytes, the bars of time are undivided (U):
#   no clock of the CPU sees when NCCL is done. [A page](../docs/machines.md) says what else changes.
