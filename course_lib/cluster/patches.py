"""Functions of PyTorch that a call has put its own in place of, and hooks on all modules: found, and put back.

A spy or a mock that outlives its call would judge the next one. Looked at are the places which people patch; the names
that a module gains by a late import are no patch.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["patched", "patches"]

_PLACES = (
    "torch",
    "torch.distributed",
    "torch.distributed.distributed_c10d",
    "torch.nn.functional",
    "torch.Tensor",
    "torch.nn.Module",
    "torch.nn.Linear",
    "torch.optim.Optimizer",
    "torch.autograd",
    "time",
    "random",
)
_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
    "_global_buffer_registration_hooks",
    "_global_module_registration_hooks",
    "_global_parameter_registration_hooks",
)

_originals: dict[
    str, tuple[Any, dict[str, Any], dict[str, Any]]
] = {}  # place -> itself, all of it, what can be called


def patched() -> dict[str, Any]:
    """What stands in place of an original now, by its full name; the first look decides what the originals are."""
    if not _originals:
        _look()
    found: dict[str, Any] = {}
    for name, (place, everything, functions) in list(_originals.items()):
        now = vars(place)
        if _equal(now, everything):
            continue
        others = {key: now.get(key) for key, value in functions.items() if now.get(key) is not value}
        found |= {f"{name}.{key}": value for key, value in others.items()}
        if not others:  # late imports have added names: not to be looked at again
            _originals[name] = (place, dict(now), functions)
    modules = sys.modules["torch.nn.modules.module"]
    found |= {name: dict(hooks) for name in _HOOKS if (hooks := getattr(modules, name, None))}
    return found


def patches(wanted: dict[str, Any]) -> None:
    """Put back the originals, apart from what ``wanted`` (an answer of ``patched``) has in their place."""
    modules = sys.modules["torch.nn.modules.module"]
    for full_name in patched().keys() | wanted.keys():
        if full_name in _HOOKS:
            hooks = getattr(modules, full_name)
            hooks.clear()
            hooks.update(wanted.get(full_name, {}))
            continue
        name, _, key = full_name.rpartition(".")
        place, _, functions = _originals[name]
        setattr(place, key, wanted.get(full_name, functions[key]))


def _look() -> None:
    import torch

    for name in _PLACES:
        place: Any = sys.modules.get(name)
        if place is None:
            place = torch
            for part in name.split(".")[1:]:
                place = getattr(place, part)
        everything = dict(vars(place))
        _originals[name] = (place, everything, {k: v for k, v in everything.items() if callable(v)})


def _equal(now: Any, everything: dict[str, Any]) -> bool:
    """Whether nothing at all has changed: the quick look."""
    try:
        return bool(dict(now) == everything)
    except Exception:  # a value that cannot be compared, such as a tensor
        return False
