"""08.gates: what happens at the entrance and at the exit of a region that is cut by features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster import Rank
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_04_parts.tries import ReplicaJudge
from course_lib.learn.exercises.lesson_08_parts.tries import both_ways, leaf, made, reported, weights_of

__all__ = ["GATES"]

_ENTER, _LEAVE, _BOTH = "the entrance", "the exit", "in through one gate and out by the other"
_SHAPE, _SENT = (3, 4), "all_reduce of 96 bytes"
_KEPT = "what went in, afterwards"


def _own(x: Tensor, rank: int) -> Tensor:
    """What a rank computes inside the region: something else on each."""
    return torch.sin((rank + 1) * x)


def _start(kind: str, rank: int) -> Tensor:
    """The same on every rank, but for the partial sums at the exit."""
    return made("gates", *_SHAPE) * (rank + 1 if kind == _LEAVE else 1)


def _trial(answer: Any, me: Rank, kind: str) -> Any:
    x = leaf(_start(kind, me.rank), me)

    def run() -> Any:
        if kind == _ENTER:
            return _own(answer.apply(x, True), me.rank)
        if kind == _LEAVE:
            return answer.apply(x.view_as(x), False)
        return answer.apply(_own(answer.apply(x, True), me.rank), False)

    report = both_ways(me, run, {"x": x})
    if isinstance(report, dict):
        report[_KEPT] = x.detach().cpu()
    return report


def _right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    def expected(rank: int, world_size: int) -> dict[str, Any]:
        ranks = range(world_size)
        x = _start(kind, rank).requires_grad_()
        if kind == _LEAVE:
            output = sum((_start(kind, other) for other in ranks), torch.zeros(_SHAPE, dtype=torch.float64))
            gradient = weights_of(output)
        else:
            own = [_own(x, other) for other in ranks]
            output = own[rank] if kind == _ENTER else torch.stack(own).sum(dim=0)
            every = torch.stack(own).sum(dim=0)  # what all ranks together compute from x
            (gradient,) = torch.autograd.grad((every * weights_of(every)).sum(), x)
        there = "nothing" if kind == _ENTER else _SENT
        back = "nothing" if kind == _LEAVE else _SENT
        report = reported(output.detach(), {"x": gradient}, there, back)
        return {**report, _KEPT: x.detach()}

    return expected


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _summed(tensor: Tensor) -> Tensor:
    total = tensor.clone()
    dist.all_reduce(total)
    return total


def _same(tensor: Tensor) -> Tensor:
    return tensor.view_as(tensor)


def _mean(tensor: Tensor) -> Tensor:
    return _summed(tensor) / dist.get_world_size()


def _in_place(tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor.detach())
    return tensor.clone()


Way = Callable[[Tensor], Tensor]


def _gate(
    enter: tuple[Way, Way] = (_same, _summed), leave: tuple[Way, Way] = (_summed, _same)
) -> type[Function]:
    """A gate with these ways (forward, backward) at its entrance and at its exit."""

    class Gate(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
            ctx.ways = enter if is_entrance else leave
            return ctx.ways[0](x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return ctx.ways[1](grad), None

    return Gate


class _OneGradient(Function):
    """Gives a gradient for x alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
        ctx.is_entrance = is_entrance
        return _same(x) if is_entrance else _summed(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _summed(grad) if ctx.is_entrance else grad


def _raised_about_gradients(evidence: Evidence) -> bool:
    return evidence.error is not None and "gradient" in evidence.error.message


GATES = Exercise(
    name="08.gates",
    title="In through one gate, out by the other",
    judge=ReplicaJudge(
        (2, 4),
        tuple(Case(kind, (kind,), _right(kind)) for kind in (_ENTER, _LEAVE, _BOTH)),
        _trial,
        timeout_s=6.0,
    ),
    mistakes=(
        Mistake(
            "nothing-comes-back",
            "The values are right forward, and the gradient at the entrance is each rank's own: it tells of this "
            "rank's features alone. x went to all ranks, so its gradient comes back from all of them: sum it.",
            _gate(enter=(_same, _same)),
        ),
        Mistake(
            "sums-back-at-the-exit",
            "At the exit you all-reduce backward as well. Every rank has the whole gradient of the sum there already; "
            "summing equal gradients makes them `n` times too large. A sum hands its gradient to each summand as it "
            "is.",
            _gate(leave=(_summed, _summed)),
        ),
        Mistake(
            "gates-swapped",
            "You sum at the entrance and let pass at the exit. What goes in is the same on all ranks and complete; "
            "what comes out are partial sums.",
            _gate(enter=(_summed, _same), leave=(_same, _summed)),
        ),
        Mistake(
            "mean-not-sum",
            "You take means. In data parallelism each rank had a loss of its own and the mean was wanted; here all "
            "ranks share one loss and each has a summand: sum, and divide by nothing.",
            _gate(enter=(_same, _mean), leave=(_mean, _same)),
        ),
        Mistake(
            "mean-going-back",
            "Forward is right. Backward you divide by the number of ranks: but the gradients at the entrance are "
            "summands, one from each rank's features.",
            _gate(enter=(_same, _mean)),
        ),
        Mistake(
            "overwrites-its-input",
            "The numbers are right, and the tensor that came in has been overwritten: `dist.all_reduce` works in "
            "place. Whoever kept that tensor for its own backward pass has another one now. Sum a copy.",
            _gate(leave=(_in_place, _same)),
        ),
        Mistake(
            "one-gradient-short",
            "`forward` took two things beside `ctx`, so `backward` must return two: the gradient of x, and None for "
            "the flag.",
            _OneGradient,
            _raised_about_gradients,
        ),
    ),
    hints=(
        "Ask at each gate: is what each rank has complete, or a summand? Ask it of the tensor forward, and of its "
        "gradient backward.",
        "Entrance: x is complete forward; backward each rank has a summand of its gradient. Exit: the other way round.",
        "`forward`: `return x.view_as(x) if is_entrance else summed(x)`, and keep the flag in `ctx`. `backward`: "
        "`summed(grad)` at the entrance, `grad` at the exit, and None for the flag.",
    ),
    passed="At the entrance nothing goes forward and a sum comes back; at the exit a sum goes forward and nothing "
    "comes back. One all-reduce each way.",
)
