# %% [markdown]
# # 01 · One device
#
# You train two small models on one device and account for what the training takes: every byte to its owner, every
# millisecond to a part of the step, every multiplication to a layer. Then you use three ways to need less memory, and
# see what each of them costs.
#
# **75 minutes · difficulty 2 of 5 · needs: cpu**
#
# At the end you can
#
# - say what a model will take in memory before you start it, and check it with a ledger that balances to the byte;
# - count the arithmetic of a step, and say what share of your machine's speed it uses;
# - cut a batch into pieces, and say for which networks that leaves the result as it was;
# - say what mixed precision and recomputation save, and what they leave as it was.
#
# In [lesson 00](00_start_here.ipynb) ranks learned to talk. Before they share a model, you need to know what one of
# them carries alone: several GPUs are worth their trouble when one is too small or too slow, and this lesson measures
# *too small* and *too slow*.

# %%
from course_lib import ask, calibrate, check, cost, hint, machine, quiz, reveal, solution
from course_lib.data import digits, documentation_windows, loader
from course_lib.meter import MemoryLedger, Timeline, bytes_text, compare, measure
from course_lib.models import (
    SmallCNN,
    Transformer,
    TransformerConfig,
    accuracy,
    next_token_loss,
    parameter_count,
)
from course_lib.plot import gantt, memory_bars, memory_curve

from itertools import islice

import torch
import torch.nn.functional as F

device = machine().device_for(0)  # the first GPU where there is one, else the CPU

# %% [markdown]
# ## A training loop to build on
#
# Four lines, in this order: clear the gradients, go forward, go backward, change the weights. Every later lesson cuts,
# copies or spreads this loop, so read it slowly. `loss_of` compares what the model says with what is right.


# %%
def train_step(model, optimizer, loss_of, x, y):
    """One step on a batch; returns the loss before the step."""
    optimizer.zero_grad()
    loss = loss_of(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    return loss.item()


# %% [markdown]
# The first model is a small convolutional network (CNN) that reads handwritten digits of 8 by 8 pixels.

# %%
torch.manual_seed(0)
train, test = digits()
model = SmallCNN().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

for epoch in range(2):
    losses = [train_step(model, optimizer, F.cross_entropy, x, y) for x, y in loader(train, 64, seed=epoch)]
    print(f"epoch {epoch}: mean loss {sum(losses) / len(losses):.1f}")

model.eval()
images, labels = (tensor.to(device) for tensor in test.tensors)
with torch.no_grad():
    share = accuracy(model(images), labels)
model.train()
print(f"more than nine of ten unseen digits read right: {share > 0.9}")

# %% [markdown]
# The second is a small transformer that reads Python's own documentation, byte by byte, and guesses the next byte.
# Another model, another loss, the same loop.

# %% tags=["nbval-ignore-output"]
config = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
reader = Transformer(config).to(device)
reader_optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-3)
text, _ = documentation_windows(config.context_length)
batches = islice(loader(text, 8), 40)
losses = [train_step(reader, reader_optimizer, next_token_loss, x, y) for x, y in batches]
print(f"loss of the first step {losses[0]:.1f}, of the last {losses[-1]:.1f}")

# %% [markdown]
# Both learn. From here on we look at a single step, with the same batch each time: 64 digits, or 8 windows of text.

# %%
x, y = (tensor.to(device) for tensor in next(iter(loader(train, 64))))
tokens, targets = (tensor.to(device) for tensor in next(iter(loader(text, 8))))
num_parameters = parameter_count(model)
print(f"the CNN: {num_parameters:,} parameters of 4 bytes: {4 * num_parameters / 1024:.0f} KiB")

# %% [markdown]
# ## Where the memory goes
#
# ![A box named parameters, and beside it a longer dashed box that asks: and what else, how
# much?](../assets/01_memory_question.png)
#
# **The parameters take the kibibytes printed above. How much does a training step hold at its fullest moment?**
# Everything counts: whatever lies in memory because you train this model on this batch with AdamW.

