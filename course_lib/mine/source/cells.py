"""The texts from which a notebook's names come: the cells that were run, or the file of a function."""

from __future__ import annotations

import ast
import linecache
import sys
from types import CodeType
from typing import Any

from course_lib.mine.source.statements import Statement, statements_of

__all__ = ["defining_statement", "import_line", "newest_binding", "text_of_code"]


def text_of_code(code: CodeType) -> str:
    """The cell or file that a code object was compiled from; "" where nobody has it any more."""
    return "".join(linecache.getlines(code.co_filename))


def defining_statement(code: CodeType, name: str) -> Statement | None:
    """The statement that bound ``name`` to the function of this code, from the very text it was compiled from."""
    for one in reversed(_statements(text_of_code(code))):
        if name in one.binds and one.first <= code.co_firstlineno <= one.last:
            return one
    return None


def newest_binding(name: str, beside: str = "") -> Statement | None:
    """The last statement that bound ``name`` in the cells that were run, or in the text ``beside``."""
    for text in (*reversed(_cells()), beside):
        for one in reversed(_statements(text)):
            if name in one.binds:
                return one
    return None


def import_line(name: str, value: Any, beside: str = "") -> str:
    """How a cell has imported this value under this name, as a line of its own; "" where none has."""
    for text in (*reversed(_cells()), beside):
        for one in reversed(_statements(text)):
            if isinstance(one.node, ast.Import | ast.ImportFrom) and name in one.binds:
                for alias in one.node.names:
                    if (alias.asname or alias.name.partition(".")[0]) == name and _gives(one.node, alias, value):
                        return _line(one.node, alias)
    return ""


def _gives(node: ast.Import | ast.ImportFrom, alias: ast.alias, value: Any) -> bool:
    if isinstance(node, ast.Import):
        return sys.modules.get(alias.name if alias.asname else alias.name.partition(".")[0]) is value
    if node.level or not node.module:
        return False
    source = sys.modules.get(node.module)
    found = getattr(source, alias.name, None) if source is not None else None
    return value is (found if found is not None else sys.modules.get(f"{node.module}.{alias.name}"))


def _line(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    last = f" as {alias.asname}" if alias.asname else ""
    if isinstance(node, ast.Import):
        return f"import {alias.name}{last}"
    return f"from {node.module} import {alias.name}{last}"


def _cells() -> tuple[str, ...]:
    """The cells of this notebook in the order in which they were run, as Python; none outside a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return tuple(map(str, shell.user_ns.get("In", ()))) if shell is not None else ()


def _statements(text: str) -> tuple[Statement, ...]:
    try:
        return statements_of(text)
    except SyntaxError:  # a cell that did not run
        return ()
