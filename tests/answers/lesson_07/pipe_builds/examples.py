"""07.pipe: by mistake, a whole build that makes this mistake and no other."""

from __future__ import annotations

from answers.lesson_07.pipe_builds import wrong_memory as memory
from answers.lesson_07.pipe_builds import wrong_models as models
from answers.lesson_07.pipe_builds import wrong_values as values

from course_lib.learn.exercises.lesson_07.pipe import PIPE_STEPS

_EXAMPLES = {
    "no-share": values.NoShare,
    "nothing-comes-back": values.NothingComesBack,
    "loss-of-one": values.LossOfOne,
    "one-room": values.OneRoom,
    "another-order": values.FrontFirst,
    "spoils-what-came": values.EmptiesInputs,
    "not-waited-for": values.NeverWaits,
    "waits-in-a-send": values.WaitsInASend,
    "idle-cells": values.IdleCells,
    "sends-besides": values.WithABarrier,
    "other-bytes": values.TwiceTheBytes,
    "more-messages": values.SendsShapes,
    "held-back": values.HoldsBack,
    "graphs-stay": memory.GraphsStay,
    "names-stay": memory.InputsStay,
    "rooms-too-early": memory.RoomsAtOnce,
    "left-behind": memory.LeavesTheLast,
    "sends-to-itself": values.SendsToItself,
    "neighbours-by-rank": values.OneStageARank,
    "mixes-messages": values.MixesMessages,
    "ring-of-waits": values.RingOfWaits,
    "whole-at-once": memory.WholeAtOnce,
    "back-again": memory.BackAgain,
    "graph-is-gone": memory.GraphIsGone,
    "no-input-to-go-to": memory.AsksTheInput,
    "replaces-gradients": memory.Replaces,
    "others-wait": models.OthersWait,
    "error-is-lost": models.LosesTheError,
    "failed-step-stays": models.KeepsAFailedStep,
    "ties-count-twice": models.CountsTiesTwice,
    "ties-apart": models.TiesApart,
    "frozen-have-none": models.FrozenHaveNone,
    "rows-count-alike": models.CountsRowsAlike,
    "one-dtype": models.OneDtype,
    "shared-between-objects": models.SharedStages,
    "not-alone": models.TwoAtLeast,
}


def examples_of(name: str) -> dict[str, type]:
    """By mistake of this step, a whole build that makes this mistake and no other."""
    mistakes = {mistake.name for step in PIPE_STEPS if step.name == name for mistake in step.mistakes}
    return {mistake: answer for mistake, answer in _EXAMPLES.items() if mistake in mistakes}
