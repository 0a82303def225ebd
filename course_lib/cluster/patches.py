"""Functions of PyTorch that a call has put its own in place of, and hooks on all modules: found, and put back.

A spy or a mock that outlives its call would judge the next one. Looked at are the places which people patch; a look
costs some microseconds, so that every call can afford one.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["patched", "patches"]

_OF_C10D = (
    *(
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "all_gather_single",
        "all_reduce",
        "all_to_all",
        "all_to_all_single",
    ),
    *(
        "barrier",
        "batch_isend_irecv",
        "broadcast",
        "broadcast_object_list",
        "destroy_process_group",
        "gather",
        "gather_single",
    ),
    *("get_rank", "get_world_size", "irecv", "is_initialized", "isend", "new_group", "recv", "reduce"),
    *("reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "send"),
)
_PLACES: dict[str, tuple[str, ...]] = {
    "torch.distributed": _OF_C10D,
    "torch.distributed.distributed_c10d": _OF_C10D,
    "torch": ("allclose", "equal", "load", "manual_seed", "matmul", "save", "tensor"),
    "torch._tensor.Tensor": ("backward", "matmul", "mul", "sum", "to"),
    "torch.nn.functional": (
        "cross_entropy",
        "linear",
        "mse_loss",
        "relu",
        "scaled_dot_product_attention",
        "softmax",
    ),
    "torch.nn.modules.module.Module": (
        "__call__",
        "_call_impl",
        "eval",
        "forward",
        "parameters",
        "train",
        "zero_grad",
    ),
    "time": ("monotonic", "perf_counter", "sleep", "time"),
}
_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
    "_global_buffer_registration_hooks",
    "_global_module_registration_hooks",
    "_global_parameter_registration_hooks",
)
_all_hooks = operator.itemgetter(*_HOOKS)


@dataclass(frozen=True)
class _Place:
    """A module or a class, and the functions that it had when it was first looked at."""

    owner: Any
    names: tuple[str, ...]
    functions: tuple[Any, ...]
    get: Callable[[Any], tuple[Any, ...]]  # the functions of these names now, of ``vars(owner)``

    def changed(self) -> dict[str, Any]:
        now = vars(self.owner)
        try:
            if self.get(now) == self.functions:  # compares by identity first
                return {}
        except Exception:  # one is gone, or cannot be compared
            pass
        pairs = zip(self.names, self.functions, strict=True)
        new = {name: now.get(name) for name, function in pairs if now.get(name) is not function}
        return {name: function for name, function in new.items() if not _is_by_torch(function)}


def _is_by_torch(function: Any) -> bool:
    """Whether PyTorch has wrapped it itself, as ``torch._dynamo`` does with ``torch.manual_seed`` when it is loaded."""
    code = getattr(function, "__code__", None)
    folder = os.path.dirname(str(sys.modules["torch"].__file__))
    return code is not None and code.co_filename.startswith(folder)


_places: dict[str, _Place] = {}


def patched() -> dict[str, Any]:
    """What stands in place of an original now, by its full name; the first look decides what the originals are."""
    if not _places:
        _places.update({name: _look(name, names) for name, names in _PLACES.items()})
    found: dict[str, Any] = {}
    for name, place in _places.items():
        for key, new in place.changed().items():
            found[f"{name}.{key}"] = new
    modules = vars(sys.modules["torch.nn.modules.module"])
    if any(_all_hooks(modules)):
        found |= {name: dict(modules[name]) for name in _HOOKS if modules[name]}
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
        place = _places[name]
        setattr(place.owner, key, wanted.get(full_name, place.functions[place.names.index(key)]))


def _look(name: str, names: tuple[str, ...]) -> _Place:
    owner: Any = sys.modules.get(name)
    if owner is None:  # a class
        module, _, attribute = name.rpartition(".")
        owner = getattr(sys.modules[module], attribute)
    functions = {name: vars(owner)[name] for name in names if callable(vars(owner).get(name))}
    names = tuple(functions)
    return _Place(owner, names, tuple(functions.values()), operator.itemgetter(*names))
