"""An answer and what it needs, out of the notebook: its source, helpers from other cells, imports, plain constants."""

from __future__ import annotations

import ast
import inspect
import sys
from types import FunctionType, ModuleType
from typing import Any

from course_lib.mine.source.cells import defining_statement, import_line, newest_binding, text_of_code
from course_lib.mine.source.classes import class_statement, space_of_class
from course_lib.mine.source.piece import AnswerSource, NotKeptError, SourcePart
from course_lib.mine.source.statements import Statement

__all__ = ["gathered"]

_MOST_PARTS = 60
_LONGEST = 2000  # signs of a constant
_PLAIN = (int, float, complex, str, bytes, bool, type(None), tuple, list, dict, set)


def gathered(answer: Any) -> AnswerSource:
    """The piece to keep of a function or class that a cell has defined.

    Raises:
        NotKeptError: Something that it uses cannot be written down; the sentence says what, and what to do.
    """
    if isinstance(answer, type):
        return _gathered_class(answer)
    function = inspect.unwrap(answer) if callable(answer) else answer
    if not isinstance(function, FunctionType):
        raise NotKeptError(f"it is no function but {_article(type(answer).__name__)}. Write it as a `def` of a cell.")
    name = _name_of(answer, function.__name__, function.__globals__)
    code, space = function.__code__, function.__globals__
    if code.co_freevars:
        held = ", ".join(f"`{one}`" for one in code.co_freevars)
        raise NotKeptError(f"it was made within another function, which holds {held}. Define it at the top of a cell.")
    own = defining_statement(code, name)
    if own is None:
        raise NotKeptError("the text of its cell is not there any more. Run the cell again, then this check.")
    found: dict[str, SourcePart] = {}
    _collect(own, space, text_of_code(code), found, {name})
    return AnswerSource((*found.values(), SourcePart(name, own.text)), name)


def _gathered_class(answer: type) -> AnswerSource:
    space, beside = space_of_class(answer)
    name = _name_of(answer, answer.__name__, space)
    own = class_statement(answer, name, "it", beside)
    found: dict[str, SourcePart] = {}
    _collect(own, space, beside, found, {name})
    return AnswerSource((*found.values(), SourcePart(name, own.text)), name)


def _name_of(answer: Any, own_name: str, space: dict[str, Any]) -> str:
    for name in (own_name, *space):
        if space.get(name) is answer and not name.startswith("_"):
            return name
    raise NotKeptError("it has no name in the notebook. Define it at the top of a cell, and give that name to check.")


def _collect(own: Statement, space: dict[str, Any], beside: str, found: dict[str, SourcePart], seen: set[str]) -> None:
    """Add what a statement reads to ``found``, what it reads itself first: imports, helpers, constants."""
    for name in sorted(own.reads - seen):
        seen.add(name)
        if name not in space:
            continue  # a name that is not there yet, as in a branch that no case has reached
        if len(seen) > _MOST_PARTS:
            raise NotKeptError(f"it needs over {_MOST_PARTS} names of the notebook. Pass what it needs as arguments.")
        line = _as_import(name, space[name], beside)
        if line:
            found[name] = SourcePart(name, line, is_import=True)
            continue
        statement = _as_statement(name, space[name], beside)
        if isinstance(statement, str):
            found[name] = SourcePart(name, statement)
        else:
            _collect(statement, space, beside, found, seen)
            found[name] = SourcePart(name, statement.text)


def _as_import(name: str, value: Any, beside: str) -> str:
    """The line that imports the value under this name; "" for what only the notebook has."""
    if line := import_line(name, value, beside):
        return line
    if isinstance(value, ModuleType):
        if sys.modules.get(value.__name__) is not value or value.__name__ == "__main__":
            raise NotKeptError(f"`{name}` is a module that cannot be imported by its name. Import it in a cell.")
        return f"import {value.__name__}" + ("" if value.__name__ == name else f" as {name}")
    home, word = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if isinstance(home, str) and home != "__main__" and isinstance(word, str) and word.isidentifier():
        module = sys.modules.get(home)
        if module is not None and getattr(module, word, None) is value:
            return f"from {home} import {word}" + ("" if word == name else f" as {name}")
    return ""


def _as_statement(name: str, value: Any, beside: str) -> Statement | str:
    """The statement that binds a helper or a constant, as a cell has it; a constant may be written by its value."""
    if isinstance(unwrapped := inspect.unwrap(value) if callable(value) else value, FunctionType):
        if unwrapped.__code__.co_freevars:
            raise NotKeptError(f"its helper `{name}` was made within another function. Define it at the top of a cell.")
        found = defining_statement(unwrapped.__code__, name)
        if found is None:
            raise NotKeptError(f"the text of its helper `{name}` is not there any more. Run its cell again, then this.")
        return found
    if isinstance(value, type):
        return class_statement(value, name, f"its helper `{name}`", beside)
    newest = newest_binding(name, beside)
    written = newest.node if newest is not None and newest.binds == {name} else None
    expression = written.value if isinstance(written, ast.Assign | ast.AnnAssign) else None
    if newest is not None and _is_literal(expression):
        return newest
    if isinstance(value, _PLAIN) and _reads_back(value):
        return f"{name} = {value!r}"
    if newest is not None and _is_dotted(expression):
        return newest
    raise NotKeptError(
        f"it uses `{name}` of the notebook, {_article(type(value).__name__)}, which cannot be written down. Give it as "
        "an argument, or make it inside the function."
    )


def _is_literal(node: ast.expr | None) -> bool:
    if node is None:
        return False
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _is_dotted(node: ast.expr | None) -> bool:
    """Whether it is a name of a module's, such as torch.float32, which means the same in a file."""
    if not isinstance(node, ast.Attribute):
        return False
    return isinstance(node.value, ast.Name) or _is_dotted(node.value)


def _reads_back(value: Any) -> bool:
    try:
        text = repr(value)
        return len(text) <= _LONGEST and bool(ast.literal_eval(text) == value)
    except Exception:  # a class of the learner's own that stands for a number, say
        return False


def _article(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"
