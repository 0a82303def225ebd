"""08.split: the usual mistakes by name. Those of a step are told in every later step as well, where they can show."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_04.tries import alone
from course_lib.learn.exercises.lesson_08.split import signs as by
from course_lib.learn.exercises.lesson_08.split.cases import SEQUENCE
from course_lib.learn.judging.report import both, is_not_waited_for, only_in, only_wrong, wrong_in

__all__ = ["OF_AWKWARD", "OF_MEMORY", "OF_MESSAGES", "OF_SEEDS", "OF_SEQUENCE", "OF_VALUES", "OF_VOCABULARY"]

_WITH_BIASES = ("biases", "positions shared out and biases", "dropout in eval mode")
_FROZEN = ("frozen parts", "frozen parts, positions shared out")
_GROUPS = ("a group that is not all ranks", "a group, positions shared out")
_ALONG = ("positions shared out", "frozen parts, positions", "a group, positions")  # how names of cases begin
_TIED = ("one matrix for tokens and scores", "two batches before a step")

OF_VALUES = (
    Mistake(
        "bias-on-each-rank",
        "Without biases all is right. Each rank adds the bias of a row cut to its summand, so it is in the sum once "
        "for each rank. Add it once, after the sum.",
        recognise=both(by.wrong_only_in(*_WITH_BIASES), by.biases_added_n_times),
    ),
    Mistake(
        "biases-elsewhere",
        "Without biases all is right. The bias of a column cut is a part, and is added to this rank's columns. That of "
        "a row cut is whole: it is added once, after the sum, and its gradient is complete on every rank.",
        recognise=both(
            by.wrong_only_in(*_WITH_BIASES),
            wrong_in(_WITH_BIASES[0]),
            by.wrong_first("losses", "gradients", "later_losses"),
        ),
    ),
    Mistake(
        "not-summed-back",
        "The first loss is right. All ranks hold some parameter whole, and each has a gradient for it from its own "
        "part alone. Only the sum of these is right. Which gate sums gradients, and in front of which matrices does "
        "it stand?",
        recognise=both(by.some_partial, lambda evidence: not by.wrong_only_in(*_ALONG)(evidence)),
    ),
    Mistake(
        "summed-twice",
        "The first loss is right, and some gradients are n times too large on n ranks. At an exit the gradient is "
        "complete on every rank already: it passes as it is.",
        recognise=by.some_times_too_large,
    ),
    Mistake(
        "loss-of-all-ranks",
        "The first loss is n times too large or too small on n ranks. Every rank computes one and the same loss, the "
        "mean over all positions.",
        recognise=by.loss_times,
    ),
    Mistake(
        "another-part",
        "`parts` does not hold the right pieces on some rank. Rank r of the group has the r-th piece, in order, along "
        "the dim that the docstring says.",
        recognise=both(by.wrong_first("begin"), lambda evidence: not by.begins_whole(evidence)),
    ),
    Mistake(
        "not-what-computes",
        "The first step is right, the second is not. Between the steps the tensors in `parts` were changed in place. "
        "Does your object compute with these tensors?",
        recognise=by.right_once,
    ),
    Mistake(
        "float32-inside",
        "The first loss is right to five digits or more, and not to nine. The model has float64, and somewhere a "
        "tensor of narrower numbers is made.",
        recognise=by.close(is_narrow=True),
    ),
    Mistake(
        "nearly-the-model",
        "The first loss is right to five digits or more, and not to nine, and all numbers are as wide as the model's. "
        "Some function differs a little: compare eps of the norms, GELU and the scale of scores with the model's.",
        recognise=by.close(is_narrow=False),
    ),
    Mistake(
        "shares-the-model",
        "The values are right, and the model that was handed in, or the batch, is no longer what it was. A part that "
        "is a view of a weight shares its memory: copy it.",
        recognise=only_wrong("kept"),
    ),
    Mistake(
        "not-waited-for",
        "A collective was begun, and nobody waited for it. Until then its tensor may be half of a sum.",
        recognise=is_not_waited_for,
    ),
)
_VOCABULARY = (
    Mistake(
        "vocabulary-whole",
        "The values are right, and a matrix of the vocabulary is whole on every rank. Cut the first and the last one "
        "by tokens, dim 0.",
        recognise=by.begins_whole,
    ),
    Mistake(
        "whole-logits",
        "The values are right, and somewhere a rank had all logits, or a tensor of their size. Each rank keeps those "
        "of its own tokens. What do the ranks have to agree on for a position?",
        recognise=by.too_wide,
    ),
    Mistake(
        "overflows",
        "All is right except with logits of a thousand. Before exponentials, the largest logit of a position is "
        "subtracted, the same one on every rank.",
        recognise=by.wrong_only_in("logits of a thousand"),
    ),
)
OF_VOCABULARY = (*OF_VALUES, *_VOCABULARY)
_MESSAGES = (
    Mistake(
        "calls-besides",
        "The values are right, but a step makes calls that it does not need: a barrier, or a broadcast of numbers "
        "that all ranks have. Collectives wait for each other by themselves.",
        recognise=by.wrong_first("besides"),
    ),
    Mistake(
        "enters-three-times",
        "The values are right. In the backward pass more gates are passed than there are regions. Queries, keys and "
        "values read one and the same tensor: it enters once.",
        recognise=by.enters_more_often,
    ),
    Mistake(
        "sends-more",
        "The values are right, but more bytes were sent than needed. A gate at each end of a region is needed, and "
        "three numbers for each position. Which message does no rank need?",
        recognise=by.bytes_are_more,
    ),
)
OF_MESSAGES = (*OF_VOCABULARY, *_MESSAGES)
_MEMORY = (
    Mistake(
        "whole-weights-stay",
        "Values and messages are right. The caller has deleted the model, and your object still holds more than its "
        "parts. Usually it still refers to the model, or a part is a view, which keeps the whole storage in memory.",
        recognise=both(by.wrong_first("held"), only_wrong("held", "saved", "left")),
    ),
    Mistake(
        "left-behind",
        "Values and messages are right. After the step some of its tensors are still there. Keep nothing of a step "
        "once it is over.",
        recognise=both(by.wrong_first("left"), only_wrong("left", "saved")),
    ),
    Mistake(
        "still-whole",
        "Values and messages are right. With `sequence` a rank keeps more of a step than it needs. Between the "
        "regions, in norms, dropout and the residual stream, it needs its own positions alone.",
        recognise=both(only_wrong("saved"), only_in(SEQUENCE[-1])),
    ),
    Mistake(
        "keeps-more",
        "Values and messages are right. Between forward and backward a rank keeps more than it needs. It needs its "
        "parts of the tensors in the regions, and the tensors between the regions.",
        recognise=only_wrong("saved"),
    ),
)
OF_MEMORY = (*OF_MESSAGES, *(one for one in _MEMORY if one.name != "still-whole"))
_SEQUENCE = (
    Mistake(
        "positions-partial",
        "All is right except the gradient of the table of positions. Each rank uses its rows, and all ranks hold the "
        "whole table: each needs its whole gradient.",
        recognise=by.only_positions,
    ),
    Mistake(
        "norms-not-summed",
        "Without `sequence` all is right. With it, ranks have a gradient from their own positions alone for a "
        "parameter that all ranks hold. That is a norm or the bias of a row cut. Each rank needs the sum over ranks.",
        recognise=both(by.some_partial, by.wrong_only_in(*_ALONG)),
    ),
)
OF_SEQUENCE = (*OF_MESSAGES, *_MEMORY, *_SEQUENCE)
_SEEDS = (
    Mistake(
        "drops-when-it-evaluates",
        "All is right except with a model in `eval()` mode: there dropout drops nothing.",
        recognise=only_in("dropout in eval mode"),
    ),
    Mistake(
        "drops-too-little",
        "Without dropout all is right. A dropout of nearly 1 leaves nothing after the stem and after a row cut, its "
        "bias included. Here something is left: a place drops nothing, or a bias is added after dropout.",
        recognise=both(by.wrong_only_in("dropout"), by.values_wrong_in("dropout of nearly all")),
    ),
    Mistake(
        "one-mask-in-a-step",
        "In one step two places have the same masks, or no masks. Places are the stem, and what follows each row cut. "
        "Random numbers go on from place to place; one seed for the whole step repeats them.",
        recognise=only_wrong("in_a_step"),
    ),
    Mistake(
        "masks-alike-in-heads",
        "The other masks are right. The masks inside attention are the same on ranks, or there are none. Heads are "
        "cut: each rank needs random numbers of its own there.",
        recognise=only_wrong("heads"),
    ),
    Mistake(
        "masks-alike-at-places",
        "With `sequence` each rank has positions of its own. After the stem, attention or the MLP the masks there "
        "are the same on all ranks, or there are none.",
        recognise=only_wrong("places"),
    ),
    Mistake(
        "same-in-each-step",
        "The masks are the same in every step, or there are none. A seed that is the same in each step gives the same "
        "numbers: draw it.",
        recognise=by.wrong_first("again"),
    ),
    Mistake(
        "seeds-left-apart",
        "After a step the ranks' generators are no longer alike, or the seed has changed. Then later masks differ "
        "where all ranks hold the same. Put the generator back to where it stood.",
        recognise=by.wrong_first("generators", "kept"),
    ),
    Mistake(
        "masks-apart",
        "Where all ranks hold the same tensor, masks differ, and so do gradients that have to agree. There the ranks "
        "must draw from generators in the same state.",
        recognise=only_wrong("agree"),
    ),
)
OF_SEEDS = (*OF_SEQUENCE, *_SEEDS)
_AWKWARD = (
    Mistake(
        "no-sentence",
        "Where heads or positions do not divide among the ranks, raise a `ValueError` that says both numbers. Raise "
        "it on every rank, before anything is sent.",
        recognise=by.wrong_only_in("heads that do not divide", "positions that do not divide"),
    ),
    Mistake(
        "replaces-gradients",
        "All is right except with two batches before a step. Their gradients add up: do those of the second batch "
        "take the place of the first one's?",
        recognise=only_in(_TIED[1]),
    ),
    Mistake(
        "ties-apart",
        "All is right except with one matrix for tokens and scores. Both uses are cut by tokens: the parts are one "
        "parameter, under both names, and its gradient has both summands.",
        recognise=by.wrong_only_in(*_TIED),
    ),
    Mistake(
        "all-learn",
        "All is right except with frozen parts. What does not learn in the model does not learn in `parts`, and no "
        "gradient of it is summed.",
        recognise=by.wrong_only_in(*_FROZEN),
    ),
    Mistake(
        "even-parts-only",
        "All is right except with a vocabulary and hidden units that do not divide. The first ranks hold one row "
        "more: where does the part of a rank begin?",
        recognise=by.wrong_only_in("sizes that do not divide"),
    ),
    Mistake(
        "as-many-keys-as-queries",
        "All is right except with a model that has fewer heads of keys and values than of queries. Each rank has its "
        "share of both.",
        recognise=by.wrong_only_in("shared heads of keys"),
    ),
    Mistake(
        "one-kind-of-batch",
        "All is right except with a batch of one row, shorter than the context, in float32. Take sizes and dtype from "
        "the batch and the model.",
        recognise=by.wrong_only_in("a short batch of one row"),
    ),
    Mistake(
        "whole-world",
        "All is right except with a group that is not all ranks. Every collective takes `group`, and a rank's place "
        "is its place in the group.",
        recognise=by.wrong_only_in(*_GROUPS),
    ),
    Mistake(
        "shared-between-objects",
        "One model is right, and two at the same time are not. Usually something is kept in the class, in a global or "
        "in a default argument. Keep it in `self`.",
        recognise=by.wrong_only_in("two models at the same time"),
    ),
    Mistake(
        "not-alone",
        "All is right on several ranks, and not on one rank, whose part is the whole.",
        recognise=alone,
    ),
)
OF_AWKWARD = (*_AWKWARD, *OF_SEEDS)  # first what shows in one kind of case alone
