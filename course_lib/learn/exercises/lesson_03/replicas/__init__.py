"""03.replicas: tensors for each replica, connected to the module by autograd; buffers from replica 0."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_03.facts import compare_facts
from course_lib.learn.exercises.lesson_03.replicas.facts import MEMORY, NAMES, WEIGHTS, expected_facts, facts_of
from course_lib.learn.judging.judge import by_cases

__all__ = ["REPLICAS"]

Tensors = list[dict[str, Tensor]]

_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


def _giving(
    *,
    weight: Callable[[Tensor], Tensor] = torch.clone,
    own_buffers: Callable[[int], bool] = lambda replica: replica > 0,
    buffers: bool = True,
    same: bool = False,
) -> Callable[..., Tensors]:
    def replica_tensors(module: nn.Module, num_replicas: int) -> Tensors:
        replicas = []
        for replica in range(num_replicas):
            tensors = {name: weight(p) for name, p in module.named_parameters()}
            for name, buffer in module.named_buffers() if buffers else ():
                tensors[name] = buffer.clone() if own_buffers(replica) else buffer
            replicas.append(tensors)
        return [replicas[0]] * num_replicas if same else replicas

    return replica_tensors


def _says(fact: str, *words: str) -> Callable[[Evidence], bool]:
    """Whether this fact of the first case reads so."""

    def recognise(seen: Evidence) -> bool:
        got = seen.outcomes[0].got
        return isinstance(got, dict) and all(word in str(got.get(fact)) for word in words)

    return recognise


def _shares(whose: str, names: tuple[str, ...]) -> Callable[[Evidence], bool]:
    """Whether a tensor with one of these words in its name lies in memory of another."""
    return lambda seen: any(_says(MEMORY, "shares", name, whose)(seen) for name in names)


REPLICAS = Exercise(
    name="03.replicas",
    title="Tensors for every replica",
    judge=by_cases(
        [
            Case("two replicas", (2, "normed"), expected_facts),
            Case("three replicas", (3, "normed"), expected_facts),
            Case("two replicas, the first layer frozen", (2, "frozen"), expected_facts),
            Case(
                "four replicas, two layers that share a weight and a buffer that is not saved",
                (4, "tied"),
                expected_facts,
            ),
            Case("one replica", (1, "normed"), expected_facts),
        ],
        call=facts_of,
        compare=compare_facts,
    ),
    mistakes=(
        Mistake(
            "cut-off",
            "Here are copies that know nothing of the module: no gradient comes back from them. `detach`, `.data`, "
            "`copy.deepcopy` and `torch.no_grad` cut a tensor off. `clone()` alone is an operation like any other, "
            "and autograd knows its way back.",
            recognise=_says(WEIGHTS, "cut off"),
        ),
        Mistake(
            "nothing-copied",
            "The replicas use the module's own tensors. In one memory that works; another device cannot reach them. "
            "Copy each parameter for each replica.",
            recognise=_shares("with the module", ("weight", "bias")),
        ),
        Mistake(
            "new-parameters",
            "You made parameters of their own: they collect gradients, and the module's parameters, which the "
            "optimizer holds, never see them. A replica's weights are *results* of a copy: `p.clone()` and no more.",
            recognise=_says(WEIGHTS, "parameters of its own"),
        ),
        Mistake(
            "one-copy-for-all",
            "You made one copy, and gave it to several replicas. Each sits on a device of its own and needs its own "
            "tensors: copy inside the loop.",
            recognise=_shares("with replica", ("weight", "bias")),
        ),
        Mistake(
            "buffers-left-out",
            "Buffers are missing: a device that has no running mean cannot keep a BatchNorm's statistics. "
            "`named_buffers()` lists them.",
            recognise=lambda seen: any(_says(NAMES, "has no", name)(seen) for name in _BUFFERS),
        ),
        Mistake(
            "buffers-shared",
            "A replica other than the first writes into the module's own buffers, at the same time as replica 0 once "
            "they run in threads. Only replica 0 gets the module's; the others get copies.",
            recognise=_shares("with the module", _BUFFERS),
        ),
        Mistake(
            "buffers-lost",
            "Every replica has copies of the buffers, so the module's running statistics never move. Replica 0 gets "
            "the module's own buffers, and what it writes there stays.",
            _giving(own_buffers=lambda replica: True),
        ),
    ),
    hints=(
        "A copy that autograd records has a backward: the gradient goes back to the original. Which operation "
        "makes such a copy?",
        "Make a new dictionary for each replica. It has a clone of every parameter. It has every buffer as it is for "
        "replica 0, and a clone of it for the others.",
        "`tensors = {name: p.clone() for name, p in module.named_parameters()}`, then for each of "
        "`module.named_buffers()`: `tensors[name] = buffer if replica == 0 else buffer.clone()`.",
    ),
    passed="Gradients of all replicas add up in the module, and the statistics of replica 0 stay, with weights that "
    "are frozen or shared too.",
)
