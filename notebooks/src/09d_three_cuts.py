# %% [markdown]
# # 09d · Meshes: three cuts at once
#
# You have built three cuts, each by itself: slices of layers, stages of layers, and rows of weights. Now you cut one
# model along three axes at the same time. You compare it with one device, count what each axis sends, and do the same
# with PyTorch's own parts.
#
# **2 × 40 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 4 of 5 · [1: places and links](09a_meshes.ipynb) · [2: who holds what](09b_who_holds_what.ipynb) · [3: one norm,
# one checkpoint](09c_one_norm.ipynb) · [5: build a training step on a mesh](09e_build_on_a_mesh.ipynb)
#
# This part builds on [09a: places and links](09a_meshes.ipynb) and [09b: who holds what](09b_who_holds_what.ipynb).
# Have you done them? `from course_lib import start; start("09d")` says whether you have.
#
# At the end you can
#
# - say in which order the cuts are made, and why another order breaks;
# - train on `pp=2 dp_shard=2 tp=2`, with the losses of one device;
# - say what each axis sends in a step, and which setting changes that;
# - on another day: do the same with PyTorch's own parts, and read other libraries' names.
#
# From the earlier parts you need `Mesh.of(pp=2, dp_shard=2, tp=2)`: ranks with a place along named axes, of which the
# last varies fastest. You also need `MeshGroups(me, mesh)`, this rank's process groups. `groups.group("tp")` are the
# ranks that differ from this rank along tp alone, and `groups.coordinates` is its place.

# %%
from course_lib import ask, check, hint, problems, quiz, reveal, shared_cluster
from course_lib.claims import trial
from course_lib.cluster import RankError
from course_lib.layouts import Mesh
from course_lib.meter import bytes_text, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.mesh import DataShare, MeshGroups, OnMesh
from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.parallel.pipeline import Pipeline
from course_lib.parallel.sharded import FullySharded
from course_lib.parallel.tensor import split_transformer, vocab_parallel_cross_entropy
from course_lib.plot import mesh_places, who_holds
from course_lib.rounding import agree, rounded
from course_lib.schedules import one_f_one_b

from functools import partial

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %%
small = TransformerConfig(context_length=32, num_layers=4, width=64, num_heads=4)
drawn = torch.randint(256, (3, 16, 33), generator=torch.Generator().manual_seed(1))
# Three batches of 16 sequences, 32 tokens each: drawn at random, to be compared and not to be learnt.
BATCHES = [(tokens[:, :-1], tokens[:, 1:]) for tokens in drawn]


def make_model():
    torch.manual_seed(0)
    return Transformer(small).double()  # float64: what should be equal is equal to twelve digits


# %% [markdown]
# The next cell computes the losses of one device, before each of three steps. All later runs on ranks must give these
# losses.


# %%
def steps_of(model, step):
    """The losses of three steps of AdamW; ``step`` does what makes gradients, and returns the loss."""
    # foreach=False, as in lesson 08: PyTorch's parts make parameters of two kinds.
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False), []
    for tokens, targets in BATCHES:
        optimizer.zero_grad()
        losses.append(float(step(tokens, targets)))
        optimizer.step()
    return losses


plain = make_model()


def plain_step(tokens, targets):
    loss = next_token_loss(plain(tokens), targets)
    loss.backward()
    return loss.detach()


one_device = steps_of(plain, plain_step)
num_all = sum(parameter.numel() for parameter in plain.parameters())
print("one device:", rounded(one_device, 2), f"with {num_all:,} numbers")

# %% [markdown]
# ## Which cut comes first?
#
# ![A matrix in the middle. On its left two slices for tp, on its right two shares of rows for dp_shard, and at both
# arrows between them the word "first" with a question mark](../assets/09_first_cut.png)
#
# Begin with two axes. A colleague uses the parts that you know: `FullySharded` from lesson 05, then `split_transformer`
# from lesson 08, each with the group of its own axis.


# %%
def sharded_then_split(me):
    groups = MeshGroups(me, Mesh.of(dp_shard=2, tp=2))
    model = make_model()
    for_rows, for_slices = groups.group("dp_shard"), groups.group("tp")
    sharded = FullySharded(me, model, list(model.blocks), group=for_rows)
    split_transformer(me, model, group=for_slices)
    tokens, _ = BATCHES[0]
    return sharded(tokens.chunk(2)[groups.coordinates["dp_shard"]])


# %% [markdown]
# Each of the two was right by itself. **What happens in this order?**

# %%
### BEGIN SOLUTION
### STUB ask("09.inside")
ask("09.inside").commit("no error, and the losses of one device")  # "two cuts are two cuts"
### END SOLUTION