# %%
### BEGIN SOLUTION
### STUB ask("01.peak")  # type your number and press the button, or add .commit(400) and run the cell
ask("01.peak").commit(368)  # "the parameters, and not much else"
### END SOLUTION

# %% [markdown]
# <!-- word: ledger | also: memory profiler -->
# Now the step keeps accounts. A **ledger** watches every storage (the block of memory behind a tensor), gives it one
# label, and notes when it is born and when it dies; elsewhere such a tool is called a memory profiler. `mark` gives a
# moment a name.

# %%
with MemoryLedger(model, optimizer, inputs=(x, y)) as ledger:
    optimizer.zero_grad()
    ledger.mark("start of the step")
    loss = F.cross_entropy(model(x), y)
    ledger.mark("after forward")
    loss.backward()
    ledger.mark("after backward")
    optimizer.step()

print(ledger.peak())

# %%
state = cost.model_state(num_parameters, optimizer="adamw", num_tensors=len(list(model.parameters())))
kept = cost.activation_bytes(cost.conv_activations(cost.cnn_layers(batch_size=64)))
print(f"by formula: state {bytes_text(state.total)}, activations {bytes_text(kept)}")

# %%
reveal("01.peak", ledger.peak(), state, kept)

# %% [markdown]
# The words of the table:
#
# <!-- word: parameter | also: weight -->
# <!-- word: gradient -->
# - A **parameter** is a number that the model learns. A **gradient** is one number for each parameter, from
#   `backward()`: how the loss changes with it.
# <!-- word: optimizer state -->
# - The **optimizer state** is what the optimizer remembers from step to step: AdamW a running mean of each gradient,
#   and one of its square. *Twice the model*, and for each tensor that learns a count of the steps, 4 bytes.
# <!-- word: activation -->
# - An **activation** is a tensor that the forward pass computed and keeps, because the backward pass will need it.
# <!-- word: buffer -->
# - A **buffer** holds numbers of the model that are not learned, such as BatchNorm's running means.
# - **other**: everything else that was alive, mostly gradients on their way from layer to layer.

# %%
memory_curve(ledger.history(), title="Live bytes during one step")

# %% [markdown]
# A hill. The forward pass climbs it, layer by layer; the backward pass comes down, and frees what it has used. The
# three named moments, from the formulas alone:
#
# ![Three bars, one each for the start of a step, the end of the forward pass and the end of the backward pass. The
# parameters and the optimizer state are in all three; activations are in the middle bar alone, gradients in the last
# alone.](../assets/01_memory_kinds.png)
#
# ### Does it balance?
#
# The cost model is a formula that never saw the model: it knows its sizes. It should agree with the ledger at every
# named moment on a CPU, to the byte; the last column says whether it does. On a GPU the kernels keep slightly other
# things, and a difference may show.

# %%
moments = ledger.marks
rows = [
    ("parameters", state.parameters, moments["start of the step"]["parameter"]),
    ("optimizer state", state.optimizer, moments["start of the step"]["optimizer state"]),
    ("activations", kept, moments["after forward"]["activation"]),
    ("gradients", state.gradients, moments["after backward"]["gradient"]),
]
for name, formula, found in rows:
    print(f"{name:<16} formula {formula:>9,}   ledger {found:>9,}   difference {found - formula}")

# %% [markdown]
# Which of these depend on the batch? Ask the formula, and check one line of it against the figure above.

# %%
bars = {}
for batch_size in (1, 16, 64, 256):
    kept_now = cost.activation_bytes(cost.conv_activations(cost.cnn_layers(batch_size=batch_size)))
    bars[f"batch of {batch_size}"] = {**state.as_dict(), "activation": kept_now}

memory_bars(bars, title="Only the activations grow with the batch")

# %% [markdown]
# ### Build: count the state of a model
#
# <!-- word: frozen parameter -->
# <!-- word: tied parameter | also: shared parameter, weight tying -->
# You are given a list of parameters. Count what their training with AdamW holds, to the byte (in whole numbers), before
# any of it exists.
# A **frozen parameter** (`requires_grad` is False) does not learn. A **tied parameter** is used in two places of a
# model; here it stands in the list twice.


