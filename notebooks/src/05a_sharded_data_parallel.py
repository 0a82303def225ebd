# %% [markdown]
# # 05a · Sharded data parallelism: states, shared out
#
# Four ranks train one model, and each of them holds all of it. You find out which part of it a rank needs at a time.
# Then you write an optimizer that keeps only its rank's share, and measure what it saves and sends.
#
# **2 × 40 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 1 of 8 · [2: whole while it computes](05b_whole_for_a_moment.ipynb) · [3: what stays
# whole](05c_what_stays_whole.ipynb) · [4: links and precision](05d_links_and_precision.ipynb) · [5: one model
# again](05e_one_model_again.ipynb) · [6: build the optimizer](05f_build_sharded_optimizer.ipynb) · [7: build the
# wrapper](05g_build_fully_sharded.ipynb) · [8: precision on the wire](05h_precision_on_the_wire.ipynb)
#
# This part builds on [04a: one rule, sent in buckets](04a_distributed_data_parallel.ipynb). Have you done it? `from
# course_lib import start; start("05a")` says whether you have.
#
# At the end you can
#
# - say what a rank needs for its part of a step, and what it keeps without need;
# - write an optimizer whose states are shared out, and say what it sends;
# - let gradients go while backward runs, and say how that changes the peak of memory;
# - say on which number of ranks a large model fits, stage by stage.
#
# From [lesson 04](04a_distributed_data_parallel.ipynb) you need its rule: every gradient is replaced by its mean over
# all ranks, and then all take the same step. Lesson 04 ended at a limit. The state of the model, that is its weights,
# gradients and optimizer states, is as large on each of four ranks as on one.
#
# Article D is one of the five that the course puts on trial. In the course's words it says that data parallelism
# combines several GPUs into one with more memory. Lesson 04's ledger did not confirm it. Guess now: does the sentence
# become true in this lesson? Part 5 puts it on trial.

# %%
from course_lib import ask, check, cost, hint, mine, reveal, shared_cluster
from course_lib.meter import MemoryLedger, bytes_text, ledger, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.sharded import ShardedOptimizer
from course_lib.plot import lines, memory_bars, sent_bars
from course_lib.rounding import agree

import time
from collections import Counter

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## Four times the same
#
# ![Four ranks, each with weights, gradients and optimizer states; a question mark asks which numbers are there too
# often](../assets/05_four_times.png)
#
# The next cells define a class that takes lesson 04's step, and a small transformer. A rank calls the method `step`
# after backward on its part of the batch. The class that you write will have the same methods.


# %%
class ReplicatedAdamW:
    """Lesson 04: every rank averages all gradients, and takes the whole step."""

    def __init__(self, me, parameters, lr):
        self.me, self.parameters = me, list(parameters)
        self.adamw = torch.optim.AdamW(self.parameters, lr=lr)

    @torch.no_grad()
    def step(self):
        for parameter in self.parameters:
            dist.all_reduce(parameter.grad)
            parameter.grad /= self.me.world_size
        self.adamw.step()


# %%
config = TransformerConfig(context_length=32, num_layers=4, width=64, num_heads=4)
TOKENS = torch.randint(256, (8, 33), generator=torch.Generator().manual_seed(1))


def make_model(dtype=torch.float32):
    torch.manual_seed(0)
    return Transformer(config).to(dtype)


def backward(model, tokens):
    model.zero_grad()
    next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()


def own_part(me):
    """This rank's part of the batch."""
    return TOKENS.chunk(me.world_size)[me.rank].to(me.device)


num_parameters = sum(parameter.numel() for parameter in make_model().parameters())
print(f"{num_parameters:,} parameters; weights, gradients and AdamW's states on one device:")
print(cost.sharded_state(num_parameters, stage=0, num_ranks=1, precision="float32").as_dict())

# %% [markdown]
# After a step, each of the four ranks holds that many bytes. Compare what they hold, tensor by tensor: a number that
# another rank holds as well is there more often than it must be.
#
# **How many per cent of the bytes of all four ranks could be dropped, if every number has to stay on at least one
# rank?**

