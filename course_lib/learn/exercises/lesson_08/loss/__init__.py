"""08.loss: cross-entropy from logits that are cut by vocabulary: a few numbers a position are sent, and no logits."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_08.judging import by_steps
from course_lib.learn.exercises.lesson_08.loss.cases import BARRIERS, KINDS, right, trial
from course_lib.learn.exercises.lesson_08.loss.mistakes import MISTAKES

__all__ = ["LOSS"]

LOSS = Exercise(
    name="08.loss",
    title="A loss whose logits never meet",
    judge=by_steps(
        [Case(kind, (kind,), right(kind)) for kind in KINDS],
        trial,
        words={BARRIERS: "the loss and its gradient are right, and your code called "},
    ),
    mistakes=MISTAKES,
    hints=(
        "The loss of a position is log(sum of exponentials) - target's logit. Which part of each of the two does a "
        "rank know?",
        "The ranks need three numbers for each position. The first is the largest logit (MAX, outside autograd), the "
        "second the sum of exponentials. The third is the target's logit, zero on the ranks that do not have it. One "
        "all-reduce can carry the last two.",
        "`place = targets - me.rank * logits.size(1)`; `is_here = (place >= 0) & (place < logits.size(1))`; gather at "
        "the clamped place, `torch.where(is_here, found, 0.0)`; `leave(me, torch.stack([sums, target]))`.",
    ),
    forbidden=("course_lib.parallel.tensor.vocabulary.vocab_parallel_cross_entropy",),
    passed="Loss and gradients are those of the whole vocabulary. A few numbers for each position were sent forward "
    "and nothing backward, and large logits do no harm.",
)
