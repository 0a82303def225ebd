"""The learner's function as lessons call it: with the lesson's signature, and so much of a page's time, and no more.

Time is counted from call to return, in this process: in the notebook, or on each rank. In the notebook what takes too
long is ended, and the course's function does the call and all later ones. On a rank nobody can change functions alone,
since the other ranks would go on with another algorithm: the call ends in an error that says so, and from the next run
of the cell on the course's function stands in. Ranks that hang are ended by their cluster, as ever.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from course_lib.learn.sandbox.sandbox import TimeIsUp, time_limit
from course_lib.mine.ledger import kept_of, note_slow
from course_lib.mine.table import entry_of

__all__ = ["LIMIT_S", "OwnFunction", "TooSlowError"]

LIMIT_S = 60.0  # of a page, for all calls of one function in one process

_spent_s: dict[tuple[str, str], float] = {}  # by digest and when that passed, in this process
_noted: set[tuple[str, str]] = set()


class TooSlowError(RuntimeError):
    """A function of the learner's own library has had its time on this page."""


class OwnFunction:
    """A function of the learner's, called as the course's is. It is sent to ranks with all that it needs."""

    def __init__(
        self, name: str, digest: str, function: Callable[..., Any], limit_s: float = LIMIT_S, since: str = ""
    ) -> None:
        self.entry, self.digest, self.limit_s, self.since = entry_of(name), digest, limit_s, since
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = vars(self)["__wrapped__"]
        if kwargs:
            args, kwargs = self._by_position(args, kwargs)
        left_s = self.limit_s - _spent_s.get(self._key, 0.0)
        on_rank = _is_on_rank()
        if left_s <= 0 and not on_rank:
            return self.entry.courses(*args)
        began_s = time.perf_counter()
        try:
            with contextlib.nullcontext() if on_rank or not _in_main() else time_limit(left_s):
                result = function(*args, **kwargs)
        except TimeIsUp:
            self._spend(began_s)
            return self.entry.courses(*args)
        except Exception as error:
            error.add_note(f"mine.{self.entry.name} is yours ({self.entry.file}); COURSE_MINE=0 takes the course's.")
            raise
        if self._spend(began_s) and on_rank:
            raise TooSlowError(self._told())
        return result

    def __repr__(self) -> str:
        return f"<mine.{self.entry.name}, yours, in {self.entry.file}>"

    def __reduce__(self) -> Any:
        """To ranks goes the course's function once a rank has noted that this one had its time."""
        if self.digest in kept_of(self.entry.exercise).slow:
            print(self._told(is_over=True))
            return _as_it_is, (self.entry.courses,)
        return OwnFunction, (self.entry.name, self.digest, vars(self)["__wrapped__"], self.limit_s, self.since)

    @property
    def _key(self) -> tuple[str, str]:
        return self.digest, self.since  # what passes again begins anew

    def _by_position(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        bound = self.entry.signature.bind(*args, **kwargs)  # a TypeError names what is missing
        return bound.args, bound.kwargs

    def _spend(self, began_s: float) -> bool:
        """Count a call that ends now; whether the time is over with it. That is written down once."""
        spent_s = _spent_s[self._key] = _spent_s.get(self._key, 0.0) + time.perf_counter() - began_s
        if spent_s > self.limit_s and self._key not in _noted:
            _noted.add(self._key)
            note_slow(self.entry.exercise, self.digest)
            if not _is_on_rank():
                print(self._told())
        return spent_s > self.limit_s

    def _told(self, is_over: bool = False) -> str:
        after = "run this cell again, and" if _is_on_rank() and not is_over else "from here on"
        return (
            f"mine.{self.entry.name}, which is yours, has used its {self.limit_s:g} s of this page; {after} the "
            f'course\'s function runs in its place. mine.check_again("{self.entry.name}") takes it back into use.'
        )


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _is_on_rank() -> bool:
    from course_lib.cluster.process.rank_process import current_rank

    return current_rank() is not None


def _in_main() -> bool:
    return threading.current_thread() is threading.main_thread()
