# %% [markdown]
# # 05e · Sharded data parallelism: one model again
#
# A sharded model is nowhere whole. But its gradient has one norm, and its checkpoint should be one for any number of
# ranks. You find three faults that raise no error, and write the clip that all ranks agree on. You save on four ranks
# and load on three, and hand over to PyTorch's own `fully_shard`.
#
# **2 × 50 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 5 of 8 · [1: states, shared out](05a_sharded_data_parallel.ipynb) · [2: whole while it
# computes](05b_whole_for_a_moment.ipynb) · [3: what stays whole](05c_what_stays_whole.ipynb) · [4: links and
# precision](05d_links_and_precision.ipynb) · [6: build the optimizer](05f_build_sharded_optimizer.ipynb) · [7: build
# the wrapper](05g_build_fully_sharded.ipynb) · [8: precision on the wire](05h_precision_on_the_wire.ipynb)
#
# This part builds on [05b: whole while it computes](05b_whole_for_a_moment.ipynb). Have you done it? `from course_lib
# import start; start("05e")` says whether you have.
#
# At the end you can
#
# - clip a gradient that no rank has as a whole;
# - look at whole weights for a moment, and start a model that was never whole;
# - save on any number of ranks, load on any other, and survive a rank that dies while it saves;
# - say which weights belong in one unit;
# - train with `fully_shard`, and take a program home.
#
# From the parts before you need `FullySharded(me, model)`, the course's ZeRO-3. Each rank keeps its rows of every
# parameter, a *shard*. A *unit*, such as a block, is whole only while it computes. A shard's `grad` is this rank's rows
# of the mean gradient.

# %%
from course_lib import ask, check, hint, problems, quiz, reveal, shared_cluster
from course_lib.claims import trial
from course_lib.cluster import RankError, folder_for_ranks
from course_lib.data import documentation_windows, loader
from course_lib.meter import MemoryLedger, bytes_text, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.sharded import (
    FullySharded,
    fill_from_meta,
    load_sharded,
    newest_checkpoint,
    save_sharded,
    unsharded,
)
from course_lib.plot import clip_arrows, flow_chart
from course_lib.rounding import agree, rounded

import os
import signal
import statistics
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

# %% tags=["nbval-ignore-output"]
one, two, three, four = (shared_cluster(number) for number in (1, 2, 3, 4))

# %%
small = TransformerConfig(vocab_size=256, context_length=32, num_layers=4, width=64, num_heads=4)
X, Y = next(iter(loader(documentation_windows(32)[0], 12)))  # 12 windows of text, 32 bytes each


def make_model(device="cpu", seed=0, **settings):
    torch.manual_seed(seed)
    return Transformer(replace(small, **settings)).to(device)


def share_of(me):
    return (tensor[me.rank :: me.world_size].to(me.device) for tensor in (X, Y))


# %%
def train(me, model, optimizer, num_steps, before_step=None):
    """The mean loss over all ranks, before each step."""
    (x, y), losses = share_of(me), []
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = next_token_loss(model(x).float(), y)
        loss.backward()
        if before_step:
            before_step()
        optimizer.step()
        total = loss.detach()
        dist.all_reduce(total)
        losses.append(total.item() / me.world_size)
    return losses


# %% [markdown]
# ## Clinic 1: a limit that limits too little
#
# *Symptom.* Now and then a batch has a gradient that is far too long, so a team limits its norm, as most teams do.
# Without the limit, one rank and four ranks have the same losses. With the limit there is no error either. But from the
# second step on, the losses of four ranks differ from those of one rank, and some gradients remain too long. All ranks
# call this function between `backward` and the step:


# %%
def colleagues_clip(me, shards, max_norm):
    """Scale the gradients so that their norm is ``max_norm`` at most; return what it was."""
    norm = nn.utils.get_total_norm([shard.grad for shard in shards])
    nn.utils.clip_grads_with_norm_(shards, max_norm, norm)  # both are PyTorch's own
    return norm


# %% [markdown]
# **What is wrong?**

# %%
### BEGIN SOLUTION
### STUB ask("05.clip")
ask("05.clip").commit("gradients are clipped before they are averaged")  # as in lesson 04
### END SOLUTION

