# %% [markdown]
# # 09c · Meshes: one norm, one checkpoint
#
# On a mesh a rank holds parts of some weights and copies of others. Two things need the whole model: the norm of its
# gradient, and a checkpoint. You find faults there that raise no error. You write a norm that is right on every mesh,
# and load a model on another mesh than the one that saved it.
#
# **2 × 40 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 3 of 5 · [1: places and links](09a_meshes.ipynb) · [2: who holds what](09b_who_holds_what.ipynb) · [4: three
# cuts at once](09d_three_cuts.ipynb) · [5: build a training step on a mesh](09e_build_on_a_mesh.ipynb)
#
# This part builds on [09a: places and links](09a_meshes.ipynb) and [09b: who holds what](09b_who_holds_what.ipynb).
# Have you done them? `from course_lib import start; start("09c")` says whether you have.
#
# At the end you can
#
# - compute the norm of a gradient that lies in parts and copies on a mesh, and clip by it, while each rank sends one
#   number;
# - say which rank counts a weight that several ranks hold, also at both ends of a pipeline;
# - save on one mesh and continue on another, and say what belongs in the folder besides the weights.
#
# From the earlier parts you need `Mesh` with its `coordinates`, and the rule that says which rank holds what. `pp`
# gives each stage its layers, `tp` cuts matrices, `dp_shard` cuts the rows that remain, and `dp_replicate` copies.
# `OnMesh` does all of this to a model.

# %%
from course_lib import ask, check, hint, reveal, shared_cluster
from course_lib.cluster import folder_for_ranks
from course_lib.data import documentation_windows, loader
from course_lib.layouts import Mesh
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.data import GlobalBatches
from course_lib.parallel.mesh import DataShare, OnMesh, boxes_of, gradient_norm, load_on_mesh, save_on_mesh
from course_lib.parallel.tensor import Shard, parameter_placements
from course_lib.plot import mesh_places, who_holds
from course_lib.rounding import agree, rounded

import warnings
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn

# %% tags=["nbval-ignore-output"]
four, one = shared_cluster(4), shared_cluster(1)

# %%
small = TransformerConfig(vocab_size=256, context_length=32, num_layers=2, width=64, num_heads=4)
BATCHES = list(islice(loader(documentation_windows(32)[0], 8), 8))  # of 8 windows of text each


def make_model(seed=0, **settings):
    torch.manual_seed(seed)
    return Transformer(replace(small, **settings)).double()  # float64: equal losses agree in more digits


def train(model, optimizer, batches, before_step=None):
    """The loss before each step, the same on all ranks."""
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        losses.append(model.step(*model.data.deal(*batch)).item())  # deal: this rank's rows
        if before_step is not None:
            before_step(model)
        optimizer.step()
    return losses


# %% [markdown]
# The next cell defines the same training on one device, with PyTorch's own clip. All runs are compared with it:


# %%
def alone(batches, max_norm=1e9, **settings):
    """Losses, and the norm of the first gradient, of the plain model on one device."""
    model, losses, norms = make_model(**settings), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for x, y in batches:
        optimizer.zero_grad()
        loss = next_token_loss(model(x), y)
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms[0]


# %% [markdown]
# ## Clinic: a limit that limits too much
#
# *Symptom.* A team has trained on `dp_shard=4`, and limits its gradients as you did in lesson 05. Every rank adds up
# the squares of its gradients, one all-reduce adds those sums, and all ranks scale by one factor. Now it moves to
# `dp_replicate=2 tp=2`. Without the limit four ranks have the losses of one device. With the limit there is no error
# either, but the loss falls more slowly than on one device. All ranks call these functions:


# %%
@torch.no_grad()
def colleagues_norm(model):
    """As in lesson 05: the squares of this rank's gradients, summed over all ranks, and the root of that sum."""
    square = sum(parameter.grad.square().sum() for parameter in model.parameters())
    dist.all_reduce(square)
    return square.sqrt()


@torch.no_grad()
def clip(model, max_norm, norm_of):
    """Scale gradients, in place, by one factor. Returns the norm before, and the factor."""
    norm = norm_of(model)
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for parameter in model.parameters():
        parameter.grad *= factor
    return norm.item(), factor.item()


