"""07.pipe: the usual mistakes by name. Those of a step are told in every later step as well, where they can show."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_04.tries import alone
from course_lib.learn.exercises.lesson_07.pipe import signs as by
from course_lib.learn.exercises.lesson_07.pipe.cases import CHUNKS, FAILS, MESSAGES, SPLIT, TIED
from course_lib.learn.judging.errors import error_says, hangs_in, raised_first_in
from course_lib.learn.judging.report import both, is_not_waited_for, only_in, only_wrong, some_wrong

__all__ = ["OF_AWKWARD", "OF_CHUNKS", "OF_MEMORY", "OF_MESSAGES", "OF_SPLIT", "OF_VALUES"]

OF_VALUES = (
    Mistake(
        "no-share",
        "The gradients are as many times too large as there are micro-batches. `loss_of` is the mean of one "
        "micro-batch; its part of the batch's mean is its share of the rows.",
        recognise=by.times_too_large,
    ),
    Mistake(
        "nothing-comes-back",
        "Stages before the last have no gradients. What arrives is to be a leaf that requires a gradient, and what "
        "`backward` leaves in its `grad` goes to the stage before.",
        recognise=by.nothing_comes_back,
    ),
    Mistake(
        "loss-of-one",
        "The gradients are right, and the loss is that of the last micro-batch. Add up the shares of all.",
        recognise=by.gives_another_loss,
    ),
    Mistake(
        "one-room",
        "Fewer tensors of `room` were made than messages came, so one was filled while an earlier input was still "
        "needed. Make a new one for each message.",
        recognise=by.fewer_rooms_than_messages,
    ),
    Mistake(
        "another-order",
        "All actions ran, and not in the order of this rank's row. The table says when: go through the row as it "
        "stands.",
        recognise=by.other_order,
    ),
    Mistake(
        "spoils-what-came",
        "The values are right. Something that was to stay has changed: what the caller gave, a module's mode or "
        "hooks, or the seed of random numbers.",
        recognise=only_wrong("kept"),
    ),
    Mistake(
        "not-waited-for",
        "A message was begun, and nobody waited for it. Until then its tensor must stay. Call what `start` gives, for "
        "every message, before `step` returns.",
        recognise=lambda evidence: is_not_waited_for(evidence) or by.lets_go(evidence),
    ),
)
_MESSAGES = (
    Mistake(
        "waits-in-a-send",
        "GPipe is right. In a table of 1F1B two neighbours send to each other at one moment, and each waits in its "
        "send until the other takes it. Start what an action has made, and wait for it later.",
        recognise=hangs_in(*MESSAGES),
    ),
    Mistake(
        "idle-cells",
        "A table with idle cells stops your loop. `schedule.actions` has None there; `schedule.rows` has the actions "
        "alone.",
        recognise=both(raised_first_in(*MESSAGES), error_says("NoneType")),
    ),
    Mistake(
        "sends-besides",
        "The values are right, and the steps make calls that nothing needs beside the messages. The table orders the "
        "ranks: no barrier, broadcast or reduction has to.",
        recognise=only_wrong("others"),
    ),
    Mistake(
        "other-bytes",
        "The values are right, and as many messages were sent as are due, of other bytes. What travels is what was "
        "made, in its own dtype.",
        recognise=by.messages(lambda due, sent: sum(due.values()) == sum(sent.values())),
    ),
    Mistake(
        "more-messages",
        "The values are right, and more messages were sent than there are activations and gradients. Shapes need not "
        "travel: `room` knows them. The first stage has nobody to send a gradient to.",
        recognise=by.messages(lambda due, sent: sum(due.values()) < sum(sent.values())),
    ),
    Mistake(
        "held-back",
        "Values and messages are right. But what an action had made was still in hand when the next one began, so a "
        "neighbour waits for something that is ready.",
        recognise=only_wrong("held"),
    ),
)
OF_MESSAGES = (*OF_VALUES, *_MESSAGES)
_MEMORY = (
    Mistake(
        "graphs-stay",
        "Values and messages are right, and what forwards have kept is there of more micro-batches than the table has "
        "in flight. A backward that keeps the graph, or one that runs late, keeps all of that.",
        recognise=by.keeps("in_flight"),
    ),
    Mistake(
        "names-stay",
        "Values and messages are right, and inputs or outputs stay after their backward. Take them out with `pop`, and "
        "wait for a send that has arrived: until then it holds its tensor.",
        recognise=by.keeps("stale"),
    ),
    Mistake(
        "rooms-too-early",
        "Values and messages are right, and room was made for messages long before they come. Make it when the message "
        "is near.",
        recognise=by.keeps("rooms"),
    ),
    Mistake(
        "left-behind",
        "Values and messages are right, and after the step some of it is still there. What belongs to one step goes "
        "with it.",
        recognise=by.keeps("left"),
    ),
)
OF_MEMORY = (*OF_MESSAGES, *_MEMORY)
_CHUNKS = (
    Mistake(
        "sends-to-itself",
        "A rank that holds two neighbouring stages sends to itself. Nothing travels there: put what one has made where "
        "the other looks for it.",
        recognise=error_says("same as the rank", "Pair is not connected"),
    ),
    Mistake(
        "neighbours-by-rank",
        "One stage a rank is right. With several, the next *stage* need not be on the next *rank*, nor is the last "
        "stage alone on its rank: ask `schedule.rank_of_stage[stage + 1]`.",
        recognise=raised_first_in(*CHUNKS),
    ),
    Mistake(
        "mixes-messages",
        "One stage a rank is right. With several, a message is taken for another one: two ranks send each other "
        "activations and gradients, and they arrive in the order of sending. Receive them in that order.",
        recognise=both(by.wrong_first_in(*CHUNKS), by.takes_another),
    ),
    Mistake(
        "ring-of-waits",
        "One stage a rank is right. With several, ranks wait for each other: each for a message that the other has yet "
        "to start, or to take. Start what is made before you wait, in an order that all ranks share.",
        recognise=hangs_in(*CHUNKS),
    ),
)
OF_CHUNKS = (*OF_MEMORY, *_CHUNKS)
_SPLIT = (
    Mistake(
        "whole-at-once",
        "In tables with halves I runs the whole backward, and W has nothing to do. So the stage before waits for both "
        "halves, as with B.",
        recognise=by.halves_are_whole,
    ),
    Mistake(
        "back-again",
        "The values are right, and W computes the gradient of the inputs a second time, which I has sent already. Ask "
        "for the parameters alone: `inputs=` of `torch.autograd.backward`.",
        recognise=by.goes_back_twice,
    ),
    Mistake(
        "graph-is-gone",
        "W finds a graph that I has freed. I has to keep it: `retain_graph=True`.",
        recognise=error_says("a second time"),
    ),
    Mistake(
        "no-input-to-go-to",
        "Where a stage's input needs no gradient, as that of the first stage, I has nothing to compute. Asking "
        "autograd for it is an error.",
        recognise=both(
            raised_first_in(*SPLIT),
            error_says("does not require grad", "not to have been used", "NoneType", "not require"),
        ),
    ),
    Mistake(
        "replaces-gradients",
        "Whole backwards are right. In halves, gradients of weights are put in the place of those that were there. "
        "Each micro-batch *adds* to `grad`.",
        recognise=both(by.wrong_first_in(*SPLIT), some_wrong("gradients")),
    ),
)
OF_SPLIT = (*OF_CHUNKS, *_SPLIT)
_FROZEN = ("a first stage that is frozen", "a last stage that is frozen")
_AWKWARD = (
    Mistake(
        "others-wait",
        "Where a stage fails, the other ranks wait for ever for what it would have made. Go on with the row: send "
        "something of the right shape, and raise at the end.",
        recognise=hangs_in(*FAILS),
    ),
    Mistake(
        "error-is-lost",
        "A stage failed, and whoever called `step` on its rank was not told why. Raise what it raised, or a new error "
        "`from` it.",
        recognise=only_wrong("ended"),
    ),
    Mistake(
        "failed-step-stays",
        "The step after one that failed is wrong: something of that step was still there. Begin every step with empty "
        "dictionaries.",
        recognise=only_in(*FAILS),
    ),
    Mistake(
        "ties-count-twice",
        "One batch is right with tied weights. With two before a step, what the ranks have already added up is sent "
        "again. Send what *this* batch has added alone.",
        recognise=only_in(TIED[1]),
    ),
    Mistake(
        "ties-apart",
        "All is right but tied weights: the copies on two ranks are to get the sum of both gradients, once. Two places "
        "on one rank are one object, and autograd adds there.",
        recognise=only_in(*TIED),
    ),
    Mistake(
        "frozen-have-none",
        "All is right but frozen stages. An output that needs no gradient has no backward, and a list of no parameters "
        "none either.",
        recognise=by.wrong_first_in(*_FROZEN),
    ),
    Mistake(
        "rows-count-alike",
        "All is right but a last micro-batch of fewer rows. Its share of the batch's mean is its share of the rows, "
        "not 1/m.",
        recognise=only_in("a smaller last micro-batch"),
    ),
    Mistake(
        "one-dtype",
        "All is right but stages of two dtypes. A message has the dtype of the stage that it enters, as `room` has.",
        recognise=by.wrong_first_in("stages of two dtypes"),
    ),
    Mistake(
        "shared-between-objects",
        "One pipeline is right, and two at the same time are not. Something is kept in the class, in a global or in a "
        "default argument. Keep it in `self`.",
        recognise=only_in("two pipelines at the same time"),
    ),
    Mistake(
        "not-alone",
        "Right on several ranks, and not on one, which is first and last at the same time.",
        recognise=alone,
    ),
)
OF_AWKWARD = (*OF_SPLIT, *_AWKWARD)
