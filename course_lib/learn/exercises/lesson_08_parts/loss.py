"""08.loss: cross-entropy from logits that are cut by vocabulary: a few numbers a position are sent, and no logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster import Rank
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_04_parts.tries import ReplicaJudge
from course_lib.learn.exercises.lesson_08_parts.tries import leaf, made
from course_lib.parallel import all_gather_split, all_reduce_identity

__all__ = ["LOSS"]

_POSITIONS, _VOCABULARY = 6, 12
_PLAIN, _LARGE = "logits near 0", "logits in the thousands"
_LOSS, _GRADIENT = "the loss", "the gradient of this rank's logits"
_FORWARD, _BACKWARD = "numbers a position sent forward beyond need", "numbers a position sent backward"


def _logits(kind: str) -> Tensor:
    logits = made("logits", _POSITIONS, _VOCABULARY)
    return logits if kind == _PLAIN else 1000 * (logits + 3)


def _targets() -> Tensor:
    return torch.tensor([0, 2, 5, 6, 9, 11])  # on the first rank, on the last, and between


def _trial(answer: Callable[..., Any], me: Rank, kind: str) -> Any:
    from course_lib.meter.recorder import Recorder

    logits = leaf(_logits(kind).chunk(me.world_size, dim=1)[me.rank], me)
    with Recorder(me.rank) as there:
        loss = answer(me, logits, _targets().to(me.device))
    if not isinstance(loss, Tensor):
        return loss
    with Recorder(me.rank) as back:
        if loss.requires_grad:
            loss.sum().backward()
    forward, backward = (
        sum(sum(call.sent_bytes.values()) for call in calls) / (8 * _POSITIONS)
        for calls in (there.calls, back.calls)
    )
    return {
        _LOSS: loss.detach().cpu(),
        _GRADIENT: "none came" if logits.grad is None else logits.grad.cpu(),
        _FORWARD: max(0.0, forward - _needed(me.world_size)),
        _BACKWARD: backward,
    }


def _needed(num_ranks: int) -> float:
    """Three all-reduced numbers; or two that are gathered, a rank's own log-sum and the target's logit."""
    return max(3 * 2 * (num_ranks - 1) / num_ranks, 2.0 * (num_ranks - 1))


def _right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    def expected(rank: int, world_size: int) -> dict[str, Any]:
        logits = _logits(kind).requires_grad_()
        loss = F.cross_entropy(logits, _targets())
        (gradient,) = torch.autograd.grad(loss, logits)
        return {
            _LOSS: loss.detach(),
            _GRADIENT: gradient.chunk(world_size, dim=1)[rank],
            _FORWARD: 0.0,
            _BACKWARD: 0.0,
        }

    return expected


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _largest(me: Rank, logits: Tensor) -> Tensor:
    largest = logits.detach().amax(dim=1)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return largest


def _own(me: Rank, logits: Tensor) -> Tensor:
    return logits.detach().amax(dim=1)


def _none(me: Rank, logits: Tensor) -> Tensor:
    return torch.zeros_like(logits[:, 0])


def _own_target(
    me: Rank, shifted: Tensor, targets: Tensor, *, first: int | None = None, masked: bool = True
) -> Tensor:
    """The target's logit where this rank has it, zero elsewhere; or what two usual slips make of it."""
    size = shifted.size(1)
    place = targets - (me.rank * size if first is None else first)
    is_here = (place >= 0) & (place < size)
    found = shifted.gather(1, place.clamp(0, size - 1)[:, None])[:, 0]
    return torch.where(is_here, found, 0.0) if masked else found


class _SumBothWays(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].clone()
        dist.all_reduce(total)
        return total