# %%
def limited_job(me, mesh, norm_of, max_norm, num_steps=3):
    """The losses of some steps, and the norm and the factor of the first one."""
    model, told = OnMesh(me, mesh, make_model()), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    batches = BATCHES[:num_steps]
    losses = train(model, optimizer, batches, lambda model: told.append(clip(model, max_norm, norm_of)))
    model.close()
    return losses, *told[0]


replicas = Mesh.of(dp_replicate=2, tp=2)
for limit, max_norm in (("no limit", 1e9), ("limit 0.5", 0.5)):
    right_losses, right_norm = alone(BATCHES[:3], max_norm)
    by_team = four.run(limited_job, replicas, colleagues_norm, max_norm)
    print(f"{limit:<10} one device {rounded(right_losses, 2, apart=1e-5)},", end=" ")
    print(f"four ranks {rounded(by_team[0][0], 2, apart=1e-5)}")

# %% [markdown]
# *Evidence.* The next cell prints what the first call returned on each rank, and by which factor the rank scaled. Its
# first line has both for one device:

# %%
print(f"one device: norm {rounded(right_norm, 2)}, factor {rounded(0.5 / right_norm, 3)}")
for rank, (_, norm, factor) in enumerate(by_team):
    print(f"rank {rank}:     norm {rounded(norm, 2)}, factor {rounded(factor, 3)}")

# %% [markdown]
# **What is wrong?**

# %%
### BEGIN SOLUTION
### STUB ask("09.short")
ask("09.short").commit("each rank scales by a factor of its own")  # that was lesson 05's fault
### END SOLUTION

# %%
reveal("09.short")

# %% [markdown]
# The team moves on to `dp_shard=2 tp=2`. The weights are sharded again, as on `dp_shard=4`, where the clip was right.
# The team does not change the clip. **Does the clip compute the model's norm there?**

# %%
### BEGIN SOLUTION
### STUB ask("09.hidden")
ask("09.hidden").commit("right")  # "shards: nothing is there twice"
### END SOLUTION


# %%
plain = make_model()
next_token_loss(plain(BATCHES[0][0]), BATCHES[0][1]).backward()
uncut = [p.grad for name, p in plain.named_parameters() if "norm" in name or "positions" in name]
uncut_norm = nn.utils.get_total_norm(uncut).item()

for mesh in ("dp_shard=4", "tp=4", "dp_shard=2 tp=2"):
    _, norm, _ = four.run(limited_job, Mesh.parse(mesh), colleagues_norm, 0.5, num_steps=1)[0]
    print(f"{mesh:<16} the team's norm {rounded(norm, 2)}, the model's {rounded(right_norm, 2)}")
reveal("09.hidden", norm, right_norm, uncut_norm)

# %% [markdown]
# ### Build: one norm on any mesh
#
# ![Two weights on the four ranks of a mesh, dp_shard=2 tp=2: each rank has a quarter of a matrix and half of a vector.
# The quarters are all different; which halves are alike, the picture leaves to you](../assets/09_counted.png)
#
# A function can be right on every mesh if it knows, for each gradient, which axes *cut* it. Along the axes in `cut_by`
# ranks hold different parts; along the mesh's other axes they hold copies, equal to the last bit. No rank may ask
# another which of them counts a gradient: that follows from the rank's place.


# %%
def mesh_norm(me, mesh, gradients):
    """The norm of the whole model's gradient: a 0-d tensor of float64, the same on every rank.

    ``gradients`` is what this rank has, a list of pairs ``(gradient, cut_by)``: a tensor, or None
    where there is no gradient, and a tuple of axes. Lists of different stages may differ in length.
    Sums are made in float64. A rank sends one number, however many gradients there are.
    """
    ### BEGIN SOLUTION
    here = mesh.coordinates(me.rank)
    square = torch.zeros((), dtype=torch.float64, device=me.device)
    for gradient, cut_by in gradients:
        copied_along = [axis for axis in mesh.axes if axis not in cut_by]
        is_first = all(here[axis] == 0 for axis in copied_along)
        if gradient is not None and is_first:
            square += gradient.double().square().sum()
    dist.all_reduce(square)
    return square.sqrt()
    ### END SOLUTION


