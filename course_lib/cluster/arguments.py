"""What a cluster is given, checked at the door: each refusal says what was given, the rule, and what would do."""

from __future__ import annotations

import inspect
import math
import operator
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from course_lib.cluster.wire import NotSendable, Parcel, pack
from course_lib.devices import machine

__all__ = [
    "CrowdedWarning",
    "checked_ranks",
    "checked_timeout",
    "pack_call",
    "refuse_inside_a_rank",
    "warn_if_crowded",
    "whole",
]

_has_warned = False


class CrowdedWarning(UserWarning):
    """More ranks than cores: everything runs, and timings say little."""


def whole(value: Any, name: str) -> int:
    """``value`` as a whole number of at least 1."""
    try:
        number = operator.index(value) if not isinstance(value, bool) else 0
    except TypeError:
        near = max(1, round(value)) if isinstance(value, float) and math.isfinite(value) else 1
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1; use {near}") from None
    if isinstance(value, bool) or number < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1; use 1")
    return number


def checked_timeout(timeout_s: float | None) -> float | None:
    if timeout_s is None:
        return None
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
        raise ValueError(
            f"timeout_s={timeout_s!r} must be a number of seconds above 0, or None for no limit; use 60"
        )
    return float(timeout_s)


def checked_ranks(only: Sequence[int] | None, world_size: int) -> Sequence[int]:
    if only is None:
        return range(world_size)
    for rank in only:
        if rank not in range(world_size):
            raise ValueError(f"rank {rank} is not one of the ranks 0 to {world_size - 1} of this cluster")
    return sorted(set(only))


def refuse_inside_a_rank() -> None:
    from course_lib.cluster.rank_process import current_rank

    me = current_rank()
    if me is not None:
        raise RuntimeError(
            f"this is {me}, and a rank cannot start ranks of its own: make the Cluster in the notebook, "
            "and let the function use torch.distributed to reach the ranks that are there"
        )


def warn_if_crowded(world_size: int) -> None:
    """Say once per process that ranks share cores, since timings then mislead."""
    global _has_warned
    cores = machine().cores
    if world_size <= cores or machine().devices or _has_warned:
        return
    _has_warned = True
    text = f"More ranks than cores: {world_size} ranks share {cores}. Results are the same; timings are not."
    with warnings.catch_warnings(
        record=True
    ) as caught:  # the user's filters decide whether it is said at all
        warnings.warn(text, CrowdedWarning, stacklevel=1)
    if caught and "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        print(text)  # a red box with a file name would alarm a learner for nothing
    elif caught:
        warnings.warn(text, CrowdedWarning, stacklevel=3)


def pack_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], folder: Path
) -> Parcel:
    """The call as one parcel. Raises ``NotSendable`` that names the argument which cannot travel."""
    try:
        return pack((function, args, kwargs), folder=folder, what="the call")
    except NotSendable:
        for what, value in _named(function, args, kwargs):
            pack(value, folder=folder, what=what).discard()
        raise


def _named(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[str, Any]]:
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
