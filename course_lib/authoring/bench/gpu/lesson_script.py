"""One lesson as a script: the cells of its solution, in order, in this process; no Jupyter is needed.

    python -m course_lib.authoring.bench.gpu.lesson_script notebooks/src/04a_distributed_data_parallel.py

A cell's last expression is shown as text, and drawn where it is a picture. It ends at the first cell that fails, with
exit code 1 and the line of the source. What cells define lies in ``__main__``, so it travels to ranks as a notebook's
does.
"""

from __future__ import annotations

import ast
import linecache
import sys
import traceback
from functools import partial
from typing import Any

__all__ = ["CELL", "main", "run_cell"]

CELL = "--- cell "  # begins the line that names the next one


def main(arguments: list[str]) -> int:
    """Run the lesson at a path; 0 when every cell ran, 1 after the first that did not."""
    from course_lib.lessons.regions import solution_text
    from course_lib.lessons.source import read_source

    source = read_source(arguments[0])
    main_module = sys.modules["__main__"]
    kept = dict.fromkeys(["__name__", "__builtins__", "__spec__", "__file__", "__loader__", "__package__"])
    for name in [name for name in vars(main_module) if name not in kept]:
        delattr(main_module, name)  # a cell sees nothing of this script
    codes = [cell for cell in source.cells if cell.is_code]
    for number, cell in enumerate(codes, start=1):
        where = source.where(cell)
        text = solution_text(cell.text, partial(source.where, cell))
        print(f"{CELL}{number} of {len(codes)}, {where}", flush=True)
        may_raise = "raises-exception" in cell.tags
        try:
            run_cell(text, where, vars(main_module))
        except Exception as error:
            if not may_raise:
                traceback.print_exc(file=sys.stdout)
                first = (str(error).splitlines() or [""])[0]
                print(f"FAILED at {where}: {type(error).__name__}: {first}", flush=True)
                return 1
    return 0


def run_cell(text: str, where: str, namespace: dict[str, Any]) -> None:
    """Run one cell, and show its last expression. ``where`` names it in tracebacks."""
    if text.startswith("%%ranks"):
        from course_lib.cluster.api import magic

        line, _, body = text.partition("\n")
        magic.ranks(line.removeprefix("%%ranks"), body)
        return
    name = f"<{where}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    tree = ast.parse(text, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    if isinstance(last, ast.Expr):
        _show(eval(compile(ast.Expression(last.value), name, "eval"), namespace))


def _show(value: Any) -> None:
    if value is None:
        return
    if hasattr(value, "_ipython_display_"):
        value._ipython_display_()
        return
    draw = getattr(value, "_repr_png_", None)
    if callable(draw):
        draw()
    print(repr(value), flush=True)


if __name__ == "__main__":
    import course_lib.authoring.bench.gpu.lesson_script as script  # a module of its own: __main__ belongs to the lesson

    sys.exit(script.main(sys.argv[1:]))
