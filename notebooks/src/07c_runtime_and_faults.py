# %% [markdown]
# # 07c · Pipelines and their bubbles: the loop, its faults and production
#
# You write the loop that executes a row of a schedule, see it hang, and mend it. You put two pipelines side by side,
# find two more faults by their evidence, and run a schedule on PyTorch's own runtime.
#
# **2 × 50 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 3 of 5 · [1: micro-batches, GPipe and 1F1B](07a_pipeline_parallel.ipynb) · [2: smaller bubbles, and a schedule
# of your own](07b_smaller_bubbles.ipynb) · [4: build the runtime](07d_build_pipeline.ipynb) · [5: search a
# schedule](07e_search_a_schedule.ipynb)
#
# This part builds on [07a: micro-batches, GPipe and 1F1B](07a_pipeline_parallel.ipynb) and [07b: smaller bubbles, and
# a schedule of your own](07b_smaller_bubbles.ipynb). Have you done them? `from course_lib import start; start("07c")`
# says whether you have.
#
# At the end you can
#
# - write the loop of a rank: receive, run, send;
# - combine a pipeline with data parallelism;
# - recognise three usual faults of pipelines by their evidence;
# - run a schedule on this course's runtime and on PyTorch's.
#
# From part 1 you need tables of forwards and backwards, GPipe's and 1F1B's. From part 2 you need that a rank may hold
# several stages, and that a backward may be split in I and W.

# %%
from course_lib import Cluster, ask, check, hint, problems, quiz, reveal, schedules, shared_cluster
from course_lib.claims import trial
from course_lib.cluster import RankError, exchange, recv, send
from course_lib.data import documentation_windows, loader
from course_lib.meter import bytes_text, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel import pipeline
from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.rounding import agree, rounded

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
two, four = shared_cluster(2), shared_cluster(4)

# %% [markdown]
# All arithmetic on this page is real: the transformer of part 1, cut in stages, and batches of 32 texts.

# %%
config = TransformerConfig(context_length=64, num_layers=8, width=48, num_heads=4)
text, _ = documentation_windows(config.context_length)
batches = [batch for batch, _ in zip(loader(text, 32), range(4), strict=False)]


def make_stages(num_stages):
    torch.manual_seed(0)  # every rank makes the same weights, and keeps its own stages
    model = Transformer(config)
    return cut(model, split_evenly(parameter_costs(model), num_stages))


# %% [markdown]
# ## The loop over a row
#
# In parts 1 and 2 a runtime has executed whatever stood in your tables. What does it do? For each action of its row a
# rank *receives* what the action needs, *runs* it, and *sends* what it made. Write that loop.
#
# `pipeline.RowStage` is a stage that computes. It sends no messages:
#
# - `forward(i, arrived)` runs micro-batch i on what the stage before has sent, and returns what to send on;
# - `backward(i, arrived)` takes the gradient that the stage behind has sent, and returns the gradient to send back;
# - `room()` is a new tensor, in which a message can arrive.
#
# The first rank has no rank before it, and the last has none behind it: there `arrived` is None, and nothing is sent.
# Begin in the simplest way, with one message at a time: `exchange([recv(arrived, rank)])` and `exchange([send(made,
# rank)])`, as in [lesson 02](02c_hangs.ipynb).


# %%
def run_in_turn(me, row, stage):
    """row: what this rank's stage does, in order, such as ["F0", "F1", "B0", "B1"]."""
    # Rank r holds stage r of me.world_size. From which rank does an F hear, and from which a B?
    ### BEGIN SOLUTION
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = (me.rank - 1, me.rank + 1) if kind == "F" else (me.rank + 1, me.rank - 1)
        arrived = None
        if 0 <= before < me.world_size:
            arrived = stage.room()
            exchange([recv(arrived, before)])
        made = stage.forward(i, arrived) if kind == "F" else stage.backward(i, arrived)
        if 0 <= after < me.world_size:
            exchange([send(made, after)])
    ### END SOLUTION


# %% [markdown]
# Does your loop find the gradients of the uncut transformer? Try it with GPipe on two ranks:


