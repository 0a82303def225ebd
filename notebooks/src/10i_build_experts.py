# %% [markdown]
# # 10i · Long context and experts: build an expert layer
#
# You fill one empty class in seven steps, and each step demands more of it. At the end a transformer learns with it on
# four ranks, and is compared with one device.
#
# **2 × 75 minutes · difficulty 5 of 5 · needs: cpu**
#
# Part 9 of 9 · [1: the ring](10a_long_context.ipynb) · [2: equal work, and all-to-all](10b_equal_work.ipynb) · [3:
# experts, shared out](10c_experts.ipynb) · [4: equally busy](10d_busy_experts.ipynb) · [5: hide the
# exchange](10e_hide_the_exchange.ipynb) · [6: many small experts](10f_many_small_experts.ipynb) · [7: packed
# documents](10g_packed_documents.ipynb) · [8: build ring attention](10h_build_ring_attention.ipynb)
#
# This part builds on [10c: experts, shared out](10c_experts.ipynb) and [10d: equally busy](10d_busy_experts.ipynb).
# Have you done them? `from course_lib import start; start("10i")` says whether you have.
#
# At the end you can
#
# - write a layer whose experts are on other ranks, forward and backward;
# - say for each row why it is sent, and who waits for whom when there is none;
# - limit what an expert takes, and keep experts busy, on any number of ranks.
#
# From [part 3](10c_experts.ipynb) you need the router, dispatch and combine, from [part 4](10d_busy_experts.ipynb) the
# capacity and the load-balancing loss.

# %%
from course_lib import build_progress, check, hint, mine, shared_cluster, side_by_side
from course_lib.data import documentation_windows
from course_lib.meter import bytes_text, metered
from course_lib.mine import courses
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.plot import gantt_beside
from course_lib.rounding import agree

