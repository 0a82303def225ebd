"""12.job: the usual mistakes by name. Those of a step are told in every later step as well, where they can show."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_04.tries import alone
from course_lib.learn.exercises.lesson_12.job import signs as by
from course_lib.learn.exercises.lesson_12.job.disk import WHEN_RETURNED
from course_lib.learn.judging.errors import hangs_in
from course_lib.learn.judging.report import both, is_not_waited_for, only_in, only_wrong, wrong_in

__all__ = ["OF_AWKWARD", "OF_CHECKPOINT", "OF_COST", "OF_FEWER", "OF_SAMPLES", "OF_TORN", "OF_VALUES"]

_DAMAGED = ("a checkpoint that was cut off", "a checkpoint with other bytes")

OF_VALUES = (
    Mistake(
        "another-factor",
        "The first loss is n times too large or too small, where n is the number of ranks or of samples. `loss_of` "
        "gives a sum; a step minimises the mean over the global batch. So each rank divides by the size of the "
        "*global* batch, and the ranks add up.",
        recognise=by.a_factor_off,
    ),
    Mistake(
        "each-its-own",
        "In the first step each rank has a loss of its own. The loss that a step returns, and the gradients that it "
        "uses, have to come from the samples of all ranks.",
        recognise=by.ranks_differ,
    ),
    Mistake(
        "gradients-pile-up",
        "The first step is right, and from the second on gradients of earlier steps are still there. Set them back.",
        recognise=by.trains_like("zero_grad"),
    ),
    Mistake(
        "schedule-stands-still",
        "The steps are those of a learning rate that never changes. The schedule steps once after each optimizer step.",
        recognise=by.trains_like("schedule_step"),
    ),
    Mistake(
        "seeds-for-all",
        "The values are right, but the seed of the process has changed. Draw from generators of your own.",
        recognise=only_wrong("kept"),
    ),
    Mistake(
        "not-waited-for",
        "A message was begun, and nobody waited for it.",
        recognise=is_not_waited_for,
    ),
)
_SAMPLES = (
    Mistake(
        "one-order",
        "The first epoch is right, but a later one has a wrong order. The seed of epoch e is `seed + e`, and `step` "
        "alone says which epoch it is.",
        recognise=by.later_epochs,
        shows=by.of_shares,
    ),
    Mistake(
        "a-sample-twice",
        "Two ranks have the same sample in a step. Ranks share out one global batch, in one order for all, and do not "
        "fill it up.",
        recognise=by.shares_say("two ranks have sample"),
        shows=by.of_shares,
    ),
    Mistake(
        "a-sample-is-lost",
        "No rank has one of the samples of the global batch. Samples that are left over, by the ranks or by the batch "
        "size, need a rank, too.",
        recognise=by.shares_say("no rank has sample"),
        shows=by.of_shares,
    ),
    Mistake(
        "uneven-shares",
        "Every sample has a rank, but one rank has at least two samples more than another. All wait for it.",
        recognise=by.shares_say("one rank has"),
        shows=by.of_shares,
    ),
    Mistake(
        "short-batches-count-whole",
        "The shares are right, and the first wrong loss is that of an epoch's last, smaller batch. Its mean is over "
        "the samples that it has.",
        recognise=by.first_wrong_loss(in_short=True),
    ),
    Mistake(
        "empty-lists-skipped",
        "The shares are right, and so are the losses up to the first short batch; the one after it is not. There a "
        "rank has no sample. It calls `loss_of` all the same, with an empty list, so that all draw alike.",
        recognise=both(by.first_wrong_loss(in_short=False), only_in("a last batch of one")),
    ),
)
OF_SAMPLES = (*OF_VALUES, *_SAMPLES)


def _without(part: str, name: str, message: str) -> Mistake:
    return Mistake(name, message, recognise=by.goes_on_without(part))


_CHECKPOINT = (
    Mistake(
        "nothing-there",
        "A job that was stopped begins again at step 0. `run` is to save after every `every` steps, and `resume` to "
        "load the newest checkpoint, also its step, and to return that.",
        recognise=by.finds_nothing,
    ),
    _without(
        "weights", "weights-afresh", "The job goes on with the weights of a new model. Load those that were saved."
    ),
    _without(
        "buffers",
        "buffers-afresh",
        "The job goes on as if the model's buffers were new. Parameters are not all that a model has.",
    ),
    _without(
        "optimizer",
        "optimizer-afresh",
        "The job goes on with an optimizer that has forgotten its steps: its averages begin with zeros.",
    ),
    _without(
        "schedule",
        "schedule-afresh",
        "The job goes on with a schedule that counts from the beginning. A schedule has a state, as an optimizer has.",
    ),
    _without(
        "random",
        "random-afresh",
        "The job goes on with the random numbers of the beginning. The state of `random` belongs in the checkpoint.",
    ),
    _without(
        "place",
        "epoch-again",
        "The job begins the epoch again, so it trains on some samples twice. The place in the epoch is part of the "
        "state; it follows from the step.",
    ),
)
OF_CHECKPOINT = (*OF_SAMPLES, *_CHECKPOINT)
_TORN = (
    Mistake(
        "returns-early",
        "On a rank `save` had returned, and the checkpoint was not there: it was not yet written. No rank may return "
        "before that, also where another rank or a thread writes.",
        recognise=by.killed(lambda run: run.of.endswith(WHEN_RETURNED)),
    ),
    Mistake(
        "name-order",
        "The save had returned, and an older checkpoint was found. Is `step_12` before or after `step_9` in the order "
        "of names? Compare numbers.",
        recognise=by.killed(lambda run: run.of.endswith("when it had returned")),
    ),
    Mistake(
        "not-synced",
        "The save had returned, then the power failed, and what was written had not reached the disk. Flush and fsync "
        "the file before it gets its name.",
        recognise=by.killed(by.names_say("the power failed")),
    ),
    Mistake(
        "written-in-place",
        "A kill came while a file was written, and half of a file was taken for a checkpoint. Write the file under a "
        "name that `resume` does not look for, and rename it when it is whole.",
        recognise=by.killed(by.names_say("as it wrote")),
    ),
    Mistake(
        "old-goes-first",
        "A kill came within the save, and neither the old checkpoint nor the new one was there. Remove what is old "
        "after the new one has its name.",
        recognise=by.killed(lambda run: isinstance(run.step, int) and run.step not in run.may_be),
    ),
    Mistake(
        "said-too-early",
        "A kill came within the save, and a checkpoint with missing parts counted as whole. Write the mark of a whole "
        "checkpoint last, when all ranks are done.",
        recognise=by.killed(by.names_say("as it began")),
    ),
    Mistake(
        "keeps-them-all",
        "Values are right, but old checkpoints stay for ever. Keep the last two.",
        recognise=both(only_wrong("stored"), by.stays_say("more than two")),
    ),
    Mistake(
        "keeps-one",
        "Values are right, but only the newest checkpoint stays. Keep the one before it as well: the newest may turn "
        "out to be damaged.",
        recognise=both(only_wrong("stored"), by.stays_say("less than two")),
    ),
)
OF_TORN = (*OF_CHECKPOINT, *_TORN)
_FEWER = (
    Mistake(
        "bound-to-ranks",
        "On the same number of ranks all is right. On another number the job does not go on as it did. Something in "
        "the checkpoint, or in how you find a step, belongs to a rank and not to the job.",
        recognise=only_in("another number of ranks"),
    ),
)
OF_FEWER = (*OF_TORN, *_FEWER)
_COST = (
    Mistake(
        "nobody-is-told",
        "A rank could not write, and the others went on as if all were safe. All ranks have to raise an error that "
        "says why.",
        recognise=by.told_says("as if all were well"),
    ),
    Mistake(
        "why-is-lost",
        "A rank could not write, and the error that came does not say why. Keep the words of the first error.",
        recognise=by.told_says("`save` raised"),
    ),
    Mistake(
        "others-wait",
        "A rank could not write, and the others wait for it for ever. After an error, too, it has to reach the same "
        "call as they do.",
        recognise=hangs_in("a larger model"),
    ),
    Mistake(
        "everybody-writes-all",
        "Values are right, but a save writes the state more than once. All ranks have the same state: one of them "
        "writes it, or each its part.",
        recognise=only_wrong("written"),
    ),
    Mistake(
        "sends-the-state",
        "Values are right, but a save sends what all ranks have already. They need to know only what became of the "
        "save.",
        recognise=only_wrong("sent"),
    ),
    Mistake(
        "barrier-each-step",
        "Values are right, but in a step ranks wait for each other twice: once in the all-reduce, once in a call that "
        "nothing needs.",
        recognise=only_wrong("others", "step_sent"),
    ),
)
OF_COST = (*OF_FEWER, *_COST)
_AWKWARD = (
    Mistake(
        "not-alone",
        "All is right on several ranks, and not on one.",
        recognise=alone,
    ),
    Mistake(
        "frozen-have-none",
        "All is right except with frozen weights. These have no gradient, and must not get one: with a gradient of "
        "zeros the optimizer's weight decay changes them. They are in the checkpoint all the same.",
        recognise=only_in("frozen weights"),
    ),
    Mistake(
        "tied-count-twice",
        "All is right except with tied weights. `state_dict()` has two names for one tensor; `parameters()` has it "
        "once.",
        recognise=only_in("tied weights"),
    ),
    Mistake(
        "needs-a-state",
        "All is right except with an optimizer that keeps nothing, or with a job without a schedule.",
        recognise=only_in("an optimizer without state"),
    ),
    Mistake(
        "needs-a-checkpoint",
        "Where there is no checkpoint, `resume` returns 0 and the job begins.",
        recognise=only_in("an empty folder"),
    ),
    Mistake(
        "trusts-the-bytes",
        "Your code notices a file that was cut off, but loads one with other bytes in its middle as if it were good. "
        "`torch.load` looks at no checksum; the archive has some (`zipfile`), or write your own.",
        recognise=only_in("a checkpoint with other bytes"),
    ),
    Mistake(
        "stops-at-damage",
        "The newest checkpoint is damaged, and the job does not go on with the one before it.",
        recognise=both(only_in(*_DAMAGED), lambda evidence: not only_wrong("said")(evidence)),
    ),
    Mistake(
        "says-nothing",
        "A damaged checkpoint was passed over without a message. Say which file it was, and which is used instead.",
        recognise=only_wrong("said"),
    ),
    Mistake(
        "takes-others-files",
        "All is right until files of others lie in the folder. Look for the names that you give, and remove no other.",
        recognise=only_in("files of others in the folder"),
    ),
    Mistake(
        "shared-between-jobs",
        "One job is right, and two at the same time are not. Usually something is kept in the class or in a default "
        "argument. Keep it in `self`.",
        recognise=both(only_in("two jobs at the same time", "a larger model"), wrong_in("two jobs at the same time")),
    ),
)
OF_AWKWARD = (*OF_COST, *_AWKWARD)
