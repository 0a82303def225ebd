"""Monkeypatch guard: functions that a call has replaced in PyTorch, numpy or Python, found by name and put back.

Looked at is what each name stands for (``namespaces.py``), and the hooks on all modules and optimizers. Kernels put in
place of PyTorch's own are looked for by ``registered_kernels.py``.
"""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from course_lib.cluster.state import registered_kernels
from course_lib.cluster.state.dict_versions import Tables
from course_lib.cluster.state.namespaces import GONE, Binding, Namespace, namespaces_here

__all__ = ["accept", "accepted", "in_words", "patched", "remember", "restore"]

_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
    "_global_buffer_registration_hooks",
    "_global_module_registration_hooks",
    "_global_parameter_registration_hooks",
)
_HOOKS_OF_OPTIMIZERS = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
_ALL_HOOKS = {*_HOOKS, *_HOOKS_OF_OPTIMIZERS}
_MODULES_OF_HOOKS = {"torch.nn.modules.module": _HOOKS, "torch.optim.optimizer": _HOOKS_OF_OPTIMIZERS}

_MOST_NAMES = 5  # that are told


class _Bindings:
    """All that is looked at, as it was when this was made."""

    def __init__(self) -> None:
        self.namespaces = namespaces_here()
        self._tables = Tables([namespace.live for namespace in self.namespaces])
        self._changed: set[int] = set()  # since the last ``accept``
        self._home_of: dict[str, tuple[Namespace, str]] = {}  # of names that a look has found

    def accept(self) -> None:
        self.scan()
        for number in self._changed:
            self.namespaces[number].accept()
        self._changed.clear()

    def accept_since(self, before: dict[str, Binding]) -> None:
        """Accept what has changed since a look, whose answer was ``before``."""
        now = self.scan()
        for name in before.keys() | now.keys():
            if before.get(name) != now.get(name):
                namespace, key = self._home_of[name]
                namespace.accept(key)

    def scan(self) -> dict[str, Binding]:
        changed = self._tables.changed()
        for number in changed:
            self.namespaces[number].scan()
        self._changed.update(changed)
        found = {}
        for number in self._changed:
            namespace = self.namespaces[number]
            for key, value in namespace.found.items():
                name = namespace.full_name(key)
                found[name] = value
                self._home_of[name] = namespace, key
        return found

    def restore(self, name: str, wanted: Binding | None) -> None:
        """Have ``wanted`` stand in a place that a look has found, or else the original."""
        namespace, key = self._home_of[name]
        if wanted is not None:
            namespace.assign(key, wanted.value)
        else:
            namespace.restore(key)


_bindings: _Bindings | None = None


def remember() -> None:
    """Take what stands everywhere now for the originals. Without it the first look does so."""
    global _bindings
    _bindings = _Bindings()
    registered_kernels.kernels()  # it notes who registers some from here on


def accept() -> None:
    """From now on, the originals are what stands everywhere now."""
    if _bindings is None:
        remember()
    else:
        _bindings.accept()
    registered_kernels.accept()


@contextlib.contextmanager
def accepted() -> Iterator[None]:
    """What the block puts anywhere is an original from then on; what others had put there before is still theirs."""
    before = _bindings.scan() if _bindings is not None else {}
    kernels_before = registered_kernels.kernels()
    yield
    if _bindings is not None:
        _bindings.accept_since(before)
    registered_kernels.accept(registered_kernels.kernels() - kernels_before)


def patched() -> dict[str, Any]:
    """What stands in place of an original now, by its full name, and hooks, by the name of their table."""
    if _bindings is None:
        remember()
    assert _bindings is not None
    found: dict[str, Any] = dict(_bindings.scan())
    for module, names in _MODULES_OF_HOOKS.items():
        if module in sys.modules:
            hooks = vars(sys.modules[module])
            if any(_getters[module](hooks)):
                found |= {name: dict(hooks[name]) for name in names if hooks[name]}
    return found


_getters = {module: operator.itemgetter(*names) for module, names in _MODULES_OF_HOOKS.items()}


def restore(wanted: dict[str, Any]) -> None:
    """Put back the originals, apart from what ``wanted`` (an answer of ``patched``) has in their place.

    Raises where something cannot be put back.
    """
    assert _bindings is not None
    now = patched()
    for name in now.keys() | wanted.keys():
        if name in _ALL_HOOKS:
            _restore_hooks(name, wanted.get(name, {}))
        elif now.get(name) != wanted.get(name):
            _bindings.restore(name, wanted.get(name))
    if patched() != wanted:
        raise RuntimeError("a name still stands for something else")


def in_words(found: dict[str, Any]) -> str:
    """ "torch.Tensor.sum, torch.add replaced by its own"; names that were taken away are told apart."""
    gone = {name for name, value in found.items() if isinstance(value, Binding) and value.value is GONE}
    replaced = found.keys() - gone
    lines = [f"{_some(replaced)} replaced by its own"] if replaced else []
    return " and ".join([*lines, *([f"{_some(gone)} taken away"] if gone else [])])


def _some(names: Iterable[str]) -> str:
    first, more = sorted(names)[:_MOST_NAMES], len(list(names)) - _MOST_NAMES
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")


def _restore_hooks(name: str, wanted: dict[Any, Any]) -> None:
    module = next(module for module, names in _MODULES_OF_HOOKS.items() if name in names)
    hooks = vars(sys.modules[module])[name]
    hooks.clear()
    hooks.update(wanted)
