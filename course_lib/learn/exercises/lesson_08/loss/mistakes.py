"""Usual wrong losses, each by name and with a sentence."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_08.loss.cases import GRADIENT
from course_lib.learn.exercises.lesson_08.loss.slips import (
    by_token_number,
    comes_as_a_number,
    everybody_clamps,
    everybody_takes_the_remainder,
    is_out_of_bounds,
    looks_like,
    loss_of_own_part,
    miscounted,
    overflows,
    own_target_alone,
    sends_logits,
    vanishes,
)
from course_lib.learn.exercises.lesson_08.loss.wrong_answers import (
    not_waited_largest,
    own_largest,
    split_loss,
    with_gradient,
)
from course_lib.learn.exercises.lesson_08.tries import HANDED, SumBothWays
from course_lib.learn.exercises.lesson_08.usual import differs_in, no_way_back, not_waited
from course_lib.parallel.tensor import identity_all_reduce

__all__ = ["MISTAKES"]

MISTAKES = (
    not_waited(split_loss(largest=not_waited_largest)),
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
        "The loss is right while logits are small. With large ones every exponential of some position is 0, and log 0 "
        "is minus infinity: something larger than that position's largest logit was subtracted. Take the largest of "
        "each *row*, then the largest over ranks by `dist.ReduceOp.MAX`.",
        recognise=vanishes,
    ),
    Mistake(
        "not-shifted",
        "The loss is right while logits are small; where they are large, it is infinite or NaN. `exp(1000)` is "
        "infinite, and `exp(-1000)` is 0, whose logarithm is minus infinity. Is the position's largest logit, over "
        "all ranks, subtracted before `exp`? And is the logarithm taken of the sum, not of a probability, which may "
        "be 0?",
        recognise=overflows,
    ),
    Mistake(
        "everybody-counts-the-target",
        "A rank that does not have the target adds a logit all the same: one of its own, at the place to which "
        "you clamped. Put zeros where the target is not here; then the sum over ranks is the target's logit.",
        recognise=looks_like(everybody_clamps),
    ),
    Mistake(
        "token-as-place",
        "You looked the target up by its token number. Rank r's first column is token `r * V/n`: subtract that, "
        "and see whether the place is among this rank's columns.",
        recognise=looks_like(by_token_number),
    ),
    Mistake(
        "place-by-remainder",
        "Every rank adds a logit for every target: `targets % v` is a column of *this* rank even where the target is a "
        "token of another. Which ranks have the target at all? The others are to add zero.",
        recognise=looks_like(everybody_takes_the_remainder),
    ),
    Mistake(
        "first-token-missed",
        "A target that is the *first* token of a rank is counted by no rank. Its place is 0, and 0 is a column like "
        "the others.",
        recognise=looks_like(miscounted(first=1)),
    ),
    Mistake(
        "last-token-missed",
        "A target that is the *last* token of a rank is counted by no rank. With v columns the places are 0 to v - 1, "
        "and v - 1 is one of them.",
        recognise=looks_like(miscounted(last=-1)),
    ),
    Mistake(
        "one-column-too-many",
        "A target that is the first token of a rank is counted twice: the rank before takes it for a column of its "
        "own. With v columns the places are 0 to v - 1; v itself is the next rank's.",
        recognise=looks_like(miscounted(last=1)),
    ),
    Mistake(
        "own-part-only",
        "That is a loss of this rank's own tokens: the sum of exponentials and the target's logit both come from its "
        "part of the vocabulary. Both have to be added up over ranks.",
        recognise=looks_like(loss_of_own_part),
    ),
    Mistake(
        "looks-outside",
        "A lookup asked for a column that is not there. The place of a target is its token number less `me.rank * "
        "logits.size(1)`, and only 0 to `logits.size(1) - 1` are here. Clamp the others, look up, and put zeros for "
        "them.",
        recognise=is_out_of_bounds,
    ),
    Mistake(
        "target-not-shared",
        "The logit of the target stays with the rank that has it. The others take it to be 0, and the ranks do not "
        "agree on the loss. The target's logit has to be added up over ranks as well.",
        recognise=looks_like(own_target_alone),
    ),
    Mistake(
        "log-before-the-sum",
        "You add up logarithms of the ranks' sums. The logarithm of a sum is wanted: add up the exponentials "
        "over ranks, then take one logarithm.",
        split_loss(early_log=True),
    ),
    Mistake(
        "target-not-shifted",
        "You subtract the largest logit from what goes into `exp` and not from the target's logit. The difference "
        "of the two is off by the largest.",
        split_loss(shifted_target=False),
    ),
    Mistake(
        "sign",
        "The number is right, but its sign is wrong: the loss is minus the logarithm of a probability, so it is never "
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
        "The loss is right, but each rank handed to collectives as many numbers for each position as it has logits, "
        "or more. These were the logits, or something as large that was made from them. With 50,000 tokens on n ranks "
        "that is 50,000/n numbers from each, where three would do. Sum over your own tokens first, and send the sums.",
        recognise=sends_logits,
    ),
    Mistake(
        "sum-not-mean",
        "That is the sum over positions; the mean is wanted.",
        split_loss(mean=False),
    ),
    Mistake(
        "overwrites-the-logits",
        "The loss is right, but an argument is no longer what it was: something worked on it in place (as `sub_`, "
        "`-=` and `exp_` do). The argument belongs to the caller; make a new tensor.",
        recognise=lambda evidence: all(
            differs_in(outcome, HANDED) and "switched off" not in outcome.got[HANDED] for outcome in evidence.wrong
        ),
    ),
    Mistake(
        "a-number",
        "The loss came as a plain number. A number has no graph, so no gradient could go back from it: return the "
        "tensor.",
        recognise=comes_as_a_number,
    ),
    no_way_back(lambda me, logits, targets: split_loss()(me, logits, targets).detach(), "loss", GRADIENT),
)