# %% [markdown]
# *Evidence.* The next cell takes one step with a limit of 0.1, and prints what the function returns on each rank.


# %%
def clipped_step(me, clip, max_norm=0.1):
    """What ``clip`` returns; the whole gradient's norm after it; its cosine with the one before."""
    model = FullySharded(me, make_model(me.device))
    x, y = share_of(me)
    next_token_loss(model(x), y).backward()
    shards = list(model.parameters())
    before = torch.cat([shard.grad.flatten() for shard in shards])
    returned = float(clip(me, shards, max_norm))
    after = torch.cat([shard.grad.flatten() for shard in shards])
    sums = torch.stack([after @ after, after @ before, before @ before])
    dist.all_reduce(sums)  # over the rows of all ranks
    after_2, product, before_2 = sums.tolist()
    return returned, after_2**0.5, product / (after_2 * before_2) ** 0.5


alone, by_four = one.run(clipped_step, colleagues_clip), four.run(clipped_step, colleagues_clip)
print(f"norm on one rank: {rounded(alone[0][0], 2)}")
print("norm on four, by rank:", rounded([returned for returned, *_ in by_four], 2))

# %%
reveal("05.clip")

# %% [markdown]
# ![An arrow with a part on rank 0 and a part on rank 1, and a circle as large as the limit. Where does the arrow end
# after the team's clip?](../assets/05_clip.png)
#
# All four calls returned more than the limit, so all four have scaled something. **How many times as long as the limit
# is the whole gradient now, the rows of all ranks together?**

# %%
### BEGIN SOLUTION
### STUB ask("05.norm")
ask("05.norm").commit(1)  # "it has been clipped"
### END SOLUTION


# %%
def evidence_of_clip(name, found):
    _, after, cosine = found[0]
    length = rounded(after / 0.1, 2)
    print(f"{name}: {length} limits long; cosine with the true direction {rounded(cosine, 3)}")


evidence_of_clip("one rank", alone)
evidence_of_clip("four ranks", by_four)
reveal("05.norm", by_four[0][1] / 0.1, 4)

# %% tags=["nbval-ignore-output"]
clipped = {"one rank": alone[0], "four ranks": by_four[0]}
arrows = {name: (length / 0.1, cosine) for name, (_, length, cosine) in clipped.items()}
clip_arrows(arrows, title="The gradient after the team's clip")

# %% [markdown]
# The cosine says that the direction has changed as well.
#
# <!-- word: gradient clipping | also: clipping by the global norm | sentences: 2 -->
# **Gradient clipping** scales all gradients of a model by one factor if their common norm is above a limit. So one
# unusual batch cannot change the weights very much.
#
# ### Build: the clip that every rank agrees on
#
# All ranks must use the same factor. How few numbers can they send to agree on it?


# %%
@torch.no_grad()
def clip(me, shards, max_norm):
    """Scale the gradients of ``shards``, in place, so that those of all ranks together
    have norm ``max_norm`` at most. Returns what the norm was.

    ``shards`` are this rank's rows of every parameter; some have no gradient (None),
    and on some ranks none has one.
    """
    ### BEGIN SOLUTION
    gradients = [shard.grad for shard in shards if shard.grad is not None]
    squares = sum((gradient.square().sum() for gradient in gradients), torch.zeros((), device=me.device))
    dist.all_reduce(squares)
    norm = squares.sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient *= factor
    return norm
    ### END SOLUTION


# %%
clip_verdict = check("05.clip", clip)

# %%
# hint("05.clip")


# %%
def limited_job(me, clip, num_steps=4):
    model = FullySharded(me, make_model(me.device))
    shards = list(model.parameters())
    return train(me, model, torch.optim.SGD(shards, lr=1.0), num_steps, lambda: clip(me, shards, 0.1))


your_clip = clip if clip_verdict.passed else colleagues_clip
evidence_of_clip("four ranks", four.run(clipped_step, your_clip))
for ranks in (one, four):
    losses = ranks.run(limited_job, your_clip)[0]
    print(f"losses with the limit, world size {ranks.world_size}: {rounded(losses, 2)}")

