"""Which slip a wrong loss comes from: read off its value, which each slip changes in a way of its own."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_08.judging import CLOSE
from course_lib.learn.exercises.lesson_08.loss.cases import (
    GRADIENT,
    LARGE,
    LOSS_ITSELF,
    PLAIN,
    hands_in_logits,
    logits_of,
    targets_of,
    whose,
)
from course_lib.learn.exercises.lesson_08.step import NOT_A_TENSOR
from course_lib.learn.exercises.lesson_08.tries import HANDED_IN
from course_lib.learn.exercises.lesson_08.usual import differs_in

__all__ = [
    "by_token_number",
    "comes_as_a_number",
    "everybody_clamps",
    "everybody_takes_the_remainder",
    "is_out_of_bounds",
    "looks_like",
    "loss_of_own_part",
    "miscounted",
    "overflows",
    "own_target_alone",
    "sends_logits",
    "vanishes",
]


@dataclass(frozen=True)
class _Situation:
    """``scores`` (N, V) are the logits, or the logits less each position's largest, as an answer may take them."""

    scores: Tensor
    targets: Tensor
    rank: int
    world_size: int

    @property
    def size(self) -> int:
        """Tokens a rank."""
        return self.scores.size(1) // self.world_size

    @property
    def log_sum(self) -> Tensor:
        return self.scores.logsumexp(dim=1)

    def place(self, rank: int) -> Tensor:
        """Where each target stands among a rank's columns, below 0 or beyond them where it is not there."""
        return self.targets - rank * self.size

    def found(self, rank: int, place: Tensor) -> Tensor:
        """The logit in this column of a rank, the nearest where there is none."""
        own = self.scores.chunk(self.world_size, dim=1)[rank]
        return own.gather(1, place.clamp(0, self.size - 1)[:, None])[:, 0]

    def is_here(self, rank: int, first: int = 0, last: int = 0) -> Tensor:
        place = self.place(rank)
        return (place >= first) & (place < self.size + last)

    def summed(self, of_rank: Callable[[int], Tensor]) -> Tensor:
        return torch.stack([of_rank(rank) for rank in range(self.world_size)]).sum(dim=0)


Slip = Callable[[_Situation], Tensor | list[Tensor]]
"""The mean loss, or the losses that variants of a slip give."""


def looks_like(slip: Slip) -> Callable[[Evidence], bool]:
    """Whether all losses are what one variant of a slip makes of them, with the largest logit taken off or not."""

    def recognise(evidence: Evidence) -> bool:
        variants = [list(_losses(slip, outcome)) for outcome in evidence.outcomes]
        return any(
            all(
                not CLOSE(losses[i], outcome.got[LOSS_ITSELF])
                for losses, outcome in zip(variants, evidence.outcomes, strict=True)
            )
            for i in range(len(variants[0]))
        ) and any(differs_in(outcome, LOSS_ITSELF) for outcome in evidence.wrong)

    return recognise


def _losses(slip: Slip, outcome: AnswerOutcome) -> Iterator[Tensor]:
    kind, rank, world_size = whose(outcome)
    logits, targets = logits_of(kind, world_size), targets_of(kind, world_size)
    for scores in (logits, logits - logits.amax(dim=1, keepdim=True)):
        given = slip(_Situation(scores, targets, rank, world_size))
        yield from given if isinstance(given, list) else [given]


def own_target_alone(at: _Situation) -> Tensor:
    """The target's logit is not added up: zero on ranks that do not have it."""
    own = at.found(at.rank, at.place(at.rank))
    return (at.log_sum - torch.where(at.is_here(at.rank), own, 0.0)).mean()


def everybody_clamps(at: _Situation) -> list[Tensor]:
    """Each rank gives the logit at the nearest place, whether the target is there or not; added up, or not."""
    every = at.summed(lambda rank: at.found(rank, at.place(rank)))
    return [(at.log_sum - every).mean(), (at.log_sum - at.found(at.rank, at.place(at.rank))).mean()]


def everybody_takes_the_remainder(at: _Situation) -> list[Tensor]:
    """The same with ``targets % v``."""
    place = at.targets % at.size
    every = at.summed(lambda rank: at.found(rank, place))
    return [(at.log_sum - every).mean(), (at.log_sum - at.found(at.rank, place)).mean()]


def by_token_number(at: _Situation) -> Tensor:
    """A target's token number taken for its column, on every rank that has so many."""
    is_here = at.targets < at.size
    every = at.summed(lambda rank: torch.where(is_here, at.found(rank, at.targets), 0.0))
    return (at.log_sum - every).mean()


def miscounted(first: int = 0, last: int = 0) -> Slip:
    """The places that count as a rank's own begin or end one too early or too late."""

    def slip(at: _Situation) -> Tensor:
        every = at.summed(lambda rank: torch.where(at.is_here(rank, first, last), at.found(rank, at.place(rank)), 0.0))
        return (at.log_sum - every).mean()

    return slip


def loss_of_own_part(at: _Situation) -> list[Tensor]:
    """Nothing is added up, with the target's logit by any of the ways above."""
    own = at.scores.chunk(at.world_size, dim=1)[at.rank]
    place, remainder = at.place(at.rank), at.targets % at.size
    masked = torch.where(at.is_here(at.rank), at.found(at.rank, place), 0.0)
    shifted = torch.where(at.is_here(at.rank), at.found(at.rank, place) - own.amax(dim=1), 0.0)
    ways = [at.found(at.rank, place), at.found(at.rank, remainder), masked]
    return [
        *((own.logsumexp(dim=1) - way).mean() for way in ways),
        (own.logsumexp(dim=1) - own.amax(dim=1) - shifted).mean(),
    ]


# -- not read off the value -------------------------------------------------------------------------------------------


def overflows(evidence: Evidence) -> bool:
    """Right where logits are small, infinite or no number where they are large: something overflowed."""
    small = [outcome for outcome in evidence.outcomes if outcome.case.startswith(PLAIN)]
    large = [outcome for outcome in evidence.outcomes if outcome.case.startswith(f"{LARGE},")]
    is_right = not any(differs_in(outcome, LOSS_ITSELF, GRADIENT) for outcome in small)
    return bool(large) and is_right and not any(torch.isfinite(o.got[LOSS_ITSELF]).all() for o in large)


def vanishes(evidence: Evidence) -> bool:
    """As above, and the infinity is the logarithm of 0."""
    large = [outcome for outcome in evidence.outcomes if outcome.case.startswith(f"{LARGE},")]
    return overflows(evidence) and any(outcome.got[LOSS_ITSELF].eq(-torch.inf).any() for outcome in large)


def is_out_of_bounds(evidence: Evidence) -> bool:
    """A column was asked for that is not there."""
    return evidence.error is not None and "out of bounds" in evidence.error.message


def sends_logits(evidence: Evidence) -> bool:
    """All is right but for the numbers that were handed in, and those are as many as there are logits."""
    return all(differs_in(outcome, HANDED_IN) and hands_in_logits(outcome) for outcome in evidence.wrong)


def comes_as_a_number(evidence: Evidence) -> bool:
    """On every rank."""
    came = [outcome.got[LOSS_ITSELF] for outcome in evidence.outcomes]
    return all(isinstance(one, str) and _is_number(one.removeprefix(NOT_A_TENSOR)) for one in came)


def _is_number(text: str) -> bool:
    try:
        return isinstance(float(text), numbers.Real)
    except ValueError:
        return False
