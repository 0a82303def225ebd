"""A text to type, with what must be said about it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

__all__ = ["Typed"]

_WIDTH = 110


@dataclass(frozen=True)
class Typed:
    """``text`` for ``program``, as it is typed or kept in a file; empty where it cannot run the layout, as
    ``notes`` say. ``version``: of the program, whose names these are; empty for the course's own."""

    program: str
    text: str
    notes: tuple[str, ...] = ()
    version: str = ""

    def __str__(self) -> str:
        name = f"{self.program} {self.version}".rstrip()
        lines = [name if self.text else f"{name} cannot run this layout"]
        lines += textwrap.indent(self.text, "    ").splitlines()
        for note in self.notes:
            lines += textwrap.wrap(
                note, _WIDTH, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False
            )
        return "\n".join(lines)
