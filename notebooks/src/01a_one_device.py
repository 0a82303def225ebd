# %% [markdown]
# # 01a · One device: where the memory goes
#
# You train two small models on one device and count every byte that the training takes. You find out what each byte is
# for, when it is allocated and when it is freed. Then a job dies because its memory is full, and you find the line that
# was to blame.
#
# **65 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 1 of 3 · [2: where the time goes](01b_time_and_data.ipynb) · [3: doing with less memory](01c_less_memory.ipynb)
#
# This part builds on [00: Start here](00_start_here.ipynb). Have you done it? `from course_lib import start;
# start("01a")` says whether you have.
#
# At the end you can
#
# - write a training loop, and say how the learning rate changes during a run;
# - say how much memory the training of a model will take before you start it, and check this number to the byte;
# - find the line of code that keeps memory which it should free.
#
# In [lesson 00](00_start_here.ipynb) ranks sent each other numbers. Before they share a model, you need to know what
# one of them holds alone. Several GPUs are useful when one is too small or too slow. This part is about a GPU that is
# too small, part 2 about one that is too slow.

# %%
from course_lib import ask, check, cost, hint, machine, reveal, solution
from course_lib.data import digits, documentation_windows, loader
from course_lib.meter import MemoryLedger, bytes_text
from course_lib.models import (
    SmallCNN,
    Transformer,
    TransformerConfig,
    accuracy,
    next_token_loss,
    parameter_count,
)
from course_lib.plot import lines, memory_bars, memory_curve
from course_lib.rounding import rounded

import math
from itertools import chain, islice

import torch
import torch.nn.functional as F

device = machine().device_for(0)  # the first GPU where there is one, else the CPU

# %% [markdown]
# ## A training loop to build on
#
# A training step has four lines, in this order: clear the gradients, go forward, go backward, change the weights. Every
# later lesson cuts, copies or spreads this loop, so read it slowly. `loss_of` compares the model's answer with the
# right one.


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
    print(f"epoch {epoch}: mean loss {rounded(sum(losses) / len(losses), 1)}")

model.eval()
images, labels = (tensor.to(device) for tensor in test.tensors)
with torch.no_grad():
    share = accuracy(model(images), labels)
model.train()
print(f"more than nine of ten unseen digits read right: {share > 0.9}")

# %% [markdown]
# The second is a small transformer that reads Python's own documentation, byte by byte, and guesses the next byte. It
# has another model and another loss, and the same loop.

# %% tags=["nbval-ignore-output"]
config = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
reader = Transformer(config).to(device)
reader_optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-3)
text, _ = documentation_windows(config.context_length)
batches = islice(loader(text, 8), 40)
losses = [train_step(reader, reader_optimizer, next_token_loss, x, y) for x, y in batches]
print(f"loss of the first step {losses[0]:.1f}, of the last {losses[-1]:.1f}")

# %% [markdown]
# ## Where the memory goes
#
# From here on we look at a single step, always with the same batch: 64 digits.

# %%
x, y = (tensor.to(device) for tensor in next(iter(loader(train, 64))))
num_parameters = parameter_count(model)
print(f"the CNN: {num_parameters:,} parameters of 4 bytes: {4 * num_parameters / 2**20:.2f} MiB")

# %% [markdown]
# **The parameters take the mebibytes printed above. How many mebibytes does a training step hold at its fullest
# moment?** Everything counts: whatever lies in memory because you train this model on this batch with AdamW.

# %%
### BEGIN SOLUTION
### STUB ask("01.peak")  # type your number and press the button, or add .commit(1) and run the cell
ask("01.peak").commit(0.36)  # "the parameters, and not much else"
### END SOLUTION

# %% [markdown]
# <!-- word: ledger | also: memory profiler | sentences: 2 -->
# Now we run the step and record its memory. A **ledger** watches every storage (the block of memory behind a tensor).
# It gives the storage one label, and notes when it is allocated and when it is freed. Elsewhere such a tool is called a
# memory profiler. `mark` gives a moment a name.

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
#   `backward()`: how the loss changes with it. (PyTorch calls a whole tensor of such numbers a parameter as well, as in
#   `model.parameters()`.)
# <!-- word: optimizer state -->
# - The **optimizer state** is what the optimizer remembers from step to step: AdamW remembers a running mean of each
#   gradient, and one of its square. That is *twice the model*. For each tensor that learns it also keeps a count of the
#   steps, 4 bytes.
# <!-- word: activation -->
# - An **activation** is a tensor that the forward pass computed and keeps, because the backward pass will need it.
# <!-- word: buffer -->
# - A **buffer** holds numbers of the model that are not learned, such as BatchNorm's running means.
# - **other**: everything else that was alive, mostly gradients on their way from layer to layer.

