"""09.assemble: a transformer on a mesh of three axes, put together from what the course has for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_09.assemble import mistakes
from course_lib.learn.exercises.lesson_09.assemble.cases import FIRSTS, LAYOUTS, ONE_RANK
from course_lib.learn.exercises.lesson_09.assemble.reports import AssembleReport, right
from course_lib.learn.exercises.lesson_09.assemble.trial import trial
from course_lib.learn.judging.failure import NotAnAnswer
from course_lib.learn.judging.judge import RankJudge
from course_lib.learn.judging.report import compare, only_wrong

__all__ = ["ASSEMBLE"]


@dataclass(frozen=True)
class _OnMeshes(RankJudge):
    """``by_trial`` for a class: on four ranks, and where all is right there, on one."""

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        if not isinstance(answer, type):
            raise NotAnAnswer(
                "Give the class itself, `ThreeD`, without brackets behind it: each rank makes an object of its own."
            )
        evidence = super().__call__(answer, forbidden)
        if not evidence.passed:
            return evidence
        alone = RankJudge((1,), (_ONE,), compare, self.timeout_s, trial, changes=True, calls_again=False)
        last = replace(alone, makes_groups=True)(answer, forbidden)
        return replace(evidence, outcomes=evidence.outcomes + last.outcomes)


_ONE = Case("one rank", (ONE_RANK,), right(ONE_RANK))

ASSEMBLE = Exercise(
    name="09.assemble",
    title="Three cuts at once",
    judge=_OnMeshes(
        (4,),
        tuple(Case(label, (layout,), right(layout)) for label, layout in LAYOUTS.items()),
        compare,
        timeout_s=8.0,
        call=trial,
        changes=True,
        makes_groups=True,
    ),
    mistakes=(
        Mistake(
            "splits-among-all-ranks",
            "The layers were split among all four ranks, and this mesh has tp=2. Without `group=`, a function that "
            "takes a group works on all ranks of the job. Here every call along an axis has to name its group.",
            recognise=mistakes.fails_in("heads do not divide among 4 ranks", FIRSTS),
        ),
        Mistake(
            "other-axis",
            "Where the mesh has four shards and tp=1, your layers were split among four ranks. So they are split in "
            "the group along `dp_shard`. Slices belong to tp; rows and samples belong to dp_shard.",
            recognise=mistakes.fails_in("heads do not divide among 4 ranks", "shards alone"),
        ),
        Mistake(
            "pipeline-of-all-ranks",
            "The pipeline was made for all ranks of the job, and each pipeline of the mesh has pp of them. Which "
            "ranks are in this rank's pipeline, in order? `Pipeline(..., ranks=...)` takes them, and the mesh knows "
            "them.",
            recognise=mistakes.fails_in("were given to the schedule"),
        ),
        Mistake(
            "sharded-first",
            "Your code cuts a slice from a weight that is at rest. It was sharded before, so this rank has only some "
            "of its rows. Cut from the inside out: first slices of the whole matrices, then rows of what is left of a "
            "stage.",
            recognise=mistakes.fails_in("is at rest"),
        ),
        Mistake(
            "plain-loss",
            "The loss met a target that its logits have no column for. Each rank of tp has the logits of its slice of "
            "the vocabulary alone: `vocab_parallel_cross_entropy`, in the group along tp, takes these.",
            recognise=mistakes.fails_in("is out of bounds"),
        ),
        Mistake(
            "shards-among-all-ranks",
            "`FullySharded` was given ranks that hold different stages, or different slices. It shares rows among "
            "ranks that hold the same slices of the same stage: the group along dp_shard. Another axis is another "
            "group, and without `group=` it takes all ranks of the job.",
            recognise=mistakes.slices_or_stages_differ,
        ),
        Mistake(
            "deals-to-every-rank",
            "The batch seems to be dealt to all ranks. The first loss is wrong where tp=2, and with two stages there "
            "are fewer rows than micro-batches. Ranks that differ in tp or pp alone work on the same samples; only "
            "those along dp_shard have samples of their own.",
            recognise=mistakes.deals_by_rank,
        ),
        Mistake(
            "calls-with-a-loss-alone",
            "The ranks of the last stage wait in a collective of one number, and those of the first stage wait "
            "elsewhere. They have no loss, and did not call. Whether a rank calls must not depend on its loss: "
            "without one, call with a 0.",
            recognise=mistakes.calls_with_a_loss_alone,
        ),
        Mistake(
            "stages-disagree",
            "Two ranks share a layer. One waits for the other within it, and the other waits for a message. Their "
            "stages are not the same pieces of the model. With 13 tokens on two ranks, slices are uneven, so "
            "`split_evenly` cuts the two ranks' slices at different places. Choose the stages while the model is "
            "whole.",
            recognise=mistakes.stages_disagree,
        ),
        Mistake(
            "none-before-the-last",
            "`step` gives a loss on the ranks of the last stage, and None on the others, as `Pipeline.step` does. "
            "Every rank returns the mean: those without a loss add 0 to a sum over all ranks.",
            recognise=mistakes.gives_none,
            shows=lambda outcome: isinstance(outcome.got, AssembleReport) and outcome.got.gave == "None",
        ),
        Mistake(
            "zero-before-the-last",
            "The ranks of the first stage return 0: the sum did not go along pp, and they have no loss to add. Every "
            "rank returns the batch's mean.",
            recognise=mistakes.has_nothing_before_the_last,
        ),
        Mistake(
            "own-share",
            "Each rank returns the mean over its own share of the batch. Every rank has to return the mean over the "
            "whole batch: the losses of all shares belong in it.",
            recognise=mistakes.gives_its_own,
        ),
        Mistake(
            "counts-copies",
            "The loss is a whole number of times too large. All ranks of tp hold the same loss, and each share along "
            "dp_shard its own. Count how many losses come into your sum, and divide by as many.",
            recognise=mistakes.times(2, 4),
        ),
        Mistake(
            "divides-by-all",
            "The loss is a half or a quarter of what it should be: you divide by more losses than came into the sum. "
            "Only the ranks of the last stage have one. Where one rank of a tensor group adds the loss for its whole "
            "group, that is one loss.",
            recognise=mistakes.times(1 / 2, 1 / 4),
        ),
        Mistake(
            "by-arithmetic",
            "Your class is right wherever the axes stand in the order pp, dp_shard, tp, and wrong in another order. "
            "Usually a place, or the ranks of a group, was worked out from the rank's number. Ask by name: "
            "`groups.coordinates[...]`, `groups.mesh.group(me.rank, ...)`.",
            recognise=mistakes.only_in_another_order,
        ),
        Mistake(
            "same-samples",
            "All losses are right, but along an axis twice as many bytes were sent as this rank's samples need. All "
            "ranks along dp_shard work on the whole batch. The mean of equal gradients is right, but the ranks repeat "
            "each other's work. Deal the rows out.",
            recognise=only_wrong("sent"),
        ),
        Mistake(
            "keeps-slices",
            "All losses are right, but wherever dp_shard has several places a rank keeps more than its rows: weights, "
            "gradients and optimizer states. Along dp_shard the rows of a stage are shared out: `wrap` has to make a "
            "`FullySharded` of it.",
            recognise=mistakes.keeps_more_along("dp_shard"),
        ),
        Mistake(
            "keeps-layers",
            "All losses are right, but wherever tp=2 a rank keeps more than slices. Both ranks of the axis hold whole "
            "layers, and compute the same. Split them before the model is cut into stages.",
            recognise=mistakes.keeps_more_along("tp"),
        ),
        Mistake(
            "uneven-stages",
            "All losses are right, but with two stages one rank keeps more than an even stage has, and another does "
            "not. The stages are not about equally large. `split_evenly(parameter_costs(model), n)` cuts by numbers.",
            recognise=mistakes.stages_uneven,
        ),
        Mistake(
            "keeps-stages",
            "All losses are right, but wherever pp=2 a rank keeps more than its own stage. `parameters()` has to give "
            "those of the pipeline on this rank. For others an optimizer keeps states, and never updates them.",
            recognise=mistakes.keeps_more_along("pp"),
        ),
        Mistake(
            "few-micro-batches",
            "All losses are right, but with two stages a rank hands on fewer than four micro-batches in a step. With "
            "fewer micro-batches stages are idle longer, as lesson 07 has shown: take twice as many as stages.",
            recognise=only_wrong("messages"),
        ),
        Mistake(
            "single-precision",
            "The losses are right to six digits or more, and not to nine. The model computes in float64; "
            "`torch.zeros(())` makes a float32, and what is added to it in place is rounded. Give it a `dtype`.",
            recognise=mistakes.has_few_digits,
        ),
        Mistake(
            "shards-nothing",
            "The first loss is right, the later ones are not, and whole slices are kept. Along dp_shard no weights "
            "are shared out, and no gradients are averaged. Each share trains a model of its own.",
            recognise=mistakes.shards_nothing,
        ),
        Mistake(
            "averages-again",
            "The first loss is right, and the later ones are as if gradients were a whole number of times too small "
            "or too large. `FullySharded` has averaged over its group, and the pipeline over its micro-batches. Call "
            "backward on the mean loss of the micro-batch, without another factor.",
            recognise=mistakes.averages_again,
        ),
    ),
    hints=(
        "Each of the three cuts wraps what it is given, and does not know of the others. Which of the three needs "
        "whole matrices? Which needs the stem, the blocks and the head by name? Which takes any module with "
        "parameters?",
        "From the inside out: slices (`split_transformer`, along tp), then stages (`cut`, `Pipeline`, along pp). Last "
        "come rows of what is left of a stage (`wrap=`, along dp_shard). Give each cut its own ranks. In `step`, the "
        "place along dp_shard decides a rank's rows, and a rank without a loss adds 0.",
        "`Pipeline(me, cut(model, stages), one_f_one_b(n, 2 * n), self.loss_of, ranks=groups.mesh.group(me.rank, "
        "'pp'), wrap=lambda stage: FullySharded(me, stage, group=groups.group('dp_shard')))`, with "
        "`stages = split_evenly(parameter_costs(model), n)` from before the split. The mean: `dist.all_reduce` of the "
        "loss or 0 over all ranks, divided by `mesh.size('dp_shard', 'tp')`.",
    ),
    forbidden=("course_lib.parallel.mesh.on_mesh.OnMesh",),
    passed="The losses of one device over three steps, on six meshes of four ranks and on one rank. No rank's "
    "`parameters()` are more than rows of its stage's slices, and each share of the batch was computed once.",
)
