# %% [markdown]
# # 11a · Choosing: does it fit?
#
# You know many ways to cut a model. Which of them does a job need? Memory decides first. You size a job by hand, and
# write down how much smaller each cut makes each part. You compare the result with runs of your own and of others, and
# find the fewest GPUs that are enough.
#
# **2 × 50 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 1 of 5 · [2: how long does it take?](11b_how_long.ipynb) · [3: six sick runs](11c_sick_runs.ipynb) · [4: runs of
# others, and when not to](11d_runs_of_others.ipynb) · [5: build a planner](11e_build_planner.ipynb)
#
# This part builds on [05a: states, shared out](05a_sharded_data_parallel.ipynb), [07a: micro-batches, GPipe and
# 1F1B](07a_pipeline_parallel.ipynb), [08c: positions, shared out](08c_sequence_parallel.ipynb) and [09a: places and
# links](09a_meshes.ipynb). Have you done them? `from course_lib import start; start("11a")` says whether you have.
#
# At the end you can
#
# - size a job by three numbers, and say on how many GPUs it cannot run;
# - say which numbers each cut makes smaller, and which it leaves as they are;
# - write down the bytes of any rank of a layout, and find the fewest GPUs that hold it;
# - find out why a device that seemed large enough is full.
#
# You need what earlier lessons have measured: states ([05](05a_sharded_data_parallel.ipynb)), micro-batches in flight
# ([07](07a_pipeline_parallel.ipynb)), the activations of a block ([08](08c_sequence_parallel.ipynb)), and axes
# ([09](09a_meshes.ipynb)).

# %%
from course_lib import ask, check, hint, reveal, schedules, shared_cluster
from course_lib.base import project_root
from course_lib.meter import LABELS, MemoryLedger, bytes_text
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel import pipeline
from course_lib.parallel.model import cut
from course_lib.parallel.sharded import FullySharded
from course_lib.plan import (
    BytesEach,
    Constants,
    Job,
    Layout,
    Software,
    cluster_of,
    decoder,
    decoder_of_sizes,
    error_bands,
    list_layouts,
    load_profiles,
    read_runs,
    step_band,
    typical_constants,
)
from course_lib.plot import stacked_bars
from course_lib.rounding import agree

import statistics

import torch
from torch.utils.checkpoint import checkpoint

# %% tags=["nbval-ignore-output"]
one, four = (shared_cluster(number) for number in (1, 4))

# %% [markdown]
# ## A job, and a device
#
# The job is to train a model of the sizes of Llama 3 8B, on sequences of 8,192 tokens, 64 of them in a step. The
# devices are H100 GPUs, which are sold with 80 GB. (In this part a GB is 10⁹ bytes.)

# %%
model = decoder("llama-3-8b")
job = Job(model, seq=8192, batch=64)
machine = cluster_of("8xh100")
print(f"{model.parameters:,} parameters in {model.layers} layers of width {model.hidden}")
print(f"{model.heads} heads of queries, {model.kv_heads} of keys and values")
print(f"gated MLPs, {model.ffn} wide inside; {model.vocab:,} tokens in the vocabulary")

# %% [markdown]
# <!-- word: gated MLP | also: SwiGLU, gated linear unit | sentences: 2 -->
# The model has two parts that you have not built here. A **gated MLP** has two matrices to its inner width and a third
# one back. It multiplies the results of the two, one of them after an activation function. And positions are *rotary*.
# No vector is added to the tokens; each layer rotates queries and keys by their position.
#
# The next cell prints how much memory the driver reports, in three units. *Holes* are free pieces of memory that are
# too small for the next tensor.

# %%
reserve_bytes = Constants().reserve_bytes
print(
    f"the driver: {machine.memory_bytes / 2**20:,.0f} MiB = {machine.memory_bytes / 2**30:.1f} GiB", end=" "
)
print(
    f"= {machine.memory_bytes / 1e9:.1f} GB; {reserve_bytes / 1e9:.0f} GB of them for CUDA, NCCL, and holes"
)

