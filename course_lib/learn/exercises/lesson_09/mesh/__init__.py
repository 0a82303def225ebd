"""09.mesh: a training step on a mesh of one's own, in seven steps; each demands what those before it demand.

``cases.py`` has the situations and what one process gives for them, ``enough.py`` what a rank may send, hold and write,
``trial.py`` what is done with a trainer on a rank, ``reports.py`` what is looked at, ``right.py`` what is expected and
the judge; ``signs.py`` and ``mistakes.py`` are about wrong answers. A later step keeps of the earlier situations as
many as show all facts: each takes about a second of all ranks' processors.
"""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_09.mesh import mistakes, reports
from course_lib.learn.exercises.lesson_09.mesh.cases import (
    AWKWARD,
    CHECKPOINT,
    LIMITED,
    MESSAGES,
    PLAIN,
    SHARDS,
    STAGES,
)
from course_lib.learn.exercises.lesson_09.mesh.right import mesh_judge

__all__ = ["MESH_STEPS"]

_FORBIDDEN = (
    "course_lib.parallel.mesh.mesh_trainer.MeshTrainer",
    "course_lib.parallel.mesh.on_mesh.OnMesh",
    "course_lib.parallel.mesh.clipping.gradient_norm",
    "course_lib.parallel.mesh.checkpoint.save_on_mesh",
    "course_lib.parallel.mesh.checkpoint.load_on_mesh",
)

