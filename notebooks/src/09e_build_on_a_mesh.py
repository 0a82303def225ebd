# %% [markdown]
# # 09e · Meshes: build a training step on a mesh
#
# You fill one empty class in seven steps, and each step demands more of it. At the end the class trains a transformer
# with data, pipeline and tensor parallelism at once. It limits the norm of the gradient, and continues from a
# checkpoint that another mesh has saved.
#
# **2 × 75 minutes · difficulty 5 of 5 · needs: cpu**
#
# Part 5 of 5 · [1: places and links](09a_meshes.ipynb) · [2: who holds what](09b_who_holds_what.ipynb) · [3: one norm,
# one checkpoint](09c_one_norm.ipynb) · [4: three cuts at once](09d_three_cuts.ipynb)
#
# This part builds on [05f: build the optimizer](05f_build_sharded_optimizer.ipynb), [09b: who holds
# what](09b_who_holds_what.ipynb), [09c: one norm, one checkpoint](09c_one_norm.ipynb) and [09d: three cuts at
# once](09d_three_cuts.ipynb). Have you done them? `from course_lib import start; start("09e")` says whether you have.
#
# At the end you can
#
# - write a whole training step on a mesh, and show that it does what one process does;
# - say for each axis what a rank sends, keeps and counts;
# - undo the cuts of one mesh, and make those of another.
#
# From part 3 you need who counts a weight, from part 4 the order of the cuts. From
# [05f](05f_build_sharded_optimizer.ipynb) you need an optimizer whose states are shared out.

# %%
from course_lib import build_progress, check, hint, mine, shared_cluster, side_by_side
from course_lib.cluster import RankFailed, RankTimeout, folder_for_ranks
from course_lib.layouts import Mesh
from course_lib.mine import courses
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.mesh import MeshGroups
from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.parallel.tensor import parameter_placements, split_transformer, vocab_parallel_cross_entropy
from course_lib.rounding import agree