# %%
def state_bytes(parameters):
    """Bytes under AdamW, as ``{"parameter": ..., "gradient": ..., "optimizer state": ...}``."""
    # 1. Which of them are different tensors?
    # 2. For which of those is there a gradient, and how large is it?
    # 3. What does AdamW remember of each gradient?
    ### BEGIN SOLUTION: count the bytes of each label
    different = {id(parameter): parameter for parameter in parameters}.values()
    learning = [parameter for parameter in different if parameter.requires_grad]
    gradients = sum(parameter.nbytes for parameter in learning)
    return {
        "parameter": sum(parameter.nbytes for parameter in different),
        "gradient": gradients,
        "optimizer state": 2 * gradients + 4 * len(learning),
    }
    ### END SOLUTION


# %%
check("01.ledger", state_bytes)

# %% [markdown]
# Stuck? Take the `#` away: each run of the next cell gives one more hint, three in all. `solution("01.ledger")` says
# where the solved version stands.

# %%
# hint("01.ledger")

# %% [markdown]
# ## Where the time goes
#
# ![A step drawn as a row of boxes along time: data, forward, a dashed box for backward with a question mark, and
# step.](../assets/01_step_timeline.png)
#
# A step has four parts: fetch the batch, forward, backward, and the optimizer's step.
#
# **How many times as long as the forward pass does the backward pass take?**

# %%
### BEGIN SOLUTION
### STUB ask("01.backward")
ask("01.backward").commit(1)  # "it is forward, run backward"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
for _ in range(2):  # the first round warms up and is not kept
    timeline = Timeline(device=device)
    for x_i, y_i in timeline.iterate(loader(train, 256)):
        with timeline.span("forward"):
            loss = F.cross_entropy(model(x_i.to(device)), y_i.to(device))
        with timeline.span("backward"):
            loss.backward()
        with timeline.span("step"):
            optimizer.step()
            optimizer.zero_grad()
print(timeline)

# %% tags=["nbval-ignore-output"]
gantt(timeline, title="One epoch, batches of 256")

# %% tags=["nbval-ignore-output"]
reveal("01.backward", timeline)

# %% [markdown]
# ## Counting the arithmetic
#
# ![A matrix product y = x times w, drawn once for the forward pass; below it the two products of the backward pass, one
# for the gradient of x and one for the gradient of w, each of the same size.](../assets/01_three_products.png)
#
# <!-- word: FLOP | also: floating-point operation -->
# A **FLOP** is one operation on floating-point numbers. A linear layer multiplies and adds `in × out` times for each
# row: two FLOPs each. Backward does the same work twice: once for the gradient of its input, once for that of its
# weights. The first layer is spared one of them, since nobody asks for the gradient of the pixels.

# %%
layers = cost.cnn_layers(batch_size=64)
for layer in layers:
    one = cost.flops(layer)
    print(
        f"{layer.name:<12} forward {one.forward / 1e6:>6.1f} MFLOP   backward {one.backward / 1e6:>6.1f} MFLOP"
    )
print(f"{'whole step':<12} {cost.flops(layers).total:,} FLOP")

# %% [markdown]
# PyTorch has a counter of its own, which watches the operations that really run.

# %%
from torch.utils.flop_counter import FlopCounterMode

with FlopCounterMode(display=False) as counter:
    F.cross_entropy(model(x), y).backward()
optimizer.zero_grad()
torch_counts = counter.get_total_flops()
print(f"counted by torch {torch_counts:,}, difference {torch_counts - cost.flops(layers).total}")

# %% [markdown]
# ### A transformer, and a counter that misses something
#
# Count a step of the transformer in both ways.

# %%
with FlopCounterMode(display=False) as counter:
    next_token_loss(reader(tokens), targets).backward()
step_flops = cost.flops(cost.transformer_layers(config, batch_size=8)).total
print(f"formula        {step_flops:>13,}\ntorch counted  {counter.get_total_flops():>13,}")

