"""Runs steps, each in a process of its own with its share of the time: one that hangs or crashes is told, and the
rest go on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from course_lib.authoring.bench.gpu.child import OWN_SESSION, kill_tree
from course_lib.authoring.bench.gpu.record import GpuRecord, outcome_of
from course_lib.authoring.bench.gpu.stand_ins import folders
from course_lib.authoring.bench.gpu.steps import BenchStep
from course_lib.base.paths import project_root, python_path

__all__ = ["environment", "run_steps"]

TIMED_OUT, CRASHED, INTERRUPTED = "timed out", "crashed", "interrupted"
_LAST_LINES = 60
_GRACE_S = 5.0


def run_steps(steps: Sequence[BenchStep], record: GpuRecord, *, on_gpu: bool, rounds: int, total_s: float) -> list[str]:
    """Run steps one after another and enter what they found; the outcome of each.

    A step's limit is its share of what is left, so time that one leaves goes to those behind it. An interrupt enters
    what the step had, and is raised again.
    """
    end_s = time.monotonic() + total_s
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="course-gpu-", ignore_cleanup_errors=True) as folder:
        env = environment(Path(folder), record.content["missing_packages"], on_gpu=on_gpu)
        for index, step in enumerate(steps):
            left_s = max(1.0, end_s - time.monotonic())
            limit_s = left_s * step.share / sum(later.share for later in steps[index:])
            print(f"\n== {step.name}: {step.about} (up to {limit_s:.0f} s)", flush=True)
            found = _run(step, Path(folder), env, on_gpu=on_gpu, rounds=rounds, limit_s=limit_s)
            record.add(step.name, found)
            outcomes.append(found["outcome"])
            print(f"== {step.name}: {found['outcome']} after {found['time_s']:.0f} s", flush=True)
            if found["outcome"] == INTERRUPTED:
                raise KeyboardInterrupt
    return outcomes


def environment(folder: Path, lacking: Sequence[str], *, on_gpu: bool) -> dict[str, str]:
    """The variables of a step: the course and the stand-ins on the path, a home of its own, no GPU for a trial."""
    env = {
        **os.environ,
        "PYTHONPATH": python_path(*folders(tuple(lacking))),
        "COURSE_HOME": str(folder / "home"),
        "COURSE_PROGRESS": "off",
        "COURSE_SEATS": "off",
        "MPLBACKEND": "agg",
        "PYTHONUNBUFFERED": "1",
    }
    return env if on_gpu else {**env, "CUDA_VISIBLE_DEVICES": ""}


def _run(
    step: BenchStep, folder: Path, env: dict[str, str], *, on_gpu: bool, rounds: int, limit_s: float
) -> dict[str, Any]:
    result = folder / f"{step.name}.json"
    command = [
        sys.executable,
        "-P",
        "-m",
        "course_lib.authoring.bench.gpu.step_process",
        step.function,
        str(result),
    ]
    command += [str(rounds), f"{limit_s:.1f}", "gpu" if on_gpu else "cpu"]
    began_s = time.monotonic()
    child = subprocess.Popen(
        command,
        cwd=project_root(),
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **OWN_SESSION,
    )
    assert child.stdout is not None
    last: deque[str] = deque(maxlen=_LAST_LINES)
    reader = threading.Thread(target=_pass_on, args=(child.stdout, last), daemon=True)
    reader.start()
    why = ""
    try:
        child.wait(limit_s + _GRACE_S)  # the step itself ends its children at the limit, and says so
        outcome = ""
    except subprocess.TimeoutExpired:
        outcome, why = TIMED_OUT, f"it was ended after its {limit_s:.0f} s"
    except KeyboardInterrupt:
        outcome, why = INTERRUPTED, "interrupted, from the keyboard or by a signal to end"
    finally:
        kill_tree(child)
        reader.join(2.0)
    found = _found(result)
    if not outcome and not found.pop("ended"):
        outcome, why = CRASHED, f"its process ended with exit code {child.returncode} before the step was over"
    found.pop("ended", None)
    if outcome:
        why = "\n".join([*last, f"{step.name}: {why}"])
    return {
        "outcome": outcome or outcome_of(found),
        "why": why,
        "time_s": time.monotonic() - began_s,
        **found,
    }


def _pass_on(lines: IO[bytes], last: deque[str]) -> None:
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip()
        last.append(text)
        print(f"   {text}", flush=True)


def _found(result: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it ended before it could tell anything
        found = {"rows": [], "parts": [], "notes": {}, "ended": False}
    return found
