"""``@checked``: a function, or a dataclass, whose arguments are held against its own type hints, with a sentence.

A hint says what a value may be, and Python never looks: ``six_n_flops("4", 4)`` would repeat a text. The ranges (at
least 1, above zero) are no hints; those stand in the function, with ``course_lib.base.checks``. Python's whole numbers
have no largest, and the operations of a large job take more than 64 bits: ``int`` allows them. ``Int64`` is the hint
for what PyTorch is given.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import itertools
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

__all__ = ["Int64", "WrongKind", "checked", "checked_before", "fits", "sentence"]

T = TypeVar("T", bound=Callable[..., Any])

_checked_before: ContextVar[bool] = ContextVar("checked_before", default=False)
_MOST_ITEMS = 1000  # of a sequence that are looked at
_LARGEST = 10**60  # five of them multiplied are a float still; no training takes 10**30 operations
_LARGEST_INT64 = 2**63 - 1
Int64 = Annotated[int, "of at most 64 bits"]  # what becomes a size of a tensor, or an integer of C

_PLAIN = {
    int: "a whole number of at most 60 digits",
    Int64: "a whole number of at most 64 bits",
    float: "a number",
    str: "a text",
    bool: "True or False",
    type(None): "None",
}
_ITERABLE = (collections.abc.Iterable, collections.abc.Sequence, collections.abc.Collection, list, tuple)


class WrongKind(TypeError, ValueError):
    """A value of another kind than the parameter's hint says."""


def checked(what: T) -> T:
    """The same function or class; a value that its hints do not allow raises ``WrongKind`` and says what they do."""
    if isinstance(what, type):
        what.__init__ = checked(what.__init__)  # type: ignore[misc]
        return what
    signature = inspect.signature(what)
    hints: dict[str, Any] = {}

    @functools.wraps(what)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _checked_before.get():
            return what(*args, **kwargs)
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # Python has its own words for a missing or an unknown argument
            return what(*args, **kwargs)
        if not hints:
            hints.update(_hints_of(what, signature))
        for name, value in given.items():
            if name in hints and not fits(value, hints[name]):
                raise WrongKind(sentence(name, value, hints[name]))
        return what(*args, **kwargs)

    # A code of its own: whoever watches which functions are called tells them apart by it.
    own: Any = call
    own.__code__ = own.__code__.replace(co_name=what.__name__, co_qualname=f"{what.__module__}.{what.__qualname__}")
    return own


@contextmanager
def checked_before() -> Iterator[None]:
    """In this block nothing is checked again: for a loop of our own over values that its face has checked."""
    token = _checked_before.set(True)
    try:
        yield
    finally:
        _checked_before.reset(token)


def sentence(name: str, value: object, hint: Any) -> str:
    """What is wrong with a value that does not fit the hint, and what would."""
    if get_origin(hint) in _ITERABLE and isinstance(value, list | tuple) and get_args(hint):
        for place, item in enumerate(value):  # the one that is at fault
            if not fits(item, get_args(hint)[0]):
                return sentence(f"{name}[{place}]", item, get_args(hint)[0])
    near = _nearest(value, hint)
    use = f" The nearest that works is {near!r}." if near is not None else ""
    return f"{name}={_shown(value)} does not work: {name} is {_in_words(hint)}.{use}"


def fits(value: Any, hint: Any) -> bool:
    """Whether the hint allows the value. What is not understood of a hint allows everything."""
    origin, args = get_origin(hint), get_args(hint)
    if hint == Int64:
        return _is_plain(value, int) and abs(int(value)) <= _LARGEST_INT64
    if hint is int or hint is float or hint is bool or hint is str:
        return _is_plain(value, hint)
    if hint is None or hint is type(None):
        return value is None
    if hint is Any or hint is object:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, arg) for arg in args)
    if origin is Literal:
        return value in args
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        return callable(value)
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, collections.abc.Mapping):
        return isinstance(value, Mapping)
    if kind in _ITERABLE:
        return _is_row(value, kind, args)
    if isinstance(kind, type) and not getattr(kind, "_is_protocol", False):
        return isinstance(value, kind)
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(value, name) for name in _members(kind))
    return True


