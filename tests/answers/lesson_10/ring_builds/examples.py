"""10.ring: by mistake, a whole build that makes this mistake and no other."""

from __future__ import annotations

from answers.lesson_10.ring_builds import wrong_costs as costs
from answers.lesson_10.ring_builds import wrong_values as values

from course_lib.learn.exercises.lesson_10.ring import RING_STEPS

_EXAMPLES = {
    "own-keys-alone": values.OwnKeysAlone,
    "averages": values.Averages,
    "not-rescaled": values.NeverRescales,
    "not-divided": values.NeverDivides,
    "overflows": values.Overflows,
    "earlier-result": values.KeepsByShape,
    "spoils-what-came": values.ScalesInPlace,
    "not-waited-for": values.NeverWaits,
    "no-graph": values.NoGraph,
    "scaled-once": values.ScaledOnce,
    "gradient-of-scores": values.Halves,
    "own-part-alone": values.OwnPartAlone,
    "at-another-rank": values.AtAnotherRank,
    "no-number": values.NoNumber,
    "mask-by-place": values.MaskByPlace,
    "others-unmasked": values.OthersUnmasked,
    "one-stretch": values.OneStretch,
    "computes-what-is-hidden": values.ComputesAll,
    "mixes-grouped-heads": values.MixesHeads,
    "calls-besides": costs.WithABarrier,
    "repeated-heads": costs.SendsRepeated,
    "one-step-too-many": costs.OneStepMore,
    "more-bytes": costs.SendsQueries,
    "more-messages": costs.HeadsOneByOne,
    "all-at-once": costs.AllScores,
    "keys-stay": costs.WithHandsFull,
    "scores-stay": costs.KeepsScores,
    "left-behind": costs.LeavesTheLast,
    "waits-first": costs.Waits,
    "waits-in-backward": costs.WaitsInBackward,
    "parts-alike": costs.PartsAlike,
    "loses-the-dtype": costs.LosesTheDtype,
    "coarse-sums": costs.CoarseSums,
    "all-need-gradients": costs.AllLearn,
    "shared-between-objects": costs.Shared,
    "strangers": costs.Strangers,
    "not-alone": costs.TwoAtLeast,
}


def examples_of(name: str) -> dict[str, type]:
    """By mistake of this step, a whole build that makes this mistake and no other."""
    mistakes = {mistake.name for step in RING_STEPS if step.name == name for mistake in step.mistakes}
    return {mistake: answer for mistake, answer in _EXAMPLES.items() if mistake in mistakes}
