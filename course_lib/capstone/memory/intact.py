"""Whether the judge's own code is what it was: what each name of its modules stands for, and the code behind it.

Whoever puts another ``wait`` into ``WorkBlock``, or another ``time`` into ``steps``, changes what is measured. Looked
at are functions, classes with their methods, and modules by the names that they have there. Ranks are new for each
attempt, so nothing of this outlives one.

This tells the ideas of a class. Who walks up the stack and writes into a rank's own records is not told: a process
cannot guard itself against what runs in it. Points are given by the learner's own process, as anybody's are at home.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import marshal
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

__all__ = ["changes", "fingerprint", "rule_of"]

_CAPSTONE = {  # by the rule that is broken where one is changed
    "no waiting": (
        *("capstone.running.emulated_compute", "capstone.running.steps"),
        *("cluster.links.emulated_compute", "meter.clocks.timeline"),
    ),
    "hidden memory": (
        *("capstone.memory.memory_limit", "capstone.memory.memory_inventory", "capstone.memory.side_channel_audit"),
        *("capstone.memory.non_tensor_memory", "capstone.memory.system_memory", "capstone.memory.open_files"),
        *("capstone.memory.memory_group", "meter.memory.storages"),
    ),
    "past the meter": ("meter.communication.recorder", "meter.communication.call", "capstone.running.replay"),
    "foreign weights": ("capstone.running.task", "capstone.jobs.job", "capstone.memory.intact"),
}
_BUILTINS = frozenset(vars(builtins))


def fingerprint() -> dict[str, str]:
    """What stands behind every name of the judge, in a few letters each."""
    found: dict[str, str] = {}
    for names in _CAPSTONE.values():
        for name in names:
            module = importlib.import_module(f"course_lib.{name}")
            for key, value in vars(module).items():
                for full_name, mark in _marks(f"{name}.{key}", value, module.__name__):
                    found[full_name] = mark
    return found


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Names that stand for something else, and new ones in the place of Python's own."""
    other = {name for name in before if after.get(name) != before[name]}
    new = {name for name in after.keys() - before.keys() if name.rpartition(".")[2] in _BUILTINS}
    return tuple(sorted(other | new))


def rule_of(name: str) -> str:
    """The rule that is broken where this is changed."""
    return next(rule for rule, modules in _CAPSTONE.items() if any(name.startswith(f"{one}.") for one in modules))


def _marks(name: str, value: Any, module: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, ModuleType):
        yield name, f"module {value.__name__}"
    elif isinstance(value, type):
        yield name, f"class {value.__module__}.{value.__qualname__}"
        if value.__module__ == module:
            for key, part in vars(value).items():
                if code := _code_of(part):
                    yield f"{name}.{key}", _mark_of(code)
    elif code := _code_of(value):
        yield name, _mark_of(code)
    elif name.rpartition(".")[2] in _BUILTINS:
        yield name, type(value).__name__


def _code_of(value: Any) -> CodeType | str | None:
    """Of a function, a property, a method of a class; of another thing that can be called, its type and name."""
    for inner in ("fget", "__func__"):
        value = getattr(value, inner, value) if not isinstance(value, type) else value
    if isinstance(value, FunctionType):
        return value.__code__
    return f"{type(value).__name__} {getattr(value, '__qualname__', '')}" if callable(value) else None


def _mark_of(code: CodeType | str) -> str:
    # newer versions of the format say how often a part is referred to, too
    what = code.encode() if isinstance(code, str) else marshal.dumps(code, 2)
    return hashlib.blake2b(what, digest_size=8).hexdigest()
