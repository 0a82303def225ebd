"""A notebook in the page of any front end, driven by menus as a person drives it, without JupyterLab's names."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import nbformat

from course_lib.authoring.testing.browser_lab import RunningLab

__all__ = ["FrontPage", "notebook_of"]

_LIMIT_MS = 180_000
_MOMENT_MS = 250
_LOOKS = 400


def notebook_of(path: Path, *cells: str) -> None:
    """A notebook of code cells, for this environment's kernel."""
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    made = nbformat.v4.new_notebook(metadata={"kernelspec": kernel})
    made.cells = [nbformat.v4.new_code_cell(text) for text in cells]
    nbformat.write(made, path)


class FrontPage:
    """One notebook in one browser page."""

    def __init__(self, page: Any, lab: RunningLab, path: str) -> None:
        self.page, self.lab, self.path = page, lab, path
        page.set_default_timeout(_LIMIT_MS)
        self.open()

    def open(self) -> None:
        """Open the notebook, also once more, and wait until its kernel is idle."""
        self.page.goto(self.lab.address_of(self.path))
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self._wait(lambda: [one["kernel"]["execution_state"] for one in self._sessions()] == ["idle"])
        self.page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', state="attached")

    def run_all(self) -> None:
        """Run every cell by the menu, and wait until the last one has its number."""
        self._choose("Run", "Run All Cells")
        self.page.wait_for_function(
            """() => [...document.querySelectorAll(".jp-CodeCell")].every(
              (cell) => /\\d/.test(cell.querySelector(".jp-InputPrompt").textContent))"""
        )

    def save(self) -> None:
        self._choose("File", "Save Notebook")
        self._wait(self._is_kept)

    def _is_kept(self) -> bool:
        """Whether the file has outputs; it may be half written."""
        try:
            kept = json.loads((self.lab.folder / self.path).read_text(encoding="utf-8"))
        except ValueError:
            return False
        return any(cell.get("outputs") for cell in kept["cells"])

    def end_kernel(self) -> None:
        """Leave the page and end what runs, as a person does who comes back another day."""
        self.page.goto("about:blank")
        for one in self._sessions():
            self._ask(f"api/sessions/{one['id']}", "DELETE")

    def text(self) -> str:
        return str(self.page.inner_text(".jp-Notebook"))

    def pictures(self, where: str) -> list[dict[str, Any]]:
        """Of each picture there: its width in pixels of its own (0 for one that is broken), its text, its filter."""
        return list(
            self.page.evaluate(
                """(where) => [...document.querySelectorAll(where)].map((image) => ({width: image.naturalWidth,
                  alt: image.alt, shown: image.offsetWidth > 0, filter: getComputedStyle(image).filter}))""",
                where,
            )
        )

    def dark(self) -> None:
        """The dark theme, by the menu."""
        self._choose("Settings", "Theme", "JupyterLab Dark")
        self.page.wait_for_selector('body[data-jp-theme-light="false"]', state="attached")

    def _choose(self, *words: str) -> None:
        for place, word in enumerate(words):
            kind = ".lm-MenuBar-item" if place == 0 else ".lm-Menu-item"
            item = self.page.locator(kind, has_text=word).first
            item.click() if place in (0, len(words) - 1) else item.hover()

    def _sessions(self) -> list[dict[str, Any]]:
        return list(json.loads(self._ask("api/sessions")))

    def _ask(self, path: str, method: str = "GET") -> bytes:
        headers = {"Authorization": f"token {self.lab.token}"}
        asked = urllib.request.Request(f"{self.lab.url}/{path}", headers=headers, method=method)
        with urllib.request.urlopen(asked) as answer:
            return bytes(answer.read())

    def _wait(self, is_so: Any) -> None:
        for _ in range(_LOOKS):
            if is_so():
                return
            self.page.wait_for_timeout(_MOMENT_MS)
        raise AssertionError(f"{self.path} in {self.lab.front_end}: not within {_LOOKS} looks")
