"""05.fsdp_values: a learner's fully sharded wrapper."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_05.fsdp_builds.final import ByTensors, Final, KeepsInList, Waits
from answers.lesson_05.fsdp_builds.saved_hooks import SavedHooks
from answers.lesson_05.fsdp_builds.wrong_values import (
    DropsKeywords,
    EmptiedTooSoon,
    FlatNames,
    ForgetsTheRest,
    KeepsTheModule,
    NeverWaits,
    NoModule,
    OtherNames,
    OwnGradients,
    SetsASeed,
    Stale,
    Sums,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="a row for each kind, whose storage is emptied and filled"),
    Row(answer=SavedHooks, verdict="passed", why="autograd saves a note in place of a weight"),
    Row(answer=ByTensors, verdict="passed", why="by the collectives that take one tensor"),
    Row(answer=Waits, verdict="passed", why="begun, and waited for"),
    Row(answer=KeepsInList, verdict="passed", why="parts registered one by one, and a norm of norms"),
    Row(answer=DropsKeywords, verdict="not yet", mistake="drops-keywords", why="no input by name"),
    Row(answer=EmptiedTooSoon, verdict="not yet", mistake="emptied-too-soon", why="the memory goes under a call"),
    Row(answer=FlatNames, verdict="not yet", why="flat tensors under the right names"),
    Row(answer=ForgetsTheRest, verdict="not yet", mistake="forgets-the-rest", why="what is in no unit stays"),
    Row(
        answer=KeepsTheModule,
        verdict="not yet",
        mistake="parameters-are-whole",
        why="an optimizer would have states of all",
    ),
    Row(answer=NeverWaits, verdict="not yet", mistake="not-waited-for", why="a reduce-scatter"),
    Row(answer=NoModule, verdict="not yet", why="no `parameters()`"),
    Row(answer=OtherNames, verdict="not yet", mistake="other-names", why="a prefix"),
    Row(answer=OwnGradients, verdict="not yet", mistake="asks-for-no-sum", why="its own gradient"),
    Row(answer=SetsASeed, verdict="not yet", why="everybody's seed"),
    Row(answer=Stale, verdict="not yet", mistake="computes-with-old-weights", why="gathered once"),
    Row(answer=Sums, verdict="not yet", mistake="sum-not-mean", why="SGD shows it"),
]
