# %% [markdown]
# # 05g · Sharded data parallelism: build the wrapper
#
# You begin with one empty class, and extend it in six steps. At the end it shares out a whole model, and gathers each
# unit before it is needed. It saves a file that any number of ranks can load.
#
# **2 × 75 minutes · difficulty 5 of 5 · needs: cpu**
#
# Part 7 of 8 · [1: states, shared out](05a_sharded_data_parallel.ipynb) · [2: whole while it
# computes](05b_whole_for_a_moment.ipynb) · [3: what stays whole](05c_what_stays_whole.ipynb) · [4: links and
# precision](05d_links_and_precision.ipynb) · [5: one model again](05e_one_model_again.ipynb) · [6: build the
# optimizer](05f_build_sharded_optimizer.ipynb) · [8: precision on the wire](05h_precision_on_the_wire.ipynb)
#
# This part builds on [05b: whole while it computes](05b_whole_for_a_moment.ipynb) and [05f: build the
# optimizer](05f_build_sharded_optimizer.ipynb). Have you done them? `from course_lib import start; start("05g")` says
# whether you have.
#
# At the end you can
#
# - write fully sharded data parallelism from its interface alone, for models that you have not seen;
# - empty the memory of a weight that autograd has saved, and fill it again in time;
# - show by the order of calls that an all-gather travels while a layer computes.
#
# From [part 2](05b_whole_for_a_moment.ipynb) you need what a unit is and when it is whole; from
# [part 6](05f_build_sharded_optimizer.ipynb) how numbers are laid in a row and cut.

# %%
from course_lib import (
    Link,
    Links,
    ask,
    build_progress,
    check,
    hint,
    mine,
    reveal,
    shared_cluster,
    side_by_side,
)
from course_lib.meter import MemoryLedger, Timeline, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.data import PacedLayers
from course_lib.parallel.sharded import FullySharded
from course_lib.plot import gantt, lines, memory_curve
from course_lib.rounding import agree

import contextlib
from dataclasses import replace

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

# %% tags=["nbval-ignore-output"]
two, three = shared_cluster(2), shared_cluster(3)

# %% [markdown]
# ![One of two ranks over a step of three units: it always keeps its half of each unit; six boxes, F0 to F2 and B2 to
# B0, are what it computes; what is whole and what is being sent are question marks](../assets/05_wrapper.png)
#
# ## One cell
#
# You write everything in the next cell, helper classes too. Six steps follow it, and each has a check. Each check
# demands all that the checks before it demand, and one thing more. So you come back to this cell: change it, run it,
# and run the next check. What you have is kept.
#
# Take two sittings. The first one ends with step 2. Step 3 is the hardest.
#
# Write the shortest class that passes the next check. For step 1 a unit may stay whole as long as you like.


# %%
### BEGIN SOLUTION
class Row:
    """The numbers of some parameters, one behind the other. ``whole`` has memory only while it is needed."""

    def __init__(self, parameters, names, me):
        self.names, self.shapes, self.me, self.work = names, [p.shape for p in parameters], me, None
        numbers = torch.cat([p.detach().flatten() for p in parameters])
        self.whole = F.pad(numbers, (0, -len(numbers) % me.world_size))
        self.size_bytes, self.is_whole = self.whole.nbytes, True
        part = self.whole.chunk(me.world_size)[me.rank].clone()
        self.part = nn.Parameter(part, requires_grad=parameters[0].requires_grad)
        self.free()

    def cut(self, whole):
        sizes = [shape.numel() for shape in self.shapes]
        pieces = whole.split([*sizes, len(whole) - sum(sizes)])[: len(sizes)]
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def start(self):
        if not self.is_whole and self.work is None:
            self.whole.untyped_storage().resize_(self.size_bytes)
            parts = list(self.whole.data.chunk(self.me.world_size))  # .data: autograd counts no change
            self.work = dist.all_gather(parts, self.part.detach(), async_op=True)

    def wait(self):
        if self.work is not None:
            self.work.wait()
            self.work, self.is_whole = None, True

    def free(self):
        self.wait()
        self.whole.untyped_storage().resize_(0)
        self.is_whole = False


