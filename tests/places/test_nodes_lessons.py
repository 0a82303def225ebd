"""Lessons whose ranks are on two nodes show what they show on one machine: cell by cell, their solved parts.

Both nodes are this machine. What is left out of the comparison is what names nodes (``tests/support/on_nodes.py``).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import nbformat
import pytest
from on_nodes import without_nodes

from course_lib.authoring.testing.parts import nbval_command
from course_lib.base.paths import project_root
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord

ROOT = project_root()
LESSONS = ("00", "02", "04", "05", "09", "10", "14")
PARTS = sorted(path for path in (ROOT / "notebooks" / "solutions").glob("*.ipynb") if path.name[:2] in LESSONS)
PARTS.append(ROOT / "notebooks" / "solutions" / "12a_two_nodes.ipynb")  # which measures the link between its nodes


@pytest.mark.long
@pytest.mark.limit_s(3000.0)
@pytest.mark.parametrize("part", PARTS, ids=lambda path: path.stem)
def test_a_lesson_on_two_nodes(part: Path, tmp_path: Path):
    done = executed(part, tmp_path, hosts=("here-0", "here-1"))
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout.splitlines()[-1]


PAGE = """\
from course_lib import shared_cluster
ranks = shared_cluster(2)
print([ranks.run(lambda me: me.{what})[rank] for rank in range(2)])
"""


@pytest.mark.long
@pytest.mark.limit_s(600.0)
@pytest.mark.parametrize(("what", "shown", "code"), [("node", "[0, 1]", 0), ("node", "[0, 0]", 1)])
def test_a_page_that_shows_something_else_there_fails(what: str, shown: str, code: int, tmp_path: Path):
    """So the run above is on two nodes, and compares."""
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(PAGE.format(what=what))])
    page.cells[0].execution_count = 1
    page.cells[0].outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"{shown}\n")]
    nbformat.write(page, tmp_path / "page.ipynb")
    assert executed(tmp_path / "page.ipynb", tmp_path, hosts=("here-0", "here-1")).returncode == code


def executed(part: Path, folder: Path, *, hosts: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """nbval's run of a notebook with these nodes, all of them this machine."""
    record = folder / "nodes.json"
    NodesRecord(hosts, "127.0.0.1", starter="here").write(record)
    paths = [str(ROOT), str(Path(__file__).resolve().parents[1] / "support"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, VARIABLE: str(record), "COURSE_SEATS": "off", "COURSE_HOME": str(folder)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = nbval_command(ROOT, [str(part)], are_warm=False)
    spread = slice(command.index("-n"), -1)
    command[spread] = ["-p", "on_nodes"]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


def stream(text: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def test_what_names_nodes_is_taken_out_and_nothing_else():
    shown = (
        "4 ranks on 2 nodes: 2 on a, 2 on b.\n"
        "Links are shaped on this machine: 2 ranks here stand in for ranks on your nodes.\n"
        "rank 2 of 4 on node 1 (b) failed: ValueError: on node 1\nin all 8 KiB; between nodes 4.5 KiB; rest\n"
    )
    left = "rank 2 of 4 failed: ValueError: on node 1\nin all 8 KiB; rest\n"
    assert [output.text for output in without_nodes([stream(shown), stream("1 rank on 1 node: 1 on a.\n")])] == [left]
    assert [output.text for output in without_nodes([stream(left), stream("")])] == [left, ""]
    page = nbformat.v4.new_output("display_data", {"text/html": "rank 0 on node 0 (a-b.c) waits", "image/png": "x"})
    assert without_nodes([page])[0].data == {"text/html": "rank 0 waits", "image/png": "x"}
    warned = (
        "all.</p><details><summary>What your code printed</summary><pre style='a'>"
        "More ranks than cores: 3 ranks share 2. Results are the same.\n{}</pre></details>"
    )
    pages = [nbformat.v4.new_output("display_data", {"text/html": warned.format(more)}) for more in ("", "hello\n")]
    assert [page.data["text/html"] for page in without_nodes(pages)] == ["all.</p>", warned.format("hello\n")]
