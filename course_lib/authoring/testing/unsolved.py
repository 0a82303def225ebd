"""A plugin of pytest: of a learner's copy, run the cells that its solution does not show already.

Most cells of the two notebooks are the same, letter by letter, and depend on nothing that differs: the solution's run
has seen them. What is left are the stubs, the cells that use what a stub makes, and what all of these need. ``--whole``
runs every cell, as the nightly run does.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

__all__ = ["CellNames", "cells_to_run", "names_of"]

_KEY = re.compile(r"\d\d[a-z]?\.\w+")  # of an exercise, a question, a quiz: state that is kept by name
_QUESTION = re.compile(r'ask\("[\w.]+"\)')  # the solution has an answer to it, which nothing but its reveal reads
_SPARED = ("run", "shaped")  # methods that leave their object as it was: cluster.run(...)
# Such a cell knows what others of them have made on the ranks, and nothing of the notebook.
_ON_RANKS = "%%ranks"
# A launch costs as much as all other cells of its notebook. It needs what exercises make, where the course's own stands
# in for what is not solved: the very launch that the solution shows.
_LAUNCH = ".torchrun("


@dataclass(frozen=True)
class CellNames:
    """What a cell makes (or changes), and what it needs of cells before it. ``alters``: it may change these, too."""

    makes: frozenset[str]
    uses: frozenset[str]
    alters: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()


def names_of(code: str) -> CellNames:
    """The names of a cell.

    Raises:
        SyntaxError: This is more than Python: another magic than ``%%ranks``, say.
    """
    if code.startswith(_ON_RANKS):
        return CellNames(frozenset({_ON_RANKS}), frozenset({_ON_RANKS}))
    makes, uses, alters, imports = set[str](), set[str](), set[str](), set[str]()
    for statement in ast.parse(code).body:
        symbols = symtable.symtable(ast.unparse(statement), "cell", "exec")
        read = {symbol.get_name() for symbol in symbols.get_symbols() if symbol.is_referenced()}
        own = _bound_first(statement)
        uses |= (read | _globals_within(symbols)) - own - makes
        makes |= {symbol.get_name() for symbol in symbols.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
        imports |= {symbol.get_name() for symbol in symbols.get_symbols() if symbol.is_imported()}
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _KEY.fullmatch(node.value):
                makes.add(node.value)
                uses.add(node.value)
            elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                alters.add(_root(node))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in _SPARED:
                alters.add(_root(node.func))
    return CellNames(*map(frozenset, (makes, uses, alters - {""}, imports)))


def _bound_first(statement: ast.stmt) -> set[str]:
    """What a loop or a ``with`` binds before its body reads it."""
    match statement:
        case ast.For():
            targets: list[ast.expr | None] = [statement.target]
        case ast.With():
            targets = [item.optional_vars for item in statement.items]
        case ast.FunctionDef() | ast.ClassDef():
            return {statement.name}
        case _:
            return set()
    return {node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)}


def _globals_within(table: symtable.SymbolTable) -> set[str]:
    """Names of the cell that functions and classes in it read."""
    found = set()
    for inner in table.get_children():
        found |= {symbol.get_name() for symbol in inner.get_symbols() if symbol.is_global()}
        found |= _globals_within(inner)
    return found


def _root(node: ast.AST) -> str:
    """The name that ``name.a[0].b`` begins with; "" where it begins with something else."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def cells_to_run(learner: Sequence[str], solved: Sequence[str]) -> set[int]:
    """The numbers of those code cells of a learner's copy that its solution's run does not stand for.

    All of them where the two do not match cell by cell, or where a cell is more than Python.
    """
    everything = set(range(len(learner)))
    if len(learner) != len(solved):
        return everything
    try:
        named = [names_of(code) for code in learner]
    except SyntaxError:
        return everything
    imports = set[str]().union(*(names.imports for names in named))
    differ: set[str] = set()
    launched: set[str] = set()
    chosen = {0} & everything  # that the notebook begins
    for number, (names, own, other) in enumerate(zip(named, learner, solved, strict=True)):
        if own == other and (_LAUNCH in own or names.uses & launched):
            launched |= names.makes
        elif (own != other and not _QUESTION.fullmatch(own)) or names.uses & differ:
            chosen.add(number)
            differ |= names.makes | names.alters - imports
        else:
            differ -= names.makes - names.uses
    needed: set[str] = set()
    for number in reversed(range(len(learner))):
        names = named[number]
        if number in chosen or (names.makes | names.alters - imports) & needed:
            chosen.add(number)
            # What stood under the names that it makes is of no use from here on.
            needed = needed - names.makes | names.uses
    return chosen


# --- The plugin -------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="every cell of the learners' copies")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cells that the solution beside the notebook, in ``solutions``, has shown."""
    if config.getoption("--whole"):
        return
    by_file: dict[Path, set[int]] = {}
    kept: list[pytest.Item] = []
    for item in items:
        if (path := item.path) not in by_file:
            by_file[path] = _of_file(path)
        number: Any = getattr(item, "cell_num", None)
        if number is None or number in by_file[path]:
            kept.append(item)
    if len(kept) < len(items):
        staying = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in staying])
        items[:] = kept


def _of_file(path: Path) -> set[int]:
    learner, solution = _code(path), path.parent / "solutions" / path.name
    return cells_to_run(learner, _code(solution) if solution.is_file() else [])


def _code(path: Path) -> list[str]:
    notebook = nbformat.read(path, as_version=4)
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]