# %% [markdown]
# The course's function for this is `clip_gradients(model, max_norm)`. `nn.utils.clip_grad_norm_` on shards of
# `FullySharded` raises an error that names it. With PyTorch's `fully_shard` you may call `nn.utils.clip_grad_norm_`.
# There the shards are DTensors, tensors that know that they are parts, and PyTorch adds the squares over all ranks.
#
# ## Whole for a moment
#
# To look at weights, to change one by hand, or to export a model, you sometimes need the model whole. There are two
# ways, `with unsharded(model)` and `full_state_dict()`:


# %%
def look(me):
    model = FullySharded(me, make_model(me.device))
    shard = tuple(model.module.head.w_vocab.weight.shape)
    kept_bytes = sum(parameter.nbytes for parameter in model.parameters())
    with unsharded(model) as plain:
        inside = tuple(plain.head.w_vocab.weight.shape)
        whole_bytes = sum(parameter.nbytes for parameter in plain.parameters())
    state = model.full_state_dict("cpu")  # unit by unit, each moved to the CPU at once
    same = all(torch.equal(state[name], tensor) for name, tensor in make_model().state_dict().items())
    return shard, inside, kept_bytes, whole_bytes, same


shard, inside, kept_bytes, whole_bytes, same = four.run(look)[1]
print(f"w_vocab on rank 1: {shard}; inside: {inside}")
print(f"rank 1 keeps {bytes_text(kept_bytes)}, and holds {bytes_text(whole_bytes)} more inside")
print("full_state_dict() is that of the plain model:", same)

# %% [markdown]
# Every rank has to enter `unsharded(model)`, or the others wait for it. Inside, every rank holds the whole model, so a
# model that only fits in shards does not fit there. `full_state_dict("cpu")` holds one unit at a time whole on the
# device, and the rest in the host's memory. If you change a weight inside `unsharded(model)` there is an error, because
# the shards would keep the old weight. `unsharded(model, writable=True)` writes the change into the shards.
#
# ## Never whole
#
# <!-- word: meta device | sentences: 2 -->
# Until now you made the model whole, and wrapped it. If a model needs a hundred devices, no rank can do that. The
# **meta device** is a device of PyTorch on which tensors have a shape and a dtype, and no memory. So a model of any
# size can be made and cut there.
#
# `fill_from_meta` then gives each unit its first values. It makes the unit whole, calls your function that fills it,
# cuts it, and lets it go before the next one. Every rank draws the same numbers and keeps its rows, so nothing is sent.
#
# **Our model has five units: four blocks, and one for the rest. What share of the model does each of four ranks hold at
# most, while `fill_from_meta` runs?**

# %%
### BEGIN SOLUTION
### STUB ask("05.meta")
ask("05.meta").commit(25)  # "a quarter each"
### END SOLUTION


# %%
model_bytes = sum(parameter.nbytes for parameter in make_model().parameters())


def start(me, from_meta):
    """A rank's peak, what it keeps, and its largest unit: shares of the model."""
    with MemoryLedger() as ledger:
        if from_meta:
            with torch.device("meta"):
                plain = Transformer(small)
            model = FullySharded(me, plain)
            fill_from_meta(model, lambda module: module.reset_parameters())
        else:
            model = FullySharded(me, make_model(me.device))
    kept_bytes = sum(shard.nbytes for shard in model.parameters())
    unit_bytes = sum(parameter.nbytes for parameter in make_model().blocks[0].parameters())
    return [size / model_bytes for size in (ledger.peak().total_bytes, kept_bytes, unit_bytes)]


print(f"made whole, then cut: {four.run(start, False)[1][0]:.0%} of the model at most")
reveal("05.meta", *four.run(start, True)[1])

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you save a model on four ranks and load it on other numbers of ranks.

# %% [markdown]
# ## Clinic 2: right on four ranks, wrong on two
#
# *Symptom.* A team saves what each rank keeps: one file for each rank, with its shards by name. A job on four ranks
# loads these files and goes on with the right losses. On two ranks there is no error, and every rank gets exactly as
# many numbers as it needs. But the loss is as high as that of random guesses. The team loads with this function:


# %%
def colleagues_load(files, num_ranks):
    """``files``: of each rank that saved, its shards by name.

    Returns for each rank that loads all of its numbers, in a row.
    """
    numbers = torch.cat([shard.flatten() for shards in files for shard in shards.values()])
    return numbers.chunk(num_ranks)


