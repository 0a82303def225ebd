"""A value of a prediction or a run, as a line of the progress file holds it: a number, a text, or a list of texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

__all__ = ["kept_value"]

_MOST_LETTERS = 200
_MOST_ITEMS = 50
_MOST = 1 << 63  # a whole number beyond it becomes a float


def kept_value(value: Any) -> Any:
    """The value as JSON has it everywhere: NumPy's and PyTorch's numbers become plain, "inf" becomes a text.

    >>> kept_value(3), kept_value(("b", "a")), kept_value(float("inf")), kept_value(None)
    (3, ['b', 'a'], 'inf', None)
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value[:_MOST_LETTERS]
    if isinstance(value, Integral) and abs(int(value)) < _MOST:
        return int(value)
    if isinstance(value, Real) or hasattr(value, "__float__"):
        return _number(value)
    if isinstance(value, Sequence):
        return [str(item)[:_MOST_LETTERS] for item in value[:_MOST_ITEMS]]
    return str(value)[:_MOST_LETTERS]


def _number(value: Any) -> float | str:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # a tensor with several elements
        return str(value)[:_MOST_LETTERS]
    return number if math.isfinite(number) else str(number)
