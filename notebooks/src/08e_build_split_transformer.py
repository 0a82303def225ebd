# %% [markdown]
# # 08e · Tensor parallelism: build the transformer
#
# You begin with one empty class, and extend it in seven steps. At the end it trains a transformer, and you compare it
# with the course's class and PyTorch's. No rank has more than its part of the model.
#
# **2 × 75 minutes · difficulty 5 of 5 · needs: cpu**
#
# Part 5 of 5 · [1: one product, cut](08a_tensor_parallel.ipynb) · [2: a transformer, cut](08b_split_transformer.ipynb)
# · [3: positions, shared out](08c_sequence_parallel.ipynb) · [4: the link, two faults, and
# production](08d_links_and_production.ipynb)
#
# This part builds on [08a: one product, cut](08a_tensor_parallel.ipynb), [08b: a transformer,
# cut](08b_split_transformer.ipynb) and [08c: positions, shared out](08c_sequence_parallel.ipynb). Have you done them?
# `from course_lib import start; start("08e")` says whether you have.
#
# At the end you can
#
# - cut a transformer by columns, rows and vocabulary, from its interface alone;
# - say what each rank sends, holds and keeps of a step, and prove it;
# - share out positions, and say which random numbers have to agree.
#
# From parts 1 to 3 you need the regions of a block, their gates, and the gates along positions. And you need the loss
# of a vocabulary that is cut.

# %%
from course_lib import ask, build_progress, check, hint, mine, reveal, shared_cluster, side_by_side
from course_lib.data import documentation_windows, loader
from course_lib.mine import courses
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.tensor import (
    all_gather_reduce_scatter,
    all_reduce_identity,
    identity_all_reduce,
    load_unsplit,
    reduce_scatter_all_gather,
    split_all_gather,
)
from course_lib.plot import lines, memory_bars
from course_lib.rounding import agree

import contextlib
import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

# %% tags=["nbval-ignore-output"]
two, four = shared_cluster(2), shared_cluster(4)

# %% [markdown]
# ![Two ranks. Each has its part of a block, of the first matrix and of the last one. A question mark stands at each
# place where something may travel](../assets/08_building.png)
#
# ## One cell
#
# You have five gates from this lesson. Each takes `me`, a tensor and `group`; the last three take `dim` as well. Only
# `split_along` is new: of a tensor that all ranks have, each rank keeps its part. In the backward pass it gathers the
# gradients.

# %%
enter, leave = identity_all_reduce, all_reduce_identity
enter_along, leave_along = all_gather_reduce_scatter, reduce_scatter_all_gather
split_along = split_all_gather

# %% [markdown]
# You write everything in the next code cell. Seven steps follow it, and each has a check. Each check demands all that
# the checks before it demand, and one thing more. So you come back to this cell: change it, run it, and run the next
# check.
#
# Take two sittings. The first one ends with step 4, and needs neither `group` nor `sequence`. Step 6 is the hardest.
#
# The model is in `course_lib/models/transformer.py`; open it beside this page. Your class does not call the model's
# modules. You write the forward pass again, as functions of a rank's parts. For step 1 both matrices of the vocabulary
# may be whole.