def saved(me):
    model = FullySharded(me, make_model(me.device))
    train(me, model, torch.optim.AdamW(model.parameters(), lr=3e-3), num_steps=15)
    return {name: shard.detach().cpu() for name, shard in model.module.named_parameters()}


def loss_after(me, load, files):
    model = FullySharded(me, make_model(me.device, seed=7))
    mine, shards = load(files, me.world_size)[me.rank], list(model.parameters())
    for shard, numbers in zip(shards, mine.split([shard.numel() for shard in shards]), strict=True):
        shard.data.copy_(numbers.view_as(shard))
    return train(me, model, torch.optim.SGD(shards, lr=0.0), num_steps=1)[0]


# %%
def print_losses(load):
    for ranks in (four, two):
        print(
            f"loss of what {ranks.world_size} ranks have loaded:",
            rounded(ranks.run(loss_after, load, files)[0], 1),
        )


files = list(four.run(saved))
print(f"chance: {rounded(torch.tensor(256.0).log(), 1)}")
print_losses(colleagues_load)

# %% [markdown]
# **Why is the loss so high on two ranks?**

# %%
### BEGIN SOLUTION
### STUB ask("05.files")
ask("05.files").commit("the optimizer's states were not saved")
### END SOLUTION

# %% [markdown]
# *Evidence.* The next cell loads two parameters of four rows, a and b. Each number shows where it belongs: the rows of
# a are 10, 11, 12, 13, and those of b are 20, 21, 22, 23.


# %%
def evidence_of_order(load):
    tagged = [{"a": torch.tensor([10 + rank]), "b": torch.tensor([20 + rank])} for rank in range(4)]
    for num_ranks in (4, 2):
        for rank, numbers in enumerate(load(tagged, num_ranks)):
            a, b = numbers.chunk(2)
            print(f"{num_ranks} ranks, rank {rank}: a is {a.tolist()}, b is {b.tolist()}")


evidence_of_order(colleagues_load)

# %%
reveal("05.files")

# %% [markdown]
# ### Mend it
#
# Your function gets the same files as the team's function, and returns numbers in the same form. It may join tensors
# before it cuts them again. The numbers of ranks divide all sizes.


# %%
def mended_load(files, num_ranks):
    """``files``: of each rank that saved, its shards by name.

    Returns for each rank that loads all of its numbers, in a row.
    """
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend those below")
    ### STUB numbers = torch.cat([shard.flatten() for shards in files for shard in shards.values()])
    ### STUB return numbers.chunk(num_ranks)
    wholes = [torch.cat([shards[name] for shards in files]) for name in files[0]]
    cut = [tensor.chunk(num_ranks) for tensor in wholes]
    return [torch.cat([rows[rank].flatten() for rows in cut]) for rank in range(num_ranks)]
    ### END SOLUTION


# %%
load_verdict = check("05.load", mended_load)

# %%
# hint("05.load")

# %%
right_load = mended_load if load_verdict.passed else colleagues_load
evidence_of_order(right_load)
print_losses(right_load)

# %% [markdown]
# When four ranks and two ranks have the same loss, your function is right. But with it every rank reads all files, the
# ranks must divide the sizes, and the optimizer's states are not saved. PyTorch has a library that solves all three
# problems.
#
# ## Saved on four, loaded on three
#
# ![Four files, each with the rows of one rank, a small file that says what lies where, and three ranks with a question
# mark between](../assets/05_files.png)
#
# <!-- word: distributed checkpoint | also: DCP, `torch.distributed.checkpoint` | sentences: 2 -->
# A **distributed checkpoint** is a folder into which every rank writes the parts that it has. A small file of metadata
# says which file holds which rows of which tensor. PyTorch's library for this is `torch.distributed.checkpoint`, DCP
# for short. A rank that loads asks for the rows that it wants.
#
# The course's `save_sharded` and `load_sharded` call DCP, and give it the rows of each shard. In the next cell four
# ranks take three steps, save, and take three more.

# %%
folder = folder_for_ranks(four)  # goes when the notebook ends
ROOT = Path(folder.name)


