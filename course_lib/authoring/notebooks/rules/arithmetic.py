"""Which numbers of a lesson come from the arithmetic of tensors, as far as its code tells without being run.

A tensor, what is read from one (``item``, ``tolist``, ``float``), a loss, a norm, and what Python makes of them; what a
function of the lesson returns where one of these is in it; and what ranks return that run such a function. Bytes,
counts, shapes, truth values and what the library's meters, models of cost and pictures tell are none.

Assignments are followed from the top of the lesson to its end, through loops and functions, without their branches.
A function's parameters count as other numbers: it is its result that is looked at, where it is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["KnownNames"]

_MADE_OF_TENSORS = {"next_token_loss", "clip_grad_norm_", "get_total_norm", "cross_entropy", "mse_loss"}
_READ = {"item", "tolist"}  # methods of tensors alone
_LIBRARIES = ("torch.", "F.", "nn.functional.", "nn.utils.")
_NO_ARITHMETIC = {  # of torch: what is exact, or no number
    "allclose", "arange", "autograd", "backends", "cuda", "device", "distributed", "empty", "empty_like", "equal",
    "eye", "full", "Generator", "get_num_threads", "is_tensor", "load", "manual_seed", "multiprocessing", "ones",
    "ones_like", "optim", "profiler", "randint", "randperm", "save", "tensor", "zeros", "zeros_like",
}  # fmt: skip
_EXACT_METHODS = {
    "count_nonzero", "dim", "element_size", "index", "keys", "long", "int", "nelement", "numel", "size", "stride",
    "count", "bool", "isnan", "isinf", "all", "any", "eq", "ne", "format", "join", "splitlines", "strip", "split",
}  # fmt: skip
_PASSES_ON = {  # of what is around us: a number of arithmetic stays one
    "abs", "dict", "enumerate", "float", "list", "map", "max", "min", "next", "reversed", "set", "sorted", "sum",
    "tuple", "zip", "torch", "statistics.mean", "statistics.median", "math.sqrt", "math.log", "math.exp", "math.fsum",
}  # fmt: skip
_KEEPS = {"grad", "data", "T", "mT", "real", "values", "result", "results"}  # attributes: others are exact
# With a function as an argument: what that returns is the result.
_ON_RANKS = {"run", "call", "metered", "timed"}


class KnownNames:
    """The names of a lesson, so far: which hold numbers of arithmetic, and which functions return some."""

    def __init__(self, outer: KnownNames | None = None) -> None:
        self._outer = outer
        self._of_arithmetic: dict[str, bool] = {}

    def holds(self, name: str) -> bool:
        found = self._of_arithmetic.get(name)
        if found is None:
            return self._outer.holds(name) if self._outer else name in _MADE_OF_TENSORS
        return found

    def learn(self, node: ast.AST) -> None:
        """What a statement assigns. Statements are to come in their order, those of a block after its head."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._of_arithmetic[node.name] = self._returns_arithmetic(node)
            case ast.Assign():
                for target in node.targets:
                    self._assign(target, node.value)
            case ast.AnnAssign() if node.value is not None:
                self._assign(node.target, node.value)
            case ast.AugAssign():
                self._set(node.target, self.is_arithmetic(node.target) or self.is_arithmetic(node.value))
            case ast.For() | ast.comprehension():
                self._iterate(node.target, node.iter)
            case ast.NamedExpr():
                self._assign(node.target, node.value)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=way), args=args)):
                if way in ("append", "extend", "add", "update", "insert") and any(map(self.is_arithmetic, args)):
                    self._of_arithmetic[name] = True
            case _:
                pass

    def is_arithmetic(self, node: ast.AST) -> bool:
        """Whether an expression is a number of tensor arithmetic, a tensor, or holds one."""
        match node:
            case ast.Name():
                return self.holds(node.id)
            case ast.Attribute():
                return node.attr in _KEEPS and self.is_arithmetic(node.value)
            case ast.Call():
                return self._call_is(node)
            case ast.Compare() | ast.JoinedStr() | ast.Constant() | ast.Lambda() | ast.Slice():
                return False
            case ast.Subscript():
                return self.is_arithmetic(node.value)
            case ast.UnaryOp():
                return not isinstance(node.op, ast.Not) and self.is_arithmetic(node.operand)
            case ast.IfExp():
                return self.is_arithmetic(node.body) or self.is_arithmetic(node.orelse)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                inner = KnownNames(self)
                for generator in node.generators:
                    inner.learn(generator)
                made = node.value if isinstance(node, ast.DictComp) else node.elt
                return inner.is_arithmetic(made)
            case _:
                return any(map(self.is_arithmetic, ast.iter_child_nodes(node)))

    def inside(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> KnownNames:
        """The names in a function's body, after its last line."""
        inner = KnownNames(self)
        for argument in ast.walk(function.args):
            if isinstance(argument, ast.arg):
                inner._of_arithmetic[argument.arg] = False
        for node in statements(function.body):
            inner.learn(node)
        return inner

    def _returns_arithmetic(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        inner = self.inside(function)
        gives = [node.value for node in statements(function.body) if isinstance(node, ast.Return)]
        return any(value is not None and inner.is_arithmetic(value) for value in gives)

    def _call_is(self, call: ast.Call) -> bool:
        name = ast.unparse(call.func)
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(call.func, ast.Name):
            if call.func.id in _ON_RANKS:
                return any(map(self._is_function, arguments))
            passes_on = name in _PASSES_ON and any(map(self.is_arithmetic, arguments))
            return passes_on or (name not in _PASSES_ON and self.holds(name))
        if not isinstance(call.func, ast.Attribute):
            return False
        way = call.func.attr
        if name.startswith(_LIBRARIES) and "(" not in name:
            return self._of_library(name) or (way == "tensor" and any(map(self.is_arithmetic, arguments)))
        if way in _ON_RANKS and any(map(self._is_function, arguments)):
            return True
        if name in _PASSES_ON:
            return any(map(self.is_arithmetic, arguments))
        of = call.func.value
        if way in _READ:  # of what an exact method or function gives, exact numbers
            return not isinstance(of, ast.Call) or self._is_of_unknown(of) or self.is_arithmetic(of)
        return way not in _EXACT_METHODS and self.is_arithmetic(of)

    @staticmethod
    def _of_library(name: str) -> bool:
        """Whether a function of torch computes; classes, which begin with a capital, are no results."""
        is_class = name.rpartition(".")[2][0].isupper()
        exact = set(name.split(".")) & (_NO_ARITHMETIC | _EXACT_METHODS)
        return not (exact or is_class or name.startswith("torch.utils."))

    def _is_of_unknown(self, call: ast.Call) -> bool:
        name = ast.unparse(call.func)
        return not (name.startswith(_LIBRARIES) and "(" not in name) and name.rpartition(".")[2] not in _EXACT_METHODS

    def _is_function(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and self.holds(node.id)

    def _assign(self, target: ast.AST, value: ast.AST) -> None:
        pair = (target, value)
        match pair:
            case (ast.Tuple() | ast.List(), ast.Tuple() | ast.List()) if len(target.elts) == len(value.elts):  # type: ignore
                for one, its in zip(target.elts, value.elts, strict=True):  # type: ignore
                    self._assign(one, its)
            case _:
                self._set(target, self.is_arithmetic(value))

    def _iterate(self, target: ast.AST, over: ast.expr) -> None:
        """``for target in over``: the numbers that ``enumerate`` counts, and the keys of ``items``, are exact."""
        is_counted = isinstance(over, ast.Call) and ast.unparse(over.func).rpartition(".")[2] in (
            "enumerate",
            "items",
        )
        self._set(target, self.is_arithmetic(over))
        if is_counted and isinstance(target, ast.Tuple):
            self._set(target.elts[0], False)

    def _set(self, target: ast.AST, is_arithmetic: bool) -> None:
        match target:
            case ast.Name():
                self._of_arithmetic[target.id] = is_arithmetic
            case ast.Tuple() | ast.List():
                for one in target.elts:
                    self._set(one, is_arithmetic)
            case ast.Starred():
                self._set(target.value, is_arithmetic)
            case ast.Subscript() if isinstance(target.value, ast.Name):  # a part of it: the others stay as they are
                self._of_arithmetic[target.value.id] = is_arithmetic or self.holds(target.value.id)
            case _:
                pass


def statements(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The statements of a block and of those within it, in their order; not those of functions within."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        yield from (walrus for walrus in ast.walk(node) if isinstance(walrus, ast.NamedExpr))
        for part in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, part, []))
        for handler in getattr(node, "handlers", []):
            yield from statements(handler.body)
