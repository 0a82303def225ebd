"""05.fsdp_tools: a learner's fully sharded wrapper."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_05.fsdp_builds.final import ByTensors, Final, KeepsInList, Waits
from answers.lesson_05.fsdp_builds.saved_hooks import SavedHooks
from answers.lesson_05.fsdp_builds.wrong_models import (
    AddsNorms,
    AlwaysScales,
    ForgetsBuffers,
    LoadsAnotherPart,
    LoadsNothing,
    NeverScales,
    OwnNorm,
)
from answers.lesson_05.fsdp_builds.wrong_tools import (
    AllBuffers,
    BuffersAreTheStates,
    ClearsGradients,
    GivesAFloat,
    GivesARow,
    KeepsTheState,
    PartIsAView,
    ReplacesParts,
    TakesOut,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="a row for each kind, whose storage is emptied and filled"),
    Row(answer=SavedHooks, verdict="passed", why="autograd saves a note in place of a weight"),
    Row(answer=ByTensors, verdict="passed", why="by the collectives that take one tensor"),
    Row(answer=Waits, verdict="passed", why="begun, and waited for"),
    Row(answer=KeepsInList, verdict="passed", why="parts registered one by one, and a norm of norms"),
    Row(answer=AddsNorms, verdict="not yet", mistake="another-norm", why="norms do not add"),
    Row(answer=AlwaysScales, verdict="not yet", mistake="clips-otherwise", why="twice the limit"),
    Row(answer=ForgetsBuffers, verdict="not yet", mistake="loads-otherwise", why="buffers stay"),
    Row(answer=LoadsAnotherPart, verdict="not yet", mistake="loads-otherwise", why="another rank's"),
    Row(answer=LoadsNothing, verdict="not yet", mistake="loads-otherwise", why="nothing is loaded"),
    Row(answer=NeverScales, verdict="not yet", mistake="clips-otherwise", why="a new tensor"),
    Row(answer=OwnNorm, verdict="not yet", mistake="norm-of-its-own", why="each rank another"),
    Row(answer=AllBuffers, verdict="not yet", mistake="other-names", why="one that is in no `state_dict()`"),
    Row(answer=BuffersAreTheStates, verdict="not yet", mistake="spoils-the-state", why="they are the state's own"),
    Row(answer=ClearsGradients, verdict="not yet", mistake="reading-changes", why="no gradients for the step"),
    Row(answer=GivesAFloat, verdict="not yet", mistake="norm-is-no-tensor", why="a float"),
    Row(answer=GivesARow, verdict="not yet", mistake="norm-is-no-tensor", why="one dimension"),
    Row(answer=KeepsTheState, verdict="not yet", mistake="keeps-what-was-whole", why="the last one it gave"),
    Row(answer=PartIsAView, verdict="not yet", mistake="keeps-what-was-whole", why="the whole row lives"),
    Row(answer=ReplacesParts, verdict="not yet", mistake="parts-are-replaced", why="the optimizer has the old ones"),
    Row(answer=TakesOut, verdict="not yet", mistake="spoils-the-state", why="its names go"),
]
