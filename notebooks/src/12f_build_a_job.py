# %% [markdown]
# # 12f · Beyond one machine: build a job that outlives its ranks
#
# You fill one empty class in seven steps, and each step needs more of it. At the end a rank and then a node are killed
# while your class trains a model. The final weights are still those of an undisturbed job.
#
# **2 × 75 minutes · difficulty 5 of 5 · needs: cpu**
#
# Part 6 of 6 · [1: two nodes](12a_two_nodes.ipynb) · [2: when ranks die](12b_when_ranks_die.ipynb) · [3: thousands of
# GPUs](12c_thousands.ipynb) · [4: take it along](12d_take_it_along.ipynb) · [5: wrong
# numbers](12e_wrong_numbers.ipynb)
#
# This part builds on [04c: drift, checkpoints and the real thing](04c_drift_and_production.ipynb) and [12b: when ranks
# die](12b_when_ranks_die.ipynb). Have you done them? `from course_lib import start; start("12f")` says whether you
# have.
#
# At the end you can
#
# - write a training job that one number of ranks begins and any other number continues;
# - say for each moment of a save what a kill at that moment leaves on the disk;
# - distinguish what belongs to a rank, to a step and to the job.
#
# From [part 2](12b_when_ranks_die.ipynb) you need the state of a job, and from [04c](04c_drift_and_production.ipynb)
# how to write a file so that no crash can damage it.

# %%
from course_lib import build_progress, check, hint, mine, pace, shared_cluster, side_by_side
from course_lib.cluster import RankFailed, RankTimeout, folder_for_ranks
from course_lib.learn import elastic
from course_lib.mine import courses
from course_lib.nodes import Nodes
from course_lib.rounding import agree

import os
import tempfile
import zipfile
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

# %% tags=["nbval-ignore-output"]
two, three = shared_cluster(2), shared_cluster(3)

# %% [markdown]
# ![A line of steps on three ranks, with checkpoints after steps 3 and 6; the ranks die while they write the second one,
# and two ranks go on; question marks stand at the half-written file, at the step where they go on, and at their
# samples](../assets/12_outlives.png)
#
# ## One cell
#
# The next cell is all that you write. Seven steps follow it. Each step has a check, and needs all that the earlier
# steps need, and one thing more. So you come back to this cell: change it, run it, and run the next check.
#
# Take two sittings. The first one ends with step 3. Step 4 is the hardest.
#
# For each step, write the shortest code that passes its check. In steps 1 and 2 nothing is saved: do not change `save`
# and `resume` yet.


