"""Ranks, and kernels of the notebooks' tests, are forks of a process that has imported all lessons."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COUNTED = """
import os, torch
before = len(os.listdir("/proc/self/task"))
import course_lib.learn.checks.preload
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists a process's threads")
def test_importing_every_lesson_starts_no_thread():
    """A fork has none of OpenMP's threads, and waits for them for ever: no import may compute with several."""
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", COUNTED], env=env, capture_output=True, text=True, timeout=200)
    assert done.stdout.strip() == "0", done
