"""What each name stood for when this process was clean: of PyTorch, numpy, Python's modules, and of their classes.

A function that a call has put in place of another would judge, or spoil, the next call. So after each call all names
are looked at that people reach: those of modules and of the classes in them, inherited or not. What stands there by the
doing of a library is nobody's fault: a part that was imported late, a wrapper around the original, a state of a module.
"""

from __future__ import annotations

import builtins
import gc
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from course_lib.cluster.base.failure import is_user_code

__all__ = ["GONE", "Binding", "Namespace", "namespaces_here"]

GONE: Any = type("Gone", (), {"__repr__": lambda _: "nothing"})()  # in place of a name that is not there

# Of Python's own modules all but these: about programs rather than for them, and with many classes. ``builtins`` is
# looked after by ``builtin_names.py``.
_NOT_OF_PYTHON = {
    "abc",
    "ast",
    "asyncio",
    "builtins",
    "codecs",
    "ctypes",
    "dis",
    "email",
    "encodings",
    "enum",
    "http",
}
_NOT_OF_PYTHON |= {
    "html",
    "idlelib",
    "importlib",
    "inspect",
    "multiprocessing",
    "opcode",
    "pdb",
    "pydoc",
    "ssl",
    "stat",
}
_NOT_OF_PYTHON |= {
    "symtable",
    "tarfile",
    "termios",
    "token",
    "tokenize",
    "types",
    "typing",
    "unittest",
    "urllib",
    "xml",
}
_OF_TORCH = {
    "_tensor",
    "amp",
    "autograd",
    "backends",
    "cuda",
    "distributed",
    "distributions",
    "fft",
    "func",
    "nn",
}
_OF_TORCH |= {
    "functional",
    "linalg",
    "multiprocessing",
    "optim",
    "overrides",
    "random",
    "serialization",
    "special",
}
_OF_TORCH |= {"storage", "utils"}
_OF_C = {"torch._C"}
_OF_C |= {f"torch._C.{part}" for part in ("_nn", "_linalg", "_fft", "_special", "_autograd", "_distributed_c10d")}
# What its owner changes as it works.
_STATE = {
    "sys": {"stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__", "path", "argv"}
    | {"last_exc", "last_type", "last_value", "last_traceback", "ps1", "ps2", "tracebacklimit"},
    "tempfile": {"tempdir"},
}
_OF_PYTHON = {name for name in sys.stdlib_module_names - _NOT_OF_PYTHON if not name.startswith("_")}
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