class Gather(torch.autograd.Function):
    """A part -> the whole row; the gradient of the whole row -> this rank's part of the mean."""

    @staticmethod
    def forward(ctx, part, row, unit):
        ctx.row, ctx.unit = row, unit
        return row.whole.detach()

    @staticmethod
    def backward(ctx, grad):
        for row in ctx.unit:
            row.free()
        own, num_ranks = torch.empty_like(ctx.row.part), ctx.row.me.world_size
        dist.reduce_scatter(own, list(grad.chunk(num_ranks)))
        return own / num_ranks, None, None


### END SOLUTION
class MyFullySharded(nn.Module):
    """Computes as ``module`` would. All ranks begin with equal weights; each has its own rows of the batch.

    ``units``: modules of it, in the order of forward. The parameters of a unit are whole together; those that are in no
    unit make one more. ``parameters()`` are this rank's parts, 1/n of the numbers of each unit on n ranks, and after
    ``backward()`` their ``grad`` is the mean over all ranks. ``prefetch``: how many units are gathered ahead.
    """

    def __init__(self, module, units, me, prefetch=1):
        super().__init__()
        ### BEGIN SOLUTION
        self.module, self.prefetch, self.units, self.me = module, prefetch, [], me
        names = {}  # of each parameter in the module: a tied one has several
        for name, parameter in module.named_parameters(remove_duplicate=False):
            names.setdefault(parameter, []).append(name)
        for each in [*units, module]:  # what is in no unit comes last
            kinds = {}
            for parameter in each.parameters():
                if parameter in names:
                    kind = (parameter.dtype, parameter.requires_grad)
                    kinds.setdefault(kind, []).append((parameter, names.pop(parameter)))
            unit = [Row(*zip(*found, strict=True), me) for found in kinds.values()]
            self.units.append(unit)
            each.register_forward_pre_hook(lambda *_, unit=unit: self.before(unit))
            each.register_forward_hook(
                lambda _module, _inputs, output, unit=unit: self.after(unit, output),
                always_call=True,
            )
        self.rows = [row for unit in self.units for row in unit]
        self.parts = nn.ParameterList([row.part for row in self.rows])
        for row in self.rows:
            for owner, attribute in self.homes(row.names):
                del owner._parameters[attribute]

    def homes(self, names):
        """Where the parameters of these names stand: (module, attribute)."""
        for name in [name for several in names for name in several]:
            owner, _, attribute = name.rpartition(".")
            yield self.module.get_submodule(owner), attribute

    def make_whole(self, unit, following):
        """This unit is whole now, and of those that follow the next ``prefetch`` are under way."""
        for row in [row for one in [unit, *following[: self.prefetch]] for row in one]:
            row.start()
        for row in unit:
            row.wait()

    def before(self, unit):
        at = self.units.index(unit)
        inner = self.units[:-1]
        self.make_whole(unit, inner[at + 1 :] if at < len(inner) else inner)
        for row in unit:
            tensors = row.cut(Gather.apply(row.part, row, unit))
            for names, tensor in zip(row.names, tensors, strict=True):
                for owner, attribute in self.homes([names]):
                    setattr(owner, attribute, tensor)

    def after(self, unit, output):
        for row in unit:
            row.free()
        at = self.units.index(unit)
        for tensor in torch.utils._pytree.tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(lambda _: self.make_whole(unit, self.units[:at][::-1]))
        ### END SOLUTION

    def forward(self, *args, **kwargs):
        ### BEGIN SOLUTION
        return self.module(*args, **kwargs)
        ### END SOLUTION

    def full_state_dict(self):
        """What ``state_dict()`` of the plain module would be, on every rank; all ranks call it."""
        ### BEGIN SOLUTION
        state = {name: buffer.clone() for name, buffer in self.module.state_dict().items()}
        for row in self.rows:
            row.start()
            row.wait()
            for names, tensor in zip(row.names, row.cut(row.whole), strict=True):
                state |= {name: tensor.detach().clone() for name in names}
            row.free()
        return state
        ### END SOLUTION

    @torch.no_grad()
    def load_full_state_dict(self, state):
        """Take this rank's parts, and all buffers, from what ``full_state_dict`` gave on any number of ranks."""
        ### BEGIN SOLUTION
        for name, buffer in self.module.state_dict().items():  # no parameters: they have left the module
            buffer.copy_(state[name])
        for row in self.rows:
            other = Row([nn.Parameter(state[name]) for name, *_ in row.names], row.names, self.me)
            row.part.copy_(other.part)
        ### END SOLUTION

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm):
        """As ``nn.utils.clip_grad_norm_`` of the plain model; gives the norm, a 0-d tensor."""
        ### BEGIN SOLUTION
        gradients = [part.grad for part in self.parts if part.grad is not None]
        total = sum(gradient.double().square().sum() for gradient in gradients)
        dist.all_reduce(total)
        for gradient in gradients:
            gradient *= (max_norm / (total.sqrt() + 1e-6)).clamp(max=1)
        return total.sqrt()
        ### END SOLUTION


