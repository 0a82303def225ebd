# %% [markdown]
# # 03c · Data parallelism in one process: build it whole
#
# You write `nn.DataParallel` yourself, for any model. You begin with an empty class. Each step asks for one thing
# more, and a check tells you whether you have it.
#
# **2 × 75 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 3 of 3 · [1: four steps](03a_data_parallel.ipynb) · [2: what one process costs](03b_one_process.ipynb)
#
# This part builds on [03a: four steps](03a_data_parallel.ipynb) and [03b: what one process
# costs](03b_one_process.ipynb). Have you done them? `from course_lib import start; start("03c")` says whether you
# have.
#
# At the end you can
#
# - build replicas whose gradients come back to one model;
# - count what your code copies, and who still holds it afterwards;
# - run replicas in threads that lose no mode and no error;
# - say which models break a wrapper, and mend your wrapper for them.
#
# You need the four steps of part 1, and the threads of part 2. Take two sittings if you like: steps 1 to 3, then 4
# and 5.

# %%
from course_lib import build_progress, check, hint, machine, replicas_side_by_side, solution
from course_lib.data import digits, loader
from course_lib.meter import Timeline
from course_lib.models import SmallCNN
from course_lib.parallel.data import DataParallel
from course_lib.plot import gantt_beside
from course_lib.rounding import agree

import contextlib
import copy
import threading
import time

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

# %% [markdown]
# ![Four columns. Scatter: a batch is cut in four. Replicate: a model is copied four times. Parallel apply: four
# threads, each with a part and a copy. Gather: four outputs are joined on device 0](../assets/03_four_steps.png)
#
# ## The interface
#
# The interface is that of `nn.DataParallel`. The module is on `devices[0]`. Its parameters and buffers stay the same
# tensors, since an optimizer holds them. A device may be named several times, and here all are the CPU.
#
# **You edit one cell, the next.** Run it, run the check of your step, and come back. Write as many methods as you like.
# A first version of three lines is enough for step 1.


