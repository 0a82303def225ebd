"""Run every cell of a notebook in a fresh kernel of this very interpreter, and keep what it printed.

The kernel sees a private ``COURSE_HOME`` (no learner's progress, no old calibration) and a private IPython
profile, so that the outputs do not depend on whose machine this is more than they must.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from course_lib.lessons.kernel_sockets import listen_at_files

__all__ = [
    "WIDGET_VIEW",
    "CellFailedError",
    "KernelStartError",
    "execute",
    "kernel_client",
    "run_cell",
    "start_kernel",
    "without_folders",
]

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_CELL_FILE = re.compile(r"\S*ipykernel_\d+[/\\]\d+\.py")
_PYTHON_FILE = re.compile(r"(?:[A-Za-z]:)?(?:[/\\][^\s/\\:\"']+)+[/\\]([^\s/\\:\"']+\.py)")
_KERNEL_START_LIMIT_S = 600  # one that hangs; a minute or two where many others run
_LINE = re.compile(r"Cell In\[\d+\], line (\d+)")


class CellFailedError(RuntimeError):
    """A cell did not run to its end.

    ``cell`` counts from 0 over all cells, ``line`` from 1 inside the cell.
    """

    def __init__(self, cell: int, line: int, reason: str) -> None:
        super().__init__(reason)
        self.cell, self.line, self.reason = cell, line, reason


class KernelStartError(RuntimeError):
    """A kernel ended, or said nothing, before its first cell. The text ends with what it last wrote."""


async def execute(notebook: NotebookNode, *, folder: Path, cell_timeout_s: float) -> None:
    """Execute ``notebook`` in place with ``folder`` as working directory.

    Cells tagged ``raises-exception`` may raise. Raises KernelStartError where no kernel begins, and CellFailedError
    for the first other cell that fails, takes longer than ``cell_timeout_s``, or ends its kernel. The kernel is gone
    when this returns, whatever happened.
    """
    with tempfile.TemporaryDirectory(prefix="course-build-", ignore_cleanup_errors=True) as home:
        environment = {
            "COURSE_HOME": home,
            "COURSE_PROGRESS": "off",
            "COURSE_SEATS": "off",  # no word of other notebooks that are open on this machine
            "IPYTHONDIR": str(Path(home) / "ipython"),
            "COURSE_ROUNDING": "strict",  # no digit that another processor may round otherwise
            "PYTHONWARNINGS": "ignore:More ranks than cores",  # else outputs depend on the machine's cores
        }
        client = kernel_client(notebook, environment, cell_timeout_s=cell_timeout_s)
        manager = client.km  # the client lets go of it when the kernel does not start
        listen_at_files(manager, Path(home) / "kernel")
        with (Path(home) / "kernel.log").open("w+", encoding="utf-8", errors="replace") as log:
            try:
                await start_kernel(client, folder=folder, log=log)
                for index, cell in enumerate(notebook.cells):
                    if cell.cell_type == "code":
                        await run_cell(client, cell, index, log)
            finally:
                if client.kc is not None:
                    client.kc.stop_channels()
                if manager.has_kernel:
                    await manager.shutdown_kernel(now=True)
    _tidy(notebook)


def kernel_client(notebook: NotebookNode, environment: dict[str, str], *, cell_timeout_s: float) -> Any:
    """A client of a kernel that is still to start, of this very interpreter, with ``environment`` added to ours."""
    manager = AsyncKernelManager(kernel_name="python3")
    # The interpreter that runs this build, not whatever kernel some other environment registered as
    # "python3".
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        display_name="Python 3 (ipykernel)",
        language="python",
        env=environment,
    )
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=int(cell_timeout_s),
        startup_timeout=_KERNEL_START_LIMIT_S,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
    )
    client.reset_execution_trackers()
    return client


async def start_kernel(client: Any, *, folder: Path, log: TextIO) -> None:
    """Start the client's kernel in ``folder``, what it writes going to ``log``, and wait until it answers."""
    try:
        await client.km.start_kernel(cwd=str(folder), stdout=log, stderr=log)
        await client.async_start_new_kernel_client()
    except (OSError, RuntimeError) as error:
        raise KernelStartError(f"the kernel did not start ({error}){_last_of(log)}") from None


async def run_cell(client: Any, cell: NotebookNode, index: int, log: TextIO) -> None:
    """Run one code cell; what goes wrong is a CellFailedError, with the last of ``log`` where the kernel died."""
    try:
        await client.async_execute_cell(cell, index, execution_count=client.code_cells_executed + 1)
    except CellExecutionError as error:
        found = _LINE.findall(_ANSI.sub("", str(error)))
        # The outermost frame of the traceback is the line of the cell that led to the error.
        raise CellFailedError(index, int(found[0]) if found else 1, f"{error.ename}: {error.evalue}") from None
    except CellTimeoutError:
        raise CellFailedError(index, 1, f"the cell took longer than {client.timeout} s and was ended") from None
    except DeadKernelError:
        reason = "the kernel died in this cell (out of memory, or the code ended the process)"
        raise CellFailedError(index, 1, reason + _last_of(log)) from None


def _last_of(log: TextIO) -> str:
    log.seek(0)
    last = " / ".join(log.read().strip().splitlines()[-3:])
    return f"; it last wrote: {last}" if last else ""


def _tidy(notebook: NotebookNode) -> None:
    """Leave out what says nothing to others: ids of widgets whose kernel is gone, folders of this machine."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            if output.get("data", {}).pop(WIDGET_VIEW, None) is not None:
                output.metadata["course"] = {"widget": True}
                output.data.pop("image/png", None)  # of an explorer: a drawn one stands above each
            if output.output_type == "stream" and output.name == "stderr":
                output.text = without_folders(output.text)
            if output.output_type == "error":
                output.traceback = [without_folders(line) for line in output.traceback]


def without_folders(text: str) -> str:
    """A warning or a traceback without the folders of this machine: "/home/ada/x/run.py:3" becomes "run.py:3".

    A cell's own file is called CELL.py. ``notebooks/nbval.cfg`` does the same to what a strict test run gives.
    """
    return _PYTHON_FILE.sub(r"\1", _CELL_FILE.sub("CELL.py", text))