# %%
error = ""
try:
    four.run(sharded_then_split)
except RankError as raised:
    # whichever rank was first
    error = str(raised).splitlines()[0].partition("failed: ")[2].partition(". ")[0]
print(error or "no error")
reveal("09.inside", error)

# %% [markdown]
# The next cells try the same order in PyTorch:


# %%
PLAN = {f"attention.{name}": ColwiseParallel() for name in ("w_q", "w_k", "w_v")}
PLAN |= {"attention.w_out": RowwiseParallel(), "mlp.w_up": ColwiseParallel(), "mlp.w_down": RowwiseParallel()}


def by_torch(me, sharded_first):
    mesh = init_device_mesh(me.device.type, (2, 2), mesh_dim_names=("dp_shard", "tp"))
    model = make_model().to(me.device)
    for block in model.blocks:
        if sharded_first:
            fully_shard(block, mesh=mesh["dp_shard"])
        parallelize_module(block, mesh["tp"], PLAN)
        if not sharded_first:
            fully_shard(block, mesh=mesh["dp_shard"])
    fully_shard(model, mesh=mesh["dp_shard"])
    return model, mesh["dp_shard"]


# %%
try:
    four.run(by_torch, sharded_first=True)
except RankError as raised:
    print(str(raised).splitlines()[0].partition("failed: ")[2])

# %% [markdown]
# A DTensor knows by which mesh it was cut. In the course, a weight of a sharded unit knows that it holds only rows
# while nobody uses it. So both can refuse, and both say why. In the order that works, tp cuts the matrix into slices
# first, and dp_shard shares out the rows of each slice:

# %%
who_holds(small, Mesh.of(dp_shard=2, tp=2), "blocks.0.mlp.w_up.weight")

# %% [markdown]
# ## Build: three cuts at once
#
# You have one part for each axis. Each part takes the group of ranks that it works on:
#
# - tp: `split_transformer(me, model, group=...)` cuts the model in place. Its logits are then a slice of the
#   vocabulary, for `vocab_parallel_cross_entropy(me, logits, targets, vocab_size=..., group=...)`.
# - pp: `cut(model, stages)` gives the stages, and `Pipeline(me, stages, schedule, loss_of, ranks=..., wrap=...)` runs
#   this rank's. `ranks` are the ranks of the stages, in order: `mesh.group(me.rank, "pp")`.
# - dp_shard: `FullySharded(me, module, group=...)`; a pipeline applies it to its own stage, as its `wrap`. `wrap` is a
#   function that takes a module and returns one.
#
# `split_evenly(parameter_costs(model), n)` says where to cut the model into n stages; `one_f_one_b(n, m)` is the
# schedule for m micro-batches. `Pipeline.step(tokens, targets)` runs forward and backward. It returns the mean loss on
# the last stage, and None on the others.
#
# ![Eight ranks as the corners of a cube with an axis each for pp, dp_shard and tp; a batch of rows beside it, and a
# question mark at every arrow from the rows to a rank](../assets/09_assembled.png)
#
# Ask yourself for each rank: which samples does it get? Which ranks have a loss, and do they have the same one?


# %%
class ThreeD:
    """A transformer on a mesh. ``groups.mesh`` has the axes pp, dp_shard and tp, in any order, each of size 1 or more.

    ``model``: whole, the same on every rank; taken apart. Stages have about equally many numbers, and the pipeline
    twice as many micro-batches as stages. No rank keeps more than rows of slices of its stage.
    """

    def __init__(self, me, groups, model):
        self.me, self.groups, self.vocab_size = me, groups, model.config.vocab_size
        ### BEGIN SOLUTION
        num_stages = groups.mesh.size("pp")
        stages = split_evenly(parameter_costs(model), num_stages)  # slices may be uneven: weigh before
        split_transformer(me, model, group=groups.group("tp"))
        schedule, ranks = one_f_one_b(num_stages, 2 * num_stages), groups.mesh.group(me.rank, "pp")
        wrap = partial(FullySharded, me, group=groups.group("dp_shard"))
        self.pipeline = Pipeline(me, cut(model, stages), schedule, self.loss_of, ranks=ranks, wrap=wrap)
        ### END SOLUTION

    def parameters(self):
        return self.pipeline.parameters()

    def loss_of(self, logits, targets):
        """The mean of a micro-batch, () from logits (B, T, V/tp) and targets (B, T)."""
        ### BEGIN SOLUTION
        group = self.groups.group("tp")
        return vocab_parallel_cross_entropy(self.me, logits, targets, vocab_size=self.vocab_size, group=group)
        ### END SOLUTION

    def step(self, tokens, targets):
        """The whole batch (B, T), on every rank; dp_shard divides B. Adds up gradients.

        Returns the mean loss over the whole batch, the same on every rank, in float64 as the model is.
        """
        ### BEGIN SOLUTION
        num_shares, place = self.groups.mesh.size("dp_shard"), self.groups.coordinates["dp_shard"]
        loss = self.pipeline.step(tokens.chunk(num_shares)[place], targets.chunk(num_shares)[place])
        total = torch.zeros((), dtype=torch.float64, device=self.me.device)
        if loss is not None:
            total += loss
        dist.all_reduce(total)  # all ranks of the last stages have one
        return total / (num_shares * self.groups.mesh.size("tp"))
        ### END SOLUTION


