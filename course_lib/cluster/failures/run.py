"""The result of a call on the cluster."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from course_lib.base.html import templates

__all__ = ["Run"]

_fill = templates(__file__)


@dataclass(frozen=True)
class Run(Sequence[Any]):
    """The outcome of one function on every rank: ``run[2]`` is what rank 2 returned, ``run.text[2]`` what it printed.

    ``ranks`` says which ranks took part (all, unless some were left out on purpose). ``communication``,
    ``memory`` and ``timeline`` hold what the meters recorded, where a meter was on. ``leaks`` says what the function
    left on the ranks: work that nobody waited for, or a switch that it did not put back.
    """

    results: dict[int, Any]
    text: dict[int, str] = field(default_factory=dict)
    time_s: float = 0.0  # from the call to the last result, in the parent
    world_size: int = 0
    communication: Any = None
    memory: Any = None
    timeline: Any = None
    leaks: tuple[str, ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted(self.results))

    def __getitem__(self, rank: Any) -> Any:
        if isinstance(rank, slice):
            return list(self)[rank]
        if rank not in self.results:
            ranks = ", ".join(map(str, self.ranks)) or "none"
            raise IndexError(f"no result of rank {rank}: this run has the results of ranks {ranks}")
        return self.results[rank]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Any]:
        return (self.results[rank] for rank in self.ranks)

    def __repr__(self) -> str:
        lines = [f"Run on {len(self)} rank{'s' * (len(self) != 1)}"]
        lines += [f"  rank {rank}: {_short(self.results[rank])}" for rank in self.ranks]
        return "\n".join([*lines, *leaks_in_words(self.leaks)])

    def _repr_html_(self) -> str:
        rows = [(rank, _short(self.results[rank]), self.text.get(rank, "").rstrip()) for rank in self.ranks]
        has_text, leaks = any(self.text.values()), "\n".join(leaks_in_words(self.leaks))
        return _fill("run.html", rows=rows, has_text=has_text, leaks=leaks)


def in_rank_order(text: dict[int, str]) -> str:
    """What the ranks printed, rank by rank, each line with its rank before it."""
    lines = [f"rank {rank} | {line}" for rank in sorted(text) for line in text[rank].splitlines()]
    return "".join(f"{line}\n" for line in lines)


def say(text: str) -> None:
    """Print it; what the terminal's alphabet lacks is written as its number, since a result is worth more than an ü."""
    try:
        print(text, end="")
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding), end="")


def leaks_in_words(leaks: tuple[str, ...]) -> list[str]:
    """The lines that tell what a call has left; none where it left nothing."""
    return ["Left over from this call:", *(f"  {line}" for line in leaks)] if leaks else []


def _short(value: Any, limit: int = 200) -> str:
    text = " ".join(_beginning(value, limit).split())
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def _beginning(value: Any, limit: int) -> str:
    """The first characters of ``repr(value)``, some more than ``limit``; the rest of a large value is never made."""
    made = ""
    try:
        for piece in _pieces(value, limit):
            made += piece
            if len(made) > 2 * limit:
                break
    except Exception as error:  # the value's own __repr__ fails
        made += f"(a {type(value).__name__}, whose repr raised {type(error).__name__})"
    return made


def _pieces(value: Any, limit: int) -> Iterator[str]:
    shown = type(value).__repr__
    if shown in (str.__repr__, bytes.__repr__) and len(value) > 4 * limit:
        yield repr(value[: 4 * limit])
    elif shown is list.__repr__ or (shown is tuple.__repr__ and len(value) != 1):
        brackets = "[]" if shown is list.__repr__ else "()"
        yield brackets[0]
        for index, item in enumerate(value):
            yield ", " if index else ""
            yield from _pieces(item, limit)
        yield brackets[1]
    elif shown is dict.__repr__:
        yield "{"
        for index, (key, item) in enumerate(value.items()):
            yield ", " if index else ""
            yield from _pieces(key, limit)
            yield ": "
            yield from _pieces(item, limit)
        yield "}"
    elif type(value) in (set, frozenset) and len(value) > limit:
        yield repr(type(value)(itertools.islice(value, limit)))
    else:
        yield repr(value)
