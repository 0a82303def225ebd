"""09.mesh_values: a learner's trainer on a mesh."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_09.mesh_builds.earlier import OnlySlices
from answers.lesson_09.mesh_builds.final import Final
from answers.lesson_09.mesh_builds.others import ByTheCoursesPipeline, FlatGroups, OneForwardOneBackward, ShareOfEach
from answers.lesson_09.mesh_builds.wrong_steps import (
    CopiesSummed,
    DividesTwice,
    EachItsOwn,
    GradientsPileUp,
    LossAlone,
    LossOfEach,
    NeverWaits,
    NoParts,
    NotHandedOn,
    OwnLosses,
    PilesUpAndSums,
    SeedsForAll,
    SumNotMean,
    WrongWayRound,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="GPipe by hand, one vector, a file of each stage"),
    Row(answer=OneForwardOneBackward, verdict="passed", why="1F1B by hand"),
    Row(answer=ByTheCoursesPipeline, verdict="passed", why="the course's runtime, a file of each slice"),
    Row(answer=ShareOfEach, verdict="passed", why="a share of each parameter, a file of each name"),
    Row(answer=FlatGroups, verdict="passed", why="axis by axis, by an all-to-all"),
    Row(answer=OnlySlices, verdict="passed", why="the shortest thing"),
    Row(answer=LossAlone, verdict="not yet", mistake="no-pair", why="a number"),
    Row(answer=WrongWayRound, verdict="not yet", mistake="another-part", why="each other's slices"),
    Row(answer=OwnLosses, verdict="not yet", mistake="own-share", why="of its rows"),
    Row(answer=LossOfEach, verdict="not yet", mistake="a-factor", why="each rank of tp adds"),
    Row(answer=SumNotMean, verdict="not yet", mistake="sum-not-mean", why="a sum"),
    Row(answer=DividesTwice, verdict="not yet", mistake="divides-twice", why="a mean of shares"),
    Row(answer=CopiesSummed, verdict="not yet", mistake="copies-summed", why="complete gradients summed"),
    Row(answer=GradientsPileUp, verdict="not yet", mistake="gradients-pile-up", why="never set back"),
    Row(answer=PilesUpAndSums, verdict="not yet", mistake="gradients-pile-up", why="and summed again"),
    Row(answer=NotHandedOn, verdict="not yet", mistake="replicas-drift", why="shares stay where they are"),
    Row(answer=EachItsOwn, verdict="not yet", mistake="replicas-drift", why="gradients of its own rows"),
    Row(answer=NeverWaits, verdict="not yet", mistake="not-waited-for", why="begun"),
    Row(answer=SeedsForAll, verdict="not yet", why="everybody's seed"),
    Row(answer=NoParts, verdict="not yet", why="a list"),
]
