"""Every lesson's own bodies on ranks whose device is not the CPU (``fake_device_lesson``), as where there are GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_device import HAS_FAR
from fake_device_lesson import NEAR

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "notebooks" / "src").glob("[0-9]*.py"))
pytestmark = [
    pytest.mark.limit_s(600),
    pytest.mark.skipif(not HAS_FAR, reason="this torch has no Python back end for foreign devices"),
]


@pytest.mark.long
@pytest.mark.parametrize("source", [pytest.param(path, id=path.stem) for path in SOURCES])
def test_a_lesson_runs_where_the_ranks_have_a_device(source, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "fake_device_lesson.py"), str(source)],
        cwd=ROOT / "notebooks",
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")]),
            "COURSE_PROGRESS": "off",
            "COURSE_HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_what_is_left_on_the_cpu_is_still_there():
    probes = ROOT / "course_lib" / "meter" / "calibration" / "probes.py"
    text = "".join(path.read_text(encoding="utf-8") for path in [*SOURCES, probes])
    assert [name for name in NEAR if f"def {name}(" not in text] == []
