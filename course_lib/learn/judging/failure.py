"""Exceptions of a learner's code in words, and how an untouched stub is told from an answer."""

from __future__ import annotations

import dis
import linecache
import re
import traceback
from types import CodeType, FunctionType, TracebackType
from typing import Any

from course_lib.base.stub_words import has_words_of_a_stub
from course_lib.learn.catalogue.exercise import Raised
from course_lib.learn.sandbox.call_watcher import from_library, is_of_course, is_of_judges
from course_lib.learn.sandbox.forbidden_names import functions_of

__all__ = [
    "NotAnAnswer",
    "NotAttempted",
    "describe",
    "empty_methods",
    "is_of_us",
    "is_stub",
    "is_wrong_call",
    "says_your_turn",
    "shortened",
]

_LONGEST_MESSAGE = 300  # characters, of an exception

_WRONG_CALL = re.compile(r"\(\) (takes .* but \d+ (was|were) given|missing \d+ required|got an unexpected keyword)")
_QUIET = {"RESUME", "CACHE", "NOP", "PUSH_NULL", "PRECALL", "COPY_FREE_VARS", "MAKE_CELL", "NOT_TAKEN"}
_STUB = _QUIET | {"LOAD_GLOBAL", "LOAD_CONST", "LOAD_COMMON_CONSTANT", "CALL", "POP_TOP"}


class NotAttempted(Exception):
    """The answer is still the stub; the text names those of a class's methods that are."""


class NotAnAnswer(Exception):
    """What was given cannot be tried at all; the text says what is asked for."""


def describe(error: BaseException, answer: Any = None) -> Raised:
    """The exception with its text on one line and the innermost line that a person wrote.

    A line of a judge is nobody's, but where ``answer`` is an example of ours, which stands for a learner's.
    """
    with_ours = is_of_us(answer)
    message = " ".join(_message(error).split())
    line, source, file = None, "", ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        filename = frame.f_code.co_filename
        if not from_library(filename) and (with_ours or not is_of_judges(filename)):
            line, source, file = number, linecache.getline(filename, number).strip(), filename
    if isinstance(error, SystemExit):
        return Raised("SystemExit", "it asked Python to exit", line, source, file=file)
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is not None and is_wrong_call(type(error).__name__, message, last.tb_frame.f_code.co_filename):
        line, source = None, ""  # the line is the judge's, and right
    return Raised(type(error).__name__, shortened(message), line, source[:120], file=file)


def shortened(message: str) -> str:
    """A message of at most 300 characters; what is left out is marked, its end is kept, and no word is cut."""
    if len(message) <= _LONGEST_MESSAGE:
        return message
    head, tail = message[: _LONGEST_MESSAGE - 105], message[-100:]
    words = " " in head and " " in tail
    return f"{head.rpartition(' ')[0]} ... {tail.partition(' ')[2]}" if words else f"{head} ... {tail}"


def is_of_us(answer: Any) -> bool:
    """Whether an answer is an example of an exercise, a wrong one or a right one."""
    answer = getattr(answer, "func", answer)  # functools.partial
    return str(getattr(answer, "__module__", "")).startswith("course_lib.learn.exercises.")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # its own ``__str__`` fails
        return "(its message could not be made)"


def is_wrong_call(kind: str, message: str, filename: str) -> bool:
    """Whether a judge, in a file of the course, could not call an answer because it takes other arguments."""
    return kind == "TypeError" and is_of_course(filename) and bool(_WRONG_CALL.search(message))


def says_your_turn(error: BaseException) -> bool:
    """Whether this is the ``NotImplementedError`` of a stub: a ``raise`` in a person's code, in a stub's words.

    PyTorch raises the same class for operations that a device lacks; that one comes from a library or from C.
    """
    if not isinstance(error, NotImplementedError) or not has_words_of_a_stub(_message(error)):
        return False
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    code = last.tb_frame.f_code
    by_raise = dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"
    return by_raise and not from_library(code.co_filename)


def is_stub(answer: Any) -> bool:
    """Whether an answer is untouched: ``...``, a container that still holds ``...``, an empty function, or a
    class with an empty method. Of static and class methods all must be empty: who has written ``forward`` has begun.
    """
    if answer is ...:
        return True
    if isinstance(answer, dict):
        return any(value is ... for value in answer.values())
    if isinstance(answer, list | tuple):
        return any(value is ... for value in answer)
    if isinstance(answer, type):
        own = [member for member in vars(answer).values() if isinstance(member, FunctionType)]
        others = [method for method in functions_of(answer) if method not in own]  # of an autograd function, say
        return any(_raises_only(method.__code__) for method in own) or (
            bool(others) and all(_raises_only(method.__code__) for method in others)
        )
    return isinstance(answer, FunctionType) and _is_empty(answer.__code__)


def empty_methods(answer: Any) -> str:
    """The names of a class's methods that are still to be written, for a sentence; "" for anything else."""
    own = vars(answer).items() if isinstance(answer, type) else ()
    return ", ".join(
        f"`{name}`" for name, member in own if isinstance(member, FunctionType) and _raises_only(member.__code__)
    )


def _raises_only(code: CodeType) -> bool:
    steps = [step for step in dis.get_instructions(code) if step.opname not in _QUIET]
    small = all(step.opname in _STUB | {"RAISE_VARARGS"} for step in steps)
    return small and "NotImplementedError" in code.co_names and bool(steps) and steps[-1].opname == "RAISE_VARARGS"


def _is_empty(code: CodeType) -> bool:
    """A body of nothing but a docstring, ``pass``, ``...`` or ``raise NotImplementedError``."""
    if _raises_only(code):
        return True
    if code.co_name == "<lambda>":  # no stub is one: somebody wrote it
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname not in _QUIET]
    if [step.opname for step in steps] == ["RETURN_CONST"]:
        return steps[0].argval in (None, ...)
    if [step.opname for step in steps] == ["LOAD_CONST", "RETURN_VALUE"]:
        return steps[0].argval in (None, ...)
    return False
