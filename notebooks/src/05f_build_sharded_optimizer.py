# %% [markdown]
# # 05f · Sharded data parallelism: build the optimizer
#
# You begin with one empty class, and extend it in four steps. At the end it shares out the states of any optimizer that
# works number by number. You compare it with the course's and PyTorch's on the same run.
#
# **2 × 75 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 6 of 8 · [1: states, shared out](05a_sharded_data_parallel.ipynb) · [2: whole while it
# computes](05b_whole_for_a_moment.ipynb) · [3: what stays whole](05c_what_stays_whole.ipynb) · [4: links and
# precision](05d_links_and_precision.ipynb) · [5: one model again](05e_one_model_again.ipynb) · [7: build the
# wrapper](05g_build_fully_sharded.ipynb) · [8: precision on the wire](05h_precision_on_the_wire.ipynb)
#
# This part builds on [05a: states, shared out](05a_sharded_data_parallel.ipynb). Have you done it? `from course_lib
# import start; start("05f")` says whether you have.
#
# At the end you can
#
# - write ZeRO's first stage from its interface alone, for any optimizer class;
# - prove that it takes the steps of one process, and count what it sends and keeps;
# - use it with parameters that are frozen, unused, not contiguous or of two dtypes.
#
# From [part 1](05a_sharded_data_parallel.ipynb) you need one thing: AdamW computes each number by itself.

# %%
from course_lib import build_progress, check, hint, shared_cluster, side_by_side
from course_lib.meter import MemoryLedger
from course_lib.parallel.sharded import ShardedOptimizer
from course_lib.plot import lines
from course_lib.rounding import rounded

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

# %% tags=["nbval-ignore-output"]
two = shared_cluster(2)

# %% [markdown]
# ![Two ranks: on each the gradients of three weights, a box with this rank's states of an unknown number of numbers,
# and the weights. Before the box and behind it is a question mark between the ranks](../assets/05_optimizer.png)
#
# ## One cell
#
# You write everything in the next cell. Four steps follow it, and each has a check. Each check demands all that the
# checks before it demand, and one thing more. So you come back to this cell: change it, run it, and run the next check.
# What you have is kept. Two sittings are enough: stop after step 2 if you like.
#
# Write the shortest class that passes the next check. For step 1 it may send and keep as much as you like.


# %%
class MyShardedOptimizer:
    """Steps as ``optimizer_class(parameters, **defaults)`` of one process would, on the mean of all ranks' gradients.

    All ranks begin with equal weights. This rank, ``me``, keeps the states of its part of the numbers alone, 1/n of
    them on n ranks. ``param_groups`` are those of the optimizer that does the work, so that a schedule can set ``lr``.
    A gradient that is ``None`` on this rank counts as zeros.
    """

    def __init__(self, parameters, optimizer_class, me, **defaults):
        ### BEGIN SOLUTION
        self.me, self.parts = me, []  # for each dtype: the parameters, and this rank's part of their numbers
        learning = [p for p in parameters if p.requires_grad]
        for dtype in dict.fromkeys(p.dtype for p in learning):
            of_dtype = [p for p in learning if p.dtype == dtype]
            own = self.packed(of_dtype).chunk(me.world_size)[me.rank].clone()
            self.parts.append((of_dtype, nn.Parameter(own)))
        self.inner = optimizer_class([own for _, own in self.parts], **defaults)
        self.param_groups = self.inner.param_groups

    def packed(self, tensors):
        """All numbers in a row, with zeros at its end so that the ranks divide its length."""
        numbers = torch.cat([one.detach().flatten() for one in tensors])
        return F.pad(numbers, (0, -len(numbers) % self.me.world_size))
        ### END SOLUTION

    def zero_grad(self):
        """No parameter has a gradient after this."""
        ### BEGIN SOLUTION
        for parameters, _ in self.parts:
            for parameter in parameters:
                parameter.grad = None
        ### END SOLUTION

    @torch.no_grad()
    def step(self):
        """One step of all ranks together, after ``backward()`` on this rank's rows."""
        ### BEGIN SOLUTION
        num_ranks = self.me.world_size
        for parameters, own in self.parts:
            row = self.packed([torch.zeros_like(p) if p.grad is None else p.grad for p in parameters])
            own.grad = torch.empty_like(own)
            dist.reduce_scatter(own.grad, list(row.chunk(num_ranks)))
            own.grad /= num_ranks
        self.inner.step()
        for parameters, own in self.parts:
            row = own.new_empty(num_ranks * own.numel())
            dist.all_gather(list(row.chunk(num_ranks)), own.detach())
            begin = 0
            for parameter in parameters:
                numbers = row[begin : begin + parameter.numel()]
                parameter.copy_(numbers.view_as(parameter))
                begin += parameter.numel()
            own.grad = None
        ### END SOLUTION