# %% [markdown]
# Shops mean GiB and write GB; PyTorch reports GiB. A job cannot use all of the memory. This part subtracts the last
# number from the driver's.
#
# ## Three numbers
#
# ![A device as a tall frame; beside it three boxes, states, activations and logits, whose heights are question
# marks](../assets/11_three.png)
#
# ### The first: states
#
# Count in mixed precision as in lesson 05. A weight and a gradient take 2 bytes each, and AdamW takes 12, for a float32
# copy of the weight and two moments. Work out the bytes of all states before you run the cell.

# %%
states_bytes = (2 + 2 + 12) * model.parameters
room_bytes = machine.memory_bytes - reserve_bytes
print(f"states {states_bytes / 1e9:.1f} GB; a device has room for {room_bytes / 1e9:.1f} GB")

# %% [markdown]
# So one device is too small, and by this number alone two would be enough.
#
# ### The second: activations
#
# **How many GB does this model keep of one sequence, in all its layers?** (With 16-bit numbers and fused attention, and
# nothing computed again.) Lesson 08 has a formula for a layer, $34\,sbh$: sequence length, sequences and width. Does it
# hold here? It is for a model with dropout, with plain MLPs of width 4h, and with as many heads of keys as of queries.

# %%
### BEGIN SOLUTION
### STUB ask("11.kept")
ask("11.kept").commit(36.5)  # 34 x 8192 x 4096 x 32: "a layer is a layer"
### END SOLUTION


# %%
def kept_of_a_token(model):
    """Bytes that a layer keeps of one token for its backward pass, by what they are."""
    h, q, kv, f = model.hidden, model.q_width, model.kv_width, model.ffn
    return {
        "what two norms read, and what they make": 4 * 2 * h,
        "queries, keys, values, attention's output": 2 * (2 * q + 2 * kv),
        "queries and keys before rotation, and in float32": (2 + 4) * (q + kv),
        "in the MLP: both halves, the gate, their product": 4 * 2 * f,
    }


for name, size_bytes in kept_of_a_token(model).items():
    print(f"{name:<50}{size_bytes:>8,} bytes")
layer_bytes = sum(kept_of_a_token(model).values())
kept_bytes = job.seq * model.layers * layer_bytes
reveal("11.kept", kept_bytes, job.seq, model)

# %% [markdown]
# ### The third: logits
#
# At the end of the model every token gets a score for each of the 128,256 tokens that might follow. These scores are
# the logits. **How many GB do the logits of this one sequence take, with the tensors that the loss makes from them?**

# %%
### BEGIN SOLUTION
### STUB ask("11.logits")
ask("11.logits").commit(2.1)  # "8192 x 128256 numbers of 2 bytes"
### END SOLUTION

# %%
logits_bytes = (2 + 4 + 4) * job.seq * model.vocab
reveal("11.logits", logits_bytes, job.seq, model)

# %%
total_bytes = states_bytes + kept_bytes + logits_bytes
print(f"{total_bytes / 1e9:.0f} GB: {total_bytes / room_bytes:.1f} devices, if all of it could be cut evenly")

# %%
heights = {"states": states_bytes / 1e9, "activations": kept_bytes / 1e9, "logits": logits_bytes / 1e9}
room = ("room", room_bytes / 1e9)
stacked_bars(
    {"the three": heights}, unit="GB", what="memory", limit=room, title="Three numbers, and a device"
)

# %% [markdown]
# ## What each cut makes smaller
#
# ![A table: rows are states, activations and logits; columns are the cuts; every cell is a question
# mark](../assets/11_cuts.png)
#
# No cut divides all three evenly: each makes some of them smaller, and leaves the rest. Guess first, on paper: in which
# cells of the table is a rank's number smaller than that of one device alone? A table further down has the answers. You
# try two of the columns on real ranks, with a small model in float32.