# %% [markdown]
# ## Step 1: the values
#
# A layer computes with `layer.weight`. Your rank keeps a part of a row. A tensor has to connect the two, and the
# gradient has to go back through that tensor.
#
# ### A worked example
#
# A module finds its weight by name, and does not ask whether it is an `nn.Parameter`. So you can take the parameter
# out, and put any tensor of its shape in its place. Here it is computed from something smaller, and autograd goes back
# through all of it.

# %%
layer = nn.Linear(3, 2, bias=False)
del layer._parameters["weight"]  # no parameter of the layer any more
small = nn.Parameter(torch.tensor([1.0, 2.0]))
layer.weight = torch.cat([small, small, small]).view(2, 3)  # a tensor, computed
layer(torch.ones(1, 3)).sum().backward()
print("parameters of the layer:", len(list(layer.parameters())), "· gradient:", small.grad.tolist())

# %% [markdown]
# Your tensor comes out of an all-gather, and its backward is a collective too. So you need the
# `torch.autograd.Function` of part 2, for a whole row. PyTorch calls hooks before a unit's forward and after it. In the
# next cell they only print.

# %%
unit = nn.Linear(3, 2)
handles = [
    unit.register_forward_pre_hook(lambda module, inputs: print("before forward")),
    unit.register_forward_hook(lambda module, inputs, output: print("after forward")),
]
y = unit(torch.ones(1, 3))
y.register_hook(lambda gradient: print("the gradient of the output has come"))
y.sum().backward()
for handle in handles:
    handle.remove()

# %% [markdown]
# ### Your class
#
# The run below trains three steps on two ranks: with your class, with the course's and with PyTorch's `fully_shard`. In
# the table, a class that fails has dashes.


# %%
def model_of():
    torch.manual_seed(1)
    blocks = [nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, 40)) for _ in range(6)]
    return nn.Sequential(*blocks).double()


def rows_of(num_ranks):
    torch.manual_seed(7)
    return torch.randn(3, num_ranks, 2, 40, dtype=torch.float64)  # (steps, ranks, rows, width)


def given(me):
    return (rows_of(me.world_size)[:, me.rank].clone().to(me.device),)


def three_steps(me, make, batches):
    model = make(model_of().to(batches.device), me)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for x in batches:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return {name: tensor.cpu() for name, tensor in model.full_state_dict().items()}


# %%
class AsItIs(nn.Module):
    """A model as one process has it, or as PyTorch has sharded it, with the interface of your class."""

    def __init__(self, model, me=None):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)

    def full_state_dict(self):
        state = self.model.state_dict().items()
        return {name: t.full_tensor() if hasattr(t, "full_tensor") else t for name, t in state}


def pytorchs(model, me):
    mesh = init_device_mesh(me.device.type, (me.world_size,))
    for block in model:
        fully_shard(block, mesh=mesh)
    return AsItIs(fully_shard(model, mesh=mesh))