# %% [markdown]
# On a CPU they differ. Which part is missing? The formula knows its parts, so ask it for the attention alone.

# %%
from torch.nn.attention import SDPBackend, sdpa_kernel

attention = cost.flops(
    layer for layer in cost.transformer_layers(config, batch_size=8) if layer.name.endswith("attention")
)
print(f"attention, by the formula          {attention.total:>13,}")
with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:  # attention from plain matmuls
    next_token_loss(reader(tokens), targets).backward()
reader_optimizer.zero_grad()
print(f"torch, attention from plain matmuls {counter.get_total_flops():>12,}")
rule = cost.six_n_flops(parameter_count(reader), tokens.numel())
print(f"6 x parameters x tokens            {rule:>13,}, {rule / step_flops:.0%} of the formula")

# %% [markdown]
# The fused attention of the CPU is missing from torch's table, and so it counts as no work at all. With attention made
# of plain matrix products, counter and formula agree to the last operation. *A counter that is silent about what it
# does not know is worth a second opinion.* The rule of thumb in the last line is what people use for large models; it
# forgets attention and counts tables that are only looked up. (On a GPU torch's count may be the higher one: the fused
# attention there computes its scores a second time in backward, and that is counted.)
#
# ### Share of peak
#
# <!-- word: MFU | also: model FLOPs utilisation, model FLOPs utilization -->
# **MFU** (model FLOPs utilisation) is the arithmetic of a step, divided by what your machine could have done in that
# time.
# `calibrate()` has measured the rate of large matrix products here, in lesson 00 or now.
#
# **What share of that rate does this step of the transformer reach?**

# %%
### BEGIN SOLUTION
### STUB ask("01.mfu")
ask("01.mfu").commit(90)  # "it does nothing but compute"
### END SOLUTION


# %% tags=["nbval-ignore-output"]
def reader_step():
    reader_optimizer.zero_grad()
    next_token_loss(reader(tokens), targets).backward()
    reader_optimizer.step()


rates = calibrate().gpu or calibrate().all_cores
peak_rate = rates.matmul_flops_per_s["float32"]
timing = measure(reader_step, name="a step of the transformer", rounds=7, device=device)
print(timing)
reveal("01.mfu", cost.mfu(step_flops, step_time_s=timing.median_s, peak_flops_per_s=peak_rate))

# %% [markdown]
# Nobody reaches all of it: PaLM, a carefully tuned run, reports 46.2 % (Chowdhery et al., 2022, table 3). A larger
# batch or a wider model raises the share: change `config` above and see.
#
# ## A large batch in small pieces
#
# <!-- word: gradient accumulation -->
# <!-- word: micro-batch | also: microbatch -->
# Activations grow with the batch; gradients do not. **Gradient accumulation** goes forward and backward on a piece of
# the batch, lets `.grad` add up (that is what `backward()` does when nobody clears it), takes the next piece, and steps
# once at the end. A **micro-batch** is a piece of a batch that goes through the model on its own.
#
# **The network above, one batch of 64 against the same 64 digits in four pieces of 16: what happens to the gradient?**

# %%
### BEGIN SOLUTION
### STUB ask("01.pieces")
ask("01.pieces").commit("the same, up to rounding")  # what the textbooks say
### END SOLUTION


# %%
def gradient(net, pieces):
    """The gradient of the mean loss over equal pieces, as one long vector."""
    net.zero_grad()
    for x_piece, y_piece in pieces:
        (F.cross_entropy(net(x_piece), y_piece) / len(pieces)).backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()])


def difference(net):
    """How far accumulation lands from the whole batch, as a share of the gradient's length."""
    whole = gradient(net, [(x, y)])
    cut = gradient(net, list(zip(x.split(16), y.split(16), strict=True)))
    return ((cut - whole).norm() / whole.norm()).item()


torch.manual_seed(0)
off = difference(SmallCNN().to(device))
print(
    f"as a share of the gradient's length, off by 0.001 or more: {off >= 0.001}; by 0.1 or more: {off >= 0.1}"
)

# %%
reveal("01.pieces", off)

