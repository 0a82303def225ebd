# %% [markdown]
# # 07d · Pipelines and their bubbles: build the runtime
#
# You begin with one empty class, and extend it in six steps. At the end it executes any schedule of this course, and
# schedules of your own. You compare it with the course's runtime and PyTorch's.
#
# **2 × 75 minutes · difficulty 5 of 5 · needs: cpu**
#
# Part 4 of 5 · [1: micro-batches, GPipe and 1F1B](07a_pipeline_parallel.ipynb) · [2: smaller bubbles, and a schedule
# of your own](07b_smaller_bubbles.ipynb) · [3: the loop, its faults and production](07c_runtime_and_faults.ipynb) ·
# [5: search a schedule](07e_search_a_schedule.ipynb)
#
# This part builds on [07b: smaller bubbles, and a schedule of your own](07b_smaller_bubbles.ipynb) and [07c: the loop,
# its faults and production](07c_runtime_and_faults.ipynb). Have you done them? `from course_lib import start;
# start("07d")` says whether you have.
#
# At the end you can
#
# - write the runtime of a pipeline from its interface alone, for tables that you have not seen;
# - say for each message when it may start, and which rank must not wait for it;
# - run a schedule of your own, and compare its idle time with what was predicted.
#
# From [part 2](07b_smaller_bubbles.ipynb) you need stages that share a rank, and backwards in halves. From [part
# 3](07c_runtime_and_faults.ipynb) you need the loop that a rank runs, and why it can hang.

# %%
from course_lib import ask, build_progress, check, hint, mine, reveal, schedules, shared_cluster, side_by_side
from course_lib.cluster import recv, send, start
from course_lib.cost import simulate
from course_lib.data import documentation_windows, loader
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel import pipeline
from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.plot import pipeline_gantt
from course_lib.rounding import agree
from course_lib.schedules import StageTimes

import tempfile
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

# %% tags=["nbval-ignore-output"]
two, three, four = shared_cluster(2), shared_cluster(3), shared_cluster(4)

# %% [markdown]
# ![The row of rank 1 of three, F0, F1, B0, F2, B1, B2, with an arrow into each box and one out of it, from and to ranks
# 0 and 2; a question mark stands at each arrow](../assets/07_runtime.png)
#
# ## One cell
#
# You write everything in the next cell. Six steps follow it, and each has a check. Each check demands all that the
# checks before it demand, and one thing more. So you come back to this cell: change it, run it, and run the next check.
#
# Take two sittings. The first one ends with step 3. Step 4 is the hardest.
#
# Write the shortest class that passes the next check. For step 1 a rank may wait for each message as soon as it has
# begun.


