"""05.fsdp_awkward: a learner's fully sharded wrapper."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_05.fsdp_builds.final import ByTensors, Final, KeepsInList, Waits
from answers.lesson_05.fsdp_builds.saved_hooks import SavedHooks
from answers.lesson_05.fsdp_builds.wrong_models import (
    CountsGradients,
    InMemoryOrder,
    MovesFrozen,
    OneDtype,
    OneUse,
    SharedUnits,
    StaysAfterAnError,
    TiedTwice,
    TwoAtLeast,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="a row for each kind, whose storage is emptied and filled"),
    Row(answer=SavedHooks, verdict="passed", why="autograd saves a note in place of a weight"),
    Row(answer=ByTensors, verdict="passed", why="by the collectives that take one tensor"),
    Row(answer=Waits, verdict="passed", why="begun, and waited for"),
    Row(answer=KeepsInList, verdict="passed", why="parts registered one by one, and a norm of norms"),
    Row(answer=CountsGradients, verdict="not yet", mistake="unused-have-none", why="one never comes"),
    Row(answer=InMemoryOrder, verdict="not yet", mistake="copies-of-its-own", why="as it lies in memory"),
    Row(answer=MovesFrozen, verdict="not yet", mistake="frozen-move", why="one row for both"),
    Row(answer=OneDtype, verdict="not yet", mistake="mixes-dtypes", why="one row for both"),
    Row(answer=OneUse, verdict="not yet", mistake="one-use-at-a-time", why="a flag for each unit"),
    Row(answer=SharedUnits, verdict="not yet", mistake="shared-between-objects", why="of the class"),
    Row(answer=StaysAfterAnError, verdict="not yet", mistake="stays-after-an-error", why="no `always_call`"),
    Row(answer=TiedTwice, verdict="not yet", mistake="tied-are-two", why="two copies"),
    Row(answer=TwoAtLeast, verdict="not yet", mistake="not-alone", why="nobody is there"),
]