def _is_plain(value: Any, hint: Any) -> bool:
    if hint is bool or isinstance(value, bool):
        return hint is bool and type(value).__name__ in ("bool", "bool_")  # NumPy's as well
    if hint is int:
        return isinstance(value, Integral) and abs(int(value)) <= _LARGEST
    if hint is float:
        known = isinstance(value, int | float) or type(value).__module__ == "numpy"
        return known and isinstance(value, Real) and _is_sayable(value)
    return isinstance(value, str)


def _is_sayable(value: Real) -> bool:
    try:
        return not math.isnan(value)
    except OverflowError:  # a whole number larger than any float
        return False


def _is_row(value: Any, kind: Any, args: tuple[Any, ...]) -> bool:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    if kind in (collections.abc.Sequence, list, tuple) and not hasattr(value, "__getitem__"):
        return False
    if not isinstance(value, list | tuple | range) or not args:
        return True
    fixed = kind is tuple and not (len(args) == 2 and args[1] is Ellipsis)
    if fixed:
        return len(value) == len(args) and all(map(fits, value, args))
    items, classes = itertools.islice(value, _MOST_ITEMS), _classes_of(args[0])
    if classes:  # a table has thousands of items, and is looked at whenever somebody types
        return all(isinstance(item, classes) for item in items)
    return all(fits(item, args[0]) for item in items)


@functools.lru_cache(maxsize=256)
def _classes_of(hint: Any) -> tuple[type, ...]:
    """The classes of a hint that asks for nothing else, ``Row | None`` say; () for one that asks for more."""
    found = []
    for each in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        kind = type(None) if each is None else each
        is_class = isinstance(kind, type) and get_origin(kind) is None and kind.__module__ != "collections.abc"
        if not is_class or kind in (int, float, bool, str, object) or kind in _ITERABLE:
            return ()
        if getattr(kind, "_is_protocol", False) or issubclass(kind, collections.abc.Mapping):
            return ()
        found.append(kind)
    return tuple(found)


def _hints_of(what: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """The hints by parameter, each read by itself: one may name what is only imported for the type checker."""
    names = dict(vars(sys.modules[what.__module__]))
    found = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        hint = parameter.annotation
        try:
            found[name] = eval(hint, names) if isinstance(hint, str) else hint
        except Exception:
            continue
        if found[name] is inspect.Parameter.empty:
            del found[name]
    return found


def _members(protocol: Any) -> list[str]:
    own = [name for base in protocol.__mro__ for name in (*vars(base), *vars(base).get("__annotations__", ()))]
    return [name for name in own if not name.startswith("_")]


def _in_words(hint: Any) -> str:
    if hint == Int64 or (isinstance(hint, type) and hint in _PLAIN):
        return _PLAIN[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_in_words(arg) for arg in args))
    if origin is Literal:
        return " or ".join(map(repr, args))
    if origin in _ITERABLE:
        inner = [arg for arg in args if arg is not Ellipsis]
        return f"a row of values ({', '.join(map(_in_words, inner))} each)" if inner else "a row of values"
    if origin is collections.abc.Callable:
        return "a function"
    name = str(getattr(origin or hint, "__name__", hint))
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


def _nearest(value: object, hint: Any) -> Any:
    """What a text, a fraction or a lone number was meant to be: a number, or a row of it. None: nothing is near."""
    wanted = {int if part == Int64 else part for part in (hint, *get_args(hint)) if part in (int, float, Int64)}
    if not wanted or isinstance(value, bool):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]  # any object may come in
        if not math.isfinite(number) or abs(number) > _LARGEST_INT64:
            return None
        near = round(number) if int in wanted else number
    except (TypeError, ValueError, OverflowError):
        return None
    return next((legal for legal in (near, [near]) if fits(legal, hint)), None)  # one number, where a row is asked for


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"(a {type(value).__name__})"
    return text if len(text) <= 80 else f"{text[:76]} ..."
