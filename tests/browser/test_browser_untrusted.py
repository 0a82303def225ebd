"""On a page of somebody else, and on a narrow one: the edge of a panel stays, and the left bar is closed."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from course_lib.forms.show import panel


@pytest.mark.long
def test_a_panel_keeps_its_edge_and_the_page_its_width(lab, browser):
    cell = v4.new_code_cell("1", outputs=[])
    for kind in ("good", "bad", "info", "quiet"):
        shown = panel(kind, kind, f"<p class='of-{kind}'>words</p>")
        cell.outputs.append(v4.new_output("display_data", data={"text/html": shown}))
    kernel = {"name": "python3", "display_name": "Python 3"}
    path = Path(lab.folder) / "notebooks" / "of_others.ipynb"
    path.write_text(nbformat.writes(v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})))
    context = browser.new_context(viewport={"width": 720, "height": 450})  # 1440 px at 200 %
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(lab.address(path.name).removesuffix("&reset"))
    page.wait_for_selector(".of-quiet")
    edges = page.evaluate("""() => [...document.querySelectorAll("[class^=of-]")].map(
      (words) => getComputedStyle(words.parentElement).borderLeftWidth)""")
    assert edges == ["4px"] * 4
    assert page.evaluate("() => window.jupyterapp.shell.leftCollapsed")
    assert page.evaluate("() => document.querySelector('.jp-NotebookPanel').offsetWidth") > 0.85 * 720
    context.close()
