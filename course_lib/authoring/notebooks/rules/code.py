"""Rules over a lesson's code: short cells, public imports, and nothing that nbval cannot live with.

Why each construct is out: nbval has no front end, so ``Output``, ``interact`` and display updates appear as
stray outputs; it runs without history, so a trailing ``;`` silences nothing; and a child process writes past
its back.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from course_lib.authoring.notebooks.rules.lesson import Lesson
from course_lib.learn.builds import build_of_step
from course_lib.learn.checks.reference import answer_names
from course_lib.lessons.code_names import bound_in
from course_lib.lessons.regions import has_region
from course_lib.lessons.source import Cell

__all__ = [
    "cells_are_short",
    "code_parses",
    "imports_are_public",
    "no_bare_figures",
    "no_forbidden_constructs",
    "parse",
]

MAX_LINES = 20
MAX_EXERCISE_LINES = 25
MAX_BUILD_LINES = 150

_MAGIC = re.compile(r"^(\s*)[%!]")
_NAMES = {
    "interact": "build the widgets and observe them",
    "interactive": "build the widgets and observe them",
    "interactive_output": "build the widgets and observe them",
    "interact_manual": "build the widgets and observe them",
    "Output": "put text in widgets.HTML, a figure's PNG in widgets.Image",
    "clear_output": "show the last state once",
    "update_display": "show the last state once",
}
_CALLS = {
    "os.system": "use subprocess.run(..., capture_output=True) and print its text",
    "os.popen": "use subprocess.run(..., capture_output=True) and print its text",
    "os.fork": "run ranks with Cluster",
    "multiprocessing.Process": "run ranks with Cluster",
    "multiprocessing.Pool": "run ranks with Cluster",
    "torch.multiprocessing.spawn": "run ranks with Cluster",
}
_SUBPROCESS = {"subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.Popen"}
_ARTISTS = re.compile(
    r"(plot|scatter|bar|barh|broken_barh|hist|imshow|step|fill_between|errorbar|text|annotate|legend|grid|table"
    r"|axhline|axvline|set|set_\w+|[xy]lim|[xy]ticks|[xy]label|title|suptitle|subplots|subplots_adjust)$"
)


def code_parses(lesson: Lesson) -> list[str]:
    """Every code cell is Python, magics aside."""
    found = []
    for cell in _code_cells(lesson):
        try:
            ast.parse(_plain(cell))
        except SyntaxError as error:
            found.append(f"{lesson.at(cell, error.lineno or 1)}: this is not Python: {error.msg}")
    return found


def cells_are_short(lesson: Lesson) -> list[str]:
    """At most 20 lines a cell, imports and blank lines aside; an exercise at most 25 lines of code, a build 150."""
    found = []
    builds = _answers_of_builds(lesson)
    for cell in _code_cells(lesson):
        lines, limit = _lines(cell), MAX_LINES
        if has_region(cell.text):
            is_build = not builds.isdisjoint(bound_in(parse(cell)))
            lines, limit = _code_lines(cell), MAX_BUILD_LINES if is_build else MAX_EXERCISE_LINES
        if lines > limit:
            found.append(f"{lesson.at(cell)}: the cell has {lines} lines and may have {limit}; cut it")
    return found


def no_forbidden_constructs(lesson: Lesson) -> list[str]:
    """None of the constructs that nbval cannot live with."""
    found = []
    for cell in _code_cells(lesson):
        for index, line in enumerate(cell.text.splitlines(), start=1):
            if line.lstrip().startswith("!") or re.match(r"\s*%%(bash|sh|script|system)\b", line):
                found.append(f"{lesson.at(cell, index)}: a shell command writes past the kernel")
            if line.split("#")[0].rstrip().endswith(";"):
                found.append(f"{lesson.at(cell, index)}: a trailing ';' hides nothing from nbval")
        for node in ast.walk(parse(cell)):
            sentence = _forbidden(node)
            if sentence:
                found.append(f"{lesson.at(cell, getattr(node, 'lineno', 1))}: {sentence}")
    return found


def no_bare_figures(lesson: Lesson) -> list[str]:
    """The last line of a cell is no matplotlib object, whose text would be an address."""
    found = []
    for cell in _code_cells(lesson):
        body = parse(cell).body
        last = body[-1] if body else None
        if (
            isinstance(last, ast.Expr)
            and isinstance(last.value, ast.Call)
            and isinstance(last.value.func, ast.Attribute)
        ):
            owner = ast.unparse(last.value.func.value)
            if _ARTISTS.match(last.value.func.attr) and re.match(r"(plt|ax|axes|axis|fig|figure)\b", owner):
                found.append(f"{lesson.at(cell, last.lineno)}: the cell ends with a matplotlib object")
    return found


def imports_are_public(lesson: Lesson) -> list[str]:
    """A lesson imports from ``course_lib``, the top of its parts, and the rooms of ``parallel`` and ``examples``."""
    found = []
    for cell in _code_cells(lesson):
        for node in ast.walk(parse(cell)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                parts = module.split(".")
                public = parts[: 3 if parts[1:2] in (["parallel"], ["examples"]) else 2]
                if parts[0] == "course_lib" and parts != public:
                    place = lesson.at(cell, getattr(node, "lineno", 1))
                    found.append(f"{place}: {module} is too deep; use {'.'.join(public)}")
    return found


def parse(cell: Cell) -> ast.Module:
    """The syntax tree of a code cell with magics blanked; an empty tree when it is not Python."""
    try:
        return ast.parse(_plain(cell))
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def _answers_of_builds(lesson: Lesson) -> set[str]:
    """The names that the checks of a build's steps are given: each is bound by the one cell of its build."""
    checked = [answer_names(ast.unparse(parse(cell))) for cell in _code_cells(lesson)]
    return {answer for names in checked for step, answer in names.items() if build_of_step(step) is not None}


def _code_cells(lesson: Lesson) -> Iterator[Cell]:
    return (cell for cell in lesson.source.cells if cell.is_code)


def _plain(cell: Cell) -> str:
    return "\n".join(_MAGIC.sub(r"\1pass  # ", line) for line in cell.text.splitlines())


def _lines(cell: Cell) -> int:
    lines = [line.strip() for line in cell.text.splitlines()]
    return sum(bool(line) and not line.startswith(("import ", "from ")) for line in lines)


def _code_lines(cell: Cell) -> int:
    """Lines that hold code: no comment, blank line, import or docstring."""
    tree = parse(cell)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = (node.body[1:] if ast.get_docstring(node) else node.body) or [ast.Pass()]
    text = ast.unparse(tree).splitlines()
    return sum(bool(line.strip()) and not line.startswith(("import ", "from ")) for line in text)


def _forbidden(node: ast.AST) -> str:
    if isinstance(node, ast.keyword) and node.arg == "display_id":
        return "display_id makes display updates, stray outputs to nbval; show the last state once"
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        owner = "" if isinstance(node, ast.Name) else ast.unparse(node.value)
        if name in _NAMES and owner in ("", "widgets", "ipywidgets", "display", "IPython.display"):
            return f"{name} fails under nbval; {_NAMES[name]}"
        if ast.unparse(node) in _CALLS:
            return f"{ast.unparse(node)} is out; {_CALLS[ast.unparse(node)]}"
    if isinstance(node, ast.Call) and ast.unparse(node.func) in _SUBPROCESS:
        given = {keyword.arg for keyword in node.keywords}
        captured = given & {"capture_output", "stdout"}
        return "" if captured else "a child process writes past the kernel; give capture_output=True"
    return ""
