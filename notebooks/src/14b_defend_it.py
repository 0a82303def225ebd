# %% [markdown]
# # 14b · Capstone: defend it
#
# There are two harder jobs. One has two axes whose order matters, and one has eight ranks and a model that is not cut
# well by default. A third job allows only your own parts, and takes an evening more. You choose, build, run and defend,
# and you distinguish a good idea from a cheat. Then the course is over.
#
# **2 × 50 minutes · difficulty 5 of 5 · needs: cpu**
#
# Part 2 of 2 · [1: the job](14a_the_job.ipynb)
#
# This part builds on [06b: where to cut](06b_where_to_cut.ipynb), [07b: smaller bubbles, and a schedule of your
# own](07b_smaller_bubbles.ipynb), [09a: places and links](09a_meshes.ipynb) and [14a: the job](14a_the_job.ipynb).
# Have you done them? `from course_lib import start; start("14b")` says whether you have.
#
# At the end you can
#
# - say for a given job which axis belongs within a node, and show it by two runs;
# - find what a planner does not count, and choose better than it does;
# - judge a result: by which rule it was measured, and how somebody could have cheated;
# - defend a choice by four numbers.
#
# You need part 1, orders of axes ([09a](09a_meshes.ipynb)), micro-batches and schedules
# ([07](07a_pipeline_parallel.ipynb)), and what makes a stage slow ([06b](06b_where_to_cut.ipynb)).

# %%
from course_lib import ask, check, hint, quiz, reveal, shared_cluster
from course_lib.capstone import (
    FAULTS,
    assemble_on,
    attempt,
    best_plan,
    board,
    job_for,
    meshes,
    report,
    whole_state_of,
    whose_code,
)
from course_lib.layouts import Mesh
from course_lib.meter import bytes_text
from course_lib.parallel.mesh import OnMesh
from course_lib.plot import gantt

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## Level 2: which axis stays within a node?

# %% tags=["computed-time"]
second = job_for(level=2, seed=7)
print(second)

# %% [markdown]
# Here one axis is not enough, or not the best choice. A mesh of two axes can be placed on the nodes in two orders. The
# last axis is within a node, and the first one goes from node to node.
#
# ![Two nodes of two ranks, twice: with the axes a=2 b=2, b joins the ranks of a node and a the nodes; with b=2 a=2 it
# is the other way round](../assets/14_order.png)
#
# **In the mesh with the quickest run, which axis is within a node?** As in part 1, compute what each axis sends in a
# step. The data axes send gradients or weights, `pp` the activations of a cut, and `tp` four sums in each layer.

# %%
### BEGIN SOLUTION
### STUB ask("14.home")
ask("14.home").commit("tp")  # "tensor parallelism within a node", as always
### END SOLUTION

# %% [markdown]
# There is no table for this job: you compute its numbers yourself. Begin with memory. The fullest rank of a mesh holds
# at its fullest moment:
#
# - *States*, 16 bytes for each number of the model. `pp`, `tp` and `dp_shard` cut them. A stage has whole blocks, each
#   of 12 · width² numbers.
# - *What is whole for a moment.* `dp_shard` gathers weights and packs gradients. Without stages it does so for one
#   block or two. With stages it does so for the whole stage: weights, gradients, and gradients in flight.
#   `dp_replicate` packs gradients.
# - *Activations.* For each sequence a block keeps 16 tensors of (tokens, width) numbers, with 4 bytes each. Every rank
#   of `tp` has 4 of them whole, and a share of the other 12. Ten more exist while a block computes. The first stage has
#   `pp` micro-batches in flight. By default there are twice as many micro-batches as stages.
#
# Write the formula, and leave a twentieth free for what the formula does not count.


