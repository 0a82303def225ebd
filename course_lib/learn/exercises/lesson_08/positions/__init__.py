"""08.positions: the clinic's block along positions, mended. Every rank has the norm, and sees some of its rows."""

from __future__ import annotations

from collections.abc import Callable

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import Exercise, Mistake
from course_lib.learn.exercises.lesson_08.judging import by_steps
from course_lib.learn.exercises.lesson_08.positions.cases import CASES, LIBRARY, trial
from course_lib.learn.exercises.lesson_08.tries import WIDE, gradient_of
from course_lib.learn.exercises.lesson_08.usual import differs_in, no_way_back, not_waited
from course_lib.parallel.tensor import (
    all_gather_reduce_scatter,
    all_reduce_identity,
    identity_all_reduce,
    reduce_scatter_all_gather,
)

__all__ = ["POSITIONS"]

Step = Callable[[Rank, Tensor], Tensor]

# -- usual wrong answers ----------------------------------------------------------------------------------------------


def _keep(me: Rank, tensor: Tensor) -> Tensor:
    return tensor


def _block(
    *,
    before: Step = _keep,
    after: Step = _keep,
    weight: Step = _keep,
    matrices: Step = _keep,
    norm: Callable[[Rank, Tensor, Tensor], Tensor] | None = None,
) -> Callable[..., Tensor]:
    """The block with a gate somewhere: before the norm, after it, at its weight, at the cut matrices."""

    def block(me: Rank, x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
        w_up, w_down = matrices(me, w_up), matrices(me, w_down)
        if norm is not None:
            h = norm(me, x, norm_weight)
        else:
            h = F.layer_norm(before(me, x), (x.size(-1),), weight(me, norm_weight))
        hidden = F.gelu(F.linear(all_gather_reduce_scatter(me, after(me, h)), w_up))
        return x + reduce_scatter_all_gather(me, F.linear(hidden, w_down))

    return block


def _mean(me: Rank, weight: Tensor) -> Tensor:
    """The weight itself forward, and backward the mean of its gradients."""
    part = weight / me.world_size
    return identity_all_reduce(me, part + (weight - part).detach())


def _not_waited_for(me: Rank, weight: Tensor) -> Tensor:
    entered = weight.view_as(weight)

    def begin(grad: Tensor) -> Tensor:
        total = grad.clone()
        dist.all_reduce(total, async_op=True)
        return total

    entered.register_hook(begin)
    return entered


POSITIONS = Exercise(
    name="08.positions",
    title="A norm on every rank, for rows that are shared out",
    judge=by_steps(CASES, trial),
    mistakes=(
        not_waited(_block(weight=_not_waited_for)),
        Mistake(
            "as-it-was",
            "The output is right, and so are the gradients of x and of the cut matrices. The gradient of the norm's "
            "weight comes from this rank's positions alone. But every rank has the weight: what is missing is a sum "
            "over ranks.",
            _block(),
        ),
        Mistake(
            "gate-after-the-norm",
            "You sum the gradient of what the norm *gives*. But these are different positions on each rank, and a sum "
            "mixes them. What all ranks share is the norm's weight.",
            _block(after=identity_all_reduce),
        ),
        Mistake(
            "gate-at-x",
            "The gradients of x that you add up belong to different positions. What all ranks share is the norm's "
            "weight.",
            _block(before=identity_all_reduce),
        ),
        Mistake(
            "exit-at-the-weight",
            "`leave` sums *forward*: the weight comes out `n` times too large. It is the same on all ranks already; "
            "what has to be summed is its gradient, and that is the other gate.",
            _block(weight=all_reduce_identity),
        ),
        Mistake(
            "mean-of-the-gradients",
            "The norm's gradient is `n` times too small. Each rank has the summands of its own positions, and the "
            "gradient is their sum: divide by nothing.",
            _block(weight=_mean),
        ),
        Mistake(
            "cut-matrices-too",
            "The norm's gradient is right now. Those of `w_up` and `w_down` are not. Each rank has parts of its own, "
            "which have seen all positions, and you add up what belongs to different weights.",
            _block(weight=identity_all_reduce, matrices=identity_all_reduce),
        ),
        Mistake(
            "norm-of-all-positions",
            "Every number is right, and sequence parallelism is undone. The norm, or its weight, stands *behind* the "
            "all-gather, so that every rank computes it for all positions and keeps them. Leave the norm with this "
            "rank's positions; its weight alone needs a gate.",
            recognise=lambda evidence: all(differs_in(outcome, WIDE) for outcome in evidence.wrong),
        ),
        no_way_back(_block(weight=lambda me, weight: weight.detach()), "output", gradient_of("norm_weight")),
    ),
    hints=(
        "Which parameter is the same on all ranks, while each rank uses it on positions of its own?",
        "You have a function that lets a tensor pass forward, and sums its gradient over ranks backward. It was made "
        "for activations, and takes any tensor.",
        "`norm_weight = enter(me, norm_weight)` above the norm; nothing else changes.",
    ),
    forbidden=(LIBRARY,),
    passed="All gradients are those of one device, for one more message, as small as the norm.",
)
