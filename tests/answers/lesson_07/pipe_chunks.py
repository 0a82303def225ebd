"""07.pipe_chunks: a learner's runtime of a pipeline."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_07.pipe_builds.earlier import WaitsLater
from answers.lesson_07.pipe_builds.final import ByEdges, ByTags, Final, InSendersOrder, TellsAll
from answers.lesson_07.pipe_builds.wrong_values import MixesMessages, OneStageARank, RingOfWaits, SendsToItself

ROWS = [
    Row(answer=Final, verdict="passed", why="one order for all ranks"),
    Row(answer=InSendersOrder, verdict="passed", why="whoever needs a message takes what was sent before it"),
    Row(answer=ByTags, verdict="passed", why="PyTorch's calls, with tags"),
    Row(answer=ByEdges, verdict="passed", why="keeps edges of the graph, and adds gradients itself"),
    Row(answer=TellsAll, verdict="passed", why="an error with the number of its stage"),
    Row(answer=SendsToItself, verdict="not yet", mistake="sends-to-itself", why="a message to this rank"),
    Row(answer=OneStageARank, verdict="not yet", mistake="neighbours-by-rank", why="by the rank's number"),
    Row(answer=MixesMessages, verdict="not yet", mistake="mixes-messages", why="in the order of need"),
    Row(answer=RingOfWaits, verdict="not yet", mistake="ring-of-waits", why="sends are waited for"),
    Row(answer=WaitsLater, verdict="raised", why="one stage a rank"),
]