# %%
memory_curve(ledger.history(), title="Live bytes during one step")

# %% [markdown]
# The curve is a hill. In the forward pass it rises, layer by layer; in the backward pass it falls, since that pass
# frees what it has used. The next picture shows the three named moments, from the formulas alone:
#
# ![Three bars, one each for the start of a step, the end of the forward pass and the end of the backward pass. The
# parameters and the optimizer state are in all three; activations are in the middle bar alone, gradients in the last
# alone.](../assets/01_memory_kinds.png)
#
# ### Does it balance?
#
# The cost model is a formula that uses only the sizes of the model. It should agree with the ledger at every named
# moment on a CPU, to the byte; the last column says whether it does. On a GPU the kernels keep slightly other things,
# and a difference may show.

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
# Which of these four depend on the batch? The next cell asks the formula. For a batch of 64, the sum of the four is the
# cost model's number that you saw after your prediction.

# %%
bars = {}
for batch_size in (1, 16, 64, 256):
    kept_now = cost.activation_bytes(cost.conv_activations(cost.cnn_layers(batch_size=batch_size)))
    bars[f"batch of {batch_size}"] = {**state.as_dict(), "activation": kept_now}

memory_bars(bars, title="Memory of a step, for four sizes of the batch")

# %% [markdown]
# Only the activations grow with the batch. The other three are the same in all four bars.
#
# ### Build: count the state of a model
#
# <!-- word: frozen parameter -->
# <!-- word: tied parameter | also: shared parameter, weight tying -->
# You are given a list of parameters. Count what their training with AdamW holds, to the byte (in whole numbers), before
# any of it is allocated. A **frozen parameter** (`requires_grad` is False) does not learn. A **tied parameter** is used
# in two places of a model; here it stands in the list twice.


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
# ## One number that changes during a run
#
# You have counted the two tensors that AdamW keeps. What are they for? AdamW divides the running mean of each gradient
# by the root of the running mean of its square. The step is this quotient times the *learning rate*, `lr` ([Loshchilov
# and Hutter, 2019](https://arxiv.org/abs/1711.05101)). In the first step both means are made of one batch.
#
# **How far does a weight of a fresh CNN move in that step? Does it move farther where its gradient is larger?** Decide,
# then run.

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
fresh = SmallCNN().to(device)
before = [parameter.detach().clone() for parameter in fresh.parameters()]
fresh_optimizer = torch.optim.AdamW(fresh.parameters(), lr=1e-3, weight_decay=0.0)
train_step(fresh, fresh_optimizer, F.cross_entropy, x, y)

pairs = zip(before, fresh.parameters(), strict=True)
moved = torch.cat([(new - old)[new.grad != 0].abs().detach() / 1e-3 for old, new in pairs])
slopes = torch.cat([p.grad[p.grad != 0].abs() for p in fresh.parameters()])
print(f"the largest gradient is {slopes.max() / slopes.median():,.0f} times the median one")
within = ((moved - 1).abs() < 0.01).float().mean()
print(f"weights that moved by the learning rate, give or take 1 %: {within:.0%}")

# %% [markdown]
# Whether its gradient is large or small, a weight moves by the learning rate. After one batch AdamW knows the sign of a
# gradient, and nothing yet of how much it varies. The first steps are as long as later ones, but less is known about
# their gradients. So most runs begin with a small learning rate, raise it, and lower it again towards the end.
#
# <!-- word: learning-rate schedule | also: learning-rate scheduler -->
# A **learning-rate schedule** is the rule by which the learning rate changes from step to step. The usual one rises in
# a line (the *warm-up*), then sinks along half a cosine ([Loshchilov and Hutter,
# 2017](https://arxiv.org/abs/1608.03983)), so that the last steps are small ones.


# %%
def up_and_down(step, num_steps=69, warm_up=15):
    """The share of the highest learning rate: up in a line, then down along half a cosine."""
    if step < warm_up:
        return (step + 1) / warm_up
    done = (step - warm_up) / (num_steps - warm_up)
    return (1 + math.cos(math.pi * done)) / 2


