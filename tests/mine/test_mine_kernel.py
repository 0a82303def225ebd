"""In a notebook's kernel: what other cells have defined is kept, and there after a restart."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient
from own_library import HELPERS, ZIGZAG

# Below pytest nothing is kept of a learner, unless a cell says otherwise.
KEEPS = "from course_lib import check, mine\nfrom course_lib.learn.records import store\nstore._is_off = lambda: False"
USES = "positions_of = mine.positions_of\nprint(positions_of(1, 2, 8))"


@pytest.fixture
def kernel(anna, tmp_path):
    def run(*cells):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        NotebookClient(
            notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
        ).execute()
        return ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]

    return run


def test_cells_are_kept_and_used_after_a_restart(kernel, anna):
    constant, helper = HELPERS.replace("PARTS = 2", "").split("\n\n\n", 1)
    said = kernel(
        KEEPS, "PARTS = 7", constant, helper, "PARTS = 1\nPARTS += 1", ZIGZAG, 'v = check("10.zigzag", positions_of)'
    )
    assert f"Kept in {anna.context}" in said[-1]
    assert "PARTS = 2\n" in anna.context.read_text()
    assert "import itertools\n" in anna.context.read_text()
    told = kernel(KEEPS, USES, "import os; os.environ['COURSE_MINE'] = '0'", USES)
    assert "mine.positions_of is yours" in told[1]
    assert "mine.positions_of is the course's; once 10.zigzag has passed" in told[3]
    assert told[1].endswith("[2, 3, 4, 5]\n")
    assert told[3].endswith("[2, 3, 4, 5]\n")
