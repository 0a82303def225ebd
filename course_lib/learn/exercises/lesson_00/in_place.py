"""Whether an answer keeps what an in-place collective returns: read from its text: a run shows a ``None`` alone."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

from course_lib.learn.catalogue.exercise import Evidence

__all__ = ["keeps_what_comes_back"]

_IN_PLACE = ("all_reduce", "reduce", "broadcast")


def keeps_what_comes_back(seen: Evidence) -> bool:
    """Whether a ``None`` got in the way, and the text of the answer uses the result of an in-place collective."""
    nones = [one for one in seen.outcomes if getattr(one.got, "value", 0) is None and one.expected is not None]
    if not nones and not (seen.error is not None and "NoneType" in seen.error.message):
        return False
    return _uses_a_result(seen.answer)


def _uses_a_result(answer: Any) -> bool:
    tree = ast.parse(textwrap.dedent(inspect.getsource(answer)))
    for_nothing = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return any(
        isinstance(node, ast.Call)
        and _name(node.func) in _IN_PLACE
        and "async_op" not in {keyword.arg for keyword in node.keywords}
        and id(node) not in for_nothing
        for node in ast.walk(tree)
    )


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
