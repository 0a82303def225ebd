"""``course bench page``: from a control's change to the redrawn picture on the screen, in a real JupyterLab.

For each explorer one control is changed in headless Chromium, to and fro, and the clock of the page runs from the
change to the frame after the new picture has been decoded. Beside it stands the kernel's share, what the explorer takes
to draw when nothing else is there, and what a round trip takes that draws nothing. No ranks run.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.authoring.testing.browser_lab import BROWSER_OPTIONS, chromium, missing, running_lab

__all__ = ["main"]

_PROMISED_MS = 80
_LIMIT_MS = 120_000
# What makes each explorer, and the label of the control that is changed.
_MADE = {
    "memory": ("MemoryExplorer(sizes)", "batch size"),
    "buckets": ("BucketExplorer()", "latency"),
    "sharded": ("ShardedExplorer()", "stage"),
    "matmul": ("MatmulExplorer()", "ranks"),
    "studio": ("ScheduleStudio()", "backward / forward"),
    "mesh": ("MeshExplorer()", "ranks of a node"),
    "context": ("ContextExplorer()", "way"),
    "plan": ("PlanExplorer()", "recomputed"),
}
_SETUP = """
import ipywidgets
from course_lib.widgets import *

def sizes(*, batch_size, **dials):
    return {"parameter": 2**20, "gradient": 2**20, "optimizer state": 2**21, "activation": batch_size * 2**15}

def echo():
    box, words = ipywidgets.IntText(0, description="number"), ipywidgets.HTML("0")
    box.observe(lambda change: setattr(words, "value", str(change.new)), names="value")
    words.add_class("echo")
    return ipywidgets.VBox([box, words])
"""
_CHANGE = """async ([cell, label]) => {
  const output = window.jupyterapp.shell.currentWidget.content.widgets[cell].node;
  const named = [...output.querySelectorAll("label")].find((one) => one.textContent === label);
  const control = named.parentElement.querySelector("select, input");
  const picture = output.querySelector("img.widget-image"), words = output.querySelector(".echo");
  const step = +control.step || 1, back = control.dataset.back, menu = control.options;
  const start = performance.now();
  const shown = new Promise((resolve) => {
    if (picture) picture.addEventListener("load", resolve, {once: true});
    else new MutationObserver(resolve).observe(words, {childList: true, subtree: true, characterData: true});
  });
  const other = menu ? (control.selectedIndex || 2) - 1 : +control.value + step; // a menu may stand at its last line
  const goal = back ?? other;
  if (back) delete control.dataset.back; else control.dataset.back = menu ? control.selectedIndex : control.value;
  if (menu) control.selectedIndex = goal; else control.value = goal;
  for (const kind of ["input", "change"]) control.dispatchEvent(new Event(kind, {bubbles: true}));
  await shown;
  await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""
_READY = """async () => {
  const {context} = window.jupyterapp.shell.currentWidget;
  await context.ready; await context.sessionContext.ready; await context.sessionContext.session.kernel.info;
  await window.jupyterapp.commands.execute("notebook:run-all-cells");
}"""


def main(arguments: list[str]) -> int:
    options = bench_parser("page", __doc__, rounds=15, of="changes of each control").parse_args(arguments)
    why_not = missing()
    if why_not:
        print(f"course bench page: {why_not}", file=sys.stderr)
        return 2
    with open_table(options) as table, tempfile.TemporaryDirectory() as folder:
        found = _on_screen(Path(folder), options.rounds)
        table.add("a round trip without a picture", found.pop(""), "ms")
        for name, times_ms in found.items():
            table.add(f"{name}: control to screen", times_ms, "ms", target=_PROMISED_MS)
            table.add(f"{name}: drawing alone", _drawing(name, options.rounds), "ms")
    return 0


def _on_screen(folder: Path, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each explorer in the browser; of the echo under the empty name."""
    import nbformat
    import nbformat.v4 as made
    from playwright.sync_api import sync_playwright

    cells = [made.new_code_cell(text) for text in (_SETUP, "echo()", *(text for text, _ in _MADE.values()))]
    work = folder / "work" / "notebooks"
    work.mkdir(parents=True)
    kernel = {"name": "python3", "display_name": "Python 3"}  # without it JupyterLab asks for one, and waits
    notebook: Any = made.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    (work / "page.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    labels = {"": "number"} | {name: label for name, (_, label) in _MADE.items()}
    with running_lab(folder / "work", folder / "home") as lab, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=BROWSER_OPTIONS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(_LIMIT_MS)
        page.goto(lab.address("page.ipynb"))
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        page.evaluate(_READY)
        page.wait_for_function(
            "(number) => document.querySelectorAll('img.widget-image').length === number", arg=len(_MADE)
        )
        found = {}
        for cell, (name, label) in enumerate(labels.items(), start=1):
            times_ms = [page.evaluate(_CHANGE, [cell, label]) for _ in range(rounds + 2)]
            found[name] = times_ms[2:]  # the first ones find caches empty
        browser.close()
    return found


def _drawing(name: str, rounds: int) -> list[float]:
    """Milliseconds that the same change takes in this process."""
    space: dict[str, Any] = {}
    exec(_SETUP, space)
    explorer = eval(_MADE[name][0], space)
    control = next(one for one in _controls(explorer) if one.description == _MADE[name][1])
    options = getattr(control, "options", None)
    names = [one[1] if isinstance(one, tuple) else one for one in options] if options else []
    at = names.index(control.value) if names else control.value
    first = names[at] if names else at
    other = names[at - 1 if at else 1] if names else at + (control.step or 1)  # as in the browser
    times_ms = []
    for turn in range(rounds + 2):
        value = other if turn % 2 == 0 else first
        start_s = time.perf_counter()
        control.value = value
        times_ms.append(1e3 * (time.perf_counter() - start_s))
    return times_ms[2:]


def _controls(box: Any) -> list[Any]:
    return [leaf for part in getattr(box, "children", ()) for leaf in (_controls(part) or [part])]
