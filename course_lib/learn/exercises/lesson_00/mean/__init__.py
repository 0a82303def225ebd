"""Exercise 00.mean: a mean over all numbers of all ranks."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_00.mean.cases import CASES, MOST_BYTES
from course_lib.learn.exercises.lesson_00.mean.mistakes import MISTAKES
from course_lib.learn.exercises.lesson_00.tried import told_by, trial
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.judge import by_trial

__all__ = ["MEAN"]


MEAN = Exercise(
    name="00.mean",
    title="The mean over all ranks",
    judge=by_trial(
        (2, 3, 4, 5, 1),
        CASES,
        trial(keep="values", most_bytes=MOST_BYTES),
        compare=told_by(close_to(1e-5)),
    ),
    mistakes=MISTAKES,
    hints=(
        "A mean is a sum divided by a count. Which of the two does a rank know for all ranks?",
        "Neither. Put both into one tensor, so that a single `dist.all_reduce` adds up both.",
        "totals = torch.stack([values.sum(), torch.tensor(float(len(values)), dtype=values.dtype)]); after "
        "`dist.all_reduce(totals)` every rank divides totals[0] by totals[1].",
    ),
    forbidden=("course_lib.parallel.data.global_mean",),
    passed="Every rank has the same mean, on 2, 3, 4 and 5 ranks. It is right with uneven shares and with a rank that "
    "holds nothing, and where ranks hold thousands of numbers they send only a few.",
)
