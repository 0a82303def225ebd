"""12.job: by mistake, a whole build that makes this mistake and no other."""

from __future__ import annotations

from answers.lesson_12.job_builds import wrong_keeps as keeps
from answers.lesson_12.job_builds import wrong_returns as returns
from answers.lesson_12.job_builds import wrong_saves as saves
from answers.lesson_12.job_builds import wrong_steps as steps

from course_lib.learn.exercises.lesson_12.job import JOB_STEPS

_EXAMPLES = {
    "another-factor": steps.SumNotMean,
    "each-its-own": steps.EachItsOwn,
    "gradients-pile-up": steps.GradientsPileUp,
    "schedule-stands-still": steps.ScheduleStandsStill,
    "seeds-for-all": steps.SeedsForAll,
    "not-waited-for": steps.NeverWaits,
    "one-order": steps.OneOrder,
    "a-sample-twice": steps.FillsUp,
    "a-sample-is-lost": steps.LosesTheRest,
    "uneven-shares": steps.RestToTheLast,
    "short-batches-count-whole": steps.ShortCountWhole,
    "empty-lists-skipped": steps.SkipsEmptyLists,
    "nothing-there": saves.NeverSaves,
    "weights-afresh": saves.WeightsAfresh,
    "buffers-afresh": saves.BuffersAfresh,
    "optimizer-afresh": saves.OptimizerAfresh,
    "schedule-afresh": saves.ScheduleAfresh,
    "random-afresh": saves.RandomAfresh,
    "epoch-again": saves.EpochAgain,
    "returns-early": returns.ReturnsEarly,
    "name-order": saves.NameOrder,
    "not-synced": saves.NotSynced,
    "written-in-place": saves.InPlace,
    "old-goes-first": saves.OldGoesFirst,
    "said-too-early": saves.MarkGoesFirst,
    "keeps-one": keeps.KeepsOne,
    "keeps-them-all": saves.KeepsAll,
    "bound-to-ranks": saves.FileOfRank,
    "nobody-is-told": saves.NobodyIsTold,
    "why-is-lost": saves.WhyIsLost,
    "others-wait": saves.OthersWait,
    "everybody-writes-all": saves.EverybodyWrites,
    "sends-the-state": saves.SendsTheState,
    "barrier-each-step": steps.BarrierEachStep,
    "frozen-have-none": steps.FrozenHaveNone,
    "tied-count-twice": steps.TiedTwice,
    "needs-a-state": saves.NeedsAState,
    "needs-a-checkpoint": saves.NeedsACheckpoint,
    "trusts-the-bytes": saves.TrustsTheBytes,
    "stops-at-damage": saves.StopsAtDamage,
    "says-nothing": saves.SaysNothing,
    "takes-others-files": saves.TakesAnyFile,
    "shared-between-jobs": steps.OfTheClass,
    "not-alone": steps.TwoAtLeast,
}


def examples_of(name: str) -> dict[str, type]:
    """By mistake of this step, a whole build that makes this mistake and no other."""
    mistakes = {mistake.name for step in JOB_STEPS if step.name == name for mistake in step.mistakes}
    return {mistake: answer for mistake, answer in _EXAMPLES.items() if mistake in mistakes}