import logging
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ![Four ranks with two stages and two slices, around one step: a batch comes in, question marks stand at the rows, at
# the gradients between ranks, at the one norm, and at a folder that another mesh reads](../assets/09_one_step.png)
#
# ## One cell
#
# This cell is all that you write. Seven steps follow. Each has a check, which demands what the checks before it demand,
# and one thing more. So you come back to this cell: change it, run it, and run the next check.
#
# Take two sittings. The first one ends with step 3. Steps 6 and 7 are the hardest.
#
# You have built the following parts in earlier lessons; here you take the course's versions. `split_transformer` cuts a
# model in place. `vocab_parallel_cross_entropy` is the loss, from the logits of a model that is cut in this way.
# `parameter_placements` says of each parameter along which `dim` it was cut. `split_evenly(parameter_costs(model), n)`
# and `cut(model, stages)` make stages. `Pipeline` may run them, but a loop of your own is as short.
#
# Write the shortest thing that passes the next check. For steps 1 to 4 the norm may be None. Before step 6 nothing is
# saved: leave `save` and `load` as they are.


# %%
class MyMeshTrainer:
    """Trains ``model``, a ``Transformer``, as one process with ``optimizer_class(parameters, **defaults)`` would.

    ``groups``: this rank's ``MeshGroups``. ``groups.mesh`` has the axes pp, dp_shard and tp, in any order. Ranks along
    dp_shard have rows of their own, those along pp stages, those along tp slices. ``model`` is whole and the same on
    all ranks; it may be taken apart. Stages are those of ``split_evenly(parameter_costs(model), n)`` for the whole
    model, slices those of ``split_transformer``. The optimizer works number by number, as AdamW does.

    ``parts``: a dict from each name of ``model.named_parameters()`` in this rank's stage to its slice, an
    ``nn.Parameter``. Along dp_shard parts are whole; from step 3 on the optimizer's states are shared out there.
    """

    def __init__(self, me, groups, model, optimizer_class, num_micro_batches=2, **defaults):
        ### BEGIN SOLUTION
        self.me, self.groups, self.num_micro_batches = me, groups, num_micro_batches
        self.here, self.config = groups.coordinates, model.config
        self.pipe, self.num_shares = groups.mesh.group(me.rank, "pp"), groups.mesh.size("dp_shard")
        self.place, self.is_tied = self.here["pp"], model.head.w_vocab.weight is model.stem.tokens.weight
        stages = split_evenly(parameter_costs(model), len(self.pipe))
        split_transformer(me, model, group=groups.group("tp"))
        self.stage = cut(model, stages)[self.place].to(me.device)
        self.parts = dict(self.stage.named_parameters(remove_duplicate=False))
        placements = parameter_placements(self.stage)
        self.dims = {name: getattr(placements[name], "dim", None) for name in self.parts}
        first_names = {id(part): name for name, part in reversed(self.parts.items()) if part.requires_grad}
        self.learning = {name: self.parts[name] for name in self.parts if name in first_names.values()}
        counts = {name: torch.full_like(part, self.counts(name)) for name, part in self.learning.items()}
        self.share = nn.Parameter(self.own(self.flat(self.learning)))
        self.counted = self.own(self.flat(counts))
        self.optimizer = optimizer_class([self.share], **defaults)

    def counts(self, name):
        """1.0 where this rank counts a parameter in a norm."""
        is_copy = self.dims[name] is None and self.here["tp"] > 0
        is_second_end = self.is_tied and self.place > 0 and name == "head.w_vocab.weight"
        return 0.0 if is_copy or is_second_end else 1.0

    def flat(self, named):
        """One vector of all that learns here, as long as dp_shard divides."""
        pieces = [named[name].detach().flatten() for name in self.learning]
        vector = torch.cat(pieces) if pieces else torch.zeros(0, device=self.me.device)
        return F.pad(vector, (0, -len(vector) % self.num_shares))

    def named(self, vector):
        """Its pieces by name."""
        sizes = [part.numel() for part in self.learning.values()]
        pieces = zip(self.learning.items(), vector[: sum(sizes)].split(sizes), strict=True)
        return {name: piece.view_as(part) for (name, part), piece in pieces}

    def own(self, vector):
        """This rank's share of a vector, not as a view: that would keep the whole vector."""
        return vector.view(self.num_shares, -1)[self.here["dp_shard"]].clone() if len(vector) else vector

    def whole_vector(self, share):
        rows = [torch.empty_like(share) for _ in range(self.num_shares)]
        dist.all_gather(rows, share.detach(), group=self.groups.group("dp_shard"))
        return torch.cat(rows)

    def forward_backward(self, tokens, targets):
        """GPipe. What this rank adds to the loss of the whole batch, 0-d."""
        before = self.pipe[self.place - 1] if self.place > 0 else None
        after = self.pipe[self.place + 1] if self.place + 1 < len(self.pipe) else None
        xs, ys = (
            batch.tensor_split(self.num_shares)[self.here["dp_shard"]].tensor_split(self.num_micro_batches)
            for batch in (tokens, targets)
        )
        loss, kept = torch.zeros((), dtype=torch.float64, device=self.me.device), []
        for x, y in zip(xs, ys, strict=True):
            if before is not None:
                x = next(iter(self.parts.values())).new_empty(*x.shape, self.config.width)
                dist.recv(x, before)
                x.requires_grad_()
            out = self.stage(x)
            if after is not None:
                dist.send(out.detach(), after)
            else:
                size, group = self.config.vocab_size, self.groups.group("tp")
                out = vocab_parallel_cross_entropy(self.me, out, y, vocab_size=size, group=group)
                out = out * len(y) / len(targets)
                loss += out.detach() * (self.here["tp"] == 0)  # one rank of tp speaks for all
            kept.append((x, out))
        for x, out in kept:
            grad = None
            if after is not None:
                grad = torch.empty_like(out)
                dist.recv(grad, after)
            if out.requires_grad:
                out.backward(grad)
            if before is not None:
                dist.send(x.grad, before)
        return loss

    def add_ends(self):
        """A tied matrix is at both ends of a pipeline, and both need the sum of its gradients."""
        ends = {self.pipe[0], self.pipe[-1]}
        name = "head.w_vocab.weight" if self.place else "stem.tokens.weight"
        if self.is_tied and len(ends) == 2 and self.me.rank in ends and name in self.learning:
            (other,) = ends - {self.me.rank}
            grad = self.parts[name].grad.contiguous()
            came = torch.empty_like(grad)
            for work in (dist.isend(grad, other), dist.irecv(came, other)):
                work.wait()
            self.parts[name].grad = grad + came
        ### END SOLUTION

    def step(self, tokens, targets, max_norm=None):
        """One training step on a whole batch, (B, T) each, the same on all ranks.

        Each share of the batch has as many rows as there are micro-batches, or more. Returns two floats, the same on
        all ranks: the mean loss of the batch, and the norm of the whole gradient. Where the norm is above
        ``max_norm`` the gradient is scaled, as by ``clip_grad_norm_``; the norm that is returned is the one before.
        """
        ### BEGIN SOLUTION
        for part in self.parts.values():
            part.grad = None
        loss = self.forward_backward(tokens.to(self.me.device), targets.to(self.me.device))
        with torch.no_grad():
            self.add_ends()
            grad = self.flat({name: part.grad for name, part in self.learning.items()})
            self.share.grad = torch.empty_like(self.share)
            rows = list(grad.chunk(self.num_shares)) if len(grad) else [grad] * self.num_shares
            dist.reduce_scatter(self.share.grad, rows, group=self.groups.group("dp_shard"))
            told = torch.stack([loss, (self.share.grad.double().square() * self.counted).sum()])
            dist.all_reduce(told)
            norm = told[1].sqrt()
            if max_norm is not None:
                self.share.grad *= (max_norm / (norm + 1e-6)).clamp(max=1.0)
            self.optimizer.step()
            for name, piece in self.named(self.whole_vector(self.share)).items():
                self.parts[name].copy_(piece)
        return told[0].item(), norm.item()
        ### END SOLUTION

    def save(self, folder):
        """Write weights and states into ``folder``, which is empty, and the same for all ranks."""
        ### BEGIN SOLUTION
        ### STUB pass  # from step 6 on
        kept, rest = {"weights": self.parts}, {}
        for key, one in self.optimizer.state.get(self.share, {}).items():
            if torch.is_tensor(one) and one.dim():
                kept[key] = self.named(self.whole_vector(one))
            else:
                rest[key] = one
        for key, named in kept.items():
            kept[key] = {name: self.joined(name, one) for name, one in named.items()}
        if self.here["dp_shard"] == self.here["tp"] == 0:
            torch.save(kept | {"rest": rest}, Path(folder) / f"stage-{self.place}.pt")
        dist.barrier()

    def joined(self, name, part):
        """The whole parameter of slices."""
        if self.dims[name] is None:
            return part.detach().clone()
        pieces = [None] * self.groups.mesh.size("tp")
        dist.all_gather_object(pieces, part.detach().cpu().clone(), group=self.groups.group("tp"))
        return torch.cat(pieces, self.dims[name])

    def slice(self, name, whole):
        dim = self.dims[name]
        return whole if dim is None else whole.tensor_split(self.groups.mesh.size("tp"), dim)[self.here["tp"]]
        ### END SOLUTION

    def load(self, folder):
        """Go on as the trainer that saved into ``folder`` would, perhaps on another mesh."""
        ### BEGIN SOLUTION
        ### STUB pass  # from step 6 on
        found = {}
        for path in sorted(Path(folder).glob("stage-*.pt")):
            for key, named in torch.load(path, map_location=self.me.device).items():
                found.setdefault(key, {}).update(named)
        weights, state = found.pop("weights"), found.pop("rest")
        with torch.no_grad():
            for name, part in self.parts.items():
                part.copy_(self.slice(name, weights[name]))
            self.share.copy_(self.own(self.flat(self.learning)))
        for key, named in found.items():
            if self.is_tied and "stem.tokens.weight" in named:  # saved without stages, under its first name
                named = {"head.w_vocab.weight": named["stem.tokens.weight"]} | named
            named = {name: self.slice(name, named[name]) for name in self.learning}
            state[key] = self.own(self.flat(named))
        self.optimizer.state[self.share] = state
        ### END SOLUTION


# %% [markdown]
# ## Step 1: data and slices
#
# There are no stages yet: pp has size 1. The check wants the parts, the losses and the weights of one process, in
# float64, after three steps. One of its meshes has the axes in another order, and a model with biases.
#
# ### A worked example
#
# Who stands where on a mesh of four ranks, and which rows of a batch of eight does each have?

# %%
mesh = Mesh.of(pp=1, dp_shard=2, tp=2)
for rank in range(4):
    here = mesh.coordinates(rank)
    rows = torch.arange(8).tensor_split(2)[here["dp_shard"]].tolist()
    print(f"rank {rank}: place {here}, rows {rows[0]} to {rows[-1]}")

# %% [markdown]
# ### Your class
#
# The next cells take three steps on `dp_shard=2 tp=2` with your class, with the course's, and with PyTorch's DTensor
# and `DeviceMesh`. If a class fails, the table has dashes for it.

# %%
small = TransformerConfig(vocab_size=64, context_length=16, num_layers=4, width=32, num_heads=4)
TOKENS = torch.randint(64, (5, 8, 17), generator=torch.Generator().manual_seed(7))
SETTINGS = {"lr": 0.01}


def model_of(seed=1):
    torch.manual_seed(seed)
    return Transformer(small).double()


def batch_of(me, step):
    return TOKENS[step, :, :-1].to(me.device), TOKENS[step, :, 1:].to(me.device)


# %%
def alone(num_steps, max_norm=1e9):
    """Losses and norms of one process, without any class."""
    model, told = model_of(), []
    optimizer = torch.optim.AdamW(model.parameters(), **SETTINGS)
    for tokens in TOKENS[:num_steps]:
        optimizer.zero_grad()
        loss = next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        told.append((loss.item(), norm.item()))
    return torch.tensor(told, dtype=torch.float64)


# %%
PLAN = {f"attention.{name}": ColwiseParallel() for name in ("w_q", "w_k", "w_v")}
PLAN |= {"attention.w_out": RowwiseParallel(), "mlp.w_up": ColwiseParallel(), "mlp.w_down": RowwiseParallel()}


def by_pytorch(me, groups, model):
    """Cut the model in place by DTensors, without stages. Returns PyTorch's mesh."""
    logging.getLogger("torch.distributed.tensor").setLevel(logging.ERROR)  # it warns of a call for each axis
    shape = groups.mesh.size("dp_shard"), groups.mesh.size("tp")
    mesh = init_device_mesh(me.device.type, shape, mesh_dim_names=("dp_shard", "tp"))
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], PLAN)
        fully_shard(block, mesh=mesh["dp_shard"])
    fully_shard(model, mesh=mesh["dp_shard"])
    return mesh


