"""A rule over outputs that are compared: they hold no digit that another processor may round otherwise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from nbformat import NotebookNode

from course_lib.authoring.notebooks.rules.arithmetic import KnownNames, statements
from course_lib.authoring.notebooks.rules.code import parse
from course_lib.authoring.notebooks.rules.lesson import Lesson

__all__ = ["digits_are_certain"]

_NOT_COMPARED = "nbval-ignore-output"
_WITH_DIGITS = re.compile(r"[efgEFG%]$")
_LONG = re.compile(r"\d\.\d{5,}|\de[-+]\d\d")  # as Python prints a number that is not short
_ROUNDED = "print it by rounded() of course_lib.rounding"
_AGREE = "ask agree() of course_lib.rounding"
_MOST_TOLERANCE = 1e-3
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


class _Breach(NamedTuple):
    line: int  # in its cell
    sentence: str
    is_whole: bool = False  # a number is printed with all its digits, which for a short one is right


def digits_are_certain(lesson: Lesson) -> list[str]:
    """In a cell whose output is compared, numbers of tensor arithmetic are told by ``rounded``, equality by ``agree``.

    What it sees (``arithmetic.py`` says which numbers are meant): a format with a number of digits; ``round``; a
    difference held against a tolerance of 1e-3 or less, and ``allclose``; a number printed as it is, where the output
    holds a long one: a short one, 2.0 or 0.25, is exact on any machine. A function of the lesson is looked into where
    it, or one that uses it, is named in a cell that is compared.

    What it cannot see: what the library prints (reveals, checks); an order, a choice or a count that hangs on two
    numbers being nearly equal; a number that has come through a parameter, a class or a function of the library. For
    those there is ``course test portable``, which runs the lessons in several kinds of arithmetic.
    """
    code = [
        (cell, parse(cell).body, built)
        for cell, built in zip(lesson.source.cells, lesson.solution.cells, strict=True)
        if cell.is_code
    ]
    named_in = _cells_of_functions([body for _, body, _ in code])
    is_compared = [_NOT_COMPARED not in cell.tags for cell, _, _ in code]
    has_long = [bool(_LONG.search(_text(built))) for _, _, built in code]
    found, names = [], KnownNames()
    for index, (cell, body, _) in enumerate(code):
        for node in statements(body):
            names.learn(node)
            shown_in = named_in.get(node.name, set()) if isinstance(node, _FUNCTIONS) else {index}
            compared = [where for where in shown_in if is_compared[where]]
            for breach in _breaches(node, names) if compared else ():
                if not breach.is_whole or any(has_long[where] for where in compared):
                    found.append(f"{lesson.at(cell, breach.line)}: {breach.sentence}")
    return list(dict.fromkeys(found))


def _cells_of_functions(bodies: list[list[ast.stmt]]) -> dict[str, set[int]]:
    """For each function of a lesson, the numbers of the cells that name it, also by way of other functions."""
    named_by: dict[str, set[str]] = {}
    for body in bodies:
        for node in body:
            if isinstance(node, _FUNCTIONS):
                named_by.setdefault(node.name, set()).update(_names(node))
    found: dict[str, set[int]] = {name: set() for name in named_by}
    for index, body in enumerate(bodies):
        ahead = {name for node in body if not isinstance(node, _FUNCTIONS) for name in _names(node)}
        seen: set[str] = set()
        while ahead:
            name = ahead.pop()
            seen.add(name)
            if name in found:
                found[name].add(index)
                ahead |= named_by[name] - seen
    return found


def _breaches(node: ast.AST, names: KnownNames) -> Iterator[_Breach]:
    """Those of a statement itself, not of the blocks within it; of a function, all in its body."""
    if isinstance(node, _FUNCTIONS):
        inner = names.inside(node)
        for one in statements(node.body):
            yield from _breaches(one, inner)
        return
    for field, value in ast.iter_fields(node):
        if field not in ("body", "orelse", "finalbody", "handlers") or isinstance(value, ast.AST):
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    yield from _in_expression(part, names)


def _in_expression(node: ast.AST, names: KnownNames) -> Iterator[_Breach]:
    line = getattr(node, "lineno", 1)
    match node:
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            names = KnownNames(names)
            for generator in node.generators:
                names.learn(generator)
        case ast.FormattedValue(value=value) if names.is_arithmetic(value):
            spec = node.format_spec
            if spec is None:
                yield _Breach(line, f"{ast.unparse(value)} is told with all its digits; {_ROUNDED}", True)
            elif _WITH_DIGITS.search(_spec(spec)):
                yield _Breach(
                    line,
                    f"{ast.unparse(value)} is told to digits that another processor may round otherwise; {_ROUNDED}",
                )
        case ast.Call(func=ast.Name(id="round"), args=[number, *_]) if names.is_arithmetic(number):
            yield _Breach(line, f"{ast.unparse(node)} may come out otherwise on another processor; {_ROUNDED}")
        case ast.Call(func=ast.Name(id="print"), args=args):
            for value in (one.value if isinstance(one, ast.Starred) else one for one in args):
                if names.is_arithmetic(value):
                    yield _Breach(line, f"{ast.unparse(value)} is printed with all its digits; {_ROUNDED}", True)
        case ast.Attribute(attr="allclose" | "isclose"):
            yield _Breach(line, f"{ast.unparse(node)} may answer otherwise on another processor; {_AGREE}")
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()], comparators=[right]):
            if names.is_arithmetic(left) and _is_tolerance(right):
                yield _Breach(line, f"{ast.unparse(node)} hangs on rounding; {_AGREE}")
    for child in ast.iter_child_nodes(node):
        yield from _in_expression(child, names)


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _is_tolerance(node: ast.AST) -> bool:
    numbers = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return any(isinstance(number, float) and 0 < number <= _MOST_TOLERANCE for number in numbers)


def _spec(spec: ast.AST) -> str:
    """A format's text, with 1 for what is computed: ``>{width}.2f`` is ``>1.2f``."""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in getattr(spec, "values", ()))


def _text(built: NotebookNode) -> str:
    return "\n".join(str(output.get("text", "")) for output in built.outputs)
