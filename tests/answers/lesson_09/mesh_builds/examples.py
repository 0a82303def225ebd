"""09.mesh: by mistake, a whole build that makes this mistake and no other."""

from __future__ import annotations

from answers.lesson_09.mesh_builds import wrong_later as later
from answers.lesson_09.mesh_builds import wrong_steps as steps
from answers.lesson_09.mesh_builds.earlier import GradientsToAll

from course_lib.learn.exercises.lesson_09.mesh import MESH_STEPS

_EXAMPLES = {
    "no-pair": steps.LossAlone,
    "another-part": steps.WrongWayRound,
    "own-share": steps.OwnLosses,
    "a-factor": steps.LossOfEach,
    "sum-not-mean": steps.SumNotMean,
    "divides-twice": steps.DividesTwice,
    "copies-summed": steps.CopiesSummed,
    "gradients-pile-up": steps.GradientsPileUp,
    "replicas-drift": steps.NotHandedOn,
    "not-waited-for": steps.NeverWaits,
    "none-but-the-last": steps.LossOfDataAlone,
    "micro-batches-add-up": steps.MicroBatchesAddUp,
    "ranks-wait": steps.ReceivesFirst,
    "states-on-all": steps.StatesOnAll,
    "gradients-to-all": GradientsToAll,
    "talks-along-tp": steps.AlongSlices,
    "talks-along-pp": steps.TwiceAlongStages,
    "talks-to-all": steps.WholeGradientToAll,
    "copies-counted": later.CopiesCounted,
    "own-norm": later.OwnNorm,
    "norm-after-the-clip": later.NormAfterwards,
    "no-limit": later.NoLimit,
    "another-factor": later.LimitsItsOwn,
    "weights-afresh": later.WeightsAfresh,
    "states-afresh": later.StatesAfresh,
    "count-afresh": later.CountAfresh,
    "everybody-writes": later.EverybodyWrites,
    "bound-to-its-mesh": later.FileOfEachRank,
    "old-share": later.OldShare,
    "ends-count-twice": later.EndsCountTwice,
    "ends-apart": later.EndsApart,
    "a-stage-learns-nothing": later.AllStagesLearn,
    "frozen-weights": later.FrozenDecay,
    "shares-count-alike": later.MeanOfMeans,
    "needs-states": later.NeedsStates,
    "not-alone": later.TwoAtLeast,
}


def examples_of(name: str) -> dict[str, type]:
    """By mistake of this step, a whole build that makes this mistake and no other."""
    mistakes = {mistake.name for step in MESH_STEPS if step.name == name for mistake in step.mistakes}
    return {mistake: answer for mistake, answer in _EXAMPLES.items() if mistake in mistakes}
