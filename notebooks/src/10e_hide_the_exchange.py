# %% [markdown]
# # 10e · Long context and experts: hide the exchange
#
# You read the trace of a job on eight A100 GPUs. You find out which of its all-to-alls hide under computing, and why
# others do not. Then you hide your own experts' all-to-alls: two micro-batches take turns.
#
# **75 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 5 of 9 · [1: the ring](10a_long_context.ipynb) · [2: equal work, and all-to-all](10b_equal_work.ipynb) · [3:
# experts, shared out](10c_experts.ipynb) · [4: equally busy](10d_busy_experts.ipynb) · [6: many small
# experts](10f_many_small_experts.ipynb) · [7: packed documents](10g_packed_documents.ipynb) · [8: build ring
# attention](10h_build_ring_attention.ipynb) · [9: build an expert layer](10i_build_experts.ipynb)
#
# This part builds on [02c: when a job hangs](02c_hangs.ipynb) and [10c: experts, shared out](10c_experts.ipynb). Have
# you done them? `from course_lib import start; start("10e")` says whether you have.
#
# At the end you can
#
# - say for each exchange in a trace what waits for it, and what could hide it;
# - estimate from a trace, by a model, how much time another order would save;
# - let two micro-batches hide each other's exchanges, forward and backward;
# - say how much memory that costs.
#
# From [part 3](10c_experts.ipynb) you need dispatch and combine, the two exchanges that send a token to its experts and
# back. From [lesson 02](02c_hangs.ipynb) you need `async_op=True`: a collective is started, and `wait()` ends it.

# %%
from course_lib import Link, Links, ask, check, hint, quiz, reveal, shared_cluster
from course_lib.meter import MemoryLedger, Timeline
from course_lib.parallel.experts import MixtureOfExperts, PacedStep, SteppedLayer, num_behind_computing
from course_lib.parallel.experts import interleaved as the_courses
from course_lib.plot import gantt
from course_lib.rounding import agree
from course_lib.traces import common, length, minus, table_rows, union

from statistics import median

import torch
import torch.distributed as dist
from torch import nn

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## A job that exchanges rows
#
# <!-- word: embedding table | also: embedding tables -->
# A recommendation model predicts whether a person will like a thing. Each person and each thing has a number. The model
# looks up each number in an **embedding table**, which has a row of weights for every number. Such tables may be too
# large for one GPU.
#
# So in this job each rank holds some tables whole, and looks up rows in them for the samples of all ranks. The rest of
# the model is dense: it is small, every rank has all of it, and its gradients are averaged, as in lesson 04. A step has
# these parts:
#
# | in a step | from rank to rank |
# |---|---|
# | numbers of the samples go to the ranks of their tables | all-to-alls |
# | rows that were looked up go to the ranks of the samples | an all-to-all |
# | the dense part computes, forward and backward | all-reduces of its gradients |
# | gradients of the rows go to the ranks of the tables | an all-to-all |
#
# Compare this with experts: a table takes the place of an expert, and a row the place of a token.
#
# (The trace is of rank 3 of 8, recorded by `torch.profiler`, with six steps. It comes from the test data of [Holistic
# Trace Analysis](https://github.com/facebookresearch/HolisticTraceAnalysis), MIT licence, © Meta Platforms, Inc. and
# affiliates; `assets/traces/README.md` has the licence. The course has it as a table, without the host's single
# operators. The trace does not say how many bytes were sent.)

# %% tags=["computed-time"]
rows = sorted(table_rows("recommender_rank3_of_8xa100"), key=lambda row: row.start_us)
steps = [row for row in rows if row.name.startswith("ProfilerStep")]
notes = [row for row in rows if row.lane == "annotation"]
calls = [row for row in notes if row.name.startswith("nccl:")]  # the host asks for an exchange
sent = [row for row in rows if row.collective]  # and the GPU carries it out, on stream 21
# stream 7 computes, 20 makes counts and copies them to the host, 21 sends, 22 copies from the host
kernels = [
    row for row in rows if row.lane in ("7", "20") and "HtoD" not in row.name and "DtoH" not in row.name
]


