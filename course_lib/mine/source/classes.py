"""A class of the notebook's: the statement that defines it, found by the code of its methods."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from course_lib.mine.source.cells import newest_binding, text_of_code
from course_lib.mine.source.piece import NotKeptError
from course_lib.mine.source.statements import Statement, statements_of

__all__ = ["class_statement", "space_of_class"]


def class_statement(cls: type, name: str, what: str, beside: str) -> Statement:
    """The statement that defines the class, from the text that its methods were compiled from.

    ``what`` begins the sentence of an error: "it", or "its helper `Bucket`". A class without methods is looked for in
    the cells, and in the text ``beside``.

    Raises:
        NotKeptError: It was made within a function, its text is gone, or a method was put there after it was defined.
    """
    if "<locals>" in cls.__qualname__:
        raise NotKeptError(f"{what} was made within a function. Define it at the top of a cell.")
    methods = list(_methods(cls))
    around = [_around(method, name) for _, method in methods]
    statement = next(filter(None, around), None) or newest_binding(name, beside)
    if statement is None or not isinstance(statement.node, ast.ClassDef):
        raise NotKeptError(f"the text of {what} is not there any more. Run its cell again, then this check.")
    for (word, _), own in zip(methods, around, strict=True):
        if own is not statement:
            raise NotKeptError(
                f"`{word}` was put into {what} after it was defined. Write it into the class, run its cell, then this "
                "check."
            )
    return statement


def space_of_class(cls: type) -> tuple[dict[str, Any], str]:
    """The names among which its methods run, and the text that they come from."""
    for _, method in _methods(cls):
        return method.__globals__, text_of_code(method.__code__)
    raise NotKeptError("it has no method of its own. Write it as a class with methods in a cell.")


def _methods(cls: type) -> Iterator[tuple[str, FunctionType]]:
    """Its own methods whose text somebody has: not those that `dataclass` has made, or that it was given by others."""
    for name, value in vars(cls).items():
        for method in _functions_of(value):
            is_generated = not text_of_code(method.__code__)
            if not is_generated and method.__module__ == cls.__module__:
                yield name, method


def _functions_of(value: Any) -> Iterator[FunctionType]:
    parts: tuple[Any, ...] = (value,)
    if isinstance(value, staticmethod | classmethod):
        parts = (value.__func__,)
    elif isinstance(value, property):
        parts = (value.fget, value.fset, value.fdel)
    elif isinstance(value, functools.cached_property):
        parts = (value.func,)
    for part in parts:
        function = inspect.unwrap(part) if callable(part) else part
        if isinstance(function, FunctionType):
            yield function


def _around(method: FunctionType, name: str) -> Statement | None:
    """The class statement of this name in which the method stands, in the text that it was compiled from."""
    code = method.__code__
    try:
        statements = statements_of(text_of_code(code))
    except SyntaxError:
        return None
    for one in reversed(statements):
        is_class = isinstance(one.node, ast.ClassDef) and name in one.binds
        if is_class and one.first <= code.co_firstlineno <= one.last:
            return one
    return None
