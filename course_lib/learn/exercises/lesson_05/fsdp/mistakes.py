"""05.fsdp: the usual mistakes by name. Those of a step are told in every later step as well, where they can show."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_04.tries import alone
from course_lib.learn.exercises.lesson_05.fsdp import signs as by
from course_lib.learn.judging.errors import error_says
from course_lib.learn.judging.report import both, is_not_waited_for, only_in, only_wrong, some_wrong

__all__ = ["OF_AWKWARD", "OF_BYTES", "OF_MEMORY", "OF_PREFETCH", "OF_TOOLS", "OF_VALUES"]

_LOADED = ("weights of another run", "buffers")
_ORDER = ("ahead", "ahead_back")

OF_VALUES = (
    Mistake(
        "parameters-are-whole",
        "`parameters()` of your wrapper have more numbers than this rank's part. An optimizer would make states for "
        "all of them. Which parameters does the module still have of its own?",
        recognise=by.keeps_whole_parameters,
    ),
    Mistake(
        "sum-not-mean",
        "The first step goes as many times too far as there are ranks: the parts have sums of the ranks' gradients. "
        "Each loss is a mean over its own rank's rows, so divide by `me.world_size`.",
        recognise=by.sums_not_means,
    ),
    Mistake(
        "asks-for-no-sum",
        "The weights are not those of one process, and forward and backward made no call that sums over ranks. What "
        "the other ranks' rows say about this rank's part has to come to it: a reduce-scatter.",
        recognise=by.asks_for_no_sum,
    ),
    Mistake(
        "computes-with-old-weights",
        "The losses of all steps are those of the weights before the first step: forward computes with weights that "
        "are out of date. Gather the parts anew in each forward.",
        recognise=by.uses_old_weights,
    ),
    Mistake(
        "forgets-the-rest",
        "A model whose units hold all of its parameters is right. Where some stand outside of all units, it is not. "
        "They are one more unit, whole from the first moment of forward to the last one.",
        recognise=only_in("blocks, and a rest"),
    ),
    Mistake(
        "drops-keywords",
        "A module with an input that is given by name was not called with it. `forward(self, *args, **kwargs)` hands "
        "on both.",
        recognise=error_says("keyword argument", "scale"),
    ),
    Mistake(
        "other-names",
        "The losses are right, and `full_state_dict()` has other names than the plain model's `state_dict()`. The "
        "program that loads the file knows nothing of your wrapper.",
        recognise=both(some_wrong("names"), only_wrong("names", "begin", "weights")),
    ),
    Mistake(
        "not-waited-for",
        "A call was begun with `async_op=True`, and nobody waited for it. Keep what the call returns, and call its "
        "`wait()` before you read the tensor.",
        recognise=is_not_waited_for,
    ),
    Mistake(
        "emptied-too-soon",
        "The process of a rank has ended in the middle of its work (SIGSEGV). That happens where memory goes while a "
        "call still writes to it. Is every all-gather waited for before its storage is emptied, also one that turned "
        "out not to be needed?",
        recognise=error_says("SIGSEGV"),
    ),
)
_BYTES = (
    Mistake(
        "all-reduces",
        "The values are right, and whole gradients were all-reduced. A rank needs its own part of the mean alone: a "
        "reduce-scatter is half of that.",
        recognise=by.calls(lambda names, _: "all_reduce" in names),
    ),
    Mistake(
        "sends-besides",
        "The values are right, and a step makes a call that nothing needs: a barrier, or an object that is sent.",
        recognise=by.calls(lambda names, _: bool({"barrier", "all_gather_object", "broadcast_object_list"} & {*names})),
    ),
    Mistake(
        "gathers-too-often",
        "The values are right, and some unit is gathered more than twice in a step. Once before its forward and once "
        "before its backward will do.",
        recognise=by.calls(
            lambda names, units: _count(names, "gather") > 2 * units and _count(names, "reduce") <= units
        ),
    ),
    Mistake(
        "a-call-a-parameter",
        "The values are right, and a unit's parameters travel in several calls. Lay the numbers of a unit in one row, "
        "and cut that.",
        recognise=by.calls(lambda names, units: len(names) > 3 * units),
    ),
)
_MEMORY = (
    Mistake(
        "whole-at-rest",
        "The values are right. Between two steps at least one whole model lies in memory on this rank. Does the module "
        "that you were given still have its weights, or did a row keep its memory?",
        recognise=by.is_whole_at_rest,
    ),
    Mistake(
        "whole-until-backward",
        "The values are right, and nothing whole stays between two steps. After forward some units are still whole, "
        "and wait for their backward. Autograd has saved their weights, and holds them. What lies under a tensor can "
        "go while the tensor stays.",
        recognise=both(some_wrong("between"), only_wrong("between", "fullest", "evaluated", *_ORDER)),
    ),
    Mistake(
        "whole-units-pile-up",
        "The values are right, and after forward and between steps only parts are in memory. While the layers compute "
        "more units are whole at a time than two, or the whole gradients of several stay. Let go of a unit when its "
        "forward is over, and of its weights and gradients when its gradients have come.",
        recognise=both(some_wrong("fullest"), only_wrong("fullest", *_ORDER)),
    ),
    Mistake(
        "whole-without-backward",
        "The values are right, and what is whole goes in time while a model learns. After a forward pass under "
        "`torch.no_grad()` it stays: no backward comes, and a unit is to go all the same.",
        recognise=only_wrong("evaluated"),
    ),
    Mistake(
        "grows",
        "The values are right, and each step leaves more in memory than the one before. Is there a list that is only "
        "ever added to, or a hook that is registered again in each forward?",
        recognise=both(some_wrong("growth"), only_wrong("growth", "rest", "between", "fullest", "evaluated", *_ORDER)),
    ),
)
_PREFETCH = (
    Mistake(
        "waits-at-once",
        "The all-gathers begin early enough, and somebody waits for them before they are needed: that is time in which "
        "this unit could compute. Start those that come next, and wait for this unit's own alone.",
        recognise=by.ahead(lambda due, came: came[0] == due[0] and came[1] > due[1], of=_ORDER),
    ),
    Mistake(
        "only-in-forward",
        "In forward the all-gathers begin ahead of their time, and in backward they do not. There the unit that comes "
        "next is the one before.",
        recognise=only_wrong("ahead_back"),
    ),
    Mistake(
        "too-far-ahead",
        "More all-gathers have begun than `prefetch` says, and each is a whole unit in memory.",
        recognise=by.ahead(lambda due, came: came[0] > due[0], of=_ORDER),
    ),
    Mistake(
        "begins-when-needed",
        "The values are right, and an all-gather begins later than it could. When a unit computes, those of the next "
        "`prefetch` units are to be under way. Begin them with `async_op=True` before you wait for this unit's own.",
        recognise=by.ahead(lambda due, came: came[0] < due[0], of=_ORDER),
    ),
)
_TOOLS = (
    Mistake(
        "reading-changes",
        "`full_state_dict` was called between backward and step, and after it the parts or their gradients were not "
        "what they were. It is to read, and to change nothing.",
        recognise=some_wrong("read"),
    ),
    Mistake(
        "spoils-the-state",
        "The model is right after `load_full_state_dict`, and the state that it was given is not what it was. Somebody "
        "may load it once more: take copies, of buffers too, and leave the state as it is.",
        recognise=only_wrong("given"),
    ),
    Mistake(
        "parts-are-replaced",
        "After `load_full_state_dict` `parameters()` gives other objects than before. An optimizer that was made "
        "before it would step on parts that nobody computes with: write into the parts that are there.",
        recognise=only_wrong("same"),
    ),
    Mistake(
        "keeps-what-was-whole",
        "The values are right. After a state was read and loaded, this rank holds far more than its parts. A part that "
        "is a view of a row keeps the whole row; so does whatever keeps the state.",
        recognise=only_wrong("held"),
    ),
    Mistake(
        "norm-is-no-tensor",
        "What `clip_grad_norm_` gave is no finite tensor of no dimensions. `nn.utils.clip_grad_norm_` gives one, and "
        "whoever takes your wrapper in its place calls `.item()` on it.",
        recognise=by.norm_is_no_number,
    ),
    Mistake(
        "norm-of-its-own",
        "`clip_grad_norm_` gave each rank another norm: that of its own part. The square of the model's norm is the "
        "sum of the squares of all parts, over all ranks.",
        recognise=both(by.without_error_in("a clip"), by.first_norms(agree=False)),
    ),
    Mistake(
        "another-norm",
        "All ranks agree on the norm that `clip_grad_norm_` gives, and it is not the model's. Add up squares, over "
        "parts and over ranks, and take the root once, at the end.",
        recognise=both(by.without_error_in("a clip"), by.first_norms(agree=True)),
    ),
    Mistake(
        "clips-otherwise",
        "The norm is right, and what the gradients are after it is not. Where the norm is above `max_norm`, each is "
        "to be scaled by `max_norm / norm`, in place; below it, none.",
        recognise=by.without_error_in("a clip"),
    ),
    Mistake(
        "loads-otherwise",
        "After `load_full_state_dict` the model is not the one that was saved. The state has whole tensors and whole "
        "buffers, of a run on another number of ranks. Cut each row of it as `__init__` cuts the model's.",
        recognise=both(by.without_error_in(*_LOADED), some_wrong("begin")),
    ),
)
_AWKWARD = (
    Mistake(
        "frozen-move",
        "All is right but frozen parameters. They travel and compute like the others, and no optimizer is to move "
        "them: keep a row of their own, whose part has `requires_grad=False`.",
        recognise=only_in("frozen parameters"),
    ),
    Mistake(
        "mixes-dtypes",
        "All is right but a unit of two dtypes. A row has one: keep a row for each dtype of a unit.",
        recognise=only_in("two dtypes in a unit"),
    ),
    Mistake(
        "tied-are-two",
        "All is right but weights that stand in two places of the model. They are one parameter: it has one place in "
        "one row, and both of its places see that tensor.",
        recognise=only_in("tied weights"),
    ),
    Mistake(
        "unused-have-none",
        "All is right but a unit of which odd ranks use a part. What a rank does not use has zeros to say: the row of "
        "gradients has a place for it all the same.",
        recognise=only_in("a layer that odd ranks do not use"),
    ),
    Mistake(
        "one-use-at-a-time",
        "All is right while a unit has one forward and then its backward. With two forward passes before the backward, "
        "or two uses in one pass, it is not. What belongs to one use is kept in the unit.",
        recognise=only_in(
            "two forward passes, and one backward",
            "a unit that gives two tensors, twice",
            "two backward passes, and one step",
        ),
    ),
    Mistake(
        "stays-after-an-error",
        "All is right until a forward pass ends with an error. The next one meets what the failed one has left: let go "
        "of whole units then, too (`always_call=True`, or `finally`).",
        recognise=only_in("an error in forward"),
    ),
    Mistake(
        "copies-of-its-own",
        "All is right but weights that are not contiguous: a copy in another order was cut, or written to.",
        recognise=only_in("weights that are not contiguous"),
    ),
    Mistake(
        "shared-between-objects",
        "One model is right, and two at the same time are not. What belongs to one object is kept in the class, in a "
        "global or in a default argument. Keep it in `self`.",
        recognise=only_in("two models at the same time"),
    ),
    Mistake(
        "not-alone",
        "Right on three ranks, and not on one. There the part is the whole row, and the same code is to serve.",
        recognise=alone,
    ),
)
OF_BYTES = (*OF_VALUES, *_BYTES)
OF_MEMORY = (*OF_BYTES, *_MEMORY)
OF_PREFETCH = (*OF_MEMORY, *_PREFETCH)
OF_TOOLS = (*OF_PREFETCH, *_TOOLS)
OF_AWKWARD = (*OF_TOOLS, *_AWKWARD)


def _count(names: tuple[str, ...], word: str) -> int:
    return sum(word in name for name in names)
