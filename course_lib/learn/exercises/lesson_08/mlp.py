"""08.mlp: an MLP cut by columns, then by rows, judged by output, gradients, and one all-reduce each way."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster import Rank
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_08.tries import (
    BACKWARD,
    FORWARD,
    OUTPUT,
    SplitMlp,
    SumBothWays,
)
from course_lib.learn.judge import by_trial
from course_lib.parallel.tensor import all_gather_split, all_reduce_identity, identity_all_reduce

__all__ = ["MLP"]

_ROWS, _WIDTH, _HIDDEN = 5, 6, 8
_SENT = f"all_reduce of {8 * _ROWS * _WIDTH} bytes"


def _unsplit(x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor) -> Tensor:
    return F.linear(F.gelu(F.linear(x, w_up, b_up)), w_down, b_down)


_SPLIT = SplitMlp(
    {
        "x": (_ROWS, _WIDTH),
        "w_up": (_HIDDEN, _WIDTH),
        "b_up": (_HIDDEN,),
        "w_down": (_WIDTH, _HIDDEN),
        "b_down": (_WIDTH,),
    },
    _unsplit,
    _SENT,
)


# -- usual wrong answers ----------------------------------------------------------------------------------------

Step = Callable[[Rank, Tensor], Tensor]


def _keep(me: Rank, tensor: Tensor) -> Tensor:
    return tensor


def _split_mlp(
    *,
    enter: Step = identity_all_reduce,
    bend: Step = lambda me, up: F.gelu(up),
    leave: Step = all_reduce_identity,
    inside: Callable[[Rank, Tensor], Tensor | None] | None = None,
    weights: Step = _keep,
    biased: bool = True,
) -> Callable[..., Tensor]:
    """A split MLP, right but for what the arguments change."""

    def split_mlp(me: Rank, x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor) -> Tensor:
        w_up, b_up, w_down = (weights(me, weight) for weight in (w_up, b_up, w_down))
        hidden = bend(me, F.linear(enter(me, x), w_up, b_up))
        if inside is not None:
            return leave(me, F.linear(hidden, w_down, inside(me, b_down)))
        return leave(me, F.linear(hidden, w_down)) + (b_down if biased else 0 * b_down)

    return split_mlp


def _gathers_rows(me: Rank, up: Tensor) -> Tensor:
    return all_gather_split(me, F.gelu(up), dim=0)


def _gathers_and_adds(me: Rank, y: Tensor) -> Tensor:
    every = all_gather_split(me, y.unsqueeze(0), dim=0)
    return every.sum(dim=0)


def _too_many_calls(evidence: Evidence) -> bool:
    """Values and gradients are right, and more than one collective was used one way."""
    got = [outcome.got for outcome in evidence.outcomes]
    wrong = [o.difference for o in evidence.wrong]
    return all(text.startswith((f"under '{FORWARD}", f"under '{BACKWARD}")) for text in wrong) and any(
        " of " in report[way] and "," in report[way] for report in got for way in (FORWARD, BACKWARD)
    )


def _sums_gradients_of_weights(evidence: Evidence) -> bool:
    """Output and the gradient of x are right, those of weights are not, and several were summed."""
    return all(o.difference.startswith("under 'the gradient of w_") for o in evidence.wrong) and all(
        "," in o.got[BACKWARD] for o in evidence.wrong
    )


def _sums_hidden_units(evidence: Evidence) -> bool:
    first = evidence.outcomes[0]  # on two ranks
    return f"all_reduce of {8 * _ROWS * _HIDDEN // 2} bytes" in first.got[FORWARD]


def _shapes_do_not_fit(evidence: Evidence) -> bool:
    return evidence.error is not None and "shapes cannot be multiplied" in evidence.error.message


def _all_units_meet_few_rows(evidence: Evidence) -> bool:
    return _shapes_do_not_fit(evidence) and f"{_ROWS}x{_HIDDEN} and" in str(evidence.error)


def _shape_is_wrong(evidence: Evidence) -> bool:
    return all("expected the shape" in o.difference and OUTPUT in o.difference for o in evidence.wrong)


def _not_transposed(
    me: Rank, x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor
) -> Tensor:
    hidden = F.gelu(identity_all_reduce(me, x) @ w_up + b_up)
    return all_reduce_identity(me, hidden @ w_down) + b_down


MLP = Exercise(
    name="08.mlp",
    title="An MLP on several ranks, with one all-reduce each way",
    judge=by_trial(
        (2, 4), (Case("an MLP of 8 hidden units", (), _SPLIT.right),), _SPLIT.trial, timeout_s=6.0
    ),
    mistakes=(
        Mistake(
            "bias-n-times",
            "The bias of the second layer is added on every rank *before* the sum, so the output has it `n` times. "
            "Leave it out of the partial products and add it once, after the sum.",
            _split_mlp(inside=_keep),
        ),
        Mistake(
            "bias-on-one-rank",
            "The output is right. But one rank alone adds the bias, so it alone gets a gradient for it: the others "
            "keep the old bias, and after a step there are two. All ranks hold it, so all add it, after the sum.",
            _split_mlp(inside=lambda me, bias: bias if me.rank == 0 else None),
        ),
        Mistake(
            "bias-in-shares",
            "The output is right, and the gradient of the second bias is `n` times too small: each rank adds an n-th "
            "of it. Leave it out of the partial products and add it whole, after the sum.",
            _split_mlp(inside=lambda me, bias: bias / me.world_size),
        ),
        Mistake(
            "bias-forgotten",
            "The second layer's bias is missing.",
            _split_mlp(biased=False),
        ),
        Mistake(
            "partial-output",
            "Each rank returns its own partial sum: the product of *its* hidden units and *its* rows. The output is "
            "the sum over ranks.",
            _split_mlp(leave=_keep),
        ),
        Mistake(
            "gates-swapped",
            "You leave at x and enter at the output. `enter` stands before the first product, where x is the same on "
            "all ranks; `leave` after the second, where each rank has a summand.",
            _split_mlp(enter=all_reduce_identity, leave=identity_all_reduce),
        ),
        Mistake(
            "no-gates",
            "Each rank computed an MLP of its own hidden units, second bias included, and nothing was sent: no sum of "
            "the outputs, and none of the gradients of x. Where do `enter` and `leave` stand?",
            _split_mlp(enter=_keep, leave=_keep, inside=_keep),
        ),
        Mistake(
            "nothing-back-at-the-entrance",
            "The output is right, and so is every gradient of the weights; the gradient of x is partial, each rank's "
            "from its own hidden units. Nothing was sent backward. x has to come in through a gate.",
            _split_mlp(enter=_keep),
        ),
        Mistake(
            "sums-back-at-the-exit",
            "The output is right and all gradients of the cut matrices are `n` times too large: the all-reduce at the "
            "exit is repeated backward. Every rank computes the same loss, so the gradient of the sum is complete "
            "everywhere; hand it on as it is.",
            _split_mlp(leave=lambda me, y: SumBothWays.apply(y)),
        ),
        Mistake(
            "bends-after-the-sum",
            "The first product was summed over ranks before GELU. But hidden unit 0 of rank 0 and hidden unit 0 of "
            "rank 1 are different units: a column cut gives *parts* of the hidden layer, not partial sums of it.",
            _split_mlp(bend=lambda me, up: F.gelu(all_reduce_identity(me, up))),
            _sums_hidden_units,
        ),
        Mistake(
            "gathered-on-the-wrong-dim",
            "A gather joined what belongs apart: the output has the wrong shape. Ranks hold different *hidden units* "
            "of the same rows, so joining along rows stacks copies; and the outputs of a row cut are summands, which "
            "no gather adds up. Nothing need be gathered here at all.",
            _split_mlp(bend=_gathers_rows),
            _shape_is_wrong,
        ),
        Mistake(
            "gathers-the-hidden-units",
            "A rank gathered all hidden units, and its part of `w_down` has no use for them: it belongs to the rank's "
            "*own* units. Leave them where they were made.",
            _split_mlp(bend=lambda me, up: all_gather_split(me, F.gelu(up), dim=1)),
            _all_units_meet_few_rows,
        ),
        Mistake(
            "weights-not-transposed",
            "The shapes do not fit. PyTorch keeps a weight as (outputs, inputs), the transpose of A: "
            "`F.linear(x, weight)` is `x @ weight.T`.",
            _not_transposed,
            _shapes_do_not_fit,
        ),
        Mistake(
            "gate-at-the-hidden-units",
            "The output is right; but an entrance at the hidden units sums gradients that belong to different units. "
            "The gate stands where all ranks hold the same tensor: at x.",
            _split_mlp(bend=lambda me, up: identity_all_reduce(me, F.gelu(up))),
        ),
        Mistake(
            "weights-through-the-gate",
            "The output is right. But the weights went through the entrance too, which sums their gradients over "
            "ranks: each rank has weights of its own, and gradients that belong to nobody else. Only x enters.",
            _split_mlp(weights=identity_all_reduce),
            _sums_gradients_of_weights,
        ),
        Mistake(
            "gathers-and-adds",
            "Right, by an all-gather of every rank's partial output and a sum at home: each rank sends `n - 1` times "
            "the output, and holds `n` of them. An all-reduce adds on the way.",
            _split_mlp(leave=_gathers_and_adds),
        ),
        Mistake(
            "mean-not-sum",
            "The output is `n` times too small: the partial products are summands, so nothing is divided.",
            _split_mlp(leave=lambda me, y: all_reduce_identity(me, y) / me.world_size),
        ),
        Mistake(
            "one-collective-too-many",
            "The numbers are right, and more than one collective ran one way. One at the entrance, one at the exit: "
            "in between a rank needs nobody.",
            _split_mlp(
                leave=lambda me, y: (
                    all_reduce_identity(me, y[:, :3]).new_zeros(()) + all_reduce_identity(me, y)
                )
            ),
            _too_many_calls,
        ),
    ),
    hints=(
        "Follow one row of x. Where does a rank have numbers that are complete, and where does it have a summand?",
        "Enter; first linear layer with its part of the bias; GELU; second layer *without* bias; leave; then the bias.",
        "`hidden = F.gelu(F.linear(enter(me, x), w_up, b_up))`, then "
        "`leave(me, F.linear(hidden, w_down)) + b_down`.",
    ),
    passed="Output and all gradients are those of the unsplit MLP, for one all-reduce forward and one backward.",
)
