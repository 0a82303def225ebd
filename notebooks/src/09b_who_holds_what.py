# %% [markdown]
# # 09b · Meshes: who holds what
#
# Three axes cut one model, and a fourth copies it. You say which ranks hold any given number of a matrix, and find out
# which mesh leaves a rank the most room. You deal out samples and random numbers so that the ranks still train *one*
# model. And you find two faults that raise no error.
#
# **2 × 50 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 2 of 5 · [1: places and links](09a_meshes.ipynb) · [3: one norm, one checkpoint](09c_one_norm.ipynb) · [4: three
# cuts at once](09d_three_cuts.ipynb) · [5: build a training step on a mesh](09e_build_on_a_mesh.ipynb)
#
# This part builds on [05b: whole while it computes](05b_whole_for_a_moment.ipynb), [06a: there and
# back](06a_model_parallel.ipynb), [08b: a transformer, cut](08b_split_transformer.ipynb) and [09a: places and
# links](09a_meshes.ipynb). Have you done them? `from course_lib import start; start("09b")` says whether you have.
#
# At the end you can
#
# - say which ranks hold a given number of a model, on any mesh;
# - compare meshes by what a rank keeps, and by what it holds at the fullest moment;
# - say which ranks get the same samples, whose loss counts, and which ranks draw the same random numbers;
# - find two faults by their evidence: a batch that is dealt out wrongly, and wrong seeds.
#
# From part 1 you need the mesh: `mesh.coordinates(rank)`, and `mesh.group(rank, axis)`. From the earlier lessons you
# need three ways to cut. Tensor parallelism cuts a matrix along a dim (08), and sharding leaves each rank some rows of
# every parameter (05). A stage has some of the layers (06).

# %%
from course_lib import ask, check, cost, hint, reveal, shared_cluster
from course_lib.data import documentation_windows
from course_lib.layouts import Mesh
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.collectives import split_sizes
from course_lib.parallel.mesh import DataShare, OnMesh, boxes_of
from course_lib.plot import mesh_places, who_holds
from course_lib.rounding import rounded
from course_lib.widgets import MeshExplorer

import random
from collections import Counter
from dataclasses import replace

import torch

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## One number of one matrix
#
# `OnMesh(me, mesh, model)` puts a transformer on a mesh with the course's parts, in this order:
#
# 1. **tp** cuts matrices: `w_q`, `w_k`, `w_v`, `w_up` and both matrices of the vocabulary along dim 0, `w_out` and
#    `w_down` along dim 1. Norms and positions are copied.
# 2. **pp** gives each stage some of the layers.
# 3. **dp_shard** shares out the *rows* (dim 0) of each parameter, as tp and pp have left it. **dp_replicate** copies.
#
# In part 4 you put these cuts together. Here you look at which rank holds which part.


# %%
config = TransformerConfig(context_length=32, num_layers=4, width=64, num_heads=4)


def make_model(**settings):
    torch.manual_seed(0)
    return Transformer(replace(config, **settings))


shapes = {name: tuple(parameter.shape) for name, parameter in make_model().named_parameters()}
print("block 3:", {name.removeprefix("blocks.3."): shape for name, shape in shapes.items() if "s.3" in name})

# %% [markdown]
# ![A matrix of 256 rows with row 100 marked, and four ranks in a square: along one side dp_shard, along the other tp.
# Between them a question mark](../assets/09_pieces.png)
#
# Take four ranks, `Mesh.of(dp_shard=2, tp=2)`, and `w_up` of block 3, with its 256 rows.
#
# **Which rank holds row 100?**

# %%
### BEGIN SOLUTION
### STUB ask("09.row")
ask("09.row").commit("rank 1")  # "64 rows each, one rank after the other"
### END SOLUTION


# %%
def boxes_on(me, mesh):
    """What this rank holds: by name of the parameter, where its box begins, and how large it is."""
    model = OnMesh(me, mesh, make_model())
    boxes = {box.name: (box.offsets, box.sizes) for box in boxes_of(model)}
    model.close()
    return boxes