def begin(me, seed=0):
    model = FullySharded(me, make_model(me.device, seed))
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3)


def save_and_go_on(me, folder):
    model, optimizer = begin(me)
    train(me, model, optimizer, num_steps=3)
    save_sharded(folder, model, optimizer)
    return train(me, model, optimizer, num_steps=3)


def load_and_go_on(me, folder):
    model, optimizer = begin(me, seed=7)
    load_sharded(folder, model, optimizer)
    return train(me, model, optimizer, num_steps=3)


went_on = four.run(save_and_go_on, ROOT / "step-3")[0]
for path in sorted((ROOT / "step-3").iterdir()):
    print(path.name)

# %% [markdown]
# `__2_0.distcp` is what rank 2 wrote. Now three ranks load the folder, and each needs a third of every parameter, while
# each file has a quarter. DCP looks in the metadata which files hold a rank's rows, and reads no other file. (The next
# cell notes which files DCP reads. You need not study it.)


# %%
def files_read(me, folder):
    read, noted = dcp.FileSystemReader.read_data, set()

    def read_and_note(reader, plan, planner):
        noted.update(reader.storage_data[item.storage_index].relative_path for item in plan.items)
        return read(reader, plan, planner)

    with patch.object(dcp.FileSystemReader, "read_data", read_and_note):
        load_sharded(folder, begin(me)[0])
    return sorted(noted)


read = three.run(files_read, ROOT / "step-3")
for rank, names in enumerate(read):
    print(f"rank {rank} of three reads {names}")

# %%
readers = {
    name: {f"rank {rank}": 1 for rank in range(3) if name in read[rank]}
    for name in sorted(set().union(*read))
}
flow_chart(readers, title="Four files above, the three ranks that read them below")

# %% [markdown]
# The next cell tries whether other numbers of ranks go on as the four ranks did. The cell after it loads the checkpoint
# into the plain model, in the notebook's own process:

# %%
for ranks in (four, three, two, one):
    losses = ranks.run(load_and_go_on, ROOT / "step-3")[0]
    alike = agree(losses, went_on, within=1e-4)
    print(f"loaded on {ranks.world_size}: the losses of the next 3 steps, equal to within 1e-4: {alike}")

# %%
import warnings

plain = make_model(seed=9)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the warning that there is no process group
    dcp.load({"model": plain.state_dict()}, checkpoint_id=ROOT / "step-3", no_dist=True)
loss = rounded(next_token_loss(plain(X), Y), 2)
print(f"the plain model's loss: {loss}; the ranks went on from {rounded(went_on[0], 2)}")

# %% [markdown]
# The losses are equal only to within 1e-4: another number of ranks adds the same floats in another order.
#
# What if a rank dies while it saves? Rank 2 is killed when it is about to write its file:


# %%
def save_and_die(me, folder):
    model, optimizer = begin(me)
    train(me, model, optimizer, num_steps=6)
    if me.rank == 2:
        dcp.FileSystemWriter.write_data = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    save_sharded(folder, model, optimizer)


# %% tags=["nbval-ignore-output"]
try:
    four.run(save_and_die, ROOT / "step-6")
except RankError as error:
    print(str(error).splitlines()[0])
print("in step-6:", sorted(path.name for path in (ROOT / "step-6").iterdir()))

# %%
newest = newest_checkpoint(ROOT)
print("the newest that is complete:", newest.name)
print("four ranks go on from it as before, to the last bit:", four.run(load_and_go_on, newest)[0] == went_on)

# %% [markdown]
# `.metadata` is missing: DCP writes this file last, after all ranks have written theirs. A folder without it is no
# checkpoint, and `load_sharded` says so. So save into a new folder each time, and remove the old one afterwards.
# (`start_save_sharded` saves while training goes on. It calls DCP's `async_save`, which copies the shards to the host's
# memory and returns before they are written.)
#
# ## Clinic 3: wrapped piece by piece
#
# ![A stem, blocks and a head, each in a wrapper of its own; the stem and the head point at one matrix with a question
# mark](../assets/05_tied.png)
#
# *Symptom.* A team gives each piece of a transformer a wrapper of its own: the stem, every block, the head. In their
# model the stem and the head use one matrix: the stem looks tokens up in it, and the head scores tokens with it. This
# weight is *tied* (`tied=True`). There is no error. The first loss is that of one device, and the later losses are not.
# **Why do the ranks train another model?**

