"""The mistakes of 10.join by name: what each mixes up, and how it is recognised where it takes several forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Mistake
from course_lib.learn.exercises.lesson_10.join import wrong_answers
from course_lib.learn.exercises.lesson_10.join.cases import CASES
from course_lib.learn.exercises.lesson_10.join.labels import Label
from course_lib.learn.judging.call_io import CHANGED

__all__ = ["MISTAKES"]


def _wrong_cases(evidence: Evidence) -> set[str]:
    return {outcome.case for outcome in evidence.wrong}


def _has(outcome: AnswerOutcome, is_so: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Whether some number of the pair that came is so."""
    return outcome.error is None and any(bool(is_so(tensor).any()) for tensor in outcome.got)


def _of(evidence: Evidence, label: str) -> AnswerOutcome:
    return next(outcome for outcome in evidence.outcomes if outcome.case == label)


def _is_pair_of_tensors(got: Any) -> bool:
    return isinstance(got, tuple | list) and len(got) == 2 and all(isinstance(one, torch.Tensor) for one in got)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-9, atol=1e-11, equal_nan=True)


def _usual(evidence: Evidence, example: Any) -> list[tuple[AnswerOutcome, Any]]:
    """What the answer gave in the cases in which nothing is large or missing, and what the example gives there."""
    return [
        (_of(evidence, case.label), example(*case.args))
        for case in CASES
        if case.label in Label.USUAL and isinstance(case.args, tuple)
    ]


def _out_is(example: Any) -> Callable[[Evidence], bool]:
    """Where nothing is large or missing the output is this example's, and not the right one, whatever the lse is."""

    def recognise(evidence: Evidence) -> bool:
        usual = _usual(evidence, example)
        return all(_same(one.got[0], out) for one, (out, _) in usual) and not any(
            _same(one.got[0], one.expected[0]) for one, _ in usual
        )

    return recognise


def _lse_is(example: Any) -> Callable[[Evidence], bool]:
    """The output is right in every case, and the lse this example's where nothing is large or missing."""

    def recognise(evidence: Evidence) -> bool:
        return all(_same(one.got[0], one.expected[0]) for one in evidence.outcomes) and all(
            _same(one.got[1], lse) for one, (_, lse) in _usual(evidence, example)
        )

    return recognise


def _overflows(evidence: Evidence) -> bool:
    cases = _wrong_cases(evidence)
    large = _of(evidence, Label.LARGE)
    return not cases & set(Label.USUAL) and Label.LARGE in cases and _has(large, lambda x: ~x.isfinite())


def _shifts_by_one_side(evidence: Evidence) -> bool:
    """Equal sides are right, however large, and of two unequal ones one way round comes to no number."""
    cases = _wrong_cases(evidence)
    ways = cases & {Label.FIRST_WINS, Label.SECOND_WINS}
    fine = {*Label.USUAL, Label.LARGE, Label.SMALL, Label.APART}
    return not cases & fine and len(ways) == 1 and _has(_of(evidence, ways.pop()), lambda x: ~x.isfinite())


def _one_top(evidence: Evidence) -> bool:
    return Label.APART in _wrong_cases(evidence) <= {Label.APART, *Label.EMPTY}


def _nan_of_nothing(evidence: Evidence) -> bool:
    return _wrong_cases(evidence) <= set(Label.EMPTY) and all(_has(outcome, torch.isnan) for outcome in evidence.wrong)


def _finite_nothing(evidence: Evidence) -> bool:
    """All is right but for an lse that is a number, and should be minus infinity."""
    return _wrong_cases(evidence) <= set(Label.EMPTY) and all(
        outcome.error is None
        and _is_pair_of_tensors(outcome.got)
        and _same(outcome.got[0], outcome.expected[0])
        and outcome.got[1].shape == outcome.expected[1].shape
        and bool(outcome.got[1][outcome.expected[1].isneginf()].isfinite().all())
        for outcome in evidence.wrong
    )


def _is_rounded(evidence: Evidence) -> bool:
    """No number is further off than float32 makes it, and the types are right."""
    return all(
        have.dtype == want.dtype and torch.allclose(have, want, rtol=1e-5, atol=1e-3)
        for outcome in evidence.outcomes
        for have, want in zip(outcome.got, outcome.expected, strict=True)
    ) and not any(outcome.kind_of_difference == CHANGED for outcome in evidence.wrong)


def _changes_what_it_was_given(evidence: Evidence) -> bool:
    return all(outcome.kind_of_difference == CHANGED for outcome in evidence.wrong)


def _no_last_dim(evidence: Evidence) -> bool:
    """Where sizes happen to fit there are numbers, and they are wrong; elsewhere PyTorch says that they do not fit."""
    error, square = _of(evidence, Label.PLAIN).error, _of(evidence, Label.SQUARE)
    return (
        error is not None
        and "must match the size of tensor" in error.message
        and square.error is None
        and _is_pair_of_tensors(square.got)
        and _same(square.got[1], square.expected[1])
    )


def _gives_one_tensor(evidence: Evidence) -> bool:
    return all(isinstance(outcome.got, torch.Tensor) for outcome in evidence.outcomes)


