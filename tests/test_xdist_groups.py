"""Tests of one ``xdist_group`` stay in one process: they share ranks, and launches that cost seconds."""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("together")
def test_a_test_knows_its_group(request: pytest.FixtureRequest) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("one process runs all tests, so they are together")
    assert request.node.nodeid.endswith("@together"), "pytest-xdist and this pytest do not work together"