# %%
class MyPipeline:
    """Executes this rank's row of a schedule. Gradients are those of one backward over the whole batch.

    ``stages``: this rank's modules by the number of the stage. ``loss_of(output, target)``: the mean over the rows of a
    micro-batch. ``room(stage, i)``: an empty tensor for what enters a stage (not stage 0) with micro-batch i; what
    comes back to the stage before has the same shape. ``ties``: each names the places of one parameter, such as
    ``((0, "weight"), (3, "weight"))``, which several ranks may have copies of.
    """

    def __init__(self, me, stages, schedule, loss_of, room, ties=()):
        ### BEGIN SOLUTION
        self.me, self.stages, self.schedule = me, stages, schedule
        self.loss_of, self.room, self.ties = loss_of, room, ties
        self.moves = self.moves_of_this_rank()

    def moves_of_this_rank(self):
        """Its actions in order, each with the messages to be started before it; all ranks walk the same steps."""
        sends, moves, ready, made, now = self.schedule.dependencies.sends, [], [], [], 0
        for step, rank, action in self.schedule.dependencies.order:
            if step > now:
                ready, made, now = ready + made, [], step
            if rank == self.me.rank:
                moves.append((ready, action))
                ready = []
            message = sends.get(action)
            if message and self.me.rank in (message.sender, message.receiver):
                made.append(message)
        return [*moves, (ready + made, None)]

    def start(self, messages):
        both = []
        for kind, i, from_stage, to_stage, sender, receiver in messages:
            if sender == self.me.rank:
                both.append(send(self.here.pop((kind, to_stage, i)), receiver))
            else:
                self.here[kind, to_stage, i] = self.room(max(from_stage, to_stage), i)
                both.append(recv(self.here[kind, to_stage, i], sender))
        begun = start(both)
        for index, (kind, i, _, to_stage, *_) in enumerate(messages):
            self.waits[kind, to_stage, i] = partial(begun.wait_for, index)

    def take(self, kind, stage, i):
        """What an action needs from another stage; where its gradient is there, its output has arrived."""
        keys = {"F": [("F", stage, i)], "W": []}.get(kind, [("F", stage + 1, i), ("B", stage, i)])
        for key in keys:
            self.waits.pop(key, lambda: None)()
        return self.here.pop(keys[-1], None) if keys else None

    def pass_on(self, kind, stage, i, made):
        to = stage + 1 if kind == "F" else stage - 1
        if kind != "W" and 0 <= to < self.schedule.num_stages:
            if made is None:  # a stage has failed: nobody is to wait for it
                made = torch.full_like(self.room(max(stage, to), i), torch.nan)
            self.here["F" if kind == "F" else "B", to, i] = made.contiguous()

    def run(self, kind, stage, i, given):
        if kind == "F":
            return self.forward(stage, i, given)
        if kind == "W":
            x, out, given = self.later.pop((stage, i))
            weights = [weight for weight in self.stages[stage].parameters() if weight.requires_grad]
            return torch.autograd.backward(out, given, inputs=weights) if weights else None
        x, out = self.kept.pop((stage, i))
        if kind == "I":
            self.later[stage, i] = x, out, given
            return torch.autograd.grad(out, x, given, retain_graph=True)[0] if x.requires_grad else None
        if out.requires_grad:
            out.backward(given)
        return x.grad

    def forward(self, stage, i, given):
        x = self.inputs[i] if stage == 0 else given.requires_grad_()
        out = self.stages[stage](x)
        if stage == self.schedule.num_stages - 1:
            out = self.loss_of(out, self.targets[i]) * len(self.targets[i]) / sum(map(len, self.targets))
            self.losses.append(out.detach())
        self.kept[stage, i] = x, out
        return out.detach()

    def tied(self):
        """This rank's copies of tied weights, each with the other ranks that have one."""
        for places in self.ties:
            ranks = {self.schedule.rank_of_stage[stage] for stage, _ in places} - {self.me.rank}
            own = [self.stages[stage].get_parameter(name) for stage, name in places if stage in self.stages]
            if own and ranks and own[0].requires_grad:
                yield own[0], sorted(ranks)

    def add_copies(self, weight, ranks, earlier):
        own = torch.zeros_like(weight) if weight.grad is None else weight.grad
        came = [torch.empty_like(own) for _ in ranks]
        sends = [send(own, rank) for rank in ranks]
        start(sends + [recv(one, rank) for one, rank in zip(came, ranks, strict=True)])()
        whole = sum(came, own)
        weight.grad = whole if earlier is None else whole + earlier
        ### END SOLUTION

    def step(self, inputs=None, targets=None):
        """One batch, forward and backward; gradients are added to those that are there.

        ``inputs``: a tensor of rows for each micro-batch, on the rank of stage 0; ``targets``: the same on the rank of
        the last stage, which returns the mean loss of the batch, 0-d. Other ranks are given None, and return None.
        """
        ### BEGIN SOLUTION
        self.inputs, self.targets, self.losses, failed = inputs, targets, [], None
        self.here, self.waits, self.kept, self.later = {}, {}, {}, {}
        tied = list(self.tied())
        earlier = [weight.grad for weight, _ in tied]
        for weight, _ in tied:
            weight.grad = None
        for messages, action in self.moves:
            self.start(messages)
            if action is not None:
                given, made = self.take(*action), None
                try:
                    made = self.run(*action, given) if failed is None else None
                except Exception as error:
                    failed = error
                self.pass_on(*action, made)
        for wait in self.waits.values():
            wait()
        for (weight, ranks), grad in zip(tied, earlier, strict=True):
            self.add_copies(weight, ranks, grad)
        if failed is not None:
            raise failed
        self.waits = self.here = None
        return sum(self.losses) if self.losses else None
        ### END SOLUTION


# %% [markdown]
# ## Step 1: the values
#
# In [part 3](07c_runtime_and_faults.ipynb) a stage kept what its backward needs. Now your class has to keep it.
#
# ### A worked example
#
# The next cell shows what a table holds, for three ranks and two micro-batches:

