"""05.fsdp: by mistake, a whole build that makes this mistake and no other."""

from __future__ import annotations

from answers.lesson_05.fsdp_builds import wrong_costs as costs
from answers.lesson_05.fsdp_builds import wrong_models as models
from answers.lesson_05.fsdp_builds import wrong_tools as tools
from answers.lesson_05.fsdp_builds import wrong_values as values

from course_lib.learn.exercises.lesson_05.fsdp import FSDP_STEPS

_EXAMPLES = {
    "parameters-are-whole": values.KeepsTheModule,
    "sum-not-mean": values.Sums,
    "asks-for-no-sum": values.OwnGradients,
    "computes-with-old-weights": values.Stale,
    "forgets-the-rest": values.ForgetsTheRest,
    "drops-keywords": values.DropsKeywords,
    "other-names": values.OtherNames,
    "not-waited-for": values.NeverWaits,
    "emptied-too-soon": values.EmptiedTooSoon,
    "all-reduces": costs.AllReduces,
    "sends-besides": costs.WithABarrier,
    "gathers-too-often": costs.GatherThrice,
    "a-call-a-parameter": costs.EachParameter,
    "whole-at-rest": costs.HoldsTheModule,
    "whole-until-backward": costs.NeverFrees,
    "whole-units-pile-up": costs.KeepsGradients,
    "whole-without-backward": costs.WholeWithoutBackward,
    "grows": costs.KeepsAll,
    "begins-when-needed": costs.WhenNeeded,
    "waits-at-once": costs.WaitsAtOnce,
    "only-in-forward": costs.OnlyForward,
    "too-far-ahead": costs.TooFar,
    "reading-changes": tools.ClearsGradients,
    "spoils-the-state": tools.BuffersAreTheStates,
    "parts-are-replaced": tools.ReplacesParts,
    "keeps-what-was-whole": tools.PartIsAView,
    "norm-is-no-tensor": tools.GivesAFloat,
    "norm-of-its-own": models.OwnNorm,
    "another-norm": models.AddsNorms,
    "clips-otherwise": models.NeverScales,
    "loads-otherwise": models.LoadsAnotherPart,
    "frozen-move": models.MovesFrozen,
    "mixes-dtypes": models.OneDtype,
    "tied-are-two": models.TiedTwice,
    "unused-have-none": models.CountsGradients,
    "one-use-at-a-time": models.OneUse,
    "stays-after-an-error": models.StaysAfterAnError,
    "copies-of-its-own": models.InMemoryOrder,
    "shared-between-objects": models.SharedUnits,
    "not-alone": models.TwoAtLeast,
}


def examples_of(name: str) -> dict[str, type]:
    """By mistake of this step, a whole build that makes this mistake and no other."""
    mistakes = {mistake.name for step in FSDP_STEPS if step.name == name for mistake in step.mistakes}
    return {mistake: answer for mistake, answer in _EXAMPLES.items() if mistake in mistakes}
