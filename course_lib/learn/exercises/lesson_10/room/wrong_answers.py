"""Usual wrong answers to 10.room, each with what it mixes up."""

from __future__ import annotations

import math

from course_lib.learn.catalogue.exercise import Mistake

__all__ = ["MISTAKES"]


def _as_it_was(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return min(num_tokens, math.ceil(factor * num_tokens / num_experts))


def _divides_by_choices(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return min(num_tokens, math.ceil(factor * num_tokens / (num_experts * top_k)))


def _rounds_down(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return min(num_tokens, int(factor * num_tokens * top_k / num_experts))


def _rounds_to_nearest(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return min(num_tokens, round(factor * num_tokens * top_k / num_experts))


def _one_more(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return min(num_tokens, int(factor * num_tokens * top_k / num_experts) + 1)


def _no_most(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return math.ceil(factor * num_tokens * top_k / num_experts)


def _no_factor(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return min(num_tokens, math.ceil(num_tokens * top_k / num_experts))


def _rounds_first(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return min(num_tokens, math.ceil(factor * math.ceil(num_tokens * top_k / num_experts)))


def _not_rounded(num_tokens: int, num_experts: int, top_k: int, factor: float) -> float:
    return min(num_tokens, factor * num_tokens * top_k / num_experts)


def _most_of_choices(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return min(num_tokens * top_k, math.ceil(factor * num_tokens * top_k / num_experts))


def _all_tokens(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return num_tokens


def _one_at_least(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return max(1, min(num_tokens, math.ceil(factor * num_tokens * top_k / num_experts)))


MISTAKES = (
    Mistake("as-it-was", "This is still the colleague's room, which counts one choice for each token.", _as_it_was),
    Mistake(
        "divides-by-choices",
        "You divide by the choices of a token. More choices are more rows, for the same number of experts.",
        _divides_by_choices,
    ),
    Mistake(
        "rounds-down",
        "It is rounded down. A share of 2.5 tokens with a factor of 1 needs room for 3.",
        _rounds_down,
    ),
    Mistake(
        "rounds-to-nearest",
        "It is rounded to the nearest number, which is up or down. Round up.",
        _rounds_to_nearest,
    ),
    Mistake(
        "one-more",
        "You round down and add 1. That rounds up, but adds 1 to a whole number as well: `math.ceil` leaves it as it "
        "is.",
        _one_more,
    ),
    Mistake(
        "no-most",
        "An expert has more room than there are tokens. None of them chooses an expert twice, so that room is lost.",
        _no_most,
    ),
    Mistake("no-factor", "In your answer the factor makes no difference.", _no_factor),
    Mistake(
        "rounds-first",
        "The even share is rounded up before it is multiplied. Multiply first; else the factor enlarges the rounding.",
        _rounds_first,
    ),
    Mistake("not-rounded", "An expert cannot take half a token: give a whole number, rounded up.", _not_rounded),
    Mistake(
        "most-of-choices",
        "Your largest room is the number of all choices. A token does not choose one expert twice, so the number of "
        "tokens is the most.",
        _most_of_choices,
    ),
    Mistake("all-tokens", "Every expert has room for all tokens: that is no limit at all.", _all_tokens),
    Mistake(
        "one-at-least",
        "Where there are no tokens, you give room for one. A rank may have no tokens, and an expert needs no more "
        "room than there are tokens.",
        _one_at_least,
    ),
)
