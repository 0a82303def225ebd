"""08.norm: the clinic's block, mended. A norm before a split MLP, a residual around both."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import Exercise, Mistake
from course_lib.learn.exercises.lesson_08.judging import READY_MADE, by_steps
from course_lib.learn.exercises.lesson_08.split_mlp import Sizes, SplitMlp
from course_lib.parallel.tensor import all_reduce_identity, identity_all_reduce

__all__ = ["NORM"]

_SIZES = (
    Sizes("5 rows, 6 wide, 4 hidden units a rank", num_rows=5, width=6, num_units=4),
    Sizes("3 rows, 4 wide, 2 hidden units a rank", num_rows=3, width=4, num_units=2),
    Sizes("1 row, a norm that is frozen", 1, 7, 3, frozenset({"norm_weight"})),
)


def _unsplit(x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
    h = F.layer_norm(x, (x.size(-1),), norm_weight)
    return x + F.linear(F.gelu(F.linear(h, w_up)), w_down)


_SPLIT = SplitMlp({"x": "ND", "norm_weight": "D", "w_up": "HD", "w_down": "DH"}, _unsplit, READY_MADE)


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _keep(me: Rank, tensor: Tensor) -> Tensor:
    return tensor


def _block(
    *,
    around: Callable[[Rank, Tensor], Tensor] = _keep,
    before: Callable[[Rank, Tensor], Tensor] = _keep,
    after: Callable[[Rank, Tensor], Tensor] = _keep,
    hidden: Callable[[Rank, Tensor], Tensor] = _keep,
    widened: Callable[[Rank, Tensor], Tensor] = _keep,
    matrix: Callable[[Rank, Tensor], Tensor] = _keep,
    summed: Callable[[Rank, Tensor], Tensor] = _keep,
    weight: Callable[[Rank, Tensor], Tensor] = _keep,
    residual_inside: bool = False,
) -> Callable[..., Tensor]:
    """The block with a gate somewhere: around all, before the norm, after it, at a weight, at the hidden units."""

    def block(me: Rank, x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
        x = around(me, x)
        h = after(me, F.layer_norm(before(me, x), (x.size(-1),), weight(me, norm_weight)))
        partial = F.linear(hidden(me, F.gelu(widened(me, F.linear(h, matrix(me, w_up))))), w_down)
        if residual_inside:
            return all_reduce_identity(me, x + partial)
        return x + summed(me, all_reduce_identity(me, partial))

    return block


NORM = Exercise(
    name="08.norm",
    title="Where the entrance gate stands",
    judge=by_steps([_SPLIT.case(sizes) for sizes in _SIZES], _SPLIT.trial),
    mistakes=(
        Mistake(
            "as-it-was",
            "The gradients of the cut matrices are right, and those of the norm and of x are still partial: nothing "
            "was summed backward. The region has an exit and no entrance.",
            _block(),
        ),
        Mistake(
            "gate-before-the-norm",
            "The gradient of x is right now, the norm's is not. Its weight stands *behind* the gate, where gradients "
            "are still partial, and it is a weight that all ranks share. Put the norm outside the region: the gate "
            "comes after it.",
            _block(before=identity_all_reduce),
        ),
        Mistake(
            "gate-at-the-weight",
            "The gradient of the norm's weight is right now, that of x is not. It still comes out partial, and goes "
            "on to everything before this block. One gate mends both, if it stands where both gradients pass.",
            _block(weight=identity_all_reduce),
        ),
        Mistake(
            "exit-at-the-entrance",
            "`leave` sums forward, and here all ranks have the same tensor: it comes out `n` times too large. What is "
            "missing is a sum of the *gradient*, and that is the other gate.",
            _block(after=all_reduce_identity),
        ),
        Mistake(
            "two-gates-in-a-row",
            "The norm's gradient is right, and that of x has been summed twice: it passes two entrances. One, after "
            "the norm, is enough for both.",
            _block(before=identity_all_reduce, after=identity_all_reduce),
        ),
        Mistake(
            "gate-around-the-residual",
            "The gate sums the residual's gradient as well, which is complete on every rank already: it comes out `n` "
            "times too large. Only what goes into the cut matrices passes the gate.",
            _block(around=identity_all_reduce),
        ),
        Mistake(
            "gate-at-the-hidden-units",
            "At the hidden units every rank has units of its own: summing their gradients adds what belongs to "
            "different weights. The gate stands where the tensor is still the same on all ranks.",
            _block(hidden=identity_all_reduce),
        ),
        Mistake(
            "gate-before-gelu",
            "What goes into GELU are hidden units, and every rank has units of its own: summing their gradients adds "
            "what belongs to different weights. The gate stands where the tensor is still the same on all ranks.",
            _block(widened=identity_all_reduce),
        ),
        Mistake(
            "gate-at-a-cut-matrix",
            "The gate sums the gradient of a matrix that is cut: each rank has other rows of it, and their gradients "
            "do not belong together. What all ranks have the same is what goes into that product.",
            _block(matrix=identity_all_reduce),
        ),
        Mistake(
            "gate-behind-the-exit",
            "Behind the exit the gradient is complete on every rank. Its sum is `n` times too large, and at the "
            "entrance of the region each rank's gradient is still a summand.",
            _block(summed=identity_all_reduce),
        ),
        Mistake(
            "residual-n-times",
            "The residual went through the exit, so x is added once by each rank. Add it after the sum.",
            _block(after=identity_all_reduce, residual_inside=True),
        ),
        Mistake(
            "mean-of-the-gradients",
            "The gradients at the entrance are summands; you divided their sum by the number of ranks.",
            _block(after=lambda me, h: identity_all_reduce(me, h / me.world_size + (h - h / me.world_size).detach())),
        ),
    ),
    hints=(
        "Which parameters does every rank hold whole? Their gradients must come out the same on all ranks.",
        "All ranks compute the same norm, so it belongs outside the region. Its output is the last tensor that is the "
        "same on all ranks.",
        "`h = enter(me, F.layer_norm(...))`; nothing else changes.",
    ),
    passed="All gradients are those of one device, and the ranks agree on the norm's. It needs one all-reduce in "
    "each direction.",
)