# %%
assemble_verdict = check("09.assemble", ThreeD)

# %%
# hint("09.assemble")

# %% [markdown]
# The course's own class is `OnMesh`, which also has replicas. The next runs use your class if it has passed:


# %%
class Ready(OnMesh):
    """The course's, used as yours is."""

    def __init__(self, me, groups, model, **options):
        super().__init__(me, groups.mesh, model, **options)

    def step(self, tokens, targets):
        return super().step(*self.data.deal(tokens, targets))


Assembled = ThreeD if assemble_verdict.passed else Ready


# %%
def train(me, mesh, build):
    """The losses of three steps, and how many numbers this rank keeps."""
    groups = MeshGroups(me, mesh)
    model = build(me, groups, make_model())
    losses = steps_of(model, model.step)
    groups.close()
    return losses, sum(parameter.numel() for parameter in model.parameters())


def print_losses(mesh, found):
    alike = all(agree(losses, one_device, within=1e-10) for losses, _ in found)
    print(f"{mesh!s:<22} the losses of one device, to within 1e-10: {alike}")


for sizes in (
    {"pp": 1, "dp_shard": 2, "tp": 2},
    {"pp": 2, "dp_shard": 1, "tp": 2},
    {"tp": 1, "dp_shard": 2, "pp": 2},
):
    mesh = Mesh.of(**sizes)
    print_losses(mesh, four.run(train, mesh, Assembled))

# %% [markdown]
# <!-- word: 3D parallelism | also: 3-D parallelism, hybrid parallelism -->
# **3D parallelism** is data, pipeline and tensor parallelism at once, each along its own axis of one mesh. It needs no
# new mechanism: every part works on a group of ranks and a module, and does not know the other parts.
#
# ## Eight ranks
#
# Now use all three, `pp=2 dp_shard=2 tp=2`. Before you run it: **what share of the model's numbers does a rank keep at
# most, in per cent?**

# %%
### BEGIN SOLUTION
### STUB ask("09.kept")
ask("09.kept").commit(25)  # "stages times slices; the data axis is for data"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
eight = shared_cluster(8)

# %%
CUBE = Mesh.of(pp=2, dp_shard=2, tp=2)
found = eight.run(train, CUBE, Assembled)
print_losses(CUBE, found)
shares = [kept / num_all for _, kept in found]
print("share of each rank:", [f"{share:.1%}" for share in shares])
reveal("09.kept", max(shares), shares)

# %% [markdown]
# The next picture shows which rows each rank gets, and which ranks have a loss:

# %%
dealt = {}
for rank in range(8):
    share, is_last = DataShare.of(CUBE, rank), CUBE.coordinates(rank)["pp"] == 1
    rows = torch.arange(16).chunk(share.count)[share.dp_rank].tolist()
    dealt[rank] = f"rows {rows[0]} to {rows[-1]}" + ", a loss" * is_last
mesh_places(CUBE, dealt, title="A batch of 16 rows on eight ranks")

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you count what each axis sends, and use PyTorch's own parts.

# %% [markdown]
# ## What each axis sends
#
# In part 1 a rank sent most along tp. There the data axis had replicas; here it has shards. A rank's share of the batch
# is eight sequences, in four micro-batches. (The next runs use the course's class, because its schedule can be set.)
# **Along which axis does a rank send most now?**

# %%
### BEGIN SOLUTION
### STUB ask("09.most")
ask("09.most").commit("tp")  # as in part 1
### END SOLUTION


# %%
def two_steps(me, mesh, num_micro_batches):
    groups = MeshGroups(me, mesh)
    model = Ready(me, groups, make_model(), schedule=one_f_one_b(2, num_micro_batches))
    for _ in range(2):
        dist.barrier()  # closing is a barrier too: what counts lies between the last two
        for parameter in model.parameters():
            parameter.grad = None
        model.step(*BATCHES[0])
    model.close()