MESH_STEPS = (
    Exercise(
        name="09.mesh_values",
        title="Your trainer on a mesh, 1: data and slices",
        judge=mesh_judge(reports.MeshValuesReport, *PLAIN),
        mistakes=mistakes.OF_VALUES,
        hints=(
            "Which ranks have rows of their own, and which work on the same rows? Which rank has a whole gradient, "
            "and from which rows?",
            "Slices first: `split_transformer` with the group along tp. Then the rows of this rank's place along "
            "dp_shard. A rank's loss is weighted by its share of all rows. Gradients and loss are summed along "
            "dp_shard, and not along tp.",
            "`tokens.tensor_split(n)[place]`, `vocab_parallel_cross_entropy(...) * len(rows) / len(tokens)`, "
            "`backward()`, `dist.all_reduce(part.grad, group=groups.group('dp_shard'))`, `optimizer.step()`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Losses and weights are those of one process, where rows are shared out and layers are cut.",
    ),
    Exercise(
        name="09.mesh_stages",
        title="Your trainer on a mesh, 2: stages",
        judge=mesh_judge(reports.MeshStagesReport, *PLAIN, *STAGES),
        mistakes=mistakes.OF_STAGES,
        hints=(
            "What does a stage need from the stage before it, and what does it hand back? Which rank has that stage?",
            "GPipe is enough: all micro-batches forward, then all of them backward in the same order. The rank before "
            "has the activations and gets their gradients. The ranks of the pipeline are `mesh.group(me.rank, 'pp')`.",
            "Forward: `dist.recv(x, before)`, `x.requires_grad_()`, `out = stage(x)`, `dist.send(out.detach(), "
            "after)`. Backward: `dist.recv(grad, after)`, `out.backward(grad)`, `dist.send(x.grad, before)`. All ranks "
            "add the loss or 0 to a sum.",
        ),
        forbidden=_FORBIDDEN,
        passed="Losses and weights are those of one process, with two stages and with four.",
    ),
    Exercise(
        name="09.mesh_shards",
        title="Your trainer on a mesh, 3: states, shared out",
        judge=mesh_judge(reports.MeshShardsReport, *PLAIN[:2], *STAGES[:2], *SHARDS),
        mistakes=mistakes.OF_SHARDS,
        hints=(
            "An optimizer keeps states for what it was given. What would it need to step a part of each weight?",
            "Lay all that learns on this rank in one vector, and cut it in as many shares as dp_shard has ranks. The "
            "optimizer gets this rank's share. After its step the shares are gathered, and the parts get their "
            "numbers.",
            "`flat = torch.cat([p.detach().flatten() ...])`, padded with `F.pad(flat, (0, -len(flat) % n))`; `share = "
            "nn.Parameter(flat.chunk(n)[place].clone())`, `optimizer_class([share], **defaults)`; then "
            "`dist.all_gather(list(flat.chunk(n)), share.detach(), group=...)`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Each rank along dp_shard keeps states for its share alone.",
    ),
    Exercise(
        name="09.mesh_messages",
        title="Your trainer on a mesh, 4: messages",
        judge=mesh_judge(reports.MeshMessagesReport, *PLAIN[2:], *STAGES[2:], *SHARDS, *MESSAGES),
        mistakes=mistakes.OF_MESSAGES,
        hints=(
            "For each axis: what does a rank have to hear from the others in a step?",
            "Along dp_shard it needs the sum of its share of the gradients, and the new weights. Along tp it needs "
            "what the split regions send, along pp activations and their gradients. Along several axes at once it "
            "needs only a few numbers.",
            "`dist.reduce_scatter(share.grad, list(flat_grad.chunk(n)), group=...)` in place of an all-reduce.",
        ),
        forbidden=_FORBIDDEN,
        passed="Every axis carries the bytes that a step needs, and no more.",
    ),
    Exercise(
        name="09.mesh_norm",
        title="Your trainer on a mesh, 5: one norm",
        judge=mesh_judge(reports.MeshNormReport, *PLAIN[2:], *STAGES[2:], *SHARDS, *LIMITED),
        mistakes=mistakes.OF_NORM,
        hints=(
            "Which numbers of your gradient does another rank have as well? Which of the two ranks counts them?",
            "Shares of dp_shard, slices of tp and stages of pp are all different: their squares add up. What tp has "
            "not cut is the same on all its ranks: the first of them counts it. Then make one sum over all ranks.",
            "`parameter_placements(model)` says what tp has cut. A vector of ones and zeros, laid out as the gradient: "
            "`square = (share.grad.square() * counts).sum()`, `dist.all_reduce(square)`, and all ranks multiply by "
            "`(max_norm / (norm + 1e-6)).clamp(max=1.0)`.",
        ),
        forbidden=_FORBIDDEN,
        passed="The norm is right, with each number counted once, and all ranks limit the gradient by it.",
    ),
    Exercise(
        name="09.mesh_checkpoint",
        title="Your trainer on a mesh, 6: a checkpoint for any mesh",
        judge=mesh_judge(reports.MeshCheckpointReport, *PLAIN[2:], *SHARDS, *LIMITED, *CHECKPOINT),
        mistakes=mistakes.OF_CHECKPOINT,
        hints=(
            "Which names does every mesh know? What would a rank with other slices and stages look for?",
            "Undo the cuts in the opposite order: shares along dp_shard to parts, parts along tp to whole parameters. "
            "One rank of each stage writes a file. The rank that loads reads all files, and cuts anew.",
            "For weights and each state: gather the shares, give the pieces their names and shapes, then "
            "`dist.all_gather_object(pieces, piece, group=...)` along tp and `torch.cat(pieces, dim)`. After loading, "
            "the share is made from the new parts, and `optimizer.state[share]` gets its states and its `step`.",
        ),
        forbidden=_FORBIDDEN,
        passed="A checkpoint is written once, and training goes on from it on any mesh.",
    ),
    Exercise(
        name="09.mesh_awkward",
        title="Your trainer on a mesh, 7: awkward models",
        judge=mesh_judge(
            reports.MeshAwkwardReport,
            *(*SHARDS, *LIMITED[:2], *CHECKPOINT[1:], *AWKWARD),
            with_one_rank=True,
        ),
        mistakes=mistakes.OF_AWKWARD,
        hints=(
            "Which of these awkward things does `__init__` see, which `step`, and which `save`? Try them one by one.",
            "A tied matrix is on two ranks of a pipeline: they exchange gradients, and one of them counts in the "
            "norm. Frozen weights are in `parts` and in the file, and not in the vector. A micro-batch's loss is "
            "weighted by its rows.",
            "`model.head.w_vocab.weight is model.stem.tokens.weight` says that it is tied, before the split. Its two "
            "ranks are `pipe[0]` and `pipe[-1]`: `dist.isend`, `dist.irecv`, wait for both, and add. `if "
            "out.requires_grad: out.backward(grad)`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your class is right with tied and frozen weights, uneven batches and sizes, an optimizer without "
        "states, and one rank.",
    ),
)
