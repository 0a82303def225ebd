"""A number that stands beside the way to it: a sum of products, each factor with its unit or its name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from course_lib.plan.inputs.numbers import three_digits

__all__ = ["Derived", "Factor", "Term", "quantity"]

_NAME, _WAY = 28, 43  # columns in which a name ends and the way to its number begins
_SCALES = {  # of a unit: what a number is divided by, and the word; the largest that leaves at least 1
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes")),
    "bytes/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s")),
    "FLOP": ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1.0, "FLOP")),
    "FLOP/s": ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")),
    "numbers": ((1e9, "billion"), (1e6, "million"), (1.0, "numbers")),
}


class Factor(NamedTuple):
    """A number of a product; ``unit`` is one of a measure ("s", "bytes", "FLOP"), or says of what it is a number."""

    value: float
    unit: str

    def __str__(self) -> str:
        return quantity(self.value, self.unit)


@dataclass(frozen=True)
class Term:
    """The product of ``times``, divided by that of ``over``. ``what`` names it among the others of its sum.

    ``is_taken_off``: it is subtracted from the sum.
    """

    times: tuple[Factor, ...]
    over: tuple[Factor, ...] = ()
    what: str = ""
    is_taken_off: bool = False

    @property
    def value(self) -> float:
        """What comes out."""
        found = prod(one.value for one in self.times) / prod(one.value for one in self.over)
        return -found if self.is_taken_off else found

    def __str__(self) -> str:
        text = " x ".join(map(str, self.times))
        if self.over:
            under = " x ".join(map(str, self.over))
            text += f" / ({under})" if len(self.over) > 1 else f" / {under}"
        return f"{text} ({self.what})" if self.what else text


@dataclass(frozen=True)
class Derived:
    """A part of a step or of the memory, as the planner has it, and the terms that add up to it.

    ``depth``: 0 for a part of the whole, more for what a part is made of. ``note``: where a factor comes from.
    """

    what: str
    value: float
    unit: str
    terms: tuple[Term, ...] = ()
    note: str = ""
    depth: int = 0

    @property
    def worked(self) -> float:
        """What the terms add up to."""
        return sum(one.value for one in self.terms)

    def lines(self) -> Iterable[str]:
        """One for the number, and one more for each further term and for the note."""
        margin = "  " * (self.depth + 1)
        head = f"{margin}{self.what:<{_NAME - len(margin)}} {quantity(self.value, self.unit):>{_WAY - _NAME - 3}}"
        ways = [f"{'-' if one.is_taken_off else '+'} {one}" for one in self.terms]
        ways[:1] = [way.replace("+", "=", 1) for way in ways[:1]]
        ways += [f"({self.note})"] if self.note else []
        first, *others = ways or [""]
        yield f"{head}  {first}".rstrip()
        for way in others:
            yield f"{'':{_WAY}}{way}"


def quantity(value: float, unit: str) -> str:
    """A number with its unit, at a scale that leaves three digits.

    >>> quantity(0.00125, "s"), quantity(16e9, "bytes"), quantity(128, "micro-batches"), quantity(0.72, "of the peak")
    ('1.25 ms', '16 GB', '128 micro-batches', '0.720 of the peak')
    """
    if unit in _SCALES:
        scales = _SCALES[unit]
        size, word = next((one for one in scales if abs(value) >= one[0]), scales[-1])
        return f"{_number(value / size)} {word}"
    return f"{_number(value)} {_one(unit) if value == 1 else unit}".rstrip()


def _number(value: float) -> str:
    """Whole numbers whole, others with three digits."""
    return f"{value:,.0f}" if value == round(value) else three_digits(value)


def _one(unit: str) -> str:
    """Of one: sequences, micro-batches and passes as sequence, micro-batch and pass."""
    return unit.removesuffix("es") if unit.endswith(("ches", "sses")) else unit.removesuffix("s")