def ranks_with(boxes_by_rank, name, place):
    """The ranks whose box of this parameter has the number at ``place``, such as (row, column)."""
    return [
        rank
        for rank, boxes in enumerate(boxes_by_rank)
        if name in boxes
        and all(0 <= at - begin < size for at, begin, size in zip(place, *boxes[name], strict=True))
    ]


# %%
mesh = Mesh.of(dp_shard=2, tp=2)
sharded_boxes = list(four.run(boxes_on, mesh))
reveal("09.row", ranks_with(sharded_boxes, "blocks.3.mlp.w_up.weight", (100, 0)), mesh)

# %% [markdown]
# The next cells show the whole matrix, in the colours of the ranks that hold it. Then they print the rows and columns
# of each rank, for this weight and two more:

# %%
who_holds(config, mesh, "blocks.3.mlp.w_up.weight")

# %%
for name in ("mlp.w_up", "mlp.w_down", "norm1"):
    print(f"{name}, {shapes[f'blocks.3.{name}.weight']}:")
    for rank, boxes in enumerate(sharded_boxes):
        begins, sizes = boxes[f"blocks.3.{name}.weight"]
        ends = (begin + size - 1 for begin, size in zip(begins, sizes, strict=True))
        spans = (f"{begin} to {end}" for begin, end in zip(begins, ends, strict=True))
        print(f"  rank {rank} {mesh.coordinates(rank)}: rows", ", columns ".join(spans))

# %% [markdown]
# `norm1` has copies: tp does not cut it, so ranks 0 and 1 hold the same numbers. In `w_down` the two axes cut different
# dims. In `w_up` both axes cut rows, and the rows that follow those of rank 0 lie on rank 2.
#
# ### Build: who holds this number?
#
# Now write a function that says who holds a number, on any mesh, by arithmetic alone and without ranks. The two axes
# cut by different rules, and you have met both. **tp** cuts as `split_sizes(10, 4)` does: the first slices get one row
# or column more. **dp_shard** gives every place the same number of rows, *rounded up*. The last places get the rows
# that are left: fewer, or none.

# %%
print("tp:      ", split_sizes(10, 4))
print("dp_shard:", [len(rows) for rows in torch.arange(10).split(3)], "since 10 / 4, rounded up, is 3")