def limit_by_pytorch(model, max_norm):
    """Not by `clip_grad_norm_`, which wants DTensors of one mesh: here some are of two axes, and some of one."""
    grads = [parameter.grad for parameter in model.parameters()]
    norm = torch.stack([nn.utils.get_total_norm([grad]).full_tensor() for grad in grads]).norm()
    for grad in grads:
        grad.mul_(1.0 if max_norm is None else (max_norm / (norm + 1e-6)).clamp(max=1.0).item())
    return norm


# %%
class StepsByPyTorch:
    """DTensors on a `DeviceMesh`, with the interface of your class."""

    def __init__(self, me, groups, model, optimizer_class, num_micro_batches=2, **defaults):
        self.mesh, self.model = by_pytorch(me, groups, model), model
        self.optimizer = optimizer_class(model.parameters(), foreach=False, **defaults)

    def step(self, tokens, targets, max_norm=None):
        place, count = self.mesh.get_local_rank("dp_shard"), self.mesh.size(0)
        self.optimizer.zero_grad()
        loss = next_token_loss(self.model(tokens.chunk(count)[place]), targets.chunk(count)[place])
        loss.backward()
        norm = limit_by_pytorch(self.model, max_norm)
        self.optimizer.step()
        loss = loss.detach() / count
        dist.all_reduce(loss, group=self.mesh.get_group("dp_shard"))
        return loss.item(), norm.item()


