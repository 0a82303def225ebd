# %% [markdown]
# # 03b · Data parallelism in one process: what one process costs
#
# One device runs out of memory before the others, threads wait for each other, and a saved file loads nothing. You
# measure and mend the reasons why people left `nn.DataParallel`.
#
# **70 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 2 of 3 · [1: four steps](03a_data_parallel.ipynb) · [3: build it whole](03c_build_data_parallel.ipynb)
#
# This part builds on [03a: four steps](03a_data_parallel.ipynb). Have you done it? `from course_lib import start;
# start("03b")` says whether you have.
#
# At the end you can
#
# - predict which device fills up first, and with what;
# - say what threads gain for a model of large layers, and for one of many small ones;
# - run replicas in threads, so that neither a mode nor an error gets lost;
# - find out why a checkpoint loads nothing.
#
# From part 1 you need the four steps. Scatter cuts the batch, replicate copies the model, parallel apply runs each
# replica in a thread, and gather joins the outputs. The next cells import the course's functions for them, and make a
# model and a batch.

# %%
from course_lib import ask, check, cost, hint, machine, problems, quiz, reveal, shared_cluster, solution
from course_lib.data import digits, documentation_windows, loader
from course_lib.meter import bytes_text
from course_lib.models import SmallCNN, Transformer, TransformerConfig, next_token_loss, parameter_count
from course_lib.parallel.data import DataParallel, gather, memory_by_device, replicate, scatter
from course_lib.plot import memory_bars
from course_lib.rounding import agree

import threading
import warnings

import torch
import torch.nn.functional as F
from torch import nn

# %%
devices = ["cpu"] * 4  # four replicas on one CPU compute what four GPUs would
torch.manual_seed(0)
model = SmallCNN(batch_norm=False)
x, y = next(iter(loader(digits().train, 32)))

# %% [markdown]
# ## Which device is full first?
#
# ![Four bars for four devices. Each has parameters and activations; device 0 has a box with a question mark on
# top](../assets/03_memory_question.png)
#
# All devices hold the same weights and a quarter of the batch each. Yet it is device 0 that runs out of memory.
#
# **Four devices train the small transformer of lesson 01, with AdamW, on 32 texts. At the end of the forward pass, how
# many times as much does device 0 hold as device 1?**

# %%
### BEGIN SOLUTION
### STUB ask("03.device_0")
ask("03.device_0").commit(4)  # "everything comes back to it"
### END SOLUTION

# %%
torch.manual_seed(0)
config = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
reader = Transformer(config)
optimizer = torch.optim.AdamW(reader.parameters())
text, _ = documentation_windows(config.context_length)
tokens, targets = next(iter(loader(text, 32)))

next_token_loss(DataParallel(reader, devices)(tokens), targets).backward()
optimizer.step()  # AdamW has its state now, and the model its gradients

# %% [markdown]
# On GPUs you can ask each device how much memory it holds. Here `memory_by_device` lets the replicas run one after
# another, each under a ledger (lesson 01) that sees what *its* device would hold.

# %%
held = memory_by_device(reader, optimizer, (tokens, targets), next_token_loss, num_devices=4)
memory_bars(held, title="At the end of the forward pass")

# %%
reveal("03.device_0", held)

# %% [markdown]
# In the bars, *other* is the gathered outputs. The loss has made a second table of that size, their logarithms, which
# its backward pass needs. This table counts among the activations of device 0.
#
# This reader chooses among 256 bytes. Language models choose among tens of thousands of tokens, for each token of each
# text. How many bytes are these outputs in a model of 12 layers, by the formulas of lesson 01?

# %%
large = TransformerConfig(vocab_size=50_257, context_length=512, num_layers=12, width=768, num_heads=12)
with torch.device("meta"):  # sizes without memory
    state = cost.model_state(parameter_count(Transformer(large)))
logits_bytes = 4 * 32 * large.context_length * large.vocab_size
print("gradients and optimizer state:", bytes_text(state.gradients + state.optimizer))
print(
    "outputs of the whole batch:   ",
    bytes_text(logits_bytes),
    "and as much again each for the loss and for the gradient",
)

