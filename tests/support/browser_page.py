"""What a learner does with a lesson in JupyterLab: open it, run it, press keys; and what can be seen then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from course_lib.authoring.testing.browser_lab import RunningLab

__all__ = ["PARTS", "THEMES", "LessonPage"]

PARTS = sorted(path.name for path in (Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))
THEMES = ("JupyterLab Light", "JupyterLab Dark")
_RUN_LIMIT_MS = 600_000
_LIMIT_MS = 120_000
_KEY_LIMIT_MS = 5_000
_OUTPUTS = ".jp-Notebook .jp-OutputArea-output"
# JupyterLab says "idle" before there is a kernel, and forgets a Run All that comes then.
_READY = """async () => {
  const {context} = window.jupyterapp.shell.currentWidget;
  await context.ready;
  await context.sessionContext.ready;
  await context.sessionContext.session.kernel.info;
}"""
_CELL = """([text, kind]) => {
  const {content} = window.jupyterapp.shell.currentWidget;
  const found = content.widgets.findIndex(
    (cell) => cell.model.type === kind && cell.model.sharedModel.getSource().includes(text));
  if (found >= 0) { content.activeCellIndex = found; content.deselectAll(); }
  return found;
}"""
_FOCUS = """() => {
  const at = document.activeElement;
  const cells = window.jupyterapp.shell.currentWidget.content.widgets;
  return {
    tag: at.tagName, text: (at.textContent || at.value || "").trim().slice(0, 60),
    kind: at.getAttribute("type") || at.getAttribute("role") || "",
    cell: cells.findIndex((cell) => cell.node.contains(at)), in_form: !!at.closest(".course-form"),
  };
}"""
_AXE = """async (include) => {
  if (!document.querySelector(include)) return [];
  const found = await axe.run({include: [[include]]}, {
    resultTypes: ["violations"],
    // An output that is too wide can be scrolled by keys: Firefox and Chromium (from 130) let Tab stop there.
    rules: {"scrollable-region-focusable": {enabled: false}},
  });
  return found.violations.flatMap((rule) => rule.nodes.map(
    (node) => `${rule.id}: ${node.html.slice(0, 160)} (${node.failureSummary.slice(0, 200)})`));
}"""


class LessonPage:
    """One lesson part in one browser page; ``problems`` is what the console has complained of."""

    def __init__(self, page: Any, lab: RunningLab, part: str) -> None:
        self.page, self.lab, self.part = page, lab, part
        self.problems: list[str] = []
        page.set_default_timeout(_LIMIT_MS)
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        page.on("console", self._hear)
        self.open()

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"console: {message.text} ({message.location.get('url', '')})")

    def open(self) -> None:
        """Open the part, also once more, and wait until its kernel answers."""
        self.page.goto(self.lab.address(self.part))
        self.page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        self.page.evaluate(_READY)

    # -- running ----------------------------------------------------------------------------------------------------

    def run_all(self) -> bool:
        """Run every cell; whether all of them ran."""
        self.page.set_default_timeout(_RUN_LIMIT_MS)
        done = self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.set_default_timeout(_LIMIT_MS)
        return bool(done)

    def run_cells_above(self, text: str) -> int:
        """Run all cells up to and with the first code cell that holds ``text``; its number."""
        number = self.go_to(text)
        last = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex += 1"
        self.page.evaluate(last)
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-above')")
        self.go_to(text)
        return number

    def run_cell(self) -> bool:
        """Run the active cell and stay on it; whether it ran. The Shift+Enter of a person moves the focus later."""
        return bool(self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell')"))

    def run_below(self, source: str) -> int:
        """Run a cell of its own below the active one; its number."""
        return int(
            self.page.evaluate(
                """async (source) => {
                  const {commands, shell} = window.jupyterapp;
                  await commands.execute("notebook:insert-cell-below");
                  const {content} = shell.currentWidget;
                  content.activeCell.model.sharedModel.setSource(source);
                  const number = content.activeCellIndex;
                  await commands.execute("notebook:run-cell");
                  return number;
                }""",
                source,
            )
        )

    def sources(self) -> dict[int, str]:
        """The text of each code cell, by the number of the cell."""
        found = self.page.evaluate(
            """() => window.jupyterapp.shell.currentWidget.content.widgets.map(
              (cell) => cell.model.type === "code" ? cell.model.sharedModel.getSource() : null)"""
        )
        return {number: source for number, source in enumerate(found) if source is not None}

    def activate(self, number: int) -> None:
        """Make a cell the active one and give it the focus, as the arrow keys do."""
        self.page.evaluate(
            """(number) => {
              const {content} = window.jupyterapp.shell.currentWidget;
              content.activeCellIndex = number;
              content.deselectAll();
              content.mode = "command";
              content.activeCell.node.focus();
            }""",
            number,
        )

    def go_to(self, text: str, kind: str = "code") -> int:
        """Make the first cell of a kind that holds ``text`` the active one; its number."""
        number = int(self.page.evaluate(_CELL, [text, kind]))
        assert number >= 0, f"{self.part} has no {kind} cell with {text!r}"
        return number

    def restart_kernel(self) -> None:
        self.page.evaluate("""async () => {
          const {sessionContext} = window.jupyterapp.shell.currentWidget.context;
          await sessionContext.session.kernel.restart();
          await sessionContext.session.kernel.info;
        }""")

    def keep_busy(self, seconds: float) -> None:
        """Have the kernel do something else for that long; it has begun when this returns."""
        self.page.evaluate(
            """async (code) => {
              const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
              const request = kernel.requestExecute({code, store_history: false});
              await new Promise((begun) => { request.onIOPub = begun; });
            }""",
            f"import time; time.sleep({seconds})",
        )

    def save(self) -> None:
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")

    def disconnected(self) -> list[str]:
        """What forms show in place of the broken links of a kernel that is gone; waits until it is."""
        self.page.wait_for_selector(".course-form.jupyter-widgets-disconnected")
        return list(
            self.page.evaluate(
                """() => [...document.querySelectorAll(".course-form, .course-form .jupyter-widgets-disconnected")].map(
                  (part) => getComputedStyle(part, "::before").content).filter((text) => text !== "none")"""
            )
        )

    # -- looking ----------------------------------------------------------------------------------------------------

    def output(self, number: int) -> Any:
        """The outputs of a cell, as playwright's locator."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number).locator(".jp-OutputArea-output")

    def form(self, number: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number).locator(".course-form").first

    def focus(self) -> dict[str, Any]:
        """What has the focus: its tag, its text, its kind, the number of its cell, and whether it is in a form."""
        return dict(self.page.evaluate(_FOCUS))

    def num_cells(self) -> int:
        return int(self.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length"))

    def comes_to(self, number: int) -> bool:
        """Whether a cell becomes the active one within seconds: a key is answered a moment after it was pressed."""
        active = "(number) => window.jupyterapp.shell.currentWidget.content.activeCellIndex === number"
        from playwright.sync_api import TimeoutError

        try:
            self.page.wait_for_function(active, arg=number, timeout=_KEY_LIMIT_MS)
        except TimeoutError:
            return False
        return True

    def tracebacks(self) -> list[str]:
        """What cells have failed with; from the notebook's model, since the page names such an output in many ways."""
        return list(
            self.page.evaluate(
                """() => window.jupyterapp.shell.currentWidget.content.widgets
                  .flatMap((cell) => cell.model.sharedModel.toJSON().outputs ?? [])
                  .filter((output) => output.output_type === "error")
                  .map((output) => `${output.ename}: ${output.evalue}`.slice(-400))"""
            )
        )

    def pictures_without_text(self) -> list[str]:
        return list(
            self.page.evaluate(
                """() => [...document.querySelectorAll(".jp-Notebook img")]
                  .filter((image) => !(image.alt || "").trim()).map((image) => image.outerHTML.slice(0, 200))"""
            )
        )

    def broken_pictures(self) -> list[str]:
        self.page.wait_for_function(
            """() => [...document.querySelectorAll(".jp-Notebook img")].every((image) => image.complete)"""
        )
        return list(
            self.page.evaluate(
                """() => [...document.querySelectorAll(".jp-Notebook img")]
                  .filter((image) => !image.naturalWidth).map((image) => image.outerHTML.slice(0, 200))"""
            )
        )

    def too_wide(self) -> list[str]:
        """Outputs and text that can be scrolled sideways."""
        return list(
            self.page.evaluate(
                """() => [...document.querySelectorAll(
                    ".jp-Notebook .jp-OutputArea-output, .jp-Notebook .jp-MarkdownOutput, .jp-Notebook .cm-scroller")]
                  .filter((part) => part.scrollWidth > part.clientWidth + 2 && part.clientWidth)
                  .map((part) => `${part.className.slice(0, 60)}, ${part.scrollWidth} of ${part.clientWidth} px: `
                    + part.innerText.slice(0, 90))"""
            )
        )

    def axe(self, where: str = _OUTPUTS) -> list[str]:
        """What axe-core finds wrong there, a line each."""
        if not self.page.evaluate("() => !!window.axe"):
            import axe_playwright_python

            script = Path(axe_playwright_python.__file__).with_name("axe.min.js")
            self.page.evaluate(script.read_text(encoding="utf-8"))
        return list(self.page.evaluate(_AXE, where))

    def theme(self, name: str) -> None:
        self.page.evaluate("(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
        light = str("Dark" not in name).lower()
        self.page.wait_for_selector(f'body[data-jp-theme-light="{light}"]', state="attached")

    def width(self, pixels: int) -> None:
        self.page.set_viewport_size({"width": pixels, "height": 900})

    # -- keys -------------------------------------------------------------------------------------------------------

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