def learn(schedule, highest=0.1, epochs=3):
    """Train a fresh CNN at ``highest`` times ``schedule(step)``; its losses, and the share of digits read right."""
    torch.manual_seed(0)
    net = SmallCNN().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=highest)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    losses, batches = [], loader(train, 64)
    for x, y in chain(*(batches for _ in range(epochs))):
        losses.append(train_step(net, optimizer, F.cross_entropy, x, y))
        scheduler.step()  # once a step, after the optimizer's
    with torch.no_grad():
        return losses, accuracy(net.eval()(images), labels)


# %% [markdown]
# The highest rate is thirty times that of our first run, which seems too high.

# %% tags=["nbval-ignore-output"]
runs = {"constant": learn(lambda step: 1.0), "up and down": learn(up_and_down)}
for name, (losses, share) in runs.items():
    end = sum(losses[-10:]) / 10
    print(
        f"{name:<12} first ten steps: up to {max(losses[:10]):.1f}; last ten: {end:.2f}; unseen digits: {share:.1%}"
    )
lines(
    {name: (range(len(losses)), losses) for name, (losses, _) in runs.items()},
    x_label="step",
    y_label="loss",
    title="The same highest rate, with and without a schedule",
)

# %% [markdown]
# Look at both ends of each curve. The lines above the figure give the highest loss of the first ten steps, and the mean
# of the last ten. (A single step says little.) Compare these numbers between the two runs. One model and one seed are
# an example, no proof. With `highest=3e-3` (try it) the loss does not jump at the start, and the schedule need not win.
# Lesson 04 comes back to warm-up, for many ranks and large batches.

# %% [markdown]
# ## Clinic: a job that dies after its first epoch
#
# *Symptoms.* Memory grows until the process dies. This happens every time in the first evaluation, just after the first
# epoch. With a smaller data set nothing happens. Here is the code:


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


def evaluate_all(model, batches):
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
# Here is the evidence: the ledger's numbers before every batch, in both functions.


# %%
def marked(ledger, batches):
    """Hand out the batches, and mark the moment before each of them."""
    for number, batch in enumerate(batches):
        ledger.mark(f"before batch {number}")
        yield batch


batches = [(x.to(device), y.to(device)) for x, y in loader(test, 64, shuffle=False)]
for title, run in {
    "training": lambda parts: train_epoch(model, optimizer, parts),
    "evaluation": lambda parts: evaluate_all(model, parts),
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
# ### Mend it
#
# Write the evaluation so that it keeps nothing for a backward pass that never comes. Then memory does not grow from
# batch to batch. It may change the mode of the model, and nothing else of it.


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
# Nobody writes a ledger by hand. On a GPU, PyTorch keeps one:
#
# | you used | production code uses |
# |---|---|
# | the ledger's peak | `torch.cuda.max_memory_allocated()` |
# | its curve | a memory snapshot: every block with the line that made it |
# | `evaluate` | `torch.no_grad()` or `torch.inference_mode()` |
# | `up_and_down` | `LambdaLR`, as above, or `LinearLR` and `CosineAnnealingLR` joined by `SequentialLR` |
#
# ([Understanding CUDA memory usage](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html) says how to take a
# snapshot, and how to look at it.)
#
# <!-- word: allocated memory -->
# <!-- word: reserved memory -->
# Two numbers of a GPU are easily mixed up. **Allocated memory** is what tensors hold now. **Reserved memory** is what
# PyTorch has taken from the driver and keeps, so that the next tensor need not ask for it. `nvidia-smi` shows the
# reserved memory, and some hundred MiB that CUDA itself takes: so it does not say what your model needs.

# %% tags=["nbval-ignore-output"]
if device.type == "cuda":
    print(f"allocated {bytes_text(torch.cuda.memory_allocated(device))}")
    print(f"reserved  {bytes_text(torch.cuda.memory_reserved(device))}")
else:
    print("blocked: needs a GPU. PyTorch counts no memory of the CPU; the ledger above does.")

# %% [markdown]
# ## What you can do now
#
# You can say what a training step holds, by label and to the byte, before you start it. State belongs to the model, and
# activations belong to the batch. And when memory grows, you know what to look for: the variable that still holds it.
#
# [Part 2](01b_time_and_data.ipynb) asks where the *time* of a step goes. [Part 3](01c_less_memory.ipynb) makes the same
# training do with less memory.
#
# **Further reading.** Rajbhandari et al., [ZeRO: Memory Optimizations Toward Training Trillion Parameter
# Models](https://arxiv.org/abs/1910.02054) (2020), section 3: where the memory of a large model goes.