# %% [markdown]
# ### Let the replicas compute the loss
#
# The usual solution is to put the loss into the module. Each replica then returns a single number in place of its
# logits.


# %%
class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        return F.cross_entropy(self.model(x), y)


x10, y10 = x[:10], y[:10]
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    losses = DataParallel(WithLoss(model), devices)(x10, y10)
print("came back:", tuple(losses.shape), "and a warning:", told[0].message)

# %% [markdown]
# Four scalars became a vector of four, which `backward` refuses. So programs call `losses.mean().backward()`. That is
# right until a batch cannot be cut evenly:

# %%
sizes = torch.tensor([len(part) for part in scatter(x10, devices)])
whole = F.cross_entropy(model(x10), y10)
print("rows:", sizes.tolist())
print("mean of the means is the batch's loss:    ", agree(losses.mean(), whole, within=1e-5))
print("means weighed by rows are the batch's loss:", agree((losses * sizes).sum() / 10, whole, within=1e-5))

# %% [markdown]
# The last row counted as much as three others. You met this in lesson 01, with pieces of a batch; it will come back
# with ranks.

# %% [markdown]
# ## Threads
#
# <!-- word: thread -->
# <!-- word: GIL | also: global interpreter lock -->
# **Threads** are lines of work that go on side by side in one process and share its memory. *Parallel apply* runs each
# replica in a thread. A usual Python has one lock, the **GIL** (global interpreter lock): only one thread at a time
# runs Python. PyTorch releases the lock while an operator computes, so two threads can compute at once, as long as they
# are inside operators.
#
# **Two threads, on two cores, run a model of 100 small layers, each on half of the batch. How many times as fast are
# they as one thread with the whole batch?**

# %%
### BEGIN SOLUTION
### STUB ask("03.threads")
ask("03.threads").commit(1.8)  # "nearly two"
### END SOLUTION

# %% [markdown]
# Here is a fair race between one worker, two threads and two *processes* (ranks of the cluster). They run in turns,
# with one core for each worker. They exchange nothing and copy no weights. They run forward passes alone, since these
# are what `nn.DataParallel` runs in threads. The fastest round of each counts: whatever else your machine does can only
# lengthen a time.


# %%
def many_small_layers():
    return nn.Sequential(*(nn.Linear(32, 32) for _ in range(100))), torch.ones(256, 32)


def few_large_layers():
    return nn.Sequential(nn.Linear(1024, 1024), nn.Linear(1024, 1024)), torch.ones(512, 1024)


# %% tags=["nbval-ignore-output"]
from course_lib.parallel.data import interpreter_lock, threads_or_processes

ranks = shared_cluster(2)
races = {
    "100 small layers": threads_or_processes(ranks, many_small_layers, backward=False, steps=5, rounds=25),
    "2 large layers": threads_or_processes(ranks, few_large_layers, backward=False, steps=3, rounds=9),
}
print(f"the lock is {interpreter_lock()}; times as fast as one worker:")
for which, race in races.items():
    print(f"{which:<18} 2 threads {race.threads_speed_up:4.2f}   2 processes {race.processes_speed_up:4.2f}")

# %% tags=["nbval-ignore-output"]
reveal("03.threads", races["100 small layers"])

# %% [markdown]
# ![Above, two threads in one process that share a lock: each works while it holds the lock, and waits while the other
# has it. Below, two processes with a lock each work side by side](../assets/03_threads.png)
#
# <!-- word: launch | also: kernel launch -->
# The picture is the extreme case, in which all the work is Python. With few large layers the threads spend their time
# inside operators, without the lock; on two free cores they then come closer to the processes. So "Python threads are
# slow" is not the rule. The rule is: **the lock costs the time that your model spends in Python**. On a GPU, Python
# only **launches** an operator: it hands it to the device and goes on without waiting. There the lock costs more,
# because one interpreter has to launch for all devices.
#
# (How far two processes get depends on the cores that are really free. Compare the processes first. If two processes on
# your machine are far less than twice as fast with the large layers, the race says little about threads. Look at what
# else is running, and race again.)
#
# <!-- word: free-threaded | also: no-GIL build -->
# A **free-threaded** Python is a build of Python without the GIL. With it, the reason for the difference above is gone,
# and threads would still share everything else. We have not measured it: the course installs the usual build.
# `interpreter_lock()` says which one you have, so that you can run the race yourself.
#
# <details>
# <summary>An aside: since when</summary>
#
# The free-threaded build exists since Python 3.13.
#
# </details>

