"""Mutants: copies of a reference solution with one small defect each, such as people make them.

Each is one change at one place between the marks of the solution: a line dropped, or two exchanged; a ``.wait()``, a
factor or a summand gone; another operator, constant, order, dtype or reduction; a rank or a number of ranks written
down as a number; an early return; a switch left turned; the first result given for ever after.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from course_lib.authoring.bench.judging.defects import expression_defects
from course_lib.learn.checks.reference import Solution

__all__ = ["FOR_EVER", "Mutant", "mutants_of"]

FOR_EVER = "its first result for ever"


@dataclass(frozen=True)
class Mutant:
    """``what`` tells the change in a line, "3: `total /= n` -> `total /= 2`"; ``tree`` is the code with it.

    Lines are counted from the mark at which the solution begins, so that they last when the lesson grows above it.
    """

    what: str
    tree: ast.Module


def mutants_of(solution: Solution) -> tuple[Mutant, ...]:
    """Every mutant of a solution, each different from the solution and from the others."""
    seen, found = {ast.unparse(solution.tree)}, []
    for what, tree in _changed(solution):
        ast.fix_missing_locations(tree)
        code = ast.unparse(tree)
        if code not in seen and _compiles(code):
            seen.add(code)
            found.append(Mutant(what, tree))
    return tuple(found)


def _compiles(code: str) -> bool:
    try:
        compile(code, "<mutant>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _changed(solution: Solution) -> Iterator[tuple[str, ast.Module]]:
    for body, place in _own_places(solution):
        yield from _statement_defects(solution, body, place)
    for place, node in enumerate(ast.walk(solution.tree)):
        if isinstance(node, ast.expr | ast.keyword | ast.stmt) and solution.is_own(node):
            yield from _in_place(solution, place, node)
    for place, node in enumerate(ast.walk(solution.tree)):
        if isinstance(node, ast.FunctionDef) and any(solution.is_own(one) for one in ast.walk(node)):
            yield from _function_defects(solution, place, node)


# -- statements ------------------------------------------------------------------------------------------------------


def _own_places(solution: Solution) -> Iterator[tuple[int, int]]:
    """Each own statement, by the place of its list among all lists of statements, and its place in that."""
    for number, body in enumerate(_bodies(solution.tree)):
        for place, statement in enumerate(body):
            if solution.is_own(statement) and not _is_plain_text(statement):
                yield number, place


def _bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    return [
        body
        for node in ast.walk(tree)
        for name in ("body", "orelse", "finalbody")
        if isinstance(body := getattr(node, name, None), list)
    ]


def _is_plain_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _statement_defects(solution: Solution, number: int, place: int) -> Iterator[tuple[str, ast.Module]]:
    def change(edit: Callable[[list[ast.stmt]], None]) -> ast.Module:
        tree = copy.deepcopy(solution.tree)
        edit(_bodies(tree)[number])
        return tree

    def put(body: list[ast.stmt], *new: ast.stmt) -> None:
        body[place : place + 1] = list(new) or [ast.Pass()]

    body = _bodies(solution.tree)[number]
    statement = body[place]
    line, text = statement.lineno - solution.first_line, _first_line(statement)
    yield f"{line}: `{text}` -> nothing", change(lambda body: put(body))
    if place + 1 < len(body) and solution.is_own(body[place + 1]):
        other = _first_line(body[place + 1])
        yield (
            f"{line}: `{text}` after `{other}`",
            change(lambda body: body.__setitem__(slice(place, place + 2), [body[place + 1], body[place]])),
        )
    if isinstance(statement, ast.If):
        yield f"{line}: `{text}` -> always", change(lambda body: put(body, *_of_if(body[place]).body))
        yield f"{line}: `{text}` -> never", change(lambda body: put(body, *_of_if(body[place]).orelse))
    if isinstance(statement, ast.With):
        yield f"{line}: `{text}` -> without", change(lambda body: put(body, *_of_with(body[place]).body))
    if isinstance(statement, ast.For):
        yield f"{line}: `{text}` -> once", change(lambda body: _of_for(body[place]).body.append(ast.Break()))
    if isinstance(statement, ast.AugAssign):
        yield (
            f"{line}: `{text}` -> a new name for a new value",
            change(lambda body: put(body, _unaugmented(body[place]))),
        )
    if place:
        yield f"{line}: a return before `{text}`", change(lambda body: body.insert(place, ast.Return()))


def _of_if(statement: ast.stmt) -> ast.If:
    assert isinstance(statement, ast.If)
    return statement


def _of_with(statement: ast.stmt) -> ast.With:
    assert isinstance(statement, ast.With)
    return statement


def _of_for(statement: ast.stmt) -> ast.For:
    assert isinstance(statement, ast.For)
    return statement


def _unaugmented(statement: ast.stmt) -> ast.stmt:
    """``x = x + y`` of ``x += y``: the same for numbers, and another tensor for tensors."""
    assert isinstance(statement, ast.AugAssign)
    read = copy.deepcopy(statement.target)
    read.ctx = ast.Load()
    return ast.Assign([statement.target], ast.BinOp(read, statement.op, statement.value))


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:100]


# -- within a statement ----------------------------------------------------------------------------------------------


def _in_place(solution: Solution, place: int, node: ast.AST) -> Iterator[tuple[str, ast.Module]]:
    for new in expression_defects(node):
        tree = copy.deepcopy(solution.tree)
        old = list(ast.walk(tree))[place]
        _Swap(old, new).visit(tree)
        line = getattr(node, "lineno", 0) - solution.first_line
        yield f"{line}: `{_first_line(node)}` -> `{_first_line(new)}`", tree


class _Swap(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)


# -- functions -------------------------------------------------------------------------------------------------------


def _function_defects(solution: Solution, place: int, node: ast.FunctionDef) -> Iterator[tuple[str, ast.Module]]:
    def change(edit: Callable[[ast.FunctionDef], None]) -> ast.Module:
        tree = copy.deepcopy(solution.tree)
        function = list(ast.walk(tree))[place]
        assert isinstance(function, ast.FunctionDef)
        edit(function)
        return tree

    def begin(text: str) -> Callable[[ast.FunctionDef], None]:
        return lambda function: function.body.__setitem__(slice(0, 0), ast.parse(text).body)

    name = node.name
    yield (
        f"{name}: gradients switched off",
        change(begin("import torch as _torch\n_torch.set_grad_enabled(False)")),
    )
    yield f"{name}: {FOR_EVER}", change(_remember_first)


def _remember_first(function: ast.FunctionDef) -> None:
    """A decorator that calls once, and gives that result ever after."""
    once = "kept[0] if kept else kept.append(call(*args, **kwargs)) or kept[0]"
    text = f"lambda call, kept=[]: lambda *args, **kwargs: {once}"
    function.decorator_list.append(ast.parse(text, mode="eval").body)