# %%
### BEGIN SOLUTION
### STUB ask("05.memory")
ask("05.memory").commit(56)  # "all but the gradients: every rank has its own part of the batch"
### END SOLUTION


# %%
def state_tensors(me):
    """All that a rank holds between two steps."""
    model = make_model().to(me.device)
    optimizer = ReplicatedAdamW(me, model.parameters(), lr=1e-3)
    backward(model, own_part(me))
    optimizer.step()
    states = [s[name] for s in optimizer.adamw.state.values() for name in ("exp_avg", "exp_avg_sq")]
    gradients = [parameter.grad for parameter in model.parameters()]
    return [tensor.detach().cpu() for tensor in (*model.parameters(), *gradients, *states)]


def num_different(tensors):
    """How many different tensors there are among these."""
    return sum(
        not any(torch.equal(tensor, other) for other in tensors[:i]) for i, tensor in enumerate(tensors)
    )


of_all = list(zip(*four.run(state_tensors), strict=True))  # each tensor, as the four ranks have it
total_bytes = sum(tensor.nbytes for copies in of_all for tensor in copies)
once_bytes = sum(num_different(copies) * copies[0].nbytes for copies in of_all)
print(f"four ranks together: {bytes_text(total_bytes)}; every number once: {bytes_text(once_bytes)}")

# %%
reveal("05.memory", total_bytes, once_bytes)

# %% [markdown]
# <!-- word: sharded data parallelism | also: ZeRO-DP -->
# In **sharded data parallelism** each rank computes its own part of the batch, as before, and keeps only its own part
# of the model's state. Rajbhandari et al. called their version ZeRO, for *Zero Redundancy Optimizer*, and described
# three stages. Each stage shares out one more part of the state. To find the first part, look at what a step uses.
#
# ## What a rank needs, and when
#
# A step is forward, backward, and the optimizer's step. The next cells watch every operation of a step on one device,
# and note which tensors the operation reads or writes. (PyTorch calls a `TorchDispatchMode` for each operation.)
#
# **Take the bytes of weights, gradients and AdamW's states. How many per cent of them are read or written at all, from
# the first layer's forward to the last gradient?**

# %%
### BEGIN SOLUTION
### STUB ask("05.need")
ask("05.need").commit(100)  # "it is all there because it is needed"
### END SOLUTION


# %%
class Touched(TorchDispatchMode):
    """Notes the memory of every tensor that an operation reads or writes."""

    def __init__(self):
        super().__init__()
        self.places = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in tree_leaves((args, kwargs, result)):
            if isinstance(value, torch.Tensor):
                self.places.add(value.untyped_storage().data_ptr())
        return result


# %%
def watched(work):
    with Touched() as touched:
        work()
    return touched.places


model = make_model()
adamw = torch.optim.AdamW(model.parameters())
backward(model, TOKENS)
adamw.step()  # the first step makes the states
touched_by = {
    "forward and backward": watched(lambda: backward(model, TOKENS)),
    "the step": watched(adamw.step),
}

# %%
state = {
    "weights": list(model.parameters()),
    "gradients": [parameter.grad for parameter in model.parameters()],
    "AdamW's states": [s[name] for s in adamw.state.values() for name in ("exp_avg", "exp_avg_sq")],
}
print(f"{'KiB touched by':<24}", *(f"{kind:>15}" for kind in state))
sums = dict.fromkeys(touched_by, 0)
for name, places in touched_by.items():
    sizes = [sum(t.nbytes for t in ts if t.untyped_storage().data_ptr() in places) for ts in state.values()]
    sums[name] = sum(sizes)
    print(f"{name:<24}", *(f"{size / 1024:>15.0f}" for size in sizes))

# %%
reveal("05.need", sums["forward and backward"], num_parameters)

# %% [markdown]
# So between two optimizer steps no operation needs the states. The optimizer's step touches everything. But AdamW
# computes each number of a weight from that number's own gradient and states:


# %%
def stepped(optimizer_class, weight, gradient):
    """What a first step of ``optimizer_class`` adds to ``weight``."""
    parameter = nn.Parameter(weight.clone())
    parameter.grad = gradient.clone()
    optimizer_class([parameter], lr=0.1).step()
    return parameter.detach() - weight


