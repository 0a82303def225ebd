"""08.loss: cross-entropy from logits that are cut by vocabulary: a few numbers a position are sent, and no logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster import Rank
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_08.tries import SumBothWays, leaf, made
from course_lib.learn.exercises.lesson_08.wrong_losses import (
    by_the_library,
    gathers_logits,
    largest_of_all,
    looks_outside,
    no_largest,
    own_largest,
    own_target,
    split_loss,
    with_gradient,
)
from course_lib.learn.judge import by_trial
from course_lib.parallel.tensor import identity_all_reduce

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


def _overflows(evidence: Evidence) -> bool:
    """Right where logits are small, infinite or no number where they are large: something overflowed."""
    small = [o for o in evidence.outcomes if o.case.startswith(_PLAIN)]
    large = [o for o in evidence.outcomes if o.case.startswith(_LARGE)]
    is_right = all(_LOSS not in o.difference and _GRADIENT not in o.difference for o in small)
    return bool(large) and is_right and not any(torch.isfinite(o.got[_LOSS]).all() for o in large)


def _vanishes(evidence: Evidence) -> bool:
    """As above, and the infinity is the logarithm of 0."""
    return _overflows(evidence) and any(o.got[_LOSS].eq(-torch.inf).any() for o in evidence.wrong)


def _is_out_of_bounds(evidence: Evidence) -> bool:
    return evidence.error is not None and "out of bounds" in evidence.error.message


def _sends_logits(evidence: Evidence) -> bool:
    return all(o.difference.startswith(f"under '{_FORWARD}") for o in evidence.wrong) and all(
        o.got[_FORWARD] > o.expected[_FORWARD] for o in evidence.wrong
    )


LOSS = Exercise(
    name="08.loss",
    title="A loss whose logits never meet",
    judge=by_trial(
        (2, 4), tuple(Case(kind, (kind,), _right(kind)) for kind in (_PLAIN, _LARGE)), _trial, timeout_s=6.0
    ),
    mistakes=(
        Mistake(
            "own-softmax",
            "Each rank divides by the sum over its own tokens. A softmax is over the whole vocabulary: the sums of "
            "exponentials have to be added up over ranks.",
            split_loss(shared_exponentials=False),
        ),
        Mistake(
            "own-largest",
            "Each rank subtracts its own largest logit, so the exponentials of two ranks are in different units, and "
            "their sum means nothing. Let the ranks agree on one largest: an all-reduce with `dist.ReduceOp.MAX`.",
            split_loss(largest=own_largest),
        ),
        Mistake(
            "shifted-too-far",
            "Right while logits are small. With large ones every exponential of some position is 0, and log 0 is minus "
            "infinity: something larger than that position's largest logit was subtracted. Take the largest of each "
            "*row*, and of the ranks by `dist.ReduceOp.MAX`.",
            split_loss(largest=largest_of_all),
            _vanishes,
        ),
        Mistake(
            "not-shifted",
            "Right while logits are small. `exp(1000)` is infinite, and infinity divided by infinity is no number: "
            "subtract the position's largest logit, over all ranks, before `exp`.",
            split_loss(largest=no_largest),
            _overflows,
        ),
        Mistake(
            "everybody-counts-the-target",
            "A rank that does not have the target adds a logit all the same: one of its own, at the place to which "
            "you clamped. Put zeros where the target is not here; then the sum over ranks is the target's logit.",
            split_loss(target=lambda me, shifted, targets: own_target(me, shifted, targets, masked=False)),
        ),
        Mistake(
            "token-as-place",
            "You looked the target up by its token number. Rank r's first column is token `r * V/n`: subtract that, "
            "and see whether the place is among this rank's columns.",
            split_loss(target=lambda me, shifted, targets: own_target(me, shifted, targets, first=0)),
        ),
        Mistake(
            "looks-outside",
            "You look for a target among columns that this rank does not have. The place of a target is its token "
            "number less `me.rank * logits.size(1)`, and only 0 to `logits.size(1) - 1` are here: clamp the others, "
            "look up, and put zeros in their stead.",
            looks_outside,
            _is_out_of_bounds,
        ),
        Mistake(
            "target-not-shared",
            "The logit of the target stays with the rank that has it; the others take it to be 0, and the ranks do not "
            "agree on the loss. It has to be added up over ranks as well.",
            split_loss(shared_target=False),
        ),
        Mistake(
            "log-before-the-sum",
            "You add up logarithms of the ranks' sums. The logarithm of a sum is wanted: add up the exponentials "
            "over ranks, then take one logarithm.",
            split_loss(early_log=True),
        ),
        Mistake(
            "target-not-shifted",
            "You subtract the largest logit from what goes into `exp` and not from the target's logit: the difference "
            "of the two is off by the largest.",
            split_loss(shifted_target=False),
        ),
        Mistake(
            "sign",
            "The right number with the wrong sign: the loss is minus the logarithm of a probability, so it is never "
            "below 0.",
            lambda me, logits, targets: -split_loss()(me, logits, targets),
        ),
        Mistake(
            "sums-back",
            "The loss is right and its gradient is wrong: the sum over ranks was summed backward as well. Every rank "
            "computes the same loss from it; use the exit gate, whose backward hands the gradient on.",
            split_loss(total=lambda me, sums: SumBothWays.apply(sums)),
        ),
        Mistake(
            "largest-not-detached",
            "The loss is right and its gradient is not: some of it passes through the largest logit, on the rank that "
            "has it. Take the largest from `logits.detach()`.",
            split_loss(largest=with_gradient),
        ),
        Mistake(
            "logits-through-the-entrance",
            "The loss is right, and the logits came in through `enter`, which sums their gradients over ranks. Each "
            "rank has logits of its *own* tokens: use them as they are.",
            lambda me, logits, targets: split_loss()(me, identity_all_reduce(me, logits), targets),
        ),
        Mistake(
            "gathers-the-logits",
            "The loss is right, and the logits were sent: with 50,000 tokens that is 50,000 numbers a position where "
            "three would do, and a tensor that the cut was to avoid.",
            gathers_logits,
            _sends_logits,
        ),
        Mistake(
            "sum-not-mean",
            "That is the sum over positions; the mean is wanted.",
            split_loss(mean=False),
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
    forbidden=("course_lib.parallel.tensor.vocabulary.vocab_parallel_cross_entropy",),
    forbidden_example=by_the_library,
    passed="Loss and gradients are those of the whole vocabulary, a few numbers a position were sent forward and "
    "nothing backward, and large logits do no harm.",
)