# %%
norm_verdict = check("09.norm", mesh_norm)

# %%
# hint("09.norm")

# %% [markdown]
# Now try it with a real model. `pp` and `dp_shard` cut every weight, `tp` cuts the weights of the layers that it
# splits, and `dp_replicate` cuts none.


# %%
def gradients_of(model):
    """What this rank has of the gradient: pairs of a gradient and the axes that cut it."""
    found = []
    for module in model.modules:
        placements = parameter_placements(module)  # of lesson 08
        for name, parameter in module.named_parameters():
            cut_by = {"pp", "dp_shard"} | ({"tp"} if isinstance(placements[name], Shard) else set())
            found.append((parameter.grad, tuple(axis for axis in model.mesh.axes if axis in cut_by)))
    return found


def your_norm(model):
    return mesh_norm(model.me, model.mesh, gradients_of(model))


norm_of = your_norm if norm_verdict.passed else colleagues_norm

# %%
for mesh in ("dp_replicate=2 tp=2", "dp_shard=2 tp=2", "pp=2 tp=2", "pp=2 dp_shard=2"):
    losses, norm, _ = four.run(limited_job, Mesh.parse(mesh), norm_of, 0.5, num_steps=2)[0]
    alike = agree(losses, right_losses[:2], within=1e-9)
    print(f"{mesh:<20} norm {rounded(norm, 2)}; the losses of one device, to within 1e-9: {alike}")

# %% [markdown]
# When all four lines say `True`, these meshes do what `clip_grad_norm_` does on one device. One number from each rank
# is very little beside a step's other messages. But the norm costs a wait: no rank can scale before the slowest one has
# its last gradient.
#
# Which halves of the vector in the picture were equal? In the next picture two ranks in one tile hold the same numbers,
# and one of the two counts them:

# %%
who_holds(small, Mesh.of(dp_shard=2, tp=2), "blocks.0.norm1.weight")

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting two stages share a matrix, and a job goes on where it was stopped.

# %% [markdown]
# ## A weight at both ends
#
# In a model with a *tied* embedding one matrix looks tokens up in the first stage and scores them in the last. On `pp=2
# tp=2` both stages keep it, each in slices. A team counts by names. Each parameter is counted by the first rank that
# holds it *under that name*: `stem.tokens.weight` at one end, `head.w_vocab.weight` at the other. (`boxes_of` of part 2
# marks this rank with `is_first`.) **Is that norm right?**

# %%
### BEGIN SOLUTION
### STUB ask("09.ends")
ask("09.ends").commit("right")  # "each end has its part of the gradient"
### END SOLUTION


# %%
@torch.no_grad()
def norm_by_names(model):
    square = torch.zeros((), dtype=torch.float64, device=model.me.device)
    for box in boxes_of(model):
        if box.is_first:
            square += box.parameter.grad.square().sum()
    dist.all_reduce(square)
    return square.sqrt()


def tied_norm(me, mesh, norm_of):
    model = OnMesh(me, mesh, make_model(tied=True))
    model.step(*model.data.deal(*BATCHES[0]))
    norm = norm_of(model).item()
    model.close()
    return norm


stages, tied_right = Mesh.of(pp=2, tp=2), alone(BATCHES[:1], tied=True)[1]
by_names = four.run(tied_norm, stages, norm_by_names)[0]
print(f"one device {rounded(tied_right, 2)}, by names {rounded(by_names, 2)}")

# %%
reveal("09.ends", by_names, tied_right)

# %% [markdown]
# So for your function a tied weight is one that `pp` does not cut: here its `cut_by` is `("tp",)`. With more than two
# stages, those in the middle hold nothing of it. If the rank at place 0 counts in your function, that is still right:
# the first stage has the weight. A function that divides by the number of copies has to know that there are two. The
# course's `gradient_norm` counts a tied weight under its first name alone:

# %%
by_course = four.run(tied_norm, stages, gradient_norm)[0]
print(f"one device {rounded(tied_right, 2)}, gradient_norm {rounded(by_course, 2)}")
print("equal to within 1e-9:", agree(by_course, tied_right, within=1e-9))