def spans(these):
    """The times of these rows of the table, joined."""
    return union([(row.start_us, row.end_us) for row in these])


computing = spans(kernels)
num = {name: sum(row.collective == name for row in sent) for name in ("all_to_all", "all_reduce")}
print(f"{len(steps)} steps of {median(step.duration_us for step in steps) / 1e3:.1f} ms;", num)
print(f"computing {length(computing) / 1e3:.0f} ms, communication {length(spans(sent)) / 1e3:.1f} ms,")
print(f"both at once {length(common(computing, spans(sent))) / 1e3:.1f} ms")

# %% [markdown]
# ### When each exchange runs
#
# The host's annotations say in which part of the program it asked for an exchange. One stream runs the exchanges in the
# order in which the host asked for them. So the first call belongs to the first row of the GPU, and so on.

# %% tags=["computed-time"]
PARTS = {  # annotations of the program, and what is sent there
    "## alltoall_fwd_single ##": "looked-up rows, forward",
    "## sparse_data_dist ##": "numbers of the next batch",
    "## alltoall_bwd_single ##": "gradients of rows, backward",
}


def part_of(call):
    around = {note.name for note in notes if note.start_us <= call.start_us and call.end_us <= note.end_us}
    return next((PARTS[name] for name in PARTS if name in around), "dense gradients")


parts = [part_of(call) for call in calls]
for number in range(10, 20):  # the second step
    call, row = calls[number], sent[number]
    asked, began, ended = (
        (moment - steps[1].start_us) / 1e3 for moment in (call.start_us, row.start_us, row.end_us)
    )
    print(
        f"{row.collective:<11} asked for at {asked:4.1f}, runs {began:4.1f} to {ended:4.1f} ms: {parts[number]}"
    )

# %% [markdown]
# Every step has these ten exchanges. Five of them bring the numbers of the *next* batch. The first of the five brings
# counts: how many numbers will come. Nothing in this step needs what the five bring. An exchange is *under computing*
# while the GPU also computes, and *exposed* while it does not. **What share of the time of these five lies under
# computing, over all six steps?**

# %%
### BEGIN SOLUTION
### STUB ask("10.trace_next")
ask("10.trace_next").commit(100)  # "nobody waits for them"
### END SOLUTION


# %% tags=["computed-time"]
def of_part(part, step):
    """The exchanges of one step that belong to this part."""
    return [row for row, what in zip(sent, parts, strict=True) if what == part and in_step(row, step)]


def in_step(row, step):
    return step.start_us <= row.start_us < step.end_us


def note_of(name, step):
    return next(note for note in notes if note.name == name and in_step(note, step))


NEXT = "numbers of the next batch"
exchanges = [spans(of_part(NEXT, step)) for step in steps]
hidden_us = [length(common(one, computing)) for one in exchanges]
for step, one, under_us in zip(steps, exchanges, hidden_us, strict=True):
    print(f"{step.name[8:]}: {length(one) / 1e3:.1f} ms, of which {under_us / 1e3:.1f} ms under computing")
reveal("10.trace_next", sum(hidden_us), sum(map(length, exchanges)))

# %% [markdown]
# The program and the exchanges are the same in each step, but the shares differ much. **Why are the five exposed at
# all?**

# %%
### BEGIN SOLUTION
### STUB ask("10.trace_why")
ask("10.trace_why").commit("their stream is busy with other exchanges")
### END SOLUTION

# %% [markdown]
# There are three pieces of evidence for each step. First, when does the host ask for the second exchange, counted from
# the end of the first one (the counts)? Second, how much of the forward pass does the GPU still have to compute when
# the host has launched all of it? Third, how long does the exchange of rows in that forward pass take?