# %% [markdown]
# ## Build: parallel apply
#
# Write parallel apply. A thread is `threading.Thread(target=work, args=(r,))`. Its `start()` begins it, and its
# `join()` waits for its end. A new thread does not inherit what is set for the caller's thread, such as
# `torch.no_grad()`. An exception in a thread ends that thread alone. `raise NewError(...) from error` keeps the old
# error with the new one.


# %%
def apply_in_threads(modules, inputs):
    """``modules[r](inputs[r])`` for every r, at the same time; a list of the results in this order."""
    results, failures = [None] * len(modules), {}

    def work(r):  # what one thread does
        ### BEGIN SOLUTION: run module r as the caller would; keep its result, or its failure
        try:
            with torch.set_grad_enabled(recording):
                results[r] = modules[r](inputs[r])
        except Exception as error:
            failures[r] = error
        ### END SOLUTION

    # Does the caller record? Start all threads. Wait for all. If one failed, tell which.
    ### BEGIN SOLUTION: a thread for each module, all at the same time
    recording = torch.is_grad_enabled()
    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for r, error in sorted(failures.items()):
        raise RuntimeError(f"replica {r} failed: {error}") from error
    return results
    ### END SOLUTION


# %%
threads_verdict = check("03.threads", apply_in_threads)

# %%
# hint("03.threads")

# %% [markdown]
# Here are all four steps, with your function for the third:

# %%
if threads_verdict.passed:
    logits = gather(apply_in_threads(replicate(model, devices), scatter(x, devices)), "cpu")
    alike = agree(logits, model(x), within=1e-5)
    print("four threads of yours, one forward pass, as one device:", alike)

# %% [markdown]
# ## Clinic: a model that forgot everything
#
# *Symptoms.* A model was trained on four GPUs and saved. Fine-tuning starts from that file, and begins at the loss of a
# model that has never seen a digit. There is no error. Here are the two lines:
#
# ```python
# torch.save(wrapped.state_dict(), path)                        # at the end of the training
# model.load_state_dict(torch.load(path), strict=False)         # at the start of the fine-tuning
# ```
#
# **Why is nothing left of the training?** Name your suspect before you see the evidence.

# %%
### BEGIN SOLUTION
### STUB ask("03.keys")
ask("03.keys").commit("the model is in training mode")  # one forgets eval() so easily
### END SOLUTION

# %% [markdown]
# <!-- word: state dict | also: `state_dict` -->
# A **state dict** is what is saved of a model: a dictionary with the name and the tensor of each parameter and buffer.
# The evidence is what `load_state_dict` returns, which nobody had looked at. The cell also prints a name from the model
# and one from the file.

# %%
in_file = DataParallel(model, devices).state_dict()
fresh = SmallCNN(batch_norm=False)
report = fresh.load_state_dict(in_file, strict=False)
missing, unexpected = report.missing_keys, report.unexpected_keys
print("saved:", len(in_file), "tensors; missing:", len(missing), "unexpected:", len(unexpected))
print("the model asks for ", missing[0])
print("the file offers    ", unexpected[0])

# %%
reveal("03.keys")

# %% [markdown]
# Two habits prevent this fault: save `wrapped.module.state_dict()`, load it into the bare model, and wrap afterwards;
# and never use `strict=False` to silence an error.
#
# ### Mend it
#
# There are many files like that. Write a `load` that accepts the files of a model and those of a wrapper. It still
# raises an error for what is not this model. Now and then a bare model has a part of its own that is called `module`;
# its names are right as they are.


# %%
def load(model, saved):
    """Load ``saved`` into the bare ``model``, whoever saved it: the model or a wrapper. ``saved`` stays as it is."""
    ### BEGIN SOLUTION: bring the names to those of the bare model, where they are not
    if saved.keys() != model.state_dict().keys():
        saved = {name.removeprefix("module."): tensor for name, tensor in saved.items()}
    model.load_state_dict(saved)
    ### END SOLUTION


