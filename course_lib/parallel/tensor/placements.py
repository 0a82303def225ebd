"""Where the parts of a tensor are, and which collective a split matmul needs: worked out, not looked up. No torch.

A placement says what each of n ranks holds of one tensor:

    S(d)   Shard(d)      an equal part of it, cut along dim d
    R      Replicate()   all of it
    P      Partial()     a tensor of its full shape; the sum over ranks is the tensor

For Y = X A the rules of matrix arithmetic leave six ways to multiply what a rank holds without asking anybody:

    X      A      X A    because
    R      R      R      everybody does all the work
    S(0)   R      S(0)   rows of X give rows of Y                   (data parallel)
    R      S(1)   S(1)   columns of A give columns of Y             (column parallel)
    S(1)   S(0)   P      columns of X times rows of A, summed       (row parallel)
    P      R      P      (X1 + X2) A = X1 A + X2 A
    R      P      P      X (A1 + A2) = X A1 + X A2

Everything else changes a placement first, or afterwards; the change's name is the collective. ``matmul_plan`` finds the
way from the placements that are given to the one that is wanted, forward, and what follows from it backward.

The placements and their short names are those of PyTorch's DTensor; the rules are those that GSPMD (Xu et al., 2021)
and DTensor propagate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from course_lib.base.checked import checked
from course_lib.base.checks import at_least

__all__ = [
    "MATMUL_RULES",
    "MatmulPlan",
    "Partial",
    "Placement",
    "RedistributionStep",
    "Replicate",
    "Shard",
    "change",
    "gradient_placement",
    "local_product",
    "matmul_plan",
    "parse_placement",
]


@checked
@dataclass(frozen=True)
class Shard:
    """Each rank holds an equal part, cut along ``dim``; rank 0 the first."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class Replicate:
    """Each rank holds all of it."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial:
    """Each rank holds a summand of the full shape."""

    def __str__(self) -> str:
        return "P"


Placement = Shard | Replicate | Partial


@checked
def parse_placement(text: str) -> Placement:
    """``str(placement)`` read back: "R", "P", "S(0)", "S(1)"."""
    if found := re.fullmatch(r"S\((\d+)\)", text):
        return Shard(int(found[1]))
    if text in ("R", "P"):
        return Replicate() if text == "R" else Partial()
    dim = re.search(r"\d+", text)
    nearest = f"S({dim[0] if dim else 0})" if dim or text.upper().startswith("S") else "R"
    raise ValueError(
        f"{text!r} is no placement; write R (replicated), P (partial sums), or S(0), S(1) (cut along a dim). "
        f"The nearest is {nearest}."
    )


R, P, ROWS, COLUMNS = Replicate(), Partial(), Shard(0), Shard(1)
_OF_A_MATRIX: tuple[Placement, ...] = (R, ROWS, COLUMNS, P)

MATMUL_RULES: dict[tuple[Placement, Placement], Placement] = {
    (R, R): R,
    (ROWS, R): ROWS,
    (R, COLUMNS): COLUMNS,
    (COLUMNS, ROWS): P,
    (P, R): P,
    (R, P): P,
}

# From one placement to another: what it is called, and what each rank sends of the whole tensor, for n ranks.
_SENT = {
    "nothing": lambda n: 0.0,
    "split": lambda n: 0.0,  # every rank keeps its part of what it has
    "first rank keeps": lambda n: 0.0,  # the others take zeros: the sum is right
    "fill with zeros": lambda n: 0.0,  # each part in its place: the sum is the whole
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n**2,
}


@checked
def change(source: Placement, target: Placement) -> str:
    """What turns one placement of a tensor into another: a collective's name, or that of a local step."""
    if source == target:
        return "nothing"
    if isinstance(source, Replicate):
        return "split" if isinstance(target, Shard) else "first rank keeps"
    if isinstance(source, Partial):
        return "reduce_scatter" if isinstance(target, Shard) else "all_reduce"
    if isinstance(target, Shard):
        return "all_to_all"
    return "all_gather" if isinstance(target, Replicate) else "fill with zeros"


@checked
def local_product(x: Placement, a: Placement) -> Placement | None:
    """The placement of X A when each rank multiplies what it holds; None where that is no part of the product."""
    return MATMUL_RULES.get((x, a))


@checked
def gradient_placement(of: Placement) -> Placement:
    """Where the gradient of a tensor belongs: with the tensor, and whole for partial sums.

    A replicated tensor has one gradient, the same on all ranks. A sum passes its gradient to each summand.
    """
    return R if isinstance(of, Partial) else of


@dataclass(frozen=True)
class RedistributionStep:
    """One change of placement. ``tensor`` is "X", "A", "Y", or a gradient: "dX", "dA", "dY"."""

    tensor: str
    source: Placement
    target: Placement

    @property
    def collective(self) -> str:
        """Its name, such as "all_reduce"; "split" and its like send nothing."""
        return change(self.source, self.target)

    @property
    def is_sent(self) -> bool:
        """Whether ranks must talk for it."""
        return _SENT[self.collective](2) > 0

    def sent_bytes(self, size_bytes: int, num_ranks: int) -> float:
        """What each rank sends, of a whole tensor of ``size_bytes``, by a ring (or directly, for an all_to_all)."""
        at_least(1, num_ranks=num_ranks)
        return _SENT[self.collective](num_ranks) * size_bytes

    def __str__(self) -> str:
        return f"{self.tensor}: {self.source} -> {self.target} by {self.collective}"


