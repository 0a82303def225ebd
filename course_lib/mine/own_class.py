"""The learner's class as lessons use it: made with the parameters of the course's, and else the class itself.

No time is counted here, as it is for a function: what its objects do on ranks is ended by their cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.mine.table import entry_of

__all__ = ["OwnClass"]


class OwnClass:
    """A class of the learner's own: it can be called, asked by ``isinstance``, derived from, and sent to ranks."""

    def __init__(self, name: str, own: type) -> None:
        self.entry, self.own = entry_of(name), own
        self.__doc__, self.__name__ = own.__doc__, own.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            bound = self.entry.signature.bind(*args, **kwargs)  # a TypeError names what is missing
            args, kwargs = bound.args, bound.kwargs
        try:
            return self.own(*args, **kwargs)
        except Exception as error:
            error.add_note(f"mine.{self.entry.name} is yours ({self.entry.file}); COURSE_MINE=0 takes the course's.")
            raise

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "own" not in vars(self):  # while pickle makes it
            raise AttributeError(name)
        return getattr(self.own, name)

    def __instancecheck__(self, thing: Any) -> bool:
        return isinstance(thing, self.own)

    def __subclasscheck__(self, other: type) -> bool:
        return issubclass(other, self.own)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (self.own,)

    def __repr__(self) -> str:
        return f"<mine.{self.entry.name}, a class of yours, in {self.entry.file}>"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return OwnClass, (self.entry.name, self.own)
