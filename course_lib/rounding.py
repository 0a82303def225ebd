"""Numbers of floating-point arithmetic, with no digit that another processor may round otherwise.

A sum of floating-point numbers depends on its order, and the order on the processor: on its vector units, the threads,
the version of PyTorch. What a lesson prints is compared with what another machine has printed. So it prints no digit
of such a number but by ``rounded``, which knows how far machines are apart, and claims no equality but by ``agree``.

While a lesson is built (``COURSE_ROUNDING=strict``), both raise ``UncertainError`` where another machine might say
something else. Otherwise they only print: a learner's own numbers may lie where they like.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from course_lib.base.checks import finite_above_zero

__all__ = ["STRICT", "UncertainError", "agree", "rounded"]

STRICT = "COURSE_ROUNDING"  # set to "strict" while a lesson is built

# How far two machines may be apart, as a share of the largest number among those that are told together. A float32
# has 2**-24 = 6e-8; sums, layers and some steps of training have made it 3e-5. float64 is no better where weights or
# data were drawn as float32: even `torch.randn` differs in its last digit.
_APART = 1e-4
_APART_OF_HALF = {"bfloat16": 1e-2, "float16": 1e-2}
_CLEAR = 4.0  # a difference is clearly within a tolerance, or clearly not: so many times smaller or larger


class UncertainError(ValueError):
    """A lesson under construction prints a digit, or an answer, that another machine may not confirm."""


def rounded(value: Any, decimals: int, *, apart: float | None = None) -> str:
    """A number as text, rounded to a digit that all machines agree on; of several numbers, a list of them.

    ``value``: a number, a tensor of any shape, or lists of them. ``decimals``: digits after the point; below 0, tens
    (-1) or hundreds (-2). A zero has no sign. The text may be formatted on: ``f"{rounded(loss, 2):>9}"``.

    ``apart``: how far machines may be apart, as a share of the largest of these numbers: 1e-4, if not given, and 1e-2
    for tensors of 16 bits. Give less where less has been computed: 1e-6, say, for one product, or 1e-10 where all of
    it is float64, from the random numbers on.

    Raises:
        UncertainError: While a lesson is built: a number lies so near to where rounding goes up that another
            machine may print the next one.
    """
    if apart is None:
        apart = _apart_of(value)
    else:
        finite_above_zero(apart=apart)
    plain = _plain(value)
    if os.environ.get(STRICT) == "strict":
        _be_certain(list(_numbers(plain)), decimals, apart)
    return _text(plain, decimals)


def agree(value: Any, other: Any, *, within: float) -> bool:
    """Whether two results are equal to within a share of the largest number of ``other``: 1e-5, say.

    Numbers, tensors, or lists and dicts of them, alike in shape. A NaN agrees with nothing, an infinity with its like.

    Raises:
        ValueError: They differ in shape, length or keys.
        UncertainError: While a lesson is built: they are apart by about ``within``, so that another machine may
            answer otherwise.
    """
    finite_above_zero(within=within)
    ours, theirs = _plain(value), _plain(other)
    _check_alike(ours, theirs, "")
    pairs = list(zip(_numbers(ours), _numbers(theirs), strict=True))
    pairs = [(a, b) for a, b in pairs if a != b]  # equal infinities are apart by NaN
    if not all(math.isfinite(a) and math.isfinite(b) for a, b in pairs):
        return False
    scale = max((abs(b) for b in _numbers(theirs) if math.isfinite(b)), default=0.0)
    off = max((abs(a - b) for a, b in pairs), default=0.0)
    limit = within * scale
    if os.environ.get(STRICT) == "strict" and limit / _CLEAR < off < limit * _CLEAR:
        raise UncertainError(
            f"these are apart by {off / scale:.1g} of the largest, and within={within:g}: another machine may answer "
            f"otherwise. Leave a factor of {_CLEAR:g}: within={_one_digit(off / scale * 2 * _CLEAR):g} says True."
        )
    return off <= limit


def _plain(value: Any) -> Any:
    """Python's numbers, lists and dicts in place of tensors and tuples."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number; give numbers, tensors, or lists of them.")
    return value


def _apart_of(value: Any) -> float:
    """The largest that the dtypes in ``value`` stand for."""
    if hasattr(value, "dtype"):
        return _APART_OF_HALF.get(str(value.dtype).rpartition(".")[2], _APART)
    if isinstance(value, list | tuple) and value:
        return max(_apart_of(part) for part in value)
    return _APART


def _numbers(plain: Any) -> Iterator[float]:
    if isinstance(plain, dict):
        plain = list(plain.values())
    if isinstance(plain, list):
        for part in plain:
            yield from _numbers(part)
    else:
        yield plain


def _text(plain: Any, decimals: int) -> str:
    if isinstance(plain, dict):
        return "{" + ", ".join(f"{key}: {_text(part, decimals)}" for key, part in plain.items()) + "}"
    if isinstance(plain, list):
        return "[" + ", ".join(_text(part, decimals) for part in plain) + "]"
    if not math.isfinite(plain):
        return str(plain)
    shown = round(plain, decimals) if decimals < 0 else plain
    text = f"{shown:.{max(0, decimals)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _be_certain(numbers: list[float], decimals: int, apart: float) -> None:
    scale = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    for number in numbers:
        if math.isfinite(number) and not _is_certain(number, decimals, apart * scale):
            fewer = [d for d in range(decimals - 1, -13, -1) if _all_certain(numbers, d, apart * scale)]
            raise UncertainError(
                f"{number!r} to {decimals} decimals: other machines may be off by {apart * scale:.1g}, and so near to "
                f"where rounding goes up they may print the next number. Certain: {fewer[0] if fewer else 0} decimals."
            )


def _all_certain(numbers: list[float], decimals: int, off: float) -> bool:
    return all(_is_certain(number, decimals, off) for number in numbers if math.isfinite(number))


def _is_certain(number: float, decimals: int, off: float) -> bool:
    """Whether all from ``number - off`` to ``number + off`` is printed alike."""
    return _text(number - off, decimals) == _text(number + off, decimals)


def _one_digit(number: float) -> float:
    return float(f"{number:.0e}")


def _check_alike(ours: Any, theirs: Any, where: str) -> None:
    if type(ours) is not type(theirs) and (isinstance(ours, list | dict) or isinstance(theirs, list | dict)):
        raise ValueError(f"only one of the two is a list or a dict{where}: give two of one shape.")
    if isinstance(ours, dict):
        if ours.keys() != theirs.keys():
            only = sorted(map(str, ours.keys() ^ theirs.keys()))
            raise ValueError(f"only one of the two has {', '.join(only)}{where}: give two of the same keys.")
        for key in ours:
            _check_alike(ours[key], theirs[key], f" at {key!r}")
    elif isinstance(ours, list):
        if len(ours) != len(theirs):
            raise ValueError(f"{len(ours)} numbers beside {len(theirs)}{where}: give two of one length.")
        for part, other in zip(ours, theirs, strict=True):
            _check_alike(part, other, where)