# %%
class MySplitTransformer:
    """This rank's parts of a ``Transformer``, and the loss, which is that of the whole model on every rank.

    ``model``: whole and the same on all ranks; it stays as it is, and may be let go. ``group``: the ranks that share
    it; None: all. ``sequence``: between the regions each rank has its own positions.

    ``parts``: a dict, for each name of ``model.named_parameters()`` this rank's ``nn.Parameter``. Rank r of n has the
    r-th of n pieces: along dim 0 of tokens, w_vocab, w_q, w_k, w_v, w_up and their biases, along dim 1 of w_out and
    w_down. All else is whole. Where a size does not divide, the first ranks have one row more.
    """

    def __init__(self, me, model, group=None, sequence=False):
        ### BEGIN SOLUTION
        self.me, self.group, self.sequence, self.config = me, group, sequence, model.config
        ranks = list(range(me.world_size)) if group is None else dist.get_process_group_ranks(group)
        self.place, self.count = ranks.index(me.rank), len(ranks)
        for heads in (model.config.num_heads, model.config.kv_heads):
            self.has_to_divide(heads, "heads")
        self.dropout = model.config.dropout if model.training else 0.0
        named, made = list(model.named_parameters(remove_duplicate=False)), {}
        for name, whole in named:
            if id(whole) not in made:
                part = self.own_part(name, whole.detach()).clone(memory_format=torch.contiguous_format)
                made[id(whole)] = nn.Parameter(part.to(me.device), requires_grad=whole.requires_grad)
        self.parts = {name: made[id(whole)] for name, whole in named}

    def has_to_divide(self, number, what):
        if number % self.count:
            raise ValueError(f"{number} {what} do not divide among {self.count} ranks")

    def own_part(self, name, whole):
        layer, kind = name.split(".")[-2:]
        if layer in ("tokens", "w_vocab", "w_q", "w_k", "w_v", "w_up"):
            return whole.split(self.sizes(len(whole)), 0)[self.place]
        if layer in ("w_out", "w_down") and kind == "weight":
            return whole.split(self.sizes(whole.size(1)), 1)[self.place]
        return whole

    def sizes(self, number):
        least, more = divmod(number, self.count)
        return [least + (rank < more) for rank in range(self.count)]

    def enter(self, x):
        if self.sequence:
            return enter_along(self.me, x, dim=1, group=self.group)
        return enter(self.me, x, group=self.group)

    def leave(self, x):
        if self.sequence:
            return leave_along(self.me, x, dim=1, group=self.group)
        return leave(self.me, x, group=self.group)

    def shared(self, name):
        """What all ranks hold, or None. Used on own positions, it needs its gradients summed."""
        part = self.parts.get(name)
        return enter(self.me, part, group=self.group) if self.sequence and part is not None else part

    @contextlib.contextmanager
    def own_numbers(self):
        """In it random numbers are this rank's own; after it they are those of all ranks again."""
        seed = int(torch.randint(2**62, ()))
        with torch.random.fork_rng([] if self.me.device.type == "cpu" else [self.me.device]):
            torch.manual_seed(seed + self.place)
            yield

    def dropped(self, x):
        if not self.dropout:
            return x
        with self.own_numbers() if self.sequence else contextlib.nullcontext():
            return F.dropout(x, self.dropout)

    def stem(self, tokens):
        place, is_here = self.among_own(tokens)
        vectors = torch.where(is_here[..., None], F.embedding(place, self.parts["stem.tokens.weight"]), 0.0)
        positions = self.parts["stem.positions.weight"][: tokens.size(1)]
        if self.sequence:
            positions = split_along(self.me, positions, dim=0, group=self.group)
        return self.dropped(self.leave(vectors) + positions)

    def among_own(self, tokens):
        """Where each token stands among this rank's rows, and whether it is there."""
        sizes = self.sizes(self.config.vocab_size)
        place = tokens - sum(sizes[: self.place])
        is_here = (place >= 0) & (place < sizes[self.place])
        return torch.where(is_here, place, 0), is_here

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.shared(f"{name}.weight"), self.shared(f"{name}.bias"))

    def columns(self, name, x):
        return F.linear(x, self.parts[f"{name}.weight"], self.parts.get(f"{name}.bias"))

    def rows(self, name, x):
        y = self.leave(F.linear(x, self.parts[f"{name}.weight"]))
        bias = self.shared(f"{name}.bias")
        return self.dropped(y if bias is None else y + bias)

    def attention(self, name, x):
        x = self.enter(x)
        q, k, v = (
            self.columns(f"{name}.{layer}", x).unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2)
            for layer in ("w_q", "w_k", "w_v")
        )
        with self.own_numbers() if self.dropout else contextlib.nullcontext():
            mixed = F.scaled_dot_product_attention(
                q, k, v, dropout_p=self.dropout, is_causal=True, enable_gqa=q.size(1) != k.size(1)
            )
        return self.rows(f"{name}.w_out", mixed.transpose(1, 2).flatten(2))

    def mlp(self, name, x):
        return self.rows(f"{name}.w_down", F.gelu(self.columns(f"{name}.w_up", self.enter(x))))

    def cross_entropy(self, logits, targets):
        largest = logits.detach().amax(-1)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.group)
        shifted = logits - largest[..., None]
        place, is_here = self.among_own(targets)
        target = torch.where(is_here, shifted.gather(-1, place[..., None])[..., 0], 0.0)
        sums = leave(self.me, torch.stack([shifted.exp().sum(-1), target]), group=self.group)
        return (sums[0].log() - sums[1]).mean()
        ### END SOLUTION

    def loss(self, tokens, targets):
        """The mean cross-entropy, 0-d, the same on all ranks. tokens and targets: (B, T), the same on all ranks."""
        ### BEGIN SOLUTION
        if self.sequence:
            self.has_to_divide(tokens.size(1), "positions")
        x = self.stem(tokens)
        for i in range(self.config.num_layers):
            x = x + self.attention(f"blocks.{i}.attention", self.norm(f"blocks.{i}.norm1", x))
            x = x + self.mlp(f"blocks.{i}.mlp", self.norm(f"blocks.{i}.norm2", x))
        x = self.enter(self.norm("head.norm", x))
        return self.cross_entropy(self.columns("head.w_vocab", x), targets)
        ### END SOLUTION


