"""Lesson 13: what is asked beside the bets. The bets themselves are those of ``course_lib/learn/bets/betting.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

if TYPE_CHECKING:
    from course_lib.claims import Evidence

__all__ = ["CLAIM_BETS", "SIGHTS"]

SIGHTS = ("the loss of every rank goes down", "no error is raised", "the ranks hold equal weights")


def _tells(found: Mapping[str, tuple[bool, bool]]) -> Explanation:
    """``found``: by sight, what was seen without DDP and with it."""
    apart = [sight for sight in SIGHTS if found[sight][0] != found[sight][1]]
    return Explanation(
        measured=apart[0] if len(apart) == 1 else f"{len(apart)} of them",
        because="An observation that is the same with DDP and without it cannot decide between them, however good it "
        "looks. "
        "A replica that trains alone learns from its half of the data, and learns well.",
        misreadings={
            sight: words
            for sight, words in (
                (SIGHTS[0], "It does so in both. Two models that never meet learn too, each from its share."),
                (SIGHTS[1], "None is raised in either: nothing here asks whether gradients were ever sent."),
                (SIGHTS[2], "In this run they were equal in both, or different in both, so they decide nothing."),
            )
            if sight not in apart
        },
    )


def _a_good_part(said: float) -> bool:
    return said >= 30


def _waiting(evidence: Evidence) -> Explanation:
    """From the trial of B2: on 8 H100, how long moving takes, as a share of the waiting."""
    facts = evidence.facts
    moves = facts["moves of the batch's activations, or of their gradients"]
    share = round(100 * float(facts["moving : waiting, 8x H100, inside"]), 2)

    def some(said: float) -> bool:
        return 5 * share <= said < 30

    return Explanation(
        measured=share,
        label="by the data sheet",
        because=f"In a step {facts['bytes of each']} are moved {moves} times, each in less than a millisecond over "
        "NVLink. The layers of the three other stages compute for far more than that. So the link is not the cause.",
        misreadings={
            _a_good_part: "That may be so on a slow network, and a trial there would agree with you. So the author "
            "of a trial must not choose its link.",
            some: "You are right that moving is the smaller part. But it is far smaller than that.",
        },
    )


def _hardly_ever(said: float) -> bool:
    return said <= 5


def _a_disturbed(said: float) -> bool:
    return 22 <= said <= 28


def _very_often(said: float) -> bool:
    return said >= 35


def _flips(shares: Mapping[int, float]) -> Explanation:
    """``shares``: by number of pairs, the share of trials in per cent that decided against what is so."""
    one, many = shares[1], shares[max(shares)]
    return Explanation(
        measured=round(one),
        because="A disturbed measurement takes three times as long. If that of A is disturbed and that of B is not, "
        f"the trial names B. With the median of {max(shares)} pairs it happens in {many:.2f} % of the trials. In more "
        "than half of the pairs A would have to be disturbed, and B not.",
        misreadings={
            _hardly_ever: "A difference of 30 % seems safe. But the noise is not 30 %: it is rare, and then it is "
            "large.",
            _a_disturbed: "A is disturbed that often. In a quarter of these cases B is disturbed as well, and A is the "
            "faster one again.",
            _very_often: "Most pairs have no disturbed time in them, or one where it does no harm.",
        },
    )


CLAIM_BETS: tuple[Asked, ...] = (
    Asked(
        name="13.tells",
        question="The loop with a process group and a sampler alone, and the loop with DDP, on two ranks each. "
        "Which of these comes out differently in the two?",
        choices=SIGHTS,
        tell=_tells,
    ),
    Asked(
        name="13.waiting",
        question="A model of 7 billion weights in four stages, one batch, 8x H100. A device waits for the three "
        "others. How long does moving activations take, as a share of that waiting?",
        unit="%",
        high=1000,
        tell=_waiting,
    ),
    Asked(
        name="13.flips",
        question="B takes 30 % longer than A, in truth. A trial times each once. One time in four, at random, is "
        "disturbed, and three times as long. How often does it say that B is the faster one?",
        unit="%",
        high=100,
        tell=_flips,
    ),
)