# %%
def room_of(job, mesh):
    """Bytes that the fullest rank of a mesh needs at its fullest moment; None: not worked out yet."""
    ### BEGIN SOLUTION
    ### STUB return None
    config, pp, tp = job.job.config, mesh.size("pp"), mesh.size("tp")
    shards, copies = mesh.size("dp_shard"), mesh.size("dp_replicate")
    blocks = -(-config.num_layers // pp)  # of the fullest stage
    block = 16 * 12 * config.width**2 / tp  # its states
    stage = max(job.state_bytes / pp / tp, blocks * block)
    whole = 0 if shards == 1 else 0.75 * stage if pp > 1 else 1.25 * block
    packed = stage / shards / 4 if copies > 1 else 0
    rows = job.job.batch_size / (shards * copies) / (2 * pp if pp > 1 else 1)
    stream = 4 * rows * config.context_length * config.width
    kept = (pp * blocks * (4 + 12 / tp) + 10) * stream
    moment = max(packed, kept) if pp > 1 else packed + kept  # stages pack when all is over
    return 1.05 * (stage / shards + whole + moment)
    ### END SOLUTION


# %%
def fitting(job):
    """Meshes on which the model can be put, and that fit by your formula."""
    needed = {mesh: room_of(job, mesh) for mesh in meshes(job)}
    return [mesh for mesh, room in needed.items() if room is not None and room <= job.memory_bytes]


print(f"Of {len(meshes(second))} meshes these fit by your formula:", *fitting(second), sep="\n  ")

# %% [markdown]
# If a mesh fits by a good formula, a run fits as well, also with the course's parts. Now the time decides. Of the
# meshes that fit, which sends little over the slow link, and shares computing evenly? One line of arithmetic for each
# axis is enough: what it sends, how often, over which link. Then choose.

# %%
### BEGIN SOLUTION
### STUB SECOND = Mesh.of(dp_shard=4)  # your turn: by your formula and your arithmetic
SECOND = Mesh.of(pp=2, dp_replicate=2)  # activations of one cut take the slow link, gradients the quick one
### END SOLUTION

# %% [markdown]
# ### Build: one training for both levels
#
# Write the same two methods as in part 1, `step()` and `whole_state()`, now in a class that takes the mesh. Your
# pipeline and your shards run on all ranks of a cluster. With two axes they need process groups of their own, which you
# make at level 4. Here you may use the course's `OnMesh` from 09d, and the report says so: `OnMesh(me, mesh, model)`
# puts a model on a mesh. Its `data.deal(tokens, targets)` returns three things: this rank's rows of both, and the
# weight of their mean loss. Its `step(...)` takes these three, runs forward and backward, and returns the mean loss of
# the whole batch. It neither clears gradients nor updates weights; `zero_grad()` and `parameters()` are for that.
# `whole_state_of(on_mesh)` brings the pieces of all ranks together.
#
# There are more options. With stages, `OnMesh` takes a `schedule`, by default 1F1B with twice as many micro-batches as
# stages. With `from course_lib.schedules import one_f_one_b`, `schedule=one_f_one_b(2, 8)` is two stages and eight
# micro-batches. With `tp` it takes `sequence_parallel=True`. With stages it also takes `cuts`, the pieces of each
# stage. Or use your own parts of earlier lessons.


# %%
class Run:
    """A training on a mesh, for both levels; options are those of OnMesh."""

    def __init__(self, me, task, mesh, **options):
        """me and task as in part 1; mesh: a Mesh of all ranks."""
        ### BEGIN SOLUTION
        self.mesh, self.model = mesh, OnMesh(me, mesh, task.model(), **options)
        self.optimizer = task.optimizer(self.model.parameters())
        self.mine = self.model.data.deal(task.tokens, task.targets)
        ### END SOLUTION

    def step(self):
        """One training step; returns the mean loss of the whole batch."""
        ### BEGIN SOLUTION
        self.optimizer.zero_grad()
        loss = self.model.step(*self.mine)
        self.optimizer.step()
        return loss
        ### END SOLUTION

    def whole_state(self):
        """On rank 0 a dict of whole tensors, by the plain model's names."""
        ### BEGIN SOLUTION
        return whole_state_of(self.model)
        ### END SOLUTION


# %% [markdown]
# ### Build: level 2


# %%
def assemble_second(me, task):
    """This rank's part of the training of level 2: within the memory, and within the budget.

    Returns a Run, or another object with its methods.
    """
    ### BEGIN SOLUTION
    return Run(me, task, SECOND)
    ### END SOLUTION


# %% tags=["nbval-ignore-output"]
at_second = attempt(second, assemble_second, four)
print(at_second)

# %%
verdict_second = check("14.two", assemble_second)

# %%
# hint("14.two")

# %% [markdown]
# Look in the next picture where ranks wait in your shortest step:

# %% tags=["nbval-ignore-output"]
gantt(at_second.timeline) if at_second.timeline else "no step yet"

# %% [markdown]
# How much time does the order alone cost? The next cell runs the same axes in the other order, with the course's parts.
# (For that your own run with two axes has to finish with right weights.)

# %% tags=["nbval-ignore-output"]
axes = at_second.mesh if at_second.is_right else None
away = None
if axes is not None and len(axes.axes) == 2:
    turned = Mesh(axes.axes[::-1], axes.shape[::-1])
    away = attempt(second, assemble_on(turned), four, num_timed=1)
for run in (at_second, away) if away else ():
    time = run.ended or f"{run.counted_s * 1e3:.0f} ms, {bytes_text(run.sent.between_bytes)} between nodes"
    print(f"{run.words:<24} {time}")
reveal("14.home", at_second, away) if away else "no run of two axes yet"

# %% [markdown]
# An axis belongs where its bytes get the link that they need. A habit such as "`tp` within a node" is right only for
# jobs like those in which people learned it.
#
# ## Level 3: what a planner does not count

# %% tags=["computed-time"]
third = job_for(level=3, seed=7)
print(third)

# %% [markdown]
# This job has eight ranks, and up to three axes in any order. The next cell prints the planner's best mesh, and what
# the planner predicts for it:

# %% tags=["computed-time"]
promise = best_plan(third)
planned = promise.mesh
print(f"{planned}: {promise.played_s * 1e3:.0f} ms, {bytes_text(promise.between_bytes)} between nodes")
print(f"it has {planned.size('pp')} stages, for {third.job.config.num_layers} blocks")

# %% [markdown]
# ![A model as a row of pieces, twice. What each holds: in, two large blocks, out. How long each takes: two blocks,
# while in and out are only lines. Below, four boxes with question marks: the stages](../assets/14_stages.png)
#
# In the picture only blocks take time; in and out take memory. A stage has whole blocks, or none. **In the planner's
# best mesh, how many per cent longer than an even share does the fullest stage compute?**

# %%
### BEGIN SOLUTION
### STUB ask("14.uneven")
ask("14.uneven").commit(0)  # "the stages are equal"
### END SOLUTION

# %%
reveal("14.uneven", third, planned)

# %% [markdown]
# The planner does not count that. It assumes that all ranks share computing evenly. If that is not possible, its
# predicted step is too short. **How many per cent longer does its best mesh take than the one that is really best?**
# (By default a stage has about as many *parameters* as the others. `OnMesh(..., cuts=[range(0, 2), range(2, 4)])` puts
# cuts where you want them: piece 0 is the stem, then come the blocks, then the head. If there are fewer blocks than
# stages, no cut gives each stage a block.)

# %%
### BEGIN SOLUTION
### STUB ask("14.blind")
ask("14.blind").commit(0)  # "the best of the table is the best"
### END SOLUTION

# %% [markdown]
# The next cell prints the meshes that fit by your formula. For which of them can the planner's prediction be right?

# %%
print(*fitting(third), sep="\n")

# %%
### BEGIN SOLUTION
### STUB THIRD = Mesh.of(dp_shard=8)  # your turn: by your formula and your arithmetic
THIRD = Mesh.of(pp=2, dp_replicate=2, tp=2)  # a block a stage; sums of tp and gradients stay within a node
### END SOLUTION

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you go on with level 3, and defend what you have built.

# %% [markdown]
# ### Build: level 3


# %%
def assemble_third(me, task):
    """This rank's part of the training of level 3: within the memory, and within the budget.

    Returns a Run, or another object with its methods.
    """
    ### BEGIN SOLUTION
    return Run(me, task, THIRD)
    ### END SOLUTION


# %% tags=["nbval-ignore-output"]
eight = shared_cluster(8)
at_third = attempt(third, assemble_third, eight)
print(at_third)

# %%
verdict_third = check("14.three", assemble_third)

# %%
# hint("14.three")

# %% [markdown]
# The next cell runs the planner's best mesh for real, with the course's parts:

# %% tags=["nbval-ignore-output"]
by_plan = attempt(third, assemble_on(planned), eight, num_timed=1)
print(
    f"{planned}: {by_plan.counted_s * 1e3:.0f} ms, planned {promise.played_s * 1e3:.0f} ms"
    if by_plan.counted_s
    else by_plan.ended
)
reveal("14.blind", third, [promise], by_plan, at_third)

# %% [markdown]
# <!-- word: exhaustive search | also: brute force | sentences: 2 -->
# An **exhaustive search** tries every possible case, and so cannot overlook the best one. If there are few cases, you
# can compare a quicker search with it. `search(job, cluster)`, also from `course_lib.capstone`, runs every mesh that
# may fit. It says beforehand how long that takes. Use it when you have an evening, or for another seed.
#
# The search compares the meshes by the step time that counts. By the clock of a small machine the order may differ: if
# eight ranks share two cores, ranks that copy and add more take longer. Then the shared cores are the bottleneck, and
# not the links of this job.
#
# No planner counts everything. This one is right about links and messages, and wrong about stages. Another one may
# count stages, and not count that ranks share a cable. So find out what your planner assumes, check where your job does
# not meet these assumptions, and run the first few plans of its list.
#
# ## Level 4: your own parts alone

# %% tags=["computed-time"]
fourth = job_for(level=4, seed=7)
print(fourth)

# %% [markdown]
# You may use any mesh, within memory and time, but no strategy except your own. The ranks record which functions are
# called:
#
# - *Allowed* is your own code, in cells or, after its check has passed, in `mine`. Also allowed are PyTorch's tensors,
#   autograd, `torch.nn` and optimizers. So are the collectives, messages and groups of `torch.distributed`, and the
#   course's `Mesh` and schedules, which are data.
# - *Not allowed* are functions of `course_lib.parallel` under any name, also copied, and the course's parts that stand
#   in for a part of `mine`. PyTorch's `DistributedDataParallel`, `fully_shard`, `ZeroRedundancyOptimizer`, pipelining
#   and DTensor are not allowed either. The verdict says what was called, from which line, and what you may use there.
# - The batch is drawn anew for each attempt, so no loss and no weight of an earlier one is right.
#
# One axis is not quick enough by default, so you have to combine two of your parts on one mesh. `dist.new_group` makes
# the groups; every rank makes all of them, in the same order. If two pipelines run side by side, each sends only
# between its own ranks. A mean over two replicas divides by two. The course shows no solution of this level.


# %%
def assemble_fourth(me, task):
    """This rank's part of the training of level 4: your own parts alone, on any mesh.

    Returns an object with step() and whole_state(), as in part 1.
    """
    raise NotImplementedError("Your turn: put it together from your own parts.")


# %% tags=["nbval-ignore-output"]
at_fourth = attempt(fourth, assemble_fourth, four)
print(at_fourth)

# %% tags=["nbval-ignore-output"]
whose_code(at_fourth)

# %% [markdown]
# ## Which of these is a cheat?
#
# Here are five ideas from a class. Each made some number better:
#
# 1. *Ada* keeps the optimizer's states as NumPy arrays, which the ledger does not see.
# 2. *Bob* computes each block's activations again in the backward pass, to keep fewer of them.
# 3. *Cyd* lets rank 0 train alone, and gives its weights back.
# 4. *Dan* keeps gradients in bfloat16, with half of the bytes.
# 5. *Eve* trains every second step on half of the batch.
#
# **Which idea is not a cheat?**

# %%
### BEGIN SOLUTION
### STUB ask("14.legal")
ask("14.legal").commit("Dan: bfloat16 gradients")  # "everybody does it"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("14.legal")

# %% [markdown]
# The next cell prints the rules that `attempt` checks, by name:

# %%
for name, rule in FAULTS.items():
    print(f"{name:<16} {rule}")

# %% [markdown]
# The next cells break one of them. The run is right in everything else, but keeps a copy of its weights where the
# ledger does not look:


# %%
def with_a_copy(me, task):
    run = assemble_on(Mesh.of(dp_shard=4))(me, task)
    plain_step, shelf = run.step, []

    def step():
        loss = plain_step()
        shelf[:] = [parameter.detach().numpy().copy() for parameter in run.model.parameters()]
        return loss

    run.step = step
    return run


# %% tags=["nbval-ignore-output"]
print(attempt(second, with_a_copy, four, num_timed=1))

# %% [markdown]
# <!-- word: reproducible | also: reproducibility -->
# A result is **reproducible** when somebody else gets it again from the description of how it was made and measured.
# The copy did no harm here, and gained nothing. But nobody can repeat a result that was not produced as its report
# describes. Real reports have the same faults, mostly by accident. A peak is read before the optimizer's first step, or
# a time leaves out the data loader. A batch was smaller, or a loss is that of one rank's rows.
#
# ## Defend it
#
# A defence is short, and is about one job. Write two, for level 2 and for level 3. Each has four parts:
#
# - *the job*, and its lower limits: the memory of its states, and the shortest possible step;
# - *the choice*, another choice that you rejected, and the number that decided;
# - *four numbers*: values compared with one device, peak memory by part, bytes by link, the step, each with how it was
#   measured;
# - *what you do not know*: what was paced or shaped, how near the second best mesh is, and what changes with another
#   link.

# %%
### BEGIN SOLUTION
### STUB defences = ["", ""]  # your turn: of level 2, and of level 3
paced = "Links are shaped and computing is paced; meshes within a tenth of mine may change places."
defences = [
    "Replicas alone do not fit. With stages across the nodes the slow link carries activations of one "
    f"cut; in the other order it carries gradients, and a run of that was slower.\n\n{paced}",
    "Replicas do not fit, and the planner's best has stages that cannot be equal. Of the meshes whose "
    f"stages have as many blocks each, this one sends least over the slow link.\n\n{paced}",
]
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reports = [
    report(result, "my_reports", name="", defence=defence)
    for result, defence in zip((at_second, at_third), defences, strict=True)
    if result.timeline
]
print(*reports, sep="\n")

# %% [markdown]
# For a class: each learner hands in a folder, and `board` reads all results below one common folder. It skips broken
# results and says so. `board("class").save("board.html")` makes a page of it.

# %% tags=["nbval-ignore-output"]
board("my_reports") if reports else "no report yet"

# %% [markdown]
# ## The whole course on a page
#
# ![Six boxes, each with a thing cut in two, the cut's name, its lesson, and what travels: the batch, states, layers,
# matrices, the sequence, experts](../assets/14_cuts.png)
#
# A model and its training have few parts, and each part can be cut. You have built every one of these cuts, seen which
# messages it needs, and found its typical bugs. The cuts combine on the axes of a mesh. Each axis belongs where its
# messages get the link that they need.
#
# Since lesson 00 you have learned to
#
# - say what a rank holds, sends and waits for, in bytes and seconds, before anything runs;
# - write the collectives, the shards, the schedules and the split layers yourself, and to understand how PyTorch's own
#   work;
# - show that a parallel training is right by comparing it with one device, and find the rank that differs if it is not;
# - choose a layout for a job, run a few, and compute the regret; find out why a run is slow, hangs or fails;
# - run it on several machines, also if some of them break.
#
# ## Questions over the whole course

# %% tags=["computed-time"]
quiz("14")

# %% [markdown]
# ## What this course did not show
#
# - *Real speed.* Links were shaped and computing was paced. To study kernels, caches, streams and the many small delays
#   of a real GPU you need a profiler and such a machine.
# - *Scale.* Eight ranks are not eight thousand. With thousands, machines break daily, many jobs share a network, and
#   storage may be too slow. Lesson 12 simulated some of that; only a cluster shows it all.
# - *Low precision at work.* Training in float8 or below needs scaling factors, hardware, and a loss that is watched for
#   weeks.
# - *Whether it learns.* A layout decides how fast a step is. Batch sizes, learning rates and data decide how much a
#   model learns in a step.
# - *Inference.* Serving a large model cuts it along the same axes for other reasons: latency, and caches of keys and
#   values.
#
# ## Where to go on
#
# - Read code that you can now read. [torchtitan](https://github.com/pytorch/torchtitan) is PyTorch's own trainer, and
#   [picotron](https://github.com/huggingface/picotron) has one technique in each short file. Many of these cuts were
#   made first in [Megatron-LM](https://github.com/NVIDIA/Megatron-LM).
# - Read a report of a real run from beginning to end: [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783)
#   (2024), section 3.3; [DeepSeek-V3](https://arxiv.org/abs/2412.19437) (2024), section 3.
# - Read the field's own long guide, [The Ultra-Scale
#   Playbook](https://huggingface.co/spaces/nanotron/ultrascale-playbook), with thousands of measured layouts.
# - Then take a job of your own, however small. Make a first table by `./course plan`, run three layouts, and write a
#   report of one page. Say in it what you do not know.
