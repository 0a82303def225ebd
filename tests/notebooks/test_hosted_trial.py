"""The trial of hosted notebooks itself: no cell of it is lost."""

from __future__ import annotations

from typing import Any

import nbformat
from hosted_trial import executed


class Dropping:
    """A client whose kernel drops the first requests, as after an error; nbclient raises nothing then."""

    def __init__(self, *statuses: str) -> None:
        self.statuses, self.on_cell_executed = list(statuses), lambda **_: None

    def execute_cell(self, cell: Any, index: int) -> None:
        reply = {"content": {"status": self.statuses.pop(0)}}
        self.on_cell_executed(cell=cell, cell_index=index, execute_reply=reply)


def test_a_cell_that_the_kernel_has_dropped_is_run_again():
    client = Dropping("aborted", "aborted", "ok", "never asked for")
    assert executed(client, nbformat.v4.new_code_cell("1"), 0) == ""
    assert client.statuses == ["never asked for"]
