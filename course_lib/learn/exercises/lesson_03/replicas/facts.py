"""What 03.replicas looks at: a training step with the tensors that an answer gives, in words where that helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from course_lib.learn.exercises.lesson_03.replicas.models import module_of, parts_for
from course_lib.learn.judging.mutation_guard import Kept

__all__ = ["CAME", "MEMORY", "NAMES", "WEIGHTS", "expected_facts", "facts_of"]

Given = list[dict[str, Tensor]]

CAME, NAMES, MEMORY, WEIGHTS = "what came back", "names", "memory", "the weights"
_CHANGED, _STEP, _BUFFERS = (
    "what it changed by itself",
    "a training step",
    "the module's buffers after a step",
)
_FINE = {
    CAME: "a list of dictionaries",
    NAMES: "all that there are",
    MEMORY: "each replica but the first has its own",
    WEIGHTS: "connected to the module's",
    _CHANGED: "nothing",
    _STEP: "went well",
}


def facts_of(answer: Callable[..., Any], num_replicas: int, kind: str) -> dict[str, Any]:
    """A training step with what the answer gives, one replica after another. It ends where there is no going on."""
    module = module_of(kind)
    own, kept = [*module.parameters(), *module.buffers()], Kept(module=module)
    given = answer(module, num_replicas)
    changed = kept.changes() or _replaced(module, own)
    facts: dict[str, Any] = {CAME: _came(given), "number of replicas": _length(given)}
    if facts[CAME] != _FINE[CAME] or len(given) != num_replicas:
        return facts
    facts |= {NAMES: _names(module, given), MEMORY: _memory(module, given), WEIGHTS: _weights(module, given)}
    facts |= {_CHANGED: changed or _FINE[_CHANGED], _STEP: _FINE[_STEP]}
    try:
        pairs = zip(given, parts_for(num_replicas), strict=True)
        outputs = torch.cat([_run(module, tensors, part) for tensors, part in pairs])
        if outputs.requires_grad:
            outputs.square().sum().backward()
    except Exception as error:  # the step is ours: no line of it is the learner's
        return facts | {_STEP: f"ended in {type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    return facts | {"the outputs": outputs.detach(), **_after(module)}


@cache
def expected_facts(num_replicas: int, kind: str) -> dict[str, Any]:
    """The same step, from what it should come to: gradients of all parts in one, statistics of the first."""
    module, parts = module_of(kind), parts_for(num_replicas)
    outputs = torch.cat([module_of(kind)(part) for part in parts])
    torch.cat([module(part) for part in parts]).square().sum().backward()
    first = module_of(kind)
    first(parts[0])
    return {
        **_FINE,
        "number of replicas": num_replicas,
        "the outputs": outputs.detach(),
        **_after(module),
        _BUFFERS: _after(first)[_BUFFERS],
    }


def _run(module: nn.Module, tensors: dict[str, Tensor], part: Tensor) -> Tensor:
    """A shared weight may come under one of its names, and then stands for the others, or under each of them."""
    names = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    return functional_call(module, tensors, (part,), tie_weights=not names <= tensors.keys())


def _came(given: Any) -> str:
    if isinstance(given, list | tuple) and all(isinstance(one, dict) for one in given):
        wrong = [(name, value) for one in given for name, value in one.items() if not isinstance(value, Tensor)]
        if wrong:
            name, value = wrong[0]
            return f"dictionaries in which {name!r} is a {type(value).__name__}, where tensors were asked for"
        return _FINE[CAME]
    kinds = sorted({type(one).__name__ for one in given}) if isinstance(given, list | tuple) else []
    what = f"{type(given).__name__}{' of ' if kinds else ''}{', '.join(kinds)}"
    return f"a {what}, where a list with one dictionary for each replica was asked for"


def _length(given: Any) -> Any:
    return len(given) if isinstance(given, list | tuple) else "not to be counted"


def _replaced(module: nn.Module, own: Sequence[Tensor]) -> str:
    now = [*module.parameters(), *module.buffers()]
    same = len(now) == len(own) and all(a is b for a, b in zip(now, own, strict=True))
    return "" if same else "the module has other tensors than before"


def _names(module: nn.Module, given: Given) -> str:
    """Whether each replica has every tensor of the module, a shared one under one of its names at least."""
    tensors = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    names_of: dict[int, set[str]] = {}
    for name, tensor in tensors:
        names_of.setdefault(id(tensor), set()).add(name)
    for replica, one in enumerate(given):
        for names in names_of.values():
            if not names & one.keys():
                return f"replica {replica} has no {sorted(names)[0]!r}"
        if extra := one.keys() - {name for name, _ in tensors}:
            return f"replica {replica} has {sorted(map(str, extra))[0]!r}, which is no tensor of the module"
    return _FINE[NAMES]


def _memory(module: nn.Module, given: Given) -> str:
    """Whether replicas 1 and up have storage that neither the module nor another replica uses."""
    own = [*module.parameters(), *module.buffers()]
    taken = {tensor.data_ptr(): "the module" for tensor in own}
    for replica, tensors in enumerate(given):
        for name, tensor in tensors.items():
            owner = taken.get(tensor.data_ptr())
            if replica > 0 and owner not in (None, f"replica {replica}"):
                return f"replica {replica} shares {name} with {owner}"
            if owner is None:
                taken[tensor.data_ptr()] = f"replica {replica}"
    return _FINE[MEMORY]


def _weights(module: nn.Module, given: Given) -> str:
    """Whether a gradient that reaches a replica's weight can find its way to the module's."""
    learned = {name: p for name, p in module.named_parameters(remove_duplicate=False) if p.requires_grad}
    for replica, tensors in enumerate(given):
        cut = []
        names = [name for name in learned if name in tensors]
        for name in names:
            tensor = tensors[name]
            if tensor.requires_grad and tensor.is_leaf and tensor is not learned[name]:
                return f"replica {replica} has parameters of its own, {name} for one"
            if not tensor.requires_grad:
                cut.append(name)
        if cut:
            which = "all" if cut == names else cut[0]
            return f"{which} of replica {replica} cut off from the module's"
    return _FINE[WEIGHTS]


def _after(module: nn.Module) -> dict[str, Any]:
    """By name: the gradients of the parameters that are learned, and the buffers."""
    grads = {name: "none" if p.grad is None else p.grad.clone() for name, p in module.named_parameters()}
    buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
    return {"the .grad of the module's parameters": grads, _BUFFERS: buffers}