# %%
table = schedules.gpipe(3, 2)
print(table)
print("row of rank 1:", [str(action) for action in table.rows[1]])
kind, stage, micro_batch = table.rows[1][0]
print("its first action:", kind, stage, micro_batch, "· rank of each stage:", table.rank_of_stage)

# %% [markdown]
# Between two stages the graph of autograd is cut: a message carries numbers, and no graph. The next cell shows such a
# cut in one process. The tensor that arrives is a new leaf. The gradient that backward writes into the leaf goes back
# to the other side.

# %%
front, back = nn.Linear(3, 3), nn.Linear(3, 1)
output = front(torch.ones(2, 3))
received = output.detach().clone().requires_grad_()  # as if it came in a message
back(received).sum().backward()
output.backward(received.grad)  # as if that came in a message
print("the front has a gradient:", front.weight.grad is not None)

# %% [markdown]
# ### Your class
#
# You send messages with `start`, which `exchange` uses inside. `begun = start([send(x, 1), recv(room, 1)])` begins both
# messages and returns at once. `begun()` waits for all of them, and `begun.wait_for(0)` for the first.
#
# The run below computes one batch on two ranks: with your class, with the course's runtime and with PyTorch's. In the
# table, a class that fails has dashes.

# %%
WIDTH, ROWS = 32, 4
mean_square = nn.functional.mse_loss


def stages_of(num_stages):
    torch.manual_seed(1)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double() for _ in range(num_stages)]


def batch_of(num_micro_batches):
    draw = torch.Generator().manual_seed(7)
    both = torch.randn(2, num_micro_batches, ROWS, WIDTH, generator=draw, dtype=torch.float64)
    return list(both[0]), list(both[1])


def given(me, table):
    own = [stages_of(table.num_stages)[stage] for stage in table.stages_of_rank[me.rank]]
    parts = [torch.stack(part).to(me.device) for part in batch_of(table.num_micro_batches)]
    return nn.ModuleList(own).to(me.device), *parts


# %%
def results(stages, loss):
    """The gradients by stage and name, and the loss on the rank that has it."""
    grads = {f"{s}.{name}": p.grad.cpu() for s in stages for name, p in stages[s].named_parameters()}
    return grads if loss is None else grads | {"loss": loss.detach().cpu()}


def one_batch(me, runtime, table, own, inputs, targets):
    def room(stage, i):
        return torch.empty(ROWS, WIDTH, dtype=torch.float64, device=me.device)

    stages = dict(zip(table.stages_of_rank[me.rank], own, strict=True))
    made = runtime(me, stages, table, mean_square, room)
    has_last = table.num_stages - 1 in stages
    return results(
        stages, made.step(list(inputs) if 0 in stages else None, list(targets) if has_last else None)
    )


def alone(table, rank):
    """What one process has for the stages of a rank."""
    stages, (inputs, targets) = stages_of(table.num_stages), batch_of(table.num_micro_batches)
    loss = mean_square(nn.Sequential(*stages)(torch.cat(inputs)), torch.cat(targets))
    loss.backward()
    own = {stage: stages[stage] for stage in table.stages_of_rank[rank]}
    return results(own, loss if table.num_stages - 1 in own else None)


# %%
class PyTorchs:
    """PyTorch's runtime with the interface of your class. (On gloo it stays on the CPU.)"""

    def __init__(self, me, stages, table, loss_of, room, ties=()):
        self.device = torch.device("cpu") if me.backend == "gloo" else me.device
        parts = [
            PipelineStage(one.to(self.device), s, table.num_stages, self.device) for s, one in stages.items()
        ]
        self.runtime = _PipelineScheduleRuntime(parts, table.num_micro_batches, loss_fn=loss_of)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            path.write_text(schedules.to_csv(table))
            self.runtime._load_csv(str(path), format="compute_only")

    def step(self, inputs=None, targets=None):
        args = () if inputs is None else (torch.cat(inputs).to(self.device),)
        target = None if targets is None else torch.cat(targets).to(self.device)
        losses = None if targets is None else []
        self.runtime.step(*args, target=target, losses=losses)
        return torch.stack(losses).mean() if losses else None


# %%
RUNTIMES = {"yours": MyPipeline, "the course's": pipeline.GivenStages, "PyTorch's": PyTorchs}


def job(table):
    return lambda me, runtime, *parts: one_batch(me, runtime, table, *parts)


def beside(cluster, table):
    return side_by_side(
        cluster,
        job(table),
        RUNTIMES,
        expected=partial(alone, table),
        prepare=lambda me: given(me, table),
        within=1e-9,
        build="07.pipe",
    )


