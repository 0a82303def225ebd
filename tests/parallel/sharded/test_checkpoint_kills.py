"""Ranks killed while they save, sharded or on a mesh: what is found is a whole checkpoint, and no older one.

``COURSE_KILLS=200`` tries more moments.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

SUPPORT = Path(__file__).resolve().parents[2] / "support"
COUNT = int(os.environ.get("COURSE_KILLS", "6"))
pytestmark = [pytest.mark.long, pytest.mark.limit_s(240.0 + 30 * COUNT)]


@pytest.mark.parametrize("kind", ["sharded", "mesh"])
def test_what_is_found_after_a_kill_is_whole_and_of_no_earlier_step(tmp_path, kind):
    seed = time.time_ns() % 1000 if COUNT > 6 else 7
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "kill_trials.py"), kind, str(COUNT), str(seed)],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(rf"{COUNT} trials, (\d+) left a save unfinished, step (\d+) in the end", done.stdout)
    assert told, done.stdout
    assert int(told[1]) > 0, "no kill came within a save"
    assert int(told[2]) > 0, "no save was ever finished"
