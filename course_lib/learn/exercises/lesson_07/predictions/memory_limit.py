"""Part e of lesson 07: what a limit of memory costs, and which rule for ties makes short steps."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["MEMORY_LIMIT"]

_P, _M = 6, 12  # ranks and micro-batches of the first question
_ACTION_S = 0.010  # an F, an I or a W on the page


def _half_memory(full_s: float, half_s: float) -> Explanation:
    """From the steps of the published program at a limit of p and of half as many, in seconds."""
    held = 2 * _P + 1  # actions from F to the end of W on rank 0
    least = held * -(-_M // (_P // 2))  # in times of one action
    return Explanation(
        measured=round(half_s / full_s, 2),
        label="computed",
        misreadings={
            1: "With 12 micro-batches there is enough work. But if a rank's memory is full, that work has to wait.",
        },
        because=f"Rank 0 holds a micro-batch for {_P} F's, {_P} I's and a W: {held} actions. With a limit of "
        f"{_P // 2}, {_M} micro-batches take at least {least} times {_ACTION_S * 1e3:g} ms in any table. (The work "
        f"of a rank alone is {3 * _M} actions.) This step has {half_s / (least * _ACTION_S):.2f} times that.",
    )


_F, _I, _W, _ALIKE = _RULES = ("F before I", "I before F", "I before F, each W at once", "all three take equally long")


def _tie(steps: Mapping[str, float]) -> Explanation:
    """From the seconds of a step, by rule."""
    shortest = min(steps.values())
    first = [name for name, step in steps.items() if step <= shortest + 1e-9]
    measured = first[0] if len(first) == 1 else _ALIKE
    misread = {
        _F: "A forward gives the later ranks work, and at the start that is right. Afterwards it fills this rank's "
        "memory, and the earlier ranks wait for gradients.",
        _I: "This rule sends gradients back first. In this run that did not make the shortest step.",
        _W: "An early W frees memory early. But it uses time in which an I or a forward could run, and no rank waits "
        "for a W while memory is free.",
        _ALIKE: "The work is the same; the waiting is not.",
    }
    return Explanation(
        measured=measured,
        label="computed",
        misreadings={choice: why for choice, why in misread.items() if choice != measured},
        because="Look which rank waits for each action. The rank before waits for an I, and the rank after for a "
        "forward. No other rank waits for a W. The rank itself waits for one only when its memory is full.",
    )


_SHORTER, _LONGER, _ABOUT = _SIDES = ("more than a tenth shorter", "more than a tenth longer", "within a tenth of it")


def _small_memory(yours_s: float, published_s: float) -> Explanation:
    """From two steps at a limit of two, in seconds."""
    ratio = yours_s / published_s
    measured = _SHORTER if ratio < 0.9 else _LONGER if ratio > 1.1 else _ABOUT
    misread = {
        _SHORTER: "In this run your program's step is not so much shorter.",
        _LONGER: "The published program does choose among eight tables. But it makes all eight in a similar way.",
        _ABOUT: "Both keep the same limit, but they use the waiting time differently.",
    }
    return Explanation(
        measured=measured,
        label="computed",
        misreadings={choice: why for choice, why in misread.items() if choice != measured},
        because="The published program places an F and an I of each stage in turn. With as "
        "much memory as there are ranks, this keeps them busy. At a limit of two a rank that is full runs W's before "
        "an I, and all ranks before it wait. A rule that looks for the earliest start need not keep that order. "
        f"Here your step takes {ratio:.2f} times as long.",
    )


MEMORY_LIMIT = (
    Asked(
        name="07.half_memory",
        question=f"{_P} ranks, {_M} micro-batches, a limit of {_P // 2} in place of {_P}: how many times as long?",
        unit="x",
        high=100,
        tell=_half_memory,
    ),
    Asked(
        name="07.tie",
        question="4 ranks, 5 micro-batches, a limit of 4: which rule makes the shortest step?",
        choices=_RULES,
        tell=_tie,
    ),
    Asked(
        name="07.small_memory",
        question="6 ranks, a limit of 2: how long is your step, compared with that of the published program?",
        choices=_SIDES,
        tell=_small_memory,
    ),
)
