# %% [markdown]
# # 08a · Tensor parallelism: one product, cut
#
# A matrix may be too large for one device. You cut the matrix itself, and derive which collective each cut needs,
# forward and backward. Then you build an MLP that several ranks compute together, between two *gates*, the functions
# that exchange its tensors.
#
# **50 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 1 of 5 · [2: a transformer, cut](08b_split_transformer.ipynb) · [3: positions, shared
# out](08c_sequence_parallel.ipynb) · [4: the link, two faults, and production](08d_links_and_production.ipynb) · [5:
# build the transformer](08e_build_split_transformer.ipynb)
#
# This part builds on [02a: what travels](02a_collectives.ipynb). Have you done it? `from course_lib import start;
# start("08a")` says whether you have.
#
# At the end you can
#
# - derive, for any cut of a matrix product, what ranks have to send;
# - cut two matrices of neighbouring layers so that ranks send nothing between them;
# - write the two gates at the borders of a split MLP, and the split MLP itself.
#
# A pipeline gives each device some whole *layers*. So two limits stay. The largest layer must fit on one device. And a
# single sample still passes through all layers one after the other, so it takes as long as before.
#
# <!-- word: tensor parallelism | also: intra-layer model parallelism, TP -->
# In **tensor parallelism** every matrix is cut among several devices, which work on the *same* layer at the same
# moment. With it neither limit holds any more.

# %%
from course_lib import ask, check, hint, reveal, shared_cluster
from course_lib.claims import trial
from course_lib.parallel.tensor import (
    Shard,
    all_reduce_identity,
    identity_all_reduce,
    matmul_plan,
    parse_placement,
)
from course_lib.plot import input_gradient_tiles, ways_to_join
from course_lib.rounding import rounded

import itertools

import torch
import torch.distributed as dist
import torch.nn.functional as F

# %% tags=["nbval-ignore-output"]
two, four = shared_cluster(2), shared_cluster(4)

# %% [markdown]
# ## By columns
#
# ![X times a matrix A of which rank 0 has the left columns and rank 1 the right ones; each gets half of the columns of
# Y](../assets/08_columns.png)
#
# A linear layer is a product, $Y = XA$: each row of X is a sample or a token, each column of A makes one output. (In
# PyTorch `weight` is A's transpose, so that columns of A are rows of `weight`.) Give each of two ranks half of the
# *columns* of A, and let both have all of X:

# %%
X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
A = torch.tensor([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 3.0]])


def by_columns(me):
    my_columns = A.chunk(me.world_size, dim=1)[me.rank]  # (2, 2) of (2, 4)
    return X @ my_columns


parts = two.run(by_columns)
for rank, part in enumerate(parts):
    print(f"rank {rank} has", part.tolist())
print("X A is    ", (X @ A).tolist())
print("side by side they are X A:", torch.equal(torch.cat(list(parts), dim=1), X @ A))

# %% [markdown]
# <!-- word: column-parallel | also: column-wise parallel, `ColwiseParallel`, column split -->
# A linear layer, Y = X A, is called **column-parallel** when each rank holds some columns of A and makes the same
# columns of Y. A column of Y is X times one column of A and needs no other column. So the ranks sent no message.

# %% [markdown]
# ## By rows
#
# ![X, of which rank 0 has the left columns and rank 1 the right ones, times A, of which rank 0 has the upper rows and
# rank 1 the lower ones; two full-sized products, and a question mark](../assets/08_rows.png)
#
# <!-- word: row-parallel | also: row-wise parallel, `RowwiseParallel`, row split -->
# Now cut A the other way: each rank has some *rows*. A row of A is multiplied by a column of X, so each rank uses the
# columns of X that match its rows. A linear layer, Y = X A, is called **row-parallel** when each rank holds some rows
# of A, and the columns of X that match them.
#
# **Rank 0 gets Y0, rank 1 gets Y1. How do they become Y?**

# %%
### BEGIN SOLUTION
### STUB ask("08.rows")
ask("08.rows").commit("one above the other")  # "A was cut by rows, so Y comes in rows"
### END SOLUTION


# %%
def by_rows(me):
    my_rows = A.chunk(me.world_size, dim=0)[me.rank]  # (1, 4) of (2, 4)
    my_part_of_x = X.chunk(me.world_size, dim=1)[me.rank]  # (2, 1) of (2, 2)
    return my_part_of_x @ my_rows


