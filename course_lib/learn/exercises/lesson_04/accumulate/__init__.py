"""04.accumulate: one step over several pieces of a batch, with one all-reduce; the clinic's line, mended."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.accumulate import mistakes
from course_lib.learn.exercises.lesson_04.accumulate.trial import KINDS, right, trial
from course_lib.learn.exercises.lesson_04.tries import alone
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import compare

__all__ = ["ACCUMULATE"]

ACCUMULATE = Exercise(
    name="04.accumulate",
    title="One step over several pieces, one all-reduce",
    judge=by_trial(
        (2, 4, 3, 5, 1),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare,
    ),
    mistakes=(
        Mistake(
            "never-averaged",
            "Nothing was sent: every piece ran without synchronisation, the last one too, and the replicas have gone "
            "different ways. The last piece must run with it, forward and backward.",
            recognise=mistakes.never_averaged,
        ),
        Mistake(
            "calls-the-bare-model",
            "Nothing was sent: `ddp.module` is the bare model, and DDP never heard of these passes. Call `ddp(x)`.",
            recognise=mistakes.only_the_bare_model,
        ),
        Mistake(
            "flag-too-late",
            "Nothing was sent, and no error told you: the replicas differ. DDP reads the flag in its *forward* pass, "
            "where it prepares the hooks; the last piece's forward pass had run before you set it. Decide before the "
            "forward pass, or put both passes under `no_sync()`.",
            recognise=mistakes.was_too_late,
        ),
        Mistake(
            "averages-the-first-piece",
            "One piece was averaged, and it was not the last one: what came after it was added on each rank alone, so "
            "the replicas differ. Let the *last* piece do it: its all-reduce carries the sum of all pieces.",
            mistakes.step(syncs=lambda index, count: index == 0),
        ),
        Mistake(
            "steps-inside",
            "You took a step after each piece. Clear once, add up all pieces, step once.",
            recognise=mistakes.steps_for_each_piece,
        ),
        Mistake(
            "never-clears",
            "What an earlier pass left in `.grad` is still there, and you add to it. Clear it once for each step of "
            "the optimizer, before the first piece: `optimizer.zero_grad()`.",
            mistakes.step(clears=False),
        ),
        Mistake(
            "clears-only-afterwards",
            "Your first step is wrong: an earlier pass had left something in `.grad`, and you clear it when the step "
            "is over. If you clear before the first piece, the step does not depend on what others have left.",
            mistakes.step(clears=False, clears_after=True),
        ),
        Mistake(
            "clears-inside",
            "You clear the gradients before each piece, so only the last piece is left of the batch. Clear once, "
            "before the first piece.",
            mistakes.step(clears_inside=True),
        ),
        Mistake(
            "all-at-once",
            "The step is right, and all pieces went through the model together: with all their activations in memory "
            "at a time. Take them one by one; that is what the pieces are for.",
            recognise=mistakes.together,
        ),
        Mistake(
            "keeps-every-graph",
            "The step is right, and the activations of several pieces lay in memory together, so the pieces save "
            "nothing. Let each piece go backward, and let go of what it kept, before the next one goes forward.",
            recognise=mistakes.graphs_of_all,
        ),
        Mistake(
            "forward-again",
            "The step is right, and the model went forward more often than there are pieces: each needs one pass.",
            recognise=mistakes.forwards_again,
        ),
        Mistake(
            "leaves-the-flag-down",
            "The step is right, and the next backward pass of this DDP is not averaged: it was left without "
            "synchronisation. `with ddp.no_sync():` puts it back; a flag that you set yourself you put back yourself.",
            recognise=mistakes.left_the_flag,
        ),
        Mistake(
            "averages-every-piece",
            "The step is right, and every piece was averaged: with four pieces, four times the bytes. All pieces but "
            "the last belong under `with ddp.no_sync():`, and their *forward* pass too, since that is where DDP reads "
            "the flag.",
            recognise=mistakes.every_piece_was_averaged,
        ),
        Mistake(
            "last-by-identity",
            "Right as long as no piece stands in the list twice. Where the last piece is the first one again, more "
            "than the last was averaged. A piece's place in the list tells whether it is the last; `piece is "
            "pieces[-1]` is true in both places.",
            recognise=mistakes.averages_one_piece_twice,
        ),
        Mistake(
            "calls-besides",
            "The step is right, and your code makes calls for all ranks beside the one that the gradients need. Each "
            "of them costs a latency in every step; a loss to report can wait until several steps are over.",
            recognise=mistakes.sends_besides,
        ),
        Mistake(
            "not-alone",
            "Right on 2, 3, 4 and 5 ranks, and not on one. DDP on one rank has nothing to send, and the same code is "
            "to take its step there.",
            recognise=alone,
        ),
        Mistake(
            "sum-of-means",
            "Your gradient is too long, by the number of pieces: their means were added. Divide each piece's loss by "
            "that number, as in lesson 01.",
            recognise=mistakes.adds_means,
        ),
    ),
    hints=(
        "When does DDP find out whether this backward pass is to be synchronised? Look at what stands between the flag "
        "and the forward pass.",
        "For all pieces but the last, put forward *and* backward under `with ddp.no_sync():`. The last piece goes "
        "without it.",
        "`with ddp.no_sync() if index < len(pieces) - 1 else contextlib.nullcontext():`, and inside it both "
        "`loss = F.cross_entropy(ddp(x), y) / len(pieces)` and `loss.backward()`.",
    ),
    passed="Your step is that of the whole batch on 2, 3, 4 and 5 ranks, for one piece and for several. It sends the "
    "bytes of one all-reduce, and holds the activations of one piece at a time.",
)
