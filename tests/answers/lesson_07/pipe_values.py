"""07.pipe_values: a learner's runtime of a pipeline."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_07.pipe_builds.earlier import OneByOne, WaitsLater
from answers.lesson_07.pipe_builds.final import ByEdges, ByTags, Final, InSendersOrder, TellsAll
from answers.lesson_07.pipe_builds.wrong_values import (
    EmptiesInputs,
    FrontFirst,
    GivesAFloat,
    GivesZeros,
    InputsLearn,
    LetsGo,
    LossOfOne,
    MeanOfLosses,
    NeverWaits,
    NoShare,
    NoStep,
    NothingComesBack,
    OneRoom,
    SetsASeed,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one order for all ranks"),
    Row(answer=InSendersOrder, verdict="passed", why="whoever needs a message takes what was sent before it"),
    Row(answer=ByTags, verdict="passed", why="PyTorch's calls, with tags"),
    Row(answer=ByEdges, verdict="passed", why="keeps edges of the graph, and adds gradients itself"),
    Row(answer=TellsAll, verdict="passed", why="an error with the number of its stage"),
    Row(answer=OneByOne, verdict="passed", why="a short loop for one stage a rank"),
    Row(answer=WaitsLater, verdict="passed", why="sends begin at once"),
    Row(answer=NoShare, verdict="not yet", mistake="no-share", why="the mean of each micro-batch"),
    Row(answer=NothingComesBack, verdict="not yet", mistake="nothing-comes-back", why="zeros go back"),
    Row(answer=LossOfOne, verdict="not yet", mistake="loss-of-one", why="the last one"),
    Row(answer=MeanOfLosses, verdict="not yet", why="divided once more"),
    Row(answer=OneRoom, verdict="not yet", mistake="one-room", why="one tensor a stage"),
    Row(answer=FrontFirst, verdict="not yet", mistake="another-order", why="sorted"),
    Row(answer=EmptiesInputs, verdict="not yet", mistake="spoils-what-came", why="the caller's lists"),
    Row(answer=InputsLearn, verdict="not yet", mistake="spoils-what-came", why="inputs get gradients"),
    Row(answer=NeverWaits, verdict="not yet", mistake="not-waited-for", why="gradients are sent so"),
    Row(answer=LetsGo, verdict="not yet", mistake="not-waited-for", why="a message that goes with its tensor"),
    Row(answer=NoStep, verdict="not yet", why="no `step`"),
    Row(answer=GivesAFloat, verdict="not yet", why="a float"),
    Row(answer=GivesZeros, verdict="not yet", why="on every rank"),
    Row(answer=SetsASeed, verdict="not yet", why="everybody's seed"),
]