# %%
class MyJob:
    """Trains a model as one process would; another number of ranks can go on where these ranks have stopped.

    ``loss_of(model, samples, random)``: the *sum* of the losses of these samples, 0-d. You call it once a step on each
    rank, also with an empty list. It draws from ``random``, a ``torch.Generator`` of the CPU that is seeded with
    ``seed`` once, before step 0; all ranks draw the same. A step minimises the mean over the global batch.

    Epoch e has the order ``torch.randperm(num_samples, generator=torch.Generator().manual_seed(seed + e))``. The next
    ``batch_size`` of it are a global batch; the last one of an epoch has what is left. ``schedule``: None, or stepped
    after each step of the optimizer. On all ranks the model is the same, and ``folder`` is one folder, which exists.
    """

    def __init__(
        self, me, folder, model, optimizer, loss_of, num_samples, batch_size, schedule=None, seed=0, every=5
    ):
        ### BEGIN SOLUTION
        self.me, self.folder = me, Path(folder)
        self.model, self.optimizer, self.schedule = model, optimizer, schedule
        self.loss_of, self.num_samples, self.batch_size = loss_of, num_samples, batch_size
        self.seed, self.every, self.step = seed, every, 0
        self.random = torch.Generator().manual_seed(seed)

    def batch(self, step):
        """The samples of all ranks: which ones they are, the step alone says."""
        epoch, place = divmod(step, -(-self.num_samples // self.batch_size))
        draw = torch.Generator().manual_seed(self.seed + epoch)
        order = torch.randperm(self.num_samples, generator=draw).tolist()
        return order[place * self.batch_size : (place + 1) * self.batch_size]
        ### END SOLUTION

    def samples(self, step):
        """This rank's samples of a step, a list; all ranks' are the global batch, shared as evenly as possible."""
        ### BEGIN SOLUTION
        return self.batch(step)[self.me.rank :: self.me.world_size]
        ### END SOLUTION

    def run(self, until):
        """Train up to step ``until``, and ``save`` after each step whose number, from 1 on, ``every`` divides.

        Returns the mean losses of the global batches of the steps done now, a list of floats, on every rank the same.
        """
        ### BEGIN SOLUTION
        losses = []
        while self.step < until:
            losses.append(self.one_step())
            if self.step % self.every == 0:
                self.save()
        return losses

    def one_step(self):
        self.optimizer.zero_grad()
        size = len(self.batch(self.step))
        loss = self.loss_of(self.model, self.samples(self.step), self.random) / size
        loss.backward()
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        flat = torch.cat([loss.detach().view(1), *(grad.flatten() for grad in grads)])
        dist.all_reduce(flat)
        parts = flat[1:].split([grad.numel() for grad in grads])
        for grad, part in zip(grads, parts, strict=True):
            grad.copy_(part.view_as(grad))
        self.optimizer.step()
        if self.schedule is not None:
            self.schedule.step()
        self.step += 1
        return flat[0].item()

    def parts(self):
        """What has a ``state_dict``."""
        found = {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}
        return {name: part for name, part in found.items() if part is not None}

    def there(self):
        return sorted(self.folder.glob("step_????????.pt"))

    def write(self):
        state = {name: part.state_dict() for name, part in self.parts().items()}
        state |= {"random": self.random.get_state(), "step": self.step}
        draft = self.folder / "draft"
        with draft.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self.folder / f"step_{self.step:08d}.pt")
        for old in self.there()[:-2]:
            old.unlink()

    def read(self, path):
        with zipfile.ZipFile(path) as archive:
            if spoilt := archive.testzip():
                raise ValueError(f"{spoilt} in it has other bytes than were saved")
        return torch.load(path, weights_only=True)
        ### END SOLUTION

    def save(self):
        """Write a checkpoint. It is on the disk when this returns; until then the one before it is there.

        The last two whole checkpoints stay. If one cannot be written, every rank raises an error that says why.
        """
        ### BEGIN SOLUTION
        ### STUB pass  # from step 3 on
        told = [None]
        if self.me.rank == 0:
            try:
                self.write()
            except Exception as error:
                told = [f"step {self.step} could not be saved: {error}"]
        dist.broadcast_object_list(told, src=0)
        if told[0]:
            raise RuntimeError(told[0])
        ### END SOLUTION

    def resume(self):
        """Go on from the newest whole checkpoint in the folder. Returns its step; 0 where there is none."""
        ### BEGIN SOLUTION
        ### STUB return 0  # from step 3 on
        for path in reversed(self.there()):
            try:
                state = self.read(path)
            except Exception as error:
                print(f"{path.name} is passed over, for the one before it: {error}")
                continue
            for name, part in self.parts().items():
                part.load_state_dict(state[name])
            self.random.set_state(state["random"])
            self.step = state["step"]
            break
        return self.step
        ### END SOLUTION


# %% [markdown]
# ## Step 1: the values
#
# ### A worked example
#
# A job has data, a model, an optimizer with a schedule, and a loss that draws random numbers. The next cell has a small
# one. Its loss adds noise to all inputs, and then takes the rows that the caller asks for. So it does not matter which
# rank has which sample.

# %%
NUM, BATCH = 50, 8  # samples in an epoch, in a global batch: the last one has two
X, Y = torch.randn(2, NUM, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def objects(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4)).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.7)


def loss_of(model, samples, random):
    device = next(model.parameters()).device
    noise = torch.randn(X.shape, generator=random, dtype=X.dtype)
    rows = torch.tensor(samples, dtype=torch.int64)
    return ((model((X + 0.1 * noise)[rows].to(device)) - Y[rows].to(device)) ** 2).sum()


