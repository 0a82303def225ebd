"""The process of one step: ``python -m`` this module, then ``HOME RESULT ROUNDS LIMIT_S gpu|cpu``."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run the function at HOME, "module:name", with a task; what it raises is a failed part of the step."""
    from course_lib.authoring.bench.gpu.task import BenchTask
    from course_lib.cluster.api.arguments import CrowdedWarning
    from course_lib.devices import machine

    home, result, rounds, limit_s, device = arguments
    warnings.simplefilter("ignore", CrowdedWarning)  # the record says how many cores there are
    task = BenchTask(
        Path(result),
        on_gpu=device == "gpu",
        num_gpus=len(machine().devices),
        rounds=int(rounds),
        end_s=time.monotonic() + float(limit_s),
    )
    module, _, function = home.partition(":")
    before = len(task.parts)
    try:
        getattr(importlib.import_module(module, __package__), function)(task)
    except Exception:
        import traceback

        task.tell(f"{home}, after {len(task.parts) - before} parts", "failed", traceback.format_exc())
    task.ended = True
    task.keep()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