# %% [markdown]
# ## Step 1: the values
#
# The check compares the loss, the parts and the gradients with those of one device, in float64, in two steps. Between
# the steps it changes the parts in place, as an optimizer does. One of its models has biases.
#
# ### A worked example
#
# What is in the model, and what is in a part? The next cell cuts one layer by rows, for two ranks.

# %%
small = TransformerConfig(vocab_size=256, context_length=512, num_layers=2, width=64, num_heads=4)
model = Transformer(small)
print([name for name, _ in model.named_parameters() if name.startswith(("stem", "blocks.0.mlp", "head"))])
down = model.get_parameter("blocks.0.mlp.w_down.weight")
parts = [down[:, :128], down[:, 128:]]  # dim 1 is that of the hidden units
hidden = torch.ones(3, 256)
summands = [F.linear(hidden[:, :128], parts[0]), F.linear(hidden[:, 128:], parts[1])]
print("the summands make the product:", agree(sum(summands), F.linear(hidden, down), within=1e-5))

# %% [markdown]
# ### Your class
#
# The run below computes one batch on two ranks in three ways: with your class, with the course's and with PyTorch's
# `parallelize_module`. For a class that fails the table shows dashes.


# %%
def model_of(config, seed=1):
    torch.manual_seed(seed)
    return Transformer(config).double()


def batch_of(config, rows=4, length=32):
    tokens = torch.randint(config.vocab_size, (rows, length + 1), generator=torch.Generator().manual_seed(7))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def given(me):
    tokens, targets = batch_of(small)
    return model_of(small).to(me.device), tokens.to(me.device), targets.to(me.device)


# %%
def on_the_host(tensor, like=None):
    """The numbers of this rank; PyTorch's are in a DTensor, a gradient perhaps not placed as its weight is."""
    if hasattr(like, "placements"):
        tensor = tensor.redistribute(placements=like.placements)
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach().cpu()


def one_batch(me, split, named, model, tokens, targets):
    from torch.distributed.tensor.parallel import loss_parallel

    made = split(me, model, **named)
    with loss_parallel():  # PyTorch's loss asks for it, also on the way back
        loss = made.loss(tokens, targets)
        loss.backward()
    grads = {name: on_the_host(part.grad, part) for name, part in made.parts.items()}
    return grads | {"loss": on_the_host(loss)}


# %%
def alone(me):
    """What one process has for the parts of a rank: its gradients, cut as the course cuts weights."""
    model, tokens, targets = given(me)
    loss = next_token_loss(model(tokens), targets)
    loss.backward()
    split = courses.MySplitTransformer(me, model).split
    load_unsplit(me, split.model, {name: p.grad for name, p in model.named_parameters()})
    return {name: on_the_host(part) for name, part in split.parts.items()} | {"loss": on_the_host(loss)}


def by_plan(me):
    """How PyTorch is to cut the course's transformer."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel

    entrance = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    plan = {"stem.tokens": RowwiseParallel(input_layouts=Replicate())}
    for block in ("blocks.0", "blocks.1"):
        plan |= {f"{block}.attention": entrance, f"{block}.mlp": entrance}
        plan |= {f"{block}.attention.{name}": ColwiseParallel() for name in ("w_q", "w_k", "w_v")}
        plan |= {f"{block}.attention.w_out": RowwiseParallel(), f"{block}.mlp.w_up": ColwiseParallel()}
        plan |= {f"{block}.mlp.w_down": RowwiseParallel()}
    return plan | {"head.w_vocab": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}


# %%
class PyTorchs:
    """PyTorch's `parallelize_module` with the interface of your class, without `sequence`."""

    def __init__(self, me, model, group=None, sequence=False):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import parallelize_module

        mesh = init_device_mesh(me.device.type, (me.world_size,))
        own = copy.deepcopy(model)
        self.model = parallelize_module(own, mesh, by_plan(me), src_data_rank=None)  # all have the model
        self.parts = dict(self.model.named_parameters())

    def loss(self, tokens, targets):
        return next_token_loss(self.model(tokens), targets)