MISTAKES = (
    Mistake(
        "no-last-dim",
        "A share is a number for each query, (B, H, Q), and an output has K numbers for each, (B, H, Q, K). PyTorch "
        "lines up shapes from the last dim on. So it takes the queries for the numbers of a head; where the sizes are "
        "equal, no error comes. Give the shares a last dim of size 1: `share.unsqueeze(-1)`.",
        recognise=_no_last_dim,
    ),
    Mistake(
        "gives-out-alone",
        "One tensor came back. A caller that joins a third side needs the lse of these two: return the pair, (out, "
        "lse).",
        recognise=_gives_one_tensor,
    ),
    Mistake(
        "gives-lse-first",
        "The pair is the wrong way round: what came is (lse, out). It has to look like what came in, (out, lse), since "
        "it goes into the next join.",
        wrong_answers.gives_lse_first,
    ),
    Mistake(
        "keeps-the-dim",
        "The numbers are right, but your lse has one dim too many, the last one, of size 1. It came as (B, H, Q), and "
        "the next join needs it so.",
        wrong_answers.keeps_the_dim,
    ),
    Mistake(
        "averages",
        "Your output is the mean of the two. Each side has divided by its own sum of exponentials. The side with the "
        "larger sum, which is the larger lse, has to count for more.",
        recognise=_out_is(wrong_answers.averages),
    ),
    Mistake(
        "adds-outs",
        "Your output is the sum of the two. The weights of each side add up to 1 already, so those of both would add "
        "up to 2. Scale each output by its side's share first.",
        recognise=_out_is(wrong_answers.adds_outs),
    ),
    Mistake(
        "weighs-by-lse",
        "Your shares are in proportion to lse. The lse is the *logarithm* of the sum that a side divided by: the "
        "shares are in proportion to exp(lse). (An lse may well be negative, and a share cannot.)",
        recognise=_out_is(wrong_answers.weighs_by_lse),
    ),
    Mistake(
        "not-divided",
        "Your lse is right. In the output the shares are exp(lse - the larger one): the larger side's is 1, and "
        "together they are more than 1. Divide by their sum.",
        wrong_answers.softens_twice,
    ),
    Mistake(
        "swaps-shares",
        "Each output is scaled by the *other* side's share. The side with the larger lse counts for more.",
        recognise=_out_is(wrong_answers.swaps_shares),
    ),
    Mistake(
        "takes-the-winner",
        "For each query your output is that of one side, the one with the larger lse. The other side's keys have "
        "weight too: less, but not zero.",
        recognise=_out_is(wrong_answers.takes_the_winner),
    ),
    Mistake(
        "adds-lse",
        "The output is right, but your lse is the sum of the two. The sums of exponentials add up; adding their "
        "logarithms multiplies them.",
        recognise=_lse_is(wrong_answers.adds_lse),
    ),
    Mistake(
        "larger-lse",
        "The output is right, but your lse is the larger of the two. The sum of exponentials of both sides is more "
        "than either's: the next join would give these two too little weight.",
        recognise=_lse_is(wrong_answers.larger_lse),
    ),
    Mistake(
        "forgets-the-shift",
        "The output is right. You took something off lse before exp, and did not put it back after log.",
        recognise=_lse_is(wrong_answers.forgets_the_shift),
    ),
    Mistake(
        "no-log",
        "The output is right, but in place of lse you return the sum of exponentials itself. Return its logarithm, "
        "which stays small where the sum overflows.",
        recognise=_lse_is(wrong_answers.no_log),
    ),
    Mistake(
        "overflows",
        "Your join is right as long as scores are small. With scores around 1000, exp(lse) is more than any float64 "
        "can hold, and the result is no finite number. Only differences of lse may go into exp: take the larger of "
        "the two off first.",
        recognise=_overflows,
    ),
    Mistake(
        "shifts-by-one-side",
        "Your join is right where both sides have similar scores. You take one side's lse off, always that of the "
        "same side: where the other one is far larger, exp of the difference overflows. Take off the larger of the "
        "two, query by query.",
        recognise=_shifts_by_one_side,
    ),
    Mistake(
        "one-top-for-all",
        "You take one number off for all queries. Where some queries have scores around 1000 and others around -1000, "
        "the others' exponentials all become 0, and so does their sum. Take the larger lse for each query on its own: "
        "`torch.maximum`.",
        recognise=_one_top,
    ),
    Mistake(
        "skips-the-empty",
        "As soon as *some* query saw no key on a side, you leave that side out for all queries. Other queries did see "
        "keys there. An lse of minus infinity makes a share of 0 for its own query; no `if` is needed.",
        wrong_answers.skips_the_empty,
    ),
    Mistake(
        "nan-of-nothing",
        "Your join is right where keys were seen. Where lse is minus infinity, something was computed that has no "
        "value, such as minus infinity less minus infinity, and NaN came. Take off something finite there, such as 0: "
        "exp(-inf - 0) is 0.",
        recognise=_nan_of_nothing,
    ),
    Mistake(
        "finite-nothing",
        "Where no key was seen your lse is a finite number. It has to be minus infinity, the logarithm of a sum of "
        "nothing. The next join would take any other number for the sum of some keys.",
        recognise=_finite_nothing,
    ),
    Mistake(
        "rounded",
        "Your numbers are right to some digits, and the inputs have fifteen. There are two usual reasons. A small "
        "number such as 1e-6 was added to avoid a division by zero. Or a tensor on the way is float32, as new tensors "
        "are by default.",
        recognise=_is_rounded,
    ),
    Mistake(
        "in-place",
        "The numbers are right, but the tensors that came in were changed. A partial result may be in use elsewhere, "
        "and autograd may have kept it: make new tensors, without `+=` and methods whose names end in `_`.",
        recognise=_changes_what_it_was_given,
    ),
)
