"""Running the text of a notebook cell on a rank, as the notebook itself would."""

from __future__ import annotations

import ast
import linecache
from typing import Any

from course_lib.cluster.base.rank import Rank

__all__ = ["cell_filename", "fill", "remember_source", "run", "value_of"]


def cell_filename(number: int) -> str:
    return f"<cell of ranks {number}>"


def remember_source(source: str, number: int) -> None:
    """Let tracebacks show the lines of this cell."""
    lines = source.splitlines(keepends=True)
    linecache.cache[cell_filename(number)] = (len(source), None, lines, cell_filename(number))


def fill(namespace: dict[str, Any], me: Rank | None) -> None:
    """Give a namespace the names that every cell may use: ``me``, ``rank``, ``world_size``, ``torch``, ``dist``."""
    import torch
    import torch.distributed as dist

    if "__builtins__" not in namespace:
        namespace.update(__name__="__main__", __builtins__=__builtins__, torch=torch, dist=dist)
    if me is not None:
        namespace.update(me=me, rank=me.rank, world_size=me.world_size, device=me.device)


def run(source: str, namespace: dict[str, Any], *, number: int) -> str | None:
    """Execute ``source``; the ``repr`` of its last expression, or None where it ends in a statement or in None."""
    remember_source(source, number)
    tree = ast.parse(source, cell_filename(number))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, cell_filename(number), "exec"), namespace)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    value = eval(compile(ast.Expression(last.value), cell_filename(number), "eval"), namespace)
    return None if value is None else repr(value)


def value_of(name: str, namespace: dict[str, Any]) -> Any:
    if name in namespace:
        return namespace[name]
    own = sorted(key for key in namespace if not key.startswith("_"))
    raise NameError(f"no cell has made {name!r} on this rank; it knows {', '.join(own)}")
