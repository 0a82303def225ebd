"""Rules over the built notebooks: one clean to work in, one executed to read, nothing private."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from course_lib.authoring.notebooks.rules.lesson import Lesson
from course_lib.lessons.regions import has_region

__all__ = [
    "checks_have_passed",
    "learner_copy_is_clean",
    "outputs_hold_no_private_paths",
    "solution_is_executed",
    "stubs_match_solutions",
    "timings_are_tagged",
]

_PRIVATE = re.compile(
    r"/home/\w|/Users/\w|/root/|/tmp/\w|/var/folders/|[A-Z]:\\+Users|ipykernel_\d|(?:site|dist)-packages[/\\]"
)
_NOT_PASSED = re.compile(r"^[^\w✓] (\d\d\.\w+): ", re.MULTILINE)  # a verdict that is not "✓ 07.halves: passed."
_TIME = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)? ?(?:ns|us|µs|μs|ms|s|sec|seconds?|minutes?)\b")
_TIMING_TAGS = {"nbval-ignore-output", "computed-time"}


def learner_copy_is_clean(lesson: Lesson) -> list[str]:
    """No output, no count, no solution; and the kernel named is python3 in both copies."""
    found = []
    for cell, built in zip(lesson.source.cells, lesson.learner.cells, strict=True):
        if built.cell_type == "code" and (built.outputs or built.execution_count is not None):
            found.append(f"{lesson.at(cell)}: the learner's copy holds an output or an execution count")
        if built.cell_type == "code" and ("### BEGIN" in built.source or "### END" in built.source):
            found.append(f"{lesson.at(cell)}: the learner's copy holds a solution region")
    for path, notebook in ((lesson.paths.learner, lesson.learner), (lesson.paths.solution, lesson.solution)):
        if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
            found.append(f"{path.name}: the kernel is not python3, so others cannot open it")
    return found


def solution_is_executed(lesson: Lesson) -> list[str]:
    """Every code cell has a count, some have outputs, and errors stand where the source says so."""
    found, outputs = [], 0
    for cell, built in zip(lesson.source.cells, lesson.solution.cells, strict=True):
        if built.cell_type != "code":
            continue
        outputs += len(built.outputs)
        if built.execution_count is None:
            found.append(f"{lesson.at(cell)}: the solved copy was not executed here; run `course build`")
        if "raises-exception" not in cell.tags and any(out.output_type == "error" for out in built.outputs):
            found.append(f"{lesson.at(cell)}: the solved copy shows an error; tag the cell raises-exception")
    if not outputs:
        found.append(f"{lesson.paths.solution.name}: not one output, so strict nbval would compare nothing")
    return found


def checks_have_passed(lesson: Lesson) -> list[str]:
    """The verdict of every check is that it has passed: a solved copy is compared with what it shows itself."""
    found = []
    for cell, built in zip(lesson.source.cells, lesson.solution.cells, strict=True):
        for output in built.outputs if built.cell_type == "code" else ():
            for name in _NOT_PASSED.findall(str(output.get("data", {}).get("text/plain", ""))):
                found.append(f"{lesson.at(cell)}: the check of {name} has not passed in the solved copy")
    return found


def stubs_match_solutions(lesson: Lesson) -> list[str]:
    """A stub is its solution less the body: same signatures and docstrings. A solution may define more."""
    found = []
    cells = zip(lesson.source.cells, lesson.learner.cells, lesson.solution.cells, strict=True)
    for cell, learner, solution in cells:
        if not (cell.is_code and has_region(cell.text)):
            continue
        stubs, solved = _signatures(learner.source), _signatures(solution.source)
        for name in sorted(stubs):
            if stubs[name] != solved.get(name):
                found.append(f"{lesson.at(cell)}: {name} differs between stub and solution in signature or docstring")
        if learner.source == solution.source:
            found.append(f"{lesson.at(cell)}: the learner's copy holds the solution")
    return found


def timings_are_tagged(lesson: Lesson) -> list[str]:
    """A measured time needs the tag ``nbval-ignore-output``; a computed one ``computed-time``."""
    found = []
    for cell, built in zip(lesson.source.cells, lesson.solution.cells, strict=True):
        if cell.is_code and not _TIMING_TAGS & set(cell.tags):
            times = sorted({match[0] for text in _texts(built) for match in _TIME.finditer(text)})
            if times:
                shown = ", ".join(times[:3])
                found.append(f"{lesson.at(cell)}: shows a time ({shown}) and is not tagged nbval-ignore-output")
    return found


def outputs_hold_no_private_paths(lesson: Lesson) -> list[str]:
    """No output names a folder of the machine that built it."""
    found = []
    for cell, built in zip(lesson.source.cells, lesson.solution.cells, strict=True):
        for text in _texts(built) if cell.is_code else ():
            match = _PRIVATE.search(text)
            if match or str(Path.home()) + "/" in text or str(lesson.paths.source.parents[2]) in text:
                place = match[0] if match else "a folder of this machine"
                found.append(f"{lesson.at(cell)}: the output names {place!r}; show file names without folders")
    return found


def _texts(built: NotebookNode) -> Iterator[str]:
    for output in built.outputs:
        yield output.get("text", "")
        yield from (str(value) for kind, value in output.get("data", {}).items() if not kind.startswith("image/"))
        yield "\n".join(output.get("traceback", []))


def _signatures(text: str) -> dict[str, tuple[str, str | None]]:
    plain = "\n".join("pass" if line.lstrip().startswith(("%", "!")) else line for line in text.splitlines())
    tree = ast.parse(plain)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {one for node in functions for one in ast.walk(node) if one is not node}  # a solution's own
    return {
        node.name: (
            ast.unparse(node.args) + (f" -> {ast.unparse(node.returns)}" if node.returns else ""),
            ast.get_docstring(node),
        )
        for node in functions
        if node not in inner
    }
