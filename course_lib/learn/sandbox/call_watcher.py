"""Did the learner's code call what it was to write itself? Watched while it runs.

``sys.setprofile`` reports every call in this thread and in those that the code starts, whatever name or alias it went
by; a call counts when the code that made it is not a library's own. Calls that no case reached are found in the byte
code, by ``forbidden_names.py``.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, ParamSpec, TypeVar

__all__ = ["from_library", "is_of_course", "is_of_judges", "resolve", "unwatched", "watch"]

P = ParamSpec("P")
R = TypeVar("R")
_Watcher = Callable[[FrameType, str, Any], None]
_watching: set[Any] = set()  # functions of ours that ``sys.setprofile`` calls at present

_COURSE = str(Path(__file__).resolve().parents[2])
_JUDGES = str(Path(__file__).resolve().parents[1])
_EXERCISES = str(Path(__file__).resolve().parents[1] / "exercises")
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def from_library(filename: str) -> bool:
    """Whether code of this file is Python's, an installed package's or the course's, not a person's."""
    if filename.startswith(_EXERCISES):  # wrong answers kept as examples stand for a person's
        return False
    return filename.startswith("<frozen") or filename.startswith((*_LIBRARIES, _COURSE))


def is_of_course(filename: str) -> bool:
    """Whether code of this file is the course's own, exercises and their examples among it."""
    return filename.startswith(_COURSE)


def is_of_judges(filename: str) -> bool:
    """Whether code of this file is what tries answers, exercises and their examples among it."""
    return filename.startswith(_JUDGES)


def resolve(name: str) -> Any:
    """The object of a dotted name, such as "torch.distributed.all_reduce". Raises ``ValueError`` when there
    is none.
    """
    parts = name.split(".")
    for split in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:split]))
        except ImportError:
            continue
        for part in parts[split:]:
            found = getattr(found, part, None)
        if found is not None:
            return found
    raise ValueError(f"{name!r} names nothing that can be forbidden; give module and name, as torch.cumsum")


@contextmanager
def watch(forbidden: Sequence[str]) -> Iterator[set[str]]:
    """Within it, calls of these functions by code that is no library's are put in the set that it gives."""
    called: set[str] = set()
    if not forbidden:
        yield called
        return
    targets = {name: resolve(name) for name in forbidden}
    profile, forget = _profile(targets, called)
    before, before_in_threads = sys.getprofile(), threading.getprofile()
    _watching.add(profile)
    threading.setprofile(profile)  # for threads that begin from now on
    sys.setprofile(profile)
    try:
        yield called
    finally:
        sys.setprofile(before)
        threading.setprofile(before_in_threads)
        _watching.discard(profile)
        forget()  # a thread may run on


def unwatched(function: Callable[P, R]) -> Callable[P, R]:
    """A judge's own function, in which nobody watches: each call there would call the watcher as well.

    It is for functions that call no answer. The watcher of somebody else, such as cProfile's, stays.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if (watcher := sys.getprofile()) not in _watching:
            return function(*args, **kwargs)
        sys.setprofile(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.setprofile(watcher)

    return call


def _profile(targets: dict[str, Any], called: set[str]) -> tuple[_Watcher, Callable[[], None]]:
    """What ``sys.setprofile`` calls for each call and each return, a function with little to do; and its end."""
    # By the name of the code first: to look a code object up takes the hash of all that it holds.
    by_name: dict[str, list[tuple[CodeType, str]]] = {}
    wrappers: set[CodeType] = set()
    built_in: list[tuple[str, Any]] = []
    for name, target in targets.items():
        codes = _codes(target)
        if codes:
            same_name = by_name.setdefault(codes[-1].co_name, [])
            same_name[:] = [pair for pair in same_name if pair[0] is not codes[-1]] + [(codes[-1], name)]
            wrappers.update(codes[:-1])
        else:
            built_in.append((name, target))
    of_library: dict[str, bool] = {}  # by file

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            for code, name in by_name.get(frame.f_code.co_name, ()):
                if code is frame.f_code:
                    caller = frame.f_back
                    while caller is not None and caller.f_code in wrappers:
                        caller = caller.f_back
                    if caller is not None and not from_library(caller.f_code.co_filename):
                        called.add(name)
        elif event == "c_call" and built_in:
            file = frame.f_code.co_filename
            if file not in of_library:
                of_library[file] = from_library(file)
            if not of_library[file]:
                called.update(name for name, target in built_in if _is_call_of(argument, target))

    def forget() -> None:
        by_name.clear()
        built_in.clear()

    return profile, forget


def _codes(target: Any) -> list[CodeType]:
    """The code of a Python function or class method from its outermost decorator to itself; of a class, of its
    ``__init__``.
    """
    function = target.__init__ if inspect.isclass(target) else target
    codes = []
    while function is not None:
        function = getattr(function, "__func__", function)  # of a class method
        if isinstance(function, FunctionType):
            codes.append(function.__code__)
        function = getattr(function, "__wrapped__", None)
    return codes


def _is_call_of(built_in: Any, target: Any) -> bool:
    if built_in is target:
        return True
    owner = getattr(target, "__objclass__", None)  # a method such as Tensor.cumsum arrives bound to its tensor
    return (
        owner is not None
        and getattr(built_in, "__name__", "") == target.__name__
        and isinstance(getattr(built_in, "__self__", None), owner)
    )