# %% [markdown]
# <details>
# <summary>In production</summary>
#
# Megatron-Core leaves two kinds of weights out of a rank's sum. One kind is a copy along tp;
# `param_is_not_tensor_parallel_duplicate` finds it. The other is the second end of a tied embedding;
# `param_is_not_shared` finds it. With DTensors of one mesh, placements say what is a copy, and
# `torch.nn.utils.get_total_norm` takes them into account. The stages of a pipeline are not an axis of a DTensor, so
# torchtitan then adds squares over `pp` itself.
#
# </details>
#
# ## One checkpoint for all meshes
#
# ![Four ranks of a mesh, dp_replicate=2 tp=2, each with a half of a model, around a folder. Which of them write, and
# how much, is left open; a plain model and a mesh dp_shard=4 want to read](../assets/09_folder.png)
#
# For a norm, one rank has to count each number; for a checkpoint, one rank has to write it. `save_on_mesh` uses
# `torch.distributed.checkpoint`, DCP, as in lesson 05. Each rank says which box of which weight it holds, for the
# weights and for the optimizer's states.
#
# Take `dp_replicate=2 tp=2` again. Every rank holds half of the model (and a little more), with AdamW's states of that
# half. The job trains six steps and saves. **How many times as large as the model's weights is the folder?**

# %%
### BEGIN SOLUTION
### STUB ask("09.folder")
ask("09.folder").commit(6)  # "four ranks, each with half of weights and two moments"
### END SOLUTION


# %%
def begin(me, mesh, seed=0):
    model = OnMesh(me, mesh, make_model(seed))
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3)


def save_and_go_on(me, mesh, folder):
    model, optimizer = begin(me, mesh)
    train(model, optimizer, BATCHES[:6])
    save_on_mesh(folder, model, optimizer)
    losses = train(model, optimizer, BATCHES[6:])
    model.close()
    return losses


# %%
temporary = folder_for_ranks(four)  # goes when the notebook ends
FOLDER = Path(temporary.name) / "step-6"
went_on = four.run(save_and_go_on, replicas, FOLDER)[0]

weight_bytes = sum(parameter.nbytes for parameter in make_model().parameters())
sizes = {path.name: path.stat().st_size for path in sorted(FOLDER.iterdir())}
for name, size_bytes in sizes.items():
    print(f"{name:<14} {size_bytes / weight_bytes:.2f} times the weights")
reveal("09.folder", sum(sizes.values()), weight_bytes)

# %%
wrote = {rank: f"{sizes[f'__{rank}_0.distcp'] / weight_bytes:.2f} x the weights" for rank in range(4)}
mesh_places(replicas, wrote, title="What each rank has written")

# %% [markdown]
# (Only the first rank that holds a box hands its states to DCP, so ranks 0 and 1 write more. All ranks hand in their
# weights, and DCP chooses which rank writes them.)
#
# <!-- word: resharding | also: load-time resharding | sentences: 2 -->
# **Resharding** is to load a checkpoint on another mesh than the one that wrote it. Each rank asks for the boxes that
# it holds now, and reads them from all files that have pieces of them.
#
# Four jobs continue from the folder: on `pp=2 tp=2`, on `dp_shard=4`, on a single rank, and once more on `dp_shard=4`,
# but with the weights alone. All four begin with random weights, read the folder, and take two steps on the next
# batches. The next cell compares them with the job that saved and continued. **Which of the four has a *first* loss
# that differs from that of this job?**

# %%
### BEGIN SOLUTION
### STUB ask("09.resumed")
ask("09.resumed").commit("that of the job without optimizer states")
### END SOLUTION


# %%
def resume(me, mesh, folder, with_states):
    model, optimizer = begin(me, mesh, seed=7)
    load_on_mesh(folder, model, optimizer if with_states else None)
    losses = train(model, optimizer, BATCHES[6:])
    model.close()
    return losses