# %%
def holders(mesh, stage_layers, layer, shape, tp_dim, row, column):
    """The ranks that keep one number of a matrix, as a list in rising order.

    ``mesh``: a Mesh, whose axes may come in any order; some may be missing. Along an axis that is
    not named here, ranks hold copies.
    ``stage_layers[s]``: the layers of the stage at place s along pp; ``layer`` is in one of them.
    ``shape``: of the whole matrix, (rows, columns); ``row`` and ``column`` count from 0 in it.
    ``tp_dim``: the dim that tp cuts, 0 or 1, in slices as ``split_sizes`` gives them; None where tp copies.
    dp_shard cuts the rows of the slice: every place gets the same number, rounded up, the last ones fewer or none.
    """
    # Useful: mesh.num_ranks, mesh.coordinates(rank).get("pp", 0), mesh.size("tp") (1 without that axis)
    ### BEGIN SOLUTION
    found = []
    for rank in range(mesh.num_ranks):
        here = mesh.coordinates(rank)
        begin, size = [0, 0], list(shape)  # of the slice
        if tp_dim is not None:
            place, sizes = here.get("tp", 0), split_sizes(shape[tp_dim], mesh.size("tp"))
            begin[tp_dim], size[tp_dim] = sum(sizes[:place]), sizes[place]
        row_here, column_here = row - begin[0], column - begin[1]
        per_shard = -(-size[0] // mesh.size("dp_shard"))
        on_stage = layer in stage_layers[here.get("pp", 0)]
        in_slice = 0 <= row_here < size[0] and 0 <= column_here < size[1]
        if on_stage and in_slice and row_here // per_shard == here.get("dp_shard", 0):
            found.append(rank)
    return found
    ### END SOLUTION


# %%
piece_verdict = check("09.piece", holders)

# %%
# hint("09.piece")

# %% [markdown]
# Does your arithmetic say what ranks really hold? The next cells draw one number of each matrix of the blocks at
# random. They compare what your function says of this number with what the ranks hold, on two meshes of four ranks. (On
# the second mesh each stage has two blocks. You need not read the code.)

# %%
TP_DIM = dict.fromkeys(("w_q", "w_k", "w_v", "w_up"), 0) | {"w_out": 1, "w_down": 1}  # norms are not in it


def agrees(mesh, stage_layers, boxes_by_rank):
    """Whether ``holders`` and the ranks' boxes agree on one number of each matrix of the blocks."""
    draw, same = random.Random(0), []
    for name, shape in shapes.items():
        if "blocks" in name:
            place = [draw.randrange(size) for size in shape]
            layer, tp_dim = int(name.split(".")[1]), TP_DIM.get(name.split(".")[-2])
            rows_columns, row_column = (*shape, 1)[:2], (*place, 0)[:2]  # a norm as a matrix of one column
            found = holders(mesh, stage_layers, layer, rows_columns, tp_dim, *row_column)
            same.append(found == ranks_with(boxes_by_rank, name, place))
    return all(same)


# %%
staged = Mesh.of(pp=2, tp=2)
staged_boxes = list(four.run(boxes_on, staged))
if piece_verdict.passed:
    print(mesh, "as the ranks say:", agrees(mesh, [[0, 1, 2, 3]], sharded_boxes))
    print(staged, "as the ranks say:", agrees(staged, [[0, 1], [2, 3]], staged_boxes))

# %% [markdown]
# <!-- word: strided shard | also: `_StridedShard` | sentences: 2 -->
# PyTorch has a word for what is left where tp and sharding cut the same dim. A **strided shard** is a rank's part of a
# dim that two axes of a mesh have cut, the inner axis before the outer one. So neighbouring rows may lie on ranks that
# are not neighbours. DTensor calls this placement `_StridedShard`; `fully_shard` makes it from parameters that tensor
# parallelism has cut along the same dim.
#
# ## Which mesh leaves the most room?
#
# Take eight ranks, our model, and AdamW in float32. For each number of the model, a rank keeps the weight, the gradient
# and two states, 16 bytes together. Choose among four meshes: `dp_shard=8`, `dp_shard=2 tp=4`, `pp=2 tp=4` and `pp=2
# dp_shard=2 tp=2`. (tp ends at 4, since there are four heads. A stage has whole layers.)
#
# **Between two steps, on which of the four does the fullest rank hold the least?**

# %%
### BEGIN SOLUTION
### STUB ask("09.least")
ask("09.least").commit("pp=2 dp_shard=2 tp=2")  # "three cuts are better than one"
### END SOLUTION

# %% [markdown]
# `cost.pieces_of_rank` goes through the parameters by the rules of your function. It gives a rank's piece of each
# parameter, by name.


# %%
def kept_numbers(mesh, rank):
    """How many numbers of the weights a rank keeps."""
    return sum(piece.numel for piece in cost.pieces_of_rank(config, mesh, rank).values())


for tried, boxes_by_rank in ((mesh, sharded_boxes), (staged, staged_boxes)):
    found = [sum(torch.Size(sizes).numel() for _, sizes in boxes.values()) for boxes in boxes_by_rank]
    says = [kept_numbers(tried, rank) for rank in range(4)]
    print(f"{tried}: {says[0]:,} numbers on rank 0; all four ranks keep as many as it says: {found == says}")

eights = [Mesh.parse(text) for text in ("dp_shard=8", "dp_shard=2 tp=4", "pp=2 tp=4", "pp=2 dp_shard=2 tp=2")]
kept_kib = {str(m): max(16 * kept_numbers(m, rank) / 1024 for rank in range(8)) for m in eights}
reveal("09.least", kept_kib)

# %% [markdown]
# These numbers count what a rank *keeps*. Memory runs out at the fullest moment, and lesson 05 found what a rank holds
# then. It holds one unit, such as a block, with whole weights and a whole gradient. "Whole" means here: as large as tp
# has left it. A sharded stage of `OnMesh` gathers its units anew for every micro-batch, and keeps its gradients whole
# until the batch is over. (Messages in flight, a unit that is fetched ahead, and activations are left out.)
#
# **Count these whole weights and gradients too. On which mesh does the fullest rank hold the least now?**

# %%
### BEGIN SOLUTION
### STUB ask("09.fullest")
ask("09.fullest").commit("dp_shard=8")  # "what is least between steps"
### END SOLUTION


# %%
def whole_bytes(mesh, rank):
    """Bytes of whole weights and gradients at the fullest moment, besides what is kept; 0 where nothing is sharded."""
    if mesh.size("dp_shard") == 1:
        return 0
    here = mesh.coordinates(rank)
    slices = Mesh.of(pp=mesh.size("pp"), tp=mesh.size("tp"))  # without dp_shard: as large as tp leaves them
    twin = slices.rank_at(pp=here.get("pp", 0), tp=here.get("tp", 0))
    units = Counter()  # numbers of each unit: a block, or what belongs to none
    for name, piece in cost.pieces_of_rank(config, slices, twin).items():
        units[name.split(".")[1] if "blocks" in name else "the rest"] += piece.numel
    gradients = sum(units.values()) if mesh.size("pp") > 1 else max(units.values())
    return 4 * (max(units.values()) + gradients)


# %%
fullest_kib = {}
print(f"{'KiB on the fullest rank':<24} {'kept':>6} {'at the fullest moment':>22}")
for one in eights:
    held = [16 * kept_numbers(one, rank) + whole_bytes(one, rank) for rank in range(8)]
    fullest_kib[str(one)] = max(held) / 1024
    print(f"{one!s:<24} {kept_kib[str(one)]:>6.0f} {fullest_kib[str(one)]:>22.0f}")
reveal("09.fullest", fullest_kib)

# %% [markdown]
# Activations follow other rules. A rank with `dp_shard=8` has the activations of one of the eight windows. A rank with
# `pp=2 tp=4` has a part of the activations of all eight. And memory only says which meshes are possible. Among these
# the time of a step decides. It includes the messages that part 1 counted, and the time in which a stage waits for its
# neighbours.
#
# ## Who sees which samples?
#
# ![Eight windows of text in a row, and eight ranks as the corners of a cube, with the axes pp, dp_shard and tp. Between
# them a question mark](../assets/09_windows.png)
#
# Take a batch of eight windows, and eight ranks with `pp=2 dp_shard=2 tp=2`. Ranks that work on one activation
# together, or hand it on, have to be given the same windows.
#
# **How many of the eight windows does each rank work on?**

# %%
### BEGIN SOLUTION
### STUB ask("09.share")
ask("09.share").commit(1)  # "eight ranks, eight windows"
### END SOLUTION

# %%
cube = Mesh.of(pp=2, dp_shard=2, tp=2)
windows = torch.arange(8)
seen_by = {}
for rank in range(cube.num_ranks):
    share = DataShare.of(cube, rank)
    seen_by[rank] = windows.chunk(share.count)[share.dp_rank].tolist()
    print(f"rank {rank} {cube.coordinates(rank)}: place {share.dp_rank} of {share.count}, {seen_by[rank]}")
reveal("09.share", seen_by)

# %%
dealt = {rank: f"windows {seen[0]} to {seen[-1]}" for rank, seen in seen_by.items()}
mesh_places(cube, dealt, title="Who works on which windows")

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you look into two jobs that go wrong without an error.

# %% [markdown]
# ## Clinic 1: a loss that falls too fast
#
# *Symptom.* A team trains on four ranks, `Mesh.of(dp_replicate=2, tp=2)`. There is no error, and all copies stay equal
# to the last bit. The loss falls faster than on one device with the same weights, the same eight windows and the same
# optimizer. That cannot be right. The team took the code that deals out the batch from a job with DDP:


# %%
def colleagues_deal(me, mesh, batch):
    """This rank's windows: (8, T) -> (2, T)."""
    return batch.chunk(me.world_size)[me.rank]


# %% [markdown]
# **What is wrong?**

# %%
### BEGIN SOLUTION
### STUB ask("09.unseen")
ask("09.unseen").commit("gradients are averaged along tp as well")
### END SOLUTION

# %% [markdown]
# *Evidence.* The next cells print the losses. Then they exchange the two windows of one rank for new ones, and print by
# how much a gradient changes at most, on any rank. They do so for each rank in turn.

# %%
windows_of_text = documentation_windows(32)[0]
letters = [pair for pair in (windows_of_text[i] for i in range(0, 1000, 50)) if torch.cat(pair).max() < 128]
X, Y = (torch.stack(tensors) for tensors in zip(*letters[:8], strict=True))  # plain English, (8, 32) each
OTHER_X, OTHER_Y = (torch.stack(tensors) for tensors in zip(*letters[8:10], strict=True))
squared = Mesh.of(dp_replicate=2, tp=2)


def three_steps(model, step):
    """The losses of ``step()``, which computes forward and backward."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(3):
        optimizer.zero_grad()
        losses.append(step().item())
        optimizer.step()
    return losses


def losses_on_mesh(me, deal):
    model = OnMesh(me, squared, make_model())
    losses = three_steps(model, lambda: model.step(deal(me, squared, X), deal(me, squared, Y)))
    model.close()
    return losses


# %%
def changes_by_rank(me, deal):
    """For each rank r: by how much gradients on this rank change when the windows of rank r are exchanged."""
    model, gradients = OnMesh(me, squared, make_model()), []
    for exchanged in (None, *range(me.world_size)):
        x, y = deal(me, squared, X), deal(me, squared, Y)
        if me.rank == exchanged:
            x, y = OTHER_X, OTHER_Y
        model.zero_grad()
        model.step(x, y)
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    model.close()
    return [(other - gradients[0]).abs().max().item() for other in gradients[1:]]


# %%
plain = make_model()


def plain_step():
    loss = next_token_loss(plain(X), Y)
    loss.backward()
    return loss


alone = three_steps(plain, plain_step)
print("losses of one device with all eight windows:", rounded(alone, 1))
print(
    "losses of the team's four ranks:            ", rounded(four.run(losses_on_mesh, colleagues_deal)[0], 1)
)
changes = torch.tensor(list(four.run(changes_by_rank, colleagues_deal))).amax(0)
for rank, change in enumerate(changes.tolist()):
    print(f"with other windows on rank {rank} a gradient changes by {rounded(change, 2)} at most")

# %%
reveal("09.unseen")

# %% [markdown]
# ### Mend it


# %%
def mended_deal(me, mesh, batch):
    """This rank's windows, (8, T) -> (8/n, T)."""
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend the one below")
    ### STUB return batch.chunk(me.world_size)[me.rank]
    share = DataShare.of(mesh, me.rank)
    return batch.chunk(share.count)[share.dp_rank]
    ### END SOLUTION


# %%
deal_verdict = check("09.deal", mended_deal)

# %%
# hint("09.deal")

# %%
right_deal = mended_deal if deal_verdict.passed else colleagues_deal
mended = four.run(losses_on_mesh, right_deal)[0]
off = max(abs(a - b) for a, b in zip(mended, alone, strict=True))
print("the losses of one device with all eight windows:", off < 0.002)

# %% [markdown]
# <!-- word: data-parallel rank | also: dp rank | sentences: 2 -->
# The **data-parallel rank** of a rank is its place among those that are given different samples, along dp_replicate and
# dp_shard together. The number of these ranks is the data-parallel size. On a mesh you give these two numbers to a
# `DistributedSampler`, and not rank and world size.
#
# A log needs the loss of the whole batch, and each loss must count once. In `OnMesh` a rank adds its loss if it has one
# *and* stands at place 0 along tp. The sum is divided by the data-parallel size. That is right on any mesh. The first
# stage of a pipeline has no loss, and ranks that differ along tp alone have the same loss.
#
# ## Who draws the same random numbers?
#
# All ranks draw the weights from one seed. Each makes the plain model and keeps its part, so parts fit together and
# copies are equal. (Or one rank draws the weights and sends them.) Which seed is right for random numbers that are
# drawn later, as for dropout?
#
# ### Clinic 2: two checkpoints of one model, again
#
# *Symptom.* A job trains on four ranks, `Mesh.of(dp_replicate=2, tp=2)`, with dropout of 0.1. The loss falls, and there
# is no error. But the checkpoint with the norms and positions of rank 0 gives another loss than the one with those of
# rank 1. Without dropout both give the same loss. After the model is made, every rank seeds its generators:


# %%
def colleagues_seed(mesh, rank, seed):
    """As under DDP: every rank has its own seed."""
    return seed + rank


# %% [markdown]
# **What is wrong?**

# %%
### BEGIN SOLUTION
### STUB ask("09.dropped")
ask("09.dropped").commit("replicas drop different numbers")
### END SOLUTION

# %% [markdown]
# *Evidence.* The ranks take five steps. Then the next cell compares their norms and positions, which should be equal on
# all four ranks.


# %%
def copies_after(me, seed_for, dropout):
    """Norms and positions after five steps, as this rank has them."""
    model = OnMesh(me, squared, make_model(dropout=dropout))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(seed_for(squared, me.rank, 1234))
    for _ in range(5):
        optimizer.zero_grad()
        model.step(*model.data.deal(X, Y))
        optimizer.step()
    copies = [box.parameter.detach().flatten() for box in boxes_of(model) if box.sizes == box.shape]
    model.close()
    return torch.cat(copies).cpu()


def evidence_of_seeds(seed_for, dropout):
    copies = list(four.run(copies_after, seed_for, dropout))
    for other, along in ((1, "tp"), (2, "dp_replicate")):
        same = torch.equal(copies[0], copies[other])
        print(f"dropout {dropout}: ranks 0 and {other}, which differ along {along}, are equal: {same}")


# %%
evidence_of_seeds(colleagues_seed, dropout=0.0)
evidence_of_seeds(colleagues_seed, dropout=0.1)

# %%
reveal("09.dropped")

# %% [markdown]
# One rule follows. Ranks that hold copies of the same activations have to drop the same numbers, since their copies
# must stay equal. Ranks that hold other samples or other layers should draw different numbers, since otherwise all
# would drop in the same places. (You know one exception from lesson 08. Inside a split region each rank draws its own
# numbers, from the common seed and its place.)
#
# ### Mend it
#
# Write the seed of a rank for any mesh. Which ranks have to get the same seed, and what do they have in common?


# %%
def mended_seed(mesh, rank, seed):
    """The seed of a rank for all that is drawn after the weights."""
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend the one below")
    ### STUB return seed + rank
    return seed + mesh.group(rank, "tp")[0]  # the first rank of its tensor group
    ### END SOLUTION


# %%
seed_verdict = check("09.seed", mended_seed)

# %%
# hint("09.seed")

# %%
evidence_of_seeds(mended_seed if seed_verdict.passed else colleagues_seed, dropout=0.1)

# %% [markdown]
# Here are the seeds of the eight ranks of `pp=2 dp_shard=2 tp=2`. The course's own function numbers the tensor groups
# one after the other:

# %%
from course_lib.parallel.mesh import seed_of

seeds = [seed_of(cube, rank, seed=1234) for rank in range(cube.num_ranks)]
for rank, seed in enumerate(seeds):
    print(f"rank {rank} {cube.coordinates(rank)}: seed {seed}")
print(f"{len(set(seeds))} different seeds, one for each tensor group")

# %% [markdown]
# ## What you can do now
#
# You can say which ranks hold any given number of a model. You can say what a rank keeps, and what it holds at the
# fullest moment, on any mesh. You deal out samples by the data-parallel rank, count each loss once, and seed by what
# ranks hold. You ask the same question each time: *along which axes do ranks hold the same, and along which do they
# hold something else?*
#
# **The limit.** Some numbers are held once, some twice, some four times. How is the norm of such a gradient computed,
# and what belongs in a checkpoint? [Part 3](09c_one_norm.ipynb) answers both.
#
# **Further reading.** Narayanan et al., [Efficient Large-Scale Language Model Training on GPU Clusters Using
# Megatron-LM](https://arxiv.org/abs/2104.04473) (2021), section 3: three kinds of parallelism at once, and what that
# means for memory and messages. Liang et al., [TorchTitan](https://arxiv.org/abs/2410.06511) (2024): the same axes with
# PyTorch's own parts.
#
# ## Another day: the explorer
#
# The explorer takes some fifteen minutes more, and nothing later needs it.
#
# ![The explorer's picture, four replicas: the matrix of a layer in tiles with the ranks that hold them, each rank with
# its piece, bars of memory for each rank, and bars of bytes for each axis](../assets/09_explorer.png)
#
# The explorer has our model and a batch of 32 sequences; you choose axes, order and nodes. Each tile names the ranks
# that hold it. A bar separates nodes, so `0 1 | 4 5` are four copies on two nodes. Below you see what each rank keeps
# after a step (without activations), and what all ranks together send along each axis. The cost model computes all of
# it. If the mesh has four ranks, the button runs a step on your ranks. Lines across the bars then show what the ledger
# and the meter measured. Three missions:
#
# 1. Take eight ranks on two nodes of four. No rank keeps more than 500 KiB, and in a step at most 1,024 KiB pass
#    between the nodes.
# 2. Take four ranks on two nodes of two. Find two axes whose order matters: in one order eight times as much passes
#    between the nodes as in the other. Let the ranks confirm both.
# 3. Take eight ranks on two nodes of four. If one node is lost, every number of the model must still be on the other
#    node. No rank keeps more than 1,000 KiB.

# %% tags=["computed-time"]
explorer = MeshExplorer(four)
explorer

# %%
### BEGIN SOLUTION
### STUB print(explorer.missions)
explorer.choose("pp=2 dp_shard=2 tp=2, 4 ranks a node")
for order in ("pp=2 tp=2", "tp=2 pp=2"):
    explorer.choose(f"{order}, 2 ranks a node")
    explorer.run.click()
explorer.choose("dp_replicate=2 dp_shard=4, 4 ranks a node")
print(explorer.missions)
### END SOLUTION

# %% [markdown]
# When you have tried, compare your meshes with these. In the first mission every mesh that cuts the model in eight
# leaves about an eighth on a rank. So memory hardly decides; the bytes that leave the node do. A pipeline hands on one
# activation and one gradient for each sample. A sharded stage fetches its weights for every micro-batch, and tensor
# parallelism adds up activations in every layer. So `pp` is the axis that should go from node to node.
#
# The second mission works with `pp` and `tp`, and with `pp` and `dp_shard`. In both pairs one axis sends much and the
# other sends little. No other two axes differ as much.
#
# In the third mission only `dp_replicate` makes copies of everything, and the two copies must be on different nodes. So
# `dp_replicate` has to be the outermost axis, of size 2. Within the node you may take any axes that cut the model in
# four. With `dp_shard` there, this is lesson 05's hybrid sharding.