first, second = two.run(by_rows)
print("rank 0 has", first.tolist())
print("rank 1 has", second.tolist())
print("X A is    ", (X @ A).tolist())

# %%
reveal("08.rows", first, second, X @ A)

# %%
ways_to_join(first, second, X @ A, title="What rank 0 has (plain) and rank 1 has (hatched)")

# %% [markdown]
# ## By both
#
# ![A cut in four tiles: rank 0 upper left, rank 1 upper right, rank 2 lower left, rank 3 lower right. The left columns
# of Y are a sum of what ranks 0 and 2 make, the right ones of what ranks 1 and 3 make](../assets/08_tiles.png)
#
# <!-- word: tile | also: two-dimensional tensor parallelism, 2D sharding -->
# Four ranks can cut A both ways at once, so that each holds a **tile** of the matrix: some columns of some of its rows.
# Both rules apply together. Ranks with the same *columns* compute summands of the same part of Y. They add them up in a
# group of two.


# %%
def by_both(me):
    row, column = divmod(me.rank, 2)
    tile = A.chunk(2, dim=0)[row].chunk(2, dim=1)[column]
    partial = (X.chunk(2, dim=1)[row] @ tile).to(me.device)
    groups = [dist.new_group([c, c + 2]) for c in range(2)]  # all ranks make all groups, in one order
    dist.all_reduce(partial, group=groups[column])
    dist.destroy_process_group(groups[column])
    return partial


found = four.run(by_both)
print("columns 0, 1 on ranks 0 and 2:", found[0].tolist())
print("columns 2, 3 on ranks 1 and 3:", found[1].tolist())
print("X A is                        ", (X @ A).tolist())

# %% [markdown]
# ## What each cut needs
#
# ![Forward, X goes to both ranks and each gives some columns of Y. Backward, each rank has the gradient of its columns;
# what goes back to X is a question mark](../assets/08_backward.png)
#
# <!-- word: placement | also: sharding, layout | sentences: 3 -->
# <!-- word: partial sums | also: partial tensor, `Partial` -->
# The **placement** of a tensor says which part of it each rank holds. **S(0)** is cut by rows, and **S(1)** by columns
# (S is for *shard*, with the dim). **R** is whole on every rank (replicated), and **P** is partial. Tensors of the full
# shape, one on each rank, are **partial sums** of the tensor that they add up to. The rules for $Y = XA$ follow from
# arithmetic alone: R times S(1) is S(1), as you saw; S(1) times S(0) is P.
#
# The backward pass is two products more: $dX = dY\,A^T$ and $dA = X^T dY$. A transpose turns rows into columns, so the
# same rules apply to these products.
#
# **A is cut by columns, X is whole on every rank, Y stays cut. Forward nothing is sent. Every rank needs the gradient
# of X. What must ranks send in the backward pass?**

# %%
### BEGIN SOLUTION
### STUB ask("08.backward")
ask("08.backward").commit("nothing")  # "forward needed nothing"
### END SOLUTION

# %% [markdown]
# `matmul_plan` applies the rules. From the placements of X, A and Y it derives what every rank multiplies, and which
# collectives that needs. The next cell prints what it derives for six choices.

# %%
situations = {
    "by columns": ("R", "S(1)", "S(1)"),
    "by columns, Y whole": ("R", "S(1)", "R"),
    "by rows": ("S(1)", "S(0)", "R"),
    "by rows, Y cut": ("S(1)", "S(0)", "S(0)"),
    "X by rows": ("S(0)", "R", "S(0)"),
    "X by rows, A by columns": ("S(0)", "S(1)", "S(1)"),
}
plans = {name: matmul_plan(*map(parse_placement, cuts)) for name, cuts in situations.items()}
print(f"{'':<24}{'X':<5}{'A':<5}{'Y':<5}{'forward':<22}backward")
for name, plan in plans.items():
    there, again = (
        ", ".join(f"{s.collective} {s.tensor}" for s in way if s.is_sent) or "-"
        for way in (plan.forward, plan.backward)
    )
    print(f"{name:<24}{plan.x!s:<5}{plan.a!s:<5}{plan.y!s:<5}{there:<22}{again}")