ways = [("pp=2 tp=2", True), ("dp_shard=4", True), ("tp=1", True), ("dp_shard=4", False)]
resumed = []
print(f"{'went on':<26} {rounded(went_on, 2)}")
for mesh, with_states in ways:
    ranks = one if mesh == "tp=1" else four
    resumed.append(ranks.run(resume, Mesh.parse(mesh), FOLDER, with_states)[0])
    label = mesh if with_states else f"{mesh}, weights alone"
    alike = [agree(got, right, within=1e-9) for got, right in zip(resumed[-1], went_on, strict=True)]
    print(f"{label:<26} {rounded(resumed[-1], 2)}, equal to within 1e-9: {alike}")

# %%
reveal("09.resumed", went_on, resumed)

# %% [markdown]
# The plain model can read the same folder, in the notebook's own process, without a mesh and without ranks:

# %%
plain = make_model(seed=9)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns that there is no process group
    dcp.load({"model": plain.state_dict()}, checkpoint_id=FOLDER, no_dist=True)
x, y = BATCHES[6]
loss = next_token_loss(plain(x), y)
print(f"the plain model's loss: {rounded(loss, 2)}; the ranks went on from {rounded(went_on[0], 2)}")
print("equal to within 1e-9:", agree(loss, went_on[0], within=1e-9))

# %% [markdown]
# ## The position in the data
#
# Weights and states belong to the model; the position in the data belongs to the *job*. A team lets every rank save how
# many windows it was given. After six batches of 8 on `dp_replicate=2 tp=2` the job continues on `dp_shard=4`. There
# each rank's sampler leaves out as many windows as that rank has had. There are four ranks before and four ranks after.
# **How many windows does no rank ever see?**

# %%
### BEGIN SOLUTION
### STUB ask("09.skipped")
ask("09.skipped").commit(0)  # "four ranks, and four ranks"
### END SOLUTION


# %%
def windows_of(mesh, rank):
    """The windows that a rank of a mesh is given; 400 are dealt out in batches of 8, not shuffled."""
    share = DataShare.of(mesh, rank)
    options = {"global_batch_size": 8, "shuffle": False}
    dealt = GlobalBatches(400, rank=share.dp_rank, world_size=share.count, **options)
    return [window for batch in dealt for window in batch]


shards, seen = Mesh.of(dp_shard=4), set()
old_share, new_share = DataShare.of(replicas, 0).count, DataShare.of(shards, 0).count
num_had = 6 * 8 // old_share  # what each rank has saved
for rank in range(4):
    had, goes_on = windows_of(replicas, rank)[:num_had], windows_of(shards, rank)[num_had:]
    print(f"rank {rank} had {num_had} windows, the last was {had[-1]}; it goes on with window {goes_on[0]}")
    seen.update(had, goes_on)
reveal("09.skipped", 400 - len(seen), 6, 8, old_share, new_share)

# %% [markdown]
# On a mesh with fewer shares, such as `tp=4`, the opposite happens: windows come twice. One count of whole batches for
# the job fits every mesh: `GlobalBatches(..., start=6)`, as in lesson 04. Only dropout needs new random numbers, and
# `seed_of` of part 2 gives every rank of any mesh its seed. On another mesh the random numbers differ. So with dropout
# a job trains on as well as before, but its losses are not equal bit by bit.
#
# So besides weights and states the folder should hold the step, the data's position, the seed and the learning rate's
# schedule. The mesh itself belongs there too, for the log. A job that loads does not need it.
#
# ## What you can do now
#
# You can write a norm that is right on every mesh, and clip by it. You can say which rank counts a weight at both ends
# of a pipeline. You have seen a fault that is too small to show in a curve of losses. You can save once and continue on
# any mesh, and test that by more than one loss. You let the job, and not its ranks, save the position in the data.
#
# **What is missing**: you have used `OnMesh`, and not written it. In [part 4](09d_three_cuts.ipynb) you build such a
# class.
#
# ## Another day: the mesh, turned around
#
# This clinic takes some fifteen minutes more, and nothing later needs it.
#
# *Symptom.* Another team does not use DCP. Each rank saves its own `state_dict` to a file with its number, and reads
# that file when it restarts. For months this works on `dp_shard=2 tp=2`. Then somebody turns the mesh around, to `tp=2
# dp_shard=2`, because in this job the other axis needs the fast link. Ranks, sizes and files stay the same. Every name
# is found, every shape fits, and no error is raised.