# %%
def gradients_right(me, run_row, schedule):
    """Whether a loop finds the gradients of the uncut model."""
    (x, y), m = batches[0], schedule.num_micro_batches
    shape = (len(x) // m, config.context_length, config.width)  # of what travels
    stage = pipeline.RowStage(me, make_stages(me.world_size), (x, y), m, next_token_loss, shape)
    run_row(me, [action.short for action in schedule.rows[me.rank]], stage)
    whole = make_stages(me.world_size)
    next_token_loss(torch.nn.Sequential(*whole)(x), y).backward()
    grads = [[weight.grad.cpu() for weight in part.parameters()] for part in (stage.module, whole[me.rank])]
    return agree(*grads, within=1e-5)


def outcome(run_row, schedule):
    """Did it end, and with which gradients? If not, where did the ranks stand?"""
    with Cluster(2, backend="gloo") as ranks:
        try:
            right = ranks.call(gradients_right, (run_row, schedule), timeout_s=20, show=False)
            return f"it ends; gradients as uncut: {all(right)}"
        except RankError as error:
            return str(error)


# %% tags=["computed-time"]
print("GPipe:", outcome(run_in_turn, schedules.gpipe(2, 4)))

# %% [markdown]
# ### Clinic 1: the loop that hangs
#
# ![Two ranks that hang, with a question mark between them](../assets/07_clinic_send.png)
#
# *Symptom.* The same loop, given the rows of 1F1B, hangs. "On gloo this works, it only hangs on NCCL", says a
# colleague; "small messages are buffered", says another. Believe neither, and look. (If your loop does not hang, you
# have already avoided the fault.)
#
# **Why does it hang under 1F1B?** Name a suspect. Then see where the ranks stood.

# %%
### BEGIN SOLUTION
### STUB ask("07.hangs")
ask("07.hangs").commit("the messages are too large for gloo's buffers")
### END SOLUTION

# %% tags=["computed-time"]
print("1F1B:", outcome(run_in_turn, schedules.one_f_one_b(2, 4)))

# %%
reveal("07.hangs")

# %% [markdown]
# ### Mend it
#
# Messages that cross have to be started *together*: the one that an action has made, and the one that the next action
# waits for. `exchange` starts all messages of its list before it waits for any. So hold a message back until the next
# action says what it needs. And the message of the last action in a row must be sent as well.
#
# The check runs GPipe, 1F1B and a row whose backwards come in another order, on one to three ranks, with messages of
# 120 bytes. You can hand in `run_in_turn` first.


# %%
def run_row(me, row, stage):
    """The same loop, for rows whose messages cross."""
    ### BEGIN SOLUTION
    going = []  # what the last action made, and for whom
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = (me.rank - 1, me.rank + 1) if kind == "F" else (me.rank + 1, me.rank - 1)
        arrived = stage.room() if 0 <= before < me.world_size else None
        exchange(going if arrived is None else [*going, recv(arrived, before)])
        made = stage.forward(i, arrived) if kind == "F" else stage.backward(i, arrived)
        going = [send(made, after)] if 0 <= after < me.world_size else []
    exchange(going)
    ### END SOLUTION


# %%
run_verdict = check("07.run", run_row)

# %%
# hint("07.run")

# %% tags=["computed-time"]
print("1F1B:", outcome(run_row, schedules.one_f_one_b(2, 4)))

# %% [markdown]
# There is another way out: `dist.isend` returns at once, and the loop waits for all sends at the end. It works on gloo,
# and may hang on NCCL. (Hand it in: the check lets it pass, and warns.) On NCCL a message is a kernel in a queue of the
# GPU. On each rank a `recv` can stand in that queue behind a `send`, which waits for the other rank's `recv`. NVIDIA's
# [guide to NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/p2p.html) says that calls which have
# to progress at the same time are merged into one group. In PyTorch that is `dist.batch_isend_irecv`, in this course
# `exchange`. (This is what the documents say; the page was not run on NCCL.)
#
# | crossing messages | gloo, by the check | NCCL, by its documents |
# |---|---|---|
# | one send, then one receive | hangs | not safe: not in one group |
# | `dist.isend`, then `dist.recv` | works | not safe: not in one group |
# | `exchange`, or `dist.batch_isend_irecv([...])` | works | the way to do it |
#
# The course's own loop (`course_lib/parallel/pipeline/batch_run.py`) does what yours does, and more: a rank may hold
# several stages, and messages travel while it computes. It derives from the table which messages cross (`messages.py`),
# and `validate` refuses tables for which that cannot be done. In [part 4](07d_build_pipeline.ipynb) you build all of
# it.
#
# ## It trains
#
# ![A transformer's row of pieces cut in one, two and four stages, with one loss for all](../assets/07_train.png)
#
# Schedules are about time and memory. Do they change what is learned? Take the transformer with the course's runtime:
# uncut, in two stages, in four, and in four that two ranks share. It trains on 32 texts in eight micro-batches, and
# once in five, which do not divide 32.


# %%
def train(me, schedule, num_steps=2):
    model = pipeline.Pipeline(me, make_stages(schedule.num_stages), schedule, next_token_loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    losses = []
    for x, y in batches[:num_steps]:
        optimizer.zero_grad()
        loss = model.step(x, y)  # forward and backward of all micro-batches, in the schedule's order
        optimizer.step()
        losses.append(None if loss is None else loss.item())
    flat = {
        name: torch.cat([p.detach().flatten() for p in stage.parameters()])
        for name, stage in model.stages.items()
    }
    return losses, flat  # losses: None on all ranks but that of the last stage; weights by stage


# %%
six = [schedules.naive(1), schedules.gpipe(2, 8), schedules.one_f_one_b(4, 8)]
six += [schedules.one_f_one_b(4, 5), schedules.interleaved(2, 8), schedules.zero_bubble_h1(4, 8)]
uncut = None
for schedule in six:
    run = shared_cluster(schedule.num_ranks).run(train, schedule)
    by_stage = {name: weights for _, mine in run for name, weights in mine.items()}
    weights = torch.cat([by_stage[name] for name in sorted(by_stage, key=int)])
    uncut = weights if uncut is None else uncut
    sizes = f"stages {schedule.num_stages}, ranks {schedule.num_ranks}, m {schedule.num_micro_batches}"
    losses, same = run[schedule.rank_of_stage[-1]][0], agree(weights, uncut, within=1e-5)
    print(f"{schedule.name:<16} {sizes}: {rounded(losses, 2)}, weights as uncut: {same}")

# %% [markdown]
# The same losses and the same weights. A schedule changes when things are computed, and not what is computed. Every
# micro-batch passes the same weights, and the optimizer steps after the last one.
#
# The equality holds where each sample is computed by itself, and without random numbers. BatchNorm sees micro-batches,
# as in [lesson 01](01c_less_memory.ipynb). So does a loss that compares samples, as contrastive ones do, or one that
# balances experts over a batch. And dropout draws its numbers per micro-batch, in another order than for the uncut
# batch.
#
# ## Pipelines side by side
#
# ![Four ranks in a square: ranks 0 and 1 are a pipeline, ranks 2 and 3 another; dotted lines join ranks 0 and 2, and
# ranks 1 and 3, which hold the same stage](../assets/07_grid.png)
#
# A pipeline cannot grow for ever: a model of eight blocks cannot be cut in a hundred stages. More devices go into
# *replicas*: two pipelines of two stages, each with half of the batch. Ranks that hold the same stage average their
# gradients, as in lesson 04.


# %%
PIPELINES, SAME_STAGE = [[0, 1], [2, 3]], [[0, 2], [1, 3]]


def two_by_two(me, num_micro_batches, way=None):
    """One batch over two pipelines; how far are the gradients from the uncut model's?"""
    replica, stage = me.rank // 2, me.rank % 2
    group = [dist.new_group(ranks) for ranks in SAME_STAGE][stage]  # every rank makes all groups
    schedule = schedules.one_f_one_b(2, num_micro_batches)
    stages, ranks = make_stages(2), PIPELINES[replica]
    model = pipeline.Pipeline(me, stages, schedule, next_token_loss, ranks=ranks)
    x, y = (tensor.chunk(2)[replica] for tensor in batches[0])
    if way is None:
        pipeline.joint_step(model, x, y, group)
    else:
        way(model, group, lambda: model.step(x, y))
    whole = make_stages(2)
    next_token_loss(whole[1](whole[0](batches[0][0])), batches[0][1]).backward()
    grads = [[weight.grad.cpu() for weight in part.parameters()] for part in (model, whole[stage])]
    return agree(*grads, within=1e-5)


run = metered(four, two_by_two, 4)
print("gradients agree with the uncut model's to within 1e-5 on all ranks:", all(run))
print("operations:", run.communication.by_operation())

# %% [markdown]
# There are two kinds of traffic: activations and gradients of activations by `send` and `recv` *within* a pipeline,
# gradients of weights by all-reduce *across* pipelines. (Count the sends. Each of the two pipelines sends four
# activations, four gradients, and once the shape of the messages that come. How `joint_step` averages is not shown: you
# will write it in clinic 2.)
#
# Pipeline parallelism is often considered a combination of data and model parallelism, says article B. Is it one? Bet:

# %%
### BEGIN SOLUTION
### STUB ask("07.b6")
ask("07.b6").commit("holds")
### END SOLUTION

# %%
tried = trial("B6").run()
print(tried)
reveal("07.b6", tried)

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above this
# one. In the second sitting two more faults wait for you, and PyTorch's own runtime runs a table.

# %% [markdown]
# ## Clinic 2: the link that is always full
#
# ![Two pipelines and the link between them, full from end to end, with a question mark](../assets/07_clinic_bytes.png)
#
# *Symptom.* Another team has the same two pipelines. Their losses are right. They cut the batch in more micro-batches,
# for the bubble's sake, and the step gets *slower*. The link between the replicas is always full. This is how they call
# the step:


# %%
def that_teams_way(model, group, step):
    def average(weight):
        dist.all_reduce(weight.grad, op=dist.ReduceOp.AVG, group=group)

    hooks = [weight.register_post_accumulate_grad_hook(average) for weight in model.parameters()]
    step()
    for hook in hooks:
        hook.remove()


# %% [markdown]
# **Why is the link full?** Name a suspect. Then read what the meter says.

# %%
### BEGIN SOLUTION
### STUB ask("07.sync")
ask("07.sync").commit("the stages are too large for the link")
### END SOLUTION

# %% tags=["computed-time"]
print("micro-batches   all-reduces   bytes of all-reduces      send and recv   gradients right")
for m in [1, 2, 4]:
    run = metered(four, two_by_two, m, that_teams_way)
    said = run.communication
    reduced, sent = said.of(operation="all_reduce").total_bytes, said.of(operation="send").total_bytes
    print(
        f"{m:>13}   {said.by_operation()['all_reduce']:>11}   {bytes_text(reduced):>20}   "
        f"{bytes_text(sent):>16}   {all(run)}"
    )

# %%
reveal("07.sync")

# %% [markdown]
# ### Mend it
#
# Write the lines before and after `step()` anew, so that the bytes stay what they are with one micro-batch. Each rank
# hands its gradients in once for a batch, to an all-reduce or to an all-gather. On its own rank a gradient adds up over
# micro-batches without a message. (`group` has as many ranks as there are pipelines, which need not be two.)


# %%
def averaged(model, group, step):
    """One step of a pipeline, and gradients that are averaged over ``group``."""
    ### BEGIN SOLUTION
    step()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)
    ### END SOLUTION


# %%
sync_verdict = check("07.sync", averaged)

# %%
# hint("07.sync")

# %% [markdown]
# PyTorch's wrappers behave as that team's hooks do: they average at every backward. `DistributedDataParallel` has
# `no_sync()` to avoid this, and `torch.distributed.pipelining` switches the averaging on for the last micro-batch only.
# This course's `joint_step` calls `pipeline.average_gradients`, which puts all gradients of a rank in one message.
#
# ## Clinic 3: slower with more pieces
#
# ![A batch in one, two, four and eight pieces, and beside each the step that is taken: an arrow, half as long each
# time](../assets/07_clinic_loss.png)
#
# *Symptom.* A team goes from one micro-batch to eight, and their model learns more slowly. Nothing else was changed.
# With plain SGD the fault is easy to see; Adam divides by the size of the gradients, and hides it.


# %%
def step_of_that_team(me, num_micro_batches):
    def loss_of(output, target):
        return next_token_loss(output, target) / num_micro_batches

    schedule = schedules.one_f_one_b(2, num_micro_batches)
    model = pipeline.Pipeline(me, make_stages(2), schedule, loss_of)
    x, y = batches[0]
    output = model.forward_only(x)
    model.step(x, y)
    gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    loss = None if output is None else next_token_loss(output, y.to(me.device)).item()
    return loss, gradients.norm().item()


print("micro-batches   loss before the step   size of the gradients, rank 0 and rank 1")
for m in [1, 2, 4, 8]:
    run = two.run(step_of_that_team, m)
    print(f"{m:>13}   {rounded(run[1][0], 2):>20}   {rounded(run[0][1], 2)}   {rounded(run[1][1], 2)}")

# %%
### BEGIN SOLUTION
### STUB ask("07.careful")
ask("07.careful").commit("micro-batches are too small for good gradients")
### END SOLUTION

# %%
reveal("07.careful")

# %% [markdown]
# ### Mend it
#
# Before, the team had accumulated gradients by hand. There that division is right.
#
# What should one micro-batch contribute, so that a plain *sum* over micro-batches gives the mean loss of the batch and
# its gradients? Write this for a classifier, for outputs of any size. The last micro-batch may be smaller than the
# others. `num_samples` is the size of the whole batch.


# %%
def contribution(output, target, num_samples):
    """What this micro-batch adds to the batch's mean loss. output: (samples, classes), target: (samples,)."""
    ### BEGIN SOLUTION
    return torch.nn.functional.cross_entropy(output, target, reduction="sum") / num_samples
    ### END SOLUTION


# %%
loss_verdict = check("07.loss", contribution)

# %%
# hint("07.loss")

# %% [markdown]
# ## In production
#
# ![One schedule as a CSV table with two arrows, to the course's runtime and to PyTorch's](../assets/07_production.png)
#
# PyTorch has all of this in `torch.distributed.pipelining`. Here it runs the same stages, the same schedule and the
# same batch. (Where ranks share a GPU and so talk through gloo, PyTorch's stages stay on the CPU: gloo sends no CUDA
# tensors.)


# %%
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B


def device_of_torch(me):
    return torch.device("cpu") if dist.get_backend() == "gloo" else me.device


def torch_stages(me, schedule):
    stages, device = make_stages(schedule.num_stages), device_of_torch(me)
    mine = schedule.stages_of_rank[me.rank]
    return [PipelineStage(stages[s].to(device), s, len(stages), device) for s in mine]


def run_by_torch(me, schedule, runner, x, y):
    first, last = schedule.rank_of_stage[0], schedule.rank_of_stage[-1]
    losses = [] if me.rank == last else None
    x, y = (tensor.to(device_of_torch(me)) for tensor in (x, y))
    runner.step(*[x] * (me.rank == first), target=y if me.rank == last else None, losses=losses)
    return torch.stack(losses).mean() if losses else None


# %%
def both(me, schedule, make_runner, batch):
    """The loss by PyTorch and by the course, and whether their gradients agree."""
    stages = torch_stages(me, schedule)
    loss = run_by_torch(me, schedule, make_runner(me, stages, schedule), *batch)
    model = pipeline.Pipeline(me, make_stages(schedule.num_stages), schedule, next_token_loss)
    ours = model.step(*batch)
    theirs = [weight.grad.cpu() for stage in stages for weight in stage.submod.parameters()]
    alike = agree(theirs, [weight.grad.cpu() for weight in model.parameters()], within=1e-5)
    return None if loss is None else [loss.item(), ours.item()], alike


def one_f_one_b_of_torch(me, stages, schedule):
    return Schedule1F1B(stages[0], schedule.num_micro_batches, loss_fn=next_token_loss)


def interleaved_of_torch(me, stages, schedule):
    return ScheduleInterleaved1F1B(stages, schedule.num_micro_batches, loss_fn=next_token_loss)


# %%
def compare(cluster, schedule, make_runner, batch=batches[0]):
    run = cluster.run(both, schedule, make_runner, batch)
    losses = rounded(run[schedule.rank_of_stage[-1]][0], 2)
    alike = all(alike for _, alike in run)
    print(f"{schedule.name:<16} loss by PyTorch and here: {losses}; gradients agree to within 1e-5: {alike}")


compare(four, schedules.one_f_one_b(4, 8), one_f_one_b_of_torch)
compare(two, schedules.interleaved(2, 8), interleaved_of_torch)

# %% [markdown]
# Can PyTorch run a table of your own? Its runtime reads a table as well: a CSV file, a line for each rank. The name of
# that runtime begins with an underscore, so it may change. Here is a table that comes with no library: whole backwards
# on ranks 0 and 1, split ones on ranks 2 and 3. Put the one that you handed in for `07.design` in its place. PyTorch's
# micro-batches must all be of one size, so the batch has 24 texts.

# %%
own_table = """
F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5
F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5
F0 F1 I0 F2 I1 F3 W0 I2 F4 W1 I3 F5 W2 I4 W3 I5 W4 W5
F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 F4 I4 W3 F5 I5 W4 W5
"""
designed = schedules.from_text(own_table, name="the table above")
print(schedules.to_csv(designed).splitlines()[0])

# %%
import tempfile
from pathlib import Path

from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime


def from_csv_by_torch(me, stages, schedule):
    runtime = _PipelineScheduleRuntime(stages, schedule.num_micro_batches, loss_fn=next_token_loss)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.csv"
        path.write_text(schedules.to_csv(schedule))
        runtime._load_csv(str(path), format="compute_only")  # reads, validates, adds the messages
    return runtime


compare(four, designed, from_csv_by_torch, tuple(tensor[:24] for tensor in batches[0]))

# %% [markdown]
# Two runtimes, and both read the schedule as a table. (`./course bench pipeline` times them side by side, in paired
# runs.)
#
# | you wrote | production code uses |
# |---|---|
# | `run_row` | `PipelineStage` with a schedule's `step`, over `dist.batch_isend_irecv` |
# | `gpipe_table`, `order_of_stage` | `ScheduleGPipe`, `Schedule1F1B`, `ScheduleInterleaved1F1B` |
# | `backward_in_halves` | `ScheduleInterleavedZeroBubble`, `ScheduleZBVZeroBubble`, `ScheduleDualPipeV` |
# | `my_schedule` | a CSV table for `_PipelineScheduleRuntime` |
# | `averaged` | data-parallel wrappers around stages; averaging after the last micro-batch |
# | `cut` | by hand, or `torch.distributed.pipelining.pipeline(...)`, which traces the model |
#
# Use PyTorch's for work. Use this course's to find out what a schedule does before you pay for a cluster.
#
# ### Five questions

# %% tags=["computed-time"]
quiz("07")

# %% [markdown]
# ## What you can do now
#
# You can say how long a pipeline waits before it is built, and what a smaller bubble costs. You have written the loop
# of a runtime, and two other runtimes have executed a table that comes with no library. You know three faults by their
# evidence. They are the deadlock of two ranks that are both sending, an average in every micro-batch, and a loss that
# is divided once too often.
#
# **The limit.** A stage is at least one layer, and a layer has to fit on one device. A very wide layer does not. And
# the more stages, the more micro-batches it takes to fill them, until the batch is larger than is good for learning.
# Lesson 08 cuts *inside* the layer: all devices work on the same micro-batch at the same moment.
#
# **Further reading.** PyTorch's
# [`torch.distributed.pipelining`](https://docs.pytorch.org/docs/stable/distributed.pipelining.html), its page of
# documents. The papers behind the schedules stand at the ends of parts 1 and 2.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. You get numbers of your own, and new ones for
# each further try. When a problem is over, you see its solution step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("07")
problems("07", ways=True)
### END SOLUTION