def _split_loss(
    *,
    largest: Callable[[Rank, Tensor], Tensor] = _largest,
    target: Callable[..., Tensor] = _own_target,
    total: Callable[[Rank, Tensor], Tensor] = all_reduce_identity,
    shared_exponentials: bool = True,
    mean: bool = True,
) -> Callable[..., Tensor]:
    """A split loss, right but for what the arguments change."""

    def split_loss(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
        shifted = logits - largest(me, logits)[:, None]
        exponentials = shifted.exp().sum(dim=1)
        sums = total(me, torch.stack([exponentials, target(me, shifted, targets)]))
        losses = (sums[0] if shared_exponentials else exponentials).log() - sums[1]
        return losses.mean() if mean else losses.sum()

    return split_loss


def _gathers_logits(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(all_gather_split(me, logits, dim=1), targets)


def _by_the_library(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
    from course_lib.parallel import vocab_parallel_cross_entropy

    return vocab_parallel_cross_entropy(me, logits, targets, vocab_size=me.world_size * logits.size(1))


def _overflows(evidence: Evidence) -> bool:
    """Right where logits are small, not a finite number where they are large."""
    small = [o for o in evidence.outcomes if o.case.startswith(_PLAIN)]
    large = [o for o in evidence.outcomes if o.case.startswith(_LARGE)]
    return all(_LOSS not in o.difference and _GRADIENT not in o.difference for o in small) and not any(
        torch.isfinite(o.got[_LOSS]).all() for o in large
    )


def _sends_logits(evidence: Evidence) -> bool:
    return all(o.difference.startswith(f"under '{_FORWARD}") for o in evidence.wrong) and all(
        o.got[_FORWARD] > o.expected[_FORWARD] for o in evidence.wrong
    )


LOSS = Exercise(
    name="08.loss",
    title="A loss whose logits never meet",
    judge=ReplicaJudge(
        (2, 4), tuple(Case(kind, (kind,), _right(kind)) for kind in (_PLAIN, _LARGE)), _trial, timeout_s=6.0
    ),
    mistakes=(
        Mistake(
            "own-softmax",
            "Each rank divides by the sum over its own tokens. A softmax is over the whole vocabulary: the sums of "
            "exponentials have to be added up over ranks.",
            _split_loss(shared_exponentials=False),
        ),
        Mistake(
            "own-largest",
            "Each rank subtracts its own largest logit, so the exponentials of two ranks are in different units, and "
            "their sum means nothing. Let the ranks agree on one largest: an all-reduce with `dist.ReduceOp.MAX`.",
            _split_loss(largest=_own),
        ),
        Mistake(
            "not-shifted",
            "Right while logits are small. `exp(1000)` is infinite, and infinity divided by infinity is no number: "
            "subtract the position's largest logit, over all ranks, before `exp`.",
            _split_loss(largest=_none),
            _overflows,
        ),
        Mistake(
            "everybody-counts-the-target",
            "A rank that does not have the target adds a logit all the same: one of its own, at the place to which "
            "you clamped. Put zeros where the target is not here; then the sum over ranks is the target's logit.",
            _split_loss(target=lambda me, shifted, targets: _own_target(me, shifted, targets, masked=False)),
        ),
        Mistake(
            "token-as-place",
            "You looked the target up by its token number. Rank r's first column is token `r * V/n`: subtract that, "
            "and see whether the place is among this rank's columns.",
            _split_loss(target=lambda me, shifted, targets: _own_target(me, shifted, targets, first=0)),
        ),
        Mistake(
            "sums-back",
            "The loss is right and its gradient is wrong: the sum over ranks was summed backward as well. Every rank "
            "computes the same loss from it; use the exit gate, whose backward hands the gradient on.",
            _split_loss(total=lambda me, sums: _SumBothWays.apply(sums)),
        ),
        Mistake(
            "gathers-the-logits",
            "The loss is right, and the logits were sent: with 50,000 tokens that is 50,000 numbers a position where "
            "three would do, and a tensor that the cut was to avoid.",
            _gathers_logits,
            _sends_logits,
        ),
        Mistake(
            "sum-not-mean",
            "That is the sum over positions; the mean is wanted.",
            _split_loss(mean=False),
        ),
    ),
    hints=(
        "The loss of a position is log(sum of exponentials) - target's logit. Which of the two does a rank know, of "
        "which part?",
        "Three numbers a position: the largest logit (MAX, outside autograd), the sum of exponentials, and the "
        "target's logit, zero on the ranks that do not have it. The last two can go in one all-reduce.",
        "`place = targets - me.rank * logits.size(1)`; `is_here = (place >= 0) & (place < logits.size(1))`; gather at "
        "the clamped place, `torch.where(is_here, found, 0.0)`; `leave(me, torch.stack([sums, target]))`.",
    ),
    forbidden=("course_lib.parallel.tensor_parallel.vocabulary.vocab_parallel_cross_entropy",),
    forbidden_example=_by_the_library,
    passed="Loss and gradients are those of the whole vocabulary, a few numbers a position were sent forward and "
    "nothing backward, and large logits do no harm.",
)