# %%
class PyTorchs(StepsByPyTorch):
    """With a checkpoint by DCP, which knows DTensors."""

    def state(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def save(self, folder):
        dcp.save(self.state(), checkpoint_id=folder)

    def load(self, folder):
        state = self.state()
        dcp.load(state, checkpoint_id=folder)  # into the tensors themselves
        both = {"model_state_dict": state["model"], "optim_state_dict": state["optimizer"]}
        set_state_dict(self.model, self.optimizer, **both)


# %%
TRAINERS = {"yours": MyMeshTrainer, "the course's": courses.MyMeshTrainer, "PyTorch's": PyTorchs}


def steps_on(me, trainer_class, axes, max_norm, with_norms):
    """The losses of three steps, and the norms; the model is made here, so it counts as memory."""
    groups = MeshGroups(me, Mesh.parse(axes))
    trainer = trainer_class(me, groups, model_of().to(me.device), torch.optim.AdamW, **SETTINGS)
    told = [trainer.step(*batch_of(me, step), max_norm) for step in range(3)]
    groups.close()
    return torch.tensor([one if with_norms else one[:1] for one in told], dtype=torch.float64)


def beside(axes, names=tuple(TRAINERS), max_norm=None, with_norms=False):
    return side_by_side(
        four,
        lambda me, trainer_class: steps_on(me, trainer_class, axes, max_norm, with_norms),
        {name: TRAINERS[name] for name in names},
        expected=alone(3, max_norm or 1e9)[:, : 1 + with_norms],
        within=1e-9,
        build="09.mesh",
        title=f"Three steps on {axes}",
    )


# %% tags=["nbval-ignore-output"]
beside("pp=1 dp_shard=2 tp=2")

# %%
check("09.mesh_values", MyMeshTrainer)

# %%
# hint("09.mesh_values")

# %% [markdown]
# ## Step 2: stages
#
# Now pp has two ranks, or four, and the rows of a rank go through in micro-batches. Which ranks have a loss, and which
# of them have the same one? Every rank returns the loss of the whole batch.
#
# In `dist.send(tensor, rank)` the rank is one of the whole job. A send of gloo returns when the receiver has it, so two
# ranks that both send first may wait for ever.

# %% tags=["nbval-ignore-output"]
beside("pp=2 dp_shard=1 tp=2", names=("yours", "the course's"))

# %%
check("09.mesh_stages", MyMeshTrainer)

# %%
# hint("09.mesh_stages")

# %% [markdown]
# ## Step 3: states, shared out
#
# Along dp_shard all ranks have the same parts. So each rank needs to update only a share of them, and to keep states
# for that share alone. Afterwards each rank gets the new numbers from the others. The check counts what is in memory
# after two steps of AdamW on four ranks, beside parts and gradients.

# %%
whole = torch.arange(10.0)
padded = F.pad(whole, (0, -len(whole) % 4))
print("shares of ten numbers on four ranks:", *padded.view(4, -1).tolist())

# %%
check("09.mesh_shards", MyMeshTrainer)

# %%
# hint("09.mesh_shards")

# %% [markdown]
# The first sitting may end here.
#
# ## Step 4: messages
#
# The check has the meter on in the second step. It adds up each axis' bytes on a rank, as rings send them. A call may
# also go to ranks that differ along several axes. All calls of this kind may send 1,024 bytes together, which is enough
# for loss and norm.
#
# How many times the bytes of its parts does a rank have to send along dp_shard, at the least? Answer before you look at
# the table.

# %% tags=["nbval-ignore-output"]
beside("pp=1 dp_shard=4 tp=1")

# %% [markdown]
# (In the table gloo does an all-reduce for each reduce-scatter; the check counts what rings would send. PyTorch's class
# gathers the weights of each unit, in forward and in backward, since it keeps no whole parts.)

# %%
check("09.mesh_messages", MyMeshTrainer)

# %%
# hint("09.mesh_messages")

# %% [markdown]
# ## Step 5: one norm
#
# Now `step` also returns the norm of the whole gradient, and scales that gradient where it is above `max_norm`. Some of
# a rank's numbers are on no other rank, some are also on its neighbour along tp. How often does a plain sum over all
# ranks count each of them?

# %%
split = four.run(lambda me: parameter_placements(split_transformer(me, model_of())))[0]
print(
    {name.removeprefix("blocks.0."): str(one) for name, one in split.items() if name.startswith("blocks.0")}
)

# %% tags=["nbval-ignore-output"]
beside("pp=1 dp_shard=2 tp=2", max_norm=0.5, with_norms=True)

# %%
check("09.mesh_norm", MyMeshTrainer)

# %%
# hint("09.mesh_norm")

# %% [markdown]
# ## Step 6: a checkpoint for any mesh
#
# `save` writes weights and states. `load` is called on a new trainer, perhaps on another mesh, whose model has other
# weights. The new trainer goes on as if training had never stopped. Each number is written once; the check looks at the
# size of the folder. Your files may have any names and any contents.
#
# Here each class saves on `dp_shard=2 tp=2` after three steps, and goes on with four ranks along dp_shard.


# %%
def from_mesh_to_mesh(me, trainer_class, folder):
    """The losses after a checkpoint."""
    told = []
    for axes, seed, steps in (
        ("pp=1 dp_shard=2 tp=2", 1, range(3)),
        ("pp=1 dp_shard=4 tp=1", 2, range(3, 5)),
    ):
        groups = MeshGroups(me, Mesh.parse(axes))
        trainer = trainer_class(me, groups, model_of(seed).to(me.device), torch.optim.AdamW, **SETTINGS)
        if seed == 2:
            trainer.load(folder)
        told = [trainer.step(*batch_of(me, step))[0] for step in steps]
        if seed == 1:
            trainer.save(folder)
            dist.barrier()
        groups.close()
    return told


# %% tags=["nbval-ignore-output"]
later = alone(5)[3:, 0].tolist()
weight_bytes = sum(parameter.nbytes for parameter in model_of().parameters())
for name, trainer_class in TRAINERS.items():
    with folder_for_ranks(four) as folder:
        try:
            losses = four.run(from_mesh_to_mesh, trainer_class, folder)[0]
        except (RankFailed, RankTimeout) as error:
            print(f"{name:<13} {str(error).partition(chr(10))[0]}")
            continue
        size_bytes = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    same = agree(losses, later, within=1e-9)
    print(
        f"{name:<13} the losses of one process: {same}; folder {size_bytes / weight_bytes:.1f} times the weights"
    )

# %%
check("09.mesh_checkpoint", MyMeshTrainer)

# %%
# hint("09.mesh_checkpoint")

# %% [markdown]
# From here on your class is kept: `mine.MyMeshTrainer` is yours.
#
# ## Step 7: awkward models
#
# In which of these cases does your class raise an error, and in which is it wrong without an error?
#
# - one matrix for tokens and scores, at both ends of a pipeline of two or four stages;
# - frozen weights, and a stage in which all weights are frozen;
# - a batch that does not divide, and sizes that do not divide by tp or dp_shard;
# - an optimizer without states; one rank, on which all axes have size 1.

# %%
check("09.mesh_awkward", MyMeshTrainer)

# %%
# hint("09.mesh_awkward")

# %% [markdown]
# ## All of it
#
# The last run has two stages, two shares of the batch and a limit, and is compared with one process.
# (`mine.MyMeshTrainer` is your version that passed step 6. Until then the course's stands in.)

# %% tags=["nbval-ignore-output"]
own_trainer = mine.MyMeshTrainer

# %%
told = four.run(steps_on, own_trainer, "pp=2 dp_shard=2 tp=1", 0.5, with_norms=True)[0]
print("losses and norms of one process:", agree(told, alone(3, 0.5), within=1e-9))

# %%
build_progress("09.mesh")

# %% [markdown]
# ## What you can do now
#
# You have written what torchtitan has in its train step: stages of `torch.distributed.pipelining`,
# `parallelize_module`, `fully_shard`, a norm that adds squares over pp, and `torch.distributed.checkpoint`.
#
# torchtitan shards weights and gradients as well, while your parts are whole along dp_shard. You can build such shards
# in [05g](05g_build_fully_sharded.ipynb). torchtitan computes while it sends. And its checkpoint is written piece by
# piece: no rank ever joins a parameter.
