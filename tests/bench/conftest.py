"""Fixtures of the tests of ``course bench``."""

from __future__ import annotations

import pytest
from gpu_tasks import LIMIT_S

from course_lib.authoring.bench.gpu.task import BenchTask


@pytest.fixture
def task(tmp_path):
    """One that has begun, on a machine without a GPU, and whose time does not pass by itself."""
    return BenchTask(tmp_path / "result.json", on_gpu=False, num_gpus=0, rounds=1, end_s=LIMIT_S, clock=lambda: 0.0)
