"""Usual wrong answers to 05.optimizer, each by name and with a sentence."""

from __future__ import annotations

from functools import partial

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_05.optimizer import models, told
from course_lib.learn.judging.report import is_not_waited_for, only_wrong

__all__ = ["MISTAKES"]


_OF_THE_GRADIENTS = (
    Mistake(
        "sum-not-mean",
        "AdamW stepped on the sum of the ranks' gradients. Each is the mean over its own rank's examples, so what is "
        "wanted is their mean: divide by `me.world_size`. (AdamW divides by the size of its gradients, so you would "
        "hardly see it. Only numbers whose gradients are about as small as `eps` move otherwise. With clipping, or "
        "with SGD, the difference is large.)",
        recognise=told.goes_like(partial(models.scaled, models.summed)),
    ),
    Mistake(
        "divides-twice",
        "The gradients are divided by the number of ranks twice. One division makes the sum a mean; `ReduceOp.AVG` has "
        "done it already.",
        recognise=told.goes_like(partial(models.scaled, models.divided_twice)),
    ),
    Mistake(
        "divides-by-a-constant",
        "You divide by the same number whether there are two ranks, three, four or five. Each time the mean takes "
        "another one: `me.world_size`.",
        recognise=told.divides_by_a_constant,
    ),
    Mistake(
        "own-gradients-for-own-part",
        "Each part is updated by the gradients of one rank alone, the one that keeps it. What the other ranks' "
        "examples say about these weights is lost. Sum the parts up first, by a reduce-scatter.",
        recognise=told.goes_like(models.own_gradients_for_own_part),
    ),
    Mistake(
        "all-by-own-gradients",
        "Each rank steps on all weights by its own gradients, and the ranks drift apart: neither gradients nor weights "
        "come from the others.",
        recognise=told.goes_like(models.all_by_own_gradients),
    ),
    Mistake(
        "gradients-of-rank-0",
        "All ranks agree, on the gradients of rank 0 alone. Sum those of all ranks.",
        recognise=told.goes_like(models.of_rank_0),
    ),
    Mistake(
        "averages-the-weights",
        "Each rank steps by its own gradients, and then the weights are averaged. AdamW divides by the size of a "
        "gradient, so the mean of its steps is not its step on the mean. Average the gradients, before the step.",
        recognise=told.goes_like(models.mean_of_weights),
    ),
    Mistake(
        "gradients-pile-up",
        "Each step goes by its own gradients and by those of all steps before. The gradient of your own part is added "
        "to, and nobody sets it back. Write the new one over it, or call `zero_grad()` on your optimizer.",
        recognise=told.goes_like(models.piled_up),
    ),
)

_OF_THE_STEP = (
    Mistake(
        "states-afresh",
        "Each step goes as if it were the first: AdamW's states begin with zeros each time. Make the optimizer once, "
        "in `__init__`, and keep it.",
        recognise=told.goes_like(models.with_states_afresh),
    ),
    Mistake(
        "adam-not-adamw",
        "These are the steps of Adam. AdamW also makes each weight a little smaller in every step (`weight_decay`, "
        "0.01 by default).",
        recognise=told.goes_like(models.by_adam),
    ),
    Mistake(
        "loses-the-rate",
        "The steps are those of AdamW with another learning rate than the `lr` that was given, the same in every case. "
        "(1e-3 is what AdamW takes where none is given to it.)",
        recognise=told.at_another_rate,
    ),
)

