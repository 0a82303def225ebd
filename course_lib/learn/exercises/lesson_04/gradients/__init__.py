"""04.gradients: the mean of all ranks' gradients, on every rank."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.gradients import mistakes, wrong_answers
from course_lib.learn.exercises.lesson_04.gradients.cases import KINDS, right, trial
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import compare

__all__ = ["GRADIENTS"]

GRADIENTS = Exercise(
    name="04.gradients",
    title="The mean of all gradients, on every rank",
    judge=by_trial(
        (4, 2, 3, 5),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare,
        timeout_s=4.0,
    ),
    mistakes=(
        Mistake(
            "averages-a-loss",
            "Every rank keeps its own gradients, and next to nothing was sent. All-reduce each `parameter.grad`. (A "
            "loss that is averaged looks well in a log, and no gradient comes out of it: `backward()` is over.)",
            recognise=mistakes.kept_own_and_sent(0.0, 0.3),
        ),
        Mistake(
            "averages-the-weights",
            "Something was sent, and every rank still has its own gradients. Did you all-reduce the weights? They are "
            "equal anyway. Or a new tensor, such as `parameter.grad / n`? Then the result is in that tensor, and the "
            "optimizer reads `parameter.grad`.",
            recognise=mistakes.kept_own_and_sent(0.4, 9.0),
        ),
        Mistake(
            "sum-not-mean",
            "You have the sum of all ranks' gradients. Each loss is a mean over its own rank's examples, so the mean "
            "over the whole batch is their mean. Divide by `me.world_size`, or the step grows with every rank.",
            wrong_answers.sums,
        ),
        Mistake(
            "sum-stays-behind",
            "Where a rank had a gradient, it holds the sum of all ranks' now, not the mean. And where it had None, it "
            "still has none. So neither the mean nor the zeros came to `parameter.grad`. Usually a name such as `grad` "
            "holds them: `grad = grad / n` makes a new tensor. Divide in place (`/=`), and assign zeros to "
            "`parameter.grad`.",
            recognise=mistakes.sums_what_was_there,
        ),
        Mistake(
            "zeros-of-another-type",
            "A gradient has the dtype of its parameter, and you assigned one of another. `torch.zeros(shape)` makes "
            "float32, whatever the model is in; `torch.zeros_like(parameter)` takes shape, dtype and device from the "
            "parameter.",
            recognise=mistakes.assigns_another_type,
        ),
        Mistake(
            "sends-another-type",
            "A rank that did not use a layer made the call with a tensor of fewer bytes than the others. It is of "
            "another type, or of another shape. `torch.zeros(shape)` makes float32, whatever the model is in; "
            "`torch.zeros_like(parameter)` takes shape, dtype and device from the parameter.",
            recognise=mistakes.sends_another_type,
        ),
        Mistake(
            "not-in-place",
            "The mean is right, and it is in a new tensor: `parameter.grad` is another one than before. Code that "
            "holds the old one, as a flat buffer of gradients does, keeps this rank's own numbers. Change it in "
            "place: `/=`, `div_` or `copy_`.",
            recognise=mistakes.makes_new_tensors,
        ),
        Mistake(
            "divides-by-a-constant",
            "You divide by the same number whether there are two ranks, three, four or five. Each time the mean takes "
            "another one: `me.world_size`.",
            recognise=mistakes.divides_alike,
        ),
        Mistake(
            "mean-over-users",
            "A layer that not every rank used is divided by the ranks that did use it. The mean is over *all* ranks, "
            "and a rank that did not use the layer counts with zeros: its examples are in the batch too.",
            recognise=mistakes.counts_users,
        ),
        Mistake(
            "shorter-numbers",
            "The values are right to a few digits, and fewer bytes travelled than these gradients have: they went in a "
            "shorter type on the way. Send and add them in the type that they are in.",
            recognise=mistakes.nearly_right_and_shorter,
        ),
        Mistake(
            "from-rank-0",
            "All ranks agree, on the gradients of rank 0 alone: a broadcast overwrites what the others computed. Sum "
            "them up first; `dist.all_reduce` does both.",
            wrong_answers.from_rank_0,
        ),
        Mistake(
            "only-on-rank-0",
            "Rank 0 has the mean and the others have something else: `reduce` brings the sum to one rank. Every rank "
            "takes the step itself, so every rank needs it: `all_reduce`.",
            wrong_answers.only_on_rank_0,
        ),
        Mistake(
            "rank-0-divides",
            "Rank 0 divides and the others keep the sum, so from now on the replicas differ. What happens to a "
            "gradient must happen to it on every rank.",
            wrong_answers.rank_0_divides,
        ),
        Mistake(
            "trips-over-none",
            "A frozen parameter has no gradient: its `.grad` is None. Leave out parameters whose `requires_grad` is "
            "False.",
            recognise=mistakes.asks_none_where_frozen,
        ),
        Mistake(
            "loses-gradients",
            "In at least one case a parameter that learns has no gradient afterwards: its `.grad` is None. That is "
            "so when what `dist.all_reduce` returns is assigned: it works in place and returns None. Or zeros "
            "that stand in for None never become `parameter.grad`. Or a parameter was left out or cleared.",
            recognise=mistakes.loses_gradients,
        ),
        Mistake(
            "sends-frozen",
            "The values are right, and more was sent than the gradients of what learns. There are two usual reasons: "
            "zeros for a frozen parameter, which has a gradient on no rank (ask for `requires_grad` first). Or a "
            "parameter that two layers share and that was sent twice.",
            recognise=mistakes.sends_for_frozen,
        ),
        Mistake(
            "another-order",
            "Every rank makes as many calls, and a rank that did not use a layer makes them in another order. Calls "
            "have no names: the third of one rank is added to the third of the others, whichever layer that is. Go "
            "through the parameters in the model's order, whether their `.grad` is None or not.",
            recognise=mistakes.in_another_order,
        ),
        Mistake(
            "shorter-flat-tensor",
            "Your gradients travel together, and on a rank that did not use a layer the flat tensor is shorter: it "
            "leaves out what is None. The tensors of one call have to be of one shape on all ranks. Ask for "
            "`requires_grad`, and put zeros in place of None.",
            recognise=mistakes.sends_flat_tensors_of_other_sizes,
        ),
        Mistake(
            "skips-none",
            "One rank did not use a layer, so its gradient is None there and it does not make a call that the others "
            "make. Calls have no names: its next one meets the wrong partner, or nobody. Whether a rank calls must not "
            "depend on what only that rank knows. Ask for `requires_grad`, and put zeros in place of None.",
            recognise=mistakes.stops_where_unused,
        ),
        Mistake(
            "gathers-everything",
            "The values are right, and on four ranks you sent twice what is needed, or more. So much goes out when "
            "every gradient goes to every rank to be added up there, or when something is all-reduced twice. "
            "`dist.all_reduce` adds on the way, and once is enough.",
            recognise=mistakes.everything_to_everybody,
        ),
    ),
    hints=(
        "Which parameters have a gradient that the others need? Go through them in the model's order: it is the same "
        "on every rank, and so is the order of the calls.",
        "For each parameter with `requires_grad`: if its `.grad` is None, put zeros there; all-reduce `.grad`; divide "
        "it by `me.world_size`.",
        "`dist.all_reduce(parameter.grad)`, then `parameter.grad /= me.world_size`; before both, `if parameter.grad is "
        "None: parameter.grad = torch.zeros_like(parameter)`.",
    ),
    forbidden=(
        "course_lib.parallel.data.all_reduce_gradients",
        "course_lib.parallel.data.all_reduce_buckets",
        "course_lib.parallel.data.DistributedDataParallel",
        "torch.nn.parallel.DistributedDataParallel",
    ),
    passed="The mean is right on 2, 3, 4 and 5 ranks, with frozen, tied and unused layers. Each rank sent 2 (n - 1)/n "
    "of the gradients: what a ring needs, and no more.",
)
