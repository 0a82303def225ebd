# %% [markdown]
# # 01c · One device: doing with less memory
#
# A step needs more memory than the device has. You cut the batch in pieces, compute with short numbers, and throw
# activations away to compute them again. You see what each of the three costs, and what none of them saves.
#
# **75 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 3 of 3 · [1: where the memory goes](01a_one_device.ipynb) · [2: where the time goes](01b_time_and_data.ipynb)
#
# This part builds on [01a: where the memory goes](01a_one_device.ipynb) and [01b: where the time
# goes](01b_time_and_data.ipynb). Have you done them? `from course_lib import start; start("01c")` says whether you
# have.
#
# At the end you can
#
# - cut a batch into pieces, and say what this does to the gradient;
# - say what mixed precision and recomputation save, and what they leave as it was;
# - choose among the three for a given limit.
#
# From part 1 you need the labels of the ledger: parameters, gradients and optimizer state belong to the model,
# *activations* to the batch. From part 2 you need that forward is about a third of a step's arithmetic.

# %%
from course_lib import ask, check, cost, hint, machine, problems, quiz, reveal, solution
from course_lib.data import digits, documentation_windows, loader
from course_lib.meter import MemoryLedger, bytes_text, compare
from course_lib.models import SmallCNN, Transformer, TransformerConfig, next_token_loss
from course_lib.plot import memory_bars, memory_curve
from course_lib.rounding import agree

import torch
import torch.nn.functional as F

device = machine().device_for(0)  # the first GPU where there is one, else the CPU

# %% [markdown]
# The next cell makes the CNN and the transformer of part 1, and one batch for each. A first step makes AdamW's state.

# %%
torch.manual_seed(0)
model = SmallCNN().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
x, y = (tensor.to(device) for tensor in next(iter(loader(digits().train, 64))))
F.cross_entropy(model(x), y).backward()
optimizer.step()

config = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
reader = Transformer(config).to(device)
reader_optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-3)
text, _ = documentation_windows(config.context_length)
tokens, targets = (tensor.to(device) for tensor in next(iter(loader(text, 8))))
next_token_loss(reader(tokens), targets).backward()
reader_optimizer.step()

# %% [markdown]
# ## A large batch in small pieces
#
# <!-- word: gradient accumulation | sentences: 2 -->
# <!-- word: micro-batch | also: microbatch -->
# Activations grow with the batch; gradients do not. **Gradient accumulation** goes forward and backward on one piece of
# the batch after the other, lets `.grad` add up, and steps once at the end. Adding up is what `backward()` does when
# nobody clears `.grad`. A **micro-batch** is a piece of a batch that goes through the model on its own.
#
# **Compute the gradient of the CNN above from the 64 digits at once, and from the same digits in four pieces of 16. How
# do the two gradients compare?**

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


def both(net):
    """The gradient by accumulation, and of the whole batch."""
    cut = gradient(net, list(zip(x.split(16), y.split(16), strict=True)))
    return cut, gradient(net, [(x, y)])


torch.manual_seed(0)
cut, whole = both(SmallCNN().to(device))
for share in (0.001, 0.02):
    print(f"equal to within {share} of the largest number: {agree(cut, whole, within=share)}")
off = ((cut - whole).norm() / whole.norm()).item()  # as a share of the gradient's length

# %%
reveal("01.pieces", off)

# %% [markdown]
# Here is the same comparison for a CNN without BatchNorm:

# %%
torch.manual_seed(0)
cut, whole = both(SmallCNN(batch_norm=False).to(device))
print(f"without BatchNorm equal to within 1e-5: {agree(cut, whole, within=1e-5)}")