# %%
beside(two, schedules.gpipe(2, 3))

# %%
values = check("07.pipe_values", MyPipeline)

# %%
# hint("07.pipe_values")

# %% [markdown]
# ## Step 2: messages
#
# Each activation goes to the next stage once, each gradient to the one before once. How many messages does a rank in
# the middle send, with m micro-batches? Your class must begin to send the result of an action before it begins the next
# action. And no two neighbours may wait for each other. The check tries 1F1B, a rank that is late, and a table with
# idle cells.

# %%
beside(three, schedules.one_f_one_b(3, 6))

# %%
check("07.pipe_messages", MyPipeline)

# %%
# hint("07.pipe_messages")

# %% [markdown]
# ## Step 3: memory
#
# A stage keeps the activations of a forward until its backward has run, and no longer. The table says how many
# micro-batches may be in flight:

# %%
for table in (schedules.gpipe(3, 6), schedules.one_f_one_b(3, 6)):
    print(f"{table.name}: in flight at most, by rank: {schedules.peak_in_flight(table)}")

# %% [markdown]
# The check counts tensors whenever a forward begins. It counts what forwards have kept, inputs and outputs of
# micro-batches that are over, and tensors of `room` that wait for a message. A gradient that was sent may stay until
# the step ends. An output that was sent may not stay so long: when does its rank know that it has arrived? After the
# step nothing may be left.

# %%
check("07.pipe_memory", MyPipeline)

# %%
# hint("07.pipe_memory")

# %% [markdown]
# The picture shows stages that wait 10 ms for a forward and 20 ms for a backward (paced, as in part 1). It is of your
# class once step 1 has passed, and of the course's before.

# %% tags=["nbval-ignore-output"]
whose, runtime = ("yours", MyPipeline) if values.passed else ("the course's", pipeline.GivenStages)
times = StageTimes.of(0.01)
watched = pipeline.run_runtime(three, runtime, schedules.one_f_one_b(3, 6), times)
pipeline_gantt(measured=watched, title=f"1F1B on three ranks, by {whose}")

# %% [markdown]
# ## Step 4: several stages on a rank
#
# Now a rank may hold any stages. The next stage may be on any rank. If it is on the same rank, no message is sent.
#
# ![Two ranks with two stages each: rank 0 sends a gradient and then activations to rank 1, whose row needs the
# activations first](../assets/07_arrival.png)
#
# Two ranks now send each other activations *and* gradients. Here rank 0 sends two messages of three numbers, first a
# gradient, then activations. Rank 1 needs the activations first, and receives into a room that it has made for them.
#
# **What is in that room?**

# %%
### BEGIN SOLUTION
### STUB ask("07.arrival")
ask("07.arrival").commit("the activations")  # "they were sent, and they are waited for"
### END SOLUTION


# %%
def first_arrival(me):
    if me.rank == 0:
        gradient, activations = torch.full((3,), -1.0, device=me.device), torch.ones(3, device=me.device)
        start([send(gradient, 1), send(activations, 1)])()
        return None
    for_activations, for_gradient = torch.zeros(2, 3, device=me.device)
    start([recv(for_activations, 0), recv(for_gradient, 0)])()
    return for_activations.tolist()


arrived = two.run(first_arrival)[1]
print("in the room for activations:", arrived)

# %%
reveal("07.arrival", arrived)

# %% [markdown]
# So sender and receiver need the same order. Every rank knows the whole table, and can compute this order.
# `dependencies.order` walks through all rows step by step. In a step each rank runs its next action, if earlier steps
# have made all that the action needs. And `dependencies.sends` has the message of each action that sends one.

# %%
table = schedules.interleaved(2, 2)
for step, rank, action in table.dependencies.order[:5]:
    print("step", step, "· rank", rank, "·", action, "·", table.dependencies.sends.get(action))

# %%
beside(two, schedules.interleaved(2, 4))

# %%
check("07.pipe_chunks", MyPipeline)

# %%
# hint("07.pipe_chunks")

# %% [markdown]
# ## Step 5: backwards in two halves
#
# A table may cut B in two. I computes the gradient of the input, for which the stage before waits. W computes the
# gradients of the weights, perhaps much later. In [part 2](07b_smaller_bubbles.ipynb) you wrote both for one linear
# layer. Here a stage is any module, and autograd computes both. What must your class still keep when W comes? The check
# looks which gradients are computed in I, and which in W.

