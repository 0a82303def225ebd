"""Is this the expected value, and where is the first difference? In words, and safe for whatever a learner
returns.
"""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from course_lib.learn.display.repr_cleanup import folded
from course_lib.learn.sandbox.call_watcher import unwatched

__all__ = ["Compare", "Difference", "close_to", "difference", "no_more", "short"]

Compare = Callable[[Any, Any], str]
"""``compare(expected, got)`` gives the first difference in words, or "" when there is none."""


class Difference(str):
    """A difference in words, and its kind: a recogniser asks for the kind, and reads no sentence."""

    kind: str

    def __new__(cls, words: str, kind: str = "") -> Difference:
        made = super().__new__(cls, words)
        made.kind = kind
        return made


def no_more(expected: float, got: float) -> str:
    """``compare`` for what may be less than expected, and not more: bytes sent, numbers kept."""
    return "" if got <= expected + 1e-9 else "more"


_short = reprlib.Repr()
_short.maxlist = _short.maxtuple = _short.maxset = 8
_short.maxstring = _short.maxother = 80
_short.maxlevel = 3


def short(value: Any) -> str:
    """A value on one short line; never fails, whatever its ``__repr__`` does."""
    try:
        if type(value).__module__.split(".")[0] in ("torch", "numpy") and hasattr(value, "tolist"):
            if value.size == 1 if isinstance(value.size, int) else value.numel() == 1:
                return _short.repr(value.tolist())
            name = "tensor" if hasattr(value, "numel") else "array"
            return f"{name} of shape {tuple(value.shape)}, {_short.repr(value.reshape(-1)[:8].tolist())}"
        text = folded(" ".join(_short.repr(value).split()))
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= 160 else text[:157] + "..."


def close_to(relative: float, absolute: float = 1e-7) -> Compare:
    """A comparison with this tolerance for numbers and tensors that are not whole."""
    return lambda expected, got: difference(expected, got, relative=relative, absolute=absolute)


@unwatched
def difference(expected: Any, got: Any, *, relative: float = 1e-5, absolute: float = 1e-7) -> str:
    """The first difference in words, "" when there is none. A list, a tuple and a range of equal items are
    the same.
    """
    if got is None and expected is not None:
        return "nothing came back (`None`); a function gives its result with `return`"
    try:
        return _difference(expected, got, relative, absolute)
    except Exception as error:
        return f"your answer, a {type(got).__name__}, cannot be compared with {short(expected)} ({error})"


def _difference(expected: Any, got: Any, relative: float, absolute: float) -> str:
    if _is_array(expected):
        return _array_difference(expected, got, relative, absolute)
    if _is_array(got):
        got = got.tolist()
    if isinstance(expected, bool | str | bytes) or expected is None:
        return "" if expected == got and isinstance(got, type(expected)) else _plain(expected, got)
    if isinstance(expected, numbers.Real):
        return _number_difference(expected, got, relative, absolute)
    if isinstance(expected, Mapping):
        return _mapping_difference(expected, got, relative, absolute)
    if isinstance(expected, Sequence):
        return _sequence_difference(expected, got, relative, absolute)
    if isinstance(expected, Set) and isinstance(got, list | tuple | range):
        return "" if len(expected) == len(got) and expected == set(got) else _plain(expected, got)
    return "" if bool(expected == got) else _plain(expected, got)


def _plain(expected: Any, got: Any) -> str:
    want, have = short(_rounded(expected)), short(_rounded(got))
    if want == have:  # then they differ in what rounding takes away
        want, have = short(expected), short(got)
    return f"expected {want}, got {have}"


def _rounded(value: Any) -> Any:
    """A float to twelve digits: what an addition has left in the last ones is no part of an expected value."""
    return float(f"{value:.12g}") if isinstance(value, float) and math.isfinite(value) else value


def _number_difference(expected: Any, got: Any, relative: float, absolute: float) -> str:
    if isinstance(got, bool) or not isinstance(got, numbers.Real):
        return f"expected the number {short(expected)}, got {short(got)}"
    if isinstance(expected, int) and isinstance(got, int):
        return "" if expected == got else _plain(expected, got)
    both_nan = math.isnan(expected) and math.isnan(got)
    same = both_nan or math.isclose(expected, got, rel_tol=relative, abs_tol=absolute)
    return "" if same else _plain(expected, got)


def _mapping_difference(expected: Mapping, got: Any, relative: float, absolute: float) -> str:
    if not isinstance(got, Mapping):
        return f"expected a dictionary with the keys {short(list(expected))}, got {short(got)}"
    missing = [key for key in expected if key not in got]
    extra = [key for key in got if key not in expected]
    if missing or extra:
        words = [f"{name} {short(keys)}" for name, keys in (("missing", missing), ("too many", extra)) if keys]
        return "the keys differ: " + "; ".join(words)
    for key, value in expected.items():
        if found := _difference(value, got[key], relative, absolute):
            return f"under {short(key)}: {found}"
    return ""


def _sequence_difference(expected: Sequence, got: Any, relative: float, absolute: float) -> str:
    if isinstance(got, str | bytes) or not isinstance(got, Sequence):
        return f"expected {len(expected)} items, {short(expected)}, got {short(got)}"
    if len(got) != len(expected):
        return f"expected {len(expected)} items, {short(expected)}, got {len(got)}, {short(got)}"
    for index, (want, have) in enumerate(zip(expected, got, strict=True)):
        if found := _difference(want, have, relative, absolute):
            return f"item {index}: {found}"
    return ""


def _is_array(value: Any) -> bool:
    """A torch tensor or a NumPy array, without importing either."""
    module = type(value).__module__.split(".")[0]
    return module in ("torch", "numpy") and hasattr(value, "shape") and hasattr(value, "dtype")


def _near(one: Any, other: Any) -> bool:
    """Whether two numbers of different types may be one number, rounded."""
    return math.isclose(float(one.real), float(other.real), rel_tol=0.01, abs_tol=1e-7)


def _array_difference(expected: Any, got: Any, relative: float, absolute: float) -> str:
    import torch

    want = torch.as_tensor(expected).detach().cpu()
    if not _is_array(got) and not isinstance(got, numbers.Real | list | tuple):
        return f"expected a tensor of shape {tuple(want.shape)}, got {short(got)}"
    if isinstance(got, list | tuple) and any(_is_array(part) and len(part.shape) for part in got):
        return f"expected one tensor of shape {tuple(want.shape)}, got a {type(got).__name__} of {len(got)}"
    is_tensor = _is_array(got)
    have = torch.as_tensor(got).detach().cpu()
    if want.shape != have.shape:
        return f"expected the shape {tuple(want.shape)}, got {tuple(have.shape)}"
    if is_tensor and want.dtype != have.dtype:
        values = f" ({short(want)} there, {short(have)} here)" if want.numel() == 1 and not _near(want, have) else ""
        return f"expected the type {want.dtype}, got {have.dtype}{values}"
    if want.dtype == have.dtype and torch.equal(want, have):  # as nearly always
        return ""
    if want.is_floating_point() or have.is_floating_point():
        wrong = ~torch.isclose(have.double(), want.double(), rtol=relative, atol=absolute, equal_nan=True)
    else:
        wrong = want != have
    if not bool(wrong.any()):
        return ""
    place = tuple(int(axis) for axis in wrong.nonzero()[0])
    pair = f"expected {short(want[place].item())}, got {short(have[place].item())}"
    where = f"at {list(place)}: " if place else ""
    more = int(wrong.sum()) - 1
    return f"{where}{pair}" + (f"; {more} more of {want.numel()} values differ" if more else "")
