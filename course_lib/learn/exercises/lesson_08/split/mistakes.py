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
        "for each rank. It is added once, after the sum.",
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
        "The first loss is right. For something that all ranks hold, each has the gradient of its own features alone. "
        "Only their sum is right. Which gate sums gradients, and in front of which matrices does it stand?",
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
        "`parts` on some rank is not what is due there. Rank r of the group has the r-th piece, in order, along the "
        "dim that the docstring says.",
        recognise=both(by.wrong_first("begin"), lambda evidence: not by.begins_whole(evidence)),
    ),
    Mistake(
        "not-what-computes",
        "The first step is right, the second is not. What computes is not what stands in `parts`: between the steps "
        "those were changed in place.",
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
        "All is right but logits of a thousand. Before exponentials, the largest logit of a position is subtracted, "
        "the same one on every rank.",
        recognise=by.wrong_only_in("logits of a thousand"),
    ),
)
OF_VOCABULARY = (*OF_VALUES, *_VOCABULARY)
_MESSAGES = (
    Mistake(
        "calls-besides",
        "The values are right, and a step has calls that nothing needs: a barrier, or a broadcast of what all ranks "
        "have. Collectives wait for each other by themselves.",
        recognise=by.wrong_first("besides"),
    ),
    Mistake(
        "enters-three-times",
        "The values are right. Going back, more gates are passed than there are regions. Queries, keys and values "
        "read one and the same tensor: it enters once.",
        recognise=by.enters_more_often,
    ),
    Mistake(
        "sends-more",
        "The values are right, and more bytes travel than a gate at each end of a region sends, and three numbers for "
        "each position. What was sent that nobody needs?",
        recognise=by.bytes_are_more,
    ),
)
OF_MESSAGES = (*OF_VOCABULARY, *_MESSAGES)
_MEMORY = (
    Mistake(
        "whole-weights-stay",
        "Values and messages are right. The model was let go, and your object still holds more than its parts. It is a "
        "name for the model, or a view, behind which all of its memory stays.",
        recognise=both(by.wrong_first("held"), only_wrong("held", "saved", "left")),
    ),
    Mistake(
        "left-behind",
        "Values and messages are right. After the step something of it is still there. What belongs to one step goes "
        "with it.",
        recognise=both(by.wrong_first("left"), only_wrong("left", "saved")),
    ),
    Mistake(
        "still-whole",
        "Values and messages are right. With `sequence` a rank keeps as much of a step as without. Between the "
        "regions it is to have its own positions alone: norms, dropout and the stream.",
        recognise=both(only_wrong("saved"), only_in(SEQUENCE[-1])),
    ),
    Mistake(
        "keeps-more",
        "Values and messages are right. Between forward and backward a rank keeps more than its parts of what "
        "regions make, and what stands between them.",
        recognise=only_wrong("saved"),
    ),
)
OF_MEMORY = (*OF_MESSAGES, *(one for one in _MEMORY if one.name != "still-whole"))
_SEQUENCE = (
    Mistake(
        "positions-partial",
        "All is right but the gradient of the table of positions. Each rank uses its rows, and all ranks hold the "
        "whole table: its gradient is to be whole on each.",
        recognise=by.only_positions,
    ),
    Mistake(
        "norms-not-summed",
        "Without `sequence` all is right. With it, each rank has the gradient of its own positions alone of something "
        "that all ranks hold. That is a norm or the bias of a row cut. Their sum is due on every rank.",
        recognise=both(by.some_partial, by.wrong_only_in(*_ALONG)),
    ),
)
OF_SEQUENCE = (*OF_MESSAGES, *_MEMORY, *_SEQUENCE)
_SEEDS = (
    Mistake(
        "drops-when-it-evaluates",
        "All is right but a model that was handed in by `eval()`: there nothing is dropped.",
        recognise=only_in("dropout in eval mode"),
    ),
    Mistake(
        "drops-too-little",
        "Without dropout all is right. With one of nearly 1 nothing is left after the stem and after a row cut, its "
        "bias included. Here something is left: a place drops nothing, or a bias is added afterwards.",
        recognise=both(by.wrong_only_in("dropout"), by.values_wrong_in("dropout of nearly all")),
    ),
    Mistake(
        "one-mask-in-a-step",
        "In one step two places have the same masks, or none: the stem, and what follows the row cuts. Random numbers "
        "go on from place to place; a seed that stays for a step begins them anew.",
        recognise=only_wrong("in_a_step"),
    ),
    Mistake(
        "masks-alike-in-heads",
        "Other masks are right. On the ranks the masks inside attention are the same, or there are none. Heads are "
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
        "The masks are the same in every step, or there are none. A seed set anew in each step gives the same numbers: "
        "draw it.",
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
        "Where all ranks hold the same, masks differ, and so do gradients that are to agree. There the ranks draw "
        "from generators that are alike.",
        recognise=only_wrong("agree"),
    ),
)
OF_SEEDS = (*OF_SEQUENCE, *_SEEDS)
_AWKWARD = (
    Mistake(
        "no-sentence",
        "Where heads or positions do not divide among the ranks, a `ValueError` is due that says both numbers, on "
        "every rank, before anything is sent.",
        recognise=by.wrong_only_in("heads that do not divide", "positions that do not divide"),
    ),
    Mistake(
        "replaces-gradients",
        "All is right but two batches before a step: the second one's gradients take the place of the first one's. "
        "They add up.",
        recognise=only_in(_TIED[1]),
    ),
    Mistake(
        "ties-apart",
        "All is right but one matrix for tokens and scores. Both are cut by tokens: the parts are one parameter, under "
        "both names, and its gradient has both summands.",
        recognise=by.wrong_only_in(*_TIED),
    ),
    Mistake(
        "all-learn",
        "All is right but frozen parts. What does not learn in the model does not learn in `parts`, and no gradient "
        "of it is summed.",
        recognise=by.wrong_only_in(*_FROZEN),
    ),
    Mistake(
        "even-parts-only",
        "All is right but a vocabulary and hidden units that do not divide. The first ranks hold one row more: where "
        "does the part of a rank begin?",
        recognise=by.wrong_only_in("sizes that do not divide"),
    ),
    Mistake(
        "as-many-keys-as-queries",
        "All is right but a model with fewer heads of keys and values than of queries. Each rank has its share of "
        "both.",
        recognise=by.wrong_only_in("shared heads of keys"),
    ),
    Mistake(
        "one-kind-of-batch",
        "All is right but a batch of one row, shorter than the context, in float32. Sizes and dtype are those of what "
        "comes.",
        recognise=by.wrong_only_in("a short batch of one row"),
    ),
    Mistake(
        "whole-world",
        "All is right but a group that is not all ranks. Every collective takes `group`, and a rank's place is that in "
        "the group.",
        recognise=by.wrong_only_in(*_GROUPS),
    ),
    Mistake(
        "shared-between-objects",
        "One model is right, and two at the same time are not. Something is kept in the class, in a global or in a "
        "default argument. Keep it in `self`.",
        recognise=by.wrong_only_in("two models at the same time"),
    ),
    Mistake(
        "not-alone",
        "Right on several ranks, and not on one, whose part is the whole.",
        recognise=alone,
    ),
)
OF_AWKWARD = (*_AWKWARD, *OF_SEEDS)  # first what shows in one kind of case alone