_OF_THE_PARTS = (
    Mistake(
        "never-moves",
        "The parameters that were given never change. Either nothing is updated (AdamW leaves out what has no "
        "`.grad`). Or what is updated is a copy, and nobody writes it back into the parameters themselves.",
        recognise=told.goes_like(models.never_moved),
    ),
    Mistake(
        "one-step-late",
        "After each step the weights are those of the step before. Usually the parts are gathered before AdamW has "
        "updated them: step first, then gather.",
        recognise=told.goes_like(models.one_step_late),
    ),
    Mistake(
        "never-gathers",
        "On each rank some numbers are right after the first step, and all others are the old ones. A rank updates its "
        "own part, and what the others have updated does not come to it. Gather the parts on every rank.",
        recognise=told.only_own_part_moves,
    ),
    Mistake(
        "own-part-stays",
        "What the other ranks have updated is right, and each rank's own part is the old one. What this rank has "
        "updated has to come into its own parameters, too.",
        recognise=told.own_part_stays,
    ),
    Mistake(
        "last-numbers-stay",
        "Where sizes divide by the number of ranks all is right, and where they do not the last numbers keep their old "
        "values. They belong to nobody. Fill the last part up, as `packed` does.",
        recognise=told.last_numbers_stay,
    ),
    Mistake(
        "one-part-repeated",
        "After a step all parts of the weights are the same, those of one rank. Usually the list for the all-gather "
        "names one tensor n times, as `[part] * n` does, and what came last stands in all places. "
        "`list(weights.chunk(n))` are n places in one row.",
        recognise=told.one_part_in_all_places,
    ),
    Mistake(
        "parts-mixed-up",
        "The parts are not where they belong: one part holds the weights of another, or went by the gradients of "
        "another. Part r of the weights, part r of the gradients and rank r go together. An all-gather gives the "
        "parts in the order of the ranks.",
        recognise=told.parts_elsewhere,
    ),
    Mistake(
        "not-in-a-row",
        "PyTorch stopped your code over the shape of what a collective was given. gloo wants the parts of all ranks in "
        "one row, n times as long as one part. `packed` gives such a row, and `.flatten()` makes one of a table of "
        "parts.",
        recognise=told.wants_a_row,
    ),
    Mistake(
        "needs-to-divide",
        "Where the numbers divide by the ranks all is right; where they do not, PyTorch stops your code over their "
        "sizes. All parts have to be equal: zeros fill the last one up, as `packed` does.",
        recognise=told.stops_where_sizes_do_not_divide,
    ),
)

_OF_THE_COST = (
    Mistake(
        "one-for-all-objects",
        "Every step of one object is right. When a second object has been made, for another model, their steps go "
        "wrong. What one of them keeps has taken the place of what the other kept. Usually that is an attribute of the "
        "class, or a global, of which there is one for all objects. `self` has a place for each.",
        recognise=only_wrong("second"),
    ),
    Mistake(
        "rank-0-does-it-all",
        "The weights are right, and rank 0 does all the work: it alone keeps states, of all numbers, and the others "
        "take what it sends. Let each rank update 1/n of the numbers.",
        recognise=told.rank_0_does_it,
    ),
    Mistake(
        "states-of-everything",
        "The weights are right, and every rank keeps AdamW's states of all numbers, as in DDP. Give AdamW this rank's "
        "part alone: a parameter of your own, with 1/n of the numbers.",
        recognise=told.keeps_whole_states,
    ),
    Mistake(
        "all-reduce-and-all-gather",
        "The weights are right, and more is sent than has to be. An all-reduce brings every rank the mean of all "
        "gradients, and a rank needs that of its own part alone, by a reduce-scatter.",
        recognise=told.all_reduces_and_gathers,
    ),
    Mistake(
        "gathers-all-gradients",
        "The weights are right, and each rank sends all of its gradients to every other one, to be added up there. A "
        "reduce-scatter adds on the way.",
        recognise=told.gathers_all_gradients,
    ),
    Mistake(
        "keeps-more-and-more",
        "The weights are right, and with every step your object keeps more: something is put into a list or a dict, "
        "and never taken out.",
        recognise=told.keeps_more_each_step,
    ),
    Mistake(
        "deals-out-tensors",
        "The weights are right, and one rank keeps more than belongs to a part, while another keeps next to nothing. "
        "Usually whole tensors were dealt out, and one of them is larger than the others together. Cut the row of all "
        "numbers into equal parts, as `packed` does.",
        recognise=told.keep_unlike,
    ),
    Mistake(
        "keeps-something-whole",
        "The weights are right, and between two steps each rank keeps more beside the model than belongs to its part. "
        "Usually it is an attribute that holds all gradients or all gathered weights, or states of all numbers. What "
        "only `step` needs should end with it. A chunk is a view, too: who keeps one keeps the whole row, until it is "
        "cloned.",
        recognise=told.keeps_something_whole,
    ),
)

MISTAKES = (
    Mistake(
        "not-waited",
        "A collective was begun with `async_op=True`, and nobody waited for it. It goes on while your code does, so "
        "what stands in its tensor at that moment is chance. Keep what `dist` returns, and call its `wait()` before "
        "the tensor is used.",
        recognise=is_not_waited_for,
    ),
    *_OF_THE_GRADIENTS,
    *_OF_THE_STEP,
    *_OF_THE_PARTS,
    *_OF_THE_COST,
)
