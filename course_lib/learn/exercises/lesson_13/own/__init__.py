"""13.own: decide a claim about times fairly, in worlds where it holds, where it fails, and where noise hides it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_13.own import mistakes
from course_lib.learn.exercises.lesson_13.own.seen import OTHER_COUNT
from course_lib.learn.exercises.lesson_13.own.worlds import LEAST, MOST, OPEN, WORLDS, Clock, most_measured
from course_lib.learn.judging.compare import Difference, short
from course_lib.learn.judging.judge import by_cases

__all__ = ["OWN", "decided"]

_VERDICTS = ("holds", "holds with conditions", "false", OPEN)
_OFF, _OFF_IN_NOISE = 0.12, 0.45  # of a median, relative


def decided(time_s: Callable[[int], float], sizes: Sequence[int], pairs: int) -> tuple[str, dict[int, float]]:
    """The verdict, and the median ratio by size."""
    answers, middles = set(), {}
    for size in sizes:
        ratios = sorted(time_s(2 * size) / time_s(size) for _ in range(pairs))
        low, middles[size], high = statistics.quantiles(ratios, n=4, method="inclusive")
        inside, outside = LEAST <= low <= high <= MOST, high < LEAST or low > MOST
        answers.add("yes" if inside else "no" if outside else "open")
    if "open" in answers:
        return OPEN, middles
    return {"yes": "holds", "no": "false"}[answers.pop()] if len(answers) == 1 else "holds with conditions", middles


def _expected(kind: str) -> dict[str, Any]:
    world = WORLDS[kind]
    return {
        "verdict": world.verdict,
        "middles": dict(world.ratios),
        "off": _OFF_IN_NOISE if world.verdict == OPEN else _OFF,
        "pairs": world.pairs,
    }


def _call(answer: Any, kind: str) -> dict[str, Any]:
    world = WORLDS[kind]
    clock = Clock(world)
    sizes = list(world.ratios)
    returned = answer(clock, sizes, world.pairs)
    measured = {size: (clock.measured[size], clock.measured[2 * size]) for size in world.ratios}
    changed = sizes != list(world.ratios)
    return {"returned": returned, "measured": measured, "overlapped": clock.overlapped, "changed": changed}


def _compare(expected: Any, got: Any) -> str:
    """Expected is a world, or what another answer gave."""
    if "returned" in expected:
        return _unlike(expected["returned"], got["returned"])
    returned = got["returned"]
    if returned is None:
        return "nothing came back (`None`); a function gives its result with `return`"
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        return f"expected a verdict and the median ratio by size, ('holds', {{1024: 2.0}}), got {short(returned)}"
    verdict, middles = returned
    if not isinstance(verdict, str) or verdict not in _VERDICTS:
        return f"the verdict is to be one of {', '.join(map(repr, _VERDICTS))}, got {short(verdict)}"
    if got["overlapped"]:
        return "two all-reduces ran at the same time, each beside the other: measure them one right after the other"
    if verdict != expected["verdict"]:
        return f"there {expected['verdict']!r} is right, and your trial says {verdict!r}"
    changed = "the verdict is right, but your code changed the list of sizes that it was given: copy it first"
    return _middles(expected, middles) or _counts(expected, got["measured"]) or (changed if got["changed"] else "")


def _middles(expected: Mapping[str, Any], middles: Any) -> str:
    right = expected["middles"]
    if not isinstance(middles, Mapping) or set(middles) != set(right):
        return f"the median ratios are to be a dictionary with the sizes {list(right)} as keys, got {short(middles)}"
    for size, ratio in right.items():
        found = _number(middles[size])
        if found is None:
            return f"the ratio at {size:,} bytes is to be a number, got {short(middles[size])}"
        if not abs(found / ratio - 1) <= expected["off"]:
            return f"the verdict is right, but at {size:,} bytes the ratio is about {ratio:g}, and you give {found:.3g}"
    return ""


def _counts(expected: Mapping[str, Any], measured: Mapping[int, tuple[int, int]]) -> str:
    pairs = expected["pairs"]
    for size, counts in measured.items():
        if min(counts) < pairs:
            words = (
                f"the verdict is right, but from too few measurements: {counts[0]} of {size:,} bytes and {counts[1]} "
                f"of twice as many, where {pairs} pairs are asked for"
            )
            return Difference(words, OTHER_COUNT)
        if max(counts) > most_measured(pairs):
            words = f"{max(counts)} measurements at {size:,} bytes, where {pairs} pairs are asked for"
            return Difference(words, OTHER_COUNT)
    return ""


def _number(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _unlike(one: Any, other: Any) -> str:
    """Two wrong answers are alike where they say the same, and by ratios that are about the same."""
    try:
        if one[0] != other[0] or set(one[1]) != set(other[1]):
            return "they differ"
        far = any(not math.isclose(one[1][size], other[1][size], rel_tol=0.2) for size in one[1])
        return "they differ" if far else ""
    except (TypeError, KeyError, IndexError):
        return "" if one == other else "they differ"


OWN = Exercise(
    name="13.own",
    title="A trial that decides fairly",
    judge=by_cases([Case(kind, (kind,), _expected) for kind in WORLDS], call=_call, compare=_compare),
    mistakes=mistakes.MISTAKES,
    hints=(
        "Imagine that another program starts half-way through your measurements. Which two measurements does it slow "
        "down alike, so that their ratio stays right?",
        "For each size: a list of `pairs` ratios, each of two measurements one right after the other. Its quartiles "
        "say whether this size confirms the claim, contradicts it, or is open. Then put the sizes together, the open "
        "ones first.",
        "`ratios = [time_s(2 * size) / time_s(size) for _ in range(pairs)]`, `low, middle, high = "
        "statistics.quantiles(ratios, n=4)`; yes if `1.8 <= low and high <= 2.2`, no if `high < 1.8 or low > 2.2`, "
        "else open.",
    ),
    passed="Your trial gives the right verdict where a clock can show it, with noise and without. Where a clock cannot "
    "show it, your trial says so.",
)
