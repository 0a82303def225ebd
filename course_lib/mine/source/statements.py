"""A text of Python as its top-level statements: what each binds and reads, and which ones a name needs."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from course_lib.lessons.code_names import bound_in, read_in

__all__ = ["Statement", "lines_of", "own_module", "slice_of", "statements_of"]

_PACKAGE = "mine"


@dataclass(frozen=True, eq=False)
class Statement:
    """One top-level statement: its tree, its lines as written, decorators included, and where they stand (from 1)."""

    node: ast.stmt
    text: str
    first: int
    last: int

    @cached_property
    def binds(self) -> frozenset[str]:
        if isinstance(self.node, ast.Import | ast.ImportFrom):  # without symtable, which refuses a relative star
            return frozenset(alias.asname or alias.name.partition(".")[0] for alias in self.node.names)
        return frozenset(bound_in(self.node))

    @cached_property
    def reads(self) -> frozenset[str]:
        return frozenset() if isinstance(self.node, ast.Import | ast.ImportFrom) else frozenset(read_in(self.node))

    @property
    def binds_unseen(self) -> bool:
        """Whether its names are not in it: a star."""
        return isinstance(self.node, ast.ImportFrom) and any(alias.name == "*" for alias in self.node.names)

    @property
    def is_future(self) -> bool:
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__"


@lru_cache(maxsize=64)
def statements_of(text: str) -> tuple[Statement, ...]:
    """The statements of a text. Raises ``SyntaxError`` for what is no Python."""
    try:
        body = ast.parse(text).body
    except (ValueError, RecursionError, MemoryError) as error:  # a zero byte; brackets nested too deep
        raise SyntaxError(str(error) or type(error).__name__) from None
    lines = lines_of(text)
    spans = [_span(node) for node in body]
    found = []
    for index, (node, (first, last)) in enumerate(zip(body, spans, strict=True)):
        shares_a_line = any(
            other != index and spans[other][0] <= last and first <= spans[other][1] for other in range(len(body))
        )
        own = ast.unparse(node) if shares_a_line else "\n".join(line.rstrip() for line in lines[first - 1 : last])
        found.append(Statement(node, own, first, last))
    return tuple(found)


def lines_of(text: str) -> list[str]:
    """The lines as Python counts them: ``str.splitlines`` also ends one at a form feed."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)]), node.end_lineno or node.lineno


def slice_of(statements: Iterable[Statement], names: Iterable[str]) -> tuple[Statement, ...]:
    """The statements that bind these names, and what those read in turn, in their order.

    ``from __future__ import`` and imports with a star are always among them.
    """
    every = tuple(statements)
    needed, todo = set(), list(names)
    while todo:
        name = todo.pop()
        for index, one in enumerate(every):
            if name in one.binds and index not in needed:
                needed.add(index)
                todo += one.reads
    needed |= {index for index, one in enumerate(every) if needed and (one.is_future or one.binds_unseen)}
    return tuple(every[index] for index in sorted(needed))


def own_module(node: ast.stmt) -> str | None:
    """Which module of the learner's own package an import names: "helpers", "" for the package; None for others."""
    if isinstance(node, ast.ImportFrom):
        if node.level == 1:
            return node.module or ""
        name = node.module or "" if not node.level else None
    elif isinstance(node, ast.Import) and len(node.names) == 1:
        name = node.names[0].name
    else:
        return None
    if name is None or name.partition(".")[0] != _PACKAGE:
        return None
    return name.partition(".")[2]
