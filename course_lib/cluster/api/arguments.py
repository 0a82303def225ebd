"""What a cluster is given, checked at the door: each refusal says what was given, the rule, and what would do."""

from __future__ import annotations

import inspect
import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from course_lib.cluster.process.serialization import NotSendable, Payload, pack
from course_lib.devices import machine

__all__ = [
    "MOST_RANKS",
    "MOST_THREADS",
    "CrowdedWarning",
    "check_call",
    "checked_env",
    "checked_int",
    "checked_ranks",
    "checked_timeout",
    "on_or_off",
    "pack_call",
    "refuse_inside_a_rank",
    "text",
    "warn_if_crowded",
]

MOST_RANKS = 512  # processes on one machine; more than any has devices
MOST_THREADS = 1024

_has_warned = False


class CrowdedWarning(UserWarning):
    """More ranks than cores: everything runs, and timings say little."""


def checked_int(value: Any, name: str, *, most: int) -> int:
    """``value`` as a whole number of at least 1 and at most ``most``."""
    try:
        number = operator.index(value) if not isinstance(value, bool) else 0
    except TypeError:
        near = max(1, round(value)) if isinstance(value, float) and math.isfinite(value) else 1
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1; use {near}") from None
    if isinstance(value, bool) or number < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1; use 1")
    if number > most:
        raise ValueError(f"{name}={value!r} is too large for one machine: at most {most}; use {most}")
    return number


def text(value: Any, name: str) -> str:
    """``value``, where it is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r} must be a text, such as 'x'; got a {type(value).__name__}")
    return value


def on_or_off(value: Any, name: str) -> bool:
    """``value``, where it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r} must be True or False; use {bool(value)}")
    return value


def checked_env(env: Any) -> dict[str, str]:
    """Environment variables as texts. Raises ``ValueError`` for what no system takes as one."""
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise ValueError(f"env={env!r} must give names their values, such as env={{'OMP_NUM_THREADS': '2'}}")
    for name, value in env.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in f"{name}{value}":
            raise ValueError(
                f"env has {name!r}: {value!r}; a name is a text without '=', and neither holds a zero byte, such as "
                "{'OMP_NUM_THREADS': '2'}"
            )
    return {name: str(value) for name, value in env.items()}


def checked_timeout(timeout_s: float | None) -> float | None:
    if timeout_s is None:
        return None
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
        raise ValueError(f"timeout_s={timeout_s!r} must be a number of seconds above 0, or None for no limit; use 60")
    try:
        return float(timeout_s)
    except OverflowError:
        raise ValueError(f"timeout_s={timeout_s!r} is too large for a timer; use None for no limit") from None


def checked_ranks(only: Sequence[int] | None, world_size: int) -> Sequence[int]:
    if only is None:
        return range(world_size)
    if isinstance(only, str) or not isinstance(only, Iterable):
        raise ValueError(f"only={only!r} must be a list of ranks, such as only=[0]")
    ranks = list(only)
    if not ranks:
        raise ValueError("only=[] leaves no rank to run on; leave it out for all ranks, or name one: only=[0]")
    for rank in ranks:
        if isinstance(rank, bool) or not isinstance(rank, Integral) or rank not in range(world_size):
            raise ValueError(f"rank {rank!r} is not one of the ranks 0 to {world_size - 1} of this cluster")
    return sorted({int(rank) for rank in ranks})


def check_call(function: Any, args: Any, kwargs: Any) -> None:
    """Raise ``TypeError`` for what cannot be called as ``function(me, *args, **kwargs)``, before ranks try it."""
    if not callable(function):
        raise TypeError(f"run takes a function first, called as function(me, ...) on each rank; got {function!r}")
    if isinstance(args, str) or not isinstance(args, Iterable) or not isinstance(kwargs or {}, Mapping):
        raise TypeError(f"args={args!r} must be a tuple of arguments, and kwargs={kwargs!r} a dictionary of them")
    name = getattr(function, "__name__", repr(function))
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is an async function, and a rank only calls functions: write it without async")
    if inspect.isgeneratorfunction(function):
        raise TypeError(
            f"{name} is a generator (it has a yield): calling it runs none of its lines. Collect what it yields in "
            "a list, and return that"
        )
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # written in C: the rank will see
        return
    args, kwargs = tuple(args), dict(kwargs or {})
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}{signature} {_why_not(signature, args, kwargs, error)}") from None


def _why_not(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], error: TypeError) -> str:
    given = ", ".join(["me", *("..." for _ in args), *(f"{key}=..." for key in kwargs)])
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return f"cannot be called as ({given}), as each rank does: {error}"
    return f"has no place for me: each rank calls it as ({given}), with its Rank first. Write `me` as first parameter"


def refuse_inside_a_rank() -> None:
    from course_lib.cluster.process.rank_process import current_rank

    me = current_rank()
    if me is not None:
        raise RuntimeError(
            f"this is {me}, and a rank cannot start ranks of its own. Make the Cluster in the notebook, and let the "
            "function use torch.distributed to reach the other ranks"
        )


def warn_if_crowded(world_size: int) -> None:
    """Say once per process that ranks share cores, since timings then mislead."""
    global _has_warned
    cores = machine().cores
    if world_size <= cores or machine().devices or _has_warned:
        return
    _has_warned = True
    text = f"More ranks than cores: {world_size} ranks share {cores}. Results are the same; timings are not."
    with warnings.catch_warnings(record=True) as caught:  # the user's filters decide whether it is said at all
        warnings.warn(text, CrowdedWarning, stacklevel=1)
    if caught and "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        print(text)  # a red box with a file name would alarm a learner for nothing
    elif caught:
        warnings.warn(text, CrowdedWarning, stacklevel=4)  # whoever makes the Cluster


def pack_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], folder: Path) -> Payload:
    """The call as one payload. Raises ``NotSendable`` that names the argument which cannot be pickled."""
    try:
        return pack((function, args, kwargs), folder=folder, what="the call")
    except NotSendable:
        for what, value in _named(function, args, kwargs):
            pack(value, folder=folder, what=what).discard()
        raise


def _named(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Each part of a call with the name a person knows it by."""
    name = getattr(function, "__name__", repr(function))
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    labels = [f"argument {names[i]!r}" if i < len(names) else f"argument {i + 1}" for i in range(len(args))]
    keywords = [(f"argument {key!r}", value) for key, value in kwargs.items()]
    return [*zip(labels, args, strict=True), *keywords, (f"function {name}", function)]