import math
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ![Rank 1 of four: its tokens go through a router to experts on four ranks and come back; question marks stand at who
# says how many come, at the order in which rows stand, at the way back of gradients, and at an expert that is
# full](../assets/10_experts_to_build.png)
#
# ## One cell
#
# This cell is all that you write. Seven steps follow. Each has a check, which demands what the checks before it demand,
# and one thing more. So you come back to this cell: change it, run it, and run the next check.
#
# Take two sittings. The first one ends with step 3, and each takes some 75 minutes.
#
# For each step, write the shortest code that passes its check. For step 1 every rank may send everything to all ranks.


# %%
### BEGIN SOLUTION
### STUB # what your class needs beside itself can stand here
def widened(x):
    """In float32 at least: scores that are nearly equal must not change places."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class Exchange(torch.autograd.Function):
    """Rows to other ranks; their gradients take the same way back."""

    @staticmethod
    def forward(ctx, rows, going, coming, group):
        ctx.sizes, ctx.group = (going, coming), group
        out = rows.new_empty(sum(coming), rows.size(1))
        dist.all_to_all_single(out, rows.contiguous(), coming, going, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        going, coming = ctx.sizes
        return Exchange.apply(grad, coming, going, ctx.group), None, None, None


### END SOLUTION
class MyExperts(nn.Module):
    """E experts on the n ranks of a group: each of this rank's tokens goes to ``top_k`` of them, and comes back.

    ``router``: an ``nn.Linear(D, E, bias=False)``, the same on all ranks. ``experts``: a list of E/n modules, each
    (R, D) -> (R, D), where R may be 0. Rank r of the group has the experts r E/n to (r + 1) E/n - 1. Their
    parameters get the gradients. That of an expert is the sum over the tokens of all ranks, that of the router over
    this rank's own. ``capacity_factor``: for step 5; None: an expert takes all choices. ``group``: None for all ranks.
    """

    def __init__(self, me, router, experts, top_k=2, capacity_factor=None, group=None):
        super().__init__()
        ### BEGIN SOLUTION
        self.n = me.world_size if group is None else dist.get_world_size(group)
        self.router, self.experts = router, nn.ModuleList(experts)
        self.top_k, self.capacity_factor, self.group = top_k, capacity_factor, group

    def with_room(self, chosen, num_experts):
        """(N, k) -> (N, k) bool: all first choices have their turn before all second ones."""
        if self.capacity_factor is None:
            return torch.ones_like(chosen, dtype=torch.bool)
        room = math.ceil(self.capacity_factor * chosen.numel() / num_experts)
        taken = F.one_hot(chosen.T.flatten(), num_experts)  # a row for each choice, in turn
        before = (taken.cumsum(0) * taken).sum(1) - 1
        return (before < room).view(self.top_k, -1).T

    def run(self, rows, come):
        """What this rank's experts make of the rows that came, rank after rank and in each expert after expert."""
        own = torch.arange(len(self.experts), device=rows.device)
        order = own.repeat(self.n).repeat_interleave(come).argsort(stable=True)
        parts = rows[order].split(come.view(self.n, -1).sum(0).tolist())
        made = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        return made[order.argsort()]

    def balance(self, probabilities, chosen):
        """E times the sum of f P; the mean over ranks is that of all tokens."""
        counts = torch.bincount(chosen.flatten(), minlength=probabilities.size(1))
        dist.all_reduce(counts, group=self.group)
        counts = counts.to(probabilities.dtype)  # whole numbers would be divided in float32
        total = counts.sum()  # choices of all ranks
        means = probabilities.sum(0) * (self.n * self.top_k / total)
        return probabilities.size(1) * (counts / total * means).sum()
        ### END SOLUTION

    def forward(self, x, balance=False):
        """(..., D) -> (..., D), of the dtype of x.

        A token goes to the k experts of the largest softmax probabilities. Its output is the sum of theirs, each
        times its probability. With ``balance``, for step 6: returns a pair, the output and the loss, 0-d.
        All ranks of the group call together, and go backward together.
        """
        ### BEGIN SOLUTION
        tokens = x.reshape(-1, x.size(-1))
        if torch.is_grad_enabled() and not tokens.requires_grad:
            tokens = tokens.detach().requires_grad_()  # so all ranks go back through both exchanges
        probabilities = F.linear(widened(tokens), widened(self.router.weight)).softmax(-1)
        weights, chosen = probabilities.topk(self.top_k)
        num_experts, kept = probabilities.size(1), self.with_room(chosen, probabilities.size(1))

        order = chosen.masked_fill(~kept, num_experts).flatten().argsort(stable=True)[: int(kept.sum())]
        counts = torch.bincount(chosen[kept], minlength=num_experts)
        come = torch.empty_like(counts)  # from each rank, how many rows for each of these experts
        dist.all_to_all_single(come, counts, group=self.group)
        going, coming = (part.view(self.n, -1).sum(1).tolist() for part in (counts, come))
        rows = Exchange.apply(tokens[order // self.top_k], going, coming, self.group)
        back = Exchange.apply(self.run(rows, come), coming, going, self.group)

        made = back.new_zeros(chosen.numel(), back.size(1)).index_put((order,), back)
        out = (widened(made).view(*chosen.shape, back.size(1)) * weights.unsqueeze(-1)).sum(1)
        out = out.to(x.dtype).view_as(x)
        return (out, self.balance(probabilities, chosen)) if balance else out
        ### END SOLUTION


# %% [markdown]
# ## Step 1: the values
#
# No gradients yet. Every rank has as many tokens as each other rank, and no expert has a limit. `x` may have more dims
# than two, as (B, T, D) in a transformer. The check calls your layer twice. (Your layer must not change its input.)
#
# The run below has 32 tokens on each of four ranks, and eight experts. It compares your class, the course's, and
# PyTorch's. PyTorch has no such layer, so the course has written one with PyTorch's exchange,
# `all_to_all_single_autograd`. It keeps a place for each token at each expert, full or empty, as GShard did. So all
# parts are of one size, and no rank has to send counts. The table shows what that costs. If a class fails, the table
# has dashes for it.

# %%
N, D, NUM_EXPERTS, TOP_K = 32, 16, 8, 2  # N tokens on each rank


def weights():
    """Router and all experts, the same wherever they are made."""
    torch.manual_seed(0)
    router = nn.Linear(D, NUM_EXPERTS, bias=False)
    experts = [nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Linear(D, D)) for _ in range(NUM_EXPERTS)]
    return router.double(), nn.ModuleList(experts).double()


def tokens(rank):
    """The tokens of a rank, and the gradient of its output."""
    return torch.randn(2, N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(rank))


# %% [markdown]
# The next cell writes the layer for one device, in a few lines. Every expert computes every token, and outputs of
# experts that were not chosen count 0.


# %%
class OneDevice(nn.Module):
    def __init__(self, router, experts):
        super().__init__()
        self.router, self.experts = router, experts

    def forward(self, x, balance=False):
        rows = x.flatten(0, -2)
        probabilities = self.router(rows).softmax(-1)
        best, chosen = probabilities.topk(TOP_K)
        mix = torch.zeros_like(probabilities).scatter(1, chosen, best)  # (N, E)
        out = sum(mix[:, [e]] * expert(rows) for e, expert in enumerate(self.experts)).view_as(x)
        shares = F.one_hot(chosen, NUM_EXPERTS).sum(1).to(x.dtype).mean(0) / TOP_K
        loss = NUM_EXPERTS * (shares * probabilities.mean(0)).sum()
        return (out, loss) if balance else out


# %%
def alone(back, rank):
    """What one device has: a rank's output, and the gradients of its x, of the router, of its experts."""
    results = []
    for ranks in ([rank], range(4)):  # the router's is of this rank's tokens, experts' are of all
        router, experts = weights()
        x, grad = torch.cat([tokens(one) for one in ranks], 1)
        out = OneDevice(router, experts)(x.requires_grad_())
        out.backward(grad)
        results.append((out.detach(), x.grad, router.weight.grad, experts))
    (out, of_x, of_router, _), (*_, experts) = results
    own = [p.grad for expert in experts[2 * rank : 2 * rank + 2] for p in expert.parameters()]
    return [out, of_x, of_router, *own] if back else [out]


# %%
def given(me):
    """The router, this rank's experts, its tokens, and the gradient of its output."""
    router, experts = weights()
    x, grad = tokens(me.rank).to(me.device)
    own = experts[2 * me.rank : 2 * me.rank + 2]
    return router.to(me.device), list(own.to(me.device)), x.requires_grad_(), grad


def run_once(me, layer, back, router, experts, x, grad):
    """The output of this rank and, with ``back``, the gradients of x, router and experts."""
    out = layer(me, router, experts, TOP_K)(x)
    if back:
        out.backward(grad)
    own = [p.grad for expert in experts for p in expert.parameters()]
    return [one.detach().cpu() for one in (out, *([x.grad, router.weight.grad, *own] if back else []))]


# %%
def traded(x):
    """(E, N, D): the first E/n to the first rank, and so on."""
    return all_to_all_single_autograd(x.contiguous(), None, None, dist.group.WORLD)


class PyTorchs(nn.Module):
    """Places for every token at every expert, by an exchange of equal parts that autograd knows."""

    def __init__(self, me, router, experts, top_k=2, capacity_factor=None, group=None):
        super().__init__()
        self.router, self.experts, self.top_k = router, nn.ModuleList(experts), top_k

    def forward(self, x, balance=False):
        probabilities = self.router(x).softmax(-1)
        best, chosen = probabilities.topk(self.top_k)
        mix = torch.zeros_like(probabilities).scatter(1, chosen, best)  # (N, E)
        places = torch.einsum("ne,nd->end", (mix > 0).to(x.dtype), x)
        came = traded(places).unflatten(0, (-1, len(self.experts)))  # (ranks, E/n, N, D)
        made = torch.stack([expert(came[:, e]) for e, expert in enumerate(self.experts)], 1)
        return torch.einsum("end,ne->nd", traded(made.flatten(0, 1)), mix)


# %%
LAYERS = {"yours": MyExperts, "the course's": courses.MyExperts, "PyTorch's": PyTorchs}


def beside(back=True):
    return side_by_side(
        four,
        lambda me, layer, *parts: run_once(me, layer, back, *parts),
        LAYERS,
        expected=partial(alone, back),
        prepare=given,
        within=1e-9,
        build="10.experts",
    )


# %%
beside(back=False)

# %%
check("10.experts_values", MyExperts)

# %%
# hint("10.experts_values")

# %% [markdown]
# ## Step 2: the way back
#
# A collective such as `dist.all_to_all_single` carries numbers, and no history: autograd does not see what another rank
# has done with them. So an exchange needs a backward of its own. The next cell shows an operation with a backward of
# its own; `ctx` carries things from forward to backward.


# %%
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor  # anything that is not a tensor
        return 2 * factor * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.factor * grad, None  # a gradient for each argument of forward


x = torch.ones(2, requires_grad=True)
Doubled.apply(x, 3.0).sum().backward()
print(x.grad)

# %% [markdown]
# Three things learn here: what comes before the layer, by the gradient of `x`; the router; the experts. In which ways
# does the output depend on a token?

# %%
beside()

# %%
check("10.experts_backward", MyExperts)

# %%
# hint("10.experts_backward")

# %% [markdown]
# ## Step 3: the exchange
#
# Now the check also counts rows and bytes, and ranks may have different numbers of tokens.
#
# - An expert computes the rows of the tokens that chose it, and is called once in a call of the layer.
# - A row goes to its expert and comes back: it is sent twice forward, and twice backward. Besides the rows, numbers of
#   8 bytes may travel: one for each choice, and n for each expert.
# - Forward there are four calls at most, such as `dist.all_to_all_single`, and three backward.

# %%
beside()

# %%
check("10.experts_exchange", MyExperts)

# %%
# hint("10.experts_exchange")

# %% [markdown]
# A first sitting can end here. What you have is kept.
#
# ## Step 4: memory
#
# Look at the row of memory in the tables. The check looks at what you make and keep:
#
# - No tensor has more numbers than the rows of this rank's choices, or than those that came.
# - From forward to backward you may keep four times the numbers of each row that came: that is what experts keep. For
#   each row that was sent you may keep twice its numbers. For each token you may keep its numbers once, and 3 E more.
# - When the output is deleted, nothing is left.

# %%
check("10.experts_memory", MyExperts)

# %%
# hint("10.experts_memory")

# %% [markdown]
# ## Step 5: a limit
#
# With a `capacity_factor` c an expert takes of this rank's N tokens no more than
#
# $$\left\lceil\, c\,\frac{N k}{E} \,\right\rceil$$
#
# choices. Each rank counts its own. The first choice of a token is its most probable expert. All first choices come
# before all second ones. Among first choices an earlier token comes before a later one, and so among second choices. A
# choice without room counts 0, and the other weights stay as they are. In a transformer the residual stream still
# carries the token.
#
# Where does this limit belong in your code: before rows are sent, or after?

# %%
check("10.experts_capacity", MyExperts)

# %%
# hint("10.experts_capacity")

# %% [markdown]
# ## Step 6: balance
#
# `layer(x, balance=True)` returns a pair: the output and a loss. The loss is that of [part 4](10d_busy_experts.ipynb),
#
# $$L = E \sum_{e} f_e\,P_e$$
#
# with $f_e$ the share of all choices that fell on expert $e$, and $P_e$ its mean probability. Both count the tokens of
# *all* ranks, also choices without room. The loss that is returned may differ from rank to rank. But its mean over
# ranks must be $L$, and the mean over ranks of the router's gradients must be that of $L$. So the loss fits a wrapper
# that takes means over ranks. For it you may make one or two more calls forward, and one more backward.

# %%
check("10.experts_balance", MyExperts)

# %%
# hint("10.experts_balance")

# %% [markdown]
# From here on lessons can run on your class, as `mine.MyExperts`.
#
# ## Step 7: awkward batches
#
# In which of these cases does your class hang, and in which is it wrong without an error?
#
# - a rank has no tokens; nobody chooses the experts of a rank; every token goes to all experts;
# - bfloat16: input and output have this dtype, and the scores that decide the choice are in float32;
# - the experts of one rank are frozen, and x needs no gradient;
# - two layers by turns;
# - a group of two ranks of four, a group of one, and a job of one rank.

# %%
check("10.experts_awkward", MyExperts)

# %%
# hint("10.experts_awkward")

# %% [markdown]
# ## Your experts in a transformer
#
# A transformer with one layer trains on Python's documentation, with a sequence of 64 bytes on each of four ranks. In
# place of its MLP it has eight experts, two on each rank. (`mine.MyExperts` is your version that has passed. Until then
# the course's stands in.)

# %% tags=["nbval-ignore-output"]
own_experts = mine.MyExperts

# %%
config = TransformerConfig(vocab_size=256, context_length=64, num_layers=1, width=D, num_heads=2)
windows, _ = documentation_windows(config.context_length)
X, Y = (torch.stack(part) for part in zip(*(windows[number] for number in range(4)), strict=True))


class Balanced(nn.Module):
    """A layer of experts in the place of an MLP, which remembers its load-balancing loss."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        out, self.loss = self.layer(x, balance=True)
        return out


def new_model(layer):
    torch.manual_seed(0)
    model = Transformer(config).double()
    model.blocks[0].mlp = Balanced(layer)
    return model


# %%
def steps(model, x, y, average, num_steps):
    """The losses of a few steps of training, those of the text."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=3e-3), []
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = next_token_loss(model(x), y)
        (loss + 0.01 * model.blocks[0].mlp.loss).backward()
        average(model)
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% [markdown]
# Parameters that all ranks hold get the mean of their gradients over ranks. An expert's gradient adds up
# the losses of all ranks, where their mean is wanted. So it is only divided.


# %%
def average(model, own):
    for parameter in model.parameters():
        if parameter not in own:
            dist.all_reduce(parameter.grad)
        if parameter.grad is not None:
            parameter.grad /= dist.get_world_size()


def train(me, layer, num_steps=5):
    """The mean losses over ranks."""
    router, experts = weights()
    own = experts[2 * me.rank : 2 * me.rank + 2]
    model = new_model(layer(me, router, list(own), TOP_K)).to(me.device)
    x, y = (part[me.rank : me.rank + 1].to(me.device) for part in (X, Y))
    mean = partial(average, own=set(own.parameters()))
    means = torch.tensor(steps(model, x, y, mean, num_steps), dtype=torch.float64)
    dist.all_reduce(means)
    return (means / me.world_size).tolist()


# %%
losses = four.run(train, own_experts)[0]
losses_alone = steps(new_model(OneDevice(*weights())), X, Y, lambda model: None, 5)
print("all losses as on one device:", agree(losses, losses_alone, within=1e-6))
print("the last loss is lower than the first:", losses[-1] < losses[0])

# %% [markdown]
# What does a step cost with the course's layer, and with yours?

# %% tags=["nbval-ignore-output"]
trained = mine.beside(
    lambda layer: metered(four, train, layer, 1), courses.MyExperts, mine.if_passed("MyExperts")
)
for whose, run in trained.items():
    sent = run.communication
    print(f"{whose}: {bytes_text(sent.sent_bytes(0))} in {len(sent.of(0).calls)} calls of rank 0")
gantt_beside(
    {whose: run.communication.of(0).timeline() for whose, run in trained.items()},
    title="A step of training on four ranks: the calls of rank 0",
)

# %% [markdown]
# ## How far you are

# %% tags=["nbval-ignore-output"]
build_progress("10.experts")

# %% [markdown]
# **If you have time left.** Two of a token's experts may lie on one rank. Let its row travel there once, and add up the
# two outputs before they go back ([part 6](10f_many_small_experts.ipynb)). What has to travel along, and whose gradient
# comes back with it?
#
# ## What you can do now
#
# You have written the parts of expert parallelism that Megatron-Core, torchtitan and DeepSpeed have, too. These are an
# exchange of uneven parts, its backward pass, a limit, and a loss that keeps experts equally busy.
#
# These projects do some things better. They compute all experts of a rank in one grouped product of matrices, and
# counts stay on the GPU. An exchange hides behind another micro-batch ([part 5](10e_hide_the_exchange.ipynb)).