# %%
check("03.load", load)

# %%
# hint("03.load")

# %% [markdown]
# ## What the articles say
#
# The course puts five articles on trial, and says in its own words what they claim. Here are four sentences about
# `nn.DataParallel`, from articles C and D. **Bet on each before you run the cell**: does it hold, hold with conditions,
# mislead, or is it false? You have measured enough to argue for most of them. A trial in `course_lib/claims` decides by
# its numbers, or it says *cannot tell here*. It says this where the machine lacks the GPUs that it needs, or is too
# busy for its times to be right.
#
# - C2: `DistributedDataParallel` is faster than `nn.DataParallel` because it uses one process for each device.
# - C4: to move the model to the GPU *after* wrapping it is an error, or falls back to the CPU.
# - D4: `nn.DataParallel` needs no change to the training loop.
# - D6: the first GPU uses the most memory, because it holds parameters, gradients and optimizer state.

# %% tags=["nbval-ignore-output"]
from course_lib.claims import trial, verdicts

print(verdicts("C2", "C4", "D4", "D6"))

# %% [markdown]
# The verdict "with conditions" helps you only when you know the conditions. D4 has three, and you have met all of them,
# one in part 1. Name them before you run the cell.

# %%
print(trial("D4").run())

# %% [markdown]
# Where you have no GPUs, you can decide D6 from your own bars above. Look whether device 0 has more of something
# besides parameters, gradients and optimizer state.

# %% [markdown]
# ## In production
#
# Here is the real class on two GPUs. With fewer GPUs, there is nothing that it could do.

# %% tags=["nbval-ignore-output"]
num_gpus = len(machine().devices)
if num_gpus < 2:
    print(f"blocked: needs 2 GPUs, and this machine has {num_gpus}")
else:
    real = nn.DataParallel(SmallCNN(batch_norm=False).to("cuda:0"), device_ids=[0, 1])
    optimizer = torch.optim.AdamW(real.parameters())
    F.cross_entropy(real(x.to("cuda:0")), y.to("cuda:0")).backward()
    optimizer.step()
    for gpu in (0, 1):
        print(f"GPU {gpu}: at most {bytes_text(torch.cuda.max_memory_allocated(gpu))}")

# %% [markdown]
# `nn.DataParallel` is not formally deprecated. But [its
# documentation](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html) recommends
# `DistributedDataParallel` in its place, on one machine too, and you have seen why. You will meet it in older code;
# then you know what its one line does.
#
# | you wrote or used | production code has |
# |---|---|
# | `replica_tensors` | `torch.nn.parallel.replicate`, which sends many tensors in one go |
# | `apply_in_threads` | `torch.nn.parallel.parallel_apply`, with a CUDA stream for each device |
# | `scatter`, `gather` | the same names in `torch.nn.parallel` |
# | `load` | `torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(saved, "module.")` |
#
# (The last one strips the prefix in place, and does not look at the model. If a part of the model is itself called
# `module`, that part loses its name.)
#
# The course's own version is in `course_lib/parallel/data/threads/data_parallel.py`, about four screens.

# %% [markdown]
# ## Five questions

# %% tags=["computed-time"]
quiz("03")

# %% [markdown]
# ## What you can do now
#
# You can say which device runs out of memory and with what. You can judge threads by the time that a model spends in
# Python, and load a file whoever saved it. Together with part 1 you can name the four prices of `nn.DataParallel`. All
# replicas share one interpreter, device 0 fills first, the weights are sent in every step, and a model must not
# remember anything.
#
# **The limit.** All four have one cause: *one process works for all devices*. [Lesson
# 04](04a_distributed_data_parallel.ipynb) gives every device a process of its own, with its interpreter, its loader,
# its optimizer and a model that stays. It asks first what still has to travel then, and how often.
#
# **Further reading.** [PEP 703](https://peps.python.org/pep-0703/), the motivation: the lock, and what becomes possible
# without it. Python's own [page on free threading](https://docs.python.org/3/howto/free-threading-python.html).

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. You get numbers of your own, and new ones for
# each further try. When a problem is over, you see its solution step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("03")
problems("03", ways=True)
### END SOLUTION