# %%
reveal("08.backward", plans["by columns"])

# %%
input_gradient_tiles(plans["by columns"], num_ranks=2)

# %% [markdown]
# Read the table again. By rows, ranks send forward, and by columns with Y cut, they send backward. You know the fifth
# line from lesson 03: X cut by rows, A whole, and an all-reduce of dA backward. That is *data parallelism*: one of
# several ways to cut a product.
#
# The course tests statements of five articles. Article E is *Data, model, and tensor parallelism*, a page of another
# course. It says, in the course's words: *a column-split linear layer needs an all-gather and a row-split one a
# reduce-scatter*. **Which verdict do you expect?**

# %%
### BEGIN SOLUTION
### STUB ask("08.bet_e10")
ask("08.bet_e10").commit("holds")
### END SOLUTION

# %%
evidence = trial("E10").run()
print(evidence)
reveal("08.bet_e10", evidence)

# %% [markdown]
# ## The explorer
#
# ![The explorer: menus for X, A, Y and the ranks; below, for each of four ranks, its part of X, its part of A, the
# partial sum that it computes, and Y after an all-reduce](../assets/08_explorer.png)
#
# Choose how to cut X, A and Y, and press *run*. The ranks then execute the steps that you see, and the meter counts
# what they send. Two kinds of steps send nothing. In the step *split: X* each rank has X whole, and takes its part of
# it. In the step *first rank keeps: Y* all other ranks set their Y to zero. So Y becomes partial sums. Three missions:
#
# 1. With one choice of X, A and Y the ranks share the work and send nothing, forward or backward. Which choice is it?
#    And what must a later layer do because of it?
# 2. Cut X, A and Y all by rows. How do the ranks compute that, and in which lesson did you do it?
# 3. Take four ranks. Which of two choices sends less, forward and backward together: A and Y by columns with X whole,
#    or A in tiles? (In tiles each rank uses half of X's columns, as above.)

# %%
from course_lib.widgets import MatmulExplorer

MatmulExplorer(shared_cluster)

# %% [markdown]
# When you have tried, compare your answers with these. The next cell solves the first mission: it tries every choice of
# X, A and Y.

# %%
placements = [parse_placement(text) for text in ("R", "S(0)", "S(1)", "P")]
for x, a, y in itertools.product(placements[:3], placements[:3], placements):
    plan = matmul_plan(x, a, y)
    is_shared = isinstance(plan.x_used, Shard) or isinstance(plan.a_used, Shard)
    if is_shared and plan.collectives() == ((), ()):
        print(f"X {x}, A {a}, Y {y}: nothing travels")

# %% [markdown]
# X is cut by columns, A by rows, and Y stays partial sums. The layer that uses Y next has to add them up.
#
# In the second mission each rank gathers all of A, multiplies its rows of X, and frees A again. That is FSDP, lesson
# 05.
#
# In the third mission tiles send less, at the explorer's sizes. They need two all-reduces and not one. But each runs
# between two ranks and not four, for half of a tensor. (The wider Y is, compared with X, the less this helps.)
# [GSPMD](https://arxiv.org/abs/2105.04663) cuts transformers this way, on up to 2048 TPU cores. This lesson cuts each
# matrix in one way only.
#
# ## Two layers in a row
#
# ![X goes through A, GELU and B; both matrices bear a question mark](../assets/08_between.png)
#
# An MLP has two layers, $\mathrm{GELU}(XA)\,B$: A makes the rows wider, and B makes them narrow again. X is whole on
# every rank, and so must be the output. Cut *both* matrices, so that each rank holds a share of each. Cut them so that
# **ranks send nothing between the two products**. You need two facts about GELU: it works on each number by itself, and
# it is not linear.

# %%
u, v = torch.tensor(1.0), torch.tensor(-1.5)  # two summands of one number
print(f"GELU of the sum: {rounded(F.gelu(u + v), 2)}")
print(f"sum of GELUs:    {rounded(F.gelu(u) + F.gelu(v), 2)}")

# %%
### BEGIN SOLUTION
### STUB cuts = ...  # for example: {"A": "R", "B": "S(1)"}, with R, S(0) or S(1) for each
cuts = {"A": "S(1)", "B": "S(0)"}
### END SOLUTION

