"""Bring the notebooks of the course up to date with their sources, or say which are not.

No list of what was built is kept: the learner's copy is compared with a fresh one, and the solved copy holds
the hash of the code whose outputs it shows. A change of prose alone therefore costs no run. A change in
``course_lib`` is not seen here; strict nbval over the solved copies proves that their outputs still hold.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_lib.lab.folder import START_PAGE
from course_lib.lessons.convert import learner_notebook, solution_shell, to_text, without_outputs
from course_lib.lessons.execute import CellFailedError, KernelStartError, execute
from course_lib.lessons.info import LessonError, source_files, tour_file
from course_lib.lessons.source import Source, read_source

__all__ = ["BuildError", "Paths", "build", "find_sources", "stale", "strays", "write_whole"]

CELL_TIMEOUT_S = 300


class BuildError(RuntimeError):
    """A lesson could not be built. The text names notebook, cell, source line and error."""


@dataclass(frozen=True)
class Paths:
    """Where the three forms of one lesson lie."""

    source: Path
    learner: Path
    solution: Path

    @classmethod
    def of(cls, source: Path) -> Paths:
        folder = source.parent.parent
        return cls(source, folder / f"{source.stem}.ipynb", folder / "solutions" / f"{source.stem}.ipynb")


def find_sources(root: Path, wanted: list[str]) -> list[Path]:
    """The sources below ``root``, the tour last, or those whose number ("04", "04b") or name is ``wanted``.

    Raises LessonError naming what there is.
    """
    found = source_files(root)
    if not found:
        raise LessonError(f"there is no lesson in {root / 'notebooks' / 'src'}; a source is named NN_name.py")
    found = [*found, *tour_file(root)]
    if not wanted:
        return found
    names = {path: {path.name, path.stem, path.stem[:2], path.stem.partition("_")[0]} for path in found}
    chosen = [path for path in found if names[path] & set(wanted)]
    for name in wanted:
        if not any(name in known for known in names.values()):
            raise LessonError(f"there is no lesson {name!r}; there are {', '.join(path.stem for path in found)}")
    return chosen


def strays(root: Path) -> list[str]:
    """A sentence for each built notebook whose source is gone."""
    folder = root / "notebooks"
    stems = {path.stem for path in (folder / "src").glob("*.py")} | {Path(START_PAGE).stem}  # that one is no lesson
    built = [*sorted(folder.glob("*.ipynb")), *sorted((folder / "solutions").glob("*.ipynb"))]
    return [
        f"{path.relative_to(root)} has no source in notebooks/src"
        for path in built
        if path.stem not in stems and " (" not in path.stem  # what `course lab --reset` has kept is the learner's
    ]


def stale(path: Path) -> list[str]:
    """Sentences for what differs between a lesson's source and its two notebooks; empty when all is fresh."""
    paths, source = Paths.of(path), read_source(path)
    found = []
    if not paths.learner.is_file():
        found.append(f"notebooks/{paths.learner.name} has not been built")
    elif paths.learner.read_text(encoding="utf-8") != to_text(learner_notebook(source)):
        found.append(f"notebooks/{paths.learner.name} differs from its source")
    shell, old = solution_shell(source), _read(paths.solution)
    if old is None:
        found.append(f"notebooks/solutions/{paths.solution.name} has not been built, or cannot be read")
    elif not _outputs_hold(old, shell):
        found.append(f"notebooks/solutions/{paths.solution.name} shows the outputs of other code than its source holds")
    elif to_text(without_outputs(old)) != to_text(shell):
        found.append(f"notebooks/solutions/{paths.solution.name} differs from its source in its text")
    return found


async def build(
    paths: list[Path],
    *,
    jobs: int,
    force: bool = False,
    cell_timeout_s: float = CELL_TIMEOUT_S,
    on_done: Callable[[Path, str], None] = lambda path, what: None,
) -> list[str]:
    """Build the lessons at ``paths``, ``jobs`` kernels at a time; the failures come back as sentences.

    ``on_done(path, what)`` is called once a lesson with "fresh", "text", "executed" or "failed". A lesson
    that fails leaves its old notebooks as they were.
    """
    gate, failures = asyncio.Semaphore(jobs), []

    async def one(path: Path) -> None:
        async with gate:
            try:
                what = await _build_one(path, force=force, cell_timeout_s=cell_timeout_s)
            except (BuildError, LessonError) as error:
                failures.append(str(error))
                what = "failed"
            except OSError as error:
                failures.append(f"{path.stem}: its notebooks could not be made or written: {error}")
                what = "failed"
            on_done(path, what)

    async with asyncio.TaskGroup() as group:
        for path in paths:
            group.create_task(one(path))
    return sorted(failures)


async def _build_one(path: Path, *, force: bool, cell_timeout_s: float) -> str:
    if not force and not stale(path):
        return "fresh"
    paths, source = Paths.of(path), read_source(path)
    learner, solution, old = learner_notebook(source), solution_shell(source), _read(paths.solution)
    what = "text"
    if old is not None and not force and _outputs_hold(old, solution):
        _carry_outputs(old, solution)
    else:
        what = "executed"
        try:
            await execute(solution, folder=path.parent.parent, cell_timeout_s=cell_timeout_s)
        except CellFailedError as error:
            raise BuildError(_where(source, error)) from None
        except KernelStartError as error:
            raise BuildError(f"{path.stem}: {error}") from None
    write_whole(paths.solution, to_text(solution))
    write_whole(paths.learner, to_text(learner))
    return what


def _where(source: Source, error: CellFailedError) -> str:
    cell = source.cells[error.cell]
    # A solved cell has lost its marker lines: a line below a region stands further down in the source.
    lines, shift = cell.text.splitlines(), 0
    for index, line in enumerate(lines):
        if (
            line.strip().startswith(("### BEGIN SOLUTION", "### END SOLUTION", "### STUB"))
            and index < error.line + shift
        ):
            shift += 1
    place = source.where(cell, error.line + shift)
    return f"{source.info.stem}: cell {error.cell + 1} of {len(source.cells)} fails ({place}): {error.reason}"


def _outputs_hold(old: NotebookNode, shell: NotebookNode) -> bool:
    """True when ``old`` was executed from the very code that ``shell`` holds."""
    executed = all(cell.execution_count is not None for cell in old.cells if cell.cell_type == "code")
    return executed and old.metadata.get("course") == shell.metadata["course"]


def _carry_outputs(old: NotebookNode, new: NotebookNode) -> None:
    before = [cell for cell in old.cells if cell.cell_type == "code"]
    after = [cell for cell in new.cells if cell.cell_type == "code"]
    for old_cell, new_cell in zip(before, after, strict=True):
        new_cell.outputs, new_cell.execution_count = old_cell.outputs, old_cell.execution_count


def _read(path: Path) -> NotebookNode | None:
    try:
        return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except (OSError, ValueError, nbformat.ValidationError):
        return None


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one step: an interrupted build leaves either the old notebook or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
