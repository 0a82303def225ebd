"""Usual wrong layers that gather their weight, each by name and with a sentence."""

from __future__ import annotations

import torch

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_05.unit import signs
from course_lib.learn.exercises.lesson_05.unit.cases import AFTER, BETWEEN, CAME, ROWS
from course_lib.learn.exercises.lesson_05.unit.wrong_answers import (
    gathered,
    not_waited_for,
    own_columns,
    unit,
)
from course_lib.learn.exercises.lesson_08.tries import OUTPUT
from course_lib.learn.exercises.lesson_08.usual import differs_in, not_waited

__all__ = ["MISTAKES"]

_WIDE = 2 * ROWS  # of the layer as wide as it is high, on two ranks, which are tried first

MISTAKES = (
    not_waited(unit(gather=not_waited_for, gather_back=gathered)),
    Mistake(
        "keeps-the-whole-weight",
        "Every number is right, and when forward is over, about as many bytes as a whole weight has are still there "
        "beside its output. In a model that is so for every layer at once, and a rank holds what it held without "
        "sharding. What holds on to them, for whom, and is there another way for that one to get what it needs?",
        recognise=signs.first_in(BETWEEN),
    ),
    Mistake(
        "nothing-gathered",
        "Your output has as many columns as this rank has rows. y has one for each row of W, and the other rows are on "
        "the other ranks: gather them first.",
        recognise=signs.of_the_rows_alone,
    ),
    Mistake(
        "another-order",
        "The columns of y are all there, and not in their order. Rank 0 keeps the first rows of W, rank 1 the next, "
        "and so on. Put what you gathered one below the other by the number of the rank, on every rank alike.",
        recognise=signs.other_order,
        shows=lambda outcome: differs_in(outcome, OUTPUT),
    ),
    Mistake(
        "one-part-repeated",
        "All parts of your output are the same, those of one rank. Usually the list for the all-gather names one "
        "tensor n times, as `[part] * n` does, and what came last stands in all places. `list(weight.chunk(n))` are n "
        "places in one tensor.",
        recognise=signs.one_part_in_all_places,
    ),
    Mistake(
        "outputs-gathered",
        "What you gathered are outputs: each rank multiplied its own batch by its own rows. Another rank's columns are "
        "then those of its batch, and yours are asked for. Gather the rows of W, and multiply your x by all of them.",
        recognise=signs.others_batches,
    ),
    Mistake(
        "side-by-side",
        "What you gathered was joined along the wrong dim. The shards are *rows* of W, (out/n, in) each: one below the "
        "other, along dim 0, they are (out, in).",
        recognise=signs.multiplied((ROWS, 2 * _WIDE), (2 * _WIDE, ROWS)),
    ),
    Mistake(
        "not-transposed",
        "Your output is x W, and y is x Wᵀ: a row of W is what one output is made of. Where in and out differ, the "
        "shapes do not fit at all.",
        recognise=signs.square_output_is(lambda x, weight: x @ weight),
    ),
    Mistake(
        "backward-unwritten",
        "`forward` is right. Now `backward`, which still raises its `NotImplementedError`: what does each of the two "
        "gradients need, and which of that is on this rank?",
        recognise=signs.backward_is_unwritten,
    ),
    Mistake(
        "beside-ctx",
        "A layer that is used once is right. With two layers, or one that is used twice, forward is right and backward "
        "is not. Usually backward then finds what belongs to another use. What it needs has to be kept for each use on "
        "its own, in `ctx`. A variable outside, or of the class, holds what was written there last.",
        recognise=signs.wrong_only_with_two,
    ),
    Mistake(
        "one-gradient",
        "`backward` has to give as many gradients as `forward` has inputs beside `ctx`, in the same order: one for `x` "
        "and one for `shard`.",
        recognise=signs.raised("incorrect number of gradients"),
    ),
    Mistake(
        "gradients-swapped",
        "Where the gradient of x is to come, one of the shape of the rows came. `backward` gives gradients in the "
        "order of the inputs of `forward`: first that of `x`, then that of `shard`.",
        recognise=signs.gradient_has_another_shape,
    ),
    Mistake(
        "whole-gradient",
        "The gradient that you give for `shard` has not its shape. This rank keeps out/n rows of W, and takes a step "
        "with the gradient of those rows alone. What `backward` gives has the shape of `shard`.",
        recognise=signs.invalid_gradient(1),
    ),
    Mistake(
        "shard-in-backward",
        "The shapes in `backward` do not fit, since this rank's rows stand where the whole weight is needed. The "
        "gradient of x takes every row of W, each times its column of `grad`. `backward` has the rows of this rank; "
        "how did `forward` come by the others?",
        recognise=signs.multiplied((ROWS, _WIDE), at="grad"),
    ),
    Mistake(
        "input-gradient-transposed",
        "You gave grad Wᵀ as the gradient of x, and it is grad W. y = x Wᵀ takes x, (B, in), to (B, out). The way back "
        "takes grad, (B, out), to (B, in), by W, (out, in), as it is. Where in and out differ, the shapes do not fit "
        "at all.",
        recognise=signs.input_gradient_by_the_transpose,
    ),
    Mistake(
        "input-gradient-of-the-rows",
        "The output is right, and the gradient of x tells of this rank's rows alone. x went into every column of y, so "
        "its gradient is a sum over all rows of W, also over those that other ranks keep.",
        unit(gather_back=lambda shard: shard, of_x=lambda grad, shard: own_columns(grad) @ shard),
    ),
    Mistake(
        "input-gradient-reduced",
        "The gradient of x was combined over ranks. W is one for all ranks, and x is this rank's own batch: nobody "
        "else has used it. Its gradient stays here as it is.",
        recognise=signs.input_gradient_is(
            lambda of_all, rank: torch.stack(of_all).sum(dim=0),
            lambda of_all, rank: torch.stack(of_all).mean(dim=0),
        ),
    ),
    Mistake(
        "input-gradient-divided",
        "The gradient of x is divided by the number of ranks. The mean over ranks is for W, which all of them use. But "
        "x is this rank's own batch, and the layer before waits for the gradient of this rank's own loss.",
        recognise=signs.input_gradient_is(lambda of_all, rank: of_all[rank] / len(of_all)),
    ),
    Mistake(
        "sum-not-mean",
        "Your rows have the sum of all ranks' gradients. Their mean is asked for, as in lesson 04, where each loss is "
        "a mean over its own rank's batch. Divide by the number of ranks.",
        recognise=signs.rows_gradient_is(lambda right, of_all, rank: right * len(of_all)),
    ),
    Mistake(
        "own-gradient",
        "The gradient of your rows tells of this rank's own batch alone. Every rank has used these rows, each with a "
        "batch of its own: of each rank's whole gradient a part is meant for you. Add those up over ranks.",
        recognise=signs.rows_gradient_is(
            lambda right, of_all, rank: of_all[rank].chunk(len(of_all))[rank],
            lambda right, of_all, rank: of_all[rank].chunk(len(of_all))[rank] / len(of_all),
        ),
    ),
    Mistake(
        "gradient-transposed",
        "You added up xᵀ grad, (in, out), which is the transpose of W's gradient: cut into rows, it gives this rank "
        "columns. W is (out, in), and so is gradᵀ x.",
        recognise=signs.rows_gradient_is(
            lambda right, of_all, rank: torch.stack(of_all).mean(dim=0).T.chunk(len(of_all))[rank],
        ),
    ),
    Mistake(
        "no-gradient-for-the-rows",
        "The output is right, and no gradient came for `shard`. It is the second of the two that `backward` hands "
        "back. And after a `.detach()`, `.data` or `torch.no_grad()` in the way, nothing goes back at all.",
        recognise=signs.never_came,
    ),
    Mistake(
        "all-reduce-and-a-cut",
        "The numbers are right. But backward all-reduces: that brings every rank the whole sum, of which it keeps a "
        "part, for twice the bytes of a reduce-scatter. Each rank needs the sum for its own rows alone.",
        recognise=signs.all_reduced_backward,
    ),
    Mistake(
        "holds-the-whole-gradient",
        "The numbers are right, and when backward is over, about as many bytes as a whole weight has are still there. "
        "What holds them? It may be the gradient that you hand back. Where that is a view, such as a part of a larger "
        "tensor, it keeps all of that tensor in memory. Hand back a tensor of its own.",
        recognise=signs.first_in(AFTER),
    ),
    Mistake(
        "overwrites-the-gradient",
        "The numbers are right, and the gradient that came to `backward` has been overwritten. Autograd may still need "
        "that tensor for another path: make a new one.",
        recognise=signs.first_in(CAME),
    ),
)
