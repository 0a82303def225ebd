"""05.zero: the usual mistakes by name. Those of a step are told in every later step as well, where they can show."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_05.zero import signs as by
from course_lib.learn.exercises.lesson_05.zero.cases import Steps
from course_lib.learn.judging.errors import error_says
from course_lib.learn.judging.report import is_not_waited_for, only_in, only_wrong

__all__ = ["OF_AWKWARD", "OF_BYTES", "OF_MEMORY", "OF_VALUES"]


def _times(factor: Callable[[int], float]) -> Callable[[str, int, int], Steps]:
    return lambda label, rank, world_size: by.scaled(factor, label, world_size)


def _n(world_size: int) -> float:
    return world_size


def _once_more(world_size: int) -> float:
    return 1 / world_size


_VALUES = (
    Mistake(
        "sum-not-mean",
        "The steps are those on the sum of the ranks' gradients. Each is a mean over its own rank's rows, so divide "
        "the sum by `me.world_size`. AdamW hides most of it; SGD does not.",
        recognise=by.goes_like(_times(_n)),
    ),
    Mistake(
        "divides-twice",
        "The gradients are divided by the number of ranks twice. One division makes the sum a mean; `ReduceOp.AVG` has "
        "done it already.",
        recognise=by.goes_like(_times(_once_more)),
    ),
    Mistake(
        "all-by-own-gradients",
        "Each rank steps on all weights by its own gradients, and the ranks drift apart: nothing comes from the "
        "others.",
        recognise=by.goes_like(by.own_gradients),
    ),
    Mistake(
        "own-gradients-for-own-part",
        "Each part is updated by the gradients of the rank that keeps it. What the other ranks' rows say about these "
        "weights is lost: sum up the parts first.",
        recognise=by.goes_like(by.own_part_by_own_gradients),
    ),
    Mistake(
        "gradients-of-rank-0",
        "All ranks agree, on the gradients of rank 0 alone. Sum those of all ranks.",
        recognise=by.goes_like(by.of_rank_alone),
    ),
    Mistake(
        "weights-stay-away",
        "This rank's part of the weights is right, and all others are as they were. What each rank has updated has to "
        "come to all: an all-gather, and then into the parameters.",
        recognise=by.goes_like(by.own_part_alone),
    ),
    Mistake(
        "states-afresh",
        "Each step goes as if it were the first: the states begin with zeros each time. Make the optimizer once, in "
        "`__init__`, and keep it.",
        recognise=by.goes_like(by.afresh),
    ),
    Mistake(
        "gradients-pile-up",
        "Each step goes by its own gradients and by those of all steps before. The gradient of your own part is added "
        "to, and nobody sets it back.",
        recognise=by.goes_like(by.piled_up),
    ),
    Mistake(
        "loses-the-defaults",
        "The steps are those of the optimizer with settings of its own, where others were given. Hand `**defaults` on "
        "to `optimizer_class`.",
        recognise=lambda e: any(by.goes_like(by.by_defaults_of_the_class(*kept))(e) for kept in ((), ("lr",))),
    ),
    Mistake(
        "always-adamw",
        "AdamW is made whatever class was given, and it knows nothing of SGD's `momentum`. Make an object of "
        "`optimizer_class`.",
        recognise=error_says("'momentum'"),
    ),
    Mistake(
        "not-waited-for",
        "A call was begun with `async_op=True`, and nobody waited for it. Keep what the call returns, and call its "
        "`wait()` before you read the tensor.",
        recognise=is_not_waited_for,
    ),
)
_BYTES = (
    Mistake(
        "all-reduces-weights",
        "The weights are right, and their parts come together by an all-reduce. One rank alone has each number, and "
        "there is nothing to add: an all-gather sends half as much.",
        recognise=lambda e: (
            by.sends_too_much(e)
            and by.calls(
                lambda names: (
                    "all_reduce" in names
                    and any("reduce_scatter" in name for name in names)
                    and not any("all_gather" in name for name in names)
                )
            )(e)
        ),
    ),
    Mistake(
        "all-reduces",
        "The weights are right, and whole gradients were all-reduced. A rank needs its own part of the mean alone. So "
        "the second half of that all-reduce is sent for nothing: a reduce-scatter will do.",
        recognise=lambda e: by.sends_too_much(e) and by.calls(lambda names: "all_reduce" in names)(e),
    ),
    Mistake(
        "sends-besides",
        "The weights are right, and a step makes a call that nothing needs: a barrier, an object that is sent, a flag.",
        recognise=by.calls(
            lambda names: bool({"barrier", "all_gather_object", "broadcast_object_list", "all_reduce"} & {*names})
        ),
    ),
    Mistake(
        "a-broadcast-a-part",
        "The weights are right, and each rank sends its part by a call of its own. An all-gather is all of these at "
        "once, and no rank waits for the one before.",
        recognise=by.calls(lambda names: bool({"broadcast", "reduce"} & {*names})),
    ),
    Mistake(
        "a-call-a-parameter",
        "The weights are right, and each parameter travels in calls of its own. Lay all of them in one flat tensor, "
        "and cut that: one reduce-scatter and one all-gather.",
        recognise=by.calls_each_parameter,
    ),
    Mistake(
        "more-than-two",
        "The weights are right, and a step makes more calls than two. One reduce-scatter is enough for the gradients, "
        "one all-gather for the weights, and what is the same in every step need not be sent again.",
        recognise=by.calls(lambda names: len(names) > 2),
    ),
)
_MEMORY = (
    Mistake(
        "states-of-everything",
        "The weights are right, and every rank keeps the states of all numbers. Nothing is saved: give the inner "
        "optimizer a parameter that has this rank's part alone.",
        recognise=by.keeps_all_states,
    ),
    Mistake(
        "keeps-the-whole",
        "The weights are right, and between two steps this rank keeps more than its part beside the model. It is a "
        "flat tensor of all gradients or weights, or a view of one. A view holds the whole storage; `clone()` does "
        "not.",
        recognise=only_wrong("parts"),
    ),
    Mistake(
        "grows",
        "The weights are right, and each step leaves more in memory than the one before. Is there a list that is only "
        "ever added to?",
        recognise=only_wrong("parts", "growth"),
    ),
)
_AWKWARD = (
    Mistake(
        "frozen-have-none",
        "A frozen parameter was treated like the others. It has no gradient and is not to move, by weight decay "
        "either: take those that have `requires_grad`.",
        recognise=only_in("frozen parameters"),
    ),
    Mistake(
        "unused-have-none",
        "A parameter that a rank does not use has `None` for its gradient there, and the others wait for that rank's "
        "part. It has something to say: zeros.",
        recognise=only_in("a parameter that odd ranks do not use"),
    ),
    Mistake(
        "sent-wider",
        "All is right but what a model of two dtypes sends. Some of its numbers travel in a wider dtype than they "
        "have, or more than once. Keep a part for each dtype, and send each in its own.",
        recognise=lambda e: by.sends_too_much(e) and only_in("two dtypes")(e),
    ),
    Mistake(
        "rate-of-one-dtype",
        "A schedule sets `lr` in your `param_groups`, and the weights of one dtype do not follow. Give one optimizer "
        "the parts of all dtypes, or show the groups of all that you have.",
        recognise=only_in("two dtypes, and a learning rate that changes"),
    ),
    Mistake(
        "mixes-dtypes",
        "All is right but a model of two dtypes. A flat tensor has one: with float32 the float64 weights lose digits, "
        "and the parts of another dtype do not fit. Keep a part for each dtype.",
        recognise=only_in("two dtypes", "two dtypes, and a learning rate that changes"),
    ),
    Mistake(
        "writes-to-a-copy",
        "All is right but weights that are not contiguous. `view` refuses them, and `flatten` or `reshape` copies: "
        "what is written there does not come to the weight. `parameter.copy_(...)` takes any layout.",
        recognise=only_in("weights that are not contiguous"),
    ),
    Mistake(
        "rate-is-fixed",
        "A schedule sets `lr` in your `param_groups` between two steps, and the steps do not follow. Show the list of "
        "the optimizer that does the work, the very one.",
        recognise=only_in("a learning rate that changes", "two dtypes, and a learning rate that changes"),
    ),
    Mistake(
        "shared-between-objects",
        "One optimizer is right, and two at the same time are not. What belongs to one of them stands in the class, or "
        "in a name outside of it: bind it to `self`.",
        recognise=only_in("two models at the same time"),
    ),
)
OF_VALUES = _VALUES
OF_BYTES = (*_VALUES, *_BYTES)
OF_MEMORY = (*OF_BYTES, *_MEMORY)
OF_AWKWARD = (*OF_MEMORY, *_AWKWARD)
