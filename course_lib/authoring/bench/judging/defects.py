"""Small defects of an expression, for mutants: what else people write in its place."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

__all__ = ["expression_defects"]

_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.MatMult: ast.Mult,
}
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_NAMES = {
    "SUM": ("MAX", "AVG"),
    "MAX": ("SUM", "MIN"),
    "min": ("max",),
    "max": ("min",),
    "sum": ("max",),
    "amax": ("amin",),
    "logsumexp": ("sum",),
    "mean": ("sum",),
    "zeros_like": ("ones_like",),
    "float64": ("float32",),
    "float32": ("float16",),
    "isend": ("send",),
    "irecv": ("recv",),
    "train": ("eval",),
    "eval": ("train",),
}


def expression_defects(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of ``node``, each with one defect. The node itself is left as it is."""
    match node:
        case ast.BinOp():
            yield from _of_operation(node)
        case ast.AugAssign() if type(node.op) in _OPERATORS:
            yield _with(node, op=_OPERATORS[type(node.op)]())
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            yield _with(node, ops=[_COMPARISONS[type(op)]()])
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            for left_out in range(len(node.values)):
                rest = [value for place, value in enumerate(node.values) if place != left_out]
                yield rest[0] if len(rest) == 1 else _with(node, values=rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.IfExp():
            yield node.body
            yield node.orelse
        case ast.Constant():
            yield from _of_constant(node)
        case ast.Attribute():
            yield from _of_attribute(node)
        case ast.Call():
            yield from _of_call(node)
        case ast.Subscript(slice=ast.Slice() as cut):
            yield from (_with(node, slice=other) for other in _of_slice(cut))
        case _:
            return


def _with(node: Any, **changes: Any) -> Any:
    new = copy.deepcopy(node)
    for name, value in changes.items():
        setattr(new, name, value)
    return new


def _of_operation(node: ast.BinOp) -> Iterator[ast.AST]:
    if type(node.op) in _OPERATORS:
        yield _with(node, op=_OPERATORS[type(node.op)]())
    yield node.left
    yield node.right
    if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.MatMult | ast.Mod):
        yield _with(node, left=node.right, right=node.left)


def _of_constant(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield _with(node, value=not value)
    elif isinstance(value, int):
        yield _with(node, value=value + 1)
        yield _with(node, value=value - 1)
    elif isinstance(value, float):
        yield _with(node, value=2 * value if value else 1.0)


def _of_attribute(node: ast.Attribute) -> Iterator[ast.AST]:
    if node.attr == "rank":
        yield ast.Constant(0)
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))
    if node.attr == "world_size":
        yield from (ast.Constant(size) for size in (2, 3, 4))
        yield ast.BinOp(node, ast.Sub(), ast.Constant(1))
    if node.attr == "T":
        yield node.value
    yield from (_with(node, attr=name) for name in _NAMES.get(node.attr, ()))


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if isinstance(node.func, ast.Attribute) and not node.args:
        yield node.func.value  # x.clone() -> x, work.wait() -> work
    if len(node.args) >= 2:
        yield _with(node, args=[node.args[1], node.args[0], *node.args[2:]])
    if len(node.args) == 1 and name in ("reversed", "sorted", "list", "float", "int", "tuple"):
        yield node.args[0]
    for place, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            yield _with(node, keywords=node.keywords[:place] + node.keywords[place + 1 :])
    if isinstance(node.func, ast.Name) and node.func.id in _NAMES:
        yield from (_with(node, func=ast.Name(other, ast.Load())) for other in _NAMES[node.func.id])
    if name == "range":
        yield from _of_range(node)
    if name == "append" and isinstance(node.func, ast.Attribute):
        yield _with(node, func=_with(node.func, attr="insert"), args=[ast.Constant(0), *node.args])
    if name in ("all_reduce", "broadcast", "all_gather", "barrier"):
        yield _with(node, keywords=[*node.keywords, ast.keyword("async_op", ast.Constant(True))])
    if name == "all_reduce":
        yield from _of_all_reduce(node)


def _of_range(node: ast.Call) -> Iterator[ast.AST]:
    *first, last = node.args[:2]
    rest = node.args[2:]
    yield _with(node, args=[*first, ast.BinOp(last, ast.Sub(), ast.Constant(1)), *rest])
    yield _with(node, args=[*first, ast.BinOp(last, ast.Add(), ast.Constant(1)), *rest])
    if not first:
        yield _with(node, args=[ast.Constant(1), last])
    yield ast.Call(ast.Name("reversed", ast.Load()), [node], [])


def _of_all_reduce(node: ast.Call) -> Iterator[ast.AST]:
    assert isinstance(node.func, ast.Attribute)
    others = [one for one in node.keywords if one.arg not in ("op", "src", "dst")]
    if len(node.args) == 1:
        reduction = ast.Attribute(ast.Attribute(node.func.value, "ReduceOp", ast.Load()), "MAX", ast.Load())
        yield _with(node, keywords=[*others, ast.keyword("op", reduction)])
    for name, end in (("broadcast", "src"), ("reduce", "dst")):
        zero = ast.keyword(end, ast.Constant(0))
        yield _with(node, func=_with(node.func, attr=name), args=node.args[:1], keywords=[*others, zero])


def _of_slice(cut: ast.Slice) -> Iterator[ast.Slice]:
    if cut.lower is not None:
        yield _with(cut, lower=None)
        yield _with(cut, lower=ast.BinOp(cut.lower, ast.Add(), ast.Constant(1)))
    if cut.upper is not None:
        yield _with(cut, upper=None)
        yield _with(cut, upper=ast.BinOp(cut.upper, ast.Sub(), ast.Constant(1)))
    if cut.step is not None:
        yield _with(cut, step=None)
