"""12.job: a job of one's own that outlives its ranks, in seven steps; each demands what those before it demand.

``cases.py`` has the jobs and what one process gives for them, ``disk.py`` what a kill would leave of a folder,
``trial.py`` what is done with a job on a rank, ``told.py`` its words, ``reports.py`` what is looked at, ``right.py``
what is expected and the judge; ``signs.py`` and ``mistakes.py`` are about wrong answers.
"""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_12.job import mistakes
from course_lib.learn.exercises.lesson_12.job.right import job_judge

__all__ = ["JOB_STEPS"]

_FORBIDDEN = (
    "course_lib.parallel.jobs.resumable.ResumableJob",
    "course_lib.parallel.data.checkpoint.save_checkpoint",
    "course_lib.parallel.data.checkpoint.save_by_one",
    "course_lib.parallel.data.checkpoint.load_checkpoint",
    "course_lib.parallel.data.checkpoint.load_on_all",
    "course_lib.parallel.data.distributed_sampler.GlobalBatches",
    "torch.distributed.checkpoint.save",
)
_VALUES = ("batches that divide",)
_SAMPLES = ("a last batch of five", "a last batch of one")
_CHECKPOINT = ("jobs that were stopped",)
_TORN = ("kills within a save",)
_FEWER = ("another number of ranks",)
_COST = ("a larger model",)
_AWKWARD = (
    "frozen weights",
    "tied weights",
    "an optimizer without state",
    "an empty folder",
    "a checkpoint that was cut off",
    "a checkpoint with other bytes",
    "files of others in the folder",
    "two jobs at the same time",
)