# %% [markdown]
# ## Step 1: the values
#
# A rank updates only its part of the numbers. What does it need from the others before that, and what do the others
# need from it after?
#
# ### A worked example
#
# The number of ranks rarely divides the sizes of parameters. So put all numbers into one row, add zeros at its end, and
# cut the row. The next cell does that with a matrix and a bias, for three ranks.

# %%
matrix, bias = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), torch.tensor([7.0, 8.0])
row = torch.cat([matrix.flatten(), bias.flatten()])
row = F.pad(row, (0, -len(row) % 3))
print(*row.chunk(3), sep="\n")

# %% [markdown]
# ### The way back, with gaps
#
# Say that each rank has doubled its part. Write the numbers back into the tensors they came from; the zeros belong to
# no tensor.


# %%
def unpack(row, tensors):
    """Write the first numbers of ``row`` into ``tensors``, in order."""
    begin = 0
    for tensor in tensors:
        ### BEGIN SOLUTION
        ### STUB ...  # take as many numbers as the tensor has, in its shape
        tensor.copy_(row[begin : begin + tensor.numel()].view_as(tensor))
        begin += tensor.numel()
        ### END SOLUTION


unpack(torch.cat([2 * part for part in row.chunk(3)]), [matrix, bias])
print(matrix.sum().item() == 42 and bias.tolist() == [14, 16])

# %% [markdown]
# ### Your class
#
# The run below trains three steps on two ranks with your class, with the course's and with PyTorch's. PyTorch's class
# leaves it to DDP to average the gradients; here an all-reduce does that. In the table, a class that fails has dashes.


# %%
def model_of():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(31, 65), nn.Tanh(), nn.Linear(65, 65), nn.Tanh(), nn.Linear(65, 7)
    ).double()


def rows_of(num_ranks):
    torch.manual_seed(7)
    return torch.randn(3, num_ranks, 16, 31, dtype=torch.float64)  # (steps, ranks, rows, width)


def given(me):
    return model_of().to(me.device), rows_of(me.world_size)[:, me.rank].clone().to(me.device)


def three_steps(me, make, model, batches):
    optimizer = make(model.parameters(), torch.optim.AdamW, me, lr=0.01)
    for x in batches:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}


# %%
def one_process(parameters, optimizer_class, me, **defaults):
    return optimizer_class(parameters, **defaults)


def courses(parameters, optimizer_class, me, **defaults):
    return ShardedOptimizer(me, parameters, optimizer_class, **defaults)


class PyTorchs(ZeroRedundancyOptimizer):
    def __init__(self, parameters, optimizer_class, me, **defaults):
        super().__init__(parameters, optimizer_class=optimizer_class, **defaults)

    def step(self):
        for parameter in self.param_groups[0]["params"]:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        super().step()


EXPECTED = three_steps(None, one_process, model_of(), rows_of(2).flatten(1, 2))


def makers():  # yours as it is now
    return {"yours": MyShardedOptimizer, "the course's": courses, "PyTorch's": PyTorchs}


def beside():
    return side_by_side(
        two, three_steps, makers(), expected=EXPECTED, prepare=given, within=1e-9, build="05.zero"
    )


# %%
beside()

# %%
values = check("05.zero_values", MyShardedOptimizer)

# %%
# hint("05.zero_values")

# %% [markdown]
# ## Step 2: bytes and messages
#
# An all-reduce has two halves. How much of the mean gradient does a rank need before its step? So which of the two
# halves comes before the step, and what does a rank send in the other half?
#
# With a model in one dtype, a step must now make no more than two calls, however many parameters there are. It must
# send no more bytes than an all-reduce. Look at the rows of bytes and messages in the table: which of the three classes
# has most? (On a CPU gloo runs a reduce-scatter as an all-reduce, so the table may show no gain. The check counts the
# bytes that NCCL's ring would send.)

# %%
beside()

# %%
check("05.zero_bytes", MyShardedOptimizer)

# %%
# hint("05.zero_bytes")

# %% [markdown]
# ## Step 3: memory
#
# The states are shared out so that a rank keeps less. Does your class keep less? A view of a long row keeps the whole
# row in memory. So does a row that you store in `self` until the next step.
#
# Between two steps a rank may keep, beside the model, five times as many numbers as its part has. AdamW needs four: the
# part's weights, their gradient and two states.