# %% [markdown]
# Take BatchNorm out, and the sentence of the textbooks holds:

# %%
torch.manual_seed(0)
off_without = difference(SmallCNN(batch_norm=False).to(device))
print(f"without BatchNorm off by less than 0.001 %: {off_without < 1e-5}")

# %% [markdown]
# Keep this in mind for lesson 04: there, each *rank* holds a piece of the batch, and BatchNorm sees that piece alone.
# Transformers have no such layer: their norms look at one position at a time.
#
# ### Build: one step in pieces
#
# Write the step for pieces of any size. The last piece of real data is usually short, and a mean of means is then not
# the mean. The result must be the step of the whole batch, with one piece in memory at a time and one forward pass for
# each. Every layer stays in the mode in which it comes.


# %%
def step_in_pieces(model, optimizer, pieces):
    """One optimizer step on the mean cross-entropy over all examples of ``pieces``, a list of ``(x, y)``."""
    # 1. Gradients of earlier steps may still be there: clear them.
    # 2. For each piece: its mean loss, weighted so that every example of the batch counts the same.
    # 3. Free what the piece kept before the next one comes.
    # 4. Change the weights, once.
    ### BEGIN SOLUTION: clear, add up the pieces, step
    total = sum(len(x) for x, _ in pieces)
    optimizer.zero_grad()
    for x, y in pieces:
        loss = F.cross_entropy(model(x), y) * (len(x) / total)
        loss.backward()
    optimizer.step()
    ### END SOLUTION


# %%
check("01.accumulate", step_in_pieces)

# %%
# hint("01.accumulate")

# %% [markdown]
# ![A batch of twelve examples cut into pieces of five, five and two. Each piece adds its gradient, weighted by its
# share, to one running sum; after the last piece the optimizer takes one step.](../assets/01_accumulate.png)
#
# What did it buy? The same 64 digits, in one piece and in four, at their fullest:

# %%
for size in (64, 16):
    with MemoryLedger(model, optimizer, inputs=(x, y)) as watched:
        gradient(model, list(zip(x.split(size), y.split(size), strict=True)))
    top = watched.peak()
    print(
        f"pieces of {size}: peak {bytes_text(top.total_bytes)}, most activations "
        f"{bytes_text(max(watched.history().of('activation')))}"
    )
optimizer.zero_grad()

# %% [markdown]
# ## Mixed precision
#
# ![The bits of two kinds of number: float32 has one bit for the sign, 8 for the exponent and 23 for the digits;
# bfloat16 has one, 8 and 7.](../assets/01_bfloat16.png)
#
# <!-- word: mixed precision -->
# <!-- word: bfloat16 | also: bf16 -->
# **Mixed precision** computes with short numbers where they are good enough, and with float32 where they are not.
# **bfloat16** is a number in 2 bytes: the range of float32 with far fewer digits. Matrix products stand it well. Sums
# of small steps do not:

# %%
weight = torch.tensor(1.0, dtype=torch.bfloat16)
for _ in range(1000):
    weight = weight + 0.001
print(f"1 + a thousand steps of 0.001 = {weight.item()} in bfloat16")

# %% [markdown]
# <!-- word: autocast | also: automatic mixed precision, AMP -->
# Every step was rounded away. So **autocast** leaves the parameters in float32, and casts copies of them to bfloat16 on
# their way into a matrix product. **The transformer's step under bfloat16 autocast: its peak is what per cent of the
# peak in float32?**

# %%
### BEGIN SOLUTION
### STUB ask("01.autocast")
ask("01.autocast").commit(50)  # "two bytes in place of four"
### END SOLUTION


# %%
def reader_ledger(autocast=False, forward=reader):
    """The ledger of one step of the transformer."""
    with MemoryLedger(reader, reader_optimizer, inputs=(tokens, targets)) as watched:
        reader_optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            loss = next_token_loss(forward(tokens), targets)
        watched.mark("after forward")
        loss.backward()
        reader_optimizer.step()
    return watched


