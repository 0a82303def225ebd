"""Whose code runs on a rank: the learner's, line by line, and every function of a strategy that is not the learner's.

What counts is what is called while a run is built, takes its steps and gives its weights; an import says nothing.
Python tells each call, and of the learner's own functions each line. Numbers, autograd, collectives, messages and
groups are tools for everybody and are not told, nor is what the job hands out.
"""

from __future__ import annotations

import _thread
import hashlib
import inspect
import opcode
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from course_lib.cluster.base.failure import is_user_code

__all__ = ["COURSES", "FROM_TEXT", "OTHERS", "PYTORCHS", "YOURS", "CodeWatch", "SeenCode", "shape_of", "whose"]

YOURS, COURSES, PYTORCHS, OTHERS = "yours", "the course's", "PyTorch's", "another library's"
FROM_TEXT = "from a text"  # made by `exec`: of a dataclass, or of somebody who reads a file and runs it
_COURSE = Path(__file__).resolve().parents[2].as_posix() + "/"
_TORCH = Path(torch.__file__).resolve().parent.as_posix() + "/"
_OF_THE_COURSE = ("parallel/", "mine/courses", "capstone/running/on_mesh.py", "capstone/running/reference_run.py")
_OF_TORCH = (
    *("nn/parallel/", "distributed/fsdp/", "distributed/_composable/", "distributed/tensor/", "distributed/_tensor/"),
    *("distributed/pipelining/", "distributed/optim/", "distributed/algorithms/"),
)
_OF_OTHERS = ("accelerate", "colossalai", "deepspeed", "fairscale", "horovod", "lightning", "megatron", "torchtitan")
_LEAST_STEPS, _LEAST_KINDS = 50, 12  # of an interpreter, in a function: shorter ones are alike by chance
_LEFT_OUT = frozenset({"CACHE", "EXTENDED_ARG", "RESUME", "NOP", "PRECALL", "MAKE_CELL", "COPY_FREE_VARS", "PUSH_NULL"})


@dataclass(frozen=True)
class SeenCode:
    """A function that ran, as plain data.

    ``lines``: of the learner's own, those that ran, of ``num_lines``. ``called``: from which line of the learner's
    another's was called first. ``shape``: a mark of what it does, "" for a short one.
    """

    whose: str
    name: str
    file: str
    first_line: int
    lines: tuple[int, ...] = ()
    num_lines: int = 0
    called: str = ""
    shape: str = ""


@dataclass
class _Seen:
    whose: str
    code: CodeType
    called: str
    lines: set[int] = field(default_factory=set)

    def told(self) -> SeenCode:
        code, is_own = self.code, self.whose == YOURS
        return SeenCode(
            whose=self.whose,
            name=code.co_qualname.replace(".<locals>", ""),
            file=_shown(code.co_filename, self.whose),
            first_line=code.co_firstlineno,
            lines=tuple(sorted(self.lines)),
            num_lines=len(_lines_of(code)) if is_own else 0,
            called=self.called,
            shape=shape_of(code) if self.whose in (YOURS, FROM_TEXT) else "",
        )