weight, gradient = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(0))
whole = stepped(torch.optim.AdamW, weight, gradient)
halves = zip(weight.chunk(2), gradient.chunk(2), strict=True)
in_halves = torch.cat([stepped(torch.optim.AdamW, *half) for half in halves])
print("AdamW on two halves of a weight, and on the whole weight: the same:", torch.equal(whole, in_halves))

# %% [markdown]
# <!-- word: optimizer state sharding | also: ZeRO-1, ZeRO stage 1 | sentences: 2 -->
# So the states can be shared out. In **optimizer state sharding** each of n ranks keeps the optimizer states of its own
# n-th part of the weights. It takes the optimizer's step for that part alone. It never has to send those states. What
# does a rank have to send, then, and is it more than before?
#
# ![A step of two ranks: both have the whole weights and whole gradients of their own samples; each gets something for
# its half, takes AdamW's step on it, and both have the whole weights again; the two messages are question
# marks](../assets/05_half_each.png)
#
# **Lesson 04's step sent an all-reduce of the gradients. Now every rank also has to get the weights that the other
# ranks have updated. How much does a rank send in a step, compared with before?**

# %%
### BEGIN SOLUTION
### STUB ask("05.bytes")
ask("05.bytes").commit("more than before")  # "the gradients, and now the weights too"
### END SOLUTION

# %% [markdown]
# ### Build: an optimizer that keeps its part of the states
#
# You write the two methods of `ShardedAdamW`. The function `packed` puts all numbers of some tensors into one row, and
# `unpack` writes a row back into the tensors. A part is one n-th of the row, and may begin or end within a tensor.
# Collectives need parts of equal length, so zeros may fill up the last one. Your class may make a parameter of its own,
# which belongs to no model, and let AdamW update it.
#
# The collectives of lesson 02 write into their first argument: `dist.reduce_scatter(mine, parts)`,
# `dist.all_gather(parts, mine)`. In both, `parts` is a list of tensors, such as `list(row.chunk(n))`. Chunks are views:
# what you write into a chunk is written into the row. And as long as you keep one chunk, the whole row stays in memory.


# %%
def packed(tensors, num_parts):
    """All numbers of ``tensors`` in a row of ``num_parts`` equal parts, (num_parts * K,). Zeros fill up the last."""
    row = torch.cat([tensor.detach().flatten() for tensor in tensors])
    return torch.nn.functional.pad(row, (0, -len(row) % num_parts))


def unpack(row, tensors):
    """Write the numbers of ``row`` back into ``tensors``, in place. The zeros at the end are left out."""
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, part in zip(tensors, row[: sum(sizes)].split(sizes), strict=True):
        tensor.data.copy_(part.view_as(tensor))


# %%
class ShardedAdamW:
    """AdamW of a model that is whole on every rank. Each rank keeps the states of its own part, which is 1/n of the
    numbers. Between two steps it keeps nothing else that is as large as the model. No rank sends more than it has to.
    """

    def __init__(self, me, parameters, lr):
        self.me, self.parameters = me, list(parameters)
        ### BEGIN SOLUTION
        parts = packed(self.parameters, me.world_size).chunk(me.world_size)
        self.own = nn.Parameter(parts[me.rank].clone())
        self.adamw = torch.optim.AdamW([self.own], lr=lr)
        ### END SOLUTION

    @torch.no_grad()
    def step(self):
        """Called after backward on this rank's part of the batch, when every parameter has a gradient.
        The weights become those after AdamW's step on the mean of the ranks' gradients.
        """
        # 1. This rank's part of the mean gradients.  2. The step, on that part.  3. Every rank needs every part.
        ### BEGIN SOLUTION
        gradients = packed([parameter.grad for parameter in self.parameters], self.me.world_size)
        self.own.grad = torch.empty_like(self.own)
        dist.reduce_scatter(self.own.grad, list(gradients.chunk(self.me.world_size)))
        self.own.grad /= self.me.world_size
        self.adamw.step()
        weights = torch.empty_like(gradients)
        dist.all_gather(list(weights.chunk(self.me.world_size)), self.own.detach())
        unpack(weights, self.parameters)
        ### END SOLUTION


