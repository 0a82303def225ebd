"""03.replicas: tensors for each replica, connected to the module by autograd; buffers from replica 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from course_lib.learn.compare import close_to
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.judge import by_cases

__all__ = ["REPLICAS"]

Tensors = list[dict[str, Tensor]]

_WEIGHTS, _MEMORY, _NAMES = "the weights of replica 1", "memory", "names of each replica"
_GRADS, _BUFFERS = "the .grad of the module's parameters", "the module's buffers after a step"


def _module(frozen: bool) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).double()
    module[0].requires_grad_(not frozen)
    return module


def _parts(num_replicas: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(7)
    x = torch.randn(3 * num_replicas, 3, generator=draw, dtype=torch.float64)
    return list((x + torch.arange(3 * num_replicas).view(-1, 1)).chunk(num_replicas))


def _try(answer: Callable[..., Any], num_replicas: int, frozen: bool) -> dict[str, Any]:
    """A training step with what the answer gives, one replica after another."""
    module = _module(frozen)
    given = answer(module, num_replicas)
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, dict) for one in given):
        kinds = sorted({type(one).__name__ for one in given}) if isinstance(given, (list, tuple)) else []
        what = f"{type(given).__name__}{' of ' if kinds else ''}{', '.join(kinds)}"
        raise ValueError(f"a list with one dictionary for each replica was asked for; what came is a {what}")
    pairs = list(zip(given, _parts(num_replicas), strict=False))
    outputs = torch.cat([functional_call(module, tensors, (part,)) for tensors, part in pairs])
    if outputs.requires_grad:
        outputs.square().sum().backward()
    return {
        "number of replicas": len(given),
        _NAMES: sorted({name for tensors in given for name in tensors}),
        _MEMORY: _memory(module, given),
        _WEIGHTS: _kind(given[-1]),
        "the outputs": outputs,
        **_after(module),
    }


def _right(num_replicas: int, frozen: bool) -> dict[str, Any]:
    """The same step, from what it should come to: gradients of all parts in one, statistics of the first."""
    module, parts = _module(frozen), _parts(num_replicas)
    outputs = torch.cat([module(part) for part in parts])
    outputs.square().sum().backward()
    first = _module(frozen)
    first(parts[0])
    return {
        "number of replicas": num_replicas,
        _NAMES: sorted(module.state_dict()),
        _MEMORY: "each replica but the first has its own",
        _WEIGHTS: "connected to the module's",
        "the outputs": outputs,
        **_after(module),
        _BUFFERS: _after(first)[_BUFFERS],
    }


def _after(module: nn.Module) -> dict[str, Any]:
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    return {
        _GRADS: torch.cat([grad.flatten() for grad in grads]) if grads else "none",
        _BUFFERS: torch.cat([buffer.detach().double().flatten() for buffer in module.buffers()]),
    }


def _memory(module: nn.Module, given: Sequence[dict[str, Tensor]]) -> str:
    """Whether replicas 1 and up have storage that neither the module nor another replica uses."""
    taken = {tensor.data_ptr(): "the module" for tensor in module.state_dict().values()}
    for replica, tensors in enumerate(given):
        for name, tensor in tensors.items():
            owner = taken.get(tensor.data_ptr())
            if replica > 0 and owner not in (None, f"replica {replica}"):
                return f"replica {replica} shares {name} with {owner}"
            if owner is None:
                taken[tensor.data_ptr()] = f"replica {replica}"
    return "each replica but the first has its own"


def _kind(tensors: dict[str, Tensor]) -> str:
    weights = [tensor for name, tensor in tensors.items() if "running" not in name and "num" not in name]
    if any(tensor.requires_grad and tensor.is_leaf for tensor in weights):
        return "parameters of their own"
    return "connected to the module's" if any(tensor.requires_grad for tensor in weights) else "cut off"


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
        return isinstance(got, dict) and any(word in str(got.get(fact)) for word in words)

    return recognise


REPLICAS = Exercise(
    name="03.replicas",
    title="Tensors for every replica",
    judge=by_cases(
        [
            Case("two replicas", (2, False), _right),
            Case("three replicas", (3, False), _right),
            Case("two replicas, the first layer frozen", (2, True), _right),
        ],
        call=_try,
        compare=close_to(1e-8),
    ),
    mistakes=(
        Mistake(
            "cut-off",
            "The copies know nothing of the module: no gradient came back to it. `detach`, `.data`, `copy.deepcopy` "
            "and `torch.no_grad` cut a tensor off. `clone()` alone is an operation like any other, and autograd knows "
            "its way back.",
            _giving(weight=lambda p: p.detach().clone()),
            recognise=_says(_WEIGHTS, "cut off"),
        ),
        Mistake(
            "nothing-copied",
            "The replicas use the module's own tensors. In one memory that works; another device cannot reach them. "
            "Copy each parameter for each replica.",
            _giving(weight=lambda p: p.view_as(p)),
            recognise=_says(_MEMORY, "weight with the module"),
        ),
        Mistake(
            "new-parameters",
            "You made parameters of their own: they collect gradients, and the module's parameters, which the "
            "optimizer holds, never see them. A replica's weights are *results* of a copy: `p.clone()` and no more.",
            _giving(weight=lambda p: nn.Parameter(p.detach().clone(), requires_grad=p.requires_grad)),
            recognise=_says(_WEIGHTS, "parameters of their own"),
        ),
        Mistake(
            "one-copy-for-all",
            "You made one copy, and gave it to several replicas. Each sits on a device of its own and needs its own "
            "tensors: copy inside the loop.",
            _giving(same=True),
            recognise=_says(_MEMORY, "with replica"),
        ),
        Mistake(
            "buffers-left-out",
            "The weights are right. The buffers are missing: a device that has no running mean cannot compute a "
            "BatchNorm. `named_buffers()` lists them.",
            _giving(buffers=False),
        ),
        Mistake(
            "buffers-shared",
            "Every replica writes into the module's own buffers, all at the same time once they run in threads. Only "
            "replica 0 gets the module's; the others get copies.",
            _giving(own_buffers=lambda replica: False),
        ),
        Mistake(
            "buffers-lost",
            "Every replica has copies of the buffers, so the module's running statistics never move. Replica 0 gets "
            "the module's own buffers, and what it writes there stays.",
            _giving(own_buffers=lambda replica: True),
        ),
    ),
    hints=(
        "A copy that autograd records has a backward: the gradient goes back to the original. What copies so?",
        "For each replica a new dictionary: every parameter as a clone; every buffer as it is for replica 0, and as a "
        "clone for the others.",
        "`tensors = {name: p.clone() for name, p in module.named_parameters()}`, then for each of "
        "`module.named_buffers()`: `tensors[name] = buffer if replica == 0 else buffer.clone()`.",
    ),
    passed="Gradients of all replicas add up in the module, and the statistics of replica 0 stay.",
)
