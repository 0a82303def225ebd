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
        "The scores are not divided by the root of the numbers of a head, as attention has them.",
        recognise=by.gave("unscaled"),
    ),
    Mistake(
        "overflows",
        "Right with small scores. With scores of 1000 or of -1000 what comes is no number: an exponential is too "
        "large, or all are 0. Take off the largest score that was seen, before you take the exponential.",
        recognise=by.only_overflows,
    ),
    Mistake(
        "earlier-result",
        "The first call is right, and the next one gives what the first one gave, though its numbers are other ones. "
        "Keep no result from call to call.",
        recognise=lambda evidence: by.keeps_an_earlier_one(evidence) or error_says("a second time")(evidence),
    ),
    Mistake(
        "spoils-what-came",
        "The values are right, and something has changed that was to stay: a tensor that you were given, or the seed "
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
        "The outputs are right, and q, k and v have no gradients. What comes in a message has no history for autograd: "
        "write the way back yourself, in a `torch.autograd.Function`.",
        recognise=back.no_gradient_at_all,
    ),
    Mistake(
        "scaled-once",
        "The outputs are right. The gradient of q is too large by the root of the numbers of a head. Scores were "
        "divided by it, and so is what goes back through them to q and to k.",
        recognise=back.scaled_once,
    ),
    Mistake(
        "gradient-of-scores",
        "The outputs and the gradient of v are right, and that of q is not. The gradient of a score is its weight "
        "times (g · v - g · o): did both products come into it?",
        recognise=back.only_scores,
    ),
    Mistake(
        "own-part-alone",
        "The gradients of keys and values are those from this rank's own queries. Other ranks looked at these keys, "
        "too, and their parts have to come home.",
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
        "Right without a mask. With a causal mask a query may see no key of a block: minus infinity less minus "
        "infinity is no number. Leave out what nobody sees.",
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
        "The mask lies on this rank's own block alone. Keys of other ranks may come after a query as well.",
        recognise=by.gave("others"),
    ),
    Mistake(
        "one-stretch",
        "Right where each rank has one stretch of positions. In zigzag order a rank has an early one and a late one, "
        "and each sees other keys.",
        recognise=both(
            by.first_wrong_in(*ZIGZAG), by.only_where(lambda one: one.is_causal and one.order in ("zigzag", "striped"))
        ),
    ),
    Mistake(
        "computes-what-is-hidden",
        "The values are right, and products are computed of which a mask hides everything. Go through the pairs of "
        "stretches, yours and the owner's, and leave out those where all keys come later.",
        recognise=by.costs("work", "work_back", but=("others", "sent", "sent_back")),
    ),
)
OF_CAUSAL = (*OF_BACKWARD, *_CAUSAL)
_MESSAGES = (
    Mistake(
        "mixes-grouped-heads",
        "Right where each head of queries has keys of its own. Where M heads share one, these M stand side by side: "
        "heads 0 to M - 1 have key head 0.",
        recognise=by.only_where(lambda one: one.heads[0] != one.heads[1]),
    ),
    Mistake(
        "calls-besides",
        "The values are right, and there are calls beside messages between neighbours. The ring needs no collective "
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
        "The values are right, and keys go on until they are at home again. The last step is for nobody: p ranks need "
        "p - 1.",
        recognise=by.sends(lambda _, ranks, due, sent: sent * (ranks - 1) == due * ranks),
    ),
    Mistake(
        "more-bytes",
        "The values are right, and more bytes were sent than keys and values have, or in backward these and their "
        "gradients, for p - 1 steps.",
        recognise=by.costs("sent", "sent_back"),
    ),
    Mistake(
        "more-messages",
        "The values are right, and their bytes come in more messages than two for each block, or four in backward.",
        recognise=by.costs("messages"),
    ),
)
OF_MESSAGES = (*OF_CAUSAL, *_MESSAGES)
_MEMORY = (
    Mistake(
        "all-at-once",
        "Values and messages are right. A tensor was made that has room for more than one block: all keys, or the "
        "scores of all keys. Join block by block.",
        recognise=by.costs("largest"),
    ),
    Mistake(
        "keys-stay",
        "Values and messages are right, and blocks stay when they were computed with. Let a block go before the one "
        "after the next begins to arrive, and send keys round again in backward.",
        recognise=by.costs("blocks", "blocks_back"),
    ),
    Mistake(
        "scores-stay",
        "Values and messages are right, and more is kept for backward than an output and a few numbers for each query. "
        "Weights can be computed anew from q, k and the log-sum-exp.",
        recognise=by.costs("held"),
    ),
    Mistake(
        "left-behind",
        "Values and messages are right, and when the output is gone some of it is still there. What belongs to one "
        "call goes with it: into `ctx`, and not into `self`.",
        recognise=by.costs("left"),
    ),
)
OF_MEMORY = (*OF_MESSAGES, *_MEMORY)
_HIDDEN = (
    Mistake(
        "waits-first",
        "All else is right, and a block is computed while none is on its way. Begin to send and to receive before you "
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
        "Right where all ranks have equally many positions. Make room for as many as the owner of a block has, also "
        "where these are none.",
        recognise=by.first_wrong_in(*UNEVEN),
    ),
    Mistake(
        "loses-the-dtype",
        "All is right but the dtype in bfloat16. Sums are in float32, and what you return has the dtype that came.",
        recognise=by.loses_the_dtype,
    ),
    Mistake(
        "coarse-sums",
        "All is right but bfloat16, whose numbers are further off than one rounding. Scores and sums want float32.",
        recognise=only_in("bfloat16"),
    ),
    Mistake(
        "all-need-gradients",
        "All is right but a call in which k needs no gradient. The others still get theirs, and nobody may wait.",
        recognise=by.first_wrong_in("keys that learn nothing"),
    ),
    Mistake(
        "shared-between-objects",
        "One ring is right, and two by turns are not: something is kept in the class, in a global or in a default "
        "argument. Keep it in `self`.",
        recognise=by.first_wrong_in("two rings by turns"),
    ),
    Mistake(
        "strangers",
        "Right where all ranks take part. In a group the neighbours are those of the group: "
        "`dist.get_process_group_ranks(group)`, and your own place among them.",
        recognise=by.first_wrong_in(*GROUPS),
    ),
    Mistake(
        "not-alone",
        "Right on several ranks, and not on one, which has nobody to send to.",
        recognise=alone,
    ),
)
OF_AWKWARD = (*OF_HIDDEN, *_AWKWARD)