class CodeWatch:
    """What ran while it was on; it listens in this thread, and in those that are begun meanwhile."""

    def __init__(self) -> None:
        self._whose: dict[str, str] = {}  # by file
        self._seen: dict[int, _Seen] = {}  # by the code object, which is kept

    @contextmanager
    def on(self) -> Iterator[None]:
        """Listen in this block."""
        before, before_in_threads, plain_start = sys.gettrace(), threading.gettrace(), _thread.start_new_thread

        def start(function: Callable[..., Any], *given: Any) -> int:
            return plain_start(self._listened_to(function), *given)

        threading.settrace(self._called)
        _thread.start_new_thread = start  # type: ignore[assignment]
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            _thread.start_new_thread = plain_start
            threading.settrace(before_in_threads)  # type: ignore[arg-type]

    def told(self) -> tuple[SeenCode, ...]:
        """Each function once."""
        return tuple(one.told() for one in self._seen.values())

    def _listened_to(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same for a thread of which Python's module of threads knows nothing."""

        def run(*args: Any, **kwargs: Any) -> Any:
            sys.settrace(self._called)
            return function(*args, **kwargs)

        return run

    def _called(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        file = code.co_filename
        owner = self._whose.get(file)
        if owner is None:
            owner = self._whose[file] = whose(file)
        if not owner or event != "call" or not code.co_flags & inspect.CO_OPTIMIZED:
            return None  # a tool, or the body of a module or class: somebody imports or defines it
        if id(code) not in self._seen:
            called = "" if owner in (YOURS, FROM_TEXT) else _place(frame.f_back)
            if not called and owner not in (YOURS, FROM_TEXT):
                return None  # the judge's own
            self._seen[id(code)] = _Seen(owner, code, called)
        return self._line if owner == YOURS else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "line":
            self._seen[id(frame.f_code)].lines.add(frame.f_lineno)
        return self._line


def whose(file: str) -> str:
    """Whose strategy or training stands in a file; "" for tools, and for what the job hands out."""
    path = file.replace("\\", "/")
    if path.startswith(_COURSE):
        if path.removeprefix(_COURSE).startswith(_OF_THE_COURSE):
            return COURSES
        return YOURS if is_user_code(file) else ""
    if path.startswith(_TORCH):
        return PYTORCHS if path.removeprefix(_TORCH).startswith(_OF_TORCH) else ""
    if "/site-packages/" in path:
        return OTHERS if path.partition("/site-packages/")[2].partition("/")[0] in _OF_OTHERS else ""
    if is_user_code(file):
        return YOURS
    return FROM_TEXT if file.startswith("<") and not file.startswith("<frozen") else ""


def shape_of(code: CodeType) -> str:
    """A mark of what a function does, whatever its names and numbers are; "" for one that is too short to tell."""
    names = [opcode.opname[number] for number in code.co_code[::2]]
    kinds = [_kind(name) for name in names if name not in _LEFT_OUT]
    if len(kinds) < _LEAST_STEPS or len(set(kinds)) < _LEAST_KINDS:
        return ""
    return hashlib.blake2b(" ".join(kinds).encode(), digest_size=8).hexdigest()


def _kind(name: str) -> str:
    """Whether a name is local, global or of a closure depends on where a function stands, and not on what it does; and
    whether a call is one of a method depends on where its module was imported.
    """
    if name == "LOAD_METHOD":
        return "LOAD_ATTR"
    for verb in ("LOAD", "STORE"):
        if name.startswith((f"{verb}_FAST", f"{verb}_GLOBAL", f"{verb}_DEREF", f"{verb}_NAME", f"{verb}_CLOSURE")):
            return verb
    return name


def _lines_of(code: CodeType) -> set[int]:
    """Lines of a function that can run, without that of its ``def``; one that stands on a line has that."""
    first = code.co_firstlineno
    return {line for _, _, line in code.co_lines() if line} - {first} or {first}


def _place(frame: FrameType | None) -> str:
    """The nearest line of somebody's own from here outwards; "" where there is none, and within an import."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return ""
        if whose(file) == YOURS:
            return f"line {frame.f_lineno} of {_shown(file, YOURS)}"
        frame = frame.f_back
    return ""


def _shown(file: str, owner: str) -> str:
    """A file as a person says it."""
    path = file.replace("\\", "/")
    if owner == COURSES:
        return f"course_lib/{path.removeprefix(_COURSE)}"
    if owner == PYTORCHS:
        return f"torch/{path.removeprefix(_TORCH)}"
    if "ipykernel_" in path or path.startswith("<"):
        return "a cell"
    folder, _, name = path.rpartition("/")
    return f"mine/{name}" if folder.rpartition("/")[2] == "mine" else name
