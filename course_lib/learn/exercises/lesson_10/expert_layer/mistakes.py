"""10.experts: the usual mistakes by name. Those of a step are told in every later step as well, where they can show."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_04.tries import alone
from course_lib.learn.exercises.lesson_10.expert_layer import gradient_signs as back
from course_lib.learn.exercises.lesson_10.expert_layer import signs as by
from course_lib.learn.exercises.lesson_10.expert_layer.cases import FROZEN, GROUPS, NO_TOKENS, NOBODY, TWO_LAYERS
from course_lib.learn.judging.errors import error_says
from course_lib.learn.judging.report import is_not_waited_for, only_wrong

__all__ = ["OF_AWKWARD", "OF_BACKWARD", "OF_BALANCE", "OF_CAPACITY", "OF_EXCHANGE", "OF_MEMORY", "OF_VALUES"]

OF_VALUES = (
    Mistake(
        "own-experts-alone",
        "The output is what this rank's own experts make of its tokens. Most of a token's experts are on other ranks.",
        recognise=by.gave("own"),
    ),
    Mistake(
        "unweighted",
        "The output is the sum of the chosen experts' outputs, as they are. Each counts by its probability.",
        recognise=by.gave("unweighted"),
    ),
    Mistake(
        "normalised",
        "The output is right but for a factor of each token: its weights add up to 1. Here a weight is the probability "
        "among all experts, as it is.",
        recognise=by.gave("normalised"),
    ),
    Mistake(
        "every-expert",
        "The output is the sum over all experts, each times its probability. Only the best `top_k` of a token count.",
        recognise=by.gave("everyone"),
    ),
    Mistake(
        "left-as-sorted",
        "The experts' outputs are right, and stand in the order of experts. Each belongs to the token that it came "
        "from: put them back into the order of tokens.",
        recognise=by.gave("as sorted"),
    ),
    Mistake(
        "earlier-result",
        "The first call is right, and the next one gives what the first one gave, though its numbers are other ones. "
        "Keep no result from call to call.",
        recognise=lambda evidence: by.keeps_an_earlier_one(evidence) or error_says("a second time")(evidence),
    ),
    Mistake(
        "spoils-what-came",
        "The values are right, and something has changed that was to stay: tokens, weights, or the seed of random "
        "numbers.",
        recognise=only_wrong("kept"),
    ),
    Mistake(
        "not-waited-for",
        "A call was begun, and nobody waited for it. Call `wait()` on what an `async_op=True` gives.",
        recognise=is_not_waited_for,
    ),
)
_BACKWARD = (
    Mistake(
        "no-graph",
        "The outputs are right, and no expert has a gradient. What comes by a collective has no history for autograd: "
        "the exchange needs a backward of its own.",
        recognise=back.no_graph,
    ),
    Mistake(
        "router-learns-nothing",
        "The outputs and the gradients of experts are right, and the router has none. It is felt by the probabilities "
        "with which outputs are multiplied.",
        recognise=back.router_has_none,
    ),
    Mistake(
        "own-tokens-alone",
        "The outputs are right. An expert's gradient is that of this rank's own tokens. Other ranks' tokens went "
        "through it as well.",
        recognise=back.experts_are("own"),
    ),
    Mistake(
        "experts-averaged",
        "The outputs are right, and the experts' gradients are too small by the number of ranks. Asked for is the sum "
        "over all ranks' tokens, before anybody takes a mean.",
        recognise=back.experts_are("averaged"),
    ),
    Mistake(
        "one-way-to-x",
        "Router and experts are right, and of the gradient of x one part is missing. A token goes to the output by two "
        "ways: through its experts, and through the router.",
        recognise=back.x_has_one_way,
    ),
)
OF_BACKWARD = (*OF_VALUES, *_BACKWARD)
_EXCHANGE = (
    Mistake(
        "computes-for-nothing",
        "The values are right, and experts compute rows of tokens that did not choose them. A row is to go to the "
        "experts that were chosen, and to no other.",
        recognise=by.costs("rows"),
    ),
    Mistake(
        "piece-by-piece",
        "The values are right, and an expert is called more than once in a call of the layer. Put all its rows "
        "together, those of all ranks: one large product is faster than several small ones.",
        recognise=by.costs("pieces", but=("rows",)),
    ),
    Mistake(
        "more-bytes",
        "The values are right, and more bytes were sent than the chosen rows have, there and back. Let each rank get "
        "as many rows as it needs, by the two lists of sizes.",
        recognise=by.costs("sent", "sent_back", but=("rows", "pieces")),
    ),
    Mistake(
        "more-calls",
        "The values are right, and there are more calls to other ranks than the page allows.",
        recognise=by.costs("calls", "calls_back", but=("rows", "pieces", "sent", "sent_back")),
    ),
)
OF_EXCHANGE = (*OF_BACKWARD, *_EXCHANGE)
_MEMORY = (
    Mistake(
        "all-at-once",
        "Values and messages are right. A tensor was made that is larger than the rows of this rank's choices, and "
        "than those that came. Has it places for experts that a token did not choose, or room that stays empty?",
        recognise=by.costs("largest", but=("rows", "sent")),
    ),
    Mistake(
        "keeps-too-much",
        "Values and messages are right, and more is kept for backward than the experts and the weights need. The "
        "backward of an exchange needs its sizes, and no rows.",
        recognise=by.costs("held", but=("largest",)),
    ),
    Mistake(
        "left-behind",
        "Values and messages are right, and when the output is gone some of the call is still there. Keep nothing of a "
        "call in `self`.",
        recognise=by.costs("left", but=("largest", "held")),
    ),
)
OF_MEMORY = (*OF_EXCHANGE, *_MEMORY)
_DROPPED = Mistake(
    "sends-the-dropped",
    "The values are right, and where experts have a limit more is sent or computed than has room. A choice without "
    "room need not travel.",
    recognise=by.costs_where(lambda one: one.capacity_factor is not None, "rows", "sent", "sent_back"),
)
_CAPACITY = (
    Mistake(
        "no-limit",
        "Right where experts take all. With a `capacity_factor` the output is the same as without one.",
        recognise=by.gave("no limit", with_a_limit=True),
    ),
    Mistake(
        "token-after-token",
        "Right without a limit. With one, room is given to both choices of a token before the next token. First all "
        "first choices come, then all second ones.",
        recognise=by.gave("token after token", with_a_limit=True),
    ),
    Mistake(
        "the-likeliest-first",
        "Right without a limit. With one, room is given by probability. Here a choice has its turn by its number, and "
        "then by where its token stands.",
        recognise=by.gave("the likeliest first", with_a_limit=True),
    ),
    Mistake(
        "room-of-one-choice",
        "Right without a limit. With one, an expert's room is its share of tokens. Each token has `top_k` choices: the "
        "share is of all choices.",
        recognise=by.gave("without k", with_a_limit=True),
    ),
)
OF_CAPACITY = (_DROPPED, *OF_MEMORY, *_CAPACITY)
_BALANCE = (
    Mistake(
        "counts-its-own",
        "The outputs are right, and the loss is the mean of what each rank finds among its own tokens. Choices are to "
        "be counted over all ranks.",
        recognise=back.balance_is("own"),
    ),
    Mistake(
        "without-e",
        "The outputs are right, and the loss is too small by the number of experts. It is 1 where all are equally "
        "busy.",
        recognise=back.balance_is("without E"),
    ),
    Mistake(
        "mean-of-means",
        "The loss is right where all ranks have as many tokens. Where they do not, a token counts the less, the more "
        "its rank has. Divide by the tokens of all ranks.",
        recognise=back.balance_only_where(lambda one: one.order != "equal"),
    ),
    Mistake(
        "counts-the-kept",
        "The loss is right without a limit. With one, it counts choices that have room. An expert that turns tokens "
        "away would look less busy than it is: count all choices.",
        recognise=back.balance_only_where(lambda one: one.capacity_factor is not None),
    ),
    Mistake(
        "pushes-nothing",
        "Outputs and loss are right, and the router's gradient is that without the loss. A count has no gradient; the "
        "mean probabilities have one.",
        recognise=back.pushes("not at all"),
    ),
    Mistake(
        "pushes-too-little",
        "Outputs and loss are right, and what the router feels of the loss is too small by the number of ranks. "
        "Gradients are a mean over ranks later: this rank's part is divided by them once more.",
        recognise=back.pushes("once"),
    ),
)
OF_BALANCE = (*OF_CAPACITY, *_BALANCE)
_AWKWARD = (
    Mistake(
        "rests-without-tokens",
        "All is right until a rank has no tokens. Its experts are asked for by others, so it makes every call that the "
        "others make, forward and backward.",
        recognise=by.first_wrong_in(NO_TOKENS),
    ),
    Mistake(
        "rests-without-rows",
        "All is right until nobody chooses the experts of a rank. What that rank gives back still needs a history, "
        "since its backward is a call that the others wait for.",
        recognise=by.first_wrong_in(NOBODY),
    ),
    Mistake(
        "loses-the-dtype",
        "All is right but the dtype in bfloat16. What you return has the dtype of x.",
        recognise=by.loses_the_dtype,
    ),
    Mistake(
        "coarse-scores",
        "All is right but bfloat16, where numbers are further off than a few roundings. In which dtype are the scores "
        "that choose experts?",
        recognise=by.only_coarse,
    ),
    Mistake(
        "rests-when-frozen",
        "All is right until the experts of one rank are frozen, and x needs no gradient. The others still go back "
        "through both exchanges, and that rank has to as well.",
        recognise=by.first_wrong_in(FROZEN),
    ),
    Mistake(
        "shared-between-layers",
        "One layer is right, and two by turns are not: something is kept in the class, in a global or in a default "
        "argument. Keep it in `self`.",
        recognise=by.first_wrong_in(TWO_LAYERS),
    ),
    Mistake(
        "strangers",
        "Right where all ranks take part. In a group there are other ranks, and fewer: pass `group` to every call.",
        recognise=by.first_wrong_in(*GROUPS),
    ),
    Mistake(
        "not-alone",
        "Right on several ranks, and not on one, which has all experts.",
        recognise=alone,
    ),
)
OF_AWKWARD = (*OF_BALANCE, *_AWKWARD)