# %%
check("08.between", cuts)

# %%
# hint("08.between")

# %% [markdown]
# The ranks share the hidden units: each rank computes some of them, and uses only these. That works for everything that
# is computed in parts and used in the same parts. In part 2 these are the heads of attention.
#
# ## Two gates
#
# ![A region between two gates, with two ranks in it, forward and backward; at both gates stands a question
# mark](../assets/08_gates.png)
#
# <!-- word: split region | also: tensor-parallel region, model-parallel region | sentences: 2 -->
# A **split region** goes from the first cut matrix to the last. Inside, every rank works on features of its own;
# outside, everything is the same on all ranks. What do ranks send at the two borders? Call the borders gates,
# *entrance* and *exit*; the [Megatron-LM](https://arxiv.org/abs/1909.08053) paper calls them f and g.
#
# ### Build: the gates
#
# Autograd needs to know what each gate does backward, so the gate is a `torch.autograd.Function`. Its `backward` gets
# the gradient of the output of `forward`, and returns one for each input of `forward` (the flag has none: `None`). If
# `backward` has to know something, `forward` stores it as an attribute of `ctx`. If a gate has to send, it calls one
# all-reduce and no more. Think about one gate at a time. Which tensor is complete and the same on all ranks there, and
# which tensor is a summand?


# %%
def summed(tensor):
    """The sum over all ranks, in a tensor of its own."""
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


# %%
class Gate(torch.autograd.Function):
    """The entrance of a split region, or its exit."""

    @staticmethod
    def forward(ctx, x, is_entrance):
        ### BEGIN SOLUTION
        ctx.is_entrance = is_entrance
        return x.view_as(x) if is_entrance else summed(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        return (summed(grad) if ctx.is_entrance else grad), None
        ### END SOLUTION


# %%
check("08.gates", Gate)

# %%
# hint("08.gates")

# %% [markdown]
# <!-- word: conjugate operators | also: f and g, copy_to region, reduce_from region, entrance and exit -->
# The entrance and the exit of a split region are **conjugate operators**: each does forward what the other does
# backward. From here on they are called `enter` and `leave`. They are the course's own gates, which are written like
# yours and also have an argument for a group of ranks. (In Megatron-LM's code f is
# `copy_to_tensor_model_parallel_region`, and g is `reduce_from_tensor_model_parallel_region`.)
#
# ### Build: the MLP
#
# Now write the MLP of a rank, with biases. The weights have the shapes that PyTorch uses. On each of n ranks `w_up` is
# (hidden/n, width), `b_up` (hidden/n), `w_down` (width, hidden/n); `b_down` (width) is whole on every rank. Use
# `F.linear(x, weight, bias)`. The check looks at the output, at the gradients of x and of all four weights and biases,
# and at what is sent.

# %%
enter, leave = identity_all_reduce, all_reduce_identity  # enter(me, x), leave(me, partial)


# %%
def split_mlp(me, x, w_up, b_up, w_down, b_down):
    """x (N, width), the same on all ranks -> (N, width), the same on all ranks."""
    ### BEGIN SOLUTION
    hidden = F.gelu(F.linear(enter(me, x), w_up, b_up))  # (N, hidden/n)
    return leave(me, F.linear(hidden, w_down)) + b_down
    ### END SOLUTION


# %%
check("08.mlp", split_mlp)

# %%
# hint("08.mlp")

# %% [markdown]
# ![A region between two gates. Forward: at the entrance X passes, at the exit an all-reduce. Backward: at the exit the
# gradient passes, at the entrance an all-reduce](../assets/08_region.png)
#
# The picture shows the region of the MLP, its two gates, and what each gate does forward and backward.
#
# ## What you can do now
#
# You can cut a product in any way and say what ranks send. You have written the two gates, and an MLP that is split
# among ranks. It needs an all-reduce in each direction.
#
# [Part 2](08b_split_transformer.ipynb) does this to a whole transformer, from its table of tokens to its loss.
#
# **Further reading.** Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053) (2019), section 3: columns, then
# rows, f and g. Xu et al., [GSPMD](https://arxiv.org/abs/2105.04663) (2021), section 3: placements, and how they spread
# through a program.
