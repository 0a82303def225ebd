"""The reference solutions, read from the lessons' sources, where each is written once.

A cell ``check("07.split", split)`` says which name is the answer; the statement that binds this name, with
what it needs from above it, is executed by itself. Nothing else of the lesson runs.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from course_lib.base.paths import project_root
from course_lib.lessons.code_names import bound_in, read_in
from course_lib.lessons.info import source_files

__all__ = [
    "Solution",
    "SolutionPlace",
    "answer_names",
    "place_of",
    "reference_answer",
    "run_solution",
    "solution_of",
    "source_with",
]


@dataclass(frozen=True)
class SolutionPlace:
    """Where an exercise is solved: the solution notebook's path from the root, the heading above, the cell
    (from 1).
    """

    notebook: str
    heading: str
    cell: int


def source_with(name: str) -> Path:
    """The source that holds the exercise of this name ("07.sync"): of its lesson, or of one of the lesson's parts.

    Raises ``ValueError`` when this copy of the course has none.
    """
    found = source_files(project_root(), name[:2])
    if not found:
        raise ValueError(f"There is no source of lesson {name[:2]} in notebooks/src of this copy of the course.")
    return next((path for path in found if name in answer_names(_code_of(path))), found[0])


@dataclass(frozen=True)
class Solution:
    """A reference solution as code: what it needs of the lesson, the answer's name, and its own lines among them."""

    tree: ast.Module  # line numbers are those of all code cells of the lesson, one below the other
    answer: str
    first_line: int
    last_line: int

    def is_own(self, node: ast.AST) -> bool:
        """Whether a node of ``tree`` stands between the marks, where the learner is to write."""
        return self.first_line <= getattr(node, "lineno", 0) <= self.last_line


def reference_answer(name: str, source: Path | None = None) -> Any:
    """The reference solution of the exercise ``name``, as a learner would pass it to ``check``."""
    path = source or source_with(name)
    tree, answer = _needed_for(name, path)
    return run_solution(tree, answer, filename=f"<solution of {name}>")


def run_solution(tree: ast.Module, answer: str, *, filename: str) -> Any:
    """Execute a solution's code by itself, and give what ``answer`` then stands for."""
    code = ast.unparse(tree)
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, filename, "exec"), namespace)
    return eval(answer, namespace)


def solution_of(name: str, source: Path | None = None) -> Solution:
    """The reference solution of ``name`` as code. Raises ``ValueError`` where the lesson marks none."""
    path = source or source_with(name)
    tree, answer = _needed_for(name, path)
    bound = [one for one in tree.body if bound_in(one) & read_in(ast.parse(answer))]
    regions = [
        (first, last)
        for first, last in _solution_regions(_code_of(path))
        if any(first <= (one.end_lineno or one.lineno) and one.lineno <= last for one in bound)
    ]
    if not regions:
        raise ValueError(f"{path.name} has no solution between marks for {name}")
    return Solution(tree, answer, regions[0][0], regions[-1][1])


def _solution_regions(code: str) -> list[tuple[int, int]]:
    """The lines of each "### BEGIN SOLUTION" and of its end."""
    regions, first = [], 0
    for number, line in enumerate(code.splitlines(), start=1):
        if line.strip() == "### BEGIN SOLUTION":
            first = number
        elif line.strip() == "### END SOLUTION":
            regions.append((first, number))
    return regions


def _needed_for(name: str, path: Path) -> tuple[ast.Module, str]:
    """What the answer of ``name`` needs of the lesson's code, and how the lesson calls that answer."""
    code = _code_of(path)
    answer = answer_names(code).get(name)
    if answer is None:
        raise ValueError(f'{path.name} has no cell with check("{name}", ...)')
    return _slice(ast.parse(code), ast.parse(answer)), answer


def _code_of(path: Path) -> str:
    return "\n".join(text for kind, text in _cells(path) if kind == "code")


def place_of(name: str, source: Path | None = None) -> SolutionPlace:
    """Where the solution of an exercise stands."""
    path = source or source_with(name)
    cells = _cells(path)
    answer = answer_names(_code_of(path)).get(name, "")
    heading = ""
    for number, (kind, text) in enumerate(cells, start=1):
        if kind == "markdown":
            heads = [line.lstrip("# ").strip() for line in text.splitlines() if line.startswith("#")]
            heading = heads[-1] if heads else heading
        elif "### BEGIN SOLUTION" in text and answer in bound_in(ast.parse(text)):
            return SolutionPlace(f"notebooks/solutions/{path.stem}.ipynb", heading, number)
    raise ValueError(f"{path.name} has no solution cell for {name}")


@functools.lru_cache(maxsize=128)
def answer_names(code: str) -> Mapping[str, str]:
    """For every ``check("NN.name", answer)`` in the code, the text of its answer."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check":
            match node.args:
                case [ast.Constant(value=str(name)), answer]:
                    found[name] = ast.unparse(answer)
    return MappingProxyType(found)


def _cells(path: Path) -> tuple[tuple[str, str], ...]:
    about = path.stat()
    return _cells_of(path, about.st_mtime_ns, about.st_size)


@functools.lru_cache(maxsize=64)  # a source is read for every exercise that it holds, several times each
def _cells_of(path: Path, *_written: int) -> tuple[tuple[str, str], ...]:
    import jupytext

    notebook: Any = jupytext.read(path, fmt="py:percent")
    cells = []
    for cell in notebook.cells:
        text = cell.source
        if cell.cell_type == "code" and text.lstrip().startswith(("%", "!")):
            text = ""  # a magic: nothing that an answer could need
        cells.append((cell.cell_type, text))
    return tuple(cells)


def _slice(tree: ast.Module, wanted: ast.AST) -> ast.Module:
    """The statements of ``tree`` that bind what ``wanted`` reads, and what those read in turn, in their
    order.
    """
    needed = read_in(wanted)
    kept: list[ast.stmt] = []
    for statement in reversed(tree.body):
        bound = bound_in(statement)
        if bound & needed:
            kept.append(statement)
            needed |= read_in(statement)
    return ast.Module(list(reversed(kept)), type_ignores=[])