# %%
check("05.zero_memory", MyShardedOptimizer)

# %%
# hint("05.zero_memory")

# %% [markdown]
# How much memory does that save? The figure shows the bytes that stay besides the model after a step, on one, two and
# four ranks. Before you run the cell, say what the line of plain AdamW will look like.


# %%
def kept_bytes(me, make):
    model, batches = given(me)
    with MemoryLedger(model) as ledger:
        optimizer = make(model.parameters(), torch.optim.AdamW, me, lr=0.01)
        for x in batches[:2]:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        given_bytes = batches.nbytes + sum(parameter.nbytes for parameter in model.parameters())
        return ledger.now().total_bytes - given_bytes


# %% tags=["nbval-ignore-output"]
RANKS = (1, 2, 4)


def line_of(make):
    return [shared_cluster(number).run(kept_bytes, make)[0] / 1024 for number in RANKS]


kept = {}
for name, make in {"plain AdamW": one_process, **makers()}.items():
    try:
        kept[name] = (RANKS, line_of(make))
    except Exception as error:  # yours may not have passed yet
        print(f"{name}: {type(error).__name__}")
lines(kept, x_label="ranks", y_label="kept beside the model (KiB)", title="After a step, on rank 0")

# %% [markdown]
# PyTorch's class gives whole tensors to ranks, so rank 0 may have more than its share. Your class may cut a tensor in
# the middle.
#
# ## Step 4: awkward models
#
# Real models are not so simple. With which of these does your class hang, and with which is it wrong without an error?
# Send numbers in the dtype that they have; each dtype may have its own two calls.
#
# - frozen parameters, and a parameter that one rank does not use;
# - parameters of two dtypes, and weights that are not contiguous;
# - a schedule, which sets `lr` in `param_groups` between two steps;
# - two models at the same time, and a run on one rank.

# %%
check("05.zero_awkward", MyShardedOptimizer)

# %%
# hint("05.zero_awkward")

# %% [markdown]
# ## A harder task, for the quick
#
# A model in bfloat16 loses small steps: 1 + 0.001 is 1 there. So with ZeRO each rank keeps *master weights* of its
# part, in float32. Write these without changing your class. Your class gets `WithMasters` as its `optimizer_class`. It
# gets parts in bfloat16, takes its steps on copies in float32, and rounds the copies into the parts.


# %%
class WithMasters:
    """AdamW in float32, on copies of ``parts``, which are rounded copies of these after each ``step()``."""

    def __init__(self, parts, lr):
        ### BEGIN SOLUTION
        ### STUB self.adamw = torch.optim.AdamW(parts, lr=lr)  # in bfloat16
        self.parts = list(parts)
        self.masters = [nn.Parameter(part.detach().float()) for part in self.parts]
        self.adamw = torch.optim.AdamW(self.masters, lr=lr)
        ### END SOLUTION
        self.param_groups = self.adamw.param_groups

    @torch.no_grad()
    def step(self):
        ### BEGIN SOLUTION
        ### STUB self.adamw.step()
        for part, master in zip(self.parts, self.masters, strict=True):
            master.grad = part.grad.float()
        self.adamw.step()
        for part, master in zip(self.parts, self.masters, strict=True):
            part.copy_(master)
        ### END SOLUTION


def hundred_small_steps(me, optimizer_class):
    weight = nn.Parameter(torch.ones(10, dtype=torch.bfloat16, device=me.device))
    optimizer = MyShardedOptimizer([weight], optimizer_class, me, lr=0.001)
    for _ in range(100):
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
    return float(rounded(weight[0].item(), 2, apart=1e-6))  # each number by itself: no sum, no order


# %%
if values.passed:
    print("with masters:", two.run(hundred_small_steps, WithMasters)[0])
    print("in bfloat16: ", two.run(hundred_small_steps, torch.optim.AdamW)[0])

# %% [markdown]
# A hundred steps of 0.001 are 0.1. How far does the weight move without master weights?
#
# ## How far you are

# %% tags=["nbval-ignore-output"]
build_progress("05.zero")

# %% [markdown]
# ## What you can do now
#
# You have written stage 1 of ZeRO: an all-reduce in two halves, and the optimizer's step between them. PyTorch and
# DeepSpeed have classes that do the same.
#
# Every rank still holds all weights and all gradients. [Part 2](05b_whole_for_a_moment.ipynb) let these go, layer by
# layer. The reasons are in [ZeRO's paper](https://arxiv.org/abs/1910.02054), section 5.