# %%
optimizer_verdict = check("05.optimizer", ShardedAdamW)

# %%
# hint("05.optimizer")

# %% [markdown]
# The course's own class is called `ShardedOptimizer`. It shares out the states of any optimizer that works number by
# number. It cuts each tensor by rows and sends several tensors in one message, and its argument `stage` is the stage of
# ZeRO. The next cell takes three steps in float64 with it, and with your class if that has passed. It compares the
# weights with those of one device:


# %%
def zero_1(me, parameters, lr):
    return ShardedOptimizer(me, parameters, torch.optim.AdamW, lr=lr)


def three_steps(me, make_optimizer, dtype=torch.float64):
    model = make_model(dtype).to(me.device)
    optimizer = make_optimizer(me, model.parameters(), lr=1e-2)
    for _ in range(3):
        backward(model, own_part(me))
        optimizer.step()
    return torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])


model = make_model(torch.float64)
adamw = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(3):
    backward(model, TOKENS)
    adamw.step()
alone = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
ways = {"yours": ShardedAdamW} if optimizer_verdict.passed else {}
for name, way in (ways | {"the course's": zero_1}).items():
    alike = all(agree(weights, alone, within=1e-10) for weights in four.run(three_steps, way))
    print(f"{name + ':':<14} no weight of four ranks is off by more than 1e-10: {alike}")

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you count what the optimizer sends, and what it saves.

# %% [markdown]
# ### What it sends
#
# Lesson 02 found that gloo runs a reduce-scatter as an all-reduce, at twice the bytes it needs. NCCL does not. The
# course's optimizer avoids it: over gloo each rank sends every other rank the part which that other rank keeps. So the
# meter counts what the course's optimizer sends here, and what yours sends.


# %%
def steps(me, make_optimizer, num_steps):
    model = make_model().to(me.device)
    optimizer = make_optimizer(me, model.parameters(), lr=1e-2)
    for _ in range(num_steps):
        backward(model, own_part(me))
        optimizer.step()


def second_step(way):
    """What rank 0 sends in the second step. Before the first one, the course's optimizer also compares all weights."""
    one, two = (metered(four, steps, way, n).communication.of(0) for n in (1, 2))
    return Counter(two.by_operation()) - Counter(one.by_operation()), two.sent_bytes(0) - one.sent_bytes(0)


before = second_step(ReplicatedAdamW)
by_whom = mine.beside(second_step, zero_1, ShardedAdamW if optimizer_verdict.passed else None)
sent_bytes = {}
for name, found in {"everything everywhere": before, "states shared out": by_whom["the course's"]}.items():
    operations, sent_bytes[name] = found
    print(f"{name}: {dict(operations)}, {bytes_text(sent_bytes[name])} sent by rank 0")

# %%
own_cost = {whose: (sum(operations.values()), sent) for whose, (operations, sent) in by_whom.items()}
reveal("05.bytes", *sent_bytes.values(), beside=own_cost)


# %%
def calls_of_second_step(way):
    one, two = (metered(four, steps, way, n).communication.of(0).calls for n in (1, 2))
    return two[len(one) :]


ways = {"everything everywhere": ReplicatedAdamW, "states shared out": zero_1}
in_order = {name: calls_of_second_step(way) for name, way in ways.items()}
sent_bars(in_order, title="The second step on rank 0, call after call")

# %% [markdown]
# ### What it saves
#
# On one device the state took 16 bytes for each parameter: 4 for the weight, 4 for its gradient, and 8 for AdamW's two
# states.
#
# **Four ranks share out the optimizer's states. How many KiB of weights, gradients and states does each rank hold after
# a step?**

# %%
nothing_shared = cost.sharded_state(num_parameters, stage=0, num_ranks=4, precision="float32").total
print(f"with everything everywhere: {nothing_shared / 1024:.0f} KiB")

# %%
### BEGIN SOLUTION
### STUB ask("05.states")
ask("05.states").commit(906)  # "a quarter"
### END SOLUTION