# %%
### BEGIN SOLUTION
### STUB ask("05.tied")
ask("05.tied").commit("the head is gathered before the stem has stepped")
### END SOLUTION

# %% [markdown]
# *Evidence.* The next cells print the losses and how many numbers the ranks train together. They also print the largest
# difference between the stem's matrix and the head's matrix at the end.


# %%
def piece_by_piece(me):
    model = make_model(me.device, tied=True)
    model.stem, model.head = FullySharded(me, model.stem), FullySharded(me, model.head)
    model.blocks = nn.ModuleList(FullySharded(me, block) for block in model.blocks)
    return model


def in_one_piece(me):
    return make_model(me.device, tied=True)


def tied_job(me, wrap):
    model = wrap(me)
    losses = train(me, model, torch.optim.SGD(model.parameters(), lr=0.1), num_steps=4)
    weights = dict(model.named_parameters(remove_duplicate=False))
    looked_up, scored = (next(w for name, w in weights.items() if key in name) for key in ("tokens", "vocab"))
    num_trained = sum(parameter.numel() for parameter in model.parameters())
    return losses, num_trained, (looked_up - scored).abs().max().item()


# %%
def evidence_of_tied(name, ranks, wrap):
    run = ranks.run(tied_job, wrap)
    apart = max(found[2] for found in run)
    print(f"{name:<15} losses {rounded(run[0][0], 1)},", end=" ")
    print(f"{sum(found[1] for found in run):,} numbers trained, matrices apart by {rounded(apart, 3)}")


evidence_of_tied("one device", one, in_one_piece)
evidence_of_tied("piece by piece", two, piece_by_piece)

# %%
reveal("05.tied")

# %% [markdown]
# Do libraries notice this? The next cells make the same pieces units of `fully_shard`, which changes modules in place,
# and units of the course's `FullySharded`:


# %%
def by_fully_shard(me, units):
    model = make_model(me.device, tied=True)
    for unit in units(model):
        fully_shard(unit)
    fully_shard(model)  # what is left, and the whole: last
    return train(me, model, torch.optim.SGD(model.parameters(), lr=0.1), num_steps=4)


def by_the_course(me, units):
    model = make_model(me.device, tied=True)
    model = FullySharded(me, model, units=units(model))
    return train(me, model, torch.optim.SGD(model.parameters(), lr=0.1), num_steps=4)


def colleagues_units(model):
    return [model.stem, model.head, *model.blocks]


# %% tags=["nbval-ignore-output"]
for library in (by_fully_shard, by_the_course):
    try:
        two.run(library, colleagues_units)
    except RankError as error:
        print(f"{library.__name__}: {str(error).splitlines()[0]}\n")

# %% [markdown]
# Both raise an error: the course's when you wrap the model, PyTorch's at the first forward pass. Both errors say what
# to do.
#
# <details>
# <summary>An aside: since when</summary>
#
# PyTorch has raised this error since torch 2.13.
#
# </details>
#
# ### Mend it


# %%
def mended_units(model):
    """Units of a tied transformer: a list of modules is one unit."""
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend the one below")
    ### STUB return [model.stem, model.head, *model.blocks]
    return [[model.stem, model.head], *model.blocks]
    ### END SOLUTION


# %%
wrapped_verdict = check("05.wrapped", mended_units)

# %%
# hint("05.wrapped")

# %%
right_units = mended_units if wrapped_verdict.passed else colleagues_units
on_one_device = one.run(tied_job, in_one_piece)[0][0]
for library in (by_fully_shard, by_the_course):
    try:
        losses = two.run(library, right_units)[0]
        alike = agree(losses, on_one_device, within=1e-4)
        print(f"{library.__name__}: the losses of one device, to within 1e-4: {alike}")
    except RankError:
        print(f"{library.__name__} refuses")

# %% [markdown]
# The mended units have a price: stem and head are gathered together, so each is whole whenever the other one computes.
#
# ## In production
#
# You have just seen `fully_shard`. The next cells train the model of this part with both libraries, and with the
# settings of part 4:


# %%
def by_torch(me, hybrid=False, **settings):
    if hybrid:
        axes = {"mesh_shape": (2, 2), "mesh_dim_names": ("replicate", "shard")}
        settings["mesh"] = init_device_mesh(me.device.type, **axes)
    model = make_model(me.device)
    for block in model.blocks:
        fully_shard(block, **settings)
    return fully_shard(model, **settings)


def by_us(me):
    return FullySharded(me, make_model(me.device))


def steps_of(me, make, num_steps, **settings):
    model = make(me, **settings)
    return train(me, model, torch.optim.AdamW(model.parameters(), lr=3e-3), num_steps)


# %%
mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
ways = {
    "the course": (by_us, {}),
    "fully_shard": (by_torch, {}),
    "reshard_after_forward=False": (by_torch, {"reshard_after_forward": False}),
    "param_dtype=bfloat16": (by_torch, {"mp_policy": mixed}),
    "a mesh of 2 x 2": (by_torch, {"hybrid": True}),
}

# %%
results = {}
for name, (make, settings) in ways.items():
    run = metered(four, steps_of, make, num_steps=3, **settings)
    results[name], calls = run[0], run.communication.of(0, operation="all_gather").calls
    loss = rounded(results[name][-1], 1, apart=3e-3)  # one computes in bfloat16
    print(f"{name:<28} loss {loss}; in a step {len(calls) // 3} all-gathers")
alike = agree(results["the course"], results["fully_shard"], within=1e-5)
print("the course and fully_shard, losses equal to within 1e-5:", alike)

# %% [markdown]
# The course gathers each of its five units twice. PyTorch makes one all-gather less: by default it keeps the outermost
# unit whole after forward, since backward needs that unit first.
#
# The mesh of two axes is hybrid sharding: replicas along the first, shards along the second. On a cluster you would
# write `init_device_mesh("cuda", (num_nodes, 8), mesh_dim_names=("replicate", "shard"))`.
#
# Both libraries save with each shard which rows it has, so each can load the other's checkpoints. In the next cell two
# ranks of `fully_shard` load what four ranks of `FullySharded` have saved:


# %%
def torch_loads_ours(me, folder):
    model = by_torch(me)
    dcp.load({"model": model.state_dict()}, checkpoint_id=folder)  # into the shards themselves
    return train(me, model, torch.optim.SGD(model.parameters(), lr=0.0), num_steps=1)[0]


loaded = two.run(torch_loads_ours, ROOT / "step-3")[0]
print("the loss with which the course went on, to within 1e-5:", agree(loaded, went_on[0], within=1e-5))

# %% [markdown]
# | you wrote or used | PyTorch | DeepSpeed calls it |
# |---|---|---|
# | `ShardedAdamW` | `ZeroRedundancyOptimizer` | `"zero_optimization": {"stage": 1}` |
# | `ShardedOptimizer(..., stage=2)` | nearest: `reshard_after_forward=False` | `"stage": 2` |
# | `ShardedLinear`, `FullySharded` | `fully_shard(unit)` from the inside out | `"stage": 3` |
# | `reshard_after_forward=8` | the same | hpZ: `zero_hpz_partition_size` |
# | `group`, `replicas` | a mesh of two axes (HSDP) | MiCS: `mics_shard_size` |
# | `compute_dtype` | `MixedPrecisionPolicy(param_dtype=...)` | `"bf16"` |
# | `reduce_dtype` | `MixedPrecisionPolicy(reduce_dtype=...)` | `communication_data_type` |
# | `no_sync()` | `model.set_requires_gradient_sync(False)` | `gradient_accumulation_steps` |
# | `clip` | `nn.utils.clip_grad_norm_`, of DTensors | `gradient_clipping` |
# | `unsharded(model)` | `parameter.full_tensor()`, `unit.unshard()` | `zero.GatheredParameters` |
# | `full_state_dict("cpu")` | `get_model_state_dict` with `StateDictOptions` | `zero_to_fp32.py` |
# | `fill_from_meta` | `torch.device("meta")`, `to_empty`, and your own initialisation | `zero.Init` |
# | `save_sharded` | `torch.distributed.checkpoint` | universal checkpoints |
#
# In a project of your own, use `fully_shard`. It is part of PyTorch, the rest of PyTorch can use its shards, which are
# DTensors, and TorchTitan (see further reading) is built on it.
#
# ### A program to take home
#
# `course_lib/examples/train_fsdp` is a whole program: a transformer on your text, on a laptop or on many machines. It
# needs torch, and nothing from this course. In a terminal, from the course's folder:
#
# ```
# mkdir -p ~/my_project && cp -r course_lib/examples/train_fsdp ~/my_project/
# cd ~/my_project
# python -m train_fsdp --out runs/1     # one process
# torchrun --standalone --nproc-per-node 2 -m train_fsdp --out runs/2     # two
# ```
#
# (The two commands run on GPUs where there are some, else on the CPU. Use the Python of the course, whose environment
# is `.venv`, or any other with torch 2.11 or newer.)
#
# Stop the second one by Ctrl-C: it says `Saved`, and then torchrun prints a traceback of its own. Start it again with
# `--nproc-per-node 1`: it goes on where it was. You know every idea in this program. Read one of its functions, and
# answer a question: *what breaks if its last line comes before the loop?*