# %%
small = TransformerConfig(vocab_size=64, context_length=128, num_layers=8, width=64, num_heads=4)


def held(me, wrap):
    """Bytes of states after a step, and of activations after a forward of one sequence."""
    torch.manual_seed(0)
    model = wrap(me, Transformer(small).to(me.device))
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.zeros(1, 128, dtype=torch.int64, device=me.device)
    for _ in range(2):  # the first step makes AdamW's states
        with MemoryLedger(model, optimizer, inputs=tokens) as ledger:
            loss = next_token_loss(model(tokens), tokens)
            kept = ledger.mark("after forward")["activation"]
            loss.backward()
            optimizer.step()
            after = ledger.mark("after the step")
        optimizer.zero_grad()
    return sum(after[kind] for kind in ("parameter", "gradient", "optimizer state")), kept


# %% [markdown]
# The next cell runs sharding 3, or ZeRO-3, on four ranks. Each rank has one sequence of its own; the line *of four* is
# for one of these ranks. For comparison, one device trains alone, on one sequence:


# %% tags=["nbval-ignore-output"]
def whole(me, model):
    return model


alone = one.run(held, whole)[0]
shared = four.run(held, FullySharded)[0]
for name, (states, kept) in {"alone": alone, "of four": shared}.items():
    print(f"{name:<8} states {bytes_text(states):>9}   activations {bytes_text(kept):>9}")

# %% [markdown]
# States belong to the model, and sharding makes them smaller. Activations belong to the batch, and sharding leaves
# them: each rank keeps those of its own sequence.
#
# Now take a pipeline of four stages, with two of the eight layers each. Its schedule is 1F1B, with 16 micro-batches of
# one sequence. **How many bytes of activations does the first stage keep at most? A device with all eight layers keeps
# 100 % for one sequence.**

# %%
### BEGIN SOLUTION
### STUB ask("11.stages")
ask("11.stages").commit(25)  # "a quarter of the layers"
### END SOLUTION


# %%
# ten pieces: embedding, eight layers, output
STAGES = (range(0, 3), range(3, 5), range(5, 7), range(7, 10))


def fullest(me, ranges, schedule):
    """Bytes of this stage's states after a step, and of its activations at their most."""
    torch.manual_seed(0)
    model = pipeline.Pipeline(me, cut(Transformer(small), ranges), schedule, next_token_loss)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.zeros(schedule.num_micro_batches, 128, dtype=torch.int64, device=me.device)
    for _ in range(2):  # the first step makes AdamW's states, and finds out shapes
        optimizer.zero_grad()
        with MemoryLedger(model.stages, optimizer, inputs=tokens, rank=me.rank) as ledger:
            model.step(tokens, tokens)
            optimizer.step()
    found = ledger.now()
    states = sum(found[kind] for kind in ("parameter", "gradient", "optimizer state"))
    return states, max(point[LABELS.index("activation")] for point in ledger.history().points)


# %% tags=["nbval-ignore-output"]
undivided = one.run(fullest, [range(10)], schedules.one_f_one_b(1, 1))[0]
of_stages = four.run(fullest, STAGES, schedules.one_f_one_b(4, 16))
for stage, (states, kept) in enumerate(of_stages):
    print(f"stage {stage}: states {bytes_text(states):>9}   activations {bytes_text(kept):>9}")
print(f"undivided: states {bytes_text(undivided[0]):>7}   activations {bytes_text(undivided[1]):>9}")
reveal("11.stages", undivided[1], [kept for _, kept in of_stages])