model, _, _ = objects(0)
both = [loss_of(model, samples, torch.Generator().manual_seed(1)).item() for samples in ([4, 9, 7], [9, 4])]
alone_7 = loss_of(model, [7], torch.Generator().manual_seed(1)).item()
print("sample 7 adds the same on each rank that has it:", agree(both[0] - both[1], alone_7, within=1e-9))

# %% [markdown]
# ### Your class
#
# The run below trains twelve steps on two ranks: by your class, by the course's and by one with PyTorch's checkpoints.
# The last one saves and loads by `torch.distributed.checkpoint` (DCP). `lives` has the steps at which a job stops; then
# new objects continue in the same folder. For a class that fails the table shows dashes.


# %%
def parts_of(job):
    """What a checkpoint of the course's job holds, as DCP wants it."""
    model, optimizer = get_state_dict(job.model, job.optimizer)
    rest = {"schedule": job.schedule.state_dict(), "random": job.random.get_state(), "step": job.step}
    return {"model": model, "optimizer": optimizer} | rest


# %%
class PyTorchs(courses.MyJob):
    """The course's job, with PyTorch's checkpoints: DCP writes a folder for each."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.job.save = self.save  # which `run` calls

    def save(self):
        dcp.save(parts_of(self.job), checkpoint_id=self.job.folder / f"{self.job.step:08d}")

    def resume(self):
        job, there = self.job, sorted(path.parent for path in self.job.folder.glob("*/.metadata"))
        if there:
            state = parts_of(job)  # it is read into what is there
            dcp.load(state, checkpoint_id=there[-1])
            both = {"model_state_dict": state["model"], "optim_state_dict": state["optimizer"]}
            set_state_dict(job.model, job.optimizer, **both)
            job.schedule.load_state_dict(state["schedule"])
            job.random.set_state(state["random"])
            job.step = state["step"]
        return job.step


# %%
JOBS = {"yours": MyJob, "the course's": courses.MyJob, "PyTorch's": PyTorchs}
SETTINGS = {"seed": 3, "every": 4}


def life(me, job_class, folder, until, model_seed):
    """Objects of one life, which go on in this folder: the step where they began, losses, and weights."""
    model, optimizer, schedule = objects(model_seed)
    device = torch.device("cpu") if me.backend == "gloo" else me.device
    made = job_class(me, folder, model.to(device), optimizer, loss_of, NUM, BATCH, schedule, **SETTINGS)
    begun = made.resume()
    losses = torch.tensor(made.run(until), dtype=torch.float64)
    return begun, losses, {name: one.detach().cpu() for name, one in model.state_dict().items()}


def fresh(me, root):
    """A new folder at each call, the same on all ranks."""
    calls = root / f"rank {me.rank}"
    calls.mkdir(exist_ok=True)
    number = len(list(calls.iterdir()))
    (calls / str(number)).touch()
    (root / f"run {number}").mkdir(exist_ok=True)
    return root / f"run {number}"


# %%
def all_lives(root, lives):
    def job(me, job_class):
        folder, losses = fresh(me, root), torch.empty(0, dtype=torch.float64)
        for number, until in enumerate(lives):
            begun, new, weights = life(me, job_class, folder, until, model_seed=number)
            losses = torch.cat([losses[:begun], new])
        return {"losses": losses} | weights

    return job


# %%
def alone(num_steps):
    """What one process gives, without any class."""
    model, optimizer, schedule = objects(0)
    random, losses = torch.Generator().manual_seed(SETTINGS["seed"]), []
    while len(losses) < num_steps:
        epoch = torch.Generator().manual_seed(SETTINGS["seed"] + len(losses) // -(-NUM // BATCH))
        for batch in torch.randperm(NUM, generator=epoch).split(BATCH)[: num_steps - len(losses)]:
            optimizer.zero_grad()
            loss = loss_of(model, batch.tolist(), random) / len(batch)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    weights = {name: one.detach() for name, one in model.state_dict().items()}
    return {"losses": torch.tensor(losses, dtype=torch.float64)} | weights


# %%
def beside(cluster, *lives):
    with folder_for_ranks(cluster) as root:
        side_by_side(
            cluster,
            all_lives(Path(root), lives),
            JOBS,
            expected=alone(lives[-1]),
            within=1e-9,
            build="12.job",
        )


# %% tags=["nbval-ignore-output"]
beside(two, 12)

# %%
check("12.job_values", MyJob)

# %%
# hint("12.job_values")

# %% [markdown]
# ## Step 2: samples
#
# Now the sizes do not divide evenly. The last batch of an epoch is smaller, perhaps smaller than there are ranks, and
# then a rank has no sample. The check calls `samples` for any step in any order. So the step alone must give the epoch,
# and the place in it. The check looks at two epochs, and at a much later step.

# %%
for step in (5, 6, 7):
    print("step", step, "· epoch and place:", divmod(step, -(-NUM // BATCH)))

# %%
check("12.job_samples", MyJob)

# %%
# hint("12.job_samples")

# %% [markdown]
# ## Step 3: a checkpoint
#
# `save` writes into the folder all that the next step depends on. `resume` is called on new objects: other weights, and
# a new optimizer and a new schedule. Afterwards these continue as if the job had never stopped. Go through the objects
# that your step reads: what does each of them remember?
#
# The check stops jobs after any step, also between two checkpoints. Steps that were lost are trained again, from the
# weights of the checkpoint. So no sample enters the surviving weights twice.

# %% tags=["nbval-ignore-output"]
beside(two, 9, 12)

# %%
check("12.job_checkpoint", MyJob)

# %%
# hint("12.job_checkpoint")

# %% [markdown]
# ## Step 4: killed while it saves
#
# A kill may come at any moment of a save, and to any rank. Then `resume` has to find a whole checkpoint: the new one,
# or the one before it. When `save` has returned, it must be the new one, even if the power fails. Keep the last two
# checkpoints, and remove older ones. Think about when you may remove them.
#
# The check kills no process. Python calls the check before each open, rename or removal of a file, and the check copies
# the folder each time. In one more copy the check cuts the file that is being written to half its length. Your class
# then resumes in every copy. In the copy for the power failure each file that you have not synced is empty.

# %%
with tempfile.TemporaryDirectory() as folder:
    for step in (9, 12):
        (Path(folder) / f"step_{step}.pt").touch()
    print("by name:", *sorted(path.name for path in Path(folder).iterdir()))

# %%
check("12.job_torn", MyJob)

# %%
# hint("12.job_torn")

# %% [markdown]
# ## Step 5: on another number of ranks
#
# Some ranks have died, and fewer are left; or a node has come back. The global batches stay the same, so losses and
# weights must stay the same, too. In the next cell three ranks stop after nine steps, and two continue. Find everything
# in your class that depends on the rank.

# %% tags=["nbval-ignore-output"]
for name, job_class in JOBS.items():
    with folder_for_ranks(three) as folder:
        try:
            three.run(life, job_class, folder, 9, 0)
            begun, losses, _ = two.run(life, job_class, folder, 12, 1)[0]
        except (RankFailed, RankTimeout) as error:
            print(f"{name:<13} {str(error).partition(chr(10))[0]}")
            continue
    want = alone(12)
    same = len(losses) == 12 - begun and torch.allclose(losses, want["losses"][begun:], rtol=1e-9)
    print(f"{name:<13} continues at step {begun}, with the losses of one process: {same}")

# %%
check("12.job_fewer", MyJob)

# %%
# hint("12.job_fewer")

# %% [markdown]
# ## Step 6: what it costs, and a full disk
#
# All ranks have the same weights and the same states. How many of them need to write, then, and what has to be sent in
# a save? The check counts both, for each rank. It also counts what a step without a save sends.
#
# Then the disk is full, on a rank that writes. No rank may continue as if the checkpoint were saved, and none may wait
# for ever. All ranks have to raise an error that says why. The next save may succeed.

# %% tags=["nbval-ignore-output"]
beside(three, 9, 12)

# %%
check("12.job_cost", MyJob)

# %%
# hint("12.job_cost")

# %% [markdown]
# ## Step 7: awkward jobs
#
# In which of these cases does your class raise an error, and in which does it give a wrong result without one?
#
# - frozen weights, tied weights, an optimizer without any state and no schedule;
# - a folder without a checkpoint, and one with files of other programs, which have to stay;
# - a newest checkpoint that was cut off, and one of the right size with wrong bytes;
# - two jobs at the same time, and one rank alone.
#
# If the newest checkpoint is damaged, use the one before it. One rank reports this, by `print` or as a warning, and
# names the file.

# %%
check("12.job_awkward", MyJob)

# %%
# hint("12.job_awkward")

# %% [markdown]
# ## Then ranks are killed
#
# Now your class runs on two nodes of one rank each, with real agents of torchrun. First rank 1 is killed by SIGKILL,
# then the whole node 1. One rank continues alone. (`mine.MyJob` is the version of your class that has passed step 5.
# Until then the course's own stands in.)

# %% tags=["nbval-ignore-output"]
own_job = mine.MyJob

# %%
LONG = 9 * -(-NUM // BATCH)  # nine epochs


def until_it_is_over(me, job_class, folder):
    """Step by step, with a line in this rank's diary for each; computing that takes a while."""
    model, optimizer, schedule = objects(0)
    checkpoints = folder / "checkpoints"
    made = job_class(me, checkpoints, model, optimizer, loss_of, NUM, BATCH, schedule, **SETTINGS)
    diary, step = elastic.Diary(me, folder), made.resume()
    while step < LONG:
        samples = made.samples(step)
        pace(me, 0.1)
        losses, step = made.run(step + 1), step + 1
        diary.note({"epoch": (step - 1) // -(-NUM // BATCH), "step": step}, samples)
    return losses[-1], {name: one.detach() for name, one in model.state_dict().items()}


# %% tags=["nbval-ignore-output"]
with tempfile.TemporaryDirectory() as kept, Nodes(2, ranks_per_node=1) as nodes:
    folder = Path(kept)
    (folder / "checkpoints").mkdir()
    print(nodes)
    job = nodes.torchrun(until_it_is_over, own_job, folder, max_restarts=5, min_nodes=1)
    until = partial(elastic.wait_for, folder, job=job)
    first = until(world_size=2, steps=6)
    job.kill(rank=1)
    second = until(world_size=2, steps=6, after=first)
    job.kill(node=1)
    job.wait(timeout_s=120)
    results, notes = job.results, elastic.read_diaries(folder)
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())

# %% tags=["nbval-ignore-output"]
for start in elastic.starts_of(notes):
    print(f"start {start.number}: {start.world_size} ranks, steps {start.first} to {start.last}")
print("checkpoints:", *names)

# %% [markdown]
# Count from these lines how many steps were done twice. The next cell compares losses and weights with those of one
# undisturbed process:

# %%
last_loss, weights = results[0]
undisturbed = alone(LONG)
print("the last loss of one process:", agree(last_loss, undisturbed["losses"][-1].item(), within=1e-9))
print("its weights:", agree(weights["0.weight"], undisturbed["0.weight"], within=1e-9))
deals = elastic.dealt(elastic.kept(notes), NUM)
print("epochs in which a sample was lost or seen twice:", [n for n, deal in deals.items() if deal != (0, 0)])

# %% [markdown]
# ## How far you are

# %% tags=["nbval-ignore-output"]
build_progress("12.job")

# %% [markdown]
# ## What you can do now
#
# You have written what torchtitan and other trainers have around `torch.distributed.checkpoint`. DCP does two more
# things. If weights are sharded, each rank writes its shards, and any number of ranks can read its own parts from them
# ([05b](05b_whole_for_a_moment.ipynb)). And `async_save` writes while training continues ([12c](12c_thousands.ipynb)).
#
# All nodes see your folder. If each node has a disk of its own, ranks must first agree on a checkpoint that all of them
# have. And a rename is on the disk only when its folder has been synced, too.
