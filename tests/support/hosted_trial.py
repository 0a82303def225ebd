"""Run a hosted notebook as a host would: in a folder with nothing else, cell by cell, interrupted, restarted.

It is run by the Python of the host that is tried, which has nbclient and nothing of the course:
``python hosted_trial.py NOTEBOOK.ipynb``. It writes one line of JSON: what each run has shown.
"""

import json
import sys
import threading
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbclient.util import run_sync

ENDLESS = """\
import time as _time

def _endless(me):
    while True:
        _time.sleep(0.2)

from course_lib import shared_cluster as _shared
_shared(2).run(_endless)"""
AFTERWARDS = "print('ranks:', _shared(2).run(lambda me: me.rank).results)"


def executed(client: NotebookClient, cell: Any, index: int) -> str:
    """Run a cell; the name and text of its error, or nothing.

    For a moment after an error a kernel drops what it is asked ("aborted"), and nbclient takes that for a cell that has
    run: such a cell is run again.
    """
    said: list[str] = []

    def hear(cell: Any, cell_index: int, execute_reply: dict[str, Any]) -> None:
        said.append(execute_reply["content"]["status"])

    client.on_cell_executed = hear
    try:
        while not said or said[-1] == "aborted":
            client.execute_cell(cell, index)
    except CellExecutionError as error:
        return f"cell {index}: {error.ename}: {error.evalue}"
    return ""


def interrupted(client: NotebookClient, code: str, after_s: float) -> str:
    cell = nbformat.v4.new_code_cell(code)
    client.nb.cells.append(cell)
    timer = threading.Timer(after_s, run_sync(client.km.interrupt_kernel))
    timer.start()
    try:
        return executed(client, cell, len(client.nb.cells) - 1)
    finally:
        timer.cancel()
        client.nb.cells.remove(cell)


def asked(client: NotebookClient, code: str) -> str:
    """What a cell prints, and its error."""
    cell = nbformat.v4.new_code_cell(code)
    client.nb.cells.append(cell)
    error = executed(client, cell, len(client.nb.cells) - 1)
    client.nb.cells.remove(cell)
    return "".join(output.get("text", "") for output in cell.outputs) + error


def run_all(client: NotebookClient) -> list[str]:
    cells = [(index, cell) for index, cell in enumerate(client.nb.cells) if cell.cell_type == "code"]
    return [error for index, cell in cells if (error := executed(client, cell, index))]


def text_of(cell: Any) -> str:
    return "".join(output.get("text", "") for output in cell.outputs if output.output_type == "stream")


def main(path: str) -> None:
    notebook = nbformat.read(path, as_version=4)
    # A busy machine says late what a cell has printed.
    client = NotebookClient(notebook, timeout=1800, iopub_timeout=300, kernel_name="python3")
    install = notebook.cells[1]
    found: dict[str, Any] = {}
    with client.setup_kernel():
        found["install_interrupted"] = interrupted(client, install.source, 1.5)
        found["errors"] = run_all(client)
        found["installed"] = text_of(install)
        found["interrupted"] = interrupted(client, ENDLESS, 15)
        found["after_interrupt"] = asked(client, AFTERWARDS)
        found["versions"] = asked(
            client,
            "import importlib.metadata as _m\n"
            "print({n: _m.version(n) for n in ('torch', 'ipywidgets', 'ipykernel', 'ipython', 'numpy')})",
        )
        run_sync(client.km.restart_kernel)(now=True)
        run_sync(client.kc.wait_for_ready)(timeout=120)
        found["fresh"] = asked(client, "print('install_course' in globals())")
        found["errors_after_restart"] = run_all(client)
        found["after_restart"] = text_of(install)
    found["widgets"] = sum(
        "application/vnd.jupyter.widget-view+json" in output.get("data", {})
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    print("TRIAL " + json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