# %% [markdown]
# You know the other cells from earlier lessons. A **data axis** alone cuts nothing. A **tensor axis** cuts every
# matrix. With sequence parallelism it cuts all that a layer keeps. With vocabulary parallelism it cuts the logits, too.
# But a tensor axis stays within a machine. **Recomputation** of all layers keeps only their inputs, and all activations
# of one layer at a time.
#
# ### Build: the bytes of a rank
#
# Write all this as one function that is right for any layout. `each` holds numbers of bytes. `each.weight`,
# `each.gradient` and `each.optimizer` are bytes for one parameter. `each.layer` is what one layer keeps of a token, and
# `each.input` is the layer's input alone. `each.logit` is for one logit. The layers divide evenly among stages. Leave
# out small parts: the last norm, a layer that sharding 3 gathers for a moment, and messages between stages.


# %%
def rank_bytes(job, layout, stage, each):
    """Bytes that a rank of pipeline stage ``stage`` needs: a dictionary of five parts.

    weights, gradients, optimizer: of the stage's layers, each ``job.model.layer_parameters``. The
        first stage has a table that looks tokens up, the last one a table that scores them, each
        ``job.model.embedding_parameters``. ``layout.tp`` ranks cut all of it. ``layout.dp`` ranks
        cut what ``layout.sharding`` says: 0 nothing, 1 the optimizer, 2 gradients as well,
        3 weights as well.
    activations: of the stage's layers, of all micro-batches that 1F1B has in flight there, each of
        ``layout.micro_batch`` sequences of ``job.seq`` tokens, cut by ``layout.tp``. A step has
        ``layout.num_micro_batches(job.batch)`` of them. ``layout.recompute`` is "none" or "full".
        With "full" a rank keeps the layers' inputs of all of these micro-batches, and the inside
        of one layer for one micro-batch.
    logits: of one micro-batch, ``job.model.vocab`` for each token, cut by ``layout.tp``, on the
        last stage; else 0.
    """
    ### BEGIN SOLUTION
    model, layers = job.model, job.model.layers / layout.pp
    is_first, is_last = stage == 0, stage == layout.pp - 1
    numbers = layers * model.layer_parameters + (is_first + is_last) * model.embedding_parameters
    numbers /= layout.tp
    share = {part: numbers / (layout.dp if layout.sharding >= part else 1) for part in (1, 2, 3)}
    tokens = layout.micro_batch * job.seq / layout.tp
    in_flight = min(layout.pp - stage, layout.num_micro_batches(job.batch))
    kept = in_flight * layers * each.layer
    if layout.recompute == "full":
        kept = in_flight * layers * each.input + each.layer
    return {
        "weights": each.weight * share[3],
        "gradients": each.gradient * share[2],
        "optimizer": each.optimizer * share[1],
        "activations": tokens * kept,
        "logits": is_last * each.logit * tokens * model.vocab,
    }
    ### END SOLUTION


# %%
fits_verdict = check("11.fits", rank_bytes)

# %%
# hint("11.fits")

# %% [markdown]
# The next cell compares your function with the four stages that have run above. In float32 a parameter takes 4 bytes as
# a weight, 4 as a gradient and 8 in the optimizer. What a layer keeps of a token was measured on one device. (Until
# your function has passed, the course's own stands in for it.)

# %% tags=["nbval-ignore-output"]
from course_lib.plan import stage_bytes as the_courses

bytes_of = rank_bytes if fits_verdict.passed else the_courses
per_token = undivided[1] / (128 * small.num_layers)
in_float32 = BytesEach(weight=4, gradient=4, optimizer=8, layer=per_token, input=4 * small.width, logit=0)
small_job = Job(decoder_of_sizes(small), seq=128, batch=16)
print(f"{'KiB':<10}{'states':>8}{'measured':>10}{'activations':>14}{'measured':>10}")
for stage, measured in enumerate(of_stages):
    parts = bytes_of(small_job, Layout(pp=4), stage, in_float32)
    states = sum(parts[name] for name in ("weights", "gradients", "optimizer"))
    row = [size_bytes / 1024 for size_bytes in (states, measured[0], parts["activations"], measured[1])]
    print(f"stage {stage:<4}{row[0]:>8.0f}{row[1]:>10.0f}{row[2]:>14.0f}{row[3]:>10.0f}")

