"""Who waited for what: ``work.wait()``, its future, one by one or many at once, or a look that found it done."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C._distributed_c10d import Work

__all__ = ["Waits", "watched_waits"]


class Waits:
    """Works by number, in the order in which they were first asked; nothing is kept alive by it."""

    def __init__(self) -> None:
        self.count = 0  # waits, however often for the same work
        self.is_again = False  # whether a work of an earlier step was waited for once more
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._behind: weakref.WeakKeyDictionary[Any, frozenset[int]] = weakref.WeakKeyDictionary()
        self._step = 0
        self._waited_in: dict[int, int] = {}
        self._num_works = 0

    @property
    def num_waited(self) -> int:
        """How many works were waited for at least once."""
        return len(self._waited_in)

    def begin(self, step: int) -> None:
        self._step = step

    def waited_for(self, numbers: frozenset[int]) -> None:
        self.count += bool(numbers)
        self.seen_done(numbers)

    def seen_done(self, numbers: frozenset[int]) -> None:
        """Not waited for, and need not be: somebody has looked, and it was done."""
        for number in numbers:
            self.is_again |= self._waited_in.setdefault(number, self._step) != self._step

    def of_work(self, work: Any) -> frozenset[int]:
        if work not in self._numbers:
            self._numbers[work] = self._num_works
            self._num_works += 1
        return frozenset([self._numbers[work]])

    def of_future(self, future: Any) -> frozenset[int]:
        return self._behind.get(future, frozenset())

    def stand_for(self, future: Any, numbers: frozenset[int]) -> Any:
        self._behind[future] = numbers
        return future


@contextmanager
def watched_waits() -> Iterator[Waits]:
    """Within it every wait for a work of this process is noted."""
    waits, put_back = Waits(), []

    def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        plain = getattr(owner, name)
        put_back.append((owner, name, plain))
        setattr(owner, name, make(plain))

    replace(Work, "wait", lambda plain: _noting(plain, waits, waits.of_work))
    replace(Work, "is_completed", lambda plain: _noting_the_end(plain, waits))
    replace(Work, "get_future", lambda plain: _passing_on(plain, waits, waits.of_work))
    for name in ("wait", "value"):
        replace(torch._C.Future, name, lambda plain: _noting(plain, waits, waits.of_future))
    replace(torch._C.Future, "then", lambda plain: _passing_on(plain, waits, waits.of_future))
    replace(torch.futures, "collect_all", lambda plain: _passing_on(plain, waits, _all_of(waits)))
    replace(torch.futures, "wait_all", lambda plain: _noting(plain, waits, _all_of(waits)))
    try:
        yield waits
    finally:
        for owner, name, plain in reversed(put_back):
            setattr(owner, name, plain)


def _all_of(waits: Waits) -> Callable[[Sequence[Any]], frozenset[int]]:
    return lambda futures: frozenset().union(*(waits.of_future(future) for future in futures))


def _noting(plain: Any, waits: Waits, numbers_of: Callable[[Any], frozenset[int]]) -> Any:
    def wait(of: Any, *args: Any, **kwargs: Any) -> Any:
        waits.waited_for(numbers_of(of))
        return plain(of, *args, **kwargs)

    return wait


def _noting_the_end(plain: Any, waits: Waits) -> Any:
    """Whoever has seen that a work is done need not wait for it."""

    @functools.wraps(plain)
    def is_completed(work: Any) -> bool:
        if is_done := bool(plain(work)):
            waits.seen_done(waits.of_work(work))
        return is_done

    return is_completed


def _passing_on(plain: Any, waits: Waits, numbers_of: Callable[[Any], frozenset[int]]) -> Any:
    def give(of: Any, *args: Any, **kwargs: Any) -> Any:
        return waits.stand_for(plain(of, *args, **kwargs), numbers_of(of))

    return give