# %%
def save_by_rank(me, mesh, folder, files):
    model, _ = begin(me, mesh, seed=7)
    load_on_mesh(folder, model)  # what was trained above, cut for this mesh
    state = {name: p.detach() for module in model.modules for name, p in module.named_parameters()}
    torch.save(state, files / f"rank{me.rank}.pt")
    model.close()


def loss_of_files(me, old, new, files, file_of):
    model, _ = begin(me, new, seed=7)
    state = torch.load(files / f"rank{file_of(me.rank, old, new)}.pt")
    with torch.no_grad():
        for module in model.modules:
            for name, parameter in module.named_parameters():
                parameter.copy_(state.pop(name))  # raises if a name or a shape differs
    loss = model.step(*model.data.deal(*BATCHES[6])).item()
    model.close()
    return loss


def colleagues_file(rank, old, new):
    """The number of the file that this rank reads."""
    return rank


# %%
files = Path(temporary.name)
old, new = Mesh.of(dp_shard=2, tp=2), Mesh.of(tp=2, dp_shard=2)
four.run(save_by_rank, old, FOLDER, files)


def print_losses(file_of):
    print(f"chance {rounded(torch.tensor(256.0).log(), 2, apart=1e-6)}; saved with {rounded(went_on[0], 2)}")
    for mesh in (old, new):
        loss = four.run(loss_of_files, old, mesh, files, file_of)[0]
        print(f"loaded on {mesh}: {rounded(loss, 2)}")


print_losses(colleagues_file)

# %% [markdown]
# *Evidence.* Here are the rows that each rank holds of one matrix, `w_up` of the first block, on both meshes:


# %%
def rows_held(me, mesh):
    model, _ = begin(me, mesh)
    box = next(box for box in boxes_of(model) if box.name == "blocks.0.mlp.w_up.weight")
    model.close()
    return box.offsets[0], box.offsets[0] + box.sizes[0] - 1


for mesh in (old, new):
    held = [f"{first:>3} to {last:>3}" for first, last in four.run(rows_held, mesh)]
    print(f"{mesh!s:<16} rank 0: {held[0]}; 1: {held[1]}; 2: {held[2]}; 3: {held[3]}")

# %% [markdown]
# Compare ranks 1 and 2 on the two meshes: each has read the file that the other needs. Both axes have two places, so
# every box is as large as before and every name fits. So no check could raise an error. The number in a file's name
# says which rank wrote it, and not which rows are in it.
#
# ### Mend it
#
# ![Four files, rank0.pt to rank3.pt. On the left the mesh that wrote them, with each rank at its place along dp_shard
# and tp; on the right the mesh that reads, where places have no ranks yet](../assets/09_turned.png)
#
# Change one line: which file does this rank read? A mesh knows the place of a rank, `mesh.coordinates(rank)`, and the
# rank at a place, `mesh.rank_at(dp_shard=1, tp=0)`.


# %%
def mended_file(rank, old, new):
    """The number of the file that this rank of the new mesh reads; the old mesh wrote it."""
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend the one below")
    ### STUB return rank
    return old.rank_at(**new.coordinates(rank))
    ### END SOLUTION


# %%
file_verdict = check("09.file", mended_file)

# %%
# hint("09.file")

# %%
right_file = mended_file if file_verdict.passed else colleagues_file
print_losses(right_file)

# %%
reads = {rank: f"reads rank{right_file(rank, old, new)}.pt" for rank in range(4)}
mesh_places(new, reads, title=f"{new}: who reads which file")

# %% [markdown]
# When both meshes print the loss that was saved, your line is right. On `dp_shard=4` no function of this kind can help,
# because no single file holds what a rank needs. Files by rank fit only the mesh that wrote them. Boxes fit every mesh,
# since each says where in the whole weight it belongs.
#
# Megatron-Core (`dist_checkpointing`, with its `ShardedTensor`) and DCP save boxes; DeepSpeed has a tool that turns
# files by rank into its *universal checkpoint*.
