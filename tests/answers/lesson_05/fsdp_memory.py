"""05.fsdp_memory: a learner's fully sharded wrapper."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_05.fsdp_builds.final import ByTensors, Final, KeepsInList, Waits
from answers.lesson_05.fsdp_builds.saved_hooks import SavedHooks
from answers.lesson_05.fsdp_builds.wrong_costs import (
    HoldsTheModule,
    KeepsAll,
    KeepsGradients,
    NeverFrees,
    WholeWithoutBackward,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="a row for each kind, whose storage is emptied and filled"),
    Row(answer=SavedHooks, verdict="passed", why="autograd saves a note in place of a weight"),
    Row(answer=ByTensors, verdict="passed", why="by the collectives that take one tensor"),
    Row(answer=Waits, verdict="passed", why="begun, and waited for"),
    Row(answer=KeepsInList, verdict="passed", why="parts registered one by one, and a norm of norms"),
    Row(answer=HoldsTheModule, verdict="not yet", mistake="whole-at-rest", why="the weights that were given"),
    Row(answer=KeepsAll, verdict="not yet", mistake="grows", why="a record"),
    Row(answer=KeepsGradients, verdict="not yet", mistake="whole-units-pile-up", why="whole gradients until the end"),
    Row(answer=NeverFrees, verdict="not yet", mistake="whole-until-backward", why="from forward to backward"),
    Row(answer=WholeWithoutBackward, verdict="not yet", mistake="whole-without-backward", why="no backward frees it"),
]
