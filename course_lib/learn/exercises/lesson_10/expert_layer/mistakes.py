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
        "The output is the sum of the chosen experts' outputs, as they are. Multiply each by its probability.",
        recognise=by.gave("unweighted"),
    ),
    Mistake(
        "normalised",
        "The output is right except for a factor for each token: your weights of a token add up to 1. Here a weight "
        "is the expert's probability among all experts, unchanged.",
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
        "The first call is right, and the next one gives what the first one gave, though it was given other numbers. "
        "Keep no result from call to call.",
        recognise=lambda evidence: by.keeps_an_earlier_one(evidence) or error_says("a second time")(evidence),
    ),
    Mistake(
        "spoils-what-came",
        "The values are right, but something has changed that has to stay: tokens, weights, or the seed of random "
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
        "The outputs are right, but no expert has a gradient. What comes by a collective has no history for autograd: "
        "the exchange needs a backward of its own.",
        recognise=back.no_graph,
    ),
    Mistake(
        "router-learns-nothing",
        "The outputs and the gradients of experts are right, and the router has none. The router acts on the output "
        "through the probabilities with which outputs are multiplied.",
        recognise=back.router_has_none,
    ),
    Mistake(
        "own-tokens-alone",
        "The outputs are right. An expert's gradient comes from this rank's own tokens alone. Other ranks' tokens "
        "went through it as well.",
        recognise=back.experts_are("own"),
    ),
    Mistake(
        "experts-averaged",
        "The outputs are right, but on n ranks the experts' gradients are n times too small. Give the sum over all "
        "ranks' tokens, and no mean.",
        recognise=back.experts_are("averaged"),
    ),
    Mistake(
        "one-way-to-x",
        "Router and experts are right, but one part of the gradient of x is missing. A token reaches the output by "
        "two ways: through its experts, and through the router.",
        recognise=back.x_has_one_way,
    ),
)
OF_BACKWARD = (*OF_VALUES, *_BACKWARD)
_EXCHANGE = (
    Mistake(
        "computes-for-nothing",
        "The values are right, but experts compute rows of tokens that did not choose them. Send a row to the experts "
        "that its token chose, and to no other.",
        recognise=by.costs("rows"),
    ),
    Mistake(
        "piece-by-piece",
        "The values are right, but an expert is called more than once in a call of the layer. Put all its rows "
        "together, those of all ranks: one large product is faster than several small ones.",
        recognise=by.costs("pieces", but=("rows",)),
    ),
    Mistake(
        "more-bytes",
        "The values are right, but more bytes were sent than the chosen rows have, there and back. Let each rank get "
        "as many rows as it needs, by the two lists of sizes.",
        recognise=by.costs("sent", "sent_back", but=("rows", "pieces")),
    ),
    Mistake(
        "more-calls",
        "The values are right, but there are more calls to other ranks than the page allows.",
        recognise=by.costs("calls", "calls_back", but=("rows", "pieces", "sent", "sent_back")),
    ),
)
OF_EXCHANGE = (*OF_BACKWARD, *_EXCHANGE)
_MEMORY = (
    Mistake(
        "all-at-once",
        "Values and messages are right. A tensor was made that is larger than the rows of this rank's choices, and "
        "larger than the rows that came. Does it have places for experts that a token did not choose, or room that "
        "stays empty?",
        recognise=by.costs("largest", but=("rows", "sent")),
    ),
    Mistake(
        "keeps-too-much",
        "Values and messages are right, but more is kept for backward than the experts and the weights need. The "
        "backward of an exchange needs its sizes, and no rows.",
        recognise=by.costs("held", but=("largest",)),
    ),
    Mistake(
        "left-behind",
        "Values and messages are right, but when the output is gone some tensors of the call are still there. Keep "
        "nothing of a call in `self`.",
        recognise=by.costs("left", but=("largest", "held")),
    ),
)
OF_MEMORY = (*OF_EXCHANGE, *_MEMORY)
_DROPPED = Mistake(
    "sends-the-dropped",
    "The values are right, but where experts have a limit more is sent or computed than has room. A choice without "
    "room need not be sent.",
    recognise=by.costs_where(lambda one: one.capacity_factor is not None, "rows", "sent", "sent_back"),
)
_CAPACITY = (
    Mistake(
        "no-limit",
        "All is right where experts take all choices. With a `capacity_factor` the output is the same as without one.",
        recognise=by.gave("no limit", with_a_limit=True),
    ),
    Mistake(
        "token-after-token",
        "All is right without a limit. With one, you give room to both choices of a token before the next token. All "
        "first choices come before all second ones.",
        recognise=by.gave("token after token", with_a_limit=True),
    ),
    Mistake(
        "the-likeliest-first",
        "All is right without a limit. With one, you give room by probability. Here first choices come before second "
        "ones, and within these the tokens take their turns in order.",
        recognise=by.gave("the likeliest first", with_a_limit=True),
    ),
    Mistake(
        "room-of-one-choice",
        "All is right without a limit. With one, your room is an expert's share of all tokens. Each token has `top_k` "
        "choices: take the share of all choices.",
        recognise=by.gave("without k", with_a_limit=True),
    ),
)
OF_CAPACITY = (_DROPPED, *OF_MEMORY, *_CAPACITY)
_BALANCE = (
    Mistake(
        "counts-its-own",
        "The outputs are right, but the loss is the mean of what each rank finds among its own tokens. Count choices "
        "over all ranks.",
        recognise=back.balance_is("own"),
    ),
    Mistake(
        "without-e",
        "The outputs are right, but with E experts the loss is E times too small. It is 1 where all experts are "
        "equally busy.",
        recognise=back.balance_is("without E"),
    ),
    Mistake(
        "mean-of-means",
        "The loss is right where all ranks have equally many tokens. Elsewhere a token counts less on a rank that has "
        "more tokens. Divide by the tokens of all ranks.",
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
        "Outputs and loss are right, but the router's gradient is the same as without the loss. A count has no "
        "gradient; the mean probabilities have one.",
        recognise=back.pushes("not at all"),
    ),
    Mistake(
        "pushes-too-little",
        "Outputs and loss are right, but on n ranks the loss's gradient at the router is n times too small. Gradients "
        "are averaged over ranks later, which divides this rank's part by n once more.",
        recognise=back.pushes("once"),
    ),
)
OF_BALANCE = (*OF_CAPACITY, *_BALANCE)
_AWKWARD = (
    Mistake(
        "rests-without-tokens",
        "All is right until a rank has no tokens. Other ranks' tokens go to its experts, so it makes every call that "
        "the others make, forward and backward.",
        recognise=by.first_wrong_in(NO_TOKENS),
    ),
    Mistake(
        "rests-without-rows",
        "All is right until no token chooses the experts of a rank. What that rank gives back still needs a history, "
        "since its backward is a call that the others wait for.",
        recognise=by.first_wrong_in(NOBODY),
    ),
    Mistake(
        "loses-the-dtype",
        "All is right except the dtype with bfloat16. What you return has the dtype of x.",
        recognise=by.loses_the_dtype,
    ),
    Mistake(
        "coarse-scores",
        "All is right except with bfloat16, where numbers are further off than a few roundings. In which dtype are "
        "the scores that choose experts?",
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
        "One layer is right, and two by turns are not: usually something is kept in the class, in a global or in a "
        "default argument. Keep it in `self`.",
        recognise=by.first_wrong_in(TWO_LAYERS),
    ),
    Mistake(
        "strangers",
        "All is right where all ranks take part. In a group there are other ranks, and fewer: pass `group` to every "
        "call.",
        recognise=by.first_wrong_in(*GROUPS),
    ),
    Mistake(
        "not-alone",
        "All is right on several ranks, and not on one rank, which has all experts.",
        recognise=alone,
    ),
)
OF_AWKWARD = (*OF_BALANCE, *_AWKWARD)