# %% tags=["computed-time"]
ROWS = "looked-up rows, forward"
asked_us, left_us, rows_us = [], [], [of_part(ROWS, step)[0].duration_us for step in steps]
for step, stood_us in zip(steps, rows_us, strict=True):
    first, second, *_ = (number for number, row in enumerate(sent) if row in of_part(NEXT, step))
    asked_us.append(calls[second].start_us - sent[first].end_us)
    forward, backward = (note_of(name, step) for name in ("## forward ##", "## backward ##"))
    last_us = max(row.end_us for row in kernels if row.start_us < backward.start_us and row.lane == "7")
    left_us.append(max(0.0, last_us - forward.end_us))
    print(f"{step.name[8:]}: second asked for {asked_us[-1] / 1e3:.1f} ms after the first; ", end="")
    print(f"{left_us[-1] / 1e3:.1f} ms of forward left; rows took {stood_us / 1e3:.1f} ms")
reveal("10.trace_why", asked_us, left_us, hidden_us, rows_us)

# %% [markdown]
# You met this cause in [part 3](10c_experts.ipynb): a host that has to know sizes waits for the counts.
#
# ### How much another order would save
#
# Suppose that another thread of the program asked for these exchanges while the backward pass is launched. The backward
# pass computes for a while before its own first exchange, and its own exchanges should not have to wait. So the five
# have room until that first exchange. This is a *model*: exchanges and computing take as long as in the trace, and
# nothing else changes. **By how many per cent does a step become shorter, by this model?** (The numbers of the first
# cell give the exposed communication of all exchanges.)

# %%
### BEGIN SOLUTION
### STUB ask("10.trace_most")
ask("10.trace_most").commit(19)  # "all that is exposed: 87 of 465"
### END SOLUTION


# %% tags=["computed-time"]
def gained_by_model_us(exposed_us, room_us):
    """What is exposed goes under computing that does not wait for it, as far as there is room."""
    return min(exposed_us, room_us)


gained_us = []
for step, one, under_us in zip(steps, exchanges, hidden_us, strict=True):
    backward = note_of("## backward ##", step)
    first = of_part("gradients of rows, backward", step)[0]
    alone = minus(common(computing, union([(backward.start_us, first.start_us)])), spans(sent))
    gained_us.append(gained_by_model_us(length(one) - under_us, length(alone)))
    print(f"{step.name[8:]}: {(length(one) - under_us) / 1e3:4.1f} ms exposed, ", end="")
    print(f"room for {length(alone) / 1e3:.1f} ms, gained {gained_us[-1] / 1e3:.1f} ms by the model")
exposed_us = length(minus(spans(sent), computing))
reveal("10.trace_most", gained_us, exposed_us, sum(step.duration_us for step in steps))

# %% [markdown]
# The estimate comes from a model. It is not a bound, and nobody has measured it. It has two weak points, and the trace
# shows both.
#
# - A GPU that is early waits *inside* its exchange for the other ranks, and the table counts that as communication. One
#   rank's trace cannot separate this wait from sending. You saw it above in the exchange of rows, whose time differs
#   much from step to step. A wait that is hidden in one exchange may appear again in the next.
# - While the host waits, it launches nothing. Without that wait some idle time might be saved, too. The model leaves
#   that out. The next cell counts the idle time between the first of the five and the backward pass:

# %% tags=["computed-time"]
between = spans([])
for step in steps:
    begins, backward = of_part(NEXT, step)[0].start_us, note_of("## backward ##", step)
    between = union([*between, (begins, backward.start_us)])
idle = minus(minus(between, computing), spans(sent))
print(f"the GPU neither computes nor sends there for {length(idle) / 1e3:.1f} ms, in six steps")
print(f"{'exchange':<28}{'ms':>7}{'hidden':>9}{'exposed':>9}")
for part in dict.fromkeys(parts):
    one = spans(row for row, what in zip(sent, parts, strict=True) if what == part)
    under = length(common(one, computing))
    print(f"{part:<28}{length(one) / 1e3:>7.1f}{under / 1e3:>9.1f}{(length(one) - under) / 1e3:>9.1f}")

