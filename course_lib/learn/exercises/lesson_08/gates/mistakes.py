"""Usual wrong gates, each by name and with a sentence."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Mistake
from course_lib.learn.exercises.lesson_08.gates.cases import BOTH, CROSSED, ENTER, KEPT_BACK, LEAVE
from course_lib.learn.exercises.lesson_08.gates.wrong_answers import gate, mean, not_waited_for, same, summed
from course_lib.learn.exercises.lesson_08.step import NOT_A_TENSOR, UNWRITTEN
from course_lib.learn.exercises.lesson_08.tries import HANDED, OUTPUT, gradient_of
from course_lib.learn.exercises.lesson_08.usual import differs_in, not_waited

__all__ = ["FLAG_NOT_KEPT", "MISTAKES", "ONE_GRADIENT_SHORT", "raised_about_gradients", "raised_about_the_flag"]

_GRADIENTS = (gradient_of("x"), gradient_of("partial"))


def _of(evidence: Evidence, kind: str) -> list[AnswerOutcome]:
    return [outcome for outcome in evidence.outcomes if outcome.case.startswith(f"{kind}, rank")]


def raised_about_gradients(evidence: Evidence) -> bool:
    return evidence.error is not None and "number of gradients" in evidence.error.message


def raised_about_the_flag(evidence: Evidence) -> bool:
    """Nothing of that name in ctx, no such name in ``backward``, or a flag given to ``save_for_backward``."""
    error = evidence.error
    return error is not None and (
        ("Backward' object has no attribute" in error.message)
        or (error.kind == "NameError" and "is_entrance" in error.message)
        or "save_for_backward" in error.message
    )


def _nothing_comes_out(evidence: Evidence) -> bool:
    """None at the exit, and what passes the entrance comes through."""
    left, entered = _of(evidence, LEAVE), _of(evidence, ENTER)
    return bool(left) and all(map(_gave_none, left)) and not any(map(_gave_none, entered))


def _gave_none(outcome: AnswerOutcome) -> bool:
    given = outcome.got[OUTPUT]
    return isinstance(given, str) and given == f"{NOT_A_TENSOR}None"


def _wrong_only_with_two(evidence: Evidence) -> bool:
    """Right at one gate, right forward at two, and a gradient that differs."""
    return all(
        outcome.case.startswith((BOTH, CROSSED)) and differs_in(outcome, *_GRADIENTS) for outcome in evidence.wrong
    )


def _backward_is_unwritten(evidence: Evidence) -> bool:
    return all(
        differs_in(outcome, *_GRADIENTS) and outcome.got[_GRADIENTS[0]] == UNWRITTEN for outcome in evidence.wrong
    )


FLAG_NOT_KEPT = (
    "`backward` does not see the arguments of `forward`. Keep the flag in `ctx` as an attribute, "
    "`ctx.is_entrance = is_entrance`. (`ctx.save_for_backward` is for tensors.)"
)
ONE_GRADIENT_SHORT = (
    "`forward` takes two things beside `ctx`, so `backward` has to return two gradients: that of x, and None for the "
    "flag. Something else came. (A `backward` without a `return`, or with `return None`, counts as one; so does a "
    "list, whatever is in it: `return grad, None` gives a tuple.)"
)

MISTAKES = (
    not_waited(gate(leave=(not_waited_for, same))),
    Mistake(
        "nothing-comes-back",
        "The values are right forward, and the gradient at the entrance is each rank's own: it comes from this rank's "
        "features alone. All ranks used x, so its gradient has a summand from each: sum them.",
        gate(enter=(same, same)),
    ),
    Mistake(
        "nothing-summed",
        "Both gates let everything pass, forward and backward. That is right forward at the entrance, and backward at "
        "the exit. In the other two cases each rank has a summand, and the summands have to be added up.",
        gate(enter=(same, same), leave=(same, same)),
    ),
    Mistake(
        "nothing-summed-at-the-exit",
        "At the exit each rank hands on its own part. The output of the region is the sum over ranks: sum it "
        "forward, and let the gradient pass.",
        gate(leave=(same, same)),
    ),
    Mistake(
        "sums-going-in",
        "Forward you sum at both gates. What comes to the entrance is the same on all ranks and complete: its sum is "
        "`n` times too large. Let it pass.",
        gate(enter=(summed, summed)),
    ),
    Mistake(
        "backward-swapped",
        "Forward is right at both gates; backward, the two gates are swapped. Where `forward` passes a tensor on, "
        "each rank's gradient is a summand. Where `forward` sums, the gradient is complete already.",
        gate(enter=(same, same), leave=(summed, summed)),
    ),
    Mistake(
        "sums-back-at-the-exit",
        "At the exit you all-reduce backward as well. Every rank has the whole gradient of the sum there already; "
        "summing equal gradients makes them `n` times too large. A sum hands its gradient to each summand as it "
        "is.",
        gate(leave=(summed, summed)),
    ),
    Mistake(
        "gates-swapped",
        "You sum at the entrance and let pass at the exit. The input of the region is the same on all ranks and "
        "complete; its outputs are partial sums.",
        gate(enter=(summed, same), leave=(same, summed)),
    ),
    Mistake(
        "mean-not-sum",
        "You take means. In data parallelism each rank had a loss of its own and the mean was wanted. Here all ranks "
        "share one loss and each has a summand: sum, and do not divide.",
        gate(enter=(same, mean), leave=(mean, same)),
    ),
    Mistake(
        "mean-at-the-exit",
        "At the exit you divide by the number of ranks. What comes there are summands of one output: add them up, and "
        "do not divide.",
        gate(leave=(mean, same)),
    ),
    Mistake(
        "mean-going-back",
        "Forward is right. Backward you divide by the number of ranks: but the gradients at the entrance are "
        "summands, one from each rank's features.",
        gate(enter=(same, mean)),
    ),
    Mistake(
        "overwrites-its-input",
        "The numbers are right, and the tensor that came in has been overwritten: `dist.all_reduce` works in place. "
        "An operation that kept that tensor for its own backward pass now finds other numbers in it. Sum a copy.",
        recognise=lambda evidence: all(differs_in(outcome, HANDED) for outcome in evidence.wrong),
    ),
    Mistake(
        "overwrites-the-gradient",
        "The numbers are right, and the gradient that came in has been overwritten. Autograd may still need that "
        "tensor for another path: sum a copy of it.",
        recognise=lambda evidence: all(differs_in(outcome, KEPT_BACK) for outcome in evidence.wrong),
    ),
    Mistake(
        "all-reduce-gives-nothing",
        "Nothing came out of the exit: `forward` gave `None` there. Is its `return` missing, or did you return the "
        "result of `dist.all_reduce`? That call returns nothing: the sum is in the tensor that you gave it.",
        recognise=_nothing_comes_out,
    ),
    Mistake(
        "means-going-in",
        "The numbers are right, but you all-reduce forward at the entrance. Every rank has that tensor already, so "
        "nothing has to be sent. The mean of `n` equal tensors is that tensor, and a sum that is not used is sent in "
        "vain. Let it pass.",
        gate(enter=(mean, summed)),
    ),
    Mistake(
        "flag-beside-ctx",
        "Each gate is right by itself, and where there are two, a gradient is wrong. Usually the `backward` of one "
        "gate then works as that of the other. Keep in `ctx` which gate it is: each use has a `ctx` of its own. A "
        "variable outside, or of the class, holds what was written there last.",
        recognise=_wrong_only_with_two,
    ),
    Mistake(
        "backward-unwritten",
        "`forward` is right at both gates. `backward` still raises its `NotImplementedError`: it comes next. What has "
        "to happen to the gradient at each gate?",
        recognise=_backward_is_unwritten,
    ),
    Mistake(
        "flag-not-kept",
        FLAG_NOT_KEPT,
        recognise=raised_about_the_flag,
    ),
    Mistake(
        "one-gradient-short",
        ONE_GRADIENT_SHORT,
        recognise=raised_about_gradients,
    ),
)
