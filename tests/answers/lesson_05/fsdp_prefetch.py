"""05.fsdp_prefetch: a learner's fully sharded wrapper."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_05.fsdp_builds.final import ByTensors, Final, KeepsInList, Waits
from answers.lesson_05.fsdp_builds.saved_hooks import SavedHooks
from answers.lesson_05.fsdp_builds.wrong_costs import IgnoresTheNumber, OnlyForward, TooFar, WaitsAtOnce, WhenNeeded

ROWS = [
    Row(answer=Final, verdict="passed", why="a row for each kind, whose storage is emptied and filled"),
    Row(answer=SavedHooks, verdict="passed", why="autograd saves a note in place of a weight"),
    Row(answer=ByTensors, verdict="passed", why="by the collectives that take one tensor"),
    Row(answer=Waits, verdict="passed", why="begun, and waited for"),
    Row(answer=KeepsInList, verdict="passed", why="parts registered one by one, and a norm of norms"),
    Row(answer=IgnoresTheNumber, verdict="not yet", why="always one"),
    Row(answer=OnlyForward, verdict="not yet", mistake="only-in-forward", why="backward fetches when it needs"),
    Row(answer=TooFar, verdict="not yet", mistake="too-far-ahead", why="one more than asked"),
    Row(answer=WaitsAtOnce, verdict="not yet", mistake="waits-at-once", why="ahead, and waited for"),
    Row(answer=WhenNeeded, verdict="not yet", mistake="begins-when-needed", why="nothing ahead"),
]
