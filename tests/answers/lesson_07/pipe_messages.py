"""07.pipe_messages: a learner's runtime of a pipeline."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_07.pipe_builds.earlier import OneByOne, WaitsLater
from answers.lesson_07.pipe_builds.final import ByEdges, ByTags, Final, InSendersOrder, TellsAll
from answers.lesson_07.pipe_builds.wrong_values import (
    HoldsBack,
    IdleCells,
    SendsShapes,
    TwiceTheBytes,
    WaitsInASend,
    WithABarrier,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one order for all ranks"),
    Row(answer=InSendersOrder, verdict="passed", why="whoever needs a message takes what was sent before it"),
    Row(answer=ByTags, verdict="passed", why="PyTorch's calls, with tags"),
    Row(answer=ByEdges, verdict="passed", why="keeps edges of the graph, and adds gradients itself"),
    Row(answer=TellsAll, verdict="passed", why="an error with the number of its stage"),
    Row(answer=WaitsLater, verdict="passed", why="sends begin at once"),
    Row(answer=OneByOne, verdict="not yet", mistake="waits-in-a-send", why="waits in a send"),
    Row(answer=WaitsInASend, verdict="not yet", mistake="waits-in-a-send", why="also in the order of the sender"),
    Row(answer=IdleCells, verdict="not yet", mistake="idle-cells", why="cells"),
    Row(answer=WithABarrier, verdict="not yet", mistake="sends-besides", why="a barrier"),
    Row(answer=TwiceTheBytes, verdict="not yet", mistake="other-bytes", why="complex numbers"),
    Row(answer=SendsShapes, verdict="not yet", mistake="more-messages", why="shapes"),
    Row(answer=HoldsBack, verdict="not yet", mistake="held-back", why="one action too late"),
]