# %% [markdown]
# So rows and their gradients are most of the exposed time. While the rows travel, the program already computes those
# dense layers that need no rows. The next layers need all rows, and the GPU waits. As long as a batch stays in one
# piece, no other order helps.
#
# (TorchRec is PyTorch's library for such models. The annotations, and their order, are those of its
# `TrainPipelineSparseDist` in an older version, which asked for all five in one place. Later versions ask in two
# halves: they start the exchange of counts early, and read the counts later. The trace does not name its program.)
#
# ## Your own ranks
#
# Experts have the same problem. Dispatch waits for the router, the experts wait for dispatch, combine waits for the
# experts, and the next layer waits for combine.
#
# Below, a layer comes in four steps, so that you can choose their order. `dense` is the part before the experts, such
# as attention. `dispatch` and `combine` *start* an exchange and return at once; `wait()` returns what has arrived.
# (`dispatch` also sends the other ranks the numbers of rows that will come. It waits for these few counts.)
#
# Ranks, messages and numbers are real. Links are emulated, and the two computing steps are *paced*, so that the number
# of your cores does not matter. Each takes 60 ms of timed waiting forward and 120 ms backward.

# %%
WIDTH, TOKENS = 64, 256


def layers_of(me, count, step_s=0.06, timeline=None, dtype=torch.float32):
    timeline, made = timeline or Timeline(rank=me.rank), nn.ModuleList()
    for number in range(count):
        torch.manual_seed(number)
        dense = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), PacedStep(me, step_s, timeline))
        moe = MixtureOfExperts(WIDTH, hidden=2 * WIDTH, num_experts=8).to(dtype)
        pause = PacedStep(me, step_s, timeline)
        made.append(SteppedLayer(me, dense.to(dtype), moe, pause=pause, timeline=timeline))
    return made


def micro_batches(me, dtype=torch.float32):
    generator = torch.Generator().manual_seed(me.rank)
    a, b = torch.randn(2, TOKENS, WIDTH, generator=generator).to(me.device, dtype)
    return a, b


# %%
def one_then_the_other(layers, a, b):
    """Two micro-batches, one after the other: (N, D) twice -> (N, D) twice."""
    outputs = []
    for x in (a, b):
        for layer in layers:
            arrived = layer.dispatch(layer.dense(x)).wait()
            x = layer.combine(layer.experts(arrived)).wait()
        outputs.append(x)
    return outputs[0], outputs[1]


# %%
def recorded(me, order, count):
    """Spans of forward and of backward, of the shortest of three runs."""
    runs = []
    for _ in range(3):
        timeline = Timeline(rank=me.rank)
        layers = layers_of(me, count, timeline=timeline)
        dist.barrier()
        outputs = order(layers, *micro_batches(me))
        forward = timeline.spans
        sum(one.square().mean() for one in outputs).backward()
        runs.append((forward, timeline.spans[len(forward) :]))
    return min(runs, key=lambda run: took_ms(run[0]) + took_ms(run[1]))


def took_ms(spans):
    return 1e3 * (max(span.end_s for span in spans) - spans[0].start_s)


def waited_ms(spans):
    return sum(1e3 * (span.end_s - span.start_s) for span in spans if span.kind == "wait")


# %% [markdown]
# Each token has two experts, and three quarters of all choices are on another rank. So in an exchange a rank sends
# about 98 KB, which takes about 26 ms on the link below.

# %% tags=["nbval-ignore-output"]
link = Link(latency_s=1e-3, bandwidth_bytes_per_s=4e6)
with four.shaped(links=Links(link)):
    apart, apart_back = four.run(recorded, one_then_the_other, 1)[0]
print(f"{took_ms(apart):.0f} ms, of which rank 0 waits {waited_ms(apart):.0f} ms")
gantt(apart, names={0: "rank 0"}, title="Forward, one micro-batch after the other")

# %% [markdown]
# There are four exchanges: dispatch and combine, for each of two micro-batches. The next cell counts those with a step
# of computing between their start and their `wait()`. It counts by the order of calls, and not by a clock.