JOB_STEPS = (
    Exercise(
        name="12.job_values",
        title="Your job, 1: the values",
        judge=job_judge((2, 3), _VALUES),
        mistakes=mistakes.OF_VALUES,
        hints=(
            "What would one process divide the sum of the losses by? What is each rank's part of that?",
            "A step: zero the gradients, take this rank's samples, divide `loss_of` by the size of the global batch, "
            "and call backward. Add up gradients and loss over all ranks, then optimizer and schedule. `random` is "
            "one generator, made in `__init__`.",
            "`loss = self.loss_of(self.model, self.samples(self.step), self.random) / len(batch)`, `loss.backward()`; "
            "`dist.all_reduce(p.grad)` for each parameter that has one, `whole = loss.detach().clone()`, "
            "`dist.all_reduce(whole)`; `optimizer.step()`, `schedule.step()`, `losses.append(whole.item())`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Losses and weights are those of one process, in one run and in parts.",
    ),
    Exercise(
        name="12.job_samples",
        title="Your job, 2: samples",
        judge=job_judge((2, 3), _SAMPLES, _VALUES),
        mistakes=mistakes.OF_SAMPLES,
        hints=(
            "Which epoch is step 97 in, and at which place in it? Can you say so without having run the steps before?",
            "Cut the epoch's order in global batches first, and a global batch in shares after. The last batch of an "
            "epoch may be short; a rank's share of it may be empty.",
            "`epoch, place = divmod(step, -(-num_samples // B))`, `batch = order[place * B : (place + 1) * B]`, "
            "`batch[me.rank :: me.world_size]`; the divisor is `len(batch)`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Every sample of an epoch comes once, in an order that depends on the step alone, and short batches "
        "stay short.",
    ),
    Exercise(
        name="12.job_checkpoint",
        title="Your job, 3: a checkpoint",
        judge=job_judge((2, 3), _CHECKPOINT, (*_VALUES, *_SAMPLES)),
        mistakes=mistakes.OF_CHECKPOINT,
        hints=(
            "On what does the next step depend? Go through your step line by line, and look at what each line reads.",
            "Model (with buffers), optimizer and schedule have a `state_dict()`, `random` a `get_state()`; the step "
            "says the place in the data. Rank 0 may write, since all ranks have the same. When may the others go on?",
            "`torch.save({'model': model.state_dict(), 'optimizer': ..., 'schedule': ..., 'random': "
            "random.get_state(), 'step': step}, path)` on rank 0, then a barrier. `resume`: every rank reads the file, "
            "loads each part, and returns the step.",
        ),
        forbidden=_FORBIDDEN,
        passed="A job that was stopped after any step goes on as if it had not been stopped.",
    ),
    Exercise(
        name="12.job_torn",
        title="Your job, 4: killed while it saves",
        judge=job_judge((2, 3), _TORN, (*_VALUES, *_SAMPLES, *_CHECKPOINT)),
        mistakes=mistakes.OF_TORN,
        hints=(
            "Which names does `resume` look for? At which moment may a file get such a name?",
            "Write under another name in the same folder, flush, `os.fsync`, and then `os.replace`: a rename is whole "
            "or has not happened. Remove old ones after that. The newest has the largest *number*.",
            "`with draft.open('wb') as file: torch.save(state, file); file.flush(); os.fsync(file.fileno())`, "
            "`os.replace(draft, folder / f'step_{step:08d}.pt')`, then `unlink` all but the last two of "
            "`sorted(folder.glob('step_*.pt'))`.",
        ),
        forbidden=_FORBIDDEN,
        passed="At each moment of a save a whole checkpoint is there; and when it has returned, the new one is.",
    ),
    Exercise(
        name="12.job_fewer",
        title="Your job, 5: on another number of ranks",
        judge=job_judge((2, 3), _FEWER, (*_VALUES, *_SAMPLES, *_CHECKPOINT, *_TORN)),
        mistakes=mistakes.OF_FEWER,
        hints=(
            "What in your checkpoint belongs to a single rank? What does it mean on a rank that was not there?",
            "Keep what the *job* has done: steps, and not samples of a rank. Where each rank has a file of its own, "
            "write down how many there are, and let every rank read all.",
            "A global batch is cut before it is shared: `batch[me.rank :: me.world_size]` with the `me` of the new "
            "run. The divisor, the order and `random` know nothing of the number of ranks.",
        ),
        forbidden=_FORBIDDEN,
        passed="A job that began on two or three ranks went on with the other number, with the same losses and "
        "weights.",
    ),
    Exercise(
        name="12.job_cost",
        title="Your job, 6: what it costs, and a full disk",
        judge=job_judge((2, 3), _COST, (*_VALUES, *_SAMPLES, *_CHECKPOINT, *_TORN, *_FEWER)),
        mistakes=mistakes.OF_COST,
        hints=(
            "Which ranks have something that no other has? What must a rank learn from the others in a save?",
            "One rank writes, or each its part. Then one small message says to all ranks whether that worked, or "
            "which error came. The rank that has failed must make that call like the others.",
            "`told = [None]`; on rank 0 `try: write() except Exception as error: told = [str(error)]`; on all "
            "`dist.broadcast_object_list(told, src=0)`, and `if told[0]: raise RuntimeError(told[0])`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Each byte is written once, steps send gradients alone, and all ranks learn of a full disk.",
    ),
    Exercise(
        name="12.job_awkward",
        title="Your job, 7: awkward jobs",
        judge=job_judge((3, 1), _AWKWARD, (*_VALUES, *_SAMPLES, *_CHECKPOINT, *_TORN, *_FEWER, *_COST)),
        mistakes=mistakes.OF_AWKWARD,
        hints=(
            "What does `resume` do with a file that it cannot read? And with a file in which some numbers have "
            "changed?",
            "Go through your checkpoints from the newest on, and use the first that is whole. Does your format have a "
            "checksum, and does your code check it?",
            "`for path in reversed(self.there()): try: state = self.read(path) except Exception as error: "
            "print(f'{path.name}: {error}'); continue`; in `read`, `zipfile.ZipFile(path).testzip()` names a part that "
            "does not match its checksum.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your class is right with frozen and tied weights, no state, no checkpoint, a damaged one, files of "
        "others, two jobs, and one rank.",
    ),
)