# %%
SPLITS = {"yours": MySplitTransformer, "the course's": courses.MySplitTransformer, "PyTorch's": PyTorchs}
expected = two.run(alone)


def beside(splits, **named):
    return side_by_side(
        two,
        lambda me, split, *batch: one_batch(me, split, named, *batch),
        splits,
        expected=lambda rank: expected[rank],
        prepare=given,
        within=1e-9,
        build="08.split",
    )


# %%
beside(SPLITS)

# %%
values = check("08.split_values", MySplitTransformer)

# %%
# hint("08.split_values")

# %% [markdown]
# ## Step 2: the vocabulary
#
# Now each rank has the rows of some tokens, in the first matrix and in the last. A rank computes the logits of its own
# tokens, and no rank may gather all logits. The check looks at each tensor that your class makes, and at what it
# gathers. No tensor may have as many numbers as all logits together. One of its models has logits as large as 1000.

# %%
check("08.split_vocabulary", MySplitTransformer)

# %%
# hint("08.split_vocabulary")

# %% [markdown]
# ## Step 3: messages
#
# How many collectives does a step of two layers need, forward and backward? Count the gates before you look. The check
# allows two collectives for a layer each way, and one each way for the vocabulary. For the loss it allows three more
# numbers for each position. It counts the bytes that rings would send.

# %%
beside(SPLITS)

# %%
check("08.split_messages", MySplitTransformer)

# %%
# hint("08.split_messages")

# %% [markdown]
# ## Step 4: memory
#
# Take the model of the tables again; it has 512 positions. Its matrices are cut among four ranks.
#
# **Which share of the model's numbers does each of four ranks hold, in percent?**

# %%
weights = sum(p.numel() for p in Transformer(small).parameters())
table = Transformer(small).get_parameter("stem.positions.weight").numel()
print(f"numbers of the model: {weights:,}; of its table of positions: {table:,}")

# %%
### BEGIN SOLUTION
### STUB ask("08.held")
ask("08.held").commit(25)  # "a quarter"
### END SOLUTION


# %%
def numbers_held(me):
    return sum(part.numel() for part in courses.MySplitTransformer(me, model_of(small)).parts.values())


held = four.run(numbers_held)[0]
print(f"each of four ranks holds {held:,} numbers")

# %%
reveal("08.held", held, weights, table)

# %% [markdown]
# The check deletes the model after it has made an object of your class. Then it counts what is still in memory: only
# parts may be there. It also counts what is there between forward and backward, and after a step. Nothing of a step may
# stay. (`F.scaled_dot_product_attention` keeps no scores.)

# %%
check("08.split_memory", MySplitTransformer)

# %%
# hint("08.split_memory")

# %% [markdown]
# Once step 4 has passed, the course keeps your class as `mine.MySplitTransformer`. This is a good place to end the
# first sitting.
#
# ## Step 5: positions shared out
#
# With `sequence=True` each rank has its own positions between the regions. The stem ends with the rank's own positions,
# norms and the residual stream work on them, and the head's entrance gathers all positions. The ranks send as many
# bytes as before. Which parameters do all ranks now hold and use on positions of their own? The check looks at their
# gradients, and at what a rank keeps.

# %%
beside({name: split for name, split in SPLITS.items() if name != "PyTorch's"}, sequence=True)

# %% [markdown]
# (The row of messages counts both halves of each sum. gloo runs a reduce-scatter as an all-reduce, so it sends more
# bytes here than a ring would. The check counts the bytes that rings would send.)

# %%
check("08.split_sequence", MySplitTransformer)

# %%
# hint("08.split_sequence")

# %% [markdown]
# ## Step 6: seeds
#
# If `model.config.dropout` is above 0, the model has dropout in four places: after the stem, after `w_out`, after
# `w_down`, and inside attention (`dropout_p`). A model in eval mode drops nothing. All ranks have the same seed.
#
# At which of these four places must the masks be the same on all ranks, and at which must they differ? The answer
# depends on `sequence`, and the check below tests yours. Equal seeds make equal masks, also for different parts, and
# there is no error:

