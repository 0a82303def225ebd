"""Usual wrong answers to 13.own by name, and what each mixes up."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_13.own import wrong_answers as wrong
from course_lib.learn.exercises.lesson_13.own.seen import OTHER_COUNT, did_assert, did_go_on, left_sizes_out

__all__ = ["MISTAKES"]

MISTAKES = (
    Mistake(
        "asserts",
        "Your trial asserts the claim: where it is false, an error comes in place of a verdict. A trial has to be "
        "able to return each of its verdicts.",
        recognise=did_assert,
    ),
    Mistake(
        "one-run",
        "Your trial decides from one pair. The first call may be a slow one, and one pair has no spread that could "
        "warn you. Take as many pairs as you are given.",
        wrong.one_run,
    ),
    Mistake(
        "in-blocks",
        "You measure all of one size, and then all of the other. A change on the machine in between then looks like "
        "an effect of the bytes. Take the two of a ratio one right after the other.",
        wrong.in_blocks,
    ),
    Mistake(
        "pairs-apart",
        "In each round you measure all sizes, and then twice as many bytes of each. Between the two of a ratio lie "
        "those of the other sizes, and meanwhile the machine may change. Take the two one right after the other.",
        wrong.ones_before_twos,
    ),
    Mistake(
        "mean",
        "You decide by the mean of the ratios. A few disturbed calls can move it far, and a mean has no spread that "
        "shows when a trial cannot decide.",
        wrong.by_the_mean,
    ),
    Mistake(
        "median-alone",
        "The median is a good middle, and says nothing of how far the ratios lie apart. In noise the median falls on "
        "one side or the other by chance, and you call that a verdict. Look at both quartiles.",
        wrong.by_the_median,
    ),
    Mistake(
        "extremes",
        "What you compare with the bounds depends on the extremes, so a few disturbed calls keep you from ever "
        "deciding. The middle half counts: from the lower quartile to the upper.",
        wrong.by_the_extremes,
    ),
    Mistake(
        "longer-is-enough",
        "You ask whether it takes longer. The claim says how much: twice, which is from 1.8 to 2.2 times. Without a "
        "threshold every claim of this kind holds.",
        wrong.longer_is_enough,
    ),
    Mistake(
        "no-upper-bound",
        "Three times as long is not twice as long either. The claim can be missed on both sides.",
        wrong.at_least_twice,
    ),
    Mistake(
        "always-decides",
        "You call false what is not borne out. Where the middle half lies across a bound, nothing was shown, neither "
        'for the claim nor against it: "cannot tell here".',
        wrong.always_decides,
    ),
    Mistake(
        "never-false",
        "You leave open what is not borne out. Where the middle half lies wholly outside the bounds, the claim is "
        "shown to be false at that size.",
        wrong.never_false,
    ),
    Mistake(
        "sizes-in-one",
        "You throw the ratios of all sizes into one list. Sizes that differ then look like noise. Decide each size by "
        "itself, and put the answers together.",
        wrong.sizes_in_one,
    ),
    Mistake(
        "mean-over-sizes",
        "You average over the sizes. A size with a ratio of 1 and another with a ratio of 3 have a mean of 2. The "
        "claim holds at neither.",
        wrong.mean_over_sizes,
    ),
    Mistake(
        "one-size-is-enough",
        "One size bears the claim out, another contradicts it, and you say that it holds. At the other size that is "
        "wrong: it holds with conditions.",
        wrong.one_size_is_enough,
    ),
    Mistake(
        "one-size-refutes",
        "One size contradicts the claim, another bears it out, and you say that it is false. At the other size that "
        "is wrong: it holds with conditions.",
        wrong.one_size_refutes,
    ),
    Mistake(
        "passes-over-open-sizes",
        "A size that is open is left out, and the others decide. But the claim speaks of it too: as long as one size "
        "is open, you cannot tell here.",
        wrong.passes_over_open_sizes,
    ),
    Mistake(
        "upside-down",
        "Your ratios are those of the smaller message to the larger, about a half. Twice the bytes belong in the "
        "numerator.",
        wrong.upside_down,
    ),
    Mistake(
        "optional-stopping",
        "How often you measure depends on what you have seen so far. That is optional stopping: if a trial goes on "
        "until the numbers say something, in the end noise says it. Fix the number of pairs before.",
        recognise=did_go_on,
        shows=lambda outcome: outcome.kind_of_difference == OTHER_COUNT,
    ),
    Mistake(
        "sizes-untried",
        "Some sizes were never measured: your trial decides, or returns, before all of them have been tried. The claim "
        "speaks of each.",
        recognise=left_sizes_out,
    ),
)
