"""11.cheapest: of many ways to run a training, the one that costs least, and the regret of taking all GPUs.

Step times and numbers of GPUs of the cases differ by powers of two where costs or times are equal, so that no order of
arithmetic tells them apart.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_11.cheapest import wrong_answers
from course_lib.learn.judging.compare import difference, short
from course_lib.learn.judging.judge import by_cases

__all__ = ["CASES", "CHEAPEST", "cheapest_row"]

Row = tuple[int, float, float]  # GPUs, seconds of a step, bytes of the fullest GPU
_DAY_S = 86_400
_NAMES = ("the row's number", "its cost", "the regret")


def cheapest_row(
    rows: list[Row], tokens: int, step_tokens: int, price: float, most_days: float, gpu_bytes: float
) -> tuple[int, float, float] | None:
    """The row's number, its cost, and the regret of the habit; None where no row fits and ends in time.

    In fractions, so that nothing is rounded on the way.
    """
    steps = tokens // step_tokens + (tokens % step_tokens > 0)
    total_s = [steps * Fraction(step_s) for _, step_s, _ in rows]
    costs = [gpus * seconds * Fraction(price) / 3600 for (gpus, _, _), seconds in zip(rows, total_s, strict=True)]
    possible = [
        number
        for number, (_, _, needed_bytes) in enumerate(rows)
        if needed_bytes <= gpu_bytes and total_s[number] <= Fraction(most_days) * _DAY_S
    ]
    if not possible:
        return None
    chosen = min(possible, key=lambda number: (costs[number], total_s[number], number))
    habit = max(possible, key=lambda number: (rows[number][0], -total_s[number]))
    return chosen, float(costs[chosen]), float(costs[habit] / costs[chosen] - 1)


_EIGHT_TO_64 = [(8, 8.0, 70e9), (16, 4.5, 60e9), (32, 2.5, 50e9), (64, 1.75, 40e9)]
_SIZES: tuple[tuple[str, list[Row], int, int, float, float, float], ...] = (
    ("8 to 64 GPUs, 12 days", _EIGHT_TO_64, 200_000_000_000, 2**20, 2.5, 12.0, 80e9),
    ("8 to 64 GPUs, 20 days", _EIGHT_TO_64, 200_000_000_000, 2**20, 2.5, 20.0, 80e9),
    ("8 to 64 GPUs, 4 days", _EIGHT_TO_64, 200_000_000_000, 2**20, 2.5, 4.0, 80e9),
    ("8 to 64 GPUs of 55 GB", _EIGHT_TO_64, 200_000_000_000, 2**20, 2.5, 20.0, 55e9),
    (
        "rows in no order, of which the cheapest does not fit, and the largest is late",
        [(64, 9.0, 20e9), (2, 4.0, 170e9), (16, 1.0, 70e9), (8, 2.25, 75e9), (32, 0.75, 79e9)],
        4_000_000,
        100,
        1.75,
        2.0,
        80e9,
    ),
    (
        "three rows of equal cost",
        [(8, 4.0, 3e9), (4, 8.0, 1e9), (16, 2.0, 2e9), (32, 1.5, 3e9)],  # the first is neither slowest nor soonest
        100_000,
        10,
        3.0,
        7.0,
        80e9,
    ),
    (
        "two rows of equal cost and time",
        [(16, 4.0, 60e9), (8, 2.0, 50e9), (8, 2.0, 40e9), (32, 1.5, 30e9), (32, 1.0, 45e9)],
        100_000,
        10,
        3.0,
        7.0,
        80e9,
    ),
    ("a deadline that no row meets", _EIGHT_TO_64, 200_000_000_000, 2**20, 2.5, 3.0, 80e9),
    ("GPUs too small for every row", _EIGHT_TO_64, 200_000_000_000, 2**20, 2.5, 20.0, 30e9),
    (
        "one row that fits and is late, one that is in time and does not fit",
        [(8, 8.0, 70e9), (16, 4.0, 90e9)],
        100_000,
        10,
        2.0,
        0.5,
        80e9,
    ),
    ("no rows", [], 1000, 10, 2.0, 1.0, 80e9),
    (
        "a row that just fits and is just in time, and one that is late by a third of a second",
        [(1, 1 + 2**-18, 10e9), (2, 1.0, 80e9), (8, 0.5, 10e9), (16, 0.375, 80e9)],
        86_400,
        1,
        2.0,
        1.0,
        80e9,
    ),
    (
        "a last step that is not full",
        [(4, 32_768.0, 10e9), (8, 20_000.0, 10e9)],
        10,
        4,
        1.25,
        1.0,
        80e9,
    ),
    (
        "several rows with the most GPUs",
        [(16, 3.0, 30e9), (64, 2.5, 70e9), (64, 1.5, 20e9), (64, 2.0, 60e9), (128, 0.5, 95e9)],
        100_000,
        100,
        4.0,
        1.0,
        80e9,
    ),
    (
        "more GPUs that are slower",
        [(64, 3.5, 10e9), (8, 4.0, 40e9), (16, 2.5, 30e9), (32, 2.75, 20e9)],
        100_000,
        10,
        2.0,
        0.375,
        80e9,
    ),
    ("one row", [(8, 3.0, 12e9)], 999, 1000, 0.5, 1.0, 24e9),
)

CASES = tuple(Case(label, tuple(args), cheapest_row) for label, *args in _SIZES)


def _compare(expected: Any, got: Any) -> str:
    """None is an answer here, and is told as one; the three items have names."""
    if expected is None:
        return "" if got is None else f"no row fits and ends in time, so None is right; got {short(got)}"
    if got is None:
        return f"row {expected[0]} fits and ends in time, but you return None, which says that no row does"
    what = difference(expected, got, relative=1e-9, absolute=1e-9)
    for item, name in enumerate(_NAMES):
        what = what.replace(f"item {item}:", f"{name}:")
    return what


CHEAPEST = Exercise(
    name="11.cheapest",
    title="The cheapest row that is in time",
    judge=by_cases(CASES, compare=_compare),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "A GPU hour has one price, so what is the cost of a row made of? Work it out for 2 GPUs, 10 steps of 1 hour.",
        "First the number of steps, rounded up. Then keep the rows that fit and end in time, each with its cost and "
        "its seconds. The cheapest of them is your row; the habit looks at the same rows.",
        "`steps = -(-tokens // step_tokens)`, `total_s = steps * step_s`, `cost = gpus * total_s / 3600 * price`; "
        "`min` of tuples `(cost, total_s, number)` settles what is equal. The habit: of the kept rows with the most "
        "GPUs the least cost; regret `habit_cost / cost - 1`.",
    ),
    forbidden=("course_lib.learn.exercises.lesson_11.cheapest.cheapest_row",),
    passed="Your row costs least of all that fit and end in time. You also know what it costs to take all GPUs "
    "because they are there.",
)