# %% [markdown]
# (Stage 0 also has a table of positions. The last stage makes logits, which are small here and count as 0.)
#
# The next table shows all cuts, in GB, for the job from the beginning. Compare it with your guesses.

# %%
each = BytesEach(weight=2, gradient=2, optimizer=12, layer=layer_bytes, input=2 * model.hidden, logit=10)


def in_gb(layout, stage=0):
    """States, activations, logits, and all of it."""
    parts = bytes_of(job, layout, stage, each)
    states = parts["weights"] + parts["gradients"] + parts["optimizer"]
    return [size / 1e9 for size in (states, parts["activations"], parts["logits"], sum(parts.values()))]


print(f"{'GB':<26}{'states':>8}{'activations':>13}{'logits':>8}{'all':>8}")
eight = {f"data 8, sharding {s}": (Layout(dp=8, sharding=s), 0) for s in (0, 1, 2, 3)}
eight |= {"tensor 8": (Layout(tp=8), 0)}
eight |= {f"pipeline 8, stage {stage}": (Layout(pp=8), stage) for stage in (0, 4, 7)}
for name, where in {"one": (Layout(), 0), **eight, "one, recomputed": (Layout(recompute="full"), 0)}.items():
    print("{:<26}{:>8.1f}{:>13.1f}{:>8.1f}{:>8.1f}".format(name, *in_gb(*where)))

# %%
cuts = {"one": (Layout(), 0), **eight, "one, recomputed": (Layout(recompute="full"), 0)}
parts = {name: dict(zip(heights, in_gb(*where)[:3], strict=True)) for name, where in cuts.items()}
stacked_bars(
    parts, unit="GB", what="memory of a rank", limit=room, title="What is left on a rank by each cut"
)

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you look for the fewest devices on which a job fits.

# %% [markdown]
# ## The fewest devices
#
# A layout fits when its fullest stage fits. Take 1, 2, 4, 8 ... devices, one sequence in a micro-batch, and try every
# layout of tensor, pipeline and data axis, with any sharding. **What is the smallest number of devices on which the job
# fits, if no layer is computed again? And if all layers are?**

# %%
### BEGIN SOLUTION
### STUB ask("11.fewest")
ask("11.fewest").commit("2, and 2")  # "128 GB of states"
### END SOLUTION


# %%
def layouts_on(gpus, recompute):
    powers = [2**i for i in range(7)]
    for tp in [size for size in powers[:4] if gpus % size == 0]:  # within a machine of 8
        for pp in [size for size in powers[:6] if gpus % (tp * size) == 0]:
            for sharding in range(4):
                dp = gpus // (tp * pp)
                yield Layout(tp=tp, pp=pp, dp=dp, sharding=sharding, recompute=recompute)


def peak_bytes(job, layout):
    return max(sum(bytes_of(job, layout, stage, each).values()) for stage in range(layout.pp))


def fewest(job, recompute):
    """The fewest devices, and the layout of them that needs least."""
    for gpus in (1, 2, 4, 8, 16, 32, 64):
        leanest = min(layouts_on(gpus, recompute), key=lambda layout: peak_bytes(job, layout))
        if peak_bytes(job, leanest) <= room_bytes:
            return leanest


# %%
found = {recompute: fewest(job, recompute) for recompute in ("none", "full")}
for recompute, layout in found.items():
    print(f"recompute {recompute}: {layout.gpus} devices, {layout}, {peak_bytes(job, layout) / 1e9:.1f} GB")
reveal("11.fewest", *(layout.gpus for layout in found.values()))

