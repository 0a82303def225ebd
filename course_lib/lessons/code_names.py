"""Which names a piece of code reads from around it, and which it binds: what an answer needs beside its own text."""

from __future__ import annotations

import ast
import builtins
import symtable

__all__ = ["bound_in", "read_in"]


def read_in(tree: ast.AST) -> set[str]:
    """The names that code reads from around it: not those of its own functions and comprehensions."""
    names: set[str] = set()
    top = _names_of(tree)
    todo = [top]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        names |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (table is top or s.is_global())}
    return names - set(vars(builtins))


def bound_in(tree: ast.AST) -> set[str]:
    """The names that the top-level statements of ``tree`` bind."""
    symbols = _names_of(tree).get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}


def _names_of(tree: ast.AST) -> symtable.SymbolTable:
    return symtable.symtable(ast.unparse(tree), "<lesson>", "exec")
