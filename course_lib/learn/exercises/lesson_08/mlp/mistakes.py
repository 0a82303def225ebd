"""Usual wrong split MLPs, each by name and with a sentence."""

from __future__ import annotations

import torch.nn.functional as F

from course_lib.learn.catalogue.exercise import Evidence, Mistake
from course_lib.learn.exercises.lesson_08.mlp.cases import SIZES
from course_lib.learn.exercises.lesson_08.mlp.wrong_answers import gathers_and_adds, keep, not_waited_for, split_mlp
from course_lib.learn.exercises.lesson_08.tries import BACKWARD, FORWARD, OUTPUT, SumBothWays, gradient_of
from course_lib.learn.exercises.lesson_08.usual import differs_in, no_way_back, not_waited
from course_lib.parallel.tensor import all_reduce_identity, identity_all_reduce

__all__ = ["MISTAKES"]


def _too_many_calls(evidence: Evidence) -> bool:
    """Values and gradients are right, and more than one collective was used one way."""
    return all(differs_in(o, FORWARD, BACKWARD) for o in evidence.wrong) and any(
        "," in o.got[way] for o in evidence.wrong for way in (FORWARD, BACKWARD)
    )


def _sums_gradients_of_weights(evidence: Evidence) -> bool:
    """Output and the gradient of x are right, those of weights are not, and several were summed."""
    return all(differs_in(o, gradient_of("w_up"), gradient_of("w_down")) for o in evidence.wrong) and all(
        "," in o.got[BACKWARD] for o in evidence.wrong
    )


def _sums_hidden_units(evidence: Evidence) -> bool:
    """An all-reduce of as many numbers as a rank has hidden units for these rows, and no other output right."""
    return all(differs_in(o, OUTPUT) for o in evidence.outcomes) and all(
        f"all_reduce of {8 * sizes.num_rows * sizes.num_units} bytes" in o.got[FORWARD].split(", ")
        for sizes in SIZES
        for o in evidence.outcomes
        if o.case.startswith(sizes.label)
    )


def _shapes_do_not_fit(evidence: Evidence) -> bool:
    return evidence.error is not None and "shapes cannot be multiplied" in evidence.error.message


def _all_units_meet_few_rows(evidence: Evidence) -> bool:
    first, num_ranks = SIZES[0], 2
    return (
        _shapes_do_not_fit(evidence)
        and f"({first.num_rows}x{first.num_units * num_ranks} and " in evidence.wrong[0].error.message  # type: ignore[union-attr]
    )


def _shape_is_wrong(evidence: Evidence) -> bool:
    """The output has the wrong shape, and something was gathered."""
    return all(
        differs_in(o, OUTPUT) and o.got[OUTPUT].shape != o.expected[OUTPUT].shape and "all_gather" in o.got[FORWARD]
        for o in evidence.wrong
    )


