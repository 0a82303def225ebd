"""09.mesh: the usual mistakes by name. Those of a step are told in every later step as well, where they can show."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_04.tries import alone
from course_lib.learn.exercises.lesson_09.mesh import signs as by
from course_lib.learn.exercises.lesson_09.mesh.cases import CHECKPOINT, SITUATIONS
from course_lib.learn.judging.errors import is_deadlock, raised_first_in
from course_lib.learn.judging.report import both, is_not_waited_for, only_in, only_wrong, wrong_in

__all__ = [
    "OF_AWKWARD",
    "OF_CHECKPOINT",
    "OF_MESSAGES",
    "OF_NORM",
    "OF_SHARDS",
    "OF_STAGES",
    "OF_VALUES",
]

_ON_OTHERS = tuple(label for label in CHECKPOINT if SITUATIONS[label].other != SITUATIONS[label].axes)
_TIED = tuple(label for label, one in SITUATIONS.items() if one.config.tied)
_FROZEN = tuple(label for label, one in SITUATIONS.items() if one.frozen)
_UNEVEN = ("a batch that does not divide", "sizes that do not divide")

OF_VALUES = (
    Mistake(
        "no-pair",
        "`step` does not give two numbers. It has to give the loss of the whole batch and the gradient's norm. Up to "
        "step 4 the norm may be None.",
        recognise=by.is_no_pair,
    ),
    Mistake(
        "another-part",
        "Before the first step a rank does not have the right `parts`. Stages come from the whole model's sizes, "
        "before it is split. Along tp a rank has its slice, along pp its stage, under the model's names.",
        recognise=by.begins_elsewhere,
    ),
    Mistake(
        "own-share",
        "Each rank of dp_shard gives the loss of its own rows. All have to give the mean of these losses.",
        recognise=by.has_its_own_loss,
    ),
    Mistake(
        "a-factor",
        "The first loss is a whole number of times too large or too small. Which ranks have a loss, and which of them "
        "have the same one?",
        recognise=by.factor_of_loss,
    ),
    Mistake(
        "sum-not-mean",
        "The first loss is right. The next steps are as if gradients were n times too large, with n ranks along "
        "dp_shard. The loss is a mean over the whole batch, and so its gradient is.",
        recognise=by.trains_like("times", lambda one: one.mesh(4).size("dp_shard")),
    ),
    Mistake(
        "divides-twice",
        "The first loss is right. The next steps are as if gradients were n times too small, with n ranks along "
        "dp_shard. Where each rank's loss is divided by the rows of the whole batch, gradients are summed.",
        recognise=by.trains_like("times", lambda one: 1 / one.mesh(4).size("dp_shard")),
    ),
    Mistake(
        "copies-summed",
        "The first loss is right. The next steps are as if gradients of norms, positions and other whole weights were "
        "n times too large, with n ranks along tp. `split_transformer` has made these complete on each rank.",
        recognise=by.trains_like("copies", lambda one: one.mesh(4).size("tp")),
    ),
    Mistake(
        "gradients-pile-up",
        "The first step is right, and in the later ones gradients of earlier steps are still there. Set them back.",
        recognise=by.trains_like("piled", lambda _: 1.0, lambda one: one.mesh(4).size("dp_shard")),
    ),
    Mistake(
        "replicas-drift",
        "After the last step ranks along dp_shard hold different numbers under one name. After every step each needs "
        "the same weights, those of one process.",
        recognise=by.copies_differ,
    ),
    Mistake(
        "not-waited-for",
        "A message was begun, and nobody waited for it.",
        recognise=is_not_waited_for,
    ),
)
_STAGES = (
    Mistake(
        "none-but-the-last",
        "The ranks of the last stage give the right loss, and those before it give 0 or None. Every rank gives it.",
        recognise=by.has_loss_at_the_end_alone,
    ),
    Mistake(
        "micro-batches-add-up",
        "The first loss is right. The next steps are as if gradients were n times too large, with n micro-batches. "
        "Weight a micro-batch's loss by its share of the batch's rows, also for the backward pass.",
        recognise=by.trains_like("times", lambda one: one.num_micro_batches),
    ),
    Mistake(
        "ranks-wait",
        "Ranks wait for each other. Write down for each rank its sends, receives and collectives in order. For every "
        "send there is a receive, and all ranks of a group come to a collective.",
        recognise=is_deadlock,
    ),
)
OF_STAGES = (*OF_VALUES, *_STAGES)
_SHARDS = (
    Mistake(
        "states-on-all",
        "All values are right, but a rank holds more numbers than shares of the states need. Along dp_shard each rank "
        "steps its own share of the weights, and hands it on. A view keeps its whole vector in memory.",
        recognise=only_wrong("held"),
    ),
)
OF_SHARDS = (*OF_STAGES, *_SHARDS)
_MESSAGES = (
    Mistake(
        "gradients-to-all",
        "All values are right, but more bytes go along dp_shard than needed. A rank steps its own share: of which "
        "gradients does it need the sum?",
        recognise=by.sends_more_along("dp_shard"),
    ),
    Mistake(
        "talks-along-tp",
        "All values are right, but more bytes go along tp than the gates of `split_transformer` and the loss send.",
        recognise=by.sends_more_along("tp"),
    ),
    Mistake(
        "talks-along-pp",
        "All values are right, but more bytes go along pp than the activations of this rank's rows, and their "
        "gradients.",
        recognise=by.sends_more_along("pp"),
    ),
    Mistake(
        "talks-to-all",
        "All values are right, but a rank sends many bytes in calls that are not along a single axis. All ranks share "
        "the loss and the norm, which are two numbers.",
        recognise=by.sends_more_along("all"),
    ),
)
OF_MESSAGES = (*OF_SHARDS, *_MESSAGES)
_NORM = (
    Mistake(
        "copies-counted",
        "The first norm is as if a weight were counted by each rank that has a copy of it. Along which axes is it cut, "
        "and along which is it copied?",
        recognise=by.copies_are_counted,
    ),
    Mistake(
        "own-norm",
        "Norms differ between ranks, and each is smaller than the whole. The squares of all axes belong in one sum.",
        recognise=by.has_a_norm_of_its_own,
    ),
    Mistake(
        "norm-after-the-clip",
        "With a limit, `step` gives the limit as the norm. It has to give the norm before clipping.",
        recognise=by.norm_after_the_clip,
    ),
    Mistake(
        "no-limit",
        "Norms of the first step are right. The next steps are as if there were no limit.",
        recognise=both(by.trains_like("free"), by.first_norms_are_right),
    ),
    Mistake(
        "another-factor",
        "Without a limit all is right. With one the first norm is right, too, and what comes after is not. All "
        "gradients get one factor, as in `clip_grad_norm_`, and before the optimizer's step.",
        recognise=by.limits_otherwise,
    ),
)
OF_NORM = (*OF_MESSAGES, *_NORM)
_CHECKPOINT = (
    Mistake(
        "weights-afresh",
        "After loading, training goes on with the weights of the new model. Load those that were saved.",
        recognise=by.trains_like("weights"),
    ),
    Mistake(
        "states-afresh",
        "After loading, training goes on as if the optimizer had forgotten all steps. Its states belong in the "
        "checkpoint.",
        recognise=by.trains_like("states"),
    ),
    Mistake(
        "count-afresh",
        "After loading, training goes on as if AdamW had its averages, but had forgotten how many steps it has done.",
        recognise=by.trains_like("count"),
    ),
    Mistake(
        "everybody-writes",
        "Training goes on well, but the folder has more bytes than weights and states. Which rank writes what several "
        "ranks hold?",
        recognise=only_wrong("written"),
    ),
    Mistake(
        "bound-to-its-mesh",
        "On the mesh that saved the checkpoint all is right. On another mesh it is not. A checkpoint has whole "
        "parameters by the model's names, or says of each piece where it belongs.",
        recognise=only_in(*_ON_OTHERS),
    ),
    Mistake(
        "old-share",
        "The first loss after loading is right, and what comes after that is not. What does the next step read besides "
        "`parts`?",
        recognise=by.goes_wrong_after_the_checkpoint,
    ),
)
OF_CHECKPOINT = (*OF_NORM, *_CHECKPOINT)
OF_AWKWARD = (
    *(one for one in OF_CHECKPOINT if one.name != "bound-to-its-mesh"),  # no case there loads on the same mesh
    Mistake(
        "ends-count-twice",
        "The norm is as if a tied matrix were counted at both ends of the pipeline. It is one matrix.",
        recognise=by.ends_are_counted,
    ),
    Mistake(
        "ends-apart",
        "All is right except with one matrix for tokens and scores, and there the first loss is right. Each end of "
        "the pipeline has a part of that gradient, and both copies need the sum.",
        recognise=both(only_in(*_TIED), by.steps_go_wrong),
    ),
    Mistake(
        "a-stage-learns-nothing",
        "Your trainer ends with an error where all weights of a stage are frozen. There is no gradient in that stage, "
        "and the optimizer has nothing to step.",
        recognise=raised_first_in("a frozen stage"),
    ),
    Mistake(
        "frozen-weights",
        "All is right except with frozen weights. They have no gradient, no state and no step, and they belong in the "
        "checkpoint.",
        recognise=only_in(*_FROZEN),
    ),
    Mistake(
        "shares-count-alike",
        "All is right except with batches that do not divide. A share or a micro-batch with fewer rows counts less in "
        "the mean.",
        recognise=both(only_in(*_UNEVEN), wrong_in(_UNEVEN[0])),
    ),
    Mistake(
        "needs-states",
        "All is right except with an optimizer that has no states. Its `state` is empty, also after a step.",
        recognise=only_in("an optimizer without states"),
    ),
    Mistake(
        "not-alone",
        "On four ranks all is right, and on one it is not. An axis of size 1 has a group of one rank.",
        recognise=alone,
    ),
)
