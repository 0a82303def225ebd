"""Listening in on every collective and every message of this process, at one place.

Whatever starts communication in PyTorch (a direct call, DDP's reducer, ``fully_shard``, DTensor, batched messages, a
backward pass) ends in an operator of the ``c10d`` library, called through PyTorch's dispatcher. While a tap is open, a
kernel of ours stands at the dispatch key that every call passes (``BackendSelect``), takes note, and hands on to the
kernel of the device. Ordinary tensor operations are not touched and cost nothing more.

Why not a ``TorchDispatchMode``: it runs Python at every operator of the program (7 % of a DDP step of a model of a
million parameters here), and sees functional collectives at another level than direct ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

__all__ = ["Listener", "close", "open_tap"]

# Called as listener(operator name, its arguments by name, proceed), and returns what proceed() returns.
Listener = Callable[[str, dict[str, Any], Callable[[], Any]], Any]

_lock = threading.Lock()
_listeners: list[Listener] = []  # the last one hears a call first
_num_first = 0  # at the end of the list: those that stay in front of whoever comes later
_library: Any = None


def open_tap(listener: Listener, *, first: bool = False) -> None:
    """From now on ``listener`` hears every call, in the thread that makes it.

    The newest hears it first, and before it those opened as ``first``.
    """
    global _library, _num_first
    with _lock:
        _listeners.insert(len(_listeners) if first else len(_listeners) - _num_first, listener)
        _num_first += first
        if _library is None:
            _library = torch.library.Library("c10d", "IMPL")
            for name in _operator_names():
                _library.impl(name, _kernel(name), "BackendSelect", with_keyset=True)


def close(listener: Listener) -> None:
    """Stop hearing; with the last listener the tap is taken out altogether."""
    global _library, _num_first
    with _lock:
        _num_first -= _listeners.index(listener) >= len(_listeners) - _num_first
        _listeners.remove(listener)
        if not _listeners and _library is not None:
            _library._destroy()
            _library = None


@lru_cache(maxsize=1)  # it goes through every operator of PyTorch, for milliseconds
def _operator_names() -> tuple[str, ...]:
    names = (name.removeprefix("c10d::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("c10d::"))
    return tuple(sorted(name for name in names if name != "check_for_nan" and "." not in name))


def _kernel(name: str) -> Callable[..., Any]:
    operator = getattr(torch.ops.c10d, name).default
    argument_names = [argument.name for argument in operator._schema.arguments]

    def hear(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        device_key = torch._C.DispatchKey.CUDA if keyset.has(torch._C.DispatchKey.CUDA) else torch._C.DispatchKey.CPU
        named = {**dict(zip(argument_names, args, strict=False)), **kwargs}

        def proceed() -> Any:
            return operator.redispatch(torch._C.DispatchKeySet(device_key), *args, **kwargs)

        for listener in list(_listeners):
            proceed = _nested(listener, name, named, proceed)
        return proceed()

    return hear


def _nested(listener: Listener, name: str, named: dict[str, Any], inner: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: listener(name, named, inner)
