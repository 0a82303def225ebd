"""07.pipe_split: a learner's runtime of a pipeline."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_07.pipe_builds.final import ByEdges, ByTags, Final, InSendersOrder, TellsAll
from answers.lesson_07.pipe_builds.wrong_memory import AsksTheInput, BackAgain, GraphIsGone, Replaces, WholeAtOnce

ROWS = [
    Row(answer=Final, verdict="passed", why="one order for all ranks"),
    Row(answer=InSendersOrder, verdict="passed", why="whoever needs a message takes what was sent before it"),
    Row(answer=ByTags, verdict="passed", why="PyTorch's calls, with tags"),
    Row(answer=ByEdges, verdict="passed", why="keeps edges of the graph, and adds gradients itself"),
    Row(answer=TellsAll, verdict="passed", why="an error with the number of its stage"),
    Row(answer=WholeAtOnce, verdict="not yet", mistake="whole-at-once", why="W has nothing to do"),
    Row(answer=BackAgain, verdict="not yet", mistake="back-again", why="twice the work"),
    Row(answer=GraphIsGone, verdict="not yet", mistake="graph-is-gone", why="no `retain_graph`"),
    Row(answer=AsksTheInput, verdict="not yet", mistake="no-input-to-go-to", why="on the first stage"),
    Row(answer=Replaces, verdict="not yet", mistake="replaces-gradients", why="not added"),
]
