"""07.pipe_awkward: a learner's runtime of a pipeline."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_07.pipe_builds.final import ByEdges, ByTags, Final, InSendersOrder, TellsAll
from answers.lesson_07.pipe_builds.wrong_models import (
    AddsOnOneRank,
    CountsRowsAlike,
    CountsTiesTwice,
    FrozenHaveNone,
    FrozenHaveNoWeights,
    KeepsAFailedStep,
    LosesTheError,
    OneDtype,
    OthersWait,
    SharedStages,
    TiesApart,
    TwoAtLeast,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one order for all ranks"),
    Row(answer=InSendersOrder, verdict="passed", why="whoever needs a message takes what was sent before it"),
    Row(answer=ByTags, verdict="passed", why="PyTorch's calls, with tags"),
    Row(answer=ByEdges, verdict="passed", why="keeps edges of the graph, and adds gradients itself"),
    Row(answer=TellsAll, verdict="passed", why="an error with the number of its stage"),
    Row(answer=OthersWait, verdict="not yet", mistake="others-wait", why="it leaves the loop"),
    Row(answer=LosesTheError, verdict="not yet", mistake="error-is-lost", why="nobody is told"),
    Row(answer=KeepsAFailedStep, verdict="not yet", mistake="failed-step-stays", why="losses of before"),
    Row(answer=CountsTiesTwice, verdict="not yet", mistake="ties-count-twice", why="sums are sent again"),
    Row(answer=TiesApart, verdict="not yet", mistake="ties-apart", why="each its own"),
    Row(answer=AddsOnOneRank, verdict="not yet", why="one object, added twice"),
    Row(answer=FrozenHaveNone, verdict="not yet", mistake="frozen-have-none", why="no backward"),
    Row(answer=FrozenHaveNoWeights, verdict="not yet", mistake="frozen-have-none", why="no parameters"),
    Row(answer=CountsRowsAlike, verdict="not yet", mistake="rows-count-alike", why="1/m"),
    Row(answer=OneDtype, verdict="not yet", mistake="one-dtype", why="always float64"),
    Row(answer=SharedStages, verdict="not yet", mistake="shared-between-objects", why="of the class"),
    Row(answer=TwoAtLeast, verdict="not yet", mistake="not-alone", why="nobody is there"),
]