# %%
def yours(model, me):
    return MyFullySharded(model, list(model), me)


def courses(model, me):
    return FullySharded(me, model, list(model))


MAKERS = {"yours": yours, "the course's": courses, "PyTorch's": pytorchs}
EXPECTED = three_steps(None, AsItIs, rows_of(2).flatten(1, 2))


def beside():
    return side_by_side(
        two, three_steps, MAKERS, expected=EXPECTED, prepare=given, within=1e-9, build="05.fsdp"
    )


# %%
beside()

# %%
values = check("05.fsdp_values", MyFullySharded)

# %%
# hint("05.fsdp_values")

# %% [markdown]
# ## Step 2: bytes and messages
#
# Weights are gathered twice in a step, and gradients are reduced once. So how many times the model's size may a rank
# send? And in how many calls for each unit, however many parameters it has? (gloo runs a reduce-scatter as an
# all-reduce. The check counts the bytes that NCCL's ring would send.)

# %%
beside()

# %%
check("05.fsdp_bytes", MyFullySharded)

# %%
# hint("05.fsdp_bytes")

# %% [markdown]
# ## Step 3: memory
#
# ![A row of four parts over one step: this rank's part is always there, the other three come for forward, go, and come
# again for backward; between the two autograd points at the empty place](../assets/05_emptied.png)
#
# After a unit's forward its whole row has to leave memory. Autograd has saved views of it, and you cannot delete these.
# But a tensor's numbers are in a *storage*, and you can empty a storage: the tensor stays, and its memory is free.
# Before the unit's backward you give the storage memory again, and the same numbers.
#
# Try it on one layer. Exactly the same numbers come back.

# %%
x = torch.ones(2, 3, requires_grad=True)
weight = torch.arange(6.0).view(2, 3).requires_grad_()
kept = weight.detach().clone()
y = x @ weight.T
weight.untyped_storage().resize_(0)
print("bytes under the weight:", weight.untyped_storage().nbytes())

# %% [markdown]
# **The weight gets its memory again, `weight.detach().copy_(kept)` fills it, and then comes backward. What does
# backward do?**

# %%
### BEGIN SOLUTION
### STUB ask("05.refill")
ask("05.refill").commit("it gives the right gradients")  # "the numbers are the same"
### END SOLUTION

# %%
weight.untyped_storage().resize_(kept.nbytes)
weight.detach().copy_(kept)
try:
    y.sum().backward()
    came = "right" if torch.equal(x.grad, kept.sum(0).expand(2, 3)) else "wrong"
except RuntimeError as error:
    came = "refused"
    print(str(error).partition(":")[0])

# %%
reveal("05.refill", came)

# %% [markdown]
# How do you fill the weight so that autograd counts no change? Part 2 did that once, when it spoilt a weight on
# purpose.
#
# Now change your class. Between two steps a rank holds only its parts. After forward it holds only its parts too, even
# if no backward follows. While a layer computes, the rank may hold more: two whole units, the gradients of one, and
# what packing needs.

# %%
check("05.fsdp_memory", MyFullySharded)

# %%
# hint("05.fsdp_memory")

# %% [markdown]
# The picture shows what rank 0 holds in forward and backward of the second step. The picture is of your class once step
# 1 has passed, and of the course's before.


# %%
def second_step(me, make, batches):
    model = make(model_of().to(me.device), me)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in batches[:2]:
        optimizer.zero_grad()
        with MemoryLedger(model, inputs=x, rank=me.rank) as ledger:
            loss = model(x).square().mean()
            ledger.mark("after forward")
            loss.backward()
        optimizer.step()
    return ledger.history()


def watched(me, make):
    return second_step(me, make, *given(me))


# %% tags=["nbval-ignore-output"]
whose, make = ("yours", yours) if values.passed else ("the course's", courses)
memory_curve(two.run(watched, make)[0], title=f"Rank 0 of two, six units, by {whose}")