@dataclass(frozen=True)
class MatmulPlan:
    """How n ranks compute Y = X A and its gradients, from placements given to placements wanted.

    ``forward`` changes X and A into ``x_used`` and ``a_used``, which every rank multiplies, and changes the product,
    which is a ``product``, into what is wanted. ``backward`` changes dY first; then each rank multiplies
    dX = dY A^T and dA = X^T dY with what it used, and the two are changed into where they belong.
    """

    x: Placement
    a: Placement
    y: Placement
    x_used: Placement
    a_used: Placement
    product: Placement
    forward: tuple[RedistributionStep, ...]
    backward: tuple[RedistributionStep, ...]

    def sent_bytes(self, shape: Sequence[int], num_ranks: int, itemsize: int = 4) -> tuple[float, float]:
        """What each rank sends forward, and backward, for X (N, K) and A (K, M); ``shape`` is (N, K, M)."""
        n, k, m = shape
        numbers = {"X": (n, k), "A": (k, m), "Y": (n, m)}
        forward, backward = (
            sum(step.sent_bytes(itemsize * prod(numbers[step.tensor[-1]]), num_ranks) for step in steps)
            for steps in (self.forward, self.backward)
        )
        return forward, backward

    def collectives(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of what is sent, forward and backward: (("all_reduce",), ()) for row parallel."""
        forward, backward = (
            tuple(step.collective for step in steps if step.is_sent) for steps in (self.forward, self.backward)
        )
        return forward, backward

    def __str__(self) -> str:
        title = f"X {self.x}, A {self.a} -> Y {self.y}: multiply {self.x_used} by {self.a_used}, get {self.product}"
        lines = [f"  {name}  {step}" for name in ("forward", "backward") for step in getattr(self, name)]
        return "\n".join([title, *lines])


@checked
def matmul_plan(x: Placement, a: Placement, y: Placement, *, operands_stay: bool = True) -> MatmulPlan:
    """How to get from X and A, placed so, to Y = X A placed so.

    ``operands_stay``: where a rule allows it, X and A are multiplied where they are, and the product alone travels, as
    in tensor parallelism, whose weights never move. With False, whatever sends least, forward and backward, for
    matrices of one size: it may gather a weight, as FSDP does. Then least arithmetic decides, then fewest steps.

    Raises ``ValueError`` for a placement that a matrix cannot have, such as S(2).
    """
    for name, placement in (("X", x), ("A", a), ("Y", y)):
        if placement not in _OF_A_MATRIX:
            raise ValueError(f"{name} is placed {placement}; a matrix has dims 0 and 1. The nearest is S(1).")
    plans = [
        _plan(x, a, y, x_used, a_used)
        for x_used, a_used in MATMUL_RULES
        if not (_wastes(x, x_used) or _wastes(a, a_used))
    ]

    def price(plan: MatmulPlan) -> tuple[float, ...]:
        moved = sum(step.is_sent for step in plan.forward if step.tensor != "Y")
        sent = sum(plan.sent_bytes((1, 1, 1), num_ranks=2, itemsize=1))
        is_shared = any(isinstance(used, Shard) for used in (plan.x_used, plan.a_used))  # each does its part
        return moved if operands_stay else 0, sent, not is_shared, len(plan.forward) + len(plan.backward)

    return min(plans, key=price)


def _wastes(given: Placement, used: Placement) -> bool:
    """Zeros would be multiplied: what is there is made into partial sums that are mostly nothing."""
    return isinstance(used, Partial) and given != used


def _plan(x: Placement, a: Placement, y: Placement, x_used: Placement, a_used: Placement) -> MatmulPlan:
    product = MATMUL_RULES[x_used, a_used]
    grad_product = gradient_placement(product)
    grad_x = MATMUL_RULES[grad_product, _transposed(a_used)]  # dX = dY A^T
    grad_a = MATMUL_RULES[_transposed(x_used), grad_product]  # dA = X^T dY
    forward = [
        RedistributionStep("X", x, x_used),
        RedistributionStep("A", a, a_used),
        RedistributionStep("Y", product, y),
    ]
    backward = [
        RedistributionStep("dY", gradient_placement(y), grad_product),
        RedistributionStep("dX", grad_x, gradient_placement(x)),
        RedistributionStep("dA", grad_a, gradient_placement(a)),
    ]
    changes = [tuple(step for step in steps if step.source != step.target) for steps in (forward, backward)]
    return MatmulPlan(x, a, y, x_used, a_used, product, *changes)


def _transposed(of: Placement) -> Placement:
    """The placement of a matrix's transpose: rows become columns."""
    return Shard(1 - of.dim) if isinstance(of, Shard) else of