# %%
class MyDataParallel(nn.Module):
    """``module`` on several ``devices``. Each has a part of the batch, a replica and a thread; there is one output.

    Inputs may be nested; tensors in them are cut along dim 0 as ``Tensor.chunk`` cuts. When replicas fail, a
    ``RuntimeError`` names the first, in the order of the devices: its number, its device, and its own error.
    """

    def __init__(self, module, devices):
        super().__init__()
        self.module, self.devices = module, [torch.device(device) for device in devices]

    def forward(self, *args, **kwargs):
        ### BEGIN SOLUTION: cut the inputs, run a replica on each part, join the outputs
        parts = self.scatter((args, kwargs))
        return self.gather(self.apply(self.replicas(len(parts)), parts))

    def sent(self, tensor, r):
        """To device r; what is for the first stays where it is."""
        return tensor.to(self.devices[r], copy=r > 0)

    def scatter(self, inputs):
        """A list with (args, kwargs) for each device that gets a part."""
        leaves, nesting = tree_flatten(inputs)
        cut = [leaf.chunk(len(self.devices)) if isinstance(leaf, Tensor) else None for leaf in leaves]
        num_parts = max((len(pieces) for pieces in cut if pieces is not None), default=1)
        parts = []
        for r in range(num_parts):
            pairs = zip(leaves, cut, strict=True)
            part = [leaf if pieces is None else self.sent(pieces[r], r) for leaf, pieces in pairs]
            parts.append(tree_unflatten(part, nesting))
        return parts

    def replicas(self, num_parts):
        """A module for each device that has work, made anew and kept nowhere."""
        return [self.replica(self.module, self.tensors_for(r), {}) for r in range(num_parts)]

    def tensors_for(self, r):
        """From each parameter and buffer of the module, once, to the one of replica r: autograd records the copy."""
        return {
            tensor: self.sent(tensor, r) for tensor in (*self.module.parameters(), *self.module.buffers())
        }

    def replica(self, module, tensors, done):
        """The tree of modules anew, with these tensors; all else is the module's. ``done``: what was met before."""
        if module not in done:
            new = done[module] = copy.copy(module)
            new._parameters = {name: tensors.get(tensor) for name, tensor in module._parameters.items()}
            new._buffers = {name: tensors.get(tensor) for name, tensor in module._buffers.items()}
            children = module._modules.items()
            new._modules = {name: child and self.replica(child, tensors, done) for name, child in children}
        return done[module]

    def apply(self, replicas, parts):
        """The outputs of all replicas, each in a thread of its own, in the modes of this one."""
        outputs, failures = [None] * len(parts), {}
        recording, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        kinds = [device.type for device in self.devices]
        autocasts = [
            torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))
            for kind in kinds
        ]

        def work(r):
            args, kwargs = parts[r]
            try:
                with torch.inference_mode(inference), torch.set_grad_enabled(recording), autocasts[r]:
                    outputs[r] = replicas[r](*args, **kwargs)
            except Exception as error:
                failures[r] = error

        threads = [threading.Thread(target=work, args=(r,)) for r in range(len(parts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for r, error in sorted(failures.items()):
            raise RuntimeError(f"replica {r}, on {self.devices[r]}, failed: {error}") from error
        return outputs

    def gather(self, outputs):
        """What the replicas returned, joined place by place on the first device."""
        flat = [tree_flatten(output) for output in outputs]
        columns = zip(*(leaves for leaves, _ in flat), strict=True)
        return tree_unflatten([self.joined(column) for column in columns], flat[0][1])

    def joined(self, column):
        """One thing that all returned; scalars become a vector."""
        if not isinstance(column[0], Tensor):
            return column[0]
        rows = [tensor.unsqueeze(0) if tensor.dim() == 0 else tensor for tensor in column]
        return torch.cat([tensor.to(self.devices[0]) for tensor in rows])
        ### END SOLUTION


# %% [markdown]
# Here are a model and a batch to watch your class with. `beside()` runs one step of your class and of the course's, and
# counts. PyTorch's own class does nothing on a CPU. You run it at the end, if there are two GPUs.

# %%
torch.manual_seed(0)
model = SmallCNN(batch_norm=False)
x, _ = next(iter(loader(digits().train, 32)))


def beside():
    replicas_side_by_side({"yours": MyDataParallel}, model, x, build="03.data_parallel")


# %% [markdown]
# ## Step 1: values
#
# **Ten rows, four devices. How many rows does each compute?** You know the cut from part 1. Each device computes its
# own part and no more, and a device without a part is not called. The output is that of one device, in the order of
# the rows.

# %%
values = check("03.dp_values", MyDataParallel)

# %%
# hint("03.dp_values")

# %%
if values.passed:
    beside()

# %% [markdown]
# ## Step 2: gradients
#
# Look at the row *copied*. **Could a second GPU compute with the tensors that it has got?** From now on every device
# but the first computes with tensors of its own: weights, buffers and its part of the batch. Its gradients arrive in
# the module, as if there had been one device. And the next step, after the optimizer, is right as well.
#
# A replica is a module whose weights are no parameters. `copy.copy(module)` is a shallow copy: a new module that
# shares everything. You may then give it other dictionaries `_parameters`, `_buffers` and `_modules`.

# %%
gradients = check("03.dp_gradients", MyDataParallel)

# %%
# hint("03.dp_gradients")

# %%
if gradients.passed:
    beside()

# %% [markdown]
# ## Step 3: cost
#
# **The table counts three models for four devices. Why not four, and which batch needs fewer?** Your count may not be
# larger. A weight that has two names travels once, and each row of the batch goes to one device. Replicas are made anew
# in each forward pass. After the backward pass nothing of them is left, and after an evaluation nothing is left either.

# %%
cost = check("03.dp_cost", MyDataParallel)

# %%
# hint("03.dp_cost")

# %%
if cost.passed:
    beside()

# %% [markdown]
# ## Step 4: threads
#
# **Two replicas fail, and two others are still at work. What should the caller find out, and when?** Now each device
# has a thread. All run at the same time: in the check each replica waits until the others are there. The caller's modes
# hold in every thread: recording, inference mode, autocast and its dtype. When the call returns or raises, no thread is
# left.
#
# Your `apply_in_threads` of part 2 is a good beginning.

# %%
threads = check("03.dp_threads", MyDataParallel)

# %%
# hint("03.dp_threads")

# %%
if threads.passed:
    beside()

# %% [markdown]
# What did each device do, and when? A layer that waits for 30 ms stands for one that computes, and notes when it began
# and when it ended. On a machine with idle cores the figure shows whether your threads run at the same time.


# %%
class Waiting(nn.Module):
    """Waits in place of computing; the first number of its part says on which device."""

    def __init__(self, timeline):
        super().__init__()
        self.timeline = timeline

    def forward(self, x):
        with self.timeline.span("forward", rank=int(x[0, 0])):
            time.sleep(0.03)
        return x


def by_device(wrap):
    timeline = Timeline()
    wrap(Waiting(timeline), ["cpu"] * 4)(torch.arange(4.0).view(4, 1))
    return timeline


# %% tags=["nbval-ignore-output"]
rows = {}
for name, wrap in {"yours": MyDataParallel, "the course's": DataParallel}.items():
    with contextlib.suppress(Exception):  # yours may not be so far
        rows[name] = by_device(wrap)
gantt_beside(rows, title="Four rows on four devices", row="device")

# %% [markdown]
# ## Before step 5: one thing done for you
#
# Inputs may come as dictionaries of lists of tuples. `tree_flatten` takes such a thing apart. It gives a list of its
# leaves, and its nesting. `tree_unflatten` puts leaves into a nesting again. Between the two calls, you can change each
# leaf by itself. Here all tensors are doubled:


# %%
def doubled(thing):
    leaves, nesting = tree_flatten(thing)
    new = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            new.append(2 * leaf)
        else:
            new.append(leaf)  # a text, a number, None
    return tree_unflatten(new, nesting)


nested = {"image": torch.arange(4.0), "rest": (torch.tensor([1, 2, 3, 4]), "a note")}
print(doubled(nested))

# %% [markdown]
# Here is the same with the middle left out. This time the function gives the first rows of every tensor, and all else
# as it is.


# %%
def first_rows(thing, count):
    leaves, nesting = tree_flatten(thing)
    ### BEGIN SOLUTION: the first rows of each tensor
    new = [leaf[:count] if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    ### END SOLUTION
    return tree_unflatten(new, nesting)


# %%
try:
    print(first_rows(nested, 1))
except NotImplementedError as your_turn:
    print(your_turn)

# %% [markdown]
# The third time, you write the function yourself: once to cut the inputs, and once to join the outputs. When you join,
# the leaves of all outputs that stand at one place belong together. `zip(*lists)` gives them so.
#
# ## Step 5: awkward models
#
# **What may a model have that your wrapper has not met yet?** The check brings:
#
# - a weight with two names, a frozen layer, a layer that no input uses, and one that is used twice;
# - buffers. Device 0's writes stay in the module, and those of the others are lost;
# - things that are no tensors, such as a lock or a list. All replicas share them with the module;
# - nested inputs, keywords and outputs. A scalar becomes a vector with an entry for each replica. What is no tensor
#   comes back as replica 0 gave it;
# - no rows at all, and no tensor at all: one call on device 0 is enough.

# %%
awkward = check("03.dp_awkward", MyDataParallel)

# %%
# hint("03.dp_awkward")

# %%
if awkward.passed:
    beside()

# %% [markdown]
# `solution("03.dp_awkward")` says where the solved version stands. The next cell shows what you have so far:

# %% tags=["nbval-ignore-output"]
build_progress("03.data_parallel")

# %% [markdown]
# ## Train with it
#
# Your class trains a model here, and one device trains another. The last batch of this epoch is uneven.


# %%
def trained(wrap, num_batches=5):
    torch.manual_seed(1)
    new = SmallCNN(batch_norm=False).double()
    optimizer = torch.optim.SGD(new.parameters(), lr=0.05, momentum=0.9)
    forward = wrap(new)
    for number, (images, labels) in zip(range(num_batches), loader(digits().train, 30), strict=False):
        rows = 30 if number < num_batches - 1 else 7
        optimizer.zero_grad()
        nn.functional.cross_entropy(forward(images[:rows].double()), labels[:rows]).backward()
        optimizer.step()
    return [p.detach() for p in new.parameters()]


# %%
if gradients.passed:
    yours = trained(lambda new: MyDataParallel(new, ["cpu"] * 4))
    print("weights after five steps as on one device:", agree(yours, trained(lambda new: new), within=1e-9))

# %% [markdown]
# Here is PyTorch's own class on the same run. With fewer than two GPUs there is nothing that it could do.

# %% tags=["nbval-ignore-output"]
num_gpus = len(machine().devices)
if num_gpus < 2:
    print(f"blocked: needs 2 GPUs, and this machine has {num_gpus}")
else:
    on_gpus = copy.deepcopy(model).to("cuda:0")
    real = nn.DataParallel(on_gpus, device_ids=[0, 1])(x.to("cuda:0"))
    yours = MyDataParallel(on_gpus, ["cuda:0", "cuda:1"])(x.to("cuda:0"))
    print("outputs equal, to within 1e-5:", agree(yours, real, within=1e-5))

# %% [markdown]
# ## If you have time left: one piece
#
# A message has a price whatever its size, as you saw in lesson 02. Your replicas get each weight in a message of its
# own. **In how few pieces could a device get the whole model?** Write a class whose replicas are views of a few flat
# tensors, one for each kind: learned, frozen, and buffers by their dtype. The flat tensors are made once a forward
# pass for all devices, so one model more than before may be copied. All else holds as in step 5, with one exception.
#
# The exception: one gradient comes back for a whole piece. So a weight that nobody used gets zeros, and not None.
# PyTorch's own class gives zeros, too.


# %%
class MyFlatDataParallel(MyDataParallel):
    """As ``MyDataParallel``; a device gets its tensors in one piece for each kind."""

    ### BEGIN SOLUTION
    ### STUB ...
    def replicas(self, num_parts):
        groups = {}
        for tensor in (*self.module.parameters(), *self.module.buffers()):
            groups.setdefault((tensor.dtype, tensor.requires_grad), []).append(tensor)
        flats = [(group, torch.cat([tensor.flatten() for tensor in group])) for group in groups.values()]
        tables = [self.tensors_for(0), *(self.views(flats, r) for r in range(1, num_parts))]
        return [self.replica(self.module, tensors, {}) for tensors in tables]

    def views(self, flats, r):
        """From each tensor of the module to its view in the flat tensor on device r."""
        tensors = {}
        for group, flat in flats:
            pieces = self.sent(flat, r).split([tensor.numel() for tensor in group])
            tensors |= {tensor: piece.view_as(tensor) for tensor, piece in zip(group, pieces, strict=True)}
        return tensors

    ### END SOLUTION


# %%
check("03.dp_flat", MyFlatDataParallel)

# %%
# hint("03.dp_flat")

# %% [markdown]
# ## What you can do now
#
# You have written what one line of PyTorch does, and you know where such a line can go wrong. The gradient of a copy
# may not come back to the module, or something may still hold a replica. A thread may run in another mode than its
# caller, or its error may get lost.
#
# **The limit.** Your class copies the whole model in each forward pass, as PyTorch's does, and one interpreter starts
# all threads. [Lesson 04](04a_distributed_data_parallel.ipynb) gives each device a process of its own, in which the
# model stays.
#
# **Further reading.** PyTorch's own version is five short files:
# [`torch/nn/parallel`](https://github.com/pytorch/pytorch/tree/main/torch/nn/parallel). Read `replicate.py` first, and
# look for the parts that your class has, too.
