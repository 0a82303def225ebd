"""10.experts: by mistake, a whole build that makes this mistake and no other."""

from __future__ import annotations

from answers.lesson_10.expert_builds import earlier
from answers.lesson_10.expert_builds import wrong_costs as costs
from answers.lesson_10.expert_builds import wrong_values as values

from course_lib.learn.exercises.lesson_10.expert_layer import EXPERTS_STEPS

_EXAMPLES = {
    "own-experts-alone": values.OwnExpertsAlone,
    "unweighted": values.Unweighted,
    "normalised": values.Normalised,
    "every-expert": values.EveryExpert,
    "left-as-sorted": values.LeftAsSorted,
    "earlier-result": values.KeepsByShape,
    "spoils-what-came": values.ScalesInPlace,
    "not-waited-for": values.NeverWaits,
    "no-graph": values.NoGraph,
    "router-learns-nothing": values.RouterLearnsNothing,
    "own-tokens-alone": values.OwnTokensAlone,
    "experts-averaged": values.ExpertsAveraged,
    "one-way-to-x": values.OneWayToX,
    "computes-for-nothing": earlier.ByPlaces,
    "piece-by-piece": costs.PieceByPiece,
    "more-bytes": costs.Padded,
    "more-calls": costs.WithBarriers,
    "all-at-once": costs.AllAtOnce,
    "keeps-too-much": costs.KeepsRows,
    "left-behind": costs.LeftBehind,
    "sends-the-dropped": costs.SendsTheDropped,
    "no-limit": values.NoLimit,
    "token-after-token": values.TokenAfterToken,
    "the-likeliest-first": values.LikeliestFirst,
    "room-of-one-choice": values.RoomOfOneChoice,
    "counts-its-own": values.CountsItsOwn,
    "without-e": values.WithoutE,
    "mean-of-means": values.MeanOfMeans,
    "counts-the-kept": values.CountsTheKept,
    "pushes-nothing": values.PushesNothing,
    "pushes-too-little": values.PushesTooLittle,
    "rests-without-tokens": costs.RestsWithoutTokens,
    "rests-without-rows": costs.RestsWithoutRows,
    "loses-the-dtype": costs.LosesTheDtype,
    "coarse-scores": costs.CoarseScores,
    "rests-when-frozen": costs.RestsWhenFrozen,
    "shared-between-layers": costs.Shared,
    "strangers": costs.Strangers,
    "not-alone": costs.TwoAtLeast,
}


def examples_of(name: str) -> dict[str, type]:
    """By mistake of this step, a whole build that makes this mistake and no other."""
    mistakes = {mistake.name for step in EXPERTS_STEPS if step.name == name for mistake in step.mistakes}
    return {mistake: answer for mistake, answer in _EXAMPLES.items() if mistake in mistakes}
