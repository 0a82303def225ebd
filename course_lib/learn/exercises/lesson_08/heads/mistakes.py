"""Usual wrong split attention, each by name and with a sentence."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Evidence, Mistake
from course_lib.learn.exercises.lesson_08.heads.cases import WEIGHTS
from course_lib.learn.exercises.lesson_08.heads.wrong_answers import (
    heads_by_view,
    heads_last,
    joined_in_place,
    keep,
    not_turned,
    not_waited_for,
    split_attention,
    thin_heads,
)
from course_lib.learn.exercises.lesson_08.tries import BACKWARD, SumBothWays, gradient_of
from course_lib.learn.exercises.lesson_08.usual import differs_in, no_way_back, not_waited
from course_lib.parallel.tensor import all_reduce_identity, identity_all_reduce

__all__ = ["MISTAKES"]


def _several_back(evidence: Evidence) -> bool:
    """All numbers are right, and more than one collective ran backward."""
    return all(differs_in(o, BACKWARD) and "," in o.got[BACKWARD] for o in evidence.wrong)


MISTAKES = (
    not_waited(split_attention(leave=not_waited_for)),
    Mistake(
        "heads-of-the-whole-model",
        "`num_heads` is the number of heads of the *whole* model, and a rank has a part of them. Yours split its "
        "numbers into as many heads as the model has. So each head is too narrow: it holds only a part of the numbers "
        "of one head.",
        split_attention(heads=thin_heads),
    ),
    Mistake(
        "three-entrances",
        "The numbers are right. But queries, keys and values each came in through an entrance of their own, so the "
        "backward pass sums three times. They read the same x: enter once, and let autograd add the three gradients "
        "up on the rank first.",
        recognise=_several_back,
    ),
    Mistake(
        "nothing-back-at-the-entrance",
        "The output is right, and so is every gradient of the weights; the gradient of x comes from this rank's heads "
        "alone. x has to come in through a gate.",
        split_attention(enter=keep),
    ),
    Mistake(
        "partial-output",
        "Each rank returns what its own heads give to the output. That is a summand: the output is the sum over ranks.",
        split_attention(leave=keep),
    ),
    Mistake(
        "no-gates",
        "Nothing was sent, in either direction: a rank's own heads give a summand of the output, and of the gradient "
        "of x. Where do `enter` and `leave` stand?",
        split_attention(enter=keep, leave=keep),
    ),
    Mistake(
        "gates-swapped",
        "You leave at x and enter at the output. `enter` stands where all ranks have the same tensor, at x; `leave` "
        "where each has a summand, after `w_out`.",
        split_attention(enter=all_reduce_identity, leave=identity_all_reduce),
    ),
    Mistake(
        "sees-the-future",
        "A position looks at later ones. The attention is causal: `is_causal=True`, or a mask that hides what comes "
        "later.",
        split_attention(is_causal=False),
    ),
    Mistake(
        "scaled-by-the-rank",
        "The scores are divided by the square root of the number of features that a rank has. The right number is the "
        "size of *one head*, however many ranks there are: `scaled_dot_product_attention` takes it from its queries.",
        split_attention(own_scale=True),
    ),
    Mistake(
        "heads-among-themselves",
        "`scaled_dot_product_attention` attends along the dim before the last, and in your tensors that dim holds "
        "heads: the heads of a position looked at each other. Put heads before positions: `.transpose(1, 2)`, and "
        "back afterwards.",
        split_attention(heads=not_turned, join=lambda mixed: mixed.flatten(2)),
    ),
    Mistake(
        "joined-without-turning",
        "The shape is right, but numbers of one head stand in rows of others: heads were still before positions when "
        "they were joined. First `.transpose(1, 2)`, then flatten.",
        split_attention(join=joined_in_place),
    ),
    Mistake(
        "heads-by-view",
        "The shapes are right, but the heads have wrong numbers. In memory positions stand before heads, and a "
        "`view(B, heads, T, ...)` gives one head numbers of several. Take the last dim apart first, (B, T, heads, "
        "numbers of a head), then `.transpose(1, 2)`.",
        split_attention(heads=heads_by_view),
    ),
    Mistake(
        "heads-interleaved",
        "A head is a *row* of neighbouring numbers. So heads come first when the last dim is split: (heads, numbers "
        "of a head), not the other way round.",
        split_attention(heads=heads_last, join=lambda mixed: mixed.permute(0, 2, 3, 1).flatten(2)),
    ),
    Mistake(
        "sums-back-at-the-exit",
        "The output is right and the gradients are `n` times too large: the all-reduce at the exit is repeated "
        "backward. The gradient of the sum is complete on every rank; hand it on as it is.",
        split_attention(leave=lambda me, y: SumBothWays.apply(y)),
    ),
    Mistake(
        "mean-not-sum",
        "The output is `n` times too small: what the heads give to the output is added up, and not divided.",
        split_attention(leave=lambda me, y: all_reduce_identity(me, y) / me.world_size),
    ),
    no_way_back(
        split_attention(leave=lambda me, y: all_reduce_identity(me, y).detach()),
        "output",
        gradient_of("x"),
        *(gradient_of(name) for name in WEIGHTS if name != "w_k"),  # which is frozen in one case
    ),
)