# %%
from course_lib.examples.train_fsdp import shards

import inspect

print(inspect.getsource(shards.shard))

# %% [markdown]
# Then the call for the root makes *all* parameters one unit, and none are left for the blocks. The PyTorch of this
# course ends with a TypeError that does not say so. So call `fully_shard` for the inner modules first: each call takes
# the parameters that no earlier call has taken.
#
# ## Three sentences, tried
#
# Part 1 asked you about a sentence of article D, in the course's words: *data parallelism combines several GPUs into
# one with more memory.* You have measured much since then. **What is your verdict now?**

# %%
### BEGIN SOLUTION
### STUB ask("05.d2")
ask("05.d2").commit("holds with conditions")
### END SOLUTION

# %%
evidence = trial("D2").run()
print(evidence)
reveal("05.d2", evidence)

# %% [markdown]
# Two more, from articles A and E. Decide before you run the cell: does each hold, hold with conditions, mislead, or is
# it false?
#
# - A3: model parallelism is necessary when the model does not fit on one device.
# - E1: data, model and tensor parallelism are the three main strategies. (The second cuts between layers, the third
#   inside them.)

# %%
for name in ("A3", "E1"):
    print(name, trial(name).run())

# %% [markdown]
# ## Five questions

# %% tags=["computed-time"]
quiz("05")

# %% [markdown]
# ## What you can do now
#
# You can share out optimizer states, gradients and weights over data-parallel ranks, and say what each stage saves and
# sends. You can choose units, hide all-gathers, and place shards and replicas on links. You can clip by the norm of the
# whole gradient, keep tied weights in one unit, and start a model that no device could hold. You can save it so that
# any number of ranks can go on.
#
# **The limit.** Sharding shares out what is *kept*, and not what is computed. Every rank still computes every layer on
# its own samples. So one unit has to fit whole on one device, with its gradients and what it keeps for backward. And
# the batch needs a sample for each rank. Lesson 06 cuts between layers, and lesson 08 inside them.
#
# **Further reading.** Rajbhandari et al., [ZeRO](https://arxiv.org/abs/1910.02054) (2020), section 5: the three stages;
# section 7: what they send. Zhao et al., [PyTorch FSDP](https://arxiv.org/abs/2304.11277) (2023): units, prefetch and
# hybrid sharding, and how they were made fast. Liang et al., [TorchTitan](https://arxiv.org/abs/2410.06511) (2024):
# `fully_shard` with everything around it. Zhang et al., [MiCS](https://arxiv.org/abs/2205.00119) (2022): shards within
# a small group. Keller Jordan, [Muon](https://kellerjordan.github.io/posts/muon/) (2024): the optimizer of part 3 that
# needs whole matrices. PyTorch's [tutorial of
# `fully_shard`](https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html).

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. The next cell shows problems of the size of real jobs, on real chips,
# for a pencil and a calculator. The answer to each is one number; it may be off by 5 %. You get numbers of your own,
# and new ones for each further try. When a problem is over, you see its solution step by step, and where each constant
# comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("05")
problems("05", ways=True)
### END SOLUTION