def sent_by_axis(num_micro_batches, rank=0):
    """Bytes that a rank sends in the second step, when shapes have been told."""
    calls = metered(eight, two_steps, CUBE, num_micro_batches).communication.of(rank).calls
    *_, begin, end = (place for place, call in enumerate(calls) if call.operation == "barrier")
    axis_of = {CUBE.group(rank, axis): axis for axis in CUBE.axes}
    sent_bytes = dict.fromkeys(CUBE.axes, 0)
    for call in calls[begin:end]:
        axis = "pp" if call.operation in ("send", "recv") else axis_of.get(call.group)
        if axis is not None:  # the loss goes to all ranks
            sent_bytes[axis] += sum(call.sent_bytes.values())
    return sent_bytes


# %%
in_four = sent_by_axis(4)
for axis, size_bytes in in_four.items():
    print(f"{axis:<9}{bytes_text(size_bytes)}")
reveal("09.most", in_four, 4)

# %% [markdown]
# From lesson 07 you know that more micro-batches make the bubble smaller, while the batch stays as it is. **With eight
# micro-batches, how many times as many bytes go along dp_shard?**

# %%
### BEGIN SOLUTION
### STUB ask("09.micro")
ask("09.micro").commit(1)  # "the batch is the same"
### END SOLUTION

# %%
in_eight = sent_by_axis(8)
for axis in CUBE.axes:
    print(f"{axis:<9}{bytes_text(in_four[axis])} -> {bytes_text(in_eight[axis])}")
reveal("09.micro", in_eight["dp_shard"] / in_four["dp_shard"], 4)

# %% [markdown]
# ## Five questions

# %% tags=["computed-time"]
quiz("09")

# %% [markdown]
# ## What you can do now
#
# You can place ranks on a mesh so that the axis that sends most has the fast link. You can say which rank holds which
# number, sees which sample and draws which random number. You can compute one norm over all ranks, and move a
# checkpoint from any mesh to any other. And you can put three cuts together, in the order that works.
#
# **The limit.** Every axis shares something out: samples, layers, matrices. Two things are still not shared out. One is
# a single *sequence*. Attention looks at all of its positions at once, and a document of a million tokens is too long
# for a tensor group. The other is the *arithmetic of a token*. Each token goes through every weight, so a model of ten
# times the weights costs ten times the work. Lesson 10 cuts the sequence, and gives each token to a few *experts* of
# many.
#
# **Further reading.** Narayanan et al., [Efficient Large-Scale Language Model Training on GPU Clusters Using
# Megatron-LM](https://arxiv.org/abs/2104.04473) (2021): how pipeline, tensor and data parallelism are combined, and
# which goes where. Liang et al., [TorchTitan](https://arxiv.org/abs/2410.06511) (2024): the same in PyTorch's own
# parts. Llama Team, [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783) (2024), section 3.3.2: four axes on
# 16 thousand GPUs, and the reasons for their order.

# %% [markdown]
# ## Another day: in PyTorch's own parts
#
# This section takes some twenty minutes more, and nothing later asks for it.
#
# `by_torch(me, sharded_first=False)` above cuts in the other order, with PyTorch's own parts. Its mesh has dp_shard
# first and tp second, so rank 1 has place 0 along dp_shard and place 1 along tp. `w_up` of a block has 256 rows.
#
# ![A matrix of 256 rows in four strips, with a question mark in each, and beside it four ranks with their places along
# dp_shard and tp](../assets/09_strips.png)
#
# From part 2 you know which rank holds a row on the course's meshes. **Which rows does rank 1 keep with PyTorch's
# parts?**

# %%
### BEGIN SOLUTION
### STUB ask("09.strip")
ask("09.strip").commit("64 to 127")  # reads the axes from left to right
### END SOLUTION


# %%
def train_by_torch(me):
    model, shares = by_torch(me, sharded_first=False)
    w_up, whole = model.blocks[0].mlp.w_up.weight, plain_at_start.blocks[0].mlp.w_up.weight.to(me.device)
    first_row = int((whole == w_up.to_local()[0]).all(dim=1).nonzero()[0])
    placements = str(w_up.placements)

    def step(tokens, targets):
        place, group = shares.get_local_rank(), shares.get_group()
        tokens, targets = (one.chunk(2)[place].to(me.device) for one in (tokens, targets))
        loss = next_token_loss(model(tokens), targets)
        loss.backward()
        mean = loss.detach()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG, group=group)
        return mean

    return steps_of(model, step), first_row, placements


