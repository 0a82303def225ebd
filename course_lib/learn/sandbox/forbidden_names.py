"""Which forbidden functions an answer names: read from its byte code, so that calls are found which no case reached.

A name counts however it was come by: ``dist.all_reduce``, ``from torch.distributed import all_reduce as plus`` at the
top or inside the function, ``import torch.distributed as d``, ``getattr(dist, "all_reduce")``.
"""

from __future__ import annotations

import builtins
import dis
import re
import sys
from collections.abc import Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from course_lib.learn.sandbox.call_watcher import from_library, resolve

__all__ = ["functions_of", "mentions"]

_FAST = re.compile("(LOAD|STORE)_FAST")  # some Pythons do two of them in one step
_STORES = ("STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_SHUFFLES = ("CACHE", "SWAP", "POP_TOP", "PUSH_NULL", "NOP", "NOT_TAKEN")


def mentions(answer: Any, forbidden: Sequence[str]) -> set[str]:
    """Which of these functions the code of ``answer``, or of a helper of the same file, names."""
    targets = [(name, resolve(name)) for name in forbidden]
    answer = getattr(answer, "func", answer)  # functools.partial
    answer = getattr(answer, "__func__", answer)  # a bound method
    found = {name for name, target in targets if answer is target}
    seen: set[CodeType] = set()
    for function in [] if found else functions_of(answer):
        _Reader(_visible(function), targets, found, seen).read(function.__code__)
    return found


def functions_of(answer: Any) -> list[FunctionType]:
    """The function itself; of a class, or of what is called like a function, its methods of every kind."""
    if isinstance(answer, FunctionType):
        return [answer]
    members = vars(answer if isinstance(answer, type) else type(answer)).values()
    return [function for member in members for function in _functions_behind(member)]


def _functions_behind(member: Any) -> list[FunctionType]:
    inner = [getattr(member, name, None) for name in ("__func__", "fget", "fset", "func")]
    return [one for one in (member, *inner) if isinstance(one, FunctionType)]


def _visible(function: FunctionType) -> dict[str, Any]:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    held = {}
    for name, cell in cells.items():
        try:
            held[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return {**vars(builtins), **function.__globals__, **held}


class _Reader:
    """Goes through one code object and notes what each step has at hand, as far as that can be told."""

    def __init__(
        self, names: dict[str, Any], targets: list[tuple[str, Any]], found: set[str], seen: set[CodeType]
    ) -> None:
        self._names, self._targets, self._found, self._seen = names, targets, found, seen
        self._stored: dict[str, Any] = {}  # by this code, so far; None: something that cannot be told
        self._at_hand: Any = None
        self._constant: Any = None  # the last one
        self._is_getattr = False  # it was named, and not called yet
        self._is_from = False  # the last import was "from ... import"
        self._module: Any = None  # of the last import

    def read(self, code: CodeType) -> None:
        if code in self._seen:
            return
        self._seen.add(code)
        for step in dis.get_instructions(code):
            if step.opname in _SHUFFLES:
                continue
            self._at_hand = self._after(step)
            self._note(self._at_hand)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                names = {**self._names, **self._stored}
                _Reader(names, self._targets, self._found, self._seen).read(constant)

    def _after(self, step: dis.Instruction) -> Any:
        """What is at hand after this step; None for what cannot be told."""
        name, argument, before = step.opname, step.argval, self._at_hand
        if fast := _FAST.findall(name):
            variables = argument if isinstance(argument, tuple) else (argument,)
            for deed, variable in zip(fast, variables, strict=False):
                if deed == "STORE":
                    self._stored[variable] = before
                before = self._loaded(variable) if deed == "LOAD" else None
            return before
        if name in _STORES:
            self._stored[argument] = before
            return None
        if name in _LOADS:
            return self._loaded(argument)
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            return _attribute(before, argument)
        if name == "LOAD_CONST":
            self._constant = argument
            return _attribute(before, argument) if self._is_getattr else None
        if name == "IMPORT_NAME":
            self._is_from = self._constant is not None
            self._module = sys.modules.get(argument if self._is_from else argument.partition(".")[0])
            return self._module
        if name == "IMPORT_FROM":
            part = getattr(self._module, argument, None)
            self._module = self._module if self._is_from else part  # import a.b.c as d
            return part
        if name.startswith("CALL"):
            self._is_getattr = False
        return None

    def _loaded(self, variable: str) -> Any:
        value = self._stored[variable] if variable in self._stored else self._names.get(variable)
        self._is_getattr |= value is getattr
        return value

    def _note(self, value: Any) -> None:
        if value is None:
            return
        self._found.update(name for name, target in self._targets if value is target)
        if isinstance(value, FunctionType) and not from_library(value.__code__.co_filename):
            _Reader(_visible(value), self._targets, self._found, self._seen).read(value.__code__)


def _attribute(owner: Any, name: Any) -> Any:
    if not isinstance(owner, ModuleType | type) or not isinstance(name, str):
        return None
    return getattr(owner, name, None)
