"""05.clip: gradients in shards, clipped by the norm of the whole."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_05.clip import mistakes, wrong_answers
from course_lib.learn.exercises.lesson_05.clip.cases import FEW, KINDS, ONE_LARGE, right, trial
from course_lib.learn.judging.errors import hangs_in
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import compare, is_not_waited_for, only_wrong

__all__ = ["CLIP"]

CLIP = Exercise(
    name="05.clip",
    title="The clip that every rank agrees on",
    judge=by_trial(
        (2, 4, 3, 5),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare,
        timeout_s=4.0,
    ),
    mistakes=(
        Mistake(
            "not-waited-for",
            "A collective was begun with `async_op=True`, and nobody waited for it. It goes on while your code does, "
            "so what stands in its tensor at that moment is chance. Call `wait()` on what `dist` returns, and read "
            "the tensor then.",
            recognise=is_not_waited_for,
        ),
        Mistake(
            "local-norm",
            "Each rank clips by the norm of its own rows. So each scales by a factor of its own, and the whole "
            "gradient changes its direction; no error tells of that. The norm has to be one number for all ranks, made "
            "of all their rows.",
            recognise=mistakes.clips_by(lambda one: one.own),
        ),
        Mistake(
            "adds-norms",
            "You go by a sum of norms, of ranks or of shards. Norms do not add up: 3 and 4 at right angles make 5. "
            "What adds up are squares, so add those, and take the root of the sum.",
            recognise=mistakes.clips_by(lambda one: sum(one.norms), lambda one: sum(one.norms_of_shards)),
        ),
        Mistake(
            "largest-norm",
            "You go by the largest of the ranks' norms, and the norm of all rows together is larger than that. Add up "
            "the squares over ranks, and take the root of the sum.",
            recognise=mistakes.clips_by(lambda one: max(one.norms)),
        ),
        Mistake(
            "averages",
            "You take a mean over ranks. Each rank has other rows here, all parts of one gradient. The squares are "
            "summands of one sum, and nothing is divided by the number of ranks.",
            recognise=mistakes.clips_by(
                lambda one: mistakes.of_all(one) / len(one.norms) ** 0.5,
                lambda one: sum(one.norms) / len(one.norms),
            ),
        ),
        Mistake(
            "no-root",
            "You go by the sum of the squares. The norm is the root of that sum, taken after the sum over ranks.",
            recognise=mistakes.clips_by(lambda one: mistakes.of_all(one) ** 2),
        ),
        Mistake(
            "scales-up",
            "You scale by max_norm / norm in every case. Where the norm is below max_norm that makes gradients "
            "*longer*: clipping leaves them as they are. The factor is 1 at most.",
            recognise=mistakes.scales(lambda one: one.max_norm / mistakes.of_all(one)),
        ),
        Mistake(
            "returns-early",
            "One rank has no gradient in this case, and did not make a call that the others wait in. Its sum of "
            "squares is 0, and they need to hear that. Whether a rank calls, and how often, must not depend on what "
            "only that rank knows.",
            recognise=hangs_in(FEW),
        ),
        Mistake(
            "stays-away-when-short",
            "In this case one rank's own norm is above max_norm and the others' own norms are below it. Not all "
            "ranks made the same calls. Only after the sum over ranks does anybody know whether there is something to "
            "clip: call first, ask then.",
            recognise=hangs_in(ONE_LARGE),
        ),
        Mistake(
            "begins-with-nothing",
            "All went well until a rank had no gradient at all; there your code raised what stands below. A sum of no "
            "squares is 0, but it has to be a tensor to travel: begin with `torch.zeros((), device=me.device)`.",
            recognise=mistakes.begins_with_no_gradient,
        ),
        Mistake(
            "divides-by-zero",
            "Where all gradients are zero their norm is 0, and Python divides no number by it. A tensor does "
            "(`max_norm / norm` is infinite then, and `.clamp(max=1.0)` makes 1 of it), or add 1e-6 to the norm "
            "first, as `torch.nn.utils.clip_grad_norm_` does.",
            recognise=mistakes.divides_by_zero,
        ),
        Mistake(
            "trips-over-none",
            "Some shards have no gradient: their `.grad` is None, and your code asked it for numbers. Leave those "
            "shards out: nothing of them is in the norm, and there is nothing to scale.",
            recognise=mistakes.asks_none_for_its_numbers,
        ),
        Mistake(
            "fills-none",
            "Norm and gradients are right, but where `.grad` was None it holds zeros now. To an optimizer these "
            "differ: it leaves out what has None, and with zeros AdamW still decays the weight. Leave None as it is.",
            recognise=mistakes.fills_what_is_none,
        ),
        Mistake(
            "returns-its-own",
            "The gradients are right. What you return is the norm of this rank's own rows, another number on every "
            "rank; return the norm by which you clipped.",
            recognise=mistakes.gave(lambda one: one.own),
        ),
        Mistake(
            "returns-what-is-left",
            "The gradients are right. What you return is the norm *after* clipping, which is never above max_norm, so "
            "no log would show that gradients explode. Return what it was before.",
            recognise=mistakes.gave(lambda one: min(mistakes.of_all(one), one.max_norm)),
        ),
        Mistake(
            "returns-the-square",
            "The gradients are right. What you return is the sum of the squares; the norm is its root.",
            recognise=mistakes.gave(lambda one: mistakes.of_all(one) ** 2),
        ),
        Mistake(
            "returns-nothing",
            "The gradients are right, and no norm came back. `return` it: a rise of the norm is the first sign that "
            "training goes wrong.",
            recognise=mistakes.gives_no_norm,
        ),
        Mistake(
            "scales-a-name",
            "The norm is right, and every gradient is as long as it was. The usual reason is a line such as "
            "`gradient = gradient * factor`. It makes a new tensor of that name, and the old one stays in `.grad`, "
            "where the optimizer reads it. Scale in place: `gradient *= factor`.",
            recognise=mistakes.leaves_all_as_it_was,
        ),
        Mistake(
            "scales-the-weights",
            "The norm is right, and it is the shards that were scaled: the weights. Scale their `.grad`.",
            recognise=mistakes.scaled_weights,
        ),
        Mistake(
            "each-tensor-by-itself",
            "The norm is right, and each tensor was clipped by a norm of its own. Then tensors are scaled by different "
            "factors, and the direction changes. One factor for all: max_norm over the norm of everything.",
            wrong_answers.each_tensor_by_itself,
        ),
        Mistake(
            "clamps-values",
            "The norm is right, and the gradients were cut off number by number, as `clip_grad_value_` does, so "
            "the direction changes. Multiply all of them by one factor.",
            wrong_answers.clamps_values,
        ),
        Mistake(
            "right-on-rank-0-alone",
            "Rank 0 has the norm, and the others have something else: `dist.reduce` brings a sum to one rank. Every "
            "rank scales its own rows, so every rank needs it: `all_reduce`.",
            recognise=mistakes.is_right_on_rank_0_alone,
        ),
        Mistake(
            "by-rank-0",
            "All ranks go by the norm of rank 0's rows. They agree now, on a number that the other ranks' rows have no "
            "part in.",
            recognise=mistakes.clips_by(lambda one: one.norms[0]),
        ),
        Mistake(
            "in-new-tensors",
            "The numbers are right, and they stand in new tensors. For a moment there were two of a gradient, and "
            "whoever holds the old one (a bucket, a view) sees nothing of it. Scale in place: `shard.grad *= factor`.",
            recognise=only_wrong("in_place"),
        ),
        Mistake(
            "sends-gradients",
            "The numbers are right, and gradients were sent for them, or as much as gradients are. Each rank can add "
            "up the squares of its own rows: one number from each is all that the others need.",
            recognise=only_wrong("sent"),
        ),
    ),
    hints=(
        "The norm of the whole gradient is one number, and every rank has some of the rows. How little does "
        "a rank need to know about the others' rows?",
        "Norms do not add up, squares do. Each rank sums the squares of its own rows (0 where it has none), one "
        "all-reduce adds those sums, and the root comes last. Every rank calls it, even one without gradients.",
        "`squares = sum((g.square().sum() for g in gradients), torch.zeros((), device=me.device))`; "
        "`dist.all_reduce(squares)`; `norm = squares.sqrt()`; then each `g *= (max_norm / norm).clamp(max=1.0)`, and "
        "return `norm`.",
    ),
    forbidden=(
        "course_lib.parallel.sharded.clip_gradients",
        "course_lib.parallel.sharded.clip_shards",
    ),
    passed="All ranks have the same norm and factor, on 2, 3, 4 and 5 ranks. It is so where some ranks have fewer "
    "rows, and one has no gradient at all. Short gradients stayed as they were, and a rank sent only a few numbers.",
)