plain_at_start = make_model()
found = four.run(train_by_torch)
for rank, (_, first_row, placements) in enumerate(found):
    print(f"rank {rank}: from row {first_row} on, {placements}")
print_losses("PyTorch's own parts", [(losses, 0) for losses, *_ in found])
reveal("09.strip", found[1][1])

# %%
strips = {rank: f"rows {first} to {first + 63}" for rank, (_, first, _) in enumerate(found)}
mesh_places(Mesh.of(dp_shard=2, tp=2), strips, title="w_up in PyTorch's own parts")

# %% [markdown]
# The run above had no stages; `torch.distributed.pipelining` makes them. PyTorch's own trainer of large models,
# torchtitan, cuts the model into stages first. Then it applies tensor parallelism and `fully_shard` to the layers of
# each stage, in this order. The libraries have these names for their axes:
#
# | axis | PyTorch | torchtitan's `[parallelism]` | Megatron-LM |
# |---|---|---|---|
# | tp | `parallelize_module` | `tensor_parallel_degree` | `--tensor-model-parallel-size` |
# | pp | `torch.distributed.pipelining` | `pipeline_parallel_degree` | `--pipeline-model-parallel-size` |
# | dp_shard | `fully_shard` | `data_parallel_shard_degree` | `--use-distributed-optimizer` (ZeRO-1) |
# | dp_replicate | `fully_shard` on two axes, or DDP | `data_parallel_replicate_degree` | the ranks that are left |
# | cp (lesson 10) | `context_parallel` | `context_parallel_degree` | `--context-parallel-size` |
# | ep (lesson 10) | (nothing yet) | `expert_parallel_degree` | `--expert-model-parallel-size` |
#
# `Mesh.of` and `MeshGroups` are `init_device_mesh` in PyTorch, `ParallelDims` in torchtitan, and in Megatron-Core
# `initialize_model_parallel`. DeepSpeed names its axes `pipe`, `data` and `model`: stages are its `PipelineModule`,
# shards its ZeRO. For slices it was used together with Megatron-LM.
#
# Note the order of the axes. Our `Mesh.of` and `init_device_mesh` name the outermost axis first, and the last varies
# fastest. Megatron's order is a text such as `tp-cp-ep-dp-pp`, which begins with the fastest. Both put tp on
# neighbours.
#
# Article A is *How can a single model be trained using multiple GPUs?* It says, in our words: *for very large models,
# data and model parallelism are combined.* **Bet.**

# %%
### BEGIN SOLUTION
### STUB ask("09.a12")
ask("09.a12").commit("holds with conditions")
### END SOLUTION

# %%
evidence = trial("A12").run()
print(evidence)
reveal("09.a12", evidence)

# %% [markdown]
# ## To take home
#
# `course_lib/examples/train_mesh` is a whole program. It trains a transformer on your text, by the parts of PyTorch
# that you have just seen. Four options set the axes of its mesh: `--pp`, `--dp` (replicas), `--shard` and `--tp`. Its
# checkpoints are DCP's, so another mesh can continue a run. It needs torch and nothing of this course. In a terminal,
# from the course's folder:
#
# ```
# mkdir -p ~/my_project && cp -r course_lib/examples/train_mesh ~/my_project/
# cd ~/my_project
# torchrun --standalone --nproc-per-node 4 -m train_mesh --pp 2 --tp 2 --out runs/1
# torchrun --standalone --nproc-per-node 2 -m train_mesh --tp 2 --out runs/1   # goes on
# ```
#
# (Without GPUs the program runs on the CPU. With GPUs each process needs one of its own. With fewer GPUs than
# processes, add `--device cpu`. Use the Python of the course, whose environment is `.venv`, or any other with torch
# 2.11 or newer.)
#
# Stop the first run by Ctrl-C after a line or two of its log. It says `Saved`, and then torchrun prints a traceback of
# its own. Start the second run: it continues where the first stopped. Each line of the log has the loss and the
# gradient's norm over the whole mesh. It also has the tokens in a second and the share of the peak. This share is the
# MFU of lesson 01. The program refuses a mesh that is not possible, such as `--tp 3` for four heads, and names the
# nearest possible one.
#
# The cuts are in `cutting.py`, in torchtitan's order. Read `cut_between_ranks` there, and find `reshard_after_forward`:
# with this argument a pipeline need not gather its weights for every micro-batch.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. The numbers are drawn for you, and others for
# each further try. When a problem is over, you see the way step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("09")
problems("09", ways=True)
### END SOLUTION