# %%
print("behind computing:", num_behind_computing(apart), "of 4")

# %% [markdown]
# Now the two micro-batches may take turns. The link carries one exchange at a time, and a rank computes one step at a
# time. **Take one layer, two micro-batches and the best order. How many of the four exchanges are behind computing?**

# %%
### BEGIN SOLUTION
### STUB ask("10.two_hidden")
ask("10.two_hidden").commit(2)  # "those of one behind the other"
### END SOLUTION

# %% [markdown]
# ### Build: take turns
#
# Write the order, for any number of layers. Count each step as 1 and each exchange as 1, on a link that carries one at
# a time. With the best order the rank then waits for a time of 1 in all, however many layers there are. The layers are
# those from above. At the end no exchange is in flight.


# %%
def interleaved(layers, a, b):
    """Two micro-batches through all layers, by turns: (N, D) twice -> (N, D) twice, in the order a, b.

    layers: one or more; each has dense(x) -> x, dispatch(x) -> in flight, experts(arrived) -> made and
    combine(made) -> in flight. wait() of an exchange in flight gives what has come: after dispatch the
    input of experts, after combine the layer's output, (N, D). N may differ, and be 0; a rank without
    tokens takes part, too.
    """
    ### BEGIN SOLUTION
    back_a = back_b = None
    for layer in layers:
        if back_a is not None:
            a = back_a.wait()
        to_a = layer.dispatch(layer.dense(a))
        if back_b is not None:
            b = back_b.wait()
        to_b = layer.dispatch(layer.dense(b))
        back_a = layer.combine(layer.experts(to_a.wait()))
        back_b = layer.combine(layer.experts(to_b.wait()))
    return back_a.wait(), back_b.wait()
    ### END SOLUTION


# %%
order_verdict = check("10.interleave", interleaved)

# %%
# hint("10.interleave")

# %% [markdown]
# The next cell runs your order on the four ranks. (Until it has passed, the course's order is used.)

# %% tags=["nbval-ignore-output"]
by_turns = interleaved if order_verdict.passed else the_courses
with four.shaped(links=Links(link)):
    turns, turns_back = four.run(recorded, by_turns, 1)[0]
for name, one in (("one after the other", apart), ("by turns", turns)):
    print(f"{name:<20}{took_ms(one):4.0f} ms, of which rank 0 waits {waited_ms(one):4.0f} ms")
gantt(turns, names={0: "rank 0"}, title="Forward, two micro-batches by turns")

# %%
reveal("10.two_hidden", num_behind_computing(turns), 4)

# %% [markdown]
# In your picture the four steps are dense of A, dense of B, experts of A and experts of B (or B first). The thin bars
# are exchanges. In the small gaps between steps the ranks exchange their counts. With more layers the turns continue
# from layer to layer, and only one exchange of all is exposed. You have written no line for backward. Autograd goes
# through your order from its end to its beginning. Where forward waited for rows, backward starts the exchange of their
# gradients. Where forward started an exchange, backward waits. So the steps that you put between the two are between
# them again.

# %% tags=["nbval-ignore-output"]
with four.shaped(links=Links(link)):
    apart, apart_back = four.run(recorded, one_then_the_other, 2)[0]
    turns, turns_back = four.run(recorded, by_turns, 2)[0]
for name, one, two in (("forward", apart, turns), ("backward", apart_back, turns_back)):
    print(f"{name:<9} one after the other {took_ms(one):4.0f} ms, by turns {took_ms(two):4.0f} ms")

# %%
for name, one, two in (("forward", apart, turns), ("backward", apart_back, turns_back)):
    counts = num_behind_computing(one), num_behind_computing(two)
    print(f"{name:<9} behind computing: {counts[0]} of 8 one after the other, {counts[1]} of 8 by turns")

# %% [markdown]
# (On a busy machine ranks also wait for a core, and for each other. The counts stay the same.) The next cell compares
# numbers in float64: the outputs, and rank 0's gradients of all parameters.


