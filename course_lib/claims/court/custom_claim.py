"""A reader's own claim: a sentence and the trial that decides it, which runs beside the catalogue's.

The template, ten lines: a sentence, a function that measures, a rule that decides, and what would turn it::

    @own_claim("Y1", "An all-reduce of twice as many bytes takes twice as long.")
    def twice_the_bytes(ranks: Ranks) -> Evidence:
        ratios = ranks(2).run(measured_ratios)[0]                    # what is measured, on real ranks
        low, middle, high = statistics.quantiles(ratios, n=4)
        if high < 1.8 or low > 2.2:                                  # the rule, fixed before the run
            verdict = "false"
        else:
            verdict = "holds" if 1.8 <= low and high <= 2.2 else "cannot tell here"
        facts = {"the middle half of the ratios": f"{low:.2f} to {high:.2f}"}
        return Evidence(verdict, facts, because="...", turns_if="messages were small")

``trial("Y1").run()``, ``bet("Y1")`` and ``settle("Y1")`` know it from then on, until the kernel ends; running the cell
again replaces it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType

from course_lib.claims.court.catalogue import ARTICLES, Claim
from course_lib.claims.court.evidence import Evidence, Ranks, Trial

__all__ = ["YOURS", "is_own_name", "own_claim", "own_trials"]

YOURS = "a claim of your own"
_NAME = re.compile(r"Y[1-9]\d?")
_WORDS = 4  # a sentence has a few
_OWN: dict[str, Trial] = {}


def own_claim(name: str, text: str) -> Callable[[Callable[[Ranks], Evidence]], Trial]:
    """Make a function ``(ranks) -> Evidence`` the trial of a claim of the reader's own, named Y1 to Y99.

    Raises ``ValueError`` for a name that an article may have, and for a claim that is no sentence.
    """
    if not is_own_name(name):
        raise ValueError(
            f"A claim of your own is named Y1 to Y99: other letters, such as {', '.join(ARTICLES)}, name articles. "
            f"You gave {name!r}. The nearest is 'Y1'."
        )
    words = text.split() if isinstance(text, str) else []
    if len(words) < _WORDS or not words[-1].endswith("."):
        raise ValueError(
            f"You gave {text!r} as the claim of {name}. Write a sentence of {_WORDS} words or more, with a full stop "
            "at its end. A run must be able to contradict it."
        )

    def register(function: Callable[[Ranks], Evidence]) -> Trial:
        if not callable(function):
            raise ValueError(f"The trial of {name} is a function of `ranks`; you gave {function!r}.")
        _OWN[name] = Trial(Claim(name, "cpu", " ".join(words), source=YOURS), _checked(name, function))
        return _OWN[name]

    return register


def _checked(name: str, function: Callable[[Ranks], Evidence]) -> Callable[[Ranks], Evidence]:
    """The function, with a sentence where it brings back no evidence, no reason, or a verdict without a number."""

    @wraps(function)
    def run(ranks: Ranks) -> Evidence:
        evidence = function(ranks)
        if not isinstance(evidence, Evidence):
            raise ValueError(
                f"The trial of {name} returned {evidence!r}. It must return Evidence(verdict, facts, because=..., "
                "turns_if=...), and not print or assert its verdict."
            )
        for part, numbers in (("facts", evidence.facts), ("timings", evidence.timings)):
            if not isinstance(numbers, Mapping) or not all(isinstance(key, str) for key in numbers):
                raise ValueError(
                    f"{part} of {name} must be a dictionary with a name for each measured value, such as {{'ratio': "
                    f"1.9}}; you gave {numbers!r}."
                )
        if not isinstance(evidence.because, str) or not evidence.because:
            raise ValueError(
                f"The trial of {name} says {evidence.verdict!r} with because={evidence.because!r}. Give the reason "
                "as a text, in because=..."
            )
        if not evidence.is_blocked and not {**evidence.facts, **evidence.timings}:
            raise ValueError(
                f"The trial of {name} says {evidence.verdict!r} and gives no number for it. Put the numbers that you "
                "measured in facts. Put those that differ from run to run in timings."
            )
        return evidence

    return run


def is_own_name(name: object) -> bool:
    """Whether a claim of the reader's own may have this name."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name))


def own_trials() -> Mapping[str, Trial]:
    """The reader's own trials of this session, by name."""
    return MappingProxyType(_OWN)
