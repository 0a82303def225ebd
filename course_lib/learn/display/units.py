"""Quantities as people read them: 3,481,600 bytes is 3.32 MiB, 0.00042 s is 420 µs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

__all__ = ["number_as_typed", "of_one", "quantity", "ratio"]

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_TIME_STEPS = ((60.0, "s"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = {"bytes": 1, "byte": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_DECIMAL_BYTES = {"kB": 1e3, "MB": 1e6, "GB": 1e9}  # who was asked for kB, and typed 100, reads 100 kB
_BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P")
_SCALED = ("FLOP", "FLOPs", "FLOP/s", "B/s", "bytes/s")


def quantity(value: Any, unit: str = "") -> str:
    """A value with its unit, scaled to a readable size; an order as "a, b, c"; a text as it is.

    >>> quantity(3481600, "bytes"), quantity(0.42, "ms"), quantity(25, "%"), quantity(1234567)
    ('3.32 MiB', '420 µs', '25 %', '1,234,567')
    """
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ", ".join(str(item) for item in value)
    if value is None or isinstance(value, str | bool) or not hasattr(value, "__float__"):
        return str(value)
    number = float(value)
    if not math.isfinite(number):
        return f"{number} {unit}".strip()
    if unit in _SECONDS:
        return _time(number * _SECONDS[unit])
    if unit in _BYTES:
        return _size(number * _BYTES[unit])
    if unit in _DECIMAL_BYTES:
        return _scaled(number * _DECIMAL_BYTES[unit], "B")
    if unit in _SCALED:
        return _scaled(number, unit.replace("bytes", "B"))
    if unit in ("x", "times"):
        return f"{_digits(number)} times"
    return f"{_digits(number)} {of_one(unit) if number == 1 else unit}".strip()


def number_as_typed(text: str) -> float:
    """The number of "3.5", "3,5", "1,000", "12 000", "1_000" or "2e6". Raises ``ValueError`` for what is none."""
    plain = text.strip().replace("_", "").replace(" ", "")
    if plain.count(",") == 1 and "." not in plain and not re.search(r",\d{3}$", plain):
        plain = plain.replace(",", ".")  # a decimal comma
    return float(plain.replace(",", ""))


def of_one(unit: str) -> str:
    """What one of a count is called: micro-batches and ranks lose their ending; "GB/s" and "times the limit" stay."""
    if not unit.endswith("s") or not unit.replace("-", "").isalpha():
        return unit
    return unit.removesuffix("es") if unit.endswith("ches") else unit.removesuffix("s")


def ratio(predicted: float, measured: float, unit: str = "") -> str:
    """How far a prediction was off, in words: "3.2 times too much", "within 4 %"; beside a zero, "43 s too little".

    Of a share in per cent it is told in percentage points: 90 % beside 65 % is 25 of them too much, and no 38 %.
    """
    if predicted == measured:
        return "exactly right"
    if unit == "%" and math.isfinite(predicted) and math.isfinite(measured):
        return _in_points(predicted - measured)
    if predicted * measured <= 0:
        off_by = quantity(abs(predicted - measured), "" if unit in ("x", "times") else unit)
        return f"{off_by} too {'much' if predicted > measured else 'little'}"
    if math.isinf(measured):  # no size was enough
        return "too little by any factor"
    factor = predicted / measured
    off = max(factor, 1 / factor)
    way = "much" if factor > 1 else "little"
    if off <= 1.005:
        return "within half a per cent"
    if off < 1.095:
        return f"within {math.ceil(round((off - 1) * 100, 6))} %, a little too {way}"
    if off < 2:
        return f"{_digits((off - 1) * 100, 2) if factor > 1 else _digits((1 - factor) * 100, 2)} % too {way}"
    return f"{_digits(off, 2)} times too {way}"


def _in_points(off_by: float) -> str:
    if abs(off_by) < 0.05:
        return "within a tenth of a percentage point"
    points = _digits(abs(off_by), 2 if abs(off_by) < 100 else 3)
    return f"{points} percentage point{'s' * (points != '1')} too {'much' if off_by > 0 else 'little'}"


def _digits(number: float, significant: int = 3) -> str:
    """Three digits that count, whole numbers whole, thousands apart; very large and small ones by powers of
    ten.
    """
    if number == 0:
        return "0"
    if abs(number) >= 1e15 or abs(number) < 1e-4:
        return f"{number:.{significant - 1}e}"
    if number == int(number):
        return f"{int(number):,}"
    places = max(significant - 1 - math.floor(math.log10(abs(number))), 0)
    text = f"{number:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time(time_s: float) -> str:
    if time_s == 0:
        return "0 s"
    for step, unit in _TIME_STEPS:
        if abs(time_s) >= step:
            return f"{_digits(time_s / min(step, 1.0))} {unit}"
    return f"{_digits(time_s / 1e-9)} ns"


def _size(size_bytes: float) -> str:
    step = 0
    while abs(size_bytes) >= 1024 and step < len(_BINARY) - 1:
        size_bytes, step = size_bytes / 1024, step + 1
    unit = "byte" if step == 0 and size_bytes == 1 else _BINARY[step]
    return f"{_digits(size_bytes)} {unit}"


def _scaled(number: float, unit: str) -> str:
    step = 0
    while abs(number) >= 1000 and step < len(_DECIMAL) - 1:
        number, step = number / 1000, step + 1
    return f"{_digits(number)} {_DECIMAL[step]}{unit}"