# %%
def held_after_a_step(me):
    model = make_model().to(me.device)
    optimizer = zero_1(me, model.parameters(), lr=1e-3)
    backward(model, own_part(me))
    optimizer.step()
    return ledger(model, optimizer.inner, rank=me.rank)  # the inner one is AdamW on this rank's rows


balances = list(four.run(held_after_a_step))
print(balances[0])


# %%
def bytes_after_a_step(me, way):
    """All that is there after a step: the model, its gradients, and what ``way`` keeps."""
    model = make_model().to(me.device)
    with MemoryLedger(model, rank=me.rank) as watch:
        optimizer = way(me, model.parameters(), lr=1e-3)
        backward(model, own_part(me))
        optimizer.step()
        time.sleep(0.02)  # for gloo's thread, which may still hold a buffer
        return watch.now().total_bytes


# %% tags=["nbval-ignore-output"]
yours = ShardedAdamW if optimizer_verdict.passed else None
held_by = mine.beside(lambda way: max(four.run(bytes_after_a_step, way)), zero_1, yours)
reveal("05.states", max(balance.total_bytes for balance in balances), num_parameters, beside=held_by)

# %% [markdown]
# Your class may hold a little more: a copy of its part of the weights, which AdamW updates. A model that computes in 16
# bits needs such a copy in float32 anyhow. Those are the master weights of lesson 04, and now they are shared out as
# well: `ShardedOptimizer(..., master_dtype=torch.float32)`.
#
# ## Gradients leave early
#
# ![Backward goes from the last layer to the first; of the gradients behind it rank 0 has kept its own part, in front of
# it are none yet, and between them is a question mark](../assets/05_early.png)
#
# A rank keeps the whole gradients until `step`, and then uses its own part of the mean. It could send each gradient
# away as soon as backward has made it, as DDP does with its buckets.
#
# <!-- word: gradient sharding | also: ZeRO-2, ZeRO stage 2 -->
# With **gradient sharding** each gradient bucket's reduce-scatter starts while backward goes on, and each rank keeps
# only its own part of the mean. `stage=2` does that by hooks. When backward returns, all `parameter.grad` of a bucket
# together take the memory of one number. Code that reads them finds nan.
#
# So between backward and step each of four ranks holds a quarter of the gradients. But a job must fit into memory at
# its *peak*, the moment when it holds most. Take twelve equal layers, with a bucket for each. The batch is so small
# that activations hardly count. The ledger measures the peak of a backward pass, and the cell subtracts weights and
# states, which are always there.
#
# **At stage 2 on four ranks, how many bytes are left of that peak, in per cent of the bytes of all gradients?**

# %%
### BEGIN SOLUTION
### STUB ask("05.early")
ask("05.early").commit(25)  # "a rank keeps a quarter"
### END SOLUTION


# %%
NUM_LAYERS, LAYER_BYTES = 12, 4 * 128 * 128


def fullest_backward(me, stage):
    """The ledger at the peak of a backward pass: the smallest of five, as gloo's threads may free buffers late."""
    layers = nn.Sequential(*(nn.Linear(128, 128, bias=False) for _ in range(NUM_LAYERS))).to(me.device)
    optimizer = ShardedOptimizer(
        me, layers.parameters(), torch.optim.AdamW, stage=stage, bucket_size_bytes=LAYER_BYTES
    )
    peaks, x = [], torch.ones(1, 128, device=me.device)
    for _ in range(6):
        optimizer.zero_grad()
        with MemoryLedger(layers, optimizer.inner, inputs=x) as watch:
            layers(x).sum().backward()
        peaks.append(watch.peak())
        storages = [parameter.grad.untyped_storage() for parameter in layers.parameters()]
        left_bytes = sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
        optimizer.step()
    fullest = min(peaks[1:], key=lambda peak: peak.total_bytes)  # the first step has no states yet
    return fullest, left_bytes


# %%
fullest = {stage: four.run(fullest_backward, stage)[0] for stage in (1, 2)}
for stage, (_, left_bytes) in fullest.items():
    print(f"stage {stage}: after backward all parameter.grad take {bytes_text(left_bytes)}")

