"""Solution regions: the lines from ``### BEGIN SOLUTION`` to ``### END SOLUTION`` are the learner's.

* Inside a function the learner gets ``raise NotImplementedError("Your turn: ...")`` at the same indent.
* At the top level of a cell it gets ``...``, or the region's own stub lines, given directly after BEGIN::

      ### BEGIN SOLUTION
      ### STUB bytes_sent = None
      bytes_sent = 4 * (world_size - 1)
      ### END SOLUTION

* ``### BEGIN SOLUTION: hand each rank its share`` puts those words into "Your turn: ...".

The solved copy holds the lines of the region without the markers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from course_lib.lessons.info import LessonError

__all__ = ["SolutionRegion", "find_regions", "has_region", "learner_text", "solution_text"]

_BEGIN = re.compile(r"^(?P<indent>\s*)### BEGIN SOLUTION(?::\s*(?P<task>.+?))?\s*$")
_END = re.compile(r"^\s*### END SOLUTION\s*$")
_STUB = re.compile(r"^\s*### STUB ?(?P<code>.*)$")
_LOOSE = re.compile(r"#+\s*(BEGIN|END|STUB)\b.*SOLUTION|#+\s*STUB\b", re.IGNORECASE)
_DEF = re.compile(r"^(?P<indent>\s*)(?:async\s+)?def\s+(?P<name>\w+)")


@dataclass(frozen=True)
class SolutionRegion:
    """Lines ``begin`` to ``end`` (indices into the cell, both markers included) and what stands there."""

    begin: int
    end: int
    indent: str
    task: str | None
    stub: tuple[str, ...]
    body: tuple[str, ...]


def has_region(text: str) -> bool:
    """True when a cell holds a solution region or part of one."""
    return any(_BEGIN.match(line) or _END.match(line) for line in text.splitlines())


def find_regions(text: str, where: Callable[[int], str]) -> list[SolutionRegion]:
    """The regions of a cell in order. ``where(line)`` names a line (from 1) for errors: LessonError."""
    lines, regions = text.splitlines(), []
    begin: int | None = None
    for index, line in enumerate(lines):
        if _BEGIN.match(line):
            if begin is not None:
                raise LessonError(
                    f"{where(index + 1)}: a solution begins inside the one of {where(begin + 1)}; end that one first"
                )
            begin = index
        elif _END.match(line):
            if begin is None:
                raise LessonError(
                    f"{where(index + 1)}: '### END SOLUTION' has no '### BEGIN SOLUTION' above it in this cell"
                )
            regions.append(_region(lines, begin, index, where))
            begin = None
        elif _LOOSE.search(line) and not (begin is not None and _STUB.match(line)):
            raise LessonError(
                f"{where(index + 1)}: {line.strip()!r} looks like a solution marker but is none; "
                "write '### BEGIN SOLUTION', '### END SOLUTION', or '### STUB ...' directly after BEGIN"
            )
    if begin is not None:
        raise LessonError(f"{where(begin + 1)}: '### BEGIN SOLUTION' has no '### END SOLUTION' in this cell")
    return regions


def learner_text(text: str, where: Callable[[int], str]) -> str:
    """The cell as the learner gets it: each region replaced by its stub."""
    lines = text.splitlines()
    for region in reversed(find_regions(text, where)):
        lines[region.begin : region.end + 1] = _stub_lines(lines, region)
    return "\n".join(lines)


def solution_text(text: str, where: Callable[[int], str]) -> str:
    """The cell as the solved copy shows it: the region's lines, its markers and stub lines left out."""
    lines = text.splitlines()
    for region in reversed(find_regions(text, where)):
        lines[region.begin : region.end + 1] = region.body
    return "\n".join(lines)


def _region(lines: list[str], begin: int, end: int, where: Callable[[int], str]) -> SolutionRegion:
    match = _BEGIN.match(lines[begin])
    assert match is not None, "begin is an index that matched"
    first = begin + 1
    while first < end and _STUB.match(lines[first]):
        first += 1
    stub = tuple(found["code"] for line in lines[begin + 1 : first] if (found := _STUB.match(line)))
    late = next((index for index in range(first, end) if _STUB.match(lines[index])), None)
    if late is not None:
        raise LessonError(f"{where(late + 1)}: '### STUB' lines stand directly after '### BEGIN SOLUTION'")
    if not any(line.strip() for line in lines[first:end]):
        raise LessonError(f"{where(begin + 1)}: this solution is empty")
    return SolutionRegion(begin, end, match["indent"], match["task"], stub, tuple(lines[first:end]))


def _stub_lines(lines: list[str], region: SolutionRegion) -> list[str]:
    if region.stub:
        return [f"{region.indent}{code}".rstrip() for code in region.stub]
    if not region.indent:
        return ["..."]
    task = region.task or f"write the body of {_function_around(lines, region)}"
    message = f"Your turn: {task}".replace("\\", "\\\\").replace('"', '\\"')
    return [f'{region.indent}raise NotImplementedError("{message}")']


def _function_around(lines: list[str], region: SolutionRegion) -> str:
    for line in reversed(lines[: region.begin]):
        match = _DEF.match(line)
        if match and len(match["indent"]) < len(region.indent):
            return match["name"]
    return "this part"
