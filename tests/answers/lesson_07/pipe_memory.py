"""07.pipe_memory: a learner's runtime of a pipeline."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_07.pipe_builds.earlier import WaitsLater
from answers.lesson_07.pipe_builds.final import ByEdges, ByTags, Final, InSendersOrder, TellsAll
from answers.lesson_07.pipe_builds.wrong_memory import (
    GraphsStay,
    InputsStay,
    LeavesTheLast,
    LossesKeepGraphs,
    RoomsAtOnce,
    WaitsAtTheEnd,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one order for all ranks"),
    Row(answer=InSendersOrder, verdict="passed", why="whoever needs a message takes what was sent before it"),
    Row(answer=ByTags, verdict="passed", why="PyTorch's calls, with tags"),
    Row(answer=ByEdges, verdict="passed", why="keeps edges of the graph, and adds gradients itself"),
    Row(answer=TellsAll, verdict="passed", why="an error with the number of its stage"),
    Row(answer=WaitsLater, verdict="passed", why="sends begin at once"),
    Row(answer=GraphsStay, verdict="not yet", mistake="graphs-stay", why="`retain_graph`"),
    Row(answer=LossesKeepGraphs, verdict="not yet", why="graphs of losses"),
    Row(answer=InputsStay, verdict="not yet", mistake="names-stay", why="a list of all"),
    Row(answer=WaitsAtTheEnd, verdict="not yet", mistake="names-stay", why="sends hold outputs"),
    Row(answer=RoomsAtOnce, verdict="not yet", mistake="rooms-too-early", why="a pool"),
    Row(answer=LeavesTheLast, verdict="not yet", mistake="left-behind", why="one input"),
]
