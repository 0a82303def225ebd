"""08.split: by mistake, a whole build that makes this mistake and no other."""

from __future__ import annotations

from answers.lesson_08.split_builds import wrong_details as details
from answers.lesson_08.split_builds import wrong_later as later
from answers.lesson_08.split_builds import wrong_values as values

from course_lib.learn.exercises.lesson_08.split import SPLIT_STEPS

_EXAMPLES = {
    "bias-on-each-rank": values.BiasOnEachRank,
    "biases-elsewhere": values.NoBiasOfRows,
    "not-summed-back": values.NotSummedBack,
    "summed-twice": values.SummedTwice,
    "loss-of-all-ranks": values.LossByRanks,
    "another-part": values.HeadsInTurn,
    "not-what-computes": values.KeepsCopies,
    "float32-inside": values.InFloat32,
    "nearly-the-model": details.OtherEps,
    "shares-the-model": values.SharesTheModel,
    "not-waited-for": values.NotWaitedFor,
    "vocabulary-whole": values.VocabularyWhole,
    "whole-logits": values.WholeLogits,
    "overflows": values.Overflows,
    "calls-besides": values.WithABarrier,
    "enters-three-times": values.EntersThreeTimes,
    "sends-more": values.SendsTargets,
    "whole-weights-stay": later.KeepsTheModel,
    "left-behind": later.KeepsLogits,
    "keeps-more": later.KeepsHidden,
    "still-whole": later.IgnoresSequence,
    "norms-not-summed": later.NormsNotSummed,
    "positions-partial": later.PositionsPartial,
    "drops-when-it-evaluates": later.DropsInEval,
    "drops-too-little": details.DropsBeforeTheBias,
    "one-mask-in-a-step": details.OneSeedAStep,
    "masks-alike-at-places": later.OneSeedAtPlaces,
    "same-in-each-step": later.SeedOfTheRank,
    "seeds-left-apart": later.SeedStays,
    "masks-apart": later.OwnEverywhere,
    "no-sentence": later.NoSentence,
    "replaces-gradients": later.Replaces,
    "ties-apart": later.TiesApart,
    "all-learn": later.AllLearn,
    "even-parts-only": later.EvenPartsOnly,
    "as-many-keys-as-queries": later.AsManyKeys,
    "one-kind-of-batch": later.AlwaysFloat64,
    "whole-world": later.WholeWorld,
    "shared-between-objects": later.SharedParts,
    "not-alone": later.TwoAtLeast,
    "masks-alike-in-heads": later.OneSeedInHeads,
}


def examples_of(name: str) -> dict[str, type]:
    """By mistake of this step, a whole build that makes this mistake and no other."""
    mistakes = {mistake.name for step in SPLIT_STEPS if step.name == name for mistake in step.mistakes}
    return {mistake: answer for mistake, answer in _EXAMPLES.items() if mistake in mistakes}