MISTAKES = (
    not_waited(split_mlp(leave=not_waited_for)),
    Mistake(
        "bias-n-times",
        "The bias of the second layer is added on every rank *before* the sum, so the output has it `n` times. "
        "Leave it out of the partial products and add it once, after the sum.",
        split_mlp(inside=keep),
    ),
    Mistake(
        "bias-on-one-rank",
        "The output is right. But one rank alone adds the bias, so it alone gets a gradient for it. The others "
        "keep the old bias, and after a step there are two. All ranks hold it, so all add it, after the sum.",
        split_mlp(inside=lambda me, bias: bias if me.rank == 0 else None),
    ),
    Mistake(
        "bias-in-shares",
        "The output is right, and the gradient of the second bias is `n` times too small: each rank adds an n-th "
        "of it. Leave it out of the partial products and add it whole, after the sum.",
        split_mlp(inside=lambda me, bias: bias / me.world_size),
    ),
    Mistake(
        "bias-forgotten",
        "The second layer's bias is missing.",
        split_mlp(biased=False),
    ),
    Mistake(
        "partial-output",
        "Each rank returns its own partial sum: the product of *its* hidden units and *its* rows. The output is "
        "the sum over ranks.",
        split_mlp(leave=keep),
    ),
    Mistake(
        "gates-swapped",
        "You leave at x and enter at the output. `enter` stands before the first product, where x is the same on "
        "all ranks; `leave` after the second, where each rank has a summand.",
        split_mlp(enter=all_reduce_identity, leave=identity_all_reduce),
    ),
    Mistake(
        "no-gates",
        "Each rank computed an MLP of its own hidden units, second bias included. Nothing was sent: no sum of "
        "the outputs, and none of the gradients of x. Where do `enter` and `leave` stand?",
        split_mlp(enter=keep, leave=keep, inside=keep),
    ),
    Mistake(
        "nothing-back-at-the-entrance",
        "The output is right, and so is every gradient of the weights; the gradient of x is partial, each rank's "
        "from its own hidden units. Nothing was sent backward. x has to come in through a gate.",
        split_mlp(enter=keep),
    ),
    Mistake(
        "sums-back-at-the-exit",
        "The output is right and all gradients of the cut matrices are `n` times too large: the all-reduce at the "
        "exit is repeated backward. Every rank computes the same loss, so the gradient of the sum is complete "
        "everywhere; hand it on as it is.",
        split_mlp(leave=lambda me, y: SumBothWays.apply(y)),
    ),
    Mistake(
        "bends-after-the-sum",
        "Hidden units were summed over ranks. But hidden unit 0 of rank 0 and hidden unit 0 of rank 1 are "
        "different units. A column cut gives *parts* of the hidden layer, not partial sums of it.",
        recognise=_sums_hidden_units,
    ),
    Mistake(
        "gathered-on-the-wrong-dim",
        "The output has the wrong shape: a gather joined tensors that do not belong together. Ranks hold different "
        "*hidden units* of the same rows, so joining along rows gives each row `n` times. The outputs of a row cut "
        "are summands, which no gather adds up. Nothing need be gathered here at all.",
        recognise=_shape_is_wrong,
    ),
    Mistake(
        "gathers-the-hidden-units",
        "A rank gathered all hidden units, and its part of `w_down` has no use for them: it belongs to the rank's "
        "*own* units. Leave them where they were made.",
        recognise=_all_units_meet_few_rows,
    ),
    Mistake(
        "weights-not-transposed",
        "The shapes do not fit. PyTorch keeps a weight as (outputs, inputs), the transpose of A: "
        "`F.linear(x, weight)` is `x @ weight.T`.",
        recognise=_shapes_do_not_fit,
    ),
    Mistake(
        "gate-at-the-hidden-units",
        "The output is right; but an entrance at the hidden units sums gradients that belong to different units. "
        "The gate stands where all ranks hold the same tensor: at x.",
        split_mlp(bend=lambda me, up: identity_all_reduce(me, F.gelu(up))),
    ),
    Mistake(
        "weights-through-the-gate",
        "The output is right. But the weights went through the entrance too, which sums their gradients over "
        "ranks. Each rank has weights of its own, and gradients that belong to nobody else. Only x enters.",
        recognise=_sums_gradients_of_weights,
    ),
    Mistake(
        "gathers-and-adds",
        "The output is right, by an all-gather of every rank's partial output and a sum on each rank. Each rank sends "
        "`n - 1` times the output, and holds `n` of them. An all-reduce adds on the way.",
        split_mlp(leave=gathers_and_adds),
    ),
    no_way_back(
        split_mlp(leave=lambda me, y: all_reduce_identity(me, y).detach()),
        "output",
        gradient_of("x"),
        gradient_of("w_down"),
    ),
    Mistake(
        "mean-not-sum",
        "The output is `n` times too small: the partial products are summands, so do not divide.",
        split_mlp(leave=lambda me, y: all_reduce_identity(me, y) / me.world_size),
    ),
    Mistake(
        "one-collective-too-many",
        "The numbers are right, but more than one collective ran in one direction. One at the entrance and one at the "
        "exit are enough: in between, a rank needs nothing from the others.",
        recognise=_too_many_calls,
    ),
)
