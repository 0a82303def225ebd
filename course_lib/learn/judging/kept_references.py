"""Is something that an answer was given still held after the call? And did it seed everybody's random numbers?"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from typing import Any

from course_lib.learn.sandbox.state_guard import right_but

__all__ = ["Traces"]

_HOLDS = (
    "still holds a tensor that it was given when the call is over, in a list, a global or a default argument. Its "
    "memory is never free again"
)
_GLOO_LETS_GO_S = (0.0, 0.01, 0.1, 0.5)  # its thread holds the tensors of a collective for a moment after the wait
_SEEDS = (
    "seeds the random numbers of the whole process (`torch.manual_seed`): whoever draws after it draws the same "
    "numbers each time"
)


class Traces:
    """``Traces(args)`` is made before a call; ``left(got)`` tells after it what the call keeps, or has seeded.

    References are counted, so that what held a tensor before the call may go on holding it. What the result itself
    holds is the caller's: a result that is no plain data, or that autograd follows, is not looked at.
    """

    def __init__(self, args: tuple[Any, ...] = ()) -> None:
        self._torch = sys.modules.get("torch")
        self._args = args  # whose references are among those counted, then and later
        self._tensors = list(self._tensors_in(args)) if self._torch else []
        self._counts = self._references()
        self._seed = self._torch.initial_seed() if self._torch else 0

    def left(self, got: Any) -> str:
        """As the difference of a case in which nothing but this is wrong; empty where there is nothing."""
        found = self.found(got)
        return right_but(found) if found else ""

    def found(self, got: Any) -> str:
        """What your code does beside its result, as a clause; empty where there is nothing."""
        if self._torch is not None and self._torch.initial_seed() != self._seed:
            return _SEEDS
        if not self._is_plain(got) or not self._more(got):
            return ""
        gc.collect()  # a circle of the call's own frames is no list of the answer's
        for wait_s in _GLOO_LETS_GO_S:
            if not self._more(got):
                return ""
            time.sleep(wait_s)
        return _HOLDS if self._more(got) else ""

    def _more(self, got: Any) -> bool:
        in_result = [id(tensor) for tensor in self._tensors_in((got,))]  # a list of them would hold them, too
        viewed = {id(tensor._base) for tensor in self._tensors_in((got,))}  # a view holds what it is a view of
        given = [id(tensor) for tensor in self._tensors]
        now = self._references()
        return any(
            count > before + in_result.count(one) + (one in viewed)
            for one, before, count in zip(given, self._counts, now, strict=True)
        )

    def _references(self) -> list[int]:
        return [sys.getrefcount(tensor) for tensor in self._tensors]

    def _tensors_in(self, things: tuple[Any, ...]) -> Iterator[Any]:
        for thing in things:
            if self._torch is not None and isinstance(thing, self._torch.Tensor):
                yield thing
            elif isinstance(thing, list | tuple | dict):
                yield from self._tensors_in(tuple(thing.values()) if isinstance(thing, dict) else tuple(thing))

    def _is_plain(self, got: Any) -> bool:
        if self._torch is not None and isinstance(got, self._torch.Tensor):
            return not got.requires_grad
        if isinstance(got, list | tuple | dict):
            return all(self._is_plain(one) for one in (got.values() if isinstance(got, dict) else got))
        return got is None or isinstance(got, int | float | complex | str | bytes | range)
