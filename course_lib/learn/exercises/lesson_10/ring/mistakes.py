"""10.ring: the usual mistakes by name. Those of a step are told in every later step as well, where they can show."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_04.tries import alone
from course_lib.learn.exercises.lesson_10.ring import gradient_signs as back
from course_lib.learn.exercises.lesson_10.ring import signs as by
from course_lib.learn.exercises.lesson_10.ring.cases import GROUPS, UNEVEN, ZIGZAG
from course_lib.learn.judging.errors import error_says
from course_lib.learn.judging.report import both, is_not_waited_for, only_in, only_wrong

__all__ = ["OF_AWKWARD", "OF_BACKWARD", "OF_CAUSAL", "OF_HIDDEN", "OF_MEMORY", "OF_MESSAGES", "OF_VALUES"]

OF_VALUES = (
    Mistake(
        "own-keys-alone",
        "The output is what this rank's queries find at this rank's own keys. The keys and values of the other ranks "
        "have to come here, too.",
        recognise=by.gave("own"),
    ),
    Mistake(
        "averages",
        "The output is the mean of what the queries find at each block. A block counts by the sum of its exponentials, "
        "as in `10.join`.",
        recognise=by.gave("averages"),
    ),
    Mistake(
        "not-rescaled",
        "Each block's exponentials are taken from that block's own largest score, and added up as they are. When the "
        "largest score grows, multiply what you have by exp(old largest - new largest).",
        recognise=by.gave("unrescaled"),
    ),
    Mistake(
        "not-divided",
        "The scores are not divided by the square root of a head's size, as attention demands.",
        recognise=by.gave("unscaled"),
    ),
    Mistake(
        "overflows",
        "All is right with small scores. With scores of 1000 or of -1000 the result is no finite number: an "
        "exponential is too large, or all are 0. Take off the largest score that was seen, before you take the "
        "exponential.",
        recognise=by.only_overflows,
    ),
    Mistake(
        "earlier-result",
        "The first call is right, and the next one gives what the first one gave, though it was given other numbers. "
        "Keep no result from call to call.",
        recognise=lambda evidence: by.keeps_an_earlier_one(evidence) or error_says("a second time")(evidence),
    ),
    Mistake(
        "spoils-what-came",
        "The values are right, but something has changed that has to stay: a tensor that you were given, or the seed "
        "of random numbers.",
        recognise=lambda evidence: only_wrong("kept")(evidence) or error_says("by an inplace operation")(evidence),
    ),
    Mistake(
        "not-waited-for",
        "A message was begun, and nobody waited for it. Call what `start` gives, also for what you send, before the "
        "call returns.",
        recognise=lambda evidence: is_not_waited_for(evidence) or by.lets_go(evidence),
    ),
)
_BACKWARD = (
    Mistake(
        "no-graph",
        "The outputs are right, but q, k and v have no gradients. What comes in a message has no history for "
        "autograd: write the backward yourself, in a `torch.autograd.Function`.",
        recognise=back.no_gradient_at_all,
    ),
    Mistake(
        "scaled-once",
        "The outputs are right. The gradient of q is too large by the square root of a head's size. Scores were "
        "divided by that root, so divide what goes back through them to q and to k as well.",
        recognise=back.scaled_once,
    ),
    Mistake(
        "gradient-of-scores",
        "The outputs and the gradient of v are right, but that of q is not. The gradient of a score is its weight "
        "times (g · v - g · o): did both products come into it?",
        recognise=back.only_scores,
    ),
    Mistake(
        "own-part-alone",
        "The gradients of keys and values are those from this rank's own queries. Queries of other ranks used these "
        "keys, too, and their parts have to be sent to the keys' owner.",
        recognise=back.keys_have("own"),
    ),
    Mistake(
        "at-another-rank",
        "The gradients of keys and values are those of another rank's keys. The sum for a block has one more step to "
        "go, to its owner.",
        recognise=back.keys_have("another's"),
    ),
)
OF_BACKWARD = (*OF_VALUES, *_BACKWARD)
_CAUSAL = (
    Mistake(
        "no-number",
        "All is right without a mask. With a causal mask a query may see no key of a block: minus infinity less minus "
        "infinity is NaN. Leave out what no query sees.",
        recognise=by.has_nan,
    ),
    Mistake(
        "mask-by-place",
        "The mask compares where queries and keys stand in their ranks' tensors. What counts is their position in the "
        "sequence: `positions` has those of every rank.",
        recognise=by.gave("local"),
    ),
    Mistake(
        "others-unmasked",
        "You mask this rank's own block alone. Keys of other ranks may come after a query as well.",
        recognise=by.gave("others"),
    ),
    Mistake(
        "one-stretch",
        "All is right where each rank has one stretch of positions. In zigzag order a rank has an early stretch and a "
        "late one, and the queries of each see other keys.",
        recognise=both(
            by.first_wrong_in(*ZIGZAG), by.only_where(lambda one: one.is_causal and one.order in ("zigzag", "striped"))
        ),
    ),
    Mistake(
        "computes-what-is-hidden",
        "The values are right, but you compute products that the mask hides completely. Go through the pairs of "
        "stretches, yours and the owner's, and leave out those where all keys come later.",
        recognise=by.costs("work", "work_back", but=("others", "sent", "sent_back")),
    ),
)
OF_CAUSAL = (*OF_BACKWARD, *_CAUSAL)
_MESSAGES = (
    Mistake(
        "mixes-grouped-heads",
        "All is right where each head of queries has keys of its own. Where M query heads share a key head, they "
        "stand side by side: heads 0 to M - 1 have key head 0.",
        recognise=by.only_where(lambda one: one.heads[0] != one.heads[1]),
    ),
    Mistake(
        "calls-besides",
        "The values are right, but there are calls beside messages between neighbours. The ring needs no collective "
        "and no barrier.",
        recognise=by.costs("others"),
    ),
    Mistake(
        "repeated-heads",
        "The values are right. With grouped heads each key head is sent once for every query head that shares it. Send "
        "k and v as they came, and repeat where you compute.",
        recognise=by.sends(
            lambda one, _, due, sent: one.heads[0] > one.heads[1] and sent == due * one.heads[0] // one.heads[1]
        ),
    ),
    Mistake(
        "one-step-too-many",
        "The values are right, but keys go on until they are back at their owner. No rank needs that last step: p "
        "ranks need p - 1 steps.",
        recognise=by.sends(lambda _, ranks, due, sent: sent * (ranks - 1) == due * ranks),
    ),
    Mistake(
        "more-bytes",
        "The values are right, but more bytes were sent than needed. Needed are p - 1 steps with keys and values, and "
        "in backward with these and their gradients.",
        recognise=by.costs("sent", "sent_back"),
    ),
    Mistake(
        "more-messages",
        "The values are right, but their bytes come in more messages than needed: two for each block, or four in "
        "backward.",
        recognise=by.costs("messages"),
    ),
)
OF_MESSAGES = (*OF_CAUSAL, *_MESSAGES)
_MEMORY = (
    Mistake(
        "all-at-once",
        "Values and messages are right. Your code made a tensor with room for more than one block, such as all keys, "
        "or the scores of all keys. Join block by block.",
        recognise=by.costs("largest"),
    ),
    Mistake(
        "keys-stay",
        "Values and messages are right, but blocks stay in memory after they were used. Let a block go before the one "
        "after the next begins to arrive, and send keys round again in backward.",
        recognise=by.costs("blocks", "blocks_back"),
    ),
    Mistake(
        "scores-stay",
        "Values and messages are right, but more is kept for backward than an output and a few numbers for each "
        "query. Weights can be computed anew from q, k and the log-sum-exp.",
        recognise=by.costs("held"),
    ),
    Mistake(
        "left-behind",
        "Values and messages are right, but when the output is gone some tensors of the call are still there. What "
        "belongs to one call goes into `ctx`, and not into `self`.",
        recognise=by.costs("left"),
    ),
)
OF_MEMORY = (*OF_MESSAGES, *_MEMORY)
_HIDDEN = (
    Mistake(
        "waits-first",
        "All else is right, but a block is computed while none is on its way. Begin to send and to receive before you "
        "compute, and wait after it.",
        recognise=by.costs("idle"),
    ),
    Mistake(
        "waits-in-backward",
        "Forward is right. In backward a block is computed while less is on its way than could be: the next keys, and "
        "a sum of gradients.",
        recognise=by.costs("idle_back"),
    ),
)
OF_HIDDEN = (*OF_MEMORY, *_HIDDEN)
_AWKWARD = (
    Mistake(
        "parts-alike",
        "All is right where all ranks have equally many positions. Make room for as many as the owner of a block has, "
        "also where it has none.",
        recognise=by.first_wrong_in(*UNEVEN),
    ),
    Mistake(
        "loses-the-dtype",
        "All is right except the dtype with bfloat16. Sums are in float32, and what you return has the dtype that "
        "came.",
        recognise=by.loses_the_dtype,
    ),
    Mistake(
        "coarse-sums",
        "All is right except with bfloat16, where numbers are further off than one rounding. Compute scores and sums "
        "in float32.",
        recognise=only_in("bfloat16"),
    ),
    Mistake(
        "all-need-gradients",
        "All is right except with a k that needs no gradient. The other tensors still get theirs, and no rank may "
        "wait in vain.",
        recognise=by.first_wrong_in("keys that learn nothing"),
    ),
    Mistake(
        "shared-between-objects",
        "One ring is right, and two by turns are not: usually something is kept in the class, in a global or in a "
        "default argument. Keep it in `self`.",
        recognise=by.first_wrong_in("two rings by turns"),
    ),
    Mistake(
        "strangers",
        "All is right where all ranks take part. In a group the neighbours are those of the group: "
        "`dist.get_process_group_ranks(group)`, and your own place among them.",
        recognise=by.first_wrong_in(*GROUPS),
    ),
    Mistake(
        "not-alone",
        "All is right on several ranks, and not on one rank, which has no other to send to.",
        recognise=alone,
    ),
)
OF_AWKWARD = (*OF_HIDDEN, *_AWKWARD)
