"""What shows this notebook's outputs: a page of a Jupyter server, or something else.

Pages differ in what they can show, and a kernel is told little about its page. JupyterLab, Notebook 7 and a hub start
kernels through a Jupyter server, which names the session in the environment. VS Code, nbconvert, papermill, nbval and
the builder start kernels of their own.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from pathlib import Path
from typing import Any

__all__ = [
    "IN_COURSE_LAB",
    "PICTURES",
    "STAND_IN",
    "at_cell_ends",
    "is_taken_down",
    "knows_no_texts",
    "picture_tag",
    "running_cell",
    "server_root",
    "shown_by_server",
    "taken_down",
    "was_installed_by_notebook",
]

IN_COURSE_LAB = "COURSE_LAB"  # a variable of kernels that `course lab`, or a hub of the course, starts
# Classes of HTML that a front end alone needs, and no page that is made of a notebook.
STAND_IN = "course-stand-in"  # for a form that is lost
PICTURES = "course-pictures"  # of a lesson that lies without them


_taken_down: ContextVar[bool] = ContextVar("taken_down", default=False)


@contextmanager
def taken_down() -> Iterator[None]:
    """Within it what is printed is shown as that of an answer, so the course itself must not print."""
    token = _taken_down.set(True)
    try:
        yield
    finally:
        _taken_down.reset(token)


def is_taken_down() -> bool:
    """Whether what is printed now is shown as that of an answer."""
    return _taken_down.get()


def shown_by_server() -> bool:
    """Whether a Jupyter server started this process's kernel: JupyterLab, Notebook 7, a hub."""
    return "JPY_SESSION_NAME" in os.environ and _shell() is not None


def knows_no_texts() -> bool:
    """Whether the page shows pictures without their texts: one of a Jupyter server that is not `course lab`."""
    return shown_by_server() and IN_COURSE_LAB not in os.environ


def server_root() -> Path | None:
    """The folder that the page can show files of; None where no Jupyter server says so."""
    process = os.environ.get("JPY_PARENT_PID", "")
    if not (shown_by_server() and process.isdigit()):
        return None
    try:
        from jupyter_core.paths import jupyter_runtime_dir

        said = Path(jupyter_runtime_dir()) / f"jpserver-{process}.json"
        return Path(json.loads(said.read_text(encoding="utf-8"))["root_dir"]).resolve()
    except (ImportError, OSError, ValueError, KeyError, TypeError):
        return None


def picture_tag(png: bytes, alt: str, *, width: str = "", name: str = "") -> str:
    """A PNG as an HTML element that needs no file; ``width`` as CSS has it, and a ``name`` for a script to find."""
    data = base64.b64encode(png).decode("ascii")
    wide = f"width:{escape(width)};" if width else ""
    named = f" data-name='{escape(name)}'" if name else ""
    return f"<img alt='{escape(alt)}'{named} style='{wide}max-width:100%' src='data:image/png;base64,{data}'>"


def was_installed_by_notebook() -> bool:
    """Whether this is a hosted notebook, whose first cell installs the course and whose pictures have addresses."""
    shell = _shell()
    return shell is not None and "install_course" in shell.user_ns


def running_cell() -> str:
    """The text of the cell that runs now; "" outside a notebook's kernel."""
    shell = _shell()
    if shell is None:
        return ""
    try:
        return str(shell.get_parent()["content"]["code"])
    except (AttributeError, KeyError, TypeError):
        return ""


def at_cell_ends(act: Callable[[], None]) -> None:
    """Have ``act`` called whenever a cell has ended, in this notebook's kernel; nothing outside one."""
    shell = _shell()
    if shell is not None:
        shell.events.register("post_run_cell", lambda _: act())


def _shell() -> Any:
    """IPython's shell within a kernel; None elsewhere, where IPython is not imported for the sake of the question."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if hasattr(shell, "kernel") else None