# %% [markdown]
# The next picture shows all that rank 0 holds in the same step, with each of the three classes. Look for a line that
# rises and does not come down.

# %% tags=["nbval-ignore-output"]
held = {}
for name, make in MAKERS.items():
    with contextlib.suppress(Exception):  # yours may not be so far
        totals = two.run(watched, make)[0].totals
        percent = [100 * place / (len(totals) - 1) for place in range(len(totals))]
        held[name] = percent, [size_bytes / 1024 for size_bytes in totals]
lines(
    held,
    x_label="storages born and freed, in order (% of the step's)",
    y_label="rank 0 holds (KiB)",
    title="Forward and backward of the second step, by each",
)

# %% [markdown]
# ## Step 4: time hidden
#
# While a unit computes, the link is idle. Which unit is needed next, in forward, and in backward? `prefetch` says how
# many units are gathered ahead. The check judges by the order of calls: which all-gathers have begun when a unit
# computes, and for which your class has waited.

# %%
check("05.fsdp_prefetch", MyFullySharded)

# %%
# hint("05.fsdp_prefetch")

# %% [markdown]
# How much time does that hide? Take a paced model of six layers on a slow link. The picture shows when each class
# computes its layers, and below that when it sends messages. On a busy machine a row becomes longer, so do not compare
# lengths: look which messages lie below which computing.


# %%
class PacedUnit(nn.Module):
    """One layer whose weights are sent, and which computes for a fixed time."""

    def __init__(self, me):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(256, 256))
        self.paced = PacedLayers(me, num_layers=1, layer_bytes=4, forward_s=0.02, backward_s=0.04)

    def forward(self, x):
        return self.paced(x + self.weight.sum() * 0)


def watched_step(me, make):
    timeline = Timeline(rank=me.rank)
    model = make(nn.Sequential(*(PacedUnit(me) for _ in range(6))), me)
    for _ in range(2):
        dist.barrier()
        with timeline.span("forward"):
            out = model(torch.zeros(1, device=me.device)).sum()
        with timeline.span("backward"):
            out.backward()
    return timeline.spans[-2:]


# %%
def row_of(make, number):
    run = metered(two, watched_step, make)
    begin_s = run[0][0].start_s
    sent = [s for s in run.communication.of(0).timeline().spans if s.name != "barrier"]
    spans = [*run[0], *(span for span in sent if span.start_s >= begin_s)]
    moved = {"rank": number}
    return [replace(s, start_s=s.start_s - begin_s, end_s=s.end_s - begin_s, **moved) for s in spans]


# %% tags=["nbval-ignore-output"]
rows, names = [], {}
with two.shaped(links=Links(Link(latency_s=1e-3, bandwidth_bytes_per_s=25e6))):
    for name, make in MAKERS.items():
        with contextlib.suppress(Exception):  # yours may not be so far
            rows.append(row_of(make, len(names)))
            names[len(names)] = name
gantt(Timeline.join(rows), names=names, title="The second step of rank 0, by each")

# %% [markdown]
# ## Step 5: a clip and a checkpoint
#
# A norm is one number of the whole model, and each rank has a part of the squares. A file holds whole tensors, so that
# any number of ranks can read it. Buffers that are not persistent belong in no file. A program may have made its
# optimizer before it loads, and may use the state again afterwards. After saving and loading, a rank holds as much
# memory as before.

# %%
check("05.fsdp_tools", MyFullySharded)

# %%
# hint("05.fsdp_tools")

# %% [markdown]
# ## Step 6: awkward models
#
# With which of these does your class hang, and with which is it wrong without an error?
#
# - frozen parameters, two dtypes in one unit, weights that are not contiguous;
# - one matrix in two places, and a layer of a unit that some rank does not use;
# - two forward passes before one backward, a unit that is used twice or gives a tuple, two backwards before a step;
# - a forward pass that ends with an error, two models at the same time, and a run on one rank.

# %%
check("05.fsdp_awkward", MyFullySharded)

# %%
# hint("05.fsdp_awkward")

