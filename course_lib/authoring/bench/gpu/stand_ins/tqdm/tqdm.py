"""A stand-in for tqdm where it is missing: a progress bar that counts and shows nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any


class tqdm:  # noqa: N801 - the name of the real one
    """As tqdm's, as far as the course uses it: iterate, ``update``, ``write``, ``with``."""

    def __init__(self, iterable: Iterable[Any] | None = None, *_: Any, **options: Any) -> None:
        self.iterable, self.options = iterable, options
        self.n = 0

    def __iter__(self) -> Iterator[Any]:
        for item in self.iterable or ():
            yield item
            self.update()

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def update(self, n: int = 1) -> None:
        """Count."""
        self.n += n

    def close(self) -> None:
        """There is nothing to take away."""

    def set_postfix(self, *_: Any, **__: Any) -> None:
        """There is nothing to write it beside."""

    set_postfix_str = set_description = set_postfix

    @staticmethod
    def write(text: str, file: Any = None, end: str = "\n") -> None:
        """A line of text, where the bar would stand."""
        print(text, file=file or sys.stdout, end=end)
