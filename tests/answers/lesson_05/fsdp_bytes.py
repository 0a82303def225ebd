"""05.fsdp_bytes: a learner's fully sharded wrapper."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_05.fsdp_builds.final import ByTensors, Final, KeepsInList, Waits
from answers.lesson_05.fsdp_builds.saved_hooks import SavedHooks
from answers.lesson_05.fsdp_builds.wrong_costs import (
    AllReduces,
    EachParameter,
    GatherThrice,
    TwiceTheBytes,
    WithABarrier,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="a row for each kind, whose storage is emptied and filled"),
    Row(answer=SavedHooks, verdict="passed", why="autograd saves a note in place of a weight"),
    Row(answer=ByTensors, verdict="passed", why="by the collectives that take one tensor"),
    Row(answer=Waits, verdict="passed", why="begun, and waited for"),
    Row(answer=KeepsInList, verdict="passed", why="parts registered one by one, and a norm of norms"),
    Row(answer=AllReduces, verdict="not yet", mistake="all-reduces", why="twice the bytes"),
    Row(answer=EachParameter, verdict="not yet", mistake="a-call-a-parameter", why="a row each"),
    Row(answer=GatherThrice, verdict="not yet", mistake="gathers-too-often", why="one more"),
    Row(answer=TwiceTheBytes, verdict="not yet", why="complex numbers on the wire"),
    Row(answer=WithABarrier, verdict="not yet", mistake="sends-besides", why="nothing needs it"),
]
