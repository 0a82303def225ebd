"""05.zero: by mistake, a whole build that makes this mistake and no other."""

from __future__ import annotations

from answers.lesson_05.zero_builds import wrong_costs as costs
from answers.lesson_05.zero_builds import wrong_models as models
from answers.lesson_05.zero_builds import wrong_values as values

from course_lib.learn.exercises.lesson_05.zero import ZERO_STEPS

_EXAMPLES = {
    "sum-not-mean": values.Sums,
    "divides-twice": values.DividesTwice,
    "all-by-own-gradients": values.OwnGradients,
    "own-gradients-for-own-part": values.OwnPartByOwnGradients,
    "gradients-of-rank-0": values.GradientsOfRank0,
    "weights-stay-away": values.NeverGathers,
    "states-afresh": values.Afresh,
    "gradients-pile-up": values.PilesUp,
    "loses-the-defaults": values.LosesDefaults,
    "always-adamw": values.AlwaysAdamW,
    "not-waited-for": values.NeverWaits,
    "all-reduces-weights": costs.AddsParts,
    "all-reduces": costs.AllReduces,
    "sends-besides": costs.WithABarrier,
    "a-broadcast-a-part": costs.BroadcastsParts,
    "a-call-a-parameter": costs.EachParameter,
    "more-than-two": costs.GathersTwice,
    "states-of-everything": costs.AllStates,
    "keeps-the-whole": costs.KeepsAView,
    "grows": costs.KeepsAll,
    "frozen-have-none": models.TakesFrozen,
    "unused-have-none": models.AsksUnused,
    "sent-wider": models.Promotes,
    "rate-of-one-dtype": models.AnOptimizerADtype,
    "mixes-dtypes": models.OneDtype,
    "writes-to-a-copy": models.WritesToACopy,
    "rate-is-fixed": models.FixedRate,
    "shared-between-objects": models.SharedParts,
}


def examples_of(name: str) -> dict[str, type]:
    """By mistake of this step, a whole build that makes this mistake and no other."""
    mistakes = {mistake.name for step in ZERO_STEPS if step.name == name for mistake in step.mistakes}
    return {mistake: answer for mistake, answer in _EXAMPLES.items() if mistake in mistakes}
