"""04.valid_tokens: one step whose gradients are those of one process, whatever tokens are valid, and on which rank."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.valid_tokens import mistakes
from course_lib.learn.exercises.lesson_04.valid_tokens.cases import KINDS, LAST, SILENT
from course_lib.learn.exercises.lesson_04.valid_tokens.trial import right, trial
from course_lib.learn.judging.errors import hangs_in
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import compare, is_not_waited_for, only_wrong

__all__ = ["VALID_TOKENS"]

VALID_TOKENS = Exercise(
    name="04.valid_tokens",
    title="The loss per valid token",
    judge=by_trial(
        (4, 2, 1),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare,
    ),
    mistakes=(
        Mistake(
            "not-waited-for",
            "A collective was begun with `async_op=True`, and nobody waited for it. What stands in its tensor then is "
            "chance. Call `wait()` on what `dist` returns, and read the tensor after that.",
            recognise=is_not_waited_for,
        ),
        Mistake(
            "mean-of-means",
            "That is the mean of means: each micro-batch is divided by its own count. A token in a short one then "
            "weighs more. Take the *sum* of the losses, and divide by one number that is the same everywhere.",
            recognise=mistakes.weighs(mistakes.mean_of_means),
            shows=mistakes.shows_gradients,
        ),
        Mistake(
            "sum-of-means",
            "Each micro-batch is divided by its own count, and the means are added. Take the *sum* of the losses, and "
            "divide by one number that is the same everywhere.",
            recognise=mistakes.weighs(mistakes.sum_of_means),
        ),
        Mistake(
            "own-count",
            "Each rank divides by the valid tokens that it holds itself. Ranks hold different numbers of them: the "
            "count has to be summed over all ranks.",
            recognise=mistakes.weighs(mistakes.own_count),
            shows=mistakes.shows_gradients,
        ),
        Mistake(
            "divided-by-ranks-too",
            "The direction is right, and the gradient is too short by the number of ranks. Your loss is divided by "
            "the count of all ranks, and DDP takes a mean over ranks on top.",
            recognise=mistakes.weighs(mistakes.divided_twice),
            shows=mistakes.shows_gradients,
        ),
        Mistake(
            "multiplied-twice",
            "The direction is right, and the gradient is too long by the number of ranks. DDP's mean divides by that "
            "number once, so once is to be made good.",
            recognise=mistakes.weighs(mistakes.multiplied_twice),
        ),
        Mistake(
            "a-written-number",
            "The gradients are right on one number of ranks. On another they are too long or too short, by the ratio "
            "of the two. Is a number of ranks written in your code? Take `me.world_size`.",
            recognise=mistakes.weighs(mistakes.for_four_ranks, mistakes.for_two_ranks),
            shows=mistakes.shows_gradients,
        ),
        Mistake(
            "divided-by-micro-batches-too",
            "You divide by the number of micro-batches on top of the count. The count is that of all micro-batches "
            "already.",
            recognise=mistakes.weighs(mistakes.by_micro_batches_too),
        ),
        Mistake(
            "all-positions",
            "You divide by the number of all positions, padding and prompts too. Only targets that are not -100 are "
            "in the sum, so only these are to be counted.",
            recognise=mistakes.weighs(mistakes.all_positions),
        ),
        Mistake(
            "above-zero",
            "Your count leaves out the targets that are 0. That is a token like any other. Only targets that are -100 "
            "do not count.",
            recognise=mistakes.weighs(mistakes.above_zero),
        ),
        Mistake(
            "never-divided",
            "That is the gradient of the sum, divided by the ranks alone: the more tokens, the longer it is. What is "
            "missing is the division by the count.",
            recognise=mistakes.weighs(mistakes.never_divided),
        ),
        Mistake(
            "a-count-for-each",
            "Each micro-batch is divided by a count of its own over all ranks. Those counts differ from one "
            "micro-batch to the next. And ranks may hold different numbers of micro-batches, so a call for each does "
            "not match. Count all micro-batches before the first one, in one call.",
            recognise=mistakes.weighs(mistakes.count_of_each, may_hang=True),
            shows=mistakes.shows_gradients,
        ),
        Mistake(
            "leaves-out",
            "Not all ranks made the same calls. Here the last micro-batch of a rank has no valid token. It goes "
            "through forward and backward all the same: its sum is 0, and its backward pass is the one that sends.",
            recognise=hangs_in(LAST, SILENT),
        ),
        Mistake(
            "never-averages",
            "No gradients were sent: every micro-batch ran under `no_sync()`, or past DDP. The last one has to run "
            "without it, forward and backward.",
            recognise=mistakes.never_averages,
        ),
        Mistake(
            "sends-each-time",
            "The gradients are right, and they were sent for several micro-batches. All but the last belong under "
            "`no_sync`, forward and backward.",
            recognise=mistakes.sends_each_time,
        ),
        Mistake(
            "nothing-valid",
            "Right, but where no token is valid on any rank. There 0 is divided by 0. The loss and its gradients are "
            "to be 0 then.",
            recognise=mistakes.divides_by_nothing,
        ),
        Mistake(
            "no-gradients-then",
            "Right, but where no token is valid on any rank: there `.grad` is None. Gradients are to be 0 then, as "
            "those of one process are. Go forward and backward all the same; the sums are 0.",
            recognise=mistakes.leaves_no_gradients,
        ),
        Mistake(
            "rounds-the-count",
            "The direction is right, and the length is off by less than 2 %. Has a count been rounded? 16 bits do not "
            "hold every whole number: bfloat16 does up to 256, and float16 up to 2048.",
            recognise=mistakes.rounds_the_count,
            shows=mistakes.shows_gradients,
        ),
        Mistake(
            "keeps-the-first-count",
            "The first step is right, and the second is not. The next step has another number of valid tokens, so it "
            "needs a count of its own.",
            recognise=mistakes.keeps_the_first_count,
            shows=mistakes.shows_gradients,
        ),
        Mistake(
            "part-as-a-number",
            "All numbers are right, and your part of the loss is a number of Python. A tensor of one number is asked "
            "for: the log adds up the parts of all ranks by `dist.all_reduce`, which takes tensors alone.",
            recognise=mistakes.part_is_no_tensor,
        ),
        Mistake(
            "no-part",
            "The gradients are right, and nothing came back. Return this rank's part of the loss: its sum over the "
            "count.",
            recognise=mistakes.no_part,
        ),
        Mistake(
            "part-times-ranks",
            "The gradients are right, and the part of the loss is too large by the number of ranks. That factor is "
            "for DDP's mean; nobody averages what you return.",
            recognise=mistakes.too_large,
        ),
        Mistake(
            "still-has-a-graph",
            "All numbers are right, and what came back still has a graph, which a log then keeps in memory. "
            "`detach()` it.",
            recognise=only_wrong("graph"),
        ),
        Mistake(
            "keeps-every-graph",
            "The gradients are right, and activations of several micro-batches lay in memory at once. Call "
            "`backward()` for each before the next goes forward.",
            recognise=only_wrong("alive", "forwards"),
        ),
        Mistake(
            "calls-besides",
            "The gradients are right, and your step makes more calls than it needs. One small all-reduce tells all "
            "ranks the count. Each rank returns its own part of the loss, and nothing is sent for it.",
            recognise=mistakes.makes_more_calls,
        ),
    ),
    hints=(
        "What is the same on all ranks and for all micro-batches, so that every token's loss may be divided by it? It "
        "can be known before the first forward pass.",
        "Count the targets that are not -100 over all micro-batches, and sum that over ranks by one `dist.all_reduce`. "
        'Each loss is a sum (`reduction="sum"`) over this count. DDP divides by `me.world_size`: make that good.',
        'In the loop: `part = F.cross_entropy(ddp(tokens).flatten(0, 1), targets.flatten(), reduction="sum") / count`, '
        "then `(part * me.world_size).backward()`, both under `ddp.no_sync()` but for the last micro-batch. Before it: "
        "`count.clamp_(min=1)`.",
    ),
    forbidden=("course_lib.parallel.data.uneven_batches.backward_per_token",),
    passed="The gradients are those of one process in six cases, on 4 ranks, on 2 and on one. Each step sent them "
    "once, with at most one small call beside them, and the ranks' parts add up to the loss.",
)
