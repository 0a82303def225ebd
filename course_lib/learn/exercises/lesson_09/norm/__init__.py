"""09.norm: one norm of a gradient whose parts and copies lie on the ranks of a mesh."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_09.norm import mistakes
from course_lib.learn.exercises.lesson_09.norm.cases import (
    KINDS,
    ONE_AXIS,
    SHARDS,
    SILENT,
    STAGES,
    right,
    trial,
)
from course_lib.learn.judging.errors import hangs_in, raised_first_in
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import compare, is_not_waited_for, only_wrong

__all__ = ["NORM"]

NORM = Exercise(
    name="09.norm",
    title="One norm on a mesh",
    judge=by_trial(
        (4, 1, 6),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare,
        timeout_s=4.0,
    ),
    mistakes=(
        Mistake(
            "not-waited-for",
            "A collective was begun with `async_op=True`, and nobody waited for it. The numbers in its tensor at that "
            "moment are chance. Call `wait()` on what `dist` returns, and read the tensor then.",
            recognise=is_not_waited_for,
        ),
        Mistake(
            "counts-copies",
            "You add up what all ranks hold, and some of it is held several times. A matrix is on every replica, a "
            "norm's weight on every rank of `tp`. A number that n ranks hold is in your sum n times, and the norm is "
            "too large. Only one of the ranks that hold copies counts.",
            recognise=mistakes.counts(lambda *_: 1.0),
        ),
        Mistake(
            "local-norm",
            "Each rank returns the norm of what it holds, or counts, itself: another number on every rank, and none "
            "of them the model's. All ranks need one and the same number, so something has to be sent.",
            recognise=mistakes.own(mistakes.right_weight, lambda *_: 1.0),
        ),
        Mistake(
            "only-rank-0",
            "Everything that is copied along some axis is counted on rank 0 alone. But it may be cut along another "
            "one: then rank 0 has a part of it, and the other parts are missing. One rank counts for each *part*: the "
            "first of those that hold that part.",
            recognise=mistakes.counts(lambda _, here, copied: float(here["rank"] == 0 or not copied)),
        ),
        Mistake(
            "the-other-axes",
            "You count a gradient where this rank's place is 0 along the axes in `cut_by`. It is the other way round: "
            "along those axes every rank has another part, and all of them count. Choose the first rank along the "
            "axes of the mesh that are *not* in `cut_by`.",
            recognise=mistakes.counts(
                lambda one, here, copied: float(not any(here[a] for a in one.mesh.axes if a not in copied))
            ),
        ),
        Mistake(
            "only-tp",
            "Copies along `tp` are in your sum once, but copies along other axes are in it several times. Replicas "
            "hold all of it again, and some weights are not cut by `dp_shard` either. Go through all axes of the "
            "mesh.",
            recognise=mistakes.counts(lambda _, here, copied: float("tp" not in copied or not here.get("tp", 0))),
        ),
        Mistake(
            "only-replicas",
            "Copies along `dp_replicate` are in your sum once, but copies along other axes are in it several times. A "
            "norm's weight is the same on all ranks of `tp`. Go through all axes of the mesh.",
            recognise=mistakes.counts(lambda _, here, __: float(not here.get("dp_replicate", 0))),
        ),
        Mistake(
            "divides-by-parts",
            "You divide by the number of *parts*, the ranks along `cut_by`. Each part is there once, so parts need no "
            "division. Copies are there several times: divide by the ranks along the other axes.",
            recognise=mistakes.counts(
                lambda one, _, copied: 1 / one.mesh.size(*(a for a in one.mesh.axes if a not in copied))
            ),
        ),
        Mistake(
            "divides-the-norm",
            "You divide by the number of copies before you square, so the sum is divided by the square of that "
            "number. n copies are n equal squares: divide the square by n.",
            recognise=mistakes.counts(lambda one, _, copied: 1 / one.mesh.size(*copied) ** 2),
        ),
        Mistake(
            "throws-copies-away",
            "A part that several ranks hold is counted on none of them. It belongs to the gradient: one of these "
            "ranks has to count it.",
            recognise=mistakes.counts(lambda one, _, copied: float(one.mesh.size(*copied) == 1)),
        ),
        Mistake(
            "adds-norms",
            "You add up the ranks' norms. Norms do not add up: 3 and 4 at right angles make 5. What adds up are "
            "squares; the root comes last.",
            recognise=mistakes.adds,
        ),
        Mistake(
            "averages",
            "All is right except that you take a mean over all ranks. What each rank counts is a summand of one sum, "
            "whatever the mesh: do not divide by the number of ranks.",
            recognise=mistakes.times(lambda one: one.num_ranks**-0.5),
        ),
        Mistake(
            "no-root",
            "You return the sum of the squares. The norm is its root, taken after the sum over ranks.",
            recognise=mistakes.times(lambda one: one.right),
        ),
        Mistake(
            "right-on-rank-0-alone",
            "Rank 0 has the norm, and the others have something else. Every rank scales its own gradients, so every "
            "rank needs it.",
            recognise=mistakes.is_right_on_rank_0_alone,
        ),
        Mistake(
            "returns-early",
            "In this case the ranks of the first stage have no gradient at all, and not all ranks made the same "
            "calls. A rank without gradients has a sum of 0, and it still has to make the call.",
            recognise=hangs_in(SILENT),
        ),
        Mistake(
            "a-call-for-each",
            "Here ranks of different stages have lists of different lengths, and not all ranks made the same calls. "
            "Add up first what this rank counts; then one call, the same on all ranks, whatever they have.",
            recognise=hangs_in(STAGES),
        ),
        Mistake(
            "stays-away",
            "Not all ranks made the same calls. Whether a rank *counts* something and whether it *calls* are two "
            "things: a rank that counts nothing adds 0, and calls with all others.",
            recognise=hangs_in(SHARDS),
        ),
        Mistake(
            "trips-over-none",
            "Some gradients are None, of frozen weights, and your code asked one for its numbers. Leave those out: "
            "nothing of them is in the norm.",
            recognise=mistakes.asks_none_for_its_numbers,
        ),
        Mistake(
            "begins-with-nothing",
            "All went well until a rank had no gradient at all; there your code raised the error below. A sum of no "
            "squares is 0, and only a tensor can be sent, such as `torch.zeros((), dtype=torch.float64, "
            "device=me.device)`.",
            recognise=raised_first_in(SILENT),
        ),
        Mistake(
            "trips-over-no-rows",
            "All went well until a rank had a gradient of no rows, as where there are fewer rows than ranks. There "
            "your code raised the error below. The sum of no squares is 0, but a maximum needs at least one number.",
            recognise=raised_first_in(ONE_AXIS),
        ),
        Mistake(
            "takes-rows-for-granted",
            "All went well until gradients were stored column by column, as those of a transposed weight are. `view` "
            "cannot make one row of such a tensor. A sum needs none, and `flatten()` makes one of any.",
            recognise=mistakes.takes_rows_for_granted,
        ),
        Mistake(
            "hides-a-nan",
            "Your norm is right except where a gradient has a NaN in it: there it is a number. A step with such a "
            "gradient has to be skipped, and the norm shows that: the norm of a NaN is NaN.",
            recognise=mistakes.hides_a_nan,
        ),
        Mistake(
            "keeps-something",
            "Your function is right where it is called once. With shards of slices it is called three times: with the "
            "pairs in another order, with other numbers of equal shapes, and as they are. The last norm is wrong: "
            "something of an earlier call is still there. Gradients differ from step to step.",
            recognise=mistakes.keeps_something,
        ),
        Mistake(
            "knows-no-cp",
            "Your norm is right on meshes of pp, dp_replicate, dp_shard and tp. Where there is an axis cp, all its "
            "copies are in your sum. The mesh names its axes: `mesh.axes`.",
            recognise=mistakes.knows_no_cp,
        ),
        Mistake(
            "in-their-own-dtype",
            "Your norm is right except for gradients in bfloat16: there the sum was rounded on its way. A sum of "
            "thousands of squares needs more digits than its summands have: make them float64 first.",
            recognise=mistakes.only_short_is_wrong,
        ),
        Mistake(
            "adds-in-float32",
            "The norm is right to six digits, and no further: squares were added up, or sent, in float32. "
            "`torch.zeros(())` makes a float32, and what is added to it in place is rounded. Give it a `dtype`.",
            recognise=mistakes.adds_in_float32,
        ),
        Mistake(
            "in-another-form",
            "The number is right, but it is not what the docstring promises: a 0-d tensor of float64. Callers rely on "
            "that form, for a clamp, or to compare two meshes in the tenth digit.",
            recognise=only_wrong("form"),
        ),
        Mistake(
            "takes-pairs-out",
            "The norm is right, and the list that was given has fewer pairs than before. The list belongs to the "
            "caller: go through it, and leave it as it is.",
            recognise=mistakes.takes_pairs_out,
        ),
        Mistake(
            "changes-the-gradients",
            "The norm is right, and the gradients are not what they were: something was computed in place. The step "
            "that comes next reads them.",
            recognise=only_wrong("kept"),
        ),
        Mistake(
            "sends-much",
            "The norm is right, but more was sent than needed. Each rank can add up the squares of what it counts: "
            "one number from each is all that the others need.",
            recognise=only_wrong("sent"),
        ),
    ),
    hints=(
        "Take one number of the gradient. On which ranks does it lie? Along `cut_by` ranks hold different parts, "
        "along the mesh's other axes they hold the same. How do all ranks agree, without a message, which of them "
        "counts it?",
        "`mesh.coordinates(me.rank)` is this rank's place along each axis. A rank counts a gradient if its place is 0 "
        "along every axis that is not in `cut_by`. Add up the squares of what it counts, then the sums of all ranks.",
        "`here = mesh.coordinates(me.rank)`; for each pair `is_first = all(here[axis] == 0 for axis in mesh.axes if "
        "axis not in cut_by)`; if that is so, and the gradient is not None, `square += "
        "gradient.double().square().sum()`; last `dist.all_reduce(square)`, and the root of it.",
    ),
    forbidden=("course_lib.parallel.mesh.gradient_norm", "course_lib.parallel.mesh.clip_gradients"),
    passed="Your norm was right in nine cases, each on 4 ranks, on 6 and on one. Parts were added up, copies "
    "counted once, every rank had the same number, and a NaN was not hidden. No rank sent more than two numbers, or "
    "an object.",
)