# %%
def numbers(me, order):
    layers = layers_of(me, 2, step_s=0.0, dtype=torch.float64)
    outputs = order(layers, *micro_batches(me, torch.float64))
    sum(one.square().mean() for one in outputs).backward()
    flat = [one.detach().flatten() for one in (*outputs, *(p.grad for p in layers.parameters()))]
    return torch.cat(flat).cpu()


same = agree(four.run(numbers, by_turns)[0], four.run(numbers, one_then_the_other)[0], within=1e-12)
print("the same outputs and gradients:", same)

# %% [markdown]
# ## What it costs
#
# Taking turns sends no more bytes and computes no more steps. A job with gradient accumulation runs forward and
# backward of A, and then of B. **By turns, how many times as many bytes of activations does a rank hold at most?**

# %%
### BEGIN SOLUTION
### STUB ask("10.two_memory")
ask("10.two_memory").commit(1)  # "the same tokens, the same layers"
### END SOLUTION


# %%
def most_activations(me, by_turns):
    """Bytes that are kept for backward, when forward is over."""
    layers, kept = layers_of(me, 2, step_s=0.0), []
    a, b = micro_batches(me)
    with MemoryLedger(layers, inputs=(a, b)) as ledger:
        for pair in [(a, b)] if by_turns else [(a,), (b,)]:
            outputs = by_turns(layers, *pair) if by_turns else [through(layers, *pair)]
            kept.append(ledger.now()["activation"])
            sum(one.square().mean() for one in outputs).backward()
            del outputs
    return max(kept)


def through(layers, x):
    for layer in layers:
        x = layer(x)
    return x


turns_bytes, apart_bytes = (four.run(most_activations, order)[0] for order in (by_turns, None))
reveal("10.two_memory", turns_bytes, apart_bytes)

# %% [markdown]
# ## In production
#
# | here | elsewhere |
# |---|---|
# | both forward, then both backward | forward of one during backward of another: see below |
# | `dispatch(x)`, compute, `wait()` | a stream for the exchange, and events in the place of `wait()` |
# | (not here) | an expert that all tokens use computes meanwhile: `--moe-shared-expert-overlap` |
#
# DeepSeek-V3's DualPipe and Megatron-Core's `--overlap-moe-expert-parallel-comm` pair the forward of one micro-batch
# with the backward of another. A pipeline has several micro-batches in flight anyway (lesson 07), so a second one costs
# it less. The course has not run that. (Megatron-Core takes either this flag or the one for shared experts.)
#
# On a GPU, exchange and computing share the GPU's own units as well. An exchange by kernels uses some of its streaming
# multiprocessors, and the computing meanwhile gets fewer. DeepSeek-V3's training reserves 20 of a GPU's 132 for
# exchanges. A paced step does not become slower by that, and gloo's threads use the host's cores.
#
# ## Two questions

# %% tags=["computed-time"]
quiz("10e")

# %% [markdown]
# ## What you can do now
#
# You can say why an exchange is exposed: because of the order of the program, because of the host, or because of the
# model itself. You have hidden your own exchanges, forward and backward, and you know how much memory that costs.
#
# **The limit.** A hidden exchange is not shorter. If it takes longer than the computing that hides it, the rest is
# exposed again. And all ranks wait for a busy expert as before. [Lesson 11](11b_how_long.ipynb) has a model for the
# time of a whole step.
#
# **Further reading.** DeepSeek-AI, [DeepSeek-V3 Technical Report](https://arxiv.org/abs/2412.19437) (2024), sections
# 3.2.1 and 3.2.2: DualPipe, and which part of a GPU the exchange uses. Naumov et al., [Deep Learning Recommendation
# Model](https://arxiv.org/abs/1906.00091) (2019), section 3: tables shared out, the dense part copied.
# [TorchRec](https://docs.pytorch.org/torchrec/) has such jobs, and their pipelines.