# %% [markdown]
# ## Train with it
#
# Your class now trains a transformer whose code you have not changed. Three ranks train and save. Two ranks load, and
# go on. For comparison, one process takes the same steps. (`mine.MyFullySharded` is the version of your class that has
# passed, or the course's class until then.)

# %% tags=["nbval-ignore-output"]
wrap = mine.MyFullySharded

# %%
small = TransformerConfig(vocab_size=64, context_length=16, num_layers=3, width=32, num_heads=4)
BATCH = torch.randint(0, 64, (6, 17), generator=torch.Generator().manual_seed(0))


def train(model, tokens, device, num_steps=4):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = next_token_loss(model(tokens[:, :-1].to(device)), tokens[:, 1:].to(device))
        loss.backward()
        optimizer.step()
    return loss.item()


def on_ranks(me, state=None):
    torch.manual_seed(0)
    transformer = Transformer(small).double().to(me.device)
    model = wrap(transformer, list(transformer.blocks), me)
    if state is not None:
        model.load_full_state_dict(state)
    loss = train(model, BATCH.chunk(me.world_size)[me.rank], me.device)
    return loss, {name: tensor.cpu() for name, tensor in model.full_state_dict().items()}


# %%
torch.manual_seed(0)
alone = Transformer(small).double()
train(alone, BATCH, "cpu")
halfway = {name: tensor.clone() for name, tensor in alone.state_dict().items()}
train(alone, BATCH, "cpu")

saved = three.run(on_ranks)[0][1]
ended = two.run(on_ranks, saved)[0][1]
print("after three ranks:", agree(saved, halfway, within=1e-9))
print("after two more:   ", agree(ended, alone.state_dict(), within=1e-9))

# %% [markdown]
# ## A harder task, for the quick
#
# `full_state_dict` brings all weights to every rank. A model that fits no single rank needs another way: each rank
# writes its own parts, and a rank that loads reads what it needs. Write the second half, without changing your class
# and without a collective. `files` has, for each rank that saved, its `parameters()` in order. The number of zeros at
# the end of a row depends on how many ranks have saved. So the new parts may have another length.


# %%
def load_parts(model, me, files):
    """Fill ``model.parameters()`` of this rank from the parts of another number of ranks, without a collective."""
    ### BEGIN SOLUTION
    ### STUB ...  # one row at a time
    for number, part in enumerate(model.parameters()):
        row = torch.cat([of_rank[number] for of_rank in files]).to(part.device)
        length = part.numel() * me.world_size
        row = F.pad(row, (0, max(0, length - len(row))))[:length]
        part.data.copy_(row.chunk(me.world_size)[me.rank])
    ### END SOLUTION


def save_parts(me):
    model = MyFullySharded(model_of().to(me.device), [], me)
    return [part.detach().cpu() for part in model.parameters()]


def loaded(me, files):
    model = MyFullySharded(nn.Sequential(*model_of()).to(me.device), [], me)
    for part in model.parameters():
        part.data.zero_()
    load_parts(model, me, files)
    return {name: tensor.cpu() for name, tensor in model.full_state_dict().items()}


# %%
if values.passed:
    files = list(three.run(save_parts))
    got, want = two.run(loaded, files)[0], model_of().state_dict()
    print("from three ranks to two:", all(torch.equal(got[name], want[name]) for name in want))

# %% [markdown]
# ## How far you are

# %% tags=["nbval-ignore-output"]
build_progress("05.fsdp")

# %% [markdown]
# ## What you can do now
#
# You have written ZeRO's third stage. PyTorch's `fully_shard` has the same pieces as your class, under other names. It
# cuts each parameter by rows, and not the row of a unit, [as its page
# says](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html). Its all-gathers and reduce-scatters run
# on streams of their own.
#
# Each rank still computes every layer. What if a single layer is too large, or too slow? [Lesson
# 06](06a_model_parallel.ipynb) gives layers to ranks, and [lesson 08](08a_tensor_parallel.ipynb) cuts the layers
# themselves.