# %% [markdown]
# Keep this in mind for lesson 04: there, each *rank* holds a piece of the batch, and BatchNorm sees that piece alone.
# Transformers have no such layer: their norms look at one position at a time.
#
# ### Build: one step in pieces
#
# ![A batch of twelve examples cut into pieces of five, five and two. Each piece adds its gradient, times a number that
# is asked for, to one running sum; after the last piece the optimizer takes one step.](../assets/01_accumulate.png)
#
# Write the step for pieces of any size. The last piece of real data is usually short, and then the mean of the pieces'
# means is not the mean of the batch. The result must be the step of the whole batch, with one piece in memory at a time
# and one forward pass for each. Every layer stays in the mode in which it comes.


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

# %% [markdown]
# Stuck? Take the `#` away: each run of the next cell gives one more hint.

# %%
# hint("01.accumulate")

# %% [markdown]
# How much memory does this save? Here is the peak for the same 64 digits, in one piece and in four:

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
# **bfloat16** is a number in 2 bytes, with the range of float32 and far fewer digits. For matrix products that is
# precise enough. For sums of many small steps it is not. (The older float16 has more digits and a small range: the
# smallest gradients become zero in it. So `torch.amp.GradScaler` multiplies the loss first; bfloat16 does not need
# that.)

# %%
weight = torch.tensor(1.0, dtype=torch.bfloat16)
for _ in range(1000):
    weight = weight + 0.001
print(f"1 + a thousand steps of 0.001 = {weight.item()} in bfloat16")

# %% [markdown]
# <!-- word: autocast | also: automatic mixed precision, AMP -->
# Every step was rounded away: after 1 the next bfloat16 is 1.0078. So **autocast** leaves the parameters in float32 and
# casts copies of them to bfloat16 on their way into a matrix product.
#
# **Take the transformer's step under bfloat16 autocast. How high is its peak, in per cent of the peak in float32?**

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
# The formula can list what one block keeps. Two of its names are new. *Statistics* of a norm are the mean and the
# spread of each position. *Log-sums* are one number for each row of attention scores, the logarithm of the softmax's
# denominator. With it, backward can make the whole row again, so the row need not be kept.

# %%
for item in cost.transformer_activations(config, batch_size=8, autocast=True):
    if item.name.startswith("blocks.0:"):
        print(f"{bytes_text(item.size_bytes):>9}  {item.name}")

# %% [markdown]
# Is autocast faster? That depends on the machine: a GPU has units that multiply bfloat16 matrices, and many CPUs have
# no instructions for it. The stopwatch runs both in turn, and says so when it cannot decide.


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
# keeps the input of each block alone, and when backward comes to a block, it runs the block's forward pass once more
# ([Chen et al., 2016](https://arxiv.org/abs/1604.06174)). The field calls it *activation checkpointing* (or gradient
# checkpointing), and PyTorch has it as `torch.utils.checkpoint` (no relation to the checkpoint that you save to disk).
#
# **All four blocks are recomputed. How high is the peak of all live activations, in per cent of the peak without
# recomputation?**

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
# In the curve above, each tooth after the forward pass is one block, whose activations are computed again and freed
# again. A row of `n` blocks keeps `n` inputs and one block in full.
#
# The price is time: one forward pass more. **Forward is a third of the arithmetic. How many times as long is a step
# with one forward pass more?** Work it out, then ask the stopwatch. It may well show more than you worked out. It also
# times what PyTorch does around each block, such as keeping the state of the random numbers and putting it back. For
# small blocks that is a large share.


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
# The central part of recomputation is a function that autograd calls when backward reaches the block. It is given the
# block, the block's input, the gradient of the block's output, and the state that the random number generator was in.
# It returns the gradient of the input, and adds to the `.grad` of the block's parameters. All else stays as it was,
# except what any forward pass changes, such as the running means of a BatchNorm.


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
# With a function that passes, these lines make the transformer recompute by your function. `forward` of an autograd
# function runs unrecorded, so only what we save is kept. (The state kept here is that of the CPU's generator. On a GPU,
# dropout uses the generator of the device. PyTorch keeps and restores the states of both.)


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
# Is your number the higher one? PyTorch ends its second forward pass as soon as it has the last tensor that backward
# asks for. Your function goes on to the end of the block, and keeps `y` too. Inside
# `torch.utils.checkpoint.set_checkpoint_early_stop(False)` PyTorch goes on to the end as well.