class Binding:
    """What stands in a place. It equals another where both are the same object, however that one compares itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binding) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


class Namespace:
    """The names of one module or class, or of ``sys.modules``: what they were, and what of it is another now."""

    def __init__(self, name: str, owner: Any) -> None:
        self.name, self.owner = name, owner
        self.live = _live(owner)
        self._was = dict(self.live)
        self._now = self._was  # held, so that no address is used again for another value
        self.found: dict[str, Binding] = {}  # what somebody has put there, by name, at the last look

    def scan(self) -> None:
        was, before, self._now = self._was, self.found, dict(self.live)
        keys = self._now if self.owner is sys.modules else self._now.keys() | was.keys()
        pairs = ((key, was.get(key, GONE), self._now.get(key, GONE)) for key in keys)
        found = {key: new for key, old, new in pairs if new is not old and self._is_foul(key, old, new)}
        if self.owner is sys.modules:
            found |= dict.fromkeys(was.keys() - self._now.keys(), GONE)
        self.found = {
            key: before[key] if key in before and before[key].value is new else Binding(new)
            for key, new in found.items()
        }

    def accept(self, key: str | None = None) -> None:
        """What stands here (for this name, if one is given) at the last look is what is to stand here."""
        if key is None:
            self._was, self.found = self._now, {}
            return
        self._was = {name: value for name, value in self._was.items() if name != key}
        if key in self._now:
            self._was[key] = self._now[key]
        self.found = {name: value for name, value in self.found.items() if name != key}

    def full_name(self, key: str) -> str:
        return f"{self.name}[{key!r}]" if self.owner is sys.modules else f"{self.name}.{key}"

    def restore(self, key: str) -> None:
        self.assign(key, self._was.get(key, GONE))

    def assign(self, key: str, value: Any) -> None:
        """Have ``value`` stand there; ``GONE`` takes the name away."""
        if isinstance(self.owner, type):
            if value is not GONE:
                type.__setattr__(self.owner, key, value)
            elif key in self.live:
                type.__delattr__(self.owner, key)
        elif value is not GONE:
            self.live[key] = value
        else:
            self.live.pop(key, None)

    def _is_foul(self, key: str, old: Any, new: Any) -> bool:
        if self.owner is sys.modules:
            return old is not GONE
        if key in _STATE.get(self.name, ()) or not isinstance(key, str):
            return False
        is_private = key.startswith("_")
        if is_private and not _works(old) and not (_works(new) and _is_users(new)):
            return False
        if isinstance(self.owner, type) and not _works(old) and not _works(new):  # a counter, a setting
            return False
        if old is GONE:
            return self._is_foul_addition(key, new)
        if self.name == "sys" and new is not GONE and not _is_users(new):  # PyTorch has a hook for errors of its own
            return False
        return not _is_wrapped_by_its_library(old, new)

    def _is_foul_addition(self, key: str, new: Any) -> bool:
        if isinstance(new, ModuleType) and sys.modules.get(new.__name__) is new:
            return False
        if isinstance(self.owner, type) and _is_inherited(self.owner, key, new):  # as before, put back by hand
            return False
        if _is_users(new):
            return True
        if isinstance(self.owner, type):  # an inherited one is hidden
            return any(key in vars(base) for base in self.owner.__mro__[1:]) and not _is_own(self.owner, new)
        return key in vars(builtins)


def namespaces_here() -> list[Namespace]:
    """Those of the modules that are loaded now, and of the classes that can be reached by their names."""
    modules = {
        name: module for name, module in sys.modules.items() if type(module).__dictoffset__ and _is_scanned(name)
    }
    found = [Namespace("sys.modules", sys.modules)]
    seen: set[int] = set()
    for name, module in modules.items():
        if isinstance(module, ModuleType) and id(vars(module)) not in seen:
            seen.add(id(vars(module)))
            found.append(Namespace(name, module))
    torch = sys.modules.get("torch")
    functions = getattr(getattr(torch, "_C", None), "_VariableFunctions", None)
    owners = [*(space.owner for space in found[1:]), *([type(functions)] if functions is not None else [])]
    for kind in _classes(owners):
        if id(kind) not in seen:
            seen.add(id(kind))
            found.append(Namespace(f"{kind.__module__}.{kind.__qualname__}", kind))
    return found


def _is_scanned(name: str) -> bool:
    first, *rest = name.split(".")
    if first == "torch":
        is_public = not any(part.startswith("_") for part in rest[1:])
        return not rest or name in _OF_C or (rest[0] in _OF_TORCH and is_public)
    if first == "course_lib":
        return rest[:1] == ["cluster"]
    if first == "numpy":
        return not any(part.startswith("_") for part in rest)
    return not rest and first in _OF_PYTHON


def _classes(owners: list[Any]) -> Iterator[type]:
    """Those that can be changed; with what they inherit from, since a name may resolve there."""
    for owner in owners:
        values = [owner] if isinstance(owner, type) else list(vars(owner).values())
        for value in values:
            if issubclass(type(value), type):  # to ask the value itself makes one of torch.distributed warn
                kinds = (kind for kind in value.__mro__ if not kind.__flags__ & _IMMUTABLE)
                yield from (kind for kind in kinds if _is_scanned(kind.__module__))


def _live(owner: Any) -> dict[str, Any]:
    if isinstance(owner, dict):
        return owner
    if isinstance(owner, type):  # vars() shows it, and does not hand it out
        return next(one for one in gc.get_referents(vars(owner)) if isinstance(one, dict))
    return vars(owner)


def _works(value: Any) -> bool:
    """Whether it does something when it is called or read: a function, a class, a property."""
    return callable(value) or hasattr(type(value), "__get__")


def _is_users(value: Any) -> bool:
    """Whether a person wrote it, as far as can be seen: a function or class of a cell or a script, an object of one."""
    value = getattr(value, "__func__", value)
    value = getattr(value, "fget", value)
    code = getattr(value, "__code__", None)
    if code is not None:
        return is_user_code(code.co_filename)
    kind = value if isinstance(value, type) else type(value)
    module = sys.modules.get(kind.__module__)
    if kind.__module__ in ("__main__", "unittest.mock"):
        return True
    return module is not None and is_user_code(getattr(module, "__file__", None) or "<built in>")


def _is_inherited(owner: type, key: str, value: Any) -> bool:
    return next((vars(base)[key] is value for base in owner.__mro__[1:] if key in vars(base)), False)


def _is_own(owner: type, value: Any) -> bool:
    """Whether a library has given its own class this: PyTorch adds some methods when they are first asked for."""
    module = getattr(value, "__module__", None) or ""
    return module.split(".")[0] == owner.__module__.split(".")[0] and getattr(value, "__code__", None) is not None


def _is_wrapped_by_its_library(old: Any, new: Any) -> bool:
    """Whether PyTorch has put a function of its own around the old one, or in its place, while it worked.

    Not so where a person put one of PyTorch's wrappers around it: ``torch.no_grad()(nn.Module.__call__)``.
    """
    code = getattr(new, "__code__", None)
    if code is None:
        return False
    path = code.co_filename.replace("\\", "/")
    is_late = any(part in path for part in _WRAP_LATE)
    return is_late and ("<locals>" in code.co_qualname or _is_around(new, old))


_WRAP_LATE = ("/torch/_dynamo/", "/torch/_compile.py", "/torch/optim/optimizer.py")


def _is_around(new: Any, old: Any) -> bool:
    return inspect.unwrap(new) is inspect.unwrap(old)