# %% [markdown]
# <!-- word: parallel layout | also: parallelism strategy, parallel configuration | sentences: 2 -->
# A **parallel layout** of a job says how many ranks lie along each axis, the size of a micro-batch, and what is sharded
# or recomputed. In code it is a `Layout`. Many layouts fit on the same number of devices. [Part 2](11b_how_long.ipynb)
# asks which of them is fast.
#
# ## Runs of others
#
# Your function uses some sizes of a model. It does not count CUDA, buffers, or what each program does differently. How
# good is it then? The runs behind Hugging Face's [Ultra-Scale
# Playbook](https://huggingface.co/spaces/nanotron/ultrascale-playbook) are published with the memory that they took.
# The next cell takes all 16 runs of one model (8.9 billion parameters, 4,096 tokens, 256 sequences a step). That
# program keeps a gradient in 2 bytes and the sum of gradients in 4 more, so a parameter takes 20 bytes. (In a layout's
# short name `mb` is the number of sequences in a micro-batch, `zero` the stage of sharding, and `sp` sequence
# parallelism.)


# %%
def bytes_each(model):
    layer = sum(kept_of_a_token(model).values())
    return BytesEach(weight=2, gradient=6, optimizer=12, layer=layer, input=2 * model.hidden, logit=10)


runs, _ = read_runs(project_root() / "assets" / "published" / "memory.csv")
apart = []
print(f"{'GPUs':>4}  {'layout':<28}{'by hand':>9}{'published':>11}{'GB apart':>10}")
for run in runs:
    stages = range(run.layout.pp)
    parts = [bytes_of(run.job, run.layout, stage, bytes_each(run.job.model)) for stage in stages]
    found_gb, published_gb = max(sum(part.values()) for part in parts) / 1e9, run.memory_bytes / 1e9
    apart.append((found_gb - published_gb, abs(found_gb / published_gb - 1)))
    print(
        f"{run.gpus:>4}  {run.layout!s:<28}{found_gb:>9.1f}{published_gb:>11.1f}{found_gb - published_gb:>+10.1f}"
    )
print(f"at the median {statistics.median(share for _, share in apart):.0%} apart", end="; ")
print(f"at most {-min(gigabytes for gigabytes, _ in apart):.1f} GB too few")

# %% [markdown]
# <!-- word: fragmentation | also: memory fragmentation -->
# Most predictions are too small. Your function leaves out small parts, buffers, and holes in memory. **Fragmentation**
# means that free memory lies in holes between tensors, each hole too small for the next tensor. Even a small job needs
# some of the memory that your function leaves out. Some predictions are too large, because programs differ in what they
# keep. So do not trust a plan that fits to the last gigabyte. Look at predictions for runs like yours: by how many GB
# were they too small? Leave free at least the largest of these numbers.
#
# ## Clinic: by the count it fits
#
# ![Left, a device with states and activations, half of it left over; right, the same device, too full, and a question
# mark](../assets/11_full.png)
#
# *Symptom.* A colleague has a small device. He counts the states, and what the layers keep of a sequence. By his count
# both fit, and half of the device is left. The job starts, and runs out of memory before any weight has its gradient.
# **What has filled the device?**

# %%
### BEGIN SOLUTION
### STUB ask("11.died")
ask("11.died").commit("gradients, while all activations are still there")  # "it was in the backward"
### END SOLUTION


# %%
def colleagues_config(num_layers=4):
    return TransformerConfig(
        vocab_size=16_384, context_length=256, num_layers=num_layers, width=32, num_heads=4
    )


def colleagues_loss(model, tokens):
    x = model.stem(tokens)
    for block in model.blocks:
        x = block(x)  # (B, T, D)
    return next_token_loss(model.head(x), tokens)  # his targets are his tokens: it is a test


# %% [markdown]
# *Evidence.* The ledger measures a first step on a device without a limit. It measures the step as it was, then with
# half the layers, and then with half the tokens.

# %%
ROOM = 48 * 2**20


