"""The quiz of lesson 13; right answers come from the judge's own trial, the marks of bets, and arithmetic."""

from __future__ import annotations

from itertools import product

from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.learn.exercises.lesson_13.own import decided
from course_lib.learn.exercises.lesson_13.own.worlds import OPEN, Clock, World
from course_lib.learn.records.bet_records import SURE, Bet, BetStatus, brier, mark

__all__ = ["QUIZ"]

_MIB = 2**20
_DISTURBED = 0.2  # of the measurements


def _two_sizes() -> str:
    """One size bears the claim out, and one is open."""
    world = World(OPEN, {_MIB: 2.0, 64 * _MIB: 2.0}, noise={_MIB: 0.01, 64 * _MIB: 0.6})
    return decided(Clock(world), list(world.ratios), 61)[0]


def _best_sure() -> int:
    """How sure to say if one expects the whole mark in seven bets of ten, and none in the others."""
    ten = ["false"] * 7 + ["holds"] * 3
    scores = {sure: brier([BetStatus(Bet("false", sure), verdict) for verdict in ten]) or 0.0 for sure in SURE}
    return min(scores, key=scores.__getitem__)


def _safe_bets() -> int:
    """Of four bets on a claim that holds with conditions, how many get at least half a mark?"""
    bets = ("holds", "holds with conditions", "misleading", "false")
    return sum(mark(one, "holds with conditions") > 0 for one in bets)


def _wrong_once() -> int:
    """In per cent: A is faster by little, what is disturbed is slower by much; so A is disturbed and B is not."""
    wrong = [(a, b) for a, b in product((True, False), repeat=2) if a and not b]
    return round(100 * sum(_DISTURBED ** (a + b) * (1 - _DISTURBED) ** (2 - a - b) for a, b in wrong))


def _drift() -> float:
    """The ratio that blocks show: 10 calls of one size, then 10 of the other, each call 7.2 % longer than the last."""
    return round(1.072**10, 1)


_CONTROLS = {
    "same": "the same loop with DDP, on the same data",
    "more": "the same loop once more, with another seed",
    "one": "the same loop on one rank",
    "none": "none: that weights differ is enough",
}


def _control() -> str:
    """The one that differs from what is tried by the wrapper alone, and in which the weights must be equal."""
    changes = {"same": {"wrapper"}, "more": {"seed"}, "one": {"ranks", "data"}, "none": set()}
    return next(name for name, changed in changes.items() if changed == {"wrapper"})


QUIZ = (
    Question(
        name="open",
        text="At one size the middle half of the ratios lies within the bounds, at another one it lies across a bound. "
        "What does a fair trial say?",
        choices=("holds", "holds with conditions", "false", OPEN),
        answer=_two_sizes,
        misconceptions={
            "holds": "At the second size nothing has been shown yet. It may be contradicted there.",
            "holds with conditions": "A condition is a place where it was seen to fail. This one was not seen at all.",
            "false": "Nothing contradicted it. A bound that lies within the spread is no evidence against it.",
        },
        because="The claim speaks of both sizes, and one is open. More pairs, or a quieter machine, may decide.",
    ),
    Question(
        name="sure",
        text="You expect to be right with seven of ten such bets, and quite wrong with three. What do you say to the "
        "question how sure you are, if you want the best Brier score?",
        choices=SURE,
        answer=_best_sure,
        show=lambda sure: f"{sure} %",
        misconceptions={
            25: "That is right for a pure guess. Here your seven right bets would cost you the most.",
            50: "It is safe, and it does not use what you know.",
            90: "The three wrong ones cost 0.81 each. That is more than the seven right ones bring in.",
        },
        because="The mean of (sure - mark)² is least if `sure` is the mean mark. So say what you really expect.",
    ),
    Question(
        name="near",
        text="A claim holds with conditions. How many of the four bets on it get half a mark or more?",
        choices=(1, 2, 3, 4),
        answer=_safe_bets,
        misconceptions={
            1: "One gets the whole mark. Another one says as well that the sentence can be relied on.",
            3: '"Misleading" says that one cannot rely on it, and here one can.',
            4: '"False" is as far away as a bet can be.',
        },
        because='"Holds" and "holds with conditions" both say that it can be relied on. What is missing is the '
        "condition.",
    ),
    Question(
        name="once",
        text="A is faster than B by a little. One measurement in five is disturbed, at random, and far slower. A trial "
        "measures each once. In how many per cent of the cases does it name B?",
        choices=(0, 4, 16, 20),
        answer=_wrong_once,
        show=lambda percent: f"{percent} %",
        misconceptions={
            0: "A disturbed measurement of A is slower than any quiet one of B.",
            4: "That is how often both are disturbed. Then A is the faster one again.",
            20: "That is how often A is disturbed. In a fifth of these cases B is disturbed as well.",
        },
        because="A has to be disturbed and B not: 0.2 times 0.8.",
    ),
    Question(
        name="blocks",
        text="Ten calls of one size, then ten of twice that size, which take as long in truth. Each call takes 7.2 % "
        "longer than the one before it, because a load is growing. Which ratio do the two blocks show, call by call?",
        choices=(1.0, 1.1, 2.0, 20.0),
        answer=_drift,
        show=lambda ratio: f"{ratio:g}",
        misconceptions={
            1.0: "That is the true ratio. But the blocks are ten calls apart, and the load has grown meanwhile.",
            1.1: "That is what pairs would show, two calls one right after the other: 1.072.",
            20.0: "Ten times 7.2 % are not a factor of ten for each of two.",
        },
        because="Ten calls lie between the two of each ratio: 1.072 to the power of 10. The wrong claim would hold.",
    ),
    Question(
        name="control",
        text="A trial shows that without DDP the weights of two ranks differ after ten steps. Which control does it "
        "need?",
        choices=tuple(_CONTROLS),
        answer=_control,
        show=lambda name: _CONTROLS[name],
        misconceptions={
            "more": "Another seed shows whether it was chance. It does not show whether the missing DDP is the cause.",
            "one": "One rank has no other rank to differ from.",
            "none": "They might differ with DDP too, by rounding or a bug of the loop. Then the trial says nothing.",
        },
        because="The two runs differ only in the one thing that the claim is about. If the weights are equal there, "
        "the "
        "difference comes from it.",
    ),
)