reader_ledger()  # the first step makes the optimizer's state
plain, mixed = reader_ledger(), reader_ledger(autocast=True)
memory_bars(
    {"float32": plain.peak(), "bfloat16 autocast": mixed.peak()}, title="One step of the transformer, peak"
)

# %%
reveal("01.autocast", config, plain, mixed)

# %% [markdown]
# ![Two rows of boxes. Under autocast the inputs of matrix products and copies of the weights are 2 bytes a number;
# parameters, gradients, optimizer state, norms and the loss stay at 4 bytes.](../assets/01_autocast.png)
#
# The formula can list what one block keeps:

# %%
for item in cost.transformer_activations(config, batch_size=8, autocast=True)[1:12]:
    print(f"{bytes_text(item.size_bytes):>9}  {item.name}")

# %% [markdown]
# Is it faster? That depends on the machine: on a GPU with matrix units, much; on a CPU without bfloat16 instructions it
# may be slower. The stopwatch runs both in turn, and says when it cannot tell.


# %% tags=["nbval-ignore-output"]
def timed_step(autocast):
    with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
        loss = next_token_loss(reader(tokens), targets)
    loss.backward()
    reader_optimizer.zero_grad()


print(
    compare(
        lambda: timed_step(False),
        lambda: timed_step(True),
        names=("float32", "autocast"),
        rounds=7,
        device=device,
    )
)

# %% [markdown]
# ## Recomputation
#
# <!-- word: recomputation | also: activation checkpointing, gradient checkpointing -->
# An activation is kept so that backward need not compute it again. You may choose the other way. **Recomputation**
# keeps the input of each block alone, and when backward comes to a block, it runs the block's forward pass once more.
# The field calls it *activation checkpointing* (or gradient checkpointing), and PyTorch has it as
# `torch.utils.checkpoint` (no relation to the checkpoint that you save to disk).
#
# **Four blocks, each recomputed: the most activations that are alive at once, in per cent of before?**

# %%
### BEGIN SOLUTION
### STUB ask("01.recompute")
ask("01.recompute").commit(5)  # "only the inputs stay"
### END SOLUTION

# %%
from torch.utils.checkpoint import checkpoint


def forward_keeping_inputs(tokens):
    stream = reader.stem(tokens)
    for block in reader.blocks:
        stream = checkpoint(block, stream, use_reentrant=False)
    return reader.head(stream)


lean = reader_ledger(forward=forward_keeping_inputs)
memory_curve(lean.history(), title="One step, every block recomputed")

# %%
most_plain, most_lean = (max(watched.history().of("activation")) for watched in (plain, lean))
reveal("01.recompute", config, most_plain, most_lean)

# %% [markdown]
# ![Above, a row of four blocks each with five small boxes kept for backward. Below, the same blocks with one box kept
# each; the block whose turn it is in backward has its other boxes filled in again.](../assets/01_recompute.png)
#
# In the curve above, each tooth after the forward pass is a block that comes back and goes. With more blocks the gain
# grows: a row of `n` blocks keeps `n` inputs and one block in full.
#
# The price is time: one forward pass more. Forward is a third of the arithmetic, so by count a step takes four thirds
# of the time. Below, a stopwatch says what it takes here. It may well say more: it also times what PyTorch does around
# each block, such as keeping the state of the random numbers and putting it back, and small blocks like these feel it.
#
# <!-- word: offload -->
# There is one more way, which this lesson does not measure. **Offload** moves tensors from the memory of the device to
# that of the CPU until they are needed again: its price is copying, not arithmetic.


# %% tags=["nbval-ignore-output"]
def timed_with(forward):
    next_token_loss(forward(tokens), targets).backward()
    reader_optimizer.zero_grad()


print(
    compare(
        lambda: timed_with(reader),
        lambda: timed_with(forward_keeping_inputs),
        names=("keeping all", "recomputing"),
        rounds=7,
        device=device,
    )
)

# %% [markdown]
# ### Build: a backward pass from the input alone
#
# The heart of it is a function that autograd calls when backward reaches the block. It is given the block, the
# block's input, the gradient of the block's output, and the state that the random number generator was in. It
# returns the gradient of the input, and adds to the `.grad` of the block's parameters. All else stays as it was.


