"""08.gates: the conjugate operators f and g, at the entrance and at the exit of a region that is cut by features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster import Rank
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_08.tries import both_ways, leaf, made, reported, weights_of
from course_lib.learn.judge import by_trial

__all__ = ["GATES"]

_ENTER, _LEAVE, _BOTH = "the entrance", "the exit", "in through one gate and out by the other"
_SHAPE, _SENT = (3, 4), "all_reduce of 96 bytes"
_KEPT = "what went in, afterwards"
_KEPT_BACK = "the gradient that came to the gate, afterwards"


def _own(x: Tensor, rank: int) -> Tensor:
    """What a rank computes inside the region: something else on each."""
    return torch.sin((rank + 1) * x)


def _start(kind: str, rank: int) -> Tensor:
    """The same on every rank, but for the partial sums at the exit."""
    return made("gates", *_SHAPE) * (rank + 1 if kind == _LEAVE else 1)


def _trial(answer: Any, me: Rank, kind: str) -> Any:
    x = leaf(_start(kind, me.rank), me)
    came: list[tuple[Tensor, Tensor]] = []  # a gradient that comes to a gate, and what it was

    def passed(tensor: Tensor, is_entrance: bool) -> Any:
        through = answer.apply(tensor, is_entrance)
        if isinstance(through, Tensor) and through.requires_grad:
            through.register_hook(lambda grad: came.append((grad, grad.clone())))
        return through

    def run() -> Any:
        if kind == _ENTER:
            return _own(passed(x, True), me.rank)
        if kind == _LEAVE:
            return passed(x.view_as(x), False)
        return passed(_own(passed(x, True), me.rank), False)

    report = both_ways(me, run, {"x": x})
    if isinstance(report, dict):
        report[_KEPT] = x.detach().cpu()
        report[_KEPT_BACK] = "as it was" if all(torch.equal(*one) for one in came) else "overwritten"
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
        return {**report, _KEPT: x.detach(), _KEPT_BACK: "as it was"}

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


def _what_all_reduce_returns(tensor: Tensor) -> Any:
    return dist.all_reduce(tensor.clone())


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


class _LostFlag(Function):
    """Looks for the flag where nobody put it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
        return _same(x) if is_entrance else _summed(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _summed(grad) if ctx.is_entrance else grad, None


def _raised_about_gradients(evidence: Evidence) -> bool:
    return evidence.error is not None and "number of gradients" in evidence.error.message


def _raised_about_the_flag(evidence: Evidence) -> bool:
    """Nothing of that name in ctx, no such name in ``backward``, or a flag given to ``save_for_backward``."""
    error = evidence.error
    return error is not None and (
        ("Backward' object has no attribute" in error.message)
        or (error.kind == "NameError" and "is_entrance" in error.message)
        or "save_for_backward" in error.message
    )


def _nothing_comes_out(evidence: Evidence) -> bool:
    return evidence.error is None and all(o.got is None for o in evidence.wrong if o.case.startswith(_LEAVE))


def _overwrites_a_gradient(evidence: Evidence) -> bool:
    return all(outcome.difference.startswith(f"under '{_KEPT_BACK}") for outcome in evidence.wrong)


GATES = Exercise(
    name="08.gates",
    title="In through one gate, out by the other",
    judge=by_trial(
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
            "nothing-summed-at-the-exit",
            "At the exit each rank hands on its own part. The output of the region is the sum over ranks: sum it "
            "forward, and let the gradient pass.",
            _gate(leave=(_same, _same)),
        ),
        Mistake(
            "sums-going-in",
            "Forward you sum at both gates. What comes to the entrance is the same on all ranks and complete: summed, "
            "it is `n` times too large. Let it pass.",
            _gate(enter=(_summed, _summed)),
        ),
        Mistake(
            "backward-swapped",
            "Forward is right at both gates, backward they are swapped. Where forward passes, each rank's gradient is "
            "a summand; where forward sums, the gradient is complete already.",
            _gate(enter=(_same, _same), leave=(_summed, _summed)),
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
            "overwrites-the-gradient",
            "The numbers are right, and the gradient that came in has been overwritten. Autograd may still need that "
            "tensor for another path: sum a copy of it.",
            _gate(enter=(_same, _in_place)),
            _overwrites_a_gradient,
        ),
        Mistake(
            "all-reduce-gives-nothing",
            "Nothing came out of the exit. `dist.all_reduce` returns nothing: the sum is in the tensor that it was "
            "given. `summed(tensor)` returns it.",
            _gate(enter=(_same, _what_all_reduce_returns), leave=(_what_all_reduce_returns, _same)),
            _nothing_comes_out,
        ),
        Mistake(
            "flag-not-kept",
            "`backward` does not see the arguments of `forward`. Keep the flag in `ctx` as an attribute, "
            "`ctx.is_entrance = is_entrance`. (`ctx.save_for_backward` is for tensors.)",
            _LostFlag,
            _raised_about_the_flag,
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
