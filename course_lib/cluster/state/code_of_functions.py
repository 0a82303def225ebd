"""Changed code of functions: the name stands for the same function, whose code or defaults are others.

Nobody can look at every function before each call. Python tells of such a change before it happens (an audit event),
and what stood there is noted then. Only of functions that a module holds under their own names: who makes a function
sets its defaults, too.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from course_lib.cluster.state.setting import Setting

__all__ = ["code_of_functions"]

_PARTS = ("__code__", "__defaults__", "__kwdefaults__")
_EVENTS = ("object.__setattr__", "object.__delattr__")
_usual: dict[tuple[FunctionType, str], Any] = {}  # what stood there when it was first changed
_seen: dict[int, Any] = {}  # values by their ids, kept so that no id is used anew
_is_hooked = False


def code_of_functions() -> Setting:
    """Listens from now on, in this process and its forks."""
    global _is_hooked
    if not _is_hooked:
        _is_hooked = True
        sys.addaudithook(_note)
    return Setting("code of functions", _now, _restore, _in_words)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _EVENTS and arguments[1] in _PARTS and isinstance(arguments[0], FunctionType):
        function, part = arguments[:2]
        if (function, part) not in _usual and _is_held(function):
            _usual[function, part] = getattr(function, part)


def _is_held(function: FunctionType) -> bool:
    """Whether it is what its module has under its name."""
    found: Any = sys.modules.get(function.__module__ or "")
    for name in function.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return getattr(found, "__func__", found) is function  # of a static or class method


def _now() -> dict[tuple[FunctionType, str], int]:
    """What is not as usual, by the ids of what stands there: values may refuse to be compared."""
    found = {}
    for (function, part), usual in _usual.items():
        value = getattr(function, part)
        if value is not usual:
            _seen[id(value)] = value
            found[function, part] = id(value)
    return found


def _restore(wanted: dict[tuple[FunctionType, str], int]) -> None:
    for (function, part), usual in list(_usual.items()):
        value = _seen[wanted[function, part]] if (function, part) in wanted else usual
        setattr(function, part, value)


def _in_words(now: dict[tuple[FunctionType, str], int]) -> str:
    changed = dict.fromkeys(f"{f.__module__}.{f.__qualname__}" for f, _ in now)
    return f"{', '.join(changed)} with other code or defaults"