# %%
def gradient_again(block, x, grad_y, rng_state):
    """The gradient of ``x``, where ``y = block(x)`` was not recorded. Autograd calls this with recording off."""
    # 1. Cut x off from the layers before it: their turn comes later.
    # 2. Run the block once more, recorded, with the random numbers of the first time.
    #    Leave the generator as it was.
    # 3. Go backward from y, where its gradient is grad_y.
    ### BEGIN SOLUTION: run the block again and go backward through it
    x = x.detach().requires_grad_()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        y = block(x)
    torch.autograd.backward(y, grad_y)
    return x.grad
    ### END SOLUTION


# %%
recompute_verdict = check("01.recompute", gradient_again)
recompute_verdict

# %%
# hint("01.recompute")

# %% [markdown]
# With a function that passes, these lines make the transformer recompute by your hand. `forward` of an autograd
# function runs unrecorded, so nothing is kept but what we save.


# %%
class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, block):
        ctx.block, ctx.rng_state = block, torch.get_rng_state()
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, grad_y):
        return gradient_again(ctx.block, ctx.saved_tensors[0], grad_y, ctx.rng_state), None


def forward_by_hand(tokens):
    stream = reader.stem(tokens)
    for block in reader.blocks:
        stream = Recompute.apply(stream, block)
    return reader.head(stream)


# %%
if recompute_verdict.passed:
    most_by_hand = max(reader_ledger(forward=forward_by_hand).history().of("activation"))
    print(
        f"most activations at once: yours {bytes_text(most_by_hand)}, torch's {bytes_text(most_lean)}, "
        f"without {bytes_text(most_plain)}"
    )
else:
    print("Write gradient_again first, then run this cell again.")

# %% [markdown]
# If yours is the higher one: PyTorch ends its second forward pass as soon as it has the last tensor that backward asks
# for. Yours goes on to the end of the block, and keeps `y` too. Inside
# `torch.utils.checkpoint.set_checkpoint_early_stop(False)` PyTorch goes on to the end as well.

# %% [markdown]
# ## All together: fit a limit
#
# ![A panel with four controls (batch size, optimizer, precision, recomputation) above two bars of memory by
# label.](../assets/01_explorer.png)
#
# The formulas of this lesson, with their dials. You can keep a bar and compare the next one with it, as in the picture.
# Three missions, for a transformer of 12 layers and width 512:
#
# 1. A batch of 128 with AdamW below the dashed line.
# 2. The largest batch below the line, with any dials.
# 3. At batch size 1, one of the dials makes the memory *grow*. Which one, and what has it added?

# %%
from course_lib.widgets import MemoryExplorer

larger = TransformerConfig(context_length=256, num_layers=12, width=512, num_heads=8)


def predict_memory(**dials):
    return cost.transformer_memory(larger, **dials)


MemoryExplorer(predict_memory, batch_size=32, limit_bytes=2 * 2**30)

# %% [markdown]
# ## Clinic: a job that dies after its first epoch
#
# *Symptoms.* Memory climbs and climbs, until the process dies: every time in the first evaluation, just after the
# first epoch. With a smaller data set nothing happens. The code, as it was sent in:


# %%
def train_epoch(model, optimizer, batches):
    model.train()
    total = 0.0
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
    return total


def evaluate_as_sent(model, batches):
    model.eval()
    total, count = 0.0, 0
    for x, y in batches:
        total += F.cross_entropy(model(x), y) * len(x)
        count += len(x)
    return total / count


# %%
### BEGIN SOLUTION
### STUB ask("01.clinic")
ask("01.clinic").commit("total += loss in train_epoch")  # the one that everybody has read of
### END SOLUTION

# %% [markdown]
# The evidence: a balance of the ledger before every batch, in both functions.


# %%
def marked(ledger, batches):
    """Hand out the batches, and take a balance before each of them."""
    for number, batch in enumerate(batches):
        ledger.mark(f"before batch {number}")
        yield batch