# %% [markdown]
# <!-- word: offload -->
# There is a fourth way, which this lesson does not measure. **Offload** moves tensors from the memory of the device to
# that of the CPU until they are needed again: its price is copying, not arithmetic.
#
# ## All together: fit a limit
#
# ![A panel with four controls (batch size, optimizer, precision, recomputation) above two bars of memory by
# label.](../assets/01_explorer.png)
#
# The explorer below has the formulas of this lesson, for a transformer of 12 layers and width 512. Its dials (the
# controls) change the numbers that go into these formulas. You can keep a bar and compare the next one with it. There
# are two missions, and the explorer says which of them you have done.
#
# 1. Find the largest batch that stays below the dashed line, with AdamW and any setting of the other dials.
# 2. At batch size 1, one of the dials *adds* memory. Keep the first bar at batch size 1, then turn one dial.

# %%
from course_lib.widgets import AddedMemory, LargestBatch, MemoryExplorer

larger = TransformerConfig(context_length=256, num_layers=12, width=512, num_heads=8)
limit_bytes = 2 * 2**30


def predict_memory(**dials):
    return cost.transformer_memory(larger, **dials)


missions = LargestBatch(limit_bytes), AddedMemory()
explorer = MemoryExplorer(predict_memory, batch_size=32, limit_bytes=limit_bytes, missions=missions)
explorer

# %%
### BEGIN SOLUTION
### STUB print(explorer.missions)
explorer.batch_size.value, explorer.recompute.value = 138, True
explorer.precision.value = "bfloat16 autocast"
explorer.batch_size.value, explorer.recompute.value, explorer.precision.value = 1, False, "float32"
explorer.keep.click()
explorer.precision.value = "bfloat16 autocast"
print(explorer.missions)
### END SOLUTION

# %% [markdown]
# If a mission is still open, look for its answer in the sections above.

# %% [markdown]
# ## In production
#
# | you wrote | production code uses |
# |---|---|
# | `step_in_pieces` | the same loop; under several ranks with `no_sync` (lesson 04) |
# | autocast | `torch.autocast`, as above |
# | `gradient_again` | `torch.utils.checkpoint.checkpoint(..., use_reentrant=False)` |
#
# You have already compared the last one with `gradient_again`: a cell under *Recomputation* prints the bytes of both.
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
# You can say what each of the three makes smaller. Pieces and recomputation shrink the activations, and autocast
# shrinks what goes into matrix products. *None of them changes the state*: with AdamW and float32, as here, 16 bytes
# for each parameter.
#
# (Other choices do change it, on one device too. An optimizer can have one tensor where AdamW has two, such as Muon or
# SGD with momentum. AdamW's tensors can be kept in [8 bits](https://arxiv.org/abs/2110.02861) or in bfloat16, or be
# offloaded to the CPU. Each of these choices has its own price.)
#
# **The limit.** With those 16 bytes, a model of a billion parameters has 16 GB of state before its first activation.
# And one device computes one batch at a time. Both limits fall to several devices that share the work, and for that
# they must send numbers to each other. [Lesson 02](02a_collectives.ipynb) shows who sends what to whom, and what it
# costs.
#
# **Further reading.** Chen et al., [Training Deep Nets with Sublinear Memory Cost](https://arxiv.org/abs/1604.06174)
# (2016), section 4: recomputation. Micikevicius et al., [Mixed Precision Training](https://arxiv.org/abs/1710.03740)
# (2018), section 3.1: the float32 master copy. Korthikanti et al., [Reducing Activation Recomputation in Large
# Transformer Models](https://arxiv.org/abs/2205.05198) (2022), section 4: the formula for activations.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. You get numbers of your own, and new ones for
# each further try. When a problem is over, you see its solution step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("01")
problems("01", ways=True)
### END SOLUTION