# %% tags=["nbval-ignore-output"]
peak = fullest[2][0]
always = peak["parameter"] + peak["optimizer state"] + peak["input"]
reveal("05.early", peak.total_bytes - always, NUM_LAYERS * LAYER_BYTES, NUM_LAYERS)

# %% tags=["nbval-ignore-output"]
memory_bars(
    {f"stage {stage}": balance for stage, (balance, _) in fullest.items()},
    title="Four ranks: what rank 0 holds at the fullest moment of backward",
)

# %% [markdown]
# ("Other" is what a rank packs, sends and receives.) Does stage 2 still compute lesson 04's step, and does it send as
# many bytes as stage 1?


# %%
def zero_2(me, parameters, lr):
    return ShardedOptimizer(me, parameters, torch.optim.AdamW, stage=2, lr=lr)


alike = all(agree(weights, alone, within=1e-10) for weights in four.run(three_steps, zero_2))
print(f"stage 2: no weight of four ranks is off by more than 1e-10: {alike}")
print(f"it sends as many bytes: {second_step(zero_2)[1] == sent_bytes['states shared out']}")

# %% [markdown]
# Stage 2 has one price. A second backward before the step, as in accumulation, sends again, because the whole gradients
# of the first are gone.
#
# ## The table of the paper
#
# Rajbhandari et al. take a model of 7.5 billion parameters on 64 devices. Weights and gradients are numbers of 16 bits;
# the optimizer keeps AdamW's two states, and master weights, in float32. Stage 1 shares out what the optimizer keeps,
# stage 2 the gradients as well, and stage 3 the weights as well.
#
# **Each stage frees memory on every device. Which one frees the most?**

# %%
### BEGIN SOLUTION
### STUB ask("05.table")
ask("05.table").commit("stage 3, the weights")  # "it is about large models"
### END SOLUTION


# %%
def states_of(num_ranks, num_parameters=7_500_000_000):
    return [cost.sharded_state(num_parameters, stage=stage, num_ranks=num_ranks) for stage in range(4)]


print(
    f"{'ranks':>5}   GB on each: {'nothing shared':>16}", *(f"{f'stage {stage}':>9}" for stage in (1, 2, 3))
)
for num_ranks in (1, 4, 16, 64, 1024):
    nothing, *shared = (state.total / 1e9 for state in states_of(num_ranks))
    print(f"{num_ranks:>5}   {'':<11} {nothing:>16.1f}", *(f"{size:>9.1f}" for size in shared))

# %%
reveal("05.table", states_of(64))

# %% [markdown]
# The line of 64 ranks is the paper's. On how many ranks would that model fit into 24 GB at each stage, activations left
# out? Read the answer off the table above and the picture below. Then look at the table's last line: at stages 1 and 2
# something does not shrink, however many ranks there are.

# %%
ranks = [2**power for power in range(11)]
lines(
    {
        name: (ranks, [states_of(number)[stage].total / 1e9 for number in ranks])
        for stage, name in enumerate(("nothing shared", "stage 1", "stage 2", "stage 3"))
    },
    x_label="ranks",
    y_label="state on each (GB)",
    title="7.5 billion parameters, AdamW, 16 bits with master weights",
    log_x=True,
)

# %% [markdown]
# ## What you can do now
#
# You know what a step needs of a model's state, and when. You have shared out the optimizer's states and then the
# gradients. You have counted what each of the two sends, and how much memory each of them needs at its peak. (Can every
# optimizer be cut like AdamW? [Part 3](05c_what_stays_whole.ipynb) tries one that is newer.)
#
# **The limit.** Every rank still holds all weights, because forward and backward need them. The last line of the table
# shows that: each rank holds sixteen bits of each weight, however many ranks there are. But does a rank need all
# weights *at once*? [Part 2](05b_whole_for_a_moment.ipynb) lets weights go, too.
#
# **Further reading.** Rajbhandari et al., [ZeRO: Memory Optimizations Toward Training Trillion Parameter
# Models](https://arxiv.org/abs/1910.02054) (2020), section 5: the three stages; section 7: what they send.