batches = [(x.to(device), y.to(device)) for x, y in loader(test, 64, shuffle=False)]
for title, run in {
    "training": lambda parts: train_epoch(model, optimizer, parts),
    "evaluation": lambda parts: evaluate_as_sent(model, parts),
}.items():
    with MemoryLedger(model, optimizer, inputs=batches) as watched:
        run(marked(watched, batches))
    print(title)
    for moment, now in watched.marks.items():
        sizes = [f"{label} {now[label]:>9,}" for label in ("activation", "optimizer state", "input")]
        print(f"  {moment}:", "   ".join(sizes))

# %%
reveal("01.clinic")

# %% [markdown]
# ![A staircase: memory over the batches of an evaluation, one step up for each batch, until it meets a dashed line
# called limit.](../assets/01_clinic.png)
#
# ### Mend it
#
# Write the evaluation so that it keeps nothing for a backward pass that never comes, and so that memory does not climb
# from batch to batch. Of the model it may change the mode alone.


# %%
def evaluate(model, batches):
    """The mean cross-entropy over all examples of ``batches``, a list of ``(x, y)``."""
    model.eval()
    ### BEGIN SOLUTION: the same mean, with nothing kept
    total = 0.0
    with torch.no_grad():
        for x, y in batches:
            total += F.cross_entropy(model(x), y).item() * len(x)
    return total / sum(len(x) for x, _ in batches)
    ### END SOLUTION


# %%
check("01.evaluate", evaluate)

# %%
# hint("01.evaluate")

# %% [markdown]
# ## In production
#
# <!-- word: profiler -->
# You will not write timelines and ledgers by hand. A **profiler** such as PyTorch's records every operation with its
# time (and with `profile_memory=True` its bytes). Where does our step spend its time, by operation?

# %% tags=["nbval-ignore-output"]
import os

from torch.profiler import ProfilerActivity, profile

os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler's own log would stand between the lines
activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
with profile(activities=activities) as profiler:
    reader_step()
rows = sorted(profiler.key_averages(), key=lambda row: -row.self_cpu_time_total)[:6]
for row in rows:
    print(f"{row.key:<58} {row.count:>4} calls {row.self_cpu_time_total / 1e3:>8.2f} ms")

# %% [markdown]
# And what you built has its counterpart in the library:
#
# | you wrote | production code uses |
# |---|---|
# | `state_bytes` and the ledger | `torch.cuda.memory_allocated`, the memory snapshot of `torch.cuda.memory` |
# | the timeline | `torch.profiler`, opened in Perfetto |
# | `step_in_pieces` | the same loop; under several ranks with `no_sync` (lesson 04) |
# | `gradient_again` | `torch.utils.checkpoint.checkpoint(..., use_reentrant=False)`, as above |
# | `evaluate` | `torch.no_grad()` or `torch.inference_mode()` |
#
# One of them you have compared already: its bytes beside yours, under *Recomputation*.
#
# ## Quiz

# %%
quiz("01")

# %% [markdown]
# ## What you can do now
#
# ![Bars of memory for one step: plain, in four pieces, under autocast, recomputed, and all three together. The state is
# the same in each of them, and nearly all of the last.](../assets/01_levers.png)
#
# You can say what a training step holds, by label and to the byte, and which part each lever moves: pieces and
# recomputation the activations, autocast what goes into matrix products, and *none of them the state*: 16 bytes for
# each parameter under AdamW, whatever you do on one device.
#
# **The limit.** A model of a billion parameters has 16 GB of state before its first activation. And one device computes
# one batch at a time. Both limits fall to several devices that share the work, and for that they must send numbers to
# each other: who sends what to whom, and what it costs, is lesson 02.
#
# **Further reading.** Chen et al., *Training Deep Nets with Sublinear Memory Cost* (2016), section 4: recomputation.
# Micikevicius et al., *Mixed Precision Training* (2018), section 3.1: the float32 master copy. Korthikanti et al.,
# *Reducing Activation Recomputation in Large Transformer Models* (2022), section 4: the formula for activations.