def first_step(loss_of, config, num_tokens=256):
    """The loss, what was held before backward and at the fullest moment, in bytes."""
    torch.manual_seed(0)
    model, tokens = Transformer(config), torch.arange(num_tokens).unsqueeze(0)
    with MemoryLedger(model, inputs=tokens) as ledger:
        loss = loss_of(model, tokens)
        forward = ledger.mark("before backward")
        loss.backward()
    return loss.item(), forward.total_bytes, ledger.peak().total_bytes


steps = {"as it was": (colleagues_config(),), "half the layers": (colleagues_config(2),)}
steps |= {"half the tokens": (colleagues_config(), 128)}
numbers = sum(parameter.numel() for parameter in Transformer(colleagues_config()).parameters())
print(f"room {bytes_text(ROOM)}; states, with AdamW's, {bytes_text(16 * numbers)}")
for name, how in steps.items():
    _, forward_bytes, peak = first_step(colleagues_loss, *how)
    print(f"{name:<16} before backward {bytes_text(forward_bytes):>8}   at the fullest {bytes_text(peak):>8}")

# %%
reveal("11.died")

# %%
torch.manual_seed(0)
his_model, his_tokens = Transformer(colleagues_config()), torch.arange(256).unsqueeze(0)
with MemoryLedger(his_model, inputs=his_tokens) as ledger:
    x = his_model.stem(his_tokens)
    for block in his_model.blocks:
        x = block(x)
    layers_mib = ledger.mark("after the layers")["activation"] / 2**20
    next_token_loss(his_model.head(x), his_tokens).backward()
weights_mib = 4 * numbers / 2**20
counted = {"states": 4 * weights_mib, "kept by the layers": layers_mib}
found = {"states": weights_mib, "kept by the layers": layers_mib}
found["all that came after the layers"] = ledger.peak().total_bytes / 2**20 - sum(found.values())
his_bars = {"what he counted": counted, "a first step, at the fullest": found}
stacked_bars(his_bars, unit="MiB", what="memory", limit=("room", ROOM / 2**20), title="His device")

# %% [markdown]
# ### Mend it
#
# A token's loss needs only the logits of this token. So compute the logits of at most `length` positions at a time, and
# keep no logits for backward. `checkpoint(f, *inputs, use_reentrant=False)` keeps the inputs, and computes `f` again in
# the backward pass. (`split` cuts a tensor in pieces of a given length.)


# %%
def mended_loss(model, tokens, length=32):
    """The same loss, of shape (), computed for ``length`` positions at a time."""
    x = model.stem(tokens)
    for block in model.blocks:
        x = block(x)  # (B, T, D)

    def of_piece(x, targets):
        return next_token_loss(model.head(x), targets, reduction="sum")

    pieces = zip(x.split(length, dim=1), tokens.split(length, dim=1), strict=True)
    ### BEGIN SOLUTION
    losses = [checkpoint(of_piece, *piece, use_reentrant=False) for piece in pieces]
    return torch.stack(losses).sum() / tokens.numel()
    ### END SOLUTION


# %%
loss_verdict = check("11.loss", mended_loss)

# %%
# hint("11.loss")

# %%
if loss_verdict.passed:
    old_loss, _, _ = first_step(colleagues_loss, colleagues_config())
    new_loss, forward_bytes, peak = first_step(mended_loss, colleagues_config())
    same = agree(new_loss, old_loss, within=1e-5)
    print(f"the same loss, to within 1e-5: {same}; room {bytes_text(ROOM)}")
    print(f"before backward {bytes_text(forward_bytes)}, at the fullest {bytes_text(peak)}")

# %% [markdown]
# <!-- word: chunked cross-entropy | also: fused linear cross-entropy, chunked loss -->
# A **chunked cross-entropy** computes the loss of some positions at a time and frees their logits before it makes the
# next ones. It multiplies by the output matrix one more time. (Libraries also have it as one *fused* kernel. And where
# tensor ranks share out a vocabulary, as in lesson 08, each has a part of the logits.) The next cell compares that
# additional product with all others:

# %%
products = model.layers * model.layer_parameters + model.embedding_parameters
print(f"{model.embedding_parameters / products:.0%} of the products of a forward pass of Llama 3 8B")

# %% [markdown]
# ## What you can do now
#
# You size a job by three numbers, know which of them each cut makes smaller, and find the fewest devices. You do it by
# a function that you have compared with runs of your own and of others. And you count the logits, which belong to no
# layer.
#
# **The limit.** Some of the layouts that fit are many times faster than others, and memory does not show which. [Part
# 2](11b_how_long.ipynb) predicts seconds.
#
# **Further reading.** Korthikanti et al., [Reducing Activation Recomputation in Large Transformer
# Models](https://arxiv.org/abs/2205.05198) (2022), section 4: the formula, term by term, and the first stage of a
# pipeline. Rajbhandari et al., [ZeRO](https://arxiv.org/abs/1910.02054) (2020), section 3: where the 16 bytes come
# from. Ren et al., [ZeRO-Offload](https://arxiv.org/abs/2101.06840) (2021): states in the host's memory.
#
# ## Another day: when fewer GPUs are the better answer
#
# This section takes some ten minutes more, and nothing later needs it.
#
# By your function the job does not fit on one device. There is one more way, lesson 01's *offload*. AdamW's 12 bytes
# lie in the memory of the host, which also computes the update. In each step gradients go to the host and weights come
# back, over a link that is slow compared with the device's own memory. The course's planner predicts time as well as
# memory. In a terminal, this command prints its table:
#
# `./course plan --model llama-3-8b --machine 8xh100 --gpus 8 --batch 64 --seq 8192`
#
# The cell below looks for the fastest layout on 1 to 16 devices, for the job from the beginning. (In the terminal the
# planner counts 6 bytes for a gradient and its sum; here it counts 2, as you did. Its constants are fitted to published
# runs, and it fills a device to 93 %. `cp` is context parallelism. `full` computes whole layers again; `selective`
# computes attention and every second product again. The column *8 in 10* has a range. It holds 8 in 10 of such runs
# that the planner had not seen. Part 2 explains it.)
#
# **How many tokens in a second does one device with offloading process? The share of each device in the best layout of
# 8 is 100 %.**

# %%
### BEGIN SOLUTION
### STUB ask("11.alone")
ask("11.alone").commit(15)  # "the host's link is slow, and all is computed twice"
### END SOLUTION

# %% tags=["computed-time"]
alike = [one for one in load_profiles().values() if one.gpu.peak_flops_per_s == machine.peak_flops_per_s]
constants, software, best = typical_constants(alike), Software(gradient_bytes=2), {}
print(
    f"{'GPUs':>4}  {'first layout':<30}{'GB':>6}{'s a step':>10}{'8 in 10':>14}{'tokens/s':>9}{'of each':>9}"
)
for gpus in (1, 2, 4, 8, 16):
    devices = machine.with_gpus(gpus)
    ways = [list_layouts(job, devices, constants, software, offload=way) for way in (False, True)]
    best[gpus] = min((found.best for found in ways if found.best), key=lambda option: option.step_s)
    per_s = job.tokens / best[gpus].step_s
    needs_gb, step_s = best[gpus].memory.total_bytes / 1e9, best[gpus].step_s
    band = step_band(ways[0], best[gpus], error_bands("elsewhere"))
    row = f"{gpus:>4}  {best[gpus].layout!s:<30}{needs_gb:>6.1f}{step_s:>10.1f}{band:>14}"
    print(f"{row}{per_s:>9,.0f}{per_s / gpus:>9,.0f}")
reveal("11.alone", best[1].step, best[8].step_s, 8, job.batch)

# %% [markdown]
# (No published run behind these ranges used offloading. And some of these plans leave only a few gigabytes of a device
# free; above you learned not to trust such plans.)