# %%
beside(two, schedules.zero_bubble_v(2, 4))

# %%
check("07.pipe_split", MyPipeline)

# %%
# hint("07.pipe_split")

# %% [markdown]
# ## Step 6: awkward models
#
# With which of these does your class hang, and with which is it wrong without an error?
#
# - the first and the last stage share one matrix, on two ranks or on one, and two batches come before the optimizer's
#   step;
# - a stage that is frozen, a last micro-batch of fewer rows, stages of two dtypes;
# - two pipelines at the same time, and a run on one rank;
# - a stage that raises an error. On its rank `step` must raise this error, with its own text. On the other ranks `step`
#   must end. If a forward failed, these ranks must return no loss that looks right. The next step must be right again.

# %%
check("07.pipe_awkward", MyPipeline)

# %%
# hint("07.pipe_awkward")

# %% [markdown]
# ## Train with it
#
# Choose a schedule for four ranks: one of the course's, or a table of your own, such as the one of `07.design`.
# (`mine.MyPipeline` is the version of your class that has passed, or the course's class until then.)

# %% tags=["nbval-ignore-output"]
own_pipeline = mine.MyPipeline

# %%
### BEGIN SOLUTION
### STUB chosen = schedules.one_f_one_b(4, 6)  # or schedules.from_text(...): a line for each rank
chosen = schedules.zero_bubble_h1(4, 6)
### END SOLUTION
print("problems:", schedules.validate(chosen))

# %% [markdown]
# First the ranks are paced, with your class and with the course's. Look for idle time that the simulation does not
# predict.

# %% tags=["nbval-ignore-output"]
predicted = simulate(chosen, times)
print(f"predicted: {predicted.idle_share:.0%} idle")
for name, one in {whose: runtime, "the course's": pipeline.GivenStages}.items():
    measured = pipeline.run_runtime(four, one, chosen, times)
    print(f"{name}: {measured.idle_share:.0%} idle")
pipeline_gantt(predicted, measured, title=chosen.name)

# %% [markdown]
# Then your class trains a transformer with real arithmetic. The batch has 24 texts, and the model is cut in as many
# stages as your table has. The last line compares the loss with that of one process.

# %%
config = TransformerConfig(context_length=32, num_layers=6, width=32, num_heads=4)
text, _ = documentation_windows(config.context_length)
x, y = next(iter(loader(text, 24)))


def transformer_stages(num_stages):
    torch.manual_seed(0)
    model = Transformer(config).double()
    return cut(model, split_evenly(parameter_costs(model), num_stages))


def train(me, table, num_steps=3):
    stages = {s: transformer_stages(table.num_stages)[s].to(me.device) for s in table.stages_of_rank[me.rank]}
    xs, ys = ([part.to(me.device) for part in one.chunk(table.num_micro_batches)] for one in (x, y))
    shape = len(xs[0]), config.context_length, config.width

    def room(stage, i):
        return torch.empty(shape, dtype=torch.float64, device=me.device)

    made = own_pipeline(me, stages, table, next_token_loss, room)
    optimizer = torch.optim.SGD(nn.ModuleList(stages.values()).parameters(), lr=0.2)
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = made.step(xs if 0 in stages else None, ys if table.num_stages - 1 in stages else None)
        optimizer.step()
    return None if loss is None else loss.item()


# %%
def train_alone(num_steps=3):
    model = nn.Sequential(*transformer_stages(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = next_token_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


run = shared_cluster(chosen.num_ranks).run(train, chosen)
print(
    "loss after three steps as one process:", agree(run[chosen.rank_of_stage[-1]], train_alone(), within=1e-9)
)

# %% [markdown]
# ## How far you are

# %% tags=["nbval-ignore-output"]
build_progress("07.pipe")

# %% [markdown]
# ## What you can do now
#
# You have written what `torch.distributed.pipelining` calls a schedule's runtime. PyTorch's has the same parts:
# `_PipelineScheduleRuntime` walks through a table, adds the messages to it, and batches them.
#
# PyTorch's runtime does two things better. Its W begins with the gradients that I has computed, and does not go through
# the stage again (`course_lib/parallel/pipeline/split_backward.py` shows how). And its stages find out shapes by
# themselves.
#
# A stage is still at least one layer. [Lesson 08](08a_tensor_parallel.ipynb) cuts inside a layer.
