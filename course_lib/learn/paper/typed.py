"""A number with a unit as people type it: "16 GB", "0.35s", "1,200 tokens/s", "40 %"."""

from __future__ import annotations

import difflib
import math
import re

from course_lib.learn.display.units import number_as_typed

__all__ = ["said", "scale_of", "typed"]

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
# Each unit by how it is written, with what it measures and its size. What is not here is counted: GPUs, tokens, steps.
_UNITS: dict[str, tuple[str, float]] = {
    **{f"{prefix}B": ("bytes", size) for prefix, size in (_PREFIXES | _BINARY).items()},
    **{f"{prefix}bit": ("bytes", size / 8) for prefix, size in _PREFIXES.items()},
    **{f"{prefix}FLOP": ("FLOP", size) for prefix, size in _PREFIXES.items()},
    **{"ns": ("s", 1e-9), "µs": ("s", 1e-6), "us": ("s", 1e-6), "ms": ("s", 1e-3), "s": ("s", 1.0)},
    **{"min": ("s", 60.0), "h": ("s", 3600.0), "d": ("s", 86400.0)},
    "%": ("share", 0.01),
    "times": ("times", 1.0),
}
_ALSO = {
    "byte": "B", "bytes": "B", "bits": "bit", "flop": "FLOP", "flops": "FLOP", "sec": "s", "second": "s",
    "seconds": "s", "minute": "min", "minutes": "min", "hour": "h", "hours": "h", "day": "d", "days": "d",
    "percent": "%", "per cent": "%", "x": "times", "×": "times", "time": "times",
}  # fmt: skip
_LONGEST = 60  # signs that are looked at
_LONG = {"kilo": "k", "mega": "m", "giga": "g", "tera": "t", "peta": "p"}
_NUMBER = re.compile(
    r"^[~≈=$]?\s*([+-]?[\d_.,' ]*\d[\d_.,' ]*(?:[eE][+-]?\d+)?)\s*(?:[×x*]\s*10(?:\^|\*\*)([+-]?\d+))?(.*)$"
)


def typed(text: str, unit: str) -> float:
    """The number that was typed, in ``unit``; without a unit of its own it is taken to be in that.

    Raises ``ValueError`` with a sentence for what is no number, or has a unit that does not measure the same.
    """
    text = text.strip()[:_LONGEST].replace("μ", "µ")
    found = _NUMBER.match(text)
    value = None if found is None else _number(found[1], found[2] or "0")
    if found is None or value is None:
        raise ValueError(f"{text!r} is no number. Write one with its unit, such as 12 {unit}.")
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no finite number. Write one such as 12 {unit}.")
    ending = found[3].strip().rstrip(".")
    if not ending or _plain(ending) == _plain(unit):
        return value
    if ending in _PREFIXES and scale_of(unit) == (_plain(unit), 1.0):  # 3 k of something that is counted
        return value * _PREFIXES[ending]
    kind, size = scale_of(ending)
    wanted, asked = scale_of(unit)
    if kind != wanted:
        near = difflib.get_close_matches(ending, _near(unit), n=1)
        rule = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"The answer is asked for in {unit}, and {ending!r} does not measure the same.{rule}")
    return value * size / asked


def scale_of(unit: str) -> tuple[str, float]:
    """What a unit measures, and its size in that: of "GB/s" ("bytes/s", 1e9). A word that is not known is a count."""
    above, slash, below = unit.partition("/")
    kind, size = _unit(above.strip())
    if not slash:
        return kind, size
    under, of_one = _unit(below.strip())
    return f"{kind}/{under}", size / of_one


def said(value: float, unit: str) -> str:
    """A value in its unit, with three digits that count: "16.1 GB"."""
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g} {unit}"
    places = max(2 - math.floor(math.log10(abs(value))), 0) if value else 0
    text = f"{value:,.{places}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def _unit(word: str) -> tuple[str, float]:
    if word in _UNITS:
        return _UNITS[word]
    known = {each.lower(): each for each in reversed(_UNITS)}
    plain = word.lower()
    if plain in _ALSO:
        return _UNITS[_ALSO[plain]]
    for ending in ("bytes", "bits", "flops", "byte", "bit", "flop"):
        head = _LONG.get(plain.removesuffix(ending), plain.removesuffix(ending))
        short = {"bytes": "b", "byte": "b", "bits": "bit", "flops": "flop"}.get(ending, ending)
        if head != plain and head + short in known:
            return _UNITS[known[head + short]]
    return _UNITS[known[plain]] if plain in known else (_plain(word), 1.0)


def _plain(word: str) -> str:
    """A counted thing without the ending of many: "GPU-hour" for "GPU hours"."""
    return word if len(word) < 2 else word.removesuffix("s").replace(" ", "-")


def _near(unit: str) -> list[str]:
    wanted = scale_of(unit)[0]
    return [unit, *(each for each, (kind, _) in _UNITS.items() if kind == wanted)]


def _number(text: str, power: str) -> float | None:
    """What was typed, times ten to ``power``; None for what is no number."""
    try:
        return number_as_typed(text.replace("'", "")) * float(f"1e{power}")
    except ValueError:
        return None