# %%
torch.manual_seed(0)
first = F.dropout(torch.ones(2, 6), 0.5)
torch.manual_seed(0)
second = F.dropout(torch.ones(2, 6), 0.5)
print("two ranks' masks are one and the same:", torch.equal(first, second))

# %% [markdown]
# The check finds out masks from gradients alone. It has a model whose heads are all alike, and one whose positions are
# all alike. If two ranks of such a model have the same gradient, they had the same mask.

# %%
check("08.split_seeds", MySplitTransformer)

# %%
# hint("08.split_seeds")

# %% [markdown]
# ## Step 7: awkward models
#
# In which of these cases does your class raise an error that does not help? In which does it have a wrong result
# without an error?
#
# - one matrix for tokens and scores; parts that are frozen; two batches before a step;
# - a vocabulary and hidden units that the ranks do not divide; fewer heads of keys than of queries;
# - a short batch of one row, in float32; two models at the same time;
# - a group that is not all ranks, and a group of one;
# - a number of heads that the ranks do not divide, or of positions with `sequence`: every rank must raise a
#   `ValueError` that says both numbers.

# %%
check("08.split_awkward", MySplitTransformer)

# %%
# hint("08.split_awkward")

# %% [markdown]
# ## Train with it
#
# (`mine.MySplitTransformer` is the version of your class that has passed, or the course's class until then.)

# %% tags=["nbval-ignore-output"]
own_split = mine.MySplitTransformer

# %% [markdown]
# First compare memory. The bars show the bytes of the parts on one rank of four, and of the whole model.


# %%
def bytes_held(me, split):
    parts = split(me, model_of(small).to(me.device)).parts
    return sum(part.nbytes for part in parts.values())


# %% tags=["nbval-ignore-output"]
whole = sum(p.nbytes for p in model_of(small).parameters())
both = mine.beside(
    lambda split: four.run(bytes_held, split)[0],
    courses.MySplitTransformer,
    mine.if_passed("MySplitTransformer"),
)
bars = {"the whole model": whole} | {f"a rank of four, {name}": size for name, size in both.items()}
memory_bars({name: {"parameter": size} for name, size in bars.items()}, title="Parts of a transformer")

# %% [markdown]
# Then the class trains on the documentation of this course: forty steps of AdamW on four ranks. One device takes the
# same steps.

# %%
config = TransformerConfig(context_length=32, num_layers=2, width=32, num_heads=4)
text, _ = documentation_windows(config.context_length)
x, y = next(iter(loader(text, 16)))


def steps_of(loss_of, parameters, num_steps=40):
    optimizer = torch.optim.AdamW(parameters, lr=1e-2)
    losses = []
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %%
def train(me, split):
    made = split(me, model_of(config).to(me.device))
    return steps_of(lambda: made.loss(x.to(me.device), y.to(me.device)), made.parts.values())


def train_alone():
    model = model_of(config)
    return steps_of(lambda: next_token_loss(model(x), y), model.parameters())


curves = {"one device": train_alone(), "four ranks": four.run(train, own_split)[0]}
print("the last losses agree:", agree(*(curve[-1] for curve in curves.values()), within=1e-6))

# %% tags=["nbval-ignore-output"]
lines(
    {name: dict(enumerate(curve, start=1)) for name, curve in curves.items()},
    x_label="step",
    y_label="loss in nats",
    title="The same training, cut and whole",
)

# %% [markdown]
# ## How far you are

# %% tags=["nbval-ignore-output"]
build_progress("08.split")

# %% [markdown]
# ## What you can do now
#
# You have written what Megatron-LM calls a tensor-parallel transformer, with its vocabulary and its sequence
# parallelism. PyTorch's `parallelize_module` makes such a model from a plan.
#
# The course's class does two things better. At an entrance it begins to send the gradient of x before it computes the
# gradient of the weight ([part 4](08d_links_and_production.ipynb)). And with a setting it frees a gathered input and
# gathers it again (`regather` in [part 3](08c_sequence_parallel.ipynb)).
#
# A group of ranks now holds one model. [Lesson 09](09a_meshes.ipynb) makes several such groups.
